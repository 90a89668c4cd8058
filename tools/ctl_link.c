/* SPDX-License-Identifier: Apache-2.0
 *
 * heaplinectl's connection.  Nothing here waits without a bound: a collector that
 * hangs, or sends a byte now and then, is given up.
 */
#include "heaplinectl.h"

#include "clock.h"
#include "messages.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 65536, BACKLOG_PAUSE_MS = 50 };

struct ctl_message {
    struct ctl_message *next;
    uint8_t body[];
};

/* ---- waiting ---- */

static int64_t patience_ns(const struct ctl_link *l)
{
    return (int64_t)(l->patience_ms ? l->patience_ms : CTL_PATIENCE_MS) * 1000000;
}

static int silent(const struct ctl_link *l, struct hl_err *e)
{
    return hl_fail(e, ETIMEDOUT,
                   "the collector at %s does not answer within %lld s: see its log",
                   l->path, (long long)(patience_ns(l) / 1000000000));
}

/* Until fd (-1: nothing) is readable or the time has come: 1, 0, or -1. */
static int wait_until(const struct ctl_link *l, int fd, int64_t when, struct hl_err *e)
{
    struct pollfd p = {fd, POLLIN, 0};
    int64_t left = when - hl_mono_ns();
    struct timespec t = {0, 0};
    if (left > 0)
        t = (struct timespec){(time_t)(left / 1000000000), (long)(left % 1000000000)};
    int r = ppoll(&p, 1, &t, l->mask);
    if (r < 0 && errno == EINTR)
        return l->stop && *l->stop ? hl_fail(e, EINTR, "interrupted") : 1;
    if (r < 0)
        return hl_fail_errno(e, "cannot wait for the collector at %s", l->path);
    return r;
}

/* ---- open ---- */

void ctl_link_close(struct ctl_link *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    hl_buf_fini(&l->in);
}

static int cannot_reach(const struct ctl_link *l, struct hl_err *e)
{
    int absent = errno == ENOENT || errno == ECONNREFUSED;
    hl_fail_errno(e, "cannot reach the collector at %s", l->path);
    if (absent)
        hl_fail(e, e->code, "cannot reach the collector at %s: %s; is heaplined running?",
                l->path, strerror(e->code));
    return -1;
}

/* A full backlog is waited for like an answer. */
static int connect_to(struct ctl_link *l, const char *path, struct hl_err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int64_t until = hl_mono_ns() + patience_ns(l);
    if (strlen(path) >= sizeof a.sun_path)
        return hl_fail(e, ENAMETOOLONG, "socket %.120s...: longer than 107 bytes", path);
    strcpy(a.sun_path, path);
    strcpy(l->path, path);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return hl_fail_errno(e, "cannot make a socket");
    while (connect(l->fd, (struct sockaddr *)&a, sizeof a)) {
        if (errno != EAGAIN && errno != EINTR)
            return cannot_reach(l, e);
        if (hl_mono_ns() >= until)
            return silent(l, e);
        if (wait_until(l, -1, hl_mono_ns() + BACKLOG_PAUSE_MS * 1000000, e) < 0)
            return -1;
    }
    return 0;
}

/* ---- messages ---- */

/* Questions are small: they find room, or the collector reads nothing. */
static int send_all(struct ctl_link *l, const uint8_t *p, int64_t n, struct hl_err *e)
{
    if (n < 0)
        return hl_fail(e, EINVAL, "the question is too long");
    ssize_t k = send(l->fd, p, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (k == n)
        return 0;
    if (k >= 0 || errno == EAGAIN)
        return silent(l, e);
    return hl_fail_errno(e, "the collector at %s went away", l->path);
}

static int receive(struct ctl_link *l, struct hl_err *e)
{
    hl_buf_consume(&l->in, 0);
    if (hl_buf_reserve(&l->in, READ_BYTES))
        return hl_fail(e, ENOMEM, "no memory left");
    ssize_t k = recv(l->fd, l->in.p + l->in.n, READ_BYTES, MSG_DONTWAIT);
    if (k < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (k <= 0)
        return hl_fail(e, HL_ERR_PEER, "the collector at %s closed the connection",
                       l->path);
    l->in.n += (size_t)k;
    return 0;
}

static int refused(struct ctl_link *l, const uint8_t *body, size_t n, struct hl_err *e)
{
    struct hl_refused r;
    char text[150] = "no reason given";
    if (hl_decode_refused(body, n, &r) == 0)
        hl_printable(r.text.p, r.text.n, text, sizeof text);
    return hl_fail(e, HL_ERR_PEER, "the collector at %s refuses: %s", l->path, text);
}

/* The next message; its body stays until the next call. */
static int next_message(struct ctl_link *l, struct hl_wire_header *h,
                        const uint8_t **body, int64_t until, struct hl_err *e)
{
    for (;;) {
        size_t used;
        int r = hl_wire_next(hl_buf_data(&l->in), hl_buf_left(&l->in), HL_FROM_COLLECTOR,
                             HL_STATE_ANY, h, body, &used);
        if (r == 0) {
            l->in.head += used; /* the bytes stay in place */
            return h->type == HL_MSG_REFUSED ? refused(l, *body, h->length, e) : 0;
        }
        if (r != HL_WIRE_SHORT)
            return hl_fail(e, HL_ERR_FORMAT,
                           "what answers at %s is no collector of this version: %s",
                           l->path, hl_wire_strerror(r));
        if (hl_mono_ns() >= until)
            return silent(l, e);
        r = wait_until(l, l->fd, until, e);
        if (r < 0 || (r && receive(l, e)))
            return -1;
    }
}

static int say_hello(struct ctl_link *l, struct hl_err *e)
{
    static const char key[] = "heaplinectl";
    uint8_t out[HL_HELLO_CAP];
    struct hl_wire_header h;
    const uint8_t *body;
    struct hl_str none = {"", 0};
    struct hl_hello m = {.wire_min = HL_WIRE_VERSION_MIN,
                         .wire_max = HL_WIRE_VERSION,
                         .role = HL_ROLE_CONTROL,
                         .pid = getpid(),
                         .rank = -1,
                         .size = -1,
                         .key = {key, sizeof key - 1},
                         .host = none,
                         .job = none,
                         .app_version = none};
    if (send_all(l, out, hl_encode_hello(out, sizeof out, &m), e) ||
        next_message(l, &h, &body, hl_mono_ns() + patience_ns(l), e))
        return -1;
    if (h.type != HL_MSG_HELLO_OK)
        return hl_fail(e, HL_ERR_FORMAT, "the collector at %s gave a wrong answer",
                       l->path);
    return 0;
}

int ctl_link_open(struct ctl_link *l, const char *path, struct hl_err *e)
{
    if (connect_to(l, path, e) == 0 && say_hello(l, e) == 0)
        return 0;
    ctl_link_close(l);
    return -1;
}

int ctl_link_open_any(struct ctl_link *l, struct hl_err *e)
{
    const char *list = l->sockets;
    char path[4096];
    int tried = 0;
    while (*list) {
        size_t n = l->is_list ? strcspn(list, ":") : strlen(list);
        if (n && n < sizeof path) {
            memcpy(path, list, n);
            path[n] = 0;
            tried = 1;
            if (ctl_link_open(l, path, e) == 0)
                return 0;
            if (l->stop && *l->stop)
                return -1;
        }
        list += n + (list[n] == ':');
    }
    return tried ? -1
                 : hl_fail(e, EINVAL, "%s names no socket: set it, or use --socket",
                           l->is_list ? "HEAPLINE_SOCKET" : "--socket");
}

/* ---- answers ---- */

void ctl_answer_fini(struct ctl_answer *a)
{
    struct ctl_message *m;
    while ((m = a->messages)) {
        a->messages = m->next;
        free(m);
    }
    free(a->job);
    free(a->live);
    free(a->user);
    memset(a, 0, sizeof *a);
}

static const uint8_t *keep(struct ctl_answer *a, const uint8_t *body, size_t n)
{
    struct ctl_message *m = malloc(sizeof *m + n + 1);
    if (!m)
        return NULL;
    memcpy(m->body, body, n);
    m->next = a->messages;
    a->messages = m;
    return m->body;
}

/* Room for one more; NULL: no memory. */
static void *one_more(void **list, size_t n, size_t *cap, size_t size)
{
    if (n == *cap) {
        size_t more = *cap ? 2 * *cap : 64;
        void *q = realloc(*list, more * size);
        if (!q)
            return NULL;
        *list = q;
        *cap = more;
    }
    return (char *)*list + n * size;
}

/* 1: the answer is whole; 0: there is more; negative: an HL_WIRE_ code, or
 * HL_WIRE_NO_SPACE without memory. */
static int take(struct ctl_answer *a, unsigned type, const uint8_t *body, size_t n)
{
    void *at, *list;
    int code = HL_WIRE_BAD_TYPE;
    if (!(body = keep(a, body, n)))
        return HL_WIRE_NO_SPACE;
    switch (type) {
    case HL_MSG_STATUS: a->has_status = 1; return hl_decode_status(body, n, &a->status);
    case HL_MSG_JOB:
        list = a->job;
        at = one_more(&list, a->n_jobs, &a->cap[0], sizeof *a->job);
        a->job = list;
        code = at ? hl_decode_job_line(body, n, at) : HL_WIRE_NO_SPACE;
        a->n_jobs += !code;
        return code;
    case HL_MSG_LIVE:
        list = a->live;
        at = one_more(&list, a->n_live, &a->cap[1], sizeof *a->live);
        a->live = list;
        code = at ? hl_decode_live_line(body, n, at) : HL_WIRE_NO_SPACE;
        a->n_live += !code;
        return code;
    case HL_MSG_USER:
        list = a->user;
        at = one_more(&list, a->n_users, &a->cap[2], sizeof *a->user);
        a->user = list;
        code = at ? hl_decode_user_line(body, n, at) : HL_WIRE_NO_SPACE;
        a->n_users += !code;
        return code;
    case HL_MSG_DONE: code = hl_decode_done(body, n, &a->done); return code ? code : 1;
    default: return code;
    }
}

int ctl_link_ask(struct ctl_link *l, uint32_t what, const char *arg,
                 struct ctl_answer *out, struct hl_err *e)
{
    uint8_t ask[HL_CONTROL_CAP];
    struct hl_wire_header h;
    const uint8_t *body;
    struct hl_ask m = {what, {arg, strlen(arg)}};
    int64_t last = hl_mono_ns() + (int64_t)CTL_ANSWER_MAX_MS * 1000000;
    ctl_answer_fini(out);
    if (send_all(l, ask, hl_encode_ask(ask, sizeof ask, &m), e))
        return -1;
    for (;;) {
        int64_t until = hl_mono_ns() + patience_ns(l);
        if (next_message(l, &h, &body, until < last ? until : last, e))
            return -1;
        int r = take(out, h.type, body, h.length);
        if (r > 0)
            return 0;
        if (r == HL_WIRE_NO_SPACE)
            return hl_fail(e, ENOMEM, "no memory left");
        if (r < 0)
            return hl_fail(e, HL_ERR_FORMAT,
                           "the collector at %s gave a wrong answer: %s", l->path,
                           hl_wire_strerror(r));
    }
}
