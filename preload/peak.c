/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak, and the step from one thread to several.  Reached from count.c when a
 * thread's net passes one of its slot's limits.  No lock: whoever is interrupted
 * anywhere here keeps nobody else waiting.
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
#include "peak.h"
#include "sys.h"

#include <errno.h>
#include <linux/membarrier.h>

enum { BATCH_SHIFT = 13 }; /* 8192 */
enum { ROOM_SHIFT = 8 };   /* loosen when 1/256 of the peak is free */
enum { PATIENCE_MIN = 64, PATIENCE_MAX = 1024 };
enum { SPINS = 100 }; /* looks at a round that others are making */
enum { SPARE = 14 };  /* slots beyond those in use in a round */
#define LAST (HL_HEAP_N_SLOTS - 1)
#define FAR HL_FAR

enum mode { ALONE = 0, TIGHTENING = 1, TIGHT = 2, LOOSE = 3 };

/* Bytes << 16 | round << 2 | mode; while tightening not bytes but the number of the
 * attempt.  A slot's claim is a word like that without the mode.  Round 0: none. */
enum { BYTES_SHIFT = 16, ROUND_ONE = 4, ROUNDS = 0xfffc, MODES = 3 };
static struct {
    uint64_t word, n_attempts;
    uint64_t stopped; /* the latest round that all threads know of */
    uint32_t patience, calm;
} shared __attribute__((aligned(64))) HL_USED;
#define DEEP ((int64_t)1 << 46) /* a total below -DEEP is lifted */

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

void hl_peak_force(struct hl_heap_slot *s)
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
        hl_peak_force(s);
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
        HL_PAUSE(); /* to give the processor up would bring other threads in */
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

void hl_peak_join(const struct hl_heap_slot *s)
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
        if (o != DONE)
            continue;
        if (mode_of(d.word) == TIGHT && bytes_of(d.word) > d.peak)
            raise_peak(h, bytes_of(d.word));
        if (set_limits(s, &d) && same_round(load_word(), d.word))
            break;
    }
    loosen(d.word, d.peak);
}

/* ---- for count.c ---- */

void hl_peak_begin(struct hl_heap_slot *s)
{
    s->claim = hl_agent.no_barrier ? ROUND_ONE : 0;
    shared.word = make_word(hl_agent.page->inherited_bytes, s->claim,
                            hl_agent.no_barrier ? TIGHT : ALONE);
    shared.patience = PATIENCE_MIN;
    shared.calm = 0;
    if (hl_agent.no_barrier)
        settle(s);
}

/* While it is alone the first thread writes the peak itself. */
static int raise_alone(struct hl_heap_header *h, struct hl_heap_slot *s)
{
    int64_t live = h->inherited_bytes + s->net_bytes;
    if (mode_of(LOAD(shared.word)) != ALONE)
        return 0;
    if (live > h->peak_bytes) {
        if (HL_RARE(h->flags & HL_HEAP_BYPASSED))
            h->flags &= ~(uint32_t)HL_HEAP_BYPASSED; /* it does come through us */
        STORE(h->peak_bytes, live);
        STORE(h->peak_time_ns, since_load(h));
    }
    STORE(s->high_bytes, s->window_bytes);
    HL_ORDER(); /* the other side's half of this is membarrier */
    return mode_of(LOAD(shared.word)) == ALONE;
}

void hl_peak_reckon(struct hl_heap_slot *s)
{
    __builtin_prefetch(&shared.word, 1); /* it will be written */
    if (s->net_bytes > s->window_bytes)
        s->window_bytes = s->net_bytes;
    if (!raise_alone(hl_agent.page, s))
        settle(s);
}

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

void hl_peak_reckon_shared(struct hl_heap_slot *s)
{
    for (;;) {
        hl_peak_join(s);
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

int hl_peak_hold(void (*look)(void *), void *arg)
{
    uint64_t w = load_word(), ours = 0;
    if (mode_of(w) != ALONE && !hl_agent.no_barrier)
        ours = begin_round(w);
    if (ours)
        stop_all(); /* not told: who waits for it would go on at once */
    look(arg);
    if (!ours)
        return mode_of(w) == ALONE;
    int whole = load_word() == ours;
    add_up(ours);
    return whole;
}
