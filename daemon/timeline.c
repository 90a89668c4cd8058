/* SPDX-License-Identifier: Apache-2.0
 *
 * Points of processes: taken by one timer from a heap of due times, a slice in each
 * turn of the loop; held for a moment and written in the lane of the spools.  See
 * timeline.h.
 */
#include "timeline.h"

#include "clock.h"
#include "job.h"
#include "points.h"
#include "process.h"
#include "procfs.h"
#include "quota.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLICE = 128,     /* points of one turn */
    BATCH = 64,      /* points of one write */
    HELD_MAX = 256,  /* while the disk does not take them */
    HELD_MS = 2000,  /* before they are written */
    LOADING_MS = 10, /* until it is looked again whether a former spool is read */
    RETRY_MS = 1000, /* of one that has ended, whose last points were not taken */
    ROOM = HL_WIRE_HEADER + 64 + HL_KEY_MAX
};
#define MS ((int64_t)1000000)

struct hl_timeline {
    struct hl_due due; /* the first: the heap's */
    struct hl_process *p;
    int64_t wish_ns;
    int64_t asked_ns;    /* when the first wish came */
    int64_t held_ns;     /* when the oldest of those held was taken */
    struct hl_buf held;  /* POINTS messages that wait */
    int64_t n_written;   /* in the file; -1: not known yet */
    size_t n_flying;     /* on their way */
    uint8_t writing;     /* some are */
    uint8_t again;       /* and more shall follow at once */
    uint8_t told_raised; /* that the wish is less than min_interval */
};

/* ---- when ---- */

static int64_t interval_of(const struct hl_timeline *t)
{
    int64_t least = t->p->d->set.min_interval_ns;
    return t->wish_ns < least ? least : t->wish_ns;
}

/* Never at once: the loop comes to its other work between two slices. */
static void set_timer(struct hl_daemon *d)
{
    const struct hl_due *first = hl_due_first(&d->due);
    int64_t left = first ? first->at_ns - hl_mono_ns() : 0;
    if (!first)
        hl_timer_stop(d->points_timer);
    else
        hl_timer_set(d->points_timer, left > MS ? (uint64_t)((left + MS - 1) / MS) : 1,
                     0);
}

static void tell_raised(struct hl_timeline *t)
{
    struct hl_process *p = t->p;
    struct hl_log_about about = {p->job->shown, (int64_t)p->job->user->uid, p->pid};
    if (t->told_raised || t->wish_ns >= p->d->set.min_interval_ns)
        return;
    t->told_raised = 1;
    p->d->count.intervals_raised++;
    hl_log(&p->d->log, HL_LOG_WARNING, "intervals raised", &about,
           "process %lld of job %s asks for a sample each %lld ms: it gets one each %lld "
           "ms (min_interval)",
           (long long)p->pid, p->job->shown, (long long)(t->wish_ns / MS),
           (long long)(p->d->set.min_interval_ns / MS));
}

void hl_timeline_ask(struct hl_process *p, int64_t wish_ns)
{
    struct hl_timeline *t = p->timeline;
    int64_t now = hl_mono_ns();
    if (wish_ns <= 0 || p->state != HL_PROCESS_ALIVE)
        return;
    if (!t && !(t = p->timeline = calloc(1, sizeof *t)))
        return; /* as if it had not asked */
    if (!t->p)
        *t = (struct hl_timeline){
            .p = p, .asked_ns = now, .wish_ns = wish_ns, .n_written = -1};
    if (wish_ns < t->wish_ns)
        t->wish_ns = wish_ns;
    tell_raised(t);
    if (!t->due.place)
        hl_due_put(&p->d->due, &t->due, now);
    set_timer(p->d);
}

void hl_timeline_meet(struct hl_process *p)
{
    struct hl_hello h;
    for (int i = 0; i < 2; i++)
        if (p->hello[i] && hl_decode_hello(p->hello[i], p->hello_bytes[i], &h) == 0)
            hl_timeline_ask(p, h.interval_ns);
}

/* ---- to the disk ---- */

struct write {
    struct hl_task task;
    struct hl_timeline *t;
    struct hl_buf bytes;
    char name[2 * HL_NAME_CAP];
    uint8_t head[ROOM];
    struct hl_points_write w;
    int result;
};

static void flush(struct hl_timeline *t);

static void work(struct hl_task *task)
{
    struct write *q = (struct write *)task;
    q->result = hl_points_write(&q->t->p->d->pool, q->name, &q->w);
}

static void count_dropped(struct hl_timeline *t, size_t n)
{
    t->p->d->count.points_dropped += n;
    t->p->n_points_gone += n;
}

/* What was not taken comes again before what was added meanwhile. */
static void hold_again(struct hl_timeline *t, struct write *q)
{
    struct hl_buf later = t->held;
    t->held = q->bytes;
    q->bytes = later;
    if (hl_buf_left(&later) &&
        hl_buf_add(&t->held, hl_buf_data(&later), hl_buf_left(&later)))
        count_dropped(t, hl_buf_left(&later) / HL_POINTS_MESSAGE);
}

/* Where the folder is not made yet, it will be with the spool. */
static void failed(struct hl_timeline *t, struct write *q)
{
    struct hl_daemon *d = t->p->d;
    hold_again(t, q);
    if (q->result != -ENOENT)
        hl_log(&d->log, HL_LOG_WARNING, "points not written", NULL,
               "cannot write %s/%s: %s; tried again", d->set.spool, q->name,
               strerror(-q->result));
    if (t->p->state != HL_PROCESS_ALIVE) {
        hl_due_put(&d->due, &t->due, hl_mono_ns() + RETRY_MS * MS);
        set_timer(d);
    }
}

/* Somebody has made the file shorter, or it was not lost with its spool. */
static void compare(struct hl_process *p, const struct write *q)
{
    struct hl_log_about about = {p->job->shown, (int64_t)p->job->user->uid, p->pid};
    uint64_t want = p->n_points + q->w.n, have = q->w.n_points;
    if (have >= want) {
        uint64_t found = have - want;
        p->n_points_gone -= found < p->n_points_gone ? found : p->n_points_gone;
        return;
    }
    p->n_points_gone += want - have;
    hl_log(&p->d->log, HL_LOG_WARNING, "points lost", &about,
           "%s/%s: somebody has removed %llu points", p->d->set.spool, q->name,
           (unsigned long long)(want - have));
}

static void wrote(struct hl_timeline *t, const struct write *q)
{
    struct hl_process *p = t->p;
    compare(p, q);
    t->n_written = (int64_t)q->w.n_points;
    p->n_points = q->w.n_points;
    p->job->spool_bytes += (uint64_t)q->w.grown;
    p->job->user->spool_bytes += (uint64_t)q->w.grown;
}

static void done(struct hl_task *task)
{
    struct write *q = (struct write *)task;
    struct hl_timeline *t = q->t;
    struct hl_process *p = t->p;
    t->writing = 0;
    t->n_flying = 0;
    p->job->n_point_writes--;
    p->d->n_point_writes--;
    if (q->result)
        failed(t, q);
    else
        wrote(t, q);
    if (!q->result && t->again)
        flush(t);
    t->again = 0;
    hl_buf_fini(&q->bytes);
    free(q);
}

/* The points file begins like the spool. */
static size_t head_of(const struct hl_process *p, uint8_t *out)
{
    struct hl_spool_head head = hl_process_spool_head(p);
    return (size_t)hl_encode_spool_head(out, ROOM, &head);
}

static int name_of(const struct hl_process *p, char *out)
{
    char spool[2 * HL_NAME_CAP];
    hl_job_spool_name(p->job, p->pid, p->image, spool);
    return hl_points_name(spool, out, 2 * HL_NAME_CAP);
}

static void drop(struct hl_timeline *t, const char *why)
{
    struct hl_process *p = t->p;
    struct hl_log_about about = {p->job->shown, (int64_t)p->job->user->uid, p->pid};
    size_t n = hl_buf_left(&t->held) / HL_POINTS_MESSAGE;
    count_dropped(t, n);
    hl_buf_fini(&t->held);
    hl_log(&p->d->log, HL_LOG_WARNING, "points dropped", &about,
           "process %lld of job %s: %zu points dropped (%s)", (long long)p->pid,
           p->job->shown, n, why);
}

static void send(struct hl_timeline *t, struct write *q)
{
    struct hl_process *p = t->p;
    q->task = (struct hl_task){work, done, NULL};
    q->t = t;
    q->bytes = t->held;
    t->held = (struct hl_buf){.p = NULL};
    q->w = (struct hl_points_write){.head = q->head,
                                    .head_bytes = head_of(p, q->head),
                                    .messages = hl_buf_data(&q->bytes),
                                    .n = hl_buf_left(&q->bytes) / HL_POINTS_MESSAGE,
                                    .at = t->n_written};
    t->writing = 1;
    t->n_flying = q->w.n;
    p->job->n_point_writes++;
    p->d->n_point_writes++;
    hl_lane_add(&p->d->writes, &q->task);
}

static void flush(struct hl_timeline *t)
{
    struct hl_process *p = t->p;
    struct hl_err e = {0};
    t->again = t->writing;
    if (t->writing || !hl_buf_left(&t->held))
        return;
    if (hl_quota_bytes(p->d, p->job->user, hl_buf_left(&t->held), &e)) {
        drop(t, e.text);
        return;
    }
    struct write *q = calloc(1, sizeof *q);
    if (q && name_of(p, q->name) == 0)
        send(t, q);
    else
        free(q); /* at the next point */
}

/* Before they are too many, or the oldest would wait too long for the next one. */
static void flush_if_time(struct hl_timeline *t)
{
    size_t n = hl_buf_left(&t->held);
    if (n && (n >= BATCH * HL_POINTS_MESSAGE || t->due.at_ns - t->held_ns > HELD_MS * MS))
        flush(t);
}

void hl_timeline_flush_job(struct hl_job *j)
{
    for (size_t i = 0; i < j->n_members; i++)
        if (j->member[i].live && j->member[i].live->timeline)
            flush(j->member[i].live->timeline);
}

void hl_timeline_flush_all(struct hl_daemon *d)
{
    for (int i = 0; i < 3; i++)
        for (struct hl_process *p = d->list[i].first; p; p = p->next)
            if (p->timeline)
                flush(p->timeline);
}

/* ---- points ---- */

static void add(struct hl_timeline *t, struct hl_point *v, int64_t now)
{
    uint8_t m[HL_POINTS_MESSAGE];
    struct hl_daemon *d = t->p->d;
    int is_last = t->p->state == HL_PROCESS_ENDED;
    /* Without its page, which was lost, its time is told otherwise than before. */
    if (v->time_ns < t->p->last_point_ns)
        v->time_ns = t->p->last_point_ns;
    hl_encode_points(m, sizeof m, v, 1);
    if (!hl_buf_left(&t->held))
        t->held_ns = now;
    if ((!is_last && hl_buf_left(&t->held) >= HELD_MAX * HL_POINTS_MESSAGE) ||
        hl_buf_add(&t->held, m, sizeof m)) {
        count_dropped(t, 1);
        return;
    }
    t->p->last_point_ns = v->time_ns;
    d->count.points++;
}

/* Since its start, where no agent says when it was loaded. */
static int64_t age_of(const struct hl_timeline *t, int64_t now)
{
    int64_t age = hl_procfs_age_ns(t->p->start_ticks);
    return age >= 0 ? age : now - t->asked_ns;
}

/* A page that was lost leaves an old sample, which is no point of now. */
static int knows_heap(const struct hl_process *p, const struct hl_record_msg *m)
{
    if (m->notes & HL_PROC_NOTE_PAGE)
        return 0;
    if (p->state == HL_PROCESS_ALIVE)
        return p->page_fd >= 0;
    return p->flags & HL_PROC_HEAP && m->record.elapsed_ns &&
           m->end.kind != HL_ENDED_SAMPLED;
}

/* At now or, of one that has ended, as its record says. */
static void take(struct hl_timeline *t, int64_t now)
{
    struct hl_process *p = t->p;
    struct hl_record_msg m;
    int ended = p->state == HL_PROCESS_ENDED;
    hl_process_look(p, now, &m);
    /* On its way out: what it leaves is the last point, and that comes later. */
    if (!ended && (m.end.kind == HL_ENDED_EXIT || m.end.kind == HL_ENDED_EXEC))
        return;
    const struct hl_record *r = &m.record;
    struct hl_point v = {age_of(t, now), -1, -1, r->vmrss_bytes, UINT64_MAX, UINT64_MAX};
    if (!ended)
        v.rss_bytes = hl_procfs_rss(p->kernel_pid);
    if (knows_heap(p, &m))
        v = (struct hl_point){r->elapsed_ns, r->live_bytes, r->peak_bytes,
                              v.rss_bytes,   r->allocs,     r->frees};
    /* What /proc said may be of another who has its number now. */
    if (ended || !hl_process_is_gone(p))
        add(t, &v, now);
}

static void tick(struct hl_timeline *t, int64_t now)
{
    struct hl_process *p = t->p;
    if (p->state != HL_PROCESS_ALIVE) {
        hl_due_remove(&p->d->due, &t->due);
        flush(t);
        return;
    }
    if (p->loading) { /* where its series ended is not known yet */
        hl_due_put(&p->d->due, &t->due, now + LOADING_MS * MS);
        return;
    }
    hl_process_watch(p);
    take(t, now);
    hl_due_put(&p->d->due, &t->due, hl_due_next(t->due.at_ns, interval_of(t), now));
    flush_if_time(t);
}

void hl_timeline_on_timer(void *daemon)
{
    struct hl_daemon *d = daemon;
    int64_t now = hl_mono_ns();
    struct hl_due *first;
    for (int i = 0; i < SLICE && (first = hl_due_first(&d->due)); i++) {
        if (first->at_ns > now || d->stopping)
            break;
        tick((struct hl_timeline *)first, now);
    }
    if (!d->stopping)
        set_timer(d);
}

/* ---- end ---- */

void hl_timeline_end(struct hl_process *p)
{
    struct hl_timeline *t = p->timeline;
    if (!t)
        return;
    hl_due_remove(&p->d->due, &t->due);
    take(t, hl_mono_ns());
    flush(t);
}

void hl_timeline_begin_again(struct hl_process *p)
{
    p->n_points_gone += p->n_points;
    p->n_points = p->n_points_bad = 0;
    if (p->timeline)
        p->timeline->n_written = -1;
}

uint64_t hl_timeline_n_taken(const struct hl_process *p)
{
    const struct hl_timeline *t = p->timeline;
    uint64_t n = p->n_points + p->n_points_gone;
    return t ? n + t->n_flying + hl_buf_left(&t->held) / HL_POINTS_MESSAGE : n;
}

int hl_timeline_is_idle(const struct hl_process *p)
{
    const struct hl_timeline *t = p->timeline;
    return !t || (!t->writing && !hl_buf_left(&t->held));
}

void hl_timeline_free(struct hl_process *p)
{
    struct hl_timeline *t = p->timeline;
    if (!t)
        return;
    hl_due_remove(&p->d->due, &t->due);
    hl_buf_fini(&t->held);
    free(t);
    p->timeline = NULL;
}
