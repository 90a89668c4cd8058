/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampling in slices and tidying up; see sampling.h.
 */
#include "sampling.h"

#include "clock.h"
#include "keep.h"
#include "process.h"
#include "store.h"

#include <malloc.h>

enum {
    SLICE = 128,        /* processes of one turn */
    FRESH_MS = 100,     /* in a storm hellos are answered first */
    FRESH_AT_ONCE = 16, /* hellos within that time are no storm */
    FRESH_AGAIN_MS = 5, /* between two slices of new ones */
    FOLD_AFTER_S = 2,   /* how a process ended may still be told */
    FOLD_AT_ONCE = 1024,
    TRIM_AFTER = 64 /* processes folded */
};

/* ---- samples ---- */

/* All of them once in an interval, in as many slices as that takes. */
void hl_sampling_set(struct hl_daemon *d)
{
    uint64_t ms = (uint64_t)(d->set.sample_interval_ns / 1000000);
    size_t slices = d->list[HL_PROCESS_ALIVE].n / SLICE + 1;
    if (!d->list[HL_PROCESS_ALIVE].n)
        return;
    ms = ms / slices ? ms / slices : 1;
    hl_timer_set(d->sample_timer, ms, ms);
}

void hl_sampling_met(struct hl_process *p)
{
    struct hl_daemon *d = p->d;
    if (!d->fresh_next)
        d->fresh_next = p;
    d->n_fresh++;
    if (!hl_timer_is_set(d->fresh_timer))
        hl_timer_set(d->fresh_timer, FRESH_MS, 0);
    if (!hl_timer_is_set(d->sample_timer))
        hl_sampling_set(d);
}

static void meet(struct hl_process *p)
{
    hl_process_watch(p);
    hl_keep_descriptors(p);
    hl_process_sample(p, 1);
}

void hl_sampling_meet(struct hl_process *p)
{
    struct hl_daemon *d = p->d;
    if (d->n_fresh > FRESH_AT_ONCE && d->fresh_next) {
        /* It may stand before those that wait: one that has come back. */
        hl_process_set_state(p, p->state);
        return;
    }
    meet(p);
    if (d->fresh_next == p)
        d->fresh_next = p->next;
}

void hl_sampling_on_timer(void *daemon)
{
    struct hl_daemon *d = daemon;
    struct hl_process *p = d->sampled_next;
    if (!d->list[HL_PROCESS_ALIVE].n) {
        hl_timer_stop(d->sample_timer);
        return;
    }
    if (!p) { /* from the start, with as many slices as there are now */
        hl_sampling_set(d);
        p = d->list[HL_PROCESS_ALIVE].first;
    }
    for (int i = 0; p && i < SLICE; i++, p = p->next)
        hl_process_sample(p, 0);
    d->sampled_next = p;
    if (p)
        return;
    hl_keep_samples(d);
    hl_store_check(d); /* a folder that is gone is soon known */
}

void hl_sampling_on_fresh(void *daemon)
{
    struct hl_daemon *d = daemon;
    struct hl_process *p = d->fresh_next;
    for (int i = 0; p && i < SLICE; i++, p = p->next)
        meet(p);
    d->fresh_next = p;
    d->n_fresh = 0;
    if (p)
        hl_timer_set(d->fresh_timer, FRESH_AGAIN_MS, 0);
}

/* ---- tidying ---- */

void hl_tidy_soon(struct hl_daemon *d)
{
    if (!hl_timer_is_set(d->tidy_timer))
        hl_timer_set(d->tidy_timer, 1000, 1000);
}

static size_t fold_some(struct hl_daemon *d)
{
    const struct hl_process_list *l = &d->list[HL_PROCESS_ENDED];
    int64_t before = hl_mono_ns() - (int64_t)FOLD_AFTER_S * 1000000000;
    size_t had = l->n;
    struct hl_process *next;
    int left = FOLD_AT_ONCE;
    for (struct hl_process *p = l->first; p && left; p = next, left--) {
        next = p->next;
        if (p->end_seen_ns < before)
            hl_process_fold(p);
    }
    return had - l->n;
}

void hl_tidy_on_timer(void *daemon)
{
    struct hl_daemon *d = daemon;
    size_t folded = fold_some(d);
    int idle = hl_append_tick(d);
    d->n_folded += folded;
    if (d->n_folded >= TRIM_AFTER && folded < FOLD_AT_ONCE) {
        hl_table_shrink(&d->users);
        hl_table_shrink(&d->jobs);
        hl_table_shrink(&d->by_image);
        hl_table_shrink(&d->by_pid);
        malloc_trim(0);
        d->n_folded = 0;
    }
    if (idle && !d->list[HL_PROCESS_ENDED].n)
        hl_timer_stop(d->tidy_timer);
}
