/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of heaplined share: the state of the daemon, passed to each of
 * them, and its counters.  One thread; nothing here is locked.
 */
#ifndef HL_DAEMON_H
#define HL_DAEMON_H

#include "loop.h"
#include "log.h"
#include "settings.h"
#include "spool.h"
#include "table.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hl_job;
struct hl_peer;
struct hl_process;

/* Every uid that has a connection, a job or a spool. */
struct hl_user {
    uid_t uid;
    size_t n_peers, n_jobs, n_alive;
    uint64_t spool_bytes;
};

struct hl_listener {
    int fd;        /* -1 none */
    int activated; /* it is the service manager's: never removed */
    struct hl_watch *watch;
    struct hl_timer *retry; /* at the limit of descriptors */
};

struct hl_counters {
    uint64_t n_hellos, n_refused, n_messages, n_bytes, n_rows, n_ended, n_failed_appends,
        n_no_descriptors;
    /* By the names of HL_STATUS_LIST. */
    uint64_t accepted, appended_bytes, acks, rows_dropped, rows_lost, refused_version,
        refused_protocol, refused_connections, refused_processes, refused_jobs,
        refused_rate, refused_space, refused_uid, refused_draining, syncs_failed,
        jobs_removed_read, jobs_removed_unread, jobs_forgotten, torn_tails, spools_bad,
        descriptors_kept, reloads, reload_failures;
};

enum {
    HL_SCRATCH_BYTES = 256 << 10, /* read from a connection in one callback */
    HL_PIECE_BYTES = 4 << 20      /* taken from a dead process's buffer in one */
};

struct hl_daemon {
    struct hl_loop *loop;
    struct hl_log log;
    struct hl_settings set;
    struct hl_settings configured; /* as set at start: what needs a restart? */
    const char *conf_file;
    int conf_missing_ok;
    int private_run;
    int overflow_uid; /* uids may be hidden by our own user namespace */
    uid_t self;
    struct hl_listener listener;
    int root, lock; /* folder of the spools; its lock */
    struct hl_spool_pool pool;
    uint64_t fs_bytes; /* size of its file system */
    int low_space;     /* free space is under min_free */
    int spool_failing; /* its errno; said once in the log */
    struct hl_table users, jobs, by_image, by_pid;
    struct hl_peer *peers, *last_peer; /* list, oldest first */
    size_t n_peers, n_new, n_keepers, n_gathers, n_alive;
    int met_anyone;            /* private: a keeper or gather has come */
    unsigned pass;             /* number of the last walk over new connections */
    struct hl_process *ending; /* queue of those that died */
    struct hl_timer *ending_timer, *retry_timer, *sample_timer, *expire_timer,
        *sync_timer, *private_timer, *watchdog_timer;
    struct hl_signal *signals[4];
    int syncing, stopping;
    int draining; /* no new process is taken */
    int64_t started_ns;
    uint8_t *scratch; /* HL_SCRATCH_BYTES */
    int scratch_busy;
    uint8_t *page; /* HL_HEAP_PAGE_SIZE */
    struct hl_counters count;
};

/* The user of a uid, made on first sight; NULL: no memory. */
struct hl_user *hl_user_of(struct hl_daemon *d, uid_t uid);
/* Forget a user that holds nothing. */
void hl_user_release(struct hl_daemon *d, struct hl_user *u);

/* Ask for the end of the loop; what was accepted is finished first. */
void hl_daemon_stop(struct hl_daemon *d);

#endif
