/* SPDX-License-Identifier: Apache-2.0
 *
 * Making text UTF-8; see utf8.h.
 */
#include "utf8.h"

#include "region_name.h"

#include <string.h>

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

const char *hl_utf8_text(struct hl_buf *b, const char *s, uint64_t *n_replaced)
{
    if (hl_is_utf8(s, strlen(s)))
        return s;
    b->n = b->head = 0;
    if (hl_utf8_clean(b, s))
        return NULL;
    ++*n_replaced;
    return (const char *)b->p;
}

int hl_utf8_clean_in_place(char *text, size_t cap)
{
    struct hl_buf b = {0};
    if (hl_is_utf8(text, strlen(text)))
        return 0;
    if (hl_utf8_clean(&b, text) == 0) {
        size_t n = b.n < cap ? b.n : cap - 1;
        while (n && n < b.n && (b.p[n] & 0xc0) == 0x80)
            n--; /* not within a character */
        memcpy(text, b.p, n);
        text[n] = 0;
    }
    hl_buf_fini(&b);
    return 1;
}
