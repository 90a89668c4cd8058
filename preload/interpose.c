/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry points that the program calls instead of the C library's: the
 * allocation functions.  A release is counted before it happens and an
 * allocation after it, so that no other thread can count the same block in
 * between.  Ends and new processes are in leave.c.
 */
#include "count.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#define OPEN __attribute__((visibility("default")))

/* Is a next function unknown, and cannot be found now? */
#define ASLEEP(f) (HL_RARE(!hl_next.f) && hl_wake() != 0)

OPEN void *malloc(size_t n)
{
    if (ASLEEP(malloc))
        return hl_arena_take(16, n);
    return hl_count_alloc(hl_next.malloc(n));
}

OPEN void free(void *p)
{
    if (hl_in_arena(p) || ASLEEP(free))
        return;
    if (p)
        hl_count_free(p);
    hl_next.free(p);
}

OPEN void *calloc(size_t a, size_t b)
{
    size_t n;
    if (ASLEEP(calloc))
        return __builtin_mul_overflow(a, b, &n) ? NULL : hl_arena_take(16, n);
    return hl_count_alloc(hl_next.calloc(a, b));
}

OPEN void *realloc(void *p, size_t n)
{
    if (hl_in_arena(p))
        return hl_arena_move(p, n);
    if (ASLEEP(realloc))
        return p ? NULL : hl_arena_take(16, n);
    int64_t old = p ? (int64_t)hl_next.usable(p) : 0;
    void *q = hl_next.realloc(p, n);
    if (HL_RARE(!q && (n || !p)))
        return NULL; /* failed: the old block is still in use */
    return hl_count_realloc(q, old, p != NULL);
}

/* Not passed on: the C library's own calls realloc by its public name. */
OPEN void *reallocarray(void *p, size_t a, size_t b)
{
    size_t n;
    if (__builtin_mul_overflow(a, b, &n)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(p, n);
}

OPEN int posix_memalign(void **out, size_t align, size_t n)
{
    if (ASLEEP(posix_memalign)) {
        void *p = hl_arena_take(align, n);
        if (p)
            *out = p;
        return p ? 0 : ENOMEM;
    }
    int e = hl_next.posix_memalign(out, align, n);
    if (e == 0)
        hl_count_alloc(*out);
    return e;
}

OPEN void *aligned_alloc(size_t align, size_t n)
{
    if (ASLEEP(aligned_alloc))
        return hl_arena_take(align, n);
    return hl_count_alloc(hl_next.aligned_alloc(align, n));
}

OPEN void *memalign(size_t align, size_t n)
{
    if (ASLEEP(memalign))
        return hl_arena_take(align, n);
    return hl_count_alloc(hl_next.memalign(align, n));
}

OPEN void *valloc(size_t n)
{
    if (ASLEEP(valloc))
        return hl_arena_take(4096, n);
    return hl_count_alloc(hl_next.valloc(n));
}

OPEN void *pvalloc(size_t n)
{
    if (ASLEEP(pvalloc))
        return hl_arena_take(4096, n);
    return hl_count_alloc(hl_next.pvalloc(n));
}
