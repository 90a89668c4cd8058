/* SPDX-License-Identifier: Apache-2.0
 *
 * The pure layer: checksum, header, fields, every message there and back,
 * record text, names built from keys, heap page to record.
 */
#include "control.h"
#include "heap_page.h"
#include "region_name.h"
#include "ident.h"
#include "messages.h"
#include "row_buffer.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static uint8_t buf[HL_WIRE_MAX_BODY + 64];

static struct hl_str str(const char *s)
{
    return (struct hl_str){s, strlen(s)};
}

static int same(struct hl_str a, const char *b)
{
    return a.n == strlen(b) && memcmp(a.p, b, a.n) == 0;
}

START_TEST(crc32c_has_the_published_values)
{
    uint8_t zeros[32] = {0};
    ck_assert_uint_eq(hl_crc32c(0, "123456789", 9), 0xe3069283u);
    ck_assert_uint_eq(hl_crc32c(0, zeros, 32), 0x8a9136aau);
    ck_assert_uint_eq(hl_crc32c(hl_crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
}
END_TEST

static size_t a_hello(struct hl_hello *h)
{
    *h = (struct hl_hello){.wire_min = 1,
                           .wire_max = 1,
                           .role = HL_ROLE_FRAMES,
                           .flags = HL_HELLO_ROWS,
                           .pid = 4711,
                           .start_ticks = 99,
                           .image = 0xfeedfacecafebeefu,
                           .rank = 3,
                           .size = 8,
                           .interval_ns = 5,
                           .key = str("job.1"),
                           .host = str("node-a"),
                           .job = str("17"),
                           .app_version = str("1.2")};
    int64_t n = hl_encode_hello(buf, sizeof buf, h);
    ck_assert_int_gt(n, 0);
    return (size_t)n;
}

START_TEST(hello_goes_there_and_back)
{
    struct hl_hello in, out;
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used, n = a_hello(&in);
    ck_assert_int_eq(
        hl_wire_next(buf, n, HL_TO_COLLECTOR, HL_STATE_NEW, &h, &body, &used), 0);
    ck_assert_uint_eq(used, n);
    ck_assert_int_eq(hl_decode_hello(body, h.length, &out), 0);
    ck_assert(same(out.key, "job.1") && same(out.host, "node-a") && same(out.job, "17"));
    ck_assert(out.image == in.image && out.rank == 3 && out.size == 8 && out.pid == 4711);
    ck_assert(out.flags == HL_HELLO_ROWS && out.role == HL_ROLE_FRAMES);
}
END_TEST

START_TEST(every_cut_of_a_hello_is_refused_or_short)
{
    struct hl_hello in, out;
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used, n = a_hello(&in);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(
            hl_wire_next(buf, i, HL_TO_COLLECTOR, HL_STATE_NEW, &h, &body, &used),
            HL_WIRE_SHORT);
    for (size_t i = 1; i < n - HL_WIRE_HEADER; i++) {
        uint8_t *copy = malloc(i);
        memcpy(copy, buf + HL_WIRE_HEADER, i);
        hl_decode_hello(copy, i, &out); /* must not read past the end: ASan, valgrind */
        free(copy);
    }
}
END_TEST

START_TEST(every_flipped_bit_is_noticed)
{
    struct hl_hello in;
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used, n = a_hello(&in);
    for (size_t bit = 0; bit < n * 8; bit++) {
        buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ck_assert_int_ne(
            hl_wire_next(buf, n, HL_TO_COLLECTOR, HL_STATE_NEW, &h, &body, &used), 0);
        buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}
END_TEST

START_TEST(types_are_refused_by_direction_state_and_length)
{
    struct hl_wire_header h = {.version = 1, .type = HL_MSG_ROWS, .length = 24};
    ck_assert_int_eq(hl_wire_check(&h, HL_TO_COLLECTOR, HL_STATE_CLIENT), 0);
    ck_assert_int_eq(hl_wire_check(&h, HL_TO_COLLECTOR, HL_STATE_NEW), HL_WIRE_BAD_TYPE);
    ck_assert_int_eq(hl_wire_check(&h, HL_FROM_COLLECTOR, HL_STATE_CLIENT),
                     HL_WIRE_BAD_TYPE);
    h.length = 23;
    ck_assert_int_eq(hl_wire_check(&h, HL_TO_COLLECTOR, HL_STATE_CLIENT),
                     HL_WIRE_BAD_LENGTH);
    h.length = 24 + 262145;
    ck_assert_int_eq(hl_wire_check(&h, HL_TO_COLLECTOR, HL_STATE_CLIENT),
                     HL_WIRE_BAD_LENGTH);
    h.type = 200;
    ck_assert_int_eq(hl_wire_check(&h, HL_TO_COLLECTOR, HL_STATE_CLIENT),
                     HL_WIRE_BAD_TYPE);
    ck_assert_ptr_null(hl_wire_type(0));
}
END_TEST

START_TEST(unknown_fields_are_skipped_unless_critical)
{
    struct hl_hello in, out;
    a_hello(&in);
    struct hl_writer w = hl_writer_on(buf, sizeof buf);
    hl_put_field_u64(&w, 1, 1 | 1 << 8);
    hl_put_field_u64(&w, 2, HL_ROLE_HEAP);
    hl_put_field_str(&w, 10, str("k"));
    size_t plain = w.n;
    hl_put_field_u64(&w, 0x1234, 7);
    ck_assert_int_eq(hl_decode_hello(buf, w.n, &out), 0);
    w.n = plain;
    hl_put_field_u64(&w, 0x9234, 7);
    ck_assert_int_eq(hl_decode_hello(buf, w.n, &out), HL_WIRE_BAD_FIELD);
    w.n = plain;
    hl_put_field_str(&w, 10, str("again"));
    ck_assert_int_eq(hl_decode_hello(buf, w.n, &out), HL_WIRE_BAD_FIELD);
    ck_assert_int_eq(hl_decode_hello(buf, 12, &out), HL_WIRE_BAD_FIELD);
}
END_TEST

START_TEST(catalog_goes_there_and_back)
{
    struct hl_catalog_msg m = {.id = 2, .base = 1, .first_metric = 3, .first_path = 1},
                          out;
    struct hl_writer w = hl_catalog_begin(buf, sizeof buf, &m);
    hl_catalog_add_metric(&w, "rss");
    hl_catalog_add_path(&w, "a/b");
    hl_catalog_add_path(&w, "c");
    int64_t n = hl_message_end(&w, HL_MSG_CATALOG);
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(hl_decode_catalog(buf + 16, (size_t)n - 16, &out), 0);
    ck_assert(out.n_metrics == 1 && out.n_paths == 2 && out.first_metric == 3);
    struct hl_reader r = hl_reader_on(out.names, out.names_bytes);
    struct hl_str name;
    int is_path;
    ck_assert(hl_catalog_next(&r, &is_path, &name) == 1 && !is_path && same(name, "rss"));
    ck_assert(hl_catalog_next(&r, &is_path, &name) == 1 && is_path && same(name, "a/b"));
    ck_assert(hl_catalog_next(&r, &is_path, &name) == 1 && is_path && same(name, "c"));
    ck_assert_int_eq(hl_catalog_next(&r, &is_path, &name), 0);
    m.base = 2;
    w = hl_catalog_begin(buf, sizeof buf, &m);
    n = hl_message_end(&w, HL_MSG_CATALOG);
    ck_assert_int_eq(hl_decode_catalog(buf + 16, (size_t)n - 16, &out),
                     HL_WIRE_BAD_VALUE);
}
END_TEST

START_TEST(rows_keep_every_bit)
{
    double in[4] = {1.0, -0.0, 5e-324, 1.7976931348623157e308};
    struct hl_rows m = {.catalog = 1, .n_cells = 4, .first_row = 7}, out;
    memcpy(buf + HL_WIRE_HEADER + HL_ROWS_HEAD, in, sizeof in);
    int64_t n = hl_encode_rows_in_place(buf, sizeof buf, &m);
    ck_assert_int_eq(n, (int64_t)hl_rows_size(4));
    ck_assert_int_eq(hl_decode_rows(buf + 16, (size_t)n - 16, &out), 0);
    for (size_t i = 0; i < 4; i++) {
        double d = hl_rows_cell(&out, i);
        ck_assert(memcmp(&d, &in[i], 8) == 0);
    }
    ck_assert_int_eq(hl_decode_rows(buf + 16, (size_t)n - 17, &out), HL_WIRE_BAD_LENGTH);
    m.n_cells = HL_ROWS_CELLS_MAX + 1;
    ck_assert_int_eq(hl_encode_rows_in_place(buf, sizeof buf, &m), HL_WIRE_NO_SPACE);
}
END_TEST

static struct hl_record_msg a_record(void)
{
    struct hl_record_msg m = {.record = {.rank = 3,
                                         .pid = 51234,
                                         .host = "node-a",
                                         .job = "1655310",
                                         .elapsed_ns = 12480999999,
                                         .allocs = 4153,
                                         .frees = 4123,
                                         .peak_bytes = 302268416,
                                         .peak_time_ns = 4211000000,
                                         .live_bytes = 483532,
                                         .vmhwm_bytes = 331431936,
                                         .vmrss_bytes = 9175040},
                              .end = {HL_ENDED_SIGNAL, 9}};
    return m;
}

START_TEST(record_text_is_that_of_the_specification)
{
    struct hl_record_msg m = a_record();
    char text[HL_RECORD_TEXT_MAX];
    size_t n = hl_record_text(&m.record, text, sizeof text);
    static const char want[] =
        "# heapline 1\n"
        "rank,host,pid,job,elapsed_s,allocs,frees,peak_heap_bytes,peak_heap_time_s,"
        "live_heap_at_exit_bytes,vmhwm_bytes,vmrss_at_exit_bytes\n"
        "3,node-a,51234,1655310,12.480,4153,4123,302268416,4.211,483532,331431936,"
        "9175040\n";
    ck_assert_uint_eq(n, sizeof want - 1);
    ck_assert(memcmp(text, want, n) == 0);
    ck_assert_uint_eq(hl_record_text(&m.record, text, 100), 0);
}
END_TEST

START_TEST(record_cleans_hosts_and_takes_extremes)
{
    struct hl_record r = {.rank = -1,
                          .host = "a,b\"c\nd\re",
                          .pid = INT64_MAX,
                          .elapsed_ns = INT64_MAX,
                          .allocs = UINT64_MAX,
                          .frees = UINT64_MAX,
                          .peak_bytes = INT64_MAX,
                          .peak_time_ns = -5,
                          .live_bytes = INT64_MIN,
                          .vmhwm_bytes = -1,
                          .vmrss_bytes = -1};
    memset(r.job, 'j', HL_JOB_MAX);
    char row[HL_RECORD_ROW_MAX + 1];
    size_t n = hl_record_row(&r, row, HL_RECORD_ROW_MAX);
    row[n] = 0;
    ck_assert_ptr_nonnull(strstr(row, "-1,a_b_c_d_e,9223372036854775807,jjj"));
    ck_assert_ptr_nonnull(strstr(row, ",18446744073709551615,18446744073709551615,"));
    ck_assert_ptr_nonnull(strstr(row, ",0.000,-9223372036854775808,-1,-1\n"));
}
END_TEST

START_TEST(record_message_goes_there_and_back)
{
    struct hl_record_msg in = a_record(), out;
    int64_t n = hl_encode_record(buf, sizeof buf, &in);
    ck_assert_int_eq(hl_decode_record(buf + 16, (size_t)n - 16, &out), 0);
    ck_assert(memcmp(&in.record, &out.record, sizeof in.record) == 0);
    ck_assert(out.end.kind == HL_ENDED_SIGNAL && out.end.status == 9);
    ck_assert_int_eq(hl_decode_record(buf + 16, 24, &out), HL_WIRE_BAD_FIELD);
}
END_TEST

START_TEST(proc_goes_there_and_back)
{
    struct hl_proc in = {.id = 5,
                         .flags = HL_PROC_HEAP | HL_PROC_FRAMES,
                         .n_rows = 7,
                         .stream_bytes = 1000,
                         .catalog_bytes = 100,
                         .n_dropped = 2,
                         .n_lost = 1,
                         .n_points = 1ull << 41,
                         .n_points_lost = 5};
    struct hl_proc out;
    a_hello(&in.hello);
    in.heap = a_record();
    int64_t n = hl_encode_proc(buf, sizeof buf, &in);
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(hl_decode_proc(buf + 16, (size_t)n - 16, &out), 0);
    ck_assert(out.id == 5 && out.n_rows == 7 && out.stream_bytes == 1000 &&
              out.n_lost == 1 && out.n_points == 1ull << 41 && out.n_points_lost == 5);
    ck_assert(same(out.hello.key, "job.1") && out.heap.record.allocs == 4153);
}
END_TEST

START_TEST(points_go_there_and_back)
{
    const struct hl_point in[2] = {{1, 2, 3, -1, UINT64_MAX, 5},
                                   {INT64_MAX, -1, -1, 1ll << 50, 6, 7}};
    struct hl_wire_header h;
    struct hl_point out;
    size_t n_points;
    int64_t n = hl_encode_points(buf, sizeof buf, in, 2);
    ck_assert_int_eq(n, HL_WIRE_HEADER + 2 * HL_POINT_BYTES);
    ck_assert_int_eq(hl_wire_header_get(buf, (size_t)n, &h), 0);
    ck_assert_uint_eq(h.type, HL_MSG_POINTS);
    ck_assert_int_eq(hl_decode_points(buf + 16, h.length, &n_points), 0);
    ck_assert_uint_eq(n_points, 2);
    for (int i = 0; i < 2; i++) {
        hl_point_get(buf + 16 + i * HL_POINT_BYTES, &out);
        ck_assert_int_eq(memcmp(&out, &in[i], sizeof out), 0);
    }
    ck_assert_int_eq(hl_decode_points(buf + 16, 0, &n_points), HL_WIRE_BAD_LENGTH);
    ck_assert_int_eq(hl_decode_points(buf + 16, HL_POINT_BYTES + 8, &n_points),
                     HL_WIRE_BAD_LENGTH);
}
END_TEST

START_TEST(small_messages_go_there_and_back)
{
    struct hl_hello_ok ok = {1, 77}, ok2;
    struct hl_refused no;
    struct hl_pull pull = {3, HL_PULL_CATALOGS, 1ull << 40, 65536}, pull2;
    struct hl_data data = {3, 0, 9, (const uint8_t *)"abc", 3}, data2;
    struct hl_state state = {1, 2, 3, 4, 0}, state2;
    struct hl_ended_msg ended = {42, 7, {HL_ENDED_EXIT, 3}}, ended2;
    struct hl_spool_head sp = {1, 1000, 42, 7, 8, 9, str("key")}, sp2;
    struct hl_slot slot = {3, HL_HELLO_PAGE, 77, 8, 9}, slot2;
    struct hl_held held;
    uint64_t ack;
    hl_encode_slot(buf, sizeof buf, &slot);
    ck_assert(!hl_decode_slot(buf + 16, 32, &slot2) && slot2.number == 3 &&
              slot2.kernel_pid == 77 && slot2.rows_inode == 9);
    int64_t n_held = hl_encode_held(buf, sizeof buf, 28, "full");
    ck_assert(!hl_decode_held(buf + 16, (size_t)n_held - 16, &held) && held.code == 28 &&
              same(held.text, "full"));
    hl_encode_hello_ok(buf, sizeof buf, &ok);
    ck_assert(!hl_decode_hello_ok(buf + 16, 16, &ok2) && ok2.appended == 77);
    int64_t n = hl_encode_refused(buf, sizeof buf, HL_REFUSED_SPACE, "disk is full");
    ck_assert(!hl_decode_refused(buf + 16, (size_t)n - 16, &no) &&
              same(no.text, "disk is full"));
    hl_encode_ack(buf, sizeof buf, 1ull << 50);
    ck_assert(!hl_decode_ack(buf + 16, 8, &ack) && ack == 1ull << 50);
    ck_assert_int_eq(hl_decode_ack(buf + 16, 7, &ack), HL_WIRE_SHORT);
    hl_encode_pull(buf, sizeof buf, &pull);
    ck_assert(!hl_decode_pull(buf + 16, 20, &pull2) && pull2.offset == 1ull << 40);
    pull.what = HL_PULL_POINTS;
    hl_encode_pull(buf, sizeof buf, &pull);
    ck_assert(!hl_decode_pull(buf + 16, 20, &pull2) && pull2.what == HL_PULL_POINTS);
    pull.what = HL_PULL_POINTS + 1;
    hl_encode_pull(buf, sizeof buf, &pull);
    ck_assert_int_eq(hl_decode_pull(buf + 16, 20, &pull2), HL_WIRE_BAD_VALUE);
    n = hl_encode_data(buf, sizeof buf, &data);
    ck_assert(!hl_decode_data(buf + 16, (size_t)n - 16, &data2) && data2.n == 3);
    hl_encode_state(buf, sizeof buf, &state);
    ck_assert(!hl_decode_state(buf + 16, 32, &state2) && state2.n_alive == 4);
    hl_encode_ended(buf, sizeof buf, &ended);
    ck_assert(!hl_decode_ended(buf + 16, 24, &ended2) && ended2.end.status == 3);
    n = hl_encode_spool_head(buf, sizeof buf, &sp);
    ck_assert(!hl_decode_spool_head(buf + 16, (size_t)n - 16, &sp2) &&
              same(sp2.key, "key"));
}
END_TEST

START_TEST(control_messages_go_there_and_back)
{
    struct hl_ask ask = {HL_ASK_FORGET, str("42")}, ask2;
    struct hl_done done;
    struct hl_status st = {.is_admin = 1,
                           .version = str("1.2"),
                           .socket = str("/s"),
                           .spool = str("/p"),
                           .last_error = str("none")},
                     st2;
    struct hl_job_line job = {.uid = 7, .n_lost = 3, .ended_ns = -1, .key = str("k.1")},
                       job2;
    struct hl_live_line live = {.pid = 9,
                                .rank = -1,
                                .live_bytes = 1ll << 40,
                                .vmhwm_bytes = -1,
                                .key = str("k"),
                                .host = str("h")},
                        live2;
    struct hl_user_line user = {.uid = 5, .quota_bytes = 1ull << 50}, user2;
    int64_t n = hl_encode_ask(buf, sizeof buf, &ask);
    ck_assert(!hl_decode_ask(buf + 16, (size_t)n - 16, &ask2) && ask2.what == 7 &&
              same(ask2.arg, "42"));
    buf[16] = 99;
    ck_assert_int_eq(hl_decode_ask(buf + 16, (size_t)n - 16, &ask2), HL_WIRE_BAD_VALUE);
    n = hl_encode_done(buf, sizeof buf, HL_DONE_DENIED, 3, "no");
    ck_assert(!hl_decode_done(buf + 16, (size_t)n - 16, &done) && done.n == 3 &&
              done.code == HL_DONE_DENIED && same(done.text, "no"));
    st.value[HL_STATUS_rows_lost] = 12;
    st.known[HL_STATUS_rows_lost] = 1;
    n = hl_encode_status(buf, sizeof buf, &st);
    ck_assert(!hl_decode_status(buf + 16, (size_t)n - 16, &st2) && st2.is_admin &&
              st2.value[HL_STATUS_rows_lost] == 12 && !st2.known[HL_STATUS_rows] &&
              same(st2.spool, "/p") && same(st2.last_error, "none"));
    n = hl_encode_job_line(buf, sizeof buf, &job);
    ck_assert(!hl_decode_job_line(buf + 16, (size_t)n - 16, &job2) && job2.n_lost == 3 &&
              job2.ended_ns == -1 && same(job2.key, "k.1"));
    ck_assert_int_ne(hl_decode_job_line(buf + 16, (size_t)n - 24, &job2), 0);
    n = hl_encode_live_line(buf, sizeof buf, &live);
    ck_assert(!hl_decode_live_line(buf + 16, (size_t)n - 16, &live2) &&
              live2.rank == -1 && live2.live_bytes == 1ll << 40 && same(live2.host, "h"));
    n = hl_encode_user_line(buf, sizeof buf, &user);
    ck_assert(!hl_decode_user_line(buf + 16, (size_t)n - 16, &user2) && user2.uid == 5 &&
              user2.quota_bytes == 1ull << 50);
    ck_assert_str_eq(hl_status_info(HL_STATUS_rows_lost)->name, "rows_lost");
    ck_assert(hl_status_info(HL_STATUS_rows_lost)->is_counter &&
              !hl_status_info(HL_STATUS_N));
    ck_assert_str_eq(hl_job_state_name(2), "quiet");
}
END_TEST

START_TEST(every_status_fits_its_message)
{
    struct hl_status st = {.version = str("1"), .socket = str("/s"), .spool = str("/p")};
    st.last_error = str("x");
    memset(st.known, 1, sizeof st.known);
    ck_assert_int_lt(hl_encode_status(buf, sizeof buf, &st), 4000);
}
END_TEST

static const char *const *test_env; /* name, value, ..., NULL */

static const char *env(const char *name)
{
    for (const char *const *p = test_env; *p; p += 2)
        if (!strcmp(*p, name))
            return p[1];
    return NULL;
}

START_TEST(rank_and_size_follow_the_documented_order)
{
    const char *ompi[] = {"SLURM_PROCID",
                          "9",
                          "PMIX_RANK",
                          "5",
                          "OMPI_COMM_WORLD_RANK",
                          "2",
                          "OMPI_COMM_WORLD_SIZE",
                          "4",
                          "SLURM_STEP_NUM_TASKS",
                          "7",
                          NULL};
    const char *pmix[] = {"PMIX_RANK",
                          "5",
                          "SLURM_STEP_ID",
                          "0",
                          "SLURM_STEP_NUM_TASKS",
                          "7",
                          "SLURM_NTASKS",
                          "99",
                          NULL};
    const char *batch[] = {"SLURM_PROCID",
                           "0",
                           "SLURM_STEP_ID",
                           "4294967291",
                           "SLURM_STEP_NUM_TASKS",
                           "7",
                           NULL};
    const char *bad[] = {
        "OMPI_COMM_WORLD_RANK", "two", "PMI_RANK", "3", "PMI_SIZE", "0", NULL};
    const char *none[] = {NULL};
    test_env = ompi;
    ck_assert(hl_ident_rank(env) == 2 && hl_ident_size(env) == 4);
    test_env = pmix;
    ck_assert(hl_ident_rank(env) == 5 && hl_ident_size(env) == 7);
    test_env = batch;
    ck_assert(hl_ident_rank(env) == 0 && hl_ident_size(env) == -1);
    test_env = bad;
    ck_assert(hl_ident_rank(env) == 3 && hl_ident_size(env) == -1);
    test_env = none;
    ck_assert(hl_ident_rank(env) == -1 && hl_ident_size(env) == -1);
}
END_TEST

START_TEST(keys_never_make_paths)
{
    char out[HL_NAME_CAP], key[HL_KEY_MAX + 1];
    hl_escape_key("../..", 100, out);
    ck_assert_str_eq(out, "%2e.%2f..");
    hl_escape_key("a b\n", 100, out);
    ck_assert_str_eq(out, "a%20b%0a");
    hl_escape_key("", 100, out);
    ck_assert_str_eq(out, "_");
    memset(key, 'x', HL_KEY_MAX);
    key[HL_KEY_MAX] = 0;
    ck_assert_uint_eq(hl_escape_key(key, 100, out), 17);
    ck_assert(hl_private_dir(1000, key, out) < 70);
    hl_process_file_name(key, 4711, 0xab, ".page", out);
    ck_assert_ptr_nonnull(strstr(out, ".4711.00000000000000ab.page"));
    hl_private_dir(1000, "77.0123456789abcdef", out);
    ck_assert_str_eq(out, "/tmp/heapline-1000/77.0123456789abcdef");
}
END_TEST

START_TEST(file_names_say_whose_they_are)
{
    static const char *const keys[] = {"77", "a.b.c", ".dot", "a b/\xff%", "_", "h0"};
    static const char *const none[] = {"",
                                       ".spool",
                                       "nonsense.spool",
                                       "k.1.0.spool",
                                       "k.0.00000000000000ab.spool",
                                       "k.x.00000000000000ab.spool",
                                       "k.7.00000000000000AB.spool",
                                       "k.7.00000000000000ab.page",
                                       "k.7.100000000000000ab.spool",
                                       ".7.00000000000000ab.spool",
                                       "k%2.7.00000000000000ab.spool",
                                       "k%.7.00000000000000ab.spool",
                                       "a b.7.00000000000000ab.spool",
                                       "k.99999999999999999999.00000000000000ab.spool"};
    char name[HL_NAME_CAP], key[HL_KEY_MAX + 1], out[HL_KEY_MAX + 1];
    uint64_t image;
    int64_t pid;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        hl_process_file_name(keys[i], 4711 + (int64_t)i, UINT64_MAX - i, ".spool", name);
        ck_assert_int_eq(hl_process_of_file_name(name, ".spool", out, &pid, &image), 0);
        ck_assert_str_eq(out, keys[i]);
        ck_assert_int_eq(pid, 4711 + (int64_t)i);
        ck_assert(image == UINT64_MAX - i);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ck_assert_int_eq(hl_process_of_file_name(none[i], ".spool", out, &pid, &image),
                         -1);
    memset(key, ' ', HL_KEY_MAX);
    key[HL_KEY_MAX] = 0;
    hl_process_file_name(key, 1, 1, ".spool", name);
    ck_assert_int_eq(hl_process_of_file_name(name, ".spool", out, &pid, &image), 0);
    ck_assert(out[0] == 'h' && strlen(out) == 17);
}
END_TEST

START_TEST(key_comes_from_the_first_variable_set)
{
    char out[HL_KEY_MAX + 1];
    const char *two[] = {"PBS_JOBID", "p", "SLURM_JOB_ID", "s", NULL}, *none[] = {NULL};
    test_env = two;
    hl_ident_key(env, 5, out);
    ck_assert_str_eq(out, "s");
    test_env = none;
    hl_ident_key(env, 5, out);
    ck_assert_str_eq(out, "uid-5");
}
END_TEST

START_TEST(numbers_are_parsed_strictly)
{
    int64_t v = 5;
    uint64_t u = 5;
    ck_assert(!hl_parse_i64("-12", -20, 20, &v) && v == -12);
    ck_assert(hl_parse_i64("12x", 0, 99, &v) && hl_parse_i64("", 0, 99, &v));
    ck_assert(hl_parse_i64("9223372036854775808", 0, INT64_MAX, &v) && v == -12);
    ck_assert(!hl_parse_size("64K", 65536, 1 << 30, &u) && u == 65536);
    ck_assert(!hl_parse_size("1G", 65536, 1 << 30, &u) && u == 1 << 30);
    ck_assert(hl_parse_size("63K", 65536, 1 << 30, &u) && hl_parse_size("1T", 0, -1, &u));
    ck_assert(!hl_parse_seconds("1.5", 0, INT64_MAX, &v) && v == 1500000000);
    ck_assert(hl_parse_seconds(".", 0, INT64_MAX, &v) &&
              hl_parse_seconds("1,5", 0, INT64_MAX, &v));
}
END_TEST

START_TEST(intervals_have_their_range)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "0.009",
                                      "86400.1",
                                      "-1",
                                      "1s",
                                      " 1",
                                      "1e3",
                                      "0,5",
                                      "nan",
                                      "99999999999999999999"};
    int64_t v = -7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(hl_parse_interval(bad[i], &v) == -1 && v == -7, "%s", bad[i]);
    ck_assert(!hl_parse_interval("0.01", &v) && v == 10000000);
    ck_assert(!hl_parse_interval("0.5", &v) && v == 500000000);
    ck_assert(!hl_parse_interval("10", &v) && v == 10 * (int64_t)1000000000);
    ck_assert(!hl_parse_interval("86400", &v) && v == 86400 * (int64_t)1000000000);
}
END_TEST

START_TEST(file_name_patterns_keep_what_they_do_not_know)
{
    char out[64];
    hl_record_file_name("x%r-%x-%p-%h-%%-%", 7, 3, "n1", out, sizeof out);
    ck_assert_str_eq(out, "x3-%x-7-n1-%%-%");
    ck_assert_uint_eq(hl_record_file_name("123456789", 1, 1, "h", out, 9), 0);
    ck_assert_uint_eq(hl_record_file_name("123456789", 1, 1, "h", out, 10), 9);
}
END_TEST

START_TEST(heap_page_sums_slots_and_survives_lies)
{
    struct hl_heap_header h = {.magic = HL_HEAP_PAGE_MAGIC,
                               .version = 1,
                               .size = HL_HEAP_PAGE_SIZE,
                               .pid = 7,
                               .rank = 1,
                               .peak_bytes = 500,
                               .n_slots_used = 2,
                               .load_mono_ns = 1000,
                               .inherited_bytes = 40,
                               .state = HL_HEAP_EXIT,
                               .end_status = 3,
                               .vmhwm_bytes = -1,
                               .vmrss_bytes = 4096};
    struct hl_heap_slot slots[2] = {{.allocs = 5, .frees = 2, .net_bytes = 300},
                                    {.allocs = 1, .frees = 3, .net_bytes = -100}};
    struct hl_record r;
    ck_assert(hl_heap_header_ok(&h) && hl_heap_slots_to_read(&h) == 2);
    hl_heap_record(&h, slots, 2, 2001000, &r);
    ck_assert(r.allocs == 6 && r.frees == 5 && r.live_bytes == 240 &&
              r.peak_bytes == 500);
    ck_assert(r.elapsed_ns == 2000000 && r.vmhwm_bytes == -1 && r.vmrss_bytes == 4096);
    h.peak_time_ns = 3;
    h.shared_peak_bytes = 501;
    h.shared_peak_time_ns = 9;
    hl_heap_record(&h, slots, 2, 2001000, &r);
    ck_assert(r.peak_bytes == 501 && r.peak_time_ns == 9);
    h.shared_peak_bytes = 499;
    hl_heap_record(&h, slots, 2, 2001000, &r);
    ck_assert(r.peak_bytes == 500 && r.peak_time_ns == 3);
    struct hl_end e = hl_heap_end(&h);
    ck_assert(e.kind == HL_ENDED_EXIT && e.status == 3);
    memset(&h, 0xff, sizeof h);
    memset(slots, 0x7f, sizeof slots);
    hl_heap_record(&h, slots, 2, INT64_MIN, &r);
    ck_assert(r.peak_bytes >= 0 && hl_heap_slots_to_read(&h) == HL_HEAP_N_SLOTS);
    ck_assert_uint_eq(strlen(r.host), HL_HOST_MAX);
}
END_TEST

static struct hl_heap_header true_page(struct hl_heap_slot slots[3])
{
    memset(slots, 0, 3 * sizeof *slots);
    slots[0] = (struct hl_heap_slot){.allocs = 900, .frees = 100, .net_bytes = 5000000};
    slots[1] = (struct hl_heap_slot){.allocs = 1, .frees = 700, .net_bytes = -4000000};
    return (struct hl_heap_header){.magic = HL_HEAP_PAGE_MAGIC,
                                   .version = HL_HEAP_PAGE_VERSION,
                                   .size = HL_HEAP_PAGE_SIZE,
                                   .pid = 77,
                                   .peak_bytes = 6000000,
                                   .n_slots_used = 2,
                                   .vmhwm_bytes = -1,
                                   .vmrss_bytes = 4096};
}

#define IS_SOUND(h, s) (hl_heap_fault(h, s, 3) == NULL)

START_TEST(pages_of_killed_processes_are_true_at_any_instant)
{
    struct hl_heap_slot s[3];
    struct hl_heap_header h = true_page(s);
    ck_assert(IS_SOUND(&h, s));
    s[0].allocs++; /* counted, its bytes not yet */
    ck_assert(IS_SOUND(&h, s));
    s[0].net_bytes += (int64_t)1 << 40; /* its bytes, the peak not yet */
    ck_assert(IS_SOUND(&h, s));
    h = true_page(s);
    h.n_slots_used = 3; /* taken, nothing counted */
    ck_assert(IS_SOUND(&h, s));
    h.inherited_bytes = -50; /* blocks from behind the agent's back */
    s[1].frees += 5000;
    s[1].net_bytes -= 9000000;
    ck_assert(IS_SOUND(&h, s));
    s[1].frees = s[0].allocs = (uint64_t)1 << 50; /* days of passing on */
    s[0].net_bytes = (int64_t)1 << 55;
    s[1].net_bytes = -s[0].net_bytes;
    ck_assert(IS_SOUND(&h, s));
    memset(s, 0, sizeof s); /* at the very start */
    h.n_slots_used = 0;
    h.peak_bytes = 0;
    ck_assert(IS_SOUND(&h, s));
}
END_TEST

/* What each of these 64 bits must not be flipped to in a page. */
static void flip(size_t at, int first_bit, const char *what)
{
    for (int bit = first_bit; bit < 64; bit++) {
        union {
            struct {
                struct hl_heap_header h;
                struct hl_heap_slot s[3];
            } page;
            uint8_t bytes[sizeof(struct hl_heap_header) + 3 * HL_HEAP_SLOT_SIZE];
        } u;
        u.page.h = true_page(u.page.s);
        u.bytes[at + (size_t)bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert_msg(!IS_SOUND(&u.page.h, u.page.s), "%s: bit %d", what, bit);
    }
}

#define FLIP(member, first) flip(offsetof(struct hl_heap_header, member), first, #member)
#define FLIP_SLOT(i, member, first)                                                      \
    flip(sizeof(struct hl_heap_header) + (i)*HL_HEAP_SLOT_SIZE +                         \
             offsetof(struct hl_heap_slot, member),                                      \
         first, #member " of slot " #i)

START_TEST(counters_that_cannot_be_are_told)
{
    FLIP(pid, 23);
    FLIP(peak_bytes, 47);
    FLIP(shared_peak_bytes, 47);
    FLIP(inherited_bytes, 23);
    FLIP(peak_time_ns, 61);
    FLIP(end_mono_ns, 61);
    FLIP(vmhwm_bytes, 0);
    FLIP(vmrss_bytes, 47);
    FLIP_SLOT(0, allocs, 47);
    FLIP_SLOT(0, frees, 57);
    FLIP_SLOT(0, net_bytes, 47);
    FLIP_SLOT(1, net_bytes, 57);
    FLIP_SLOT(2, allocs, 0);
    FLIP_SLOT(2, frees, 0);
    FLIP_SLOT(2, net_bytes, 0);
}
END_TEST

START_TEST(headers_that_cannot_be_are_told)
{
    struct hl_heap_slot s[3];
    struct hl_heap_header h = true_page(s);
    h.n_slots_used = 1; /* where the second has counted */
    ck_assert(!IS_SOUND(&h, s));
    h = true_page(s);
    h.state = 3;
    ck_assert(!IS_SOUND(&h, s));
    h = true_page(s);
    h.flags = 4;
    ck_assert(!IS_SOUND(&h, s));
    h = true_page(s);
    memset(h.host, 'x', sizeof h.host);
    ck_assert(!IS_SOUND(&h, s));
    memset(&h, 0xff, sizeof h);
    memset(s, 0xff, sizeof s);
    ck_assert(!IS_SOUND(&h, s));
    memset(s, 0x80, sizeof s);
    h = true_page(s);
    s[0].net_bytes = INT64_MIN;
    ck_assert(!IS_SOUND(&h, s));
}
END_TEST

START_TEST(ends_have_their_documented_names)
{
    char out[32];
    struct hl_end e = {HL_ENDED_SIGNAL, 9};
    hl_end_text(&e, out);
    ck_assert_str_eq(out, "signal:9");
    e = (struct hl_end){HL_ENDED_KILLED_OR_EXIT, 0};
    hl_end_text(&e, out);
    ck_assert_str_eq(out, "killed-or-_exit");
    e = (struct hl_end){HL_ENDED_EXIT, 255};
    hl_end_text(&e, out);
    ck_assert_str_eq(out, "exit:255");
}
END_TEST

START_TEST(region_paths_the_format_cannot_hold_are_named)
{
    static const char *const fine[] = {
        "a",          "a/b",   "step/halo exchange", "a/frame_scalars",
        "a/n_frames", "...",   "inclusive_x",        "\xc3\xa4/b",
        "bad\xff",    "\xe4/b"}; /* not UTF-8: the exports replace those bytes */
    static const char *const malformed[] = {"", "/", "a/", "/a", "a//b", "a\nb", "a\x7f"};
    static const char *const reserved[] = {".",           "..",        "a/./b",
                                           "a/..",        "inclusive", "a/exclusive",
                                           "exclusive/a", "n_frames",  "frame_scalars/a"};
    const char *why;
    char longest[HL_PATH_MAX + 2];
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        ck_assert_ptr_null(hl_path_fault(fine[i], strlen(fine[i])));
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        size_t n = strlen(malformed[i]);
        ck_assert_int_eq(hl_path_check(malformed[i], n, &why), HL_PATH_MALFORMED);
        ck_assert_str_eq(why, hl_path_fault(malformed[i], n));
    }
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        ck_assert_int_eq(hl_path_check(reserved[i], strlen(reserved[i]), NULL),
                         HL_PATH_RESERVED);
    memset(longest, 'x', sizeof longest);
    ck_assert_int_eq(hl_path_check(longest, HL_PATH_MAX, NULL), HL_PATH_OK);
    ck_assert_int_eq(hl_path_check(longest, HL_PATH_MAX + 1, NULL), HL_PATH_MALFORMED);
    ck_assert_int_eq(hl_path_check("a\0b", 3, NULL), HL_PATH_MALFORMED);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("leaf");
    TCase *t = tcase_create("leaf");
    tcase_add_test(t, crc32c_has_the_published_values);
    tcase_add_test(t, hello_goes_there_and_back);
    tcase_add_test(t, every_cut_of_a_hello_is_refused_or_short);
    tcase_add_test(t, every_flipped_bit_is_noticed);
    tcase_add_test(t, types_are_refused_by_direction_state_and_length);
    tcase_add_test(t, unknown_fields_are_skipped_unless_critical);
    tcase_add_test(t, catalog_goes_there_and_back);
    tcase_add_test(t, rows_keep_every_bit);
    tcase_add_test(t, record_text_is_that_of_the_specification);
    tcase_add_test(t, record_cleans_hosts_and_takes_extremes);
    tcase_add_test(t, record_message_goes_there_and_back);
    tcase_add_test(t, proc_goes_there_and_back);
    tcase_add_test(t, small_messages_go_there_and_back);
    tcase_add_test(t, control_messages_go_there_and_back);
    tcase_add_test(t, every_status_fits_its_message);
    tcase_add_test(t, every_status_fits_its_message);
    tcase_add_test(t, rank_and_size_follow_the_documented_order);
    tcase_add_test(t, keys_never_make_paths);
    tcase_add_test(t, file_names_say_whose_they_are);
    tcase_add_test(t, key_comes_from_the_first_variable_set);
    tcase_add_test(t, numbers_are_parsed_strictly);
    tcase_add_test(t, intervals_have_their_range);
    tcase_add_test(t, points_go_there_and_back);
    tcase_add_test(t, file_name_patterns_keep_what_they_do_not_know);
    tcase_add_test(t, heap_page_sums_slots_and_survives_lies);
    tcase_add_test(t, pages_of_killed_processes_are_true_at_any_instant);
    tcase_add_test(t, counters_that_cannot_be_are_told);
    tcase_add_test(t, headers_that_cannot_be_are_told);
    tcase_add_test(t, ends_have_their_documented_names);
    tcase_add_test(t, region_paths_the_format_cannot_hold_are_named);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
