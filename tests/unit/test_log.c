/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: levels, the limit of a kind, no control characters.
 */
#include "log.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t now;
static char last[1100];
static int n_lines, last_level;
static struct hl_log l;

static int64_t clock_of_test(void)
{
    return now;
}

static void put(struct hl_log *log, int level, const struct hl_log_about *about,
                const char *line)
{
    (void)log;
    (void)about;
    snprintf(last, sizeof last, "%s", line);
    last_level = level;
    n_lines++;
}

static void set_up(void)
{
    hl_log_init(&l);
    l.now = clock_of_test;
    l.put = put;
    n_lines = 0;
    now = 1000;
}

START_TEST(levels)
{
    hl_log(&l, HL_LOG_DEBUG, NULL, NULL, "no");
    ck_assert_int_eq(n_lines, 0);
    hl_log(&l, HL_LOG_INFO, NULL, NULL, "yes %d", 7);
    ck_assert_str_eq(last, "yes 7");
    l.level = HL_LOG_ERR;
    hl_log(&l, HL_LOG_WARNING, NULL, NULL, "no");
    ck_assert_int_eq(n_lines, 1);
    ck_assert_int_eq(hl_log_level_by_name("err"), HL_LOG_ERR);
    ck_assert_int_eq(hl_log_level_by_name("debug"), HL_LOG_DEBUG);
    ck_assert_int_eq(hl_log_level_by_name("loud"), -1);
}
END_TEST

START_TEST(a_kind_is_limited_and_counted)
{
    for (int i = 0; i < 322; i++)
        hl_log(&l, HL_LOG_WARNING, "things refused", NULL, "refused %d", i);
    ck_assert_int_eq(n_lines, 10);
    hl_log(&l, HL_LOG_WARNING, "other things", NULL, "other");
    ck_assert_int_eq(n_lines, 11);
    now += (int64_t)30 * 1000000000;
    hl_log_tick(&l);
    ck_assert_int_eq(n_lines, 12);
    ck_assert_str_eq(last, "things refused (312 more in 30 s)");
    ck_assert_int_eq(last_level, HL_LOG_WARNING);
    hl_log_tick(&l);
    ck_assert_int_eq(n_lines, 12);
    hl_log(&l, HL_LOG_WARNING, "things refused", NULL, "again");
    ck_assert_str_eq(last, "again");
}
END_TEST

START_TEST(a_window_that_is_over_is_said_first)
{
    for (int i = 0; i < 12; i++)
        hl_log(&l, HL_LOG_INFO, "k", NULL, "%d", i);
    now += (int64_t)31 * 1000000000;
    n_lines = 0;
    hl_log(&l, HL_LOG_INFO, "k", NULL, "new");
    ck_assert_int_eq(n_lines, 2);
    ck_assert_str_eq(last, "new");
}
END_TEST

START_TEST(at_the_end_everything_is_said)
{
    for (int i = 0; i < 12; i++)
        hl_log(&l, HL_LOG_INFO, "k", NULL, "%d", i);
    hl_log_flush(&l);
    ck_assert_str_eq(last, "k (2 more in 0 s)");
}
END_TEST

START_TEST(no_limit)
{
    l.burst = 0;
    for (int i = 0; i < 100; i++)
        hl_log(&l, HL_LOG_INFO, "k", NULL, "%d", i);
    ck_assert_int_eq(n_lines, 100);
}
END_TEST

START_TEST(more_kinds_than_there_is_room_for)
{
    static char names[100][8];
    for (int i = 0; i < 100; i++) {
        snprintf(names[i], sizeof names[i], "k%d", i);
        hl_log(&l, HL_LOG_INFO, names[i], NULL, "%d", i);
    }
    ck_assert_int_eq(n_lines, 100);
}
END_TEST

START_TEST(a_line_is_one_line)
{
    char text[5000];
    hl_log(&l, HL_LOG_INFO, NULL, NULL, "a%sb", "\n\x1b[1m\t\x7f");
    ck_assert_str_eq(last, "a??[1m??b");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    hl_log(&l, HL_LOG_INFO, NULL, NULL, "%s", text);
    ck_assert_uint_eq(strlen(last), 1023);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("log");
    TCase *t = tcase_create("log");
    tcase_add_checked_fixture(t, set_up, NULL);
    tcase_add_test(t, levels);
    tcase_add_test(t, a_kind_is_limited_and_counted);
    tcase_add_test(t, a_window_that_is_over_is_said_first);
    tcase_add_test(t, at_the_end_everything_is_said);
    tcase_add_test(t, no_limit);
    tcase_add_test(t, more_kinds_than_there_is_room_for);
    tcase_add_test(t, a_line_is_one_line);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
