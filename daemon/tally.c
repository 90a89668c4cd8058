/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking and counting a stream; see tally.h.
 */
#include "tally.h"

#include "bound.h"
#include "messages.h"

#include <stdlib.h>
#include <string.h>

void hl_tally_fini(struct hl_tally *t)
{
    free(t->level);
    memset(t, 0, sizeof *t);
}

static int say(const char **why, const char *text)
{
    *why = text;
    return -1;
}

static int room(struct hl_tally *t)
{
    if (t->n_levels < t->cap)
        return 0;
    size_t cap = t->cap ? 2 * t->cap : 2;
    struct hl_tally_level *p = realloc(t->level, cap * sizeof *p);
    if (!p)
        return -1;
    t->level = p;
    t->cap = cap;
    return 0;
}

/* Ids grow along a chain, so the array is sorted. */
static const struct hl_tally_level *find(const struct hl_tally *t, uint32_t id)
{
    size_t lo = 0, hi = t->n_levels;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->level[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < t->n_levels && t->level[lo].id == id ? &t->level[lo] : NULL;
}

static int take_catalog(struct hl_tally *t, const uint8_t *body, size_t n,
                        const char **why)
{
    static const struct hl_tally_level none;
    struct hl_catalog_msg m;
    int code = hl_decode_catalog(body, n, &m);
    if (code)
        return say(why, hl_wire_strerror(code));
    /* Ids may be left out: of catalogs that were dropped with their row. */
    if (m.id <= t->last_catalog)
        return say(why, "a catalog's number is not a new one");
    const struct hl_tally_level *base = m.base ? find(t, m.base) : &none;
    if (!base)
        return say(why, "a catalog builds on one that has not come");
    if (m.first_metric != base->n_metrics || m.first_path != base->n_paths)
        return say(why, "a catalog does not begin where its base ends");
    size_t kept = m.base ? (size_t)(base - t->level) + 1 : 0;
    if (kept >= HL_TALLY_CATALOGS_MAX)
        return say(why, "a process may have at most 32768 catalogs");
    if (room(t))
        return say(why, "the collector has no memory left");
    t->n_levels = kept; /* what came after the base is replaced */
    t->last_catalog = m.id;
    t->level[t->n_levels++] = (struct hl_tally_level){m.id, m.first_metric + m.n_metrics,
                                                      m.first_path + m.n_paths};
    t->in_part = 0;
    return 0;
}

static void count_rows(struct hl_tally *t, uint64_t first, uint64_t n)
{
    uint64_t end = first + n, from = first < t->next_row ? t->next_row : first;
    if (end <= from)
        return; /* came before, the other way */
    t->n_rows += end - from;
    t->next_row = end;
}

static int take_part(struct hl_tally *t, const struct hl_rows *m, uint64_t stride,
                     const char **why)
{
    uint64_t end;
    /* A row may be given up after some of its parts; the next one begins at 0. */
    if (m->first_cell && (!t->in_part || m->first_row != t->part_row ||
                          m->first_cell != t->part_next || m->catalog != t->part_catalog))
        return say(why, "the parts of a row do not fit together");
    if (!m->n_cells || hl_add_u64(m->first_cell, m->n_cells, &end) || end > stride)
        return say(why, "a part of a row goes beyond the cells of its catalog");
    t->in_part = end < stride;
    t->part_catalog = m->catalog;
    t->part_row = m->first_row;
    t->part_next = end;
    if (!t->in_part)
        count_rows(t, m->first_row, 1);
    return 0;
}

static int take_rows(struct hl_tally *t, const uint8_t *body, size_t n, const char **why)
{
    struct hl_rows m;
    uint64_t last;
    int code = hl_decode_rows(body, n, &m);
    if (code)
        return say(why, hl_wire_strerror(code));
    const struct hl_tally_level *l = find(t, m.catalog);
    if (!l)
        return say(why, "rows of a catalog that has not come");
    uint64_t stride = hl_stride(l->n_metrics, l->n_paths);
    if (hl_add_u64(m.first_row, (uint64_t)m.n_cells + 1, &last))
        return say(why, "a row's number is out of range");
    if (stride && (m.first_cell || m.n_cells < stride))
        return take_part(t, &m, stride, why);
    if (!stride && (m.n_cells || m.first_cell))
        return say(why, "cells of a catalog without names");
    if (stride && m.n_cells % stride)
        return say(why, "the cells do not fit the catalog");
    t->in_part = 0;
    count_rows(t, m.first_row, stride ? m.n_cells / stride : 1);
    return 0;
}

int hl_tally_take(struct hl_tally *t, const struct hl_wire_header *h, const uint8_t *body,
                  const char **why)
{
    switch (h->type) {
    case HL_MSG_CATALOG: return take_catalog(t, body, h->length, why);
    case HL_MSG_ROWS: return take_rows(t, body, h->length, why);
    default: return say(why, "a message that does not belong into a stream");
    }
}
