/* SPDX-License-Identifier: Apache-2.0
 *
 * The command lines of the gather and its environment: which launcher with what
 * options, which hosts in which order.
 */
#ifndef HL_COMMAND_H
#define HL_COMMAND_H

#include "launch.h"

#include <stdio.h>

/* What starts a program once on each of some hosts. */
struct starter {
    enum launcher kind;       /* none: options are Open MPI's */
    struct texts words;       /* the launcher's own name and options */
    const char *fallback_dir; /* for the program's environment */
};

/* launcher: of --launcher, may hold options; NULL: that of the gather's MPI. */
int starter_init(struct starter *s, const char *launcher, const char *fallback_dir);
void starter_fini(struct starter *s);

/* The launcher's part of a command line: one process on each of the hosts, in
 * their order.  file: a host file that holds them, or NULL. */
int starter_line(const struct starter *s, const struct texts *hosts, const char *file,
                 struct texts *argv);
/* One line a host, as its launcher wants them. 0 or -1. */
int starter_write_hosts(const struct starter *s, const struct texts *hosts, FILE *f);

/* The hosts in the gather's order: this node first if it is one of them, so that
 * the outputs are here; else the first that was named writes them. */
int command_order(const struct texts *hosts, struct texts *list);
int command_is_remote(const struct texts *hosts);

/* The environment of the gather and its launcher: without what was meant for the
 * user's own launch (places of ranks, lists of variables, a launcher's words to
 * its ranks) and without the agents; how nodes are reached stays. */
int command_environment(char *const *from, const char *fallback_dir, struct texts *envp);

/* " word", quoted for a shell where it must be. */
void command_print(FILE *f, const char *word);

#endif
