/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule for region paths; see region_name.h.
 */
#include "region_name.h"

#include "messages.h"

#include <string.h>

/* Segments that a path cannot hold: in HDF5 a region's group holds the
 * datasets "inclusive" and "exclusive", a rank's group the other two. */
static const struct {
    const char *text;
    size_t len;
    int first_only;
    const char *why;
} reserved[] = {
    {".", 1, 0, "has a segment \".\""},
    {"..", 2, 0, "has a segment \"..\""},
    {"inclusive", 9, 0, "has a segment \"inclusive\", which the export format uses"},
    {"exclusive", 9, 0, "has a segment \"exclusive\", which the export format uses"},
    {"frame_scalars", 13, 1,
     "begins with \"frame_scalars\", which the export format uses"},
    {"n_frames", 8, 1, "begins with \"n_frames\", which the export format uses"},
};

/* Length of a sequence, by its first byte; 0 when none begins with it. */
static size_t length_by_lead(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c < 0xe0)
        return 2;
    if ((c & 0xf0) == 0xe0)
        return 3;
    return c >= 0xf0 && c < 0xf5 ? 4 : 0;
}

size_t hl_utf8_sequence(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = length_by_lead(*s);
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if (n == 3 && ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f)))
        return 0;
    if (n == 4 && ((*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f)))
        return 0;
    return n;
}

int hl_is_utf8(const char *s, size_t len)
{
    for (size_t at = 0; at < len;) {
        char tail[4] = {0}; /* so that a cut sequence is not read beyond len */
        for (size_t i = 0; i < 4 && at + i < len; i++)
            tail[i] = s[at + i];
        size_t n = hl_utf8_sequence(tail);
        if (!n)
            return 0;
        at += n;
    }
    return 1;
}

int hl_has_control(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] < 32 || s[i] == 127)
            return 1;
    return 0;
}

static enum hl_path_kind check_segment(const char *s, size_t len, int first,
                                       const char **why)
{
    if (!len) {
        *why = "has an empty segment";
        return HL_PATH_MALFORMED;
    }
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (len == reserved[i].len && !memcmp(s, reserved[i].text, len) &&
            (first || !reserved[i].first_only)) {
            *why = reserved[i].why;
            return HL_PATH_RESERVED;
        }
    return HL_PATH_OK;
}

static enum hl_path_kind check(const char *path, size_t len, const char **why)
{
    enum hl_path_kind kind;
    size_t at = 0;
    *why = "is empty";
    if (!len)
        return HL_PATH_MALFORMED;
    *why = "is longer than 1023 bytes";
    if (len > HL_PATH_MAX)
        return HL_PATH_MALFORMED;
    *why = "has a control character";
    if (hl_has_control(path, len))
        return HL_PATH_MALFORMED;
    do {
        size_t n = 0;
        while (at + n < len && path[at + n] != '/')
            n++;
        if ((kind = check_segment(path + at, n, at == 0, why)))
            return kind;
        at += n + 1;
    } while (at <= len);
    *why = NULL;
    return HL_PATH_OK;
}

enum hl_path_kind hl_path_check(const char *path, size_t len, const char **why)
{
    const char *text;
    enum hl_path_kind kind = check(path, len, &text);
    if (why)
        *why = text;
    return kind;
}

const char *hl_path_fault(const char *path, size_t len)
{
    const char *why;
    hl_path_check(path, len, &why);
    return why;
}
