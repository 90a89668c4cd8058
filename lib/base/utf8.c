/* SPDX-License-Identifier: Apache-2.0
 *
 * Making text UTF-8; see utf8.h.
 */
#include "utf8.h"

#include <string.h>

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

/* Length of the sequence at s, 0 when it is not one: cut, overlong, a surrogate
 * or beyond U+10FFFF. */
static size_t sequence(const unsigned char *s)
{
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

int hl_utf8_clean(struct hl_buf *b, const char *s)
{
    while (*s) {
        size_t n = sequence((const unsigned char *)s);
        if (n ? hl_buf_add(b, s, n) : hl_buf_add(b, "\xef\xbf\xbd", 3))
            return -1;
        s += n ? n : 1;
    }
    if (hl_buf_reserve(b, 1))
        return -1;
    b->p[b->n] = 0;
    return 0;
}
