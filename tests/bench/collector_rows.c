/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of 512 bytes through the client library, as it batches them by default:
 *
 *   collector_rows PROCESSES ROWS [SET]
 *
 * Each process commits ROWS frames of 59 metrics, of which it sets SET (8; the others
 * are 0), and ends its session, which waits for the acknowledgements.  Prints seconds
 * from the common start to the last end, and rows dropped.
 */
#include "heapline.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { METRICS = 59 };

struct shared {
    int64_t last_ns;
    uint64_t dropped;
    uint32_t ready;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static heapline_session *open_session(void)
{
    static char names[METRICS][16];
    const char *metrics[METRICS];
    heapline_session *s;
    for (int i = 0; i < METRICS; i++) {
        snprintf(names[i], sizeof names[i], "metric%d", i);
        metrics[i] = names[i];
    }
    if (heapline_session_begin(&s, metrics, METRICS))
        _exit(1);
    return s;
}

static void one_frame(heapline_session *s, long k, size_t set, uint64_t *dropped)
{
    if (heapline_frame_begin(s))
        _exit(1);
    for (size_t i = 0; i < set; i++)
        heapline_set_metric(s, i, (double)(k + (long)i));
    *dropped += heapline_frame_end(s) != 0;
}

static void process(struct shared *t, long rows, size_t set, const int *go)
{
    uint64_t dropped = 0;
    char c;
    close(go[1]);
    heapline_session *s = open_session();
    one_frame(s, 0, set, &dropped); /* connects */
    __atomic_add_fetch(&t->ready, 1, __ATOMIC_ACQ_REL);
    while (read(go[0], &c, 1) < 0)
        continue;
    for (long k = 1; k < rows; k++)
        one_frame(s, k, set, &dropped);
    heapline_session_end(s);
    int64_t now = now_ns(), was = t->last_ns;
    while (now > was && !__atomic_compare_exchange_n(&t->last_ns, &was, now, 0,
                                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        continue;
    __atomic_add_fetch(&t->dropped, dropped, __ATOMIC_ACQ_REL);
    _exit(0);
}

int main(int argc, char **argv)
{
    int go[2], n = argc > 1 ? atoi(argv[1]) : 1;
    long rows = argc > 2 ? atol(argv[2]) : 100000;
    size_t set = argc > 3 ? (size_t)atol(argv[3]) : 8;
    struct shared *t =
        mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED || pipe(go) || set > METRICS)
        return 1;
    for (int i = 0; i < n; i++)
        if (!fork())
            process(t, rows / n, set, go);
    while (__atomic_load_n(&t->ready, __ATOMIC_ACQUIRE) < (uint32_t)n)
        usleep(1000);
    usleep(200000);
    int64_t start = now_ns();
    close(go[1]);
    while (wait(NULL) > 0)
        continue;
    printf("%.6f %llu\n", (double)(t->last_ns - start) * 1e-9,
           (unsigned long long)t->dropped);
    return 0;
}
