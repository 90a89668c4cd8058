/* SPDX-License-Identifier: Apache-2.0
 *
 * What a dead process left, read in this order: its sockets, its row buffer, its
 * page.  Then the record is made and everything is closed.  Done in pieces from
 * a queue, so that a full buffer of 1 GiB stops nobody else.
 */
#include "process.h"

#include "clock.h"
#include "heap_page.h"
#include "job.h"
#include "listen.h"
#include "path.h"
#include "peer.h"
#include "procfs.h"
#include "row_buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Until its parent has waited for it the kernel may not say how it ended. */
enum { WAIT_FOR_PARENT_MS = 1000, ASK_AGAIN_MS = 10 };

enum step { DONE, MORE, LATER, BLOCKED };

/* ---- queue ---- */

static void enqueue(struct hl_process *p)
{
    struct hl_process **at = &p->d->ending;
    while (*at)
        at = &(*at)->next_ending;
    *at = p;
    p->next_ending = NULL;
}

void hl_death_begin(struct hl_process *p, const char *cause)
{
    struct hl_log_about about = {p->job->shown, (int64_t)p->job->user->uid, p->pid};
    if (p->state != HL_PROCESS_ALIVE)
        return;
    p->state = HL_PROCESS_ENDING;
    p->end_seen_ns = hl_mono_ns();
    hl_watch_free(p->pid_watch, NULL);
    p->pid_watch = NULL;
    hl_log(&p->d->log, HL_LOG_DEBUG, NULL, &about, "process %lld: ALIVE -> ENDING (%s)",
           (long long)p->pid, cause);
    if (!p->ended_by_exec) /* else it would be the next image's */
        hl_process_sample(p, 1);
    enqueue(p);
    hl_timer_set(p->d->ending_timer, 0, 0);
}

void hl_death_peer_gone(struct hl_process *p)
{
    if (p->pidfd < 0 && !p->peer[0] && !p->peer[1])
        hl_death_begin(p, "connections closed");
}

/* ---- sockets ---- */

static enum step read_sockets(struct hl_process *p)
{
    for (int i = 0; i < 2; i++) {
        struct hl_peer *peer = p->peer[i];
        if (!peer)
            continue;
        if (hl_peer_drain(peer, HL_PIECE_BYTES) > 0)
            return MORE;
        if (hl_buf_left(&p->pending))
            return BLOCKED;
        if (p->peer[i]) { /* somebody else may hold it open: it is over */
            hl_peer_detach(peer);
            hl_peer_close(peer);
        }
    }
    return hl_buf_left(&p->pending) ? BLOCKED : DONE;
}

/* ---- row buffer ---- */

static void lose(struct hl_process *p, const struct hl_row_buffer *h, int reason)
{
    uint64_t kept = p->tally.n_rows + h->n_dropped;
    /* Its own count says how many there should be; at least one it was. */
    uint64_t n = h->n_rows > kept ? h->n_rows - kept : 1;
    p->n_lost += n;
    p->lost_reason = reason;
}

/* n bytes of the ring from stream offset o, the turn at its end included. */
static int read_ring(int fd, uint64_t capacity, uint64_t o, uint8_t *out, size_t n)
{
    uint64_t at = o % capacity;
    size_t first = capacity - at < n ? (size_t)(capacity - at) : n;
    if (hl_path_pread_all(fd, out, first, (off_t)(HL_ROW_BUFFER_DATA + at)))
        return -1;
    return first < n ? hl_path_pread_all(fd, out + first, n - first, HL_ROW_BUFFER_DATA)
                     : 0;
}

/* Whole, right messages at the start of n bytes; *bad: behind them is one that
 * will never become right. */
static size_t whole_messages(struct hl_process *p, const uint8_t *buf, size_t n, int *bad)
{
    size_t at = 0;
    *bad = 0;
    for (;;) {
        struct hl_wire_header h;
        const uint8_t *body;
        const char *why;
        size_t used;
        int code = hl_wire_next(buf + at, n - at, HL_IN_STREAM, HL_STATE_CLIENT, &h,
                                &body, &used);
        if (!code && hl_tally_take(&p->tally, &h, body, &why))
            code = HL_WIRE_BAD_VALUE;
        if (code) {
            *bad = code != HL_WIRE_SHORT;
            return at;
        }
        at += used;
    }
}

static enum step close_rows(struct hl_process *p)
{
    close(p->rows_fd);
    p->rows_fd = -1;
    return DONE;
}

/* One piece of [appended, head).  A piece holds the largest message there is. */
static enum step take_rows(struct hl_process *p)
{
    struct hl_row_buffer h;
    uint64_t capacity = p->rows_size - HL_ROW_BUFFER_DATA, at = p->spool.stream_bytes;
    int bad;
    if (p->rows_fd < 0)
        return DONE;
    if (hl_path_pread_all(p->rows_fd, &h, sizeof h, 0) ||
        h.magic != HL_ROW_BUFFER_MAGIC || h.version != HL_ROW_BUFFER_VERSION ||
        h.head <= at) {
        p->n_dropped = h.magic == HL_ROW_BUFFER_MAGIC && h.n_dropped > p->n_dropped
                           ? h.n_dropped
                           : p->n_dropped;
        return close_rows(p);
    }
    if (h.n_dropped > p->n_dropped)
        p->n_dropped = h.n_dropped;
    uint64_t left = h.head - at;
    if (left > capacity) { /* the ring has gone over what was never sent */
        lose(p, &h, EOVERFLOW);
        return close_rows(p);
    }
    size_t n = left < HL_PIECE_BYTES ? (size_t)left : HL_PIECE_BYTES;
    uint8_t *buf = malloc(n);
    if (!buf)
        return BLOCKED;
    size_t used = 0;
    bad = read_ring(p->rows_fd, capacity, at, buf, n) != 0;
    if (!bad)
        used = whole_messages(p, buf, n, &bad);
    int held = used && hl_process_append(p, buf, used);
    free(buf);
    if (bad || !used) {
        lose(p, &h, EBADMSG);
        close_rows(p);
        return held ? BLOCKED : DONE;
    }
    return held ? BLOCKED : MORE;
}

/* ---- how it ended ---- */

static int kernel_end(struct hl_process *p, struct hl_end *end)
{
    int own = p->job->user->uid == p->d->self;
    return hl_procfs_end(p->pidfd, p->kernel_pid, p->start_ticks, own, end) ||
           hl_job_told(p->job, p->pid, p->start_ticks, end);
}

/* Put the end that is most exact into a record whose end is what page or agent
 * said.  LATER: it will be known soon. */
static enum step find_end(struct hl_process *p, struct hl_end *end)
{
    struct hl_end known;
    if (p->ended_by_exec)
        *end = (struct hl_end){HL_ENDED_EXEC, 0};
    int page_lost = end->kind == HL_ENDED_SAMPLED && p->flags & HL_PROC_HEAP;
    if (end->kind == HL_ENDED_EXEC || page_lost)
        return DONE;
    if (kernel_end(p, &known)) {
        if (known.kind == HL_ENDED_SIGNAL || end->kind != HL_ENDED_EXIT)
            *end = known;
        return DONE;
    }
    int64_t waited = hl_mono_ns() - p->end_seen_ns;
    if (end->kind == HL_ENDED_EXIT || p->pidfd < 0 || p->d->stopping ||
        waited >= (int64_t)WAIT_FOR_PARENT_MS * 1000000)
        return DONE;
    return LATER;
}

/* ---- the record ---- */

int hl_death_save(struct hl_process *p)
{
    uint8_t out[HL_WIRE_HEADER * 3 + 4096];
    struct hl_bye bye = {p->n_dropped, p->tally.n_rows + p->n_dropped};
    struct hl_loss loss = {p->n_lost, (uint64_t)p->lost_reason};
    int64_t n = hl_encode_record(out, sizeof out, p->record);
    if (p->n_dropped)
        n += hl_encode_bye(out + n, sizeof out - (size_t)n, &bye);
    if (p->n_lost)
        n += hl_encode_loss(out + n, sizeof out - (size_t)n, &loss);
    int r = hl_process_note(p, out, (size_t)n);
    p->record_unsaved = r != 0;
    return r;
}

static enum step make_record(struct hl_process *p)
{
    struct hl_record_msg m;
    hl_process_record(p, p->end_seen_ns, &m);
    if (m.end.kind == HL_ENDED_RUNNING)
        m.end.kind = HL_ENDED_KILLED_OR_EXIT;
    if (find_end(p, &m.end) == LATER)
        return LATER;
    if (!p->record && !(p->record = malloc(sizeof m)))
        return BLOCKED;
    *p->record = m;
    return DONE;
}

static void finish(struct hl_process *p)
{
    struct hl_log_about about = {p->job->shown, (int64_t)p->job->user->uid, p->pid};
    char text[32];
    p->state = HL_PROCESS_ENDED;
    hl_end_text(&p->record->end, text);
    hl_log(&p->d->log, HL_LOG_DEBUG, NULL, &about, "process %lld: ENDING -> ENDED (%s)",
           (long long)p->pid, text);
    if (p->n_lost)
        hl_log(&p->d->log, HL_LOG_WARNING, "rows lost", &about,
               "process %lld of job %s: %llu rows lost (%s)", (long long)p->pid,
               p->job->shown, (unsigned long long)p->n_lost, strerror(p->lost_reason));
    hl_process_close_descriptors(p);
    p->d->count.n_ended++;
    p->d->count.rows_lost += p->n_lost;
    p->d->count.rows_dropped += p->n_dropped;
    hl_death_save(p); /* tried again by timer when the disk is full */
    hl_job_ended(p->job);
}

static enum step step(struct hl_process *p)
{
    enum step s = read_sockets(p);
    if (s == DONE)
        s = take_rows(p);
    if (s == DONE && hl_buf_left(&p->pending))
        s = BLOCKED;
    if (s == DONE)
        s = make_record(p);
    if (s == DONE)
        finish(p);
    return s;
}

/* A process may have connected in its last moment: whoever waits to be accepted
 * is, and has said hello, before any process is closed. */
static void meet_newcomers(struct hl_daemon *d)
{
    struct hl_peer *p;
    d->pass++;
    hl_listen_accept(d);
    if (!d->n_new)
        return;
    do {
        for (p = d->peers; p && (p->state != HL_PEER_NEW || p->pass == d->pass);)
            p = p->next;
        if (p) {
            p->pass = d->pass;
            hl_peer_drain(p, 1);
        }
    } while (p);
}

void hl_death_on_timer(void *daemon)
{
    struct hl_daemon *d = daemon;
    struct hl_process *p, *next;
    int more = 0, later = 0;
    meet_newcomers(d);
    p = d->ending;
    d->ending = NULL;
    for (; p; p = next) {
        next = p->next_ending;
        p->next_ending = NULL;
        enum step s = step(p);
        if (s == DONE)
            continue;
        enqueue(p);
        more |= s == MORE;
        later |= s == LATER;
    }
    if (d->ending)
        hl_timer_set(d->ending_timer, more ? 0 : later ? ASK_AGAIN_MS : 1000, 0);
}

void hl_death_finish_all(struct hl_daemon *d)
{
    /* Blocked ones stay: their rows are in the clients' hands or in the buffer. */
    for (int turn = 0; d->ending && turn < 1000; turn++)
        hl_death_on_timer(d);
}

void hl_death_told(struct hl_process *p, const struct hl_end *end)
{
    if (p->state != HL_PROCESS_ENDED || !p->record ||
        p->record->end.kind != HL_ENDED_KILLED_OR_EXIT)
        return;
    p->record->end = *end;
    hl_death_save(p);
}
