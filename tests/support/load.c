/* SPDX-License-Identifier: Apache-2.0
 *
 * One client: its values, its shared memory, its connection; see load.h.
 */
#include "config.h"

#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { FDS_MAX = 253, ANSWER_MS = 60000 };

/* ---- values ---- */

uint64_t load_mix(uint64_t v)
{
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
    return v ^ (v >> 31);
}

uint64_t load_random(uint64_t *state)
{
    return load_mix(*state += 0x9e3779b97f4a7c15u);
}

uint64_t load_image(uint64_t seed, uint64_t rank)
{
    return load_mix(load_mix(seed + 1) + rank);
}

double load_value(uint64_t image, uint64_t row, uint32_t cell)
{
    return (double)(load_mix(image + (row << 20) + cell) >> 11);
}

struct hl_record load_record(uint64_t image)
{
    int64_t live = (int64_t)(image % 100003);
    return (struct hl_record){.allocs = 1000 + image % 1009,
                              .frees = image % 997,
                              .live_bytes = live,
                              .peak_bytes = live + (int64_t)(image % 10007)};
}

/* ---- time and limits ---- */

void load_nap(int64_t us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

int64_t load_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void load_raise_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

pid_t load_fork(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        LOAD_DIE("fork: %s", strerror(errno));
    if (!pid && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent))
        _exit(99);
    return pid;
}

/* ---- shared memory ---- */

static int sealed(uint64_t size, void **map)
{
    int fd = memfd_create("load", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)size))
        LOAD_DIE("memfd: %s", strerror(errno));
    *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*map == MAP_FAILED || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
        LOAD_DIE("memfd: %s", strerror(errno));
    return fd;
}

void load_init(struct load_client *c, const char *socket, const char *key, uint64_t image,
               int32_t rank)
{
    memset(c, 0, sizeof *c);
    c->socket = socket;
    c->key = key;
    c->image = image;
    c->rank = rank;
    c->pid = getpid();
    c->width = 4;
    c->batch = 1;
    c->page_fd = c->ring_fd = c->fd = c->heap_fd = -1;
}

void load_make_page(struct load_client *c)
{
    struct hl_record r = load_record(c->image);
    void *map;
    c->page_fd = sealed(HL_HEAP_PAGE_SIZE, &map);
    struct hl_heap_header *h = c->page = map;
    struct hl_heap_slot *s = (void *)((char *)map + HL_HEAP_PAGE_HEADER);
    h->magic = HL_HEAP_PAGE_MAGIC;
    h->version = HL_HEAP_PAGE_VERSION;
    h->size = HL_HEAP_PAGE_SIZE;
    h->image = c->image;
    h->pid = c->pid;
    h->start_ticks = c->start_ticks;
    h->load_mono_ns = load_now_ns();
    h->rank = c->rank;
    strcpy(h->host, "node");
    h->n_slots_used = h->n_threads_seen = 1;
    h->vmhwm_bytes = h->vmrss_bytes = -1;
    h->peak_bytes = r.peak_bytes;
    s->allocs = r.allocs;
    s->frees = r.frees;
    s->net_bytes = r.live_bytes;
}

void load_make_ring(struct load_client *c, uint64_t size)
{
    void *map;
    c->ring_fd = sealed(size, &map);
    c->ring = map;
    c->ring->magic = HL_ROW_BUFFER_MAGIC;
    c->ring->version = HL_ROW_BUFFER_VERSION;
    c->ring->size = size;
    c->ring->image = c->image;
}

/* ---- messages ---- */

size_t load_message_bytes(const struct load_client *c)
{
    return hl_rows_size((uint64_t)c->batch * c->width);
}

size_t load_put_catalog(const struct load_client *c, uint8_t *out, size_t cap)
{
    char name[32];
    struct hl_catalog_msg m = {.id = 1};
    struct hl_writer w = hl_catalog_begin(out, cap, &m);
    for (uint32_t i = 0; i < c->width; i++) {
        snprintf(name, sizeof name, "cell%u", i);
        hl_catalog_add_metric(&w, name);
    }
    return (size_t)hl_message_end(&w, HL_MSG_CATALOG);
}

size_t load_put_rows(const struct load_client *c, uint64_t first_row, uint8_t *out,
                     size_t cap)
{
    struct hl_rows m = {
        .catalog = 1, .n_cells = c->batch * c->width, .first_row = first_row};
    uint8_t *at = out + HL_WIRE_HEADER + HL_ROWS_HEAD;
    if (load_message_bytes(c) > cap)
        return 0;
    for (uint32_t r = 0; r < c->batch; r++)
        for (uint32_t i = 0; i < c->width; i++, at += 8) {
            double v = load_value(c->image, first_row + r, i);
            memcpy(at, &v, 8);
        }
    return (size_t)hl_encode_rows_in_place(out, cap, &m);
}

/* ---- the ring ---- */

static uint64_t capacity(const struct load_client *c)
{
    return c->ring->size - HL_ROW_BUFFER_DATA;
}

static int into_ring(struct load_client *c, const uint8_t *p, size_t n)
{
    struct hl_row_buffer *r = c->ring;
    uint64_t at = r->head % capacity(c);
    uint8_t *data = (uint8_t *)r + HL_ROW_BUFFER_DATA;
    size_t first = capacity(c) - at < n ? (size_t)(capacity(c) - at) : n;
    if (!n || r->head + n - r->acked > capacity(c))
        return 0;
    memcpy(data + at, p, first);
    memcpy(data, p + first, n - first);
    __atomic_store_n(&r->head, r->head + n, __ATOMIC_RELEASE);
    return 1;
}

uint64_t load_rows_of(const struct load_client *c, uint64_t stream_bytes)
{
    static uint8_t out[HL_WIRE_HEADER + 65536];
    uint64_t catalog = load_put_catalog(c, out, sizeof out);
    return stream_bytes < catalog
               ? 0
               : (stream_bytes - catalog) / load_message_bytes(c) * c->batch;
}

unsigned load_commit(struct load_client *c, unsigned n_messages)
{
    static uint8_t out[HL_WIRE_HEADER + HL_ROWS_HEAD + 262144];
    unsigned done = 0;
    if (!c->ring->head && !into_ring(c, out, load_put_catalog(c, out, sizeof out)))
        LOAD_DIE("the ring is too small");
    while (done < n_messages &&
           c->ring->head + load_message_bytes(c) - c->ring->acked <= capacity(c)) {
        into_ring(c, out, load_put_rows(c, c->ring->n_rows, out, sizeof out));
        c->ring->n_rows += c->batch;
        done++;
    }
    return done;
}

/* ---- the connection ---- */

int load_connect_to(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || strlen(path) >= sizeof a.sun_path)
        LOAD_DIE("socket %s: %s", path, strerror(errno));
    strcpy(a.sun_path, path);
    while (connect(fd, (struct sockaddr *)&a, sizeof a))
        if (errno != EINTR) {
            close(fd);
            return -1;
        }
    return fd;
}

/* Errors are the other side's: the answer that is missing tells. */
void load_send_fds(int fd, const void *p, size_t n, const int *fds, int n_fds)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control;
    struct iovec v = {(void *)(uintptr_t)p, n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    if (n_fds > 0) {
        memset(&control, 0, sizeof control);
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)n_fds * sizeof(int));
    }
    while (sendmsg(fd, &m, MSG_NOSIGNAL) < 0 && errno == EINTR)
        continue;
}

int load_say_hello(struct load_client *c, int fd, unsigned role, uint32_t flags,
                   const int *fds, int n_fds)
{
    uint8_t out[HL_HELLO_CAP];
    struct hl_hello h = {.wire_min = 1,
                         .wire_max = 1,
                         .role = (uint8_t)role,
                         .flags = flags,
                         .pid = c->pid,
                         .start_ticks = c->start_ticks,
                         .image = c->image,
                         .rank = c->rank,
                         .size = -1,
                         .interval_ns = c->interval_ns,
                         .key = {c->key, strlen(c->key)},
                         .host = {"node", 4},
                         .job = {"", 0},
                         .app_version = {"", 0}};
    int64_t n = hl_encode_hello(out, sizeof out, &h);
    if (n < 0)
        return -1;
    load_send_fds(fd, out, (size_t)n, fds, n_fds);
    return 0;
}

void load_disconnect(struct load_client *c)
{
    if (c->fd >= 0)
        close(c->fd);
    if (c->heap_fd >= 0)
        close(c->heap_fd);
    c->fd = c->heap_fd = -1;
    c->n_in = 0;
}

static int take(struct load_client *c, const struct hl_wire_header *h,
                const uint8_t *body, int *answered)
{
    struct hl_hello_ok ok;
    struct hl_refused r;
    uint64_t upto;
    if (h->type == HL_MSG_HELLO_OK && !hl_decode_hello_ok(body, h->length, &ok)) {
        *answered = 1;
        if (!c->ring)
            return 0;
        if (ok.appended > c->ring->head || ok.appended < c->ring->acked)
            LOAD_DIE("image %016llx resumes at %llu: acknowledged were %llu of %llu",
                     (unsigned long long)c->image, (unsigned long long)ok.appended,
                     (unsigned long long)c->ring->acked,
                     (unsigned long long)c->ring->head);
        c->sent = c->ring->sent = c->ring->acked = ok.appended;
        return 0;
    }
    if (h->type == HL_MSG_REFUSED && !hl_decode_refused(body, h->length, &r)) {
        c->refused = r.code;
        return -1;
    }
    if (h->type == HL_MSG_HELD)
        return 0;
    if (h->type != HL_MSG_ACK || hl_decode_ack(body, h->length, &upto) ||
        upto > c->sent || upto < c->ring->acked)
        LOAD_DIE("a wrong answer of type %u", h->type);
    __atomic_store_n(&c->ring->acked, upto, __ATOMIC_RELEASE);
    return 0;
}

/* What has come; -1: the connection is over. */
static int receive(struct load_client *c, int flags, int *answered)
{
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used, at = 0;
    ssize_t k = recv(c->fd, c->in + c->n_in, sizeof c->in - c->n_in, flags);
    if (k < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (k <= 0)
        return -1;
    c->n_in += (size_t)k;
    while (hl_wire_next(c->in + at, c->n_in - at, HL_FROM_COLLECTOR, HL_STATE_ANY, &h,
                        &body, &used) == 0) {
        if (take(c, &h, body, answered))
            return -1;
        at += used;
    }
    memmove(c->in, c->in + at, c->n_in -= at);
    return 0;
}

static int await_answer(struct load_client *c)
{
    int answered = 0;
    while (!answered) {
        struct pollfd p = {c->fd, POLLIN, 0};
        int r = poll(&p, 1, ANSWER_MS);
        if (r == 0)
            LOAD_DIE("no answer to a hello");
        if (r > 0 && receive(c, MSG_DONTWAIT, &answered))
            return -1;
    }
    return 0;
}

int load_connect(struct load_client *c)
{
    int fds[2], n = 0;
    uint32_t flags = 0;
    c->refused = 0;
    if (c->page && (c->two || !c->ring)) {
        c->heap_fd = load_connect_to(c->socket);
        if (c->heap_fd < 0)
            return -1;
        load_say_hello(c, c->heap_fd, HL_ROLE_HEAP, HL_HELLO_PAGE, &c->page_fd, 1);
    } else if (c->page) {
        fds[n++] = c->page_fd;
        flags |= HL_HELLO_PAGE;
    }
    if (!c->ring) { /* the page's connection is the one to wait at */
        c->fd = c->heap_fd;
        c->heap_fd = -1;
    } else {
        fds[n++] = c->ring_fd;
        flags |= HL_HELLO_ROWS;
        c->fd = load_connect_to(c->socket);
        if (c->fd >= 0)
            load_say_hello(c, c->fd, HL_ROLE_FRAMES, flags, fds, n);
    }
    if (c->fd >= 0 && await_answer(c) == 0)
        return 0;
    load_disconnect(c);
    return -1;
}

static int send_some(struct load_client *c, size_t max)
{
    uint64_t at = c->sent % capacity(c), n = c->ring->head - c->sent;
    if (n > capacity(c) - at)
        n = capacity(c) - at;
    if (n > max)
        n = max;
    ssize_t k = send(c->fd, (uint8_t *)c->ring + HL_ROW_BUFFER_DATA + at, n,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (k < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    c->ring->sent = c->sent += (uint64_t)k;
    return 0;
}

int load_step(struct load_client *c, size_t max, int timeout_ms)
{
    int answered = 0, more = c->sent < c->ring->head;
    struct pollfd p[2] = {{c->fd, (short)(POLLIN | (more ? POLLOUT : 0)), 0},
                          {c->heap_fd, 0, 0}}; /* nothing more is asked there */
    if (poll(p, 2, timeout_ms) <= 0)
        return 0;
    if (p[1].revents)
        return -1;
    if (p[0].revents & (POLLIN | POLLHUP | POLLERR) &&
        receive(c, MSG_DONTWAIT, &answered))
        return -1;
    return p[0].revents & POLLOUT ? send_some(c, max) : 0;
}

void load_finish(struct load_client *c)
{
    while (c->ring->acked < c->ring->head) {
        if (c->fd < 0 && load_connect(c)) {
            if (c->refused)
                LOAD_DIE("refused with code %u", c->refused);
            load_nap(3000);
        } else if (load_step(c, 65536, ANSWER_MS))
            load_disconnect(c);
    }
}
