/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics across ranks; see stats.h.
 */
#include "stats.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"mean", "sum", "min", "max", "median"};

int hl_stat_parse(const char *name)
{
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(name, names[i]))
            return i;
    return -1;
}

const char *hl_stat_name(enum hl_stat s)
{
    return names[s];
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double extreme(const double *v, size_t n, int largest)
{
    double r = v[0];
    for (size_t i = 1; i < n; i++)
        if (largest ? v[i] > r : v[i] < r)
            r = v[i];
    return r;
}

static double sum(const double *v, size_t n)
{
    double r = 0;
    for (size_t i = 0; i < n; i++)
        r += v[i];
    return r;
}

double hl_stat_of(enum hl_stat s, double *v, size_t n)
{
    if (!n)
        return 0;
    switch (s) {
    case HL_STAT_SUM: return sum(v, n);
    case HL_STAT_MIN: return extreme(v, n, 0);
    case HL_STAT_MAX: return extreme(v, n, 1);
    case HL_STAT_MEDIAN:
        qsort(v, n, sizeof *v, by_value);
        return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    case HL_STAT_MEAN: break;
    }
    return sum(v, n) / (double)n;
}
