/* SPDX-License-Identifier: Apache-2.0
 *
 * A node's index as bytes, and rank 0's table of all of them.
 */
#ifndef HL_GATHER_INDEX_H
#define HL_GATHER_INDEX_H

#include "buf.h"
#include "catalog.h"
#include "source.h"

/* One image anywhere in the run. */
struct hl_member {
    struct hl_proc proc; /* texts lie in the index's bytes */
    int node;            /* rank in the gather */
    uint64_t unit;       /* index on that node */
    uint64_t bytes;      /* of its stream */
    const struct hl_catalog *catalog;
};

struct hl_index {
    struct hl_member *member;
    size_t n, cap;
    struct hl_buf *bytes;        /* one a node: keeps the texts */
    struct hl_catalog **catalog; /* one array a node */
    size_t *n_catalogs;
    int n_nodes;
    char **note;
    size_t n_notes;
};

/* This node's index. 0 or -1 (no memory). */
int hl_index_encode(const struct hl_source *s, struct hl_buf *out);

/* A zeroed structure is empty. */
void hl_index_fini(struct hl_index *x);
int hl_index_init(struct hl_index *x, int n_nodes, struct hl_err *e);
/* Take a node's bytes over (*b becomes empty).  Images that another process of
 * the gather on the same node already told of are left out. */
int hl_index_add(struct hl_index *x, int node, struct hl_buf *b, struct hl_err *e);

#endif
