/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a run: start the gather, again without a node that is lost, and
 * print the report.
 */
#ifndef HL_COLLECT_H
#define HL_COLLECT_H

#include "launch.h"
#include "run_options.h"
#include "words.h"

struct collect {
    const struct run_options *o;
    const char *key;
    const char *prefix;
    const char *sockets; /* list for --socket */
    const char *spool;   /* of the private collector, or NULL */
    int spool_is_far;    /* it may be on other nodes alone */
    int keep_unseen;     /* nodes may be left: keep the data if ranks were never seen */
    int ranks_unseen;    /* set by collect_run */
    int has_collector;   /* one answered, private or not */
    const char *fallback_dir;
    const struct texts *hosts;    /* empty: this node alone */
    const struct texts *without;  /* nodes to name as left out; may be NULL */
    const char *log;              /* where the gather's messages go, NULL: stderr */
    char host[256], folder[8300]; /* set by collect_run: outputs that are elsewhere */
};

/* The gather's command line for this run on these hosts, which are in its order.
 * file: a host file of them, or NULL. 0 or -1. */
int collect_command(const struct collect *c, const struct texts *hosts, const char *file,
                    struct texts *argv);

/* Run the gather and tell by its status line how it went; once more without a
 * node that it lost. */
enum collected collect_run(struct collect *c);

enum { COLLECT_HOSTS_IN_LINE = 64 }; /* more are put in a file */

/* The prefix from the root on: where the user's shell may be later is not known. */
void collect_absolute(const char *prefix, char *out, size_t cap);

/* Print the command that gathers this run later. */
void collect_tell_command(const struct collect *c, const char *why);
/* The same where the run's nodes are not known. */
void collect_tell_unknown(const struct collect *c, const char *why);
/* Say that there are no outputs, and how to have them if the data are kept. */
void collect_tell_failure(const struct collect *c);

/* Print the tables. 0 or -1. */
int collect_report(const struct collect *c);

#endif
