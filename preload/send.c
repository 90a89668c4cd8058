/* SPDX-License-Identifier: Apache-2.0
 *
 * The collector: connect when the agent is loaded, hand over hello and page in
 * one message, and never wait for anything.  A collector whose queue is full
 * counts as none and is tried again at the end, when the finished record goes
 * along.  The connection stays open, out of the program's way; before each use
 * it is checked to be still ours, since programs close and reuse descriptors.
 */
#include "agent.h"
#include "sys.h"

#include <errno.h>
#include <string.h>
#include <sys/un.h>

enum { HIGH_FDS = 16, USUAL_FDS = 1024 };

/* ---- the connection ---- */

/* In a folder where every user can make a socket, only our own user's collector
 * (each side checks the other's uid). */
static int peer_is_trusted(int fd, const char *name)
{
    static const char *const open_to_all[] = {"/tmp/", "/var/tmp/", "/dev/shm/"};
    struct ucred c;
    socklen_t n = sizeof c;
    for (size_t i = 0; i < sizeof open_to_all / sizeof *open_to_all; i++)
        if (strncmp(name, open_to_all[i], strlen(open_to_all[i])) == 0)
            return HL_SYS5(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &c, &n) == 0 &&
                   c.uid == hl_agent.page->uid;
    return 1;
}

static int connect_to(const char *name, size_t length)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (length >= sizeof a.sun_path) {
        hl_say("a name in HEAPLINE_SOCKET is longer than 107 bytes", NULL, 0);
        return -1;
    }
    memcpy(a.sun_path, name, length);
    int fd =
        (int)HL_SYS3(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        hl_say("no connection to a collector", a.sun_path, -fd);
        return -1;
    }
    int e = (int)HL_SYS3(SYS_connect, fd, &a, sizeof a);
    if (e != 0) {
        hl_say("no collector at", a.sun_path, -e);
    } else if (!peer_is_trusted(fd, a.sun_path)) {
        hl_say("the collector there belongs to another user", a.sun_path, 0);
    } else {
        return fd;
    }
    hl_close(fd);
    return -1;
}

static int connect_any(void)
{
    const char *s = hl_agent.sockets;
    while (*s) {
        size_t n = strcspn(s, ":");
        int fd = n ? connect_to(s, n) : -1;
        if (fd >= 0)
            return fd;
        s += n + (s[n] == ':');
    }
    return -1;
}

/* Move the descriptor up, so that the program sees its lowest free ones as it
 * would without us.  Not too far: the kernel's table grows with it. */
static int move_up(int fd)
{
    int up = hl_fcntl(fd, F_DUPFD_CLOEXEC, USUAL_FDS - HIGH_FDS);
    if (up == -EINVAL) { /* beyond the limit */
        int top = (int)hl_limit(RLIMIT_NOFILE);
        int from = top > 4 * HIGH_FDS ? top - HIGH_FDS : top / 2;
        up = hl_fcntl(fd, F_DUPFD_CLOEXEC, from);
    }
    hl_close(fd);
    return up;
}

/* 0, or a negative error number. */
static int keep(int fd)
{
    struct hl_agent *a = &hl_agent;
    struct stat st;
    fd = move_up(fd);
    if (fd < 0)
        return fd;
    int e = hl_fstat(fd, &st);
    if (e) {
        hl_close(fd);
        return e;
    }
    a->sock = fd;
    a->sock_dev = st.st_dev;
    a->sock_ino = st.st_ino;
    return 0;
}

static int is_ours(void)
{
    struct stat st;
    return hl_agent.sock >= 0 && hl_fstat(hl_agent.sock, &st) == 0 &&
           st.st_dev == hl_agent.sock_dev && st.st_ino == hl_agent.sock_ino;
}

void hl_send_forget(void)
{
    if (is_ours())
        hl_close(hl_agent.sock);
    hl_agent.sock = -1;
}

/* ---- messages ---- */

static struct hl_str text(const char *s)
{
    return (struct hl_str){s, strlen(s)};
}

static size_t encode_hello(uint8_t *out, size_t cap, uint32_t flags)
{
    const struct hl_heap_header *h = hl_agent.page;
    const struct hl_hello m = {.wire_min = HL_WIRE_VERSION_MIN,
                               .wire_max = HL_WIRE_VERSION,
                               .role = HL_ROLE_HEAP,
                               .flags = flags,
                               .pid = h->pid,
                               .start_ticks = h->start_ticks,
                               .image = h->image,
                               .rank = h->rank,
                               .size = h->n_ranks,
                               .interval_ns = hl_agent.interval_ns,
                               .key = text(h->key),
                               .host = text(h->host),
                               .job = text(h->job),
                               .app_version = text("")};
    int64_t n = hl_encode_hello(out, cap, &m);
    return n > 0 ? (size_t)n : 0;
}

/* 0, or a negative error number.  All or nothing: a message cut short could not be
 * completed without waiting. */
static int send_once(int fd, const void *p, size_t n, int page_fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec v = {(void *)p, n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    if (page_fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control.room;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &page_fd, sizeof page_fd);
    }
    long done = HL_SYS3(SYS_sendmsg, fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    return done == (long)n ? 0 : done < 0 ? (int)done : -EAGAIN;
}

static uint8_t message[HL_HELLO_CAP + HL_WIRE_HEADER + 4096];

static int say_hello(int fd, void *reuse)
{
    void *page;
    int page_fd = hl_page_memfd(reuse, &page);
    if (page_fd >= 0)
        hl_page_adopt(page, 0, 0);
    hl_agent.unshared = page_fd < 0;
    size_t n = encode_hello(message, sizeof message,
                            page_fd >= 0 ? HL_HELLO_PAGE : HL_HELLO_UNSHARED);
    int e = n ? send_once(fd, message, n, page_fd) : -EMSGSIZE;
    if (e)
        hl_say("the collector did not take the hello", NULL, -e);
    if (page_fd >= 0)
        hl_close(page_fd); /* the mapping and the collector hold the page */
    return e;
}

void hl_send_start(void *reuse)
{
    struct hl_agent *a = &hl_agent;
    void *page;
    a->said_hello = 0;
    a->unshared = 0;
    int fd = connect_any();
    if (fd >= 0) {
        int e = say_hello(fd, reuse);
        a->said_hello = e == 0;
        if (e)
            hl_close(fd);
        else if ((e = keep(fd)) != 0)
            hl_say("the connection to the collector could not be kept", NULL, -e);
    }
    if (a->said_hello || !a->fallback[0])
        return;
    void *old = a->page_is_static ? NULL : a->page; /* a memfd that nobody took */
    if (hl_page_file(old ? NULL : reuse, a->page, &page) != 0)
        return;
    hl_page_adopt(page, 0, 1);
    if (old)
        hl_unmap(old, HL_HEAP_PAGE_SIZE);
}

/* ---- the end ---- */

/* Has the other side gone?  What it sent, which is never read here, says nothing. */
static int is_gone(int fd)
{
    return hl_is_ready(fd, 0) == 1;
}

static size_t encode_record(uint8_t *out, size_t cap, const struct hl_end *end)
{
    static struct hl_record_msg m;
    hl_snapshot(hl_agent.page->end_mono_ns, &m.record);
    m.end = *end;
    int64_t n = hl_encode_record(out, cap, &m);
    return n > 0 ? (size_t)n : 0;
}

/* The collector went away, and no other one answers or takes the record: a copy
 * of the page is left in the fallback folder.  A copy, as threads may still count
 * into the page itself. */
static void leave_page(void)
{
    const struct hl_agent *a = &hl_agent;
    void *page;
    if (!a->said_hello || !a->fallback[0] || hl_page_file(NULL, a->page, &page) != 0)
        return;
    memcpy((char *)page + HL_HEAP_PAGE_HEADER, a->slots,
           hl_heap_slots_to_read(a->page) * HL_HEAP_SLOT_SIZE);
    memcpy(page, a->page, sizeof *a->page);
    hl_unmap(page, HL_HEAP_PAGE_SIZE);
}

void hl_send_end(const struct hl_end *end)
{
    struct hl_agent *a = &hl_agent;
    size_t n = 0;
    int fd = -1;
    if (!*a->sockets || a->page_is_file)
        return;
    if (is_ours() && !is_gone(a->sock)) {
        if (!a->unshared)
            return; /* the collector reads the page */
        fd = a->sock;
    } else {
        if (a->said_hello && !a->unshared && a->sock >= 0 && !is_ours())
            return; /* closed by the program; the collector watches the process */
        fd = connect_any();
        if (fd < 0) {
            leave_page();
            return;
        }
        n = encode_hello(message, sizeof message, HL_HELLO_UNSHARED);
    }
    n += encode_record(message + n, sizeof message - n, end);
    int e = send_once(fd, message, n, -1);
    if (e) {
        hl_say("the collector did not take the record", NULL, -e);
        leave_page();
    }
    if (fd != a->sock)
        hl_close(fd);
}
