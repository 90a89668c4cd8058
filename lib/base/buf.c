/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing byte buffer; see buf.h.
 */
#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hl_buf_fini(struct hl_buf *b)
{
    free(b->p);
    memset(b, 0, sizeof *b);
}

int hl_buf_reserve(struct hl_buf *b, size_t n)
{
    if (n <= b->cap - b->n)
        return 0;
    if (n > SIZE_MAX / 2 - b->n)
        return -1;
    size_t cap = b->cap ? b->cap : 256;
    while (cap < b->n + n)
        cap *= 2;
    uint8_t *p = realloc(b->p, cap);
    if (!p)
        return -1;
    b->p = p;
    b->cap = cap;
    return 0;
}

int hl_buf_add(struct hl_buf *b, const void *p, size_t n)
{
    if (hl_buf_reserve(b, n))
        return -1;
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    return 0;
}

int hl_buf_printf(struct hl_buf *b, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n < 0 || hl_buf_reserve(b, (size_t)n + 1))
        return -1;
    va_start(ap, format);
    vsnprintf((char *)b->p + b->n, (size_t)n + 1, format, ap);
    va_end(ap);
    b->n += (size_t)n;
    return 0;
}

void hl_buf_consume(struct hl_buf *b, size_t n)
{
    b->head += n;
    if (b->head == b->n) {
        b->head = b->n = 0;
    } else if (b->head > b->cap / 2) {
        memmove(b->p, b->p + b->head, b->n - b->head);
        b->n -= b->head;
        b->head = 0;
    }
}
