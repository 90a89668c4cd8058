/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of one and of several threads, as count.c uses it; how is told at the head
 * of peak.c.  No function here waits for another thread, and all may be interrupted
 * by a signal handler that comes to them as well.
 */
#ifndef HL_PEAK_H
#define HL_PEAK_H

#include "agent.h"

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define HL_FAR (INT64_MAX / 2) /* beyond any net, and safe to subtract */

/* A new page: its first thread counts in s, alone. */
void hl_peak_begin(struct hl_heap_slot *s);

/* The next operation in s comes to hl_peak_reckon. */
void hl_peak_force(struct hl_heap_slot *s);

/* A thread has taken s, which lies in the page's slots in use; to be called before it
 * counts anything there.  Ends the time of the first thread alone. */
void hl_peak_join(const struct hl_heap_slot *s);

/* The net of this thread's slot is beyond its limits: tell the others, raise the peak
 * where it is one, set new limits. */
void hl_peak_reckon(struct hl_heap_slot *s);

/* The same for the last slot, which threads share: after each operation there. */
void hl_peak_reckon_shared(struct hl_heap_slot *s);

/* Call look while every other thread finishes at most the operation it is in.  0: they
 * may have gone on, what was seen need not be of one instant. */
int hl_peak_hold(void (*look)(void *), void *arg);

#endif
