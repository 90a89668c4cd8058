/* SPDX-License-Identifier: Apache-2.0
 *
 * Catalogs, streams, numbers and statistics.
 */
#include "catalog.h"
#include "number.h"
#include "region_tree.h"
#include "stats.h"
#include "stream.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a stream under construction ---- */

static struct hl_buf bytes;

static void catalog(uint32_t id, uint32_t base, uint32_t metrics, uint32_t paths,
                    const char *metric, const char *path)
{
    uint8_t out[4096];
    struct hl_catalog_msg m = {
        .id = id, .base = base, .first_metric = metrics, .first_path = paths};
    struct hl_writer w = hl_catalog_begin(out, sizeof out, &m);
    if (metric)
        hl_catalog_add_metric(&w, metric);
    if (path)
        hl_catalog_add_path(&w, path);
    int64_t n = hl_message_end(&w, HL_MSG_CATALOG);
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(hl_buf_add(&bytes, out, (size_t)n), 0);
}

static void rows(uint32_t id, uint64_t row, uint64_t first_cell, const double *cells,
                 uint32_t n)
{
    uint8_t out[4096];
    struct hl_rows m = {
        .catalog = id, .n_cells = n, .first_row = row, .first_cell = first_cell};
    memcpy(out + HL_WIRE_HEADER + HL_ROWS_HEAD, cells, n * sizeof *cells);
    int64_t k = hl_encode_rows_in_place(out, sizeof out, &m);
    ck_assert_int_gt(k, 0);
    ck_assert_int_eq(hl_buf_add(&bytes, out, (size_t)k), 0);
}

static double got[64];
static size_t n_got;

static int keep(void *ctx, const struct hl_stream *s, const double *cells,
                size_t n_metrics, size_t n_paths, struct hl_err *e)
{
    (void)ctx, (void)s, (void)e;
    for (size_t i = 0; i < n_metrics + 2 * n_paths && n_got < 64; i++)
        got[n_got++] = cells[i];
    return 0;
}

static struct hl_stream stream;
static struct hl_err err;

static void setup(void)
{
    memset(&bytes, 0, sizeof bytes);
    memset(&stream, 0, sizeof stream);
    memset(&err, 0, sizeof err);
    n_got = 0;
}

static void teardown(void)
{
    hl_buf_fini(&bytes);
    hl_stream_fini(&stream);
}

static int feed(size_t piece)
{
    for (size_t at = 0; at < bytes.n; at += piece) {
        size_t n = bytes.n - at < piece ? bytes.n - at : piece;
        if (hl_stream_feed(&stream, bytes.p + at, n, keep, NULL, &err))
            return -1;
    }
    return 0;
}

static void two_catalogs(void)
{
    const double a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9, 10, 11};
    catalog(1, 0, 0, 0, "m", "x");
    rows(1, 0, 0, a, 6);            /* two rows of three cells */
    catalog(3, 1, 1, 1, NULL, "y"); /* 2 was left out */
    rows(3, 2, 0, b, 5);
}

START_TEST(a_stream_may_come_in_any_pieces)
{
    for (size_t piece = 1; piece < 200; piece += 7) {
        setup();
        two_catalogs();
        ck_assert_int_eq(feed(piece), 0);
        ck_assert_uint_eq(stream.n_rows, 3);
        ck_assert_uint_eq(stream.used_bytes, bytes.n);
        ck_assert_uint_eq(n_got, 11);
        for (size_t i = 0; i < n_got; i++)
            ck_assert(got[i] == (double)(i + 1));
        teardown();
    }
}
END_TEST

START_TEST(rows_that_came_before_are_left_out)
{
    const double a[] = {1, 2, 3};
    uint8_t hello[HL_HELLO_CAP];
    struct hl_hello h = {.wire_min = 1,
                         .wire_max = 1,
                         .role = HL_ROLE_FRAMES,
                         .key = {"k", 1},
                         .host = {"", 0},
                         .job = {"", 0},
                         .app_version = {"", 0}};
    two_catalogs();
    int64_t n = hl_encode_hello(hello, sizeof hello, &h);
    hl_buf_add(&bytes, hello, (size_t)n); /* the border to a fallback file */
    catalog(4, 0, 0, 0, "m", "x");
    rows(4, 2, 0, a, 3); /* again */
    rows(4, 3, 0, a, 3);
    ck_assert_int_eq(feed(bytes.n), 0);
    ck_assert_uint_eq(stream.n_rows, 4);
    ck_assert_uint_eq(n_got, 14);
}
END_TEST

START_TEST(a_row_in_parts_is_one_row)
{
    const double a[] = {1, 2, 3};
    catalog(1, 0, 0, 0, "m", "x");
    rows(1, 0, 0, a, 1);
    rows(1, 0, 0, a, 2); /* the first try was given up */
    rows(1, 0, 2, a + 2, 1);
    ck_assert_int_eq(feed(bytes.n), 0);
    ck_assert_uint_eq(stream.n_rows, 1);
    ck_assert(n_got == 3 && got[2] == 3);
    rows(1, 1, 1, a, 1); /* no beginning */
    bytes.head = 0;
    ck_assert_int_eq(hl_stream_feed(&stream, bytes.p + stream.used_bytes,
                                    bytes.n - stream.used_bytes, keep, NULL, &err),
                     -1);
}
END_TEST

START_TEST(damage_ends_a_stream_at_the_last_sound_byte)
{
    two_catalogs();
    size_t sound = bytes.n;
    const double a[] = {1, 2, 3, 4, 5};
    rows(3, 3, 0, a, 5);
    bytes.p[bytes.n - 1] ^= 1;
    ck_assert_int_eq(feed(bytes.n), -1);
    ck_assert_uint_eq(stream.used_bytes, sound);
    ck_assert_uint_eq(stream.n_rows, 3);
}
END_TEST

START_TEST(a_catalog_replaces_those_after_its_base)
{
    const double a[] = {1, 2, 3}, b[] = {4, 5, 6, 7, 8};
    struct hl_catalog all = {0};
    catalog(1, 0, 0, 0, "m", "x");
    rows(1, 0, 0, a, 3);
    catalog(2, 1, 1, 1, NULL, "gone");
    rows(2, 1, 0, b, 2); /* its row was given up */
    catalog(3, 1, 1, 1, NULL, "y");
    rows(3, 1, 0, b, 5);
    catalog(4, 1, 1, 1, "n", "y/z"); /* a sibling of the same size may follow */
    ck_assert_int_eq(feed(bytes.n), 0);
    ck_assert_uint_eq(stream.n_rows, 2);
    ck_assert(n_got == 8 && got[3] == 4 && got[7] == 8);
    ck_assert_uint_eq(stream.catalog.paths.n, 2);
    ck_assert_str_eq(stream.catalog.paths.name[1], "y/z");
    ck_assert(hl_names_find(&stream.catalog.paths, "y", 1) == SIZE_MAX);
    ck_assert_int_eq(hl_stream_take_names(&stream, &all), 0);
    ck_assert_uint_eq(all.metrics.n, 2);
    ck_assert_uint_eq(all.paths.n, 4); /* x, y/z, gone, y */
    hl_catalog_fini(&all);
}
END_TEST

START_TEST(rows_of_replaced_catalogs_are_refused)
{
    const double a[] = {1, 2, 3, 4, 5};
    catalog(1, 0, 0, 0, "m", "x");
    catalog(2, 1, 1, 1, NULL, "gone");
    catalog(3, 1, 1, 1, NULL, "y");
    rows(2, 0, 0, a, 5);
    ck_assert_int_eq(feed(bytes.n), -1);
    ck_assert_uint_eq(stream.n_rows, 0);
}
END_TEST

START_TEST(rows_of_unknown_catalogs_are_refused)
{
    const double a[] = {1, 2, 3};
    catalog(1, 0, 0, 0, "m", "x");
    rows(2, 0, 0, a, 3);
    ck_assert_int_eq(feed(bytes.n), -1);
    teardown();
    setup();
    catalog(1, 0, 0, 0, "m", "x");
    catalog(4, 3, 1, 1, "n", "y");
    ck_assert_int_eq(feed(bytes.n), -1);
    teardown();
    setup();
    catalog(1, 0, 0, 0, "m", "x");
    catalog(2, 1, 1, 1, "m", NULL); /* a name twice */
    ck_assert_int_eq(feed(bytes.n), -1);
}
END_TEST

/* ---- catalogs ---- */

static void add(struct hl_names *l, const char *s)
{
    ck_assert_int_eq(hl_names_add(l, s, strlen(s), NULL), 0);
}

START_TEST(union_has_parents_sorted_and_maps_cells)
{
    struct hl_catalog a = {0}, b = {0}, u = {0};
    add(&a.metrics, "step");
    add(&a.paths, "z/y/x");
    add(&b.metrics, "wall");
    add(&b.metrics, "step");
    add(&b.paths, "a-b");
    add(&b.paths, "a");
    add(&b.paths, "a/b");
    ck_assert(!hl_catalog_unite(&u, &a) && !hl_catalog_unite(&u, &b));
    ck_assert_int_eq(hl_catalog_sort_paths(&u), 0);
    static const char *const want[] = {"a", "a-b", "a/b", "z", "z/y", "z/y/x"};
    ck_assert_uint_eq(u.paths.n, 6);
    for (size_t i = 0; i < 6; i++)
        ck_assert_str_eq(u.paths.name[i], want[i]);
    ck_assert_str_eq(u.metrics.name[0], "step");
    ck_assert_str_eq(u.metrics.name[1], "wall");
    size_t *map = hl_catalog_map(&b, &u);
    ck_assert(map && map[0] == 1 && map[1] == 0 && map[2] == 2 + 2 * 1 && map[4] == 2);
    free(map);
    ck_assert_ptr_null(hl_catalog_map(&u, &a));
    hl_catalog_fini(&a);
    hl_catalog_fini(&b);
    hl_catalog_fini(&u);
}
END_TEST

START_TEST(cleaned_names_stay_apart_and_below_their_parents)
{
    struct hl_catalog u = {0}, c;
    uint64_t n;
    add(&u.metrics, "m\xfe");
    add(&u.metrics, "m\xff");
    add(&u.metrics, "plain");
    add(&u.paths, "a");
    add(&u.paths, "r\xfe");
    add(&u.paths, "r\xfe/x");
    add(&u.paths, "r\xff");
    add(&u.paths, "r\xff/x");
    add(&u.paths, "r\xff/x\xff");
    ck_assert_int_eq(hl_catalog_clean(&u, &c, &n), 0);
    ck_assert_uint_eq(n, 5);
    static const char *const metrics[] = {"m\xef\xbf\xbd", "m\xef\xbf\xbd.2", "plain"};
    static const char *const paths[] = {"a",
                                        "r\xef\xbf\xbd",
                                        "r\xef\xbf\xbd/x",
                                        "r\xef\xbf\xbd.2",
                                        "r\xef\xbf\xbd.2/x",
                                        "r\xef\xbf\xbd.2/x\xef\xbf\xbd"};
    ck_assert_uint_eq(c.metrics.n, 3);
    ck_assert_uint_eq(c.paths.n, 6);
    for (size_t i = 0; i < 3; i++)
        ck_assert_str_eq(c.metrics.name[i], metrics[i]);
    for (size_t i = 0; i < 6; i++)
        ck_assert_str_eq(c.paths.name[i], paths[i]);
    hl_catalog_fini(&u);
    hl_catalog_fini(&c);
}
END_TEST

START_TEST(names_stay_findable_when_there_are_many)
{
    struct hl_catalog c = {0};
    char s[16];
    for (int i = 0; i < 5000; i++) {
        snprintf(s, sizeof s, "n%d", i);
        add(&c.metrics, s);
    }
    for (int i = 0; i < 5000; i++) {
        snprintf(s, sizeof s, "n%d", i);
        ck_assert_uint_eq(hl_names_find(&c.metrics, s, strlen(s)), (size_t)i);
    }
    ck_assert_uint_eq(hl_names_find(&c.metrics, "n", 1), SIZE_MAX);
    hl_catalog_fini(&c);
}
END_TEST

START_TEST(tree_makes_missing_parents)
{
    struct hl_catalog c = {0};
    struct hl_region_tree t;
    add(&c.paths, "a/b");
    add(&c.paths, "a");
    add(&c.paths, "c/d");
    ck_assert_int_eq(hl_region_tree_init(&t, &c), 0);
    ck_assert_uint_eq(t.n, 5);
    ck_assert(t.node[1].path == 1 && t.node[2].path == 0);
    ck_assert(t.node[3].path == SIZE_MAX && !strcmp(t.node[3].name, "c"));
    hl_region_tree_fini(&t);
    hl_catalog_fini(&c);
}
END_TEST

/* ---- numbers and statistics ---- */

START_TEST(numbers_come_back_bit_for_bit)
{
    static const double fixed[] = {0.0,
                                   -0.0,
                                   1,
                                   -1,
                                   0.1,
                                   1.0 / 3,
                                   1e15,
                                   1e16,
                                   123456789.123456789,
                                   5e-324,
                                   2.2250738585072014e-308,
                                   1.7976931348623157e308,
                                   1e-9,
                                   12.48,
                                   8999999.999999999,
                                   9007199254740993.0,
                                   999999999999999.0,
                                   -2.5e-07};
    char text[HL_NUMBER_MAX + 1];
    uint64_t r = 88172645463325252u;
    for (size_t i = 0; i < 50000; i++) {
        double v, back;
        r ^= r << 13;
        r ^= r >> 7;
        r ^= r << 17;
        if (i < sizeof fixed / sizeof *fixed)
            v = fixed[i];
        else if (i % 2)
            v = (double)(r % 100000000000000u) / 1e9;
        else
            memcpy(&v, &r, sizeof v);
        if (!isfinite(v))
            continue;
        size_t n = hl_number_format(v, text);
        ck_assert_uint_lt(n, HL_NUMBER_MAX);
        text[n] = 0;
        back = strtod(text, NULL);
        ck_assert_msg(!memcmp(&back, &v, sizeof v), "%a became %s", v, text);
        ck_assert_ptr_nonnull(strpbrk(text, ".e"));
    }
}
END_TEST

/* Significant digits of a number's text. */
static int digits_of(const char *s)
{
    int n = 0, zeros = 0;
    for (; *s && *s != 'e'; s++) {
        if (*s < '0' || *s > '9' || (!n && *s == '0'))
            continue;
        zeros = *s == '0' ? zeros + 1 : 0;
        n++;
    }
    return n - zeros;
}

START_TEST(numbers_have_the_fewest_digits)
{
    char text[HL_NUMBER_MAX + 1], other[64];
    uint64_t r = 88172645463325252u;
    for (size_t i = 0; i < 200000; i++) {
        double v;
        r ^= r << 13;
        r ^= r >> 7;
        r ^= r << 17;
        memcpy(&v, &r, sizeof v);
        if (i < 2098)
            v = ldexp(1, (int)i - 1074); /* powers of two, denormals too */
        else if (i % 3 == 0)
            v = (double)(r % 1000000) / 1e9;
        else if (i % 3 == 1)
            v = (double)(r % 1000) * pow(10, (double)(r >> 20 & 255));
        if (!isfinite(v) || v == 0)
            continue;
        text[hl_number_format(v, text)] = 0;
        ck_assert_msg(strtod(text, NULL) == v, "%a became %s", v, text);
        snprintf(other, sizeof other, "%.*e",
                 digits_of(text) > 1 ? digits_of(text) - 2 : 0, v);
        ck_assert_msg(digits_of(text) == 1 || strtod(other, NULL) != v, "%s, though %s",
                      text, other);
    }
}
END_TEST

START_TEST(statistics_are_those_of_the_schema)
{
    double v[] = {4, 1, 3, 2}, w[] = {5, 1, 3};
    ck_assert(hl_stat_of(HL_STAT_MEAN, v, 4) == 2.5 &&
              hl_stat_of(HL_STAT_SUM, v, 4) == 10);
    ck_assert(hl_stat_of(HL_STAT_MIN, v, 4) == 1 && hl_stat_of(HL_STAT_MAX, v, 4) == 4);
    ck_assert(hl_stat_of(HL_STAT_MEDIAN, v, 4) == 2.5 &&
              hl_stat_of(HL_STAT_MEDIAN, w, 3) == 3);
    ck_assert(hl_stat_of(HL_STAT_MEAN, v, 0) == 0);
    ck_assert(hl_stat_parse("median") == HL_STAT_MEDIAN && hl_stat_parse("mode") < 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model");
    TCase *t = tcase_create("model");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_stream_may_come_in_any_pieces);
    tcase_add_test(t, rows_that_came_before_are_left_out);
    tcase_add_test(t, a_row_in_parts_is_one_row);
    tcase_add_test(t, a_catalog_replaces_those_after_its_base);
    tcase_add_test(t, rows_of_replaced_catalogs_are_refused);
    tcase_add_test(t, damage_ends_a_stream_at_the_last_sound_byte);
    tcase_add_test(t, rows_of_unknown_catalogs_are_refused);
    tcase_add_test(t, union_has_parents_sorted_and_maps_cells);
    tcase_add_test(t, cleaned_names_stay_apart_and_below_their_parents);
    tcase_add_test(t, names_stay_findable_when_there_are_many);
    tcase_add_test(t, tree_makes_missing_parents);
    tcase_add_test(t, numbers_come_back_bit_for_bit);
    tcase_add_test(t, numbers_have_the_fewest_digits);
    tcase_add_test(t, statistics_are_those_of_the_schema);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
