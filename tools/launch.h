/* SPDX-License-Identifier: Apache-2.0
 *
 * Launchers: which one a COMMAND is, how variables reach its ranks alone, and
 * which hosts it uses.
 */
#ifndef HL_LAUNCH_H
#define HL_LAUNCH_H

#include "err.h"

#include <stddef.h>

enum launcher {
    LAUNCH_NONE,
    LAUNCH_OPENMPI,
    LAUNCH_HYDRA,
    LAUNCH_SRUN,
    LAUNCH_MPI_OTHER
};

/* A list of texts; owns them. */
struct texts {
    char **v; /* NULL-terminated once anything was added */
    size_t n;
};
int texts_add(struct texts *t, const char *s);
int texts_addf(struct texts *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void texts_fini(struct texts *t);

/* What is this COMMAND? Looks at its name, at what the name is a link to, and
 * for a bare "mpirun" of unknown make at what --version says. */
enum launcher launch_kind(char *const *command);

/* The command and the environment with which COMMAND starts, so that its ranks
 * have the variables of `vars` ("NAME=VALUE"; LD_PRELOAD is put in front of
 * what is there).  Open MPI: -x options behind the launcher's name, or an
 * mca_base_env_list that is there already; Hydra: -genv; others: plainly.  argv and envp
 * are lists to be freed with texts_fini. */
int launch_prepare(enum launcher kind, char *const *command, const struct texts *vars,
                   struct texts *argv, struct texts *envp);

/* Hosts that the launcher's line, or the allocation, names; none when nothing
 * says so.  list: --hosts of the user, or NULL. */
int launch_hosts(enum launcher kind, char *const *command, const char *list,
                 struct texts *hosts, struct hl_err *e);

/* Hosts of the launch that this process is a rank of, as far as Open MPI lets its
 * ranks know: from the environment, or from the line of mpirun, our parent. */
int launch_rank_hosts(long parent, struct texts *hosts);
/* "head,n[2:1-3,7]@0(5)", as Open MPI writes its list of nodes. 0 or -1. */
int launch_add_regex(struct texts *hosts, const char *regex);

/* Do both name one node?  "n1" is "n1.cluster", but not where both are numbers or
 * have a domain. */
int launch_same_host(const char *a, const char *b);

/* Is that the name, or an address, of the node we run on? */
int launch_is_here(const char *host);

#endif
