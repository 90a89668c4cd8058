/* SPDX-License-Identifier: Apache-2.0
 *
 * What the store does now and then: write again what the disk did not take, sync
 * spools in a lane of their own, let old jobs go.  See store.h.
 */
#include "store.h"

#include "clock.h"
#include "job.h"
#include "ulimits.h"
#include "peer.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what the disk did not take ---- */

static void tell_client(struct hl_process *p, int error)
{
    struct hl_peer *peer = p->peer[1];
    if (!peer)
        return;
    if (peer->want_ok)
        hl_peer_refuse(peer, HL_REFUSED_SPACE,
                       "the collector cannot write its spool (%s)", strerror(-error));
    else
        hl_peer_tell_held(peer, -error);
}

void hl_store_give_up(struct hl_process *p, int reason)
{
    struct hl_daemon *d = p->d;
    d->n_failing -= p->failing;
    p->failing = 0;
    uint64_t before = hl_process_lost(p);
    hl_append_discard(p, reason);
    if (p->peer[1])
        hl_peer_ack(p->peer[1]);
    if (p->state == HL_PROCESS_ENDED) /* others are counted at their end */
        hl_death_lost(p, hl_process_lost(p) - before);
}

int hl_store_is_hopeless(const struct hl_daemon *d)
{
    return d->private_run && (d->n_gathers || !d->n_keepers);
}

void hl_store_give_up_ended(struct hl_daemon *d)
{
    for (struct hl_process *p = d->list[HL_PROCESS_ENDED].first; p; p = p->next)
        if (p->failing)
            hl_store_give_up(p, d->spool_errno);
}

/* A limit that whoever started it has set does not change while it runs, and the
 * program must not wait for that. */
static int is_for_ever(const struct hl_daemon *d, int error)
{
    return d->private_run && error == -EFBIG;
}

static void say_failed(struct hl_process *p, int error)
{
    struct hl_daemon *d = p->d;
    char hint[128];
    if (d->spool_errno)
        return;
    hl_log(&d->log, HL_LOG_ERR, NULL, NULL, "cannot write the spool %s/%s: %s%s; %s",
           d->set.spool, p->spool->name, strerror(-error),
           hl_limit_hint(-error, hint, sizeof hint),
           is_for_ever(d, error) ? "what does not fit is lost"
                                 : "clients wait, tried again each second");
}

void hl_store_failed(struct hl_process *p, int error)
{
    struct hl_daemon *d = p->d;
    if (p->discards)
        return;
    d->count.appends_failed++;
    if (error == -ENOENT && p->spool->made) { /* somebody has removed the file */
        hl_process_begin_again(p, ENOENT);
        return;
    }
    say_failed(p, error);
    d->spool_errno = -error;
    if (is_for_ever(d, error) ||
        (p->state == HL_PROCESS_ENDED && hl_store_is_hopeless(d))) {
        hl_store_give_up(p, -error);
        return;
    }
    if (!p->failing) {
        p->failing = 1;
        d->n_failing++;
        tell_client(p, error);
    }
    if (!hl_timer_is_set(d->retry_timer))
        hl_timer_set(d->retry_timer, 1000, 1000);
}

static void say_cured(struct hl_daemon *d)
{
    hl_timer_stop(d->retry_timer);
    d->spool_errno = 0;
    hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL, "the spool %s can be written again",
           d->set.spool);
    hl_death_go_on(d);
}

void hl_store_taken(struct hl_process *p)
{
    struct hl_daemon *d = p->d;
    if (!p->failing)
        return;
    p->failing = 0;
    d->n_failing--;
    if (p->peer[1])
        hl_peer_tell_held(p->peer[1], 0);
    for (int i = 0; i < 2; i++)
        if (p->peer[i])
            hl_peer_resume(p->peer[i]);
    if (!d->n_failing)
        say_cured(d);
    else
        hl_death_go_on(d);
}

void hl_store_on_retry(void *daemon)
{
    struct hl_daemon *d = daemon;
    for (int i = 0; i < 3; i++)
        for (struct hl_process *p = d->list[i].first; p; p = p->next)
            if (p->failing)
                hl_append_retry(p);
    hl_store_check(d);
    if (!d->n_failing && !d->folder_gone && d->spool_errno &&
        !hl_store_is_hopeless(d)) /* those it was about are gone */
        say_cured(d);
}

/* ---- sync ---- */

enum { SYNC_AT_ONCE = 64 };

struct sync_round {
    struct hl_task task;
    struct hl_daemon *d;
    int fd[SYNC_AT_ONCE]; /* copies: the spools may be closed meanwhile */
    size_t n;
    int failed; /* errno */
};

static void sync_work(struct hl_task *t)
{
    struct sync_round *r = (struct sync_round *)t;
    for (size_t i = 0; i < r->n; i++) {
        if (fdatasync(r->fd[i]) && !r->failed)
            r->failed = errno;
        close(r->fd[i]);
    }
}

static void sync_done(struct hl_task *t)
{
    struct sync_round *r = (struct sync_round *)t;
    struct hl_daemon *d = r->d;
    int full = r->n == SYNC_AT_ONCE;
    d->syncing = 0;
    if (r->failed) {
        d->count.syncs_failed++;
        hl_log(&d->log, HL_LOG_ERR, "syncs failed", NULL,
               "the spool %s cannot be synced: %s", d->set.spool, strerror(r->failed));
    }
    free(r);
    if (full)
        hl_store_sync(d);
}

/* In the lane that writes: who is dirty is known there. */
static void collect_work(struct hl_task *t)
{
    struct sync_round *r = (struct sync_round *)t;
    struct hl_spool_pool *pool = &r->d->pool;
    while (pool->dirty && r->n < SYNC_AT_ONCE) {
        struct hl_spool *s = pool->dirty;
        int fd = hl_spool_fd(s);
        r->fd[r->n] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (r->fd[r->n] < 0)
            return;
        r->n++;
        pool->dirty = s->next_dirty;
        s->is_dirty = 0;
    }
}

static void collect_done(struct hl_task *t)
{
    struct sync_round *r = (struct sync_round *)t;
    if (!r->n) {
        r->d->syncing = 0;
        free(r);
        return;
    }
    r->task = (struct hl_task){sync_work, sync_done, NULL};
    hl_lane_add(&r->d->syncs, &r->task);
}

void hl_store_sync(struct hl_daemon *d)
{
    struct sync_round *r = d->syncing || d->private_run ? NULL : calloc(1, sizeof *r);
    if (!r)
        return;
    d->syncing = 1;
    r->d = d;
    r->task = (struct hl_task){collect_work, collect_done, NULL};
    hl_lane_add(&d->writes, &r->task);
}

void hl_store_on_sync(void *daemon)
{
    hl_store_sync(daemon);
}

/* ---- expiry ---- */

static const char *expired(const struct hl_job *j, int64_t now)
{
    const struct hl_settings *s = &j->d->set;
    if (!hl_job_is_at_rest(j))
        return NULL;
    if (j->taken && now - j->taken_real_ns >= s->job_keep_read_ns)
        return "read whole, job_keep_read is over";
    return now - j->ended_real_ns >= s->job_keep_ns ? "job_keep is over" : NULL;
}

static void remove_job(struct hl_job *j, const char *cause)
{
    struct hl_daemon *d = j->d;
    struct hl_log_about about = hl_job_about(j);
    if (!j->taken)
        hl_log(&d->log, HL_LOG_WARNING, "unread jobs removed", &about,
               "job %s of uid %u goes without having been read (%s)", j->shown,
               (unsigned)j->user->uid, cause);
    *(j->taken ? &d->count.jobs_removed_read : &d->count.jobs_removed_unread) += 1;
    hl_job_remove(j, cause);
}

void hl_store_on_expire(void *daemon)
{
    struct hl_daemon *d = daemon;
    struct hl_job *j;
    int64_t now = hl_real_ns();
    hl_store_check(d);
    hl_log_tick(&d->log);
    for (size_t at = 0; !d->private_run && (j = hl_table_next(&d->jobs, &at));) {
        const char *cause = expired(j, now);
        if (cause)
            remove_job(j, cause);
    }
}

/* Read ones are worth less than any other; then the end counts. */
static int goes_before(const struct hl_job *a, const struct hl_job *b)
{
    if (!b || a->taken != b->taken)
        return !b || a->taken;
    return a->ended_real_ns < b->ended_real_ns;
}

int hl_store_remove_oldest(struct hl_daemon *d, const struct hl_user *u, int read_only,
                           const char *cause)
{
    struct hl_job *j, *oldest = NULL;
    for (size_t at = 0; (j = hl_table_next(&d->jobs, &at));)
        if ((!u || j->user == u) && (j->taken || !read_only) && j->spool_bytes &&
            hl_job_is_at_rest(j) && goes_before(j, oldest))
            oldest = j;
    if (oldest)
        remove_job(oldest, cause);
    return oldest != NULL;
}

void hl_store_set_expire_timer(struct hl_daemon *d)
{
    int64_t keep = d->set.job_keep_ns < d->set.job_keep_read_ns ? d->set.job_keep_ns
                                                                : d->set.job_keep_read_ns;
    int64_t ms = keep / 2000000;
    ms = ms < 1000 ? 1000 : ms > 30000 ? 30000 : ms;
    hl_timer_set(d->expire_timer, (uint64_t)ms, (uint64_t)ms);
}
