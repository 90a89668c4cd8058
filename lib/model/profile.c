/* SPDX-License-Identifier: Apache-2.0
 *
 * Adding an export up; see profile.h.
 */
#include "profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hl_profile *self(struct hl_sink *s)
{
    return (struct hl_profile *)s;
}

static int no_memory(struct hl_err *e)
{
    return hl_fail(e, ENOMEM, "no memory left");
}

static int copy_names(struct hl_names *to, const struct hl_names *from)
{
    for (size_t i = 0; i < from->n; i++)
        if (hl_names_add(to, from->name[i], strlen(from->name[i]), NULL))
            return -1;
    return 0;
}

static int begin(struct hl_sink *s, const struct hl_run *run, struct hl_err *e)
{
    struct hl_profile *p = self(s);
    snprintf(p->version, sizeof p->version, "%s", run->app_version);
    snprintf(p->run_id, sizeof p->run_id, "%s", run->run_id ? run->run_id : "");
    if (copy_names(&p->catalog.metrics, &run->catalog->metrics) ||
        copy_names(&p->catalog.paths, &run->catalog->paths))
        return no_memory(e);
    p->denominator_cell =
        hl_names_find(&p->catalog.metrics, p->denominator, strlen(p->denominator));
    p->has_denominator = p->denominator_cell != SIZE_MAX;
    p->hits = calloc(p->catalog.paths.n + 1, sizeof *p->hits);
    return p->hits ? 0 : no_memory(e);
}

/* One more column in both tables: they are laid out anew when they are full. */
static int add_rank(struct hl_profile *p)
{
    size_t n = p->catalog.paths.n, cap = p->cap ? 2 * p->cap : 64;
    if (p->n_ranks < p->cap)
        return 0;
    double *inc = calloc(n * cap + 1, sizeof *inc),
           *exc = calloc(n * cap + 1, sizeof *exc);
    for (size_t i = 0; i < n && inc && exc && p->cap; i++) {
        memcpy(inc + i * cap, p->inclusive + i * p->cap, p->cap * sizeof *inc);
        memcpy(exc + i * cap, p->exclusive + i * p->cap, p->cap * sizeof *exc);
    }
    if (!inc || !exc) {
        free(inc);
        free(exc);
        return -1;
    }
    free(p->inclusive);
    free(p->exclusive);
    p->inclusive = inc;
    p->exclusive = exc;
    p->cap = cap;
    return 0;
}

static int rank_begin(struct hl_sink *s, uint64_t rank, uint64_t n_frames,
                      struct hl_err *e)
{
    struct hl_profile *p = self(s);
    p->skip = p->wanted && !p->wanted(p->wanted_ctx, rank);
    if (p->skip)
        return 0;
    if (add_rank(p))
        return no_memory(e);
    p->n_ranks++;
    p->n_frames += n_frames;
    return 0;
}

static int rows(struct hl_sink *s, const double *cells, size_t n, struct hl_err *e)
{
    struct hl_profile *p = self(s);
    size_t nm = p->catalog.metrics.n, np = p->catalog.paths.n;
    (void)e;
    for (; n && !p->skip; n--, cells += nm + 2 * np) {
        size_t rank = (size_t)p->n_ranks - 1;
        for (size_t i = 0; i < np; i++) {
            double inc = cells[nm + 2 * i], exc = cells[nm + 2 * i + 1];
            p->inclusive[i * p->cap + rank] += inc;
            p->exclusive[i * p->cap + rank] += exc;
            p->hits[i] += inc > 0 || exc > 0;
        }
        if (p->has_denominator)
            p->total += cells[p->denominator_cell];
    }
    return 0;
}

static const struct hl_sink_ops ops = {
    .begin = begin, .rank_begin = rank_begin, .rows = rows};

void hl_profile_init(struct hl_profile *p, const char *denominator)
{
    memset(p, 0, sizeof *p);
    p->base.ops = &ops;
    p->denominator = denominator;
}

void hl_profile_fini(struct hl_profile *p)
{
    hl_catalog_fini(&p->catalog);
    free(p->inclusive);
    free(p->exclusive);
    free(p->hits);
}

static double stat_of(const struct hl_profile *p, const double *table, size_t path,
                      enum hl_stat s, double *scratch)
{
    if (!p->n_ranks)
        return 0;
    memcpy(scratch, table + path * p->cap, (size_t)p->n_ranks * sizeof *scratch);
    return hl_stat_of(s, scratch, (size_t)p->n_ranks);
}

double hl_profile_inclusive(const struct hl_profile *p, size_t path, enum hl_stat s,
                            double *scratch)
{
    return stat_of(p, p->inclusive, path, s, scratch);
}

double hl_profile_exclusive(const struct hl_profile *p, size_t path, enum hl_stat s,
                            double *scratch)
{
    return stat_of(p, p->exclusive, path, s, scratch);
}
