/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots, kept descriptors and samples of the living processes; see keep.h.
 */
#include "keep.h"

#include "clock.h"
#include "heap_page.h"
#include "job.h"
#include "notify.h"
#include "path.h"
#include "points.h"
#include "process.h"
#include "row_buffer.h"
#include "samples.h"
#include "slots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FLUSH_MS = 2000,
    KEEP_DELAY_MS = 200,
    SLOTS_NOTED = 64 /* of one process: a client may send ever new memory */
};

struct hl_keep {
    struct hl_fdstore *store; /* NULL: no manager that keeps descriptors */
    struct hl_slots slots;
    struct hl_process *owner[HL_SLOTS_MAX];
    uint32_t n_used; /* slots at or above were never taken */
    int samples;     /* -1: cannot be written */
    int samples_failed;
    size_t n_writing;            /* runs of samples on their way */
    size_t n_claimed, n_sampled; /* at the restore, for the log */
};

/* ---- begin and end ---- */

void hl_keep_open(struct hl_daemon *d)
{
    struct hl_keep *k = calloc(1, sizeof *k);
    hl_passed_read(&d->passed, 3);
    if (d->passed.n_wrong)
        hl_log(&d->log, HL_LOG_WARNING, NULL, NULL,
               "%zu of the %lld descriptors that were passed are of no use: closed",
               d->passed.n_wrong, (long long)d->passed.n_fds);
    d->keep = k;
    if (!k)
        return; /* then nothing outlives this run but the spools */
    if (!d->private_run && hl_fdstore_available())
        k->store = hl_fdstore_new(d->loop, hl_notify_fd());
    hl_fdstore_delay(k->store, KEEP_DELAY_MS);
    for (uint32_t i = 0; i < HL_SLOTS_MAX; i++) /* whose they are is known later */
        if (hl_passed_has(&d->passed, i))
            hl_slots_take_at(&k->slots, i);
    k->samples = -1;
    hl_keep_open_samples(d);
}

void hl_keep_open_samples(struct hl_daemon *d)
{
    struct hl_keep *k = d->keep;
    if (!k)
        return;
    if (k->samples >= 0)
        close(k->samples);
    k->samples =
        openat(d->root, "samples", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (k->samples < 0)
        hl_log(&d->log, HL_LOG_WARNING, NULL, NULL,
               "cannot open %s/samples: %s; a crash loses the last samples", d->set.spool,
               strerror(errno));
}

void hl_keep_close(struct hl_daemon *d)
{
    struct hl_keep *k = d->keep;
    hl_passed_close_rest(&d->passed, NULL);
    if (!k)
        return;
    if (hl_fdstore_flush(k->store, FLUSH_MS))
        hl_log(&d->log, HL_LOG_WARNING, NULL, NULL,
               "the service manager did not take %zu descriptors",
               hl_fdstore_queued(k->store));
    hl_fdstore_free(k->store);
    if (k->samples >= 0)
        close(k->samples);
    free(k);
    d->keep = NULL;
}

/* ---- a process's slot ---- */

static void own(struct hl_process *p, int32_t slot)
{
    struct hl_keep *k = p->d->keep;
    p->slot = slot;
    if (slot < 0)
        return;
    k->owner[slot] = p;
    if ((uint32_t)slot >= k->n_used)
        k->n_used = (uint32_t)slot + 1;
}

static uint64_t inode_of(int fd)
{
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* 1: what is known of this descriptor has changed. */
static int keep_one(struct hl_process *p, char kind, int fd, uint64_t *inode)
{
    struct hl_keep *k = p->d->keep;
    uint64_t now = inode_of(fd);
    /* Without a pidfd its end could not be seen after a restart. */
    if (!k->store || !now || now == *inode || p->pidfd < 0 || !p->start_ticks ||
        p->n_slots_noted >= SLOTS_NOTED)
        return 0;
    if (hl_fdstore_keep(k->store, kind, (uint32_t)p->slot, fd)) {
        *inode = 0;
        p->keep_again = 1;
        return 0;
    }
    *inode = now;
    return 1;
}

static void note_slot(struct hl_process *p)
{
    uint8_t out[HL_WIRE_HEADER + 64];
    struct hl_slot m = {.number = (uint32_t)p->slot,
                        .flags = (p->page_inode ? HL_HELLO_PAGE : 0u) |
                                 (p->rows_inode ? HL_HELLO_ROWS : 0u),
                        .kernel_pid = p->kernel_pid,
                        .page_inode = p->page_inode,
                        .rows_inode = p->rows_inode};
    int64_t n = hl_encode_slot(out, sizeof out, &m);
    hl_append_copy(p, out, (size_t)n);
    p->n_slots_noted++;
}

void hl_keep_descriptors(struct hl_process *p)
{
    struct hl_keep *k = p->d->keep;
    int fresh = k && p->slot < 0;
    if (fresh)
        own(p, hl_slots_take(&k->slots));
    if (!k || p->slot < 0)
        return;
    p->keep_again = 0;
    int changed = keep_one(p, 'p', p->page_fd, &p->page_inode);
    changed |= keep_one(p, 'r', p->rows_fd, &p->rows_inode);
    if (fresh || (changed && p->n_slots_noted < SLOTS_NOTED))
        note_slot(p);
    p->sample_due = 1;
}

size_t hl_keep_n_stored(const struct hl_daemon *d)
{
    const struct hl_keep *k = d->keep;
    size_t n = 0;
    for (uint32_t i = 0; k && k->store && i < k->n_used; i++)
        if (k->owner[i])
            n += (k->owner[i]->page_inode != 0) + (k->owner[i]->rows_inode != 0);
    return n;
}

void hl_keep_end(struct hl_process *p)
{
    struct hl_keep *k = p->d->keep;
    if (!k || p->slot < 0)
        return;
    if (!p->d->stopping || p->state == HL_PROCESS_ENDED) {
        hl_fdstore_drop(k->store, 'p', (uint32_t)p->slot);
        hl_fdstore_drop(k->store, 'r', (uint32_t)p->slot);
    }
    k->owner[p->slot] = NULL;
    hl_slots_give(&k->slots, (uint32_t)p->slot);
    p->slot = -1;
    p->page_inode = p->rows_inode = 0;
}

/* ---- samples ---- */

static void say_samples(struct hl_daemon *d, int r)
{
    struct hl_keep *k = d->keep;
    if (r && !k->samples_failed)
        hl_log(&d->log, HL_LOG_WARNING, NULL, NULL,
               "cannot write %s/samples: %s; a crash loses the last samples",
               d->set.spool, strerror(-r));
    k->samples_failed = r != 0;
}

static void fill_cell(struct hl_process *p, int64_t now, uint8_t *cell)
{
    struct hl_sample_id id = {p->image, p->start_ticks, p->pid};
    struct hl_record_msg m;
    hl_process_record(p, now, &m);
    hl_sample_put(cell, &id, &m.record);
    p->sample_due = 0;
}

static int is_due(const struct hl_process *p)
{
    return p && p->sample_due && p->state == HL_PROCESS_ALIVE;
}

/* What could not be kept or noted at its hello. */
static void try_again(struct hl_daemon *d)
{
    struct hl_keep *k = d->keep;
    for (uint32_t i = 0; k && !d->spool_errno && i < k->n_used; i++)
        if (k->owner[i] && k->owner[i]->keep_again)
            hl_keep_descriptors(k->owner[i]);
}

struct run {
    struct hl_task task;
    struct hl_daemon *d;
    uint32_t first;
    size_t n;
    int result;
    uint8_t cells[HL_SAMPLE_RUN_MAX * HL_SAMPLE_BYTES];
};

static void run_work(struct hl_task *t)
{
    struct run *r = (struct run *)t;
    r->result = hl_samples_write(r->d->keep->samples, r->first, r->cells, r->n);
}

static void run_done(struct hl_task *t)
{
    struct run *r = (struct run *)t;
    r->d->keep->n_writing--;
    say_samples(r->d, r->result);
    free(r);
}

/* Neighbours that are due, from slot i on; how many. */
static size_t write_run(struct hl_daemon *d, uint32_t i)
{
    struct hl_keep *k = d->keep;
    struct run *r = is_due(k->owner[i]) ? malloc(sizeof *r) : NULL;
    int64_t now = hl_mono_ns();
    if (!r)
        return 0;
    r->task = (struct hl_task){run_work, run_done, NULL};
    r->d = d;
    r->first = i;
    for (r->n = 0; r->n < HL_SAMPLE_RUN_MAX && i < k->n_used && is_due(k->owner[i]); i++)
        fill_cell(k->owner[i], now, r->cells + r->n++ * HL_SAMPLE_BYTES);
    k->n_writing++;
    hl_lane_add(&d->writes, &r->task);
    return r->n;
}

void hl_keep_samples(struct hl_daemon *d)
{
    struct hl_keep *k = d->keep;
    try_again(d);
    if (!k || k->samples < 0 || k->n_writing) /* a slow disk gets fewer */
        return;
    for (uint32_t i = 0; i < k->n_used; i++) {
        size_t n = write_run(d, i);
        i += n ? (uint32_t)n - 1 : 0;
    }
}

/* ---- restore ---- */

/* The last sample, where it is newer than what the spool holds. */
static int recover_sample(struct hl_process *p, uint32_t slot)
{
    struct hl_sample_id id = {p->image, p->start_ticks, p->pid};
    uint8_t cell[HL_SAMPLE_BYTES];
    struct hl_record_msg m;
    struct hl_keep *k = p->d->keep;
    hl_process_record(p, 0, &m); /* identity, or an earlier record */
    int64_t known_ns = p->record ? m.record.elapsed_ns : -1;
    if (k->samples < 0 || hl_samples_read(k->samples, slot, cell) ||
        hl_sample_get(cell, &id, &m.record) || m.record.elapsed_ns <= known_ns)
        return -1;
    m.end = (struct hl_end){HL_ENDED_SAMPLED, 0};
    if (!p->record && !(p->record = malloc(sizeof m)))
        return -1;
    *p->record = m;
    p->vmhwm_bytes = m.record.vmhwm_bytes;
    p->vmrss_bytes = m.record.vmrss_bytes;
    return 0;
}

static void at_least(uint64_t *v, uint64_t least)
{
    if (*v < least)
        *v = least;
}

static void at_least_i64(int64_t *v, int64_t least)
{
    if (*v < least)
        *v = least;
}

/* What only grows is no less than in a point, even in one that is older. */
static void add_point(struct hl_record *r, const struct hl_point *v)
{
    int is_newer = v->time_ns > r->elapsed_ns;
    at_least_i64(&r->vmhwm_bytes, v->rss_bytes);
    if (is_newer && v->rss_bytes >= 0)
        r->vmrss_bytes = v->rss_bytes;
    if (v->heap_bytes < 0) /* then its time is another clock's, too */
        return;
    if (v->heap_peak_bytes > r->peak_bytes) {
        r->peak_bytes = v->heap_peak_bytes;
        r->peak_time_ns = v->time_ns; /* at the latest */
    }
    at_least(&r->allocs, v->allocs);
    at_least(&r->frees, v->frees);
    if (is_newer) {
        r->live_bytes = v->heap_bytes;
        r->elapsed_ns = v->time_ns;
    }
}

/* Samples and points are written each in their own time: the record must not say less
 * than the timeline.  0: it has been made newer. */
static int recover_point(struct hl_process *p)
{
    char name[2 * HL_NAME_CAP];
    struct hl_record_msg m;
    if (!p->n_points || hl_points_name(p->spool->name, name, sizeof name) ||
        (p->record && p->record->end.kind != HL_ENDED_SAMPLED))
        return -1;
    struct hl_point last = hl_points_last(&p->d->pool, name);
    hl_process_record(p, 0, &m);
    struct hl_record was = m.record;
    add_point(&m.record, &last);
    m.end = (struct hl_end){HL_ENDED_SAMPLED, 0};
    if (hl_point_is_lost(&last) || memcmp(&was, &m.record, sizeof was) == 0 ||
        (!p->record && !(p->record = malloc(sizeof m))))
        return -1;
    *p->record = m;
    p->vmhwm_bytes = m.record.vmhwm_bytes;
    p->vmrss_bytes = m.record.vmrss_bytes;
    return 0;
}

/* The memory must be this image's: an inode alone may come again. */
static int is_our_page(const struct hl_process *p, int fd)
{
    struct hl_heap_header h;
    return fd >= 0 && hl_path_pread_all(fd, &h, sizeof h, 0) == 0 &&
           hl_heap_header_ok(&h) && h.image == p->image;
}

static int are_our_rows(struct hl_process *p, int fd)
{
    struct hl_row_buffer b;
    struct stat st;
    if (fd < 0 || hl_path_pread_all(fd, &b, sizeof b, 0) ||
        b.magic != HL_ROW_BUFFER_MAGIC || b.image != p->image || fstat(fd, &st) ||
        (uint64_t)st.st_size != b.size || b.size < HL_ROW_BUFFER_MIN ||
        b.size > HL_ROW_BUFFER_MAX)
        return 0;
    p->rows_size = b.size;
    return 1;
}

/* Descriptors of one kind: now the process's, or closed and let go. */
static void claim(struct hl_process *p, char kind, const struct hl_slot *m, int *out,
                  uint64_t *inode_out)
{
    struct hl_keep *k = p->d->keep;
    uint64_t inode = kind == 'p' ? m->page_inode : m->rows_inode;
    int fd = inode ? hl_passed_claim(&p->d->passed, kind, m->number, inode) : -1;
    if (fd < 0)
        return;
    hl_fdstore_adopt(k->store, kind, m->number);
    if (kind == 'p' ? is_our_page(p, fd) : are_our_rows(p, fd)) {
        *out = fd;
        *inode_out = inode;
        return;
    }
    close(fd);
    hl_fdstore_drop(k->store, kind, m->number);
}

/* Alive again; whether it really is its pidfd says. */
static void come_back(struct hl_process *p, const struct hl_slot *m)
{
    /* A sample must not stand for what the page says better. */
    if (p->record && p->record->end.kind == HL_ENDED_SAMPLED &&
        (p->page_fd >= 0 || !(p->flags & HL_PROC_HEAP))) {
        p->vmhwm_bytes = p->record->record.vmhwm_bytes;
        p->vmrss_bytes = p->record->record.vmrss_bytes;
        free(p->record);
        p->record = NULL;
    }
    hl_process_revive(p);
    p->kernel_pid = m->kernel_pid;
    p->watched = 0;
    hl_process_watch(p);
    p->d->keep->n_claimed++;
    if (p->pidfd < 0)
        hl_death_begin(p, "gone while no collector ran");
    else
        hl_process_sample(p, 1);
    hl_timeline_meet(p);
}

void hl_keep_restore(struct hl_process *p, const struct hl_slot *m)
{
    struct hl_keep *k = p->d->keep;
    if (!k)
        return;
    int sampled = recover_sample(p, m->number) == 0;
    sampled |= recover_point(p) == 0;
    hl_slots_take_at(&k->slots, m->number); /* or reserved at the start */
    if (m->number < HL_SLOTS_MAX && !k->owner[m->number]) {
        own(p, (int32_t)m->number);
        claim(p, 'p', m, &p->page_fd, &p->page_inode);
        claim(p, 'r', m, &p->rows_fd, &p->rows_inode);
    }
    if (p->page_fd >= 0 || p->rows_fd >= 0) {
        come_back(p, m);
        return;
    }
    hl_keep_end(p);
    k->n_sampled += sampled;
    if (sampled)
        hl_death_save(p);
}

/* It has another slot now: what was kept is kept anew. */
static void take_over(struct hl_process *p, char kind, const struct hl_slot *m, int *fd)
{
    struct hl_keep *k = p->d->keep;
    uint64_t inode = 0;
    if (*fd >= 0)
        return;
    claim(p, kind, m, fd, &inode);
    if (*fd >= 0)
        hl_fdstore_drop(k->store, kind, m->number);
}

void hl_keep_claim(struct hl_process *p, const struct hl_slot *m)
{
    if (!p->d->keep || p->state != HL_PROCESS_ALIVE)
        return;
    take_over(p, 'p', m, &p->page_fd);
    take_over(p, 'r', m, &p->rows_fd);
    hl_keep_descriptors(p);
}

static void give_reserved(struct hl_daemon *d)
{
    struct hl_keep *k = d->keep;
    for (uint32_t i = 0; k && i < HL_SLOTS_MAX; i++)
        if (hl_passed_has(&d->passed, i) && !k->owner[i])
            hl_slots_give(&k->slots, i);
}

void hl_keep_restored(struct hl_daemon *d)
{
    struct hl_keep *k = d->keep;
    give_reserved(d);
    size_t rest = hl_passed_close_rest(&d->passed, k ? k->store : NULL);
    if (k && (rest || k->n_claimed || k->n_sampled))
        hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL,
               "%zu processes go on with the memory that was kept, %zu are told by their "
               "last sample; %zu kept descriptors belong to nobody",
               k->n_claimed, k->n_sampled, rest);
}
