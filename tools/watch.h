/* SPDX-License-Identifier: Apache-2.0
 *
 * A program in a session of its own, whose lines are read as they come and which
 * can be ended with all that it started here.
 */
#ifndef HL_WATCH_H
#define HL_WATCH_H

#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

enum { WATCH_OUT = 0, WATCH_ERR = 1, WATCH_LINE = 8192 };

typedef void watch_line_fn(void *ctx, int stream, const char *line);

struct watch_plan {
    char *const *argv, *const *envp;
    int is_quiet;        /* output and messages go nowhere (and are not read) */
    int reads_errors;    /* stderr is read, too; else it is ours, or the log's */
    const char *log;     /* NULL none */
    watch_line_fn *line; /* without its newline */
    void *ctx;
};

struct watch {
    struct watch_plan plan;
    pid_t pid;
    int status; /* as the shell has it; valid once ended */
    int ended;
    struct {
        int fd; /* -1 closed */
        size_t n;
        char text[WATCH_LINE];
    } stream[2];
};

/* 0, or an errno value.  A program that cannot be executed ends with 127. */
int watch_start(struct watch *w, const struct watch_plan *plan);

/* Read what comes, for at most ms; 1 when the program has ended and all is read.
 * It is not reaped before watch_end: its number, and its session's, stay its own. */
int watch_step(struct watch *w, int ms);

/* A process of its session that a signal has stopped, or 0. */
pid_t watch_stopped(const struct watch *w);

/* End what is left of its session: TERM, after patience_ms KILL; then reap. */
void watch_stop(struct watch *w, int patience_ms);
/* It has ended: reap. */
void watch_end(struct watch *w);

int64_t watch_now_ms(void);

#endif
