/* SPDX-License-Identifier: Apache-2.0
 *
 * What keepers and gathers ask: the state of a run, its index, pieces of its
 * streams.  A gather reads its own uid's run, root any.
 */
#include "peer.h"

#include "job.h"
#include "lifetime.h"
#include "load.h"
#include "path.h"
#include "points.h"
#include "process.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INDEX_HIGH = 256 << 10, INDEX_WAIT_MAX_MS = 60000 };

/* ---- the job of a gather ---- */

/* root may read any user's job: where a key is known of several, its own. */
static struct hl_job *job_to_read(struct hl_daemon *d, uid_t uid, struct hl_str key)
{
    struct hl_job *j = hl_job_find(d, uid, key);
    const struct hl_user *u;
    for (size_t at = 0; !j && uid == 0 && (u = hl_table_next(&d->users, &at));)
        j = hl_job_find(d, u->uid, key);
    return j;
}

/* A run may begin after the gather's hello. */
static struct hl_job *job_of(struct hl_peer *p)
{
    if (!p->job && p->key) {
        p->job = job_to_read(p->d, p->uid, (struct hl_str){p->key, strlen(p->key)});
        if (p->job)
            p->job->n_gathers++;
    }
    return p->job;
}

void hl_answer_greeted(struct hl_peer *p)
{
    job_of(p);
}

/* ---- STATE ---- */

static void take_state_ask(struct hl_peer *p)
{
    uint8_t out[HL_WIRE_HEADER + 64];
    const struct hl_job *j = job_of(p);
    struct hl_state s = {0};
    if (j)
        s = (struct hl_state){.n_keepers = j->n_keepers,
                              .n_keepers_ever = j->n_keepers_ever,
                              .n_processes = j->n_processes,
                              .n_alive = j->n_alive};
    hl_peer_send(p, out, hl_encode_state(out, sizeof out, &s));
}

static void take_ended(struct hl_peer *p, const uint8_t *body, size_t n)
{
    struct hl_ended_msg m;
    struct hl_job *j = p->job;
    int code = hl_decode_ended(body, n, &m);
    if (!code && m.end.kind != HL_ENDED_EXIT && m.end.kind != HL_ENDED_SIGNAL)
        code = HL_WIRE_BAD_VALUE;
    if (code) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "ENDED: %s", hl_wire_strerror(code));
        return;
    }
    hl_job_note_end(j, &m);
    for (size_t i = 0; i < j->n_members; i++) {
        struct hl_process *proc = j->member[i].live;
        struct hl_end end;
        if (proc && proc->pid == m.pid &&
            hl_job_told(j, proc->pid, proc->start_ticks, &end))
            hl_death_told(proc, &m.end);
    }
}

/* ---- INDEX ---- */

static void send_index_end(struct hl_peer *p)
{
    uint8_t out[HL_WIRE_HEADER + 16];
    const struct hl_job *j = p->job;
    struct hl_index_end m = {j ? j->n_processes : 0, j ? j->n_alive : 0};
    p->indexing = 0;
    p->indexed = 1;
    hl_peer_send(p, out, hl_encode_index_end(out, sizeof out, &m));
    if (p->state != HL_PEER_CLOSED)
        hl_peer_resume(p); /* questions that came meanwhile */
}

/* ---- processes that are folded ---- */

enum { LOADS_AT_ONCE = 32 };

struct load {
    struct hl_task task;
    struct hl_job *job;
    size_t n;
    size_t member[LOADS_AT_ONCE];
    char name[LOADS_AT_ONCE][2 * HL_NAME_CAP];
    struct hl_loaded loaded[LOADS_AT_ONCE];
    int bad[LOADS_AT_ONCE];
    struct hl_err why[LOADS_AT_ONCE];
};

static void load_work(struct hl_task *t)
{
    struct load *l = (struct load *)t;
    struct hl_spool_pool *pool = &l->job->d->pool;
    for (size_t i = 0; i < l->n; i++) {
        l->bad[i] =
            hl_load(&l->loaded[i], pool, l->job->user->uid, l->name[i], &l->why[i]);
        if (l->bad[i])
            hl_load_points(&l->loaded[i], pool, l->name[i]);
    }
}

/* A hello of what is known of a process whose own is gone; NULL: no memory. */
static uint8_t *hello_of_member(const struct hl_job *j, const struct hl_member *m,
                                size_t *n)
{
    char host[HL_HOST_MAX + 1] = "";
    uint8_t out[HL_HELLO_CAP];
    gethostname(host, HL_HOST_MAX);
    struct hl_hello h = {.wire_min = HL_WIRE_VERSION,
                         .wire_max = HL_WIRE_VERSION,
                         .role = HL_ROLE_HEAP,
                         .pid = m->pid,
                         .start_ticks = m->start_ticks,
                         .image = m->image,
                         .rank = m->rank,
                         .size = -1,
                         .key = {j->key, strlen(j->key)},
                         .host = {host, strlen(host)}};
    int64_t used = hl_encode_hello(out, sizeof out, &h);
    uint8_t *body = used > HL_WIRE_HEADER ? malloc((size_t)used - HL_WIRE_HEADER) : NULL;
    if (body) {
        *n = (size_t)used - HL_WIRE_HEADER;
        memcpy(body, out + HL_WIRE_HEADER, *n);
    }
    return body;
}

/* Its spool cannot be read any more: what is known of it without is said. */
static void stand_in(struct hl_loaded *l, struct hl_job *j, const struct hl_member *m,
                     const char *name, int reason)
{
    l->head.pid = m->pid;
    l->head.start_ticks = m->start_ticks;
    l->head.image = m->image;
    l->flags = HL_PROC_NOTE_UNREAD;
    l->n_lost = m->n_rows == HL_ROWS_UNKNOWN ? 0 : m->n_rows;
    l->lost_reason = reason;
    l->hello[0] = hello_of_member(j, m, &l->hello_bytes[0]);
    l->spool = malloc(sizeof *l->spool);
    if (l->spool && hl_spool_init(l->spool, &j->d->pool, name) == 0) {
        l->spool->made = 1;
        return;
    }
    free(l->spool);
    l->spool = NULL;
}

static void tell_unread(struct hl_job *j, const struct hl_member *m,
                        const struct hl_err *why)
{
    struct hl_log_about about = hl_job_about(j);
    char n[48] = "how many frames it had is not known";
    if (m->n_rows != HL_ROWS_UNKNOWN)
        snprintf(n, sizeof n, "it had %u frames", (unsigned)m->n_rows);
    hl_log(&j->d->log, HL_LOG_ERR, "spools not read", &about,
           "%s; its process %lld of job %s is lost, %s", why->text, (long long)m->pid,
           j->shown, n);
}

/* It had ended, and said so in its spool: what is read of it says less. */
static int is_less(const struct hl_loaded *l, const struct hl_member *m)
{
    int has_end = l->record && l->record->end.kind != HL_ENDED_SAMPLED;
    return (m->has_end && !has_end) ||
           (m->n_rows < HL_ROWS_MAX && l->tally.n_rows + l->n_lost < m->n_rows);
}

static void restore(struct load *l, size_t i)
{
    struct hl_job *j = l->job;
    const struct hl_member *m = &j->member[l->member[i]];
    if (m->live || m->pid < 0) { /* it came back meanwhile */
        hl_loaded_fini(&l->loaded[i]);
        return;
    }
    if (l->bad[i]) {
        tell_unread(j, m, &l->why[i]);
        stand_in(&l->loaded[i], j, m, l->name[i],
                 l->why[i].code == ENOENT ? ENOENT : EIO);
    } else if (is_less(&l->loaded[i], m)) {
        l->loaded[i].flags |= HL_PROC_NOTE_DAMAGED;
    }
    if (!l->loaded[i].spool || !hl_process_restore(j, l->member[i], &l->loaded[i]))
        hl_loaded_fini(&l->loaded[i]);
}

static void load_done(struct hl_task *t)
{
    struct load *l = (struct load *)t;
    struct hl_job *j = l->job;
    for (size_t i = 0; i < l->n; i++)
        restore(l, i);
    free(l);
    j->is_loading = 0;
    hl_answer_loaded(j);
    j->n_tasks--;
    if (!j->n_gathers) /* they have gone meanwhile */
        hl_job_fold(j);
    hl_job_release(j);
}

/* This member and others behind it. */
static int load_members(struct hl_job *j, size_t from)
{
    struct load *l = calloc(1, sizeof *l);
    if (!l)
        return -1;
    l->task = (struct hl_task){load_work, load_done, NULL};
    l->job = j;
    for (size_t i = from; i < j->n_members && l->n < LOADS_AT_ONCE; i++) {
        const struct hl_member *m = &j->member[i];
        if (m->pid < 0 || m->live)
            continue;
        hl_job_spool_name(j, m->pid, m->image, l->name[l->n]);
        l->member[l->n++] = i;
    }
    j->n_tasks++;
    j->is_loading = 1;
    hl_lane_add(&j->d->reads, &l->task);
    return 0;
}

/* ---- the index goes out ---- */

static void describe(struct hl_peer *p, struct hl_process *proc)
{
    uint8_t out[HL_WIRE_HEADER + 8192];
    struct hl_proc m;
    hl_process_describe(proc, &m);
    hl_peer_send(p, out, hl_encode_proc(out, sizeof out, &m));
}

/* As much as fits; the rest when there is room again. */
void hl_answer_continue(struct hl_peer *p)
{
    struct hl_job *j = p->job;
    if (p->timer || p->pull || p->waits_for_load || p->awaits_taken)
        return; /* held back, or another answer is under way */
    while (j && p->index_at < j->n_members) {
        const struct hl_member *m = &j->member[p->index_at];
        if (p->state == HL_PEER_CLOSED || hl_buf_left(&p->out) > INDEX_HIGH)
            return;
        if (m->pid >= 0 && (!m->live || m->live->loading)) {
            p->waits_for_load = 1;
            if (!m->live && !j->is_loading && load_members(j, p->index_at))
                hl_peer_close(p); /* not even memory for that */
            return;
        }
        p->index_at++;
        if (m->pid < 0)
            continue;
        describe(p, m->live);
        if (j->n_gathers == 1) /* else others may want it next */
            hl_process_fold(m->live);
    }
    if (p->state != HL_PEER_CLOSED)
        send_index_end(p);
}

void hl_answer_loaded(struct hl_job *j)
{
    for (struct hl_peer *p = j->d->peers, *next; p; p = next) {
        next = p->next;
        if (!p->waits_for_load || p->job != j)
            continue;
        p->waits_for_load = 0;
        hl_answer_continue(p);
    }
}

static void start_index(struct hl_peer *p)
{
    struct hl_job *j = job_of(p);
    hl_timer_free(p->timer);
    p->timer = NULL;
    if (j && j->n_processes && j->state != HL_JOB_LIVE && !j->taken)
        hl_job_set_state(j, HL_JOB_READ, "index");
    hl_answer_continue(p);
}

/* What lies in the sockets belongs into the answer.  1: there is no room for it. */
static int read_sockets(struct hl_job *j)
{
    for (size_t i = 0; i < j->n_members; i++)
        for (int k = 0; j->member[i].live && k < 2; k++)
            if (j->member[i].live->peer[k] &&
                hl_peer_drain(j->member[i].live->peer[k], HL_READ_BYTES) ==
                    HL_DRAIN_NO_ROOM)
                return 1;
    return 0;
}

/* Sockets first, then what was read must be on its way out of both batches. */
static void on_index_timer(void *ctx)
{
    struct hl_peer *p = ctx;
    struct hl_job *j = job_of(p);
    struct hl_daemon *d = p->d;
    if (j && !p->index_pass) {
        if (!read_sockets(j))
            p->index_pass = d->append.pass + 1;
        hl_timer_set(p->timer, 1, 0);
        return;
    }
    if (j && d->append.pass <= p->index_pass && !hl_append_is_written(d)) {
        hl_timer_set(p->timer, 1, 0);
        return;
    }
    if (j && !p->points_flushed) {
        hl_timeline_flush_job(j);
        p->points_flushed = 1;
    }
    if (j && j->n_point_writes) {
        hl_timer_set(p->timer, 1, 0);
        return;
    }
    if (hl_store_is_hopeless(d))
        hl_store_give_up_ended(d);
    start_index(p);
}

static void take_index_ask(struct hl_peer *p, const uint8_t *body, size_t n)
{
    uint32_t wait_ms = 0;
    const struct hl_job *j = job_of(p);
    int code = hl_decode_index_ask(body, n, &wait_ms);
    if (code) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "INDEX_ASK: %s", hl_wire_strerror(code));
        return;
    }
    if (wait_ms > INDEX_WAIT_MAX_MS)
        wait_ms = INDEX_WAIT_MAX_MS;
    if (!j || !j->n_alive)
        wait_ms = 0;
    /* Never from here: other connections are read before it is answered. */
    p->timer = hl_timer_new(p->d->loop, on_index_timer, p);
    if (!p->timer) {
        hl_peer_refuse(p, HL_REFUSED_LIMIT, "the collector has no memory left");
        return;
    }
    p->indexing = 1;
    p->index_at = 0;
    p->index_pass = 0;
    p->points_flushed = 0;
    hl_timer_set(p->timer, wait_ms, 0);
}

void hl_answer_job_quiet(struct hl_job *j)
{
    for (struct hl_peer *p = j->d->peers; p; p = p->next)
        if (p->indexing && p->timer && p->job == j && !p->index_pass)
            hl_timer_set(p->timer, 0, 0);
}

void hl_answer_scanned(struct hl_daemon *d)
{
    for (struct hl_peer *p = d->peers, *next; p; p = next) {
        next = p->next;
        hl_peer_resume(p);
    }
}

/* ---- PULL ---- */

enum { PIECES_MAX = 64 };

struct hl_pull_task {
    struct hl_task task;
    struct hl_peer *peer; /* NULL: it has gone */
    struct hl_job *job;
    struct hl_pull ask;
    int failed; /* errno value */
    struct hl_spool_piece piece[PIECES_MAX];
    size_t n_pieces, n;
    int64_t pid;
    char name[2 * HL_NAME_CAP];
    uint8_t out[]; /* header, DATA's head, bytes */
};

static void pull_points(struct hl_pull_task *q)
{
    char name[sizeof q->name];
    int64_t n = hl_points_name(q->name, name, sizeof name)
                    ? -ENAMETOOLONG
                    : hl_points_read(&q->job->d->pool, name, q->ask.offset,
                                     q->out + HL_WIRE_HEADER + HL_DATA_HEAD, q->ask.max);
    q->failed = n < 0 ? (int)-n : 0;
    q->n = n > 0 ? (size_t)n : 0;
}

static void pull_work(struct hl_task *t)
{
    struct hl_pull_task *q = (struct hl_pull_task *)t;
    if (q->ask.what == HL_PULL_POINTS) {
        pull_points(q);
        return;
    }
    uint8_t *at = q->out + HL_WIRE_HEADER + HL_DATA_HEAD;
    int fd =
        openat(q->job->d->root, q->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    q->failed = fd < 0 ? errno : 0;
    for (size_t i = 0; i < q->n_pieces && !q->failed; i++) {
        if (hl_path_pread_all(fd, at + q->n, q->piece[i].n, (off_t)q->piece[i].at))
            q->failed = EIO; /* or it is shorter: what came before is told */
        else
            q->n += q->piece[i].n;
    }
    if (fd >= 0)
        close(fd);
}

/* The answer is empty: less than was said, which costs the gather this process alone. */
static void tell_failed(const struct hl_pull_task *q)
{
    struct hl_log_about about = hl_job_about(q->job);
    hl_log(&q->job->d->log, HL_LOG_ERR, "spools not read", &about,
           "the spool %s of process %lld cannot be read: %s", q->name, (long long)q->pid,
           strerror(q->failed));
}

static void pull_done(struct hl_task *t)
{
    struct hl_pull_task *q = (struct hl_pull_task *)t;
    struct hl_peer *p = q->peer;
    struct hl_job *j = q->job;
    struct hl_data d = {q->ask.proc, q->ask.what, q->ask.offset, NULL, q->n};
    j->n_tasks--;
    if (p) {
        p->pull = NULL;
        p->indexing = 0;
        hl_peer_send(p, q->out, hl_encode_data_in_place(q->out, &d));
        hl_peer_resume(p);
    }
    if (q->failed)
        tell_failed(q);
    free(q);
    hl_job_release(j);
}

/* What is on the disk, and no further. */
static void plan_pull(struct hl_pull_task *q, const struct hl_process *proc)
{
    int catalogs = q->ask.what == HL_PULL_CATALOGS;
    uint64_t end = catalogs ? proc->written.catalogs : proc->written.stream;
    size_t n = q->ask.offset >= end               ? 0
               : end - q->ask.offset < q->ask.max ? (size_t)(end - q->ask.offset)
                                                  : q->ask.max;
    q->n_pieces = (catalogs ? hl_spool_plan_catalogs : hl_spool_plan)(
        proc->spool, q->ask.offset, n, q->piece, PIECES_MAX);
}

static void take_pull(struct hl_peer *p, const uint8_t *body, size_t n)
{
    struct hl_pull m;
    struct hl_job *j = job_of(p);
    int code = hl_decode_pull(body, n, &m);
    if (!code && (!j || m.proc >= j->n_members || j->member[m.proc].pid < 0))
        code = HL_WIRE_BAD_VALUE;
    /* Before an index nothing of a folded one is in memory: it would look empty. */
    if (code || !p->indexed) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "PULL: %s",
                       code ? hl_wire_strerror(code)
                            : "ask for the index of the run first (INDEX_ASK)");
        return;
    }
    struct hl_pull_task *q = malloc(sizeof *q + HL_WIRE_HEADER + HL_DATA_HEAD + m.max);
    if (!q) {
        hl_peer_refuse(p, HL_REFUSED_LIMIT, "the collector has no memory left");
        return;
    }
    const struct hl_member *member = &j->member[m.proc];
    memset(q, 0, sizeof *q);
    q->task = (struct hl_task){pull_work, pull_done, NULL};
    q->peer = p;
    q->job = j;
    q->ask = m;
    q->pid = member->pid;
    if (member->live && m.what != HL_PULL_POINTS) /* a folded one has no rows */
        plan_pull(q, member->live);
    hl_job_spool_name(j, member->pid, member->image, q->name);
    p->pull = q;
    p->indexing = 1;
    j->n_tasks++;
    hl_lane_add(&p->d->reads, &q->task);
}

void hl_answer_peer_gone(struct hl_peer *p)
{
    if (p->pull)
        p->pull->peer = NULL;
    p->pull = NULL;
}

/* ---- TAKEN ---- */

static void answer_taken(struct hl_peer *p, int result)
{
    uint8_t out[HL_WIRE_HEADER];
    p->awaits_taken = p->indexing = 0;
    if (result)
        hl_peer_refuse(p, HL_REFUSED_SPACE, "the collector cannot mark the run as read");
    else
        hl_peer_send(p, out, hl_encode_taken_ok(out, sizeof out));
    hl_peer_resume(p);
}

static void on_taken(struct hl_job *j, int result)
{
    struct hl_daemon *d = j->d;
    for (struct hl_peer *p = d->peers, *next; p; p = next) {
        next = p->next;
        if (p->awaits_taken && p->job == j)
            answer_taken(p, result);
    }
    hl_lifetime_check(d);
}

static void take_taken(struct hl_peer *p)
{
    struct hl_job *j = job_of(p);
    p->awaits_taken = p->indexing = 1;
    if (!j)
        answer_taken(p, 0);
    else if (hl_job_taken(j, on_taken))
        answer_taken(p, -ENOMEM);
}

void hl_answer_take(struct hl_peer *p, const struct hl_wire_header *h,
                    const uint8_t *body)
{
    switch (h->type) {
    case HL_MSG_STATE_ASK: take_state_ask(p); break;
    case HL_MSG_ENDED: take_ended(p, body, h->length); break;
    case HL_MSG_INDEX_ASK: take_index_ask(p, body, h->length); break;
    case HL_MSG_PULL: take_pull(p, body, h->length); break;
    case HL_MSG_TAKEN: take_taken(p); break;
    default: break; /* the table lets nothing else through */
    }
}
