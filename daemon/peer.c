/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections: bytes and descriptors in, messages checked by the table before a
 * byte of their body counts, answers out.  One callback reads one bounded piece;
 * the loop comes back for the rest after the others.  See peer.h.
 */
#include "peer.h"

#include "ctl.h"
#include "job.h"
#include "lifetime.h"
#include "process.h"
#include "quota.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    OUT_HIGH = 512 << 10, /* more waits to be sent: no further question is taken */
    PIECE = 64 << 10,
    KERNEL_FDS_MAX = 253
};

static void on_ready(void *ctx, int events);

/* ---- life ---- */

static void set_events(struct hl_peer *p)
{
    int held = p->process && hl_buf_left(&p->process->pending);
    int reading = p->closing ? !hl_buf_left(&p->out)
                             : !held && !p->indexing && hl_buf_left(&p->out) < OUT_HIGH;
    hl_watch_set(p->watch,
                 (reading ? HL_READABLE : 0) | (hl_buf_left(&p->out) ? HL_WRITABLE : 0));
}

static void on_hello_timeout(void *ctx)
{
    struct hl_peer *p = ctx;
    if (p->closing)
        hl_peer_close(p); /* has had the time to read why */
    else
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "no hello came in time");
}

static int peer_identity(struct hl_peer *p)
{
    struct ucred c;
    socklen_t n = sizeof c;
    if (getsockopt(p->fd, SOL_SOCKET, SO_PEERCRED, &c, &n))
        return -1;
    p->uid = c.uid;
    p->pid = c.pid > 0 ? c.pid : 0;
    return 0;
}

/* In the order of their coming: of two images of one process that both wait to
 * say hello, the later one must not be taken for the earlier. */
static void link_peer(struct hl_peer *p)
{
    p->prev = p->d->last_peer;
    *(p->prev ? &p->prev->next : &p->d->peers) = p;
    p->d->last_peer = p;
    p->d->n_peers++;
    p->d->n_new++;
    p->user->n_peers++;
}

static void greet(struct hl_peer *p)
{
    struct hl_err e = {0};
    struct hl_daemon *d = p->d;
    if (d->private_run && p->uid != d->self)
        hl_peer_refuse(p, HL_REFUSED_UID, "this collector serves uid %u alone",
                       (unsigned)d->self);
    else if (d->overflow_uid && p->uid == 65534)
        hl_peer_refuse(
            p, HL_REFUSED_UID,
            "your uid cannot be told from others in the collector's namespace");
    else if (hl_quota_connection(d, p->user, &e)) {
        d->count.refused_connections++;
        hl_peer_refuse(p, HL_REFUSED_LIMIT, "%s", e.text);
    }
}

void hl_peer_accept(struct hl_daemon *d, int fd)
{
    struct hl_peer *p = calloc(1, sizeof *p);
    if (!p) {
        close(fd);
        return;
    }
    p->d = d;
    p->fd = fd;
    if (peer_identity(p) || !(p->user = hl_user_of(d, p->uid)))
        goto fail;
    p->watch = hl_watch_new(d->loop, fd, on_ready, p);
    p->timer = hl_timer_new(d->loop, on_hello_timeout, p);
    if (!p->watch || !p->timer) {
        hl_user_release(d, p->user);
        goto fail;
    }
    link_peer(p);
    hl_timer_set(p->timer, (uint64_t)(d->set.hello_timeout_ns / 1000000), 0);
    set_events(p);
    greet(p);
    return;
fail:
    hl_timer_free(p->timer);
    close(fd);
    if (p->watch)
        hl_watch_free(p->watch, free);
    else
        free(p);
}

static void close_fds(struct hl_peer *p)
{
    for (int i = 0; i < p->n_fds; i++)
        close(p->fds[i]);
    p->n_fds = 0;
}

static void leave_counts(struct hl_peer *p)
{
    struct hl_daemon *d = p->d;
    d->n_peers--;
    d->n_new -= p->state == HL_PEER_NEW && !p->closing;
    if (p->state == HL_PEER_KEEPER) {
        d->n_keepers--;
        p->job->n_keepers--;
        hl_job_release(p->job);
    } else if (p->state == HL_PEER_GATHER) {
        d->n_gathers--;
        if (p->job) {
            p->job->n_gathers--;
            hl_job_release(p->job);
        }
    }
    p->job = NULL;
}

void hl_peer_detach(struct hl_peer *p)
{
    for (int i = 0; p->process && i < 2; i++)
        if (p->process->peer[i] == p)
            p->process->peer[i] = NULL;
    p->process = NULL;
}

static void leave_process(struct hl_peer *p)
{
    struct hl_process *proc = p->process;
    hl_peer_detach(p);
    if (proc)
        hl_death_peer_gone(proc);
}

static void free_peer(void *ctx)
{
    struct hl_peer *p = ctx;
    hl_control_drop(p);
    hl_buf_fini(&p->in);
    hl_buf_fini(&p->out);
    free(p);
}

void hl_peer_close(struct hl_peer *p)
{
    struct hl_daemon *d = p->d;
    if (p->state == HL_PEER_CLOSED)
        return;
    leave_counts(p);
    p->state = HL_PEER_CLOSED;
    leave_process(p);
    *(p->prev ? &p->prev->next : &d->peers) = p->next;
    *(p->next ? &p->next->prev : &d->last_peer) = p->prev;
    close_fds(p);
    hl_timer_free(p->timer);
    p->timer = NULL;
    hl_watch_free(p->watch, free_peer); /* p stays readable for callers */
    p->watch = NULL;
    close(p->fd);
    p->fd = -1;
    p->user->n_peers--; /* the last to go: jobs above still needed the user */
    hl_user_release(d, p->user);
    hl_lifetime_check(d);
}

/* ---- out ---- */

void hl_peer_flush(struct hl_peer *p)
{
    while (p->state != HL_PEER_CLOSED && hl_buf_left(&p->out)) {
        ssize_t k = send(p->fd, hl_buf_data(&p->out), hl_buf_left(&p->out),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
            hl_buf_fini(&p->out); /* the end comes out when it is read */
            break;
        }
        if (k < 0)
            break;
        hl_buf_consume(&p->out, (size_t)k);
    }
    if (p->state == HL_PEER_CLOSED)
        return;
    if (!hl_buf_left(&p->out)) {
        hl_buf_fini(&p->out);
        if (p->closing)
            shutdown(p->fd, SHUT_WR);
    }
    set_events(p);
}

void hl_peer_send(struct hl_peer *p, const uint8_t *m, int64_t n)
{
    if (p->state == HL_PEER_CLOSED || n <= 0)
        return;
    if (hl_buf_add(&p->out, m, (size_t)n)) {
        hl_peer_close(p);
        return;
    }
    hl_peer_flush(p);
}

void hl_peer_ack(struct hl_peer *p)
{
    uint8_t out[HL_WIRE_HEADER + 8];
    /* Only the newest offset is of use: while earlier ones wait, it does, too. */
    p->want_ack = hl_buf_left(&p->out) != 0;
    p->d->count.acks += !p->want_ack && p->process;
    if (!p->want_ack && p->process)
        hl_peer_send(p, out,
                     hl_encode_ack(out, sizeof out, p->process->spool.stream_bytes));
}

void hl_peer_refuse(struct hl_peer *p, enum hl_refusal code, const char *format, ...)
{
    uint8_t out[HL_WIRE_HEADER + 1024];
    struct hl_log_about about = {NULL, (int64_t)p->uid, p->pid};
    char text[400];
    va_list ap;
    if (p->closing || p->state == HL_PEER_CLOSED)
        return;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    p->d->count.n_refused++;
    hl_control_count(&p->d->count, code);
    hl_log(&p->d->log, HL_LOG_WARNING, "connections refused", &about,
           "refused process %lld of uid %u: %s", (long long)p->pid, (unsigned)p->uid,
           text);
    leave_process(p);
    p->d->n_new -= p->state == HL_PEER_NEW;
    /* Closed by the other side, who may still be sending and would else not come
     * to read this; hello_timeout bounds it. */
    p->closing = 1;
    if (!p->timer)
        p->timer = hl_timer_new(p->d->loop, on_hello_timeout, p);
    if (p->timer)
        hl_timer_set(p->timer, (uint64_t)(p->d->set.hello_timeout_ns / 1000000), 0);
    hl_peer_send(p, out, hl_encode_refused(out, sizeof out, code, text));
}

/* ---- in ---- */

static unsigned wire_state(const struct hl_peer *p)
{
    switch (p->state) {
    case HL_PEER_NEW: return HL_STATE_NEW;
    case HL_PEER_CLIENT: return HL_STATE_CLIENT;
    case HL_PEER_KEEPER: return HL_STATE_KEEPER;
    case HL_PEER_GATHER: return HL_STATE_GATHER;
    case HL_PEER_CONTROL: return HL_STATE_CONTROL;
    default: return 0;
    }
}

static void refuse_code(struct hl_peer *p, const struct hl_wire_header *h, int code)
{
    const struct hl_wire_type *t =
        code == HL_WIRE_BAD_MAGIC ? NULL : hl_wire_type(h->type);
    hl_peer_refuse(p,
                   code == HL_WIRE_BAD_VERSION ? HL_REFUSED_VERSION : HL_REFUSED_PROTOCOL,
                   "%s%s%s", t ? t->name : "", t ? ": " : "", hl_wire_strerror(code));
}

static void take_bye(struct hl_peer *p, const uint8_t *body, size_t n)
{
    struct hl_bye m;
    int code = hl_decode_bye(body, n, &m);
    if (code)
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "BYE: %s", hl_wire_strerror(code));
    else if (m.n_dropped > p->process->n_dropped)
        p->process->n_dropped = m.n_dropped;
}

static void take_record(struct hl_peer *p, const uint8_t *body, size_t n)
{
    struct hl_record_msg m;
    struct hl_process *proc = p->process;
    int code = hl_decode_record(body, n, &m);
    if (!code && (p->role != HL_ROLE_HEAP || proc->page_fd >= 0 ||
                  (proc->record && proc->record->end.kind != HL_ENDED_SAMPLED)))
        code = HL_WIRE_BAD_TYPE; /* it has a page, or said this before */
    if (code) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "RECORD: %s", hl_wire_strerror(code));
        return;
    }
    if (!proc->record)
        proc->record = malloc(sizeof m);
    if (proc->record)
        *proc->record = m;
}

static void take_message(struct hl_peer *p, const struct hl_wire_header *h,
                         const uint8_t *body)
{
    if (h->type == HL_MSG_HELLO)
        hl_hello_take(p, body, h->length);
    else if (p->state == HL_PEER_CONTROL)
        hl_control_take(p, h, body);
    else if (p->state != HL_PEER_CLIENT)
        hl_answer_take(p, h, body);
    else if (h->type == HL_MSG_BYE)
        take_bye(p, body, h->length);
    else if (h->type == HL_MSG_RECORD)
        take_record(p, body, h->length);
}

static int is_stream(const struct hl_wire_header *h)
{
    return (hl_wire_type(h->type)->where & HL_IN_STREAM) != 0;
}

/* A stream message is counted; it is appended with its neighbours.  0, or -1
 * and the connection refused. */
static int count_stream(struct hl_peer *p, const struct hl_wire_header *h,
                        const uint8_t *body)
{
    uint64_t before = p->process->tally.n_rows;
    const char *why;
    if (p->role != HL_ROLE_FRAMES) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "rows from a heap agent");
        return -1;
    }
    if (hl_tally_take(&p->process->tally, h, body, &why)) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "%s: %s", hl_wire_type(h->type)->name,
                       why);
        return -1;
    }
    p->d->count.n_rows += p->process->tally.n_rows - before;
    return 0;
}

/* Append what was counted, then acknowledge: one of each for a whole piece. */
static void append_run(struct hl_peer *p, struct hl_process *proc, const uint8_t *run,
                       size_t n)
{
    if (n && proc && hl_process_append(proc, run, n) == 0 && p->state == HL_PEER_CLIENT)
        hl_peer_ack(p);
}

static int quota_allows(struct hl_peer *p, size_t n)
{
    struct hl_err e = {0};
    if (hl_quota_bytes(p->d, p->user, n, &e) == 0)
        return 1;
    hl_peer_refuse(p, HL_REFUSED_SPACE, "%s", e.text);
    return 0;
}

/* Header and body of the next message: 0, 1 when bytes are missing, -1 refused. */
static int next_message(struct hl_peer *p, const uint8_t *at, size_t left,
                        struct hl_wire_header *h, const uint8_t **body, size_t *used)
{
    int code = hl_wire_next(at, left, HL_TO_COLLECTOR, wire_state(p), h, body, used);
    if (!code && h->length > p->d->set.max_message)
        code = HL_WIRE_BAD_LENGTH;
    if (code == HL_WIRE_SHORT)
        return 1;
    if (code)
        refuse_code(p, h, code);
    return code ? -1 : 0;
}

/* Take whole messages; returns the bytes used. */
static size_t take_messages(struct hl_peer *p, const uint8_t *bytes, size_t n)
{
    struct hl_process *proc = p->process;
    size_t at = 0, run = 0;
    if (p->role == HL_ROLE_FRAMES && proc && !quota_allows(p, n))
        return n;
    while (!p->closing && p->state != HL_PEER_CLOSED && !p->indexing) {
        struct hl_wire_header h = {0};
        const uint8_t *body;
        size_t used;
        if (hl_buf_left(&p->out) >= OUT_HIGH ||
            next_message(p, bytes + at, n - at, &h, &body, &used))
            break;
        p->d->count.n_messages++;
        if (p->state == HL_PEER_CLIENT && is_stream(&h)) {
            if (count_stream(p, &h, body))
                break;
        } else {
            append_run(p, proc, bytes + run, at - run);
            take_message(p, &h, body);
            proc = p->process;
            run = at + used;
        }
        at += used;
    }
    append_run(p, proc, bytes + run, at - run);
    return p->closing || p->state == HL_PEER_CLOSED ? n : at;
}

static void take_descriptors(struct hl_peer *p, struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (p->state == HL_PEER_NEW && !p->closing && p->n_fds < HL_PEER_FDS) {
                p->fds[p->n_fds++] = fd;
            } else {
                p->bad_fds = 1;
                close(fd);
            }
        }
    }
    if (m->msg_flags & MSG_CTRUNC)
        p->bad_fds = 1;
}

static ssize_t receive(struct hl_peer *p, uint8_t *to, size_t n)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(KERNEL_FDS_MAX * sizeof(int))];
    } control;
    struct iovec v = {to, n};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    ssize_t k;
    do
        k = recvmsg(p->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (k < 0 && errno == EINTR);
    if (k >= 0)
        take_descriptors(p, &m);
    return k;
}

/* Into the shared scratch while nothing is left over from before; what is not
 * a whole message is kept. */
static ssize_t read_scratch(struct hl_peer *p)
{
    struct hl_daemon *d = p->d;
    ssize_t k = receive(p, d->scratch, HL_SCRATCH_BYTES);
    if (k <= 0)
        return k;
    d->scratch_busy = 1;
    size_t used = p->bad_fds ? 0 : take_messages(p, d->scratch, (size_t)k);
    d->scratch_busy = 0;
    if (used < (size_t)k && hl_buf_add(&p->in, d->scratch + used, (size_t)k - used))
        hl_peer_close(p);
    return k;
}

static ssize_t read_buffered(struct hl_peer *p)
{
    if (hl_buf_reserve(&p->in, PIECE)) {
        hl_peer_close(p);
        return 0;
    }
    ssize_t k = receive(p, p->in.p + p->in.n, PIECE);
    if (k <= 0)
        return k;
    p->in.n += (size_t)k;
    if (!p->bad_fds)
        hl_peer_resume(p);
    return k;
}

/* 1: bytes came; 0: none for now; -1: closed. */
static int read_once(struct hl_peer *p)
{
    int whole = !hl_buf_left(&p->in) && !p->d->scratch_busy;
    ssize_t k = whole ? read_scratch(p) : read_buffered(p);
    int err = errno;
    if (p->state == HL_PEER_CLOSED)
        return -1;
    if (p->bad_fds) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL,
                       "descriptors that do not belong to a hello, or too many");
        return -1;
    }
    if (k > 0)
        p->d->count.n_bytes += (uint64_t)k;
    if (k > 0 || (k < 0 && (err == EAGAIN || err == EWOULDBLOCK)))
        return k > 0;
    hl_peer_close(p);
    return -1;
}

void hl_peer_resume(struct hl_peer *p)
{
    size_t n = hl_buf_left(&p->in);
    if (n) {
        size_t used = take_messages(p, hl_buf_data(&p->in), n);
        if (p->state == HL_PEER_CLOSED)
            return;
        hl_buf_consume(&p->in, used);
    }
    if (!hl_buf_left(&p->in))
        hl_buf_fini(&p->in);
    set_events(p);
}

static int may_read(const struct hl_peer *p)
{
    return p->state != HL_PEER_CLOSED && !p->closing && !p->indexing &&
           hl_buf_left(&p->out) < OUT_HIGH &&
           !(p->process && hl_buf_left(&p->process->pending));
}

int hl_peer_drain(struct hl_peer *p, size_t max)
{
    uint64_t until = p->d->count.n_bytes + max;
    while (may_read(p)) {
        int r = read_once(p);
        if (r <= 0)
            return r;
        if (p->d->count.n_bytes >= until)
            return 1;
    }
    return p->state == HL_PEER_CLOSED ? -1 : 0;
}

/* What a refused client still sends is nobody's. */
static void discard(struct hl_peer *p)
{
    ssize_t k = receive(p, p->d->scratch, HL_SCRATCH_BYTES);
    if (k == 0 || (k < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
        hl_peer_close(p);
}

static void on_ready(void *ctx, int events)
{
    struct hl_peer *p = ctx;
    if (p->closing && events & HL_READABLE) {
        discard(p);
        return;
    }
    if (events & HL_WRITABLE) {
        hl_peer_flush(p);
        if (p->state == HL_PEER_CONTROL)
            hl_control_continue(p);
        else if (p->state != HL_PEER_CLOSED && p->indexing)
            hl_answer_continue(p);
        if (p->state != HL_PEER_CLOSED && p->want_ack)
            hl_peer_ack(p);
        if (may_read(p) && hl_buf_left(&p->in))
            hl_peer_resume(p);
    }
    if (events & HL_READABLE && may_read(p))
        read_once(p);
    if (p->state != HL_PEER_CLOSED)
        set_events(p);
}
