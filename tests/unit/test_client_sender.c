/* SPDX-License-Identifier: Apache-2.0
 *
 * The client library against a collector: stream, acknowledgements, broken
 * connections, full buffers, refusals, failing calls.
 */
#include "test_client.h"

#include "resume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char *const two[] = {"step", "v"};
static struct fake *f;

static void with_collector(void)
{
    test_enter();
    f = fake_new("sock");
    setenv("HEAPLINE_SOCKET", f->path, 1);
}

static void without_collector(void)
{
    fake_free(f);
    test_leave();
}

#define set_fake(what, value)                                                            \
    do {                                                                                 \
        fake_lock(f);                                                                    \
        f->what = (value);                                                               \
        fake_unlock(f);                                                                  \
    } while (0)

/* n frames with `width` regions; returns how many were dropped. */
static unsigned play(heapline_session *s, unsigned n, unsigned width)
{
    unsigned dropped = 0;
    heapline_region r;
    char path[32];
    for (unsigned i = 0; i < width; i++) {
        snprintf(path, sizeof path, "r/%u", i);
        ok(heapline_region_register(s, path, &r));
    }
    while (n--) {
        ok(heapline_frame_begin(s));
        ok(heapline_set_metric(s, 1, (double)hl_session.n_frames * 0.5));
        ok(heapline_region_push(s, "r"));
        ok(heapline_region_pop(s));
        int e = heapline_frame_end(s);
        ck_assert(e == 0 || e == HEAPLINE_EDROPPED);
        dropped += e != 0;
    }
    return dropped;
}

/* Rows 0..n-1, each exactly once and whole. */
static void all_once(const struct seen *x, uint64_t n)
{
    ck_assert_uint_eq(x->n_rows, n);
    for (uint64_t i = 0; i < n; i++) {
        ck_assert_uint_eq(x->rows[i].number, i);
        ck_assert(metric_cell(x, i, "v") == (double)i * 0.5);
    }
}

static void read_buffer(int fd, struct hl_row_buffer *h)
{
    ck_assert_int_eq(pread(fd, h, sizeof *h, 0), sizeof *h);
}

START_TEST(hello_brings_identity_and_a_sealed_buffer)
{
    struct hl_row_buffer h;
    setenv("HEAPLINE_JOB", "run-1", 1);
    setenv("PMI_RANK", "3", 1);
    setenv("PMI_SIZE", "8", 1);
    setenv("HEAPLINE_INTERVAL", "0.5", 1);
    setenv("HEAPLINE_BUFFER", "1M", 1);
    heapline_session *s = begin_session(two, 2);
    ck_assert_uint_eq(play(s, 2000, 1), 0);
    fake_lock(f);
    ck_assert_uint_eq(f->hello.role, HL_ROLE_FRAMES);
    ck_assert_uint_eq(f->hello.flags, HL_HELLO_ROWS);
    ck_assert_int_eq(f->hello.rank, 3);
    ck_assert_int_eq(f->hello.size, 8);
    ck_assert_int_eq(f->hello.pid, getpid());
    ck_assert_uint_ne(f->hello.start_ticks, 0);
    ck_assert_int_eq(f->hello.interval_ns, 500000000);
    ck_assert_str_eq(f->key, "run-1");
    int seals = fcntl(f->buffer_fd, F_GET_SEALS);
    ck_assert_int_eq(seals & (F_SEAL_GROW | F_SEAL_SHRINK), F_SEAL_GROW | F_SEAL_SHRINK);
    ck_assert_int_eq(lseek(f->buffer_fd, 0, SEEK_END), 1 << 20);
    read_buffer(f->buffer_fd, &h);
    uint64_t image = f->hello.image;
    fake_unlock(f);
    ck_assert_uint_eq(h.magic, HL_ROW_BUFFER_MAGIC);
    ck_assert_uint_eq(h.size, 1 << 20);
    ck_assert_uint_eq(h.image, image);
    ck_assert_uint_eq(h.n_rows, 2000);
    ck_assert(h.acked <= h.sent && h.sent <= h.head && h.head <= h.acked + h.size);
    ok(heapline_session_end(s));
    read_buffer(f->buffer_fd, &h);
    ck_assert_uint_eq(h.acked, h.head);
    all_once(fake_seen(f), 2000);
    fake_stop(f);
    ck_assert_uint_eq(f->n_byes, 1);
    ck_assert_uint_eq(f->bye.n_rows, 2000);
    ck_assert_uint_eq(f->bye.n_dropped, 0);
}
END_TEST

/* What a collector finds in the buffer after a kill is the rest of the stream. */
START_TEST(a_killed_process_loses_no_committed_frame)
{
    int to_parent[2];
    char one;
    set_fake(no_ack, _i);
    ck_assert_int_eq(pipe(to_parent), 0);
    pid_t pid = fork();
    if (!pid) {
        heapline_session *s;
        if (heapline_session_begin(&s, two, 2))
            _exit(1);
        for (int i = 0; i < 1000; i++)
            if (heapline_frame_begin(s) || heapline_set_metric(s, 1, i * 0.5) ||
                heapline_frame_end(s))
                _exit(1);
        if (write(to_parent[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    ck_assert_int_eq(read(to_parent[0], &one, 1), 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    struct hl_row_buffer h;
    fake_lock(f);
    while (f->conn >= 0) { /* to the end of its socket first */
        fake_unlock(f);
        sched_yield();
        fake_lock(f);
    }
    read_buffer(f->buffer_fd, &h);
    ck_assert_uint_le(f->n, h.head);
    f->stream = realloc(f->stream, h.head);
    for (uint64_t at = f->n; at < h.head; at++)
        ck_assert_int_eq(pread(f->buffer_fd, f->stream + at, 1,
                               (off_t)(HL_ROW_BUFFER_DATA + at % (h.size - 4096))),
                         1);
    f->n = h.head;
    fake_unlock(f);
    all_once(fake_seen(f), 1000);
}
END_TEST

START_TEST(the_ring_wraps_around)
{
    setenv("HEAPLINE_BUFFER", "64K", 1);
    heapline_session *s = begin_session(two, 2);
    ck_assert_uint_eq(play(s, 3000, 20), 0);
    ok(heapline_session_end(s));
    ck_assert_uint_gt(hl_session.sender.ring.h->head, 10 * 65536);
    all_once(fake_seen(f), 3000);
}
END_TEST

START_TEST(acknowledged_rows_take_no_memory)
{
    struct stat st;
    heapline_session *s = begin_session(two, 2);
    ck_assert_uint_eq(play(s, 6000, 250), 0);
    ok(heapline_session_end(s));
    ck_assert_uint_gt(hl_session.sender.ring.h->head, 20 << 20);
    ck_assert_int_eq(fstat(hl_session.sender.ring.fd, &st), 0);
    ck_assert_int_eq(st.st_size, 16 << 20);
    /* All is acknowledged; a shared kernel setting may use pages of 2 MiB. */
    ck_assert_int_le(st.st_blocks, (6 << 20) / 512);
    all_once(fake_seen(f), 6000);
}
END_TEST

START_TEST(after_a_break_each_row_arrives_once)
{
    static const size_t every[] = {2500, 3001, 4096, 5000, 20011};
    set_fake(close_every, every[_i]);
    setenv("HEAPLINE_BUFFER", _i % 2 ? "64K" : "1M", 1);
    clock_set(1);
    heapline_session *s = begin_session(two, 2);
    for (int i = 0; i < 40; i++) {
        ck_assert_uint_eq(play(s, 10, 3), 0);
        clock_add(150000000); /* batches go out, connections come back */
    }
    clock_set(0);
    ok(heapline_session_end(s));
    all_once(fake_seen(f), 400);
    fake_stop(f);
    ck_assert_uint_gt(f->n_breaks, 1);
    ck_assert_uint_gt(f->n_hellos, 2);
}
END_TEST

/* Until everything is acknowledged; a frame each turn. */
static void settle(heapline_session *s, unsigned width)
{
    const struct hl_row_buffer *h = hl_session.sender.ring.h;
    do {
        clock_add(200000000);
        play(s, 1, width);
        usleep(1000);
        hl_sender_collect(&hl_session.sender);
    } while (h->acked != h->head);
}

/* Where message i of a stream begins. */
static size_t message_at(const uint8_t *p, size_t n, unsigned i)
{
    size_t at = 0, used;
    struct hl_wire_header h;
    const uint8_t *body;
    for (; i--; at += used)
        ck_assert_int_eq(
            hl_wire_next(p + at, n - at, HL_IN_SPOOL, HL_STATE_FILE, &h, &body, &used),
            0);
    return at;
}

/* The collector comes back with its first `kept` messages: all of 0 is 1,
 * catalog and row of the first frame; later ones widen the catalog. */
START_TEST(what_a_collector_lost_is_passed_over_but_for_catalogs)
{
    static const unsigned kept[] = {0, 1, 2, 5, 8};
    clock_set(1);
    heapline_session *s = begin_session(two, 2);
    for (unsigned i = 0; i < 6; i++) /* catalog, row, catalog, row ... */
        settle(s, i + 1);
    uint64_t n_before = hl_session.sender.n_rows;
    play(s, 5, 9); /* held: 48 KiB make a batch, and the clock stands */
    fake_lock(f);
    f->forget = f->n - message_at(f->stream, f->n, kept[_i]);
    close(f->conn);
    f->conn = -1;
    f->n_in = 0;
    fake_unlock(f);
    settle(s, 9);
    settle(s, 10);
    ck_assert_uint_eq(hl_session.sender.n_dropped, 0);
    uint64_t n = hl_session.sender.n_rows;
    ok(heapline_session_end(s));
    fake_stop(f);
    ck_assert_uint_eq(f->n, hl_session.sender.ring.h->head); /* offsets agree */
    struct seen *x = see(f->stream, f->n);
    for (uint64_t i = n_before; i < n; i++) {
        ck_assert_ptr_nonnull(row_numbered(x, i));
        ck_assert_uint_eq(row_numbered(x, i)->times, 1);
    }
    ck_assert_uint_lt(x->n_rows, n);
}
END_TEST

START_TEST(a_full_buffer_drops_and_counts)
{
    set_fake(no_ack, 1);
    setenv("HEAPLINE_BUFFER", "64K", 1);
    setenv("HEAPLINE_ON_FULL", "drop", 1);
    setenv("HEAPLINE_WAIT", "0.2", 1); /* for the end alone */
    heapline_session *s = begin_session(two, 2);
    unsigned dropped = play(s, 500, 20);
    ck_assert_uint_gt(dropped, 100);
    fake_lock(f);
    f->no_ack = 0;
    fake_unlock(f);
    struct hl_row_buffer *h = hl_session.sender.ring.h;
    ck_assert_uint_eq(h->n_dropped, dropped);
    ck_assert_uint_eq(h->n_rows, 500);
    ok(heapline_session_end(s));
    fake_stop(f);
    struct seen *x = see(f->stream, f->n);
    ck_assert_uint_eq(x->n_rows, 500 - dropped);
}
END_TEST

START_TEST(a_full_buffer_waits_for_acknowledgements)
{
    setenv("HEAPLINE_BUFFER", "64K", 1);
    heapline_session *s = begin_session(two, 2);
    ck_assert_uint_eq(play(s, 5000, 20), 0);
    ok(heapline_session_end(s));
    all_once(fake_seen(f), 5000);
}
END_TEST

START_TEST(after_waiting_in_vain_rows_go_to_the_file)
{
    set_fake(no_ack, _i == 0);
    set_fake(mute, _i == 1);
    set_fake(no_read, _i == 2);
    setenv("HEAPLINE_BUFFER", "64K", 1);
    setenv("HEAPLINE_WAIT", "5", 1);
    setenv("HEAPLINE_FALLBACK_DIR", test_folder, 1);
    clock_set(1);
    heapline_session *s = begin_session(two, 2);
    ck_assert_uint_eq(play(s, 300, 40), 0);
    ck_assert_int_eq(hl_session.sender.sink, HL_SINK_FILE);
    ck_assert_int_ge(hl_sys_now(), 5000000000);
    ok(heapline_session_end(s));
    all_once(see_file(rows_file(test_folder)), 300);
}
END_TEST

START_TEST(after_waiting_in_vain_without_a_file_rows_are_counted)
{
    set_fake(no_ack, 1);
    setenv("HEAPLINE_BUFFER", "64K", 1);
    setenv("HEAPLINE_WAIT", "7.5", 1);
    clock_set(1);
    heapline_session *s = begin_session(two, 2);
    unsigned dropped = play(s, 300, 40);
    ck_assert_uint_gt(dropped, 10);
    ck_assert_int_ge(hl_sys_now(), 7500000000);
    ck_assert_int_le(hl_sys_now(), 20000000000); /* it waits once, not for each frame */
    fake_lock(f);
    f->no_ack = 0;
    uint8_t ack[32];
    int64_t n = hl_encode_ack(ack, sizeof ack, f->n);
    ck_assert_int_eq(send(f->conn, ack, (size_t)n, 0), n);
    fake_unlock(f);
    clock_set(0);
    ck_assert_uint_eq(play(s, 300, 40), 0); /* an answer: it is patient again */
    ok(heapline_session_end(s));
    fake_stop(f);
    ck_assert_uint_eq(see(f->stream, f->n)->n_rows, 600 - dropped);
    ck_assert_uint_eq(f->bye.n_dropped, dropped);
    ck_assert_uint_eq(f->bye.n_rows, 600);
}
END_TEST

START_TEST(a_frame_larger_than_the_buffer_is_sent_directly)
{
    setenv("HEAPLINE_BUFFER", "64K", 1);
    if (_i)
        set_fake(close_every, 300000); /* in the middle of it */
    heapline_session *s = begin_session(two, 2);
    ck_assert_uint_eq(play(s, 4, 20000), 0);
    ok(heapline_session_end(s));
    all_once(fake_seen(f), 4);
}
END_TEST

START_TEST(a_frame_given_up_half_way_leaves_a_good_stream)
{
    clock_set(1);
    setenv("HEAPLINE_BUFFER", "64K", 1);
    setenv("HEAPLINE_WAIT", "1", 1);
    heapline_session *s = begin_session(two, 2);
    ck_assert_uint_eq(play(s, 2, 1), 0);
    fake_lock(f);
    f->no_read = 1;
    fake_unlock(f);
    ck_assert_uint_eq(play(s, 1, 40000), 1);
    fake_lock(f);
    f->no_read = 0;
    fake_unlock(f);
    clock_add(200000000);
    for (int i = 0; i < 20 && hl_session.sender.impatient; i++) {
        usleep(2000);
        clock_add(200000000);
        hl_session.sender.impatient = 0;
    }
    ck_assert_uint_eq(play(s, 1, 1), 0);
    ok(heapline_session_end(s));
    fake_stop(f);
    struct seen *x = see(f->stream, f->n);
    ck_assert_uint_eq(x->n_rows, 3);
    ck_assert_uint_eq(x->rows[2].number, 3);
}
END_TEST

START_TEST(without_a_shared_buffer_each_frame_is_sent_at_once)
{
    struct rlimit r = {.rlim_cur = _i ? RLIM_INFINITY : 32768, .rlim_max = RLIM_INFINITY};
    if (_i == 1)
        seam_fail(SEAM_MEMFD, 1, ENOSYS);
    if (_i == 2)
        seam_fail(SEAM_FTRUNCATE, 1, ENOSPC);
    if (_i == 3)
        seam_fail(SEAM_MMAP, 4 + 3, ENOMEM); /* names, index, texts, values, row, own */
    setrlimit(RLIMIT_FSIZE, &r);
    heapline_session *s = NULL;
    int e = heapline_session_begin(&s, two, 2);
    r.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &r);
    ok(e);
    fake_lock(f);
    ck_assert_uint_eq(f->hello.flags, HL_HELLO_UNSHARED);
    ck_assert_int_eq(f->buffer_fd, -1);
    fake_unlock(f);
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(play(s, 1, 3), 0);
        ck_assert_uint_eq(hl_session.sender.ring.h->sent, hl_session.sender.ring.h->head);
    }
    ck_assert_uint_eq(play(s, 2, 20000), 0); /* more than the 64 KiB */
    ok(heapline_session_end(s));
    all_once(fake_seen(f), 7);
}
END_TEST

START_TEST(refusals_lead_to_the_next_collector_or_the_file)
{
    char list[256];
    struct fake *g = _i == 0 ? fake_new("second") : NULL;
    set_fake(refuse, HL_REFUSED_SPACE);
    if (_i == 1)
        setenv("HEAPLINE_FALLBACK_DIR", test_folder, 1);
    snprintf(list, sizeof list, "%s:%s:%s", in_folder("missing"), f->path,
             in_folder("second"));
    setenv("HEAPLINE_SOCKET", list, 1);
    heapline_session *s = begin_session(two, 2);
    unsigned dropped = play(s, 10, 1);
    ok(heapline_session_end(s));
    ck_assert_uint_eq(dropped, _i == 2 ? 10 : 0);
    if (_i == 0)
        all_once(fake_seen(g), 10);
    if (_i == 1)
        all_once(see_file(rows_file(test_folder)), 10);
    ck_assert_uint_eq(f->n, 0);
    ck_assert_uint_eq(f->n_hellos, 1);
    if (g)
        fake_free(g);
}
END_TEST

START_TEST(a_refusal_in_mid_stream_saves_what_is_held)
{
    uint8_t out[600];
    set_fake(no_ack, 1);
    if (_i)
        setenv("HEAPLINE_FALLBACK_DIR", test_folder, 1);
    clock_set(1);
    heapline_session *s = begin_session(two, 2);
    play(s, 50, 2);
    fake_lock(f);
    f->refuse = HL_REFUSED_SPACE;
    int64_t n = hl_encode_refused(out, sizeof out, HL_REFUSED_SPACE, "quota");
    ck_assert_int_eq(send(f->conn, out, (size_t)n, 0), n);
    fake_unlock(f);
    clock_add(200000000);
    unsigned dropped = play(s, 50, 2);
    ok(heapline_session_end(s));
    if (_i) {
        ck_assert_uint_eq(dropped, 0);
        all_once(see_file(rows_file(test_folder)), 100);
    } else {
        ck_assert_uint_ge(dropped, 48);
        ck_assert_uint_eq(hl_session.sender.n_dropped, 100);
    }
}
END_TEST

START_TEST(a_collector_that_comes_later_gets_the_rows_from_then_on)
{
    clock_set(1);
    setenv("HEAPLINE_SOCKET", in_folder("later"), 1);
    heapline_session *s = begin_session(two, 2);
    ck_assert_uint_eq(play(s, 5, 1), 5);
    struct fake *g = fake_new("later");
    clock_add(2000000000);
    ck_assert_uint_eq(play(s, 5, 1), 0);
    ok(heapline_session_end(s));
    struct seen *x = fake_seen(g);
    ck_assert_uint_eq(x->n_rows, 5);
    ck_assert_uint_eq(x->rows[0].number, 5);
    fake_stop(g);
    ck_assert_uint_eq(g->bye.n_dropped, 5);
    ck_assert_uint_eq(g->bye.n_rows, 10);
    fake_free(g);
}
END_TEST

START_TEST(a_liar_is_not_believed)
{
    set_fake(claim, 12345678);
    setenv("HEAPLINE_FALLBACK_DIR", test_folder, 1);
    heapline_session *s = begin_session(two, 2);
    ck_assert_uint_eq(play(s, 10, 1), 0);
    ok(heapline_session_end(s));
    all_once(see_file(rows_file(test_folder)), 10);
}
END_TEST

START_TEST(garbage_from_a_collector_breaks_the_connection_only)
{
    static const uint8_t garbage[64] = {1, 2, 3};
    clock_set(1);
    heapline_session *s = begin_session(two, 2);
    play(s, 10, 1);
    fake_lock(f);
    ck_assert_int_eq(send(f->conn, garbage, sizeof garbage, 0), sizeof garbage);
    fake_unlock(f);
    for (int i = 0; i < 10; i++) {
        clock_add(200000000);
        play(s, 1, 1);
    }
    ok(heapline_session_end(s));
    fake_stop(f);
    ck_assert_uint_eq(f->n_hellos, 2);
    all_once(see(f->stream, f->n), 20);
}
END_TEST

START_TEST(the_version_told_late_is_in_a_new_hello)
{
    heapline_session *s = begin_session(two, 2);
    ok(heapline_set_app_version(s, "solver 3"));
    play(s, 3, 1);
    ok(heapline_session_end(s));
    fake_stop(f);
    ck_assert_str_eq(f->app_version, "solver 3");
    all_once(see(f->stream, f->n), 3);
}
END_TEST

START_TEST(two_sessions_are_one_stream)
{
    for (int i = 0; i < 2; i++) {
        heapline_session *s = begin_session(two, 2);
        play(s, 5, 1 + (unsigned)i);
        ok(heapline_session_end(s));
    }
    fake_stop(f);
    struct seen *x = see(f->stream, f->n);
    ck_assert_uint_eq(x->n_rows, 10);
    ck_assert_uint_eq(x->rows[9].number, 9);
    ck_assert(metric_cell(x, 9, "step") == 4);
    ck_assert_uint_eq(f->n_byes, 2);
}
END_TEST

/* The k-th call of each kind fails: every row arrived or is counted. */
START_TEST(failing_calls_lose_no_row_unseen)
{
    static const struct {
        enum seam which;
        int code;
    } kinds[] = {
        {SEAM_MMAP, ENOMEM},     {SEAM_MEMFD, EMFILE},   {SEAM_FTRUNCATE, ENOSPC},
        {SEAM_CONNECT, EAGAIN},  {SEAM_CONNECT, ENOENT}, {SEAM_SENDMSG, ECONNRESET},
        {SEAM_SENDMSG, EAGAIN},  {SEAM_SENDMSG, 0},      {SEAM_SENDMSG, ENOBUFS},
        {SEAM_RECV, ECONNRESET}, {SEAM_RECV, EINTR},     {SEAM_WRITE, ENOSPC}};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    heapline_session *s = NULL;
    if (_i / KINDS % 2)
        setenv("HEAPLINE_FALLBACK_DIR", test_folder, 1);
    clock_set(1);
    seam_fail(kinds[_i % KINDS].which, (unsigned)(_i / KINDS / 2) + 1,
              kinds[_i % KINDS].code);
    if (heapline_session_begin(&s, two, 2)) {
        ck_assert(seam_was_hit());
        return;
    }
    unsigned dropped = 0;
    for (int i = 0; i < 12; i++) {
        heapline_region r;
        char path[32];
        snprintf(path, sizeof path, "r%d", i);
        heapline_region_register(s, path, &r);
        ok(heapline_frame_begin(s));
        ok(heapline_set_metric(s, 1, i * 0.5));
        dropped += heapline_frame_end(s) != 0;
        clock_add(1100000000);
    }
    ok(heapline_session_end(s));
    fake_stop(f);
    struct seen *x = see(f->stream, f->n);
    const char *file = rows_file(test_folder);
    struct seen *y = file ? see_file(file) : NULL;
    unsigned there = 0;
    for (uint64_t i = 0; i < 12; i++)
        there += row_numbered(x, i) || (y && row_numbered(y, i));
    for (size_t i = 0; i < x->n_rows; i++)
        ck_assert_uint_eq(x->rows[i].times, 1);
    ck_assert_uint_eq(there + dropped, 12);
    ck_assert_uint_eq(hl_session.sender.n_dropped, dropped);
}
END_TEST

START_TEST(a_child_leaves_its_parents_connection_alone)
{
    int status;
    heapline_session *s = begin_session(two, 2);
    play(s, 5, 1);
    pid_t pid = fork();
    if (!pid) {
        int wrong = heapline_frame_begin(s) != HEAPLINE_ECLOSED ||
                    hl_session.sender.ring.h ||
                    hl_session.sender.conn.state != HL_CONN_CLOSED;
        exit(wrong); /* runs the destructors, too */
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    play(s, 5, 1);
    ok(heapline_session_end(s));
    all_once(fake_seen(f), 10);
    fake_stop(f);
    ck_assert_uint_eq(f->n_hellos, 1);
}
END_TEST

START_TEST(descriptors_the_program_took_over_are_left_alone)
{
    clock_set(1);
    heapline_session *s = begin_session(two, 2);
    play(s, 5, 1);
    int theirs = open("/dev/null", O_RDWR), fd = hl_session.sender.conn.fd;
    ck_assert_int_ge(fd, 64);
    ck_assert_int_eq(dup2(theirs, fd), fd);
    for (int i = 0; i < 10; i++) {
        clock_add(200000000);
        play(s, 1, 1);
    }
    ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
    ok(heapline_session_end(s));
    all_once(fake_seen(f), 15);
}
END_TEST

static void add_sender_tests(TCase *t)
{
    tcase_add_test(t, hello_brings_identity_and_a_sealed_buffer);
    tcase_add_loop_test(t, a_killed_process_loses_no_committed_frame, 0, 2);
    tcase_add_test(t, the_ring_wraps_around);
    tcase_add_test(t, acknowledged_rows_take_no_memory);
    tcase_add_loop_test(t, after_a_break_each_row_arrives_once, 0, 5);
    tcase_add_loop_test(t, what_a_collector_lost_is_passed_over_but_for_catalogs, 0, 5);
    tcase_add_test(t, a_full_buffer_drops_and_counts);
    tcase_add_test(t, a_full_buffer_waits_for_acknowledgements);
    tcase_add_loop_test(t, after_waiting_in_vain_rows_go_to_the_file, 0, 3);
    tcase_add_test(t, after_waiting_in_vain_without_a_file_rows_are_counted);
    tcase_add_loop_test(t, a_frame_larger_than_the_buffer_is_sent_directly, 0, 2);
    tcase_add_test(t, a_frame_given_up_half_way_leaves_a_good_stream);
    tcase_add_loop_test(t, without_a_shared_buffer_each_frame_is_sent_at_once, 0, 4);
    tcase_add_loop_test(t, refusals_lead_to_the_next_collector_or_the_file, 0, 3);
    tcase_add_loop_test(t, a_refusal_in_mid_stream_saves_what_is_held, 0, 2);
    tcase_add_test(t, a_collector_that_comes_later_gets_the_rows_from_then_on);
    tcase_add_test(t, a_liar_is_not_believed);
    tcase_add_test(t, garbage_from_a_collector_breaks_the_connection_only);
    tcase_add_test(t, the_version_told_late_is_in_a_new_hello);
    tcase_add_test(t, two_sessions_are_one_stream);
    tcase_add_loop_test(t, failing_calls_lose_no_row_unseen, 0, 12 * 2 * 12);
    tcase_add_test(t, a_child_leaves_its_parents_connection_alone);
    tcase_add_test(t, descriptors_the_program_took_over_are_left_alone);
}

int main(void)
{
    Suite *s = suite_create("client sender");
    TCase *t = tcase_create("sender");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, with_collector, without_collector);
    add_sender_tests(t);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
