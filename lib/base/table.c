/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probes; see table.h.
 */
#include "table.h"

#include <stdlib.h>
#include <string.h>

static char gone_mark;
#define GONE ((void *)&gone_mark)

/* FNV-1a with a last mix.  How many keys a peer can bring is bounded by the
 * limits of its uid, so no keyed hash is needed. */
static uint64_t hash_of(const void *key, size_t n)
{
    const unsigned char *p = key;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u;
    h ^= h >> 32;
    return h * 0x9e3779b97f4a7c15u;
}

void hl_table_fini(struct hl_table *t)
{
    for (size_t i = 0; i < t->cap; i++)
        if (t->slot[i].key && t->slot[i].key != GONE)
            free(t->slot[i].key);
    free(t->slot);
    memset(t, 0, sizeof *t);
}

static size_t start_of(const struct hl_table *t, uint64_t hash)
{
    return (size_t)(hash >> 20) & (t->cap - 1);
}

static struct hl_table_slot *find(const struct hl_table *t, uint64_t hash,
                                  const void *key, size_t n)
{
    if (!t->cap)
        return NULL;
    for (size_t i = start_of(t, hash);; i = (i + 1) & (t->cap - 1)) {
        struct hl_table_slot *s = &t->slot[i];
        if (!s->key)
            return NULL;
        if (s->key != GONE && s->hash == hash && s->key_bytes == n &&
            (!n || memcmp(s->key, key, n) == 0))
            return s;
    }
}

static struct hl_table_slot *free_slot(struct hl_table *t, uint64_t hash)
{
    size_t i = start_of(t, hash);
    while (t->slot[i].key && t->slot[i].key != GONE)
        i = (i + 1) & (t->cap - 1);
    return &t->slot[i];
}

enum { SMALLEST = 16 };

/* As many slots as the entries need, none of them removed. */
static int fit(struct hl_table *t)
{
    struct hl_table other = {.cap = SMALLEST};
    while (other.cap < 4 * (t->n + 1))
        other.cap *= 2;
    other.slot = calloc(other.cap, sizeof *other.slot);
    if (!other.slot)
        return -1;
    for (size_t i = 0; i < t->cap; i++)
        if (t->slot[i].key && t->slot[i].key != GONE)
            *free_slot(&other, t->slot[i].hash) = t->slot[i];
    free(t->slot);
    t->slot = other.slot;
    t->cap = other.cap;
    t->used = t->n;
    return 0;
}

/* At most half of the slots are in use, removed ones included, so that every
 * probe ends. */
static int make_room(struct hl_table *t)
{
    return 2 * (t->used + 1) <= t->cap ? 0 : fit(t);
}

void hl_table_shrink(struct hl_table *t)
{
    if (t->cap > SMALLEST && 16 * (t->n + 1) < t->cap)
        fit(t); /* without memory it stays as it is */
}

int hl_table_put(struct hl_table *t, const void *key, size_t n, void *value)
{
    uint64_t hash = hash_of(key, n);
    struct hl_table_slot *s = find(t, hash, key, n);
    if (s) {
        s->value = value;
        return 0;
    }
    void *copy = malloc(n ? n : 1);
    if (!copy || make_room(t)) {
        free(copy);
        return -1;
    }
    if (n)
        memcpy(copy, key, n);
    s = free_slot(t, hash);
    t->used += s->key != GONE;
    *s = (struct hl_table_slot){hash, copy, n, value};
    t->n++;
    return 0;
}

void *hl_table_get(const struct hl_table *t, const void *key, size_t n)
{
    const struct hl_table_slot *s = find(t, hash_of(key, n), key, n);
    return s ? s->value : NULL;
}

void *hl_table_remove(struct hl_table *t, const void *key, size_t n)
{
    struct hl_table_slot *s = find(t, hash_of(key, n), key, n);
    if (!s)
        return NULL;
    free(s->key);
    s->key = GONE;
    t->n--;
    return s->value;
}

void *hl_table_next(const struct hl_table *t, size_t *at)
{
    while (*at < t->cap) {
        const struct hl_table_slot *s = &t->slot[(*at)++];
        if (s->key && s->key != GONE)
            return s->value;
    }
    return NULL;
}
