/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading heap records: three-line records, several of them in one file, or
 * the merged table.  heapline-record(5).
 */
#ifndef HL_CSV_IN_H
#define HL_CSV_IN_H

#include "err.h"
#include "record.h"

#include <stddef.h>

typedef int hl_record_fn(void *ctx, const struct hl_record *r, struct hl_err *e);

/* Call fn for each row.  Refuses versions other than 1 and rows that are not in
 * the format, with the line named.  0 or -1. */
int hl_csv_read(const char *name, hl_record_fn *fn, void *ctx, struct hl_err *e);

#endif
