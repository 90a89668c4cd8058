/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of many nodes in one order; see heap_rows.h.
 */
#include "heap_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD_BYTES = 8 << 20 /* of all nodes together */ };

/* PROC bodies of a node that were pulled, those of units next, next + 1, ... */
struct window {
    uint8_t *p;
    uint64_t n, at, next;
};

struct state {
    struct hl_pull_from *from;
    struct hl_outlets *out;
    struct window *window; /* [nodes] */
    uint64_t ahead;        /* bytes of a window */
    enum hl_item_kind kind;
    struct hl_batch *batch;
    size_t batch_cap;
};

static int damaged(struct hl_err *e)
{
    return hl_fail(e, HL_ERR_FORMAT, "a record of the index is damaged");
}

static int refill(struct state *s, uint32_t node, uint64_t unit, struct hl_err *e)
{
    struct window *w = &s->window[node];
    struct hl_want want = {HL_WANT_RECORDS, unit, s->ahead, UINT32_MAX};
    const uint8_t *bytes;
    uint64_t n;
    if (hl_pull_one(s->from, node, &want, &bytes, &n, e))
        return -1;
    uint8_t *p = realloc(w->p, n ? n : 1);
    if (!p)
        return hl_fail(e, ENOMEM, "no memory left");
    memcpy(p, bytes, n);
    *w = (struct window){p, n, 0, unit};
    return n ? 0 : damaged(e);
}

/* The body that is next in the window; NULL at its end. */
static const uint8_t *step(struct window *w, size_t *n)
{
    struct hl_reader r = hl_reader_on(w->p + w->at, w->n - w->at);
    uint32_t len = w->at < w->n ? hl_get_u32(&r) : 0;
    if (r.fault || !len || len > hl_reader_left(&r))
        return NULL;
    const uint8_t *body = w->p + w->at + 4;
    w->at += 4 + (uint64_t)len;
    w->next++;
    *n = len;
    return body;
}

/* Units of a node come in increasing order. */
static int find_proc(struct state *s, const struct hl_entry *t, struct hl_proc *out,
                     struct hl_err *e)
{
    struct window *w = &s->window[t->node];
    const uint8_t *body = NULL;
    size_t n;
    while (w->next <= t->unit && (body = step(w, &n)) && w->next <= t->unit) {
    }
    if (!body) {
        if (refill(s, t->node, t->unit, e))
            return -1;
        body = step(w, &n);
    }
    if (!body || hl_decode_proc(body, n, out) || out->hello.pid != t->pid ||
        out->hello.start_ticks != t->start_ticks)
        return damaged(e);
    return 0;
}

static int flush(struct state *s, struct hl_err *e)
{
    struct hl_item it = {.kind = s->kind, .batch = s->batch};
    s->batch = NULL;
    return it.batch && it.batch->n ? hl_outlets_put(s->out, &it, e) : 0;
}

static int put_row(struct state *s, const struct hl_proc *p, struct hl_err *e)
{
    if (s->batch && s->batch->n == s->batch_cap && flush(s, e))
        return -1;
    if (!s->batch && !(s->batch = hl_outlets_batch(s->out, e)))
        return -1;
    struct hl_heap_row *row = (struct hl_heap_row *)s->batch->p + s->batch->n++;
    *row = (struct hl_heap_row){p->heap.record, p->heap.end, p->hello.start_ticks};
    return 0;
}

int hl_heap_rows(struct hl_pull_from *from, struct hl_outlets *out, uint32_t flag,
                 enum hl_item_kind kind, struct hl_err *e)
{
    const struct hl_index *x = from->index;
    size_t n_nodes = (size_t)from->comm->size;
    struct state s = {.from = from, .out = out, .kind = kind};
    s.ahead = AHEAD_BYTES / n_nodes;
    s.batch_cap = hl_outlets_batch_bytes(out) / sizeof(struct hl_heap_row);
    s.window = calloc(n_nodes, sizeof *s.window);
    int bad = s.window ? 0 : hl_fail(e, ENOMEM, "no memory left");
    for (size_t i = 0; i < x->n && !bad; i++) {
        struct hl_proc p;
        if (x->entry[i].flags & flag)
            bad = find_proc(&s, &x->entry[i], &p, e) || put_row(&s, &p, e);
    }
    bad = bad || flush(&s, e);
    for (size_t i = 0; s.window && i < n_nodes; i++)
        free(s.window[i].p);
    free(s.window);
    return bad ? -1 : 0;
}
