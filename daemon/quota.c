/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits; see quota.h.
 */
#include "quota.h"

#include <errno.h>
#include <sys/statvfs.h>

uint64_t hl_quota_max_connections(const struct hl_daemon *d)
{
    /* Two a process, and some for keepers, gathers and tools. */
    return 2 * d->set.max_processes_per_uid + 64;
}

int hl_quota_connection(const struct hl_daemon *d, const struct hl_user *u,
                        struct hl_err *e)
{
    if (u->n_peers < hl_quota_max_connections(d))
        return 0;
    return hl_fail(e, EDQUOT,
                   "uid %u has %zu connections, the limit (max_processes_per_uid)",
                   (unsigned)u->uid, u->n_peers);
}

int hl_quota_job(const struct hl_daemon *d, const struct hl_user *u, struct hl_err *e)
{
    if (u->n_jobs < d->set.max_jobs_per_uid)
        return 0;
    return hl_fail(e, EDQUOT, "uid %u has %zu jobs, the limit (max_jobs_per_uid)",
                   (unsigned)u->uid, u->n_jobs);
}

int hl_quota_process(const struct hl_daemon *d, const struct hl_user *u, struct hl_err *e)
{
    if (d->n_alive >= d->set.max_processes)
        return hl_fail(e, EDQUOT,
                       "this node has %zu processes, the limit (max_processes)",
                       d->n_alive);
    if (u->n_alive >= d->set.max_processes_per_uid)
        return hl_fail(e, EDQUOT,
                       "uid %u has %zu processes, the limit (max_processes_per_uid)",
                       (unsigned)u->uid, u->n_alive);
    return 0;
}

static uint64_t bytes_of(const struct hl_daemon *d, struct hl_share s)
{
    if (s.percent)
        return d->fs_bytes / 100 * (uint64_t)s.percent;
    return s.bytes;
}

uint64_t hl_quota_of_user(const struct hl_daemon *d)
{
    return d->private_run ? 0 : bytes_of(d, d->set.quota_per_uid);
}

static uint64_t total(const struct hl_daemon *d)
{
    const struct hl_user *u;
    uint64_t sum = 0;
    for (size_t at = 0; (u = hl_table_next(&d->users, &at));)
        sum += u->spool_bytes;
    return sum;
}

int hl_quota_bytes(const struct hl_daemon *d, const struct hl_user *u, uint64_t n,
                   struct hl_err *e)
{
    uint64_t own = bytes_of(d, d->set.quota_per_uid),
             all = bytes_of(d, d->set.quota_total);
    if (d->private_run)
        return 0;
    if (own && u->spool_bytes + n > own)
        return hl_fail(e, EDQUOT,
                       "the spools of uid %u are at their limit (quota_per_uid)",
                       (unsigned)u->uid);
    if (all && total(d) + n > all)
        return hl_fail(e, EDQUOT,
                       "the spools of this node are at their limit (quota_total)");
    if (d->low_space)
        return hl_fail(e, ENOSPC, "the spool's file system is nearly full (min_free)");
    return 0;
}

void hl_quota_measure(struct hl_daemon *d)
{
    struct statvfs v;
    if (fstatvfs(d->root, &v))
        return;
    d->fs_bytes = (uint64_t)v.f_blocks * v.f_frsize;
    if (d->private_run)
        return;
    uint64_t free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    int low = free_bytes < bytes_of(d, d->set.min_free);
    if (low && !d->low_space)
        hl_log(&d->log, HL_LOG_WARNING, NULL, NULL,
               "%s: %llu MiB free, less than min_free: nothing more is taken",
               d->set.spool, (unsigned long long)(free_bytes >> 20));
    if (!low && d->low_space)
        hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL, "%s: there is room again",
               d->set.spool);
    d->low_space = low;
}
