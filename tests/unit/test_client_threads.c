/* SPDX-License-Identifier: Apache-2.0
 *
 * Region timers of several threads, read while they run; also meant for the
 * thread sanitizer.
 */
#include "test_client.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_THREADS = 4, N_FRAMES = 400 };

static heapline_session *s;
static int stop;

static void with_file(void)
{
    test_enter();
    setenv("HEAPLINE_FALLBACK_DIR", test_folder, 1);
    __atomic_store_n(&stop, 0, __ATOMIC_SEQ_CST);
}

static int stopped(void)
{
    return __atomic_load_n(&stop, __ATOMIC_ACQUIRE);
}

/* Nested regions without a pause; between frames they are refused, which is no
 * fault.  What was entered is left again. */
static void *work(void *arg)
{
    unsigned turn = (unsigned)(size_t)arg;
    while (!stopped()) {
        if (heapline_region_push(s, "work"))
            continue;
        for (int i = 0; i < 50; i++) {
            int a = heapline_region_push(s, "a");
            int b = heapline_region_push(s, ++turn % 3 ? "x" : "y");
            if (!b)
                heapline_region_pop(s);
            if (!a)
                heapline_region_pop(s);
        }
        heapline_region_pop(s);
    }
    return NULL;
}

static double both(const struct seen *x, size_t row, const char *path)
{
    const struct seen_catalog *c = &x->catalogs[x->rows[row].catalog];
    for (size_t i = 0; i < c->n_paths; i++)
        if (!strcmp(c->paths[i], path))
            return x->rows[row].cells[c->n_metrics + 2 * i];
    return 0; /* not yet registered */
}

/* Children and exclusive add up in each frame, and no thread has more time than
 * there was. */
static void check_row(const struct seen *x, size_t i)
{
    static const char *const paths[] = {"work", "work/a", "work/a/x", "work/a/y"};
    if (both(x, i, "work/a/x") + both(x, i, "work/a/y") == 0)
        return;
    double inside =
        both(x, i, "work/a/x") + both(x, i, "work/a/y") + region_cell(x, i, "work/a", 1);
    ck_assert(fabs(inside - region_cell(x, i, "work/a", 0)) < 1e-9);
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++)
        ck_assert(both(x, i, paths[k]) >= 0);
}

START_TEST(frames_end_while_other_threads_run)
{
    static const char *const metrics[] = {"wall_step"};
    pthread_t t[N_THREADS];
    double total = 0, wall = 0;
    s = begin_session(metrics, 1);
    for (size_t i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < N_FRAMES; i++) {
        ok(heapline_frame_begin(s));
        ok(heapline_region_push(s, "main"));
        usleep(200);
        ok(heapline_region_pop(s));
        ok(i % 10 == 9 ? heapline_frame_discard(s) : heapline_frame_end(s));
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    for (size_t i = 0; i < N_THREADS; i++)
        pthread_join(t[i], NULL);
    frames(s, 1);
    ok(heapline_session_end(s));
    struct seen *x = see_file(rows_file(test_folder));
    ck_assert_uint_eq(x->n_rows, N_FRAMES * 9 / 10 + 1);
    for (size_t i = 0; i < x->n_rows; i++) {
        check_row(x, i);
        total += both(x, i, "work");
        wall += metric_cell(x, i, "wall_step");
    }
    ck_assert(total > 0);
    ck_assert(total <= N_THREADS * wall * 1.5 + 0.1);
}
END_TEST

/* Exact with the clock set: what a thread has open is charged at the boundary
 * that another thread crosses. */
static pthread_barrier_t barrier;

static void *hold_open(void *arg)
{
    (void)arg;
    ok(heapline_region_push(s, "held"));
    ok(heapline_region_push(s, "in"));
    pthread_barrier_wait(&barrier); /* open */
    pthread_barrier_wait(&barrier); /* two frames have ended */
    ok(heapline_region_pop(s));
    pthread_barrier_wait(&barrier); /* still inside "held" at its end */
    return NULL;
}

static void check_cells(const struct seen *x, size_t row, const char *path,
                        double inclusive, double exclusive)
{
    ck_assert_int_eq((int)lround(region_cell(x, row, path, 0) * 1e9), (int)inclusive);
    ck_assert_int_eq((int)lround(region_cell(x, row, path, 1) * 1e9), (int)exclusive);
}

START_TEST(regions_of_other_threads_are_charged_at_boundaries)
{
    pthread_t t;
    clock_set(1000);
    pthread_barrier_init(&barrier, NULL, 2);
    s = begin_session(NULL, 0);
    ok(heapline_frame_begin(s));
    ck_assert_int_eq(pthread_create(&t, NULL, hold_open, NULL), 0);
    pthread_barrier_wait(&barrier);
    clock_add(100);
    ok(heapline_frame_end(s));
    clock_add(7777);
    ok(heapline_frame_begin(s));
    clock_add(30);
    ok(heapline_frame_end(s));
    ok(heapline_frame_begin(s));
    clock_add(5);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); /* "in" was left: join, its end leaves "held" */
    pthread_join(t, NULL);
    clock_add(1000);
    ok(heapline_frame_end(s));
    ok(heapline_session_end(s));
    struct seen *x = see_file(rows_file(test_folder));
    check_cells(x, 0, "held", 100, 0);
    check_cells(x, 0, "held/in", 100, 100);
    check_cells(x, 1, "held", 30, 0);
    check_cells(x, 2, "held", 5, 0);
    check_cells(x, 2, "held/in", 5, 5);
}
END_TEST

static void *one_region(void *arg)
{
    ok(heapline_region_push(s, "short"));
    clock_add(3);
    ok(heapline_region_pop(s));
    *(void **)arg = hl_self;
    return NULL;
}

START_TEST(threads_that_end_leave_their_sums_and_their_place)
{
    void *first = NULL;
    clock_set(1000);
    s = begin_session(NULL, 0);
    ok(heapline_frame_begin(s));
    for (int i = 0; i < 1000; i++) {
        pthread_t t;
        void *place;
        ck_assert_int_eq(pthread_create(&t, NULL, one_region, &place), 0);
        pthread_join(t, NULL);
        first = first ? first : place;
        ck_assert_ptr_eq(first, place);
        if (i == 499) {
            ok(heapline_frame_end(s));
            ok(heapline_frame_begin(s));
        }
    }
    ok(heapline_frame_end(s));
    ok(heapline_session_end(s));
    struct seen *x = see_file(rows_file(test_folder));
    check_cells(x, 0, "short", 1500, 1500);
    check_cells(x, 1, "short", 1500, 1500);
}
END_TEST

static void *register_many(void *arg)
{
    heapline_region r, again;
    char path[64];
    for (int i = 0; i < 500; i++) {
        snprintf(path, sizeof path, "shared/%d", i);
        ok(heapline_region_register(s, path, &r));
        heapline_region_begin(s, r);
        heapline_region_pop(s);
        heapline_region_add(s, r, 1, 0);
        snprintf(path, sizeof path, "own/%zu/%d", (size_t)arg, i);
        ok(heapline_region_register(s, path, &again));
        ck_assert_uint_ne(r, again);
    }
    return NULL;
}

START_TEST(threads_may_register_at_the_same_time)
{
    pthread_t t[N_THREADS];
    double added = 0;
    s = begin_session(NULL, 0);
    ok(heapline_frame_begin(s));
    for (size_t i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, register_many, (void *)i), 0);
    for (size_t i = 0; i < N_THREADS; i++)
        pthread_join(t[i], NULL);
    ok(heapline_frame_end(s));
    ok(heapline_session_end(s));
    struct seen *x = see_file(rows_file(test_folder));
    const struct seen_catalog *c = &x->catalogs[x->n_catalogs - 1];
    ck_assert_uint_eq(c->n_paths, 1 + 500 + 1 + N_THREADS * 501);
    for (int i = 0; i < 500; i++) {
        char path[64];
        snprintf(path, sizeof path, "shared/%d", i);
        added += floor(region_cell(x, 0, path, 0));
    }
    ck_assert(added == 500 * N_THREADS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client threads");
    TCase *t = tcase_create("threads");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, with_file, test_leave);
    tcase_add_test(t, frames_end_while_other_threads_run);
    tcase_add_test(t, regions_of_other_threads_are_charged_at_boundaries);
    tcase_add_test(t, threads_that_end_leave_their_sums_and_their_place);
    tcase_add_test(t, threads_may_register_at_the_same_time);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
