/* SPDX-License-Identifier: Apache-2.0
 *
 * What forwarding costs between two processes of a gather, beside the least that
 * it could: 1 MiB messages, the next one always posted.  Both take turns in one
 * run, over the same 64 MiB of data, all of which rank 0 reads.  Prints seconds of
 * both, medians, and the ratio of speeds (aim: at least 0.7).
 *
 *   mpirun -n 2 forward [MIB] [REPEAT]
 */
#include "comm.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DATA = 64 << 20, CHUNK = 1 << 20, TAG = 1000, REPEAT_MAX = 99 };

static uint8_t *data;
static double sum;

/* As a decoder does: each cell once. */
static void use(const uint8_t *p, size_t n)
{
    double v, s = 0;
    for (size_t i = 0; i + 8 <= n; i += 8) {
        memcpy(&v, p + i, 8);
        s += v;
    }
    sum += s;
}

/* ---- bare ---- */

static void bare_send(uint64_t bytes)
{
    MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    for (uint64_t i = 0; i < bytes / CHUNK; i++) {
        MPI_Wait(&r[i & 1], MPI_STATUS_IGNORE);
        MPI_Isend(data + i * CHUNK % DATA, CHUNK, MPI_BYTE, 0, TAG, MPI_COMM_WORLD,
                  &r[i & 1]);
    }
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void bare_receive(uint64_t bytes)
{
    static uint8_t *b[2];
    MPI_Request r[2];
    uint64_t n = bytes / CHUNK;
    for (int i = 0; i < 2 && !b[i]; i++)
        b[i] = malloc(CHUNK);
    MPI_Irecv(b[0], CHUNK, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &r[0]);
    for (uint64_t i = 0; i < n; i++) {
        if (i + 1 < n)
            MPI_Irecv(b[(i + 1) & 1], CHUNK, MPI_BYTE, 1, TAG, MPI_COMM_WORLD,
                      &r[(i + 1) & 1]);
        MPI_Wait(&r[i & 1], MPI_STATUS_IGNORE);
        use(b[i & 1], CHUNK);
    }
}

/* ---- as the gather does ---- */

static struct hl_want asked[HL_SLOTS];

static int begin(void *ctx, int slot, const struct hl_want *want, struct hl_err *e)
{
    (void)ctx, (void)e;
    asked[slot] = *want;
    return 0;
}

static int end(void *ctx, int slot, const uint8_t **p, uint64_t *n, struct hl_err *e)
{
    (void)ctx, (void)e;
    *p = data + asked[slot].offset % DATA;
    *n = asked[slot].n;
    return 0;
}

static int serve(struct hl_comm *c, struct hl_err *e)
{
    const struct hl_server server = {begin, end, NULL};
    int outcome;
    return c->ops->serve(c, &server, &outcome, e);
}

static int pull(struct hl_comm *c, uint64_t bytes, struct hl_err *e)
{
    uint64_t n = bytes / HL_PIECE_MAX, asked_for = 0, got;
    const uint8_t *p;
    for (uint64_t i = 0; i < n; i++) {
        for (; asked_for < n && asked_for - i < HL_SLOTS; asked_for++) {
            struct hl_want w = {HL_WANT_STREAM, 0, asked_for * HL_PIECE_MAX,
                                HL_PIECE_MAX};
            if (c->ops->ask(c, 1, (int)(asked_for % HL_SLOTS), &w, e))
                return -1;
        }
        if (c->ops->tick(c, e) || c->ops->answer(c, (int)(i % HL_SLOTS), &p, &got, e))
            return -1;
        use(p, got);
    }
    return c->ops->end(c, 0, e);
}

/* ---- both ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static int turn(struct hl_comm *c, uint64_t bytes, double *bare, double *ours,
                struct hl_err *e)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double t0 = MPI_Wtime();
    if (c->rank)
        bare_send(bytes);
    else
        bare_receive(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double t1 = MPI_Wtime();
    if (c->rank ? serve(c, e) : pull(c, bytes, e))
        return -1;
    MPI_Barrier(MPI_COMM_WORLD);
    *bare = t1 - t0;
    *ours = MPI_Wtime() - t1;
    return 0;
}

int main(int argc, char **argv)
{
    struct hl_err e = {0};
    double bare[REPEAT_MAX], ours[REPEAT_MAX];
    uint64_t bytes = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1024) << 20;
    int repeat = argc > 2 ? atoi(argv[2]) : 5, bad = 0;
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    struct hl_comm *c = hl_comm_mpi(&argc, &argv, host, &e);
    if (!c || e.code || c->size != 2 || repeat < 1 || repeat > REPEAT_MAX) {
        fprintf(stderr, "forward: %s\n", e.code ? e.text : "wants mpirun -n 2");
        return 1;
    }
    data = malloc(DATA);
    for (size_t i = 0; data && i < DATA; i++)
        data[i] = (uint8_t)(i * 7 & 0x3f);
    bad = !data;
    for (int i = 0; i < repeat && !bad; i++)
        bad = turn(c, bytes, &bare[i], &ours[i], &e);
    if (!bad && !c->rank) {
        double b = median(bare, repeat), o = median(ours, repeat);
        printf("forward %llu MiB: bare %.3f s  ours %.3f s  speed %.2f of it (aim at "
               "least 0.7)  %g\n",
               (unsigned long long)(bytes >> 20), b, o, b / o, sum);
    }
    free(data);
    c->ops->close(c, bad, bad);
    return bad;
}
