/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the other parts of this installation are: as configured, beside the
 * running program when the tree was moved, or in the build folder.
 */
#ifndef HL_INSTALL_H
#define HL_INSTALL_H

#include "err.h"

#include <stddef.h>

/* Path of a program ("heaplined", "heapline-gather", ...). 0 or -1. */
int hl_find_program(const char *name, char *out, size_t cap, struct hl_err *e);
/* Path of an agent ("libheapline-preload.so"). 0 or -1. */
int hl_find_agent(const char *name, char *out, size_t cap, struct hl_err *e);

#endif
