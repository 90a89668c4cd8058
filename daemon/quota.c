/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits; see quota.h.
 */
#include "quota.h"

#include "clock.h"
#include "store.h"

#include <errno.h>

uint64_t hl_quota_max_connections(const struct hl_daemon *d)
{
    /* Two a process, and some for keepers, gathers and tools. */
    return 2 * d->set.max_processes_per_uid + 64;
}

int hl_quota_connection(struct hl_daemon *d, const struct hl_user *u, struct hl_err *e)
{
    if (u->n_peers <= hl_quota_max_connections(d)) /* the one that asks is counted */
        return 0;
    d->count.refused_connections++;
    return hl_fail(e, EDQUOT,
                   "uid %u has %zu connections, the limit (max_processes_per_uid)",
                   (unsigned)u->uid, u->n_peers);
}

int hl_quota_job(struct hl_daemon *d, const struct hl_user *u, struct hl_err *e)
{
    if (u->n_jobs < d->set.max_jobs_per_uid)
        return 0;
    d->count.refused_jobs++;
    return hl_fail(e, EDQUOT, "uid %u has %zu jobs, the limit (max_jobs_per_uid)",
                   (unsigned)u->uid, u->n_jobs);
}

int hl_quota_process(struct hl_daemon *d, const struct hl_user *u, struct hl_err *e)
{
    if (d->n_alive < d->set.max_processes && u->n_alive < d->set.max_processes_per_uid)
        return 0;
    d->count.refused_processes++;
    if (d->n_alive >= d->set.max_processes)
        return hl_fail(e, EDQUOT,
                       "this node has %zu processes, the limit (max_processes)",
                       d->n_alive);
    return hl_fail(e, EDQUOT,
                   "uid %u has %zu processes, the limit (max_processes_per_uid)",
                   (unsigned)u->uid, u->n_alive);
}

int hl_quota_rate(struct hl_daemon *d, struct hl_user *u, struct hl_err *e)
{
    if (u->n_messages <= d->set.max_message_rate)
        return 0;
    int64_t second = hl_mono_ns() / 1000000000;
    if (second != u->second) { /* the clock is read only where it may matter */
        u->second = second;
        u->n_messages = 0;
        return 0;
    }
    d->count.refused_rate++;
    return hl_fail(e, EDQUOT,
                   "uid %u sends more than %llu messages a second, the limit "
                   "(max_message_rate)",
                   (unsigned)u->uid, (unsigned long long)d->set.max_message_rate);
}

uint64_t hl_quota_share(const struct hl_daemon *d, struct hl_share s)
{
    if (s.percent)
        return d->fs_bytes / 100 * (uint64_t)s.percent;
    return s.bytes;
}

static uint64_t total(const struct hl_daemon *d)
{
    const struct hl_user *u;
    uint64_t sum = 0;
    for (size_t at = 0; (u = hl_table_next(&d->users, &at));)
        sum += u->spool_bytes;
    return sum;
}

uint64_t hl_quota_of_user(const struct hl_daemon *d)
{
    return d->private_run ? 0 : hl_quota_share(d, d->set.quota_per_uid);
}

static int over(uint64_t used, uint64_t n, uint64_t max)
{
    return max && used + n > max;
}

/* Finished jobs, the oldest first, go before somebody alive is refused; but a user's
 * own quota costs no data that nobody has read: the user is told instead. */
int hl_quota_bytes(struct hl_daemon *d, const struct hl_user *u, uint64_t n,
                   struct hl_err *e)
{
    uint64_t own = hl_quota_share(d, d->set.quota_per_uid),
             all = hl_quota_share(d, d->set.quota_total);
    if (d->private_run)
        return 0;
    while (over(u->spool_bytes, n, own) &&
           hl_store_remove_oldest(d, u, 1, "its user's spools are at quota_per_uid"))
        continue;
    while (over(total(d), n, all) &&
           hl_store_remove_oldest(d, NULL, 0, "the spools are at quota_total"))
        continue;
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

void hl_quota_measured(struct hl_daemon *d, uint64_t size, uint64_t free_bytes)
{
    d->fs_bytes = size;
    d->fs_free_bytes = free_bytes;
    if (d->private_run)
        return;
    int low = free_bytes < hl_quota_share(d, d->set.min_free);
    /* Others may have filled it: what nobody has read stays. */
    if (low &&
        hl_store_remove_oldest(d, NULL, 1, "the file system has less than min_free"))
        return; /* looked at again when it is gone */
    if (low && !d->low_space)
        hl_log(&d->log, HL_LOG_WARNING, NULL, NULL,
               "%s: %llu MiB free, less than min_free: nothing more is taken",
               d->set.spool, (unsigned long long)(free_bytes >> 20));
    if (!low && d->low_space)
        hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL, "%s: there is room again",
               d->set.spool);
    d->low_space = low;
}
