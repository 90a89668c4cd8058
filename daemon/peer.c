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
#include "session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    OUT_HIGH = 512 << 10, /* more waits to be sent: no further question is taken */
    READ_AT_ONCE = 256 << 10,
    KERNEL_FDS_MAX = 253,
    SMALL_MAX = 4096 /* bytes of a body outside the stream */
};

static void on_ready(void *ctx, int events);
static int read_once(struct hl_peer *p, int receives);

/* ---- life ---- */

static int may_read(const struct hl_peer *p)
{
    const struct hl_process *proc = p->process;
    if (!p->d->scanned && p->state > HL_PEER_CLIENT)
        return 0; /* what it asks for may not be known yet */
    if (p->d->deaf && p->state == HL_PEER_CLIENT)
        return 0;
    return p->state != HL_PEER_CLOSED && !p->closing && !p->indexing && !p->want_ok &&
           hl_buf_left(&p->out) < OUT_HIGH && !(proc && (proc->failing || proc->loading));
}

static void set_events(struct hl_peer *p)
{
    int reading = p->closing ? !hl_buf_left(&p->out) : may_read(p) && !p->parked;
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
    else if (hl_quota_connection(d, p->user, &e))
        hl_peer_refuse(p, HL_REFUSED_LIMIT, "%s", e.text);
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
    d->count.accepted++;
    link_peer(p);
    hl_timer_set(p->timer, (uint64_t)(d->set.hello_timeout_ns / 1000000), 0);
    set_events(p);
    greet(p);
    if (may_read(p)) /* most have said hello by now */
        read_once(p, 1);
    if (p->state != HL_PEER_CLOSED)
        set_events(p);
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
            if (!p->job->n_gathers)
                hl_job_fold(p->job);
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

static void unpark_one(struct hl_peer *p)
{
    struct hl_peer **at = &p->d->parked;
    if (!p->parked)
        return;
    while (*at != p)
        at = &(*at)->next_parked;
    *at = p->next_parked;
    if (!*at)
        p->d->parked_end = at;
    p->parked = 0;
}

static void free_peer(void *ctx)
{
    struct hl_peer *p = ctx;
    free(p->key);
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
    hl_answer_peer_gone(p);
    hl_control_drop(p);
    unpark_one(p);
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
            hl_buf_fini(&p->out);
            if (p->state != HL_PEER_CLIENT) /* its end comes out when it is read */
                hl_peer_close(p);
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
    if (!p->process || p->closing || p->want_ok ||
        hl_append_done_with(p->process) == p->acked)
        return;
    /* Only the newest offset is of use: while earlier ones wait, it does, too. */
    p->want_ack = hl_buf_left(&p->out) != 0;
    if (p->want_ack)
        return;
    p->acked = hl_append_done_with(p->process);
    p->d->count.acks++;
    hl_peer_send(p, out, hl_encode_ack(out, sizeof out, p->acked));
}

void hl_peer_tell_held(struct hl_peer *p, int reason)
{
    uint8_t out[HL_WIRE_HEADER + 1024];
    char text[200];
    if (p->closing || p->want_ok || p->told_held == (reason != 0))
        return;
    p->told_held = reason != 0;
    if (reason)
        snprintf(text, sizeof text,
                 "rows wait: the collector cannot write its spool now (%s)",
                 strerror(reason));
    else
        snprintf(text, sizeof text, "the collector writes its spool again");
    hl_peer_send(p, out, hl_encode_held(out, sizeof out, (uint32_t)reason, text));
}

static void count_refusal(struct hl_counters *c, enum hl_refusal code)
{
    switch (code) { /* limits are counted where they are met */
    case HL_REFUSED_VERSION: c->refused_version++; break;
    case HL_REFUSED_PROTOCOL: c->refused_protocol++; break;
    case HL_REFUSED_SPACE: c->refused_space++; break;
    case HL_REFUSED_UID: c->refused_uid++; break;
    case HL_REFUSED_DRAINING: c->refused_draining++; break;
    default: break;
    }
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
    count_refusal(&p->d->count, code);
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

static struct hl_session session_of(const struct hl_peer *p)
{
    static const enum hl_wire_state states[] = {[HL_PEER_NEW] = HL_STATE_NEW,
                                                [HL_PEER_CLIENT] = HL_STATE_CLIENT,
                                                [HL_PEER_KEEPER] = HL_STATE_KEEPER,
                                                [HL_PEER_GATHER] = HL_STATE_GATHER,
                                                [HL_PEER_CONTROL] = HL_STATE_CONTROL};
    return (struct hl_session){states[p->state], p->role, (uint32_t)p->d->set.max_message,
                               p->process ? &p->process->tally : NULL};
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
    m.n_points = 0; /* they are counted here */
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

static int quota_allows(struct hl_peer *p, size_t n)
{
    struct hl_err e = {0};
    if (hl_quota_bytes(p->d, p->user, n, &e) == 0)
        return 1;
    hl_peer_refuse(p, HL_REFUSED_SPACE, "%s", e.text);
    return 0;
}

/* Stream messages at the start of n bytes in the batch are taken; returns their
 * bytes, *e: what comes behind them. */
static size_t take_stream(struct hl_peer *p, const uint8_t *room, size_t n,
                          struct hl_event *e)
{
    const struct hl_session s = session_of(p);
    uint64_t before = s.tally ? s.tally->n_rows : 0;
    size_t at = 0;
    for (;;) {
        hl_session_next(&s, room + at, n - at, e);
        if (e->kind != HL_EVENT_SHORT && e->kind != HL_EVENT_REFUSED)
            p->d->count.messages++, p->user->n_messages++;
        if (e->kind != HL_EVENT_STREAM)
            break;
        at += e->used;
    }
    if (s.tally)
        p->d->count.rows += s.tally->n_rows - before;
    return at;
}

static int keep_bytes(struct hl_peer *p, const uint8_t *bytes, size_t n)
{
    hl_buf_fini(&p->in);
    if (!n || hl_buf_add(&p->in, bytes, n) == 0)
        return 0;
    hl_peer_close(p);
    return -1;
}

/* A message outside the stream; others may be read on its account, so nothing of
 * this one may lie in the batch any more. */
static void take_other(struct hl_peer *p, const struct hl_event *e, const uint8_t *rest,
                       size_t n)
{
    uint8_t body[SMALL_MAX];
    if (e->h.length > sizeof body) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "a message that is too long");
        return;
    }
    memcpy(body, e->body, e->h.length);
    if (keep_bytes(p, rest, n) == 0)
        take_message(p, &e->h, body);
}

/* n bytes in the batch: take what is whole, keep the rest.  1: some of the rest
 * may be whole. */
static int take_bytes(struct hl_peer *p, const uint8_t *room, size_t n)
{
    struct hl_event e;
    int is_client = p->role == HL_ROLE_FRAMES && p->process;
    struct hl_err err = {0};
    if (is_client && !quota_allows(p, n))
        return 0;
    uint64_t before = is_client ? p->process->tally.n_rows : 0;
    size_t used = take_stream(p, room, n, &e);
    if (used && hl_append_read(p->process, room, used)) {
        p->process->n_lost += p->process->tally.n_rows - before;
        p->process->lost_reason = ENOMEM;
        hl_peer_refuse(p, HL_REFUSED_SPACE, "the collector cannot keep more of you");
        return 0;
    }
    if (used && p->process->discards)
        hl_peer_ack(p);
    if (hl_quota_rate(p->d, p->user, &err))
        hl_peer_refuse(p, HL_REFUSED_LIMIT, "%s", err.text);
    else if (e.kind == HL_EVENT_REFUSED)
        hl_peer_refuse(p, e.code, "%s", e.why);
    else if (e.kind == HL_EVENT_SHORT)
        keep_bytes(p, room + used, n - used);
    else
        take_other(p, &e, room + used + e.used, n - used - e.used);
    return e.kind == HL_EVENT_MESSAGE && p->state != HL_PEER_CLOSED &&
           hl_buf_left(&p->in) && may_read(p);
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

static void park(struct hl_peer *p)
{
    if (p->parked)
        return;
    p->parked = 1;
    p->next_parked = NULL;
    *p->d->parked_end = p;
    p->d->parked_end = &p->next_parked;
    set_events(p);
}

static ssize_t receive_behind(struct hl_peer *p, uint8_t *room, size_t have, size_t kept)
{
    size_t most = have - kept < READ_AT_ONCE ? have - kept : READ_AT_ONCE;
    ssize_t k = receive(p, room + kept, most);
    if (k > 0)
        p->d->count.bytes += (uint64_t)k;
    return k;
}

/* The end of the connection, or that nothing has come: as read_once. */
static int nothing_came(struct hl_peer *p, ssize_t k, int err)
{
    if (k < 0 && (err == EAGAIN || err == EWOULDBLOCK))
        return 0;
    hl_peer_close(p);
    return -1;
}

/* Rows are read to where they are written from.  All else needs little room, and must
 * be answered while the disk takes nothing. */
static uint8_t *room_for(const struct hl_peer *p, size_t *have)
{
    static uint8_t small[64 << 10];
    if (p->state == HL_PEER_CLIENT && p->role == HL_ROLE_FRAMES)
        return hl_append_room(p->d, have);
    *have = sizeof small;
    return small;
}

/* What was kept from before and, if receives, what has come.  1: bytes were taken;
 * 0: none for now; -1: closed or refused; HL_DRAIN_NO_ROOM. */
static int read_once(struct hl_peer *p, int receives)
{
    int again;
    do {
        size_t have, kept = hl_buf_left(&p->in), got = 0;
        uint8_t *room = room_for(p, &have);
        if (!room) {
            park(p);
            return HL_DRAIN_NO_ROOM;
        }
        if (kept)
            memcpy(room, hl_buf_data(&p->in), kept);
        if (receives && kept == have) { /* no message is that long */
            hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "a message that is too long");
            return -1;
        }
        if (receives) {
            ssize_t k = receive_behind(p, room, have, kept);
            if (k <= 0 && !p->bad_fds)
                return nothing_came(p, k, errno);
            got = k > 0 ? (size_t)k : 0;
        }
        if (p->bad_fds) {
            hl_peer_refuse(p, HL_REFUSED_PROTOCOL,
                           "descriptors that do not belong to a hello, or too many");
            return -1;
        }
        again = take_bytes(p, room, kept + got);
        receives = 0;
    } while (again);
    return p->state == HL_PEER_CLOSED || p->closing ? -1 : 1;
}

void hl_peer_resume(struct hl_peer *p)
{
    if (p->state != HL_PEER_CLOSED && may_read(p) && hl_buf_left(&p->in))
        read_once(p, 0);
    if (p->state != HL_PEER_CLOSED)
        set_events(p);
}

int hl_peer_drain(struct hl_peer *p, size_t max)
{
    uint64_t until = p->d->count.bytes + max;
    while (may_read(p)) {
        int r = read_once(p, 1);
        if (r <= 0 || r == HL_DRAIN_NO_ROOM)
            return r;
        if (p->d->count.bytes >= until)
            return 1;
    }
    return p->state == HL_PEER_CLOSED ? -1 : 0;
}

void hl_peer_unpark(struct hl_daemon *d)
{
    size_t have;
    while (d->parked && hl_append_room(d, &have)) {
        struct hl_peer *p = d->parked;
        unpark_one(p);
        if (may_read(p))
            read_once(p, 1);
        if (p->state != HL_PEER_CLOSED)
            set_events(p);
    }
    hl_death_go_on(d);
}

/* What a refused client still sends is nobody's. */
static void discard(struct hl_peer *p)
{
    uint8_t nowhere[4096];
    ssize_t k = receive(p, nowhere, sizeof nowhere);
    if (k == 0 || (k < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
        hl_peer_close(p);
}

static void on_writable(struct hl_peer *p)
{
    hl_peer_flush(p);
    if (p->state == HL_PEER_CONTROL)
        hl_control_continue(p);
    else if (p->state != HL_PEER_CLOSED && p->indexing)
        hl_answer_continue(p);
    if (p->state != HL_PEER_CLOSED && p->want_ack)
        hl_peer_ack(p);
    if (p->state != HL_PEER_CLOSED && may_read(p) && hl_buf_left(&p->in))
        hl_peer_resume(p);
}

static void on_ready(void *ctx, int events)
{
    struct hl_peer *p = ctx;
    if (p->closing && events & HL_READABLE) {
        discard(p);
        return;
    }
    if (events & HL_WRITABLE)
        on_writable(p);
    if (events & HL_READABLE && may_read(p) && !p->parked)
        read_once(p, 1);
    if (p->state != HL_PEER_CLOSED)
        set_events(p);
}
