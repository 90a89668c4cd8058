/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that send as fast as they are let:
 *
 * stream  procs=N clients send bytes=N altogether, in messages of message=N bytes,
 *         64 KiB a system call, with up to 16 MiB that are not acknowledged; shared:
 *         each passes a page and a row buffer.  The messages, checksums included,
 *         are made before the start: a process has made them when it commits its
 *         frames.  Prints the nanoseconds of the monotonic clock of the start and
 *         of the last acknowledgement.  plain: the same bytes by the same system
 *         calls, but without hello and answers, to a reader that only reads.
 * storm   procs=N connections from 8 processes with a hello and a page each; start,
 *         and when all were answered.  plain: 64 bytes in place of the hello.
 * fair    procs=N clients send without an end, the last paced=N of them messages of
 *         512 bytes, each when the one before is acknowledged; one more process has
 *         greedy=N connections.  When bytes=N are acknowledged, the share of each.
 */
#include "config.h"

#include "load_modes.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { BATCH = 65536, WINDOW = 16 << 20, ROW_CELLS = 59, STORM_PROCESSES = 8 };

static int go[2];
static uint32_t *n_ready;
static int64_t *last_ns;
static const struct options *opt;

/* ---- a common start ---- */

static void begin(void)
{
    n_ready = load_shared(4096);
    last_ns = load_shared(4096);
    if (pipe(go))
        LOAD_DIE("pipe: %s", strerror(errno));
}

static void ready_and_wait(void)
{
    char c;
    close(go[1]);
    __atomic_add_fetch(n_ready, 1, __ATOMIC_ACQ_REL);
    while (read(go[0], &c, 1) < 0)
        continue;
}

static void finished(void)
{
    int64_t now = load_now_ns(), was = __atomic_load_n(last_ns, __ATOMIC_ACQUIRE);
    while (now > was && !__atomic_compare_exchange_n(last_ns, &was, now, 0,
                                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        continue;
}

static void nobody_ended(void)
{
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
        LOAD_DIE("a client ended too early");
}

static void all_ready(uint64_t n)
{
    while (__atomic_load_n(n_ready, __ATOMIC_ACQUIRE) < n) {
        nobody_ended();
        load_nap(2000);
    }
}

/* Lets n children go when all are ready; 0 when all of them ended well. */
static int run(uint64_t n)
{
    int status, bad = 0;
    all_ready(n);
    load_nap(50000);
    printf("start %lld\n", (long long)load_now_ns());
    close(go[1]);
    for (uint64_t i = 0; i < n; i++)
        bad |= wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status);
    printf("end %lld\n", (long long)*last_ns);
    return bad;
}

/* ---- stream ---- */

static uint64_t put_stream(struct load_client *c, uint8_t *out, uint64_t bytes)
{
    uint64_t n = load_put_catalog(c, out, 65536 + HL_WIRE_HEADER), row = 0;
    while (n + load_message_bytes(c) <= bytes) {
        n += load_put_rows(c, row, out + n, load_message_bytes(c));
        row += c->batch;
    }
    return n;
}

static void take_acks(struct load_client *c, int flags)
{
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used, at = 0;
    ssize_t k = recv(c->fd, c->in + c->n_in, sizeof c->in - c->n_in, flags);
    if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))
        LOAD_DIE("the collector went away");
    c->n_in += k > 0 ? (size_t)k : 0;
    for (; hl_wire_next(c->in + at, c->n_in - at, HL_FROM_COLLECTOR, HL_STATE_ANY, &h,
                        &body, &used) == 0;
         at += used)
        if (h.type == HL_MSG_REFUSED ||
            (h.type == HL_MSG_ACK && hl_decode_ack(body, h.length, &c->ring->acked)))
            LOAD_DIE("refused");
    memmove(c->in, c->in + at, c->n_in -= at);
}

static void send_all(struct load_client *c, const uint8_t *p, uint64_t n)
{
    while (c->sent < n) {
        size_t k = n - c->sent < BATCH ? (size_t)(n - c->sent) : BATCH;
        ssize_t done = send(c->fd, p + c->sent, k, MSG_NOSIGNAL);
        if (done < 0 && errno != EINTR)
            LOAD_DIE("send: %s", strerror(errno));
        c->sent += done > 0 ? (uint64_t)done : 0;
        if (opt->plain || c->sent - c->ring->acked < WINDOW / 2)
            continue;
        take_acks(c, MSG_DONTWAIT);
        while (c->sent - c->ring->acked > WINDOW)
            take_acks(c, 0);
    }
    while (!opt->plain && c->ring->acked < n)
        take_acks(c, 0);
}

static void stream(uint64_t i, uint64_t bytes)
{
    struct load_client c;
    load_init(&c, opt->socket, opt->key, load_image(opt->seed, i), (int32_t)i);
    c.start_ticks = hl_start_ticks(c.pid);
    c.width = ROW_CELLS;
    c.batch = (uint32_t)((opt->message - HL_WIRE_HEADER - HL_ROWS_HEAD) / 8 / c.width);
    c.batch = c.batch ? c.batch : 1;
    /* The stream lies in the row buffer from its beginning to its end. */
    uint64_t size = HL_ROW_BUFFER_DATA + bytes + (256 << 10);
    load_make_ring(&c, size);
    uint8_t *data = (uint8_t *)c.ring + HL_ROW_BUFFER_DATA;
    uint64_t n = put_stream(&c, data, bytes);
    if (opt->plain) {
        c.fd = load_connect_to(opt->socket);
    } else if (opt->shared) {
        load_make_page(&c);
        load_connect(&c);
    } else if ((c.fd = load_connect_to(opt->socket)) >= 0) {
        load_say_hello(&c, c.fd, HL_ROLE_FRAMES, HL_HELLO_UNSHARED, NULL, 0);
    }
    if (c.fd < 0)
        LOAD_DIE("cannot connect");
    ready_and_wait();
    c.ring->head = n;
    send_all(&c, data, n);
    finished();
    _exit(0);
}

int mode_stream(const struct options *o)
{
    opt = o;
    begin();
    for (uint64_t i = 0; i < o->procs; i++)
        if (!load_fork())
            stream(i, o->bytes / o->procs);
    return run(o->procs);
}

/* ---- storm ---- */

static void wait_answer(struct load_client *c)
{
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used;
    while (
        hl_wire_next(c->in, c->n_in, HL_FROM_COLLECTOR, HL_STATE_ANY, &h, &body, &used)) {
        ssize_t k = recv(c->fd, c->in + c->n_in, sizeof c->in - c->n_in, 0);
        if (k <= 0)
            LOAD_DIE("no answer to a hello");
        c->n_in += (size_t)k;
    }
    if (h.type != HL_MSG_HELLO_OK)
        LOAD_DIE("refused");
}

static void storm(uint64_t i, uint64_t n)
{
    static const char greeting[64] = "sixty-four bytes";
    struct load_client *c = calloc(n, sizeof *c);
    for (uint64_t k = 0; c && k < n; k++) {
        load_init(&c[k], opt->socket, opt->key, load_image(opt->seed, i * n + k), -1);
        /* As many processes: this one's start time would make each the end of
         * the one before. */
        c[k].pid = (int64_t)(1000000 + i * n + k);
        c[k].start_ticks = 1;
        if (!opt->plain) {
            load_make_page(&c[k]);
            munmap(c[k].page, HL_HEAP_PAGE_SIZE);
        }
    }
    ready_and_wait();
    for (uint64_t k = 0; c && k < n; k++) {
        c[k].fd = load_connect_to(opt->socket);
        if (opt->plain)
            load_send_fds(c[k].fd, greeting, sizeof greeting, NULL, 0);
        else
            load_say_hello(&c[k], c[k].fd, HL_ROLE_HEAP, HL_HELLO_PAGE, &c[k].page_fd, 1);
    }
    for (uint64_t k = 0; c && k < n && !opt->plain; k++)
        wait_answer(&c[k]);
    finished();
    load_nap(opt->plain ? 300000 : 0); /* the reader counts them all first */
    _exit(0);
}

int mode_storm(const struct options *o)
{
    opt = o;
    begin();
    for (uint64_t i = 0; i < STORM_PROCESSES; i++)
        if (!load_fork())
            storm(i, o->procs / STORM_PROCESSES);
    return run(STORM_PROCESSES);
}

/* ---- fair ---- */

static void fair_init(struct load_client *c, uint64_t i, int paced)
{
    load_init(c, opt->socket, opt->key, load_image(opt->seed, i), (int32_t)i);
    c->width = ROW_CELLS;
    c->batch = paced ? 1 : 136;
    c->pid = (int64_t)(1000000 + i);
    c->start_ticks = 1; /* the end of the connection is the end */
    load_make_ring(c, 1 << 20);
}

static void must(int failed)
{
    if (failed)
        LOAD_DIE("a client lost its connection");
}

static void fast(struct load_client *c)
{
    must(load_connect(c));
    ready_and_wait();
    for (;;) {
        load_commit(c, 1);
        must(load_step(c, BATCH, 1000));
    }
}

static void pace(struct load_client *c)
{
    must(load_connect(c));
    ready_and_wait();
    for (;;) {
        load_commit(c, 1);
        while (c->ring->acked < c->ring->head)
            must(load_step(c, BATCH, 1000));
    }
}

static void be_greedy(struct load_client *c, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        must(load_connect(&c[i]));
    ready_and_wait();
    for (uint64_t i = 0;; i++) {
        load_commit(&c[i % n], 15);
        must(load_step(&c[i % n], BATCH, 0));
    }
}

static uint64_t acked(const struct load_client *c)
{
    return __atomic_load_n(&c->ring->acked, __ATOMIC_ACQUIRE);
}

static void print_shares(const struct load_client *c, const uint64_t *at, uint64_t n_fast)
{
    uint64_t least = UINT64_MAX, sum = 0, least_paced = UINT64_MAX, greedy = 0;
    for (uint64_t i = 0; i < n_fast; i++) {
        sum += at[i];
        least = at[i] < least ? at[i] : least;
    }
    for (uint64_t i = n_fast; i < opt->procs; i++)
        least_paced = at[i] < least_paced ? at[i] : least_paced;
    for (uint64_t i = opt->procs; i < opt->procs + opt->greedy; i++)
        greedy += at[i];
    double mean = (double)sum / (double)n_fast;
    double even = (double)(sum + greedy) / (double)(n_fast + opt->greedy);
    printf("fair mean=%.0f least_percent=%.0f share_percent=%.0f greedy_percent=%.0f",
           mean, 100 * (double)least / mean, 100 * (double)least / even,
           opt->greedy ? 100 * (double)greedy / (double)opt->greedy / mean : 0);
    if (opt->paced) /* a turn of a fast one is at most 256 KiB */
        printf(" paced_messages=%.0f paced_percent=%.0f",
               (double)least_paced / (double)load_message_bytes(&c[n_fast]),
               100 * (double)least_paced / (double)load_message_bytes(&c[n_fast]) /
                   (mean / (256 << 10)));
    printf("\n");
}

int mode_fair(const struct options *o)
{
    uint64_t n = o->procs + o->greedy, n_fast = o->procs - o->paced, sum = 0;
    struct load_client *c = calloc(n, sizeof *c);
    pid_t *pid = calloc(n, sizeof *pid);
    uint64_t *at = calloc(n, sizeof *at), n_processes = 0;
    opt = o;
    begin();
    for (uint64_t i = 0; c && i < n; i++)
        fair_init(&c[i], i, i >= n_fast && i < o->procs);
    for (uint64_t i = 0; c && pid && i < o->procs + (o->greedy > 0); i++, n_processes++) {
        pid[i] = load_fork();
        if (pid[i])
            continue;
        if (i >= o->procs)
            be_greedy(c + i, o->greedy);
        i < n_fast ? fast(&c[i]) : pace(&c[i]);
    }
    all_ready(n_processes);
    close(go[1]);
    while (c && at && sum < o->bytes) {
        load_nap(1000);
        nobody_ended();
        sum = 0;
        for (uint64_t i = 0; i < n; i++)
            sum += at[i] = acked(&c[i]);
    }
    print_shares(c, at, n_fast);
    for (uint64_t i = 0; i < n_processes; i++)
        kill(pid[i], SIGKILL);
    while (wait(NULL) > 0)
        continue;
    free(c);
    free(pid);
    free(at);
    return 0;
}
