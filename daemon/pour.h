/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0's work: the planned processes' streams decoded and mapped into the united
 * catalog, samples made frames, tables, into all sinks.  Memory is bounded:
 * pieces under way, batches of rows, what the sinks hold.
 */
#ifndef HL_POUR_H
#define HL_POUR_H

#include "outlets.h"
#include "pull.h"

struct hl_pour {
    struct hl_pull_from from;
    const struct hl_run *run;
    struct hl_outlets *out;
    /* A survey, into no sinks: what is damaged is told here and passed over; *e says
     * why it cannot be read, and with -1 why the survey ends.  NULL: the first ends
     * it. */
    int (*note)(void *ctx, const struct hl_pour *p, struct hl_err *e);
    void *ctx;
    const struct hl_entry *damaged; /* set by hl_pour: whose data cannot be read */
    enum hl_ask_kind damaged_kind;  /* which of them */
    uint64_t n_points_lost;         /* likewise: or so many more points, if any */
};

/* Everything from begin to finish of all sinks.  0 or -1; the caller commits or
 * aborts them. */
int hl_pour(struct hl_pour *p, struct hl_err *e);

#endif
