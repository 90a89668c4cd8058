/* SPDX-License-Identifier: Apache-2.0
 *
 * The sinks of a gather, each with a thread of its own, so that the network and
 * all writers work at the same time.  What is put goes to every sink in the same
 * order; a bounded number of batches is under way, and who is ahead waits.
 */
#ifndef HL_OUTLETS_H
#define HL_OUTLETS_H

#include "err.h"
#include "sink.h"

#include <stddef.h>
#include <stdint.h>

enum { HL_OUTLETS_MAX = 3 };

/* Bytes for rows of cells, heap rows or points, used by all sinks. */
struct hl_batch {
    void *p;
    size_t n; /* of things in it */
    int users;
};

enum hl_item_kind {
    HL_ITEM_BEGIN,
    HL_ITEM_RANK,
    HL_ITEM_OTHER,
    HL_ITEM_ROWS,
    HL_ITEM_RANK_END,
    HL_ITEM_HEAP,
    HL_ITEM_IMAGES,
    HL_ITEM_TIMELINE,
    HL_ITEM_POINTS,
    HL_ITEM_TIMELINE_END,
    HL_ITEM_MISSING,
    HL_ITEM_FINISH
};

struct hl_item {
    enum hl_item_kind kind;
    const struct hl_run *run; /* BEGIN */
    uint64_t rank, n;         /* RANK; n also of OTHER and TIMELINE */
    int64_t pid;              /* OTHER, TIMELINE */
    const char *text;         /* host of them, text of MISSING; borrowed to the end */
    struct hl_batch *batch;   /* ROWS, HEAP, IMAGES, POINTS; given back by the sinks */
};

struct hl_outlets;

/* Start the threads.  sinks: n of them, borrowed.  row_bytes: of the largest thing
 * that a batch must hold.  tick: called while we wait.  NULL on failure. */
struct hl_outlets *hl_outlets_open(struct hl_sink *const *sinks, size_t n,
                                   size_t row_bytes, int (*tick)(void *, struct hl_err *),
                                   void *ctx, struct hl_err *e);
/* Bytes that a batch holds. */
size_t hl_outlets_batch_bytes(const struct hl_outlets *o);
/* A free batch; waits for one.  NULL: a sink has failed, or tick did. */
struct hl_batch *hl_outlets_batch(struct hl_outlets *o, struct hl_err *e);
/* Hand an item to all sinks.  -1: one has failed earlier, *e says how. */
int hl_outlets_put(struct hl_outlets *o, const struct hl_item *item, struct hl_err *e);
/* Wait until all was done.  0 or -1. */
int hl_outlets_wait(struct hl_outlets *o, struct hl_err *e);
/* Has a sink failed? */
int hl_outlets_failed(struct hl_outlets *o);
/* End the threads; what was not done is left undone.  The sinks are the caller's
 * again. */
void hl_outlets_close(struct hl_outlets *o);

#endif
