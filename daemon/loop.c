/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop on libuv, and all of libuv; see loop.h.  Descriptors are watched
 * by an epoll of our own that libuv watches: its own handles for them cost six
 * calls each, which is most of what thousands of connections at once would cost.
 */
#include "loop.h"

#include "delay.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <uv.h>

struct hl_loop {
    uv_loop_t uv;
    int stopping;
    int epoll;
    uv_poll_t watches; /* of the epoll */
    struct hl_watch *dead;
    struct hl_delay delay;
    uv_prepare_t before;
    uv_check_t after;
    void (*turn)(void *ctx);
    void *turn_ctx;
};

struct hl_watch {
    struct hl_loop *loop;
    int fd;
    int events;   /* that it waits for */
    int is_added; /* to the epoll */
    int is_dead;  /* waits for the end of the turn */
    hl_watch_fn *fn;
    void (*gone)(void *ctx);
    void *ctx;
    struct hl_watch *next_dead;
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

static void on_watches(uv_poll_t *uv, int status, int events);

static int start_epoll(struct hl_loop *l)
{
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll < 0 || uv_poll_init(&l->uv, &l->watches, l->epoll))
        return -1;
    l->watches.data = l;
    return uv_poll_start(&l->watches, UV_READABLE, on_watches) ? -1 : 0;
}

struct hl_loop *hl_loop_new(void)
{
    struct hl_loop *l = calloc(1, sizeof *l);
    if (!l || uv_loop_init(&l->uv)) {
        free(l);
        return NULL;
    }
    uv_loop_configure(&l->uv, UV_METRICS_IDLE_TIME);
    if (start_epoll(l) == 0)
        return l;
    if (l->epoll >= 0)
        close(l->epoll);
    uv_loop_close(&l->uv);
    free(l);
    return NULL;
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

static void on_deadline(uv_timer_t *t)
{
    *(int *)t->data = 1;
}

static void closed(uv_handle_t *h)
{
    *(int *)h->data = 2;
}

int hl_loop_wait(struct hl_loop *l, int (*busy)(void *ctx), void *ctx, uint64_t ms)
{
    uv_timer_t t;
    int over = 0, still;
    uv_timer_init(&l->uv, &t);
    t.data = &over;
    uv_update_time(&l->uv);
    uv_timer_start(&t, on_deadline, ms, 0);
    while ((still = busy(ctx)) && !over)
        uv_run(&l->uv, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&t, closed);
    while (over != 2)
        uv_run(&l->uv, UV_RUN_NOWAIT);
    return still ? -1 : 0;
}

/* Nobody refers to a watch that ended in the turn before. */
static void bury(struct hl_loop *l)
{
    while (l->dead) {
        struct hl_watch *w = l->dead;
        l->dead = w->next_dead;
        if (w->gone)
            w->gone(w->ctx);
        free(w);
    }
}

static void before_poll(uv_prepare_t *h)
{
    struct hl_loop *l = h->data;
    l->turn(l->turn_ctx);
    bury(l);
}

static void after_poll(uv_check_t *h)
{
    const struct hl_loop *l = h->data;
    l->turn(l->turn_ctx);
}

int hl_loop_on_turn(struct hl_loop *l, void (*fn)(void *ctx), void *ctx)
{
    l->turn = fn;
    l->turn_ctx = ctx;
    uv_prepare_init(&l->uv, &l->before);
    uv_check_init(&l->uv, &l->after);
    l->before.data = l->after.data = l;
    return uv_prepare_start(&l->before, before_poll) ||
                   uv_check_start(&l->after, after_poll)
               ? -1
               : 0;
}

int hl_loop_free(struct hl_loop *l)
{
    if (l->turn) {
        uv_close((uv_handle_t *)&l->before, NULL);
        uv_close((uv_handle_t *)&l->after, NULL);
    }
    bury(l);
    uv_close((uv_handle_t *)&l->watches, NULL);
    int r = uv_loop_close(&l->uv);
    /* Closed handles and work under way get their turn; should a handle have
     * been forgotten, this must not wait for it. */
    for (int i = 0; i < 1000 && r == UV_EBUSY; i++) {
        uv_run(&l->uv, UV_RUN_NOWAIT);
        if (i > 10)
            usleep(1000);
        r = uv_loop_close(&l->uv);
    }
    close(l->epoll);
    if (r == 0)
        free(l);
    return r ? -1 : 0;
}

/* ---- descriptors ---- */

enum { EVENTS_AT_ONCE = 256 };

static void on_watches(uv_poll_t *uv, int status, int events)
{
    struct hl_loop *l = uv->data;
    struct epoll_event e[EVENTS_AT_ONCE];
    int n = epoll_wait(l->epoll, e, EVENTS_AT_ONCE, 0);
    (void)status;
    (void)events;
    for (int i = 0; i < n; i++) {
        const struct hl_watch *w = e[i].data.ptr;
        int got = (e[i].events & EPOLLIN ? HL_READABLE : 0) |
                  (e[i].events & EPOLLOUT ? HL_WRITABLE : 0);
        /* An error of the descriptor comes out when it is read. */
        if (e[i].events & (EPOLLERR | EPOLLHUP))
            got |= HL_READABLE;
        if (!w->is_dead && w->events)
            w->fn(w->ctx, got);
    }
}

struct hl_watch *hl_watch_new(struct hl_loop *l, int fd, hl_watch_fn *fn, void *ctx)
{
    struct hl_watch *w = calloc(1, sizeof *w);
    if (w)
        *w = (struct hl_watch){.loop = l, .fd = fd, .fn = fn, .ctx = ctx};
    return w;
}

int hl_watch_set(struct hl_watch *w, int events)
{
    struct epoll_event e = {.events = (events & HL_READABLE ? EPOLLIN : 0) |
                                      (events & HL_WRITABLE ? EPOLLOUT : 0),
                            .data.ptr = w};
    int op = !w->is_added ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    if (events == w->events)
        return 0;
    w->events = events;
    /* A hangup would be told even to one that waits for nothing. */
    w->is_added = events != 0;
    return epoll_ctl(w->loop->epoll, op, w->fd, &e) ? -1 : 0;
}

void hl_watch_free(struct hl_watch *w, void (*gone)(void *ctx))
{
    if (!w)
        return;
    hl_watch_set(w, 0);
    w->gone = gone;
    w->is_dead = 1;
    w->next_dead = w->loop->dead;
    w->loop->dead = w;
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
