/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs about the true figures of the heap share: a model of the heap
 * that uses none, the agent's figures, and the comparison of both.
 */
#ifndef PRELOAD_TRUTH_H
#define PRELOAD_TRUTH_H

#include "../../libclient/heapline.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct model {
    int64_t allocs, frees, live, peak;
};

static int (*get_stats)(struct heapline_stats *);

/* stdio would allocate its buffer. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char line[300];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    if (write(1, line, (size_t)n) != n)
        _exit(99);
}

static inline void entered(struct model *m, void *p)
{
    if (!p)
        return;
    m->allocs++;
    m->live += (int64_t)malloc_usable_size(p);
    if (m->live > m->peak)
        m->peak = m->live;
}

static inline void left(struct model *m, size_t usable)
{
    m->frees++;
    m->live -= (int64_t)usable;
}

static inline struct heapline_stats stats_now(void)
{
    struct heapline_stats s;
    if (get_stats(&s) != 0)
        _exit(2);
    return s;
}

/* In units of 1/8192: ceil(log2 n) + 1, none with one thread. */
static inline int64_t bound_units(long n)
{
    int64_t units = 1;
    if (n == 1)
        return 0;
    while (1L << (units - 1) < n)
        units++;
    return units;
}

static inline int is_off(const char *what, int64_t got, int64_t low, int64_t high)
{
    if (got >= low && got <= high)
        return 0;
    say("%s is %lld, must be %lld to %lld; ", what, (long long)got, (long long)low,
        (long long)high);
    return 1;
}

static inline void find_agent(void)
{
    get_stats =
        (int (*)(struct heapline_stats *))dlsym(RTLD_DEFAULT, "heapline_get_stats");
    if (!get_stats || stats_now().elapsed_s <= 0)
        _exit(77);
}

#endif
