/* SPDX-License-Identifier: Apache-2.0
 *
 * Checked arithmetic on sizes that somebody else named: a peer, a file, a
 * header.  Each function returns 0 and stores the result, or returns -1 and
 * leaves *out alone.  Pure; safe in any thread and in signal handlers.
 */
#ifndef HL_BOUND_H
#define HL_BOUND_H

#include <stddef.h>
#include <stdint.h>

static inline int hl_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return -1;
    *out = r;
    return 0;
}

static inline int hl_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return -1;
    *out = r;
    return 0;
}

/* strnlen, so that the pure layer needs nothing of the C library but the four
 * memory functions. */
static inline size_t hl_text_length(const char *s, size_t max)
{
    size_t n = 0;
    while (n < max && s[n])
        n++;
    return n;
}

/* A 64-bit value as a size of this machine's memory. */
static inline int hl_narrow_size(uint64_t v, size_t *out)
{
    if (v > SIZE_MAX)
        return -1;
    *out = (size_t)v;
    return 0;
}

#endif
