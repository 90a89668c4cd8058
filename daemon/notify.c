/* SPDX-License-Identifier: Apache-2.0
 *
 * Talking to the service manager; see notify.h.
 */
#include "notify.h"

#include "clock.h"
#include "ident.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { READY_WAIT_MS = 2000, EXTEND_US = 10000000 };

static int notify_sock = -1;

/* The address in NOTIFY_SOCKET; its size, or 0. */
static socklen_t manager_address(struct sockaddr_un *a)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t n = path ? strlen(path) : 0;
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n < 2 || n >= sizeof a->sun_path || (path[0] != '/' && path[0] != '@'))
        return 0;
    memcpy(a->sun_path, path, n);
    if (path[0] == '@') /* the abstract namespace */
        a->sun_path[0] = 0;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

/* A manager that was started anew has another socket behind the same name. */
static int reach(int sock)
{
    struct sockaddr_un a;
    socklen_t n = manager_address(&a);
    return n ? connect(sock, (struct sockaddr *)&a, n) : -1;
}

int hl_notify_fd(void)
{
    struct sockaddr_un a;
    if (notify_sock >= 0 || !manager_address(&a))
        return notify_sock;
    notify_sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify_sock >= 0)
        reach(notify_sock); /* if it fails now, the send tries again */
    return notify_sock;
}

void hl_notify_close(void)
{
    if (notify_sock >= 0)
        close(notify_sock);
    notify_sock = -1;
}

int hl_notify_send(int sock, const char *text, size_t n, int fd)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec v = {(void *)(uintptr_t)text, n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control.room;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    ssize_t r = sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (r < 0 && (errno == ECONNREFUSED || errno == ENOTCONN) && reach(sock) == 0)
        r = sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    return r < 0 ? -errno : 0;
}

void hl_notify(const char *format, ...)
{
    char text[512];
    va_list ap;
    int sock = hl_notify_fd();
    if (sock < 0)
        return;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    struct pollfd p = {sock, POLLOUT, 0};
    if (hl_notify_send(sock, text, strlen(text), -1) == -EAGAIN &&
        strncmp(text, "READY", 5) == 0 && poll(&p, 1, READY_WAIT_MS) > 0)
        hl_notify_send(sock, text, strlen(text), -1);
}

void hl_notify_progress(void)
{
    static int64_t last_ns;
    int64_t now = hl_mono_ns();
    if (last_ns && now - last_ns < 1000000000)
        return;
    last_ns = now;
    hl_notify("EXTEND_TIMEOUT_USEC=%d", EXTEND_US);
}

uint64_t hl_notify_watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    int64_t us, p;
    if (!usec || hl_parse_i64(usec, 1, INT64_MAX, &us))
        return 0;
    if (pid && (hl_parse_i64(pid, 1, INT32_MAX, &p) || p != getpid()))
        return 0;
    return us < 2000 ? 1 : (uint64_t)us / 2000; /* twice as often as it must be */
}
