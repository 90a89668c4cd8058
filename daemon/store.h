/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of the spools: its lock, what is found there at start, writing to
 * the disk, and what goes when its time has come.
 */
#ifndef HL_STORE_H
#define HL_STORE_H

#include "daemon.h"
#include "err.h"

/* Make (if need be) and open the folder and take its lock.  -1: another
 * collector has it, or it cannot be used. */
int hl_store_open(struct hl_daemon *d, struct hl_err *e);
/* Take over the spools that are there; what cannot be read is logged. */
void hl_store_restore(struct hl_daemon *d);
void hl_store_close(struct hl_daemon *d);

/* Timers. */
void hl_store_on_retry(void *daemon);  /* the disk did not take something */
void hl_store_on_sync(void *daemon);   /* sync_interval */
void hl_store_on_expire(void *daemon); /* job_keep, job_keep_read */
void hl_store_set_expire_timer(struct hl_daemon *d);
/* All spools to the disk, now. */
void hl_store_sync_all(struct hl_daemon *d);

#endif
