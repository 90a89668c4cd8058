/* SPDX-License-Identifier: Apache-2.0
 *
 * The counters beyond the hot path: a thread's slot, threads without one, reading.
 * Reached from count.h when a thread's net passes one of its slot's limits.  No lock:
 * whoever is interrupted anywhere here keeps nobody else waiting.
 */
#include "count.h"
#include "peak.h"
#include "sys.h"

#include <errno.h>
#include <pthread.h>

enum { TRY_AGAIN = 256 };  /* operations in the shared slot between searches */
enum { MAX_TURNS = 1000 }; /* of reading a slot that keeps moving */
enum { SNAPSHOTS = 20 };   /* attempts at reading all of one instant */
#define LAST (HL_HEAP_N_SLOTS - 1)

struct hl_heap_slot hl_no_slot = {.high_bytes = -HL_FAR, .low_bytes = HL_FAR};
__thread struct hl_thread hl_mine
    __attribute__((tls_model("initial-exec"))) = {.slot = &hl_no_slot};

/* ---- slots ---- */

/* Where to look first; short threads follow each other in one slot. */
HL_USED static uint32_t last_left;

void hl_first_slot(void)
{
    struct hl_heap_header *h = hl_agent.page;
    struct hl_heap_slot *s = hl_agent.slots;
    s->window_bytes = s->net_bytes > 0 ? s->net_bytes : 0;
    s->high_bytes = s->window_bytes;
    s->low_bytes = INT64_MIN;
    s->owner_tid = (int32_t)hl_agent.pid;
    last_left = 0;
    h->n_slots_used = 1;
    h->n_threads_seen = 1;
    hl_mine.slot = s;
    hl_peak_begin(s);
}

static int take(struct hl_heap_slot *s, int32_t old, int32_t tid)
{
    return __atomic_compare_exchange_n(&s->owner_tid, &old, tid, 0, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static int is_dead(int32_t tid)
{
    return HL_SYS3(SYS_tgkill, hl_agent.pid, tid, 0) == -ESRCH;
}

/* A slot that was given back, else a fresh one, else one whose owner died
 * without giving it back; NULL when all are in use. */
static struct hl_heap_slot *find_slot(int32_t tid)
{
    struct hl_heap_header *h = hl_agent.page;
    uint32_t n = __atomic_load_n(&h->n_slots_used, __ATOMIC_ACQUIRE);
    struct hl_heap_slot *last = &hl_agent.slots[LOAD(last_left)];
    if (LOAD(last->owner_tid) == 0 && last < &hl_agent.slots[n] && take(last, 0, tid))
        return last;
    for (uint32_t i = 0; i < n && i < LAST; i++)
        if (LOAD(hl_agent.slots[i].owner_tid) == 0 && take(&hl_agent.slots[i], 0, tid))
            return &hl_agent.slots[i];
    while (n < LAST)
        if (__atomic_compare_exchange_n(&h->n_slots_used, &n, n + 1, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE) &&
            take(&hl_agent.slots[n], 0, tid))
            return &hl_agent.slots[n];
    for (uint32_t i = 0; i < LAST; i++) {
        int32_t owner = LOAD(hl_agent.slots[i].owner_tid);
        if (owner && is_dead(owner) && take(&hl_agent.slots[i], owner, tid))
            return &hl_agent.slots[i];
    }
    return NULL;
}

static struct hl_heap_slot *take_slot(void)
{
    int e = errno;
    struct hl_heap_slot *s = find_slot((int32_t)HL_SYS0(SYS_gettid));
    if (s) {
        if (!hl_mine.n_shared)
            __atomic_add_fetch(&hl_agent.page->n_threads_seen, 1, __ATOMIC_RELAXED);
        if (s->window_bytes != INT64_MAX) {
            s->window_bytes = INT64_MAX; /* of the first thread's regions */
            hl_peak_force(s);
        }
        if (hl_agent.key_ok)
            pthread_setspecific(hl_agent.key, &hl_mine);
        hl_peak_join(s);
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
    hl_mine.slot = &hl_no_slot;
    __atomic_store_n(&s->owner_tid, 0, __ATOMIC_RELEASE);
    STORE(last_left, (uint32_t)(s - hl_agent.slots));
}

/* ---- operations of threads without a slot ---- */

/* The last slot has many writers: all is added atomically. */
static void count_shared(int64_t bytes, unsigned frees, unsigned allocs)
{
    struct hl_heap_slot *s = &hl_agent.slots[LAST];
    if (LOAD(hl_agent.page->n_slots_used) != HL_HEAP_N_SLOTS)
        STORE(hl_agent.page->n_slots_used, (uint32_t)HL_HEAP_N_SLOTS);
    hl_peak_join(s);
    __atomic_add_fetch(&s->frees, frees, __ATOMIC_RELAXED);
    __atomic_add_fetch(&s->allocs, allocs, __ATOMIC_RELAXED);
    __atomic_add_fetch(&s->net_bytes, bytes, __ATOMIC_SEQ_CST);
    hl_peak_reckon_shared(s);
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
        hl_peak_reckon(s);
}

HL_KEEP_OUT void *hl_alloc_beyond(void *p, int64_t bytes)
{
    struct hl_heap_slot *s = hl_mine.slot;
    if (HL_RARE(s == &hl_no_slot))
        count_first(bytes, 0, 1);
    else
        hl_peak_reckon(s);
    return p;
}

HL_KEEP_OUT void hl_free_beyond(int64_t bytes)
{
    struct hl_heap_slot *s = hl_mine.slot;
    if (HL_RARE(s == &hl_no_slot))
        count_first(bytes, 1, 0);
    else
        hl_peak_reckon(s);
}

HL_KEEP_OUT void hl_realloc_beyond(int64_t bytes, unsigned frees, unsigned allocs)
{
    struct hl_heap_slot *s = hl_mine.slot;
    if (HL_RARE(s == &hl_no_slot))
        count_first(bytes, frees, allocs);
    else
        hl_peak_reckon(s);
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

static void collect(void *arg)
{
    struct hl_heap_slot *sum = arg, one;
    *sum = (struct hl_heap_slot){0};
    for (size_t i = 0, n = hl_heap_slots_to_read(hl_agent.page); i < n; i++) {
        read_slot(&hl_agent.slots[i], &one);
        sum->allocs += one.allocs;
        sum->frees += one.frees;
        sum->net_bytes += one.net_bytes;
    }
}

/* Slots that are read one after the other do not say how much was in use at one time
 * while blocks pass from thread to thread.  One sum is passed on for all of them: the
 * stack of a thread may be small. */
void hl_snapshot(int64_t now_mono_ns, struct hl_record *out)
{
    struct hl_heap_slot sum;
    for (int turn = 0; turn < SNAPSHOTS && !hl_peak_hold(collect, &sum); turn++)
        ;
    hl_heap_record(hl_agent.page, &sum, 1, now_mono_ns, out);
}
