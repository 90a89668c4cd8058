/* SPDX-License-Identifier: Apache-2.0
 *
 * The session: there is one structure for the process, so that calls with the
 * handle of a session that has ended, or in a forked child, find memory that
 * says so.  Two locks, always taken in this order:
 *
 *   frame_lock  frame calls, start and end, the sender; may be held while
 *               waiting for a collector
 *   names_lock  names, metrics, thread timers; held for microseconds
 */
#ifndef HL_CLIENT_SESSION_H
#define HL_CLIENT_SESSION_H

#pragma GCC visibility push(default)
#include "heapline.h"
#pragma GCC visibility pop

#include "names.h"
#include "sender.h"
#include "timer.h"

#include <pthread.h>

enum hl_session_state {
    HL_SESSION_NONE = 0, /* not begun, ended, or of a parent process */
    HL_SESSION_IDLE,     /* nobody wants frames: calls succeed, nothing is kept */
    HL_SESSION_LIVE
};

struct heapline_session {
    uint32_t state; /* enum hl_session_state; atomic */
    pthread_mutex_t frame_lock, names_lock;
    uint64_t number; /* of this session in the process, from 1 */
    int64_t pid;
    uint32_t *own; /* wiped by the kernel in a child; NULL: the pid must be asked for */
    int32_t rank;  /* for the metric mpi_rank */
    /* names_lock */
    struct hl_name_list metrics, paths;
    struct hl_bytes values; /* of struct hl_value: the open frame's metrics */
    struct hl_bytes added;  /* of struct hl_added: by heapline_region_add */
    struct hl_bytes row;    /* of double */
    struct hl_bytes sums;   /* of struct hl_sum, twice the paths */
    int64_t frame_start;
    /* frame_lock */
    uint64_t n_frames;     /* committed in this session */
    uint32_t last_catalog; /* highest id used; goes on from session to session */
    struct hl_told {
        uint32_t catalog, n_metrics, n_paths; /* catalog 0: none */
    } told, encoded; /* the other side knows; it will with the message */
    struct hl_bytes message;
    struct hl_sender sender;
};

struct hl_value {
    double value;
    uint64_t frame; /* epoch it was set in */
};
struct hl_added {
    double inclusive_s, exclusive_s;
    uint64_t frame;
};

extern struct heapline_session hl_session;

/* What every call but the region fast path begins and ends with: errno and
 * cancellation state kept. */
struct hl_call {
    int error, cancel;
};
struct hl_call hl_call_begin(void);
int hl_call_end(struct hl_call c, int result);

/* Did this process begin it?  Not so in a child of a raw clone. */
int hl_session_is_own(const heapline_session *s);

/* 0: s can be used; else the code to return.  *idle: nothing is kept. */
int hl_session_check(const heapline_session *s, int *idle);

static inline uint32_t hl_session_state(const heapline_session *s)
{
    return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
}

/* Is a frame open? */
static inline int hl_frame_is_open(void)
{
    return (int)(hl_see(hl_epoch) & 1);
}

/* With frame_lock and names_lock: the messages of the catalogs that are due
 * and of row `number`, whose cells are in s->row, into s->message.  Returns the
 * bytes of the catalogs among them, or -1: no memory. */
int64_t hl_encode_frame(heapline_session *s, uint64_t number, size_t n_cells);
/* The row was committed: what was encoded with it is known to the other side. */
void hl_frame_told(heapline_session *s);

/* With names_lock: metrics into cells, the unset ones as documented. */
void hl_metric_fill(heapline_session *s, double *cells, double wall_s);

/* With names_lock: what was added by hand to region i in a frame, or NULL. */
const struct hl_added *hl_region_added(const heapline_session *s, uint32_t i,
                                       uint64_t frame);

#endif
