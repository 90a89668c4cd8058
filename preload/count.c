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
 * Several.  Each thread has told the others what they should reckon with, its claim;
 * the sum of all claims and what was inherited is the total.  With
 *     T_i = peak / 8192 / 2^floor(log2 i)      for the thread in slot i, from 1
 * two things hold, but for operations in progress:
 *   (1) net <= claim + T_i in each slot;
 *   (2) total <= peak, or else also claim <= net + T_i in each slot.
 * Slots 2^k ... 2^(k+1)-1 have T_i that add up to at most peak/8192, and N threads
 * have used slots 1 ... N at most (a fresh slot is taken only when none is free),
 * so all T_i add up to B <= (floor(log2 N) + 1) * peak / 8192, the bound of the
 * record.  By (1) live <= total + B: nothing above peak + B is missed while
 * total <= peak.  The peak is raised to the total only when all claims are tight,
 * by (2) total <= live + B, so it is never above the true one by more than B.
 * T_i is taken from the peak known at the time; it only grows.
 *
 * LOOSE: well below the peak threads claim more than they use, a share of what is
 * left to the peak, and need not come here while they stay within it.  A claim
 * that would lift the total over the peak is refused; then all are made tight.
 * TIGHT (and while that is under way, TIGHTENING): claims follow net within T_i.
 * Mode and total are one word, so no claim can slip in between two modes.
 *
 * To tighten, whoever wants it sets the mode, then both limits of every slot, so
 * that each thread's next operation comes here; membarrier makes every operation
 * either see that or be seen.  Who sets its limits looks at the mode again
 * afterwards; the second round of the barrier is for limits that were stored
 * between the two.  Then each slot's claim is set to its net on its thread's behalf.
 * A thread that is between changing total and claim says so (claiming); while one is,
 * the mode stays TIGHTENING and the peak is raised to the sum of all net instead.
 * Nobody waits: who finds the mode TIGHTENING and needs it done does it as well.
 * The step from one thread to two is the same: the first thread's claim is made
 * before the second one counts.
 * Loosening is put off twice as long after each tightening, up to a limit, so
 * that a program that works right at its peak pays for few of them.
 *
 * The time of the peak is read from the coarse clock (a copy the kernel writes
 * once a tick, read without a system call) at each new peak.
 */
#include "count.h"
#include "sys.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <time.h>

enum { BATCH_SHIFT = 13 }; /* 8192 */
enum { ROOM_SHIFT = 6 };   /* loosen when 1/64 of the peak is free */
enum { PATIENCE_MIN = 64, PATIENCE_MAX = 1024 };
enum { TRY_AGAIN = 256 };   /* operations in the shared slot between searches */
enum { MAX_TURNS = 1000 };  /* of reading a slot that keeps moving */
#define FAR (INT64_MAX / 2) /* beyond any net, and safe to subtract */
#define LAST (HL_HEAP_N_SLOTS - 1)

enum mode { ALONE = 0, TIGHTENING = 1, TIGHT = 2, LOOSE = 3 };

/* Bytes << 16 | number of the latest tightening << 2 | mode.  A slot's claim is a
 * word like that, too, without the mode: it tells in which round it was made. */
enum { BYTES_SHIFT = 16, ROUND_ONE = 4, ROUNDS = 0xfffc, MODES = 3, STAGE = 0xffff };
static struct {
    uint64_t word;
    uint32_t patience, calm;
} shared __attribute__((aligned(64)));

struct hl_heap_slot hl_no_slot = {.high_bytes = -FAR, .low_bytes = FAR};
__thread struct hl_thread hl_mine
    __attribute__((tls_model("initial-exec"))) = {.slot = &hl_no_slot};

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    hl_other.clock(id, &t);
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

static enum mode mode_of(uint64_t word)
{
    return (enum mode)(word & MODES);
}

static int64_t bytes_of(uint64_t word)
{
    return (int64_t)word >> BYTES_SHIFT;
}

static int swap_word(uint64_t *seen, uint64_t to)
{
    return __atomic_compare_exchange_n(&shared.word, seen, to, 0, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

static int64_t known_peak(const struct hl_heap_header *h)
{
    int64_t a = LOAD(h->peak_bytes), b = LOAD(h->shared_peak_bytes);
    return a > b ? a : b;
}

static void raise_peak(struct hl_heap_header *h, int64_t live)
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

static int64_t sum_of_net(const struct hl_heap_header *h)
{
    int64_t sum = h->inherited_bytes;
    for (size_t i = 0, n = hl_heap_slots_to_read(h); i < n; i++)
        sum += LOAD(hl_agent.slots[i].net_bytes);
    return sum;
}

/* T_i; without membarrier nothing is held back while one thread counts. */
static int64_t batch(const struct hl_heap_header *h, const struct hl_heap_slot *s,
                     int64_t peak)
{
    uint64_t i = (uint64_t)(s - hl_agent.slots) + 1;
    if (hl_agent.no_barrier && LOAD(h->n_threads_seen) == 1)
        return 0;
    return peak >> BATCH_SHIFT >> (63 - __builtin_clzll(i));
}

static void force(struct hl_heap_slot *s)
{
    STORE(s->high_bytes, -FAR);
    STORE(s->low_bytes, FAR);
}

static void force_all(void)
{
    for (size_t i = 0, n = hl_heap_slots_to_read(hl_agent.page); i < n && i < LAST; i++)
        force(&hl_agent.slots[i]);
}

static void barrier(void)
{
    if (!hl_agent.no_barrier &&
        HL_SYS3(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        hl_agent.no_barrier = 1; /* the program has forbidden it since */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static uint64_t load_word(void)
{
    return __atomic_load_n(&shared.word, __ATOMIC_SEQ_CST);
}

static void add_to_total(int64_t bytes)
{
    __atomic_add_fetch(&shared.word, (uint64_t)bytes << BYTES_SHIFT, __ATOMIC_SEQ_CST);
}

static int swap_claim(struct hl_heap_slot *s, uint64_t *seen, int64_t bytes,
                      uint64_t round)
{
    uint64_t to = (uint64_t)bytes << BYTES_SHIFT | (round & ROUNDS);
    return __atomic_compare_exchange_n(&s->claim, seen, to, 0, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* Set a claim from before this round to its slot's net, on behalf of its thread.
 * Later ones are left alone: they are tight, or we are late. */
static void tighten_slot(struct hl_heap_slot *s, uint64_t round)
{
    uint64_t old = LOAD(s->claim);
    int64_t net;
    do {
        if (((old - round) & ROUNDS) <= ROUNDS / 2)
            return;
        net = LOAD(s->net_bytes);
    } while (!swap_claim(s, &old, net, round));
    add_to_total(net - bytes_of(old));
}

/* Make all claims tight; several threads may be at it in one round.  Returns the
 * stage in which this thread has done so. */
static uint64_t tighten(void)
{
    const struct hl_heap_header *h = hl_agent.page;
    uint64_t w = load_word(), ours;
    int claiming = 0;
    do {
        if (mode_of(w) == TIGHT)
            return w & STAGE;
        ours = w & STAGE;
        if (mode_of(w) != TIGHTENING)
            ours = ((w + ROUND_ONE) & ROUNDS) | TIGHTENING;
    } while (!swap_word(&w, (w & ~(uint64_t)STAGE) | ours));
    if (mode_of(w) == LOOSE && LOAD(shared.patience) < PATIENCE_MAX)
        STORE(shared.patience, LOAD(shared.patience) * 2);
    force_all();
    barrier();
    force_all();
    barrier();
    for (size_t i = 0, n = hl_heap_slots_to_read(h); i < n && i < LAST; i++) {
        claiming |= __atomic_load_n(&hl_agent.slots[i].claiming, __ATOMIC_SEQ_CST);
        tighten_slot(&hl_agent.slots[i], ours);
    }
    for (w = load_word(); !claiming && (w & STAGE) == ours;)
        if (swap_word(&w, (w & ~(uint64_t)MODES) | TIGHT))
            break;
    return ours;
}

/* Somebody is below the peak while all are tight: perhaps loosen. */
static void loosen(uint64_t w, int64_t peak)
{
    if (mode_of(w) != TIGHT || hl_agent.no_barrier ||
        peak - bytes_of(w) <= peak >> ROOM_SHIFT)
        return;
    uint32_t calm = LOAD(shared.calm) + 1;
    STORE(shared.calm, calm);
    if (calm >= LOAD(shared.patience) && swap_word(&w, w | LOOSE))
        STORE(shared.calm, 0);
}

/* May the total pass the peak?  passed: the stage in which the caller has made all
 * tight. */
static int may_pass(uint64_t w, uint64_t passed)
{
    return mode_of(w) == TIGHT || (mode_of(w) == TIGHTENING && (w & STAGE) == passed);
}

struct deal {
    uint64_t word; /* the shared word, before and then after it */
    int64_t claim, credit, t, peak;
};
enum outcome { DONE, AGAIN, REFUSED };

/* One attempt to bring the claim of s in line with its net. */
static enum outcome deal(const struct hl_heap_header *h, struct hl_heap_slot *s,
                         uint64_t passed, struct deal *d)
{
    uint64_t w = d->word, old = LOAD(s->claim);
    int64_t net = s->net_bytes;
    d->claim = bytes_of(old);
    d->credit = 0;
    d->peak = known_peak(h);
    d->t = batch(h, s, d->peak);
    if (mode_of(w) != LOOSE && ((w ^ old) & ROUNDS) == 0 && net - d->claim <= d->t &&
        d->claim - net <= d->t)
        return DONE;
    int64_t room = d->peak - (bytes_of(w) - d->claim);
    if (net > room && !may_pass(w, passed))
        return REFUSED;
    if (mode_of(w) == LOOSE)
        d->credit = (room - net) / (int64_t)LOAD(h->n_slots_used);
    int64_t change = net + d->credit - d->claim;
    d->claim += change;
    d->word = w + ((uint64_t)change << BYTES_SHIFT);
    if (!swap_word(&w, d->word))
        return AGAIN;
    if (swap_claim(s, &old, d->claim, w))
        return DONE;
    add_to_total(-change); /* somebody tightened it meanwhile */
    return AGAIN;
}

static void set_limits(struct hl_heap_slot *s, const struct deal *d)
{
    int64_t window = LOAD(s->window_bytes), high = d->claim + d->t;
    int64_t down = 3 * d->credit > d->t ? 3 * d->credit : d->t;
    STORE(s->low_bytes, d->claim - down);
    STORE(s->high_bytes, high < window ? high : window);
}

/* An attempt, and the limits that follow from it. */
static enum outcome attempt(struct hl_heap_header *h, struct hl_heap_slot *s,
                            uint64_t passed, struct deal *d)
{
    int32_t outer = s->claiming; /* we may be a signal handler inside */
    d->word = load_word();
    if (mode_of(d->word) == LOOSE)
        STORE(s->claiming, 1);
    HL_ORDER();
    enum outcome o = deal(h, s, passed, d);
    if (o == DONE)
        set_limits(s, d);
    HL_ORDER();
    STORE(s->claiming, outer);
    HL_ORDER(); /* the other side's half of this is membarrier */
    if (o == DONE && d->credit && ((load_word() ^ d->word) & STAGE) != 0)
        return AGAIN; /* no longer loose */
    return o;
}

/* Bring the claim of this thread's slot in line with its net. */
static void settle(struct hl_heap_slot *s)
{
    struct hl_heap_header *h = hl_agent.page;
    struct deal d;
    uint64_t passed = 0;
    enum outcome o;
    while ((o = attempt(h, s, passed, &d)) != DONE)
        if (o == REFUSED)
            passed = tighten();
    if (bytes_of(d.word) > d.peak)
        raise_peak(h, mode_of(d.word) == TIGHT ? bytes_of(d.word) : sum_of_net(h));
    else
        loosen(d.word, d.peak);
}

/* ---- slots ---- */

/* Where to look first; short threads follow each other in one slot. */
static uint32_t last_left;

void hl_first_slot(void)
{
    struct hl_heap_header *h = hl_agent.page;
    struct hl_heap_slot *s = hl_agent.slots;
    s->window_bytes = s->net_bytes > 0 ? s->net_bytes : 0;
    s->high_bytes = s->window_bytes;
    s->low_bytes = INT64_MIN;
    s->owner_tid = (int32_t)hl_agent.pid;
    s->claim = 0;
    shared.word = (uint64_t)h->inherited_bytes << BYTES_SHIFT |
                  (hl_agent.no_barrier ? TIGHT : ALONE);
    shared.patience = PATIENCE_MIN;
    shared.calm = 0;
    last_left = 0;
    h->n_slots_used = 1;
    h->n_threads_seen = 1;
    s->claiming = 0;
    hl_mine.slot = s;
    if (hl_agent.no_barrier)
        settle(s);
}

static int claim(struct hl_heap_slot *s, int32_t old, int32_t tid)
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
    if (LOAD(last->owner_tid) == 0 && last < &hl_agent.slots[n] && claim(last, 0, tid))
        return last;
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

/* A thread that comes to count beside the first one. */
static void end_alone(void)
{
    if (mode_of(load_word()) == ALONE)
        tighten();
}

static struct hl_heap_slot *take_slot(void)
{
    int e = errno;
    end_alone();
    struct hl_heap_slot *s = find_slot((int32_t)HL_SYS0(SYS_gettid));
    if (s) {
        if (!hl_mine.n_shared)
            __atomic_add_fetch(&hl_agent.page->n_threads_seen, 1, __ATOMIC_RELAXED);
        if (s->window_bytes != INT64_MAX) {
            s->window_bytes = INT64_MAX; /* of the first thread's regions */
            force(s);
        }
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
    hl_mine.slot = &hl_no_slot;
    __atomic_store_n(&s->owner_tid, 0, __ATOMIC_RELEASE);
    STORE(last_left, (uint32_t)(s - hl_agent.slots));
}

/* ---- operations of threads without a slot ---- */

/* The last slot has many writers: all is added atomically, its claim is its net. */
static void count_shared(int64_t bytes, unsigned frees, unsigned allocs)
{
    struct hl_heap_header *h = hl_agent.page;
    struct hl_heap_slot *s = &hl_agent.slots[LAST];
    int64_t peak = known_peak(h);
    uint64_t passed = 0, to;
    end_alone();
    if (LOAD(h->n_slots_used) != HL_HEAP_N_SLOTS)
        STORE(h->n_slots_used, (uint32_t)HL_HEAP_N_SLOTS);
    __atomic_add_fetch(&s->frees, frees, __ATOMIC_RELAXED);
    __atomic_add_fetch(&s->allocs, allocs, __ATOMIC_RELAXED);
    __atomic_add_fetch(&s->net_bytes, bytes, __ATOMIC_RELAXED);
    for (uint64_t w = load_word();;) {
        to = w + ((uint64_t)bytes << BYTES_SHIFT);
        if (bytes > 0 && bytes_of(to) > peak && !may_pass(w, passed)) {
            passed = tighten();
            w = load_word();
        } else if (swap_word(&w, to)) {
            break;
        }
    }
    if (bytes_of(to) > peak)
        raise_peak(h, mode_of(to) == TIGHT ? bytes_of(to) : sum_of_net(h));
}

static void beyond(struct hl_heap_slot *s)
{
    struct hl_heap_header *h = hl_agent.page;
    int64_t net = s->net_bytes;
    if (net > s->window_bytes)
        s->window_bytes = net;
    if (mode_of(LOAD(shared.word)) == ALONE) {
        int64_t live = h->inherited_bytes + net;
        if (live > h->peak_bytes) {
            if (HL_RARE(h->flags & HL_HEAP_BYPASSED))
                h->flags &= ~(uint32_t)HL_HEAP_BYPASSED; /* it does come through us */
            STORE(h->peak_bytes, live);
            STORE(h->peak_time_ns, since_load(h));
        }
        STORE(s->high_bytes, s->window_bytes);
        HL_ORDER(); /* the other side's half of this is membarrier */
        if (mode_of(LOAD(shared.word)) == ALONE)
            return;
    }
    settle(s);
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
