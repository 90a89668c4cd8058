/* SPDX-License-Identifier: Apache-2.0
 *
 * The two clocks: monotonic for durations and timers, wall time for display,
 * file names and ages that must outlive a restart.
 */
#ifndef HL_CLOCK_H
#define HL_CLOCK_H

#include <stdint.h>

int64_t hl_mono_ns(void);
int64_t hl_real_ns(void);

#endif
