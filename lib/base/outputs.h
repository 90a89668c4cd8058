/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and kinds of a run's outputs, as heapline-run and heapline-gather take
 * them from the command line.
 */
#ifndef HL_OUTPUTS_H
#define HL_OUTPUTS_H

#include "err.h"

#include <stddef.h>

enum { HL_OUT_JSON = 1, HL_OUT_HDF5 = 2, HL_OUT_CSV = 4, HL_OUT_ALL = 7 };

/* "json,hdf5,csv" as bits; 0 when a word is unknown or the list is empty. */
unsigned hl_outputs_parse(const char *list);
/* Suffix of one kind: ".json", ".h5", ".csv". */
const char *hl_outputs_suffix(unsigned kind);

/* The default PREFIX: "heapline-" and the Slurm job id or the local date and
 * time, with ".2", ".3", ... when outputs of that name exist. */
void hl_outputs_default_prefix(char *out, size_t cap);

/* Can files PREFIX.* be made? 0, or -1 with the reason. */
int hl_outputs_check(const char *prefix, struct hl_err *e);

#endif
