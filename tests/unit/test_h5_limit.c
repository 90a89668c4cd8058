/* SPDX-License-Identifier: Apache-2.0
 *
 * The schema's n_frames is an int: a longer series is refused before anything is
 * written, by name and number, never cut or made negative.
 */
#include "err.h"
#include "sink.h"

#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[] = "/tmp/hl-h5-limit.XXXXXX", name[64];
static struct hl_catalog none;
static struct hl_sink *sink;
static struct hl_err e;

static void set_up(void)
{
    static const struct hl_run run = {
        .app_version = "1", .generator = "test", .catalog = &none, .n_ranks = 1};
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert(mkdtemp(dir) != NULL);
    snprintf(name, sizeof name, "%s/a.h5", dir);
    e = (struct hl_err){0};
    sink = hl_h5_sink(name, &e);
    ck_assert(sink && sink->ops->begin(sink, &run, &e) == 0);
}

/* Nothing is left but an empty folder. */
static void tear_down(void)
{
    sink->ops->abort(sink);
    ck_assert_int_eq(rmdir(dir), 0);
}

START_TEST(as_many_frames_as_the_schema_counts)
{
    ck_assert_int_eq(sink->ops->rank_begin(sink, 3, INT32_MAX, &e), 0);
}
END_TEST

START_TEST(one_more_of_a_rank)
{
    ck_assert_int_eq(sink->ops->rank_begin(sink, 3, (uint64_t)INT32_MAX + 1, &e), -1);
    ck_assert_int_eq(e.code, EOVERFLOW);
    ck_assert(strstr(e.text, name) && strstr(e.text, "3 has 2147483648 frames"));
}
END_TEST

START_TEST(one_more_of_another_process)
{
    ck_assert_int_eq(sink->ops->other_begin(sink, 77, "n", (uint64_t)1 << 32, &e), -1);
    ck_assert_int_eq(e.code, EOVERFLOW);
    ck_assert(strstr(e.text, "77@n has 4294967296 frames"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("h5 limit");
    TCase *t = tcase_create("h5 limit");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, as_many_frames_as_the_schema_counts);
    tcase_add_test(t, one_more_of_a_rank);
    tcase_add_test(t, one_more_of_another_process);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
