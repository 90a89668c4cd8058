/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to a collector; see conn.h.
 */
#include "conn.h"

#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static int open_socket(struct hl_conn *c)
{
    c->fd = hl_high_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (c->fd < 0)
        return -errno;
    c->id = hl_fd_id(c->fd);
    c->n_in = 0;
    return 0;
}

/* Anyone can make a socket below /tmp: only our own uid is believed there. */
static int peer_is_trusted(int fd, const char *path)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    if (strncmp(path, "/tmp/", 5))
        return 1;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
           peer.uid == geteuid();
}

static int connect_to(struct hl_conn *c, const struct hl_setup *s, const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof a.sun_path) {
        hl_say(s, "the socket's path %s is longer than 107 bytes", path);
        return -ENAMETOOLONG;
    }
    memcpy(a.sun_path, path, n);
    if (hl_sys_connect(c->fd, (struct sockaddr *)&a, sizeof a))
        return -errno;
    if (peer_is_trusted(c->fd, path))
        return 0;
    hl_say(s, "%s belongs to another user, not used", path);
    return -EPERM;
}

static int send_hello(struct hl_conn *c, const struct hl_hello *hello, int buffer_fd)
{
    uint8_t bytes[HL_HELLO_CAP];
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.space = {0}};
    int64_t n = hl_encode_hello(bytes, sizeof bytes, hello);
    if (n < 0)
        return -EINVAL;
    struct iovec v = {bytes, (size_t)n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    if (buffer_fd >= 0) {
        m.msg_control = control.space;
        m.msg_controllen = sizeof control.space;
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(h), &buffer_fd, sizeof buffer_fd);
    }
    ssize_t sent = hl_sys_sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == n)
        return 0;
    return sent < 0 && errno != EAGAIN ? -errno : -EIO;
}

int hl_conn_open(struct hl_conn *c, const struct hl_setup *s, const char *path,
                 const struct hl_hello *hello, int buffer_fd)
{
    int e = open_socket(c);
    if (e)
        return e;
    if ((e = connect_to(c, s, path)) == 0 && (e = send_hello(c, hello, buffer_fd)) == 0) {
        c->state = HL_CONN_GREETED;
        return 0;
    }
    close(c->fd);
    c->fd = -1;
    return e;
}

void hl_conn_close(struct hl_conn *c)
{
    if (c->state == HL_CONN_CLOSED)
        return;
    if (hl_fd_is(c->fd, c->id))
        close(c->fd);
    c->fd = -1;
    c->state = HL_CONN_CLOSED;
}

static enum hl_answer broken(struct hl_conn *c)
{
    hl_conn_close(c);
    return HL_ANSWER_BROKEN;
}

static enum hl_answer told_ok(struct hl_conn *c, const struct hl_setup *s,
                              const uint8_t *body, size_t n, uint64_t *offset)
{
    struct hl_hello_ok ok;
    if (c->state != HL_CONN_GREETED || hl_decode_hello_ok(body, n, &ok))
        return broken(c);
    if (ok.version < HL_WIRE_VERSION_MIN || ok.version > HL_WIRE_VERSION) {
        hl_say(s, "the collector speaks wire version %u, this library %d to %d",
               ok.version, HL_WIRE_VERSION_MIN, HL_WIRE_VERSION);
        hl_conn_close(c);
        return HL_ANSWER_REFUSED;
    }
    c->state = HL_CONN_OPEN;
    *offset = ok.appended;
    return HL_ANSWER_OK;
}

static enum hl_answer told_refused(struct hl_conn *c, const struct hl_setup *s,
                                   const uint8_t *body, size_t n)
{
    struct hl_refused no;
    if (hl_decode_refused(body, n, &no))
        return broken(c);
    hl_say(s, "the collector refused: %.*s", (int)no.text.n, no.text.p);
    hl_conn_close(c);
    return HL_ANSWER_REFUSED;
}

/* It costs nobody a row: how long to wait is the sender's to know. */
static enum hl_answer told_held(struct hl_conn *c, const struct hl_setup *s,
                                const uint8_t *body, size_t n)
{
    struct hl_held m;
    if (hl_decode_held(body, n, &m))
        return broken(c);
    hl_say(s, "%.*s", (int)m.text.n, m.text.p);
    return HL_ANSWER_HELD;
}

static enum hl_answer take(struct hl_conn *c, const struct hl_setup *s, uint64_t *offset)
{
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used;
    int e = hl_wire_next(c->in, c->n_in, HL_FROM_COLLECTOR, HL_STATE_CLIENT, &h, &body,
                         &used);
    if (e == HL_WIRE_SHORT)
        return c->n_in == sizeof c->in ? broken(c) : HL_ANSWER_NONE;
    if (e)
        return broken(c);
    enum hl_answer a;
    if (h.type == HL_MSG_HELLO_OK)
        a = told_ok(c, s, body, h.length, offset);
    else if (h.type == HL_MSG_REFUSED)
        a = told_refused(c, s, body, h.length);
    else if (h.type == HL_MSG_ACK && c->state == HL_CONN_OPEN &&
             !hl_decode_ack(body, h.length, offset))
        a = HL_ANSWER_ACK;
    else if (h.type == HL_MSG_HELD)
        a = told_held(c, s, body, h.length);
    else
        a = broken(c);
    c->n_in -= used;
    memmove(c->in, c->in + used, c->n_in);
    return a;
}

static int is_ours(struct hl_conn *c)
{
    if (c->state != HL_CONN_CLOSED && hl_fd_is(c->fd, c->id))
        return 1;
    hl_conn_close(c);
    return 0;
}

enum hl_answer hl_conn_next(struct hl_conn *c, const struct hl_setup *s, uint64_t *offset)
{
    enum hl_answer a;
    if (!is_ours(c))
        return HL_ANSWER_BROKEN;
    while ((a = take(c, s, offset)) == HL_ANSWER_NONE) {
        ssize_t n =
            hl_sys_recv(c->fd, c->in + c->n_in, sizeof c->in - c->n_in, MSG_DONTWAIT);
        if (n > 0)
            c->n_in += (size_t)n;
        else if (n < 0 && errno == EAGAIN)
            return HL_ANSWER_NONE;
        else if (!(n < 0 && errno == EINTR))
            return broken(c);
    }
    return a;
}

ssize_t hl_conn_send(struct hl_conn *c, struct iovec *v, int n)
{
    struct msghdr m = {.msg_iov = v, .msg_iovlen = (size_t)n};
    ssize_t sent;
    if (!is_ours(c))
        return -1;
    do
        sent = hl_sys_sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return sent;
    if (errno == EAGAIN || errno == ENOBUFS)
        return 0;
    hl_conn_close(c);
    return -1;
}

void hl_conn_wait(struct hl_conn *c, int for_room, int64_t ns)
{
    struct pollfd p = {.fd = c->state == HL_CONN_CLOSED ? -1 : c->fd,
                       .events = (short)(POLLIN | (for_room ? POLLOUT : 0))};
    int64_t ms = (ns + 999999) / 1000000;
    hl_sys_poll(&p, 1, ms > 1000 ? 1000 : (int)ms); /* callers look at the clock */
}
