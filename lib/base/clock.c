/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks in nanoseconds; see clock.h.
 */
#include "clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t hl_mono_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t hl_real_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}
