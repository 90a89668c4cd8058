/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank whose every number follows from its rank, its frame and its column:
 *
 *   nodes_app FRAMES METRICS REGIONS [MILLISECONDS-BETWEEN]
 *
 * check_nodes.py knows the rule.  With WITH_MPI it is a program of that MPI, whatever
 * MPI the gather was built with; else it takes its rank from the launcher's variables.
 * It says "nodes_app: rank R of N" on standard output.
 */
#include <heapline.h>

#ifdef WITH_MPI
#include <mpi.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NAMES_MAX = 256 };

static int rank, size = 1;

#ifndef WITH_MPI
static void from_environment(void)
{
    static const char *const names[][2] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *r = getenv(names[i][0]), *n = getenv(names[i][1]);
        if (!r)
            continue;
        rank = atoi(r);
        size = n ? atoi(n) : 1;
        return;
    }
}
#endif

static void begin(int *argc, char ***argv)
{
#ifdef WITH_MPI
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
#else
    (void)argc;
    (void)argv;
    from_environment();
#endif
}

static void end(void)
{
#ifdef WITH_MPI
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size - 1) / 2)
        exit(90);
    MPI_Finalize();
#endif
    printf("nodes_app: rank %d of %d\n", rank, size);
}

static int one_frame(heapline_session *s, const heapline_region *region, int frame,
                     int n_metrics, int n_regions)
{
    double base = rank * 1000000.0 + frame;
    int r = heapline_frame_begin(s);
    for (int k = 0; !r && k < n_metrics; k++)
        r = heapline_set_metric(s, (size_t)k, base + k / 8.0);
    for (int k = 0; !r && k < n_regions; k++)
        r = heapline_region_add(s, region[k], base + k / 4.0, base / 2 + k / 16.0);
    return r ? r : heapline_frame_end(s);
}

static int record(int frames, int n_metrics, int n_regions, int pause_ms)
{
    static char text[NAMES_MAX][16];
    const char *name[NAMES_MAX];
    heapline_region region[NAMES_MAX];
    heapline_session *s;
    for (int k = 0; k < n_metrics; k++) {
        snprintf(text[k], sizeof text[k], "m%03d", k);
        name[k] = text[k];
    }
    int r = heapline_session_begin(&s, name, (size_t)n_metrics);
    for (int k = 0; !r && k < n_regions; k++) {
        snprintf(text[k], sizeof text[k], "r%03d", k);
        r = heapline_region_register(s, text[k], &region[k]);
    }
    for (int i = 0; !r && i < frames; i++) {
        r = one_frame(s, region, i, n_metrics, n_regions);
        if (pause_ms)
            usleep((useconds_t)pause_ms * 1000);
    }
    return r ? r : heapline_session_end(s);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int n[4] = {0};
    for (int i = 0; i < 4 && i + 1 < argc; i++)
        n[i] = atoi(argv[i + 1]);
    if (argc < 4 || n[1] > NAMES_MAX || n[2] > NAMES_MAX)
        return 98;
    int r = record(n[0], n[1], n[2], n[3]);
    if (r)
        fprintf(stderr, "nodes_app: %s\n", heapline_strerror(r));
    end();
    return r != 0;
}
