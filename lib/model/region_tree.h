/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree that a catalog's paths form: what JSON nests and HDF5 makes groups
 * of.  Paths without their parents in the catalog get nodes without a path.
 */
#ifndef HL_REGION_TREE_H
#define HL_REGION_TREE_H

#include "catalog.h"

struct hl_region_node {
    char *name;         /* the last segment; NULL for the root */
    size_t path;        /* index in the catalog, or SIZE_MAX */
    size_t first, next; /* first child, next sibling: node indices, 0 none */
    size_t parent;      /* the root's is the root */
    size_t depth;       /* root 0 */
};

struct hl_region_tree {
    struct hl_region_node *node; /* [0] is the root */
    size_t n, cap;
};

/* Build from a catalog.  0 or -1 (no memory). */
int hl_region_tree_init(struct hl_region_tree *t, const struct hl_catalog *c);
void hl_region_tree_fini(struct hl_region_tree *t);

#endif
