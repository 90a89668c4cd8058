/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of configuration files, durations, the table of pointers.
 */
#include "conf.h"
#include "settings.h"
#include "table.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct values {
    int64_t a;
    char b[16];
};

static int set_a(void *at, const char *value, const char **why)
{
    *why = "must be a duration";
    return hl_conf_duration(value, at);
}

static int set_b(void *at, const char *value, const char **why)
{
    *why = "is too long";
    if (strlen(value) > 15)
        return -1;
    strcpy(at, value);
    return 0;
}

static const struct hl_conf_key keys[] = {{"a", set_a, offsetof(struct values, a)},
                                          {"b", set_b, offsetof(struct values, b)}};

static int parse(const char *text, struct values *v, struct hl_err *e)
{
    *e = (struct hl_err){0};
    *v = (struct values){0};
    return hl_conf_parse("f", text, strlen(text), keys, 2, v, e);
}

START_TEST(lines_comments_and_blanks)
{
    struct values v;
    struct hl_err e;
    ck_assert_int_eq(parse("# head\n\n  a\t= 3s # three\r\nb=x y", &v, &e), 0);
    ck_assert_int_eq(v.a, 3000000000);
    ck_assert_str_eq(v.b, "x y");
    ck_assert_int_eq(parse("", &v, &e), 0);
    ck_assert_int_eq(parse("b = c = d\n", &v, &e), 0);
    ck_assert_str_eq(v.b, "c = d");
}
END_TEST

START_TEST(faults_name_file_and_line)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"\nc = 1\n", "f:2: unknown key 'c'"},
        {"A = 1\n", "f:1: unknown key 'A'"},
        {"a = 1\n\na = 1\n", "f:3: a was set before, in line 1"},
        {"a = x\n", "f:1: a = x: must be a duration"},
        {"b = 1234567890123456\n", "f:1: b = 1234567890123456: is too long"},
        {"a\n", "f:1: expected key = value, not 'a'"},
        {"a = # nothing\n", "f:1: a has no value"},
        {" = 1\n", "f:1: unknown key ''"},
        {"b = \x01\n", "f:1: the value of b is too long or not text"},
        {"\x1b[31m = 1\n", "f:1: unknown key '\\x1b[31m'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct values v;
        struct hl_err e;
        ck_assert_int_eq(parse(cases[i].text, &v, &e), -1);
        ck_assert_str_eq(e.text, cases[i].want);
    }
}
END_TEST

START_TEST(a_nul_byte_is_no_text)
{
    struct values v = {0};
    struct hl_err e = {0};
    ck_assert_int_eq(hl_conf_parse("f", "b = x\0y\n", 8, keys, 2, &v, &e), -1);
}
END_TEST

START_TEST(durations)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {{"0", 0},
                {"1", 1000000000},
                {"250ms", 250000000},
                {"10s", 10000000000},
                {"5m", 300000000000},
                {"2h", 7200000000000},
                {"7d", 604800000000000}};
    static const char *const bad[] = {"",
                                      "s",
                                      "-1",
                                      "1 s",
                                      "1w",
                                      "1.5s",
                                      "99999999999999999999",
                                      "9223372036854775807d"};
    int64_t ns;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_int_eq(hl_conf_duration(good[i].text, &ns), 0);
        ck_assert_int_eq(ns, good[i].ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(hl_conf_duration(bad[i], &ns), -1);
}
END_TEST

static int load(const char *text, struct hl_settings *s, struct hl_err *e)
{
    char name[] = "/tmp/hl-conf.XXXXXX";
    int fd = mkstemp(name);
    size_t n = strlen(text);
    ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
    close(fd);
    *e = (struct hl_err){0};
    hl_settings_init(s);
    int r = hl_settings_load(s, name, 0, e);
    unlink(name);
    return r;
}

START_TEST(every_setting_has_its_bounds)
{
    static const char *const good[] = {
        "socket = /a",          "spool = /a",
        "log_level = err",      "log_target = journal",
        "log_burst = 0",        "quota_per_uid = 0",
        "quota_per_uid = 10%",  "quota_total = 5G",
        "min_free = 100%",      "sample_interval = 100ms",
        "job_keep = 0",         "job_keep_read = 3650d",
        "max_processes = 1",    "max_processes_per_uid = 1000000",
        "max_jobs_per_uid = 3", "max_message = 64K",
        "hello_timeout = 10m",  "sync_interval = 0",
        "min_interval = 10ms",  "min_interval = 1h",
        "admin_group = root"};
    static const char *const bad[] = {"socket = a",
                                      "spool = ../a",
                                      "log_level = loud",
                                      "log_target = file",
                                      "log_burst = -1",
                                      "quota_per_uid = 101%",
                                      "quota_per_uid = %",
                                      "quota_total = 5X",
                                      "min_free = -1",
                                      "sample_interval = 1ms",
                                      "job_keep = 3651d",
                                      "job_keep_read = soon",
                                      "max_processes = 0",
                                      "max_processes_per_uid = 1000001",
                                      "max_jobs_per_uid = 0",
                                      "max_message = 2M",
                                      "hello_timeout = 0",
                                      "sync_interval = 2h",
                                      "min_interval = 9ms",
                                      "min_interval = 2h",
                                      "admin_group = two words",
                                      "log_level = info\nlog_level = info"};
    struct hl_settings s;
    struct hl_err e;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_msg(load(good[i], &s, &e) == 0, "%s: %s", good[i], e.text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(load(bad[i], &s, &e) == -1 && e.text[0], "%s was taken", bad[i]);
    char path[256];
    snprintf(path, sizeof path, "socket = /%0200d", 1);
    ck_assert_int_eq(load(path, &s, &e), -1);
}
END_TEST

START_TEST(a_reload_keeps_what_cannot_change)
{
    struct hl_settings old, fresh;
    struct hl_err e;
    ck_assert_int_eq(load("log_level = err", &old, &e), 0);
    ck_assert_int_eq(load("log_level = debug\nmax_message = 64K", &fresh, &e), 0);
    ck_assert_str_eq(hl_settings_needs_restart(&old, &fresh), "max_message");
    hl_settings_keep_fixed(&fresh, &old);
    ck_assert_ptr_null(hl_settings_needs_restart(&old, &fresh));
    ck_assert_int_eq(fresh.log_level, HL_LOG_DEBUG);
    ck_assert_uint_eq(fresh.max_message, 1 << 20);
}
END_TEST

START_TEST(a_missing_file)
{
    struct hl_settings s;
    struct hl_err e = {0};
    hl_settings_init(&s);
    ck_assert_int_eq(hl_settings_load(&s, "/nonexistent/conf", 1, &e), 0);
    ck_assert_int_eq(hl_settings_load(&s, "/nonexistent/conf", 0, &e), -1);
    ck_assert_ptr_nonnull(strstr(e.text, "/nonexistent/conf"));
}
END_TEST

START_TEST(the_table_keeps_what_is_put)
{
    struct hl_table t = {0};
    enum { N = 5000 };
    size_t n = 0;
    for (uintptr_t i = 1; i <= N; i++)
        ck_assert_int_eq(hl_table_put(&t, &i, sizeof i, (void *)i), 0);
    ck_assert_uint_eq(t.n, N);
    for (uintptr_t i = 1; i <= N; i += 2)
        ck_assert_ptr_eq(hl_table_remove(&t, &i, sizeof i), (void *)i);
    for (uintptr_t i = 1; i <= N; i++)
        ck_assert_ptr_eq(hl_table_get(&t, &i, sizeof i), i % 2 ? NULL : (void *)i);
    for (size_t at = 0; hl_table_next(&t, &at);)
        n++;
    ck_assert_uint_eq(n, N / 2);
    for (int turn = 0; turn < 20; turn++) /* removed places are used again */
        for (uintptr_t i = 1; i <= N; i += 2) {
            hl_table_put(&t, &i, sizeof i, (void *)i);
            hl_table_remove(&t, &i, sizeof i);
        }
    ck_assert_uint_le(t.cap, 8 * N);
    uintptr_t key = 2, other = 9;
    hl_table_put(&t, &key, sizeof key, &other);
    ck_assert_ptr_eq(hl_table_get(&t, &key, sizeof key), &other);
    ck_assert_ptr_null(hl_table_get(&t, "", 0));
    ck_assert_int_eq(hl_table_put(&t, "", 0, &other), 0);
    ck_assert_ptr_eq(hl_table_get(&t, NULL, 0), &other);
    hl_table_fini(&t);
    ck_assert_ptr_null(hl_table_get(&t, &key, sizeof key));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("conf");
    TCase *t = tcase_create("conf");
    tcase_add_test(t, lines_comments_and_blanks);
    tcase_add_test(t, faults_name_file_and_line);
    tcase_add_test(t, a_nul_byte_is_no_text);
    tcase_add_test(t, durations);
    tcase_add_test(t, every_setting_has_its_bounds);
    tcase_add_test(t, a_reload_keeps_what_cannot_change);
    tcase_add_test(t, a_missing_file);
    tcase_add_test(t, the_table_keeps_what_is_put);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
