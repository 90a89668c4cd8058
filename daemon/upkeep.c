/* SPDX-License-Identifier: Apache-2.0
 *
 * What the store does now and then: write again what the disk did not take,
 * sync spools in the pool, let old jobs go.  See store.h.
 */
#include "store.h"

#include "clock.h"
#include "job.h"
#include "peer.h"
#include "process.h"
#include "quota.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- retry ---- */

/* 1: something of it is still not on the disk. */
static int retry_process(struct hl_process *p)
{
    if (hl_buf_left(&p->pending)) {
        if (hl_process_retry(p))
            return 1;
        if (p->peer[1] && p->peer[1]->process == p) {
            hl_peer_ack(p->peer[1]);
            if (p->peer[1])
                hl_peer_resume(p->peer[1]);
        }
    }
    /* What came meanwhile may have been held again. */
    return hl_buf_left(&p->pending) != 0 || (p->record_unsaved && hl_death_save(p));
}

void hl_store_on_retry(void *daemon)
{
    struct hl_daemon *d = daemon;
    const struct hl_job *j;
    int left = 0;
    for (size_t at = 0; (j = hl_table_next(&d->jobs, &at));)
        for (size_t i = 0; i < j->n_processes; i++)
            left |= retry_process(j->process[i]);
    if (left)
        return;
    hl_timer_stop(d->retry_timer);
    d->spool_failing = 0;
    hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL, "the spool %s can be written again",
           d->set.spool);
    if (d->ending)
        hl_timer_set(d->ending_timer, 0, 0);
}

/* ---- sync ---- */

enum { SYNC_AT_ONCE = 64 };

struct sync_round {
    struct hl_daemon *d;
    int fd[SYNC_AT_ONCE]; /* copies: the spools may be closed meanwhile */
    size_t n;
    int failed; /* errno */
};

static void sync_work(void *ctx)
{
    struct sync_round *r = ctx;
    for (size_t i = 0; i < r->n; i++) {
        if (fdatasync(r->fd[i]) && !r->failed)
            r->failed = errno;
        close(r->fd[i]);
    }
}

static void sync_done(void *ctx)
{
    struct sync_round *r = ctx;
    struct hl_daemon *d = r->d;
    d->syncing = 0;
    d->count.syncs_failed += r->failed != 0;
    if (r->failed)
        hl_log(&d->log, HL_LOG_ERR, "syncs failed", NULL,
               "the spool %s cannot be synced: %s", d->set.spool, strerror(r->failed));
    int full = r->n == SYNC_AT_ONCE;
    free(r);
    if (full && !d->stopping)
        hl_store_on_sync(d);
}

static void add_dirty(struct sync_round *r, struct hl_process *p)
{
    if (!p->spool.dirty || r->n == SYNC_AT_ONCE)
        return;
    int fd = hl_spool_fd(&p->spool);
    r->fd[r->n] = fd < 0 ? -1 : dup(fd);
    if (r->fd[r->n] < 0)
        return;
    p->spool.dirty = 0;
    r->n++;
}

void hl_store_on_sync(void *daemon)
{
    struct hl_daemon *d = daemon;
    const struct hl_job *j;
    struct sync_round *r = d->syncing || d->private_run ? NULL : calloc(1, sizeof *r);
    if (!r)
        return;
    r->d = d;
    for (size_t at = 0; (j = hl_table_next(&d->jobs, &at));)
        for (size_t i = 0; i < j->n_processes; i++)
            add_dirty(r, j->process[i]);
    if (r->n && hl_loop_work(d->loop, sync_work, sync_done, r) == 0) {
        d->syncing = 1;
        return;
    }
    for (size_t i = 0; i < r->n; i++)
        close(r->fd[i]);
    free(r);
}

void hl_store_sync_all(struct hl_daemon *d)
{
    const struct hl_job *j;
    for (size_t at = 0; (j = hl_table_next(&d->jobs, &at));)
        for (size_t i = 0; i < j->n_processes; i++) {
            int r = hl_spool_sync(&j->process[i]->spool);
            if (r)
                hl_log(&d->log, HL_LOG_ERR, "syncs failed", NULL, "spool %s: %s",
                       j->process[i]->spool.name, strerror(-r));
        }
}

/* ---- expiry ---- */

static const char *expired(const struct hl_job *j, int64_t now)
{
    const struct hl_settings *s = &j->d->set;
    if (!j->n_processes || j->n_alive || j->n_gathers)
        return NULL;
    if (j->taken && now - j->taken_real_ns >= s->job_keep_read_ns)
        return "read whole, job_keep_read is over";
    return now - j->ended_real_ns >= s->job_keep_ns ? "job_keep is over" : NULL;
}

void hl_store_on_expire(void *daemon)
{
    struct hl_daemon *d = daemon;
    struct hl_job *j;
    int64_t now = hl_real_ns();
    hl_quota_measure(d);
    hl_log_tick(&d->log);
    for (size_t at = 0; !d->private_run && (j = hl_table_next(&d->jobs, &at));) {
        const char *cause = expired(j, now);
        struct hl_log_about about = hl_job_about(j);
        if (cause && !j->taken)
            hl_log(&d->log, HL_LOG_WARNING, "unread jobs removed", &about,
                   "job %s of uid %u goes without having been read", j->shown,
                   (unsigned)j->user->uid);
        if (cause) {
            ++*(j->taken ? &d->count.jobs_removed_read : &d->count.jobs_removed_unread);
            hl_job_remove(j, cause);
        }
    }
}

void hl_store_set_expire_timer(struct hl_daemon *d)
{
    int64_t keep = d->set.job_keep_ns < d->set.job_keep_read_ns ? d->set.job_keep_ns
                                                                : d->set.job_keep_read_ns;
    int64_t ms = keep / 2000000;
    ms = ms < 1000 ? 1000 : ms > 30000 ? 30000 : ms;
    hl_timer_set(d->expire_timer, (uint64_t)ms, (uint64_t)ms);
}
