/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of heaplinectl share: the connection, an answer as it came, and
 * how it is shown.  Whoever shows writes into an output that is sent at the end,
 * so that nothing is printed of an answer that did not come whole.
 */
#ifndef HL_HEAPLINECTL_H
#define HL_HEAPLINECTL_H

#include "buf.h"
#include "control.h"
#include "err.h"
#include "wire_link.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/* ---- ctl_link.c: one connection, every wait bounded ---- */

enum { CTL_PATIENCE_MS = 5000, CTL_ANSWER_MAX_MS = 60000 };

struct ctl_link {
    struct hl_link link;               /* fd -1: not connected */
    const char *sockets;               /* what to connect to */
    int is_list;                       /* they are several, separated by ':' */
    int patience_ms;                   /* for the next message; 0: CTL_PATIENCE_MS */
    const sigset_t *mask;              /* signals that may come while it waits, or NULL */
    const volatile sig_atomic_t *stop; /* set by one of them: give up */
};

/* An answer; texts lie in the messages kept with it. */
struct ctl_answer {
    struct hl_status status;
    int has_status;
    struct hl_job_line *job;
    struct hl_live_line *live;
    struct hl_user_line *user;
    size_t n_jobs, n_live, n_users, cap[3];
    struct hl_done done;
    struct ctl_message *messages;
};

/* Connect to the first of l->sockets that answers and say hello (l->link must be
 * closed, the settings set). */
int ctl_link_open_any(struct ctl_link *l, struct hl_err *e);
/* Ask and take the answer up to DONE, whatever its code is.  out may be zeroed or
 * hold an earlier answer, which is freed. */
int ctl_link_ask(struct ctl_link *l, uint32_t what, const char *arg,
                 struct ctl_answer *out, struct hl_err *e);
void ctl_answer_fini(struct ctl_answer *a);

/* ---- ctl_text.c: for people ---- */

struct ctl_out {
    struct hl_buf b;
    int failed; /* no memory */
    int color;
};

void ctl_put(struct ctl_out *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Send all to a descriptor and empty it: 0, or -1 with errno. */
int ctl_flush(struct ctl_out *o, int fd);

enum { CTL_NUMBER_CAP = 24 };
/* "0", "1023", "1.5K", "12M": at most 5 bytes for what a machine may hold; "-" for
 * negative values. */
const char *ctl_size(int64_t bytes, char *out);
/* Plain up to six digits, then "1.23M". */
const char *ctl_count(uint64_t n, char *out);
/* "3d 4h", "5m 10s". */
const char *ctl_duration(uint64_t ns, char *out);
/* Text of the collector, printable, into a buffer of cap bytes. */
const char *ctl_text(struct hl_str s, char *out, size_t cap);
/* "running", "draining", "spool failing": what matters most. */
const char *ctl_state(const struct hl_status *s);

void ctl_show_status(struct ctl_out *o, const struct ctl_answer *a);
void ctl_show_jobs(struct ctl_out *o, struct ctl_answer *a);

/* ---- ctl_json.c: for programs ---- */

/* A string with its quotes; bytes that are no UTF-8 become U+FFFD, control
 * characters are escaped. */
void ctl_json_text(struct ctl_out *o, struct hl_str s);
/* Nanoseconds as seconds. */
void ctl_json_seconds(struct ctl_out *o, uint64_t ns);
void ctl_json_status(struct ctl_out *o, const struct ctl_answer *a);
void ctl_json_jobs(struct ctl_out *o, struct ctl_answer *a);

/* ---- ctl_metrics.c ---- */

enum { CTL_TOP_USERS = 20 };
/* Prometheus text 0.0.4; as_json: the same numbers as an object.  a NULL: there is
 * no collector. */
void ctl_show_metrics(struct ctl_out *o, struct ctl_answer *a, int as_json);

/* ---- top.c ---- */

struct ctl_row {
    const struct hl_live_line *live;
    double rate; /* allocations a second; negative: not known yet */
};
enum ctl_sort { CTL_BY_HEAP, CTL_BY_RSS, CTL_BY_RATE, CTL_BY_PID };

/* Rows of now; the rates from an earlier answer, or NULL.  Returns an array of
 * now->n_live rows (free it), or NULL. */
struct ctl_row *ctl_rows(const struct ctl_answer *before, const struct ctl_answer *now);
/* Largest first, by pid smallest first; reversed turns it round. */
void ctl_sort_rows(struct ctl_row *row, size_t n, enum ctl_sort by, int reversed);

struct ctl_view {
    int width, height; /* height 0: all rows, without limit */
    enum ctl_sort sort;
    int reversed;
    size_t first;        /* row at the top; corrected when it is too far */
    const char *trouble; /* a sentence instead of the state, or NULL */
    const char *socket;
};
/* One picture: title, head, rows; lines end with '\n' and are at most width wide. */
void ctl_show_top(struct ctl_out *o, struct ctl_view *v, const struct ctl_answer *status,
                  struct ctl_row *row, size_t n);

struct ctl_top_options {
    int color;           /* -1 no, 1 yes */
    int64_t delay_ns;    /* between tables */
    int64_t n;           /* tables; 0: without end on a terminal, else one */
    const char *sockets; /* as in struct ctl_link */
    int is_list;
};
/* The command; the exit status. */
int ctl_top(const struct ctl_top_options *o);

/* One line to stderr; returns 1, the exit status. */
int ctl_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What was not printed: says why, unless the reader went away. */
int ctl_output_failed(int code);

#endif
