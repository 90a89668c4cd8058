/* SPDX-License-Identifier: Apache-2.0
 *
 * Spools: what is appended is read back by stream offset, torn tails are cut at
 * every byte, and a disk that fails leaves nothing half done.
 */
#include "messages.h"
#include "spool.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static int root;
static struct hl_spool_pool pool;
static uint8_t buf[1 << 16];

static void set_up(void)
{
    strcpy(folder, "/tmp/hl-spool.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    root = open(folder, O_RDONLY | O_DIRECTORY);
    ck_assert_int_ge(root, 0);
    hl_spool_pool_init(&pool, root, 2);
}

/* The halves together, as a collector that waits for its disk would. */
static int append(struct hl_spool *s, const uint8_t *p, size_t n)
{
    uint64_t at;
    int r = hl_spool_note(s, p, n, &at);
    return r ? r : hl_spool_write(s, p, n, at);
}

static int begin(struct hl_spool *s, const char *name, const uint8_t *first, size_t n)
{
    int r = hl_spool_init(s, &pool, name) ? -ENOMEM : append(s, first, n);
    if (r)
        hl_spool_fini(s);
    return r;
}

typedef size_t plan_fn(const struct hl_spool *s, uint64_t offset, size_t n,
                       struct hl_spool_piece *out, size_t cap);

static int read_by(plan_fn *plan, struct hl_spool *s, uint64_t offset, uint8_t *out,
                   size_t n, size_t *got)
{
    struct hl_spool_piece piece[64];
    size_t k = plan(s, offset, n, piece, 64);
    int fd = hl_spool_fd(s);
    *got = 0;
    for (size_t i = 0; i < k; i++) {
        if (pread(fd, out + *got, piece[i].n, (off_t)piece[i].at) != (ssize_t)piece[i].n)
            return -1;
        *got += piece[i].n;
    }
    return 0;
}

static int read_stream(struct hl_spool *s, uint64_t offset, uint8_t *out, size_t n,
                       size_t *got)
{
    return read_by(hl_spool_plan, s, offset, out, n, got);
}

static void tear_down(void)
{
    const char *names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++)
        unlinkat(root, names[i], 0);
    close(root);
    rmdir(folder);
}

static size_t head(uint8_t *out)
{
    struct hl_spool_head m = {
        .format = 1, .uid = 7, .pid = 9, .image = 11, .key = {"k", 1}};
    return (size_t)hl_encode_spool_head(out, sizeof buf, &m);
}

static size_t catalog(uint8_t *out, uint32_t id)
{
    struct hl_catalog_msg m = {.id = id, .base = id - 1, .first_metric = id - 1};
    struct hl_writer w = hl_catalog_begin(out, 4096, &m);
    hl_catalog_add_metric(&w, "metric");
    return (size_t)hl_message_end(&w, HL_MSG_CATALOG);
}

static size_t row(uint8_t *out, uint64_t number)
{
    struct hl_rows m = {.catalog = 1, .n_cells = 1, .first_row = number};
    double cell = (double)number;
    memcpy(out + HL_WIRE_HEADER + HL_ROWS_HEAD, &cell, 8);
    return (size_t)hl_encode_rows_in_place(out, 4096, &m);
}

static size_t bye(uint8_t *out)
{
    struct hl_bye m = {1, 2};
    return (size_t)hl_encode_bye(out, 4096, &m);
}

static void create(struct hl_spool *s, const char *name)
{
    ck_assert_int_eq(begin(s, name, buf, head(buf)), 0);
}

/* Two catalogs and rows, with messages that are no stream between them; want:
 * the stream alone. */
static size_t fill(struct hl_spool *s, uint8_t *want)
{
    size_t n = 0, k;
    for (int i = 0; i < 20; i++) {
        k = i == 0 || i == 11 ? catalog(want + n, i ? 2 : 1) : row(want + n, (uint64_t)i);
        ck_assert_int_eq(append(s, want + n, k), 0);
        n += k;
        if (i % 7 == 3)
            ck_assert_int_eq(append(s, buf, bye(buf)), 0);
    }
    return n;
}

static void same_stream(struct hl_spool *s, const uint8_t *want, size_t n)
{
    static uint8_t got_bytes[8192];
    size_t steps[] = {1, 7, 64, sizeof got_bytes}, got;
    ck_assert_uint_eq(s->stream_bytes, n);
    for (int i = 0; i < 4; i++)
        for (size_t at = 0; at < n; at += got) {
            ck_assert_int_eq(read_stream(s, at, got_bytes, steps[i], &got), 0);
            ck_assert_uint_gt(got, 0);
            ck_assert_int_eq(memcmp(got_bytes, want + at, got), 0);
        }
    ck_assert_int_eq(read_stream(s, n, got_bytes, 9, &got), 0);
    ck_assert_uint_eq(got, 0);
    ck_assert_int_eq(read_stream(s, UINT64_MAX, got_bytes, 9, &got), 0);
    ck_assert_uint_eq(got, 0);
}

START_TEST(the_stream_is_read_back_by_offset)
{
    static uint8_t want[8192], got_bytes[8192];
    struct hl_spool s, again;
    struct hl_err e = {0};
    size_t got, k;
    create(&s, "a");
    size_t n = fill(&s, want);
    same_stream(&s, want, n);
    k = catalog(buf, 1);
    k += catalog(buf + k, 2);
    ck_assert_uint_eq(s.catalog_bytes, k);
    for (size_t at = 0; at < k; at += got) {
        ck_assert_int_eq(read_by(hl_spool_plan_catalogs, &s, at, got_bytes + at, 5, &got),
                         0);
        ck_assert_uint_gt(got, 0);
    }
    ck_assert_int_eq(memcmp(got_bytes, buf, k), 0);
    uint64_t size = s.size;
    hl_spool_fini(&s);
    ck_assert_int_eq(hl_spool_load(&again, &pool, "a", NULL, NULL, &e), 0);
    ck_assert_uint_eq(again.size, size);
    ck_assert_uint_eq(again.cut_bytes, 0);
    same_stream(&again, want, n);
    hl_spool_fini(&again);
}
END_TEST

/* A file "a" of one catalog, a row and n other bytes; loaded. */
static void with_tail(struct hl_spool *s, const void *tail, size_t n)
{
    struct hl_err e = {0};
    unlinkat(root, "a", 0);
    create(s, "a");
    ck_assert_int_eq(append(s, buf, catalog(buf, 1)), 0);
    ck_assert_int_eq(append(s, buf, row(buf, 0)), 0);
    uint64_t whole = s->size;
    hl_spool_fini(s);
    int fd = openat(root, "a", O_RDWR);
    ck_assert_int_eq(pwrite(fd, tail, n, (off_t)whole), (ssize_t)n);
    close(fd);
    ck_assert_int_eq(hl_spool_load(s, &pool, "a", NULL, NULL, &e), 0);
    ck_assert_uint_eq(s->size, whole);
    ck_assert_uint_eq(s->cut_bytes, n);
}

static uint64_t size_of_a(void)
{
    struct stat st;
    ck_assert_int_eq(fstatat(root, "a", &st, 0), 0);
    return (uint64_t)st.st_size;
}

START_TEST(a_tail_that_was_changed_is_left_until_something_follows)
{
    static uint8_t tail[4096], next[4096];
    struct hl_spool s;
    size_t n = row(tail, 1), k = row(next, 1);
    for (size_t at = 0; at < n; at++) {
        if (at == 6 || at == 7)
            continue; /* a longer message: the start of one, for all that can be told */
        tail[at] ^= 0x80;
        with_tail(&s, tail, n);
        int may_be_torn = at == 4 || at == 5; /* its length may be a right one */
        ck_assert(s.has_bad_tail || may_be_torn);
        if (s.has_bad_tail)
            ck_assert_uint_eq(size_of_a(), s.size + n);
        ck_assert_int_eq(append(&s, next, k), 0);
        ck_assert_uint_eq(size_of_a(), s.size);
        hl_spool_fini(&s);
        tail[at] ^= 0x80;
    }
}
END_TEST

START_TEST(zeros_of_a_crashed_machine_are_cut)
{
    static uint8_t tail[4096];
    struct hl_spool s;
    for (size_t n = 1; n <= sizeof tail; n = 3 * n + 1) {
        memset(tail, 0, sizeof tail);
        with_tail(&s, tail, n);
        ck_assert(!s.has_bad_tail && !s.is_damaged);
        ck_assert_uint_eq(size_of_a(), s.size);
        hl_spool_fini(&s);
    }
    size_t k = row(tail, 1); /* its first block was written, the others were not */
    memset(tail + k, 0, sizeof tail - k);
    tail[HL_WIRE_HEADER] ^= 1;
    with_tail(&s, tail, sizeof tail);
    ck_assert(!s.has_bad_tail);
    ck_assert_uint_eq(size_of_a(), s.size);
    hl_spool_fini(&s);
}
END_TEST

START_TEST(a_tail_torn_at_any_byte_is_cut)
{
    struct hl_spool s;
    struct hl_err e = {0};
    size_t k;
    create(&s, "a");
    ck_assert_int_eq(append(&s, buf, catalog(buf, 1)), 0);
    uint64_t whole = s.size;
    k = row(buf, 0);
    ck_assert_int_eq(append(&s, buf, k), 0);
    hl_spool_fini(&s);
    for (size_t cut = k - 1; cut > 0; cut--) {
        int fd = openat(root, "a", O_RDWR);
        ck_assert_int_eq(ftruncate(fd, (off_t)(whole + cut)), 0);
        ck_assert_int_eq(hl_spool_load(&s, &pool, "a", NULL, NULL, &e), 0);
        ck_assert_uint_eq(s.size, whole);
        ck_assert_uint_eq(s.cut_bytes, cut);
        struct stat st;
        ck_assert_int_eq(fstat(fd, &st), 0);
        ck_assert_uint_eq((uint64_t)st.st_size, whole);
        ck_assert_int_eq(pwrite(fd, buf, k, (off_t)whole), (ssize_t)k);
        close(fd);
        hl_spool_fini(&s);
    }
}
END_TEST

START_TEST(a_damaged_byte_ends_the_spool_there)
{
    struct hl_spool s;
    struct hl_err e = {0};
    create(&s, "a");
    ck_assert_int_eq(append(&s, buf, catalog(buf, 1)), 0);
    uint64_t whole = s.size;
    ck_assert_int_eq(append(&s, buf, row(buf, 0)), 0);
    ck_assert_int_eq(append(&s, buf, row(buf, 1)), 0);
    hl_spool_fini(&s);
    int fd = openat(root, "a", O_RDWR);
    ck_assert_int_eq(pwrite(fd, "?", 1, (off_t)whole + 30), 1);
    close(fd);
    ck_assert_int_eq(hl_spool_load(&s, &pool, "a", NULL, NULL, &e), 0);
    ck_assert_uint_eq(s.size, whole);
    ck_assert_int_eq(append(&s, buf, row(buf, 0)), 0);
    hl_spool_fini(&s);
}
END_TEST

START_TEST(what_is_no_spool_is_left_alone)
{
    static const char *const texts[] = {"", "short",
                                        "this is some other file of somebody"};
    struct hl_spool s;
    for (int i = 0; i < 3; i++) {
        struct hl_err e = {0};
        struct stat st;
        int fd = openat(root, "a", O_RDWR | O_CREAT | O_TRUNC, 0600);
        size_t n = strlen(texts[i]);
        ck_assert_int_eq(write(fd, texts[i], n), (ssize_t)n);
        ck_assert_int_eq(hl_spool_load(&s, &pool, "a", NULL, NULL, &e), -1);
        ck_assert_int_eq(e.code, HL_ERR_FORMAT);
        ck_assert(fstat(fd, &st) == 0 && (size_t)st.st_size == n);
        close(fd);
    }
    struct hl_err e = {0};
    int fd = openat(root, "a", O_RDWR | O_TRUNC); /* messages, but no head */
    size_t n = bye(buf);
    ck_assert_int_eq(write(fd, buf, n), (ssize_t)n);
    ck_assert_int_eq(hl_spool_load(&s, &pool, "a", NULL, NULL, &e), -1);
    close(fd);
    ck_assert_int_eq(hl_spool_load(&s, &pool, "none", NULL, NULL, &e), -1);
    ck_assert_int_eq(e.code, ENOENT);
}
END_TEST

START_TEST(an_unknown_version_is_named)
{
    struct hl_spool s;
    struct hl_err e = {0};
    size_t n = head(buf);
    buf[2] = 99;
    int fd = openat(root, "a", O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq(write(fd, buf, n), (ssize_t)n);
    close(fd);
    ck_assert_int_eq(hl_spool_load(&s, &pool, "a", NULL, NULL, &e), -1);
    ck_assert_int_eq(e.code, HL_ERR_VERSION);
}
END_TEST

/* ---- a disk that fails at the k-th write, after a part of it ---- */

static int fail_at, n_writes;

static ssize_t failing(int fd, const void *p, size_t n, off_t at)
{
    if (++n_writes == fail_at) {
        errno = ENOSPC;
        return -1;
    }
    return pwrite(fd, p, n > 10 ? 10 : n, at); /* short writes, always */
}

/* Until a place is written again nothing behind it is, and a reader finds whole
 * messages alone. */
START_TEST(a_write_that_fails_is_made_good_by_the_next)
{
    static uint8_t want[8192];
    pool.write = failing;
    for (fail_at = 1; fail_at < 60; fail_at++) {
        struct hl_spool s, again;
        struct hl_err e = {0};
        uint64_t at[6];
        size_t n = 0, len[6];
        n_writes = 0;
        ck_assert_int_eq(hl_spool_init(&s, &pool, "a"), 0);
        for (uint64_t i = 0; i < 6; i++) {
            len[i] = i > 1 ? row(want + n, i) : i ? catalog(want + n, 1) : head(want + n);
            ck_assert_int_eq(hl_spool_note(&s, want + n, len[i], &at[i]), 0);
            n += len[i];
        }
        int first_bad = 6;
        for (int i = 0; i < 6; i++) {
            int r = hl_spool_write(&s, want + at[i], len[i], at[i]);
            ck_assert_int_eq(r, i < first_bad && n_writes < fail_at ? 0 : -ENOSPC);
            first_bad = r && i < first_bad ? i : first_bad;
        }
        for (int i = first_bad; i < 6; i++)
            ck_assert_int_eq(hl_spool_write(&s, want + at[i], len[i], at[i]), 0);
        same_stream(&s, want + len[0], n - len[0]);
        hl_spool_fini(&s);
        ck_assert_int_eq(hl_spool_load(&again, &pool, "a", NULL, NULL, &e), 0);
        ck_assert_uint_eq(again.cut_bytes, 0);
        ck_assert_uint_eq(again.size, n);
        hl_spool_fini(&again);
        unlinkat(root, "a", 0);
    }
    ck_assert_int_gt(n_writes, 10);
}
END_TEST

/* What a crash leaves while a write fails: no message behind the gap. */
START_TEST(a_gap_hides_what_is_behind_it_from_nobody)
{
    static uint8_t want[8192];
    struct hl_spool s;
    struct hl_err e = {0};
    uint64_t at[3];
    create(&s, "a");
    size_t size = s.size, k = row(want, 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(hl_spool_note(&s, want, k, &at[i]), 0);
    ck_assert_int_eq(hl_spool_write(&s, want, k, at[0]), 0);
    pool.write = failing;
    fail_at = 1;
    n_writes = 0;
    ck_assert_int_eq(hl_spool_write(&s, want, k, at[1]), -ENOSPC);
    ck_assert_int_eq(hl_spool_write(&s, want, k, at[2]), -ENOSPC);
    ck_assert_int_eq(n_writes, 1);
    hl_spool_fini(&s);
    ck_assert_int_eq(hl_spool_load(&s, &pool, "a", NULL, NULL, &e), 0);
    ck_assert_uint_eq(s.size, size + k);
    hl_spool_fini(&s);
}
END_TEST

static size_t record(uint8_t *out, unsigned kind)
{
    struct hl_record_msg m = {.end = {kind, 0}};
    return (size_t)hl_encode_record(out, 4096, &m);
}

START_TEST(the_last_words_of_a_process_are_known_from_the_end_alone)
{
    struct hl_spool s;
    create(&s, "a");
    for (uint64_t i = 0; i < 1000; i++)
        append(&s, buf, row(buf, i));
    ck_assert_int_eq(hl_spool_is_finished(hl_spool_fd(&s), s.size), 0);
    append(&s, buf, record(buf, HL_ENDED_SAMPLED));
    ck_assert_int_eq(hl_spool_is_finished(hl_spool_fd(&s), s.size), 0);
    append(&s, buf, record(buf, HL_ENDED_EXIT));
    ck_assert_int_eq(hl_spool_is_finished(hl_spool_fd(&s), s.size), 1);
    append(&s, buf, bye(buf));
    ck_assert_int_eq(hl_spool_is_finished(hl_spool_fd(&s), s.size), 1);
    ck_assert_int_eq(hl_spool_is_finished(hl_spool_fd(&s), s.size - 1), 0);
    hl_spool_fini(&s);
}
END_TEST

START_TEST(many_spools_need_few_descriptors)
{
    static uint8_t want[4][8192];
    static const char *const names[] = {"a", "b", "c", "d"};
    struct hl_spool s[4];
    size_t n[4];
    for (int i = 0; i < 4; i++)
        create(&s[i], names[i]);
    for (int i = 0; i < 4; i++)
        n[i] = fill(&s[i], want[i]);
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < 4; i++) {
            same_stream(&s[i], want[i], n[i]);
            ck_assert_uint_le(pool.n_open, 2);
        }
    ck_assert_int_eq(hl_spool_sync(&s[0]), 0);
    ck_assert_int_eq(s[0].is_dirty, 0);
    ck_assert_int_eq(s[1].is_dirty, 1);
    for (int i = 3; i >= 0; i--)
        hl_spool_fini(&s[i]);
    ck_assert_ptr_null(pool.dirty);
    ck_assert_uint_eq(pool.n_open, 0);
    ck_assert_ptr_null(pool.newest);
    ck_assert_ptr_null(pool.oldest);
}
END_TEST

START_TEST(a_file_that_exists_is_not_replaced)
{
    struct hl_spool s, other;
    create(&s, "a");
    ck_assert_int_eq(begin(&other, "a", buf, head(buf)), -EEXIST);
    ck_assert_int_eq(faccessat(root, "a", F_OK, 0), 0);
    hl_spool_fini(&s);
}
END_TEST

static int stop_at_row(void *ctx, const struct hl_wire_header *h, const uint8_t *body)
{
    (void)body;
    ++*(int *)ctx;
    return h->type == HL_MSG_ROWS;
}

START_TEST(a_visitor_may_refuse_the_rest)
{
    struct hl_spool s;
    struct hl_err e = {0};
    int n = 0;
    create(&s, "a");
    append(&s, buf, catalog(buf, 1));
    uint64_t size = s.size;
    append(&s, buf, row(buf, 0));
    append(&s, buf, row(buf, 1));
    hl_spool_fini(&s);
    ck_assert_int_eq(hl_spool_load(&s, &pool, "a", stop_at_row, &n, &e), 0);
    ck_assert_int_eq(n, 3);
    ck_assert_uint_eq(s.size, size);
    hl_spool_fini(&s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("spool");
    TCase *t = tcase_create("spool");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, the_stream_is_read_back_by_offset);
    tcase_add_test(t, a_tail_torn_at_any_byte_is_cut);
    tcase_add_test(t, a_tail_that_was_changed_is_left_until_something_follows);
    tcase_add_test(t, zeros_of_a_crashed_machine_are_cut);
    tcase_add_test(t, a_damaged_byte_ends_the_spool_there);
    tcase_add_test(t, what_is_no_spool_is_left_alone);
    tcase_add_test(t, an_unknown_version_is_named);
    tcase_add_test(t, a_write_that_fails_is_made_good_by_the_next);
    tcase_add_test(t, a_gap_hides_what_is_behind_it_from_nobody);
    tcase_add_test(t, the_last_words_of_a_process_are_known_from_the_end_alone);
    tcase_add_test(t, many_spools_need_few_descriptors);
    tcase_add_test(t, a_file_that_exists_is_not_replaced);
    tcase_add_test(t, a_visitor_may_refuse_the_rest);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
