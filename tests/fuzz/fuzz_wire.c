/* SPDX-License-Identifier: Apache-2.0
 *
 * Every decoder on any bytes: as a body of its type, whatever the checksum; and
 * whole messages as a receiver takes them.  What a decoder accepts must come out
 * the same when it is encoded again.
 */
#include "fuzz.h"
#include "seeds.h"
#include "tally.h"

#include <stdlib.h>
#include <string.h>

static void decode(unsigned type, const uint8_t *body, size_t n)
{
    static uint8_t again[HL_WIRE_HEADER + HL_WIRE_MAX_BODY];
    union {
        struct hl_hello hello;
        struct hl_hello_ok ok;
        struct hl_refused refused;
        struct hl_bye bye;
        struct hl_catalog_msg catalog;
        struct hl_rows rows;
        struct hl_record_msg record;
        struct hl_ended_msg ended;
        struct hl_state state;
        struct hl_proc proc;
        struct hl_index_end end;
        struct hl_pull pull;
        struct hl_data data;
        struct hl_spool_head head;
        struct hl_loss loss;
        uint64_t u64;
        uint32_t u32;
    } m;
    switch (type) {
    case HL_MSG_HELLO:
        if (!hl_decode_hello(body, n, &m.hello) &&
            hl_encode_hello(again, sizeof again, &m.hello) < 0)
            abort();
        break;
    case HL_MSG_HELLO_OK: hl_decode_hello_ok(body, n, &m.ok); break;
    case HL_MSG_REFUSED: hl_decode_refused(body, n, &m.refused); break;
    case HL_MSG_ACK: hl_decode_ack(body, n, &m.u64); break;
    case HL_MSG_BYE: hl_decode_bye(body, n, &m.bye); break;
    case HL_MSG_CATALOG:
        if (!hl_decode_catalog(body, n, &m.catalog)) {
            struct hl_reader r = hl_reader_on(m.catalog.names, m.catalog.names_bytes);
            struct hl_str s;
            uint64_t count = 0;
            int is_path;
            while (hl_catalog_next(&r, &is_path, &s))
                count += s.n > 0;
            if (count != (uint64_t)m.catalog.n_metrics + m.catalog.n_paths)
                abort();
        }
        break;
    case HL_MSG_ROWS:
        if (!hl_decode_rows(body, n, &m.rows))
            for (size_t i = 0; i < m.rows.n_cells; i++)
                hl_rows_cell(&m.rows, i);
        break;
    case HL_MSG_RECORD:
        if (!hl_decode_record(body, n, &m.record)) {
            char text[HL_RECORD_TEXT_MAX], end[32];
            if (!hl_record_text(&m.record.record, text, sizeof text))
                abort();
            hl_end_text(&m.record.end, end);
        }
        break;
    case HL_MSG_ENDED: hl_decode_ended(body, n, &m.ended); break;
    case HL_MSG_STATE: hl_decode_state(body, n, &m.state); break;
    case HL_MSG_INDEX_ASK: hl_decode_index_ask(body, n, &m.u32); break;
    case HL_MSG_PROC:
        if (!hl_decode_proc(body, n, &m.proc) &&
            hl_encode_proc(again, sizeof again, &m.proc) < 0)
            abort();
        break;
    case HL_MSG_INDEX_END: hl_decode_index_end(body, n, &m.end); break;
    case HL_MSG_PULL: hl_decode_pull(body, n, &m.pull); break;
    case HL_MSG_DATA: hl_decode_data(body, n, &m.data); break;
    case HL_MSG_SPOOL: hl_decode_spool_head(body, n, &m.head); break;
    case HL_MSG_LOSS: hl_decode_loss(body, n, &m.loss); break;
    default: break;
    }
}

static void as_stream(const uint8_t *data, size_t n)
{
    struct hl_tally t = {0};
    struct hl_wire_header h;
    size_t at = 0;
    const char *why;
    while (n - at >= HL_WIRE_HEADER && !hl_wire_header_get(data + at, n - at, &h) &&
           h.length <= n - at - HL_WIRE_HEADER) {
        hl_tally_take(&t, &h, data + at + HL_WIRE_HEADER, &why);
        at += HL_WIRE_HEADER + h.length;
    }
    hl_tally_fini(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used;
    if (!n)
        return 0;
    for (unsigned where = 1; where <= HL_IN_STREAM; where *= 2)
        for (unsigned state = 1; state <= HL_STATE_FILE; state *= 2)
            if (hl_wire_next(data, n, where, state, &h, &body, &used) == 0) {
                if (used > n)
                    abort();
                decode(h.type, body, h.length);
            }
    as_stream(data, n);
    if (n >= HL_WIRE_HEADER) /* whatever length and checksum say */
        decode(data[3], data + HL_WIRE_HEADER, n - HL_WIRE_HEADER);
    return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *out, size_t cap)
{
    return seed_message(i, out, cap);
}
