/* SPDX-License-Identifier: Apache-2.0
 *
 * How the processes of one gather talk: every node says its name and gives its
 * index to rank 0, then serves pieces until rank 0 says how it ended.  Two rooms
 * implement it: comm_mpi.c (the only place with MPI) and comm_local.c (one
 * node, nothing is ever started).  Every wait is bounded: processes let each other
 * know now and then that they are there, and one that was silent for
 * HL_COMM_PATIENCE_S seconds is lost and ends the gather.
 */
#ifndef HL_COMM_H
#define HL_COMM_H

#include "buf.h"
#include "err.h"
#include "source.h"

#include <stddef.h>
#include <stdint.h>

enum { HL_COMM_PATIENCE_S = 20, HL_COMM_BEAT_S = 3 };

/* A node's answers: begin a piece in a slot, end it (see source.h).  Pieces are
 * ended in the order in which they were begun. */
struct hl_server {
    int (*begin)(void *ctx, int slot, const struct hl_want *want, struct hl_err *e);
    int (*end)(void *ctx, int slot, const uint8_t **p, uint64_t *n, struct hl_err *e);
    void *ctx;
};

struct hl_comm {
    int rank, size; /* of the gather's own processes */
    int lost;       /* the process that is lost, -1 none */
    const struct hl_comm_ops *ops;
};

struct hl_comm_ops {
    /* Let others know that we are there; now and then, cheap.  -1: one is lost. */
    int (*tick)(struct hl_comm *c, struct hl_err *e);
    /* The name of a process's host, as it said at the start; NULL unknown. */
    const char *(*host)(struct hl_comm *c, int process);
    /* Not rank 0: hand the index over.  Rank 0: take that of node `from`. */
    int (*give_index)(struct hl_comm *c, const struct hl_buf *index, struct hl_err *e);
    int (*take_index)(struct hl_comm *c, int from, struct hl_buf *out, struct hl_err *e);
    /* Rank 0: ask for a piece in a slot; wait for it.  The bytes stay until the slot
     * is used again. */
    int (*ask)(struct hl_comm *c, int from, int slot, const struct hl_want *want,
               struct hl_err *e);
    int (*answer)(struct hl_comm *c, int slot, const uint8_t **p, uint64_t *n,
                  struct hl_err *e);
    /* Not rank 0: answer until rank 0 ends; *outcome is what it said. */
    int (*serve)(struct hl_comm *c, const struct hl_server *server, int *outcome,
                 struct hl_err *e);
    /* Rank 0: end all serving; outcome 0 means everything was written. */
    int (*end)(struct hl_comm *c, int outcome, struct hl_err *e);
    /* Last call.  failed: the others are ended, too; status: how the process will
     * end, should the others keep it from it. */
    void (*close)(struct hl_comm *c, int failed, int status);
};

struct hl_comm *hl_comm_local(void);
/* NULL on failure.  argc, argv as main got them; host: of this process. */
struct hl_comm *hl_comm_mpi(int *argc, char ***argv, const char *host, struct hl_err *e);
/* Name of the MPI that this program was built with, or "no MPI". */
const char *hl_comm_mpi_name(char *out, size_t cap);

#endif
