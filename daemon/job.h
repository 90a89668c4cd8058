/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of one user on this node: its processes, who keeps it, how far it
 * was read.  See "A job in the collector" in the protocol page for the states.
 */
#ifndef HL_JOB_H
#define HL_JOB_H

#include "daemon.h"
#include "ident.h"
#include "messages.h"

enum hl_job_state {
    HL_JOB_NONE,  /* known by a keeper or gather only */
    HL_JOB_LIVE,  /* processes are alive */
    HL_JOB_QUIET, /* the last one ended */
    HL_JOB_READ,  /* a gather has asked for its index */
    HL_JOB_DONE   /* read whole; goes after job_keep_read */
};

/* What a keeper said about a process that is not known, or not yet ended. */
struct hl_told_end {
    int64_t pid;
    uint64_t start_ticks;
    struct hl_end end;
};
enum { HL_TOLD_MAX = 1024 };

/* A process that belongs to the job; its place is its id. */
struct hl_member {
    int64_t pid; /* -1: nobody, the process is at another place */
    uint64_t start_ticks, image;
    struct hl_process *live; /* NULL: folded, all of it is in its spool */
    /* Of a folded one, should its spool go: */
    int32_t rank;
    uint32_t n_rows : 31; /* HL_ROWS_UNKNOWN: it was folded by an earlier collector */
    uint32_t has_end : 1; /* when it was folded its final record was in the spool */
};

enum { HL_ROWS_MAX = INT32_MAX - 1, HL_ROWS_UNKNOWN = INT32_MAX };

struct hl_job {
    struct hl_daemon *d;
    size_t n_aside; /* members whose spools were of no use at the start */
    struct hl_user *user;
    char key[HL_KEY_MAX + 1];
    char shown[128]; /* the key, fit for a log line */
    enum hl_job_state state;
    struct hl_member *member; /* by id */
    size_t n_members, cap;
    size_t n_processes; /* members that are somebody */
    size_t n_alive;
    size_t n_open; /* in memory */
    uint32_t n_keepers, n_keepers_ever;
    size_t n_gathers;
    size_t n_tasks;        /* work under way in a lane that knows the job */
    size_t n_point_writes; /* of its processes' timelines */
    int is_loading;        /* folded members, for an index */
    uint64_t spool_bytes;
    uint64_t n_rows, n_dropped, n_lost; /* of processes that ended since the start */
    int taken;
    int64_t begun_real_ns;
    int64_t ended_real_ns; /* when the last process ended */
    int64_t taken_real_ns;
    struct hl_told_end *told; /* ring of HL_TOLD_MAX, or NULL */
    size_t n_told;
};

/* The job, or NULL. */
struct hl_job *hl_job_find(struct hl_daemon *d, uid_t uid, struct hl_str key);
/* The job, made if need be (NULL: no memory). */
struct hl_job *hl_job_get(struct hl_daemon *d, struct hl_user *u, struct hl_str key);
/* Forget a job that nobody needs: no process, keeper or gather. */
void hl_job_release(struct hl_job *j);
/* Its folder below the spools, "UID/ESCAPED-KEY"; out: HL_NAME_CAP bytes. */
void hl_job_folder(const struct hl_job *j, char *out);
/* A new member; its id, or -1: no memory. */
int64_t hl_job_add(struct hl_job *j, int64_t pid, uint64_t start_ticks, uint64_t image);
/* The place of an image that is folded; -1. */
int64_t hl_job_folded(const struct hl_job *j, int64_t pid, uint64_t image);
/* The member's spool below the root; out: 2 * HL_NAME_CAP bytes. */
void hl_job_spool_name(const struct hl_job *j, int64_t pid, uint64_t image, char *out);
/* Fold every process of it that may be. */
void hl_job_fold(struct hl_job *j);
/* Nothing of it is alive, read or under way. */
int hl_job_is_at_rest(const struct hl_job *j);
void hl_job_set_state(struct hl_job *j, enum hl_job_state s, const char *cause);
/* A process began or ended: the states and those who wait follow. */
void hl_job_started(struct hl_job *j);
void hl_job_ended(struct hl_job *j);
/* A gather has read and written everything: noted on the disk, then done is
 * called with the result (0 or a negative errno).  -1: no memory. */
int hl_job_taken(struct hl_job *j, void (*done)(struct hl_job *j, int result));
/* Remove the job with all its spools. */
void hl_job_remove(struct hl_job *j, const char *cause);
/* Free the job's memory; its files stay. */
void hl_job_free(struct hl_job *j);
void hl_job_note_end(struct hl_job *j, const struct hl_ended_msg *m);
/* What was told about a process; 1 and *end, or 0. */
int hl_job_told(const struct hl_job *j, int64_t pid, uint64_t start_ticks,
                struct hl_end *end);
struct hl_log_about hl_job_about(const struct hl_job *j);

#endif
