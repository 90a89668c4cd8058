/* SPDX-License-Identifier: Apache-2.0
 *
 * A collector as a thread of the test: appends whole messages, acknowledges,
 * and misbehaves as told; see test_client.h.
 */
#include "test_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static void say(struct fake *f, const uint8_t *p, int64_t n)
{
    ck_assert_int_gt(n, 0);
    if (send(f->conn, p, (size_t)n, MSG_NOSIGNAL) < 0 && errno != EPIPE &&
        errno != ECONNRESET)
        abort();
}

static void hang_up(struct fake *f)
{
    if (f->conn >= 0)
        close(f->conn);
    f->conn = -1;
    f->n_in = 0;
    f->n_conn = 0;
}

static void greet(struct fake *f, const uint8_t *body, size_t n)
{
    uint8_t out[1100];
    if (hl_decode_hello(body, n, &f->hello))
        abort();
    f->n_hellos++;
    snprintf(f->app_version, sizeof f->app_version, "%.*s", (int)f->hello.app_version.n,
             f->hello.app_version.p);
    snprintf(f->key, sizeof f->key, "%.*s", (int)f->hello.key.n, f->hello.key.p);
    if (f->mute)
        return;
    if (f->refuse) {
        say(f, out, hl_encode_refused(out, sizeof out, f->refuse, "not today"));
        hang_up(f);
        return;
    }
    f->n -= f->forget;
    f->forget = 0;
    struct hl_hello_ok m = {HL_WIRE_VERSION, f->claim ? f->claim : f->n};
    say(f, out, hl_encode_hello_ok(out, sizeof out, &m));
}

static void append(struct fake *f, const uint8_t *p, size_t n)
{
    if (f->n + n > f->cap) {
        f->cap = 2 * (f->n + n);
        f->stream = realloc(f->stream, f->cap);
        if (!f->stream)
            abort();
    }
    memcpy(f->stream + f->n, p, n);
    f->n += n;
}

/* Take whole messages; what is left waits for more. */
static void digest(struct fake *f)
{
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used, at = 0, before = f->n;
    uint8_t out[64];
    while (f->conn >= 0 &&
           hl_wire_next(f->in + at, f->n_in - at, HL_TO_COLLECTOR,
                        HL_STATE_CLIENT | HL_STATE_NEW, &h, &body, &used) == 0) {
        if (h.type == HL_MSG_HELLO)
            greet(f, body, h.length);
        else if (h.type == HL_MSG_BYE)
            f->n_byes += hl_decode_bye(body, h.length, &f->bye) == 0;
        else
            append(f, f->in + at, used);
        at += used;
    }
    if (f->conn < 0)
        return;
    f->n_in -= at;
    memmove(f->in, f->in + at, f->n_in);
    if (f->n > before && !f->no_ack)
        say(f, out, hl_encode_ack(out, sizeof out, f->n));
}

static void take_fd(struct fake *f, struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
        if (c->cmsg_type == SCM_RIGHTS) {
            if (f->buffer_fd >= 0)
                close(f->buffer_fd);
            memcpy(&f->buffer_fd, CMSG_DATA(c), sizeof f->buffer_fd);
        }
}

static void receive(struct fake *f)
{
    char control[64];
    if (f->cap_in < f->n_in + 65536) {
        f->cap_in = 2 * f->cap_in + 131072;
        f->in = realloc(f->in, f->cap_in);
    }
    size_t most = 65536;
    if (f->close_every && f->close_every - f->n_conn < most)
        most = f->close_every - f->n_conn;
    struct iovec v = {f->in + f->n_in, most};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof control};
    ssize_t n = recvmsg(f->conn, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            hang_up(f);
        return;
    }
    take_fd(f, &m);
    f->n_in += (size_t)n;
    f->n_conn += (size_t)n;
    digest(f);
    if (f->close_every && f->n_conn >= f->close_every && f->conn >= 0) {
        f->n_breaks++;
        hang_up(f);
    }
}

static void take_connection(struct fake *f)
{
    int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    hang_up(f);
    f->conn = fd;
}

static void *serve(void *arg)
{
    struct fake *f = arg;
    for (;;) {
        fake_lock(f);
        int idle = f->no_read && f->n_hellos;
        struct pollfd p[3] = {{f->wake[0], POLLIN, 0},
                              {f->listener, POLLIN, 0},
                              {idle ? -1 : f->conn, POLLIN, 0}};
        fake_unlock(f);
        poll(p, 3, idle ? 5 : -1);
        if (p[0].revents)
            return NULL;
        fake_lock(f);
        /* What came on the old connection before it ended is taken first. */
        if (p[2].revents && f->conn >= 0)
            receive(f);
        else if (p[1].revents)
            take_connection(f);
        fake_unlock(f);
    }
}

/* Everything that was sent before is read. */
static void finish(struct fake *f)
{
    do {
        struct pollfd p = {f->conn, POLLIN, 0};
        while (f->conn >= 0 && poll(&p, 1, 1000) > 0)
            receive(f);
        hang_up(f);
        p.fd = f->listener;
        if (poll(&p, 1, 0) > 0)
            take_connection(f);
    } while (f->conn >= 0);
}

struct fake *fake_new(const char *name)
{
    struct fake *f = calloc(1, sizeof *f);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    f->conn = f->buffer_fd = -1;
    pthread_mutex_init(&f->lock, NULL);
    snprintf(f->path, sizeof f->path, "%s", in_folder(name));
    strcpy(a.sun_path, f->path);
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(f->listener, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(listen(f->listener, 5), 0);
    ck_assert_int_eq(pipe(f->wake), 0);
    ck_assert_int_eq(pthread_create(&f->thread, NULL, serve, f), 0);
    return f;
}

void fake_lock(struct fake *f)
{
    pthread_mutex_lock(&f->lock);
}

void fake_unlock(struct fake *f)
{
    pthread_mutex_unlock(&f->lock);
}

void fake_stop(struct fake *f)
{
    if (f->listener < 0)
        return;
    ck_assert_int_eq(write(f->wake[1], "", 1), 1);
    pthread_join(f->thread, NULL);
    finish(f);
    close(f->listener);
    f->listener = -1;
    unlink(f->path);
}

void fake_free(struct fake *f)
{
    fake_stop(f);
    if (f->buffer_fd >= 0)
        close(f->buffer_fd);
    close(f->wake[0]);
    close(f->wake[1]);
    free(f->stream);
    free(f->in);
    free(f);
}

struct seen *fake_seen(struct fake *f)
{
    fake_lock(f);
    struct seen *s = see(f->stream, f->n);
    fake_unlock(f);
    return s;
}
