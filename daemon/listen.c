/* SPDX-License-Identifier: Apache-2.0
 *
 * Listening; see listen.h.
 */
#include "listen.h"

#include "ident.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096, ACCEPT_AT_ONCE = 64, RETRY_MS = 100, FIRST_PASSED_FD = 3 };

static struct sockaddr_un address(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strcpy(a.sun_path, path); /* the settings hold no longer one */
    return a;
}

/* ---- a socket from the service manager ---- */

static int is_listening_socket(int fd)
{
    struct sockaddr_un a;
    socklen_t n = sizeof a, size = sizeof(int);
    int listening = 0;
    return getsockname(fd, (struct sockaddr *)&a, &n) == 0 && a.sun_family == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening;
}

/* The first fit descriptor; others are closed.  1: there is one. */
static int take_passed(struct hl_daemon *d, struct hl_err *e)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    int64_t p, n;
    if (!pid || !fds || hl_parse_i64(pid, 1, INT32_MAX, &p) || p != getpid() ||
        hl_parse_i64(fds, 0, 1 << 20, &n) || !n)
        return 0;
    for (int fd = FIRST_PASSED_FD; fd < FIRST_PASSED_FD + n; fd++) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (d->listener.fd < 0 && is_listening_socket(fd))
            d->listener.fd = fd;
        else
            close(fd);
    }
    if (d->listener.fd < 0)
        return hl_fail(e, EINVAL,
                       "none of the %lld descriptors that were passed is a "
                       "listening Unix socket: see ListenStream= in heaplined.socket",
                       (long long)n);
    d->listener.activated = 1;
    fcntl(d->listener.fd, F_SETFL, fcntl(d->listener.fd, F_GETFL) | O_NONBLOCK);
    return 1;
}

/* ---- a socket of our own ---- */

static int somebody_answers(const struct sockaddr_un *a, long *pid)
{
    struct ucred c = {0};
    socklen_t n = sizeof c;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* A full backlog (EAGAIN) answers, too. */
    int yes = fd >= 0 && (connect(fd, (const struct sockaddr *)a, sizeof *a) == 0 ||
                          errno == EAGAIN);
    if (yes && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) == 0)
        *pid = (long)c.pid;
    if (fd >= 0)
        close(fd);
    return yes;
}

static int clear_path(struct hl_daemon *d, const struct sockaddr_un *a, struct hl_err *e)
{
    struct stat st;
    long pid = 0;
    if (lstat(a->sun_path, &st))
        return errno == ENOENT ? 0 : hl_fail_errno(e, "socket %s", a->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return hl_fail(e, EEXIST,
                       "%s exists and is no socket: remove it, or set another socket",
                       a->sun_path);
    if (somebody_answers(a, &pid))
        return hl_fail(e, EADDRINUSE, "already running: process %ld serves the socket %s",
                       pid, a->sun_path);
    if (unlink(a->sun_path))
        return hl_fail_errno(e, "cannot replace the stale socket %s", a->sun_path);
    hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL, "the stale socket %s is replaced",
           a->sun_path);
    return 0;
}

static int make_socket(struct hl_daemon *d, struct hl_err *e)
{
    struct sockaddr_un a = address(d->set.socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return hl_fail_errno(e, "cannot make a socket");
    mode_t mask = umask(0777 & ~(d->private_run ? 0600 : 0666));
    int bad = bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, BACKLOG);
    int saved = errno;
    umask(mask);
    errno = saved;
    if (bad) {
        hl_fail_errno(
            e,
            "cannot listen on the socket %s (its folder must exist, be writable "
            "for uid %u and open to clients)",
            a.sun_path, (unsigned)d->self);
        close(fd);
        return -1;
    }
    d->listener.fd = fd;
    return 0;
}

int hl_listen_open(struct hl_daemon *d, struct hl_err *e)
{
    struct sockaddr_un a = address(d->set.socket);
    int passed = take_passed(d, e);
    if (passed)
        return passed < 0 ? -1 : 0;
    return clear_path(d, &a, e) || make_socket(d, e) ? -1 : 0;
}

/* ---- accepting ---- */

static int no_descriptors(int err)
{
    return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

/* At the limit: clients wait in the backlog until descriptors return. */
static void wait_for_descriptors(struct hl_daemon *d, int err)
{
    d->count.n_no_descriptors++;
    hl_log(
        &d->log, HL_LOG_WARNING, "no descriptors", NULL,
        "cannot accept: %s; those connected are served, others wait (raise LimitNOFILE)",
        strerror(err));
    hl_watch_set(d->listener.watch, 0);
    hl_timer_set(d->listener.retry, RETRY_MS, 0);
}

int hl_listen_accept(struct hl_daemon *d)
{
    int n = 0;
    while (d->listener.fd >= 0 && n < ACCEPT_AT_ONCE) {
        int fd = accept4(d->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0) {
            if (no_descriptors(errno))
                wait_for_descriptors(d, errno);
            break;
        }
        d->count.accepted++;
        hl_peer_accept(d, fd);
        n++;
    }
    return n;
}

static void on_listener(void *ctx, int events)
{
    (void)events;
    hl_listen_accept(ctx);
}

static void on_retry(void *ctx)
{
    struct hl_daemon *d = ctx;
    if (d->listener.watch)
        hl_watch_set(d->listener.watch, HL_READABLE);
}

int hl_listen_start(struct hl_daemon *d, struct hl_err *e)
{
    struct hl_listener *l = &d->listener;
    l->retry = hl_timer_new(d->loop, on_retry, d);
    l->watch = hl_watch_new(d->loop, l->fd, on_listener, d);
    if (!l->retry || !l->watch || hl_watch_set(l->watch, HL_READABLE))
        return hl_fail(e, ENOMEM, "cannot watch the socket %s", d->set.socket);
    return 0;
}

void hl_listen_close(struct hl_daemon *d)
{
    struct hl_listener *l = &d->listener;
    hl_watch_free(l->watch, NULL);
    hl_timer_free(l->retry);
    l->watch = NULL;
    l->retry = NULL;
    if (l->fd >= 0 && !l->activated)
        unlink(d->set.socket);
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}
