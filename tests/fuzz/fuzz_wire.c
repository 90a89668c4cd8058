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

/* What a decoder accepts can be encoded again, to what it accepts again. */
#define AGAIN(kind, m)                                                                   \
    do {                                                                                 \
        int64_t k = hl_encode_##kind(again, sizeof again, m);                            \
        if (k < HL_WIRE_HEADER ||                                                        \
            hl_decode_##kind(again + HL_WIRE_HEADER, (size_t)k - HL_WIRE_HEADER, m))     \
            abort();                                                                     \
    } while (0)

static uint8_t again[HL_WIRE_HEADER + HL_WIRE_MAX_BODY];

static int decode_catalog(const uint8_t *body, size_t n)
{
    struct hl_catalog_msg m;
    int code = hl_decode_catalog(body, n, &m);
    if (code)
        return code;
    struct hl_reader r = hl_reader_on(m.names, m.names_bytes);
    struct hl_str s;
    uint64_t count = 0;
    int is_path;
    while (hl_catalog_next(&r, &is_path, &s))
        count += s.n > 0;
    if (count != (uint64_t)m.n_metrics + m.n_paths)
        abort();
    return 0;
}

static int decode_rows(const uint8_t *body, size_t n)
{
    struct hl_rows m;
    volatile double sum = 0;
    int code = hl_decode_rows(body, n, &m);
    for (size_t i = 0; !code && i < m.n_cells; i++)
        sum = sum + hl_rows_cell(&m, i);
    return code;
}

static int decode_record(const uint8_t *body, size_t n)
{
    char text[HL_RECORD_TEXT_MAX], end[32];
    struct hl_record_msg m;
    int code = hl_decode_record(body, n, &m);
    if (code)
        return code;
    if (!hl_record_text(&m.record, text, sizeof text))
        abort();
    hl_end_text(&m.end, end);
    AGAIN(record, &m);
    return 0;
}

static int decode_points(const uint8_t *body, size_t n)
{
    uint8_t bytes[HL_POINT_BYTES];
    size_t n_points;
    int code = hl_decode_points(body, n, &n_points);
    for (size_t i = 0; !code && i < n_points; i++) {
        struct hl_point p;
        hl_point_get(body + i * HL_POINT_BYTES, &p);
        hl_point_put(bytes, &p);
        if (memcmp(bytes, body + i * HL_POINT_BYTES, HL_POINT_BYTES))
            abort();
    }
    return code;
}

/* Messages whose structure is encoded by its address alone. */
#define PLAIN(TYPE, kind, structure)                                                     \
    case HL_MSG_##TYPE: {                                                                \
        struct structure m;                                                              \
        int code = hl_decode_##kind(body, n, &m);                                        \
        if (!code)                                                                       \
            AGAIN(kind, &m);                                                             \
        return code;                                                                     \
    }

static int decode_control(unsigned type, const uint8_t *body, size_t n)
{
    struct hl_done done;
    struct hl_held held;
    switch (type) {
        PLAIN(ASK, ask, hl_ask)
        PLAIN(STATUS, status, hl_status)
        PLAIN(JOB, job_line, hl_job_line)
        PLAIN(LIVE, live_line, hl_live_line)
        PLAIN(USER, user_line, hl_user_line)
        PLAIN(SLOT, slot, hl_slot)
    case HL_MSG_DONE: return hl_decode_done(body, n, &done);
    case HL_MSG_HELD: return hl_decode_held(body, n, &held);
    case HL_MSG_POINTS: return decode_points(body, n);
    default: return HL_WIRE_BAD_TYPE;
    }
}

static int decode(unsigned type, const uint8_t *body, size_t n)
{
    struct hl_refused refused;
    uint64_t u64;
    uint32_t u32;
    switch (type) {
        PLAIN(HELLO, hello, hl_hello)
        PLAIN(HELLO_OK, hello_ok, hl_hello_ok)
        PLAIN(BYE, bye, hl_bye)
        PLAIN(ENDED, ended, hl_ended_msg)
        PLAIN(STATE, state, hl_state)
        PLAIN(PROC, proc, hl_proc)
        PLAIN(INDEX_END, index_end, hl_index_end)
        PLAIN(PULL, pull, hl_pull)
        PLAIN(SPOOL, spool_head, hl_spool_head)
        PLAIN(LOSS, loss, hl_loss)
        PLAIN(DATA, data, hl_data)
    case HL_MSG_REFUSED: return hl_decode_refused(body, n, &refused);
    case HL_MSG_ACK: return hl_decode_ack(body, n, &u64);
    case HL_MSG_CATALOG: return decode_catalog(body, n);
    case HL_MSG_ROWS: return decode_rows(body, n);
    case HL_MSG_RECORD: return decode_record(body, n);
    case HL_MSG_INDEX_ASK: return hl_decode_index_ask(body, n, &u32);
    case HL_MSG_STATE_ASK:
    case HL_MSG_TAKEN:
    case HL_MSG_TAKEN_OK: return n ? HL_WIRE_TRAILING : 0;
    default: return decode_control(type, body, n);
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
        for (unsigned state = 1; state <= HL_STATE_CONTROL; state *= 2)
            if (hl_wire_next(data, n, where, state, &h, &body, &used) == 0) {
                if (used > n)
                    abort();
                decode(h.type, body, h.length);
            }
    as_stream(data, n);
    /* Whatever length and checksum say; encoders know no longer bodies. */
    if (n >= HL_WIRE_HEADER && n <= HL_WIRE_HEADER + HL_WIRE_MAX_BODY)
        decode(data[3], data + HL_WIRE_HEADER, n - HL_WIRE_HEADER);
    return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *out, size_t cap)
{
    return seed_message(i, out, cap);
}

int fuzz_seeds_right(void)
{
    static uint8_t buf[1 << 16];
    int seen[HL_MSG_N_TYPES] = {0};
    size_t n;
    for (unsigned i = 0; (n = fuzz_seed(i, buf, sizeof buf)) > 0; i++) {
        struct hl_wire_header h;
        if (hl_wire_header_get(buf, n, &h) || h.length != n - HL_WIRE_HEADER ||
            hl_wire_crc_check(&h, buf + HL_WIRE_HEADER) || !hl_wire_type(h.type) ||
            h.length < hl_wire_type(h.type)->min ||
            h.length > hl_wire_type(h.type)->max ||
            decode(h.type, buf + HL_WIRE_HEADER, h.length))
            return -1;
        seen[h.type] = 1;
    }
    for (int type = 1; type < HL_MSG_N_TYPES; type++)
        if (hl_wire_type((unsigned)type) && !seen[type])
            return -1;
    return 0;
}
