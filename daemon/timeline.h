/* SPDX-License-Identifier: Apache-2.0
 *
 * Timelines: points of the heap and the resident set of each process that asks for
 * them, written beside its spool (points.h).  A process that does not ask costs
 * nothing.
 */
#ifndef HL_TIMELINE_H
#define HL_TIMELINE_H

#include "daemon.h"
#include "messages.h"

struct hl_timeline;

/* A hello wants a point each wish_ns; 0: none.  The first is taken at once; of
 * several wishes the shortest counts, and min_interval bounds it. */
void hl_timeline_ask(struct hl_process *p, int64_t wish_ns);
/* The same by the hellos that are known of it. */
void hl_timeline_meet(struct hl_process *p);
/* The process has ended and its record is made: that is the last point. */
void hl_timeline_end(struct hl_process *p);
/* Its file may be gone with its spool. */
void hl_timeline_begin_again(struct hl_process *p);
/* Points that were taken of it, whatever became of them. */
uint64_t hl_timeline_n_taken(const struct hl_process *p);
/* Nothing of it waits for the disk. */
int hl_timeline_is_idle(const struct hl_process *p);
void hl_timeline_free(struct hl_process *p);

/* What waits goes to the disk: of one job, of all.  n_point_writes tells when it is
 * there. */
void hl_timeline_flush_job(struct hl_job *j);
void hl_timeline_flush_all(struct hl_daemon *d);

/* Timer. */
void hl_timeline_on_timer(void *daemon);

#endif
