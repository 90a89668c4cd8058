/* SPDX-License-Identifier: Apache-2.0
 *
 * A gather over MPI, one process a node.  The only file of the daemon side
 * that includes mpi.h.  Everything is non-blocking and waited for with a bound,
 * so that a lost node ends the gather instead of hanging it; where MPI itself
 * offers no such call (its start and its end) an alarm is the bound.  Large
 * messages go in parts: no count ever has to be more than an int.
 */
#include "comm.h"

#include "ident.h"

#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAG_HELLO = 1, TAG_INDEX_SIZE, TAG_INDEX, TAG_ASK, TAG_PIECE, TAG_BEAT };
enum { PART = 16 << 20, WORDS = 4, SPINS = 100, PAUSE_MAX_NS = 500000 };
enum { DO_END = 100 }; /* beside enum hl_ask_kind */
enum { END_PATIENCE_S = 10 };

struct mpi_comm {
    struct hl_comm base;
    char (*host)[HL_HOST_MAX + 1]; /* rank 0: of each process, "" not yet */
    double *heard;                 /* when each was last heard of; [0] elsewhere */
    double beaten;                 /* when we last told the others */
    MPI_Request *beat;             /* to each process; [0] elsewhere */
    MPI_Request beat_in;           /* rank 0: from any process; else from rank 0 */
    uint64_t beat_word, beat_in_word;
    struct {
        MPI_Request ask, piece;
        uint64_t words[WORDS]; /* what was asked; stays until the send is done */
        int from;
        uint8_t *bytes;
    } slot[HL_SLOTS];
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

/* ---- the alarm, for calls of MPI that cannot be bounded ---- */

static volatile sig_atomic_t alarm_status;
static const char *volatile alarm_text;

static void on_alarm(int sig)
{
    (void)sig;
    if (alarm_text && write(2, alarm_text, strlen(alarm_text)) < 0)
        _exit(1);
    _exit(alarm_status);
}

static void bound_call(unsigned seconds, int status, const char *text)
{
    alarm_status = status;
    alarm_text = text;
    signal(SIGALRM, on_alarm);
    alarm(seconds);
}

/* ---- signs of life ---- */

static int lost(struct mpi_comm *m, int process, struct hl_err *e)
{
    const char *host = m->host && m->host[process][0] ? m->host[process] : NULL;
    m->base.lost = process;
    if (host)
        return hl_fail(e, ETIMEDOUT, "node %s did not answer for %d s", host,
                       HL_COMM_PATIENCE_S);
    return hl_fail(e, ETIMEDOUT, "process %d of the gather did not answer for %d s",
                   process, HL_COMM_PATIENCE_S);
}

static void send_beats(struct mpi_comm *m)
{
    int first = m->base.rank ? 0 : 1, end = m->base.rank ? 1 : m->base.size;
    for (int to = first; to < end; to++) {
        int done = 1;
        if (m->beat[to] != MPI_REQUEST_NULL)
            MPI_Test(&m->beat[to], &done, MPI_STATUS_IGNORE);
        if (done)
            MPI_Isend(&m->beat_word, 8, MPI_BYTE, to, TAG_BEAT, MPI_COMM_WORLD,
                      &m->beat[to]);
    }
}

static void expect_beat(struct mpi_comm *m)
{
    MPI_Irecv(&m->beat_in_word, 8, MPI_BYTE, m->base.rank ? 0 : MPI_ANY_SOURCE, TAG_BEAT,
              MPI_COMM_WORLD, &m->beat_in);
}

static void take_beats(struct mpi_comm *m, double now)
{
    for (;;) {
        MPI_Status st;
        int done = 0;
        if (MPI_Test(&m->beat_in, &done, &st) != MPI_SUCCESS || !done)
            return;
        m->heard[st.MPI_SOURCE] = now;
        expect_beat(m);
    }
}

static int tick(struct hl_comm *c, struct hl_err *e)
{
    struct mpi_comm *m = self(c);
    double now = now_s();
    take_beats(m, now);
    if (now - m->beaten < HL_COMM_BEAT_S)
        return 0;
    m->beaten = now;
    send_beats(m);
    int first = c->rank ? 0 : 1, behind = c->rank ? 1 : c->size;
    for (int i = first; i < behind; i++)
        if (now - m->heard[i] > HL_COMM_PATIENCE_S)
            return lost(m, i, e);
    return 0;
}

/* ---- waiting ---- */

struct pause {
    int spins;
    long ns;
};

static void pause_a_little(struct pause *p)
{
    if (p->spins++ < SPINS) {
        sched_yield();
        return;
    }
    p->ns = p->ns < PAUSE_MAX_NS ? p->ns + 10000 : p->ns;
    nanosleep(&(struct timespec){0, p->ns}, NULL);
}

/* Wait for a request that process `peer` has to answer. */
static int wait_for(struct mpi_comm *m, MPI_Request *r, MPI_Status *st, int peer,
                    struct hl_err *e)
{
    struct pause p = {0};
    for (;;) {
        int done = 0;
        if (MPI_Test(r, &done, st) != MPI_SUCCESS) {
            m->base.lost = peer;
            return hl_fail(e, HL_ERR_PEER, "process %d of the gather failed", peer);
        }
        if (done) {
            m->heard[peer] = now_s();
            return 0;
        }
        if (p.spins >= SPINS && tick(&m->base, e))
            return -1;
        pause_a_little(&p);
    }
}

static int send_bytes(struct mpi_comm *m, const void *p, size_t n, int to, int tag,
                      struct hl_err *e)
{
    MPI_Request r;
    MPI_Status st;
    MPI_Isend(p, (int)n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &r);
    return wait_for(m, &r, &st, to, e);
}

static int receive_bytes(struct mpi_comm *m, void *p, size_t n, int from, int tag,
                         struct hl_err *e)
{
    MPI_Request r;
    MPI_Status st;
    MPI_Irecv(p, (int)n, MPI_BYTE, from, tag, MPI_COMM_WORLD, &r);
    return wait_for(m, &r, &st, from, e);
}

/* ---- hello and index ---- */

static int greet(struct mpi_comm *m, const char *own, struct hl_err *e)
{
    char name[HL_HOST_MAX + 1] = "";
    memcpy(name, own, strnlen(own, HL_HOST_MAX));
    if (m->base.rank)
        return send_bytes(m, name, sizeof name, 0, TAG_HELLO, e);
    memcpy(m->host[0], name, sizeof name);
    for (int i = 1; i < m->base.size; i++) {
        if (receive_bytes(m, name, sizeof name, i, TAG_HELLO, e))
            return -1;
        name[HL_HOST_MAX] = 0;
        memcpy(m->host[i], name, sizeof name);
    }
    return 0;
}

static const char *host(struct hl_comm *c, int process)
{
    struct mpi_comm *m = self(c);
    return m->host && m->host[process][0] ? m->host[process] : NULL;
}

static int give_index(struct hl_comm *c, const struct hl_buf *index, struct hl_err *e)
{
    uint64_t n = hl_buf_left(index);
    if (send_bytes(self(c), &n, sizeof n, 0, TAG_INDEX_SIZE, e))
        return -1;
    for (uint64_t at = 0; at < n; at += PART)
        if (send_bytes(self(c), hl_buf_data(index) + at, n - at < PART ? n - at : PART, 0,
                       TAG_INDEX, e))
            return -1;
    return 0;
}

static int take_index(struct hl_comm *c, int from, struct hl_buf *out, struct hl_err *e)
{
    uint64_t n;
    if (receive_bytes(self(c), &n, sizeof n, from, TAG_INDEX_SIZE, e))
        return -1;
    if (hl_buf_reserve(out, n))
        return hl_fail(e, ENOMEM, "no memory for the index of node %s (%llu bytes)",
                       self(c)->host[from], (unsigned long long)n);
    for (uint64_t at = 0; at < n; at += PART)
        if (receive_bytes(self(c), out->p + out->n + at, n - at < PART ? n - at : PART,
                          from, TAG_INDEX, e))
            return -1;
    out->n += n;
    return 0;
}

/* ---- pieces, rank 0 ---- */

static int ask(struct hl_comm *c, int from, int slot, const struct hl_want *want,
               struct hl_err *e)
{
    struct mpi_comm *m = self(c);
    uint64_t *w = m->slot[slot].words;
    if (!m->slot[slot].bytes && !(m->slot[slot].bytes = malloc(HL_PIECE_MAX)))
        return hl_fail(e, ENOMEM, "no memory left");
    w[0] = want->kind;
    w[1] = want->unit;
    w[2] = want->offset;
    w[3] = want->n;
    m->slot[slot].from = from;
    MPI_Irecv(m->slot[slot].bytes, HL_PIECE_MAX, MPI_BYTE, from, TAG_PIECE,
              MPI_COMM_WORLD, &m->slot[slot].piece);
    MPI_Isend(w, 8 * WORDS, MPI_BYTE, from, TAG_ASK, MPI_COMM_WORLD, &m->slot[slot].ask);
    return 0;
}

static int answer(struct hl_comm *c, int slot, const uint8_t **p, uint64_t *n,
                  struct hl_err *e)
{
    struct mpi_comm *m = self(c);
    const uint64_t *w = m->slot[slot].words;
    MPI_Status st;
    int got, from = m->slot[slot].from;
    if (wait_for(m, &m->slot[slot].ask, &st, from, e) ||
        wait_for(m, &m->slot[slot].piece, &st, from, e))
        return -1;
    MPI_Get_count(&st, MPI_BYTE, &got);
    int is_piece = w[0] == HL_WANT_RECORDS ? got > 0 : !got || (uint64_t)got == w[3];
    if (!is_piece)
        return hl_fail(e, HL_ERR_PEER, "node %s could not read its data", m->host[from]);
    *p = m->slot[slot].bytes;
    *n = (uint64_t)got;
    return 0;
}

/* ---- pieces, the other processes ---- */

struct serving {
    struct mpi_comm *m;
    const struct hl_server *server;
    MPI_Request order, sent[HL_SLOTS];
    uint64_t words[WORDS];
    struct hl_want want[HL_SLOTS];
    int fault[HL_SLOTS];
    uint64_t n_begun, n_ended;
    int ended, outcome;
};

static void expect_order(struct serving *s)
{
    MPI_Irecv(s->words, 8 * WORDS, MPI_BYTE, 0, TAG_ASK, MPI_COMM_WORLD, &s->order);
}

/* Begin what was asked; its slot's last bytes must have gone out before. */
static int begin_piece(struct serving *s, struct hl_err *e)
{
    int slot = (int)(s->n_begun++ % HL_SLOTS);
    struct hl_want w = {s->words[0], s->words[1], s->words[2], s->words[3]};
    MPI_Status st;
    if (s->sent[slot] != MPI_REQUEST_NULL && wait_for(s->m, &s->sent[slot], &st, 0, e))
        return -1;
    struct hl_err why = {0};
    s->want[slot] = w;
    s->fault[slot] = s->server->begin(s->server->ctx, slot, &w, &why);
    if (s->fault[slot] && e)
        *e = why;
    return 0;
}

/* Take the orders that have come.  1 when there was any. */
static int take_orders(struct serving *s, struct hl_err *e)
{
    int any = 0, done = 1;
    while (!s->ended && s->n_begun - s->n_ended < HL_SLOTS) {
        if (MPI_Test(&s->order, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return hl_fail(e, HL_ERR_PEER, "rank 0 of the gather failed");
        if (!done)
            break;
        any = 1;
        s->m->heard[0] = now_s();
        if (s->words[0] == DO_END) {
            s->ended = 1;
            s->outcome = (int)s->words[1];
        } else if (begin_piece(s, e)) {
            return -1;
        }
        if (!s->ended)
            expect_order(s);
    }
    return any;
}

/* The size of an answer that says: this node can give no data at all.  That of one
 * process's data is 0. */
static int no_size(const struct hl_want *w)
{
    return w->kind == HL_WANT_RECORDS ? 0 : w->n == 1 ? 2 : 1;
}

/* A node that can give nothing is reported by rank 0. */
static void end_piece(struct serving *s, struct hl_err *e)
{
    int slot = (int)(s->n_ended++ % HL_SLOTS);
    const uint8_t *p = NULL;
    uint64_t n = 0;
    struct hl_err why = {0};
    if (s->fault[slot] || s->server->end(s->server->ctx, slot, &p, &n, &why)) {
        static const uint8_t none[2];
        p = none;
        n = (uint64_t)no_size(&s->want[slot]);
        if (e && why.code)
            *e = why;
    }
    MPI_Isend(p, (int)n, MPI_BYTE, 0, TAG_PIECE, MPI_COMM_WORLD, &s->sent[slot]);
}

static int serve(struct hl_comm *c, const struct hl_server *server, int *outcome,
                 struct hl_err *e)
{
    struct serving s = {.m = self(c), .server = server};
    struct pause p = {0};
    int any;
    for (int i = 0; i < HL_SLOTS; i++)
        s.sent[i] = MPI_REQUEST_NULL;
    s.m->heard[0] = now_s();
    expect_order(&s);
    while (!s.ended) {
        if ((any = take_orders(&s, e)) < 0)
            return -1;
        if (s.n_begun > s.n_ended) {
            end_piece(&s, e);
            any = 1;
        }
        if (tick(c, e))
            return -1;
        if (any) {
            p = (struct pause){0};
            continue;
        }
        int done;
        MPI_Testall(HL_SLOTS, s.sent, &done, MPI_STATUSES_IGNORE);
        pause_a_little(&p);
    }
    *outcome = s.outcome;
    return 0;
}

static int end(struct hl_comm *c, int outcome, struct hl_err *e)
{
    uint64_t w[WORDS] = {DO_END, (uint64_t)outcome};
    for (int to = 1; to < c->size; to++)
        if (send_bytes(self(c), w, sizeof w, to, TAG_ASK, e))
            return -1;
    return 0;
}

/* ---- start and end ---- */

static void free_parts(struct mpi_comm *m)
{
    for (int i = 0; i < HL_SLOTS; i++)
        free(m->slot[i].bytes);
    free(m->host);
    free(m->heard);
    free(m->beat);
    free(m);
}

static void close_mpi(struct hl_comm *c, int failed, int status)
{
    struct mpi_comm *m = self(c);
    bound_call(END_PATIENCE_S, status, NULL);
    if (failed)
        MPI_Abort(MPI_COMM_WORLD, status);
    if (m->beat_in != MPI_REQUEST_NULL) {
        MPI_Cancel(&m->beat_in);
        MPI_Wait(&m->beat_in, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    alarm(0);
    free_parts(m);
}

static int make_tables(struct mpi_comm *m)
{
    size_t n = m->base.rank ? 1 : (size_t)m->base.size;
    m->host = m->base.rank ? NULL : calloc(n, sizeof *m->host);
    m->heard = calloc(n, sizeof *m->heard);
    m->beat = calloc(n, sizeof *m->beat);
    if ((!m->host && !m->base.rank) || !m->heard || !m->beat)
        return -1;
    m->beaten = now_s();
    m->beat_in = MPI_REQUEST_NULL;
    for (size_t i = 0; i < n; i++) {
        m->heard[i] = m->beaten;
        m->beat[i] = MPI_REQUEST_NULL;
    }
    expect_beat(m);
    return 0;
}

static const struct hl_comm_ops ops = {tick,   host,  give_index, take_index, ask,
                                       answer, serve, end,        close_mpi};

static const char *env(const char *name)
{
    return getenv(name);
}

struct hl_comm *hl_comm_mpi(int *argc, char ***argv, const char *own, struct hl_err *e)
{
    struct mpi_comm *m = calloc(1, sizeof *m);
    /* Thousands of nodes need longer to meet. */
    int64_t size = hl_ident_size(env);
    bound_call(HL_COMM_PATIENCE_S + 5 + (unsigned)(size > 0 ? size / 50 : 0), 1,
               "heapline-gather: MPI did not start in time: is a node away?\n");
    int level; /* the writers' threads never call MPI */
    if (!m || MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
        free(m);
        hl_fail(e, HL_ERR_PEER, "MPI could not be started");
        return NULL;
    }
    alarm(0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &m->base.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &m->base.size);
    m->base.ops = &ops;
    m->base.lost = -1;
    if (make_tables(m))
        hl_fail(e, ENOMEM, "no memory left");
    else
        greet(m, own, e);
    return &m->base; /* with an error in e: the caller closes it as failed */
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
