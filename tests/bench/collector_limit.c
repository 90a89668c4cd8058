/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine allows the collector: one thread that waits with epoll and only
 * reads.  No checksums, no answers, no records.
 *
 *   collector_limit stream SOCKET N FILE   N connections, what they send goes to FILE
 *   collector_limit storm SOCKET N         N connections with 64 bytes each, and who
 *                                          they are (SO_PEERCRED)
 *   collector_limit rows SOCKET N BYTES    N processes send BYTES in sends of 512
 *
 * Prints "listening", then the nanoseconds of the monotonic clock of the last byte.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 256 << 10, GREETING = 64, ROW = 512, EVENTS = 256, READS = 8 };

static uint8_t buffer[READ_BYTES];
static uint64_t n_ended, n_greeted;
static int file = -1;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct sockaddr_un address(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path)
        die("path");
    strcpy(a.sun_path, path);
    return a;
}

static void append(size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t k = write(file, buffer + at, n - at);
        if (k < 0 && errno != EINTR)
            die("write");
        at += k > 0 ? (size_t)k : 0;
    }
}

static void accept_all(int listener, int poll_fd)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        struct ucred who;
        socklen_t n = sizeof who;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) ||
            epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &e))
            die("accept");
    }
}

/* A few reads, so that one full socket keeps nobody waiting. */
static void read_some(int fd)
{
    for (int i = 0; i < READS; i++) {
        ssize_t k = recv(fd, buffer, sizeof buffer, 0);
        if (k > 0 && file >= 0)
            append((size_t)k);
        n_greeted += k == GREETING;
        if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR)) {
            close(fd);
            n_ended++;
        }
        if (k < (ssize_t)sizeof buffer)
            return;
    }
}

static void serve(const char *path, uint64_t n, int storm)
{
    struct sockaddr_un a = address(path);
    struct epoll_event e = {.events = EPOLLIN}, events[EVENTS];
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    e.data.fd = listener;
    unlink(path);
    if (bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 4096) ||
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &e))
        die(path);
    printf("listening\n");
    fflush(stdout);
    while ((storm ? n_greeted : n_ended) < n) {
        int k = epoll_wait(poll_fd, events, EVENTS, -1);
        for (int i = 0; i < k; i++)
            if (events[i].data.fd == listener)
                accept_all(listener, poll_fd);
            else
                read_some(events[i].data.fd);
    }
    printf("end %lld\n", (long long)now_ns());
}

static void send_rows(const char *path, uint64_t bytes, int start)
{
    static const uint8_t row[ROW] = {1};
    struct sockaddr_un a = address(path);
    uint8_t c;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a))
        die(path);
    while (read(start, &c, 1) < 0)
        continue;
    for (uint64_t n = 0; n < bytes; n += ROW)
        if (send(fd, row, sizeof row, MSG_NOSIGNAL) != ROW)
            die("send");
    _exit(0);
}

static void rows(const char *path, uint64_t n, uint64_t bytes)
{
    int start[2];
    if (pipe(start))
        die("pipe");
    for (uint64_t i = 0; i < n; i++)
        if (!fork()) {
            close(start[1]);
            send_rows(path, bytes / n, start[0]);
        }
    usleep(200000);
    printf("start %lld\n", (long long)now_ns());
    close(start[1]);
    while (wait(NULL) > 0)
        continue;
}

int main(int argc, char **argv)
{
    struct rlimit r;
    if (argc < 4) {
        fprintf(stderr, "usage: see the head of collector_limit.c\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
    uint64_t n = strtoull(argv[3], NULL, 10);
    if (!strcmp(argv[1], "rows")) {
        rows(argv[2], n, argc > 4 ? strtoull(argv[4], NULL, 10) : 0);
        return 0;
    }
    if (argc > 4 && (file = open(argv[4], O_WRONLY | O_CREAT | O_TRUNC, 0600)) < 0)
        die(argv[4]);
    serve(argv[2], n, !strcmp(argv[1], "storm"));
    return 0;
}
