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
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Until its parent has waited for it the kernel may not say how it ended. */
enum {
    WAIT_FOR_PARENT_MS = 1000,
    ASK_AGAIN_MS = 10,
    BLOCKED_MS = 500, /* who unblocks them says so: this is for what nobody sees */
    AT_ONCE = 64
};

enum step {
    DONE,
    MORE,
    LATER,  /* its parent may say more */
    BLOCKED /* until there is room, or the disk takes its bytes: hl_death_go_on */
};

/* ---- queue ---- */

static void enqueue(struct hl_process *p)
{
    p->next_ending = NULL;
    *p->d->ending_end = p;
    p->d->ending_end = &p->next_ending;
}

static struct hl_process *dequeue(struct hl_daemon *d)
{
    struct hl_process *p = d->ending;
    d->ending = p->next_ending;
    if (!d->ending)
        d->ending_end = &d->ending;
    return p;
}

void hl_death_begin(struct hl_process *p, const char *cause)
{
    struct hl_log_about about = {p->job->shown, (int64_t)p->job->user->uid, p->pid};
    if (p->state != HL_PROCESS_ALIVE)
        return;
    hl_process_set_state(p, HL_PROCESS_ENDING);
    p->end_seen_ns = hl_mono_ns();
    hl_watch_free(p->pid_watch, NULL);
    p->pid_watch = NULL;
    hl_log(&p->d->log, HL_LOG_DEBUG, NULL, &about, "process %lld: ALIVE -> ENDING (%s)",
           (long long)p->pid, cause);
    if (p->pidfd < 0 && !p->ended_by_exec) /* else it has no memory, or another's */
        hl_process_sample(p, 1);
    enqueue(p);
    hl_timer_set(p->d->ending_timer, 0, 0);
}

void hl_death_peer_gone(struct hl_process *p)
{
    hl_process_watch(p);
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
        int r = hl_peer_drain(peer, HL_READ_BYTES);
        if (r > 0)
            return r == HL_DRAIN_NO_ROOM ? BLOCKED : MORE;
        if (p->failing || p->loading)
            return BLOCKED;
        if (p->peer[i]) { /* somebody else may hold it open: it is over */
            hl_peer_detach(peer);
            hl_peer_close(peer);
        }
    }
    return p->failing || p->loading ? BLOCKED : DONE;
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

static void note_dropped(struct hl_process *p, const struct hl_row_buffer *h)
{
    if (h->magic == HL_ROW_BUFFER_MAGIC && h->n_dropped > p->n_dropped)
        p->n_dropped = h->n_dropped;
}

/* Where a spool began anew or lost its end, what the client still had came again: its
 * own count says what is missing. */
static void settle_loss(struct hl_process *p, const struct hl_row_buffer *h)
{
    uint64_t kept = p->tally.n_rows + h->n_dropped;
    if (!p->recount || h->magic != HL_ROW_BUFFER_MAGIC)
        return;
    p->n_lost = h->n_rows > kept ? h->n_rows - kept : 0;
    if (p->n_lost && !p->lost_reason)
        p->lost_reason = EIO;
}

/* n bytes from offset at into the batch; how many were right, *bad as above. */
static size_t take_piece(struct hl_process *p, uint64_t at, uint8_t *room, size_t n,
                         int *bad)
{
    uint64_t capacity = p->rows_size - HL_ROW_BUFFER_DATA;
    *bad = read_ring(p->rows_fd, capacity, at, room, n) != 0;
    size_t used = *bad ? 0 : whole_messages(p, room, n, bad);
    if (used && hl_append_read(p, room, used))
        *bad = 1;
    return used;
}

/* One piece of [appended, head).  The room holds the largest message there is. */
static enum step take_rows(struct hl_process *p)
{
    struct hl_row_buffer h = {0};
    uint64_t at = p->spool->stream_bytes;
    size_t have;
    int bad;
    if (p->rows_fd < 0)
        return DONE;
    int unread = hl_path_pread_all(p->rows_fd, &h, sizeof h, 0);
    note_dropped(p, &h);
    if (unread || h.magic != HL_ROW_BUFFER_MAGIC || h.version != HL_ROW_BUFFER_VERSION ||
        h.head <= at) {
        if (!unread)
            settle_loss(p, &h);
        return close_rows(p);
    }
    uint64_t left = h.head - at;
    if (left > p->rows_size - HL_ROW_BUFFER_DATA) {
        lose(p, &h, EOVERFLOW); /* the ring has gone over what was never sent */
        return close_rows(p);
    }
    uint8_t *room = hl_append_room(p->d, &have);
    if (!room)
        return BLOCKED;
    size_t n = left < have ? (size_t)left : have;
    if (take_piece(p, at, room, n, &bad) && !bad)
        return p->failing ? BLOCKED : MORE;
    lose(p, &h, EBADMSG);
    return close_rows(p);
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
    int somebody_may_tell =
        p->job->user->uid == p->d->self || p->job->n_keepers || hl_procfs_pidfd_tells();
    if (end->kind == HL_ENDED_EXIT || p->pidfd < 0 || p->d->stopping ||
        !somebody_may_tell || waited >= (int64_t)WAIT_FOR_PARENT_MS * 1000000)
        return DONE;
    return LATER;
}

/* ---- the record ---- */

void hl_death_save(struct hl_process *p)
{
    uint8_t out[HL_WIRE_HEADER * 3 + 4096];
    struct hl_bye bye = {p->n_dropped, p->tally.n_rows + p->n_dropped};
    struct hl_loss loss = {hl_process_lost(p), (uint64_t)p->lost_reason};
    if (hl_timeline_n_taken(p) > p->record->n_points)
        p->record->n_points = hl_timeline_n_taken(p);
    int64_t n = hl_encode_record(out, sizeof out, p->record);
    if (p->n_dropped)
        n += hl_encode_bye(out + n, sizeof out - (size_t)n, &bye);
    if (loss.n_rows)
        n += hl_encode_loss(out + n, sizeof out - (size_t)n, &loss);
    hl_append_copy(p, out, (size_t)n);
    p->record_noted = 1;
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

void hl_death_lost(struct hl_process *p, uint64_t n)
{
    struct hl_log_about about = {p->job->shown, (int64_t)p->job->user->uid, p->pid};
    if (!n)
        return;
    p->job->n_lost += n;
    p->d->count.rows_lost += n;
    hl_log(&p->d->log, HL_LOG_WARNING, "rows lost", &about,
           "process %lld of job %s: %llu rows lost (%s)", (long long)p->pid,
           p->job->shown, (unsigned long long)n, strerror(p->lost_reason));
}

static void count_ended(struct hl_process *p)
{
    struct hl_job *j = p->job;
    j->n_rows += p->tally.n_rows;
    j->n_dropped += p->n_dropped;
    p->d->count.processes_ended++;
    p->d->count.rows_dropped += p->n_dropped;
    hl_death_lost(p, hl_process_lost(p));
}

static void finish(struct hl_process *p)
{
    struct hl_log_about about = {p->job->shown, (int64_t)p->job->user->uid, p->pid};
    char text[32];
    hl_process_set_state(p, HL_PROCESS_ENDED);
    hl_end_text(&p->record->end, text);
    hl_log(&p->d->log, HL_LOG_DEBUG, NULL, &about, "process %lld: ENDING -> ENDED (%s)",
           (long long)p->pid, text);
    hl_process_close_descriptors(p);
    count_ended(p);
    hl_timeline_end(p); /* the record counts its points */
    hl_death_save(p);
    hl_job_ended(p->job);
}

static enum step step(struct hl_process *p)
{
    if (p->failing && hl_store_is_hopeless(p->d))
        hl_store_give_up(p, p->d->spool_errno);
    enum step s = read_sockets(p);
    if (s == DONE)
        s = take_rows(p);
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
    struct hl_peer *next;
    hl_listen_accept(d);
    if (!d->n_new)
        return;
    /* One that is closed on the way still says who came after it. */
    for (struct hl_peer *p = d->peers; p; p = next) {
        if (p->state == HL_PEER_NEW)
            hl_peer_drain(p, 1);
        next = p->next;
    }
}

void hl_death_go_on(struct hl_daemon *d)
{
    if (d->ending)
        hl_timer_set(d->ending_timer, 0, 0);
}

int hl_death_is_done(const struct hl_daemon *d)
{
    return !d->ending;
}

void hl_death_on_timer(void *daemon)
{
    struct hl_daemon *d = daemon;
    size_t n = d->list[HL_PROCESS_ENDING].n, left = AT_ONCE;
    uint64_t again_ms = BLOCKED_MS;
    meet_newcomers(d);
    for (; n && left && d->ending; n--, left--) {
        struct hl_process *p = dequeue(d);
        enum step s = step(p);
        if (s != DONE)
            enqueue(p);
        if (s == MORE || s == DONE)
            again_ms = 0;
        else if (s == LATER && again_ms)
            again_ms = ASK_AGAIN_MS;
    }
    if (!d->ending)
        return;
    if (n && again_ms > ASK_AGAIN_MS) /* some were not asked */
        again_ms = ASK_AGAIN_MS;
    /* Where all of many wait for their parents, each is asked more rarely. */
    hl_timer_set(d->ending_timer, again_ms, 0);
}

void hl_death_told(struct hl_process *p, const struct hl_end *end)
{
    if (p->state != HL_PROCESS_ENDED || !p->record ||
        p->record->end.kind != HL_ENDED_KILLED_OR_EXIT)
        return;
    p->record->end = *end;
    hl_death_save(p);
}
