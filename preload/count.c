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
 * that would lift the total over the peak is refused; then a new round begins.
 * TIGHT: claims follow net within T_i.
 * TIGHTENING: a new round is being made.  Mode, round and total are one word, so no
 * claim can slip in between two modes.
 *
 * A round begins with both limits of every slot set so that each thread's next
 * operation comes here; membarrier makes every operation either see that or be seen.
 * Who sets its limits looks at the round again afterwards; the second turn of the
 * barrier is for limits that were stored between the two.  Then each slot's claim is
 * set to its net, whoever does it, once: the claim says for which round it was made.
 * The sum of these claims is the total of the new round.  What was under way in the
 * round before, between total and claim, is void: that total is forgotten, and the
 * claim is not what the late thread expects.  A thread that comes here meanwhile does
 * the same work to the end and then its own, so nobody depends on another, and each
 * has at most one operation in progress while the sum is taken: it is the heap in use
 * of one instant.
 *
 * A round can be made by anybody at any time.  It is made when the first thread is
 * joined by a second one, and when a fresh slot is taken that the last round did not
 * cover, before its thread counts in it: who adds up without that slot cannot miss
 * anything.
 * Loosening is put off twice as long after each round that it led to, up to a limit,
 * so that a program that works right at its peak pays for few of them.
 *
 * The words hold 48 bits of bytes.  A slot's net may outgrow them (one thread
 * allocates for days what another releases), so claims are compared with it modulo
 * 2^48; the total can only do so downwards, by releases of blocks that were allocated
 * behind our back, and is held up far below zero.
 *
 * The time of the peak is the coarse clock's at each new peak.  No clock is read for
 * it: the kernel leaves the time of the last tick in memory of ours, from which the C
 * library takes it without a system call, in a third of the time that the processor's
 * counter would take to read.  To look there less often would need another sign that
 * a tick has passed; counting operations is none, as a program may pause between two.
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
enum { TRY_AGAIN = 256 };  /* operations in the shared slot between searches */
enum { MAX_TURNS = 1000 }; /* of reading a slot that keeps moving */
enum { SNAPSHOTS = 20 };   /* attempts at reading all of one instant */
enum { SPINS = 100, YIELD_EACH = 25 }; /* looks at a round that others are making */
enum { SPARE = 14 };
#define FAR (INT64_MAX / 2) /* beyond any net, and safe to subtract */
#define LAST (HL_HEAP_N_SLOTS - 1)

enum mode { ALONE = 0, TIGHTENING = 1, TIGHT = 2, LOOSE = 3 };

/* Bytes << 16 | round << 2 | mode; while tightening not bytes but the number of the
 * attempt.  A slot's claim is a word like that without the mode.  Round 0: none. */
enum { BYTES_SHIFT = 16, ROUND_ONE = 4, ROUNDS = 0xfffc, MODES = 3 };
static struct {
    uint64_t word, n_attempts;
    uint64_t stopped; /* the latest round that all threads know of */
    uint32_t patience, calm;
} shared __attribute__((aligned(64)));
#define DEEP ((int64_t)1 << 46) /* a total below -DEEP is lifted */

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

/* Slots that a round covers: those in use, and some that threads will take later
 * without the need of a round of their own. */
static size_t slots_of_round(void)
{
    size_t n = hl_heap_slots_to_read(hl_agent.page), spare = n / 2 + SPARE;
    return n >= LAST ? n : n + spare < LAST ? n + spare : LAST;
}

/* Set the limits of all so that the next operation comes here.  Were some not set? */
static int force_all(void)
{
    int changed = 0;
    for (size_t i = 0, n = slots_of_round(); i < n && i < LAST; i++) {
        struct hl_heap_slot *s = &hl_agent.slots[i];
        changed |= LOAD(s->high_bytes) != -FAR || LOAD(s->low_bytes) != FAR;
        force(s);
    }
    return changed;
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

static uint64_t make_word(int64_t bytes, uint64_t round, enum mode mode)
{
    return (uint64_t)bytes << BYTES_SHIFT | (round & ROUNDS) | mode;
}

static int swap_claim(struct hl_heap_slot *s, uint64_t *seen, int64_t bytes,
                      uint64_t round)
{
    return __atomic_compare_exchange_n(&s->claim, seen, make_word(bytes, round, 0), 0,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static int same_round(uint64_t a, uint64_t b)
{
    return ((a ^ b) & ROUNDS) == 0;
}

/* What net has beyond the claim; both are known modulo 2^48. */
static int64_t unclaimed(int64_t net, uint64_t claim)
{
    return (int64_t)((uint64_t)(net - bytes_of(claim)) << BYTES_SHIFT) >> BYTES_SHIFT;
}

/* ---- rounds ---- */

/* Begin a new round, in which word is what others must find to take part; 0: the word
 * is no longer w. */
static uint64_t begin_round(uint64_t w)
{
    uint64_t round = ((w & ROUNDS) + ROUND_ONE) & ROUNDS;
    uint64_t n = __atomic_add_fetch(&shared.n_attempts, 1, __ATOMIC_RELAXED);
    uint64_t to = make_word((int64_t)n, round ? round : ROUND_ONE, TIGHTENING);
    if (!swap_word(&w, to))
        return 0;
    if (mode_of(w) == LOOSE && LOAD(shared.patience) < PATIENCE_MAX)
        STORE(shared.patience, LOAD(shared.patience) * 2);
    return to;
}

/* From here on each thread finishes the operation it is in, and no more.  Who was
 * about to set its limits when the round began has done so by the first barrier, or
 * will see that it began. */
static void stop_all(void)
{
    force_all();
    barrier();
    if (force_all())
        barrier();
}

static void tell_stopped(uint64_t ours)
{
    __atomic_store_n(&shared.stopped, ours, __ATOMIC_SEQ_CST);
}

/* The slot's claim of this round, made now if it is not there yet.  -1: the round is
 * over. */
static int agree(struct hl_heap_slot *s, uint64_t ours, int64_t *sum)
{
    uint64_t old = __atomic_load_n(&s->claim, __ATOMIC_SEQ_CST);
    int64_t net;
    do {
        net = LOAD(s->net_bytes);
        if (load_word() != ours)
            return -1;
        if (same_round(old, ours)) {
            *sum += net - unclaimed(net, old);
            return 0;
        }
    } while (!swap_claim(s, &old, net, ours));
    *sum += net;
    return 0;
}

static void add_up(uint64_t ours)
{
    struct hl_heap_header *h = hl_agent.page;
    int64_t sum = h->inherited_bytes;
    for (size_t i = 0, n = slots_of_round(); i < n; i++)
        if (agree(&hl_agent.slots[i], ours, &sum) != 0)
            return;
    if (sum < -DEEP)
        sum = -DEEP / 2;
    if (swap_word(&ours, make_word(sum, ours, TIGHT)))
        raise_peak(h, sum);
}

/* A round is under way: leave those who are at it a moment, then do it as well. */
static void help(uint64_t ours)
{
    for (int i = 0; i < SPINS && LOAD(shared.stopped) != ours; i++) {
        if (load_word() != ours)
            return;
        if (i % YIELD_EACH == YIELD_EACH - 1)
            HL_SYS0(SYS_sched_yield);
        else
            HL_PAUSE();
    }
    if (__atomic_load_n(&shared.stopped, __ATOMIC_SEQ_CST) != ours) {
        stop_all();
        tell_stopped(ours);
    }
    add_up(ours);
}

/* All claims are tight, by a round that began after the word was w. */
static void tighten(uint64_t w)
{
    uint64_t ours = begin_round(w);
    if (!ours)
        return; /* somebody else has gone on from w; the caller looks again */
    stop_all();
    tell_stopped(ours);
    add_up(ours);
}

/* Have the claim of a slot in the current round, before anything new is counted. */
static void join(const struct hl_heap_slot *s)
{
    for (;;) {
        uint64_t w = load_word();
        if (mode_of(w) == TIGHTENING)
            help(w);
        else if (mode_of(w) != ALONE && same_round(w, LOAD(s->claim)))
            return;
        else
            tighten(w);
    }
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

/* ---- claims ---- */

/* word: what the deal is for, before and then after it; claim: as far as net reaches. */
struct deal {
    uint64_t word;
    int64_t claim, credit, t, peak;
};
enum outcome { DONE, AGAIN, REFUSED };

/* The claim was changed meanwhile.  By a new round: what we did to the total is void.
 * By a signal handler inside us: it told the same bytes again, take ours back. */
static void take_back(uint64_t round, int64_t change)
{
    uint64_t w = load_word();
    while (same_round(w, round) && mode_of(w) != TIGHTENING &&
           !swap_word(&w, w - ((uint64_t)change << BYTES_SHIFT)))
        ;
}

/* Change total and claim, if the total may be that. */
static enum outcome change_claim(struct hl_heap_slot *s, uint64_t old, int64_t change,
                                 struct deal *d)
{
    uint64_t w = d->word;
    d->word = w + ((uint64_t)change << BYTES_SHIFT);
    if (!swap_word(&w, d->word))
        return AGAIN;
    uint64_t seen = old;
    if (swap_claim(s, &seen, bytes_of(old) + change, w))
        return DONE;
    if (same_round(seen, w))
        take_back(w, change);
    return AGAIN;
}

/* One attempt to bring the claim of s in line with its net. */
static enum outcome deal(const struct hl_heap_header *h, struct hl_heap_slot *s,
                         struct deal *d)
{
    uint64_t old = LOAD(s->claim), w = d->word;
    int64_t net = LOAD(s->net_bytes), beyond = unclaimed(net, old);
    d->claim = net - beyond;
    d->credit = 0;
    d->peak = known_peak(h);
    d->t = batch(h, s, d->peak);
    if (!same_round(w, old) || bytes_of(w) < -DEEP)
        return REFUSED;
    if (mode_of(w) != LOOSE && beyond <= d->t && -beyond <= d->t)
        return DONE;
    int64_t room = d->peak - bytes_of(w) - beyond;
    if (mode_of(w) == LOOSE && room < 0 && beyond > 0)
        return REFUSED;
    if (mode_of(w) == LOOSE && room > 0)
        d->credit = room / (int64_t)LOAD(h->n_slots_used);
    d->claim = net + d->credit;
    return change_claim(s, old, beyond + d->credit, d);
}

/* 0: this thread's net is beyond them already. */
static int set_limits(struct hl_heap_slot *s, const struct deal *d)
{
    int64_t window = LOAD(s->window_bytes), high = d->claim + d->t;
    int64_t down = 3 * d->credit > d->t ? 3 * d->credit : d->t;
    STORE(s->low_bytes, d->claim - down);
    STORE(s->high_bytes, high < window ? high : window);
    HL_ORDER(); /* the other side's half of this is membarrier */
    int64_t net = LOAD(s->net_bytes);
    return net <= high && net >= d->claim - down;
}

/* Bring the claim of this thread's slot in line with its net. */
static void settle(struct hl_heap_slot *s)
{
    struct hl_heap_header *h = hl_agent.page;
    struct deal d;
    for (;;) {
        d.word = load_word();
        if (mode_of(d.word) == TIGHTENING) {
            help(d.word);
            continue;
        }
        enum outcome o = deal(h, s, &d);
        if (o == REFUSED)
            tighten(d.word);
        else if (o == DONE && set_limits(s, &d) && same_round(load_word(), d.word))
            break;
    }
    if (bytes_of(d.word) <= d.peak)
        loosen(d.word, d.peak);
    else if (mode_of(d.word) == TIGHT)
        raise_peak(h, bytes_of(d.word));
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
    s->claim = hl_agent.no_barrier ? ROUND_ONE : 0;
    shared.word =
        make_word(h->inherited_bytes, s->claim, hl_agent.no_barrier ? TIGHT : ALONE);
    shared.patience = PATIENCE_MIN;
    shared.calm = 0;
    last_left = 0;
    h->n_slots_used = 1;
    h->n_threads_seen = 1;
    hl_mine.slot = s;
    if (hl_agent.no_barrier)
        settle(s);
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
            force(s);
        }
        if (hl_agent.key_ok)
            pthread_setspecific(hl_agent.key, &hl_mine);
        join(s);
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

/* Add to the total, if it is still that of w's round; otherwise the new one has it. */
static void add_to_total(uint64_t w, int64_t change)
{
    struct hl_heap_header *h = hl_agent.page;
    uint64_t now = load_word(), to;
    do {
        if (!same_round(now, w))
            return;
        to = now + ((uint64_t)change << BYTES_SHIFT);
    } while (!swap_word(&now, to));
    if (bytes_of(to) <= known_peak(h))
        return;
    if (mode_of(to) == TIGHT)
        raise_peak(h, bytes_of(to));
    else
        tighten(to);
}

/* The last slot has many writers: all is added atomically, and its claim is its net.
 * Who changes the claim changes the total after it, so that no two tell the same. */
static void count_shared(int64_t bytes, unsigned frees, unsigned allocs)
{
    struct hl_heap_slot *s = &hl_agent.slots[LAST];
    if (LOAD(hl_agent.page->n_slots_used) != HL_HEAP_N_SLOTS)
        STORE(hl_agent.page->n_slots_used, (uint32_t)HL_HEAP_N_SLOTS);
    join(s);
    __atomic_add_fetch(&s->frees, frees, __ATOMIC_RELAXED);
    __atomic_add_fetch(&s->allocs, allocs, __ATOMIC_RELAXED);
    __atomic_add_fetch(&s->net_bytes, bytes, __ATOMIC_SEQ_CST);
    for (;;) {
        join(s);
        uint64_t w = load_word(), old = LOAD(s->claim);
        int64_t net = LOAD(s->net_bytes), change = unclaimed(net, old);
        if (mode_of(w) == TIGHTENING || !same_round(w, old))
            continue;
        if (change && !swap_claim(s, &old, net, w))
            continue;
        if (change)
            add_to_total(w, change);
        return;
    }
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

/* The sum of all slots; how many operations it is after. */
static uint64_t collect(struct hl_heap_slot *sum)
{
    struct hl_heap_slot one;
    *sum = (struct hl_heap_slot){0};
    for (size_t i = 0, n = hl_heap_slots_to_read(hl_agent.page); i < n; i++) {
        read_slot(&hl_agent.slots[i], &one);
        sum->allocs += one.allocs;
        sum->frees += one.frees;
        sum->net_bytes += one.net_bytes;
    }
    return sum->allocs + sum->frees;
}

/* Slots that are read one after the other do not say how much was in use at one time,
 * while blocks pass from thread to thread.  In a round that nobody has finished yet
 * each thread has at most one operation in progress. */
static int collect_in_round(struct hl_heap_slot *sum)
{
    uint64_t w = load_word(), ours;
    if (mode_of(w) == ALONE || hl_agent.no_barrier) {
        struct hl_heap_slot before;
        return collect(&before) == collect(sum);
    }
    ours = begin_round(w);
    if (!ours) {
        collect(sum);
        return 0;
    }
    stop_all(); /* not told: who waits for it would go on at once */
    collect(sum);
    int whole = load_word() == ours;
    add_up(ours);
    return whole;
}

/* One slot is passed on for all: the stack of a thread may be small. */
void hl_snapshot(int64_t now_mono_ns, struct hl_record *out)
{
    struct hl_heap_slot sum;
    for (int turn = 0; turn < SNAPSHOTS && !collect_in_round(&sum); turn++)
        ;
    hl_heap_record(hl_agent.page, &sum, 1, now_mono_ns, out);
}
