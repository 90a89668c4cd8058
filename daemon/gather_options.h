/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of heapline-gather.
 */
#ifndef HL_GATHER_OPTIONS_H
#define HL_GATHER_OPTIONS_H

#include "ident.h"
#include "sink.h"

enum gather_keep {
    GATHER_TAKE = 0, /* the data are marked as read when all is written */
    GATHER_KEEP,
    GATHER_KEEP_UNSEEN /* as GATHER_KEEP if ranks were never seen */
};

struct gather_options {
    const char *key;
    const char *prefix;
    unsigned formats; /* HL_OUT_... */
    const char *run_id;
    const char *app_version;
    const char *sockets;
    const char *spool;
    const char *fallback_dir;
    struct hl_meta *meta; /* owned */
    size_t n_meta;
    const char **without; /* owned array, borrowed texts */
    size_t n_without;
    enum gather_keep keep;
    int local, quiet;
    char key_text[HL_KEY_MAX + 1];
    char prefix_text[512];
};

/* 0: go on; 1: done (help, version); -1: usage error, told on stderr. */
int gather_options_parse(struct gather_options *o, int argc, char **argv);
void gather_options_fini(struct gather_options *o);

#endif
