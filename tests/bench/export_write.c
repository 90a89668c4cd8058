/* SPDX-License-Identifier: Apache-2.0
 *
 * The writers on made-up runs, and beside them the bare loops that they are measured
 * by.  Run by export.sh.
 *
 *   export_write json|hdf5 OUT RANKS PATHS FRAMES    through the sink
 *   export_write bare-hdf5 OUT RANKS PATHS FRAMES    the same datasets, written by a
 *       plain loop over HDF5 with the best settings known: files of version 1.8,
 *       compact below 60 KiB, contiguous above, evict on close
 *   export_write bare-json OUT RANKS PATHS FRAMES    the same doubles by
 *       snprintf("%.17g") into a buffer of 1 MiB that is written
 *
 * One path in ten is the parent of the nine that follow.  Times are of any length, not
 * whole nanoseconds.  Prints seconds, the sink's sync included, and peak RSS in KiB.
 */
#include "sink.h"

#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { N_METRICS = 3, BATCH_BYTES = 1 << 20 };

struct shape {
    uint64_t ranks, frames;
    size_t paths;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(int bad, const char *what)
{
    if (bad) {
        fprintf(stderr, "export_write: %s\n", what);
        exit(1);
    }
}

static double some(void)
{
    static uint64_t r = 88172645463325252u;
    r ^= r << 13;
    r ^= r >> 7;
    r ^= r << 17;
    return (double)(r >> 11) / 9e15;
}

static void path_name(char out[48], size_t p)
{
    size_t top = p - p % 10;
    snprintf(out, 48, p % 10 ? "region%05zu/child%05zu" : "region%05zu", top, p);
}

/* ---- the sinks ---- */

static void fill_catalog(struct hl_catalog *c, size_t paths)
{
    static const char *const metric[N_METRICS] = {"step", "mpi_rank", "wall_step"};
    char name[48];
    for (size_t i = 0; i < N_METRICS; i++)
        hl_names_add(&c->metrics, metric[i], strlen(metric[i]), NULL);
    for (size_t p = 0; p < paths; p++) {
        path_name(name, p);
        hl_names_add(&c->paths, name, strlen(name), NULL);
    }
}

static void put_rank(struct hl_sink *s, const struct shape *f, uint64_t rank,
                     double *cells, size_t batch, struct hl_err *e)
{
    check(s->ops->rank_begin(s, rank, f->frames, e), e->text);
    for (uint64_t at = 0; at < f->frames; at += batch) {
        size_t n = f->frames - at < batch ? f->frames - at : batch;
        check(s->ops->rows(s, cells, n, e), e->text);
    }
    check(s->ops->rank_end(s, e), e->text);
}

static double by_sink(struct hl_sink *s, const struct shape *f, struct hl_err *e)
{
    struct hl_catalog c = {0};
    fill_catalog(&c, f->paths);
    struct hl_run run = {.app_version = "bench",
                         .catalog = &c,
                         .n_ranks = f->ranks,
                         .total_frames = f->ranks * f->frames,
                         .generator = "bench"};
    size_t stride = hl_catalog_stride(&c), batch = BATCH_BYTES / 8 / stride + 1;
    double *cells = malloc(batch * stride * sizeof *cells);
    for (size_t i = 0; i < batch * stride; i++)
        cells[i] = some();
    check(!s, e->text);
    double start = now();
    check(s->ops->begin(s, &run, e), e->text);
    for (uint64_t r = 0; r < f->ranks; r++)
        put_rank(s, f, r, cells, batch, e);
    check(s->ops->finish(s, e), e->text);
    check(s->ops->commit(s, e), e->text);
    double t = now() - start;
    free(cells);
    hl_catalog_fini(&c);
    return t;
}

/* ---- the bare loops ---- */

struct plain {
    hid_t dcpl, space;
    double *v;
    hsize_t n;
};

static void plain_dataset(const struct plain *p, hid_t at, const char *name)
{
    hid_t d = H5Dcreate2(at, name, H5T_NATIVE_DOUBLE, p->space, H5P_DEFAULT, p->dcpl,
                         H5P_DEFAULT);
    check(d < 0 ||
              H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, p->v) < 0,
          "bare HDF5");
    H5Dclose(d);
}

static void plain_rank(const struct plain *p, hid_t rank, size_t paths)
{
    char name[48];
    hid_t top = -1;
    for (size_t i = 0; i < paths; i++) {
        snprintf(name, sizeof name, i % 10 ? "child%05zu" : "region%05zu", i);
        if (i % 10 == 0 && top >= 0)
            H5Gclose(top);
        hid_t g =
            H5Gcreate2(i % 10 ? top : rank, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        plain_dataset(p, g, "inclusive");
        plain_dataset(p, g, "exclusive");
        if (i % 10)
            H5Gclose(g);
        else
            top = g;
    }
    if (top >= 0)
        H5Gclose(top);
}

static double bare_hdf5(const char *out, const struct shape *f)
{
    double start = now();
    struct plain p = {.n = f->frames, .v = malloc(f->frames * sizeof *p.v)};
    for (hsize_t i = 0; i < p.n; i++)
        p.v[i] = some();
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(fapl, H5F_LIBVER_V18, H5F_LIBVER_V18);
    H5Pset_evict_on_close(fapl, 1);
    hid_t file = H5Fcreate(out, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    hid_t ranks = H5Gcreate2(file, "ranks", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    p.dcpl = H5Pcreate(H5P_DATASET_CREATE);
    if (p.n * 8 <= 60 << 10)
        H5Pset_layout(p.dcpl, H5D_COMPACT);
    p.space = H5Screate_simple(1, &p.n, NULL);
    for (uint64_t r = 0; r < f->ranks; r++) {
        char name[24];
        snprintf(name, sizeof name, "%llu", (unsigned long long)r);
        hid_t g = H5Gcreate2(ranks, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        plain_rank(&p, g, f->paths);
        H5Gclose(g);
    }
    H5Sclose(p.space);
    H5Pclose(p.dcpl);
    H5Gclose(ranks);
    check(H5Fclose(file) < 0, "bare HDF5");
    H5Pclose(fapl);
    free(p.v);
    return now() - start;
}

static void put_out(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        check(k < 0, "bare JSON");
        p += k;
        n -= (size_t)k;
    }
}

static double bare_json(const char *out, const struct shape *f)
{
    size_t cap = 1 << 20, n = 0, many = BATCH_BYTES / 8;
    char *b = malloc(cap + 64);
    double *v = malloc(many * sizeof *v);
    for (size_t i = 0; i < many; i++)
        v[i] = some();
    double start = now();
    int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    uint64_t cells = f->ranks * f->frames * (N_METRICS + 2 * f->paths);
    for (uint64_t i = 0; i < cells; i++) {
        n += (size_t)snprintf(b + n, 64, "%.17g,", v[i % many]);
        if (n >= cap) {
            put_out(fd, b, n);
            n = 0;
        }
    }
    put_out(fd, b, n);
    check(close(fd), "bare JSON");
    double t = now() - start;
    free(v);
    free(b);
    return t;
}

int main(int argc, char **argv)
{
    struct hl_err e = {0};
    struct rusage u;
    check(argc < 6, "usage: json|hdf5|bare-json|bare-hdf5 OUT RANKS PATHS FRAMES");
    const char *what = argv[1], *out = argv[2];
    struct shape f = {.ranks = strtoull(argv[3], NULL, 10),
                      .paths = strtoul(argv[4], NULL, 10),
                      .frames = strtoull(argv[5], NULL, 10)};
    unlink(out); /* so that neither frees an old file's pages while it is timed */
    double t = !strcmp(what, "json")        ? by_sink(hl_json_sink(out, &e), &f, &e)
               : !strcmp(what, "hdf5")      ? by_sink(hl_h5_sink(out, &e), &f, &e)
               : !strcmp(what, "bare-hdf5") ? bare_hdf5(out, &f)
                                            : bare_json(out, &f);
    getrusage(RUSAGE_SELF, &u);
    printf("%.4f %ld\n", t, u.ru_maxrss);
    return 0;
}
