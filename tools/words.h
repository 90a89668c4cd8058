/* SPDX-License-Identifier: Apache-2.0
 *
 * What heapline-gather and its launcher say, a line at a time: the lines that
 * heapline-run goes by.
 */
#ifndef HL_WORDS_H
#define HL_WORDS_H

#include "launch.h"

enum collected { COLLECTED_WHOLE = 0, COLLECTED_INCOMPLETE = 1, COLLECTED_NOTHING = -1 };

struct words {
    enum collected how; /* by the status line; nothing without one */
    int ranks_unseen;   /* the status line counts ranks that were never seen */
    int started;        /* all processes have met */
    int complained;     /* the gather itself said on stderr what is wrong */
    struct texts lost;  /* nodes it lost: names, or "#K" */
    char named[256];    /* the node whose process died, by the launcher's message */
    char host[256];     /* where the outputs are, "" unsaid */
    char folder[4096];
};

void words_init(struct words *w);
void words_fini(struct words *w);

/* A line of standard output, or of standard error. */
void words_output(struct words *w, const char *line);
void words_error(struct words *w, const char *line);

/* Has the gather said anything that shows it runs, or ran? */
int words_any(const struct words *w);

/* Indices (in hosts) of the nodes that the lines call lost: is_lost[i] is set.
 * The number of them; a name that is none of the hosts counts for nothing. */
size_t words_lost(const struct words *w, const struct texts *hosts, char *is_lost);

#endif
