/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths to a tree of segments; see region_tree.h.
 */
#include "region_tree.h"

#include <stdlib.h>
#include <string.h>

static size_t new_node(struct hl_region_tree *t, const char *name, size_t len,
                       size_t depth)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 32;
        struct hl_region_node *p = realloc(t->node, cap * sizeof *p);
        if (!p)
            return SIZE_MAX;
        t->node = p;
        t->cap = cap;
    }
    char *copy = name ? strndup(name, len) : NULL;
    if (name && !copy)
        return SIZE_MAX;
    t->node[t->n] = (struct hl_region_node){copy, SIZE_MAX, 0, 0, depth};
    return t->n++;
}

/* The child of that name, made behind its siblings if it is not there. */
static size_t child(struct hl_region_tree *t, size_t parent, const char *seg, size_t len)
{
    size_t last = 0;
    for (size_t i = t->node[parent].first; i; i = t->node[i].next) {
        if (!strncmp(t->node[i].name, seg, len) && !t->node[i].name[len])
            return i;
        last = i;
    }
    size_t made = new_node(t, seg, len, t->node[parent].depth + 1);
    if (made == SIZE_MAX)
        return made;
    if (last)
        t->node[last].next = made;
    else
        t->node[parent].first = made;
    return made;
}

static int add_path(struct hl_region_tree *t, const char *path, size_t idx)
{
    size_t at = 0, node = 0, len;
    const char *seg;
    while (hl_path_segment(path, &at, &seg, &len)) {
        node = child(t, node, seg, len);
        if (node == SIZE_MAX)
            return -1;
    }
    t->node[node].path = idx;
    return 0;
}

int hl_region_tree_init(struct hl_region_tree *t, const struct hl_catalog *c)
{
    memset(t, 0, sizeof *t);
    int bad = new_node(t, NULL, 0, 0) == SIZE_MAX;
    for (size_t i = 0; i < c->paths.n && !bad; i++)
        bad = add_path(t, c->paths.name[i], i);
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
