/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a run made from a seed through the writers, and what went in beside it, for
 * check_random_export.py to compare.
 *
 *   export_random SEED small|pieces|spilled PREFIX [json|again|csv|hdf5]
 *
 * PREFIX.json, PREFIX.again.json (rows in other batches), PREFIX.h5 and PREFIX.csv;
 * PREFIX.raw: the doubles, rank after rank, then those of one more process;
 * PREFIX.txt: names in hexadecimal, frames of each rank, the writers' counts.  With a
 * fourth argument that output alone.
 */
#include "config.h"

#include "sink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIE(...)                                                                         \
    (fprintf(stderr, "export_random: " __VA_ARGS__), fputc('\n', stderr), exit(2))

enum { MAX_RANKS = 8, N_POINTS = 5000, N_MISSING = 600, N_HEAP = 600 };

struct shape {
    size_t n_ranks;
    uint64_t frames[MAX_RANKS + 1]; /* the last: of a process that is no rank */
};

static uint64_t state;

static uint64_t rnd(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 3) % below;
}

/* Numbered, so that no two become one when bytes are replaced. */
static size_t segment(char *out, size_t cap)
{
    static const char *const kind[] = {
        "plain",       "gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac \"q\\u",
        "bad\xff\xfe", "cut\xe2\x82",        "\xf0\x9f\x98\x80"};
    static unsigned n;
    return (size_t)snprintf(out, cap, "%s%u", kind[rnd(6)], n++);
}

static void add_path(struct hl_catalog *c)
{
    char text[HL_PATH_MAX + 1];
    size_t n = 0;
    if (c->paths.n && rnd(3)) /* below one that is there */
        n = (size_t)snprintf(text, 900, "%s", c->paths.name[rnd(c->paths.n)]);
    for (size_t k = 1 + rnd(4); k-- && n < 900;) { /* parents left out */
        if (n)
            text[n++] = '/';
        n += segment(text + n, sizeof text - n);
    }
    hl_names_add(&c->paths, text, n, NULL);
}

static void fill(struct hl_catalog *c, size_t metrics, size_t paths)
{
    char text[64];
    for (size_t i = 0; i < metrics; i++)
        hl_names_add(&c->metrics, text, segment(text, sizeof text), NULL);
    for (size_t i = 0; i < paths; i++)
        add_path(c);
}

static double any_double(void)
{
    uint64_t bits = rnd(UINT64_MAX) ^ rnd(UINT64_MAX) << 32;
    double v;
    switch (rnd(12)) {
    case 0: bits = 0x7ff0000000000000u | rnd(4096) << 40 | rnd(2); break; /* NaN, inf */
    case 1: bits = rnd(2) << 63; break;                                   /* zeros */
    case 2: bits = rnd(1u << 30) | rnd(2) << 63; break;                   /* denormals */
    case 3: return (double)(int64_t)(rnd(1u << 30)) / 1e9;
    case 4: return (double)rnd(1000);
    case 5: bits = HL_LACKING_BITS; break;
    case 6: bits = 0xfff0000000000000u | rnd(2); break;
    default: break;
    }
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void check(int bad, const struct hl_err *e)
{
    if (bad)
        DIE("%s", e->text);
}

/* ---- into a sink ---- */

static void put_rows(struct hl_sink *s, const double *cells, size_t stride, uint64_t n,
                     struct hl_err *e)
{
    for (uint64_t at = 0; at < n;) {
        size_t k = 1 + rnd(n - at < 3000 ? n - at : 3000);
        check(s->ops->rows(s, cells + at * stride, k, e), e);
        at += k;
    }
    check(s->ops->rank_end(s, e), e);
}

static void put_frames(struct hl_sink *s, const struct shape *f, const double *cells,
                       size_t stride, struct hl_err *e)
{
    for (size_t r = 0; r < f->n_ranks; r++) {
        check(s->ops->rank_begin(s, r, f->frames[r], e), e);
        put_rows(s, cells, stride, f->frames[r], e);
        cells += f->frames[r] * stride;
    }
    check(s->ops->other_begin(s, 77, "ho\xffst/x", f->frames[f->n_ranks], e), e);
    put_rows(s, cells, stride, f->frames[f->n_ranks], e);
}

static void put_timeline(struct hl_sink *s, const char *host, size_t n, struct hl_err *e)
{
    check(s->ops->timeline_begin(s, 42, host, n, e), e);
    for (size_t i = 0; i < n; i++) {
        struct hl_point p = {.time_ns = (int64_t)i * 250000000,
                             .heap_bytes = i % 2 ? -1 : (int64_t)i,
                             .heap_peak_bytes = (int64_t)(2 * i),
                             .rss_bytes = (int64_t)i << 33,
                             .allocs = i * 3,
                             .frees = i};
        check(s->ops->points(s, &p, 1, e), e);
    }
    check(s->ops->timeline_end(s, e), e);
}

static void put_heap(struct hl_sink *s, struct hl_err *e)
{
    for (int i = 0; i < N_HEAP && s->ops->heap; i++) {
        struct hl_heap_row row = {
            .record = {.rank = i, .pid = 1000 + i, .peak_bytes = i}};
        snprintf(row.record.host, sizeof row.record.host, i % 100 ? "node%d" : "n\xff%d",
                 i);
        check(s->ops->heap(s, &row, e), e);
    }
    for (int i = 0; i < N_MISSING && s->ops->missing; i++) {
        char text[32];
        snprintf(text, sizeof text, i % 300 ? "rank %d" : "rank\xff %d", i);
        check(s->ops->missing(s, text, e), e);
    }
}

static const char *only; /* this output */

typedef struct hl_sink *maker(const char *name, struct hl_err *e);

static void write_all(maker *make, const char *name, const struct hl_run *run,
                      const struct shape *f, const double *cells, const char *what,
                      FILE *txt)
{
    struct hl_err e = {0};
    if (only && strcmp(only, what))
        return;
    struct hl_sink *s = make(name, &e);
    check(!s, &e);
    check(s->ops->begin(s, run, &e), &e);
    if (s->ops->rows)
        put_frames(s, f, cells, hl_catalog_stride(run->catalog), &e);
    put_heap(s, &e);
    if (s->ops->timeline_begin) {
        put_timeline(s, "there", N_POINTS, &e);
        put_timeline(s, "there", 0, &e);
    }
    check(s->ops->finish(s, &e), &e);
    fprintf(txt, "%s %llu %llu\n", what, (unsigned long long)s->n_nulls,
            (unsigned long long)s->n_replaced);
    check(s->ops->commit(s, &e), &e);
}

/* ---- what went in ---- */

static void tell_names(FILE *f, const char *what, const struct hl_names *l)
{
    fputs(what, f);
    for (size_t i = 0; i < l->n; i++) {
        fputc(' ', f);
        for (const char *s = l->name[i]; *s; s++)
            fprintf(f, "%02x", (unsigned char)*s);
    }
    fputc('\n', f);
}

static double *make_cells(const struct shape *f, size_t stride, const char *raw)
{
    uint64_t n = 0;
    for (size_t r = 0; r <= f->n_ranks; r++)
        n += f->frames[r] * stride;
    double *v = malloc((n + 1) * sizeof *v);
    for (uint64_t i = 0; v && i < n; i++)
        v[i] = any_double();
    FILE *out = fopen(raw, "w");
    if (!v || !out || fwrite(v, sizeof *v, n, out) != n || fclose(out))
        DIE("cannot write %s", raw);
    return v;
}

static void make_shape(const char *kind, struct shape *f, struct hl_catalog *c)
{
    memset(f, 0, sizeof *f);
    f->n_ranks = 1 + rnd(MAX_RANKS);
    if (!strcmp(kind, "small")) {
        fill(c, rnd(6), rnd(30));
        for (size_t r = 0; r <= f->n_ranks; r++)
            f->frames[r] = rnd(4) ? rnd(40) : 0;
        return;
    }
    int spilled = !strcmp(kind, "spilled");
    fill(c, 3, spilled ? 1100 : 8);
    f->n_ranks = 2;
    f->frames[0] = spilled ? 500 + rnd(300) : 60000 + rnd(20000);
    f->frames[1] = 3;
}

int main(int argc, char **argv)
{
    struct hl_catalog c = {0};
    struct shape f;
    char name[4096];
    if (argc < 4)
        DIE("usage: export_random SEED small|pieces|spilled PREFIX");
    only = argc > 4 ? argv[4] : NULL;
    state = 88172645463325252u ^ strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15u;
    make_shape(argv[2], &f, &c);
#define NAME(suffix) (snprintf(name, sizeof name, "%s%s", argv[3], suffix), name)
    double *cells =
        make_cells(&f, hl_catalog_stride(&c), only ? "/dev/null" : NAME(".raw"));
    FILE *txt = fopen(only ? "/dev/null" : NAME(".txt"), "w");
    if (!txt)
        DIE("cannot write %s", name);
    tell_names(txt, "metrics", &c.metrics);
    tell_names(txt, "paths", &c.paths);
    fputs("frames", txt);
    for (size_t r = 0; r <= f.n_ranks; r++)
        fprintf(txt, " %llu", (unsigned long long)f.frames[r]);
    fputc('\n', txt);
    struct hl_meta meta[] = {{"k\xff", "\"v\xff\"", "v\xff"}};
    struct hl_run run = {.app_version = "app\xff",
                         .run_id = rnd(2) ? "id \xff/1" : NULL,
                         .meta = meta,
                         .n_meta = 1,
                         .catalog = &c,
                         .n_ranks = f.n_ranks,
                         .generator = "export_random"};
    for (size_t r = 0; r < f.n_ranks; r++)
        run.total_frames += f.frames[r];
    fprintf(txt, "schema %d\n", run.run_id ? 3 : 2);
    write_all(hl_json_sink, NAME(".json"), &run, &f, cells, "json", txt);
    write_all(hl_json_sink, NAME(".again.json"), &run, &f, cells, "again", txt);
    write_all(hl_csv_sink, NAME(".csv"), &run, &f, cells, "csv", txt);
#ifdef HAVE_HDF5
    write_all(hl_h5_sink, NAME(".h5"), &run, &f, cells, "hdf5", txt);
#endif
    fclose(txt);
    free(cells);
    hl_catalog_fini(&c);
    return 0;
}
