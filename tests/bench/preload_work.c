/* SPDX-License-Identifier: Apache-2.0
 *
 * Bench: a fixed number of allocation calls in one of a few patterns.
 *
 *   preload_work PATTERN CALLS [THREADS]
 *
 *   small    a small block, released at once
 *   live     4096 blocks of mixed size, one replaced at a time
 *   realloc  a buffer grown by realloc in many steps
 *   grow     blocks that are all kept: each is a new peak
 *   big      blocks of 64 KiB to 8 MiB, 16 at a time
 *   local    each thread keeps 256 blocks of its own as in "live"
 *   cross    threads in pairs: one makes 512 blocks, the other releases them; one
 *            thread does both
 *
 * Prints nanoseconds for each call (of one thread).
 */
#include <pthread.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 512, MOST_THREADS = 128 };

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint32_t roll(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 33);
}

static void write_to(void *p)
{
    *(volatile char *)p = 1;
}

static void small(long calls)
{
    uint64_t s = 1;
    for (long i = 0; i < calls; i += 2) {
        void *p = malloc(16 + roll(&s) % 8 * 16);
        write_to(p);
        free(p);
    }
}

static void replace(long calls, size_t n, uint64_t s, size_t (*size)(uint64_t *))
{
    void **b = calloc(n, sizeof *b);
    for (long i = 0; i < calls; i += 2) {
        size_t k = roll(&s) % n;
        free(b[k]);
        b[k] = malloc(size(&s));
        write_to(b[k]);
    }
    for (size_t k = 0; k < n; k++)
        free(b[k]);
    free(b);
}

static size_t usual_size(uint64_t *s)
{
    uint32_t r = roll(s);
    return 16 + (r & 255) * (1 + (r >> 8) % 16);
}

static size_t big_size(uint64_t *s)
{
    return (size_t)65536 << roll(s) % 8;
}

static void grow_buffers(long calls)
{
    for (long i = 0; i < calls;) {
        char *p = malloc(64);
        for (size_t n = 96; n <= 65536; n += n / 2, i++) {
            p = realloc(p, n);
            p[n - 1] = 1;
        }
        free(p);
        i += 2;
    }
}

/* The heap's pages are there before: their first touch costs ten times a call. */
static void touch_heap(void)
{
#ifdef MADV_POPULATE_WRITE
    void *p = malloc(300000); /* no room for it yet: the heap grows by the pad */
    uintptr_t from = ((uintptr_t)p | 4095) + 1;
    if (madvise((void *)from, (uintptr_t)sbrk(0) - from, MADV_POPULATE_WRITE) != 0)
        fprintf(stderr, "the heap's pages could not be touched beforehand\n");
    free(p);
#endif
}

static void grow(long calls)
{
    uint64_t s = 3;
    for (long i = 0; i < calls; i++)
        write_to(malloc(8 + roll(&s) % 48));
}

struct hand {
    pthread_barrier_t full, empty;
    void *block[BATCH];
};
struct task {
    pthread_t id;
    long calls, index;
    int handed;
    struct hand *hand;
    pthread_barrier_t *start;
};

static void hand_over(struct task *t)
{
    uint64_t s = 5;
    for (long i = 0; i < t->calls; i += BATCH) {
        if (t->index % 2 == 0)
            for (int k = 0; k < BATCH; k++)
                t->hand->block[k] = malloc(usual_size(&s));
        pthread_barrier_wait(&t->hand->full);
        if (t->index % 2)
            for (int k = 0; k < BATCH; k++)
                free(t->hand->block[k]);
        pthread_barrier_wait(&t->hand->empty);
    }
}

static void *work(void *arg)
{
    struct task *t = arg;
    pthread_barrier_wait(t->start);
    if (t->handed)
        hand_over(t);
    else
        replace(t->calls, 256, (uint64_t)t->index + 11, usual_size);
    return NULL;
}

/* Both sides of a hand-over. */
static void both(long calls)
{
    static void *block[BATCH];
    uint64_t s = 5;
    for (long i = 0; i < calls; i += BATCH) {
        for (int k = 0; k < BATCH; k++)
            block[k] = malloc(usual_size(&s));
        for (int k = 0; k < BATCH; k++)
            free(block[k]);
    }
}

static int64_t threads(int handed, long calls, int n)
{
    static struct task t[MOST_THREADS];
    static struct hand hands[MOST_THREADS / 2];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)n + 1);
    for (int i = 0; i < n; i++) {
        struct hand *h = &hands[i / 2];
        if (i % 2 == 0) {
            pthread_barrier_init(&h->full, NULL, 2);
            pthread_barrier_init(&h->empty, NULL, 2);
        }
        t[i] = (struct task){
            .calls = calls, .index = i, .handed = handed, .hand = h, .start = &start};
        if (pthread_create(&t[i].id, NULL, work, &t[i]) != 0)
            exit(1);
    }
    int64_t from = now_ns(); /* afterwards others may run first */
    pthread_barrier_wait(&start);
    for (int i = 0; i < n; i++)
        pthread_join(t[i].id, NULL);
    return now_ns() - from;
}

static int64_t run(const char *pattern, long calls, int n)
{
    int64_t from = now_ns();
    if (strcmp(pattern, "small") == 0)
        small(calls);
    else if (strcmp(pattern, "live") == 0)
        replace(calls, 4096, 7, usual_size);
    else if (strcmp(pattern, "realloc") == 0)
        grow_buffers(calls);
    else if (strcmp(pattern, "grow") == 0)
        grow(calls);
    else if (strcmp(pattern, "big") == 0)
        replace(calls, 16, 9, big_size);
    else if (strcmp(pattern, "local") == 0)
        return threads(0, calls, n);
    else if (strcmp(pattern, "cross") == 0 && n == 1)
        both(calls);
    else if (strcmp(pattern, "cross") == 0)
        return threads(1, calls, n / 2 * 2);
    else
        exit(2);
    return now_ns() - from;
}

int main(int argc, char **argv)
{
    int n = argc > 3 ? atoi(argv[3]) : 1;
    if (argc < 3 || n < 1 || n > MOST_THREADS)
        return 2;
    /* Where the heap's top is given back must not decide what is measured. */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 128 << 20);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    touch_heap();
    long calls = atol(argv[2]);
    printf("%.3f\n", (double)run(argv[1], calls, n) / (double)calls);
    return 0;
}
