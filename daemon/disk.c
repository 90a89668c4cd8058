/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes; see disk.h.
 */
#include "disk.h"

static void start(struct hl_lane *l);

static void work(void *ctx)
{
    const struct hl_lane *l = ctx;
    for (struct hl_task *t = l->running; t; t = t->next)
        t->work(t);
}

static void done(void *ctx)
{
    struct hl_lane *l = ctx;
    struct hl_task *t = l->running, *next;
    for (; t; t = next) {
        next = t->next;
        t->done(t);
    }
    l->running = NULL;
    if (l->first)
        start(l);
}

static void start(struct hl_lane *l)
{
    l->running = l->first;
    l->first = NULL;
    l->end = &l->first;
    if (hl_loop_work(l->loop, work, done, l)) { /* no memory: the loop must wait */
        work(l);
        done(l);
    }
}

void hl_lane_init(struct hl_lane *l, struct hl_loop *loop)
{
    *l = (struct hl_lane){.loop = loop};
    l->end = &l->first;
}

void hl_lane_add(struct hl_lane *l, struct hl_task *t)
{
    t->next = NULL;
    *l->end = t;
    l->end = &t->next;
    if (!l->running)
        start(l);
}

int hl_lane_is_idle(const struct hl_lane *l)
{
    return !l->running && !l->first;
}
