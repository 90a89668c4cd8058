/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding a process's stream; see stream.h.
 */
#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void drop_chain(struct hl_stream *s)
{
    hl_catalog_fini(&s->catalog);
    free(s->level);
    s->level = NULL;
    s->n_levels = 0;
    s->in_part = 0;
}

void hl_stream_fini(struct hl_stream *s)
{
    drop_chain(s);
    hl_catalog_fini(&s->past);
    hl_buf_fini(&s->pending);
    free(s->row);
    memset(s, 0, sizeof *s);
}

int hl_stream_take_names(struct hl_stream *s, struct hl_catalog *out)
{
    /* The usual stream is one chain: its order stays as it is. */
    int bad =
        s->past.metrics.n + s->past.paths.n && hl_catalog_unite(&s->catalog, &s->past);
    *out = s->catalog;
    memset(&s->catalog, 0, sizeof s->catalog);
    drop_chain(s);
    return bad;
}

/* Go back to the first n levels.  Rows may have used the names that go, so
 * they are remembered. */
static int cut_chain(struct hl_stream *s, size_t n, struct hl_err *e)
{
    const struct hl_stream_level none = {0}, *l = n ? &s->level[n - 1] : &none;
    if (n == s->n_levels)
        return 0;
    if (hl_catalog_unite(&s->past, &s->catalog) ||
        hl_names_cut(&s->catalog.metrics, l->n_metrics) ||
        hl_names_cut(&s->catalog.paths, l->n_paths))
        return hl_fail(e, ENOMEM, "no memory left");
    s->n_levels = n;
    s->in_part = 0;
    return 0;
}

/* A catalog adds to an earlier one, its base, and replaces those that came
 * after it (they were dropped with their row, or given up with it). */
static int take_catalog(struct hl_stream *s, const uint8_t *body, size_t n,
                        struct hl_err *e)
{
    struct hl_catalog_msg m;
    int code = hl_decode_catalog(body, n, &m);
    if (code)
        return hl_fail(e, HL_ERR_FORMAT, "catalog: %s", hl_wire_strerror(code));
    size_t base = s->n_levels;
    while (base && s->level[base - 1].id > m.base)
        base--;
    if (m.base && (!base || s->level[base - 1].id != m.base))
        return hl_fail(e, HL_ERR_FORMAT, "catalog %u builds on %u, which has not come",
                       m.id, m.base);
    if (cut_chain(s, base, e))
        return -1;
    struct hl_stream_level *p = realloc(s->level, (s->n_levels + 1) * sizeof *p);
    if (!p)
        return hl_fail(e, ENOMEM, "no memory left");
    s->level = p;
    if (hl_catalog_apply(&s->catalog, &m, e))
        return -1;
    s->level[s->n_levels++] =
        (struct hl_stream_level){m.id, s->catalog.metrics.n, s->catalog.paths.n};
    s->n_catalogs++;
    s->in_part = 0;
    return 0;
}

/* Nearly always the last one. */
static const struct hl_stream_level *find_level(const struct hl_stream *s, uint32_t id)
{
    for (size_t i = s->n_levels; i-- > 0 && s->level[i].id >= id;)
        if (s->level[i].id == id)
            return &s->level[i];
    return NULL;
}

static int room_for(struct hl_stream *s, size_t cells, struct hl_err *e)
{
    if (cells <= s->row_cap)
        return 0;
    double *p = realloc(s->row, cells * sizeof *p);
    if (!p)
        return hl_fail(e, ENOMEM, "no memory left");
    s->row = p;
    s->row_cap = cells;
    return 0;
}

static void copy_cells(double *to, const struct hl_rows *m, size_t from, size_t n)
{
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) { /* as the wire has them */
        memcpy(to, m->cells + 8 * from, 8 * n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        to[i] = hl_rows_cell(m, from + i);
}

static int deliver(struct hl_stream *s, uint64_t number, const struct hl_stream_level *l,
                   hl_row_fn *fn, void *ctx, struct hl_err *e)
{
    if (number < s->next_row)
        return 0; /* came before, the other way */
    s->next_row = number + 1;
    s->n_rows++;
    return fn ? fn(ctx, s, s->row, l->n_metrics, l->n_paths, e) : 0;
}

/* A part of a wide row: parts come in order, the last one completes it. */
static int take_part(struct hl_stream *s, const struct hl_rows *m,
                     const struct hl_stream_level *l, size_t stride, hl_row_fn *fn,
                     void *ctx, struct hl_err *e)
{
    if (m->first_cell == 0) {
        s->in_part = 1;
        s->part_row = m->first_row;
        s->part_catalog = m->catalog;
        s->part_next = 0;
    }
    if (!s->in_part || m->first_row != s->part_row || m->first_cell != s->part_next ||
        m->catalog != s->part_catalog || m->first_cell + m->n_cells > stride)
        return hl_fail(e, HL_ERR_FORMAT, "row %llu: its parts do not fit together",
                       (unsigned long long)m->first_row);
    copy_cells(s->row + m->first_cell, m, 0, m->n_cells);
    s->part_next += m->n_cells;
    if (s->part_next < stride)
        return 0;
    s->in_part = 0;
    return deliver(s, m->first_row, l, fn, ctx, e);
}

static int take_rows(struct hl_stream *s, const uint8_t *body, size_t n, hl_row_fn *fn,
                     void *ctx, struct hl_err *e)
{
    struct hl_rows m;
    int code = hl_decode_rows(body, n, &m);
    if (code)
        return hl_fail(e, HL_ERR_FORMAT, "rows: %s", hl_wire_strerror(code));
    const struct hl_stream_level *l = find_level(s, m.catalog);
    if (!l)
        return hl_fail(e, HL_ERR_FORMAT, "rows of an unknown catalog %u", m.catalog);
    size_t stride = (size_t)hl_stride(l->n_metrics, l->n_paths);
    if (room_for(s, stride ? stride : 1, e))
        return -1;
    if (!stride)
        return m.n_cells ? hl_fail(e, HL_ERR_FORMAT, "rows: cells without a name")
                         : deliver(s, m.first_row, l, fn, ctx, e);
    if (m.first_cell || m.n_cells < stride)
        return take_part(s, &m, l, stride, fn, ctx, e);
    if (m.n_cells % stride)
        return hl_fail(e, HL_ERR_FORMAT, "rows: the last one is not whole");
    s->in_part = 0; /* a row that was given up after some of its parts */
    for (size_t i = 0; i < m.n_cells / stride; i++) {
        copy_cells(s->row, &m, i * stride, stride);
        if (deliver(s, m.first_row + i, l, fn, ctx, e))
            return -1;
    }
    return 0;
}

static int take_message(struct hl_stream *s, unsigned type, const uint8_t *body, size_t n,
                        hl_row_fn *fn, void *ctx, struct hl_err *e)
{
    struct hl_bye bye;
    switch (type) {
    case HL_MSG_CATALOG: return take_catalog(s, body, n, e);
    case HL_MSG_ROWS: return take_rows(s, body, n, fn, ctx, e);
    case HL_MSG_HELLO: return cut_chain(s, 0, e);
    case HL_MSG_BYE:
        if (hl_decode_bye(body, n, &bye) == 0) {
            s->n_dropped = bye.n_dropped > s->n_dropped ? bye.n_dropped : s->n_dropped;
            s->n_told = bye.n_rows > s->n_told ? bye.n_rows : s->n_told;
        }
        return 0;
    default: return hl_fail(e, HL_ERR_FORMAT, "a message of type %u in a stream", type);
    }
}

/* Consume whole messages at p; returns the bytes consumed, or -1. */
static int64_t take_messages(struct hl_stream *s, const uint8_t *p, size_t n,
                             hl_row_fn *fn, void *ctx, struct hl_err *e)
{
    size_t at = 0;
    for (;;) {
        struct hl_wire_header h;
        const uint8_t *body;
        size_t used;
        int code =
            hl_wire_next(p + at, n - at, HL_IN_SPOOL, HL_STATE_FILE, &h, &body, &used);
        if (code == HL_WIRE_SHORT)
            return (int64_t)at;
        if (code)
            return hl_fail(e, HL_ERR_FORMAT, "%s", hl_wire_strerror(code));
        if (take_message(s, h.type, body, h.length, fn, ctx, e))
            return -1;
        at += used;
        s->used_bytes += used;
    }
}

int hl_stream_feed(struct hl_stream *s, const uint8_t *p, size_t n, hl_row_fn *fn,
                   void *ctx, struct hl_err *e)
{
    if (hl_buf_left(&s->pending) == 0) {
        int64_t used = take_messages(s, p, n, fn, ctx, e);
        if (used < 0)
            return -1;
        p += used;
        n -= (size_t)used;
        return hl_buf_add(&s->pending, p, n) ? hl_fail(e, ENOMEM, "no memory left") : 0;
    }
    if (hl_buf_add(&s->pending, p, n))
        return hl_fail(e, ENOMEM, "no memory left");
    int64_t used =
        take_messages(s, hl_buf_data(&s->pending), hl_buf_left(&s->pending), fn, ctx, e);
    if (used < 0)
        return -1;
    hl_buf_consume(&s->pending, (size_t)used);
    return 0;
}
