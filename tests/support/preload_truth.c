/* SPDX-License-Identifier: Apache-2.0
 *
 * True figures under schedules that are made to deceive the counters.
 *
 *   preload_truth SCHEDULE THREADS SCALE [nobarrier]
 *
 * The main thread directs: it tells a thread what to do and waits until it is
 * done, so the order of all operations is known and so are allocs, frees, live and
 * peak at each instant ("crowd" and "race" let all go at once).  Nothing of this
 * is kept on the heap.  The thread 0 is the main one.  The figures are compared
 * with heapline_get_stats here and printed for a comparison with the record:
 *   truth ALLOCS FREES LOW-PEAK HIGH-PEAK LIVE UNITS
 * the peak between two known figures, and the UNITS / 8192 of it allowed besides.
 * nobarrier: once more in a process in which membarrier(2) is missing.
 * Exit status 0: all as it must be; 1: not; 77: no agent or not possible here.
 */
#include "preload_truth.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { MAX = 320, BLOCKS = 1 << 20 };

struct thread {
    pthread_t id;
    sem_t start, done;
    void (*job)(struct thread *);
    int k, running, signalled;
    long a, b; /* what the job is about */
    /* Blocks are kept as a stack: bottom to top in the thread's part of a table. */
    void **block;
    long n, room;
    uint64_t random;
    struct model own; /* of "race" */
};
static struct thread thread[MAX];
static struct model all;
static long n_threads, scale, n_counting;
static int64_t low_peak; /* 0: the peak is known exactly */
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t gate;

static uint64_t draw(struct thread *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return t->random;
}

/* ---- what a thread does ---- */

static void push(struct thread *t, void *p)
{
    if (!p || t->n == t->room)
        _exit(3);
    t->block[t->n++] = p;
    entered(&all, p);
}

static void drop_last(struct thread *t)
{
    void *p = t->block[--t->n];
    left(&all, malloc_usable_size(p));
    free(p);
}

/* b blocks of a bytes */
static void grow(struct thread *t)
{
    for (long i = 0; i < t->b; i++)
        push(t, malloc((size_t)t->a));
}

/* The last b blocks */
static void shrink(struct thread *t)
{
    for (long i = 0; i < t->b && t->n; i++)
        drop_last(t);
}

static void shrink_all(struct thread *t)
{
    t->b = t->n;
    shrink(t);
}

/* The last b blocks of thread a */
static void shrink_other(struct thread *t)
{
    struct thread *o = &thread[t->a];
    for (long i = 0; i < t->b && o->n; i++)
        drop_last(o);
}

/* A block of a bytes and away with it, b times */
static void pulse(struct thread *t)
{
    for (long i = 0; i < t->b; i++) {
        push(t, malloc((size_t)t->a));
        drop_last(t);
    }
}

static void resize_last(struct thread *t)
{
    void *p = t->block[t->n - 1];
    size_t old = malloc_usable_size(p);
    p = realloc(p, (size_t)t->a);
    if (!p)
        _exit(3);
    t->block[t->n - 1] = p;
    left(&all, old);
    entered(&all, p);
}

/* a bytes at an alignment of b */
static void align(struct thread *t)
{
    push(t, memalign((size_t)t->b, (size_t)t->a));
}

/* Just under what may be held back now, in small blocks (a: how many times that,
 * in case more is); a < 0: of releases. */
static void hold_back(struct thread *t)
{
    int64_t left_over = all.peak / 8192 >> (63 - __builtin_clzl((unsigned long)t->k + 1));
    left_over *= t->a < 0 ? -t->a : t->a;
    for (int64_t held = 0; held + 32 <= left_over; held += 32)
        if (t->a > 0)
            push(t, malloc(24));
        else if (t->n)
            drop_last(t);
}

static void nothing(struct thread *t)
{
    (void)t;
}

/* ---- the director ---- */

static void *body(void *arg)
{
    struct thread *t = arg;
    for (;;) {
        while (sem_wait(&t->start) != 0)
            ;
        if (!t->job)
            break;
        t->job(t);
        sem_post(&t->done);
    }
    return NULL;
}

/* What the C library allocates for a thread is taken from the agent itself. */
static void adopt(const struct heapline_stats *from)
{
    struct heapline_stats s = stats_now();
    all.allocs += (int64_t)(s.allocs - from->allocs);
    all.frees += (int64_t)(s.frees - from->frees);
    all.live += s.live_bytes - from->live_bytes;
    if (all.live > all.peak)
        all.peak = all.live;
}

static void start_thread(long k)
{
    struct heapline_stats s = stats_now();
    struct thread *t = &thread[k];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 131072);
    t->running = 1;
    if (pthread_create(&t->id, &small, body, t) != 0)
        _exit(77);
    adopt(&s);
}

static void end_thread(long k)
{
    struct heapline_stats s = stats_now();
    thread[k].job = NULL;
    sem_post(&thread[k].start);
    pthread_join(thread[k].id, NULL);
    thread[k].running = 0;
    adopt(&s);
}

static void tell(long k, void (*job)(struct thread *), long a, long b)
{
    struct thread *t = &thread[k];
    t->job = job;
    t->a = a;
    t->b = b;
    sem_post(&t->start);
}

static void wait_for(long k)
{
    while (sem_wait(&thread[k].done) != 0)
        ;
}

static void on(long k, void (*job)(struct thread *), long a, long b)
{
    if (k == 0) {
        thread[0].a = a;
        thread[0].b = b;
        job(&thread[0]);
        return;
    }
    tell(k, job, a, b);
    wait_for(k);
}

static void each(void (*job)(struct thread *), long a, long b)
{
    for (long k = 0; k < n_threads; k++)
        on(k, job, a, b);
}

/* A first operation of each, so that its slot is that of its number. */
static void number_slots(void)
{
    each(pulse, 100, 1);
}

/* Pass the peak by thread k with one large block, and leave it again. */
static void pass_peak(long k)
{
    on(k, grow, all.peak - all.live + 300000, 1);
    on(k, shrink, 0, 1);
}

/* ---- the schedules ---- */

static void staggered(void)
{
    for (long turn = 0; turn < n_threads; turn++) {
        for (long k = 0; k < n_threads; k++)
            on(k, grow, 64 + (k * 37 + turn) % 500,
               scale * (k == turn ? 100 : 25) / n_threads + 1);
        each(shrink_all, 0, 0);
    }
}

/* Everything that may be held back is, in either direction; then one large block. */
static void hidden(long sign)
{
    long last = n_threads - 1;
    number_slots();
    for (int round = 0; round < 4; round++) {
        on(0, grow, 60000, scale);
        each(grow, 24, 600);
        pass_peak(round % 2 ? 0 : last);
        for (int again = 0; again < 3; again++) {
            each(hold_back, sign * (1 + again), 0);
            pass_peak(again % 2 ? 0 : last);
        }
        each(hold_back, sign, 0);
        each(hold_back, -sign, 0);
        pass_peak(last / 2);
        each(shrink_all, 0, 0);
    }
}

static void hidden_up(void)
{
    hidden(1);
}

static void hidden_down(void)
{
    hidden(-1);
}

/* Releases by others: pairs, a ring, one for all, all for one. */
static void crossed(void)
{
    long n = n_threads;
    for (long round = 0; round < 8; round++) {
        long bytes = 50 + 400 * (round % 3), count = scale * (8 + round) / n + 1;
        each(grow, bytes, count);
        for (long k = 0; k < n; k++)
            switch (round % 4) {
            case 0: on(k ^ 1 && (k ^ 1) < n ? k ^ 1 : k, shrink_other, k, count); break;
            case 1: on((k + 1) % n, shrink_other, k, count); break;
            case 2: on(n - 1, shrink_other, k, count); break;
            default: on(k, shrink_other, n - 1 - k, count - 1);
            }
        on(0, grow, 700, count * n); /* and what one makes for all */
        for (long k = 0; k < n; k++)
            on(k, shrink_other, 0, count);
    }
}

/* Threads come, hold something back and go while the heap grows. */
static void fleeting(void)
{
    on(0, grow, 60000, scale);
    for (long round = 0; round < 12; round++) {
        for (long k = 1; k < n_threads; k++) {
            if (round || k % 3 == 0)
                end_thread(k);
            if (round || k % 3 == 0)
                start_thread(k);
            on(k, grow, 24, 40 + round * 3);
            on(k, hold_back, round % 3 == 2 ? -1 : 1, 0);
        }
        on(0, grow, 5000, 7);
        pass_peak(0);
    }
}

/* The peak approached, left, reached, passed by a little, thousands of times. */
static void yoyo(void)
{
    uint64_t r = 88172645463325252u;
    each(grow, 2000, scale / n_threads + 1);
    for (long i = 0; i < scale * 20; i++) {
        long k = (long)((r = r * 6364136223846793005u + 1442695040888963407u) >> 33);
        int64_t room = all.peak - all.live;
        switch (k % 16) {
        case 0: on(k % n_threads, grow, room + k % 200, 1); break;
        case 1: on(k % n_threads, pulse, room / 64, 90); break;
        case 2: on(k % n_threads, pulse, room > 50 ? room - 40 : 1, 3); break;
        case 3: on(k % n_threads, hold_back, 1, 0); break;
        case 4: on(k % n_threads, hold_back, -1, 0); break;
        default:
            on(k % n_threads, k % 2 || room > all.peak / 2 ? grow : shrink,
               1000 + k % 5000, 1 + k % 4);
        }
    }
}

/* All but one have claimed a share of what was free; that one goes to the peak. */
static void idle_claims(void)
{
    number_slots();
    for (int round = 0; round < 6; round++) {
        long mover = round % n_threads;
        each(grow, 9000, scale);
        each(shrink, 0, scale - 1);
        each(pulse, 9000 * scale / 2, 150);
        for (int64_t top = all.peak; all.live < top + 100000;)
            on(mover, grow, 4000 + top / 2000, 5);
        each(shrink_all, 0, 0);
    }
}

/* A heap that goes from one thread to the other and grows at each turn. */
static void handed_over(void)
{
    for (long i = 0; i < scale * 4; i++) {
        long from = i % n_threads, to = (i + 1) % n_threads;
        on(from, shrink_all, 0, 0);
        on(to, grow, 100000 + i * 300, 1);
        on(to, grow, 24, i % 50);
        if (i % 7 == 0)
            on(from, pulse, 50000, 70);
    }
}

static void resized(void)
{
    each(grow, 100, 1);
    for (long i = 1; i < scale * 4; i++) {
        on(i % n_threads, resize_last, 1000 * i, 0);
        if (i % 5 == 0)
            on((i + 2) % n_threads, resize_last, 24, 0);
    }
}

static void aligned(void)
{
    for (long i = 0; i < scale * 2; i++) {
        on(i % n_threads, align, 100 + i * 50, 16L << i % 14);
        if (i % 3 == 0)
            on((i + 1) % n_threads, shrink, 0, 1);
    }
}

/* A handler allocates while its thread works at something else. */
static void on_signal(int signal)
{
    struct thread *t = &thread[0];
    (void)signal;
    while (t < &thread[n_threads] && !pthread_equal(t->id, pthread_self()))
        t++;
    int e = errno;
    grow(t);
    t->a = 1;
    hold_back(t);
    if (t->n > 200)
        for (int i = 0; i < 150; i++)
            drop_last(t);
    errno = e;
    __atomic_store_n(&t->signalled, 1, __ATOMIC_RELEASE);
}

static void compute(struct thread *t)
{
    static char stack[MAX][65536];
    const stack_t s = {.ss_sp = stack[t->k], .ss_size = sizeof stack[0]};
    sigaltstack(&s, NULL);
    volatile double x = 1;
    if (t->k == 0)
        raise(SIGUSR1);
    while (!__atomic_load_n(&t->signalled, __ATOMIC_ACQUIRE))
        for (int i = 0; i < 2000; i++)
            x = x * 1.0000001 + 1;
    t->signalled = 0;
}

static void signals(void)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGUSR1, &a, NULL);
    thread[0].id = pthread_self();
    for (long i = 0; i < scale * 4; i++) {
        long k = i % n_threads;
        if (k) {
            tell(k, compute, 300 + i % 3000, 5);
            pthread_kill(thread[k].id, SIGUSR1);
            wait_for(k);
        } else {
            on(0, compute, 300 + i % 3000, 5);
        }
        on((k + 1) % n_threads, grow, 2000, 3);
        if (i % 16 == 9)
            pass_peak(k);
    }
}

/* The others live, work, and allocate nothing: the peak stays exact. */
static void silent(void)
{
    n_counting = 1;
    for (long i = 0; i < scale * 2; i++) {
        on(0, grow, 1 + i % 5000, 3);
        on(i % n_threads, nothing, 0, 0);
        on(0, shrink, 0, i % 4);
    }
}

/* ---- all at once ---- */

static void mix(struct thread *t)
{
    uint64_t r = draw(t);
    if (t->n && (r % 8 < 3 || t->n > t->b / 4)) {
        drop_last(t);
    } else if (t->n && r % 8 == 3) {
        t->a = (long)(r >> 20) % 9000 + 1;
        resize_last(t);
    } else {
        push(t, malloc((r >> 20) % (r % 64 == 4 ? 200000 : 900)));
    }
}

static void join_crowd(struct thread *t)
{
    for (long i = 0; i < t->b; i++) {
        pthread_mutex_lock(&order);
        mix(t);
        pthread_mutex_unlock(&order);
    }
}

static void crowd(void)
{
    for (long k = 1; k < n_threads; k++)
        tell(k, join_crowd, 0, scale * 2000 / n_threads + 10);
    on(0, join_crowd, 0, scale * 2000 / n_threads + 10);
    for (long k = 1; k < n_threads; k++)
        wait_for(k);
}

/* Without any order.  Each thread releases its own blocks alone, so that live is
 * never above the sum of the threads' own highest; and when all wait with their
 * blocks in hand, live is what all have. */
static void run_free(struct thread *t)
{
    for (int round = 0; round < 3; round++) {
        pthread_barrier_wait(&gate);
        for (long i = 0; i < t->b; i++) {
            void *p = malloc(draw(t) % 900);
            entered(&t->own, t->block[t->n++] = p);
            if (i % 3 == 1 || (round == 2 && t->n > 20)) {
                p = t->block[--t->n];
                left(&t->own, malloc_usable_size(p));
                free(p);
            }
        }
        pthread_barrier_wait(&gate);
        if (t->k == 0) {
            int64_t sum = all.live;
            for (long k = 0; k < n_threads; k++)
                sum += thread[k].own.live;
            low_peak = sum > low_peak ? sum : low_peak;
        }
        pthread_barrier_wait(&gate);
        while (t->n > 5) {
            left(&t->own, malloc_usable_size(t->block[--t->n]));
            free(t->block[t->n]);
        }
    }
}

static void race(void)
{
    low_peak = 1;
    pthread_barrier_init(&gate, NULL, (unsigned)n_threads);
    for (long k = 1; k < n_threads; k++)
        tell(k, run_free, 0, scale * 1000 / n_threads + 10);
    on(0, run_free, 0, scale * 1000 / n_threads + 10);
    for (long k = 1; k < n_threads; k++)
        wait_for(k);
    int64_t high = all.live;
    for (long k = 0; k < n_threads; k++) {
        all.allocs += thread[k].own.allocs;
        all.frees += thread[k].own.frees;
        all.live += thread[k].own.live;
        high += thread[k].own.peak;
    }
    all.peak = high > all.peak ? high : all.peak;
}

static const struct {
    const char *name;
    void (*run)(void);
} schedules[] = {{"staggered", staggered},
                 {"hidden-up", hidden_up},
                 {"hidden-down", hidden_down},
                 {"crossed", crossed},
                 {"fleeting", fleeting},
                 {"yoyo", yoyo},
                 {"idle-claims", idle_claims},
                 {"handed-over", handed_over},
                 {"resized", resized},
                 {"aligned", aligned},
                 {"signals", signals},
                 {"silent", silent},
                 {"crowd", crowd},
                 {"race", race}};

/* ---- begin and end ---- */

static void without_membarrier(char **argv)
{
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog p = {sizeof f / sizeof *f, f};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p, 0, 0) != 0)
        _exit(77);
    argv[4] = NULL;
    execv("/proc/self/exe", argv);
    _exit(77);
}

static void set_up(void)
{
    void **table = mmap(NULL, BLOCKS * sizeof *table, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        _exit(77);
    for (long k = 0; k < n_threads; k++) {
        struct thread *t = &thread[k];
        t->k = (int)k;
        t->room = BLOCKS / n_threads;
        t->block = table + k * t->room;
        t->random = (uint64_t)(k + 1) * 0x9e3779b97f4a7c15u;
        sem_init(&t->start, 0, 0);
        sem_init(&t->done, 0, 0);
    }
    struct heapline_stats s = stats_now();
    all = (struct model){(int64_t)s.allocs, (int64_t)s.frees, s.live_bytes, s.peak_bytes};
    for (long k = 1; k < n_threads; k++)
        start_thread(k);
}

static int compare(void)
{
    struct heapline_stats s = stats_now();
    int64_t low = low_peak ? low_peak : all.peak, units = bound_units(n_counting);
    say("truth %lld %lld %lld %lld %lld %lld\n", (long long)all.allocs,
        (long long)all.frees, (long long)low, (long long)all.peak, (long long)all.live,
        (long long)units);
    return is_off("allocs", (int64_t)s.allocs, all.allocs, all.allocs) |
           is_off("frees", (int64_t)s.frees, all.frees, all.frees) |
           is_off("live", s.live_bytes, all.live, all.live) |
           is_off("peak", s.peak_bytes, low - units * low / 8192,
                  all.peak + units * all.peak / 8192);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    if (argc > 4)
        without_membarrier(argv);
    find_agent();
    n_threads = n_counting = atol(argv[2]);
    scale = atol(argv[3]);
    if (n_threads < 1 || n_threads > MAX)
        return 2;
    set_up();
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        if (strcmp(schedules[i].name, argv[1]) == 0) {
            schedules[i].run();
            return compare();
        }
    return 2;
}
