/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions, frames, metrics and regions of the client library, as they come
 * out in the fallback file.
 */
#include "test_client.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const char *const three[] = {"step", "mpi_rank", "wall_step"};

static void with_file(void)
{
    test_enter();
    setenv("HEAPLINE_FALLBACK_DIR", test_folder, 1);
}

static struct seen *seen(void)
{
    return see_file(rows_file(test_folder));
}

static int same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

START_TEST(session_arguments_are_checked)
{
    heapline_session *s = NULL, *second;
    char longest[HL_NAME_MAX + 2];
    const char *const twice[] = {"a", "b", "a"}, *const control[] = {"a\n"},
                      *const empty[] = {""}, *const null[] = {NULL},
                      *const too_long[] = {longest};
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    ck_assert_int_eq(heapline_session_begin(NULL, NULL, 0), HEAPLINE_EINVAL);
    ck_assert_int_eq(heapline_session_begin(&s, NULL, 1), HEAPLINE_EINVAL);
    ck_assert_int_eq(heapline_session_begin(&s, null, 1), HEAPLINE_EINVAL);
    ck_assert_int_eq(heapline_session_begin(&s, twice, 3), HEAPLINE_EEXIST);
    ck_assert_int_eq(heapline_session_begin(&s, control, 1), HEAPLINE_ENAME);
    ck_assert_int_eq(heapline_session_begin(&s, empty, 1), HEAPLINE_ENAME);
    ck_assert_int_eq(heapline_session_begin(&s, too_long, 1), HEAPLINE_ENAME);
    ck_assert_ptr_null(s);
    longest[HL_NAME_MAX] = 0;
    ok(heapline_session_begin(&s, too_long, 1));
    ck_assert_int_eq(heapline_session_begin(&second, NULL, 0), HEAPLINE_EEXIST);
    ok(heapline_session_end(s));
    ck_assert_int_eq(heapline_session_end(s), HEAPLINE_ECLOSED);
    ck_assert_int_eq(heapline_frame_begin(s), HEAPLINE_ECLOSED);
    ck_assert_int_eq(heapline_frame_begin(NULL), HEAPLINE_EINVAL);
    ck_assert_int_eq(heapline_region_pop(NULL), HEAPLINE_EINVAL);
    ck_assert_int_eq(heapline_region_begin(s, 0), HEAPLINE_ECLOSED);
    ck_assert_int_eq(heapline_get_stats(NULL), HEAPLINE_EINVAL);
}
END_TEST

START_TEST(codes_have_sentences)
{
    ck_assert_str_eq(heapline_strerror(0), "no error");
    for (int code = 0; code >= -13; code--)
        ck_assert_str_ne(heapline_strerror(code), heapline_strerror(1));
    ck_assert_str_eq(heapline_strerror(-14), heapline_strerror(1));
    ck_assert_str_eq(heapline_version(), HEAPLINE_VERSION);
}
END_TEST

START_TEST(all_calls_succeed_where_nobody_asks)
{
    heapline_region r;
    unsetenv("HEAPLINE_FALLBACK_DIR");
    if (_i)
        setenv("HEAPLINE_DISABLE", _i == 1 ? "1" : "frames", 1);
    if (_i)
        setenv("HEAPLINE_FALLBACK_DIR", test_folder, 1);
    heapline_session *s = begin_session(three, 3);
    ok(heapline_set_app_version(s, "1.0"));
    ok(heapline_region_register(s, "a/b", &r));
    ck_assert_int_eq(heapline_frame_end(s), HEAPLINE_ENOFRAME);
    for (int i = 0; i < 3; i++) {
        ok(heapline_frame_begin(s));
        ok(heapline_set_metric(s, 0, 1));
        ok(heapline_region_begin(s, r));
        ok(heapline_region_push(s, "c"));
        ok(heapline_region_pop(s));
        ok(heapline_region_end(s, r));
        ok(heapline_region_add(s, r, 1, 1));
        ok(heapline_frame_end(s));
    }
    ck_assert_ptr_null(hl_session.sender.ring.h);
    ok(heapline_session_end(s));
    ck_assert_ptr_null(rows_file(test_folder));
}
END_TEST

START_TEST(calls_in_the_wrong_order_are_refused)
{
    heapline_region a, b;
    heapline_session *s = begin_session(three, 3);
    ok(heapline_region_register(s, "a", &a));
    ok(heapline_region_register(s, "b", &b));
    ck_assert_int_eq(heapline_frame_end(s), HEAPLINE_ENOFRAME);
    ck_assert_int_eq(heapline_frame_discard(s), HEAPLINE_ENOFRAME);
    ck_assert_int_eq(heapline_set_metric(s, 0, 1), HEAPLINE_ENOFRAME);
    ck_assert_int_eq(heapline_region_begin(s, a), HEAPLINE_ENOFRAME);
    ck_assert_int_eq(heapline_region_end(s, a), HEAPLINE_ENOFRAME);
    ck_assert_int_eq(heapline_region_push(s, "x"), HEAPLINE_ENOFRAME);
    ck_assert_int_eq(heapline_region_add(s, a, 1, 1), HEAPLINE_ENOFRAME);
    ok(heapline_frame_begin(s));
    ck_assert_int_eq(heapline_frame_begin(s), HEAPLINE_EFRAME);
    ck_assert_int_eq(heapline_set_app_version(s, "1"), HEAPLINE_EFRAME);
    ck_assert_int_eq(heapline_set_metric(s, 3, 1), HEAPLINE_EINVAL);
    ck_assert_int_eq(heapline_set_metric(s, (size_t)1 << 32, 1), HEAPLINE_EINVAL);
    ck_assert_int_eq(heapline_set_metric(s, 0, NAN), HEAPLINE_EFINITE);
    ck_assert_int_eq(heapline_set_metric(s, 0, -INFINITY), HEAPLINE_EFINITE);
    ck_assert_int_eq(heapline_set_metric_by_name(s, "nobody", 1), HEAPLINE_EINVAL);
    ck_assert_int_eq(heapline_region_begin(s, 2), HEAPLINE_EINVAL);
    ck_assert_int_eq(heapline_region_end(s, a), HEAPLINE_EREGION);
    ck_assert_int_eq(heapline_region_pop(s), HEAPLINE_EREGION);
    ok(heapline_region_begin(s, a));
    ck_assert_int_eq(heapline_region_end(s, b), HEAPLINE_EREGION);
    ck_assert_int_eq(heapline_region_add(s, a, NAN, 0), HEAPLINE_EFINITE);
    ok(heapline_region_add(s, a, DBL_MAX, 0));
    ck_assert_int_eq(heapline_region_add(s, a, DBL_MAX, 0), HEAPLINE_EFINITE);
    for (int i = 1; i < 64; i++)
        ok(heapline_region_begin(s, a));
    ck_assert_int_eq(heapline_region_begin(s, a), HEAPLINE_EDEPTH);
    ck_assert_int_eq(heapline_region_push(s, "x"), HEAPLINE_EDEPTH);
    ok(heapline_frame_end(s));
    ck_assert_int_eq(heapline_frame_end(s), HEAPLINE_ENOFRAME);
    ok(heapline_session_end(s));
}
END_TEST

START_TEST(region_names_the_format_cannot_hold_are_refused)
{
    heapline_region r = 77, again;
    char longest[HL_PATH_MAX + 2];
    heapline_session *s = begin_session(NULL, 0);
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    ck_assert_int_eq(heapline_region_register(s, NULL, &r), HEAPLINE_EINVAL);
    ck_assert_int_eq(heapline_region_register(s, "a", NULL), HEAPLINE_EINVAL);
    ck_assert_int_eq(heapline_region_register(s, "", &r), HEAPLINE_ENAME);
    ck_assert_int_eq(heapline_region_register(s, "a//b", &r), HEAPLINE_ENAME);
    ck_assert_int_eq(heapline_region_register(s, "a\tb", &r), HEAPLINE_ENAME);
    ck_assert_int_eq(heapline_region_register(s, longest, &r), HEAPLINE_ENAME);
    ck_assert_int_eq(heapline_region_register(s, "n_frames", &r), HEAPLINE_ERESERVED);
    ck_assert_int_eq(heapline_region_register(s, "a/inclusive", &r), HEAPLINE_ERESERVED);
    ck_assert_uint_eq(r, 77);
    ok(heapline_region_register(s, "a/n_frames/c", &r));
    ck_assert_uint_eq(r, 2); /* behind its parents */
    ok(heapline_region_register(s, "a", &again));
    ck_assert_uint_eq(again, 0);
    ok(heapline_frame_begin(s));
    ok(heapline_region_begin(s, r));
    ck_assert_int_eq(heapline_region_push(s, ".."), HEAPLINE_ERESERVED);
    ck_assert_int_eq(heapline_region_push(s, ""), HEAPLINE_ENAME);
    longest[HL_PATH_MAX] = 0;
    ck_assert_int_eq(heapline_region_push(s, longest), HEAPLINE_ENAME);
    ok(heapline_region_pop(s));
    ok(heapline_region_push(s, longest));
    ok(heapline_region_pop(s));
    ok(heapline_frame_end(s));
    ok(heapline_session_end(s));
    struct seen *x = seen();
    ck_assert_uint_eq(x->catalogs[0].n_paths, 4);
    ck_assert_str_eq(x->catalogs[0].paths[0], "a");
    ck_assert_str_eq(x->catalogs[0].paths[1], "a/n_frames");
    ck_assert_str_eq(x->catalogs[0].paths[2], "a/n_frames/c");
}
END_TEST

START_TEST(times_are_inclusive_and_exclusive)
{
    heapline_region step, halo, other;
    heapline_session *s = begin_session(three, 3);
    clock_set(5000000000);
    ok(heapline_region_register(s, "step", &step));
    ok(heapline_region_register(s, "step/halo", &halo));
    ok(heapline_region_register(s, "other", &other));
    for (int i = 0; i < 2; i++) {
        ok(heapline_frame_begin(s));
        ok(heapline_region_begin(s, step));
        clock_add(100);
        ok(heapline_region_push(s, "halo"));
        clock_add(30);
        ok(heapline_region_end(s, halo));
        clock_add(7);
        ok(heapline_region_begin(s, halo));
        clock_add(3);
        ok(heapline_region_begin(s, other));
        clock_add(1000);
        ok(heapline_region_pop(s));
        ok(heapline_region_pop(s));
        ok(heapline_region_end(s, step));
        clock_add(5);
        ok(heapline_frame_end(s));
        clock_add(12345);
    }
    ok(heapline_session_end(s));
    struct seen *x = seen();
    ck_assert_uint_eq(x->n_rows, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert(same_bits(region_cell(x, i, "step", 0), 1140 / 1e9));
        ck_assert(same_bits(region_cell(x, i, "step", 1), 107 / 1e9));
        ck_assert(same_bits(region_cell(x, i, "step/halo", 0), 1033 / 1e9));
        ck_assert(same_bits(region_cell(x, i, "step/halo", 1), 33 / 1e9));
        ck_assert(same_bits(region_cell(x, i, "other", 0), 1000 / 1e9));
        ck_assert(same_bits(metric_cell(x, i, "wall_step"), 1145 / 1e9));
        ck_assert(same_bits(metric_cell(x, i, "step"), (double)i));
        ck_assert(same_bits(metric_cell(x, i, "mpi_rank"), 0));
    }
}
END_TEST

START_TEST(a_region_inside_itself_counts_once)
{
    heapline_region a;
    heapline_session *s = begin_session(NULL, 0);
    clock_set(1000);
    ok(heapline_region_register(s, "a", &a));
    ok(heapline_frame_begin(s));
    ok(heapline_region_begin(s, a));
    clock_add(4);
    ok(heapline_region_begin(s, a));
    clock_add(6);
    if (_i) { /* also across the end of a frame */
        ok(heapline_frame_end(s));
        ok(heapline_frame_begin(s));
    }
    ok(heapline_region_end(s, a));
    clock_add(1);
    ok(heapline_region_end(s, a));
    ok(heapline_frame_end(s));
    ok(heapline_session_end(s));
    struct seen *x = seen();
    double inclusive = 0, exclusive = 0;
    for (size_t i = 0; i < x->n_rows; i++) {
        inclusive += region_cell(x, i, "a", 0) * 1e9;
        exclusive += region_cell(x, i, "a", 1) * 1e9;
    }
    ck_assert_uint_eq((unsigned)lround(inclusive), 11);
    ck_assert_uint_eq((unsigned)lround(exclusive), 11);
}
END_TEST

START_TEST(open_regions_go_on_in_the_next_frame)
{
    heapline_region run, in;
    heapline_session *s = begin_session(NULL, 0);
    clock_set(1000);
    ok(heapline_region_register(s, "run", &run));
    ok(heapline_region_register(s, "run/in", &in));
    ok(heapline_frame_begin(s));
    ok(heapline_region_begin(s, run));
    clock_add(10);
    ok(heapline_region_begin(s, in));
    clock_add(3);
    ok(heapline_frame_end(s));
    clock_add(500); /* between frames: counts nowhere */
    ok(heapline_frame_begin(s));
    clock_add(20);
    ok(heapline_frame_discard(s)); /* neither does this */
    clock_add(500);
    ok(heapline_frame_begin(s));
    clock_add(2);
    ok(heapline_region_end(s, in));
    clock_add(1);
    ok(heapline_frame_end(s));
    clock_add(500);
    ok(heapline_region_end(s, run)); /* allowed between frames, counts nowhere */
    ok(heapline_frame_begin(s));
    clock_add(9);
    ok(heapline_frame_end(s));
    ok(heapline_session_end(s));
    struct seen *x = seen();
    static const double run_cells[3][2] = {{13, 10}, {3, 1}, {0, 0}},
                        in_cells[3][2] = {{3, 3}, {2, 2}, {0, 0}};
    ck_assert_uint_eq(x->n_rows, 3);
    for (size_t i = 0; i < 3; i++)
        for (int which = 0; which < 2; which++) {
            ck_assert(
                same_bits(region_cell(x, i, "run", which), run_cells[i][which] / 1e9));
            ck_assert(
                same_bits(region_cell(x, i, "run/in", which), in_cells[i][which] / 1e9));
        }
}
END_TEST

START_TEST(values_keep_every_bit)
{
    static const double values[] = {0.1,     -0.0, 5e-324,  DBL_MAX,  -DBL_MAX,
                                    1.0 / 3, 1e-9, 3.14e-7, -1.0e-310};
    static const char *const names[] = {"v", "wall_step", "unset"};
    heapline_region r;
    heapline_session *s = begin_session(names, 3);
    ok(heapline_region_register(s, "r", &r));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        ok(heapline_frame_begin(s));
        ok(heapline_set_metric(s, 0, 99));
        ok(heapline_set_metric_by_name(s, "v", values[i]));
        ok(heapline_set_metric(s, 1, values[i]));
        ok(heapline_region_add(s, r, values[i], -values[i]));
        ok(heapline_frame_end(s));
    }
    ok(heapline_session_end(s));
    struct seen *x = seen();
    for (size_t i = 0; i < x->n_rows; i++) {
        ck_assert(same_bits(metric_cell(x, i, "v"), values[i]));
        ck_assert(same_bits(metric_cell(x, i, "wall_step"), values[i]));
        ck_assert(same_bits(metric_cell(x, i, "unset"), 0));
        ck_assert(same_bits(region_cell(x, i, "r", 0), values[i]));
        ck_assert(same_bits(region_cell(x, i, "r", 1), -values[i]));
    }
    ck_assert_uint_eq(x->n_rows, sizeof values / sizeof *values);
}
END_TEST

START_TEST(added_and_measured_seconds_add_up)
{
    heapline_region r;
    heapline_session *s = begin_session(NULL, 0);
    clock_set(1000);
    ok(heapline_region_register(s, "r", &r));
    ok(heapline_frame_begin(s));
    ok(heapline_region_begin(s, r));
    clock_add(250);
    ok(heapline_region_end(s, r));
    ok(heapline_region_add(s, r, 1.5, 0.5));
    ok(heapline_region_add(s, r, 0.25, 0));
    ok(heapline_frame_end(s));
    frames(s, 1); /* nothing is left over for the next one */
    ok(heapline_session_end(s));
    struct seen *x = seen();
    ck_assert(same_bits(region_cell(x, 0, "r", 0), 250 / 1e9 + 1.75));
    ck_assert(same_bits(region_cell(x, 0, "r", 1), 250 / 1e9 + 0.5));
    ck_assert(same_bits(region_cell(x, 1, "r", 0), 0));
}
END_TEST

START_TEST(catalogs_grow_with_the_session)
{
    heapline_region r;
    heapline_session *s = begin_session(three, 3);
    frames(s, 2);
    for (int i = 0; i < 200; i++) {
        char path[32];
        snprintf(path, sizeof path, "group/%d", i);
        ok(heapline_frame_begin(s));
        ok(heapline_region_register(s, path, &r)); /* in an open frame, too */
        ok(heapline_region_add(s, r, i, i));
        ok(heapline_frame_end(s));
    }
    ok(heapline_session_end(s));
    struct seen *x = seen();
    ck_assert_uint_eq(x->n_rows, 202);
    ck_assert_uint_eq(x->n_catalogs, 201);
    ck_assert_uint_eq(x->catalogs[200].n_paths, 201);
    ck_assert_uint_eq(x->catalogs[200].n_metrics, 3);
    ck_assert(region_cell(x, 201, "group/199", 0) == 199);
    ck_assert(region_cell(x, 101, "group/99", 1) == 99);
}
END_TEST

START_TEST(large_catalogs_are_split_and_wide_rows_go_as_parts)
{
    enum { N = 20000 };
    heapline_region r;
    heapline_session *s = begin_session(three, 3);
    for (int i = 0; i < N; i++) {
        char path[128];
        snprintf(path, sizeof path, "a_region_with_a_rather_long_name_%080d", i);
        ok(heapline_region_register(s, path, &r));
    }
    for (int k = 0; k < 2; k++) {
        ok(heapline_frame_begin(s));
        for (heapline_region i = 0; i < N; i += 7)
            ok(heapline_region_add(s, i, i, k));
        ok(heapline_region_begin(s, N - 1));
        ok(heapline_region_end(s, N - 1));
        ok(heapline_frame_end(s));
    }
    ok(heapline_session_end(s));
    struct seen *x = seen();
    ck_assert_uint_gt(x->n_catalogs, 10);
    ck_assert_uint_eq(x->catalogs[x->n_catalogs - 1].n_paths, N);
    ck_assert_uint_eq(x->n_rows, 2);
    ck_assert_uint_eq(x->n_largest, HL_ROWS_CELLS_MAX);
    for (size_t i = 0; i < N - 1; i++)
        ck_assert(x->rows[1].cells[3 + 2 * i] == (i % 7 ? 0 : (double)i));
}
END_TEST

START_TEST(frames_without_cells_are_frames)
{
    heapline_session *s = begin_session(NULL, 0);
    frames(s, 3);
    ok(heapline_session_end(s));
    struct seen *x = seen();
    ck_assert_uint_eq(x->n_rows, 3);
    ck_assert_uint_eq(x->rows[2].number, 2);
    ck_assert_uint_eq(x->rows[2].n_cells, 0);
}
END_TEST

START_TEST(the_file_holds_hello_rows_and_bye)
{
    struct stat st;
    setenv("HEAPLINE_JOB", "a run/of mine", 1);
    setenv("OMPI_COMM_WORLD_RANK", "7", 1);
    heapline_session *s = begin_session(three, 3);
    ok(heapline_set_app_version(s, "solver 2.1"));
    frames(s, 10);
    ok(heapline_session_end(s));
    const char *file = rows_file(test_folder);
    struct seen *x = see_file(file);
    ck_assert_ptr_nonnull(strstr(file, "/a%20run%2fof%20mine."));
    ck_assert_uint_eq(x->n_hellos, 1);
    ck_assert_uint_eq(x->hello_flags, HL_HELLO_FALLBACK);
    ck_assert_str_eq(x->app_version, "solver 2.1");
    ck_assert_uint_eq(x->n_byes, 1);
    ck_assert_uint_eq(x->bye.n_rows, 10);
    ck_assert_uint_eq(x->bye.n_dropped, 0);
    ck_assert(metric_cell(x, 3, "mpi_rank") == 7);
    ck_assert_int_eq(stat(file, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
}
END_TEST

START_TEST(a_folder_open_to_others_is_not_used)
{
    char dir[128];
    snprintf(dir, sizeof dir, "%s/heapline-%u", test_folder, (unsigned)geteuid());
    if (_i == 0)
        ck_assert_int_eq(mkdir(dir, 0755), 0);
    else
        ck_assert_int_eq(symlink(test_folder, dir), 0);
    heapline_session *s = begin_session(three, 3);
    ok(heapline_frame_begin(s));
    ck_assert_int_eq(heapline_frame_end(s), HEAPLINE_EDROPPED);
    ok(heapline_session_end(s));
    ck_assert_uint_eq(hl_session.sender.n_dropped, 1);
    ck_assert_ptr_null(rows_file(test_folder));
}
END_TEST

START_TEST(a_file_at_its_limit_is_never_torn)
{
    struct rlimit r = {.rlim_cur = 2000, .rlim_max = RLIM_INFINITY};
    unsigned dropped = 0;
    heapline_session *s = begin_session(three, 3);
    setrlimit(RLIMIT_FSIZE, &r); /* Check writes a file of its own: no assertion here */
    for (int i = 0; i < 100; i++) {
        heapline_frame_begin(s);
        dropped += heapline_frame_end(s) == HEAPLINE_EDROPPED;
    }
    r.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &r);
    ok(heapline_session_end(s));
    struct seen *x = seen();
    ck_assert_uint_gt(dropped, 0);
    ck_assert_uint_eq(x->n_rows + dropped, 100);
    ck_assert_uint_eq(x->bye.n_dropped, dropped);
    ck_assert_uint_eq(x->bye.n_rows, 100);
}
END_TEST

/* Every call that can fail, at every place: each row is there or counted. */
START_TEST(failing_calls_lose_no_row_unseen)
{
    static const struct {
        enum seam which;
        int code;
    } kinds[] = {{SEAM_MMAP, ENOMEM}, {SEAM_WRITE, ENOSPC}, {SEAM_WRITE, 0}};
    seam_fail(kinds[_i % 3].which, (unsigned)_i / 3 + 1, kinds[_i % 3].code);
    heapline_session *s = NULL;
    heapline_region r;
    if (heapline_session_begin(&s, three, 3)) {
        ck_assert(seam_was_hit());
        ck_assert_ptr_null(s);
        return;
    }
    unsigned dropped = 0;
    for (int i = 0; i < 20; i++) {
        char path[32];
        snprintf(path, sizeof path, "r%d", i);
        ok(heapline_frame_begin(s));
        if (heapline_region_register(s, path, &r) == 0 &&
            heapline_region_begin(s, r) == 0)
            ok(heapline_region_end(s, r));
        int e = heapline_frame_end(s);
        ck_assert(e == 0 || e == HEAPLINE_EDROPPED);
        dropped += e != 0;
    }
    ok(heapline_session_end(s));
    const char *file = rows_file(test_folder);
    if (!file) {
        ck_assert_uint_eq(dropped, 20);
        return;
    }
    if (dropped == 20)
        return; /* the hello itself could not be written */
    struct seen *x = see_file(file);
    ck_assert_uint_eq(x->n_rows + dropped, 20);
    ck_assert_uint_eq(hl_session.sender.n_dropped, dropped);
    ck_assert_uint_eq(x->bye.n_dropped, dropped);
    ck_assert_uint_le(dropped, 1);
}
END_TEST

START_TEST(a_second_session_goes_on_in_the_same_stream)
{
    static const char *const other[] = {"x"};
    heapline_region r;
    heapline_session *s = begin_session(three, 3);
    ok(heapline_region_register(s, "first", &r));
    ok(heapline_frame_begin(s));
    ok(heapline_region_push(s, "first"));
    ok(heapline_frame_end(s)); /* still open when the session ends */
    ok(heapline_session_end(s));
    s = begin_session(other, 1);
    ok(heapline_region_register(s, "second", &r));
    ck_assert_uint_eq(r, 0);
    ok(heapline_frame_begin(s));
    ck_assert_int_eq(heapline_region_end(s, r), HEAPLINE_EREGION);
    ok(heapline_region_push(s, "second"));
    ok(heapline_region_pop(s));
    ok(heapline_set_metric(s, 0, 4));
    ok(heapline_frame_end(s));
    ok(heapline_session_end(s));
    struct seen *x = seen();
    ck_assert_uint_eq(x->n_rows, 2);
    ck_assert_uint_eq(x->rows[1].number, 1);
    ck_assert_uint_eq(x->rows[1].n_cells, 3);
    ck_assert(metric_cell(x, 1, "x") == 4);
    ck_assert_uint_eq(x->bye.n_rows, 2);
}
END_TEST

/* What a child may do with its parent's session; exit status 0: it was so. */
static int child_sees_nothing(heapline_session *s)
{
    heapline_session *own;
    if (heapline_frame_begin(s) != HEAPLINE_ECLOSED ||
        heapline_frame_end(s) != HEAPLINE_ECLOSED ||
        heapline_session_end(s) != HEAPLINE_ECLOSED)
        return 1;
    if (heapline_session_begin(&own, three, 3) || heapline_frame_begin(own) ||
        heapline_region_push(own, "child") || heapline_frame_end(own) ||
        heapline_session_end(own))
        return 2;
    return 0;
}

START_TEST(a_forked_child_has_no_session)
{
    int status;
    heapline_session *s = begin_session(three, 3);
    frames(s, 2);
    ok(heapline_frame_begin(s));
    ok(heapline_region_push(s, "open"));
    pid_t pid = fork();
    if (!pid) {
        if (heapline_region_push(s, "x") != HEAPLINE_ECLOSED ||
            heapline_region_pop(s) != HEAPLINE_ECLOSED)
            _exit(3);
        setenv("HEAPLINE_FALLBACK_DIR", in_folder("child"), 1);
        mkdir(in_folder("child"), 0700);
        _exit(child_sees_nothing(s));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ok(heapline_region_pop(s));
    ok(heapline_frame_end(s));
    ok(heapline_session_end(s));
    struct seen *x = seen(), *y = see_file(rows_file(in_folder("child")));
    ck_assert_uint_eq(x->n_rows, 3);
    ck_assert_uint_eq(y->n_rows, 1);
    ck_assert_uint_eq(y->rows[0].number, 0);
}
END_TEST

START_TEST(a_raw_clone_leaves_its_parents_file_alone)
{
    int status;
    heapline_session *s = begin_session(three, 3);
    ok(heapline_frame_begin(s));
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0L);
    if (!pid)
        _exit(heapline_frame_end(s) == HEAPLINE_ECLOSED &&
                      heapline_session_end(s) == HEAPLINE_ECLOSED
                  ? 0
                  : 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ok(heapline_frame_end(s));
    ok(heapline_session_end(s));
    ck_assert_uint_eq(seen()->n_rows, 1);
}
END_TEST

START_TEST(errno_stays_as_it_was)
{
    heapline_region r;
    heapline_session *s;
    struct heapline_stats stats;
    unsetenv("HEAPLINE_SOCKET");
    setenv("HEAPLINE_SOCKET", in_folder("nobody"), 1);
#define kept(call)                                                                       \
    do {                                                                                 \
        errno = 4711;                                                                    \
        (void)(call);                                                                    \
        ck_assert_int_eq(errno, 4711);                                                   \
    } while (0)
    kept(heapline_session_begin(&s, three, 3));
    kept(heapline_set_app_version(s, "1"));
    kept(heapline_region_register(s, "a", &r));
    kept(heapline_frame_begin(s));
    kept(heapline_set_metric(s, 0, NAN));
    kept(heapline_region_begin(s, r));
    kept(heapline_region_push(s, "b"));
    kept(heapline_region_pop(s));
    kept(heapline_region_end(s, r));
    kept(heapline_region_add(s, r, 1, 1));
    kept(heapline_get_stats(&stats));
    kept(heapline_frame_end(s));
    kept(heapline_frame_discard(s));
    kept(heapline_session_end(s));
    ck_assert_uint_eq(stats.allocs, 0);
    ck_assert(stats.elapsed_s == 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("client frames");
    TCase *t = tcase_create("frames");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, with_file, test_leave);
    tcase_add_test(t, session_arguments_are_checked);
    tcase_add_test(t, codes_have_sentences);
    tcase_add_loop_test(t, all_calls_succeed_where_nobody_asks, 0, 3);
    tcase_add_test(t, calls_in_the_wrong_order_are_refused);
    tcase_add_test(t, region_names_the_format_cannot_hold_are_refused);
    tcase_add_test(t, times_are_inclusive_and_exclusive);
    tcase_add_loop_test(t, a_region_inside_itself_counts_once, 0, 2);
    tcase_add_test(t, open_regions_go_on_in_the_next_frame);
    tcase_add_test(t, values_keep_every_bit);
    tcase_add_test(t, added_and_measured_seconds_add_up);
    tcase_add_test(t, catalogs_grow_with_the_session);
    tcase_add_test(t, large_catalogs_are_split_and_wide_rows_go_as_parts);
    tcase_add_test(t, frames_without_cells_are_frames);
    tcase_add_test(t, the_file_holds_hello_rows_and_bye);
    tcase_add_loop_test(t, a_folder_open_to_others_is_not_used, 0, 2);
    tcase_add_test(t, a_file_at_its_limit_is_never_torn);
    tcase_add_loop_test(t, failing_calls_lose_no_row_unseen, 0, 75);
    tcase_add_test(t, a_second_session_goes_on_in_the_same_stream);
    tcase_add_test(t, a_forked_child_has_no_session);
    tcase_add_test(t, a_raw_clone_leaves_its_parents_file_alone);
    tcase_add_test(t, errno_stays_as_it_was);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
