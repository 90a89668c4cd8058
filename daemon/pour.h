/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0's work: the planned processes' streams, piece by piece with the next
 * one in flight, decoded and mapped into the united catalog, into all sinks.
 * Memory is bounded: pieces, one batch of rows, what the sinks hold.
 */
#ifndef HL_POUR_H
#define HL_POUR_H

#include "comm.h"
#include "plan.h"
#include "sink.h"
#include "source.h"

struct hl_pour {
    struct hl_comm *comm;
    struct hl_source *source; /* rank 0's own node */
    const struct hl_plan *plan;
    const struct hl_run *run;
    struct hl_sink **sink;
    size_t n_sinks;
};

/* Everything from begin to just before commit.  0 or -1; the caller commits or
 * aborts the sinks. */
int hl_pour(struct hl_pour *p, struct hl_err *e);

#endif
