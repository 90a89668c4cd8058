/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of heaplined: defaults, heaplined.conf, and what a reload may
 * change.  heaplined.conf(5) describes each key.
 */
#ifndef HL_SETTINGS_H
#define HL_SETTINGS_H

#include "err.h"
#include "log.h"

#include <limits.h>
#include <stdint.h>

#define HL_SETTINGS_FILE SYSCONFDIR "/heapline/heaplined.conf"

enum hl_log_target { HL_LOG_AUTO, HL_LOG_STDERR, HL_LOG_JOURNAL };

/* Bytes, or a share of the file system that holds the spool. */
struct hl_share {
    uint64_t bytes;
    int percent; /* 0: bytes counts; both 0: no limit */
};

struct hl_settings {
    char socket[108];
    char spool[PATH_MAX];
    int log_level;
    int log_target; /* enum hl_log_target */
    uint64_t log_burst;
    struct hl_share quota_per_uid, quota_total, min_free;
    int64_t sample_interval_ns, job_keep_ns, job_keep_read_ns, hello_timeout_ns,
        sync_interval_ns, min_interval_ns;
    uint64_t max_processes, max_processes_per_uid, max_jobs_per_uid, max_message,
        max_message_rate;
    char admin_group[64];
    int64_t admin_gid; /* of admin_group when it was read; -1 none */
};

void hl_settings_init(struct hl_settings *s);
/* Read a file over the defaults.  missing_ok: no file is no error. */
int hl_settings_load(struct hl_settings *s, const char *path, int missing_ok,
                     struct hl_err *e);
/* The same from text; name is for messages. */
int hl_settings_parse(struct hl_settings *s, const char *name, const char *text, size_t n,
                      struct hl_err *e);
/* The first key that differs and cannot change while the daemon runs, or NULL. */
const char *hl_settings_needs_restart(const struct hl_settings *old,
                                      const struct hl_settings *fresh);
/* Keys that cannot change keep the value of old. */
void hl_settings_keep_fixed(struct hl_settings *fresh, const struct hl_settings *old);

#endif
