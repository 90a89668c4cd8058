/* SPDX-License-Identifier: Apache-2.0
 *
 * COMMAND as a child process: its streams and its place in the terminal are
 * ours, signals sent to us alone are passed on.
 */
#ifndef HL_CHILD_H
#define HL_CHILD_H

#include "messages.h"

#include <sys/types.h>

/* Once, before the first child: signals whose inherited disposition would keep us from
 * our work; COMMAND gets them back as they were. */
void child_prepare(void);

/* Start it.  0 and *pid, or the errno value of what failed (ENOENT: not found). */
int child_start(char *const *argv, char *const *envp, pid_t *pid);

/* A descriptor to look at meanwhile: gone(ctx) is called when the other side has
 * closed it, and gives the next one, or -1. */
struct child_watch {
    int fd; /* -1: none */
    int (*gone)(void *ctx);
    void *ctx;
};

/* Wait for its end without reaping it, so that its pid stays its own. */
int child_wait(pid_t pid, struct child_watch *watch, struct hl_end *end);
void child_reap(pid_t pid);

/* Once COMMAND is reaped: a signal that came to us since it was last forgotten,
 * whoever it was meant for; 0 none. */
int child_signalled(void);
void child_forget_signal(void);

/* Exit status as the shell has it: N, or 128 + signal. */
int child_status(const struct hl_end *end);

#endif
