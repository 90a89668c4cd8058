/* SPDX-License-Identifier: Apache-2.0
 *
 * A process's life in the collector up to its death; see process.h.
 */
#include "process.h"

#include "clock.h"
#include "heap_page.h"
#include "job.h"
#include "keep.h"
#include "load.h"
#include "path.h"
#include "peer.h"
#include "procfs.h"
#include "sampling.h"
#include "store.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int best_hello(const struct hl_process *p)
{
    return p->hello[1] != NULL; /* the client library's says more */
}

/* ---- tables ---- */

struct image_key {
    uint64_t uid, image;
    int64_t pid;
};
struct pid_key {
    uint64_t uid, start_ticks;
    int64_t pid;
};

static struct image_key image_key(const struct hl_process *p)
{
    return (struct image_key){p->job->user->uid, p->image, p->pid};
}

static struct pid_key pid_key(const struct hl_process *p)
{
    return (struct pid_key){p->job->user->uid, p->start_ticks, p->pid};
}

struct hl_process *hl_process_find(struct hl_daemon *d, uid_t uid, int64_t pid,
                                   uint64_t image)
{
    struct image_key k = {uid, image, pid};
    return hl_table_get(&d->by_image, &k, sizeof k);
}

/* The same process with another image: that one has ended by exec.  Unknown
 * start times prove nothing. */
static void end_earlier_image(struct hl_process *p)
{
    struct pid_key k = pid_key(p);
    if (!p->start_ticks)
        return;
    struct hl_process *old = hl_table_get(&p->d->by_pid, &k, sizeof k);
    if (old && old != p && old->state == HL_PROCESS_ALIVE) {
        old->ended_by_exec = 1;
        hl_death_begin(old, "exec");
    }
}

static int enter_images(struct hl_process *p)
{
    struct image_key i = image_key(p);
    return hl_table_put(&p->d->by_image, &i, sizeof i, p);
}

/* It is the image that its process has now. */
static int enter_pids(struct hl_process *p)
{
    struct pid_key k = pid_key(p);
    end_earlier_image(p);
    return hl_table_put(&p->d->by_pid, &k, sizeof k, p);
}

static void leave_tables(struct hl_process *p)
{
    struct image_key i = image_key(p);
    struct pid_key k = pid_key(p);
    if (hl_table_get(&p->d->by_image, &i, sizeof i) == p)
        hl_table_remove(&p->d->by_image, &i, sizeof i);
    if (hl_table_get(&p->d->by_pid, &k, sizeof k) == p)
        hl_table_remove(&p->d->by_pid, &k, sizeof k);
}

/* ---- lists ---- */

static void link_process(struct hl_process *p)
{
    struct hl_process_list *l = &p->d->list[p->state];
    p->next = NULL;
    p->prev = l->last;
    *(l->last ? &l->last->next : &l->first) = p;
    l->last = p;
    l->n++;
    if (p->state == HL_PROCESS_ALIVE)
        hl_sampling_met(p);
}

static void unlink_process(struct hl_process *p)
{
    struct hl_process_list *l = &p->d->list[p->state];
    if (p->d->sampled_next == p)
        p->d->sampled_next = p->next;
    if (p->d->fresh_next == p)
        p->d->fresh_next = p->next;
    *(p->prev ? &p->prev->next : &l->first) = p->next;
    *(p->next ? &p->next->prev : &l->last) = p->prev;
    l->n--;
}

void hl_process_set_state(struct hl_process *p, enum hl_process_state s)
{
    unlink_process(p);
    p->state = s;
    link_process(p);
}

/* ---- begin ---- */

static struct hl_process *make(struct hl_job *j, enum hl_process_state state, int64_t pid,
                               uint64_t start_ticks, uint64_t image)
{
    struct hl_process *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct hl_process){.d = j->d,
                             .job = j,
                             .state = state,
                             .pid = pid,
                             .start_ticks = start_ticks,
                             .image = image,
                             .page_fd = -1,
                             .rows_fd = -1,
                             .pidfd = -1,
                             .slot = -1,
                             .vmhwm_bytes = -1,
                             .vmrss_bytes = -1};
    link_process(p);
    return p;
}

int hl_process_keep_hello(struct hl_process *p, unsigned role, const uint8_t *body,
                          size_t n)
{
    int i = role == HL_ROLE_FRAMES;
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        return -1;
    memcpy(copy, body, n);
    free(p->hello[i]);
    p->hello[i] = copy;
    p->hello_bytes[i] = n;
    p->flags |= i ? HL_PROC_FRAMES : HL_PROC_HEAP;
    return 0;
}

static int new_spool(struct hl_process *p)
{
    char name[2 * HL_NAME_CAP];
    hl_job_spool_name(p->job, p->pid, p->image, name);
    p->spool = malloc(sizeof *p->spool);
    if (p->spool && hl_spool_init(p->spool, &p->d->pool, name) == 0)
        return 0;
    free(p->spool);
    p->spool = NULL;
    return -1;
}

int hl_process_note_hello(struct hl_process *p, const uint8_t *body, size_t n)
{
    uint8_t out[HL_HELLO_CAP];
    memcpy(out + HL_WIRE_HEADER, body, n);
    hl_wire_header_put(out, HL_MSG_HELLO, out + HL_WIRE_HEADER, (uint32_t)n);
    return hl_append_copy(p, out, HL_WIRE_HEADER + n);
}

struct hl_spool_head hl_process_spool_head(const struct hl_process *p)
{
    return (struct hl_spool_head){.format = HL_SPOOL_FORMAT,
                                  .uid = p->job->user->uid,
                                  .pid = p->pid,
                                  .start_ticks = p->start_ticks,
                                  .image = p->image,
                                  .key = {p->job->key, strlen(p->job->key)}};
}

/* SPOOL and HELLO, the first bytes of every spool; the lane makes the file. */
static int begin_spool(struct hl_process *p, const uint8_t *body, size_t n)
{
    uint8_t first[HL_HELLO_CAP];
    struct hl_spool_head head = hl_process_spool_head(p);
    int64_t used = hl_encode_spool_head(first, sizeof first, &head);
    int r = hl_append_copy(p, first, (size_t)used);
    return r ? r : hl_process_note_hello(p, body, n); /* one write for both */
}

/* One whose spool was set aside comes back: the place is its own. */
static int join_job(struct hl_process *p)
{
    int64_t id = p->job->n_aside ? hl_job_folded(p->job, p->pid, p->image) : -1;
    p->recount = id >= 0; /* unless its former spool is met */
    if (id < 0)
        id = hl_job_add(p->job, p->pid, p->start_ticks, p->image);
    if (id < 0)
        return -1;
    p->id = (uint32_t)id;
    p->job->member[id].live = p;
    p->job->n_open++;
    return 0;
}

struct hl_process *hl_process_start(struct hl_job *j, const struct hl_hello *h,
                                    const uint8_t *body, size_t n, struct hl_err *e)
{
    struct hl_process *p = make(j, HL_PROCESS_ALIVE, h->pid, h->start_ticks, h->image);
    if (!p || hl_process_keep_hello(p, h->role, body, n) || new_spool(p) ||
        enter_images(p) || enter_pids(p) || join_job(p)) {
        hl_fail(e, ENOMEM, "no memory left");
        if (p)
            hl_process_free(p);
        return NULL;
    }
    hl_job_started(j);
    if (begin_spool(p, body, n))
        p->broken = 1; /* the agents are served; what they send is counted as lost */
    return p;
}

/* ---- an earlier life ---- */

static void take_points(struct hl_process *p, const struct hl_loaded *l)
{
    char name[2 * HL_NAME_CAP] = "";
    struct hl_log_about about = {p->job->shown, (int64_t)p->job->user->uid, p->pid};
    if (l->points.n > p->n_points) /* some were written since */
        p->n_points = l->points.n;
    p->n_points_bad += l->points.n_bad;
    p->n_points_gone += l->n_points_gone;
    if (l->points.last.time_ns > p->last_point_ns)
        p->last_point_ns = l->points.last.time_ns;
    if (!l->points.n_bad && !l->n_points_gone)
        return;
    hl_points_name(l->spool->name, name, sizeof name);
    hl_log(&p->d->log, HL_LOG_WARNING, "points lost", &about,
           "%s/%s: %llu points damaged, %llu gone", p->d->set.spool, name,
           (unsigned long long)l->points.n_bad, (unsigned long long)l->n_points_gone);
}

static void take_loaded(struct hl_process *p, struct hl_loaded *l)
{
    for (int i = 0; i < 2; i++)
        if (!p->hello[i]) {
            p->hello[i] = l->hello[i];
            p->hello_bytes[i] = l->hello_bytes[i];
            l->hello[i] = NULL;
        }
    if (!p->record) {
        p->record = l->record;
        l->record = NULL;
    }
    p->flags |= l->flags;
    take_points(p, l);
    p->n_hellos += l->n_hellos;
    if (l->n_dropped > p->n_dropped)
        p->n_dropped = l->n_dropped;
    p->n_lost += l->n_lost;
    p->lost_reason = l->n_lost ? l->lost_reason : p->lost_reason;
    p->spool = l->spool;
    l->spool = NULL;
    p->recount = p->n_lost || p->spool->has_bad_tail;
    p->tally = l->tally;
    l->tally = (struct hl_tally){.level = NULL};
    p->written = (struct hl_progress){p->spool->stream_bytes, p->spool->catalog_bytes,
                                      p->tally.n_rows};
}

struct hl_process *hl_process_restore(struct hl_job *j, size_t member,
                                      struct hl_loaded *l)
{
    struct hl_process *p =
        make(j, HL_PROCESS_ENDED, l->head.pid, l->head.start_ticks, l->head.image);
    if (!p)
        return NULL;
    /* Not as its process's image: that may be a later one, which is alive. */
    if (enter_images(p)) {
        hl_process_free(p);
        return NULL;
    }
    take_loaded(p, l);
    p->id = (uint32_t)member;
    j->member[member].live = p;
    j->n_open++;
    p->record_noted = 1;
    return p;
}

struct former {
    struct hl_task task;
    struct hl_process *p;
    struct hl_loaded loaded;
    struct hl_err e;
    int bad;
};

static void former_work(struct hl_task *t)
{
    struct former *f = (struct former *)t;
    f->bad = hl_load(&f->loaded, f->p->spool->pool, f->p->job->user->uid,
                     f->p->spool->name, &f->e);
}

/* A folded member of the job was this image: the place is its own. */
static void take_place(struct hl_process *p)
{
    struct hl_job *j = p->job;
    int64_t k = hl_job_folded(j, p->pid, p->image);
    if (k < 0)
        return;
    j->member[p->id] = (struct hl_member){.pid = -1};
    j->n_processes--;
    p->id = (uint32_t)k;
    j->member[k].live = p;
}

static void close_spool(struct hl_daemon *d, struct hl_spool *s);

/* What was said since goes behind what is there, but for the head. */
static void say_again(struct hl_process *p, const struct hl_buf *said)
{
    const uint8_t *at = hl_buf_data(said);
    size_t n = hl_buf_left(said);
    struct hl_wire_header h;
    p->job->spool_bytes -= n;
    p->job->user->spool_bytes -= n;
    while (n && hl_wire_header_get(at, n, &h) == 0) {
        size_t used = HL_WIRE_HEADER + h.length;
        if (h.type != HL_MSG_SPOOL)
            hl_append_copy(p, at, used);
        at += used;
        n -= used;
    }
}

static void former_done(struct hl_task *t)
{
    struct former *f = (struct former *)t;
    struct hl_process *p = f->p;
    struct hl_buf said = p->held;
    p->loading = 0;
    p->job->n_tasks--;
    if (f->bad) {
        p->recount = 1;
        hl_store_set_aside(p->d, p->spool, f->e.text);
        hl_append_retry(p); /* from its first byte */
    } else {
        p->held = (struct hl_buf){.p = NULL};
        p->d->append.held_bytes -= hl_buf_left(&said);
        close_spool(p->d, p->spool);
        hl_tally_fini(&p->tally);
        take_loaded(p, &f->loaded);
        take_place(p);
        say_again(p, &said);
        hl_buf_fini(&said);
    }
    hl_loaded_fini(&f->loaded);
    free(f);
    hl_answer_loaded(p->job);
    hl_process_settled(p);
}

void hl_process_meet_former(struct hl_process *p)
{
    struct former *f = calloc(1, sizeof *f);
    if (!f) {
        hl_store_failed(p, -ENOMEM);
        return;
    }
    p->loading = 1;
    p->job->n_tasks++;
    f->task = (struct hl_task){former_work, former_done, NULL};
    f->p = p;
    hl_lane_add(&p->d->reads, &f->task);
}

/* The client sends again what it still has, with the catalogs it needs. */
void hl_process_begin_again(struct hl_process *p, int reason)
{
    uint8_t out[2 * HL_WIRE_HEADER + 64];
    struct hl_spool *old = p->spool;
    int i = p->hello[1] != NULL;
    if (p->loading || new_spool(p)) {
        p->spool = old;
        p->broken = 1;
        return;
    }
    close_spool(p->d, old);
    hl_timeline_begin_again(p);
    p->n_lost += p->tally.n_rows;
    p->lost_reason = reason;
    p->recount = 1;
    p->discards = 0;
    hl_tally_fini(&p->tally);
    p->written = (struct hl_progress){0, 0, 0};
    p->d->n_failing -= p->failing; /* the new file may be taken */
    p->failing = 0;
    p->d->append.held_bytes -= hl_buf_left(&p->held);
    hl_buf_fini(&p->held);
    if (p->peer[1]) {
        struct hl_peer *peer = p->peer[1];
        hl_peer_detach(peer);
        hl_peer_close(peer);
    }
    begin_spool(p, p->hello[i], p->hello_bytes[i]);
    if (i && p->hello[0])
        hl_process_note_hello(p, p->hello[0], p->hello_bytes[0]);
    struct hl_loss loss = {p->n_lost, (uint64_t)reason};
    hl_append_copy(p, out, (size_t)hl_encode_loss(out, sizeof out, &loss));
    if (p->state == HL_PROCESS_ENDED && p->record)
        hl_death_save(p);
}

void hl_process_revive(struct hl_process *p)
{
    if (p->state != HL_PROCESS_ENDED)
        return;
    hl_process_set_state(p,
                         HL_PROCESS_ALIVE); /* the record stays: the page may be gone */
    p->record_noted = 0;
    enter_pids(p); /* without memory its exec will look like a kill */
    hl_job_started(p->job);
}

/* ---- the disk has answered ---- */

uint64_t hl_process_lost(const struct hl_process *p)
{
    return p->n_lost + (p->discards ? p->tally.n_rows - p->written.rows : 0);
}

int hl_process_is_held(const struct hl_process *p)
{
    int is_behind = p->tally.n_rows > p->written.rows && !p->discards && !p->broken;
    return p->state == HL_PROCESS_ENDED ? is_behind : p->failing;
}

int hl_process_is_settled(const struct hl_process *p)
{
    return p->state == HL_PROCESS_ENDED && !p->n_flying && !p->loading &&
           !hl_buf_left(&p->held) && hl_timeline_is_idle(p);
}

void hl_process_settled(struct hl_process *p)
{
    if (p->peer[1])
        hl_peer_ack(p->peer[1]);
    if (p->n_flying || p->loading)
        return;
    if (hl_buf_left(&p->held)) {
        if (!p->failing)
            hl_append_retry(p);
        return;
    }
    for (int i = 0; i < 2; i++)
        if (p->peer[i])
            hl_hello_answer(p->peer[i]);
    for (int i = 0; p->discards && i < 2; i++) /* it need wait for nothing any more */
        if (p->peer[i])
            hl_peer_resume(p->peer[i]);
    if (p->state == HL_PROCESS_ENDING)
        hl_death_go_on(p->d);
    else if (p->state == HL_PROCESS_ENDED && p->record_noted)
        hl_keep_end(p); /* what it left is all in the spool */
}

static void note_folded(const struct hl_process *p, struct hl_member *m)
{
    struct hl_hello h;
    uint64_t n = p->written.rows + p->n_lost;
    int i = best_hello(p);
    if (p->flags &
        (HL_PROC_NOTE_UNREAD | HL_PROC_NOTE_DAMAGED)) /* what was known stays */
        return;
    m->n_rows = n < HL_ROWS_MAX ? (uint32_t)n : HL_ROWS_MAX;
    m->has_end = p->record && p->record->end.kind != HL_ENDED_SAMPLED;
    if (p->hello[i] && hl_decode_hello(p->hello[i], p->hello_bytes[i], &h) == 0)
        m->rank = h.rank;
}

void hl_process_fold(struct hl_process *p)
{
    struct hl_job *j = p->job;
    if (!hl_process_is_settled(p) || !p->record_noted || p->discards || p->peer[0] ||
        p->peer[1] || p->page_fd >= 0 || p->rows_fd >= 0 ||
        (j->n_gathers && p->spool->stream_bytes))
        return;
    note_folded(p, &j->member[p->id]);
    j->member[p->id].live = NULL;
    j->n_open--;
    hl_process_free(p);
}

/* ---- the end's bell ---- */

static void on_pidfd(void *ctx, int events)
{
    (void)events;
    hl_death_begin(ctx, "pidfd");
}

void hl_process_watch(struct hl_process *p)
{
    const struct hl_peer *peer = p->peer[0] ? p->peer[0] : p->peer[1];
    if (p->watched || p->pidfd >= 0 || !p->kernel_pid || p->state != HL_PROCESS_ALIVE)
        return;
    p->watched = 1;
    /* A start time of another time namespace would not match: without a pidfd
     * the end of the connection is taken for the end of the process. */
    int fd = hl_procfs_open(peer ? peer->fd : -1, p->kernel_pid, p->start_ticks);
    struct hl_watch *w = fd < 0 ? NULL : hl_watch_new(p->d->loop, fd, on_pidfd, p);
    if (w && hl_watch_set(w, HL_READABLE) == 0) {
        p->pidfd = fd;
        p->pid_watch = w;
        return;
    }
    hl_watch_free(w, NULL);
    if (fd >= 0)
        close(fd);
    p->kernel_pid = 0;
}

int hl_process_is_gone(const struct hl_process *p)
{
    struct pollfd w = {p->pidfd, POLLIN, 0};
    return p->pidfd >= 0 && poll(&w, 1, 0) > 0;
}

void hl_process_close_descriptors(struct hl_process *p)
{
    int *fds[] = {&p->page_fd, &p->rows_fd, &p->pidfd};
    hl_watch_free(p->pid_watch, NULL);
    p->pid_watch = NULL;
    for (int i = 0; i < 3; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

/* Its descriptor belongs to the lane, and so does the moment of the end. */
struct closing {
    struct hl_task task;
    struct hl_spool *spool;
};

static void closing_work(struct hl_task *t)
{
    hl_spool_leave(((struct closing *)t)->spool);
}

static void closing_done(struct hl_task *t)
{
    /* Its memory goes where it came from, or each thread would hoard some. */
    hl_spool_fini(((struct closing *)t)->spool);
    free(((struct closing *)t)->spool);
    free(t);
}

static void close_spool(struct hl_daemon *d, struct hl_spool *s)
{
    struct closing *c;
    if (!s)
        return;
    if (s->fd < 0 && !s->is_dirty && hl_lane_is_idle(&d->writes)) {
        hl_spool_fini(s);
        free(s);
    } else if ((c = malloc(sizeof *c))) {
        *c = (struct closing){{closing_work, closing_done, NULL}, s};
        hl_lane_add(&d->writes, &c->task);
    } /* else it is never used again */
}

void hl_process_free(struct hl_process *p)
{
    leave_tables(p);
    hl_keep_end(p);
    unlink_process(p);
    for (int i = 0; i < 2; i++) {
        if (p->peer[i])
            p->peer[i]->process = NULL;
        free(p->hello[i]);
    }
    hl_process_close_descriptors(p);
    close_spool(p->d, p->spool);
    hl_tally_fini(&p->tally);
    hl_timeline_free(p);
    p->d->append.held_bytes -= hl_buf_left(&p->held);
    p->d->n_failing -= p->failing;
    hl_buf_fini(&p->held);
    free(p->record);
    free(p);
}

/* ---- what is known of it ---- */

/* One read for header and slots where it has as many as the last time. */
static const struct hl_heap_header *read_page(struct hl_process *p)
{
    uint8_t *at = p->d->page;
    size_t have = HL_HEAP_PAGE_HEADER + p->n_slots * HL_HEAP_SLOT_SIZE, want;
    if (p->page_fd < 0 || hl_path_pread_all(p->page_fd, at, have, 0))
        return NULL;
    const struct hl_heap_header *h = (const void *)at;
    if (!hl_heap_header_ok(h) || h->image != p->image)
        return NULL;
    p->n_slots = (uint16_t)hl_heap_slots_to_read(h);
    want = HL_HEAP_PAGE_HEADER + p->n_slots * HL_HEAP_SLOT_SIZE;
    if (want > have && hl_path_pread_all(p->page_fd, at + have, want - have, (off_t)have))
        return NULL;
    return h;
}

static const struct hl_heap_slot *slots_of(const struct hl_daemon *d)
{
    return (const void *)(d->page + HL_HEAP_PAGE_HEADER);
}

static void copy_text(char *out, struct hl_str s)
{
    if (s.n)
        memcpy(out, s.p, s.n);
    out[s.n] = 0;
}

/* Identity alone, where there is no page. */
static void record_of_hello(struct hl_process *p, struct hl_record *r)
{
    struct hl_hello h;
    int i = best_hello(p);
    memset(r, 0, sizeof *r);
    r->rank = r->vmhwm_bytes = r->vmrss_bytes = -1;
    r->pid = p->pid;
    if (!p->hello[i] || hl_decode_hello(p->hello[i], p->hello_bytes[i], &h))
        return;
    r->rank = h.rank;
    copy_text(r->host, h.host);
    copy_text(r->job, h.job);
}

static void fill_in_memory(const struct hl_process *p, struct hl_record *r)
{
    if (r->vmhwm_bytes < 0)
        r->vmhwm_bytes = p->vmhwm_bytes;
    if (r->vmrss_bytes < 0)
        r->vmrss_bytes = p->vmrss_bytes;
}

/* While its process runs a page is not read at one instant: once more, then. */
static int is_plausible(struct hl_process *p, const struct hl_heap_header *h)
{
    enum { LOOKS = 3 };
    for (int i = 0; h && i < LOOKS; i++) {
        if (!hl_heap_fault(h, slots_of(p->d), hl_heap_slots_to_read(h)))
            return 1;
        h = read_page(p);
    }
    return 0;
}

static void note_page(struct hl_process *p, const struct hl_heap_header *h)
{
    p->flags &= ~(uint32_t)HL_PROC_NOTE_PAGE;
    if (!is_plausible(p, h))
        p->flags |= HL_PROC_NOTE_PAGE;
    else if (h->flags & (HL_HEAP_BYPASSED | HL_HEAP_NEW_BYPASSED))
        p->flags |= HL_PROC_NOTE_BYPASSED;
}

void hl_process_look(struct hl_process *p, int64_t now_ns, struct hl_record_msg *out)
{
    const struct hl_heap_header *h = p->state == HL_PROCESS_ENDED ? NULL : read_page(p);
    memset(out, 0, sizeof *out);
    if (h)
        note_page(p, h);
    if (h && p->flags & HL_PROC_NOTE_PAGE) {
        record_of_hello(p, &out->record);
        out->notes = HL_PROC_NOTE_PAGE;
        out->end.kind = HL_ENDED_KILLED_OR_EXIT;
    } else if (h) {
        hl_heap_record(h, slots_of(p->d), hl_heap_slots_to_read(h), now_ns, &out->record);
        out->notes = p->flags & HL_PROC_NOTE_BYPASSED;
        out->end = hl_heap_end(h);
    } else if (p->record) {
        *out = *p->record;
    } else {
        record_of_hello(p, &out->record);
        out->end.kind =
            p->state == HL_PROCESS_ENDED ? HL_ENDED_SAMPLED : HL_ENDED_KILLED_OR_EXIT;
    }
    fill_in_memory(p, &out->record);
}

void hl_process_record(struct hl_process *p, int64_t now_ns, struct hl_record_msg *out)
{
    hl_process_look(p, now_ns, out);
    if (p->state == HL_PROCESS_ALIVE)
        out->end = (struct hl_end){HL_ENDED_RUNNING, 0};
}

void hl_process_describe(struct hl_process *p, struct hl_proc *out)
{
    int i = best_hello(p);
    memset(out, 0, sizeof *out);
    hl_process_record(p, hl_mono_ns(), &out->heap);
    if (p->state == HL_PROCESS_ENDING) /* its last bytes are still being read */
        out->heap.end = (struct hl_end){HL_ENDED_RUNNING, 0};
    if (out->heap.end.kind == HL_ENDED_KILLED_OR_EXIT) /* said when it was folded */
        hl_job_told(p->job, p->pid, p->start_ticks, &out->heap.end);
    if (!p->hello[i] || hl_decode_hello(p->hello[i], p->hello_bytes[i], &out->hello)) {
        hl_decode_hello(NULL, 0, &out->hello); /* all fields empty */
        out->hello.wire_min = out->hello.wire_max = HL_WIRE_VERSION;
        out->hello.role = HL_ROLE_HEAP;
        out->hello.pid = p->pid;
        out->hello.image = p->image;
    }
    out->hello.start_ticks = p->start_ticks;
    out->hello.key = (struct hl_str){p->job->key, strlen(p->job->key)};
    out->id = p->id;
    out->flags = p->flags | (hl_process_is_held(p) ? HL_PROC_NOTE_HELD : 0);
    out->n_rows = p->written.rows;
    out->stream_bytes = p->written.stream;
    out->catalog_bytes = p->written.catalogs;
    out->n_dropped = p->n_dropped;
    out->n_lost = hl_process_lost(p);
    out->n_points = p->n_points + p->n_points_gone;
    out->n_points_lost = p->n_points_bad + p->n_points_gone;
}

/* ---- samples ---- */

/* What the slots in use have counted, and the one behind them: when that has begun
 * to count there are more of them.  Nothing else of the page is looked at; this is
 * done each second for each process of the node. */
static uint64_t operations(struct hl_process *p)
{
    struct hl_heap_slot *slot = (void *)(p->d->page + HL_HEAP_PAGE_HEADER);
    size_t n = p->n_slots < HL_HEAP_N_SLOTS ? p->n_slots + 1u : HL_HEAP_N_SLOTS;
    uint64_t sum = 0;
    if (hl_path_pread_all(p->page_fd, slot, n * sizeof *slot, HL_HEAP_PAGE_HEADER))
        return p->n_counted;
    for (size_t i = 0; i < n; i++)
        sum += slot[i].allocs + slot[i].frees;
    if (slot[n - 1].owner_tid || slot[n - 1].allocs || slot[n - 1].frees)
        read_page(p);
    return sum;
}

void hl_process_sample(struct hl_process *p, int always)
{
    enum { STILL_TICKS = 10 };
    if (!p->kernel_pid || p->state == HL_PROCESS_ENDED)
        return;
    if (!always && p->page_fd >= 0) {
        uint64_t n = operations(p);
        p->n_still = n == p->n_counted ? p->n_still + 1 : 0;
        p->n_counted = n;
        if (p->n_still && p->n_still % STILL_TICKS)
            return;
    }
    hl_procfs_memory(p->kernel_pid, &p->vmhwm_bytes, &p->vmrss_bytes);
    p->sample_due = 1;
}
