/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of heaps, in the order of the CSV: records are pulled from their nodes
 * when their turn comes, some of each node ahead, and go to the sinks in batches.
 */
#ifndef HL_HEAP_ROWS_H
#define HL_HEAP_ROWS_H

#include "outlets.h"
#include "pull.h"

/* All entries with this flag (enum hl_entry_flags) as items of this kind.  No piece
 * may be under way.  0 or -1. */
int hl_heap_rows(struct hl_pull_from *from, struct hl_outlets *out, uint32_t flag,
                 enum hl_item_kind kind, struct hl_err *e);

#endif
