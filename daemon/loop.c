/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop on libuv, and all of libuv; see loop.h.
 */
#include "loop.h"

#include "delay.h"

#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

struct hl_loop {
    uv_loop_t uv;
    int stopping;
    struct hl_delay delay;
};

struct hl_watch {
    uv_poll_t uv;
    hl_watch_fn *fn;
    void (*gone)(void *ctx);
    void *ctx;
};

struct hl_timer {
    uv_timer_t uv;
    hl_timer_fn *fn;
    void *ctx;
};

struct hl_signal {
    uv_signal_t uv;
    hl_signal_fn *fn;
    void *ctx;
};

struct work {
    uv_work_t uv;
    void (*work)(void *ctx), (*done)(void *ctx);
    void *ctx;
};

/* ---- loop ---- */

struct hl_loop *hl_loop_new(void)
{
    struct hl_loop *l = calloc(1, sizeof *l);
    if (l && uv_loop_init(&l->uv)) {
        free(l);
        l = NULL;
    }
    if (l)
        uv_loop_configure(&l->uv, UV_METRICS_IDLE_TIME);
    return l;
}

const struct hl_delay *hl_loop_delay(const struct hl_loop *l)
{
    return &l->delay;
}

/* What of a turn was not waiting is what others had to wait for. */
static int turn(struct hl_loop *l)
{
    uint64_t began = uv_hrtime(), idle = uv_metrics_idle_time(&l->uv);
    int more = uv_run(&l->uv, UV_RUN_ONCE);
    uint64_t now = uv_hrtime(), waited = uv_metrics_idle_time(&l->uv) - idle;
    uint64_t took = now - began;
    hl_delay_add(&l->delay, (int64_t)now, took > waited ? took - waited : 0);
    return more;
}

int hl_loop_run(struct hl_loop *l)
{
    while (!l->stopping && turn(l))
        continue;
    return 0;
}

void hl_loop_stop(struct hl_loop *l)
{
    l->stopping = 1;
    uv_stop(&l->uv);
}

int hl_loop_free(struct hl_loop *l)
{
    int r = uv_loop_close(&l->uv);
    /* Closed handles and work under way get their turn; should a handle have
     * been forgotten, this must not wait for it. */
    for (int i = 0; i < 1000 && r == UV_EBUSY; i++) {
        uv_run(&l->uv, UV_RUN_NOWAIT);
        if (i > 10)
            usleep(1000);
        r = uv_loop_close(&l->uv);
    }
    if (r == 0)
        free(l);
    return r ? -1 : 0;
}

/* ---- descriptors ---- */

static void on_poll(uv_poll_t *uv, int status, int events)
{
    struct hl_watch *w = uv->data;
    int e = (events & UV_READABLE ? HL_READABLE : 0) |
            (events & UV_WRITABLE ? HL_WRITABLE : 0);
    /* An error of the descriptor comes out when it is read. */
    w->fn(w->ctx, status < 0 ? HL_READABLE : e);
}

static void free_watch(uv_handle_t *h)
{
    struct hl_watch *w = h->data;
    if (w->gone)
        w->gone(w->ctx);
    free(w);
}

struct hl_watch *hl_watch_new(struct hl_loop *l, int fd, hl_watch_fn *fn, void *ctx)
{
    struct hl_watch *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->fn = fn;
    w->ctx = ctx;
    if (uv_poll_init(&l->uv, &w->uv, fd)) {
        free(w);
        return NULL;
    }
    w->uv.data = w;
    return w;
}

int hl_watch_set(struct hl_watch *w, int events)
{
    int e = (events & HL_READABLE ? UV_READABLE : 0) |
            (events & HL_WRITABLE ? UV_WRITABLE : 0);
    return (e ? uv_poll_start(&w->uv, e, on_poll) : uv_poll_stop(&w->uv)) ? -1 : 0;
}

void hl_watch_free(struct hl_watch *w, void (*gone)(void *ctx))
{
    if (!w)
        return;
    w->gone = gone;
    uv_poll_stop(&w->uv);
    uv_close((uv_handle_t *)&w->uv, free_watch);
}

/* ---- timers ---- */

static void on_timer(uv_timer_t *uv)
{
    struct hl_timer *t = uv->data;
    t->fn(t->ctx);
}

static void free_handle(uv_handle_t *h)
{
    free(h->data);
}

struct hl_timer *hl_timer_new(struct hl_loop *l, hl_timer_fn *fn, void *ctx)
{
    struct hl_timer *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    uv_timer_init(&l->uv, &t->uv);
    t->uv.data = t;
    t->fn = fn;
    t->ctx = ctx;
    return t;
}

void hl_timer_set(struct hl_timer *t, uint64_t delay_ms, uint64_t repeat_ms)
{
    uv_update_time(t->uv.loop);
    uv_timer_start(&t->uv, on_timer, delay_ms, repeat_ms);
}

void hl_timer_stop(struct hl_timer *t)
{
    uv_timer_stop(&t->uv);
}

int hl_timer_is_set(const struct hl_timer *t)
{
    return uv_is_active((const uv_handle_t *)&t->uv);
}

void hl_timer_free(struct hl_timer *t)
{
    if (t)
        uv_close((uv_handle_t *)&t->uv, free_handle);
}

/* ---- signals ---- */

static void on_signal(uv_signal_t *uv, int number)
{
    struct hl_signal *s = uv->data;
    s->fn(s->ctx, number);
}

struct hl_signal *hl_signal_new(struct hl_loop *l, int number, hl_signal_fn *fn,
                                void *ctx)
{
    struct hl_signal *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    if (uv_signal_init(&l->uv, &s->uv)) {
        free(s);
        return NULL;
    }
    s->uv.data = s;
    s->fn = fn;
    s->ctx = ctx;
    uv_signal_start(&s->uv, on_signal, number);
    return s;
}

void hl_signal_free(struct hl_signal *s)
{
    if (s)
        uv_close((uv_handle_t *)&s->uv, free_handle);
}

/* ---- work ---- */

static void on_work(uv_work_t *uv)
{
    struct work *w = uv->data;
    w->work(w->ctx);
}

static void on_done(uv_work_t *uv, int status)
{
    struct work *w = uv->data;
    (void)status;
    w->done(w->ctx);
    free(w);
}

int hl_loop_work(struct hl_loop *l, void (*work)(void *ctx), void (*done)(void *ctx),
                 void *ctx)
{
    struct work *w = calloc(1, sizeof *w);
    if (!w)
        return -1;
    *w = (struct work){.work = work, .done = done, .ctx = ctx};
    w->uv.data = w;
    if (uv_queue_work(&l->uv, &w->uv, on_work, on_done)) {
        free(w);
        return -1;
    }
    return 0;
}
