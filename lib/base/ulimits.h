/* SPDX-License-Identifier: Apache-2.0
 *
 * Which limit of this process (ulimit) may be behind an error.
 */
#ifndef HL_ULIMITS_H
#define HL_ULIMITS_H

#include <stddef.h>

/* " (the limit ... is ...)" for an errno value that a limit in force explains, else "";
 * returns out. */
const char *hl_limit_hint(int code, char *out, size_t cap);

#endif
