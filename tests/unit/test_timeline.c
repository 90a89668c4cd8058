/* SPDX-License-Identifier: Apache-2.0
 *
 * Timelines: what is due next, which ticks are left out, and the files of points:
 * read from every offset, torn at every byte, on a disk that fails.
 */
#include "due.h"
#include "load.h"
#include "points.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what is due ---- */

enum { MANY = 5000 };

static uint64_t chance = 1;
static uint64_t random_number(void)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return chance;
}

START_TEST(due_times_come_in_their_order)
{
    static struct hl_due d[MANY];
    struct hl_due_heap h = {.at = NULL};
    size_t n = MANY, met = 0;
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < MANY; i++)
        ck_assert_int_eq(hl_due_put(&h, &d[i], (int64_t)(random_number() % 1000)), 0);
    for (size_t i = 0; i < MANY; i += 3) /* another time, earlier or later */
        hl_due_put(&h, &d[i], (int64_t)(random_number() % 2000) - 500);
    for (size_t i = 0; i < MANY; i += 7, n--)
        hl_due_remove(&h, &d[i]);
    hl_due_remove(&h, &d[0]); /* again: nothing */
    for (struct hl_due *first; (first = hl_due_first(&h)); met++) {
        ck_assert_int_ge(first->at_ns, last);
        last = first->at_ns;
        hl_due_remove(&h, first);
        ck_assert_uint_eq(first->place, 0);
    }
    ck_assert_uint_eq(met, n);
    ck_assert_ptr_null(h.at); /* an empty one holds no memory */
}
END_TEST

START_TEST(one_that_comes_again_stays_once)
{
    struct hl_due a = {0}, b = {0};
    struct hl_due_heap h = {.at = NULL};
    hl_due_put(&h, &a, 5);
    hl_due_put(&h, &b, 7);
    hl_due_put(&h, &a, 9);
    ck_assert_ptr_eq(hl_due_first(&h), &b);
    ck_assert_uint_eq(h.n, 2);
    hl_due_fini(&h);
}
END_TEST

START_TEST(missed_ticks_are_left_out)
{
    ck_assert_int_eq(hl_due_next(100, 10, 100), 110);
    ck_assert_int_eq(hl_due_next(100, 10, 109), 110);
    ck_assert_int_eq(hl_due_next(100, 10, 110), 120);
    ck_assert_int_eq(hl_due_next(100, 10, 1234), 1240); /* on the same grid */
    ck_assert_int_eq(hl_due_next(100, 10, 99), 100);    /* not before its time */
}
END_TEST

/* ---- files of points ---- */

enum { N = 150 };

static char folder[64];
static int root;
static struct hl_spool_pool pool;
static uint8_t head[256];
static size_t head_bytes;
static uint8_t messages[(N + 50) * HL_POINTS_MESSAGE], bodies[(N + 50) * HL_POINT_BYTES];

static void set_up(void)
{
    struct hl_spool_head m = {
        .format = 1, .uid = 7, .pid = 9, .image = 11, .key = {"k", 1}};
    strcpy(folder, "/tmp/hl-points.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    root = open(folder, O_RDONLY | O_DIRECTORY);
    hl_spool_pool_init(&pool, root, 2);
    head_bytes = (size_t)hl_encode_spool_head(head, sizeof head, &m);
    for (int i = 0; i < N + 50; i++) {
        struct hl_point v = {i, 2 * i, 3 * i, -1, (uint64_t)i, 7};
        hl_encode_points(messages + i * HL_POINTS_MESSAGE, HL_POINTS_MESSAGE, &v, 1);
        hl_point_put(bodies + i * HL_POINT_BYTES, &v);
    }
}

static void tear_down(void)
{
    unlinkat(root, "a.points", 0);
    unlinkat(root, "a.spool", 0);
    close(root);
    rmdir(folder);
}

static struct hl_points_write points(size_t first, size_t n, int64_t at)
{
    return (struct hl_points_write){.head = head,
                                    .head_bytes = head_bytes,
                                    .messages = messages + first * HL_POINTS_MESSAGE,
                                    .n = n,
                                    .at = at};
}

/* Points from first on come to their place; how many there are then. */
static uint64_t put(size_t first, size_t n, int64_t at)
{
    struct hl_points_write w = points(first, n, at);
    ck_assert_int_eq(hl_points_write(&pool, "a.points", &w), 0);
    return w.n_points;
}

static struct hl_points_found found;
static uint64_t count(void)
{
    hl_points_count(&pool, "a.points", &found);
    struct hl_point last = hl_points_last(&pool, "a.points");
    ck_assert_int_eq(last.time_ns, found.last.time_ns);
    return found.n;
}

static int64_t size_of(const char *name)
{
    struct stat st;
    return fstatat(root, name, &st, 0) ? -1 : (int64_t)st.st_size;
}

static void is_whole(size_t n)
{
    uint8_t out[sizeof bodies];
    ck_assert_uint_eq(count(), n);
    ck_assert_uint_eq(found.n_bad, 0);
    ck_assert_int_eq(found.last.time_ns, (int64_t)n - 1);
    ck_assert_int_eq(hl_points_read(&pool, "a.points", 0, out, sizeof out),
                     (int64_t)(n * HL_POINT_BYTES));
    ck_assert_int_eq(memcmp(out, bodies, n * HL_POINT_BYTES), 0);
    ck_assert_int_eq(size_of("a.points"), (int64_t)(head_bytes + n * HL_POINTS_MESSAGE));
}

START_TEST(names_go_with_those_of_spools)
{
    char out[16];
    ck_assert(!hl_points_name("7/k/a.spool", out, sizeof out));
    ck_assert_str_eq(out, "7/k/a.points");
    ck_assert_int_eq(hl_points_name("7/k/a.spool", out, 13), 0);
    ck_assert_int_eq(hl_points_name("7/k/a.spool", out, 12), -1);
    ck_assert_int_eq(hl_points_name("7/k/a.spoo", out, sizeof out), -1);
    ck_assert_int_eq(hl_points_name("", out, sizeof out), -1);
}
END_TEST

START_TEST(points_are_read_from_every_offset)
{
    uint8_t out[2000];
    size_t all = N * HL_POINT_BYTES;
    ck_assert_uint_eq(count(), 0);
    ck_assert_int_eq(hl_points_read(&pool, "a.points", 0, out, sizeof out), 0);
    ck_assert_uint_eq(put(0, 1, -1), 1);
    ck_assert_uint_eq(put(1, N - 1, 1), N);
    is_whole(N);
    for (size_t at = 0; at < all + 100; at += 13)
        for (size_t n = 1; n < sizeof out; n += 331) {
            size_t want = at >= all ? 0 : all - at < n ? all - at : n;
            ck_assert_int_eq(hl_points_read(&pool, "a.points", at, out, n),
                             (int64_t)want);
            ck_assert(!want || memcmp(out, bodies + at, want) == 0);
        }
    ck_assert_int_eq(hl_points_read(&pool, "a.points", UINT64_MAX - 5, out, 10), 0);
}
END_TEST

START_TEST(a_collector_that_comes_back_goes_on_behind_what_is_there)
{
    put(0, 40, -1);
    ck_assert_uint_eq(put(40, 30, -1), 70); /* it does not know how many there are */
    is_whole(70);
    ck_assert_uint_eq(put(60, 20, 60), 80); /* the same again, and more */
    is_whole(80);
    ck_assert_uint_eq(put(80, 1, 1000), 81); /* never behind a gap */
    is_whole(81);
}
END_TEST

START_TEST(the_bytes_of_a_file_are_told)
{
    struct hl_points_write w = points(0, 3, -1);
    hl_points_write(&pool, "a.points", &w);
    ck_assert_int_eq(w.grown, (int64_t)head_bytes + 3 * HL_POINTS_MESSAGE);
    w = points(2, 2, 2);
    hl_points_write(&pool, "a.points", &w);
    ck_assert_int_eq(w.grown, HL_POINTS_MESSAGE);
}
END_TEST

/* A crash of the machine at any byte: whole points stay, the series goes on. */
START_TEST(torn_tails_are_cut)
{
    for (size_t cut = 0; cut < head_bytes + 3 * HL_POINTS_MESSAGE; cut++) {
        size_t whole = cut < head_bytes ? 0 : (cut - head_bytes) / HL_POINTS_MESSAGE;
        unlinkat(root, "a.points", 0);
        put(0, 3, -1);
        int fd = openat(root, "a.points", O_RDWR);
        ck_assert_int_eq(ftruncate(fd, (off_t)cut), 0);
        ck_assert_uint_eq(count(), whole);
        ck_assert_uint_eq(put(whole, 5, -1), whole + 5);
        is_whole(whole + 5);
        close(fd);
    }
}
END_TEST

START_TEST(a_tail_of_zeros_is_cut)
{
    put(0, 5, -1);
    int fd = openat(root, "a.points", O_RDWR);
    ck_assert_int_eq(ftruncate(fd, (off_t)(head_bytes + 9 * HL_POINTS_MESSAGE + 3)), 0);
    close(fd);
    ck_assert_uint_eq(count(), 5);
    put(5, 2, -1);
    is_whole(7);
}
END_TEST

static void flip(size_t at)
{
    uint8_t b;
    int fd = openat(root, "a.points", O_RDWR);
    ck_assert_int_eq(pread(fd, &b, 1, (off_t)at), 1);
    b ^= 4;
    ck_assert_int_eq(pwrite(fd, &b, 1, (off_t)at), 1);
    close(fd);
}

/* One bit, anywhere: the others are read, each at its place. */
START_TEST(damage_is_one_point_only)
{
    uint8_t out[sizeof bodies];
    for (size_t at = 0; at < head_bytes + 4 * HL_POINTS_MESSAGE; at++) {
        size_t k = at < head_bytes ? SIZE_MAX : (at - head_bytes) / HL_POINTS_MESSAGE;
        unlinkat(root, "a.points", 0);
        put(0, 5, -1);
        flip(at);
        ck_assert_uint_eq(count(), 5);
        ck_assert_uint_eq(found.n_bad, k != SIZE_MAX);
        ck_assert_int_eq(hl_points_read(&pool, "a.points", 0, out, sizeof out),
                         5 * HL_POINT_BYTES);
        for (size_t i = 0; i < 5; i++) {
            struct hl_point v;
            hl_point_get(out + i * HL_POINT_BYTES, &v);
            ck_assert_int_eq(hl_point_is_lost(&v), i == k);
            ck_assert_int_eq(v.time_ns, i == k ? -1 : (int64_t)i);
        }
        ck_assert_uint_eq(put(5, 1, 5), 6); /* and it goes on */
        ck_assert_uint_eq(put(6, 1, -1), 7);
    }
}
END_TEST

/* Where the file is a folder, a FIFO, a link, there is no point, and nobody waits. */
START_TEST(what_is_no_file_has_no_points)
{
    uint8_t out[100];
    ck_assert_int_eq(mkfifoat(root, "a.points", 0600), 0);
    ck_assert_uint_eq(count(), 0);
    ck_assert_int_eq(hl_points_read(&pool, "a.points", 0, out, sizeof out), 0);
    unlinkat(root, "a.points", 0);
    ck_assert_int_eq(mkdirat(root, "a.points", 0700), 0);
    ck_assert_uint_eq(count(), 0);
    ck_assert_int_eq(hl_points_read(&pool, "a.points", 0, out, sizeof out), 0);
    unlinkat(root, "a.points", AT_REMOVEDIR);
    ck_assert_int_eq(symlinkat("a.spool", root, "a.points"), 0);
    ck_assert_int_eq(hl_points_read(&pool, "a.points", 0, out, sizeof out), 0);
}
END_TEST

START_TEST(a_file_that_is_not_understood_is_left_alone)
{
    struct hl_points_write w = points(0, 1, -1);
    char text[200];
    memset(text, 'x', sizeof text);
    int fd = openat(root, "a.points", O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq(write(fd, text, sizeof text), sizeof text);
    close(fd);
    ck_assert_int_eq(hl_points_write(&pool, "a.points", &w), -EBADMSG);
    ck_assert_int_eq(size_of("a.points"), sizeof text);
    ck_assert_uint_eq(count(), 0);
}
END_TEST

START_TEST(no_folder_is_an_error)
{
    struct hl_points_write w = points(0, 1, -1);
    ck_assert_int_eq(hl_points_write(&pool, "none/a.points", &w), -ENOENT);
}
END_TEST

/* ---- a disk that fails ---- */

static long left_bytes; /* of the disk */

static ssize_t small_disk(int fd, const void *p, size_t n, off_t at)
{
    if (!left_bytes) {
        errno = ENOSPC;
        return -1;
    }
    if (n > (size_t)left_bytes)
        n = (size_t)left_bytes;
    left_bytes -= (long)n;
    return pwrite(fd, p, n, at);
}

START_TEST(a_full_disk_leaves_what_was_there)
{
    for (long room = 0; room < 4 * HL_POINTS_MESSAGE; room += 9) {
        struct hl_points_write w = points(2, 4, 2);
        unlinkat(root, "a.points", 0);
        put(0, 2, -1);
        pool.write = small_disk;
        left_bytes = room;
        ck_assert_int_eq(hl_points_write(&pool, "a.points", &w), -ENOSPC);
        pool.write = pwrite;
        is_whole(2);
        ck_assert_uint_eq(put(2, 4, 2), 6);
        is_whole(6);
    }
}
END_TEST

START_TEST(a_full_disk_at_the_start_leaves_no_point)
{
    for (long room = 0; room < (long)head_bytes + HL_POINTS_MESSAGE; room += 5) {
        struct hl_points_write w = points(0, 1, -1);
        unlinkat(root, "a.points", 0);
        pool.write = small_disk;
        left_bytes = room;
        ck_assert_int_eq(hl_points_write(&pool, "a.points", &w), -ENOSPC);
        pool.write = pwrite;
        ck_assert_uint_eq(count(), 0);
        ck_assert_uint_eq(put(0, 1, -1), 1);
        is_whole(1);
    }
}
END_TEST

/* ---- a spool that is read back ---- */

static void make_spool(int64_t interval_ns, uint64_t n_points)
{
    uint8_t out[4096 + sizeof messages];
    struct hl_hello hello = {.wire_min = 1,
                             .wire_max = 1,
                             .role = HL_ROLE_HEAP,
                             .pid = 9,
                             .image = 11,
                             .rank = -1,
                             .size = -1,
                             .interval_ns = interval_ns,
                             .key = {"k", 1}};
    struct hl_bye bye = {3, 4};
    struct hl_record_msg record = {.end = {HL_ENDED_EXIT, 0}, .n_points = n_points};
    size_t n = head_bytes;
    memcpy(out, head, n);
    n += (size_t)hl_encode_hello(out + n, sizeof out - n, &hello);
    memcpy(out + n, messages, 2 * HL_POINTS_MESSAGE);
    n += 2 * HL_POINTS_MESSAGE;
    n += (size_t)hl_encode_record(out + n, sizeof out - n, &record);
    n += (size_t)hl_encode_bye(out + n, sizeof out - n, &bye);
    int fd = openat(root, "a.spool", O_RDWR | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_eq(write(fd, out, n), (ssize_t)n);
    close(fd);
}

START_TEST(a_spool_read_back_knows_its_points)
{
    struct hl_loaded l;
    struct hl_err e = {0};
    make_spool(1000, 0);
    put(0, 77, -1);
    ck_assert_int_eq(hl_load(&l, &pool, 7, "a.spool", &e), 0);
    ck_assert_uint_eq(l.points.n, 77);
    ck_assert_int_eq(l.points.last.time_ns, 76);
    ck_assert_uint_eq(l.n_points_gone, 0);
    /* Points in the spool itself tell nothing, and end nothing. */
    ck_assert_uint_eq(l.spool->cut_bytes, 0);
    ck_assert_uint_eq(l.n_dropped, 3);
    hl_loaded_fini(&l);
    make_spool(0, 0); /* nobody looks for a file that was not asked for */
    ck_assert_int_eq(hl_load(&l, &pool, 7, "a.spool", &e), 0);
    ck_assert_uint_eq(l.points.n, 0);
    hl_loaded_fini(&l);
}
END_TEST

static int truncate_points(size_t n)
{
    int fd = openat(root, "a.points", O_RDWR);
    int r = ftruncate(fd, (off_t)n);
    close(fd);
    return r;
}

static void loads(uint64_t n, uint64_t n_bad, uint64_t n_gone)
{
    struct hl_loaded l;
    struct hl_err e = {0};
    ck_assert_int_eq(hl_load(&l, &pool, 7, "a.spool", &e), 0);
    ck_assert_uint_eq(l.points.n, n);
    ck_assert_uint_eq(l.points.n_bad, n_bad);
    ck_assert_uint_eq(l.n_points_gone, n_gone);
    hl_loaded_fini(&l);
}

/* The record says how many there were. */
START_TEST(points_that_are_gone_are_counted)
{
    make_spool(1000, 77);
    put(0, 77, -1);
    loads(77, 0, 0);
    flip(head_bytes + 7 * HL_POINTS_MESSAGE + 30);
    loads(77, 1, 0);
    ck_assert_int_eq(truncate_points(head_bytes + 50 * HL_POINTS_MESSAGE + 9), 0);
    loads(50, 1, 27);
    flip(head_bytes + 49 * HL_POINTS_MESSAGE + 30); /* the last one */
    loads(49, 1, 28);
    unlinkat(root, "a.points", 0);
    loads(0, 0, 77);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("timeline");
    TCase *due = tcase_create("due"), *file = tcase_create("points");
    tcase_add_test(due, due_times_come_in_their_order);
    tcase_add_test(due, one_that_comes_again_stays_once);
    tcase_add_test(due, missed_ticks_are_left_out);
    suite_add_tcase(s, due);
    tcase_add_checked_fixture(file, set_up, tear_down);
    tcase_add_test(file, names_go_with_those_of_spools);
    tcase_add_test(file, points_are_read_from_every_offset);
    tcase_add_test(file, a_collector_that_comes_back_goes_on_behind_what_is_there);
    tcase_add_test(file, the_bytes_of_a_file_are_told);
    tcase_add_test(file, torn_tails_are_cut);
    tcase_add_test(file, a_tail_of_zeros_is_cut);
    tcase_add_test(file, damage_is_one_point_only);
    tcase_add_test(file, what_is_no_file_has_no_points);
    tcase_add_test(file, a_file_that_is_not_understood_is_left_alone);
    tcase_add_test(file, no_folder_is_an_error);
    tcase_add_test(file, a_full_disk_leaves_what_was_there);
    tcase_add_test(file, a_full_disk_at_the_start_leaves_no_point);
    tcase_add_test(file, a_spool_read_back_knows_its_points);
    tcase_add_test(file, points_that_are_gone_are_counted);
    suite_add_tcase(s, file);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
