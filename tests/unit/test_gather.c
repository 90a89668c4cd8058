/* SPDX-License-Identifier: Apache-2.0
 *
 * The gather's index and plan, without processes: what nodes tell, who is which
 * rank, what is missing; and the threads of the sinks.
 */
#include "gather_index.h"
#include "outlets.h"
#include "plan.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct hl_err err;

/* ---- nodes as they tell of themselves ---- */

struct unit {
    int32_t rank, pid;
    uint64_t start, n_rows, n_points, image;
    uint32_t flags, hwm;
};

static void catalog_of(struct hl_catalog *c, const char *metric, const char *path)
{
    memset(c, 0, sizeof *c);
    if (metric)
        hl_names_add(&c->metrics, metric, strlen(metric), NULL);
    if (path)
        hl_names_add(&c->paths, path, strlen(path), NULL);
}

/* Units in the order of the CSV, all with the same names. */
static void make_source(struct hl_source *s, const char *host, const struct unit *u,
                        size_t n, const char *metric, const char *path)
{
    struct hl_catalog c;
    uint32_t idx;
    size_t at;
    ck_assert_int_eq(hl_source_empty(s, &err), 0);
    s->left_out = 0;
    snprintf(s->host, sizeof s->host, "%s", host);
    catalog_of(&c, metric, path);
    ck_assert_int_eq(hl_catalog_keep(&s->catalog, &s->n_catalogs, &c, &idx), 0);
    hl_names_add(&s->hosts, host, strlen(host), &at);
    s->unit = calloc(n ? n : 1, sizeof *s->unit);
    s->n_units = n;
    for (size_t i = 0; i < n; i++)
        s->unit[i] = (struct hl_unit){.image = u[i].image,
                                      .entry = {.rank = u[i].rank,
                                                .pid = u[i].pid,
                                                .unit = (uint32_t)i,
                                                .catalog = idx,
                                                .host = (uint32_t)at,
                                                .flags = u[i].flags,
                                                .hwm_pages = u[i].hwm,
                                                .n_rows = u[i].n_rows,
                                                .bytes = 100 * u[i].n_rows,
                                                .start_ticks = u[i].start,
                                                .n_points = u[i].n_points}};
}

static void add_node(struct hl_index *x, uint32_t node, const char *host,
                     const struct unit *u, size_t n, const char *metric, const char *path,
                     int64_t size)
{
    struct hl_source s;
    struct hl_buf b = {0};
    make_source(&s, host, u, n, metric, path);
    s.max_size = size;
    ck_assert_int_eq(hl_index_encode(&s, &b), 0);
    ck_assert_msg(!hl_index_add(x, node, hl_buf_data(&b), hl_buf_left(&b), &err), "%s",
                  err.text);
    hl_buf_fini(&b);
    hl_source_close(&s);
}

static struct hl_index x;
static struct hl_plan plan;

static void setup(void)
{
    memset(&err, 0, sizeof err);
    memset(&plan, 0, sizeof plan);
    hl_index_init(&x);
}

static void teardown(void)
{
    hl_plan_fini(&plan);
    hl_index_fini(&x);
}

static int is_missing(const char *text)
{
    int n = 0;
    for (size_t i = 0; i < plan.n_missing; i++)
        n += strstr(plan.missing[i], text) != NULL;
    return n;
}

/* ---- index ---- */

START_TEST(nodes_are_joined_in_the_order_of_the_csv)
{
    const struct unit a[] = {{0, 10, 1, 5, 0, 1, 0, 0}, {3, 11, 1, 5, 0, 2, 0, 0}};
    const struct unit b[] = {{1, 10, 1, 5, 0, 3, 0, 0}, {2, 12, 1, 5, 0, 4, 0, 0}};
    add_node(&x, 0, "b-host", a, 2, "m", "p", 4);
    add_node(&x, 1, "a-host", b, 2, "m", "p", 4);
    hl_index_done(&x);
    ck_assert_uint_eq(x.n, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(x.entry[i].rank, (int)i);
    ck_assert_uint_eq(x.entry[1].node, 1);
    ck_assert_uint_eq(x.entry[2].unit, 1);
    ck_assert_str_eq(x.hosts.name[x.entry[1].host], "a-host");
    /* equal names are one catalog, whichever node tells them */
    ck_assert_uint_eq(x.entry[0].catalog, x.entry[1].catalog);
    ck_assert_int_eq((int)x.max_size, 4);
}
END_TEST

START_TEST(an_image_that_two_nodes_tell_of_counts_once)
{
    const struct unit a[] = {{0, 10, 1, 5, 0, 77, 0, 0}, {1, 11, 1, 5, 0, 78, 0, 0}};
    const struct unit b[] = {{1, 11, 1, 5, 0, 78, 0, 0}, {2, 12, 1, 5, 0, 79, 0, 0}};
    add_node(&x, 0, "h", a, 2, "m", "p", 3);
    add_node(&x, 1, "h", b, 2, "m", "p", 3);
    hl_index_done(&x);
    ck_assert_uint_eq(x.n, 3);
    ck_assert_uint_eq(x.entry[1].node, 0);
    ck_assert_uint_eq(x.entry[2].unit, 1);
}
END_TEST

START_TEST(of_two_nodes_that_tell_of_an_image_the_larger_part_counts)
{
    const struct unit a[] = {{0, 10, 1, 5, 0, 77, HL_PROC_FRAMES, 0}};
    const struct unit b[] = {{0, 10, 1, 9, 0, 77, HL_PROC_FRAMES, 0}};
    const struct unit c[] = {{0, 10, 1, 7, 0, 77, HL_PROC_FRAMES, 0}};
    add_node(&x, 0, "h", a, 1, "m", "p", 1);
    add_node(&x, 1, "h", b, 1, "m", "p", 1);
    add_node(&x, 2, "h", c, 1, "m", "p", 1);
    hl_index_done(&x);
    ck_assert_uint_eq(x.n, 1);
    ck_assert_uint_eq(x.entry[0].n_rows, 9);
    ck_assert_uint_eq(x.entry[0].node, 1);
    ck_assert_uint_eq(x.n_unread, 2);
    ck_assert_uint_eq(x.n_notes, 2);
}
END_TEST

START_TEST(a_damaged_index_is_refused_at_any_cut)
{
    const struct unit a[] = {{0, 10, 1, 5, 0, 1, 0, 0}, {1, 11, 1, 5, 2, 2, 0, 0}};
    struct hl_source s;
    struct hl_buf b = {0};
    make_source(&s, "host", a, 2, "metric", "path");
    ck_assert_int_eq(hl_index_encode(&s, &b), 0);
    for (size_t n = 0; n < hl_buf_left(&b); n++) {
        struct hl_index y;
        hl_index_init(&y);
        ck_assert_int_eq(hl_index_add(&y, 0, hl_buf_data(&b), n, &err), -1);
        hl_index_fini(&y);
    }
    hl_buf_fini(&b);
    hl_source_close(&s);
}
END_TEST

START_TEST(a_large_index_needs_64_bytes_a_process)
{
    enum { N = 100000 };
    struct unit *u = calloc(N, sizeof *u);
    for (int i = 0; i < N; i++)
        u[i] = (struct unit){i, 1000 + i % 5, 7, 1, 0, (uint64_t)i + 1, 0, 0};
    add_node(&x, 0, "h", u, N, "m", "p", N);
    hl_index_done(&x);
    ck_assert_uint_eq(x.n, N);
    ck_assert_uint_eq(sizeof *x.entry, 64);
    ck_assert_uint_le(x.cap * sizeof *x.entry, 96 * N);
    ck_assert_int_eq(x.entry[N - 1].rank, N - 1);
    free(u);
}
END_TEST

START_TEST(images_are_found_among_many)
{
    struct hl_images m = {0};
    for (uint64_t i = 1; i <= 10000; i++)
        ck_assert_int_eq(hl_images_add(&m, i << 20, (uint32_t)i), 0);
    for (uint64_t i = 1; i <= 10000; i++)
        ck_assert_uint_eq(*hl_images_find(&m, i << 20), i);
    ck_assert_ptr_null(hl_images_find(&m, 5));
    ck_assert_int_eq(hl_images_add(&m, 0, 1), 0);
    ck_assert_ptr_null(hl_images_find(&m, 0));
    hl_images_fini(&m);
}
END_TEST

/* ---- records ---- */

START_TEST(records_come_back_from_memory_and_from_the_file)
{
    enum { N = 20000 };
    static struct hl_record_place place[N];
    static uint8_t body[HL_PROC_BODY_MAX];
    struct hl_records r;
    hl_records_init(&r);
    for (int i = 0; i < N; i++) {
        struct hl_proc p = {.id = (uint32_t)i, .n_rows = (uint64_t)i * 3};
        p.hello.host = p.hello.key = (struct hl_str){"node", 4};
        p.hello.pid = i + 1;
        p.hello.role = HL_ROLE_HEAP;
        p.hello.wire_min = p.hello.wire_max = HL_WIRE_VERSION;
        ck_assert_int_eq(hl_records_add(&r, &p, &place[i], &err), 0);
    }
    ck_assert_uint_gt(r.base, 0); /* some of them did go to the file */
    ck_assert_uint_lt(hl_buf_left(&r.held), 4 << 20);
    for (int i = 0; i < N; i += 7) {
        struct hl_proc p;
        ck_assert_int_eq(hl_records_read(&r, &place[i], body, &err), 0);
        ck_assert_int_eq(hl_decode_proc(body, place[i].n, &p), 0);
        ck_assert_int_eq((int)p.hello.pid, i + 1);
        ck_assert_uint_eq(p.n_rows, (uint64_t)i * 3);
    }
    hl_records_fini(&r);
}
END_TEST

/* ---- plan ---- */

static void make_plan(void)
{
    hl_index_done(&x);
    ck_assert_msg(!hl_plan_make(&plan, &x, &err), "%s", err.text);
}

START_TEST(a_rank_that_two_processes_claim_is_the_first_ones)
{
    const struct unit a[] = {{0, 10, 1, 5, 0, 1, 0, 0}, {1, 11, 9, 5, 0, 2, 0, 0}};
    const struct unit b[] = {{1, 20, 4, 6, 0, 3, 0, 0}};
    add_node(&x, 0, "n1", a, 2, "m", "p", 2);
    add_node(&x, 1, "n2", b, 1, "m", "p", 2);
    make_plan();
    ck_assert_uint_eq(plan.n_ranks, 2);
    ck_assert_int_eq(x.entry[plan.rank[1]].pid, 20); /* it started first */
    ck_assert_uint_eq(plan.n_other, 1);
    ck_assert_int_eq(x.entry[plan.other[0]].pid, 11);
    ck_assert_int_eq(is_missing("rank 1: process 11 on n1"), 1);
    ck_assert_uint_eq(plan.total_frames, 11);
}
END_TEST

START_TEST(ranks_never_seen_are_named_with_nodes_that_have_nothing)
{
    const struct unit a[] = {{0, 10, 1, 5, 0, 1, 0, 0}, {2, 11, 1, 5, 0, 2, 0, 0}};
    add_node(&x, 0, "n1", a, 2, "m", "p", 6);
    add_node(&x, 1, "n2", NULL, 0, NULL, NULL, -1);
    make_plan();
    ck_assert_uint_eq(plan.n_ranks, 6);
    ck_assert_int_eq(is_missing("rank 1: never seen"), 1);
    ck_assert_int_eq(is_missing("ranks 3 to 5: never seen"), 1);
    ck_assert_int_eq(is_missing("node n2: no collector"), 1);
}
END_TEST

START_TEST(a_node_without_ranks_is_no_loss_when_all_ranks_are_there)
{
    const struct unit a[] = {{0, 10, 1, 5, 0, 1, 0, 0}, {1, 11, 1, 5, 0, 2, 0, 0}};
    add_node(&x, 0, "n1", a, 2, "m", "p", 2);
    add_node(&x, 1, "n2", NULL, 0, NULL, NULL, -1);
    make_plan();
    ck_assert_uint_eq(plan.n_missing, 0);
}
END_TEST

START_TEST(samples_are_frames_of_the_largest_process_without_any)
{
    const struct unit a[] = {{0, 10, 1, 0, 4, 1, 0, 50},
                             {0, 11, 2, 0, 9, 2, 0, 500},
                             {1, 12, 3, 7, 3, 3, 0, 10},
                             {1, 13, 4, 0, 6, 4, 0, 900}};
    add_node(&x, 0, "n1", a, 4, "wall", "p", 2);
    make_plan();
    ck_assert_int_eq(x.entry[plan.rank[0]].pid, 11);
    ck_assert_uint_eq(hl_plan_frames(&x.entry[plan.rank[0]]), 9);
    ck_assert_int_eq(x.entry[plan.rank[1]].pid, 12); /* frames go before samples */
    ck_assert_uint_eq(plan.n_timelines, 3);
    ck_assert_uint_eq(plan.total_frames, 16);
    /* metrics of the samples and of the frames, each once */
    ck_assert_uint_ne(hl_names_find(&plan.catalog.metrics, "heap_bytes", 10), SIZE_MAX);
    ck_assert_uint_ne(hl_names_find(&plan.catalog.metrics, "wall", 4), SIZE_MAX);
    ck_assert_uint_eq(plan.catalog.metrics.n, HL_N_POINT_METRICS + 1);
}
END_TEST

START_TEST(a_process_is_sampled_as_what_it_was_in_the_end)
{
    const struct unit a[] = {{0, 10, 1, 0, 4, 1, HL_ENTRY_IMAGE, 900},
                             {0, 10, 1, 0, 5, 2, HL_ENTRY_ROW | HL_ENTRY_AFTER, 50},
                             {1, 11, 1, 0, 2, 3, HL_ENTRY_IMAGE, 900},
                             {1, 11, 1, 8, 6, 4, HL_ENTRY_ROW | HL_ENTRY_AFTER, 50}};
    add_node(&x, 0, "n1", a, 4, "m", "p", 2);
    make_plan();
    ck_assert_uint_eq(hl_plan_frames(&x.entry[plan.rank[0]]), 5);
    ck_assert_uint_eq(plan.n_timelines, 3);
    ck_assert_uint_eq(x.entry[plan.timeline[0]].n_points, 6); /* rows go first */
    ck_assert_uint_eq(x.entry[plan.timeline[1]].n_points, 4);
    ck_assert_uint_eq(x.entry[plan.timeline[2]].n_points, 2);
}
END_TEST

START_TEST(without_ranks_processes_are_numbered_by_start)
{
    const struct unit a[] = {{-1, 10, 9, 1, 0, 1, 0, 0},
                             {-1, 11, 2, 2, 0, 2, 0, 0},
                             {-1, 12, 5, 0, 0, 3, HL_ENTRY_ROW, 0}};
    add_node(&x, 0, "n1", a, 3, "m", "p", -1);
    make_plan();
    ck_assert_uint_eq(plan.n_ranks, 2);
    ck_assert_int_eq(x.entry[plan.rank[0]].pid, 11);
    ck_assert_int_eq(x.entry[plan.rank[1]].pid, 10);
    ck_assert_uint_eq(plan.n_heap, 1);
    ck_assert_uint_eq(plan.n_missing, 0);
}
END_TEST

START_TEST(a_rank_that_cannot_be_is_none)
{
    const struct unit a[] = {{0, 10, 1, 5, 0, 1, 0, 0},
                             {INT32_MAX, 11, 1, 6, 0, 2, 0, 0}};
    add_node(&x, 0, "n1", a, 2, "m", "p", INT32_MAX);
    make_plan();
    ck_assert_uint_eq(plan.n_ranks, 1);
    ck_assert_int_eq(x.entry[plan.rank[0]].pid, 10);
    ck_assert_uint_eq(plan.n_other, 1);
    ck_assert_int_eq(is_missing("rank 2147483647: process 11 on n1"), 1);
}
END_TEST

/* ---- outlets ---- */

struct fake_sink {
    struct hl_sink base;
    char log[512];
    double sum;
    int fail_at_rank, slow;
};

static struct fake_sink *fake(struct hl_sink *s)
{
    return (struct fake_sink *)s;
}

static int fake_rank_begin(struct hl_sink *s, uint64_t rank, uint64_t n, struct hl_err *e)
{
    (void)n;
    if ((int)rank == fake(s)->fail_at_rank)
        return hl_fail(e, ENOSPC, "full at rank %d", (int)rank);
    snprintf(fake(s)->log + strlen(fake(s)->log), 16, "b%d", (int)rank);
    return 0;
}

static int fake_rows(struct hl_sink *s, const double *cells, size_t n, struct hl_err *e)
{
    (void)e;
    if (fake(s)->slow)
        usleep(1000);
    for (size_t i = 0; i < n; i++)
        fake(s)->sum += cells[i];
    return 0;
}

static int fake_rank_end(struct hl_sink *s, struct hl_err *e)
{
    (void)e;
    strcat(fake(s)->log, "e");
    return 0;
}

static const struct hl_sink_ops fake_ops = {
    .rank_begin = fake_rank_begin, .rows = fake_rows, .rank_end = fake_rank_end};

static int n_ticks;
static int count_tick(void *ctx, struct hl_err *e)
{
    (void)ctx, (void)e;
    n_ticks++;
    return 0;
}

static int put_rank(struct hl_outlets *o, uint64_t rank, int batches)
{
    struct hl_item it = {.kind = HL_ITEM_RANK, .rank = rank};
    if (hl_outlets_put(o, &it, &err))
        return -1;
    for (int i = 0; i < batches; i++) {
        struct hl_batch *b = hl_outlets_batch(o, &err);
        if (!b)
            return -1;
        ((double *)b->p)[0] = 1;
        ((double *)b->p)[1] = (double)rank;
        b->n = 2;
        it = (struct hl_item){.kind = HL_ITEM_ROWS, .batch = b};
        if (hl_outlets_put(o, &it, &err))
            return -1;
    }
    it = (struct hl_item){.kind = HL_ITEM_RANK_END};
    return hl_outlets_put(o, &it, &err);
}

START_TEST(all_sinks_get_the_same_in_the_same_order)
{
    struct fake_sink a = {.base = {.ops = &fake_ops}, .fail_at_rank = -1, .slow = 1};
    struct fake_sink b = {.base = {.ops = &fake_ops}, .fail_at_rank = -1};
    struct hl_sink *sinks[] = {&a.base, &b.base};
    struct hl_outlets *o = hl_outlets_open(sinks, 2, 8, count_tick, NULL, &err);
    ck_assert_ptr_nonnull(o);
    for (uint64_t r = 0; r < 5; r++)
        ck_assert_int_eq(put_rank(o, r, 20), 0);
    ck_assert_int_eq(hl_outlets_wait(o, &err), 0);
    hl_outlets_close(o);
    ck_assert_str_eq(a.log, "b0eb1eb2eb3eb4e");
    ck_assert_str_eq(b.log, a.log);
    ck_assert(a.sum == 100.0 + 20 * 10 && b.sum == a.sum);
    ck_assert_int_gt(n_ticks, 0); /* who waits says that he is there */
}
END_TEST

START_TEST(a_sink_that_fails_ends_the_others)
{
    struct fake_sink a = {.base = {.ops = &fake_ops}, .fail_at_rank = 1};
    struct fake_sink b = {.base = {.ops = &fake_ops}, .fail_at_rank = -1};
    struct hl_sink *sinks[] = {&a.base, &b.base};
    struct hl_outlets *o = hl_outlets_open(sinks, 2, 8, count_tick, NULL, &err);
    int bad = 0;
    for (uint64_t r = 0; r < 1000 && !bad; r++)
        bad = put_rank(o, r, 1);
    bad = bad || hl_outlets_wait(o, &err);
    ck_assert_int_ne(bad, 0);
    ck_assert_int_eq(err.code, ENOSPC);
    ck_assert_str_eq(err.text, "full at rank 1");
    ck_assert_str_eq(a.log, "b0e");
    hl_outlets_close(o);
}
END_TEST

START_TEST(a_row_larger_than_a_batch_gets_a_batch_of_its_size)
{
    struct fake_sink a = {.base = {.ops = &fake_ops}, .fail_at_rank = -1};
    struct hl_sink *sinks[] = {&a.base};
    struct hl_outlets *o = hl_outlets_open(sinks, 1, 16 << 20, count_tick, NULL, &err);
    ck_assert_uint_ge(hl_outlets_batch_bytes(o), 16 << 20);
    ck_assert_int_eq(put_rank(o, 0, 3), 0);
    ck_assert_int_eq(hl_outlets_wait(o, &err), 0);
    hl_outlets_close(o);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gather");
    TCase *t = tcase_create("all");
    /* a large index under a sanitizer, on a machine with other work */
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, nodes_are_joined_in_the_order_of_the_csv);
    tcase_add_test(t, an_image_that_two_nodes_tell_of_counts_once);
    tcase_add_test(t, of_two_nodes_that_tell_of_an_image_the_larger_part_counts);
    tcase_add_test(t, a_damaged_index_is_refused_at_any_cut);
    tcase_add_test(t, a_large_index_needs_64_bytes_a_process);
    tcase_add_test(t, images_are_found_among_many);
    tcase_add_test(t, records_come_back_from_memory_and_from_the_file);
    tcase_add_test(t, a_rank_that_two_processes_claim_is_the_first_ones);
    tcase_add_test(t, ranks_never_seen_are_named_with_nodes_that_have_nothing);
    tcase_add_test(t, a_node_without_ranks_is_no_loss_when_all_ranks_are_there);
    tcase_add_test(t, samples_are_frames_of_the_largest_process_without_any);
    tcase_add_test(t, a_process_is_sampled_as_what_it_was_in_the_end);
    tcase_add_test(t, without_ranks_processes_are_numbered_by_start);
    tcase_add_test(t, a_rank_that_cannot_be_is_none);
    tcase_add_test(t, all_sinks_get_the_same_in_the_same_order);
    tcase_add_test(t, a_sink_that_fails_ends_the_others);
    tcase_add_test(t, a_row_larger_than_a_batch_gets_a_batch_of_its_size);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
