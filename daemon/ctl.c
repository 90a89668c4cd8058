/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers to heaplinectl; see ctl.h.  What a long answer is about is noted at
 * the question, by name: jobs and processes that go meanwhile are left out.
 */
#include "config.h"

#include "ctl.h"

#include "clock.h"
#include "control.h"
#include "delay.h"
#include "job.h"
#include "keep.h"
#include "notify.h"
#include "process.h"
#include "procfs.h"
#include "quota.h"
#include "rights.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINES_AT_ONCE = 64, OUT_HIGH = 256 << 10 };

/* A job, a process or a user, by what it is found with. */
struct item {
    uint64_t image;
    int64_t pid;
    uid_t uid;
    uint32_t key_bytes;
    size_t key_at; /* in keys */
};

struct hl_control {
    struct hl_timer *timer; /* the next piece, behind the others */
    uint32_t what;
    struct item *item;
    size_t n, cap, at;
    struct hl_buf keys;
    uint64_t n_done;                            /* lines sent, or jobs forgotten */
    uint64_t n_in_use, n_alive, n_read, n_kept; /* forget: jobs that stay, and why */
    char shown[128];                            /* forget: the name that was given */
};

/* ---- the list of an answer ---- */

static int add_item(struct hl_control *c, struct item it, const char *key)
{
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 64;
        struct item *q = realloc(c->item, cap * sizeof *q);
        if (!q)
            return -1;
        c->item = q;
        c->cap = cap;
    }
    it.key_bytes = (uint32_t)strlen(key);
    it.key_at = c->keys.n;
    if (hl_buf_add(&c->keys, key, it.key_bytes))
        return -1;
    c->item[c->n++] = it;
    return 0;
}

static struct hl_job *job_at(struct hl_daemon *d, const struct hl_control *c,
                             const struct item *it)
{
    struct hl_str key = {(const char *)hl_buf_data(&c->keys) + it->key_at, it->key_bytes};
    return hl_job_find(d, it->uid, key);
}

/* A key, or what stands before a dot of it: a batch job's id. */
static int is_named(const char *key, struct hl_str name)
{
    return strncmp(key, name.p, name.n) == 0 && (!key[name.n] || key[name.n] == '.');
}

static int list_jobs(struct hl_peer *p, struct hl_control *c, const struct hl_str *name)
{
    const struct hl_job *j;
    for (size_t at = 0; (j = hl_table_next(&p->d->jobs, &at));) {
        if (!hl_rights_owner(p->uid, j->user->uid) || (name && !is_named(j->key, *name)))
            continue;
        if (add_item(c, (struct item){.uid = j->user->uid}, j->key))
            return -1;
    }
    return 0;
}

static int list_processes(struct hl_peer *p, struct hl_control *c)
{
    const struct hl_process *q = p->d->list[HL_PROCESS_ALIVE].first;
    for (; q; q = q->next) {
        struct item it = {q->image, q->pid, q->job->user->uid, 0, 0};
        if (hl_rights_owner(p->uid, it.uid) && add_item(c, it, ""))
            return -1;
    }
    return 0;
}

static int list_users(struct hl_peer *p, struct hl_control *c)
{
    const struct hl_user *u;
    for (size_t at = 0; (u = hl_table_next(&p->d->users, &at));)
        if (add_item(c, (struct item){.uid = u->uid}, ""))
            return -1;
    return 0;
}

/* ---- one line ---- */

/* Behind what waits already; sent when the piece is whole. */
static void queue(struct hl_peer *p, const uint8_t *m, int64_t n)
{
    if (n > 0 && p->state != HL_PEER_CLOSED && hl_buf_add(&p->out, m, (size_t)n))
        hl_peer_close(p);
}

static void put_job(struct hl_peer *p, const struct hl_job *j)
{
    uint8_t out[HL_CONTROL_CAP];
    struct hl_job_line m = {.uid = j->user->uid,
                            .state = j->state,
                            .n_processes = j->n_processes,
                            .n_alive = j->n_alive,
                            .n_keepers = j->n_keepers,
                            .n_gathers = j->n_gathers,
                            .begun_ns = j->begun_real_ns,
                            .ended_ns = j->n_alive ? 0 : j->ended_real_ns,
                            .taken_ns = j->taken ? j->taken_real_ns : 0,
                            .spool_bytes = j->spool_bytes,
                            .n_rows = j->n_rows,
                            .n_dropped = j->n_dropped,
                            .n_lost = j->n_lost,
                            .key = {j->key, strlen(j->key)}};
    for (size_t i = 0; j->n_alive && i < j->n_members; i++) {
        const struct hl_process *q = j->member[i].live;
        if (!q || q->state == HL_PROCESS_ENDED) /* the job has counted it */
            continue;
        m.n_rows += q->tally.n_rows;
        m.n_dropped += q->n_dropped;
        m.n_lost += q->n_lost;
    }
    queue(p, out, hl_encode_job_line(out, sizeof out, &m));
}

static void put_process(struct hl_peer *p, struct hl_process *q)
{
    uint8_t out[HL_CONTROL_CAP];
    struct hl_record_msg m;
    int64_t now = hl_mono_ns();
    hl_process_record(q, now, &m);
    const struct hl_record *r = &m.record;
    int counted = (q->page_fd >= 0 || q->record) && !(m.notes & HL_PROC_NOTE_PAGE);
    struct hl_live_line line = {.uid = q->job->user->uid,
                                .pid = q->pid,
                                .rank = r->rank,
                                .allocs = r->allocs,
                                .frees = r->frees,
                                .live_bytes = counted ? r->live_bytes : -1,
                                .peak_bytes = counted ? r->peak_bytes : -1,
                                .vmhwm_bytes = r->vmhwm_bytes,
                                .vmrss_bytes = r->vmrss_bytes,
                                .age_ns = r->elapsed_ns,
                                .taken_ns = now,
                                .n_rows = q->tally.n_rows,
                                .image = q->image,
                                .key = {q->job->key, strlen(q->job->key)},
                                .host = {r->host, strlen(r->host)}};
    queue(p, out, hl_encode_live_line(out, sizeof out, &line));
}

static void put_user(struct hl_peer *p, const struct hl_user *u)
{
    uint8_t out[HL_CONTROL_CAP];
    const struct hl_daemon *d = p->d;
    struct hl_user_line m = {.uid = u->uid,
                             .n_connections = u->n_peers,
                             .max_connections = hl_quota_max_connections(d),
                             .n_processes = u->n_alive,
                             .max_processes = d->set.max_processes_per_uid,
                             .n_jobs = u->n_jobs,
                             .max_jobs = d->set.max_jobs_per_uid,
                             .spool_bytes = u->spool_bytes,
                             .quota_bytes = hl_quota_of_user(d)};
    queue(p, out, hl_encode_user_line(out, sizeof out, &m));
}

static void put_done(struct hl_peer *p, uint32_t code, uint64_t n, const char *text)
{
    uint8_t out[HL_CONTROL_CAP];
    queue(p, out, hl_encode_done(out, sizeof out, code, n, text));
}

/* ---- STATUS ---- */

static void set(struct hl_status *s, enum hl_status_tag tag, uint64_t v)
{
    s->value[tag] = v;
    s->known[tag] = 1;
}

static uint64_t open_descriptors(void)
{
    struct stat st;
    uint64_t n = 0;
    if (stat("/proc/self/fd", &st))
        return 0;
    if (st.st_size > 0) /* Linux 6.2 counts them itself */
        return (uint64_t)st.st_size;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n > 3 ? n - 3 : 0; /* "." and "..", and the folder itself */
}

static void set_own_limits(const struct hl_daemon *d, struct hl_status *s)
{
    struct rlimit limit;
    int64_t hwm = 0, rss = 0;
    uint64_t max, p99;
    set(s, HL_STATUS_descriptors, open_descriptors());
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        set(s, HL_STATUS_descriptors_max, limit.rlim_cur);
    hl_procfs_memory(getpid(), &hwm, &rss);
    set(s, HL_STATUS_memory_bytes, (uint64_t)rss);
    set(s, HL_STATUS_spool_free_bytes, d->fs_free_bytes);
    set(s, HL_STATUS_spool_size_bytes, d->fs_bytes);
    hl_delay_read(hl_loop_delay(d->loop), hl_mono_ns(), &max, &p99);
    set(s, HL_STATUS_loop_delay_max_ns, max);
    set(s, HL_STATUS_loop_delay_p99_ns, p99);
}

static void set_sums(const struct hl_daemon *d, struct hl_status *s)
{
    static const enum hl_status_tag tags[] = {HL_STATUS_N, HL_STATUS_jobs_live,
                                              HL_STATUS_jobs_quiet, HL_STATUS_jobs_read,
                                              HL_STATUS_jobs_done};
    uint64_t in_state[5] = {0}, spools = 0;
    const struct hl_job *j;
    const struct hl_user *u;
    for (size_t at = 0; (u = hl_table_next(&d->users, &at));)
        spools += u->spool_bytes;
    for (size_t at = 0; (j = hl_table_next(&d->jobs, &at));)
        in_state[j->state % 5]++;
    for (int i = HL_JOB_LIVE; i <= HL_JOB_DONE; i++)
        set(s, tags[i], in_state[i]);
    set(s, HL_STATUS_spool_bytes, spools);
    set(s, HL_STATUS_waiting_bytes, hl_append_waiting(d));
}

static void set_counters(const struct hl_daemon *d, struct hl_status *s)
{
    const struct hl_counters *c = &d->count;
#define SAME(name) set(s, HL_STATUS_##name, c->name)
    SAME(accepted), SAME(hellos), SAME(messages), SAME(bytes), SAME(rows);
    SAME(appended_bytes), SAME(acks), SAME(processes_ended), SAME(rows_dropped);
    SAME(rows_lost), SAME(refused_version), SAME(refused_protocol);
    SAME(refused_connections), SAME(refused_processes), SAME(refused_jobs);
    SAME(refused_rate), SAME(refused_space), SAME(refused_uid), SAME(refused_draining);
    SAME(appends_failed), SAME(syncs_failed), SAME(accept_failed);
    SAME(jobs_removed_read), SAME(jobs_removed_unread), SAME(jobs_forgotten);
    SAME(torn_tails), SAME(spools_bad), SAME(reloads), SAME(reload_failures),
        SAME(points), SAME(points_dropped), SAME(intervals_raised);
#undef SAME
    set(s, HL_STATUS_descriptors_kept, hl_keep_n_stored(d));
    set(s, HL_STATUS_log_lines_held, d->log.n_held);
}

static void set_for_admin(const struct hl_daemon *d, struct hl_status *s)
{
    s->is_admin = 1;
    s->socket = (struct hl_str){d->set.socket, strlen(d->set.socket)};
    s->spool = (struct hl_str){d->set.spool, strlen(d->set.spool)};
    s->last_error = (struct hl_str){d->log.last_error, strlen(d->log.last_error)};
    set(s, HL_STATUS_uptime_ns, (uint64_t)(hl_mono_ns() - d->started_ns));
    set(s, HL_STATUS_connections, d->n_peers);
    set(s, HL_STATUS_connections_new, d->n_new);
    set(s, HL_STATUS_keepers, d->n_keepers);
    set(s, HL_STATUS_gathers, d->n_gathers);
    set(s, HL_STATUS_processes, d->n_alive);
    set_sums(d, s);
    set_own_limits(d, s);
    set_counters(d, s);
}

static void put_status(struct hl_peer *p, int is_admin)
{
    static uint8_t out[HL_STATUS_CAP];
    static struct hl_status s;
    const struct hl_daemon *d = p->d;
    memset(&s, 0, sizeof s);
    s.version = (struct hl_str){PACKAGE_VERSION, strlen(PACKAGE_VERSION)};
    s.socket = s.spool = s.last_error = (struct hl_str){"", 0};
    set(&s, HL_STATUS_draining, d->draining != 0);
    set(&s, HL_STATUS_spool_errno, (uint64_t)d->spool_errno);
    set(&s, HL_STATUS_low_space, d->low_space != 0);
    if (is_admin)
        set_for_admin(d, &s);
    queue(p, out, hl_encode_status(out, sizeof out, &s));
}

/* ---- drain ---- */

static void drain(struct hl_peer *p, int on)
{
    struct hl_daemon *d = p->d;
    if (on != d->draining) {
        d->draining = on;
        hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL,
               on ? "draining, as uid %u asked: new processes are refused, alive: %zu"
                  : "no longer draining, as uid %u asked; processes alive: %zu",
               (unsigned)p->uid, d->n_alive);
        hl_notify("STATUS=%s%zu processes alive", on ? "draining: " : "", d->n_alive);
    }
    put_done(p, HL_DONE_OK, d->n_alive, "");
}

/* ---- forget ---- */

static void forget_job(struct hl_peer *p, struct hl_control *c, struct hl_job *j)
{
    char cause[64];
    if (j->n_keepers || (j->n_processes && !hl_job_is_at_rest(j))) {
        c->n_in_use++;
        c->n_alive += j->n_alive;
        c->n_read += j->n_gathers != 0;
        c->n_kept += j->n_keepers != 0;
        return;
    }
    snprintf(cause, sizeof cause, "uid %u asked to forget it", (unsigned)p->uid);
    p->d->count.jobs_forgotten++;
    hl_job_remove(j, cause);
    c->n_done++;
}

static void end_forget(struct hl_peer *p, struct hl_control *c)
{
    char text[400];
    if (c->n_in_use) {
        snprintf(text, sizeof text,
                 "job %s: %llu in use (%llu processes alive; %llu being read, %llu kept "
                 "by heapline-run), %llu forgotten",
                 c->shown, (unsigned long long)c->n_in_use,
                 (unsigned long long)c->n_alive, (unsigned long long)c->n_read,
                 (unsigned long long)c->n_kept, (unsigned long long)c->n_done);
        put_done(p, HL_DONE_BUSY, c->n_in_use, text);
    } else if (!c->n_done) {
        snprintf(text, sizeof text, "no job %s%s", c->shown, p->uid ? " of yours" : "");
        put_done(p, HL_DONE_NOT_FOUND, 0, text);
    } else {
        put_done(p, HL_DONE_OK, c->n_done, "");
    }
}

/* ---- pieces ---- */

static void put_item(struct hl_peer *p, struct hl_control *c, const struct item *it)
{
    struct hl_daemon *d = p->d;
    uid_t uid = it->uid;
    struct hl_job *j;
    struct hl_process *q;
    const struct hl_user *u;
    if (c->what == HL_ASK_LIVE) {
        if ((q = hl_process_find(d, uid, it->pid, it->image)) &&
            q->state == HL_PROCESS_ALIVE)
            put_process(p, q), c->n_done++;
    } else if (c->what == HL_ASK_METRICS) {
        if ((u = hl_table_get(&d->users, &uid, sizeof uid)))
            put_user(p, u), c->n_done++;
    } else if ((j = job_at(d, c, it))) {
        if (c->what == HL_ASK_FORGET)
            forget_job(p, c, j);
        else
            put_job(p, j), c->n_done++;
    }
}

void hl_control_drop(struct hl_peer *p)
{
    struct hl_control *c = p->control;
    if (!c)
        return;
    p->control = NULL;
    p->indexing = 0;
    hl_timer_free(c->timer);
    hl_buf_fini(&c->keys);
    free(c->item);
    free(c);
}

static void end_answer(struct hl_peer *p)
{
    struct hl_control *c = p->control;
    if (c->what == HL_ASK_FORGET)
        end_forget(p, c);
    else
        put_done(p, HL_DONE_OK, c->n_done, "");
    hl_control_drop(p);
    hl_peer_flush(p);
    if (p->state != HL_PEER_CLOSED)
        hl_peer_resume(p); /* questions that came meanwhile */
}

/* Removing a job's files takes a while: one at a time. */
static void send_piece(struct hl_peer *p)
{
    struct hl_control *c = p->control;
    size_t n = c->what == HL_ASK_FORGET ? 1 : LINES_AT_ONCE;
    for (; n && c->at < c->n && p->state != HL_PEER_CLOSED; n--)
        put_item(p, c, &c->item[c->at++]);
    if (p->state == HL_PEER_CLOSED)
        return;
    if (c->at == c->n) {
        end_answer(p);
        return;
    }
    hl_peer_flush(p);
    /* Either the loop comes back soon, or when the other side has read. */
    if (p->state != HL_PEER_CLOSED && hl_buf_left(&p->out) < OUT_HIGH)
        hl_timer_set(c->timer, 0, 0);
}

static void on_turn(void *ctx)
{
    struct hl_peer *p = ctx;
    if (p->state == HL_PEER_CONTROL && !p->closing)
        send_piece(p);
}

void hl_control_continue(struct hl_peer *p)
{
    if (p->control && !hl_timer_is_set(p->control->timer) &&
        hl_buf_left(&p->out) < OUT_HIGH)
        hl_timer_set(p->control->timer, 0, 0);
}

/* ---- questions ---- */

static int make_list(struct hl_peer *p, struct hl_control *c, const struct hl_ask *a)
{
    switch (a->what) {
    case HL_ASK_JOBS: return list_jobs(p, c, NULL);
    case HL_ASK_FORGET: return list_jobs(p, c, &a->arg);
    case HL_ASK_LIVE: return list_processes(p, c);
    default: return list_users(p, c);
    }
}

static void start_answer(struct hl_peer *p, const struct hl_ask *a)
{
    struct hl_control *c = p->control = calloc(1, sizeof *c);
    if (c) {
        c->what = a->what;
        c->timer = hl_timer_new(p->d->loop, on_turn, p);
        hl_printable(a->arg.p, a->arg.n, c->shown, sizeof c->shown);
    }
    if (!c || !c->timer || make_list(p, c, a)) {
        hl_control_drop(p);
        hl_peer_refuse(p, HL_REFUSED_LIMIT, "the collector has no memory left");
        return;
    }
    p->indexing = 1;
    hl_timer_set(c->timer, 0, 0);
}

static void answer_status(struct hl_peer *p, int is_admin)
{
    put_status(p, is_admin);
    if (p->state != HL_PEER_CLOSED)
        put_user(p, p->user);
    put_done(p, HL_DONE_OK, 1, "");
}

static int for_admins(uint32_t what)
{
    return what == HL_ASK_METRICS || what == HL_ASK_DRAIN || what == HL_ASK_UNDRAIN;
}

void hl_control_take(struct hl_peer *p, const struct hl_wire_header *h,
                     const uint8_t *body)
{
    struct hl_ask a;
    int code = hl_decode_ask(body, h->length, &a);
    if (!code && a.what == HL_ASK_FORGET && !a.arg.n)
        code = HL_WIRE_BAD_VALUE;
    if (code) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "ASK: %s", hl_wire_strerror(code));
        return;
    }
    int is_admin = hl_rights_admin(p->d, p->fd, p->uid);
    if (for_admins(a.what) && !is_admin) {
        put_done(p, HL_DONE_DENIED, 0,
                 "this is for root, the collector's own user and members of admin_group");
    } else if (a.what == HL_ASK_STATUS) {
        answer_status(p, is_admin);
    } else if (a.what == HL_ASK_DRAIN || a.what == HL_ASK_UNDRAIN) {
        drain(p, a.what == HL_ASK_DRAIN);
    } else {
        if (a.what == HL_ASK_METRICS)
            put_status(p, is_admin);
        start_answer(p, &a);
    }
    if (p->state != HL_PEER_CLOSED)
        hl_peer_flush(p);
}
