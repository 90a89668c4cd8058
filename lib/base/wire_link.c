/* SPDX-License-Identifier: Apache-2.0
 *
 * A tool's connection to a collector; see wire_link.h.
 */
#include "wire_link.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MS = 30000, READ_BYTES = 65536, BACKLOG_PAUSE_MS = 50 };

/* ---- waiting ---- */

static int silent(const struct hl_link *l, int64_t waited_ns, struct hl_err *e)
{
    return hl_fail(e, ETIMEDOUT,
                   "the collector at %s did not answer within %lld s: see its log",
                   l->path, (long long)(waited_ns / 1000000000));
}

/* Until fd (-1: nothing) is ready or the time has come (-1: never): 1, 0, or -1. */
static int wait_until(const struct hl_link *l, int fd, short events, int64_t when_ns,
                      struct hl_err *e)
{
    struct pollfd p = {fd, events, 0};
    int64_t left = when_ns - hl_mono_ns();
    struct timespec t = {0, 0};
    if (left > 0)
        t = (struct timespec){(time_t)(left / 1000000000), (long)(left % 1000000000)};
    int r = ppoll(&p, 1, when_ns < 0 ? NULL : &t, l->wait.mask);
    if (r < 0 && errno == EINTR)
        return l->wait.stop && *l->wait.stop ? hl_fail(e, EINTR, "interrupted") : 1;
    if (r < 0)
        return hl_fail_errno(e, "cannot wait for the collector at %s", l->path);
    return r;
}

/* ---- open ---- */

static int cannot_reach(const struct hl_link *l, struct hl_err *e)
{
    int absent = errno == ENOENT || errno == ECONNREFUSED, code = errno;
    hl_fail_errno(e, "cannot reach the collector at %s", l->path);
    if (absent)
        hl_fail(e, code, "cannot reach the collector at %s: %s; is heaplined running?",
                l->path, strerror(code));
    return -1;
}

/* Without blocking, as a full backlog would; what follows may block again. */
static int connect_to(struct hl_link *l, struct hl_err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int64_t until = hl_mono_ns() + l->wait.patience_ns;
    strcpy(a.sun_path, l->path);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return hl_fail_errno(e, "cannot make a socket");
    while (connect(l->fd, (struct sockaddr *)&a, sizeof a)) {
        if (errno != EAGAIN && errno != EINTR)
            return cannot_reach(l, e);
        if (hl_mono_ns() >= until)
            return silent(l, l->wait.patience_ns, e);
        if (wait_until(l, -1, 0, hl_mono_ns() + BACKLOG_PAUSE_MS * 1000000, e) < 0)
            return -1;
    }
    fcntl(l->fd, F_SETFL, fcntl(l->fd, F_GETFL) & ~O_NONBLOCK);
    return 0;
}

int hl_link_open_with(struct hl_link *l, const char *path, int64_t uid_wanted,
                      const struct hl_link_wait *wait, struct hl_err *e)
{
    struct ucred c;
    socklen_t n = sizeof c;
    *l = (struct hl_link){.fd = -1, .wait = *wait};
    if (strlen(path) >= sizeof l->path)
        return hl_fail(e, ENAMETOOLONG,
                       "socket %.120s: the path is longer than 107 bytes", path);
    strcpy(l->path, path);
    if (connect_to(l, e)) {
        hl_link_close(l);
        return -1;
    }
    if (uid_wanted >= 0 && (getsockopt(l->fd, SOL_SOCKET, SO_PEERCRED, &c, &n) ||
                            (int64_t)c.uid != uid_wanted)) {
        hl_link_close(l);
        return hl_fail(e, EPERM, "the collector at %s belongs to another user", path);
    }
    return 0;
}

int hl_link_open(struct hl_link *l, const char *path, int64_t uid_wanted,
                 struct hl_err *e)
{
    static const struct hl_link_wait wait = {(int64_t)ANSWER_MS * 1000000, NULL, NULL};
    return hl_link_open_with(l, path, uid_wanted, &wait, e);
}

void hl_link_close(struct hl_link *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    hl_buf_fini(&l->in);
}

int hl_link_send(struct hl_link *l, const uint8_t *p, int64_t n, struct hl_err *e)
{
    int64_t until = hl_mono_ns() + l->wait.patience_ns;
    if (n < 0)
        return hl_fail(e, EINVAL, "a message for the collector is too long");
    while (n > 0) {
        ssize_t k = send(l->fd, p, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && errno != EINTR && errno != EAGAIN)
            return hl_fail_errno(e, "the collector at %s went away", l->path);
        if (k < 0 && hl_mono_ns() >= until)
            return silent(l, l->wait.patience_ns, e);
        if (k < 0 && wait_until(l, l->fd, POLLOUT, until, e) < 0)
            return -1;
        p += k > 0 ? k : 0;
        n -= k > 0 ? k : 0;
    }
    return 0;
}

/* ---- answers ---- */

static int receive(struct hl_link *l, struct hl_err *e)
{
    if (hl_buf_reserve(&l->in, READ_BYTES))
        return hl_fail(e, ENOMEM, "no memory left");
    ssize_t k = recv(l->fd, l->in.p + l->in.n, READ_BYTES, MSG_DONTWAIT);
    if (k < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (k <= 0)
        return hl_fail(e, HL_ERR_PEER, "the collector at %s closed the connection",
                       l->path);
    l->in.n += (size_t)k;
    return 0;
}

static int refused(struct hl_link *l, const uint8_t *body, size_t n, struct hl_err *e)
{
    struct hl_refused r;
    char text[200] = "no reason given";
    if (hl_decode_refused(body, n, &r) == 0)
        hl_printable(r.text.p, r.text.n, text, sizeof text);
    return hl_fail(e, HL_ERR_PEER, "the collector at %s refuses: %s", l->path, text);
}

int hl_link_next(struct hl_link *l, struct hl_wire_header *h, const uint8_t **body,
                 int timeout_ms, struct hl_err *e)
{
    int64_t timeout_ns = (int64_t)timeout_ms * 1000000;
    int64_t until = timeout_ms < 0 ? -1 : hl_mono_ns() + timeout_ns;
    for (;;) {
        size_t used;
        int r = hl_wire_next(hl_buf_data(&l->in), hl_buf_left(&l->in), HL_FROM_COLLECTOR,
                             HL_STATE_ANY, h, body, &used);
        if (r == 0) {
            /* Only the position moves: the body stays where it is until the
             * next call reads more. */
            l->in.head += used;
            return h->type == HL_MSG_REFUSED ? refused(l, *body, h->length, e) : 0;
        }
        if (r != HL_WIRE_SHORT)
            return hl_fail(e, HL_ERR_FORMAT,
                           "what answers at %s is no collector of this version: %s",
                           l->path, hl_wire_strerror(r));
        hl_buf_consume(&l->in, 0);
        r = wait_until(l, l->fd, POLLIN, until, e);
        if (r == 0)
            return silent(l, timeout_ns, e);
        if (r < 0 || receive(l, e))
            return -1;
    }
}

int hl_link_hello(struct hl_link *l, enum hl_role role, const char *key, int64_t pid,
                  struct hl_err *e)
{
    uint8_t out[HL_HELLO_CAP];
    char host[HL_HOST_MAX + 1] = "";
    struct hl_wire_header h;
    const uint8_t *body;
    gethostname(host, HL_HOST_MAX);
    struct hl_hello m = {.wire_min = HL_WIRE_VERSION_MIN,
                         .wire_max = HL_WIRE_VERSION,
                         .role = (uint8_t)role,
                         .pid = pid,
                         .start_ticks = hl_start_ticks(pid),
                         .rank = -1,
                         .size = -1,
                         .key = {key, strlen(key)},
                         .host = {host, strlen(host)},
                         .job = {"", 0},
                         .app_version = {"", 0}};
    if (hl_link_send(l, out, hl_encode_hello(out, sizeof out, &m), e) ||
        hl_link_next(l, &h, &body, (int)(l->wait.patience_ns / 1000000), e))
        return -1;
    if (h.type != HL_MSG_HELLO_OK)
        return hl_fail(e, HL_ERR_FORMAT, "the collector at %s gave a wrong answer",
                       l->path);
    return 0;
}

int hl_link_state(struct hl_link *l, struct hl_state *out, struct hl_err *e)
{
    uint8_t ask[HL_WIRE_HEADER];
    struct hl_wire_header h;
    const uint8_t *body;
    if (hl_link_send(l, ask, hl_encode_state_ask(ask, sizeof ask), e) ||
        hl_link_next(l, &h, &body, ANSWER_MS, e))
        return -1;
    if (h.type != HL_MSG_STATE || hl_decode_state(body, h.length, out))
        return hl_fail(e, HL_ERR_FORMAT, "the collector at %s gave a wrong answer",
                       l->path);
    return 0;
}

uint64_t hl_start_ticks(int64_t pid)
{
    char name[64], text[1024];
    snprintf(name, sizeof name, "/proc/%lld/stat", (long long)pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    /* The name in field 2 may hold anything: count from its last ')'. */
    char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}
