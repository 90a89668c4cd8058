/* SPDX-License-Identifier: Apache-2.0
 *
 * A node's index as bytes, and rank 0's table of all of them: 64 bytes a process,
 * distinct catalogs and host names once.
 */
#ifndef HL_GATHER_INDEX_H
#define HL_GATHER_INDEX_H

#include "buf.h"
#include "catalog.h"
#include "entry.h"
#include "images.h"
#include "source.h"

/* Ranks and sizes beyond it are no run's: who tells them has none. */
#define HL_RANKS_MAX (1 << 26)

struct hl_index {
    struct hl_entry *entry; /* after hl_index_done in the order of the CSV */
    size_t n, cap;
    struct hl_catalog *catalog; /* distinct ones of all nodes */
    size_t n_catalogs;
    struct hl_names hosts;
    struct hl_names bare;    /* nodes with neither a collector nor files */
    struct hl_images images; /* while nodes are added */
    uint64_t n_dropped, n_lost;
    int64_t max_size;      /* n_mpi_ranks that a ranked process told; -1 none */
    char app_version[256]; /* of the lowest rank that told one, or "" */
    int64_t version_rank;
    char **note;
    size_t n_notes;
};

/* This node's index.  0 or -1 (no memory). */
int hl_index_encode(const struct hl_source *s, struct hl_buf *out);

void hl_index_init(struct hl_index *x);
void hl_index_fini(struct hl_index *x);
/* Add a node's index.  Images that another process of the gather already told of
 * (two on one node, a folder that nodes share) are left out. */
int hl_index_add(struct hl_index *x, uint32_t node, const uint8_t *p, size_t n,
                 struct hl_err *e);
/* All nodes were added: put the entries in order.  Later calls of add are wrong. */
void hl_index_done(struct hl_index *x);

#endif
