/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths to a tree of segments; see region_tree.h.
 */
#include "region_tree.h"

#include <stdlib.h>
#include <string.h>

/* While a tree grows: its nodes by parent and name, and each one's last child. */
struct growth {
    struct hl_region_tree *t;
    size_t *slot; /* node indices, 0 empty: the root is nobody's child */
    size_t n_slots;
    size_t *last; /* t->cap of them */
};

static size_t *find_slot(const struct growth *g, size_t parent, const char *s, size_t len)
{
    uint64_t h = 14695981039346656037u ^ parent * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)s[i]) * 1099511628211u;
    for (size_t i = (h ^ h >> 29) & (g->n_slots - 1);; i = (i + 1) & (g->n_slots - 1)) {
        const struct hl_region_node *n = &g->t->node[g->slot[i]];
        if (!g->slot[i] ||
            (n->parent == parent && !strncmp(n->name, s, len) && !n->name[len]))
            return &g->slot[i];
    }
}

static int rehash(struct growth *g, size_t n_slots)
{
    size_t *slot = calloc(n_slots, sizeof *slot);
    if (!slot)
        return -1;
    free(g->slot);
    g->slot = slot;
    g->n_slots = n_slots;
    for (size_t i = 1; i < g->t->n; i++) {
        const struct hl_region_node *n = &g->t->node[i];
        *find_slot(g, n->parent, n->name, strlen(n->name)) = i;
    }
    return 0;
}

/* Room for one more node. */
static int grow(struct growth *g)
{
    struct hl_region_tree *t = g->t;
    size_t cap = t->cap ? 2 * t->cap : 32;
    if (t->n < t->cap)
        return 0;
    struct hl_region_node *node = realloc(t->node, cap * sizeof *node);
    if (!node)
        return -1;
    t->node = node;
    size_t *last = realloc(g->last, cap * sizeof *last);
    if (!last)
        return -1;
    g->last = last;
    t->cap = cap;
    return rehash(g, 4 * cap);
}

static size_t new_node(struct growth *g, size_t parent, const char *name, size_t len)
{
    struct hl_region_tree *t = g->t;
    char *copy = grow(g) ? NULL : strndup(name, len);
    if (!copy)
        return SIZE_MAX;
    t->node[t->n] = (struct hl_region_node){.name = copy,
                                            .path = SIZE_MAX,
                                            .parent = parent,
                                            .depth = t->node[parent].depth + 1};
    g->last[t->n] = 0;
    return t->n++;
}

/* The child of that name, made behind its siblings if it is not there. */
static size_t child(struct growth *g, size_t parent, const char *seg, size_t len)
{
    size_t found = *find_slot(g, parent, seg, len);
    if (found)
        return found;
    size_t made = new_node(g, parent, seg, len);
    if (made == SIZE_MAX)
        return made;
    *find_slot(g, parent, seg, len) = made;
    if (g->last[parent])
        g->t->node[g->last[parent]].next = made;
    else
        g->t->node[parent].first = made;
    g->last[parent] = made;
    return made;
}

static int add_root(struct growth *g)
{
    if (grow(g))
        return -1;
    g->t->node[0] = (struct hl_region_node){.path = SIZE_MAX};
    g->last[0] = 0;
    g->t->n = 1;
    return 0;
}

static int add_path(struct growth *g, const char *path, size_t idx)
{
    size_t at = 0, node = 0, len;
    const char *seg;
    while (hl_path_segment(path, &at, &seg, &len)) {
        node = child(g, node, seg, len);
        if (node == SIZE_MAX)
            return -1;
    }
    g->t->node[node].path = idx;
    return 0;
}

int hl_region_tree_init(struct hl_region_tree *t, const struct hl_catalog *c)
{
    struct growth g = {.t = t};
    memset(t, 0, sizeof *t);
    int bad = add_root(&g);
    for (size_t i = 0; i < c->paths.n && !bad; i++)
        bad = add_path(&g, c->paths.name[i], i);
    free(g.slot);
    free(g.last);
    if (bad)
        hl_region_tree_fini(t);
    return bad ? -1 : 0;
}

void hl_region_tree_fini(struct hl_region_tree *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->node[i].name);
    free(t->node);
    memset(t, 0, sizeof *t);
}
