/* SPDX-License-Identifier: Apache-2.0
 *
 * From the bytes of a process's stream to rows: messages, catalogs, rows in
 * parts, rows that came twice.  The bytes may be fed in any pieces.  A HELLO
 * inside begins the part that came another way (a fallback file): catalogs
 * start anew there, row numbers go on.  Not thread-safe.
 */
#ifndef HL_STREAM_H
#define HL_STREAM_H

#include "buf.h"
#include "catalog.h"
#include "err.h"
#include "messages.h"

struct hl_stream_level {
    uint32_t id;
    size_t n_metrics, n_paths;
};

struct hl_stream {
    struct hl_buf pending;     /* an incomplete message */
    struct hl_catalog catalog; /* of the chain that is under way */
    struct hl_catalog past;    /* names of chains that were left, parents added */
    uint64_t n_catalogs;       /* CATALOG messages taken: tells a change of `catalog` */
    struct hl_stream_level *level; /* by id: names that a catalog has */
    size_t n_levels;
    uint64_t next_row;   /* rows below it were delivered */
    uint64_t n_rows;     /* rows delivered */
    uint64_t used_bytes; /* complete, sound messages consumed so far */
    uint64_t n_dropped;  /* told by a BYE */
    uint64_t n_told;     /* rows in all, as a BYE says */
    double *row;         /* of the row under way */
    size_t row_cap;
    uint64_t part_row, part_next; /* of a row that comes in parts */
    uint32_t part_catalog;
    int in_part;
};

/* A delivered row: n_metrics doubles, then inclusive and exclusive of the first
 * n_paths paths of s->catalog. */
typedef int hl_row_fn(void *ctx, const struct hl_stream *s, const double *cells,
                      size_t n_metrics, size_t n_paths, struct hl_err *e);

/* A zeroed structure is a fresh decoder. */
void hl_stream_fini(struct hl_stream *s);

/* Rows that were numbered and did not come, dropped ones included. */
static inline uint64_t hl_stream_gap(const struct hl_stream *s)
{
    return (s->n_told > s->next_row ? s->n_told : s->next_row) - s->n_rows;
}

/* Take out all names that came, parents added where a chain was left.  Leaves
 * the stream without catalogs.  0 or -1 (no memory). */
int hl_stream_take_names(struct hl_stream *s, struct hl_catalog *out);

/* Feed n bytes.  fn may be NULL (rows are only counted).  0, or -1 at the first
 * byte that is not sound: used_bytes says how far the stream is good. */
int hl_stream_feed(struct hl_stream *s, const uint8_t *p, size_t n, hl_row_fn *fn,
                   void *ctx, struct hl_err *e);

#endif
