/* SPDX-License-Identifier: Apache-2.0
 *
 * Region timers, one set a thread.  Entering and leaving take no lock: the
 * owner writes under a sequence counter (odd while it writes), and who ends a
 * frame reads.  Sums only ever grow; a frame's share is the difference of two
 * readings, so nothing is reset, nothing lost, and a thread that was not read
 * in time comes with the next frame.
 *
 * A reading must be of one instant, also while the owner goes on.  So each
 * boundary of a frame has a number, the epoch, odd inside a frame; the owner's
 * first step in a new epoch sets a copy of its state aside for the reader.
 */
#ifndef HL_CLIENT_TIMER_H
#define HL_CLIENT_TIMER_H

#include "sys.h"

#include <stdint.h>

enum { HL_DEPTH_MAX = 64, HL_PUSH_SLOTS = 64 };

struct hl_sum { /* of one region, integer nanoseconds */
    uint64_t inclusive, exclusive;
};
struct hl_region {
    struct hl_sum sum;
    uint64_t n_open; /* the owner's: a region inside itself counts once */
};
struct hl_open {
    uint64_t start, inner; /* inner: time of what was closed inside it */
    uint64_t region;
};
struct hl_stack {
    uint64_t depth, last; /* last: time of the latest leave */
    struct hl_open open[HL_DEPTH_MAX];
};

struct hl_pushed { /* path found for a name pushed inside a region */
    uint32_t parent, region, len;
    const char *text;
};

struct hl_thread {
    /* The owner's alone. */
    uint64_t fast_epoch; /* its epoch if that is inside a frame, else 0 */
    uint32_t n_known;    /* handles below need no look at the session */
    uint32_t cap;
    struct hl_region *region;
    struct hl_pushed pushed[HL_PUSH_SLOTS];
    /* Written by the owner, read at boundaries. */
    uint64_t seq, epoch;
    struct hl_stack stack, aside;
    struct hl_sum *sum_aside;
    uint32_t n_aside;
    /* The reader's, under the names lock; read_epoch also by the owner. */
    uint64_t read_epoch, read_seq;
    struct hl_sum *read;
    /* Both, under the names lock. */
    uint64_t session; /* whose regions these are */
    int in_use;
    struct hl_thread *next;
};

/* This thread's timers, NULL before its first region.  Initial-exec: eight
 * bytes of the static block, which a library opened later may still have. */
extern __thread struct hl_thread *hl_self __attribute__((tls_model("initial-exec")));
/* Number of the latest boundary. */
extern uint64_t hl_epoch;

#define hl_own(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define hl_see(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)
#define hl_set(field, v) __atomic_store_n(&(field), (v), __ATOMIC_RELEASE)

/* Owner: the steps; the caller has checked depth and region.  The clock is read
 * while the counter is odd: a reader that saw the state before the step then
 * knows that the step is not older than its own time (see settle in timer.c). */
static inline void hl_timer_enter(struct hl_thread *t, uint32_t region)
{
    uint64_t seq = hl_own(t->seq), d = hl_own(t->stack.depth);
    struct hl_open *o = &t->stack.open[d];
    t->region[region].n_open++;
    hl_set(t->seq, seq + 1);
    uint64_t now = (uint64_t)hl_sys_now();
    hl_set(o->region, region);
    hl_set(o->inner, 0);
    hl_set(o->start, now);
    hl_set(t->stack.depth, d + 1);
    hl_set(t->seq, seq + 2);
}

static inline void hl_timer_leave(struct hl_thread *t)
{
    uint64_t seq = hl_own(t->seq), d = hl_own(t->stack.depth) - 1;
    struct hl_open *o = &t->stack.open[d];
    struct hl_region *r = &t->region[hl_own(o->region)];
    hl_set(t->seq, seq + 1);
    uint64_t now = (uint64_t)hl_sys_now(), took = now - hl_own(o->start);
    hl_set(r->sum.exclusive, hl_own(r->sum.exclusive) + took - hl_own(o->inner));
    if (--r->n_open == 0)
        hl_set(r->sum.inclusive, hl_own(r->sum.inclusive) + took);
    if (d)
        hl_set(o[-1].inner, hl_own(o[-1].inner) + took);
    hl_set(t->stack.last, now);
    hl_set(t->stack.depth, d);
    hl_set(t->seq, seq + 2);
}

/* Owner, with the names lock: timers of this thread, for n_regions handles of
 * a session. NULL: no memory. */
struct hl_thread *hl_timer_self(uint64_t session, uint32_t n_regions);
/* Owner: take note of a new epoch. */
void hl_timer_turn(struct hl_thread *t, uint64_t epoch);

/* Reader, with the names lock: add to total[0..n) what all threads of a session
 * did since the last reading, open regions up to now; total NULL: forget it.
 * scratch: n sums. */
void hl_timer_read(uint64_t session, uint64_t epoch, uint64_t now, struct hl_sum *total,
                   struct hl_sum *scratch, uint32_t n);

/* At load: what to do at a thread's end (it gets the thread's timers). */
int hl_timer_setup(void (*at_thread_end)(void *));
/* Owner, at its thread's end, with the names lock. */
void hl_timer_release(struct hl_thread *t);
/* In a forked child: no thread has timers. */
void hl_timer_forget(void);

#endif
