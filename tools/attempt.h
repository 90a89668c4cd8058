/* SPDX-License-Identifier: Apache-2.0
 *
 * One start of the gather, bounded; and the question which nodes still answer.
 */
#ifndef HL_ATTEMPT_H
#define HL_ATTEMPT_H

#include "command.h"
#include "words.h"

#include <stdint.h>

/* In ms.  Only the start and what comes after the last word are bounded: a gather
 * that has started bounds its own waits, and may take long. */
struct attempt_bounds {
    int64_t ask;    /* no word for so long: which nodes answer? */
    int64_t start;  /* all do, but no word yet: given up */
    int64_t probe;  /* to answer in */
    int64_t end;    /* from the word that a node is lost to the launcher's end */
    int64_t finish; /* from the status line: the nodes are told that it is done */
    int64_t resist; /* from TERM to KILL */
};
/* What holds for n hosts. */
struct attempt_bounds attempt_bounds(size_t n);

struct attempt {
    const struct starter *starter; /* NULL: no launcher, this node alone */
    const struct texts *hosts;
    char *const *argv, *const *envp;
    const char *log;
    int verbose;
    struct attempt_bounds bounds;
    /* results */
    struct words words;
    struct texts held;           /* what others than the gather said on stderr */
    char *silent;                /* per host: did not answer; NULL nobody asked */
    int is_late;                 /* all answer, but it did not start */
    int64_t look_ms, stopped_ms; /* when to look for stopped processes; since when */
};

/* 0 when there is a status line.  A signal to us (child_signalled) ends it. */
int attempt_run(struct attempt *a);
/* A launcher's words are for the user only where the gather's do not explain it. */
void attempt_tell_held(struct attempt *a);
void attempt_fini(struct attempt *a);

/* Start something harmless on each of the hosts by the launcher, all at once or,
 * where they are many, in groups that are split as long as they do not answer.
 * silent[i] is set for each that does not.  0, or -1: too many do not, or
 * there is no memory. */
int attempt_probe(const struct starter *s, const struct texts *hosts, char *const *envp,
                  const struct attempt_bounds *b, char *silent);

#endif
