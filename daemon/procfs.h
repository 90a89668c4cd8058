/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel says about a process: pidfd, start time, resident size, how
 * it ended.  Every answer may be "unknown": /proc can be absent, hidden, or of
 * another pid namespace.
 */
#ifndef HL_PROCFS_H
#define HL_PROCFS_H

#include "messages.h"

#include <stdint.h>

/* A pidfd (close-on-exec) of the process that made the connection sock, pid as
 * the kernel names it, provided that it started at start_ticks (0: not checked);
 * or -1. */
int hl_procfs_open(int sock, int64_t pid, uint64_t start_ticks);

/* VmHWM and VmRSS in bytes; outputs stay as they are where unknown. */
void hl_procfs_memory(int64_t pid, int64_t *vmhwm, int64_t *vmrss);

/* Resident set in bytes, from statm; -1 unknown, or it has none any more. */
int64_t hl_procfs_rss(int64_t pid);

/* How long ago a process with this start time began; -1 unknown. */
int64_t hl_procfs_age_ns(uint64_t start_ticks);

/* How a dead process ended, by PIDFD_GET_INFO (once its parent has waited for it)
 * or from its zombie.  may_trace: it has our own uid.  1: *end is set; 0: not
 * known (yet). */
int hl_procfs_end(int pidfd, int64_t pid, uint64_t start_ticks, int may_trace,
                  struct hl_end *end);

/* Can this kernel tell it by the pidfd? */
int hl_procfs_pidfd_tells(void);

/* Does this process live in a user namespace that hides other uids? */
int hl_procfs_uids_hidden(void);

#endif
