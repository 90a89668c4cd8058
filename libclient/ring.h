/* SPDX-License-Identifier: Apache-2.0
 *
 * The sender's side of lib/leaf/row_buffer.h: makes the buffer, puts frames
 * in, takes acknowledgements.  One writer; the holder has the lock.
 */
#ifndef HL_CLIENT_RING_H
#define HL_CLIENT_RING_H

#include "row_buffer.h"
#include "setup.h"

#include <sys/uio.h>

struct hl_ring {
    struct hl_row_buffer *h; /* NULL: none was made */
    uint8_t *data;
    uint64_t capacity;
    size_t mapped;
    uint64_t ready; /* memory of the stream below this is there */
    uint64_t released; /* memory of the stream below this was given back */
    int fd;            /* -1: not shared */
    struct hl_fd_id id;
};

/* Make a buffer of at most `want` bytes, shared if that can be, else 64 KiB of
 * private memory. 0, or -1: no memory for that either. */
int hl_ring_make(struct hl_ring *r, uint64_t want, uint64_t image);

/* Does the descriptor still hold the shared buffer? */
int hl_ring_shared(const struct hl_ring *r);

static inline uint64_t hl_ring_free(const struct hl_ring *r)
{
    return r->capacity - (r->h->head - r->h->acked);
}

/* Commit n bytes (at most hl_ring_free) of whole messages. */
void hl_ring_put(struct hl_ring *r, const uint8_t *p, size_t n);

/* The bytes from..to of the stream in place: one piece or two. Returns how many. */
int hl_ring_pieces(const struct hl_ring *r, uint64_t from, uint64_t to,
                   struct iovec out[2]);

/* Copy n bytes at an offset of the stream. */
void hl_ring_get(const struct hl_ring *r, uint64_t at, void *out, size_t n);

/* The collector holds everything below `upto`: frees whole messages only, so
 * that what is left always begins with one.  Its memory is given back now and
 * then, or the ring's turns would make all of it the program's for good. */
void hl_ring_ack(struct hl_ring *r, uint64_t upto);

/* Whole size and type of the message at an offset. */
uint64_t hl_ring_message(const struct hl_ring *r, uint64_t at, unsigned *type);

/* Leave the stream at `at` with nothing held. */
void hl_ring_jump(struct hl_ring *r, uint64_t at);

#endif
