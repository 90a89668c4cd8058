/* SPDX-License-Identifier: Apache-2.0
 *
 * A collector that only listens, for tests of the heap agent.
 *
 *   preload_peer SOCKET N     take N connections, then wait for the ends
 *   preload_peer SOCKET full  listen, take nothing, until standard input closes
 *
 * Prints "ready", a line for each hello, and at the end a line for each page or
 * RECORD message:
 *   hello pid=P rank=R size=S key=K interval=NS flags=F page=0|1 sealed=0|1
 *   end pid=P how=exit:0 ROW
 * A process has ended when its pidfd says so.  Exit status 1: something was
 * not as the protocol says.
 */
#include "heap_page.h"
#include "messages.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

struct client {
    int fd, page, pidfd;
    int64_t pid;
    size_t n, used; /* bytes received; of them decoded */
    uint8_t bytes[16384];
};

static int failures;

static void complain(const char *what, int code)
{
    printf("fault: %s (%d)\n", what, code);
    failures++;
}

static int listen_at(const char *name, int backlog)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", name);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 ||
        listen(fd, backlog) != 0) {
        perror(name);
        exit(1);
    }
    puts("ready");
    fflush(stdout);
    return fd;
}

/* The first message and its descriptor arrive together. */
static int receive(struct client *c, int flags)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec v = {c->bytes + c->n, sizeof c->bytes - c->n};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    ssize_t n = recvmsg(c->fd, &m, flags | MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return -1;
    c->n += (size_t)n;
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (h && h->cmsg_type == SCM_RIGHTS)
        memcpy(&c->page, CMSG_DATA(h), sizeof c->page);
    return 0;
}

static int next_message(struct client *c, struct hl_wire_header *h, const uint8_t **body)
{
    size_t used;
    int e = hl_wire_next(c->bytes + c->used, c->n - c->used, HL_TO_COLLECTOR,
                         HL_STATE_ANY, h, body, &used);
    if (e == 0)
        c->used += used;
    return e;
}

static void take_hello(struct client *c)
{
    struct hl_wire_header h;
    const uint8_t *body;
    struct hl_hello m;
    struct stat st;
    int e = receive(c, 0) ? -100 : next_message(c, &h, &body);
    if (!e && h.type != HL_MSG_HELLO)
        e = -101;
    if (!e)
        e = hl_decode_hello(body, h.length, &m);
    if (e) {
        complain("hello", e);
        return;
    }
    if (m.role != HL_ROLE_HEAP)
        complain("role", m.role);
    c->pid = m.pid;
    c->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)m.pid, 0);
    int seals = c->page >= 0 ? fcntl(c->page, F_GET_SEALS) : 0;
    if (c->page >= 0 && (fstat(c->page, &st) != 0 || st.st_size != HL_HEAP_PAGE_SIZE))
        complain("size of the page", 0);
    printf("hello pid=%lld rank=%d size=%d key=%.*s interval=%lld flags=%u page=%d "
           "sealed=%d\n",
           (long long)m.pid, m.rank, m.size, (int)m.key.n, m.key.p,
           (long long)m.interval_ns, m.flags, c->page >= 0,
           (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW));
    fflush(stdout);
}

static void say_end(const struct client *c, const struct hl_record *r,
                    const struct hl_end *e)
{
    char how[32], row[HL_RECORD_ROW_MAX + 1];
    hl_end_text(e, how);
    row[hl_record_row(r, row, sizeof row - 1)] = 0;
    printf("end pid=%lld how=%s %s", (long long)c->pid, how, row);
}

static void read_page(const struct client *c)
{
    static uint8_t page[HL_HEAP_PAGE_SIZE] __attribute__((aligned(64)));
    const struct hl_heap_header *h = (const struct hl_heap_header *)page;
    struct hl_record r;
    if (pread(c->page, page, sizeof page, 0) != (ssize_t)sizeof page ||
        !hl_heap_header_ok(h)) {
        complain("page", 0);
        return;
    }
    hl_heap_record(h, (const struct hl_heap_slot *)(page + HL_HEAP_PAGE_HEADER),
                   hl_heap_slots_to_read(h), h->load_mono_ns, &r);
    struct hl_end end = hl_heap_end(h);
    say_end(c, &r, &end);
}

static void take_end(struct client *c)
{
    struct hl_wire_header h;
    const uint8_t *body;
    struct hl_record_msg m;
    struct pollfd p = {c->pidfd, POLLIN, 0};
    if (c->pidfd >= 0)
        poll(&p, 1, 20000);
    while (receive(c, MSG_DONTWAIT) == 0)
        ;
    if (c->page >= 0)
        read_page(c);
    while (next_message(c, &h, &body) == 0)
        if (h.type != HL_MSG_RECORD || hl_decode_record(body, h.length, &m))
            complain("record", h.type);
        else
            say_end(c, &m.record, &m.end);
}

int main(int argc, char **argv)
{
    static struct client all[64];
    if (argc != 3) {
        fprintf(stderr, "usage: preload_peer SOCKET N|full\n");
        return 2;
    }
    int full = strcmp(argv[2], "full") == 0, n = atoi(argv[2]);
    int fd = listen_at(argv[1], full ? 0 : 64);
    if (full) {
        char c;
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        snprintf(a.sun_path, sizeof a.sun_path, "%s", argv[1]);
        int one = socket(AF_UNIX, SOCK_STREAM, 0); /* takes the only place */
        if (connect(one, (struct sockaddr *)&a, sizeof a) != 0)
            return 1;
        return read(0, &c, 1) != 0;
    }
    for (int i = 0; i < n && i < 64; i++) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, 20000) != 1) {
            complain("no more hellos", i);
            n = i;
            break;
        }
        all[i].page = -1;
        all[i].fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        take_hello(&all[i]);
    }
    for (int i = 0; i < n && i < 64; i++)
        take_end(&all[i]);
    return failures != 0;
}
