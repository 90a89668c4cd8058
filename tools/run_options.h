/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of heapline-run.
 */
#ifndef HL_RUN_OPTIONS_H
#define HL_RUN_OPTIONS_H

#include <stddef.h>

enum { RUN_USAGE = 125, RUN_CANNOT_EXECUTE = 126, RUN_NOT_FOUND = 127 };

struct run_options {
    const char *prefix; /* NULL: the default */
    const char *format; /* as given, or NULL */
    const char *run_id, *app_version;
    const char **meta; /* owned array, borrowed texts */
    size_t n_meta;
    const char *report;   /* statistic, or NULL: no report */
    const char *interval; /* as given, right; NULL: none */
    int no_heap, no_frames;
    const char *socket;
    int private_only;
    const char *hosts, *launcher;
    int quiet, verbose;
    char **command; /* borrowed from argv, NULL-terminated */
};

/* 0: go on; 1: done (help, version); -1: usage error, told on stderr. */
int run_options_parse(struct run_options *o, int argc, char **argv);
void run_options_fini(struct run_options *o);

#endif
