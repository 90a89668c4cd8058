/* SPDX-License-Identifier: Apache-2.0
 *
 * The counters beyond the hot path: a thread's slot, the peak, and the step
 * from one thread to several.  Reached from count.h when a thread's net passes
 * one of its slot's limits.  No lock: whoever is interrupted anywhere here
 * keeps nobody else waiting.
 *
 * One thread.  The first thread is alone: live is inherited + its net, high is its
 * window, so each new maximum comes here and the peak is exact.
 *
 * Several.  The thread in slot i (from 1) holds its net change back until it
 * exceeds
 *     T_i = peak / 8192 / 2^floor(log2 i)
 * in either direction, then adds it to the shared live and raises the peak.
 * Bound: slots 2^k ... 2^(k+1)-1 hold back at most 2^k * peak/8192/2^k = peak/8192
 * together, and N threads have used slots 1 ... N at most (a slot is taken fresh
 * only when none is free), so there are at most floor(log2 N) + 1 such groups:
 * live is off by at most (ceil(log2 N) + 1) * peak / 8192 at any instant, in
 * either direction, hence so is its maximum.  T_i is taken from the peak known
 * when the thread last published; later peaks are larger, so it is never too
 * large for the final one.
 *
 * The step between.  A second thread that comes to count sets the flag and both
 * limits of the first slot, so that the first thread's next operation comes
 * here; membarrier makes every operation of the first thread either see that or
 * be seen.  Then it adds the first one's net to live on its behalf, and only then
 * counts itself.  Who sets limits looks at the flag again afterwards; the second
 * round of the barrier is for limits stored between flag and look.
 *
 * The time of the peak is read from the coarse clock (a copy the kernel writes
 * once a tick, read without a system call) at each new peak.
 */
#include "count.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BATCH_SHIFT = 13 };      /* 8192 */
enum { TRY_AGAIN = 256 };       /* operations in the shared slot between searches */
enum { MAX_TURNS = 1000 };      /* of reading a slot that keeps moving */
#define FAR (INT64_MAX / 2)     /* beyond any net, and safe to subtract */
#define LAST (HL_HEAP_N_SLOTS - 1)

struct hl_heap_slot hl_no_slot = {.high_bytes = -FAR, .low_bytes = FAR};
__thread struct hl_thread hl_mine __attribute__((tls_model("initial-exec"))) = {
    .slot = &hl_no_slot};

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t hl_mono_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* The coarse clock may lie up to a tick before the moment of loading. */
static int64_t since_load(const struct hl_heap_header *h)
{
    int64_t t = clock_ns(CLOCK_MONOTONIC_COARSE) - h->load_mono_ns;
    return t < 0 ? 0 : t;
}

/* ---- several threads ---- */

static void raise_shared(struct hl_heap_header *h, int64_t live)
{
    int64_t seen = LOAD(h->shared_peak_bytes);
    if (live <= LOAD(h->peak_bytes))
        return;
    while (live > seen)
        if (__atomic_compare_exchange_n(&h->shared_peak_bytes, &seen, live, 1,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            STORE(h->shared_peak_time_ns, since_load(h));
            return;
        }
}

static int64_t batch(const struct hl_heap_header *h, const struct hl_heap_slot *s)
{
    uint64_t i = (uint64_t)(s - hl_agent.slots) + 1;
    int64_t a = LOAD(h->peak_bytes), b = LOAD(h->shared_peak_bytes);
    if (hl_agent.no_barrier && LOAD(h->n_threads_seen) == 1)
        return 0;
    return (a > b ? a : b) >> BATCH_SHIFT >> (63 - __builtin_clzll(i));
}

/* Add what s has not published to live.  Both its owner and a thread that takes
 * the first slot over may do so: each successful exchange adds just the
 * difference it made, so that live stays the sum of all published. */
static int64_t add_to_live(struct hl_heap_header *h, struct hl_heap_slot *s)
{
    int64_t old = LOAD(s->published_bytes), net;
    do
        net = LOAD(s->net_bytes);
    while (!__atomic_compare_exchange_n(&s->published_bytes, &old, net, 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (net == old)
        return LOAD(h->live_bytes);
    return __atomic_add_fetch(&h->live_bytes, net - old, __ATOMIC_RELAXED);
}

static void set_limits(struct hl_heap_slot *s, int64_t published, int64_t t)
{
    int64_t window = LOAD(s->window_bytes);
    STORE(s->low_bytes, published - t);
    STORE(s->high_bytes, published + t < window ? published + t : window);
}

static void publish(struct hl_heap_slot *s)
{
    struct hl_heap_header *h = hl_agent.page;
    raise_shared(h, add_to_live(h, s));
    set_limits(s, LOAD(s->published_bytes), batch(h, s));
}

static void force(struct hl_heap_slot *s)
{
    STORE(s->high_bytes, -FAR);
    STORE(s->low_bytes, FAR);
}

static void barrier(void)
{
    int e = errno;
    if (!hl_agent.no_barrier)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    errno = e;
}

/* Every thread that finds the switch unfinished makes it itself: all steps may
 * be done twice. */
static void switch_over(void)
{
    struct hl_heap_slot *first = hl_agent.slots;
    if (__atomic_load_n(&hl_agent.sharing, __ATOMIC_ACQUIRE) == HL_SHARED)
        return;
    __atomic_store_n(&hl_agent.sharing, HL_SWITCHING, __ATOMIC_SEQ_CST);
    force(first);
    barrier();
    force(first);
    barrier();
    add_to_live(hl_agent.page, first);
    __atomic_store_n(&hl_agent.sharing, HL_SHARED, __ATOMIC_RELEASE);
}

/* ---- slots ---- */

void hl_first_slot(void)
{
    struct hl_heap_header *h = hl_agent.page;
    struct hl_heap_slot *s = hl_agent.slots;
    s->window_bytes = s->net_bytes > 0 ? s->net_bytes : 0;
    s->high_bytes = s->window_bytes;
    s->low_bytes = INT64_MIN;
    s->owner_tid = (int32_t)hl_agent.pid;
    h->live_bytes = h->inherited_bytes + s->published_bytes;
    h->n_slots_used = 1;
    h->n_threads_seen = 1;
    hl_agent.sharing = hl_agent.no_barrier ? HL_SHARED : HL_ALONE;
    hl_mine.slot = s;
    if (hl_agent.no_barrier)
        publish(s);
}

static int claim(struct hl_heap_slot *s, int32_t old, int32_t tid)
{
    return __atomic_compare_exchange_n(&s->owner_tid, &old, tid, 0, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static int is_dead(int32_t tid)
{
    return syscall(SYS_tgkill, hl_agent.pid, tid, 0) == -1 && errno == ESRCH;
}

/* A slot that was given back, else a fresh one, else one whose owner died
 * without giving it back; NULL when all are in use. */
static struct hl_heap_slot *find_slot(int32_t tid)
{
    struct hl_heap_header *h = hl_agent.page;
    uint32_t n = __atomic_load_n(&h->n_slots_used, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n && i < LAST; i++)
        if (LOAD(hl_agent.slots[i].owner_tid) == 0 && claim(&hl_agent.slots[i], 0, tid))
            return &hl_agent.slots[i];
    while (n < LAST)
        if (__atomic_compare_exchange_n(&h->n_slots_used, &n, n + 1, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE) &&
            claim(&hl_agent.slots[n], 0, tid))
            return &hl_agent.slots[n];
    for (uint32_t i = 0; i < LAST; i++) {
        int32_t owner = LOAD(hl_agent.slots[i].owner_tid);
        if (owner && is_dead(owner) && claim(&hl_agent.slots[i], owner, tid))
            return &hl_agent.slots[i];
    }
    return NULL;
}

static struct hl_heap_slot *take_slot(void)
{
    int e = errno;
    switch_over();
    struct hl_heap_slot *s = find_slot((int32_t)syscall(SYS_gettid));
    if (s) {
        if (!hl_mine.n_shared)
            __atomic_add_fetch(&hl_agent.page->n_threads_seen, 1, __ATOMIC_RELAXED);
        s->window_bytes = INT64_MAX;
        publish(s);
        if (hl_agent.key_ok)
            pthread_setspecific(hl_agent.key, &hl_mine);
        hl_mine.slot = s;
    }
    errno = e;
    return s;
}

void hl_leave_slot(void)
{
    struct hl_heap_slot *s = hl_mine.slot;
    hl_mine.leaving = 1;
    if (s == &hl_no_slot || hl_agent.mode != HL_MODE_ON)
        return;
    if (__atomic_load_n(&hl_agent.sharing, __ATOMIC_ACQUIRE) != HL_ALONE)
        publish(s);
    hl_mine.slot = &hl_no_slot;
    __atomic_store_n(&s->owner_tid, 0, __ATOMIC_RELEASE);
}

/* ---- operations of threads without a slot ---- */

/* The last slot has many writers: all is added atomically and published. */
static void count_shared(int64_t bytes, unsigned frees, unsigned allocs)
{
    struct hl_heap_header *h = hl_agent.page;
    struct hl_heap_slot *s = &hl_agent.slots[LAST];
    switch_over();
    if (LOAD(h->n_slots_used) != HL_HEAP_N_SLOTS)
        STORE(h->n_slots_used, (uint32_t)HL_HEAP_N_SLOTS);
    __atomic_add_fetch(&s->frees, frees, __ATOMIC_RELAXED);
    __atomic_add_fetch(&s->allocs, allocs, __ATOMIC_RELAXED);
    __atomic_add_fetch(&s->net_bytes, bytes, __ATOMIC_RELAXED);
    __atomic_add_fetch(&s->published_bytes, bytes, __ATOMIC_RELAXED);
    raise_shared(h, __atomic_add_fetch(&h->live_bytes, bytes, __ATOMIC_RELAXED));
}

static void count_first(int64_t bytes, unsigned frees, unsigned allocs);

static void beyond(struct hl_heap_slot *s)
{
    struct hl_heap_header *h = hl_agent.page;
    int64_t net = s->net_bytes;
    if (net > s->window_bytes)
        s->window_bytes = net;
    if (LOAD(hl_agent.sharing) == HL_ALONE) {
        int64_t live = h->inherited_bytes + net;
        if (live > h->peak_bytes) {
            STORE(h->peak_bytes, live);
            STORE(h->peak_time_ns, since_load(h));
        }
        STORE(s->high_bytes, s->window_bytes);
        HL_ORDER(); /* the other side's half of this is membarrier */
        if (LOAD(hl_agent.sharing) == HL_ALONE)
            return;
    }
    int64_t published = LOAD(s->published_bytes), t = published - LOAD(s->low_bytes);
    if (net - published <= t && published - net <= t)
        set_limits(s, published, t); /* only the window was passed */
    else
        publish(s);
}

static void count_first(int64_t bytes, unsigned frees, unsigned allocs)
{
    if (hl_agent.mode >= HL_MODE_OFF || !hl_agent.page)
        return;
    struct hl_heap_slot *s = NULL;
    if (!hl_mine.leaving && hl_mine.n_shared++ % TRY_AGAIN == 0) {
        hl_mine.n_shared--;
        s = take_slot();
        hl_mine.n_shared++;
    }
    if (!s) {
        count_shared(bytes, frees, allocs);
        return;
    }
    hl_mine.n_shared = 0;
    hl_add(&s->frees, frees);
    hl_add(&s->allocs, allocs);
    hl_add(&s->net_bytes, (uint64_t)bytes);
    if (s->net_bytes > LOAD(s->high_bytes) || s->net_bytes < LOAD(s->low_bytes))
        beyond(s);
}

HL_KEEP_OUT void *hl_alloc_beyond(void *p, int64_t bytes)
{
    struct hl_heap_slot *s = hl_mine.slot;
    if (HL_RARE(s == &hl_no_slot))
        count_first(bytes, 0, 1);
    else
        beyond(s);
    return p;
}

HL_KEEP_OUT void hl_free_beyond(int64_t bytes)
{
    struct hl_heap_slot *s = hl_mine.slot;
    if (HL_RARE(s == &hl_no_slot))
        count_first(bytes, 1, 0);
    else
        beyond(s);
}

HL_KEEP_OUT void hl_realloc_beyond(int64_t bytes, unsigned frees, unsigned allocs)
{
    struct hl_heap_slot *s = hl_mine.slot;
    if (HL_RARE(s == &hl_no_slot))
        count_first(bytes, frees, allocs);
    else
        beyond(s);
}

/* ---- reading ---- */

/* The counts of one instant: read twice, until nothing has moved between. */
static void read_slot(const struct hl_heap_slot *s, struct hl_heap_slot *out)
{
    for (int turn = 0; turn < MAX_TURNS; turn++) {
        out->allocs = __atomic_load_n(&s->allocs, __ATOMIC_ACQUIRE);
        out->frees = __atomic_load_n(&s->frees, __ATOMIC_ACQUIRE);
        out->net_bytes = __atomic_load_n(&s->net_bytes, __ATOMIC_ACQUIRE);
        if (out->allocs == __atomic_load_n(&s->allocs, __ATOMIC_ACQUIRE) &&
            out->frees == __atomic_load_n(&s->frees, __ATOMIC_ACQUIRE) &&
            out->net_bytes == LOAD(s->net_bytes))
            return;
    }
}

int64_t hl_live_now(void)
{
    struct hl_record r;
    hl_snapshot(0, &r);
    return r.live_bytes;
}

/* One slot is passed on for all: the stack of a thread may be small. */
void hl_snapshot(int64_t now_mono_ns, struct hl_record *out)
{
    const struct hl_heap_header *h = hl_agent.page;
    struct hl_heap_slot sum = {0}, one;
    size_t n = hl_heap_slots_to_read(h);
    for (size_t i = 0; i < n; i++) {
        read_slot(&hl_agent.slots[i], &one);
        sum.allocs += one.allocs;
        sum.frees += one.frees;
        sum.net_bytes += one.net_bytes;
    }
    hl_heap_record(h, &sum, 1, now_mono_ns, out);
}
