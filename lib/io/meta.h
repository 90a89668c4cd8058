/* SPDX-License-Identifier: Apache-2.0
 *
 * --metadata KEY=VALUE as the sinks want it.
 */
#ifndef HL_META_H
#define HL_META_H

#include "sink.h"

/* VALUE is kept as it is when it is a JSON scalar (number, true, false, null, a
 * quoted string), else it is a string.  0, or -1: no '=' or an empty key, or
 * no memory.  The texts are owned; hl_meta_free releases them. */
int hl_meta_parse(struct hl_meta *out, const char *arg);
void hl_meta_free(struct hl_meta *m, size_t n);

#endif
