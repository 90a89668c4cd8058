/* SPDX-License-Identifier: Apache-2.0
 *
 * The timeline of one process on the disk: the file NAME.points beside its spool
 * NAME.spool, SPOOL first, then POINTS messages of one point each.  So the place of
 * each point is known without a map: a timeline of years costs no memory, and breaks
 * up no stream.  Every call opens the file and closes it again.
 */
#ifndef HL_POINTS_H
#define HL_POINTS_H

#include "messages.h"
#include "spool.h"

#include <stddef.h>
#include <stdint.h>

enum { HL_POINTS_MESSAGE = HL_WIRE_HEADER + HL_POINT_BYTES };

/* The file that goes with a spool of this name; 0, or -1: the name is none of a
 * spool, or does not fit. */
int hl_points_name(const char *spool, char *out, size_t cap);

struct hl_points_write {
    const uint8_t *head; /* SPOOL, for a file that is new; borrowed like messages */
    size_t head_bytes;
    const uint8_t *messages; /* n of HL_POINTS_MESSAGE bytes */
    size_t n;
    int64_t at;        /* points before them; -1: they come behind what is there */
    uint64_t n_points; /* out: in the file now */
    int64_t grown;     /* out: by how many bytes */
};
/* Write points at their place (nearer where the file is shorter, so that there is
 * never a gap), a torn tail goes.  0, or a negative errno: the file ends where they
 * should have begun. */
int hl_points_write(const struct hl_spool_pool *pool, const char *name,
                    struct hl_points_write *w);

struct hl_points_found {
    uint64_t n;           /* places, up to the last sound one */
    uint64_t n_bad;       /* of them, damaged */
    struct hl_point last; /* the last one; hl_point_lost() where there is none */
};
/* What is in a file, all of which is read; nothing where there is none. */
void hl_points_count(const struct hl_spool_pool *pool, const char *name,
                     struct hl_points_found *out);
/* Its last point alone; hl_point_lost() where there is none. */
struct hl_point hl_points_last(const struct hl_spool_pool *pool, const char *name);

/* At most max bytes of the points, HL_POINT_BYTES each, from an offset;
 * hl_point_lost() at the place of a damaged one.  Returns how many (0 at the end, or
 * where there is no file), or a negative errno: not now. */
int64_t hl_points_read(const struct hl_spool_pool *pool, const char *name,
                       uint64_t offset, uint8_t *out, size_t max);

#endif
