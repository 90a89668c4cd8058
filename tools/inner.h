/* SPDX-License-Identifier: Apache-2.0
 *
 * heapline-run inside a launcher: one instance a rank.
 */
#ifndef HL_INNER_H
#define HL_INNER_H

#include "run_options.h"

/* Are we started by a launcher, as one rank of many, and is COMMAND the
 * program itself? */
int inner_is_wanted(char *const *command);

/* Run COMMAND as this rank; returns heapline-run's exit status. */
int inner_run(const struct run_options *o);

#endif
