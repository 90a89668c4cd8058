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

struct hl_job {
    struct hl_daemon *d;
    struct hl_user *user;
    char key[HL_KEY_MAX + 1];
    char shown[128]; /* the key, fit for a log line */
    enum hl_job_state state;
    struct hl_process **process; /* by id */
    size_t n_processes, cap;
    size_t n_alive;
    uint32_t n_keepers, n_keepers_ever;
    size_t n_gathers;
    int taken;
    int64_t begun_real_ns; /* first hello; 0: before this collector was started */
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
/* Make that folder; 0 or a negative errno. */
int hl_job_make_folder(struct hl_job *j);
int hl_job_add(struct hl_job *j, struct hl_process *p);
/* Take the process added last out again, and free it; so goes an empty job. */
void hl_job_drop_last(struct hl_job *j);
void hl_job_set_state(struct hl_job *j, enum hl_job_state s, const char *cause);
/* A process began or ended: the states and those who wait follow. */
void hl_job_started(struct hl_job *j);
void hl_job_ended(struct hl_job *j);
/* A gather has read and written everything. */
int hl_job_taken(struct hl_job *j);
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
