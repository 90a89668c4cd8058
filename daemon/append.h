/* SPDX-License-Identifier: Apache-2.0
 *
 * From connections to spools: what is read lies in one of two batches; while the
 * lane writes one, the loop fills the other.  Bytes that the disk did not take
 * are held by their process and tried again each second.
 */
#ifndef HL_APPEND_H
#define HL_APPEND_H

#include "disk.h"

#include <stddef.h>
#include <stdint.h>

struct hl_daemon;
struct hl_process;

enum {
    HL_READ_BYTES = 512 << 10, /* room that a reader needs: a message and a read */
    HL_BATCH_BYTES = 2 << 20
};

/* How far a stream has got. */
struct hl_progress {
    uint64_t stream, catalogs, rows;
};

struct hl_piece;
struct hl_batch {
    struct hl_task task;
    struct hl_daemon *d;
    uint8_t *buf; /* HL_BATCH_BYTES, mapped */
    size_t n;
    struct hl_piece *piece;
    size_t n_pieces, cap;
    int sync_each; /* as the daemon's, when it was sent */
    int touched;   /* its memory is in use: given back when it has been idle */
};
struct hl_append {
    struct hl_batch batch[2];
    struct hl_batch *filling, *flying; /* flying: NULL none */
    uint64_t pass;                     /* number of the batch that was written last */
    uint64_t held_bytes;               /* by processes, not in a batch */
};

/* 0 or -1: no memory. */
int hl_append_init(struct hl_daemon *d);
void hl_append_fini(struct hl_daemon *d);

/* Where to read the next bytes, at least HL_READ_BYTES; NULL: no room until
 * something is written (then hl_peer_unpark is called). */
uint8_t *hl_append_room(struct hl_daemon *d, size_t *have);
/* Whole, checked messages become the process's next bytes: those at the start of
 * the room (behind others that were taken from it), or copies of any.
 * 0, or a negative errno: they cannot be taken. */
int hl_append_read(struct hl_process *p, const uint8_t *at, size_t n);
int hl_append_copy(struct hl_process *p, const void *msgs, size_t n);
/* The end of a turn of the loop: what was read goes to the lane. */
void hl_append_turn(void *daemon);
/* Try again what is held. */
void hl_append_retry(struct hl_process *p);
/* The disk takes no more of this process (reason: errno value): what is held and
 * what comes is done with, and lost. */
void hl_append_discard(struct hl_process *p, int reason);
/* The stream up to here needs not be sent again. */
uint64_t hl_append_done_with(const struct hl_process *p);
/* Bytes that wait for the disk. */
uint64_t hl_append_waiting(const struct hl_daemon *d);
/* Nothing is on its way, but what is held. */
int hl_append_is_written(const struct hl_daemon *d);
/* Called each second: memory that is not in use is given back.  1: none is left. */
int hl_append_tick(struct hl_daemon *d);

#endif
