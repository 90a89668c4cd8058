/* SPDX-License-Identifier: Apache-2.0
 *
 * One right message of each type, for the seeds of the wire and of spools.
 */
#ifndef HL_SEEDS_H
#define HL_SEEDS_H

#include "control.h"
#include "messages.h"

#include <string.h>

/* What heaplinectl asks and is told. */
static int64_t seed_control(unsigned i, uint8_t *out, size_t cap)
{
    const struct hl_str s = {"text", 4};
    static struct hl_status status;
    struct hl_ask ask = {HL_ASK_FORGET, s};
    struct hl_job_line job = {.uid = 1, .state = 2, .n_processes = 3, .key = s};
    struct hl_live_line live = {.uid = 1, .pid = 7, .rank = -1, .key = s, .host = s};
    struct hl_user_line user = {.uid = 1, .n_connections = 2, .quota_bytes = 3};
    struct hl_slot slot = {1, HL_HELLO_PAGE, 7, 8, 9};
    memset(&status, 0, sizeof status);
    status.version = status.socket = status.spool = status.last_error = s;
    for (unsigned k = 0; k < HL_STATUS_N; k++) {
        status.value[k] = k;
        status.known[k] = 1;
    }
    struct hl_point point = {1, 2, 3, -1, 4, 5};
    switch (i) {
    case 0: return hl_encode_ask(out, cap, &ask);
    case 1: return hl_encode_status(out, cap, &status);
    case 2: return hl_encode_job_line(out, cap, &job);
    case 3: return hl_encode_live_line(out, cap, &live);
    case 4: return hl_encode_user_line(out, cap, &user);
    case 5: return hl_encode_done(out, cap, HL_DONE_DENIED, 3, "why");
    case 6: return hl_encode_held(out, cap, 28, "why");
    case 7: return hl_encode_slot(out, cap, &slot);
    case 8: return hl_encode_points(out, cap, &point, 1);
    default: return 0;
    }
}

/* Message i at out, or 0 when there are no more. */
static size_t seed_message(unsigned i, uint8_t *out, size_t cap)
{
    const struct hl_str s = {"text", 4}, none = {"", 0};
    struct hl_hello h = {.wire_min = 1,
                         .wire_max = 1,
                         .role = HL_ROLE_FRAMES,
                         .pid = 7,
                         .start_ticks = 9,
                         .image = 11,
                         .rank = 1,
                         .size = 2,
                         .key = s,
                         .host = s,
                         .job = none,
                         .app_version = none};
    struct hl_record_msg r = {.record = {.rank = 1,
                                         .pid = 7,
                                         .host = "h",
                                         .job = "j",
                                         .allocs = 5,
                                         .frees = 4,
                                         .peak_bytes = 3,
                                         .live_bytes = 2},
                              .end = {HL_ENDED_EXIT, 0},
                              .n_points = 6};
    struct hl_hello_ok ok = {1, 5};
    struct hl_bye bye = {1, 2};
    struct hl_loss loss = {3, 4};
    struct hl_ended_msg ended = {.pid = 7, .end = {HL_ENDED_SIGNAL, 9}};
    struct hl_state state = {1, 2, 3, 4, 0};
    struct hl_proc proc = {.id = 1, .hello = h, .heap = r};
    struct hl_index_end index_end = {1, 0};
    struct hl_pull pull = {1, HL_PULL_STREAM, 5, 100};
    struct hl_data data = {1, HL_PULL_STREAM, 5, (const uint8_t *)"bytes", 5};
    struct hl_spool_head head = {1, 0, 7, 9, 11, 0, s};
    struct hl_catalog_msg c = {.id = 1};
    struct hl_rows rows = {.catalog = 1, .n_cells = 3};
    int64_t n = 0;
    switch (i) {
    case 0: n = hl_encode_spool_head(out, cap, &head); break;
    case 1: n = hl_encode_hello(out, cap, &h); break;
    case 2: {
        struct hl_writer w = hl_catalog_begin(out, cap, &c);
        hl_catalog_add_metric(&w, "step");
        hl_catalog_add_path(&w, "main");
        n = hl_message_end(&w, HL_MSG_CATALOG);
        break;
    }
    case 3:
        for (size_t k = 0; k < 24; k++)
            out[HL_WIRE_HEADER + HL_ROWS_HEAD + k] = (uint8_t)k;
        n = hl_encode_rows_in_place(out, cap, &rows);
        break;
    case 4: n = hl_encode_record(out, cap, &r); break;
    case 5: n = hl_encode_bye(out, cap, &bye); break;
    case 6: n = hl_encode_loss(out, cap, &loss); break;
    case 7: n = hl_encode_hello_ok(out, cap, &ok); break;
    case 8: n = hl_encode_refused(out, cap, HL_REFUSED_LIMIT, "why"); break;
    case 9: n = hl_encode_ack(out, cap, 77); break;
    case 10: n = hl_encode_ended(out, cap, &ended); break;
    case 11: n = hl_encode_state_ask(out, cap); break;
    case 12: n = hl_encode_state(out, cap, &state); break;
    case 13: n = hl_encode_index_ask(out, cap, 5); break;
    case 14: n = hl_encode_proc(out, cap, &proc); break;
    case 15: n = hl_encode_index_end(out, cap, &index_end); break;
    case 16: n = hl_encode_pull(out, cap, &pull); break;
    case 17: n = hl_encode_data(out, cap, &data); break;
    case 18: n = hl_encode_taken(out, cap); break;
    case 19: n = hl_encode_taken_ok(out, cap); break;
    default: n = seed_control(i - 20, out, cap);
    }
    return n > 0 ? (size_t)n : 0;
}

#endif
