/* SPDX-License-Identifier: Apache-2.0
 *
 * A catalog: the names of metrics and of region paths, in order.  The order of
 * a row's cells is the catalog's: metrics, then inclusive and exclusive of
 * each path.  Not thread-safe; owned by its holder.
 */
#ifndef HL_CATALOG_H
#define HL_CATALOG_H

#include "err.h"
#include "messages.h"
#include "region_name.h" /* hl_path_fault */

#include <stddef.h>
#include <stdint.h>

struct hl_names {
    char **name;
    size_t n, cap;
    uint32_t *slot; /* open-addressing index, n_slots a power of two */
    size_t n_slots;
};

struct hl_catalog {
    struct hl_names metrics, paths;
};

/* A zeroed structure is an empty catalog. */
void hl_catalog_fini(struct hl_catalog *c);

/* Add a name if it is not there; its index through *idx (NULL allowed).
 * 0 or -1 (no memory). */
int hl_names_add(struct hl_names *l, const char *name, size_t len, size_t *idx);
/* Index of a name, or SIZE_MAX. */
size_t hl_names_find(const struct hl_names *l, const char *name, size_t len);
/* Keep the first n names only.  0 or -1 (no memory). */
int hl_names_cut(struct hl_names *l, size_t n);

static inline size_t hl_catalog_stride(const struct hl_catalog *c)
{
    return c->metrics.n + 2 * c->paths.n;
}

/* Add what a CATALOG message names, behind what is there.  Duplicates within a
 * catalog are refused. */
int hl_catalog_apply(struct hl_catalog *c, const struct hl_catalog_msg *m,
                     struct hl_err *e);

/* Unite: metrics of `from` behind those of `into`, paths added with all their
 * parents.  Call hl_catalog_sort_paths after the last one. */
int hl_catalog_unite(struct hl_catalog *into, const struct hl_catalog *from);
/* Sort paths by bytes, so that parents come before children. */
int hl_catalog_sort_paths(struct hl_catalog *c);

/* The same names in the same order as texts that the exports can hold: bytes that
 * are not UTF-8 become U+FFFD; two names that would then be one are told apart by
 * ".2", ".3" ...  `from` has all parents of its paths, parents first.  *n_changed
 * counts names.  0 or -1 (no memory). */
int hl_catalog_clean(const struct hl_catalog *from, struct hl_catalog *out,
                     uint64_t *n_changed);

/* Find a catalog of the same names in a list of *n, or put it there; c is empty then.
 * Its place through *idx.  0 or -1 (no memory; c is as it was). */
int hl_catalog_keep(struct hl_catalog **list, size_t *n, struct hl_catalog *c,
                    uint32_t *idx);

/* Where each cell of a row of `from` goes in a row of `into`: stride(from)
 * indices, malloced, or NULL (no memory, or a name is missing in `into`). */
size_t *hl_catalog_map(const struct hl_catalog *from, const struct hl_catalog *into);

/* Segment walk: the next segment of path from *at; 1, or 0 at the end. */
int hl_path_segment(const char *path, size_t *at, const char **seg, size_t *len);

#endif
