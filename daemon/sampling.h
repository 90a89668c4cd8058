/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of the processes alive, a slice of them in each turn; and, each second
 * while there is something to do, tidying: ended processes are folded, memory
 * that is not in use goes back.
 */
#ifndef HL_SAMPLING_H
#define HL_SAMPLING_H

#include "daemon.h"

/* The interval has changed, or the first process has come. */
void hl_sampling_set(struct hl_daemon *d);
/* A process is alive now. */
void hl_sampling_met(struct hl_process *p);
/* Its pid is known: its end is watched for and it is sampled, now or, when very many
 * come at once, as soon as they were answered. */
void hl_sampling_meet(struct hl_process *p);
/* Something was used that will have to be given back. */
void hl_tidy_soon(struct hl_daemon *d);

/* Timers. */
void hl_sampling_on_timer(void *daemon);
void hl_sampling_on_fresh(void *daemon); /* those that were never sampled */
void hl_tidy_on_timer(void *daemon);

#endif
