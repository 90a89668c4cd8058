/* SPDX-License-Identifier: Apache-2.0
 *
 * Making text UTF-8; see utf8.h.
 */
#include "utf8.h"

#include "region_name.h"

int hl_utf8_clean(struct hl_buf *b, const char *s)
{
    while (*s) {
        size_t n = hl_utf8_sequence(s);
        if (n ? hl_buf_add(b, s, n) : hl_buf_add(b, "\xef\xbf\xbd", 3))
            return -1;
        s += n ? n : 1;
    }
    if (hl_buf_reserve(b, 1))
        return -1;
    b->p[b->n] = 0;
    return 0;
}
