/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of heaplined share: the state of the daemon, passed to each of
 * them, and its counters.  One thread; nothing here is locked.
 */
#ifndef HL_DAEMON_H
#define HL_DAEMON_H

#include "append.h"
#include "disk.h"
#include "due.h"
#include "loop.h"
#include "log.h"
#include "passed.h"
#include "settings.h"
#include "spool.h"
#include "table.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hl_job;
struct hl_keep;
struct hl_peer;
struct hl_process;

/* Every uid that has a connection, a job or a spool. */
struct hl_user {
    uid_t uid;
    size_t n_peers, n_jobs, n_alive;
    uint64_t spool_bytes;
    uint64_t n_messages; /* in this second */
    int64_t second;
};

struct hl_listener {
    int fd;        /* -1 none */
    int activated; /* it is the service manager's: never removed */
    struct hl_watch *watch;
    struct hl_timer *retry; /* at the limit of descriptors */
};

/* By the names of control.h's HL_STATUS_LIST. */
struct hl_counters {
    uint64_t accepted, hellos, messages, bytes, rows, appended_bytes, acks,
        processes_ended, rows_dropped, rows_lost, refused_version, refused_protocol,
        refused_connections, refused_processes, refused_jobs, refused_rate, refused_space,
        refused_uid, refused_draining, appends_failed, syncs_failed, accept_failed,
        jobs_removed_read, jobs_removed_unread, jobs_forgotten, torn_tails, spools_bad,
        reloads, reload_failures, points, points_dropped, intervals_raised;
};

/* Processes by state: alive, ending, ended but not folded. */
struct hl_process_list {
    struct hl_process *first, *last;
    size_t n;
};

struct hl_daemon {
    struct hl_loop *loop;
    struct hl_log log;
    struct hl_settings set;
    struct hl_settings configured; /* as set at start; never changes: any thread */
    const char *conf_file;
    int conf_missing_ok;
    int private_run;
    int overflow_uid; /* uids may be hidden by our own user namespace */
    uid_t self;
    struct hl_listener listener;
    struct hl_passed passed;   /* by the service manager, at start */
    struct hl_keep *keep;      /* what outlives this run; NULL: nothing */
    int root, lock;            /* folder of the spools; its lock */
    struct hl_spool_pool pool; /* belongs to the lane that writes */
    struct hl_lane writes, reads, syncs;
    struct hl_append append;
    int scanned; /* what an earlier run left is known */
    int checking, folder_gone;
    size_t n_folded;                  /* since memory was given back */
    uint64_t fs_bytes, fs_free_bytes; /* of its file system */
    int draining;                     /* no new process is taken */
    int low_space;                    /* free space is under min_free */
    int spool_errno;  /* of the last write that failed, until it is cured */
    int conf_invalid; /* the last reload kept the old one */
    int sync_each;    /* acknowledge what is on the disk, not what is written */
    size_t n_failing; /* processes whose bytes the disk does not take */
    struct hl_table users, jobs, by_image, by_pid;
    struct hl_peer *peers, *last_peer;    /* list, oldest first */
    struct hl_peer *parked, **parked_end; /* wait for room, in this order */
    struct hl_process_list list[3];       /* by enum hl_process_state */
    struct hl_process *sampled_next;      /* alive; where the next slice begins */
    struct hl_process *fresh_next;        /* alive; never sampled from here on */
    size_t n_fresh;
    size_t n_peers, n_new, n_keepers, n_gathers, n_alive;
    int met_anyone; /* private: a keeper or gather has come */
    unsigned pass;  /* number of the last walk over new connections */
    struct hl_process *ending, **ending_end; /* queue of those that died */
    struct hl_timer *ending_timer, *retry_timer, *sample_timer, *expire_timer,
        *sync_timer, *private_timer, *watchdog_timer, *tidy_timer, *fresh_timer,
        *points_timer;
    struct hl_due_heap due; /* timelines by their next points */
    size_t n_point_writes;  /* on their way to the disk */
    struct hl_signal *signals[4];
    int syncing, stopping;
    int deaf; /* stopping: clients are read no more */
    int64_t started_ns;
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
