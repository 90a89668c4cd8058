/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays clients of the collector without the real agents.  Actions are done in
 * the order of the arguments:
 *
 *   fake_client SOCKET KEY ACTION...
 *
 * a process:  page=ALLOCS,FREES,LIVE,PEAK  make or change the heap page
 *             heap, frames   connect and say hello (frames waits for the answer)
 *             close          the frames connection
 *             rows=N         commit N rows and send what is not sent yet
 *             hold=N         commit N rows, send nothing
 *             torn           a damaged message behind the committed ones
 *             ack            wait until everything sent is acknowledged
 *             bye=N          say BYE with N rows dropped
 *             record=ALLOCS  the numbers as a message (with nopage)
 *             exit=N  _exit=N  kill=SIGNAL  exec   end (exec: another image)
 *             nopage, nopid  hello without a page; with a start time not ours
 *             interval=MS    hellos ask for samples
 *             rank=N         of 4; 3 without it
 *             loaded=S       the page says that its agent is S seconds older
 * hostile:    noseal, badsize, badrows, fds=N, raw=HEX, catalog=ID:BASE:FIRST,
 *             refused (print the sentence)
 * others:     keeper, gather, state, ended=PID:KIND:STATUS, index=MS, pull=ID,
 *             points=ID (print them, a line each), taken
 * both:       say=TEXT, wait (for a line on stdin), pause
 */
#include "config.h"

#include "heap_page.h"
#include "wire_link.h"
#include "messages.h"
#include "row_buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { RING_BYTES = 1 << 20, N_METRICS = 2, MANY = 64 };

static const char *socket_path, *key;
static uint64_t image, start_ticks, n_rows, sent;
static int64_t interval_ns;
static int32_t rank = 3;
static struct hl_heap_header *page;
static struct hl_row_buffer *ring;
static int page_fd = -1, ring_fd = -1, heap_fd = -1, no_seal, no_page, catalog_done;
static uint64_t page_size = HL_HEAP_PAGE_SIZE, ring_size = RING_BYTES;
static struct hl_link frames = {.fd = -1}, other = {.fd = -1};
static struct hl_err err;

#define DIE(...)                                                                         \
    (fprintf(stderr, "fake_client: " __VA_ARGS__), fputc('\n', stderr), exit(99))

static struct hl_str text(const char *s)
{
    return (struct hl_str){s, strlen(s)};
}

static int memfd(size_t size, void **map)
{
    int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)size))
        DIE("memfd: %s", strerror(errno));
    *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*map == MAP_FAILED ||
        (!no_seal && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)))
        DIE("memfd: %s", strerror(errno));
    return fd;
}

static void make_page(void)
{
    struct timespec t;
    void *map;
    if (page)
        return;
    page_fd = memfd(page_size, &map);
    page = map;
    clock_gettime(CLOCK_MONOTONIC, &t);
    page->magic = HL_HEAP_PAGE_MAGIC;
    page->version = HL_HEAP_PAGE_VERSION;
    page->size = HL_HEAP_PAGE_SIZE;
    page->image = image;
    page->pid = getpid();
    page->start_ticks = start_ticks;
    page->load_mono_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    page->rank = rank;
    strcpy(page->host, "node-a");
    page->n_slots_used = page->n_threads_seen = 1;
    page->vmhwm_bytes = page->vmrss_bytes = -1;
}

static void make_ring(void)
{
    void *map;
    if (ring)
        return;
    ring_fd = memfd(ring_size, &map);
    ring = map;
    ring->magic = HL_ROW_BUFFER_MAGIC;
    ring->version = HL_ROW_BUFFER_VERSION;
    ring->size = ring_size;
    ring->image = image;
}

static void set_page(const char *arg)
{
    long long allocs, frees, live, peak;
    make_page();
    if (sscanf(arg, "%lld,%lld,%lld,%lld", &allocs, &frees, &live, &peak) != 4)
        DIE("page=%s", arg);
    struct hl_heap_slot *s = (void *)((char *)page + HL_HEAP_PAGE_HEADER);
    s->allocs = (uint64_t)allocs;
    s->frees = (uint64_t)frees;
    s->net_bytes = live;
    page->peak_bytes = peak;
}

static size_t hello(uint8_t *out, size_t cap, enum hl_role role, uint32_t flags)
{
    struct hl_hello h = {.wire_min = 1,
                         .wire_max = 1,
                         .role = (uint8_t)role,
                         .flags = flags,
                         .pid = getpid(),
                         .start_ticks = start_ticks,
                         .image = image,
                         .rank = rank,
                         .size = 4,
                         .interval_ns = interval_ns,
                         .key = text(key),
                         .host = text("node-a"),
                         .job = text("17"),
                         .app_version = text("")};
    return (size_t)hl_encode_hello(out, cap, &h);
}

static int connect_to(void)
{
    struct hl_link l;
    if (hl_link_open(&l, socket_path, -1, &err))
        DIE("%s", err.text);
    return l.fd;
}

static void send_with_fds(int fd, const void *p, size_t n, const int *fds, int n_fds)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(MANY * sizeof(int))];
    } control = {0};
    struct iovec v = {(void *)(uintptr_t)p, n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    if (n_fds) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)n_fds * sizeof(int));
    }
    if (sendmsg(fd, &m, MSG_NOSIGNAL) != (ssize_t)n)
        DIE("send: %s", strerror(errno));
}

static void say_heap(void)
{
    uint8_t out[HL_HELLO_CAP];
    heap_fd = connect_to();
    if (!no_page)
        make_page();
    size_t n =
        hello(out, sizeof out, HL_ROLE_HEAP, no_page ? HL_HELLO_UNSHARED : HL_HELLO_PAGE);
    send_with_fds(heap_fd, out, n, &page_fd, !no_page);
}

/* The answer to the hello of frames, and the offset to go on at. */
static void say_frames(void)
{
    uint8_t out[HL_HELLO_CAP];
    struct hl_wire_header h;
    const uint8_t *body;
    struct hl_hello_ok ok;
    make_ring();
    if (hl_link_open(&frames, socket_path, -1, &err))
        DIE("%s", err.text);
    size_t n = hello(out, sizeof out, HL_ROLE_FRAMES, HL_HELLO_ROWS);
    send_with_fds(frames.fd, out, n, &ring_fd, 1);
    if (hl_link_next(&frames, &h, &body, 10000, &err))
        DIE("%s", err.text);
    if (h.type != HL_MSG_HELLO_OK || hl_decode_hello_ok(body, h.length, &ok))
        DIE("no HELLO_OK");
    if (ok.appended > ring->head)
        DIE("resumes at %llu of %llu", (unsigned long long)ok.appended,
            (unsigned long long)ring->head);
    printf("resume %llu\n", (unsigned long long)ok.appended);
    sent = ring->acked = ok.appended;
}

/* ---- rows: cell 0 is the number of the row ---- */

static void into_ring(const uint8_t *p, size_t n)
{
    uint64_t capacity = ring_size - HL_ROW_BUFFER_DATA;
    uint8_t *data = (uint8_t *)ring + HL_ROW_BUFFER_DATA;
    for (size_t i = 0; i < n; i++)
        data[(ring->head + i) % capacity] = p[i];
    __atomic_store_n(&ring->head, ring->head + n, __ATOMIC_RELEASE);
}

static void commit_catalog(void)
{
    uint8_t out[1024];
    struct hl_catalog_msg m = {.id = 1};
    struct hl_writer w = hl_catalog_begin(out, sizeof out, &m);
    hl_catalog_add_metric(&w, "step");
    hl_catalog_add_metric(&w, "wall_step");
    hl_catalog_add_path(&w, "main");
    into_ring(out, (size_t)hl_message_end(&w, HL_MSG_CATALOG));
    catalog_done = 1;
}

static void commit_rows(long n)
{
    enum { STRIDE = N_METRICS + 2 };
    uint8_t out[HL_WIRE_HEADER + HL_ROWS_HEAD + 8 * STRIDE];
    if (!catalog_done)
        commit_catalog();
    for (; n > 0; n--) {
        double cells[STRIDE] = {(double)n_rows, 0.5, 0.25, 0.125};
        struct hl_rows m = {.catalog = 1, .n_cells = STRIDE, .first_row = n_rows};
        memcpy(out + HL_WIRE_HEADER + HL_ROWS_HEAD, cells, sizeof cells);
        into_ring(out, (size_t)hl_encode_rows_in_place(out, sizeof out, &m));
        ring->n_rows = ++n_rows;
    }
}

static void take_held(const uint8_t *body, size_t n)
{
    struct hl_held m;
    if (hl_decode_held(body, n, &m))
        DIE("a wrong HELD");
    printf("%s: %.*s\n", m.code ? "held" : "taken again", (int)m.text.n, m.text.p);
    fflush(stdout);
}

static void take_answers(int wait)
{
    struct hl_wire_header h;
    const uint8_t *body;
    uint64_t upto;
    struct pollfd p = {frames.fd, POLLIN, 0};
    while (wait || poll(&p, 1, 0) > 0) {
        if (hl_link_next(&frames, &h, &body, 20000, &err))
            DIE("%s", err.text);
        if (h.type == HL_MSG_HELD) {
            take_held(body, h.length);
            continue;
        }
        if (h.type != HL_MSG_ACK || hl_decode_ack(body, h.length, &upto) || upto > sent)
            DIE("a wrong acknowledgement");
        ring->acked = upto;
        if (upto == sent)
            break;
    }
}

static void send_rows(void)
{
    uint64_t capacity = ring_size - HL_ROW_BUFFER_DATA;
    while (sent < ring->head) {
        uint64_t at = sent % capacity, n = ring->head - sent;
        if (n > capacity - at)
            n = capacity - at;
        if (n > 65536)
            n = 65536;
        send_with_fds(frames.fd, (uint8_t *)ring + HL_ROW_BUFFER_DATA + at, n, NULL, 0);
        ring->sent = sent += n;
        take_answers(0);
    }
}

static void wait_acked(void)
{
    while (ring->acked < sent)
        take_answers(1);
}

static void commit_torn(void)
{
    uint8_t out[HL_WIRE_HEADER + HL_ROWS_HEAD + 32] = {0};
    struct hl_rows m = {.catalog = 1, .n_cells = 4, .first_row = n_rows};
    size_t n = (size_t)hl_encode_rows_in_place(out, sizeof out, &m);
    out[n - 1] ^= 0xff;
    into_ring(out, n);
    ring->n_rows = ++n_rows;
}

static void say_bye(long dropped)
{
    uint8_t out[64];
    struct hl_bye m = {(uint64_t)dropped, n_rows + (uint64_t)dropped};
    hl_link_send(&frames, out, hl_encode_bye(out, sizeof out, &m), &err);
}

static void say_record(long allocs)
{
    static uint8_t out[HL_WIRE_HEADER + 4096];
    struct hl_record_msg m = {.record = {.rank = rank,
                                         .pid = getpid(),
                                         .host = "node-a",
                                         .allocs = (uint64_t)allocs,
                                         .frees = 1,
                                         .peak_bytes = 77,
                                         .live_bytes = 7,
                                         .elapsed_ns = 5000000,
                                         .vmhwm_bytes = -1,
                                         .vmrss_bytes = -1},
                              .end = {HL_ENDED_EXIT, 0}};
    send_with_fds(heap_fd, out, (size_t)hl_encode_record(out, sizeof out, &m), NULL, 0);
}

/* ---- ends ---- */

static void end_page(uint32_t state, int status)
{
    struct timespec t;
    if (!page)
        return;
    clock_gettime(CLOCK_MONOTONIC, &t);
    page->end_status = status;
    page->end_mono_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    page->state = state;
}

static void new_image(void)
{
    end_page(HL_HEAP_EXEC, 0);
    if (getrandom(&image, sizeof image, 0) != sizeof image)
        DIE("getrandom");
    page = NULL; /* mapping and connections of the old one: gone in a real exec */
    ring = NULL;
    close(heap_fd);
    hl_link_close(&frames);
    heap_fd = -1;
    catalog_done = 0;
    n_rows = sent = 0;
}

/* ---- hostile ---- */

static void send_raw(const char *hex)
{
    uint8_t out[4096];
    size_t n = 0;
    unsigned b;
    for (; hex[0] && hex[1] && n < sizeof out && sscanf(hex, "%2x", &b) == 1; hex += 2)
        out[n++] = (uint8_t)b;
    struct hl_link *l = frames.fd >= 0 ? &frames : &other;
    if (l->fd < 0 && hl_link_open(l, socket_path, -1, &err))
        DIE("%s", err.text);
    send_with_fds(l->fd, out, n, NULL, 0);
}

static void send_many_fds(long n)
{
    uint8_t out[HL_HELLO_CAP];
    int fds[MANY];
    if (hl_link_open(&other, socket_path, -1, &err))
        DIE("%s", err.text);
    for (int i = 0; i < n && i < MANY; i++)
        fds[i] = STDERR_FILENO;
    size_t bytes = hello(out, sizeof out, HL_ROLE_HEAP, HL_HELLO_PAGE);
    send_with_fds(other.fd, out, bytes, fds, (int)n);
}

static void send_catalog(const char *arg)
{
    uint8_t out[256];
    struct hl_catalog_msg m = {0};
    if (sscanf(arg, "%u:%u:%u", &m.id, &m.base, &m.first_metric) != 3)
        DIE("catalog=%s", arg);
    struct hl_writer w = hl_catalog_begin(out, sizeof out, &m);
    hl_catalog_add_metric(&w, "m");
    send_with_fds(frames.fd, out, (size_t)hl_message_end(&w, HL_MSG_CATALOG), NULL, 0);
}

static void print_refusal(void)
{
    struct hl_link heap = {.fd = heap_fd};
    struct hl_link *l = other.fd >= 0 ? &other : frames.fd >= 0 ? &frames : &heap;
    struct hl_wire_header h;
    const uint8_t *body;
    while (hl_link_next(l, &h, &body, 20000, &err) == 0)
        continue;
    printf("%s\n", err.text);
}

/* ---- keepers and gathers ---- */

static void say_other(enum hl_role role)
{
    hl_link_close(&other);
    if (hl_link_open(&other, socket_path, -1, &err) ||
        hl_link_hello(&other, role, key, getpid(), &err))
        DIE("%s", err.text);
}

static void print_state(void)
{
    struct hl_state s;
    if (hl_link_state(&other, &s, &err))
        DIE("%s", err.text);
    printf("state keepers=%u ever=%u processes=%llu alive=%llu\n", s.n_keepers,
           s.n_keepers_ever, (unsigned long long)s.n_processes,
           (unsigned long long)s.n_alive);
}

static void say_ended(const char *arg)
{
    uint8_t out[64];
    long long pid;
    struct hl_ended_msg m = {0};
    if (sscanf(arg, "%lld:%u:%d", &pid, &m.end.kind, &m.end.status) != 3)
        DIE("ended=%s", arg);
    m.pid = pid;
    hl_link_send(&other, out, hl_encode_ended(out, sizeof out, &m), &err);
}

static void print_proc(const struct hl_proc *p)
{
    char end[32];
    const struct hl_record *r = &p->heap.record;
    hl_end_text(&p->heap.end, end);
    printf(
        "proc id=%u flags=%u pid=%lld rank=%lld host=%s rows=%llu dropped=%llu lost=%llu "
        "stream=%llu catalogs=%llu ended=%s allocs=%llu frees=%llu live=%lld peak=%lld "
        "vmhwm=%s elapsed=%s points_lost=%llu points=%llu\n",
        p->id, p->flags, (long long)p->hello.pid, (long long)r->rank, r->host,
        (unsigned long long)p->n_rows, (unsigned long long)p->n_dropped,
        (unsigned long long)p->n_lost, (unsigned long long)p->stream_bytes,
        (unsigned long long)p->catalog_bytes, end, (unsigned long long)r->allocs,
        (unsigned long long)r->frees, (long long)r->live_bytes, (long long)r->peak_bytes,
        r->vmhwm_bytes > 0 ? "known" : "unknown", r->elapsed_ns > 0 ? "known" : "unknown",
        (unsigned long long)p->n_points_lost, (unsigned long long)p->n_points);
}

static void print_index(long wait_ms)
{
    uint8_t out[64];
    struct hl_wire_header h;
    const uint8_t *body;
    struct hl_proc p;
    struct hl_index_end e;
    if (hl_link_send(&other, out, hl_encode_index_ask(out, sizeof out, (uint32_t)wait_ms),
                     &err))
        DIE("%s", err.text);
    for (;;) {
        if (hl_link_next(&other, &h, &body, 90000, &err))
            DIE("%s", err.text);
        if (h.type == HL_MSG_INDEX_END && !hl_decode_index_end(body, h.length, &e))
            break;
        if (h.type != HL_MSG_PROC || hl_decode_proc(body, h.length, &p))
            DIE("a wrong index");
        print_proc(&p);
    }
    printf("index processes=%llu alive=%llu\n", (unsigned long long)e.n_processes,
           (unsigned long long)e.n_alive);
}

/* All of a stream, in odd pieces; the catalogs must be what begins it. */
static size_t pull_all(uint32_t id, uint32_t what, uint8_t **all)
{
    size_t n = 0, cap = 0;
    *all = NULL;
    for (;;) {
        uint8_t out[64];
        struct hl_pull m = {id, what, n, 10007};
        struct hl_wire_header h;
        const uint8_t *body;
        struct hl_data d;
        struct hl_refused refused;
        if (hl_link_send(&other, out, hl_encode_pull(out, sizeof out, &m), &err) ||
            hl_link_next(&other, &h, &body, 20000, &err))
            DIE("%s", err.text);
        if (h.type == HL_MSG_REFUSED && !hl_decode_refused(body, h.length, &refused))
            DIE("%.*s", (int)refused.text.n, refused.text.p);
        if (h.type != HL_MSG_DATA || hl_decode_data(body, h.length, &d) || d.offset != n)
            DIE("wrong data");
        if (!d.n)
            return n;
        if (n + d.n > cap && !(*all = realloc(*all, cap = 2 * (n + d.n))))
            DIE("no memory");
        memcpy(*all + n, d.bytes, d.n);
        n += d.n;
    }
}

static void print_stream(uint32_t id)
{
    uint8_t *all, *catalogs;
    size_t n = pull_all(id, HL_PULL_STREAM, &all), at = 0, rows = 0, in_order = 0;
    size_t n_catalogs = pull_all(id, HL_PULL_CATALOGS, &catalogs), used;
    struct hl_wire_header h;
    const uint8_t *body;
    struct hl_rows r;
    while (hl_wire_next(all + at, n - at, HL_IN_STREAM, HL_STATE_FILE, &h, &body,
                        &used) == 0) {
        if (h.type == HL_MSG_ROWS && !hl_decode_rows(body, h.length, &r)) {
            in_order += hl_rows_cell(&r, 0) == (double)rows;
            rows++;
        }
        at += used;
    }
    printf("stream rows=%zu in_order=%zu rest=%zu catalogs=%s\n", rows, in_order, n - at,
           n_catalogs <= n && (!n || memcmp(all, catalogs, n_catalogs) == 0) ? "same"
                                                                             : "differ");
    free(all);
    free(catalogs);
}

static void print_points(uint32_t id)
{
    uint8_t *all;
    size_t n = pull_all(id, HL_PULL_POINTS, &all);
    for (size_t at = 0; at + HL_POINT_BYTES <= n; at += HL_POINT_BYTES) {
        struct hl_point v;
        hl_point_get(all + at, &v);
        printf("point time_ns=%lld heap=%lld peak=%lld rss=%lld allocs=%llu frees=%llu\n",
               (long long)v.time_ns, (long long)v.heap_bytes,
               (long long)v.heap_peak_bytes, (long long)v.rss_bytes,
               (unsigned long long)v.allocs, (unsigned long long)v.frees);
    }
    printf("points=%zu rest=%zu\n", n / HL_POINT_BYTES, n % HL_POINT_BYTES);
    free(all);
}

static void say_taken(void)
{
    uint8_t out[64];
    struct hl_wire_header h;
    const uint8_t *body;
    if (hl_link_send(&other, out, hl_encode_taken(out, sizeof out), &err) ||
        hl_link_next(&other, &h, &body, 20000, &err) || h.type != HL_MSG_TAKEN_OK)
        DIE("taken: %s", err.text);
    printf("taken\n");
}

/* ---- actions ---- */

static int plain(const char *a)
{
    if (!strcmp(a, "heap"))
        say_heap();
    else if (!strcmp(a, "frames"))
        say_frames();
    else if (!strcmp(a, "close"))
        hl_link_close(&frames);
    else if (!strcmp(a, "torn"))
        commit_torn();
    else if (!strcmp(a, "ack"))
        wait_acked();
    else if (!strcmp(a, "exec"))
        new_image();
    else if (!strcmp(a, "nopage"))
        no_page = 1;
    else if (!strcmp(a, "nopid"))
        start_ticks = 1;
    else if (!strcmp(a, "noseal"))
        no_seal = 1;
    else if (!strcmp(a, "badsize"))
        page_size = 2 * HL_HEAP_PAGE_SIZE;
    else if (!strcmp(a, "badrows"))
        ring_size = 4096 + 4096;
    else if (!strcmp(a, "refused"))
        print_refusal();
    else if (!strcmp(a, "keeper"))
        say_other(HL_ROLE_KEEPER);
    else if (!strcmp(a, "gather"))
        say_other(HL_ROLE_GATHER);
    else if (!strcmp(a, "state"))
        print_state();
    else if (!strcmp(a, "taken"))
        say_taken();
    else if (!strcmp(a, "wait")) {
        if (getchar() == EOF)
            exit(0);
    } else if (!strcmp(a, "pause"))
        pause();
    else
        return 0;
    return 1;
}

static void with_value(const char *a, const char *v)
{
    size_t n = (size_t)(v - a) - 1;
    long number = strtol(v, NULL, 10);
#define IS(word) (n == sizeof word - 1 && !memcmp(a, word, n))
    if (IS("page"))
        set_page(v);
    else if (IS("rows")) {
        commit_rows(number);
        send_rows();
    } else if (IS("hold"))
        commit_rows(number);
    else if (IS("bye"))
        say_bye(number);
    else if (IS("ring"))
        ring_size = (uint64_t)number;
    else if (IS("record"))
        say_record(number);
    else if (IS("exit")) {
        end_page(HL_HEAP_EXIT, (int)number);
        exit((int)number);
    } else if (IS("_exit"))
        _exit((int)number);
    else if (IS("kill")) {
        kill(getpid(), (int)number);
        pause();
    } else if (IS("fds"))
        send_many_fds(number);
    else if (IS("raw"))
        send_raw(v);
    else if (IS("catalog"))
        send_catalog(v);
    else if (IS("ended"))
        say_ended(v);
    else if (IS("index"))
        print_index(number);
    else if (IS("pull"))
        print_stream((uint32_t)number);
    else if (IS("points"))
        print_points((uint32_t)number);
    else if (IS("loaded"))
        page->load_mono_ns -= number * 1000000000;
    else if (IS("rank"))
        rank = (int32_t)number;
    else if (IS("interval"))
        interval_ns = number * 1000000;
    else if (IS("say"))
        printf("%s\n", v);
    else
        DIE("unknown action %s", a);
#undef IS
}

int main(int argc, char **argv)
{
    if (argc < 3)
        DIE("SOCKET KEY ACTION...");
    socket_path = argv[1];
    key = argv[2];
    start_ticks = hl_start_ticks(getpid());
    if (getrandom(&image, sizeof image, 0) != sizeof image)
        DIE("getrandom");
    for (int i = 3; i < argc; i++) {
        const char *equal = strchr(argv[i], '=');
        if (equal)
            with_value(argv[i], equal + 1);
        else if (!plain(argv[i]))
            DIE("unknown action %s", argv[i]);
        fflush(stdout);
    }
    return 0;
}
