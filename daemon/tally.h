/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process's stream amounts to: which catalogs it has brought, whether
 * each message fits what came before, and how many distinct rows are in it.
 * Pure but for one array; knows no sockets.
 */
#ifndef HL_TALLY_H
#define HL_TALLY_H

#include "wire.h"

#include <stddef.h>
#include <stdint.h>

enum { HL_TALLY_CATALOGS_MAX = 32768 };

struct hl_tally_level { /* names of a catalog with all its bases */
    uint32_t id, n_metrics, n_paths;
};

struct hl_tally {
    struct hl_tally_level *level; /* of the chain under way, by id */
    size_t n_levels, cap;
    uint32_t last_catalog; /* the newest id, in the chain or not */
    uint64_t n_rows;       /* distinct whole rows */
    uint64_t next_row;     /* rows below it have come */
    int in_part;           /* a wide row is under way */
    uint32_t part_catalog;
    uint64_t part_row, part_next;
};

/* A zeroed structure is an empty tally. */
void hl_tally_fini(struct hl_tally *t);

/* Take one CATALOG or ROWS message.  0, or -1 and *why: a sentence for the
 * sender; nothing was changed then. */
int hl_tally_take(struct hl_tally *t, const struct hl_wire_header *h, const uint8_t *body,
                  const char **why);

#endif
