/* SPDX-License-Identifier: Apache-2.0
 *
 * Phase separation in two dimensions: the Cahn-Hilliard equation
 *
 *     dc/dt = div( M grad mu ),   mu = c^3 - c - eps^2 lap c
 *
 * by central differences and explicit Euler steps on a periodic grid, cut into
 * bands of rows, one a rank, with halo exchange.  Bands are unequal on purpose
 * (--skew), and rank 0 collects the field for the picture, so that the ranks
 * differ in time and in memory: what heapline is there to show.
 *
 *     heapline-run -o ch --report mpirun -n 4 ./cahn-hilliard
 */
#include <heapline.h>

#include <getopt.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct grid {
    int nx, ny;      /* whole grid */
    int first, rows; /* of this rank */
    int rank, size, up, down;
    double *c, *mu; /* rows + 2 halo rows, nx columns */
};

struct setup {
    int nx, ny, steps, every;
    double dt, eps, skew;
    unsigned seed;
    const char *picture;
};

struct regions {
    heapline_region step, halo, potential, update, output;
};

enum { METRIC_STEP, METRIC_RANK, METRIC_WALL, METRIC_ENERGY, METRIC_MASS, N_METRICS };

static double *row(const struct grid *g, double *field, int y)
{
    return field + (size_t)(y + 1) * (size_t)g->nx;
}

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "cahn-hilliard: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* ---- decomposition ---- */

/* Where band r begins: the last bands are (1 + skew) times as high as the first. */
static int band_start(const struct setup *s, int r, int size)
{
    double x = (double)r / size, a = 1.0, b = s->skew;
    double share = (a * x + 0.5 * b * x * x) / (a + 0.5 * b);
    int y = (int)lround(share * (s->ny - size)) + r; /* at least one row each */
    return r == size ? s->ny : y;
}

static void make_grid(struct grid *g, const struct setup *s)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &g->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &g->size);
    if (s->ny < g->size)
        give_up("the grid has fewer rows than there are ranks");
    g->nx = s->nx;
    g->ny = s->ny;
    g->first = band_start(s, g->rank, g->size);
    g->rows = band_start(s, g->rank + 1, g->size) - g->first;
    g->up = (g->rank + 1) % g->size;
    g->down = (g->rank + g->size - 1) % g->size;
    size_t n = (size_t)(g->rows + 2) * (size_t)g->nx;
    g->c = malloc(n * sizeof *g->c);
    g->mu = malloc(n * sizeof *g->mu);
    if (!g->c || !g->mu)
        give_up("no memory for the grid");
}

/* The same noise whatever the number of ranks: a hash of the cell's number. */
static double noise(unsigned seed, uint64_t cell)
{
    uint64_t h = cell * 0x9e3779b97f4a7c15u + seed;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return (double)(h >> 11) * 0x1p-53 - 0.5;
}

static void start_values(struct grid *g, const struct setup *s)
{
    for (int y = 0; y < g->rows; y++)
        for (int x = 0; x < g->nx; x++)
            row(g, g->c, y)[x] =
                0.1 *
                noise(s->seed, (uint64_t)(g->first + y) * (uint64_t)g->nx + (uint64_t)x);
}

/* ---- a step ---- */

static void exchange_halo(const struct grid *g, double *field)
{
    MPI_Sendrecv(row(g, field, g->rows - 1), g->nx, MPI_DOUBLE, g->up, 1,
                 row(g, field, -1), g->nx, MPI_DOUBLE, g->down, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(row(g, field, 0), g->nx, MPI_DOUBLE, g->down, 2, row(g, field, g->rows),
                 g->nx, MPI_DOUBLE, g->up, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static double laplacian(const double *below, const double *at, const double *above, int x,
                        int nx)
{
    int left = x ? x - 1 : nx - 1, right = x + 1 < nx ? x + 1 : 0;
    return below[x] + above[x] + at[left] + at[right] - 4.0 * at[x];
}

static void potential(struct grid *g, double eps)
{
    for (int y = 0; y < g->rows; y++) {
        const double *below = row(g, g->c, y - 1), *at = row(g, g->c, y);
        const double *above = row(g, g->c, y + 1);
        double *mu = row(g, g->mu, y);
        for (int x = 0; x < g->nx; x++)
            mu[x] = at[x] * at[x] * at[x] - at[x] -
                    eps * eps * laplacian(below, at, above, x, g->nx);
    }
}

static void update(struct grid *g, double dt)
{
    for (int y = 0; y < g->rows; y++) {
        const double *below = row(g, g->mu, y - 1), *at = row(g, g->mu, y);
        const double *above = row(g, g->mu, y + 1);
        double *c = row(g, g->c, y);
        for (int x = 0; x < g->nx; x++)
            c[x] += dt * laplacian(below, at, above, x, g->nx);
    }
}

static void do_step(heapline_session *s, const struct regions *r, struct grid *g,
                    const struct setup *set)
{
    heapline_region_begin(s, r->halo);
    exchange_halo(g, g->c);
    heapline_region_end(s, r->halo);
    heapline_region_begin(s, r->potential);
    potential(g, set->eps);
    heapline_region_end(s, r->potential);
    heapline_region_begin(s, r->halo);
    exchange_halo(g, g->mu);
    heapline_region_end(s, r->halo);
    heapline_region_begin(s, r->update);
    update(g, set->dt);
    heapline_region_end(s, r->update);
}

/* ---- what is looked at ---- */

/* Free energy and mean concentration of the whole grid. */
static void measure(const struct grid *g, double eps, double out[2])
{
    double mine[2] = {0, 0};
    for (int y = 0; y < g->rows; y++) {
        const double *at = row(g, g->c, y), *above = row(g, g->c, y + 1);
        for (int x = 0; x < g->nx; x++) {
            double dx = at[x + 1 < g->nx ? x + 1 : 0] - at[x], dy = above[x] - at[x];
            double w = at[x] * at[x] - 1.0;
            mine[0] += 0.25 * w * w + 0.5 * eps * eps * (dx * dx + dy * dy);
            mine[1] += at[x];
        }
    }
    MPI_Allreduce(mine, out, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    out[1] /= (double)g->nx * g->ny;
}

/* Rank 0 collects the bands: only there the whole field is in memory. */
static double *collect(const struct grid *g, const struct setup *s)
{
    int *count = NULL, *start = NULL;
    double *whole = NULL;
    if (g->rank == 0) {
        count = malloc((size_t)g->size * sizeof *count);
        start = malloc((size_t)g->size * sizeof *start);
        whole = malloc((size_t)g->nx * (size_t)g->ny * sizeof *whole);
        if (!count || !start || !whole)
            give_up("no memory for the whole field");
        for (int r = 0; r < g->size; r++) {
            start[r] = band_start(s, r, g->size) * g->nx;
            count[r] = band_start(s, r + 1, g->size) * g->nx - start[r];
        }
    }
    MPI_Gatherv(row(g, g->c, 0), g->rows * g->nx, MPI_DOUBLE, whole, count, start,
                MPI_DOUBLE, 0, MPI_COMM_WORLD);
    free(count);
    free(start);
    return whole;
}

static void write_picture(const char *name, const double *whole, int nx, int ny)
{
    FILE *f = fopen(name, "wb");
    if (!f)
        give_up("cannot write the picture");
    fprintf(f, "P5\n%d %d\n255\n", nx, ny);
    for (size_t i = 0; i < (size_t)nx * (size_t)ny; i++) {
        double v = 127.5 * (whole[i] + 1.0);
        fputc(v < 0 ? 0 : v > 255 ? 255 : (int)v, f);
    }
    if (fclose(f))
        give_up("cannot write the picture");
}

static void show(const struct grid *g, const struct setup *s, int step,
                 const double *what)
{
    double *whole = collect(g, s);
    if (g->rank == 0) {
        printf("step %6d   free energy %12.4f   mean concentration %+.6f\n", step,
               what[0], what[1]);
        fflush(stdout);
        if (s->picture)
            write_picture(s->picture, whole, g->nx, g->ny);
    }
    free(whole);
}

/* ---- the run ---- */

static void register_regions(heapline_session *s, struct regions *r)
{
    heapline_region_register(s, "step", &r->step);
    heapline_region_register(s, "step/halo_exchange", &r->halo);
    heapline_region_register(s, "step/chemical_potential", &r->potential);
    heapline_region_register(s, "step/update", &r->update);
    heapline_region_register(s, "output", &r->output);
}

static void run(heapline_session *s, const struct regions *r, struct grid *g,
                const struct setup *set)
{
    double what[2] = {0, 0};
    for (int step = 1; step <= set->steps; step++) {
        double start = MPI_Wtime();
        heapline_frame_begin(s);
        heapline_region_begin(s, r->step);
        do_step(s, r, g, set);
        heapline_region_end(s, r->step);
        if (step == 1 || step % set->every == 0 || step == set->steps) {
            heapline_region_begin(s, r->output);
            exchange_halo(g, g->c);
            measure(g, set->eps, what);
            show(g, set, step, what);
            heapline_region_end(s, r->output);
        }
        heapline_set_metric(s, METRIC_STEP, step);
        heapline_set_metric(s, METRIC_RANK, g->rank);
        heapline_set_metric(s, METRIC_ENERGY, what[0]);
        heapline_set_metric(s, METRIC_MASS, what[1]);
        heapline_set_metric(s, METRIC_WALL, MPI_Wtime() - start);
        heapline_frame_end(s);
    }
}

static const char help[] =
    "Usage: cahn-hilliard [OPTION...]\n"
    "  --nx N --ny N      grid (768 x 768)\n"
    "  --steps N          time steps (200)\n"
    "  --every N          output every N steps (50)\n"
    "  --dt X --eps X     time step (0.02) and interface width (1)\n"
    "  --skew X           how much higher the last band of rows is (1)\n"
    "  --seed N           of the noise at the start\n"
    "  --picture FILE     write the field as a PGM picture at each output\n";

static long whole_number(const char *s, long lo)
{
    char *end;
    long v = strtol(s, &end, 10);
    if (*end || end == s || v < lo || v > 1000000000)
        give_up("a number on the command line is out of range; see --help");
    return v;
}

static double real_number(const char *s, double lo)
{
    char *end;
    double v = strtod(s, &end);
    if (*end || end == s || !(v >= lo) || v > 1e6)
        give_up("a number on the command line is out of range; see --help");
    return v;
}

static int parse(struct setup *s, int argc, char **argv)
{
    static const struct option longs[] = {
        {"nx", 1, NULL, 'x'},    {"ny", 1, NULL, 'y'},   {"steps", 1, NULL, 'n'},
        {"every", 1, NULL, 'e'}, {"dt", 1, NULL, 't'},   {"eps", 1, NULL, 'w'},
        {"skew", 1, NULL, 's'},  {"seed", 1, NULL, 'r'}, {"picture", 1, NULL, 'p'},
        {"help", 0, NULL, 'h'},  {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1)
        switch (c) {
        case 'x': s->nx = (int)whole_number(optarg, 2); break;
        case 'y': s->ny = (int)whole_number(optarg, 2); break;
        case 'n': s->steps = (int)whole_number(optarg, 0); break;
        case 'e': s->every = (int)whole_number(optarg, 1); break;
        case 't': s->dt = real_number(optarg, 0); break;
        case 'w': s->eps = real_number(optarg, 0); break;
        case 's': s->skew = real_number(optarg, 0); break;
        case 'r': s->seed = (unsigned)whole_number(optarg, 0); break;
        case 'p': s->picture = optarg; break;
        case 'h': return 1;
        default: return -1;
        }
    return optind < argc ? -1 : 0;
}

int main(int argc, char **argv)
{
    static const char *const metrics[N_METRICS] = {"step", "mpi_rank", "wall_step",
                                                   "free_energy", "mean_concentration"};
    struct setup set = {.nx = 768,
                        .ny = 768,
                        .steps = 200,
                        .every = 50,
                        .dt = 0.02,
                        .eps = 1.0,
                        .skew = 1.0,
                        .seed = 1};
    struct grid g;
    struct regions r = {0};
    heapline_session *s = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &g.rank);
    int how = parse(&set, argc, argv);
    if (how) {
        if (g.rank == 0)
            fputs(help, how < 0 ? stderr : stdout);
        MPI_Finalize();
        return how < 0 ? 2 : 0;
    }
    make_grid(&g, &set);
    start_values(&g, &set);
    heapline_session_begin(&s, metrics, N_METRICS);
    heapline_set_app_version(s, "cahn-hilliard 1.0");
    register_regions(s, &r);
    run(s, &r, &g, &set);
    heapline_session_end(s);
    free(g.c);
    free(g.mu);
    MPI_Finalize();
    return 0;
}
