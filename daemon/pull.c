/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking ahead; see pull.h.
 */
#include "pull.h"

enum { POINTS_PIECE = HL_PIECE_MAX / HL_POINT_BYTES * HL_POINT_BYTES };

uint64_t hl_pull_places(const struct hl_plan *p)
{
    return p->n_ranks + p->n_other + p->n_timelines;
}

const struct hl_entry *hl_pull_entry(const struct hl_plan *p, const struct hl_index *x,
                                     uint64_t place)
{
    uint32_t i = place < p->n_ranks ? p->rank[place]
                 : place < p->n_ranks + p->n_other
                     ? p->other[place - p->n_ranks]
                     : p->timeline[place - p->n_ranks - p->n_other];
    return i == HL_NO_ENTRY ? NULL : &x->entry[i];
}

uint64_t hl_pull_bytes(const struct hl_plan *p, const struct hl_entry *t, uint64_t place,
                       enum hl_ask_kind *kind)
{
    int is_timeline = place >= p->n_ranks + p->n_other;
    *kind = HL_WANT_STREAM;
    if (!t)
        return 0;
    if (!is_timeline && !hl_plan_samples_are_frames(t))
        return t->bytes;
    *kind = HL_WANT_POINTS;
    return t->n_points * HL_POINT_BYTES;
}

static int ask(struct hl_pull_from *p, uint32_t node, int slot,
               const struct hl_want *want, struct hl_err *e)
{
    p->node[slot] = node;
    return node == (uint32_t)p->comm->rank
               ? hl_source_begin(p->source, slot, want, e)
               : p->comm->ops->ask(p->comm, (int)node, slot, want, e);
}

static int answer(struct hl_pull_from *p, int slot, const uint8_t **bytes, uint64_t *n,
                  struct hl_err *e)
{
    return p->node[slot] == (uint32_t)p->comm->rank
               ? hl_source_end(p->source, slot, bytes, n, e)
               : p->comm->ops->answer(p->comm, slot, bytes, n, e);
}

/* What comes next; 0 at the end of the sequence. */
static int next_want(struct hl_pull_from *p, uint32_t *node, struct hl_want *w)
{
    for (; p->place < p->end; p->place++, p->offset = 0) {
        const struct hl_entry *t = hl_pull_entry(p->plan, p->index, p->place);
        enum hl_ask_kind kind;
        uint64_t bytes = hl_pull_bytes(p->plan, t, p->place, &kind);
        uint64_t most = kind == HL_WANT_POINTS ? POINTS_PIECE : HL_PIECE_MAX;
        if (p->offset >= bytes)
            continue;
        uint64_t left = bytes - p->offset;
        *node = t->node;
        *w = (struct hl_want){kind, t->unit, p->offset, left < most ? left : most};
        p->offset += w->n;
        return 1;
    }
    return 0;
}

static int ask_ahead(struct hl_pull_from *p, struct hl_err *e)
{
    while (p->n_asked - p->n_taken < HL_SLOTS) {
        struct hl_want w;
        uint32_t node;
        if (!next_want(p, &node, &w))
            return 0;
        if (ask(p, node, (int)(p->n_asked++ % HL_SLOTS), &w, e))
            return -1;
    }
    return 0;
}

int hl_pull_next(struct hl_pull_from *p, const uint8_t **bytes, uint64_t *n,
                 struct hl_err *e)
{
    /* The last piece is no longer used: its slot is free, too. */
    if (ask_ahead(p, e) || p->comm->ops->tick(p->comm, e))
        return -1;
    return answer(p, (int)(p->n_taken++ % HL_SLOTS), bytes, n, e);
}

int hl_pull_drain(struct hl_pull_from *p, struct hl_err *e)
{
    const uint8_t *bytes;
    uint64_t n;
    while (p->n_taken < p->n_asked)
        if (answer(p, (int)(p->n_taken++ % HL_SLOTS), &bytes, &n, e))
            return -1;
    return 0;
}

int hl_pull_one(struct hl_pull_from *p, uint32_t node, const struct hl_want *want,
                const uint8_t **bytes, uint64_t *n, struct hl_err *e)
{
    return ask(p, node, 0, want, e) || answer(p, 0, bytes, n, e) ||
                   p->comm->ops->tick(p->comm, e)
               ? -1
               : 0;
}
