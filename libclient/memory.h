/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the client library: mappings, never the program's malloc, whose
 * calls the heap agent counts as the program's own.  Not thread-safe: each
 * object has the lock of its holder.
 */
#ifndef HL_CLIENT_MEMORY_H
#define HL_CLIENT_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed pages, or NULL. */
void *hl_map_new(size_t size);
void hl_map_free(void *p, size_t size); /* NULL: nothing */

/* A growing array of bytes; a zeroed structure is empty. */
struct hl_bytes {
    uint8_t *p;
    size_t n, cap;
};
/* Room for n bytes in all; contents kept, new bytes zero. 0 or -1. */
int hl_bytes_reserve(struct hl_bytes *b, size_t n);
int hl_bytes_add(struct hl_bytes *b, const void *p, size_t n);
void hl_bytes_free(struct hl_bytes *b);

/* Texts that stay where they are until all are freed. */
struct hl_arena {
    struct hl_arena_chunk *chunk;
};
/* Copy of n bytes with a NUL behind, or NULL. */
char *hl_arena_text(struct hl_arena *a, const char *s, size_t n);
void hl_arena_free(struct hl_arena *a);

#endif
