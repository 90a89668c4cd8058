/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane: work that may wait for the disk, done in the thread pool one after the
 * other in the order it was added, while the loop goes on.  Each task's done runs
 * in the loop's thread.
 */
#ifndef HL_DISK_H
#define HL_DISK_H

#include "loop.h"

#include <stddef.h>

struct hl_task {
    void (*work)(struct hl_task *t); /* in the pool; alone in its lane */
    void (*done)(struct hl_task *t); /* in the loop; may free the task */
    struct hl_task *next;
};

struct hl_lane {
    struct hl_loop *loop;
    struct hl_task *first, **end; /* waiting */
    struct hl_task *running;      /* a list, taken by the pool at once */
};

void hl_lane_init(struct hl_lane *l, struct hl_loop *loop);
void hl_lane_add(struct hl_lane *l, struct hl_task *t);
/* Nothing waits or runs. */
int hl_lane_is_idle(const struct hl_lane *l);

#endif
