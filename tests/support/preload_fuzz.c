/* SPDX-License-Identifier: Apache-2.0
 *
 * Random allocation calls over random threads, checked against a model.
 *
 *   preload_fuzz THREADS OPERATIONS SEED [free]
 *
 * Every operation is ordered by a lock, so that the true allocs, frees, live and
 * peak are known (with "free" there is no lock, and the peak is not checked).
 * Blocks lie in a table that all threads share, so that most are released by
 * another thread than the one that made them.  Compares the difference that
 * heapline_get_stats shows; the peak within (ceil(log2 N) + 1) / 8192, and
 * exactly with one thread.  Exit status 0: all equal; 1: not, and what.
 */
#include "../../libclient/heapline.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 20000, MAX_THREADS = 1024 };

struct model {
    uint64_t allocs, frees;
    int64_t live, peak;
};
static struct model all;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t gate;
static void *block[SLOTS];
static long n_operations;
static unsigned seed;
static int unordered;
static int (*get_stats)(struct heapline_stats *);

static uint64_t step(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* Mostly small, some large, a few mapped. */
static size_t some_size(uint64_t r)
{
    if (r % 100 < 80)
        return r / 100 % 600;
    if (r % 100 < 99)
        return r / 100 % 20000;
    return r / 100 % 400000;
}

static void entered(struct model *m, void *p)
{
    if (!p)
        return;
    m->allocs++;
    m->live += (int64_t)malloc_usable_size(p);
    if (m->live > m->peak)
        m->peak = m->live;
}

static void left(struct model *m, size_t usable)
{
    m->frees++;
    m->live -= (int64_t)usable;
}

static void *make(struct model *m, uint64_t *s)
{
    size_t n = some_size(step(s)), align = (size_t)16 << step(s) % 9;
    void *p = NULL;
    switch (step(s) % 9) {
    case 0: p = calloc(1 + n / 7, 7); break;
    case 1: p = memalign(align, n); break;
    case 2: p = aligned_alloc(align, n); break;
    case 3: p = posix_memalign(&p, align, n) == 0 ? p : NULL; break;
    case 4: p = valloc(n); break;
    case 5: p = realloc(NULL, n); break;
    case 6: p = reallocarray(NULL, n / 3, 3); break;
    default: p = malloc(n);
    }
    entered(m, p);
    return p;
}

static void *resize(struct model *m, void *p, uint64_t *s)
{
    size_t n = some_size(step(s)), old = malloc_usable_size(p);
    void *q;
    if (step(s) % 50 == 0) {
        volatile size_t huge = SIZE_MAX / 2;
        q = realloc(p, huge); /* fails: nothing changes */
        return q ? q : p;
    }
    q = step(s) % 2 ? realloc(p, n) : reallocarray(p, n, 1);
    if (q || n == 0)
        left(m, old);
    if (q)
        entered(m, q);
    return q;
}

static void discard(struct model *m, void *p)
{
    if (!p)
        return;
    left(m, malloc_usable_size(p));
    free(p);
}

/* Phases of growing and of shrinking, so that there are many maxima. */
static void operate(struct model *m, uint64_t *s, long i)
{
    size_t k = step(s) % SLOTS;
    int shrink = i / 3000 % 3 == 2;
    void *p = __atomic_exchange_n(&block[k], NULL, __ATOMIC_ACQ_REL);
    if (p && (shrink || step(s) % 3)) {
        discard(m, p);
        p = NULL;
    } else if (p) {
        p = resize(m, p, s);
    } else if (!shrink) {
        p = make(m, s);
    }
    discard(m, __atomic_exchange_n(&block[k], p, __ATOMIC_ACQ_REL));
}

static void *work(void *arg)
{
    struct model own = {0};
    uint64_t s = seed * 1000003u + (uintptr_t)arg * 7919u + 1;
    pthread_barrier_wait(&gate); /* all threads exist */
    pthread_barrier_wait(&gate); /* the figures before are taken */
    for (long i = 0; i < n_operations; i++) {
        if (unordered) {
            operate(&own, &s, i);
            continue;
        }
        pthread_mutex_lock(&order);
        operate(&all, &s, i);
        pthread_mutex_unlock(&order);
    }
    pthread_mutex_lock(&order);
    all.allocs += own.allocs;
    all.frees += own.frees;
    all.live += own.live;
    pthread_mutex_unlock(&order);
    pthread_barrier_wait(&gate); /* all done, all threads still there */
    pthread_barrier_wait(&gate);
    return NULL;
}

static int differs(const char *what, int64_t got, int64_t want, int64_t allowed)
{
    int64_t d = got > want ? got - want : want - got;
    if (d <= allowed)
        return 0;
    printf("%s is %lld instead of %lld (off by %lld, allowed %lld)\n", what,
           (long long)got, (long long)want, (long long)d, (long long)allowed);
    return 1;
}

static int64_t bound(long n, int64_t peak)
{
    int64_t units = 1;
    if (n == 1)
        return 0;
    while (1L << (units - 1) < n)
        units++;
    return units * peak / 8192 + 1;
}

int main(int argc, char **argv)
{
    static pthread_t id[MAX_THREADS];
    struct heapline_stats a, b;
    get_stats = dlsym(RTLD_DEFAULT, "heapline_get_stats");
    if (argc < 4 || !get_stats || get_stats(&a) != 0)
        return 2;
    long n = atol(argv[1]);
    n_operations = atol(argv[2]) / n;
    seed = (unsigned)atol(argv[3]);
    unordered = argc > 4;
    pthread_barrier_init(&gate, NULL, (unsigned)n);
    for (long i = 1; i < n; i++)
        if (pthread_create(&id[i], NULL, work, (void *)i) != 0)
            return 2;
    /* The main thread takes part between the barriers. */
    struct model own = {0};
    uint64_t s = seed * 1000003u + 1;
    pthread_barrier_wait(&gate);
    get_stats(&a);
    pthread_barrier_wait(&gate);
    for (long i = 0; i < n_operations; i++) {
        if (unordered) {
            operate(&own, &s, i);
            continue;
        }
        pthread_mutex_lock(&order);
        operate(&all, &s, i);
        pthread_mutex_unlock(&order);
    }
    pthread_barrier_wait(&gate);
    get_stats(&b);
    pthread_barrier_wait(&gate);
    for (long i = 1; i < n; i++)
        pthread_join(id[i], NULL);
    all.allocs += own.allocs;
    all.frees += own.frees;
    all.live += own.live;
    int bad = differs("allocs", (int64_t)(b.allocs - a.allocs), (int64_t)all.allocs, 0) |
              differs("frees", (int64_t)(b.frees - a.frees), (int64_t)all.frees, 0) |
              differs("live", b.live_bytes - a.live_bytes, all.live, 0);
    int64_t peak = a.live_bytes + all.peak;
    if (!unordered)
        bad |= differs("peak", b.peak_bytes, peak, bound(n, peak));
    return bad;
}
