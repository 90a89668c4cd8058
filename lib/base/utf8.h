/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that must be UTF-8, whatever bytes a program or a user gave.
 */
#ifndef HL_UTF8_H
#define HL_UTF8_H

#include "buf.h"

/* Append s to b; bytes that are no UTF-8 become U+FFFD.  A NUL byte is put
 * behind the text, not counted.  0 or -1 (no memory). */
int hl_utf8_clean(struct hl_buf *b, const char *s);

/* s itself if it is UTF-8; else made so in b, which is reused, and counted.  NULL: no
 * memory. */
const char *hl_utf8_text(struct hl_buf *b, const char *s, uint64_t *n_replaced);

/* The same within the text's own cap bytes; what does not fit is cut off.  1 when it
 * was changed, else 0. */
int hl_utf8_clean_in_place(char *text, size_t cap);

#endif
