/* SPDX-License-Identifier: Apache-2.0
 *
 * What an earlier run left in the folder of the spools.  Done in the lane that
 * writes, so that no file is met half written.
 */
#ifndef HL_SCAN_H
#define HL_SCAN_H

#include "load.h"

/* Spools that have ended are only looked at; the others are loaded. */
struct hl_found_file {
    int64_t pid;
    uint64_t start_ticks, image, bytes;
    int64_t mtime_ns;
    struct hl_loaded *loaded; /* of one that had not ended, or NULL */
    int is_aside;             /* it cannot be used: its name is all that is known */
};
struct hl_found_job {
    uid_t uid;
    char key[HL_KEY_MAX + 1];
    int64_t taken_ns; /* 0: not read whole */
    struct hl_found_file *file;
    size_t n, cap;
};
struct hl_found {
    struct hl_found_job *job;
    size_t n, cap;
    char **bad; /* sentences about files that cannot be used */
    size_t n_bad, cap_bad;
    int no_memory;
};

/* Walk the pool's root.  stop: set by another thread to end early. */
void hl_scan(struct hl_found *f, struct hl_spool_pool *pool, const int *stop);
void hl_found_fini(struct hl_found *f);

#endif
