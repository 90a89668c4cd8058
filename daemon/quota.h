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

/* 0, or -1 and a sentence for the client in e; counted. */
int hl_quota_connection(struct hl_daemon *d, const struct hl_user *u, struct hl_err *e);
int hl_quota_job(struct hl_daemon *d, const struct hl_user *u, struct hl_err *e);
int hl_quota_process(struct hl_daemon *d, const struct hl_user *u, struct hl_err *e);
/* Does the user send more messages a second than max_message_rate? */
int hl_quota_rate(struct hl_daemon *d, struct hl_user *u, struct hl_err *e);
/* May the user's spools grow by n bytes?  Finished jobs are removed to make room,
 * the oldest first.  e->code is EDQUOT or ENOSPC. */
int hl_quota_bytes(struct hl_daemon *d, const struct hl_user *u, uint64_t n,
                   struct hl_err *e);
/* The file system of the spools was looked at: log what changed. */
void hl_quota_measured(struct hl_daemon *d, uint64_t size, uint64_t free_bytes);
/* Bytes that a share of the file system means; quota_per_uid (0: none). */
uint64_t hl_quota_share(const struct hl_daemon *d, struct hl_share s);
uint64_t hl_quota_of_user(const struct hl_daemon *d);
uint64_t hl_quota_max_connections(const struct hl_daemon *d);

#endif
