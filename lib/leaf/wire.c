/* SPDX-License-Identifier: Apache-2.0
 *
 * Header, type table, checksum, field reader and writer; see wire.h.
 */
#include "wire.h"

#include <string.h>

#define CL HL_STATE_CLIENT
#define KE HL_STATE_KEEPER
#define GA HL_STATE_GATHER
#define FI HL_STATE_FILE
#define UP HL_TO_COLLECTOR
#define DOWN HL_FROM_COLLECTOR

static const struct hl_wire_type types[HL_MSG_N_TYPES] = {
    [HL_MSG_HELLO] = {"HELLO", UP | HL_IN_SPOOL, HL_STATE_NEW | FI, 16, 4096},
    [HL_MSG_HELLO_OK] = {"HELLO_OK", DOWN, HL_STATE_ANY, 16, 16},
    [HL_MSG_REFUSED] = {"REFUSED", DOWN, HL_STATE_ANY, 4, 1024},
    [HL_MSG_CATALOG] = {"CATALOG", UP | HL_IN_SPOOL | HL_IN_STREAM, CL | FI, 12, 65536},
    [HL_MSG_ROWS] = {"ROWS", UP | HL_IN_SPOOL | HL_IN_STREAM, CL | FI, 24, 24 + 262144},
    [HL_MSG_ACK] = {"ACK", DOWN, HL_STATE_ANY, 8, 8},
    [HL_MSG_BYE] = {"BYE", UP | HL_IN_SPOOL, CL | FI, 16, 16},
    [HL_MSG_RECORD] = {"RECORD", UP | HL_IN_SPOOL, CL | FI, 16, 4096},
    [HL_MSG_ENDED] = {"ENDED", UP, KE, 24, 24},
    [HL_MSG_STATE_ASK] = {"STATE_ASK", UP, KE | GA, 0, 0},
    [HL_MSG_STATE] = {"STATE", DOWN, HL_STATE_ANY, 32, 32},
    [HL_MSG_INDEX_ASK] = {"INDEX_ASK", UP, GA, 4, 4},
    [HL_MSG_PROC] = {"PROC", DOWN, HL_STATE_ANY, 16, 8192},
    [HL_MSG_INDEX_END] = {"INDEX_END", DOWN, HL_STATE_ANY, 16, 16},
    [HL_MSG_PULL] = {"PULL", UP, GA, 20, 20},
    [HL_MSG_DATA] = {"DATA", DOWN, HL_STATE_ANY, 16, HL_WIRE_MAX_BODY},
    [HL_MSG_TAKEN] = {"TAKEN", UP, GA, 0, 0},
    [HL_MSG_TAKEN_OK] = {"TAKEN_OK", DOWN, HL_STATE_ANY, 0, 0},
    [HL_MSG_SPOOL] = {"SPOOL", HL_IN_SPOOL, FI, 16, 4096},
    [HL_MSG_LOSS] = {"LOSS", HL_IN_SPOOL, FI, 16, 16},
    [HL_MSG_SLOT] = {"SLOT", HL_IN_SPOOL, FI, 32, 32},
    [HL_MSG_HELD] = {"HELD", DOWN, HL_STATE_ANY, 4, 1024},
    [HL_MSG_ASK] = {"ASK", UP, HL_STATE_CONTROL, 8, 264},
    [HL_MSG_STATUS] = {"STATUS", DOWN, HL_STATE_ANY, 0, 8192},
    [HL_MSG_JOB] = {"JOB", DOWN, HL_STATE_ANY, 16, 2048},
    [HL_MSG_LIVE] = {"LIVE", DOWN, HL_STATE_ANY, 16, 2048},
    [HL_MSG_USER] = {"USER", DOWN, HL_STATE_ANY, 16, 2048},
    [HL_MSG_DONE] = {"DONE", DOWN, HL_STATE_ANY, 16, 1024},
    [HL_MSG_POINTS] = {"POINTS", HL_IN_SPOOL, FI, 48, 4096 * 48},
};

const struct hl_wire_type *hl_wire_type(unsigned type)
{
    return type < HL_MSG_N_TYPES && types[type].name ? &types[type] : NULL;
}

static uint32_t load32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static void store32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

int hl_wire_header_get(const uint8_t *p, size_t n, struct hl_wire_header *out)
{
    if (n < HL_WIRE_HEADER)
        return HL_WIRE_SHORT;
    if ((p[0] | p[1] << 8) != HL_WIRE_MAGIC)
        return HL_WIRE_BAD_MAGIC;
    if (p[2] < HL_WIRE_VERSION_MIN || p[2] > HL_WIRE_VERSION)
        return HL_WIRE_BAD_VERSION;
    if (load32(p + 12) != 0)
        return HL_WIRE_BAD_VALUE;
    out->version = p[2];
    out->type = p[3];
    out->length = load32(p + 4);
    out->crc = load32(p + 8);
    return 0;
}

int hl_wire_check(const struct hl_wire_header *h, unsigned where, unsigned state)
{
    const struct hl_wire_type *t = hl_wire_type(h->type);
    if (!t || !(t->where & where) || !(t->states & state))
        return HL_WIRE_BAD_TYPE;
    if (h->length < t->min || h->length > t->max)
        return HL_WIRE_BAD_LENGTH;
    return 0;
}

static void head8(uint8_t *p, unsigned version, unsigned type, uint32_t length)
{
    p[0] = HL_WIRE_MAGIC & 0xff;
    p[1] = HL_WIRE_MAGIC >> 8;
    p[2] = (uint8_t)version;
    p[3] = (uint8_t)type;
    store32(p + 4, length);
}

int hl_wire_crc_check(const struct hl_wire_header *h, const uint8_t *body)
{
    uint8_t p[8];
    head8(p, h->version, h->type, h->length);
    return hl_crc32c(hl_crc32c(0, p, 8), body, h->length) == h->crc ? 0 : HL_WIRE_BAD_CRC;
}

void hl_wire_header_put(uint8_t *p, unsigned type, const uint8_t *body, uint32_t length)
{
    head8(p, HL_WIRE_VERSION, type, length);
    store32(p + 8, hl_crc32c(hl_crc32c(0, p, 8), body, length));
    store32(p + 12, 0);
}

int hl_wire_next(const uint8_t *p, size_t n, unsigned where, unsigned state,
                 struct hl_wire_header *h, const uint8_t **body, size_t *used)
{
    int e = hl_wire_header_get(p, n, h);
    if (!e)
        e = hl_wire_check(h, where, state);
    if (e)
        return e;
    if (n - HL_WIRE_HEADER < h->length)
        return HL_WIRE_SHORT;
    e = hl_wire_crc_check(h, p + HL_WIRE_HEADER);
    if (e)
        return e;
    *body = p + HL_WIRE_HEADER;
    *used = HL_WIRE_HEADER + (size_t)h->length;
    return 0;
}

const char *hl_wire_strerror(int code)
{
    switch (code) {
    case HL_WIRE_OK: return "no fault";
    case HL_WIRE_SHORT: return "the message is cut short";
    case HL_WIRE_BAD_MAGIC: return "this is not a heapline message";
    case HL_WIRE_BAD_VERSION: return "unknown protocol version";
    case HL_WIRE_BAD_TYPE: return "a message of this type is not expected here";
    case HL_WIRE_BAD_LENGTH: return "the message's length is out of bounds";
    case HL_WIRE_BAD_CRC: return "the checksum does not match";
    case HL_WIRE_BAD_FIELD: return "a field is missing, repeated, too long or unknown";
    case HL_WIRE_BAD_VALUE: return "a value is out of range";
    case HL_WIRE_NO_SPACE: return "the message does not fit";
    case HL_WIRE_TRAILING: return "bytes behind the end of the message";
    default: return "unknown fault";
    }
}

/* ---- reader ---- */

const uint8_t *hl_get_bytes(struct hl_reader *r, size_t n)
{
    if (r->fault || hl_reader_left(r) < n) {
        r->fault = HL_WIRE_SHORT;
        return NULL;
    }
    const uint8_t *p = r->p;
    r->p += n;
    return p;
}

uint8_t hl_get_u8(struct hl_reader *r)
{
    const uint8_t *p = hl_get_bytes(r, 1);
    return p ? *p : 0;
}

uint16_t hl_get_u16(struct hl_reader *r)
{
    const uint8_t *p = hl_get_bytes(r, 2);
    return p ? (uint16_t)(p[0] | p[1] << 8) : 0;
}

uint32_t hl_get_u32(struct hl_reader *r)
{
    const uint8_t *p = hl_get_bytes(r, 4);
    return p ? load32(p) : 0;
}

uint64_t hl_get_u64(struct hl_reader *r)
{
    const uint8_t *p = hl_get_bytes(r, 8);
    return p ? load32(p) | (uint64_t)load32(p + 4) << 32 : 0;
}

int hl_reader_done(const struct hl_reader *r)
{
    if (r->fault)
        return r->fault;
    return r->p == r->end ? 0 : HL_WIRE_TRAILING;
}

int hl_get_field(struct hl_reader *r, struct hl_field *f)
{
    if (r->fault)
        return r->fault;
    if (r->p == r->end)
        return 0;
    f->tag = hl_get_u16(r);
    f->n = hl_get_u16(r);
    f->p = hl_get_bytes(r, f->n);
    return r->fault ? HL_WIRE_BAD_FIELD : 1;
}

int hl_field_u64(const struct hl_field *f, uint64_t *out)
{
    if (f->n != 8)
        return HL_WIRE_BAD_FIELD;
    *out = load32(f->p) | (uint64_t)load32(f->p + 4) << 32;
    return 0;
}

int hl_field_i64(const struct hl_field *f, int64_t *out)
{
    uint64_t v;
    int e = hl_field_u64(f, &v);
    if (!e)
        memcpy(out, &v, sizeof v);
    return e;
}

int hl_field_str(const struct hl_field *f, size_t max, struct hl_str *out)
{
    if (f->n > max)
        return HL_WIRE_BAD_FIELD;
    for (size_t i = 0; i < f->n; i++)
        if (!f->p[i])
            return HL_WIRE_BAD_VALUE;
    out->p = (const char *)f->p;
    out->n = f->n;
    return 0;
}

/* ---- writer ---- */

void hl_put_bytes(struct hl_writer *w, const void *p, size_t n)
{
    if (w->n <= w->cap && n <= w->cap - w->n && n)
        memcpy(w->p + w->n, p, n);
    w->n += n;
}

void hl_put_u8(struct hl_writer *w, uint8_t v)
{
    hl_put_bytes(w, &v, 1);
}

void hl_put_u16(struct hl_writer *w, uint16_t v)
{
    uint8_t b[2] = {(uint8_t)v, (uint8_t)(v >> 8)};
    hl_put_bytes(w, b, 2);
}

void hl_put_u32(struct hl_writer *w, uint32_t v)
{
    uint8_t b[4];
    store32(b, v);
    hl_put_bytes(w, b, 4);
}

void hl_put_u64(struct hl_writer *w, uint64_t v)
{
    uint8_t b[8];
    store32(b, (uint32_t)v);
    store32(b + 4, (uint32_t)(v >> 32));
    hl_put_bytes(w, b, 8);
}

void hl_put_field_u64(struct hl_writer *w, unsigned tag, uint64_t v)
{
    hl_put_u16(w, (uint16_t)tag);
    hl_put_u16(w, 8);
    hl_put_u64(w, v);
}

void hl_put_field_str(struct hl_writer *w, unsigned tag, struct hl_str s)
{
    size_t n = s.n > UINT16_MAX ? UINT16_MAX : s.n;
    hl_put_u16(w, (uint16_t)tag);
    hl_put_u16(w, (uint16_t)n);
    hl_put_bytes(w, s.p, n);
}

struct hl_writer hl_message_begin(uint8_t *p, size_t cap)
{
    struct hl_writer w = hl_writer_on(p, cap);
    w.n = HL_WIRE_HEADER;
    return w;
}

int64_t hl_message_end(struct hl_writer *w, unsigned type)
{
    const struct hl_wire_type *t = hl_wire_type(type);
    size_t body = w->n - HL_WIRE_HEADER;
    if (w->n > w->cap || !t || body > t->max)
        return HL_WIRE_NO_SPACE;
    hl_wire_header_put(w->p, type, w->p + HL_WIRE_HEADER, (uint32_t)body);
    return (int64_t)w->n;
}
