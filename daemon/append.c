/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches on their way to the spools; see append.h.
 */
#include "append.h"

#include "daemon.h"
#include "job.h"
#include "peer.h"
#include "process.h"
#include "sampling.h"
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct hl_piece {
    struct hl_process *p;
    struct hl_spool *spool;
    size_t off, n;
    uint64_t at; /* in the file */
    struct hl_progress end;
    int result;
};

enum { PIECES_MAX = 16384 };

/* ---- life ---- */

static int init_batch(struct hl_daemon *d, struct hl_batch *b)
{
    b->d = d;
    b->buf = mmap(NULL, HL_BATCH_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->buf == MAP_FAILED)
        b->buf = NULL;
    return b->buf ? 0 : -1;
}

int hl_append_init(struct hl_daemon *d)
{
    struct hl_append *a = &d->append;
    a->filling = &a->batch[0];
    return init_batch(d, &a->batch[0]) || init_batch(d, &a->batch[1]) ? -1 : 0;
}

void hl_append_fini(struct hl_daemon *d)
{
    for (int i = 0; i < 2; i++) {
        struct hl_batch *b = &d->append.batch[i];
        if (b->buf)
            munmap(b->buf, HL_BATCH_BYTES);
        free(b->piece);
        *b = (struct hl_batch){.buf = NULL};
    }
}

int hl_append_tick(struct hl_daemon *d)
{
    struct hl_append *a = &d->append;
    int idle = 1;
    for (int i = 0; i < 2; i++) {
        struct hl_batch *b = &a->batch[i];
        if (!b->touched)
            continue;
        if (b == a->flying || b->n || b->touched++ < 2) { /* it was used just now */
            idle = 0;
            continue;
        }
        madvise(b->buf, HL_BATCH_BYTES, MADV_DONTNEED);
        free(b->piece);
        b->piece = NULL;
        b->cap = 0;
        b->touched = 0;
    }
    return idle;
}

uint64_t hl_append_done_with(const struct hl_process *p)
{
    return p->discards ? p->spool->stream_bytes : p->written.stream;
}

uint64_t hl_append_waiting(const struct hl_daemon *d)
{
    const struct hl_append *a = &d->append;
    return a->held_bytes + a->filling->n + (a->flying ? a->flying->n : 0);
}

int hl_append_is_written(const struct hl_daemon *d)
{
    return !d->append.flying && !d->append.filling->n_pieces;
}

/* ---- held by a process ---- */

static struct hl_progress progress_of(const struct hl_process *p)
{
    return (struct hl_progress){p->spool->stream_bytes, p->spool->catalog_bytes,
                                p->tally.n_rows};
}

/* Not even memory: the file would have a gap, so nothing behind it counts. */
static void give_up(struct hl_process *p)
{
    p->broken = 1;
    p->n_lost += p->tally.n_rows - p->written.rows;
    p->lost_reason = ENOMEM;
    p->d->append.held_bytes -= hl_buf_left(&p->held);
    hl_buf_fini(&p->held);
}

/* Bytes that have their place in the file and are in no batch. */
static void hold(struct hl_process *p, const uint8_t *msgs, size_t n, uint64_t at)
{
    if (p->broken || p->discards)
        return; /* counted when it was given up, or at its end */
    if (!hl_buf_left(&p->held))
        p->held_at = at;
    if (hl_buf_add(&p->held, msgs, n) == 0)
        p->d->append.held_bytes += n;
    else
        give_up(p);
}

void hl_append_discard(struct hl_process *p, int reason)
{
    p->discards = 1;
    p->lost_reason = reason;
    p->d->append.held_bytes -= hl_buf_left(&p->held);
    hl_buf_fini(&p->held);
}

struct retry {
    struct hl_task task;
    struct hl_process *p;
    struct hl_spool *spool;
    struct hl_buf bytes;
    uint64_t at;
    struct hl_progress end;
    int result;
};

static void retry_work(struct hl_task *t)
{
    struct retry *r = (struct retry *)t;
    r->result =
        hl_spool_write(r->spool, hl_buf_data(&r->bytes), hl_buf_left(&r->bytes), r->at);
}

/* What was added meanwhile comes behind what was not taken again. */
static void hold_again(struct hl_process *p, struct retry *r)
{
    struct hl_buf later = p->held;
    p->held = r->bytes;
    p->held_at = r->at;
    r->bytes = (struct hl_buf){.p = NULL};
    p->d->append.held_bytes -= hl_buf_left(&later);
    if (hl_buf_left(&later))
        hold(p, hl_buf_data(&later), hl_buf_left(&later), p->held_at);
    hl_buf_fini(&later);
}

static void wrote(struct hl_process *p, struct hl_progress end, size_t n)
{
    p->written = end;
    p->d->count.appended_bytes += n;
}

static void retry_done(struct hl_task *t)
{
    struct retry *r = (struct retry *)t;
    struct hl_process *p = r->p;
    size_t n = hl_buf_left(&r->bytes);
    p->n_flying--;
    p->retrying = 0;
    if (r->spool != p->spool || p->discards) {
        p->d->append.held_bytes -= n; /* it has begun anew meanwhile */
    } else if (r->result) {
        hold_again(p, r);
        hl_store_failed(p, r->result);
    } else {
        p->d->append.held_bytes -= n;
        wrote(p, r->end, n);
        if (!hl_buf_left(&p->held))
            hl_store_taken(p);
    }
    hl_buf_fini(&r->bytes);
    free(r);
    hl_process_settled(p);
}

void hl_append_retry(struct hl_process *p)
{
    /* What is on its way has its place before what is held. */
    struct retry *r =
        p->n_flying || p->loading || !hl_buf_left(&p->held) ? NULL : calloc(1, sizeof *r);
    if (!r)
        return;
    *r = (struct retry){.task = {retry_work, retry_done, NULL},
                        .p = p,
                        .spool = p->spool,
                        .bytes = p->held,
                        .at = p->held_at,
                        .end = progress_of(p)};
    p->held = (struct hl_buf){.p = NULL};
    p->retrying = 1;
    p->n_flying++;
    hl_lane_add(&p->d->writes, &r->task);
}

/* ---- into the batch ---- */

static int room_for_piece(struct hl_batch *b)
{
    if (b->n_pieces < b->cap)
        return 0;
    size_t cap = b->cap ? 2 * b->cap : 64;
    struct hl_piece *q =
        cap > PIECES_MAX ? NULL : realloc(b->piece, cap * sizeof *b->piece);
    if (!q)
        return -1;
    b->piece = q;
    b->cap = cap;
    return 0;
}

uint8_t *hl_append_room(struct hl_daemon *d, size_t *have)
{
    struct hl_batch *b = d->append.filling;
    /* A quarter is kept for what must have its place: the words of the dead. */
    if (HL_BATCH_BYTES - b->n < HL_READ_BYTES + (HL_BATCH_BYTES >> 2) ||
        (b->n_pieces == b->cap && room_for_piece(b))) {
        hl_append_turn(d);
        b = d->append.filling;
        if (b->n || room_for_piece(b))
            return NULL;
    }
    if (b->touched != 1) {
        b->touched = 1;
        hl_tidy_soon(d);
    }
    *have = HL_BATCH_BYTES - (HL_BATCH_BYTES >> 2) - b->n;
    return b->buf + b->n;
}

/* Messages that lie in the batch at off. */
static void add_piece(struct hl_process *p, struct hl_batch *b, size_t off, size_t n,
                      uint64_t at)
{
    struct hl_piece *last = b->n_pieces ? &b->piece[b->n_pieces - 1] : NULL;
    if (last && last->p == p && last->spool == p->spool && last->off + last->n == off &&
        last->at + last->n == at) { /* one write for both */
        last->n += n;
        last->end = progress_of(p);
        b->n = off + n;
        return;
    }
    b->piece[b->n_pieces++] = (struct hl_piece){
        .p = p, .spool = p->spool, .off = off, .n = n, .at = at, .end = progress_of(p)};
    b->n = off + n;
    p->n_flying++;
}

static int must_be_held(const struct hl_process *p)
{
    return hl_buf_left(&p->held) || p->retrying || p->loading;
}

static int note(struct hl_process *p, const uint8_t *msgs, size_t n, uint64_t *at)
{
    int r = p->broken ? -ENOMEM : hl_spool_note(p->spool, msgs, n, at);
    if (r)
        return r;
    p->job->user->spool_bytes += n;
    p->job->spool_bytes += n;
    return 0;
}

int hl_append_read(struct hl_process *p, const uint8_t *from, size_t n)
{
    struct hl_batch *b = p->d->append.filling;
    uint64_t at;
    int r = note(p, from, n, &at);
    if (r)
        return r;
    if (p->discards)
        return 0;
    if (must_be_held(p) || room_for_piece(b))
        hold(p, from, n, at);
    else
        add_piece(p, b, (size_t)(from - b->buf), n, at);
    return 0;
}

int hl_append_copy(struct hl_process *p, const void *msgs, size_t n)
{
    struct hl_batch *b = p->d->append.filling;
    int fits = !must_be_held(p) && !p->discards && HL_BATCH_BYTES - b->n >= n &&
               !room_for_piece(b);
    if (fits) {
        memcpy(b->buf + b->n, msgs, n);
        b->touched = 1;
        hl_tidy_soon(p->d);
        return hl_append_read(p, b->buf + b->n, n);
    }
    uint64_t at;
    int r = note(p, msgs, n, &at);
    if (r)
        return r;
    hold(p, msgs, n, at);
    if (!p->discards)
        hl_append_retry(p);
    return 0;
}

/* ---- to the disk ---- */

static void batch_work(struct hl_task *t)
{
    struct hl_batch *b = (struct hl_batch *)t;
    for (size_t i = 0; i < b->n_pieces; i++) {
        struct hl_piece *q = &b->piece[i];
        q->result = hl_spool_write(q->spool, b->buf + q->off, q->n, q->at);
    }
    if (!b->sync_each)
        return;
    for (size_t i = 0; i < b->n_pieces; i++) /* a clean one costs nothing */
        if (!b->piece[i].result)
            b->piece[i].result = hl_spool_sync(b->piece[i].spool);
}

static void failed(struct hl_process *p, const struct hl_batch *b,
                   const struct hl_piece *q)
{
    hold(p, b->buf + q->off, q->n, q->at);
    if (q->result == -EEXIST && !q->at)
        hl_process_meet_former(p);
    else if (!p->loading)
        hl_store_failed(p, q->result);
}

/* Pieces of processes that have something held must come behind that. */
static void pull_back(struct hl_batch *b)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->n_pieces; i++) {
        struct hl_piece *q = &b->piece[i];
        if (!must_be_held(q->p) || q->spool != q->p->spool) {
            b->piece[kept++] = *q;
            continue;
        }
        hold(q->p, b->buf + q->off, q->n, q->at);
        q->p->n_flying--;
    }
    b->n_pieces = kept;
    if (!kept)
        b->n = 0; /* else nobody would send it, and nobody have its room again */
}

static int take_results(struct hl_batch *b)
{
    int bad = 0;
    for (size_t i = 0; i < b->n_pieces; i++) {
        const struct hl_piece *q = &b->piece[i];
        q->p->n_flying--;
        if (q->spool != q->p->spool || q->p->discards) /* it has begun anew meanwhile */
            continue;
        if (!q->result && !must_be_held(q->p)) {
            wrote(q->p, q->end, q->n);
            continue;
        }
        bad = 1;
        if (q->result)
            failed(q->p, b, q);
        else /* what is before it is not safe */
            hold(q->p, b->buf + q->off, q->n, q->at);
    }
    return bad;
}

/* Each process once, however many pieces it had. */
static void settle_all(struct hl_daemon *d, const struct hl_batch *b)
{
    d->append.pass++;
    for (size_t i = 0; i < b->n_pieces; i++) {
        struct hl_process *p = b->piece[i].p;
        if (p->settled_pass == d->append.pass)
            continue;
        p->settled_pass = d->append.pass;
        hl_process_settled(p);
    }
}

static void batch_done(struct hl_task *t)
{
    struct hl_batch *b = (struct hl_batch *)t;
    struct hl_daemon *d = b->d;
    if (take_results(b))
        pull_back(d->append.filling);
    settle_all(d, b);
    b->n = b->n_pieces = 0;
    d->append.flying = NULL;
    hl_append_turn(d);
    hl_peer_unpark(d);
}

void hl_append_turn(void *daemon)
{
    struct hl_daemon *d = daemon;
    struct hl_append *a = &d->append;
    if (a->flying || !a->filling->n_pieces)
        return;
    a->flying = a->filling;
    a->filling = a->flying == &a->batch[0] ? &a->batch[1] : &a->batch[0];
    a->flying->task = (struct hl_task){batch_work, batch_done, NULL};
    a->flying->sync_each = d->sync_each;
    hl_lane_add(&d->writes, &a->flying->task);
}
