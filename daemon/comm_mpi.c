/* SPDX-License-Identifier: Apache-2.0
 *
 * A gather over MPI, one process a node.  The only file of the daemon side
 * that includes mpi.h.  Everything is non-blocking and waited for with a bound,
 * so that a lost node ends the gather instead of hanging it.  Large messages go
 * in parts: no count ever has to be more than an int.
 */
#include "comm.h"

#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG_INDEX_SIZE = 1, TAG_INDEX, TAG_ASK, TAG_PIECE };
enum { PART = 16 << 20 };

struct mpi_comm {
    struct hl_comm base;
    struct {
        MPI_Request ask, piece;
        uint64_t words[4]; /* what was asked; stays until the send is done */
        int from;
        uint8_t *bytes;
    } slot[HL_COMM_SLOTS];
};

static struct mpi_comm *self(struct hl_comm *c)
{
    return (struct mpi_comm *)c;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Wait for a request, first spinning, then sleeping ever longer. */
static int wait_for(MPI_Request *r, MPI_Status *st, int peer, struct hl_err *e)
{
    double until = now_s() + HL_COMM_PATIENCE_S;
    long pause_ns = 0;
    for (int i = 0;; i++) {
        int done = 0;
        if (MPI_Test(r, &done, st) != MPI_SUCCESS)
            return hl_fail(e, HL_ERR_PEER, "node %d of the gather failed", peer);
        if (done)
            return 0;
        if (i < 200)
            continue;
        if (now_s() > until)
            return hl_fail(e, ETIMEDOUT, "node %d of the gather did not answer for %d s",
                           peer, HL_COMM_PATIENCE_S);
        pause_ns = pause_ns < 1000000 ? pause_ns + 20000 : pause_ns;
        nanosleep(&(struct timespec){0, pause_ns}, NULL);
    }
}

static int send_bytes(const void *p, size_t n, int to, int tag, struct hl_err *e)
{
    MPI_Request r;
    MPI_Status st;
    MPI_Isend(p, (int)n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &r);
    return wait_for(&r, &st, to, e);
}

static int receive_bytes(void *p, size_t n, int from, int tag, struct hl_err *e)
{
    MPI_Request r;
    MPI_Status st;
    MPI_Irecv(p, (int)n, MPI_BYTE, from, tag, MPI_COMM_WORLD, &r);
    return wait_for(&r, &st, from, e);
}

static int give_index(struct hl_comm *c, const struct hl_buf *index, struct hl_err *e)
{
    uint64_t n = hl_buf_left(index);
    (void)c;
    if (send_bytes(&n, sizeof n, 0, TAG_INDEX_SIZE, e))
        return -1;
    for (uint64_t at = 0; at < n; at += PART)
        if (send_bytes(hl_buf_data(index) + at, n - at < PART ? n - at : PART, 0,
                       TAG_INDEX, e))
            return -1;
    return 0;
}

static int take_index(struct hl_comm *c, int from, struct hl_buf *out, struct hl_err *e)
{
    uint64_t n;
    (void)c;
    if (receive_bytes(&n, sizeof n, from, TAG_INDEX_SIZE, e))
        return -1;
    if (hl_buf_reserve(out, n))
        return hl_fail(e, ENOMEM, "no memory for the index of node %d (%llu bytes)", from,
                       (unsigned long long)n);
    for (uint64_t at = 0; at < n; at += PART)
        if (receive_bytes(out->p + out->n + at, n - at < PART ? n - at : PART, from,
                          TAG_INDEX, e))
            return -1;
    out->n += n;
    return 0;
}

static int fetch(struct hl_comm *c, int from, const struct hl_piece *piece, int slot,
                 struct hl_err *e)
{
    struct mpi_comm *m = self(c);
    uint64_t *w = m->slot[slot].words;
    if (!m->slot[slot].bytes && !(m->slot[slot].bytes = malloc(HL_COMM_PIECE)))
        return hl_fail(e, ENOMEM, "no memory left");
    w[0] = piece->unit;
    w[1] = piece->offset;
    w[2] = piece->n;
    w[3] = 0;
    m->slot[slot].from = from;
    MPI_Irecv(m->slot[slot].bytes, (int)piece->n, MPI_BYTE, from, TAG_PIECE,
              MPI_COMM_WORLD, &m->slot[slot].piece);
    MPI_Isend(w, sizeof m->slot[slot].words, MPI_BYTE, from, TAG_ASK, MPI_COMM_WORLD,
              &m->slot[slot].ask);
    return 0;
}

static int fetched(struct hl_comm *c, int slot, const uint8_t **p, struct hl_err *e)
{
    struct mpi_comm *m = self(c);
    MPI_Status st;
    int n, from = m->slot[slot].from;
    if (wait_for(&m->slot[slot].ask, &st, from, e) ||
        wait_for(&m->slot[slot].piece, &st, from, e))
        return -1;
    MPI_Get_count(&st, MPI_BYTE, &n);
    if ((uint64_t)n != m->slot[slot].words[2])
        return hl_fail(e, HL_ERR_PEER, "node %d of the gather could not read its data",
                       from);
    *p = m->slot[slot].bytes;
    return 0;
}

/* The next order of rank 0.  It may be long in coming while rank 0 works on
 * others' data, so this wait has no bound: if rank 0 dies, the launcher ends us. */
static void next_order(uint64_t words[4])
{
    MPI_Request r;
    int done = 0;
    long pause_ns = 0;
    MPI_Irecv(words, 4 * sizeof *words, MPI_BYTE, 0, TAG_ASK, MPI_COMM_WORLD, &r);
    for (;;) {
        MPI_Test(&r, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        pause_ns = pause_ns < 2000000 ? pause_ns + 20000 : pause_ns;
        nanosleep(&(struct timespec){0, pause_ns}, NULL);
    }
}

static int serve(struct hl_comm *c, hl_serve_fn *fn, void *ctx, int *outcome,
                 struct hl_err *e)
{
    uint8_t *bytes = malloc(HL_COMM_PIECE);
    int bad = 0;
    (void)c;
    if (!bytes)
        return hl_fail(e, ENOMEM, "no memory left");
    for (;;) {
        uint64_t w[4];
        next_order(w);
        if (w[3]) {
            *outcome = (int)w[0];
            break;
        }
        struct hl_piece piece = {w[0], w[1], w[2]};
        struct hl_err why = {0};
        /* A piece that cannot be read goes out empty, which rank 0 reports. */
        int fault = fn(ctx, &piece, bytes, &why);
        if (fault && e)
            *e = why;
        bad = send_bytes(bytes, fault ? 0 : piece.n, 0, TAG_PIECE, e);
        if (bad)
            break;
    }
    free(bytes);
    return bad;
}

static int end(struct hl_comm *c, int outcome, struct hl_err *e)
{
    uint64_t w[4] = {(uint64_t)outcome, 0, 0, 1};
    for (int to = 1; to < c->size; to++)
        if (send_bytes(w, sizeof w, to, TAG_ASK, e))
            return -1;
    return 0;
}

static void close_mpi(struct hl_comm *c, int status)
{
    if (status)
        MPI_Abort(MPI_COMM_WORLD, status);
    for (int i = 0; i < HL_COMM_SLOTS; i++)
        free(self(c)->slot[i].bytes);
    MPI_Finalize();
    free(c);
}

static const struct hl_comm_ops ops = {give_index, take_index, fetch,    fetched,
                                       serve,      end,        close_mpi};

struct hl_comm *hl_comm_mpi(int *argc, char ***argv, struct hl_err *e)
{
    struct mpi_comm *m = calloc(1, sizeof *m);
    if (!m || MPI_Init(argc, argv) != MPI_SUCCESS) {
        free(m);
        hl_fail(e, HL_ERR_PEER, "MPI could not be started");
        return NULL;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &m->base.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &m->base.size);
    m->base.ops = &ops;
    return &m->base;
}

const char *hl_comm_mpi_name(char *out, size_t cap)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int n;
    MPI_Get_library_version(text, &n);
    text[strcspn(text, ",\n")] = 0;
    strncpy(out, text, cap - 1);
    out[cap - 1] = 0;
    return out;
}
