/* SPDX-License-Identifier: Apache-2.0
 *
 * What is due next: a heap of times, each of them part of something else, whose
 * owner it stays.
 */
#ifndef HL_DUE_H
#define HL_DUE_H

#include <stddef.h>
#include <stdint.h>

struct hl_due {
    int64_t at_ns;
    size_t place; /* in the heap, from 1; 0: not in it */
};

struct hl_due_heap { /* zeroed: empty */
    struct hl_due **at;
    size_t n, cap;
};

/* Put it in, or move it to another time.  0, or -1: no memory, it is not in. */
int hl_due_put(struct hl_due_heap *h, struct hl_due *d, int64_t at_ns);
/* Take it out, if it is in. */
void hl_due_remove(struct hl_due_heap *h, struct hl_due *d);
/* The earliest, or NULL. */
struct hl_due *hl_due_first(const struct hl_due_heap *h);
void hl_due_fini(struct hl_due_heap *h);

/* The first tick of the row at, at + interval, ... that lies behind now: those that
 * were missed are left out. */
int64_t hl_due_next(int64_t at_ns, int64_t interval_ns, int64_t now_ns);

#endif
