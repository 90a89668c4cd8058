/* SPDX-License-Identifier: Apache-2.0
 *
 * heaplinectl without a collector: forms of numbers, JSON, metrics, the table of
 * top; and the collector's histogram of its loop.
 */
#include "delay.h"
#include "heaplinectl.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ctl_out o;
static char n1[CTL_NUMBER_CAP];

static void set_up(void)
{
    memset(&o, 0, sizeof o);
}

static void tear_down(void)
{
    hl_buf_fini(&o.b);
}

/* What was put, as a string. */
static const char *put(void)
{
    ck_assert(!o.failed);
    ck_assert_int_eq(hl_buf_add(&o.b, "", 1), 0);
    return (const char *)hl_buf_data(&o.b);
}

static struct hl_str str(const char *s)
{
    return (struct hl_str){s, strlen(s)};
}

/* ---- forms ---- */

START_TEST(sizes_are_short)
{
    static const struct {
        int64_t bytes;
        const char *text;
    } all[] = {{-1, "-"},           {0, "0"},
               {1023, "1023"},      {1024, "1.0K"},
               {10189, "10K"},      {10188, "9.9K"},
               {1048575, "1.0M"},   {1048576 * 1023LL, "1023M"},
               {1LL << 30, "1.0G"}, {INT64_MAX, "8.0E"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ck_assert_str_eq(ctl_size(all[i].bytes, n1), all[i].text);
    for (int64_t v = 1; v > 0 && v < INT64_MAX / 3; v = v * 2 + v / 7 + 1)
        ck_assert_uint_le(strlen(ctl_size(v, n1)), 5);
}
END_TEST

START_TEST(counts_are_plain_as_long_as_they_fit)
{
    ck_assert_str_eq(ctl_count(0, n1), "0");
    ck_assert_str_eq(ctl_count(999999, n1), "999999");
    ck_assert_str_eq(ctl_count(1000000, n1), "1.00M");
    ck_assert_str_eq(ctl_count(12345678, n1), "12.3M");
    ck_assert_str_eq(ctl_count(999600000, n1), "1.00G");
    ck_assert_str_eq(ctl_count(UINT64_MAX, n1), "18.4E");
}
END_TEST

START_TEST(durations)
{
    ck_assert_str_eq(ctl_duration(0, n1), "0s");
    ck_assert_str_eq(ctl_duration(61000000000, n1), "1m 1s");
    ck_assert_str_eq(ctl_duration(7260000000000, n1), "2h 1m");
    ck_assert_str_eq(ctl_duration(180000ull * 1000000000, n1), "2d 2h");
}
END_TEST

/* ---- JSON ---- */

START_TEST(json_keeps_utf8_and_escapes_the_rest)
{
    ctl_json_text(&o, str("a\"b\\c\n\x01\x7f gr\xc3\xbc\xc3\x9f \xc2\x85 \xff\xc3"));
    ck_assert_str_eq(put(),
                     "\"a\\\"b\\\\c\\u000a\\u0001\\u007f gr\xc3\xbc\xc3\x9f \\u0085 "
                     "\xef\xbf\xbd\xef\xbf\xbd\"");
}
END_TEST

START_TEST(json_reads_not_past_its_text)
{
    ctl_json_text(&o, (struct hl_str){"\xe2\x82\xac", 2}); /* cut in a sequence */
    ctl_json_text(&o, (struct hl_str){"a\0b", 3});
    ck_assert_str_eq(put(), "\"\xef\xbf\xbd\xef\xbf\xbd\"\"a\xef\xbf\xbd"
                            "b\"");
}
END_TEST

START_TEST(json_seconds_are_exact)
{
    ctl_json_seconds(&o, 1796243711000000001ull);
    ck_assert_str_eq(put(), "1796243711.000000001");
}
END_TEST

/* ---- metrics ---- */

static struct ctl_answer example(void)
{
    struct ctl_answer a = {.has_status = 1};
    a.status.version = str("1.2\"\n\\");
    for (unsigned i = 0; i < HL_STATUS_N; i++) {
        a.status.known[i] = 1;
        a.status.value[i] = 1000 + i;
    }
    a.status.value[HL_STATUS_uptime_ns] = 1500000000;
    a.n_users = 30;
    a.user = calloc(a.n_users, sizeof *a.user);
    for (size_t i = 0; i < a.n_users; i++)
        a.user[i] = (struct hl_user_line){
            .uid = i, .spool_bytes = i * 10, .quota_bytes = i == 29 ? 7 : 0};
    return a;
}

static int occurrences(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

START_TEST(metrics_text)
{
    struct ctl_answer a = example();
    ctl_show_metrics(&o, &a, 0);
    const char *text = put();
    ck_assert_int_eq(occurrences(text, "\nheapline_up 1\n"), 1);
    ck_assert_ptr_nonnull(strstr(text, "\nheapline_uptime_seconds 1.500000000\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nheapline_received_bytes_total 10"));
    ck_assert_ptr_nonnull(strstr(text, "\nheapline_refused_total{reason=\"space\"} "));
    ck_assert_ptr_nonnull(strstr(text, "\nheapline_jobs{state=\"quiet\"} "));
    ck_assert_int_eq(occurrences(text, "# TYPE heapline_jobs gauge\n"), 1);
    ck_assert_int_eq(occurrences(text, "# TYPE heapline_refused_total counter\n"), 1);
    ck_assert_ptr_null(strstr(text, "_ns"));
    /* Its own text is made printable, then escaped. */
    ck_assert_ptr_nonnull(strstr(text, "version=\"1.2\\\"\\\\x0a"));
    free(a.user);
}
END_TEST

/* Each family once: its head, then its samples; what counts ends in _total. */
START_TEST(metrics_keep_the_rules_of_the_format)
{
    struct ctl_answer a = example();
    char family[128] = "", type[16] = "", seen[8192] = "", line[512], name[160];
    ctl_show_metrics(&o, &a, 0);
    for (const char *p = put(); *p; p += strcspn(p, "\n") + 1) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(p, "\n"), p);
        if (sscanf(line, "# HELP %127s", family) == 1) {
            snprintf(name, sizeof name, " %s ", family);
            ck_assert_msg(!strstr(seen, name), "%s twice", family);
            strcat(seen, name);
            ck_assert_int_eq(line[strlen(line) - 1], '.');
        } else if (sscanf(line, "# TYPE %*s %15s", type) == 1) {
            size_t n = strlen(family);
            int total = n > 6 && !strcmp(family + n - 6, "_total");
            ck_assert_msg(total == !strcmp(type, "counter"), "%s is a %s", family, type);
        } else {
            ck_assert_msg(!strncmp(line, family, strlen(family)), "%s: %s", family, line);
            ck_assert_int_eq(strspn(strrchr(line, ' ') + 1, "0123456789."),
                             strlen(strrchr(line, ' ') + 1));
        }
    }
    free(a.user);
}
END_TEST

START_TEST(metrics_name_the_largest_users_alone)
{
    struct ctl_answer a = example();
    ctl_show_metrics(&o, &a, 0);
    const char *text = put();
    ck_assert_int_eq(occurrences(text, "heapline_user_spool_bytes{"), CTL_TOP_USERS);
    ck_assert_ptr_nonnull(strstr(text, "heapline_user_spool_bytes{uid=\"29\"} 290\n"));
    ck_assert_ptr_nonnull(strstr(text, "heapline_user_spool_bytes{uid=\"10\"} 100\n"));
    ck_assert_int_eq(occurrences(text, "heapline_user_quota_bytes{"), 1);
    free(a.user);
}
END_TEST

START_TEST(metrics_of_nobody)
{
    ctl_show_metrics(&o, NULL, 0);
    ck_assert_ptr_nonnull(strstr(put(), "\nheapline_up 0\n"));
    hl_buf_fini(&o.b);
    ctl_show_metrics(&o, NULL, 1);
    ck_assert_str_eq(put(), "{\n  \"heapline_up\": 0\n}\n");
}
END_TEST

/* ---- status ---- */

START_TEST(status_fits_on_a_screen)
{
    struct ctl_answer a = example();
    int lines = 0;
    memset(a.status.value, 0xff, sizeof a.status.value);
    a.status.value[HL_STATUS_spool_errno] = 28;
    a.status.is_admin = 1;
    a.status.socket = str("/run/heapline/collector.sock");
    a.status.spool = str("/var/spool/heapline");
    a.status.last_error = str("one \033[31mword and then another one and so on, and on");
    a.n_users = 1;
    ctl_show_status(&o, &a);
    const char *text = put();
    ck_assert_ptr_nonnull(strstr(text, "spool failing"));
    ck_assert_ptr_nonnull(strstr(text, "No space left on device"));
    ck_assert_ptr_null(strchr(text, '\033'));
    for (const char *p = text; *p; p += strcspn(p, "\n") + 1, lines++)
        ck_assert_msg(strcspn(p, "\n") <= 80, "%.*s", (int)strcspn(p, "\n"), p);
    ck_assert_int_gt(lines, 12);
    free(a.user);
}
END_TEST

START_TEST(a_usual_status_has_fewer_lines_than_a_screen)
{
    struct ctl_answer a = example();
    int lines = 0;
    a.status.is_admin = 1;
    a.status.value[HL_STATUS_draining] = a.status.value[HL_STATUS_spool_errno] =
        a.status.value[HL_STATUS_low_space] = 0;
    a.status.socket = a.status.spool = a.status.last_error = str("/x");
    a.n_users = 1;
    ctl_show_status(&o, &a);
    for (const char *p = put(); *p; p += strcspn(p, "\n") + 1)
        lines++;
    ck_assert_int_le(lines, 24);
    free(a.user);
}
END_TEST

START_TEST(jobs_show_no_raw_bytes)
{
    struct hl_job_line j[2] = {{.uid = 2, .key = str("b\033]0;x\007")},
                               {.uid = 1, .key = str("a"), .state = 99}};
    struct ctl_answer a = {.job = j, .n_jobs = 2};
    ctl_show_jobs(&o, &a);
    const char *text = put();
    ck_assert_ptr_null(strpbrk(text, "\033\007"));
    ck_assert_ptr_nonnull(strstr(text, "b\\x1b]0;x\\x07\n"));
    ck_assert_ptr_nonnull(strstr(text, "unknown"));
    ck_assert(strstr(text, "a\n") < strstr(text, "b\\x1b")); /* by uid */
}
END_TEST

/* ---- top ---- */

static struct hl_live_line process(int64_t pid, int64_t heap, uint64_t allocs, int64_t at)
{
    return (struct hl_live_line){.pid = pid,
                                 .rank = pid,
                                 .image = 5,
                                 .live_bytes = heap,
                                 .peak_bytes = heap,
                                 .vmrss_bytes = -heap,
                                 .vmhwm_bytes = -1,
                                 .allocs = allocs,
                                 .taken_ns = at,
                                 .key = str("key\033[2J"),
                                 .host = str("h")};
}

START_TEST(rates_come_from_two_answers)
{
    struct hl_live_line then[] = {process(1, 0, 100, 1000000000), process(2, 0, 9, 0),
                                  process(3, 0, 50, 0), process(4, 0, 0, 7)};
    struct hl_live_line later[] = {
        process(5, 0, 1, 3000000000), process(1, 0, 600, 3000000000),
        process(2, 0, 9, 2000000000), process(3, 0, 49, 1000000000), process(4, 0, 5, 7)};
    struct ctl_answer before = {.live = then, .n_live = 4},
                      now = {.live = later, .n_live = 5};
    later[1].image = then[0].image = 77;
    struct ctl_row *r = ctl_rows(&before, &now);
    ck_assert_double_lt(r[0].rate, 0); /* new */
    ck_assert_double_eq(r[1].rate, 250);
    ck_assert_double_eq(r[2].rate, 0);
    ck_assert_double_lt(r[3].rate, 0); /* counts never go back: another process */
    ck_assert_double_lt(r[4].rate, 0); /* no time has passed */
    free(r);
    then[0].image = 78; /* the same number, another image */
    r = ctl_rows(&before, &now);
    ck_assert_double_lt(r[1].rate, 0);
    free(r);
    r = ctl_rows(NULL, &now);
    ck_assert_double_lt(r[2].rate, 0);
    free(r);
}
END_TEST

static void order_is(struct ctl_row *r, enum ctl_sort by, int reversed, const char *pids)
{
    char got[16] = "";
    ctl_sort_rows(r, 4, by, reversed);
    for (int i = 0; i < 4; i++)
        got[i] = (char)('0' + r[i].live->pid);
    ck_assert_str_eq(got, pids);
}

START_TEST(rows_are_sorted)
{
    struct hl_live_line l[] = {process(3, 10, 0, 0), process(1, 30, 0, 0),
                               process(4, 20, 0, 0), process(2, 20, 0, 0)};
    struct ctl_row r[] = {{&l[0], 5}, {&l[1], -1}, {&l[2], 7}, {&l[3], 6}};
    order_is(r, CTL_BY_HEAP, 0, "1243");
    order_is(r, CTL_BY_HEAP, 1, "3241"); /* equal ones always by pid */
    order_is(r, CTL_BY_RSS, 0, "3241");
    order_is(r, CTL_BY_RATE, 0, "4231");
    order_is(r, CTL_BY_PID, 0, "1234");
    order_is(r, CTL_BY_PID, 1, "4321");
}
END_TEST

/* Every size of a terminal: no line is wider, none too many. */
START_TEST(pictures_fit)
{
    static struct hl_live_line l[50];
    struct ctl_answer now = {.live = l, .n_live = 50};
    static const int sizes[][2] = {{80, 24}, {1, 1},    {10, 3},
                                   {79, 5},  {200, 60}, {500, 4}};
    for (int i = 0; i < 50; i++) {
        l[i] = process(4194304 + i, INT64_MAX - i, UINT64_MAX, INT64_MAX);
        l[i].uid = UINT32_MAX;
        l[i].n_rows = UINT64_MAX;
    }
    struct ctl_row *r = ctl_rows(NULL, &now);
    r[0].rate = r[1].rate = 1e300;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct ctl_view v = {sizes[i][0], sizes[i][1], CTL_BY_HEAP, 0, 1000, NULL, "/s"};
        int lines = 0;
        ctl_show_top(&o, &v, &now, r, 50);
        const char *text = put();
        for (const char *p = text; *p; p += strcspn(p, "\n") + 1, lines++)
            ck_assert_uint_le(strcspn(p, "\n"), (size_t)v.width);
        ck_assert_int_eq(lines, v.height < 54 ? v.height : 54);
        ck_assert_ptr_null(strchr(text, '\033'));
        /* It was scrolled too far: the last row is at the bottom. */
        ck_assert_uint_eq(v.first, v.height >= 54 ? 0
                                   : v.height > 4 ? 54 - (size_t)v.height
                                                  : 50);
        hl_buf_fini(&o.b);
    }
    free(r);
}
END_TEST

START_TEST(a_picture_shows_its_rows)
{
    struct hl_live_line l[] = {process(7, 1536, 0, 0)};
    struct ctl_row r[] = {{l, 12.4}};
    struct ctl_answer status = {0};
    struct ctl_view v = {80, 24, CTL_BY_HEAP, 0, 0, NULL, "/s"};
    ctl_show_top(&o, &v, &status, r, 1);
    ck_assert_ptr_nonnull(strstr(put(),
                                 "      7     7          0 key\\x1b[2J         1.5K "
                                 "  1.5K      -       12        0\n"));
    hl_buf_fini(&o.b);
    v.trouble = "no collector";
    o.color = 1;
    ctl_show_top(&o, &v, &status, r, 0);
    ck_assert_ptr_nonnull(strstr(put(), "\033[31mno collector\033[0m\n"));
}
END_TEST

/* ---- loop delay ---- */

#define S ((int64_t)1000000000)

START_TEST(delay_of_nothing)
{
    static struct hl_delay d;
    uint64_t max = 7, p99 = 7;
    memset(&d, 0, sizeof d);
    hl_delay_read(&d, 100 * S, &max, &p99);
    ck_assert_uint_eq(max, 0);
    ck_assert_uint_eq(p99, 0);
}
END_TEST

START_TEST(delay_percentile)
{
    static struct hl_delay d;
    uint64_t max, p99;
    memset(&d, 0, sizeof d);
    for (int i = 0; i < 990; i++)
        hl_delay_add(&d, 10 * S, 1000000);
    for (int i = 0; i < 10; i++)
        hl_delay_add(&d, 10 * S, 50000000);
    hl_delay_read(&d, 10 * S, &max, &p99);
    ck_assert_uint_eq(max, 50000000);
    ck_assert_uint_ge(p99, 1000000);
    ck_assert_uint_le(p99, 1250000);
    hl_delay_add(&d, 10 * S, 50000000); /* more than one in a hundred now */
    hl_delay_read(&d, 10 * S, &max, &p99);
    ck_assert_uint_eq(p99, 50000000); /* not above the longest */
}
END_TEST

START_TEST(delay_is_near_for_any_duration)
{
    static struct hl_delay d;
    uint64_t max, p99;
    for (uint64_t ns = 1100; ns < (uint64_t)500 * S; ns += ns / 3) {
        memset(&d, 0, sizeof d);
        hl_delay_add(&d, S, ns);
        for (int i = 0; i < 200; i++)
            hl_delay_add(&d, S, ns);
        hl_delay_add(&d, S, UINT64_MAX);
        hl_delay_read(&d, S, &max, &p99);
        ck_assert_uint_eq(max, UINT64_MAX);
        ck_assert_uint_gt(p99, ns);
        ck_assert_uint_le(p99, ns + ns / 4 + 1);
    }
}
END_TEST

START_TEST(delay_forgets_after_a_minute)
{
    static struct hl_delay d;
    uint64_t max, p99;
    memset(&d, 0, sizeof d);
    hl_delay_add(&d, 0, 9000000);
    hl_delay_add(&d, 30 * S, 5000000);
    hl_delay_read(&d, 59 * S, &max, &p99);
    ck_assert_uint_eq(max, 9000000);
    hl_delay_read(&d, 60 * S, &max, &p99);
    ck_assert_uint_eq(max, 5000000);
    hl_delay_add(&d, 61 * S, 1000000); /* into the slice of the first */
    hl_delay_read(&d, 61 * S, &max, &p99);
    ck_assert_uint_eq(max, 5000000);
    hl_delay_read(&d, 95 * S, &max, &p99);
    ck_assert_uint_eq(max, 1000000);
    hl_delay_read(&d, 1000 * S, &max, &p99);
    ck_assert_uint_eq(max, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ctl");
    TCase *c = tcase_create("ctl");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, sizes_are_short);
    tcase_add_test(c, counts_are_plain_as_long_as_they_fit);
    tcase_add_test(c, durations);
    tcase_add_test(c, json_keeps_utf8_and_escapes_the_rest);
    tcase_add_test(c, json_reads_not_past_its_text);
    tcase_add_test(c, json_seconds_are_exact);
    tcase_add_test(c, metrics_text);
    tcase_add_test(c, metrics_keep_the_rules_of_the_format);
    tcase_add_test(c, metrics_name_the_largest_users_alone);
    tcase_add_test(c, metrics_of_nobody);
    tcase_add_test(c, status_fits_on_a_screen);
    tcase_add_test(c, a_usual_status_has_fewer_lines_than_a_screen);
    tcase_add_test(c, jobs_show_no_raw_bytes);
    tcase_add_test(c, rates_come_from_two_answers);
    tcase_add_test(c, rows_are_sorted);
    tcase_add_test(c, pictures_fit);
    tcase_add_test(c, a_picture_shows_its_rows);
    tcase_add_test(c, delay_of_nothing);
    tcase_add_test(c, delay_percentile);
    tcase_add_test(c, delay_is_near_for_any_duration);
    tcase_add_test(c, delay_forgets_after_a_minute);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
