/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing byte buffer with a read position, for streams that arrive in
 * pieces and texts of unknown length.  Not thread-safe; owned by its holder.
 */
#ifndef HL_BUF_H
#define HL_BUF_H

#include <stddef.h>
#include <stdint.h>

struct hl_buf {
    uint8_t *p;
    size_t cap;
    size_t n;    /* end of the bytes held */
    size_t head; /* start of the bytes not yet consumed */
};

/* A zeroed structure is an empty buffer. */
void hl_buf_fini(struct hl_buf *b);
/* Room for n more bytes behind b->n; 0 or -1 (no memory; nothing changed). */
int hl_buf_reserve(struct hl_buf *b, size_t n);
int hl_buf_add(struct hl_buf *b, const void *p, size_t n);
int hl_buf_printf(struct hl_buf *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Bytes not yet consumed. */
static inline const uint8_t *hl_buf_data(const struct hl_buf *b)
{
    return b->p ? b->p + b->head : NULL;
}
static inline size_t hl_buf_left(const struct hl_buf *b)
{
    return b->n - b->head;
}
/* Consume n bytes; memory is reused once the buffer is empty or half spent. */
void hl_buf_consume(struct hl_buf *b, size_t n);

#endif
