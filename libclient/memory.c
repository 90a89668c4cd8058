/* SPDX-License-Identifier: Apache-2.0
 *
 * Mappings as growing arrays and as an arena; see memory.h.
 */
#include "memory.h"

#include "bound.h"
#include "sys.h"

#include <string.h>

enum { PAGE = 4096, CHUNK = 65536 };

void *hl_map_new(size_t size)
{
    void *p = hl_sys_mmap(size, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    return p == MAP_FAILED ? NULL : p;
}

void hl_map_free(void *p, size_t size)
{
    if (p)
        munmap(p, size);
}

int hl_bytes_reserve(struct hl_bytes *b, size_t n)
{
    size_t cap = b->cap ? b->cap : PAGE;
    if (n <= b->cap)
        return 0;
    while (cap < n)
        if (__builtin_mul_overflow(cap, (size_t)2, &cap))
            return -1;
    uint8_t *p = hl_map_new(cap);
    if (!p)
        return -1;
    if (b->cap)
        memcpy(p, b->p, b->cap);
    hl_map_free(b->p, b->cap);
    b->p = p;
    b->cap = cap;
    return 0;
}

int hl_bytes_add(struct hl_bytes *b, const void *p, size_t n)
{
    if (n > SIZE_MAX - b->n || hl_bytes_reserve(b, b->n + n))
        return -1;
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    return 0;
}

void hl_bytes_free(struct hl_bytes *b)
{
    hl_map_free(b->p, b->cap);
    *b = (struct hl_bytes){NULL, 0, 0};
}

struct hl_arena_chunk {
    struct hl_arena_chunk *next;
    size_t used;
    char text[CHUNK - sizeof(void *) - sizeof(size_t)];
};
_Static_assert(sizeof(struct hl_arena_chunk) == CHUNK, "whole pages");

char *hl_arena_text(struct hl_arena *a, const char *s, size_t n)
{
    struct hl_arena_chunk *c = a->chunk;
    if (n >= sizeof c->text)
        return NULL;
    if (!c || sizeof c->text - c->used < n + 1) {
        c = hl_map_new(sizeof *c);
        if (!c)
            return NULL;
        c->next = a->chunk;
        a->chunk = c;
    }
    char *to = c->text + c->used;
    memcpy(to, s, n);
    to[n] = 0;
    c->used += n + 1;
    return to;
}

void hl_arena_free(struct hl_arena *a)
{
    while (a->chunk) {
        struct hl_arena_chunk *c = a->chunk;
        a->chunk = c->next;
        hl_map_free(c, sizeof *c);
    }
}
