/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of preload_guest share: the table of situations, and how they
 * speak, note and allocate.  Nothing here uses stdio: its buffer would be an
 * allocation of its own.
 */
#ifndef PRELOAD_GUEST_H
#define PRELOAD_GUEST_H

#include <stddef.h>
#include <sys/types.h>

struct guest_mode {
    const char *name;
    int (*run)(int n, char **args); /* the status of the process */
};
extern const struct guest_mode guest_processes[], guest_cages[], guest_views[];
extern char *guest_self; /* a path of this program */

/* n blocks that are kept; n blocks that are released again. */
void guest_more(int n);
void guest_churn(int n);
/* A line on standard output, in one write. */
void guest_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line "ROLE PID ALLOCS FREES" in the file that GUEST_NOTES names. */
void guest_note(const char *role, int allocs, int frees);
/* What the process can see of itself: descriptors, signals, errno, names. */
void guest_look(const char *who);
/* The status of a child, 128 + its signal. */
int guest_wait(pid_t pid);
int guest_lowest(void);

#endif
