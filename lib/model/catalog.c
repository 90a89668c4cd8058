/* SPDX-License-Identifier: Apache-2.0
 *
 * Catalogs of names: lookup, union, mapping of cells; see catalog.h.
 */
#include "catalog.h"

#include "utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void names_fini(struct hl_names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->name[i]);
    free(l->name);
    free(l->slot);
    memset(l, 0, sizeof *l);
}

void hl_catalog_fini(struct hl_catalog *c)
{
    names_fini(&c->metrics);
    names_fini(&c->paths);
}

static uint64_t hash(const char *s, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 1099511628211u;
    return h ^ h >> 29;
}

/* Slot that holds the name, or the empty one where it would go. */
static uint32_t *find_slot(const struct hl_names *l, const char *s, size_t n)
{
    size_t i = hash(s, n) & (l->n_slots - 1);
    while (l->slot[i] != UINT32_MAX) {
        const char *have = l->name[l->slot[i]];
        if (!strncmp(have, s, n) && !have[n])
            break;
        i = (i + 1) & (l->n_slots - 1);
    }
    return &l->slot[i];
}

static int rehash(struct hl_names *l, size_t n_slots)
{
    uint32_t *slot = malloc(n_slots * sizeof *slot);
    if (!slot)
        return -1;
    free(l->slot);
    l->slot = slot;
    l->n_slots = n_slots;
    memset(slot, 0xff, n_slots * sizeof *slot);
    for (size_t i = 0; i < l->n; i++)
        *find_slot(l, l->name[i], strlen(l->name[i])) = (uint32_t)i;
    return 0;
}

static int grow(struct hl_names *l)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        char **p = realloc(l->name, cap * sizeof *p);
        if (!p)
            return -1;
        l->name = p;
        l->cap = cap;
    }
    if (2 * (l->n + 1) > l->n_slots)
        return rehash(l, l->n_slots ? 2 * l->n_slots : 64);
    return 0;
}

size_t hl_names_find(const struct hl_names *l, const char *name, size_t len)
{
    if (!l->n_slots)
        return SIZE_MAX;
    uint32_t i = *find_slot(l, name, len);
    return i == UINT32_MAX ? SIZE_MAX : i;
}

int hl_names_add(struct hl_names *l, const char *name, size_t len, size_t *idx)
{
    size_t i = hl_names_find(l, name, len);
    if (i == SIZE_MAX) {
        if (l->n >= HL_CATALOG_NAMES_MAX || grow(l))
            return -1;
        char *copy = strndup(name, len);
        if (!copy)
            return -1;
        i = l->n++;
        l->name[i] = copy;
        *find_slot(l, name, len) = (uint32_t)i;
    }
    if (idx)
        *idx = i;
    return 0;
}

int hl_names_cut(struct hl_names *l, size_t n)
{
    if (n >= l->n)
        return 0;
    for (size_t i = n; i < l->n; i++)
        free(l->name[i]);
    l->n = n;
    return rehash(l, l->n_slots);
}

int hl_catalog_apply(struct hl_catalog *c, const struct hl_catalog_msg *m,
                     struct hl_err *e)
{
    struct hl_reader r = hl_reader_on(m->names, m->names_bytes);
    struct hl_str name;
    int is_path;
    if (m->first_metric != c->metrics.n || m->first_path != c->paths.n)
        return hl_fail(e, HL_ERR_FORMAT, "catalog %u does not continue its base", m->id);
    while (hl_catalog_next(&r, &is_path, &name)) {
        struct hl_names *l = is_path ? &c->paths : &c->metrics;
        size_t before = l->n;
        if (hl_names_add(l, name.p, name.n, NULL))
            return hl_fail(e, HL_ERR_FORMAT, "catalog %u: no memory, or too many names",
                           m->id);
        if (l->n == before)
            return hl_fail(e, HL_ERR_FORMAT, "catalog %u has a name twice", m->id);
    }
    return 0;
}

static int add_with_parents(struct hl_names *paths, const char *path)
{
    for (const char *s = strchr(path, '/'); s; s = strchr(s + 1, '/'))
        if (hl_names_add(paths, path, (size_t)(s - path), NULL))
            return -1;
    return hl_names_add(paths, path, strlen(path), NULL);
}

int hl_catalog_unite(struct hl_catalog *into, const struct hl_catalog *from)
{
    for (size_t i = 0; i < from->metrics.n; i++) {
        const char *s = from->metrics.name[i];
        if (hl_names_add(&into->metrics, s, strlen(s), NULL))
            return -1;
    }
    for (size_t i = 0; i < from->paths.n; i++)
        if (add_with_parents(&into->paths, from->paths.name[i]))
            return -1;
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int hl_catalog_sort_paths(struct hl_catalog *c)
{
    if (c->paths.n > 1)
        qsort(c->paths.name, c->paths.n, sizeof *c->paths.name, by_bytes);
    return c->paths.n ? rehash(&c->paths, c->paths.n_slots) : 0;
}

static int same_names(const struct hl_names *a, const struct hl_names *b)
{
    if (a->n != b->n)
        return 0;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->name[i], b->name[i]))
            return 0;
    return 1;
}

int hl_catalog_keep(struct hl_catalog **list, size_t *n, struct hl_catalog *c,
                    uint32_t *idx)
{
    for (size_t i = 0; i < *n; i++)
        if (same_names(&(*list)[i].metrics, &c->metrics) &&
            same_names(&(*list)[i].paths, &c->paths)) {
            *idx = (uint32_t)i;
            hl_catalog_fini(c);
            return 0;
        }
    struct hl_catalog *p = realloc(*list, (*n + 1) * sizeof *p);
    if (!p)
        return -1;
    *list = p;
    p[*n] = *c;
    memset(c, 0, sizeof *c);
    *idx = (uint32_t)(*n)++;
    return 0;
}

/* `parent` and a cleaned name behind it, as one that is not in the list yet. */
static int add_clean(struct hl_names *out, const char *parent, const char *name,
                     uint64_t *n_changed)
{
    struct hl_buf b = {0};
    int bad = (parent && hl_buf_printf(&b, "%s/", parent)) || hl_utf8_clean(&b, name);
    size_t n = b.n, start = parent ? strlen(parent) + 1 : 0;
    *n_changed += !bad && strcmp((char *)b.p + start, name) != 0;
    for (int k = 2;
         !bad && hl_names_find(out, (char *)b.p, strlen((char *)b.p)) != SIZE_MAX; k++) {
        b.n = n;
        bad = hl_buf_printf(&b, ".%d", k);
    }
    bad = bad || hl_names_add(out, (char *)b.p, strlen((char *)b.p), NULL);
    hl_buf_fini(&b);
    return bad ? -1 : 0;
}

int hl_catalog_clean(const struct hl_catalog *from, struct hl_catalog *out,
                     uint64_t *n_changed)
{
    int bad = 0;
    memset(out, 0, sizeof *out);
    *n_changed = 0;
    for (size_t i = 0; i < from->metrics.n && !bad; i++)
        bad = add_clean(&out->metrics, NULL, from->metrics.name[i], n_changed);
    for (size_t i = 0; i < from->paths.n && !bad; i++) {
        const char *path = from->paths.name[i], *cut = strrchr(path, '/');
        size_t up =
            cut ? hl_names_find(&from->paths, path, (size_t)(cut - path)) : SIZE_MAX;
        const char *parent = up < i ? out->paths.name[up] : NULL;
        bad = add_clean(&out->paths, parent, parent ? cut + 1 : path, n_changed);
    }
    if (bad)
        hl_catalog_fini(out);
    return bad ? -1 : 0;
}

size_t *hl_catalog_map(const struct hl_catalog *from, const struct hl_catalog *into)
{
    size_t n = hl_catalog_stride(from), at = 0;
    size_t *map = malloc((n ? n : 1) * sizeof *map);
    if (!map)
        return NULL;
    for (size_t i = 0; i < from->metrics.n; i++) {
        const char *s = from->metrics.name[i];
        map[at++] = hl_names_find(&into->metrics, s, strlen(s));
    }
    for (size_t i = 0; i < from->paths.n; i++) {
        const char *s = from->paths.name[i];
        size_t j = hl_names_find(&into->paths, s, strlen(s));
        size_t cell = j == SIZE_MAX ? j : into->metrics.n + 2 * j;
        map[at++] = cell;
        map[at++] = cell == SIZE_MAX ? cell : cell + 1;
    }
    for (size_t i = 0; i < n; i++)
        if (map[i] == SIZE_MAX) {
            free(map);
            return NULL;
        }
    return map;
}

int hl_path_segment(const char *path, size_t *at, const char **seg, size_t *len)
{
    if (!path[*at])
        return 0;
    *seg = path + *at;
    *len = strcspn(*seg, "/");
    *at += *len + ((*seg)[*len] == '/');
    return 1;
}
