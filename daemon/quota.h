/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounds of the configuration: who may connect, begin a job or a process,
 * and how many bytes spools may hold.  A private collector, which serves one
 * user's own run, has no byte bounds.
 */
#ifndef HL_QUOTA_H
#define HL_QUOTA_H

#include "daemon.h"
#include "err.h"

/* 0, or -1 and a sentence for the client in e. */
int hl_quota_connection(const struct hl_daemon *d, const struct hl_user *u,
                        struct hl_err *e);
int hl_quota_job(const struct hl_daemon *d, const struct hl_user *u, struct hl_err *e);
int hl_quota_process(const struct hl_daemon *d, const struct hl_user *u,
                     struct hl_err *e);
/* May the user's spools grow by n bytes?  e->code is EDQUOT or ENOSPC. */
int hl_quota_bytes(const struct hl_daemon *d, const struct hl_user *u, uint64_t n,
                   struct hl_err *e);
/* The bounds of each user, to show; quota 0: none. */
uint64_t hl_quota_max_connections(const struct hl_daemon *d);
uint64_t hl_quota_of_user(const struct hl_daemon *d);
/* Look at the file system again: size, free space, and log what changed. */
void hl_quota_measure(struct hl_daemon *d);

#endif
