/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a run: start the gather, print the report.
 */
#ifndef HL_COLLECT_H
#define HL_COLLECT_H

#include "launch.h"
#include "run_options.h"

struct collect {
    const struct run_options *o;
    const char *key;
    const char *prefix;
    const char *sockets; /* list for --socket */
    const char *spool;   /* of the private collector, or NULL */
    int has_collector;   /* one answered, private or not */
    const char *fallback_dir;
    const struct texts *hosts; /* empty: this node alone */
    const char *log;           /* where the gather's messages go, NULL: stderr */
};

enum collected { COLLECTED_WHOLE = 0, COLLECTED_INCOMPLETE = 1, COLLECTED_NOTHING = -1 };

/* Are there hosts other than this one? */
int collect_is_remote(const struct texts *hosts);

/* The gather's command line for this run. 0 or -1. */
int collect_command(const struct collect *c, struct texts *argv);

/* Run the gather and tell by its status line how it went. */
enum collected collect_run(const struct collect *c);

/* Print the command that gathers this run later. */
void collect_tell_command(const struct collect *c, const char *why);
/* Say that there are no outputs, and how to have them if the data are kept. */
void collect_tell_failure(const struct collect *c);

/* Print the tables. 0 or -1. */
int collect_report(const struct collect *c);

#endif
