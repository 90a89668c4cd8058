/* SPDX-License-Identifier: Apache-2.0
 *
 * What heapline-gather says of its work: notes on stderr for people, lines on stdout
 * that heapline-run goes by.
 */
#ifndef HL_GATHER_TELL_H
#define HL_GATHER_TELL_H

#include "comm.h"
#include "plan.h"

/* What the sinks had to change. */
struct gather_changes {
    uint64_t n_nulls, n_replaced;
};

/* An error and what became of the outputs. */
void gather_tell_error(const struct hl_err *e, const char *outcome);

/* All processes of the gather have met. */
void gather_tell_started(void);
/* Which process of the gather is lost, if one is. */
void gather_tell_lost(struct hl_comm *c);

/* What is not in the outputs, and where frames went that have no rank. */
void gather_tell_notes(const struct hl_plan *p, const struct gather_changes *c);
/* That all n outputs have their names. */
void gather_tell_status(const struct hl_plan *p, const char *const *output, size_t n);
/* On which node, when it may be another than the user's. */
void gather_tell_place(const char *host, const char *prefix);

/* Something could not be read: the data of the run stay where they are. */
void gather_tell_kept(const char *key);

/* The outputs are there, but a node could not note it, or be told. */
void gather_tell_not_taken(const char *host, const struct hl_err *e);
void gather_tell_not_told(const struct hl_err *e);

#endif
