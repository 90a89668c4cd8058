/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop: descriptors, timers, signals, and work for the thread pool.
 * loop.c alone knows libuv.  Everything runs in one thread but the work
 * functions.  A callback does a bounded piece and returns; descriptors are
 * level-triggered, so who has more is called again behind the others.
 */
#ifndef HL_LOOP_H
#define HL_LOOP_H

#include <stdint.h>

struct hl_loop;
struct hl_watch;
struct hl_timer;
struct hl_signal;

/* NULL: no memory or no descriptor left. */
struct hl_loop *hl_loop_new(void);
/* Run until hl_loop_stop; 0. */
int hl_loop_run(struct hl_loop *l);
void hl_loop_stop(struct hl_loop *l);
/* Go on while busy says so, at most ms. 0, or -1: it is still busy. */
int hl_loop_wait(struct hl_loop *l, int (*busy)(void *ctx), void *ctx, uint64_t ms);
/* Called before the loop waits and after it has waited, in each turn. */
int hl_loop_on_turn(struct hl_loop *l, void (*fn)(void *ctx), void *ctx);
/* Let closed handles go and free the loop.  0, or -1: a handle was forgotten. */
int hl_loop_free(struct hl_loop *l);

/* How long its turns take; delay.h. */
struct hl_delay;
const struct hl_delay *hl_loop_delay(const struct hl_loop *l);

enum { HL_READABLE = 1, HL_WRITABLE = 2 };

/* A descriptor, which stays the caller's and must outlive the watch.  events 0:
 * nothing for now.  NULL: the descriptor cannot be watched, or no memory. */
typedef void hl_watch_fn(void *ctx, int events);
struct hl_watch *hl_watch_new(struct hl_loop *l, int fd, hl_watch_fn *fn, void *ctx);
int hl_watch_set(struct hl_watch *w, int events);
/* Ends at once, before the descriptor is closed; the memory goes at the end of the
 * turn, and then gone (may be NULL) is called.  NULL is nothing. */
void hl_watch_free(struct hl_watch *w, void (*gone)(void *ctx));

typedef void hl_timer_fn(void *ctx);
struct hl_timer *hl_timer_new(struct hl_loop *l, hl_timer_fn *fn, void *ctx);
/* After delay_ms, then each repeat_ms (0: once).  Replaces what was set. */
void hl_timer_set(struct hl_timer *t, uint64_t delay_ms, uint64_t repeat_ms);
void hl_timer_stop(struct hl_timer *t);
int hl_timer_is_set(const struct hl_timer *t);
void hl_timer_free(struct hl_timer *t);

typedef void hl_signal_fn(void *ctx, int number);
struct hl_signal *hl_signal_new(struct hl_loop *l, int number, hl_signal_fn *fn,
                                void *ctx);
void hl_signal_free(struct hl_signal *s);

/* work runs in the pool, then done in the loop's thread.  0 or -1. */
int hl_loop_work(struct hl_loop *l, void (*work)(void *ctx), void (*done)(void *ctx),
                 void *ctx);

#endif
