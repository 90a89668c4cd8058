/* SPDX-License-Identifier: Apache-2.0
 *
 * The collector as a service: the queue to the manager's store of descriptors
 * (a socket pair plays the manager), what is passed at start, slots, samples.
 */
#include "fdstore.h"
#include "notify.h"
#include "passed.h"
#include "samples.h"
#include "slots.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- help ---- */

static int sealed(const char *content)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    return fd;
}

static uint64_t inode(int fd)
{
    struct stat st;
    ck_assert_int_eq(fstat(fd, &st), 0);
    return (uint64_t)st.st_ino;
}

static int n_open(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* ---- the manager's side ---- */

static struct hl_loop *loop;
static struct hl_fdstore *store;
static int ours, manager, n_before;

static void set_up(void)
{
    int pair[2];
    hl_loop_free(hl_loop_new()); /* libuv keeps a few for all loops */
    n_before = n_open();
    ck_assert_int_eq(
        socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    ours = pair[0];
    manager = pair[1];
    ck_assert_ptr_nonnull(loop = hl_loop_new());
    ck_assert_ptr_nonnull(store = hl_fdstore_new(loop, ours));
}

static void tear_down(void)
{
    hl_fdstore_free(store);
    ck_assert_int_eq(hl_loop_free(loop), 0);
    close(ours);
    close(manager);
    ck_assert_int_eq(n_open(), n_before); /* no descriptor was left behind */
}

/* The next datagram's text; its descriptor in *fd (-1: none).  NULL: nothing. */
static const char *receive(int *fd)
{
    static char text[256];
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec v = {text, sizeof text - 1};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control.room};
    ssize_t n = recvmsg(manager, &m, MSG_CMSG_CLOEXEC);
    *fd = -1;
    if (n < 0)
        return NULL;
    text[n] = 0;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return text;
}

static void expect(const char *text, uint64_t want_inode)
{
    int fd;
    const char *got = receive(&fd);
    ck_assert_ptr_nonnull(got);
    ck_assert_str_eq(got, text);
    ck_assert_int_eq(fd >= 0, want_inode != 0);
    if (fd >= 0) {
        ck_assert_uint_eq(inode(fd), want_inode);
        close(fd);
    }
}

static void expect_silence(void)
{
    int fd;
    ck_assert_ptr_null(receive(&fd));
}

START_TEST(a_name_is_short_and_comes_back)
{
    static const struct {
        uint32_t slot;
        const char *name;
    } of[] = {{0, "p0"}, {31, "pv"}, {32, "p10"}, {1023, "pvv"}, {65535, "p1vvv"}};
    char name[HL_FDSTORE_NAME_CAP], kind;
    uint32_t slot;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        hl_fdstore_name('p', of[i].slot, name);
        ck_assert_str_eq(name, of[i].name);
    }
    for (uint32_t s = 0; s < HL_FDSTORE_SLOTS; s++) {
        hl_fdstore_name('r', s, name);
        ck_assert_uint_le(strlen(name), 6);
        ck_assert_int_eq(hl_fdstore_parse(name, strlen(name), &kind, &slot), 0);
        ck_assert(kind == 'r' && slot == s);
    }
}
END_TEST

START_TEST(other_names_are_refused)
{
    static const char *const bad[] = {"",    "p",      "q1",    "p01",   "pw",
                                      "pA",  "p-1",    "p1 ",   "p2000", "rvvvvvvv",
                                      "p_1", "stored", "p\0001"};
    char kind;
    uint32_t slot;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(hl_fdstore_parse(bad[i], strlen(bad[i]), &kind, &slot), -1);
    ck_assert_int_eq(hl_fdstore_parse("p\0001", 3, &kind, &slot), -1);
}
END_TEST

START_TEST(a_descriptor_is_kept_and_let_go)
{
    int fd = sealed("page");
    uint64_t ino = inode(fd);
    ck_assert_int_eq(hl_fdstore_keep(store, 'p', 33, fd), 0);
    close(fd);
    expect("FDSTORE=1\nFDNAME=p11", ino);
    hl_fdstore_drop(store, 'p', 33);
    expect("FDSTOREREMOVE=1\nFDNAME=p11", 0);
    hl_fdstore_drop(store, 'p', 33); /* not there any more */
    hl_fdstore_drop(store, 'r', 33); /* never was */
    expect_silence();
    ck_assert_uint_eq(hl_fdstore_queued(store), 0);
}
END_TEST

START_TEST(a_second_one_of_a_name_replaces_the_first)
{
    int a = sealed("a"), b = sealed("b");
    hl_fdstore_keep(store, 'p', 1, a);
    hl_fdstore_keep(store, 'p', 1, b);
    expect("FDSTORE=1\nFDNAME=p1", inode(a));
    expect("FDSTOREREMOVE=1\nFDNAME=p1", 0);
    expect("FDSTORE=1\nFDNAME=p1", inode(b));
    expect_silence();
    close(a);
    close(b);
}
END_TEST

/* Keep from slot 0 on until the manager takes no more; returns how many it took. */
static uint32_t fill(int fd)
{
    uint32_t n = 0;
    while (!hl_fdstore_queued(store)) {
        ck_assert_uint_lt(n, 10000);
        ck_assert_int_eq(hl_fdstore_keep(store, 'p', n++, fd), 0);
    }
    return n - 1;
}

START_TEST(what_the_manager_does_not_take_goes_later_in_order)
{
    char text[64], name[HL_FDSTORE_NAME_CAP];
    int fd = sealed("x");
    uint32_t taken = fill(fd), all = taken + 40, slot = 0;
    for (uint32_t i = taken + 1; i < all; i++)
        ck_assert_int_eq(hl_fdstore_keep(store, 'p', i, fd), 0);
    ck_assert_uint_eq(hl_fdstore_queued(store), 40);
    for (; slot < all; slot++) {
        hl_fdstore_name('p', slot, name);
        snprintf(text, sizeof text, "FDSTORE=1\nFDNAME=%s", name);
        expect(text, inode(fd)); /* which makes room for one more */
        hl_fdstore_flush(store, 0);
    }
    expect_silence();
    close(fd);
}
END_TEST

static int n_looks;
static void look_for_more(void *ctx)
{
    int fd;
    uint32_t *next = ctx;
    while (receive(&fd)) {
        if (fd >= 0)
            close(fd);
        ++*next;
    }
    if (!hl_fdstore_queued(store) || ++n_looks > 2000)
        hl_loop_stop(loop);
}

START_TEST(the_loop_sends_what_waits)
{
    int fd = sealed("x");
    uint32_t taken = fill(fd), got = 0, all = taken + 100;
    for (uint32_t i = taken + 1; i < all; i++)
        ck_assert_int_eq(hl_fdstore_keep(store, 'p', i, fd), 0);
    struct hl_timer *t = hl_timer_new(loop, look_for_more, &got);
    n_looks = 0;
    hl_timer_set(t, 1, 1);
    hl_loop_run(loop);
    look_for_more(&got);
    hl_timer_free(t);
    ck_assert_uint_eq(got, all);
    close(fd);
}
END_TEST

START_TEST(dropped_before_it_was_sent_it_vanishes)
{
    int fd = sealed("x"), got;
    uint32_t n = fill(fd);
    hl_fdstore_keep(store, 'r', 7, fd);
    hl_fdstore_keep(store, 'r', 8, fd);
    hl_fdstore_drop(store, 'r', 7); /* never sent: nothing of it */
    hl_fdstore_drop(store, 'p', 0); /* sent: let go */
    ck_assert_uint_eq(hl_fdstore_queued(store), 3);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_ptr_nonnull(receive(&got));
        close(got);
    }
    ck_assert_uint_eq(hl_fdstore_flush(store, 1000), 0);
    ck_assert_ptr_nonnull(receive(&got));
    close(got);
    expect("FDSTORE=1\nFDNAME=r8", inode(fd));
    expect("FDSTOREREMOVE=1\nFDNAME=p0", 0);
    expect_silence();
    close(fd);
}
END_TEST

START_TEST(what_ends_soon_never_troubles_the_manager)
{
    int fd = sealed("x");
    hl_fdstore_delay(store, 3600000);
    hl_fdstore_keep(store, 'p', 1, fd);
    hl_fdstore_keep(store, 'r', 1, fd);
    hl_fdstore_drop(store, 'p', 1);
    expect_silence();
    ck_assert_uint_eq(hl_fdstore_queued(store), 1);
    ck_assert_uint_eq(hl_fdstore_flush(store, 0), 0); /* the end does not wait */
    expect("FDSTORE=1\nFDNAME=r1", inode(fd));
    hl_fdstore_delay(store, 1);
    hl_fdstore_keep(store, 'p', 2, fd);
    struct hl_timer *t = hl_timer_new(loop, look_for_more, &(uint32_t){0});
    n_looks = 0;
    hl_timer_set(t, 1, 1);
    hl_loop_run(loop); /* until nothing is queued */
    hl_timer_free(t);
    ck_assert_uint_eq(hl_fdstore_queued(store), 0);
    close(fd);
}
END_TEST

START_TEST(the_manager_s_limit_is_kept)
{
    int fd = sealed("x"), got;
    setenv("FDSTORE", "3", 1);
    hl_fdstore_free(store);
    ck_assert_ptr_nonnull(store = hl_fdstore_new(loop, ours));
    unsetenv("FDSTORE");
    hl_fdstore_adopt(store, 'r', 9);
    ck_assert_int_eq(hl_fdstore_keep(store, 'p', 1, fd), 0);
    ck_assert_int_eq(hl_fdstore_keep(store, 'p', 2, fd), 0);
    ck_assert_int_eq(hl_fdstore_keep(store, 'p', 3, fd), -1);
    hl_fdstore_drop(store, 'r', 9);
    ck_assert_int_eq(hl_fdstore_keep(store, 'p', 3, fd), 0);
    ck_assert_int_eq(hl_fdstore_keep(store, 'p', 4, fd), -1);
    ck_assert_int_eq(hl_fdstore_keep(store, 'p', 3, fd), 0); /* in place of itself */
    for (int i = 0; i < 6; i++) {
        ck_assert_ptr_nonnull(receive(&got));
        if (got >= 0)
            close(got);
    }
    expect_silence();
    close(fd);
}
END_TEST

START_TEST(the_queue_is_bounded)
{
    int fd = sealed("x"), before = n_open();
    uint32_t n = fill(fd), extra = 0;
    /* Copies are bounded by descriptors before they are by the queue's size. */
    while (extra < 2 * HL_FDSTORE_DEFAULT_MAX && !hl_fdstore_keep(store, 'r', extra, fd))
        extra++;
    ck_assert_uint_ge(hl_fdstore_queued(store), 100);
    ck_assert_uint_le(extra + n, HL_FDSTORE_DEFAULT_MAX);
    for (uint32_t i = 0; i < extra; i++)
        hl_fdstore_drop(store, 'r', i);
    hl_fdstore_drop(store, 'p', n);
    ck_assert_uint_eq(hl_fdstore_queued(store), 0);
    ck_assert_int_eq(n_open(), before);
    close(fd);
}
END_TEST

START_TEST(without_a_manager_nothing_happens)
{
    unsetenv("NOTIFY_SOCKET");
    ck_assert_int_eq(hl_fdstore_available(), 0);
    hl_notify("READY=1");
    ck_assert_int_eq(hl_fdstore_keep(NULL, 'p', 1, 0), -1);
    hl_fdstore_drop(NULL, 'p', 1);
    hl_fdstore_adopt(NULL, 'p', 1);
    ck_assert_uint_eq(hl_fdstore_flush(NULL, 1000), 0);
    hl_fdstore_free(NULL);
}
END_TEST

/* ---- notify ---- */

START_TEST(texts_go_through_one_socket_also_to_a_new_manager)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char text[64] = "";
    snprintf(a.sun_path, sizeof a.sun_path, "%s/hl-notify-%ld",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (long)getpid());
    setenv("NOTIFY_SOCKET", a.sun_path, 1);
    setenv("FDSTORE", "0", 1);
    ck_assert_int_eq(hl_fdstore_available(), 0);
    setenv("FDSTORE", "512", 1);
    ck_assert_int_eq(hl_fdstore_available(), 1);
    unsetenv("FDSTORE");
    ck_assert_int_eq(hl_fdstore_available(), 1);
    int sock = hl_notify_fd();
    for (int turn = 0; turn < 2; turn++) { /* the second time it was started anew */
        unlink(a.sun_path);
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
        hl_notify("READY=%d\nSTATUS=%s", turn, "x");
        ck_assert_int_eq(recv(fd, text, sizeof text - 1, 0), 16);
        ck_assert_str_eq(text, turn ? "READY=1\nSTATUS=x" : "READY=0\nSTATUS=x");
        ck_assert_int_eq(hl_notify_fd(), sock);
        close(fd);
    }
    hl_notify_close();
    unlink(a.sun_path);
    unsetenv("NOTIFY_SOCKET");
}
END_TEST

/* ---- passed ---- */

enum { FIRST = 900 }; /* as if it were 3 */

static struct hl_passed passed;

static int listening(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof a.sun_family), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

/* fds end with -1 and are closed; they are passed as FIRST and following. */
static void pass(const char *names, const int *fds)
{
    char text[32];
    int n = 0;
    for (; fds[n] >= 0; n++) {
        ck_assert_int_eq(dup2(fds[n], FIRST + n), FIRST + n);
        close(fds[n]);
    }
    snprintf(text, sizeof text, "%d", n);
    setenv("LISTEN_FDS", text, 1);
    snprintf(text, sizeof text, "%ld", (long)getpid());
    setenv("LISTEN_PID", text, 1);
    names ? setenv("LISTEN_FDNAMES", names, 1) : unsetenv("LISTEN_FDNAMES");
    hl_passed_read(&passed, FIRST);
}

static int is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

START_TEST(socket_and_stored_ones_find_their_place)
{
    int p = sealed("p"), r = sealed("r"), q = sealed("q"), before = n_open() - 3;
    uint64_t ip = inode(p), ir = inode(r), iq = inode(q);
    pass("p5:heaplined.socket:r5:p10", (int[]){p, listening(), r, q, -1});
    ck_assert_int_eq(passed.n_fds, 4);
    ck_assert_int_eq(passed.listener, FIRST + 1);
    ck_assert_uint_eq(passed.n_stored, 3);
    ck_assert_uint_eq(passed.n_wrong, 0);
    ck_assert_int_eq(hl_passed_claim(&passed, 'p', 5, ip), FIRST);
    ck_assert_int_eq(fcntl(FIRST, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(hl_passed_claim(&passed, 'p', 5, ip), -1); /* it is gone */
    ck_assert_int_eq(hl_passed_claim(&passed, 'r', 5, ip), -1); /* a wrong inode */
    ck_assert_int_eq(hl_passed_claim(&passed, 'p', 6, ir), -1); /* a wrong slot */
    ck_assert_int_eq(hl_passed_claim(&passed, 'p', 99999, 0), -1);
    ck_assert_int_eq(hl_passed_claim(&passed, 'p', 32, iq), FIRST + 3);
    ck_assert_uint_eq(passed.n_stored, 1);
    ck_assert_uint_eq(hl_passed_close_rest(&passed, store), 1);
    expect("FDSTOREREMOVE=1\nFDNAME=r5", 0);
    expect_silence();
    ck_assert(!is_open(FIRST + 2) && is_open(FIRST) && is_open(FIRST + 3));
    close(FIRST);
    close(FIRST + 1);
    close(FIRST + 3);
    ck_assert_int_eq(n_open(), before);
}
END_TEST

START_TEST(what_is_of_no_use_is_closed_and_counted)
{
    int before = n_open(), unsealed = memfd_create("u", MFD_CLOEXEC);
    int first = sealed("1"), second = sealed("2");
    uint64_t ino = inode(first);
    pass("s:t:p1:p1:nonsense:p2:r3",
         (int[]){listening(), listening(), first, second, sealed("3"), unsealed,
                 open("/dev/null", O_RDWR), sealed("no name"), -1});
    ck_assert_int_eq(passed.listener, FIRST);
    ck_assert_uint_eq(passed.n_stored, 1);
    ck_assert_uint_eq(passed.n_wrong, 6);
    for (int i = 1; i < 8; i++)
        ck_assert_int_eq(is_open(FIRST + i), i == 2);
    ck_assert_int_eq(hl_passed_claim(&passed, 'p', 1, ino), FIRST + 2);
    ck_assert_uint_eq(hl_passed_close_rest(&passed, store), 0);
    close(FIRST);
    close(FIRST + 2);
    ck_assert_int_eq(n_open(), before);
}
END_TEST

START_TEST(names_may_be_missing)
{
    pass(NULL, (int[]){listening(), sealed("x"), -1});
    ck_assert_int_eq(passed.listener, FIRST);
    ck_assert_uint_eq(passed.n_wrong, 1);
    close(FIRST);
    ck_assert(!is_open(FIRST + 1));
}
END_TEST

START_TEST(what_is_passed_to_another_process_is_not_ours)
{
    int fd = sealed("x");
    ck_assert_int_eq(dup2(fd, FIRST), FIRST);
    setenv("LISTEN_PID", "1", 1);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_FDNAMES", "p1", 1);
    hl_passed_read(&passed, FIRST);
    ck_assert_int_eq(passed.n_fds, 0);
    ck_assert_uint_eq(passed.n_stored, 0);
    ck_assert(is_open(FIRST));
    close(FIRST);
    close(fd);
}
END_TEST

/* ---- slots ---- */

START_TEST(the_lowest_free_slot_is_taken)
{
    static struct hl_slots s;
    memset(&s, 0, sizeof s);
    ck_assert_int_eq(hl_slots_take_at(&s, 1), 0);
    ck_assert_int_eq(hl_slots_take_at(&s, 1), -1);
    ck_assert_int_eq(hl_slots_take_at(&s, HL_SLOTS_MAX), -1);
    ck_assert_int_eq(hl_slots_take(&s), 0);
    for (int i = 2; i < HL_SLOTS_MAX; i++)
        ck_assert_int_eq(hl_slots_take(&s), i);
    ck_assert_int_eq(hl_slots_take(&s), -1);
    hl_slots_give(&s, 40000);
    hl_slots_give(&s, 200);
    hl_slots_give(&s, HL_SLOTS_MAX); /* out of bounds: nothing */
    ck_assert_int_eq(hl_slots_take(&s), 200);
    ck_assert_int_eq(hl_slots_take(&s), 40000);
    ck_assert_int_eq(hl_slots_take(&s), -1);
}
END_TEST

/* ---- samples ---- */

static const struct hl_sample_id id = {0x0123456789abcdef, 777, 4242};
static const struct hl_record numbers = {.rank = -1,
                                         .pid = 4242,
                                         .elapsed_ns = 123456789012,
                                         .allocs = UINT64_MAX,
                                         .frees = 17,
                                         .peak_bytes = INT64_MAX,
                                         .peak_time_ns = 5,
                                         .live_bytes = -3,
                                         .vmhwm_bytes = 1 << 20,
                                         .vmrss_bytes = -1};

START_TEST(a_sample_comes_back_with_its_numbers)
{
    uint8_t cell[HL_SAMPLE_BYTES];
    struct hl_record r = {.host = "h", .job = "j"};
    hl_sample_put(cell, &id, &numbers);
    ck_assert_int_eq(hl_sample_get(cell, &id, &r), 0);
    ck_assert_str_eq(r.host, "h"); /* texts are others' */
    ck_assert_str_eq(r.job, "j");
    memset(r.host, 0, sizeof r.host);
    memset(r.job, 0, sizeof r.job);
    ck_assert_mem_eq(&r, &numbers, sizeof r);
}
END_TEST

START_TEST(a_sample_is_its_own_process_s_alone)
{
    uint8_t cell[HL_SAMPLE_BYTES];
    struct hl_record r;
    struct hl_sample_id other[3] = {id, id, id};
    other[0].image++;
    other[1].start_ticks++;
    other[2].pid++;
    hl_sample_put(cell, &id, &numbers);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(hl_sample_get(cell, &other[i], &r), -1);
}
END_TEST

START_TEST(no_damaged_byte_goes_unseen)
{
    uint8_t cell[HL_SAMPLE_BYTES];
    struct hl_record r = {.allocs = 1}, same = r;
    hl_sample_put(cell, &id, &numbers);
    for (int i = 0; i < HL_SAMPLE_BYTES; i++)
        for (unsigned v = 1; v < 256; v++) {
            cell[i] ^= (uint8_t)v;
            ck_assert_int_eq(hl_sample_get(cell, &id, &r), -1);
            cell[i] ^= (uint8_t)v;
        }
    ck_assert_mem_eq(&r, &same, sizeof r);
    memset(cell + 128, 0, 128); /* half a cell is of no use unless it is the same */
    hl_sample_put(cell, &id, &numbers);
    memset(cell, 0, 64);
    ck_assert_int_eq(hl_sample_get(cell, &id, &r), -1);
}
END_TEST

START_TEST(cells_lie_at_their_slots)
{
    uint8_t cells[3 * HL_SAMPLE_BYTES], cell[HL_SAMPLE_BYTES];
    int fd = memfd_create("samples", MFD_CLOEXEC);
    for (int i = 0; i < 3; i++)
        memset(cells + i * HL_SAMPLE_BYTES, 'a' + i, HL_SAMPLE_BYTES);
    ck_assert_int_eq(hl_samples_write(fd, 5, cells, 3), 0);
    ck_assert_int_eq(hl_samples_read(fd, 6, cell), 0);
    ck_assert_mem_eq(cell, cells + HL_SAMPLE_BYTES, HL_SAMPLE_BYTES);
    ck_assert_int_eq(hl_samples_read(fd, 0, cell), 0); /* a hole: zeros */
    ck_assert_int_eq(cell[0], 0);
    ck_assert_int_eq(hl_samples_read(fd, 8, cell), 1);
    close(fd);
    ck_assert_int_eq(hl_samples_write(fd, 5, cells, 3), -EBADF);
    ck_assert_int_eq(hl_samples_read(fd, 5, cell), -EBADF);
}
END_TEST

static TCase *with_store(void)
{
    TCase *c = tcase_create("store");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, a_descriptor_is_kept_and_let_go);
    tcase_add_test(c, a_second_one_of_a_name_replaces_the_first);
    tcase_add_test(c, what_the_manager_does_not_take_goes_later_in_order);
    tcase_add_test(c, the_loop_sends_what_waits);
    tcase_add_test(c, dropped_before_it_was_sent_it_vanishes);
    tcase_add_test(c, the_queue_is_bounded);
    tcase_add_test(c, what_ends_soon_never_troubles_the_manager);
    tcase_add_test(c, the_manager_s_limit_is_kept);
    tcase_add_test(c, socket_and_stored_ones_find_their_place);
    tcase_add_test(c, what_is_of_no_use_is_closed_and_counted);
    tcase_add_test(c, names_may_be_missing);
    return c;
}

static TCase *alone(void)
{
    TCase *c = tcase_create("alone");
    tcase_add_test(c, a_name_is_short_and_comes_back);
    tcase_add_test(c, other_names_are_refused);
    tcase_add_test(c, without_a_manager_nothing_happens);
    tcase_add_test(c, texts_go_through_one_socket_also_to_a_new_manager);
    tcase_add_test(c, what_is_passed_to_another_process_is_not_ours);
    tcase_add_test(c, the_lowest_free_slot_is_taken);
    tcase_add_test(c, a_sample_comes_back_with_its_numbers);
    tcase_add_test(c, a_sample_is_its_own_process_s_alone);
    tcase_add_test(c, no_damaged_byte_goes_unseen);
    tcase_add_test(c, cells_lie_at_their_slots);
    return c;
}

int main(void)
{
    Suite *s = suite_create("service");
    suite_add_tcase(s, with_store());
    suite_add_tcase(s, alone());
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
