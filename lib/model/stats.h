/* SPDX-License-Identifier: Apache-2.0
 *
 * The five statistics across ranks (specification, "Console table").
 */
#ifndef HL_STATS_H
#define HL_STATS_H

#include <stddef.h>

enum hl_stat { HL_STAT_MEAN, HL_STAT_SUM, HL_STAT_MIN, HL_STAT_MAX, HL_STAT_MEDIAN };

/* By name; -1 unknown. */
int hl_stat_parse(const char *name);
const char *hl_stat_name(enum hl_stat s);

/* Of n values, which are reordered; 0 when n is 0.  The median of an even
 * number of values is the mean of the middle two. */
double hl_stat_of(enum hl_stat s, double *v, size_t n);

#endif
