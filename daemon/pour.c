/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams to sinks on rank 0; see pour.h.
 */
#include "pour.h"

#include "heap_rows.h"
#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { EMPTY_ROWS = 4096 /* rows without cells in a batch */ };

struct state {
    struct hl_pour *p;
    const struct hl_catalog *catalog;
    size_t stride, batch_cap;
    struct hl_batch *batch; /* being filled */

    struct hl_stream stream;
    const struct hl_entry *entry; /* whose it is */
    size_t *map;                  /* of stream.catalog's cells; NULL: they are the same */
    uint64_t mapped;
    int has_map;

    size_t point_cell[HL_N_POINT_METRICS];
    uint64_t rank, step; /* of samples that are frames */
};

static int put(struct state *s, struct hl_item it, struct hl_err *e)
{
    return hl_outlets_put(s->p->out, &it, e);
}

static int flush(struct state *s, enum hl_item_kind kind, struct hl_err *e)
{
    struct hl_item it = {.kind = kind, .batch = s->batch};
    s->batch = NULL;
    return it.batch && it.batch->n ? put(s, it, e) : 0;
}

/* ---- rows ---- */

/* The place of the next row. */
static double *next_row(struct state *s, struct hl_err *e)
{
    if (s->batch && s->batch->n == s->batch_cap && flush(s, HL_ITEM_ROWS, e))
        return NULL;
    if (!s->batch && !(s->batch = hl_outlets_batch(s->p->out, e)))
        return NULL;
    return (double *)s->batch->p + s->batch->n++ * s->stride;
}

/* A metric that this process lacks is not a number, a region it lacks zero. */
static void clear_row(const struct state *s, double *row)
{
    size_t n = s->catalog->metrics.n;
    for (size_t i = 0; i < n; i++)
        row[i] = hl_lacking();
    memset(row + n, 0, (s->stride - n) * sizeof *row);
}

static int is_identity(const size_t *map, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (map[i] != i)
            return 0;
    return 1;
}

/* A new catalog is mapped when its first row comes. */
static int remap(struct state *s, const struct hl_stream *st, struct hl_err *e)
{
    if (s->has_map && s->mapped == st->n_catalogs)
        return 0;
    free(s->map);
    s->map = hl_catalog_map(&st->catalog, s->catalog);
    if (!s->map)
        return hl_fail(e, HL_ERR_FORMAT, "a stream has names that its index lacks");
    s->mapped = st->n_catalogs;
    s->has_map = 1;
    if (hl_catalog_stride(&st->catalog) == s->stride && is_identity(s->map, s->stride)) {
        free(s->map);
        s->map = NULL;
    }
    return 0;
}

static int on_row(void *ctx, const struct hl_stream *st, const double *cells,
                  size_t n_metrics, size_t n_paths, struct hl_err *e)
{
    struct state *s = ctx;
    if (st->n_rows > s->entry->n_rows)
        return hl_fail(e, HL_ERR_FORMAT, "more frames than were announced");
    double *row = remap(s, st, e) ? NULL : next_row(s, e);
    if (!row)
        return -1;
    if (!s->map && n_metrics + 2 * n_paths == s->stride) {
        memcpy(row, cells, s->stride * sizeof *row);
        return 0;
    }
    clear_row(s, row);
    for (size_t i = 0; i < n_metrics; i++)
        row[s->map ? s->map[i] : i] = cells[i];
    size_t first = st->catalog.metrics.n;
    for (size_t i = 0; i < 2 * n_paths; i++)
        row[s->map ? s->map[first + i] : first + i] = cells[n_metrics + i];
    return 0;
}

/* One process's data are at fault, not the gather. */
static int damaged(struct state *s, const struct hl_entry *t, enum hl_ask_kind kind,
                   struct hl_err *e)
{
    s->p->damaged = t;
    s->p->damaged_kind = kind;
    return e->code == HL_ERR_FORMAT ? hl_fail_in(e, "damaged")
                                    : hl_fail(e, EIO, HL_CANNOT_BE_READ);
}

/* The rows must be those that were announced: sinks have made room for them. */
static int check_rows(struct state *s, const struct hl_entry *t, struct hl_err *e)
{
    if (s->stream.n_rows == t->n_rows)
        return 0;
    hl_fail(e, HL_ERR_FORMAT, "%llu frames came where %llu were announced",
            (unsigned long long)s->stream.n_rows, (unsigned long long)t->n_rows);
    return damaged(s, t, HL_WANT_STREAM, e);
}

static int feed(struct state *s, const struct hl_entry *t, const uint8_t *p, uint64_t n,
                struct hl_err *e)
{
    struct hl_err why = {0};
    s->entry = t;
    if (!hl_stream_feed(&s->stream, p, n, on_row, s, &why))
        return 0;
    *e = why;
    return why.code == HL_ERR_FORMAT && !hl_outlets_failed(s->p->out)
               ? damaged(s, t, HL_WANT_STREAM, e)
               : -1;
}

static int pour_stream(struct state *s, const struct hl_entry *t, struct hl_err *e)
{
    int bad = 0;
    for (uint64_t at = 0; at < t->bytes && !bad;) {
        const uint8_t *bytes;
        uint64_t n = 0;
        bad = hl_pull_next(&s->p->from, &bytes, &n, e);
        bad = bad || (n ? feed(s, t, bytes, n, e) : damaged(s, t, HL_WANT_STREAM, e));
        at += n;
    }
    bad = bad || flush(s, HL_ITEM_ROWS, e) || check_rows(s, t, e);
    hl_stream_fini(&s->stream);
    free(s->map);
    s->map = NULL;
    s->has_map = 0;
    return bad ? -1 : 0;
}

/* ---- samples ---- */

static double known(int64_t v)
{
    return v == -1 ? hl_lacking() : (double)v;
}

static int point_row(struct state *s, const struct hl_point *p, struct hl_err *e)
{
    const double v[HL_N_POINT_METRICS] = {
        (double)s->step++,         (double)s->rank,           (double)p->time_ns / 1e9,
        known(p->heap_bytes),      known(p->heap_peak_bytes), known(p->rss_bytes),
        known((int64_t)p->allocs), known((int64_t)p->frees)};
    double *row = next_row(s, e);
    if (!row)
        return -1;
    clear_row(s, row);
    for (size_t i = 0; i < HL_N_POINT_METRICS; i++)
        row[s->point_cell[i]] = v[i];
    return 0;
}

static int keep_point(struct state *s, const struct hl_point *p, struct hl_err *e)
{
    size_t cap = hl_outlets_batch_bytes(s->p->out) / sizeof *p;
    if (s->batch && s->batch->n == cap && flush(s, HL_ITEM_POINTS, e))
        return -1;
    if (!s->batch && !(s->batch = hl_outlets_batch(s->p->out, e)))
        return -1;
    ((struct hl_point *)s->batch->p)[s->batch->n++] = *p;
    return 0;
}

static int pour_points(struct state *s, const struct hl_entry *t, int as_frames,
                       struct hl_err *e)
{
    int (*take)(struct state *, const struct hl_point *, struct hl_err *) =
        as_frames ? point_row : keep_point;
    uint64_t want = hl_entry_points(t), got = 0;
    s->step = 0;
    for (uint64_t left = t->n_points * HL_POINT_BYTES; left;) {
        const uint8_t *bytes;
        uint64_t n;
        if (hl_pull_next(&s->p->from, &bytes, &n, e))
            return -1;
        if (!n)
            return damaged(s, t, HL_WANT_POINTS, e);
        for (uint64_t at = 0; at < n; at += HL_POINT_BYTES) {
            struct hl_point p;
            hl_point_get(bytes + at, &p);
            if (hl_point_is_lost(&p) || got == want)
                continue;
            got++;
            if (take(s, &p, e))
                return -1;
        }
        left -= n;
    }
    if (got < want) {
        s->p->damaged = t;
        s->p->n_points_lost = want - got;
        return hl_fail(e, HL_ERR_FORMAT, "process %d: its timeline is damaged",
                       (int)t->pid);
    }
    return flush(s, as_frames ? HL_ITEM_ROWS : HL_ITEM_POINTS, e);
}

static void find_point_cells(struct state *s)
{
    for (size_t i = 0; i < HL_N_POINT_METRICS; i++)
        s->point_cell[i] = hl_names_find(&s->catalog->metrics, hl_point_metrics[i],
                                         strlen(hl_point_metrics[i]));
}

/* ---- order ---- */

static int pour_frames(struct state *s, const struct hl_entry *t, struct hl_err *e)
{
    if (!t)
        return 0;
    return hl_plan_samples_are_frames(t) ? pour_points(s, t, 1, e) : pour_stream(s, t, e);
}

static int pour_rank(struct state *s, uint64_t rank, const struct hl_entry *t,
                     struct hl_err *e)
{
    s->rank = rank;
    struct hl_item it = {
        .kind = HL_ITEM_RANK, .rank = rank, .n = t ? hl_plan_frames(t) : 0};
    if (put(s, it, e))
        return -1;
    if (pour_frames(s, t, e))
        return hl_outlets_failed(s->p->out) || s->p->damaged
                   ? -1
                   : hl_fail_in(e, "rank %llu", (unsigned long long)rank);
    return put(s, (struct hl_item){.kind = HL_ITEM_RANK_END}, e);
}

static int pour_other(struct state *s, const struct hl_entry *t, struct hl_err *e)
{
    struct hl_item it = {.kind = HL_ITEM_OTHER,
                         .pid = t->pid,
                         .text = s->p->from.index->hosts.name[t->host],
                         .n = hl_plan_frames(t)};
    return put(s, it, e) || pour_frames(s, t, e) ||
                   put(s, (struct hl_item){.kind = HL_ITEM_RANK_END}, e)
               ? -1
               : 0;
}

static int pour_timeline(struct state *s, const struct hl_entry *t, struct hl_err *e)
{
    struct hl_item it = {.kind = HL_ITEM_TIMELINE,
                         .pid = t->pid,
                         .text = s->p->from.index->hosts.name[t->host],
                         .n = hl_entry_points(t)};
    return put(s, it, e) || pour_points(s, t, 0, e) ||
                   put(s, (struct hl_item){.kind = HL_ITEM_TIMELINE_END}, e)
               ? -1
               : 0;
}

/* A survey goes on behind the place. */
static int pass_over(struct state *s, uint64_t place, struct hl_err *e)
{
    struct hl_pour *p = s->p;
    struct hl_err ignored = {0};
    if (!p->damaged || !p->note || hl_outlets_failed(p->out) || p->note(p->ctx, p, e) ||
        hl_pull_drain(&p->from, &ignored))
        return -1;
    p->damaged = NULL;
    p->n_points_lost = 0;
    p->from.place = place + 1;
    p->from.offset = 0;
    if (s->batch)
        s->batch->n = 0;
    *e = (struct hl_err){0};
    return 0;
}

static int pour_places(struct state *s, uint64_t from, uint64_t to, struct hl_err *e)
{
    const struct hl_plan *plan = s->p->from.plan;
    for (uint64_t i = from; i < to; i++) {
        const struct hl_entry *t = hl_pull_entry(plan, s->p->from.index, i);
        int bad = i < plan->n_ranks                   ? pour_rank(s, i, t, e)
                  : i < plan->n_ranks + plan->n_other ? pour_other(s, t, e)
                                                      : pour_timeline(s, t, e);
        if (bad && pass_over(s, i, e))
            return -1;
    }
    return 0;
}

static int pour_tables(struct state *s, struct hl_err *e)
{
    struct hl_pull_from *from = &s->p->from;
    if (s->p->note)
        return 0;
    if (from->plan->n_heap &&
        hl_heap_rows(from, s->p->out, HL_ENTRY_ROW, HL_ITEM_HEAP, e))
        return -1;
    return from->plan->n_images
               ? hl_heap_rows(from, s->p->out, HL_ENTRY_IMAGE, HL_ITEM_IMAGES, e)
               : 0;
}

static int pour_missing(struct state *s, struct hl_err *e)
{
    const struct hl_plan *plan = s->p->from.plan;
    for (size_t i = 0; i < plan->n_missing; i++) {
        struct hl_item it = {.kind = HL_ITEM_MISSING, .text = plan->missing[i]};
        if (put(s, it, e))
            return -1;
    }
    return 0;
}

int hl_pour(struct hl_pour *p, struct hl_err *e)
{
    struct state s = {.p = p, .catalog = &p->from.plan->catalog};
    uint64_t frames = p->from.plan->n_ranks + p->from.plan->n_other;
    s.stride = hl_catalog_stride(s.catalog);
    s.batch_cap = s.stride ? hl_outlets_batch_bytes(p->out) / (8 * s.stride) : EMPTY_ROWS;
    find_point_cells(&s);
    p->from.end = frames; /* the tables' records come while no piece is under way */
    int bad = put(&s, (struct hl_item){.kind = HL_ITEM_BEGIN, .run = p->run}, e) ||
              pour_places(&s, 0, frames, e) || pour_tables(&s, e);
    p->from.end = hl_pull_places(p->from.plan);
    bad = bad || pour_places(&s, frames, p->from.end, e) || pour_missing(&s, e) ||
          put(&s, (struct hl_item){.kind = HL_ITEM_FINISH}, e) ||
          hl_outlets_wait(p->out, e);
    hl_stream_fini(&s.stream);
    free(s.map);
    return bad ? -1 : 0;
}
