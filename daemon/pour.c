/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams to sinks on rank 0; see pour.h.
 */
#include "pour.h"

#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_BYTES = 256 << 10 };

/* The pieces of all planned streams, one after the other: a position that
 * moves ahead of what is being decoded. */
struct cursor {
    uint64_t member; /* in the flat list ranks, others */
    uint64_t offset;
};

struct state {
    struct hl_pour *p;
    const struct hl_member **list; /* ranks that have frames, then others */
    uint64_t n_list;
    struct cursor ahead;
    struct hl_piece piece[HL_COMM_SLOTS];
    uint64_t in_flight, begun; /* pieces fetched; slot = number % HL_COMM_SLOTS */
    uint8_t *own;              /* piece of this node */

    struct hl_stream stream;
    size_t *map;
    uint64_t mapped; /* the catalog that map is for */
    double *batch;
    size_t stride, n_batch, batch_cap;
};

static int to_sinks(struct state *s, const double *cells, size_t n, struct hl_err *e)
{
    for (size_t i = 0; i < s->p->n_sinks; i++) {
        struct hl_sink *k = s->p->sink[i];
        if (k->ops->rows && k->ops->rows(k, cells, n, e))
            return -1;
    }
    return 0;
}

static int flush(struct state *s, struct hl_err *e)
{
    size_t n = s->n_batch;
    s->n_batch = 0;
    return n ? to_sinks(s, s->batch, n, e) : 0;
}

/* A new catalog is mapped when its first row comes. */
static int remap(struct state *s, const struct hl_stream *st, struct hl_err *e)
{
    if (s->map && s->mapped == st->n_catalogs)
        return 0;
    free(s->map);
    s->map = hl_catalog_map(&st->catalog, &s->p->plan->catalog);
    s->mapped = st->n_catalogs;
    return s->map ? 0
                  : hl_fail(e, HL_ERR_FORMAT, "a stream has names that its index lacks");
}

static int on_row(void *ctx, const struct hl_stream *st, const double *cells,
                  size_t n_metrics, size_t n_paths, struct hl_err *e)
{
    struct state *s = ctx;
    if (remap(s, st, e))
        return -1;
    double *row = s->batch + s->n_batch * s->stride;
    /* A metric that this process lacks is not a number, a region it lacks zero. */
    for (size_t i = 0; i < s->p->run->catalog->metrics.n; i++)
        row[i] = hl_lacking();
    memset(row + s->p->run->catalog->metrics.n, 0,
           (s->stride - s->p->run->catalog->metrics.n) * sizeof *row);
    for (size_t i = 0; i < n_metrics; i++)
        row[s->map[i]] = cells[i];
    const size_t *map = s->map + st->catalog.metrics.n;
    for (size_t i = 0; i < 2 * n_paths; i++)
        row[map[i]] = cells[n_metrics + i];
    return ++s->n_batch == s->batch_cap ? flush(s, e) : 0;
}

/* ---- pieces ---- */

static int next_piece(struct state *s, struct hl_piece *out, const struct hl_member **m)
{
    while (s->ahead.member < s->n_list) {
        *m = s->list[s->ahead.member];
        uint64_t left = (*m)->bytes - s->ahead.offset;
        if (left) {
            *out = (struct hl_piece){(*m)->unit, s->ahead.offset,
                                     left < HL_COMM_PIECE ? left : HL_COMM_PIECE};
            s->ahead.offset += out->n;
            return 1;
        }
        s->ahead.member++;
        s->ahead.offset = 0;
    }
    return 0;
}

/* Keep the slots full.  Pieces of this node need no flight: they are read when
 * their turn comes. */
static int fetch_ahead(struct state *s, struct hl_err *e)
{
    while (s->begun - s->in_flight < HL_COMM_SLOTS) {
        const struct hl_member *m;
        int slot = (int)(s->begun % HL_COMM_SLOTS);
        if (!next_piece(s, &s->piece[slot], &m))
            return 0;
        s->begun++;
        if (m->node != s->p->comm->rank &&
            s->p->comm->ops->fetch(s->p->comm, m->node, &s->piece[slot], slot, e))
            return -1;
    }
    return 0;
}

/* The next piece in order, which is one of member m. */
static int take_piece(struct state *s, const struct hl_member *m, const uint8_t **bytes,
                      uint64_t *n, struct hl_err *e)
{
    if (fetch_ahead(s, e))
        return -1;
    int slot = (int)(s->in_flight++ % HL_COMM_SLOTS);
    *n = s->piece[slot].n;
    if (m->node != s->p->comm->rank)
        return s->p->comm->ops->fetched(s->p->comm, slot, bytes, e);
    *bytes = s->own;
    return hl_source_read(s->p->source, (size_t)m->unit, s->piece[slot].offset, *n,
                          s->own, e);
}

static int pour_member(struct state *s, const struct hl_member *m, struct hl_err *e)
{
    int bad = 0;
    for (uint64_t at = 0; at < m->bytes && !bad;) {
        const uint8_t *bytes;
        uint64_t n;
        bad = take_piece(s, m, &bytes, &n, e) ||
              hl_stream_feed(&s->stream, bytes, n, on_row, s, e);
        at += bad ? 0 : n;
    }
    bad = bad || flush(s, e);
    if (!bad && s->stream.n_rows != m->proc.n_rows)
        bad = hl_fail(e, HL_ERR_FORMAT,
                      "process %lld: %llu frames came where %llu were announced",
                      (long long)m->proc.hello.pid, (unsigned long long)s->stream.n_rows,
                      (unsigned long long)m->proc.n_rows);
    hl_stream_fini(&s->stream);
    free(s->map);
    s->map = NULL;
    return bad ? -1 : 0;
}

/* ---- order ---- */

#define EACH_SINK(s, member, ...)                                                        \
    for (size_t k_ = 0; k_ < (s)->p->n_sinks; k_++) {                                    \
        struct hl_sink *sink_ = (s)->p->sink[k_];                                        \
        if (sink_->ops->member && sink_->ops->member(sink_, __VA_ARGS__))                \
            return -1;                                                                   \
    }

static int pour_rank(struct state *s, uint64_t rank, struct hl_err *e)
{
    const struct hl_member *m = s->p->plan->rank[rank];
    EACH_SINK(s, rank_begin, rank, m ? m->proc.n_rows : 0, e)
    if (m && pour_member(s, m, e))
        return hl_fail_in(e, "rank %llu", (unsigned long long)rank);
    EACH_SINK(s, rank_end, e)
    return 0;
}

static int pour_other(struct state *s, const struct hl_member *m, struct hl_err *e)
{
    char host[HL_HOST_MAX + 1];
    size_t n = m->proc.hello.host.n;
    if (n)
        memcpy(host, m->proc.hello.host.p, n);
    host[n] = 0;
    EACH_SINK(s, other_begin, m->proc.hello.pid, host, m->proc.n_rows, e)
    if (pour_member(s, m, e))
        return -1;
    EACH_SINK(s, rank_end, e)
    return 0;
}

static struct hl_heap_row heap_row(const struct hl_member *m)
{
    return (struct hl_heap_row){m->proc.heap.record, m->proc.heap.end,
                                m->proc.hello.start_ticks};
}

static int pour_all(struct state *s, struct hl_err *e)
{
    const struct hl_plan *plan = s->p->plan;
    EACH_SINK(s, begin, s->p->run, e)
    for (uint64_t r = 0; r < plan->n_ranks; r++)
        if (pour_rank(s, r, e))
            return -1;
    for (size_t i = 0; i < plan->n_other; i++)
        if (pour_other(s, plan->other[i], e))
            return -1;
    for (size_t i = 0; i < plan->n_heap; i++) {
        struct hl_heap_row row = heap_row(plan->heap[i]);
        EACH_SINK(s, heap, &row, e)
    }
    for (size_t i = 0; i < plan->n_images; i++) {
        struct hl_heap_row row = heap_row(plan->image[i]);
        EACH_SINK(s, image, &row, e)
    }
    for (size_t i = 0; i < plan->n_missing; i++)
        EACH_SINK(s, missing, plan->missing[i], e)
    return 0;
}

static int list_members(struct state *s)
{
    const struct hl_plan *plan = s->p->plan;
    s->list = malloc((size_t)(plan->n_ranks + plan->n_other + 1) * sizeof *s->list);
    for (uint64_t r = 0; s->list && r < plan->n_ranks; r++)
        if (plan->rank[r])
            s->list[s->n_list++] = plan->rank[r];
    for (size_t i = 0; s->list && i < plan->n_other; i++)
        s->list[s->n_list++] = plan->other[i];
    return s->list ? 0 : -1;
}

int hl_pour(struct hl_pour *p, struct hl_err *e)
{
    struct state s = {.p = p};
    s.stride = hl_catalog_stride(p->run->catalog);
    s.batch_cap = s.stride ? BATCH_BYTES / (8 * s.stride) : 1;
    s.batch_cap = s.batch_cap ? s.batch_cap : 1;
    s.batch = malloc((s.batch_cap * s.stride + 1) * sizeof *s.batch);
    s.own = malloc(HL_COMM_PIECE);
    int bad = !s.batch || !s.own || list_members(&s)
                  ? hl_fail(e, ENOMEM, "no memory left")
                  : pour_all(&s, e);
    hl_stream_fini(&s.stream);
    free(s.map);
    free(s.list);
    free(s.batch);
    free(s.own);
    return bad;
}
