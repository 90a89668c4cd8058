/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking and counting a stream, message by message, without any socket.
 */
#include "messages.h"
#include "tally.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static uint8_t buf[HL_WIRE_HEADER + HL_ROWS_HEAD + 8 * HL_ROWS_CELLS_MAX];
static struct hl_tally t;
static const char *why;

static int take(int64_t n)
{
    struct hl_wire_header h;
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(hl_wire_header_get(buf, (size_t)n, &h), 0);
    why = NULL;
    int r = hl_tally_take(&t, &h, buf + HL_WIRE_HEADER, &why);
    ck_assert(r == 0 || why);
    return r;
}

static int catalog(uint32_t id, uint32_t base, uint32_t first_metric, uint32_t first_path,
                   int metrics, int paths)
{
    struct hl_catalog_msg m = {
        .id = id, .base = base, .first_metric = first_metric, .first_path = first_path};
    struct hl_writer w = hl_catalog_begin(buf, sizeof buf, &m);
    while (metrics-- > 0)
        hl_catalog_add_metric(&w, "m");
    while (paths-- > 0)
        hl_catalog_add_path(&w, "p");
    return take(hl_message_end(&w, HL_MSG_CATALOG));
}

static int rows(uint32_t id, uint64_t first_row, uint64_t first_cell, uint32_t n_cells)
{
    struct hl_rows m = {.catalog = id,
                        .n_cells = n_cells,
                        .first_row = first_row,
                        .first_cell = first_cell};
    memset(buf + HL_WIRE_HEADER + HL_ROWS_HEAD, 0, 8 * (size_t)n_cells);
    return take(hl_encode_rows_in_place(buf, sizeof buf, &m));
}

static void set_up(void)
{
    memset(&t, 0, sizeof t);
}

static void tear_down(void)
{
    hl_tally_fini(&t);
}

START_TEST(rows_are_counted_once)
{
    ck_assert_int_eq(catalog(1, 0, 0, 0, 2, 1), 0); /* stride 4 */
    ck_assert_int_eq(rows(1, 0, 0, 12), 0);
    ck_assert_uint_eq(t.n_rows, 3);
    ck_assert_int_eq(rows(1, 3, 0, 4), 0);
    ck_assert_int_eq(rows(1, 2, 0, 12), 0); /* 2 and 3 came before */
    ck_assert_uint_eq(t.n_rows, 5);
    ck_assert_int_eq(rows(1, 9, 0, 4), 0); /* 5 to 8 were dropped by the sender */
    ck_assert_uint_eq(t.n_rows, 6);
}
END_TEST

START_TEST(rows_must_fit_their_catalog)
{
    ck_assert_int_eq(rows(1, 0, 0, 4), -1);
    ck_assert_int_eq(catalog(1, 0, 0, 0, 2, 1), 0);
    ck_assert_int_eq(rows(2, 0, 0, 4), -1);
    ck_assert_int_eq(rows(1, 0, 0, 6), -1);
    ck_assert_int_eq(rows(1, 0, 5, 1), -1);
    ck_assert_int_eq(rows(1, 0, 0, 0), -1);
    ck_assert_int_eq(rows(1, UINT64_MAX, 0, 4), -1);
    ck_assert_int_eq(rows(1, 0, UINT64_MAX, 4), -1);
    ck_assert_uint_eq(t.n_rows, 0);
    ck_assert_int_eq(rows(1, UINT64_MAX - 6, 0, 4), 0);
    ck_assert_uint_eq(t.n_rows, 1);
}
END_TEST

START_TEST(catalogs_build_on_each_other)
{
    ck_assert_int_eq(catalog(1, 0, 0, 0, 1, 1), 0);
    ck_assert_int_eq(catalog(1, 0, 0, 0, 1, 1), -1); /* not a new number */
    ck_assert_int_eq(catalog(2, 1, 0, 1, 1, 0), -1); /* a hole */
    ck_assert_int_eq(catalog(2, 1, 1, 1, 0, 2), 0);
    ck_assert_int_eq(rows(2, 0, 0, 7), 0);
    ck_assert_int_eq(rows(1, 1, 0, 3), 0); /* an earlier one may go on */
    ck_assert_uint_eq(t.n_rows, 2);
    ck_assert_int_eq(catalog(5, 1, 1, 1, 1, 0), 0); /* 3 and 4 were dropped with rows */
    ck_assert_int_eq(rows(4, 2, 0, 4), -1);
    ck_assert_int_eq(rows(5, 2, 0, 4), 0);
    ck_assert_int_eq(rows(2, 3, 0, 7), -1);          /* replaced */
    ck_assert_int_eq(catalog(7, 4, 2, 1, 1, 0), -1); /* base that never came */
    ck_assert_int_eq(catalog(7, 0, 0, 0, 1, 0), 0);  /* from the start */
    ck_assert_int_eq(rows(7, 3, 0, 1), 0);
}
END_TEST

START_TEST(a_wide_row_counts_with_its_last_part)
{
    ck_assert_int_eq(catalog(1, 0, 0, 0, 0, 5), 0); /* stride 10 */
    ck_assert_int_eq(rows(1, 0, 0, 4), 0);
    ck_assert_int_eq(rows(1, 0, 5, 4), -1); /* a cell is missing */
    ck_assert_int_eq(rows(1, 1, 4, 4), -1); /* of another row */
    ck_assert_int_eq(rows(1, 0, 4, 7), -1); /* beyond its end */
    ck_assert_int_eq(rows(1, 0, 4, 4), 0);
    ck_assert_uint_eq(t.n_rows, 0);
    ck_assert_int_eq(rows(1, 0, 8, 2), 0);
    ck_assert_uint_eq(t.n_rows, 1);
    ck_assert_int_eq(rows(1, 0, 8, 2), -1); /* it is complete */
}
END_TEST

START_TEST(a_row_that_was_given_up)
{
    ck_assert_int_eq(catalog(1, 0, 0, 0, 0, 5), 0);
    ck_assert_int_eq(rows(1, 0, 0, 4), 0);
    ck_assert_int_eq(rows(1, 1, 0, 6), 0); /* the next one begins */
    ck_assert_int_eq(rows(1, 0, 4, 6), -1);
    ck_assert_int_eq(rows(1, 1, 6, 4), 0);
    ck_assert_int_eq(rows(1, 2, 0, 4), 0);
    ck_assert_int_eq(catalog(2, 1, 0, 5, 1, 0), 0);
    ck_assert_int_eq(rows(1, 2, 4, 6), -1);
    ck_assert_int_eq(rows(2, 3, 0, 11), 0);
    ck_assert_uint_eq(t.n_rows, 2);
}
END_TEST

START_TEST(rows_without_names)
{
    ck_assert_int_eq(catalog(1, 0, 0, 0, 0, 0), 0);
    ck_assert_int_eq(rows(1, 0, 0, 0), 0);
    ck_assert_int_eq(rows(1, 1, 0, 0), 0);
    ck_assert_int_eq(rows(1, 2, 0, 1), -1);
    ck_assert_int_eq(rows(1, 2, 1, 0), -1);
    ck_assert_uint_eq(t.n_rows, 2);
}
END_TEST

START_TEST(the_number_of_catalogs_is_bounded)
{
    for (uint32_t i = 1; i <= HL_TALLY_CATALOGS_MAX; i++)
        ck_assert_int_eq(catalog(i, i - 1, 0, 0, 0, 0), 0);
    ck_assert_int_eq(
        catalog(HL_TALLY_CATALOGS_MAX + 1, HL_TALLY_CATALOGS_MAX, 0, 0, 0, 0), -1);
    ck_assert_int_eq(catalog(HL_TALLY_CATALOGS_MAX + 1, 1, 0, 0, 0, 0), 0);
}
END_TEST

START_TEST(other_messages_are_no_stream)
{
    struct hl_bye m = {0, 0};
    ck_assert_int_eq(take(hl_encode_bye(buf, sizeof buf, &m)), -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tally");
    TCase *c = tcase_create("tally");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, rows_are_counted_once);
    tcase_add_test(c, rows_must_fit_their_catalog);
    tcase_add_test(c, catalogs_build_on_each_other);
    tcase_add_test(c, a_wide_row_counts_with_its_last_part);
    tcase_add_test(c, a_row_that_was_given_up);
    tcase_add_test(c, rows_without_names);
    tcase_add_test(c, the_number_of_catalogs_is_bounded);
    tcase_add_test(c, other_messages_are_no_stream);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
