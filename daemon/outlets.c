/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread a sink, and the batches between them; see outlets.h.
 */
#include "outlets.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    QUEUE = 64,
    BATCHES_MAX = 8,
    BATCH_BYTES = 256 << 10,
    ALL_BATCHES_BYTES = 4 << 20,
    WAIT_MS = 200,
    PATIENCE_S = 600 /* without any sign of work of the disk */
};

struct outlet {
    struct hl_outlets *all;
    struct hl_sink *sink;
    pthread_t thread;
    pthread_cond_t more;
    struct hl_item queue[QUEUE];
    uint64_t n_put, n_done;
    int failed;
    struct hl_err err;
};

struct hl_outlets {
    struct outlet outlet[HL_OUTLETS_MAX];
    size_t n, n_started;
    struct hl_batch batch[BATCHES_MAX];
    size_t n_batches, batch_bytes;
    pthread_mutex_t lock;
    pthread_cond_t less; /* an item was done */
    int stop, waiting;
    int (*tick)(void *, struct hl_err *);
    void *ctx;
};

/* ---- the threads ---- */

static int do_rows(struct hl_sink *s, const struct hl_item *it, struct hl_err *e)
{
    const struct hl_sink_ops *ops = s->ops;
    const struct hl_heap_row *row = it->batch->p;
    int bad = 0;
    if (it->kind == HL_ITEM_ROWS)
        return ops->rows ? ops->rows(s, it->batch->p, it->batch->n, e) : 0;
    if (it->kind == HL_ITEM_POINTS)
        return ops->points ? ops->points(s, it->batch->p, it->batch->n, e) : 0;
    int (*put)(struct hl_sink *, const struct hl_heap_row *, struct hl_err *) =
        it->kind == HL_ITEM_HEAP ? ops->heap : ops->image;
    for (size_t i = 0; put && i < it->batch->n && !bad; i++)
        bad = put(s, &row[i], e);
    return bad;
}

static int do_item(struct hl_sink *s, const struct hl_item *it, struct hl_err *e)
{
    const struct hl_sink_ops *ops = s->ops;
    switch (it->kind) {
    case HL_ITEM_BEGIN: return ops->begin ? ops->begin(s, it->run, e) : 0;
    case HL_ITEM_RANK:
        return ops->rank_begin ? ops->rank_begin(s, it->rank, it->n, e) : 0;
    case HL_ITEM_OTHER:
        return ops->other_begin ? ops->other_begin(s, it->pid, it->text, it->n, e) : 0;
    case HL_ITEM_RANK_END: return ops->rank_end ? ops->rank_end(s, e) : 0;
    case HL_ITEM_TIMELINE:
        return ops->timeline_begin ? ops->timeline_begin(s, it->pid, it->text, it->n, e)
                                   : 0;
    case HL_ITEM_TIMELINE_END: return ops->timeline_end ? ops->timeline_end(s, e) : 0;
    case HL_ITEM_MISSING: return ops->missing ? ops->missing(s, it->text, e) : 0;
    case HL_ITEM_FINISH: return ops->finish(s, e);
    default: return do_rows(s, it, e);
    }
}

/* One item, with the lock held before and after. */
static void do_next(struct outlet *t)
{
    struct hl_outlets *o = t->all;
    struct hl_item it = t->queue[t->n_done % QUEUE];
    if (!t->failed) {
        pthread_mutex_unlock(&o->lock);
        int bad = do_item(t->sink, &it, &t->err);
        pthread_mutex_lock(&o->lock);
        t->failed = bad != 0;
    }
    if (it.batch)
        it.batch->users--;
    t->n_done++;
    if (o->waiting)
        pthread_cond_signal(&o->less);
}

static void *work(void *arg)
{
    struct outlet *t = arg;
    struct hl_outlets *o = t->all;
    pthread_mutex_lock(&o->lock);
    while (!o->stop) {
        if (t->n_done < t->n_put)
            do_next(t);
        else
            pthread_cond_wait(&t->more, &o->lock);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

/* ---- waiting, with the lock held ---- */

static int any_failed(const struct hl_outlets *o, struct hl_err *e)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->outlet[i].failed) {
            if (e)
                *e = o->outlet[i].err;
            return -1;
        }
    return 0;
}

static uint64_t n_done(const struct hl_outlets *o)
{
    uint64_t n = 0;
    for (size_t i = 0; i < o->n; i++)
        n += o->outlet[i].n_done;
    return n;
}

/* Until `is_met`; the others must not think that we are gone. */
static int wait_until(struct hl_outlets *o, int (*is_met)(struct hl_outlets *),
                      struct hl_err *e)
{
    uint64_t last = n_done(o);
    int64_t idle_ms = 0;
    int bad = 0;
    while (!bad && !(bad = any_failed(o, e)) && !is_met(o)) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += WAIT_MS * 1000000L;
        t.tv_sec += t.tv_nsec / 1000000000;
        t.tv_nsec %= 1000000000;
        o->waiting = 1;
        int late = pthread_cond_timedwait(&o->less, &o->lock, &t);
        o->waiting = 0;
        idle_ms = n_done(o) != last || !late ? 0 : idle_ms + WAIT_MS;
        last = n_done(o);
        pthread_mutex_unlock(&o->lock);
        bad = o->tick(o->ctx, e);
        pthread_mutex_lock(&o->lock);
        if (!bad && idle_ms > PATIENCE_S * 1000)
            bad = hl_fail(e, ETIMEDOUT, "the disk of the outputs did nothing for %d s",
                          PATIENCE_S);
    }
    return bad;
}

static struct hl_batch *free_batch(struct hl_outlets *o)
{
    for (size_t i = 0; i < o->n_batches; i++)
        if (!o->batch[i].users)
            return &o->batch[i];
    return NULL;
}

static int has_batch(struct hl_outlets *o)
{
    return free_batch(o) != NULL;
}

static int has_room(struct hl_outlets *o)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->outlet[i].n_put - o->outlet[i].n_done == QUEUE)
            return 0;
    return 1;
}

static int is_idle(struct hl_outlets *o)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->outlet[i].n_put != o->outlet[i].n_done)
            return 0;
    return 1;
}

/* ---- the caller's side ---- */

size_t hl_outlets_batch_bytes(const struct hl_outlets *o)
{
    return o->batch_bytes;
}

struct hl_batch *hl_outlets_batch(struct hl_outlets *o, struct hl_err *e)
{
    struct hl_batch *b = NULL;
    pthread_mutex_lock(&o->lock);
    if (!wait_until(o, has_batch, e)) {
        b = free_batch(o);
        b->n = 0;
    }
    pthread_mutex_unlock(&o->lock);
    return b;
}

int hl_outlets_put(struct hl_outlets *o, const struct hl_item *item, struct hl_err *e)
{
    pthread_mutex_lock(&o->lock);
    int bad = wait_until(o, has_room, e);
    if (!bad && item->batch)
        item->batch->users = (int)o->n;
    for (size_t i = 0; i < o->n && !bad; i++) {
        struct outlet *t = &o->outlet[i];
        int was_idle = t->n_put == t->n_done;
        t->queue[t->n_put++ % QUEUE] = *item;
        if (was_idle)
            pthread_cond_signal(&t->more);
    }
    pthread_mutex_unlock(&o->lock);
    return bad;
}

int hl_outlets_wait(struct hl_outlets *o, struct hl_err *e)
{
    pthread_mutex_lock(&o->lock);
    int bad = wait_until(o, is_idle, e);
    if (!bad)
        bad = any_failed(o, e);
    pthread_mutex_unlock(&o->lock);
    return bad;
}

int hl_outlets_failed(struct hl_outlets *o)
{
    pthread_mutex_lock(&o->lock);
    int bad = any_failed(o, NULL);
    pthread_mutex_unlock(&o->lock);
    return bad != 0;
}

/* ---- start and end ---- */

static int make_batches(struct hl_outlets *o, size_t row_bytes)
{
    o->batch_bytes = row_bytes > BATCH_BYTES ? row_bytes : BATCH_BYTES;
    size_t n = ALL_BATCHES_BYTES / o->batch_bytes;
    n = n < 2 ? 2 : n > BATCHES_MAX ? BATCHES_MAX : n;
    for (; o->n_batches < n; o->n_batches++)
        if (!(o->batch[o->n_batches].p = malloc(o->batch_bytes)))
            return -1;
    return 0;
}

struct hl_outlets *hl_outlets_open(struct hl_sink *const *sinks, size_t n,
                                   size_t row_bytes, int (*tick)(void *, struct hl_err *),
                                   void *ctx, struct hl_err *e)
{
    struct hl_outlets *o = calloc(1, sizeof *o);
    if (!o) {
        hl_fail(e, ENOMEM, "no memory left");
        return NULL;
    }
    o->n = n;
    o->tick = tick;
    o->ctx = ctx;
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->less, NULL);
    int bad = make_batches(o, row_bytes);
    for (size_t i = 0; i < n && !bad; i++) {
        o->outlet[i].all = o;
        o->outlet[i].sink = sinks[i];
        pthread_cond_init(&o->outlet[i].more, NULL);
        bad = pthread_create(&o->outlet[i].thread, NULL, work, &o->outlet[i]);
        o->n_started += !bad;
    }
    if (!bad)
        return o;
    hl_fail(e, ENOMEM, "no memory left for the writers");
    hl_outlets_close(o);
    return NULL;
}

void hl_outlets_close(struct hl_outlets *o)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    o->stop = 1;
    for (size_t i = 0; i < o->n_started; i++)
        pthread_cond_signal(&o->outlet[i].more);
    pthread_mutex_unlock(&o->lock);
    for (size_t i = 0; i < o->n_started; i++) {
        pthread_join(o->outlet[i].thread, NULL);
        pthread_cond_destroy(&o->outlet[i].more);
    }
    for (size_t i = 0; i < o->n_batches; i++)
        free(o->batch[i].p);
    pthread_cond_destroy(&o->less);
    pthread_mutex_destroy(&o->lock);
    free(o);
}
