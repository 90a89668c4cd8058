/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of a connection without a socket: what may come in which state, what
 * is counted, what is refused and why, at every cut of the bytes.
 */
#include "session.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct hl_tally tally;
static uint8_t buf[1 << 19];
static struct hl_event e;

static struct hl_session in_state(enum hl_wire_state state, enum hl_role role)
{
    return (struct hl_session){state, role, 1 << 20, &tally};
}

static void tear_down(void)
{
    hl_tally_fini(&tally);
}

static size_t hello(uint8_t *out, unsigned role, unsigned lo, unsigned hi)
{
    struct hl_hello h = {.wire_min = (uint8_t)lo,
                         .wire_max = (uint8_t)hi,
                         .role = (uint8_t)role,
                         .key = {"k", 1},
                         .host = {"h", 1},
                         .job = {"", 0},
                         .app_version = {"", 0}};
    return (size_t)hl_encode_hello(out, 4096, &h);
}

static size_t catalog(uint8_t *out, uint32_t id)
{
    struct hl_catalog_msg m = {.id = id, .base = id - 1, .first_metric = id - 1};
    struct hl_writer w = hl_catalog_begin(out, 4096, &m);
    hl_catalog_add_metric(&w, "metric");
    return (size_t)hl_message_end(&w, HL_MSG_CATALOG);
}

static size_t row(uint8_t *out, uint32_t id, uint64_t number)
{
    struct hl_rows m = {.catalog = id, .n_cells = id, .first_row = number};
    memset(out, 0, 4096);
    return (size_t)hl_encode_rows_in_place(out, 4096, &m);
}

START_TEST(a_stream_is_counted_at_every_cut)
{
    const struct hl_session s = in_state(HL_STATE_CLIENT, HL_ROLE_FRAMES);
    size_t n = catalog(buf, 1), at = 0;
    for (uint64_t i = 0; i < 3; i++)
        n += row(buf + n, 1, i);
    for (size_t end = 0; end <= n; end++) {
        hl_session_next(&s, buf + at, end - at, &e);
        ck_assert_int_ne(e.kind, HL_EVENT_REFUSED);
        if (e.kind == HL_EVENT_SHORT)
            continue;
        ck_assert_int_eq(e.kind, HL_EVENT_STREAM);
        ck_assert_uint_eq(at + e.used, end);
        at = end;
    }
    ck_assert_uint_eq(at, n);
    ck_assert_uint_eq(tally.n_rows, 3);
}
END_TEST

START_TEST(every_type_is_taken_in_its_states_alone)
{
    static const enum hl_wire_state states[] = {HL_STATE_NEW, HL_STATE_CLIENT,
                                                HL_STATE_KEEPER, HL_STATE_GATHER,
                                                HL_STATE_CONTROL};
    for (unsigned type = 0; type < 256; type++)
        for (size_t i = 0; i < 5; i++) {
            const struct hl_session s = in_state(states[i], HL_ROLE_FRAMES);
            const struct hl_wire_type *t = hl_wire_type(type);
            uint32_t length = t ? t->min : 16;
            int fits = t && t->where & HL_TO_COLLECTOR && t->states & states[i];
            memset(buf, 0, 4096);
            hl_wire_header_put(buf, type, buf + HL_WIRE_HEADER, length);
            hl_session_next(&s, buf, HL_WIRE_HEADER + length, &e);
            if (!fits) {
                ck_assert_int_eq(e.kind, HL_EVENT_REFUSED);
                ck_assert_int_eq(e.code, HL_REFUSED_PROTOCOL);
                ck_assert_int_gt((int)strlen(e.why), 10);
            } else if (t->where & HL_IN_STREAM) /* zeros are no catalog and no rows */
                ck_assert_int_eq(e.kind, HL_EVENT_REFUSED);
            else
                ck_assert_int_eq(e.kind, HL_EVENT_MESSAGE);
        }
}
END_TEST

START_TEST(a_length_is_refused_before_the_body_has_come)
{
    struct hl_session s = in_state(HL_STATE_CLIENT, HL_ROLE_FRAMES);
    size_t n = row(buf, 1, 0);
    s.max_message = 16;
    hl_session_next(&s, buf, HL_WIRE_HEADER, &e);
    ck_assert_int_eq(e.kind, HL_EVENT_REFUSED);
    s.max_message = 1 << 20;
    hl_session_next(&s, buf, HL_WIRE_HEADER, &e);
    ck_assert_int_eq(e.kind, HL_EVENT_SHORT);
    memset(buf + 4, 0xff, 4); /* 4 GiB */
    hl_session_next(&s, buf, n, &e);
    ck_assert_int_eq(e.kind, HL_EVENT_REFUSED);
}
END_TEST

START_TEST(a_damaged_byte_is_never_taken)
{
    const struct hl_session s = in_state(HL_STATE_CLIENT, HL_ROLE_FRAMES);
    uint8_t good[256];
    size_t n = catalog(good, 1);
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(buf, good, n);
            buf[i] ^= (uint8_t)(1 << bit);
            hl_session_next(&s, buf, n, &e);
            ck_assert(e.kind == HL_EVENT_REFUSED || e.kind == HL_EVENT_SHORT);
        }
    ck_assert_uint_eq(tally.n_levels, 0);
}
END_TEST

START_TEST(rows_are_for_clients_of_the_library_alone)
{
    const struct hl_session s = in_state(HL_STATE_CLIENT, HL_ROLE_HEAP);
    size_t n = catalog(buf, 1);
    for (size_t end = 0; end <= n; end++) { /* told by the header alone */
        hl_session_next(&s, buf, end, &e);
        ck_assert_int_eq(e.kind,
                         end < HL_WIRE_HEADER ? HL_EVENT_SHORT : HL_EVENT_REFUSED);
    }
    ck_assert_str_eq(e.why, "rows from a heap agent");
}
END_TEST

START_TEST(rows_need_the_catalog_they_name)
{
    const struct hl_session s = in_state(HL_STATE_CLIENT, HL_ROLE_FRAMES);
    hl_session_next(&s, buf, row(buf, 2, 0), &e);
    ck_assert_int_eq(e.kind, HL_EVENT_REFUSED);
    ck_assert_ptr_nonnull(strstr(e.why, "ROWS: rows of a catalog that has not come"));
    hl_session_next(&s, buf, catalog(buf, 1), &e);
    ck_assert_int_eq(e.kind, HL_EVENT_STREAM);
    hl_session_next(&s, buf, catalog(buf, 2), &e);
    ck_assert_int_eq(e.kind, HL_EVENT_STREAM);
    hl_session_next(&s, buf, row(buf, 2, 0), &e);
    ck_assert_int_eq(e.kind, HL_EVENT_STREAM);
    ck_assert_uint_eq(tally.n_rows, 1);
}
END_TEST

START_TEST(versions_are_agreed_on_or_named)
{
    struct hl_hello h;
    char why[160] = "";
    size_t n = hello(buf, HL_ROLE_GATHER, 1, 200);
    ck_assert_int_eq(hl_session_hello(buf + 16, n - 16, &h, why), 0);
    ck_assert_int_eq(h.role, HL_ROLE_GATHER);
    n = hello(buf, HL_ROLE_HEAP, HL_WIRE_VERSION + 1, 200);
    ck_assert_int_eq(hl_session_hello(buf + 16, n - 16, &h, why), HL_REFUSED_VERSION);
    ck_assert_ptr_nonnull(strstr(why, "2 to 200"));
    ck_assert_int_eq(hl_session_hello(buf + 16, n - 17, &h, why), HL_REFUSED_PROTOCOL);
    ck_assert_int_eq(strncmp(why, "HELLO: ", 7), 0);
    const struct hl_session s = in_state(HL_STATE_NEW, HL_ROLE_FRAMES);
    n = hello(buf, HL_ROLE_FRAMES, 1, 1);
    buf[2] = HL_WIRE_VERSION + 1;
    hl_session_next(&s, buf, n, &e);
    ck_assert_int_eq(e.code, HL_REFUSED_VERSION);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("session");
    TCase *t = tcase_create("session");
    tcase_add_checked_fixture(t, NULL, tear_down);
    tcase_add_test(t, a_stream_is_counted_at_every_cut);
    tcase_add_test(t, every_type_is_taken_in_its_states_alone);
    tcase_add_test(t, a_length_is_refused_before_the_body_has_come);
    tcase_add_test(t, a_damaged_byte_is_never_taken);
    tcase_add_test(t, rows_are_for_clients_of_the_library_alone);
    tcase_add_test(t, rows_need_the_catalog_they_name);
    tcase_add_test(t, versions_are_agreed_on_or_named);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
