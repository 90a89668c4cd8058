/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client can do to a collector:
 *
 *   collector_hostile SOCKET COLLECTOR-PID SEED CASE N
 *
 * does the case (N: how often, where that makes sense) and then looks whether the
 * collector still lives, answers others, and has given back descriptors and memory.
 * Prints what is wrong, a line each; nothing when all is well.
 */
#include "config.h"

#include "load.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMORY_KIB = 8192, TRIES = 400, TRY_US = 50000 };

static const char *path;
static pid_t collector;
static uint64_t chance;
static long n_times;
static int n_faults;

#define WRONG(...) (printf(__VA_ARGS__), putchar('\n'), n_faults++)

/* ---- what is looked at ---- */

static long n_descriptors(int print)
{
    char name[64], to[512];
    long n = 0;
    snprintf(name, sizeof name, "/proc/%ld/fd", (long)collector);
    DIR *d = opendir(name);
    for (struct dirent *e; d && (e = readdir(d));) {
        ssize_t k = readlinkat(dirfd(d), e->d_name, to, sizeof to - 1);
        to[k > 0 ? k : 0] = 0;
        if (k <= 0 || strstr(to, ".spool")) /* of which some stay open */
            continue;
        n++;
        if (print && n <= 40)
            printf("%s -> %s\n", e->d_name, to);
    }
    if (d)
        closedir(d);
    return n;
}

static long memory_kib(void)
{
    char name[64], line[256];
    long v = -1;
    snprintf(name, sizeof name, "/proc/%ld/status", (long)collector);
    FILE *f = fopen(name, "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "VmRSS:", 6))
            v = atol(line + 6);
    if (f)
        fclose(f);
    return v;
}

static void others_are_served(const char *when)
{
    struct hl_err e = {0};
    struct hl_link l;
    struct hl_state s;
    if (hl_link_open(&l, path, -1, &e) ||
        hl_link_hello(&l, HL_ROLE_GATHER, "calm", getpid(), &e) ||
        hl_link_state(&l, &s, &e))
        WRONG("others are not served %s: %s", when, e.text);
    else if (s.n_processes != 1 || s.n_alive != 1)
        WRONG("the calm job has %llu processes %s", (unsigned long long)s.n_processes,
              when);
    hl_link_close(&l);
}

static void all_is_back(long fds, long kib)
{
    long f = 0, m = 0;
    for (int i = 0; i < TRIES; i++) {
        f = n_descriptors(0);
        m = memory_kib();
        if (f <= fds && m <= kib + MEMORY_KIB)
            return;
        load_nap(TRY_US);
    }
    if (f > fds)
        WRONG("%ld descriptors before, %ld after", fds, f), n_descriptors(1);
    if (m > kib + MEMORY_KIB)
        WRONG("%ld KiB before, %ld KiB after", kib, m);
}

/* ---- sessions ---- */

static int dial(void)
{
    int fd = load_connect_to(path);
    if (fd < 0) {
        WRONG("cannot connect: %s", strerror(errno));
        exit(1);
    }
    return fd;
}

static void put(int fd, const void *p, size_t n)
{
    load_send_fds(fd, p, n, NULL, 0);
}

/* Type of the next answer, 0: the connection ended, -1: none within 20 s. */
static int answer(int fd)
{
    uint8_t in[HL_WIRE_HEADER + 2048];
    struct hl_wire_header h;
    const uint8_t *body;
    size_t n = 0, used;
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, 20000) <= 0)
            return -1;
        ssize_t k = recv(fd, in + n, sizeof in - n, 0);
        if (k <= 0)
            return 0;
        n += (size_t)k;
        if (hl_wire_next(in, n, HL_FROM_COLLECTOR, HL_STATE_ANY, &h, &body, &used) == 0)
            return h.type;
    }
}

static void expect(int fd, int type, const char *what)
{
    int got = answer(fd);
    if (got != type)
        WRONG("%s: answered by type %d, not by %d", what, got, type);
}

static void fresh(struct load_client *c, const char *key)
{
    uint64_t image = load_random(&chance);
    load_init(c, path, key, image, -1);
    c->pid = (int64_t)(image % 1000000) + 5000000;
    c->start_ticks = 1; /* its end is the connection's end */
}

static void done(struct load_client *c)
{
    load_disconnect(c);
    if (c->page)
        munmap(c->page, HL_HEAP_PAGE_SIZE);
    if (c->ring)
        munmap(c->ring, c->ring->size);
    if (c->page_fd >= 0)
        close(c->page_fd);
    if (c->ring_fd >= 0)
        close(c->ring_fd);
}

/* A hello of this role without descriptors. */
static int in_state(unsigned role)
{
    struct load_client c;
    int fd = dial();
    fresh(&c, "states");
    if (role) {
        load_say_hello(&c, fd, role, HL_HELLO_UNSHARED * (role <= HL_ROLE_FRAMES), NULL,
                       0);
        if (answer(fd) != HL_MSG_HELLO_OK && role != HL_ROLE_CONTROL)
            WRONG("no answer to a hello of role %u", role);
    }
    return fd;
}

/* ---- descriptors ---- */

static int made_of(off_t size, int seals, uint64_t image, int is_ring, uint64_t says)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct hl_heap_header h = {.magic = HL_HEAP_PAGE_MAGIC,
                               .version = HL_HEAP_PAGE_VERSION,
                               .size = HL_HEAP_PAGE_SIZE,
                               .image = image};
    struct hl_row_buffer r = {.magic = HL_ROW_BUFFER_MAGIC,
                              .version = HL_ROW_BUFFER_VERSION,
                              .size = says,
                              .image = image};
    if (fd < 0 || ftruncate(fd, size))
        LOAD_DIE("memfd: %s", strerror(errno));
    size_t n = is_ring ? sizeof r : sizeof h;
    if ((off_t)n <= size && pwrite(fd, is_ring ? (void *)&r : (void *)&h, n, 0) < 0)
        LOAD_DIE("memfd: %s", strerror(errno));
    fcntl(fd, F_ADD_SEALS, seals);
    return fd;
}

static void hand(int fd, uint64_t image_off, int is_ring, int type, const char *what)
{
    struct load_client c;
    int sock = dial();
    fresh(&c, "hand");
    c.image = 77 + image_off;
    load_say_hello(&c, sock, is_ring ? HL_ROLE_FRAMES : HL_ROLE_HEAP,
                   is_ring ? HL_HELLO_ROWS : HL_HELLO_PAGE, &fd, 1);
    expect(sock, type, what);
    close(sock);
    close(fd);
}

static void do_seals(void)
{
    enum { BOTH = F_SEAL_SHRINK | F_SEAL_GROW };
    static const off_t sizes[] = {0, 1, 4096, 65535, 65537, 131072, 1 << 30};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        hand(made_of(sizes[i], BOTH, 77, 0, 0), 0, 0, HL_MSG_REFUSED,
             "a page of another size");
    static const int seals[] = {0, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_WRITE};
    for (size_t i = 0; i < sizeof seals / sizeof *seals; i++) {
        hand(made_of(65536, seals[i], 77, 0, 0), 0, 0, HL_MSG_REFUSED,
             "a page without all seals");
        hand(made_of(65536, seals[i], 77, 1, 65536), 0, 1, HL_MSG_REFUSED,
             "a ring without all seals");
    }
    static const off_t rings[] = {0, 4096, 65535, (1 << 30) + 1, (off_t)1 << 40};
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++)
        hand(made_of(rings[i], BOTH, 77, 1, (uint64_t)rings[i]), 0, 1, HL_MSG_REFUSED,
             "a ring of a size out of bounds");
    hand(made_of(65536, BOTH, 77, 1, 131072), 0, 1, HL_MSG_REFUSED,
         "a ring that says another size");
    hand(made_of(65536, BOTH, 77, 1, UINT64_MAX), 0, 1, HL_MSG_REFUSED,
         "a ring that says a huge size");
    hand(made_of(65536, BOTH, 77, 0, 0), 1, 0, HL_MSG_REFUSED, "another image's page");
    hand(made_of(65536, BOTH, 77, 1, 65536), 1, 1, HL_MSG_REFUSED,
         "another image's ring");
    hand(made_of(65536, BOTH, 78, 1, 65536), 1, 1, HL_MSG_HELLO_OK, "a right ring");
    hand(open("/dev/null", O_RDWR), 0, 0, HL_MSG_REFUSED, "/dev/null for a page");
    hand(open("/dev/zero", O_RDWR), 0, 1, HL_MSG_REFUSED, "/dev/zero for a ring");
    hand(open("/", O_RDONLY), 0, 0, HL_MSG_REFUSED, "a folder for a page");
    hand(epoll_create1(0), 0, 0, HL_MSG_REFUSED, "an epoll for a page");
    hand(dial(), 0, 1, HL_MSG_REFUSED, "a connection for a ring");
}

static void do_descriptors(void)
{
    int fds[253];
    uint8_t bye[64];
    struct hl_bye m = {0, 0};
    size_t n = (size_t)hl_encode_bye(bye, sizeof bye, &m);
    for (int i = 0; i < 253; i++)
        fds[i] = open("/dev/null", O_RDONLY);
    for (long i = 0; i < n_times; i++) {
        struct load_client c;
        int fd = dial();
        fresh(&c, "many");
        if (i % 3 == 0)
            load_say_hello(&c, fd, HL_ROLE_HEAP, HL_HELLO_PAGE, fds, 253);
        for (int k = 0; k < 8; k++) /* with every byte of half a header */
            load_send_fds(fd, bye + k, 1, fds, i % 3 == 1 ? 253 : 3);
        close(fd);
        fd = in_state(1 + (unsigned)i % 4);
        for (int k = 0; k < 8; k++)
            load_send_fds(fd, bye, n, fds, 253);
        expect(fd, HL_MSG_REFUSED, "descriptors with a later message");
        close(fd);
    }
    for (int i = 0; i < 253; i++)
        close(fds[i]);
}

/* ---- what shared memory says ---- */

static void ended_records(const char *key)
{
    struct hl_link l;
    struct load_index x;
    load_gather_open(&l, path, key);
    if (load_gather_index(&l, 20000, &x)) {
        WRONG("no index of the job %s", key);
    } else {
        if (x.n_alive)
            WRONG("%llu of the job %s have not ended", (unsigned long long)x.n_alive,
                  key);
        for (size_t i = 0; i < x.n; i++)
            if (x.seen[i].record.peak_bytes < 0 || load_gather_check(&l, &x.seen[i]))
                WRONG("process %zu of the job %s cannot be told", i, key);
    }
    load_index_fini(&x);
    hl_link_close(&l);
}

static void do_counters(void)
{
    static const uint64_t odd[] = {0,          1,          960,       961,       1u << 31,
                                   UINT32_MAX, 1ull << 63, INT64_MAX, UINT64_MAX};
    for (long i = 0; i < n_times; i++) {
        struct load_client c;
        fresh(&c, "lies");
        load_make_page(&c);
        uint64_t *w = (uint64_t *)c.page;
        size_t n = i % 2 ? HL_HEAP_PAGE_SIZE / 8 : HL_HEAP_PAGE_HEADER / 8;
        if (load_connect(&c))
            WRONG("a right page was refused");
        for (size_t k = 0; k < (i % 4 < 2 ? 20 : n); k++)
            w[3 + load_random(&chance) % (n - 3)] = odd[load_random(&chance) % 9];
        if (i % 3 == 0)
            memset(c.page->host, 'A' + (int)(i % 200), sizeof c.page->host);
        c.page->n_slots_used = (uint32_t)odd[i % 9];
        if (i % 8 == 7) /* another page altogether */
            c.page->magic = c.page->image = load_random(&chance);
        done(&c);
    }
    ended_records("lies");
}

static void do_rings(void)
{
    for (long i = 0; i < n_times; i++) {
        struct load_client c;
        uint64_t luck = load_random(&chance);
        fresh(&c, "rings");
        load_make_ring(&c, 65536);
        if (load_connect(&c))
            WRONG("a right ring was refused");
        load_commit(&c, 20);
        load_step(&c, 65536, 1000);
        struct hl_row_buffer *r = c.ring;
        uint64_t heads[] = {0,
                            1,
                            r->head - 1,
                            r->head + 1,
                            r->head + 61440,
                            r->head + 61441,
                            1ull << 40,
                            UINT64_MAX};
        r->head = heads[luck % 8];
        if (luck & 16)
            r->n_rows = r->n_dropped = UINT64_MAX - luck % 3;
        if (luck & 32)
            r->sent = r->acked = luck;
        if (luck & 64)
            memset((uint8_t *)r + HL_ROW_BUFFER_DATA, (int)luck, 61440);
        if (luck & 128) {
            r->magic = luck & 256 ? r->magic : luck;
            r->version = luck & 512 ? 1 : 99;
        }
        uint64_t size = r->size;
        if (luck & 1024)
            r->size = luck;
        load_disconnect(&c);
        load_nap(200); /* some are changed while they are read */
        r->head = luck;
        r->size = size;
        done(&c);
    }
    ended_records("rings");
}

/* ---- halves ---- */

static void do_halves(void)
{
    enum { HALVES = 40 };
    int fd[2 * HALVES];
    uint8_t out[4096];
    struct load_client c, good;
    fresh(&c, "halves");
    c.width = 50;
    size_t n = load_put_catalog(&c, out, sizeof out);
    for (int i = 0; i < HALVES; i++) {
        fd[i] = dial();
        put(fd[i], out, (size_t)(i % 20)); /* no hello at all */
        fd[HALVES + i] = in_state(HL_ROLE_FRAMES);
        put(fd[HALVES + i], out, 1 + (size_t)i * (n - 2) / HALVES);
    }
    fresh(&good, "beside");
    load_make_ring(&good, 1 << 20);
    if (load_connect(&good))
        WRONG("another is not served beside halves");
    for (int i = 0; i < 100 && good.fd >= 0; i++) {
        load_commit(&good, 10);
        load_finish(&good);
    }
    done(&good);
    for (int i = 0; i < HALVES; i++) {
        expect(fd[i], HL_MSG_REFUSED, "no hello in time");
        struct pollfd p = {fd[HALVES + i], POLLIN, 0};
        if (poll(&p, 1, 0) > 0)
            WRONG("half a message of the stream was answered");
    }
    for (int i = 0; i < 2 * HALVES; i++)
        close(fd[i]);
}

/* ---- names ---- */

static void hello_of(const uint8_t *body, size_t n, int type, const char *what)
{
    static uint8_t out[HL_WIRE_HEADER + 70000];
    int fd = dial();
    memcpy(out + HL_WIRE_HEADER, body, n);
    hl_wire_header_put(out, HL_MSG_HELLO, out + HL_WIRE_HEADER, (uint32_t)n);
    put(fd, out, HL_WIRE_HEADER + n);
    expect(fd, type, what);
    close(fd);
}

static size_t hello_fields(uint8_t *out, size_t cap, unsigned tag, const char *text,
                           size_t n)
{
    struct hl_writer w = hl_writer_on(out, cap);
    hl_put_field_u64(&w, 1, 0x0101);
    hl_put_field_u64(&w, 2, HL_ROLE_FRAMES);
    hl_put_field_u64(&w, 3, HL_HELLO_UNSHARED);
    hl_put_field_u64(&w, 4, 1 + load_random(&chance) % 1000000);
    hl_put_field_u64(&w, 5, 1);
    hl_put_field_u64(&w, 6, load_random(&chance));
    if (tag != 10)
        hl_put_field_str(&w, 10, (struct hl_str){"names", 5});
    hl_put_field_str(&w, tag, (struct hl_str){text, n});
    return w.n;
}

static void do_names(void)
{
    static uint8_t body[70000];
    static char x[4000];
    static const char *const names[] = {"../..",
                                        ".",
                                        "..",
                                        "/",
                                        "/etc/passwd",
                                        "a/b",
                                        "%2e%2e",
                                        "new\nline",
                                        "\x1b[31mred",
                                        "\x7f\x01\x02",
                                        "\xff\xfe\xc0\xaf",
                                        ("\xe2\x80\xae"
                                         "abc"),
                                        "%s%n%d",
                                        "a\tb\r",
                                        " ",
                                        "-rf",
                                        "\xf0\x9f\x98\x80"};
    memset(x, 'x', sizeof x);
    for (unsigned tag = 10; tag <= 13; tag++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            hello_of(body,
                     hello_fields(body, sizeof body, tag, names[i], strlen(names[i])),
                     HL_MSG_HELLO_OK, names[i]);
        hello_of(body, hello_fields(body, sizeof body, tag, x, 255), HL_MSG_HELLO_OK,
                 "a name of 255 bytes");
        hello_of(body, hello_fields(body, sizeof body, tag, x, 256), HL_MSG_REFUSED,
                 "a name of 256 bytes");
        hello_of(body, hello_fields(body, sizeof body, tag, x, 3900), HL_MSG_REFUSED,
                 "a name of 3900 bytes");
        hello_of(body, hello_fields(body, sizeof body, tag, "a\0b", 3), HL_MSG_REFUSED,
                 "a name with a NUL byte");
    }
    hello_of(body, hello_fields(body, sizeof body, 10, "", 0), HL_MSG_REFUSED,
             "an empty key");
    size_t n = hello_fields(body, sizeof body, 10, x, 100);
    body[n - 101] = 0xff; /* the length of the last field */
    hello_of(body, n, HL_MSG_REFUSED, "a field longer than its message");
    /* 10 MB, as the header says: refused before any of it is kept. */
    uint8_t head[HL_WIRE_HEADER] = {'H', 'L', 1, HL_MSG_HELLO, 0x80, 0x96, 0x98, 0};
    int fd = dial();
    put(fd, head, sizeof head);
    expect(fd, HL_MSG_REFUSED, "a hello of 10 MB");
    close(fd);
}

/* ---- connects ---- */

static void do_connects(void)
{
    struct load_client c;
    uint8_t ask[64];
    for (long i = 0; i < n_times; i++) {
        int fd = dial();
        if (i % 5 == 1)
            put(fd, "HL\1\1", 4);
        if (i % 5 == 2) { /* leaves without having read the answer */
            fresh(&c, "connects");
            load_say_hello(&c, fd, HL_ROLE_GATHER, 0, NULL, 0);
        }
        if (i % 50 == 3) {
            fresh(&c, "connects");
            load_say_hello(&c, fd, HL_ROLE_FRAMES, HL_HELLO_UNSHARED, NULL, 0);
        }
        if (i % 5 == 4) {
            fresh(&c, "connects");
            load_say_hello(&c, fd, HL_ROLE_GATHER, 0, NULL, 0);
            put(fd, ask, (size_t)hl_encode_index_ask(ask, sizeof ask, 60000));
        }
        close(fd);
    }
}

/* Asks and never reads. */
static void do_deaf(void)
{
    enum { DEAF = 24, ASKS = 20000 };
    int fd[DEAF];
    uint8_t ask[64];
    struct hl_pull m = {0, HL_PULL_STREAM, 0, 1048560};
    long before = memory_kib();
    for (int i = 0; i < DEAF; i++) {
        struct load_client c;
        size_t n = (size_t)(i % 3 == 0   ? hl_encode_pull(ask, sizeof ask, &m)
                            : i % 3 == 1 ? hl_encode_index_ask(ask, sizeof ask, 0)
                                         : hl_encode_state_ask(ask, sizeof ask));
        fd[i] = dial();
        fresh(&c, "calm");
        load_say_hello(&c, fd[i], HL_ROLE_GATHER, 0, NULL, 0);
        for (int k = 0; k < ASKS; k++)
            if (send(fd[i], ask, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
                break;
    }
    others_are_served("beside those that never read");
    long more = memory_kib() - before;
    if (more > DEAF * 3072L)
        WRONG("%ld KiB for %d that never read", more, DEAF);
    for (int i = 0; i < DEAF; i++)
        close(fd[i]);
}

/* With bytes that were not read a close is a reset. */
static void do_resets(void)
{
    uint8_t out[4096];
    struct load_client c;
    for (long i = 0; i < n_times; i++) {
        unsigned role = (unsigned)i % 5;
        int fd = dial();
        fresh(&c, "resets");
        c.width = 1 + (uint32_t)(i % 20);
        if (role)
            load_say_hello(&c, fd, role, HL_HELLO_UNSHARED * (role <= 2), NULL, 0);
        if (role == HL_ROLE_FRAMES) {
            put(fd, out, load_put_catalog(&c, out, sizeof out));
            size_t n = load_put_rows(&c, 0, out, sizeof out);
            put(fd, out, i % 2 ? n : n / 2);
        } else if (role == HL_ROLE_GATHER) {
            put(fd, out, (size_t)hl_encode_index_ask(out, sizeof out, (uint32_t)i % 3));
            put(fd, out, (size_t)hl_encode_state_ask(out, sizeof out));
        }
        struct pollfd p = {fd, POLLIN, 0};
        poll(&p, 1, (int)(i % 3));
        struct linger off = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof off);
        if (i % 7 == 0)
            shutdown(fd, (int)(i / 7) % 3);
        close(fd);
    }
}

/* ---- messages ---- */

static void do_nocatalog(void)
{
    uint8_t out[4096];
    struct load_client c;
    fresh(&c, "nocatalog");
    int fd = in_state(HL_ROLE_FRAMES);
    put(fd, out, load_put_rows(&c, 0, out, sizeof out));
    expect(fd, HL_MSG_REFUSED, "rows of no catalog");
    close(fd);
    fd = in_state(HL_ROLE_FRAMES);
    put(fd, out, load_put_catalog(&c, out, sizeof out));
    c.width = 5;
    put(fd, out, load_put_rows(&c, 0, out, sizeof out));
    uint8_t in[4096]; /* an ACK of the catalog may come before it */
    size_t k = 0;
    ssize_t more = 1;
    struct pollfd p = {fd, POLLIN, 0};
    while (more > 0 && k < sizeof in && !memmem(in, k, "HL\1\3", 4)) {
        more = poll(&p, 1, 20000) > 0 ? recv(fd, in + k, sizeof in - k, 0) : 0;
        k += more > 0 ? (size_t)more : 0;
    }
    if (!memmem(in, k, "HL\1\3", 4))
        WRONG("rows of another width are not refused");
    close(fd);
}

static void do_states(void)
{
    static uint8_t out[HL_WIRE_HEADER + 300000];
    for (unsigned role = 0; role <= 7; role++)
        for (unsigned type = 0; type < 48; type++)
            for (unsigned k = 0; k < 4; k++) {
                const struct hl_wire_type *t = hl_wire_type(type);
                uint32_t n = !t ? 16 : k == 0 ? t->min : k == 1 ? t->min + 8 : t->max;
                n = n > 300000 ? 300000 : n;
                if (k == 3)
                    n = 0;
                for (uint32_t i = 0; i < n; i++)
                    out[HL_WIRE_HEADER + i] = (uint8_t)(k ? load_random(&chance) : 0);
                hl_wire_header_put(out, type, out + HL_WIRE_HEADER, n);
                int fd = role > 5 ? dial() : in_state(role);
                struct pollfd p = {fd, POLLOUT, 0};
                poll(&p, 1, 1000);
                send(fd, out, HL_WIRE_HEADER + n, MSG_NOSIGNAL | MSG_DONTWAIT);
                p.events = POLLIN;
                poll(&p, 1, 1);
                close(fd);
            }
}

/* A right session of one of the roles. */
static size_t session(uint8_t *out, size_t cap)
{
    struct load_client c;
    struct hl_bye bye = {1, 9};
    struct hl_ended_msg ended = {.pid = 7, .end = {HL_ENDED_SIGNAL, 9}};
    struct hl_pull pull = {0, (uint32_t)load_random(&chance) % 2, 0, 4096};
    unsigned role = 1 + (unsigned)(load_random(&chance) % 4);
    fresh(&c, "mutants");
    struct hl_hello h = {.wire_min = 1,
                         .wire_max = 1,
                         .role = (uint8_t)role,
                         .flags = role <= 2 ? HL_HELLO_UNSHARED : 0,
                         .pid = c.pid,
                         .start_ticks = 1,
                         .image = c.image,
                         .key = {"mutants", 7},
                         .host = {"h", 1},
                         .job = {"j", 1},
                         .app_version = {"v", 1}};
    size_t n = (size_t)hl_encode_hello(out, cap, &h);
    if (role == HL_ROLE_FRAMES) {
        n += load_put_catalog(&c, out + n, cap - n);
        for (uint64_t r = 0; r < 5; r++)
            n += load_put_rows(&c, r, out + n, cap - n);
        n += (size_t)hl_encode_bye(out + n, cap - n, &bye);
    } else if (role == HL_ROLE_HEAP) {
        struct hl_record_msg m = {.record = load_record(c.image), .end = {1, 0}};
        n += (size_t)hl_encode_record(out + n, cap - n, &m);
    } else if (role == HL_ROLE_KEEPER) {
        n += (size_t)hl_encode_ended(out + n, cap - n, &ended);
        n += (size_t)hl_encode_state_ask(out + n, cap - n);
    } else {
        n += (size_t)hl_encode_index_ask(out + n, cap - n, 1);
        n += (size_t)hl_encode_pull(out + n, cap - n, &pull);
        n += (size_t)hl_encode_taken(out + n, cap - n);
    }
    return n;
}

static size_t mutate(uint8_t *p, size_t n, size_t cap)
{
    for (uint64_t k = 1 + load_random(&chance) % 3; k && n > 1; k--) {
        size_t at = load_random(&chance) % n, len = load_random(&chance) % 64;
        len = len < n - at ? len : n - at;
        switch (load_random(&chance) % 5) {
        case 0: p[at] ^= (uint8_t)(1 << load_random(&chance) % 8); break;
        case 1: p[at] = (uint8_t)load_random(&chance); break;
        case 2: /* a piece is missing */
            memmove(p + at, p + at + len, n - at - len);
            n -= len;
            break;
        case 3: /* or comes twice */
            if (n + len <= cap) {
                memmove(p + at + len, p + at, n - at);
                n += len;
            }
            break;
        default: n = at; break;
        }
    }
    return n;
}

/* Checksums that are right again let what was changed in. */
static void make_right(uint8_t *p, size_t n)
{
    struct hl_wire_header h;
    for (size_t at = 0; at + HL_WIRE_HEADER <= n; at += HL_WIRE_HEADER + h.length) {
        if (hl_wire_header_get(p + at, n - at, &h) || h.length > n - at - HL_WIRE_HEADER)
            return;
        hl_wire_header_put(p + at, h.type, p + at + HL_WIRE_HEADER, h.length);
    }
}

static void do_mutants(void)
{
    static uint8_t out[1 << 16];
    int fds[2] = {open("/dev/null", O_RDONLY), made_of(65536, 0, 1, 0, 0)};
    for (long i = 0; i < n_times; i++) {
        size_t n = mutate(out, session(out, sizeof out / 2), sizeof out);
        if (load_random(&chance) % 4)
            make_right(out, n);
        int fd = dial();
        for (size_t at = 0; at < n;) {
            size_t k = 1 + load_random(&chance) % n;
            k = k < n - at ? k : n - at;
            load_send_fds(fd, out + at, k, fds, load_random(&chance) % 16 ? 0 : 2);
            at += k;
        }
        if (load_random(&chance) % 2) {
            struct pollfd p = {fd, POLLIN, 0};
            poll(&p, 1, (int)(load_random(&chance) % 3));
        }
        close(fd);
        if (i % 500 == 499)
            others_are_served("between mutants");
    }
    close(fds[0]);
    close(fds[1]);
}

/* In a process of its own: a change may have made a connection that of a process
 * which the collector then knows to be alive. */
static void in_child(void (*run)(void))
{
    int status;
    fflush(stdout);
    pid_t pid = load_fork();
    if (!pid) {
        run();
        exit(n_faults != 0);
    }
    if (waitpid(pid, &status, 0) != pid || status)
        n_faults++;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"seals", do_seals},       {"descriptors", do_descriptors},
                 {"counters", do_counters}, {"rings", do_rings},
                 {"halves", do_halves},     {"names", do_names},
                 {"connects", do_connects}, {"deaf", do_deaf},
                 {"resets", do_resets},     {"nocatalog", do_nocatalog},
                 {"states", do_states},     {"mutants", do_mutants}};
    if (argc != 6)
        LOAD_DIE("SOCKET COLLECTOR-PID SEED CASE N");
    path = argv[1];
    collector = (pid_t)atol(argv[2]);
    chance = load_mix(strtoull(argv[3], NULL, 10));
    for (const char *p = argv[4]; *p; p++) /* no image comes twice */
        chance = load_mix(chance + (uint64_t)*p);
    n_times = atol(argv[5]);
    load_raise_limit();
    long fds = n_descriptors(0), kib = memory_kib();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[4], cases[i].name)) {
            in_child(cases[i].run);
            others_are_served("afterwards");
            all_is_back(fds, kib);
            if (kill(collector, 0))
                WRONG("the collector is gone");
            return n_faults != 0;
        }
    LOAD_DIE("unknown case %s", argv[4]);
}
