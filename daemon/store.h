/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of the spools: its lock, what is found there at start, what happens
 * when the disk does not take something, and what goes when its time has come.
 */
#ifndef HL_STORE_H
#define HL_STORE_H

#include "daemon.h"
#include "err.h"

/* Make (if need be) and open the folder and take its lock.  -1: another
 * collector has it, or it cannot be used. */
int hl_store_open(struct hl_daemon *d, struct hl_err *e);
/* Open a folder of spools and lock it: descriptors, or -1 and *e. */
int hl_store_open_folder(const struct hl_daemon *d, int *root, int *lock,
                         struct hl_err *e);
/* Begin to look for spools that are there; hl_answer_scanned follows. */
int hl_store_restore(struct hl_daemon *d);
void hl_store_close(struct hl_daemon *d);

/* ---- files beside the spools; names are below the root ---- */

void hl_store_unlink(struct hl_daemon *d, const char *name);
/* Make an empty file; done gets 0 or a negative errno.  -1: no memory. */
int hl_store_touch(struct hl_daemon *d, const char *name,
                   void (*done)(void *ctx, int result), void *ctx);
/* Remove a job's spools, markers and folder, and its user's if that is empty. */
void hl_store_remove_folder(struct hl_daemon *d, uid_t uid, const char *folder);
/* A spool that cannot be read is put out of its process's way. */
void hl_store_set_aside(struct hl_daemon *d, struct hl_spool *s, const char *why);

/* ---- the disk ---- */

/* It did not take a process's bytes (error: negative errno): said once in the log,
 * told to the client, tried again each second. */
void hl_store_failed(struct hl_process *p, int error);
/* Nothing more is tried: what the disk did not take of the process counts as lost. */
void hl_store_give_up(struct hl_process *p, int reason);
/* The disk of a private collector has had its time when the run is over: whoever
 * gathers must not find a process that never ends, or has less than it says. */
int hl_store_is_hopeless(const struct hl_daemon *d);
/* Of all that have ended: then, and when the collector stops. */
void hl_store_give_up_ended(struct hl_daemon *d);
/* It took what was held. */
void hl_store_taken(struct hl_process *p);
/* What is written goes to the disk, in its own lane; done may be NULL. */
void hl_store_sync(struct hl_daemon *d);

/* Look at the folder and its file system, in the lane: room is measured; a folder
 * that is gone is made again as soon as that is possible, and what was in it is
 * counted as lost. */
void hl_store_check(struct hl_daemon *d);

/* ---- room ---- */

/* Remove the finished job that ended first, of one user or of all, read ones before
 * others (read_only: those alone).  1: one is gone; 0: there is none. */
int hl_store_remove_oldest(struct hl_daemon *d, const struct hl_user *u, int read_only,
                           const char *cause);

/* Timers. */
void hl_store_on_retry(void *daemon);  /* the disk did not take something */
void hl_store_on_sync(void *daemon);   /* sync_interval */
void hl_store_on_expire(void *daemon); /* job_keep, job_keep_read; looks at the disk */
void hl_store_set_expire_timer(struct hl_daemon *d);

#endif
