/* SPDX-License-Identifier: Apache-2.0
 *
 * What heaplinectl asks and the collector answers: one ASK, then any number of
 * STATUS, JOB, LIVE and USER messages, then DONE.  Fields of values that the
 * asker may not see are left out.  Encoders and decoders as in messages.h.
 */
#ifndef HL_CONTROL_H
#define HL_CONTROL_H

#include "wire.h"

/* ---- ASK ---- */

enum hl_ask_what {
    HL_ASK_STATUS = 1,  /* STATUS, and USER of the caller */
    HL_ASK_JOBS = 2,    /* JOB of each */
    HL_ASK_LIVE = 3,    /* LIVE of each process that is alive */
    HL_ASK_METRICS = 4, /* STATUS, and USER of each user; for administrators */
    HL_ASK_DRAIN = 5,   /* take nothing new; for administrators */
    HL_ASK_UNDRAIN = 6, /* take new ones again; for administrators */
    HL_ASK_FORGET = 7   /* remove jobs: arg is a key, or a batch job's id */
};
struct hl_ask {
    uint32_t what;     /* enum hl_ask_what */
    struct hl_str arg; /* at most HL_KEY_MAX bytes */
};
int64_t hl_encode_ask(uint8_t *out, size_t cap, const struct hl_ask *m);
int hl_decode_ask(const uint8_t *body, size_t n, struct hl_ask *out);

/* ---- STATUS ---- */

/* X(name, kind, help): one number each, in the order of their tags, which never
 * changes; new ones are added at the end.  kind: GAUGE or COUNTER. */
#define HL_STATUS_LIST(X)                                                                \
    X(uptime_ns, GAUGE, "time since the start")                                          \
    X(draining, GAUGE, "1 while nothing new is taken")                                   \
    X(spool_errno, GAUGE, "error of the spool that is not cured yet, 0 none")            \
    X(low_space, GAUGE, "1 while the file system has less than min_free")                \
    X(connections, GAUGE, "connections")                                                 \
    X(connections_new, GAUGE, "connections without a hello yet")                         \
    X(keepers, GAUGE, "connected keepers")                                               \
    X(gathers, GAUGE, "connected gathers")                                               \
    X(processes, GAUGE, "processes alive")                                               \
    X(jobs_live, GAUGE, "jobs with processes alive")                                     \
    X(jobs_quiet, GAUGE, "jobs that have ended and were not read")                       \
    X(jobs_read, GAUGE, "jobs being read")                                               \
    X(jobs_done, GAUGE, "jobs that were read whole")                                     \
    X(descriptors, GAUGE, "open descriptors")                                            \
    X(descriptors_max, GAUGE, "the limit of open descriptors")                           \
    X(memory_bytes, GAUGE, "resident memory of the collector")                           \
    X(spool_bytes, GAUGE, "bytes in the spools")                                         \
    X(spool_free_bytes, GAUGE, "free bytes of the spool's file system")                  \
    X(spool_size_bytes, GAUGE, "size of the spool's file system")                        \
    X(waiting_bytes, GAUGE, "bytes that wait for the disk")                              \
    X(loop_delay_max_ns, GAUGE, "longest time of one turn of the loop, last minute")     \
    X(loop_delay_p99_ns, GAUGE, "99th percentile of the same")                           \
    X(accepted, COUNTER, "connections accepted")                                         \
    X(hellos, COUNTER, "hellos taken")                                                   \
    X(messages, COUNTER, "messages taken")                                               \
    X(bytes, COUNTER, "bytes received")                                                  \
    X(rows, COUNTER, "rows taken")                                                       \
    X(appended_bytes, COUNTER, "bytes written to the spools")                            \
    X(acks, COUNTER, "acknowledgements sent")                                            \
    X(processes_ended, COUNTER, "processes whose record was made")                       \
    X(rows_dropped, COUNTER, "rows that clients dropped")                                \
    X(rows_lost, COUNTER, "rows lost after they were committed")                         \
    X(refused_version, COUNTER, "refused: no common version")                            \
    X(refused_protocol, COUNTER, "refused: not the protocol")                            \
    X(refused_connections, COUNTER, "refused: limit of connections")                     \
    X(refused_processes, COUNTER, "refused: limit of processes")                         \
    X(refused_jobs, COUNTER, "refused: limit of jobs")                                   \
    X(refused_rate, COUNTER, "refused: limit of the message rate")                       \
    X(refused_space, COUNTER, "refused: quota or disk")                                  \
    X(refused_uid, COUNTER, "refused: user not served")                                  \
    X(refused_draining, COUNTER, "refused: draining")                                    \
    X(appends_failed, COUNTER, "writes to the spools that failed")                       \
    X(syncs_failed, COUNTER, "syncs of the spools that failed")                          \
    X(accept_failed, COUNTER, "times without a descriptor for a connection")             \
    X(jobs_removed_read, COUNTER, "jobs removed after they were read")                   \
    X(jobs_removed_unread, COUNTER, "jobs removed without having been read")             \
    X(jobs_forgotten, COUNTER, "jobs removed on request")                                \
    X(torn_tails, COUNTER, "torn tails cut from spools at the start")                    \
    X(spools_bad, COUNTER, "spools that could not be read")                              \
    X(descriptors_kept, GAUGE, "descriptors the service manager keeps for us")           \
    X(reloads, COUNTER, "configurations read again")                                     \
    X(reload_failures, COUNTER, "configurations that were not valid")                    \
    X(log_lines_held, COUNTER, "log lines held back by log_burst")                       \
    X(points, COUNTER, "points of timelines taken")                                      \
    X(points_dropped, COUNTER, "points dropped: quota, disk or memory")                  \
    X(intervals_raised, COUNTER, "processes whose interval was raised to min_interval")

enum hl_status_tag {
#define HL_STATUS_TAG(name, kind, help) HL_STATUS_##name,
    HL_STATUS_LIST(HL_STATUS_TAG)
#undef HL_STATUS_TAG
        HL_STATUS_N
};

struct hl_status {
    uint64_t value[HL_STATUS_N]; /* by enum hl_status_tag */
    uint8_t known[HL_STATUS_N];  /* 0: not told to this asker */
    uint32_t is_admin;           /* the asker is told everything */
    struct hl_str version, socket, spool, last_error;
};
enum { HL_STATUS_CAP = HL_WIRE_HEADER + 8192 };
int64_t hl_encode_status(uint8_t *out, size_t cap, const struct hl_status *m);
int hl_decode_status(const uint8_t *body, size_t n, struct hl_status *out);

struct hl_status_info {
    const char *name, *help;
    int is_counter;
};
/* The description of a number; NULL: no such tag. */
const struct hl_status_info *hl_status_info(unsigned tag);

/* ---- JOB, LIVE, USER ---- */

struct hl_job_line {
    uint64_t uid, state; /* 0 known by a keeper only, 1 live, 2 quiet, 3 read, 4 done */
    uint64_t n_processes, n_alive, n_keepers, n_gathers;
    uint64_t spool_bytes, n_rows, n_dropped, n_lost; /* rows: of those in memory */
    int64_t begun_ns, ended_ns, taken_ns;            /* wall clock, 0 not yet */
    struct hl_str key;
};
int64_t hl_encode_job_line(uint8_t *out, size_t cap, const struct hl_job_line *m);
int hl_decode_job_line(const uint8_t *body, size_t n, struct hl_job_line *out);
/* "live" and the like. */
const char *hl_job_state_name(uint64_t state);

struct hl_live_line {
    uint64_t uid;
    int64_t pid, rank; /* rank -1: none */
    uint64_t allocs, frees;
    int64_t live_bytes, peak_bytes, vmhwm_bytes, vmrss_bytes; /* -1 unknown */
    int64_t age_ns;   /* since its agent was loaded */
    int64_t taken_ns; /* monotonic clock of the collector: for rates */
    uint64_t n_rows;
    uint64_t image;
    struct hl_str key, host;
};
int64_t hl_encode_live_line(uint8_t *out, size_t cap, const struct hl_live_line *m);
int hl_decode_live_line(const uint8_t *body, size_t n, struct hl_live_line *out);

struct hl_user_line {
    uint64_t uid;
    uint64_t n_connections, max_connections, n_processes, max_processes;
    uint64_t n_jobs, max_jobs, spool_bytes, quota_bytes; /* quota 0: none */
};
int64_t hl_encode_user_line(uint8_t *out, size_t cap, const struct hl_user_line *m);
int hl_decode_user_line(const uint8_t *body, size_t n, struct hl_user_line *out);

/* ---- DONE ---- */

enum hl_done_code {
    HL_DONE_OK = 0,
    HL_DONE_DENIED = 1,    /* not for this user */
    HL_DONE_NOT_FOUND = 2, /* no such job */
    HL_DONE_BUSY = 3       /* forget: processes of it are alive */
};
struct hl_done {
    uint32_t code;      /* enum hl_done_code */
    uint64_t n;         /* lines sent, jobs forgotten, processes alive (drain) */
    struct hl_str text; /* a sentence to show; empty when all is well */
};
int64_t hl_encode_done(uint8_t *out, size_t cap, uint32_t code, uint64_t n,
                       const char *text);
int hl_decode_done(const uint8_t *body, size_t n, struct hl_done *out);

enum { HL_CONTROL_CAP = HL_WIRE_HEADER + 2048 }; /* suffices for all but STATUS */

#endif
