/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames as messages: the catalogs that are due, then the row.
 */
#include "session.h"

#include <string.h>

enum { CATALOG_MAX = HL_WIRE_HEADER + 65536, FIELD_HEAD = 4 };

static const char *name_number(const heapline_session *s, uint32_t i, size_t *len)
{
    const struct hl_name *n = i < s->metrics.n ? hl_name_at(&s->metrics, i)
                                               : hl_name_at(&s->paths, i - s->metrics.n);
    *len = n->len;
    return n->text;
}

/* One message with the names from *next on, as many as fit. Its size, or -1. */
static int64_t put_catalog(const heapline_session *s, uint8_t *out, uint32_t base,
                           uint32_t *next)
{
    uint32_t n = s->metrics.n;
    struct hl_catalog_msg m = {.id = s->encoded.catalog,
                               .base = base,
                               .first_metric = *next < n ? *next : n,
                               .first_path = *next < n ? 0 : *next - n};
    struct hl_writer w = hl_catalog_begin(out, CATALOG_MAX, &m);
    for (; *next < n + s->paths.n; ++*next) {
        size_t len;
        const char *name = name_number(s, *next, &len);
        if (w.n + FIELD_HEAD + len > CATALOG_MAX)
            break;
        if (*next < n)
            hl_catalog_add_metric(&w, name);
        else
            hl_catalog_add_path(&w, name);
    }
    return hl_message_end(&w, HL_MSG_CATALOG);
}

/* Ids are never used twice, not even for a catalog that was dropped with its
 * row: the other side may have seen it. */
static int put_catalogs(heapline_session *s)
{
    uint32_t all = s->metrics.n + s->paths.n, next = s->told.n_metrics + s->told.n_paths;
    s->encoded = (struct hl_told){s->told.catalog, s->metrics.n, s->paths.n};
    if (s->told.catalog && next == all)
        return 0;
    do {
        if (hl_bytes_reserve(&s->message, s->message.n + CATALOG_MAX))
            return -1;
        uint32_t base = s->encoded.catalog;
        s->encoded.catalog = ++s->last_catalog;
        int64_t n = put_catalog(s, s->message.p + s->message.n, base, &next);
        if (n < 0)
            return -1;
        s->message.n += (size_t)n;
    } while (next < all);
    return 0;
}

/* One message with n cells of the row. */
static int put_cells(heapline_session *s, uint64_t number, uint64_t first, uint32_t n)
{
    struct hl_rows m = {.catalog = s->encoded.catalog,
                        .n_cells = n,
                        .first_row = number,
                        .first_cell = first};
    size_t size = hl_rows_size(n);
    if (hl_bytes_reserve(&s->message, s->message.n + size))
        return -1;
    uint8_t *to = s->message.p + s->message.n;
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "cells are copied as they are: little-endian machines only"
#endif
    if (n)
        memcpy(to + HL_WIRE_HEADER + HL_ROWS_HEAD, s->row.p + 8 * first, 8 * (size_t)n);
    m.cells = to + HL_WIRE_HEADER + HL_ROWS_HEAD;
    if (hl_encode_rows_in_place(to, size, &m) < 0)
        return -1;
    s->message.n += size;
    return 0;
}

int64_t hl_encode_frame(heapline_session *s, uint64_t number, size_t n_cells)
{
    s->message.n = 0;
    if (put_catalogs(s))
        return -1;
    size_t catalogs = s->message.n, first = 0;
    do {
        size_t n = n_cells - first;
        n = n < HL_ROWS_CELLS_MAX ? n : HL_ROWS_CELLS_MAX;
        if (put_cells(s, number, first, (uint32_t)n))
            return -1;
        first += n;
    } while (first < n_cells);
    return (int64_t)catalogs;
}

void hl_frame_told(heapline_session *s)
{
    s->told = s->encoded;
}
