/* SPDX-License-Identifier: Apache-2.0
 *
 * What the export format allows as the path of a region.  The client library
 * refuses the rest at registration and the readers name it, so the rule is
 * here alone.  Pure; safe in any thread.
 */
#ifndef HL_REGION_NAME_H
#define HL_REGION_NAME_H

#include <stddef.h>

enum hl_path_kind {
    HL_PATH_OK = 0,
    HL_PATH_MALFORMED = 1, /* empty, too long, an empty segment, a control character */
    HL_PATH_RESERVED = 2   /* a segment that the format uses itself */
};

/* Kind of the path's first fault, and through *why (NULL allowed) a phrase
 * that completes "the region path ...", static text. */
enum hl_path_kind hl_path_check(const char *path, size_t len, const char **why);

/* The phrase alone, NULL when nothing is wrong. */
const char *hl_path_fault(const char *path, size_t len);

/* Does the text hold a control character (below 32, or 127)? */
int hl_has_control(const char *s, size_t len);

/* Length of the UTF-8 sequence that the text begins with; 0 when it is none: cut by a
 * NUL, overlong, a surrogate or beyond U+10FFFF. */
size_t hl_utf8_sequence(const char *text);

/* Is the text UTF-8?  The exports are: other bytes are replaced in them. */
int hl_is_utf8(const char *s, size_t len);

#endif
