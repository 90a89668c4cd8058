/* SPDX-License-Identifier: Apache-2.0
 *
 * What both forms of heapline-run share: the run's key, the collector, the
 * variables of the ranks, the reports to the collector.
 */
#ifndef HL_SESSION_H
#define HL_SESSION_H

#include "ident.h"
#include "launch.h"
#include "wire_link.h"
#include "private.h"
#include "run_options.h"

struct session {
    const struct run_options *o;
    char key[HL_KEY_MAX + 1];
    struct hl_private private;
    int is_private; /* a private collector was started (or joined) */
    int has_collector;
    int is_elsewhere;  /* none of the run's processes is on this node: none is needed */
    char sockets[512]; /* HEAPLINE_SOCKET of the agents */
    const char *fallback_dir;
    struct hl_link keeper;
    int n_mended;
    int log; /* of the private collector, which goes with its folder; -1 none */
    char prefix[4096];
};

/* A new random key: "[SLURM_JOB_ID.]" and 16 hexadecimal digits. */
void session_new_key(struct session *s);

/* Find or start the collector and connect as a keeper.  -1: told on stderr; the
 * run can go on without, its data then go to fallback files. */
int session_open(struct session *s, struct hl_err *e);

/* There is no collector (e): what is done instead, on stderr. */
void session_tell_fallback(const struct session *s, const struct hl_err *e);

/* Is the collector still there?  A private one that died is started again on its
 * spool and met again: agents reconnect and resend.  0, or -1 told on stderr. */
int session_mend(struct session *s);
/* The same as a callback of child_wait: the keeper's descriptor, or -1. */
int session_mend_fd(void *session);

/* Variables that the ranks need. 0 or -1 (an agent is missing: *e). */
int session_variables(const struct session *s, struct texts *vars, struct hl_err *e);

/* Tell the collector how a process we are the parent of has ended. */
void session_tell_end(struct session *s, int64_t pid, const struct hl_end *end);

/* Say what went wrong in the private collector, when the outputs were gathered. */
void session_tell_log(const struct session *s);

/* Has this node's collector met a process of the run that has a rank? */
int session_saw_ranks(struct session *s);

/* Nothing is wanted of what was recorded here: have the private folder removed. */
void session_discard(struct session *s);

#endif
