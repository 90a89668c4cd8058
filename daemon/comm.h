/* SPDX-License-Identifier: Apache-2.0
 *
 * How the processes of one gather talk: every node gives its index to rank 0,
 * then serves pieces of its streams until rank 0 says how it ended.  Two rooms
 * implement it: comm_mpi.c (the only place with MPI) and comm_local.c (one
 * node, nothing is ever started).  Every wait is bounded: a peer that is
 * silent for HL_COMM_PATIENCE_S seconds ends the gather.
 */
#ifndef HL_COMM_H
#define HL_COMM_H

#include "buf.h"
#include "err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    HL_COMM_PATIENCE_S = 25,
    HL_COMM_SLOTS = 2,        /* pieces in flight: one is used, one comes */
    HL_COMM_PIECE = 512 << 10 /* bytes of a piece at most */
};

/* A piece of a unit's stream, as rank 0 asks for it. */
struct hl_piece {
    uint64_t unit;
    uint64_t offset;
    uint64_t n; /* at most HL_COMM_PIECE */
};

/* Reads exactly piece->n bytes of this node's data into out. */
typedef int hl_serve_fn(void *ctx, const struct hl_piece *piece, uint8_t *out,
                        struct hl_err *e);

struct hl_comm {
    int rank, size; /* of the gather's own processes */
    const struct hl_comm_ops *ops;
};

struct hl_comm_ops {
    /* Not rank 0: hand the index over.  Rank 0: take that of node `from`. */
    int (*give_index)(struct hl_comm *c, const struct hl_buf *index, struct hl_err *e);
    int (*take_index)(struct hl_comm *c, int from, struct hl_buf *out, struct hl_err *e);
    /* Rank 0: begin to fetch a piece into a slot; wait for it. */
    int (*fetch)(struct hl_comm *c, int from, const struct hl_piece *piece, int slot,
                 struct hl_err *e);
    int (*fetched)(struct hl_comm *c, int slot, const uint8_t **p, struct hl_err *e);
    /* Not rank 0: answer fetches until rank 0 ends; *outcome is what it said. */
    int (*serve)(struct hl_comm *c, hl_serve_fn *fn, void *ctx, int *outcome,
                 struct hl_err *e);
    /* Rank 0: end all serving; outcome 0 means everything was written. */
    int (*end)(struct hl_comm *c, int outcome, struct hl_err *e);
    /* Last call; status is the process's exit status. With status != 0 the
     * others are ended, too. */
    void (*close)(struct hl_comm *c, int status);
};

struct hl_comm *hl_comm_local(void);
/* NULL on failure.  argc, argv as main got them. */
struct hl_comm *hl_comm_mpi(int *argc, char ***argv, struct hl_err *e);
/* Name of the MPI that this program was built with, or "no MPI". */
const char *hl_comm_mpi_name(char *out, size_t cap);

#endif
