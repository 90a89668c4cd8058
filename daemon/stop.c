/* SPDX-License-Identifier: Apache-2.0
 *
 * The daemon's end; see stop.h.
 */
#include "stop.h"

#include "clock.h"
#include "job.h"
#include "lifetime.h"
#include "listen.h"
#include "keep.h"
#include "notify.h"
#include "peer.h"
#include "process.h"
#include "store.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STOP_MS = 8000 }; /* of the 10 s that a stop may take */

static uint64_t left_ms(int64_t deadline_ns)
{
    int64_t left = deadline_ns - hl_mono_ns();
    return left > 0 ? (uint64_t)left / 1000000 : 0;
}

/* ---- waiting ---- */

static int is_flying(void *ctx)
{
    return ((struct hl_daemon *)ctx)->append.flying != NULL;
}

static int is_unfinished(void *ctx)
{
    const struct hl_daemon *d = ctx;
    return !hl_append_is_written(d) || (d->append.held_bytes && !d->n_failing) ||
           d->n_point_writes || (!hl_death_is_done(d) && !d->n_failing);
}

static int is_busy(void *ctx)
{
    const struct hl_daemon *d = ctx;
    return !hl_append_is_written(d) || !hl_lane_is_idle(&d->writes) ||
           !hl_lane_is_idle(&d->reads) || !hl_lane_is_idle(&d->syncs);
}

/* ---- what was accepted ---- */

/* Each connection once, at most as much as a socket holds. */
static void read_all(struct hl_daemon *d, int64_t deadline)
{
    struct hl_peer *p;
    d->pass++; /* reading one may close others */
    do {
        for (p = d->peers; p && (p->state != HL_PEER_CLIENT || p->pass == d->pass);)
            p = p->next;
        if (!p)
            return;
        p->pass = d->pass;
        hl_notify_progress();
        while (hl_peer_drain(p, HL_READ_BYTES) == HL_DRAIN_NO_ROOM && left_ms(deadline))
            hl_loop_wait(d->loop, is_flying, d, left_ms(deadline));
    } while (p);
}

/* What is known of those alive, so that the next start has it. */
static void note_living(struct hl_daemon *d)
{
    for (int i = 0; i < HL_PROCESS_ENDED; i++)
        for (struct hl_process *p = d->list[i].first; p; p = p->next) {
            struct hl_record_msg m;
            hl_notify_progress();
            hl_process_record(p, hl_mono_ns(), &m);
            m.end = (struct hl_end){HL_ENDED_SAMPLED, 0};
            if (!p->record && !(p->record = malloc(sizeof m)))
                continue;
            *p->record = m;
            hl_death_save(p);
        }
}

static void close_peers(struct hl_daemon *d)
{
    while (d->peers) {
        hl_peer_detach(d->peers); /* our end is not the end of its process */
        hl_peer_close(d->peers);
    }
}

/* Nobody waits for signals in the loop any more. */
static void end_at_once(int number)
{
    (void)number;
    _exit(0);
}

void hl_stop(struct hl_daemon *d)
{
    int64_t deadline = hl_mono_ns() + (int64_t)STOP_MS * 1000000;
    signal(SIGTERM, end_at_once);
    signal(SIGINT, end_at_once);
    hl_notify("STOPPING=1\nSTATUS=finishing what was accepted");
    hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL, "stopping: %zu processes alive",
           d->n_alive);
    d->stopping = 1;
    hl_listen_close(d);
    read_all(d, deadline);
    d->deaf = 1;
    hl_timeline_flush_all(d);
    hl_loop_wait(d->loop, is_unfinished, d, left_ms(deadline));
    hl_store_give_up_ended(d);
    note_living(d);
    close_peers(d);
    hl_store_sync(d);
    hl_lifetime_remove_spools(d);
    if (hl_loop_wait(d->loop, is_busy, d, left_ms(deadline))) {
        hl_log(&d->log, HL_LOG_ERR, NULL, NULL,
               "the disk of the spool %s does not answer: what it was given last may be "
               "missing, clients send it again",
               d->set.spool);
        hl_log_flush(&d->log);
        _exit(0);
    }
    hl_lifetime_clean(d);
}

void hl_stop_release(struct hl_daemon *d)
{
    struct hl_timer **timers[] = {&d->ending_timer,   &d->retry_timer, &d->sample_timer,
                                  &d->expire_timer,   &d->sync_timer,  &d->private_timer,
                                  &d->watchdog_timer, &d->tidy_timer,  &d->fresh_timer,
                                  &d->points_timer};
    struct hl_job *j;
    d->stopping = 1; /* what is kept for the living stays kept */
    close_peers(d);
    for (size_t at = 0; (j = hl_table_next(&d->jobs, &at));)
        hl_job_free(j);
    if (d->loop) /* their files are closed in the lane */
        hl_loop_wait(d->loop, is_busy, d, 1000);
    hl_keep_close(d);
    for (size_t i = 0; i < sizeof timers / sizeof *timers; i++)
        hl_timer_free(*timers[i]);
    for (size_t i = 0; i < sizeof d->signals / sizeof *d->signals; i++)
        hl_signal_free(d->signals[i]);
    hl_table_fini(&d->users);
    hl_table_fini(&d->jobs);
    hl_table_fini(&d->by_image);
    hl_table_fini(&d->by_pid);
    hl_due_fini(&d->due);
    if (d->loop && hl_loop_free(d->loop))
        hl_log(&d->log, HL_LOG_ERR, NULL, NULL, "a handle of the loop was forgotten");
    hl_append_fini(d);
    hl_store_close(d);
    hl_notify_close();
    free(d->page);
}
