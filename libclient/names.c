/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of names with open addressing; see names.h.
 */
#include "names.h"

#include <string.h>

static uint32_t *slots(const struct hl_name_list *l)
{
    return (uint32_t *)(void *)l->index.p;
}

static uint32_t mask(const struct hl_name_list *l)
{
    return (uint32_t)(l->index.cap / sizeof(uint32_t)) - 1;
}

uint32_t hl_name_find(const struct hl_name_list *l, const char *s, size_t len)
{
    uint32_t hash = hl_name_hash(HL_NAME_HASH, s, len), i;
    if (!l->index.cap)
        return HL_NAME_NONE;
    for (i = hash & mask(l); slots(l)[i]; i = (i + 1) & mask(l)) {
        const struct hl_name *n = hl_name_at(l, slots(l)[i] - 1);
        if (n->hash == hash && n->len == len && !memcmp(n->text, s, len))
            return slots(l)[i] - 1;
    }
    return HL_NAME_NONE;
}

static void place(struct hl_name_list *l, uint32_t number)
{
    uint32_t i = hl_name_at(l, number)->hash & mask(l);
    while (slots(l)[i])
        i = (i + 1) & mask(l);
    slots(l)[i] = number + 1;
}

/* The index is at most half full; its size is a power of two. */
static int grow_index(struct hl_name_list *l)
{
    struct hl_bytes old = l->index;
    size_t need = old.cap ? 2 * old.cap : 4096;
    if (2 * ((size_t)l->n + 1) * sizeof(uint32_t) <= old.cap)
        return 0;
    l->index = (struct hl_bytes){NULL, 0, 0};
    if (hl_bytes_reserve(&l->index, need)) {
        l->index = old;
        return -1;
    }
    for (uint32_t i = 0; i < l->n; i++)
        place(l, i);
    hl_bytes_free(&old);
    return 0;
}

int hl_name_add(struct hl_name_list *l, const char *s, size_t len)
{
    struct hl_name n = {.len = (uint32_t)len, .hash = hl_name_hash(HL_NAME_HASH, s, len)};
    if (grow_index(l) || hl_bytes_reserve(&l->names, l->names.n + sizeof n))
        return -1;
    n.text = hl_arena_text(&l->texts, s, len);
    if (!n.text || hl_bytes_add(&l->names, &n, sizeof n))
        return -1;
    place(l, l->n++);
    return 0;
}

void hl_names_free(struct hl_name_list *l)
{
    hl_bytes_free(&l->names);
    hl_bytes_free(&l->index);
    hl_arena_free(&l->texts);
    l->n = 0;
}
