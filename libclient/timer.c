/* SPDX-License-Identifier: Apache-2.0
 *
 * Region timers: making, reading at boundaries, thread ends; see timer.h.
 */
#include "timer.h"

#include "memory.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>

__thread struct hl_thread *hl_self __attribute__((tls_model("initial-exec")));
uint64_t hl_epoch = 2; /* 0 is no epoch, see fast_epoch */

static struct hl_thread *threads; /* all that ever lived; reused, never freed */
static pthread_key_t end_key;
static int have_end_key;

/* ---- the owner ---- */

static size_t block_size(uint32_t cap)
{
    return cap * (sizeof(struct hl_region) + 2 * sizeof(struct hl_sum));
}

/* One block holds regions, sums set aside and sums read. */
static int grow(struct hl_thread *t, uint32_t n)
{
    uint32_t cap = t->cap ? t->cap : 64;
    if (n <= t->cap)
        return 0;
    while (cap < n)
        cap *= 2;
    struct hl_region *region = hl_map_new(block_size(cap));
    if (!region)
        return -1;
    struct hl_sum *aside = (struct hl_sum *)(region + cap), *read = aside + cap;
    if (t->cap) {
        memcpy(region, t->region, t->cap * sizeof *region);
        memcpy(aside, t->sum_aside, t->cap * sizeof *aside);
        memcpy(read, t->read, t->cap * sizeof *read);
        hl_map_free(t->region, block_size(t->cap));
    }
    t->region = region;
    t->sum_aside = aside;
    t->read = read;
    t->cap = cap;
    return 0;
}

/* Regions of an earlier session are nobody's. */
static void belong_to(struct hl_thread *t, uint64_t session)
{
    if (t->session == session)
        return;
    if (t->cap)
        memset(t->region, 0, block_size(t->cap));
    memset(t->pushed, 0, sizeof t->pushed);
    hl_set(t->stack.depth, 0);
    t->n_known = 0;
    t->n_aside = 0;
    hl_set(t->epoch, 0);
    t->fast_epoch = 0;
    hl_set(t->read_epoch, 0);
    t->read_seq = 1; /* never equal to a seq at rest */
    t->session = session;
}

static struct hl_thread *find_timers(void)
{
    struct hl_thread *t = threads;
    while (t && t->in_use)
        t = t->next;
    if (t)
        return t;
    t = hl_map_new(sizeof *t);
    if (!t)
        return NULL;
    if (threads && !threads->next)
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    t->next = threads;
    threads = t;
    return t;
}

struct hl_thread *hl_timer_self(uint64_t session, uint32_t n_regions)
{
    struct hl_thread *t = hl_self ? hl_self : find_timers();
    if (!t)
        return NULL;
    belong_to(t, session);
    if (grow(t, n_regions))
        return NULL;
    t->n_known = n_regions;
    if (!hl_self && have_end_key && pthread_setspecific(end_key, t))
        return NULL;
    t->in_use = 1;
    hl_self = t;
    return t;
}

static void set_aside(struct hl_thread *t)
{
    uint64_t depth = hl_own(t->stack.depth);
    for (uint64_t i = 0; i < depth; i++)
        t->aside.open[i] = t->stack.open[i];
    t->aside.depth = depth;
    t->aside.last = hl_own(t->stack.last);
    for (uint32_t i = 0; i < t->n_known; i++)
        t->sum_aside[i] = t->region[i].sum;
    t->n_aside = t->n_known;
}

void hl_timer_turn(struct hl_thread *t, uint64_t epoch)
{
    uint64_t seq = hl_own(t->seq);
    if (hl_own(t->epoch) == epoch)
        return;
    hl_set(t->seq, seq + 1);
    if (hl_see(t->read_epoch) < epoch)
        set_aside(t);
    hl_set(t->epoch, epoch);
    hl_set(t->seq, seq + 2);
    t->fast_epoch = epoch & 1 ? epoch : 0;
}

/* ---- the reader ---- */

static void relax(unsigned turn)
{
    if (turn > 100)
        sched_yield();
}

static void copy_live(struct hl_thread *t, struct hl_stack *stack, struct hl_sum *sum,
                      uint32_t n)
{
    stack->depth = hl_see(t->stack.depth);
    stack->last = hl_see(t->stack.last);
    for (uint64_t i = 0; i < stack->depth && i < HL_DEPTH_MAX; i++) {
        stack->open[i].start = hl_see(t->stack.open[i].start);
        stack->open[i].inner = hl_see(t->stack.open[i].inner);
        stack->open[i].region = hl_see(t->stack.open[i].region);
    }
    for (uint32_t i = 0; i < n; i++) {
        sum[i].inclusive = hl_see(t->region[i].sum.inclusive);
        sum[i].exclusive = hl_see(t->region[i].sum.exclusive);
    }
}

static void copy_aside(const struct hl_thread *t, struct hl_stack *stack,
                       struct hl_sum *sum, uint32_t n)
{
    stack->depth = t->aside.depth;
    stack->last = t->aside.last;
    memcpy(stack->open, t->aside.open, t->aside.depth * sizeof *stack->open);
    memset(sum, 0, n * sizeof *sum);
    memcpy(sum, t->sum_aside, (n < t->n_aside ? n : t->n_aside) * sizeof *sum);
}

/* State of one thread at one instant not before the boundary. 1; 0: unchanged
 * since the last reading; -1: its owner is stuck in the middle of a step. */
static int copy_thread(struct hl_thread *t, uint64_t epoch, struct hl_stack *stack,
                       struct hl_sum *sum, uint32_t n)
{
    for (unsigned turn = 0; turn < 10000; turn++, relax(turn)) {
        uint64_t seq = hl_see(t->seq);
        if (seq & 1)
            continue;
        if (hl_see(t->epoch) == epoch) {
            copy_aside(t, stack, sum, n);
            t->read_seq = 1;
            return 1;
        }
        if (seq == t->read_seq && hl_see(t->stack.depth) == 0)
            return 0;
        copy_live(t, stack, sum, n);
        if (hl_see(t->seq) == seq) {
            t->read_seq = seq;
            return 1;
        }
    }
    return -1;
}

static int is_open_below(const struct hl_stack *s, uint64_t i)
{
    for (uint64_t k = 0; k < i; k++)
        if (s->open[k].region == s->open[i].region)
            return 1;
    return 0;
}

/* What open regions would have if they were left now and entered again. */
static void charge_open(const struct hl_stack *s, uint64_t now, struct hl_sum *sum,
                        uint32_t n)
{
    if (now < s->last)
        now = s->last;
    if (s->depth && now < s->open[s->depth - 1].start)
        now = s->open[s->depth - 1].start;
    for (uint64_t i = 0; i < s->depth; i++) {
        const struct hl_open *o = &s->open[i];
        uint64_t inner = o->inner + (i + 1 < s->depth ? now - o[1].start : 0);
        if (o->region >= n)
            continue;
        sum[o->region].exclusive += now - o->start - inner;
        if (!is_open_below(s, i))
            sum[o->region].inclusive += now - o->start;
    }
}

/* How far a sum has come since the last reading.  Where there is no settle, a
 * step may be older than that reading; then the sum waits until it is past it. */
static uint64_t advance(uint64_t *read, uint64_t sum)
{
    uint64_t by = sum - *read;
    if (by > INT64_MAX)
        return 0;
    *read = sum;
    return by;
}

static void read_thread(struct hl_thread *t, uint64_t epoch, uint64_t now,
                        struct hl_sum *total, struct hl_sum *sum, uint32_t n)
{
    struct hl_stack stack;
    if (n > t->cap)
        n = t->cap;
    if (copy_thread(t, epoch, &stack, sum, n) == 1) {
        charge_open(&stack, now, sum, n);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t inclusive = advance(&t->read[i].inclusive, sum[i].inclusive);
            uint64_t exclusive = advance(&t->read[i].exclusive, sum[i].exclusive);
            if (total) {
                total[i].inclusive += inclusive;
                total[i].exclusive += exclusive;
            }
        }
    }
    hl_set(t->read_epoch, epoch);
}

/* Steps of running threads whose time is before ours have become visible when
 * this returns: it makes every processor that runs one of our threads do what
 * is pending, so that the steps themselves need no fence. */
static void settle(void)
{
    if (threads && threads->next)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

void hl_timer_read(uint64_t session, uint64_t epoch, uint64_t now, struct hl_sum *total,
                   struct hl_sum *scratch, uint32_t n)
{
    settle();
    for (struct hl_thread *t = threads; t; t = t->next)
        if (t->session == session)
            read_thread(t, epoch, now, total, scratch, n);
}

/* ---- ends ---- */

int hl_timer_setup(void (*at_thread_end)(void *))
{
    have_end_key = pthread_key_create(&end_key, at_thread_end) == 0;
    return have_end_key ? 0 : -1;
}

void hl_timer_release(struct hl_thread *t)
{
    while (hl_own(t->stack.depth))
        hl_timer_leave(t);
    t->in_use = 0; /* the next owner goes on from these sums */
    hl_self = NULL;
}

void hl_timer_forget(void)
{
    if (have_end_key)
        pthread_setspecific(end_key, NULL);
    threads = NULL;
    hl_self = NULL;
}
