/* SPDX-License-Identifier: Apache-2.0
 *
 * A process's life in the collector up to its death; see process.h.
 */
#include "process.h"

#include "clock.h"
#include "heap_page.h"
#include "job.h"
#include "path.h"
#include "peer.h"
#include "procfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static int enter_tables(struct hl_process *p)
{
    struct image_key i = image_key(p);
    struct pid_key k = pid_key(p);
    if (hl_table_put(&p->d->by_image, &i, sizeof i, p))
        return -1;
    end_earlier_image(p);
    if (hl_table_put(&p->d->by_pid, &k, sizeof k, p))
        return -1;
    return hl_job_add(p->job, p);
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

/* ---- begin ---- */

static struct hl_process *make(struct hl_job *j, int64_t pid, uint64_t start_ticks,
                               uint64_t image)
{
    struct hl_process *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct hl_process){.d = j->d,
                             .job = j,
                             .pid = pid,
                             .start_ticks = start_ticks,
                             .image = image,
                             .page_fd = -1,
                             .rows_fd = -1,
                             .pidfd = -1,
                             .vmhwm_bytes = -1,
                             .vmrss_bytes = -1};
    p->spool.fd = -1;
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

/* SPOOL and HELLO, the first bytes of every spool. */
static int create_spool(struct hl_process *p, const uint8_t *body, size_t n,
                        struct hl_err *e)
{
    uint8_t first[2 * HL_HELLO_CAP];
    char name[2 * HL_NAME_CAP];
    struct hl_job *j = p->job;
    struct hl_spool_head head = {.format = HL_SPOOL_FORMAT,
                                 .uid = j->user->uid,
                                 .pid = p->pid,
                                 .start_ticks = p->start_ticks,
                                 .image = p->image,
                                 .key = {j->key, strlen(j->key)}};
    int64_t used = hl_encode_spool_head(first, sizeof first, &head);
    memcpy(first + used + HL_WIRE_HEADER, body, n);
    hl_wire_header_put(first + used, HL_MSG_HELLO, first + used + HL_WIRE_HEADER,
                       (uint32_t)n);
    int r = hl_job_make_folder(j);
    if (r) {
        errno = -r;
        return hl_fail_errno(e, "cannot make a folder below %s", p->d->set.spool);
    }
    hl_job_folder(j, name);
    size_t at = strlen(name);
    name[at++] = '/';
    hl_process_file_name(j->key, p->pid, p->image, ".spool", name + at);
    return hl_spool_create(&p->spool, &p->d->pool, name, first,
                           (size_t)used + HL_WIRE_HEADER + n, e);
}

struct hl_process *hl_process_start(struct hl_job *j, const struct hl_hello *h,
                                    const uint8_t *body, size_t n, struct hl_err *e)
{
    struct hl_process *p = make(j, h->pid, h->start_ticks, h->image);
    if (!p || hl_process_keep_hello(p, h->role, body, n)) {
        hl_fail(e, ENOMEM, "no memory left");
        free(p);
        return NULL;
    }
    if (create_spool(p, body, n, e) || enter_tables(p)) {
        if (p->spool.pool)
            hl_spool_remove(&p->spool);
        if (!e->code)
            hl_fail(e, ENOMEM, "no memory left");
        hl_process_free(p);
        return NULL;
    }
    j->user->spool_bytes += p->spool.size;
    j->d->count.appended_bytes += p->spool.size;
    hl_job_started(j);
    return p;
}

struct hl_process *hl_process_restore(struct hl_job *j, int64_t pid, uint64_t start_ticks,
                                      uint64_t image)
{
    struct hl_process *p = make(j, pid, start_ticks, image);
    if (!p)
        return NULL;
    p->state = HL_PROCESS_ENDED;
    if (enter_tables(p)) {
        hl_process_free(p);
        return NULL;
    }
    return p;
}

void hl_process_revive(struct hl_process *p)
{
    if (p->state != HL_PROCESS_ENDED)
        return;
    p->state = HL_PROCESS_ALIVE; /* the record stays: the page may be gone */
    hl_job_started(p->job);
}

/* ---- the end's bell ---- */

static void on_pidfd(void *ctx, int events)
{
    (void)events;
    hl_death_begin(ctx, "pidfd");
}

void hl_process_watch(struct hl_process *p, int sock, int64_t kernel_pid)
{
    if (p->pidfd >= 0 || kernel_pid <= 0)
        return;
    /* A start time of another time namespace would not match: without a pidfd
     * the end of the connection is taken for the end of the process. */
    int fd = hl_procfs_open(sock, kernel_pid, p->start_ticks);
    if (fd < 0)
        return;
    struct hl_watch *w = hl_watch_new(p->d->loop, fd, on_pidfd, p);
    if (!w || hl_watch_set(w, HL_READABLE)) {
        hl_watch_free(w, NULL);
        close(fd);
        return;
    }
    p->pidfd = fd;
    p->pid_watch = w;
    p->kernel_pid = kernel_pid;
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

void hl_process_free(struct hl_process *p)
{
    leave_tables(p);
    for (int i = 0; i < 2; i++) {
        if (p->peer[i])
            p->peer[i]->process = NULL;
        free(p->hello[i]);
    }
    hl_process_close_descriptors(p);
    hl_spool_fini(&p->spool);
    hl_tally_fini(&p->tally);
    hl_buf_fini(&p->pending);
    free(p->record);
    free(p);
}

/* ---- appending ---- */

static void say_failing(struct hl_process *p, int r)
{
    struct hl_daemon *d = p->d;
    d->count.n_failed_appends++;
    if (!d->spool_failing)
        hl_log(&d->log, HL_LOG_ERR, NULL, NULL,
               "cannot write the spool %s/%s: %s; clients wait, tried again each second",
               d->set.spool, p->spool.name, strerror(-r));
    d->spool_failing = -r;
    if (!hl_timer_is_set(d->retry_timer))
        hl_timer_set(d->retry_timer, 1000, 1000);
}

static int append(struct hl_process *p, const uint8_t *msgs, size_t n)
{
    int r = hl_spool_append(&p->spool, msgs, n);
    if (!r && !p->d->private_run && !p->d->set.sync_interval_ns)
        r = hl_spool_sync(&p->spool);
    if (r)
        say_failing(p, r);
    else
        p->job->user->spool_bytes += n, p->d->count.appended_bytes += n;
    return r;
}

int hl_process_append(struct hl_process *p, const uint8_t *msgs, size_t n)
{
    if (!hl_buf_left(&p->pending) && !append(p, msgs, n))
        return 0;
    if (hl_buf_add(&p->pending, msgs, n) == 0)
        return 1;
    /* Not even memory: what the tally has counted is lost to it. */
    p->n_lost++;
    p->lost_reason = ENOMEM;
    return 1;
}

int hl_process_retry(struct hl_process *p)
{
    size_t n = hl_buf_left(&p->pending);
    if (n && append(p, hl_buf_data(&p->pending), n))
        return -1;
    hl_buf_fini(&p->pending);
    return 0;
}

int hl_process_note(struct hl_process *p, const uint8_t *msgs, size_t n)
{
    return append(p, msgs, n);
}

/* ---- what is known of it ---- */

static const struct hl_heap_header *read_page(struct hl_process *p)
{
    uint8_t *at = p->d->page;
    if (p->page_fd < 0 || hl_path_pread_all(p->page_fd, at, HL_HEAP_PAGE_HEADER, 0))
        return NULL;
    const struct hl_heap_header *h = (const void *)at;
    size_t n = hl_heap_slots_to_read(h) * HL_HEAP_SLOT_SIZE;
    if (!hl_heap_header_ok(h) || h->image != p->image ||
        hl_path_pread_all(p->page_fd, at + HL_HEAP_PAGE_HEADER, n, HL_HEAP_PAGE_HEADER))
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

static int best_hello(const struct hl_process *p)
{
    return p->hello[1] != NULL; /* the client library's says more */
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

void hl_process_record(struct hl_process *p, int64_t now_ns, struct hl_record_msg *out)
{
    const struct hl_heap_header *h = p->state == HL_PROCESS_ENDED ? NULL : read_page(p);
    memset(out, 0, sizeof *out);
    if (h) {
        hl_heap_record(h, slots_of(p->d), hl_heap_slots_to_read(h), now_ns, &out->record);
        if (h->flags & (HL_HEAP_BYPASSED | HL_HEAP_NEW_BYPASSED))
            p->flags |= HL_PROC_NOTE_BYPASSED;
        out->end = hl_heap_end(h);
    } else if (p->record) {
        *out = *p->record;
    } else {
        record_of_hello(p, &out->record);
        out->end.kind =
            p->state == HL_PROCESS_ENDED ? HL_ENDED_SAMPLED : HL_ENDED_KILLED_OR_EXIT;
    }
    if (p->state == HL_PROCESS_ALIVE)
        out->end = (struct hl_end){HL_ENDED_RUNNING, 0};
    fill_in_memory(p, &out->record);
}

void hl_process_describe(struct hl_process *p, struct hl_proc *out)
{
    int i = best_hello(p);
    memset(out, 0, sizeof *out);
    hl_process_record(p, hl_mono_ns(), &out->heap);
    if (p->state == HL_PROCESS_ENDING) /* its last bytes are still being read */
        out->heap.end = (struct hl_end){HL_ENDED_RUNNING, 0};
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
    out->flags = p->flags;
    out->n_rows = p->tally.n_rows;
    out->stream_bytes = p->spool.stream_bytes;
    out->catalog_bytes = p->spool.catalog_bytes;
    out->n_dropped = p->n_dropped;
    out->n_lost = p->n_lost;
}

/* ---- samples ---- */

static uint64_t operations(struct hl_process *p)
{
    const struct hl_heap_header *h = read_page(p);
    uint64_t sum = 0;
    for (size_t i = 0; h && i < hl_heap_slots_to_read(h); i++)
        sum += slots_of(p->d)[i].allocs + slots_of(p->d)[i].frees;
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
}
