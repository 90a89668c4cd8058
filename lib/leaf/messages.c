/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoders and decoders of every message; see messages.h.
 */
#include "messages.h"

#include "bound.h"

#include <string.h>

/* ---- small helpers ---- */

static struct hl_str text_of(const char *s, size_t max)
{
    return (struct hl_str){s, hl_text_length(s, max)};
}

static int64_t as_i64(uint64_t v)
{
    int64_t i;
    memcpy(&i, &v, sizeof i);
    return i;
}

static int i32_field(const struct hl_field *f, int64_t lo, int32_t *out)
{
    int64_t v;
    int e = hl_field_i64(f, &v);
    if (e)
        return e;
    if (v < lo || v > INT32_MAX)
        return HL_WIRE_BAD_VALUE;
    *out = (int32_t)v;
    return 0;
}

static int u32_field(const struct hl_field *f, uint32_t *out)
{
    uint64_t v;
    int e = hl_field_u64(f, &v);
    if (e)
        return e;
    if (v > UINT32_MAX)
        return HL_WIRE_BAD_VALUE;
    *out = (uint32_t)v;
    return 0;
}

static int copy_field(const struct hl_field *f, size_t max, char *out)
{
    struct hl_str s;
    int e = hl_field_str(f, max, &s);
    if (e)
        return e;
    memcpy(out, s.p, s.n);
    out[s.n] = 0;
    return 0;
}

static int nonnegative(const struct hl_field *f, int64_t *out)
{
    int64_t v;
    int e = hl_field_i64(f, &v);
    if (e)
        return e;
    if (v < 0)
        return HL_WIRE_BAD_VALUE;
    *out = v;
    return 0;
}

/* Marks tag as seen; a second one is a fault.  Tags of one message are below
 * 64 apart from the critical bit. */
static int seen_once(uint64_t *seen, unsigned tag)
{
    uint64_t bit = (uint64_t)1 << (tag & 63);
    if (*seen & bit)
        return HL_WIRE_BAD_FIELD;
    *seen |= bit;
    return 0;
}

static int has(uint64_t seen, unsigned tag)
{
    return (int)(seen >> tag & 1);
}

/* ---- HELLO ---- */

enum {
    H_WIRE = 1,
    H_ROLE = 2,
    H_FLAGS = 3,
    H_PID = 4,
    H_START = 5,
    H_IMAGE = 6,
    H_RANK = 7,
    H_SIZE = 8,
    H_INTERVAL = 9,
    H_KEY = 10,
    H_HOST = 11,
    H_JOB = 12,
    H_APP = 13,
    H_TAGS_END = 14
};

static void put_hello_fields(struct hl_writer *w, const struct hl_hello *h)
{
    hl_put_field_u64(w, H_WIRE, (uint64_t)h->wire_min | (uint64_t)h->wire_max << 8);
    hl_put_field_u64(w, H_ROLE, h->role);
    hl_put_field_u64(w, H_FLAGS, h->flags);
    hl_put_field_u64(w, H_PID, (uint64_t)h->pid);
    hl_put_field_u64(w, H_START, h->start_ticks);
    hl_put_field_u64(w, H_IMAGE, h->image);
    hl_put_field_u64(w, H_RANK, (uint64_t)(int64_t)h->rank);
    hl_put_field_u64(w, H_SIZE, (uint64_t)(int64_t)h->size);
    hl_put_field_u64(w, H_INTERVAL, (uint64_t)h->interval_ns);
    hl_put_field_str(w, H_KEY, h->key);
    hl_put_field_str(w, H_HOST, h->host);
    hl_put_field_str(w, H_JOB, h->job);
    hl_put_field_str(w, H_APP, h->app_version);
}

static int wire_range(const struct hl_field *f, struct hl_hello *out)
{
    uint64_t v;
    int e = hl_field_u64(f, &v);
    if (e)
        return e;
    out->wire_min = (uint8_t)v;
    out->wire_max = (uint8_t)(v >> 8);
    return v > 0xffff || !out->wire_min || out->wire_max < out->wire_min
               ? HL_WIRE_BAD_VALUE
               : 0;
}

static int take_hello_field(const struct hl_field *f, struct hl_hello *out)
{
    uint32_t v = 0;
    int e;
    switch (f->tag) {
    case H_WIRE: return wire_range(f, out);
    case H_ROLE:
        e = u32_field(f, &v);
        if (!e && (v < HL_ROLE_HEAP || v > HL_ROLE_CONTROL))
            e = HL_WIRE_BAD_VALUE;
        out->role = (uint8_t)v;
        return e;
    case H_FLAGS: return u32_field(f, &out->flags);
    case H_PID: return nonnegative(f, &out->pid);
    case H_START: return hl_field_u64(f, &out->start_ticks);
    case H_IMAGE: return hl_field_u64(f, &out->image);
    case H_RANK: return i32_field(f, -1, &out->rank);
    case H_SIZE: return i32_field(f, -1, &out->size);
    case H_INTERVAL: return nonnegative(f, &out->interval_ns);
    case H_KEY:
        e = hl_field_str(f, HL_KEY_MAX, &out->key);
        return e ? e : out->key.n ? 0 : HL_WIRE_BAD_VALUE;
    case H_HOST: return hl_field_str(f, HL_HOST_MAX, &out->host);
    case H_JOB: return hl_field_str(f, HL_JOB_MAX, &out->job);
    case H_APP: return hl_field_str(f, 255, &out->app_version);
    default: return f->tag & HL_FIELD_CRITICAL ? HL_WIRE_BAD_FIELD : 0;
    }
}

static struct hl_hello empty_hello(void)
{
    return (struct hl_hello){.rank = -1,
                             .size = -1,
                             .key = {"", 0},
                             .host = {"", 0},
                             .job = {"", 0},
                             .app_version = {"", 0}};
}

static int hello_complete(uint64_t seen)
{
    return has(seen, H_WIRE) && has(seen, H_ROLE) && has(seen, H_KEY) ? 0
                                                                      : HL_WIRE_BAD_FIELD;
}

int64_t hl_encode_hello(uint8_t *out, size_t cap, const struct hl_hello *h)
{
    struct hl_writer w = hl_message_begin(out, cap);
    put_hello_fields(&w, h);
    return hl_message_end(&w, HL_MSG_HELLO);
}

int hl_decode_hello(const uint8_t *body, size_t n, struct hl_hello *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    struct hl_field f;
    uint64_t seen = 0;
    int e;
    *out = empty_hello();
    while ((e = hl_get_field(&r, &f)) > 0) {
        if (f.tag < H_TAGS_END && (e = seen_once(&seen, f.tag)))
            return e;
        if ((e = take_hello_field(&f, out)))
            return e;
    }
    return e ? e : hello_complete(seen);
}

/* ---- fixed messages ---- */

int64_t hl_encode_hello_ok(uint8_t *out, size_t cap, const struct hl_hello_ok *m)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u32(&w, m->version);
    hl_put_u32(&w, 0);
    hl_put_u64(&w, m->appended);
    return hl_message_end(&w, HL_MSG_HELLO_OK);
}

int hl_decode_hello_ok(const uint8_t *body, size_t n, struct hl_hello_ok *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    out->version = hl_get_u32(&r);
    hl_get_u32(&r);
    out->appended = hl_get_u64(&r);
    return hl_reader_done(&r);
}

static int64_t encode_told(uint8_t *out, size_t cap, unsigned type, uint32_t code,
                           const char *text)
{
    struct hl_writer w = hl_message_begin(out, cap);
    struct hl_str s = text_of(text, 512);
    hl_put_u32(&w, code);
    hl_put_bytes(&w, s.p, s.n);
    return hl_message_end(&w, type);
}

static int decode_told(const uint8_t *body, size_t n, uint32_t *code, struct hl_str *text)
{
    struct hl_reader r = hl_reader_on(body, n);
    *code = hl_get_u32(&r);
    text->n = hl_reader_left(&r);
    text->p = (const char *)hl_get_bytes(&r, text->n);
    return hl_reader_done(&r);
}

int64_t hl_encode_refused(uint8_t *out, size_t cap, uint32_t code, const char *text)
{
    return encode_told(out, cap, HL_MSG_REFUSED, code, text);
}

int hl_decode_refused(const uint8_t *body, size_t n, struct hl_refused *out)
{
    return decode_told(body, n, &out->code, &out->text);
}

int64_t hl_encode_held(uint8_t *out, size_t cap, uint32_t code, const char *text)
{
    return encode_told(out, cap, HL_MSG_HELD, code, text);
}

int hl_decode_held(const uint8_t *body, size_t n, struct hl_held *out)
{
    return decode_told(body, n, &out->code, &out->text);
}

static int64_t encode_two(uint8_t *out, size_t cap, unsigned type, uint64_t a, uint64_t b)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u64(&w, a);
    hl_put_u64(&w, b);
    return hl_message_end(&w, type);
}

static int decode_two(const uint8_t *body, size_t n, uint64_t *a, uint64_t *b)
{
    struct hl_reader r = hl_reader_on(body, n);
    *a = hl_get_u64(&r);
    *b = hl_get_u64(&r);
    return hl_reader_done(&r);
}

int64_t hl_encode_ack(uint8_t *out, size_t cap, uint64_t appended)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u64(&w, appended);
    return hl_message_end(&w, HL_MSG_ACK);
}

int hl_decode_ack(const uint8_t *body, size_t n, uint64_t *appended)
{
    struct hl_reader r = hl_reader_on(body, n);
    *appended = hl_get_u64(&r);
    return hl_reader_done(&r);
}

int64_t hl_encode_bye(uint8_t *out, size_t cap, const struct hl_bye *m)
{
    return encode_two(out, cap, HL_MSG_BYE, m->n_dropped, m->n_rows);
}

int hl_decode_bye(const uint8_t *body, size_t n, struct hl_bye *out)
{
    return decode_two(body, n, &out->n_dropped, &out->n_rows);
}

/* ---- CATALOG ---- */

enum { C_METRIC = 1, C_PATH = 2 };

struct hl_writer hl_catalog_begin(uint8_t *out, size_t cap,
                                  const struct hl_catalog_msg *m)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u32(&w, m->id);
    hl_put_u32(&w, m->base);
    hl_put_u32(&w, m->flags);
    hl_put_u32(&w, m->first_metric);
    hl_put_u32(&w, m->first_path);
    return w;
}

void hl_catalog_add_metric(struct hl_writer *w, const char *name)
{
    hl_put_field_str(w, C_METRIC, text_of(name, HL_NAME_MAX));
}

void hl_catalog_add_path(struct hl_writer *w, const char *path)
{
    hl_put_field_str(w, C_PATH, text_of(path, HL_PATH_MAX));
}

int hl_catalog_next(struct hl_reader *r, int *is_path, struct hl_str *name)
{
    struct hl_field f;
    while (hl_get_field(r, &f) > 0) {
        if (f.tag != C_METRIC && f.tag != C_PATH)
            continue;
        *is_path = f.tag == C_PATH;
        return hl_field_str(&f, HL_PATH_MAX, name) == 0;
    }
    return 0;
}

static int check_names(struct hl_catalog_msg *m)
{
    struct hl_reader r = hl_reader_on(m->names, m->names_bytes);
    struct hl_field f;
    struct hl_str s;
    int e;
    while ((e = hl_get_field(&r, &f)) > 0) {
        if (f.tag != C_METRIC && f.tag != C_PATH) {
            if (f.tag & HL_FIELD_CRITICAL)
                return HL_WIRE_BAD_FIELD;
            continue;
        }
        e = hl_field_str(&f, f.tag == C_PATH ? HL_PATH_MAX : HL_NAME_MAX, &s);
        if (e)
            return e;
        if (!s.n)
            return HL_WIRE_BAD_VALUE;
        *(f.tag == C_PATH ? &m->n_paths : &m->n_metrics) += 1;
    }
    return e;
}

int hl_decode_catalog(const uint8_t *body, size_t n, struct hl_catalog_msg *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    memset(out, 0, sizeof *out);
    out->id = hl_get_u32(&r);
    out->base = hl_get_u32(&r);
    out->flags = hl_get_u32(&r);
    out->first_metric = hl_get_u32(&r);
    out->first_path = hl_get_u32(&r);
    if (r.fault)
        return r.fault;
    if (!out->id || out->flags || out->base >= out->id ||
        out->first_metric > HL_CATALOG_NAMES_MAX ||
        out->first_path > HL_CATALOG_NAMES_MAX)
        return HL_WIRE_BAD_VALUE;
    if (!out->base && (out->first_metric || out->first_path))
        return HL_WIRE_BAD_VALUE;
    out->names_bytes = hl_reader_left(&r);
    out->names = hl_get_bytes(&r, out->names_bytes);
    int e = check_names(out);
    if (e)
        return e;
    if (out->first_metric + out->n_metrics > HL_CATALOG_NAMES_MAX ||
        out->first_path + out->n_paths > HL_CATALOG_NAMES_MAX)
        return HL_WIRE_BAD_VALUE;
    return 0;
}

/* ---- ROWS ---- */

int64_t hl_encode_rows_in_place(uint8_t *out, size_t cap, const struct hl_rows *m)
{
    if (m->n_cells > HL_ROWS_CELLS_MAX || cap < hl_rows_size(m->n_cells))
        return HL_WIRE_NO_SPACE;
    struct hl_writer w = hl_message_begin(out, HL_WIRE_HEADER + HL_ROWS_HEAD);
    hl_put_u32(&w, m->catalog);
    hl_put_u32(&w, m->n_cells);
    hl_put_u64(&w, m->first_row);
    hl_put_u64(&w, m->first_cell);
    hl_wire_header_put(out, HL_MSG_ROWS, out + HL_WIRE_HEADER,
                       HL_ROWS_HEAD + 8 * m->n_cells);
    return (int64_t)hl_rows_size(m->n_cells);
}

int hl_decode_rows(const uint8_t *body, size_t n, struct hl_rows *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    out->catalog = hl_get_u32(&r);
    out->n_cells = hl_get_u32(&r);
    out->first_row = hl_get_u64(&r);
    out->first_cell = hl_get_u64(&r);
    if (r.fault)
        return r.fault;
    if (out->n_cells > HL_ROWS_CELLS_MAX || !out->catalog)
        return HL_WIRE_BAD_VALUE;
    if (hl_reader_left(&r) != 8 * (size_t)out->n_cells)
        return HL_WIRE_BAD_LENGTH;
    out->cells = hl_get_bytes(&r, 8 * (size_t)out->n_cells);
    return hl_reader_done(&r);
}

double hl_rows_cell(const struct hl_rows *m, size_t i)
{
    struct hl_reader r = hl_reader_on(m->cells + 8 * i, 8);
    uint64_t v = hl_get_u64(&r);
    double d;
    memcpy(&d, &v, sizeof d);
    return d;
}

/* ---- RECORD ---- */

enum {
    R_RANK = 20,
    R_HOST = 21,
    R_PID = 22,
    R_JOB = 23,
    R_ELAPSED = 24,
    R_ALLOCS = 25,
    R_FREES = 26,
    R_PEAK = 27,
    R_PEAK_TIME = 28,
    R_LIVE = 29,
    R_VMHWM = 30,
    R_VMRSS = 31,
    R_END_KIND = 32,
    R_END_STATUS = 33,
    R_NOTES = 34,
    R_POINTS = 35,
    R_TAGS_END = 36
};

static void put_record_fields(struct hl_writer *w, const struct hl_record_msg *m)
{
    const struct hl_record *r = &m->record;
    hl_put_field_u64(w, R_RANK, (uint64_t)r->rank);
    hl_put_field_str(w, R_HOST, text_of(r->host, HL_HOST_MAX));
    hl_put_field_u64(w, R_PID, (uint64_t)r->pid);
    hl_put_field_str(w, R_JOB, text_of(r->job, HL_JOB_MAX));
    hl_put_field_u64(w, R_ELAPSED, (uint64_t)r->elapsed_ns);
    hl_put_field_u64(w, R_ALLOCS, r->allocs);
    hl_put_field_u64(w, R_FREES, r->frees);
    hl_put_field_u64(w, R_PEAK, (uint64_t)r->peak_bytes);
    hl_put_field_u64(w, R_PEAK_TIME, (uint64_t)r->peak_time_ns);
    hl_put_field_u64(w, R_LIVE, (uint64_t)r->live_bytes);
    hl_put_field_u64(w, R_VMHWM, (uint64_t)r->vmhwm_bytes);
    hl_put_field_u64(w, R_VMRSS, (uint64_t)r->vmrss_bytes);
    hl_put_field_u64(w, R_END_KIND, m->end.kind);
    hl_put_field_u64(w, R_END_STATUS, (uint64_t)(int64_t)m->end.status);
    if (m->notes)
        hl_put_field_u64(w, R_NOTES, m->notes);
    if (m->n_points)
        hl_put_field_u64(w, R_POINTS, m->n_points);
}

static int take_record_field(const struct hl_field *f, struct hl_record_msg *m)
{
    struct hl_record *r = &m->record;
    int e;
    switch (f->tag) {
    case R_RANK: return hl_field_i64(f, &r->rank);
    case R_HOST: return copy_field(f, HL_HOST_MAX, r->host);
    case R_PID: return nonnegative(f, &r->pid);
    case R_JOB: return copy_field(f, HL_JOB_MAX, r->job);
    case R_ELAPSED: return hl_field_i64(f, &r->elapsed_ns);
    case R_ALLOCS: return hl_field_u64(f, &r->allocs);
    case R_FREES: return hl_field_u64(f, &r->frees);
    case R_PEAK: return nonnegative(f, &r->peak_bytes);
    case R_PEAK_TIME: return hl_field_i64(f, &r->peak_time_ns);
    case R_LIVE: return hl_field_i64(f, &r->live_bytes);
    case R_VMHWM: return hl_field_i64(f, &r->vmhwm_bytes);
    case R_VMRSS: return hl_field_i64(f, &r->vmrss_bytes);
    case R_END_KIND:
        e = u32_field(f, &m->end.kind);
        return e ? e : m->end.kind > HL_ENDED_SAMPLED ? HL_WIRE_BAD_VALUE : 0;
    case R_END_STATUS: return i32_field(f, INT32_MIN, &m->end.status);
    case R_NOTES: return u32_field(f, &m->notes);
    case R_POINTS: return hl_field_u64(f, &m->n_points);
    default: return f->tag & HL_FIELD_CRITICAL ? HL_WIRE_BAD_FIELD : 0;
    }
}

static void empty_record(struct hl_record_msg *m)
{
    memset(m, 0, sizeof *m);
    m->record.rank = m->record.vmhwm_bytes = m->record.vmrss_bytes = -1;
}

int64_t hl_encode_record(uint8_t *out, size_t cap, const struct hl_record_msg *m)
{
    struct hl_writer w = hl_message_begin(out, cap);
    put_record_fields(&w, m);
    return hl_message_end(&w, HL_MSG_RECORD);
}

int hl_decode_record(const uint8_t *body, size_t n, struct hl_record_msg *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    struct hl_field f;
    uint64_t seen = 0;
    int e;
    empty_record(out);
    while ((e = hl_get_field(&r, &f)) > 0) {
        if (f.tag < R_TAGS_END && (e = seen_once(&seen, f.tag)))
            return e;
        if ((e = take_record_field(&f, out)))
            return e;
    }
    if (e)
        return e;
    return has(seen, R_ALLOCS) && has(seen, R_FREES) && has(seen, R_PEAK) &&
                   has(seen, R_LIVE)
               ? 0
               : HL_WIRE_BAD_FIELD;
}

static size_t with_number(char *out, const char *word, size_t n, int64_t v)
{
    memcpy(out, word, n);
    n += hl_format_i64(v, out + n);
    out[n] = 0;
    return n;
}

size_t hl_end_text(const struct hl_end *e, char *out)
{
    static const char *const words[] = {"running",         "exit",   "signal", "exec",
                                        "killed-or-_exit", "sampled"};
    if (e->kind == HL_ENDED_EXIT)
        return with_number(out, "exit:", 5, e->status);
    if (e->kind == HL_ENDED_SIGNAL)
        return with_number(out, "signal:", 7, e->status);
    struct hl_str s =
        text_of(e->kind <= HL_ENDED_SAMPLED ? words[e->kind] : "unknown", 24);
    memcpy(out, s.p, s.n);
    out[s.n] = 0;
    return s.n;
}

/* ---- keepers ---- */

int64_t hl_encode_ended(uint8_t *out, size_t cap, const struct hl_ended_msg *m)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u64(&w, (uint64_t)m->pid);
    hl_put_u64(&w, m->start_ticks);
    hl_put_u32(&w, m->end.kind);
    hl_put_u32(&w, (uint32_t)m->end.status);
    return hl_message_end(&w, HL_MSG_ENDED);
}

int hl_decode_ended(const uint8_t *body, size_t n, struct hl_ended_msg *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    out->pid = as_i64(hl_get_u64(&r));
    out->start_ticks = hl_get_u64(&r);
    out->end.kind = hl_get_u32(&r);
    out->end.status = (int32_t)hl_get_u32(&r);
    if (out->pid <= 0 || out->end.kind > HL_ENDED_SAMPLED)
        return HL_WIRE_BAD_VALUE;
    return hl_reader_done(&r);
}

/* ---- POINTS ---- */

void hl_point_put(uint8_t out[HL_POINT_BYTES], const struct hl_point *s)
{
    struct hl_writer w = hl_writer_on(out, HL_POINT_BYTES);
    hl_put_u64(&w, (uint64_t)s->time_ns);
    hl_put_u64(&w, (uint64_t)s->heap_bytes);
    hl_put_u64(&w, (uint64_t)s->heap_peak_bytes);
    hl_put_u64(&w, (uint64_t)s->rss_bytes);
    hl_put_u64(&w, s->allocs);
    hl_put_u64(&w, s->frees);
}

void hl_point_get(const uint8_t p[HL_POINT_BYTES], struct hl_point *out)
{
    struct hl_reader r = hl_reader_on(p, HL_POINT_BYTES);
    out->time_ns = as_i64(hl_get_u64(&r));
    out->heap_bytes = as_i64(hl_get_u64(&r));
    out->heap_peak_bytes = as_i64(hl_get_u64(&r));
    out->rss_bytes = as_i64(hl_get_u64(&r));
    out->allocs = hl_get_u64(&r);
    out->frees = hl_get_u64(&r);
}

int64_t hl_encode_points(uint8_t *out, size_t cap, const struct hl_point *v, size_t n)
{
    struct hl_writer w = hl_message_begin(out, cap);
    for (size_t i = 0; i < n; i++) {
        uint8_t bytes[HL_POINT_BYTES];
        hl_point_put(bytes, &v[i]);
        hl_put_bytes(&w, bytes, sizeof bytes);
    }
    return hl_message_end(&w, HL_MSG_POINTS);
}

int hl_decode_points(const uint8_t *body, size_t n, size_t *n_points)
{
    (void)body;
    *n_points = n / HL_POINT_BYTES;
    return n && n % HL_POINT_BYTES == 0 ? 0 : HL_WIRE_BAD_LENGTH;
}

static int64_t encode_empty(uint8_t *out, size_t cap, unsigned type)
{
    struct hl_writer w = hl_message_begin(out, cap);
    return hl_message_end(&w, type);
}

int64_t hl_encode_state_ask(uint8_t *out, size_t cap)
{
    return encode_empty(out, cap, HL_MSG_STATE_ASK);
}

int64_t hl_encode_state(uint8_t *out, size_t cap, const struct hl_state *m)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u32(&w, m->n_keepers);
    hl_put_u32(&w, m->n_keepers_ever);
    hl_put_u64(&w, m->n_processes);
    hl_put_u64(&w, m->n_alive);
    hl_put_u64(&w, m->reserved);
    return hl_message_end(&w, HL_MSG_STATE);
}

int hl_decode_state(const uint8_t *body, size_t n, struct hl_state *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    out->n_keepers = hl_get_u32(&r);
    out->n_keepers_ever = hl_get_u32(&r);
    out->n_processes = hl_get_u64(&r);
    out->n_alive = hl_get_u64(&r);
    out->reserved = hl_get_u64(&r);
    return hl_reader_done(&r);
}

/* ---- gather ---- */

int64_t hl_encode_index_ask(uint8_t *out, size_t cap, uint32_t wait_ms)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u32(&w, wait_ms);
    return hl_message_end(&w, HL_MSG_INDEX_ASK);
}

int hl_decode_index_ask(const uint8_t *body, size_t n, uint32_t *wait_ms)
{
    struct hl_reader r = hl_reader_on(body, n);
    *wait_ms = hl_get_u32(&r);
    return hl_reader_done(&r);
}

enum {
    P_ID = 40,
    P_FLAGS = 41,
    P_ROWS = 42,
    P_STREAM = 43,
    P_CATALOGS = 44,
    P_DROPPED = 45,
    P_LOST = 46,
    P_POINTS = 47,
    P_POINTS_LOST = 48,
    P_TAGS_END = 49
};

int64_t hl_encode_proc(uint8_t *out, size_t cap, const struct hl_proc *m)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_field_u64(&w, P_ID, m->id);
    hl_put_field_u64(&w, P_FLAGS, m->flags);
    hl_put_field_u64(&w, P_ROWS, m->n_rows);
    hl_put_field_u64(&w, P_STREAM, m->stream_bytes);
    hl_put_field_u64(&w, P_CATALOGS, m->catalog_bytes);
    hl_put_field_u64(&w, P_DROPPED, m->n_dropped);
    hl_put_field_u64(&w, P_LOST, m->n_lost);
    hl_put_field_u64(&w, P_POINTS, m->n_points);
    hl_put_field_u64(&w, P_POINTS_LOST, m->n_points_lost);
    put_hello_fields(&w, &m->hello);
    put_record_fields(&w, &m->heap);
    return hl_message_end(&w, HL_MSG_PROC);
}

static int take_proc_field(const struct hl_field *f, struct hl_proc *m)
{
    switch (f->tag) {
    case P_ID: return u32_field(f, &m->id);
    case P_FLAGS: return u32_field(f, &m->flags);
    case P_ROWS: return hl_field_u64(f, &m->n_rows);
    case P_STREAM: return hl_field_u64(f, &m->stream_bytes);
    case P_CATALOGS: return hl_field_u64(f, &m->catalog_bytes);
    case P_DROPPED: return hl_field_u64(f, &m->n_dropped);
    case P_LOST: return hl_field_u64(f, &m->n_lost);
    case P_POINTS: return hl_field_u64(f, &m->n_points);
    case P_POINTS_LOST: return hl_field_u64(f, &m->n_points_lost);
    default: break;
    }
    if (f->tag < H_TAGS_END)
        return take_hello_field(f, &m->hello);
    return take_record_field(f, &m->heap);
}

int hl_decode_proc(const uint8_t *body, size_t n, struct hl_proc *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    struct hl_field f;
    uint64_t seen = 0;
    int e;
    memset(out, 0, sizeof *out);
    out->hello = empty_hello();
    empty_record(&out->heap);
    while ((e = hl_get_field(&r, &f)) > 0) {
        if (f.tag < P_TAGS_END && (e = seen_once(&seen, f.tag)))
            return e;
        if ((e = take_proc_field(&f, out)))
            return e;
    }
    if (e)
        return e;
    return has(seen, P_ID) ? hello_complete(seen) : HL_WIRE_BAD_FIELD;
}

int64_t hl_encode_index_end(uint8_t *out, size_t cap, const struct hl_index_end *m)
{
    return encode_two(out, cap, HL_MSG_INDEX_END, m->n_processes, m->n_alive);
}

int hl_decode_index_end(const uint8_t *body, size_t n, struct hl_index_end *out)
{
    return decode_two(body, n, &out->n_processes, &out->n_alive);
}

int64_t hl_encode_pull(uint8_t *out, size_t cap, const struct hl_pull *m)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u32(&w, m->proc);
    hl_put_u32(&w, m->what);
    hl_put_u64(&w, m->offset);
    hl_put_u32(&w, m->max);
    return hl_message_end(&w, HL_MSG_PULL);
}

int hl_decode_pull(const uint8_t *body, size_t n, struct hl_pull *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    out->proc = hl_get_u32(&r);
    out->what = hl_get_u32(&r);
    out->offset = hl_get_u64(&r);
    out->max = hl_get_u32(&r);
    if (!r.fault && (out->what > HL_PULL_POINTS || !out->max || out->max > HL_DATA_MAX))
        return HL_WIRE_BAD_VALUE;
    return hl_reader_done(&r);
}

int64_t hl_encode_data(uint8_t *out, size_t cap, const struct hl_data *m)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u32(&w, m->proc);
    hl_put_u32(&w, m->what);
    hl_put_u64(&w, m->offset);
    hl_put_bytes(&w, m->bytes, m->n);
    return hl_message_end(&w, HL_MSG_DATA);
}

int64_t hl_encode_data_in_place(uint8_t *out, const struct hl_data *m)
{
    struct hl_writer w = hl_message_begin(out, HL_WIRE_HEADER + HL_DATA_HEAD);
    hl_put_u32(&w, m->proc);
    hl_put_u32(&w, m->what);
    hl_put_u64(&w, m->offset);
    hl_wire_header_put(out, HL_MSG_DATA, out + HL_WIRE_HEADER,
                       (uint32_t)(HL_DATA_HEAD + m->n));
    return (int64_t)(HL_WIRE_HEADER + HL_DATA_HEAD + m->n);
}

int hl_decode_data(const uint8_t *body, size_t n, struct hl_data *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    out->proc = hl_get_u32(&r);
    out->what = hl_get_u32(&r);
    out->offset = hl_get_u64(&r);
    out->n = hl_reader_left(&r);
    out->bytes = hl_get_bytes(&r, out->n);
    return hl_reader_done(&r);
}

int64_t hl_encode_taken(uint8_t *out, size_t cap)
{
    return encode_empty(out, cap, HL_MSG_TAKEN);
}

int64_t hl_encode_taken_ok(uint8_t *out, size_t cap)
{
    return encode_empty(out, cap, HL_MSG_TAKEN_OK);
}

/* ---- spool ---- */

int64_t hl_encode_spool_head(uint8_t *out, size_t cap, const struct hl_spool_head *m)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u32(&w, m->format);
    hl_put_u32(&w, m->uid);
    hl_put_u64(&w, (uint64_t)m->pid);
    hl_put_u64(&w, m->start_ticks);
    hl_put_u64(&w, m->image);
    hl_put_u64(&w, m->inode);
    hl_put_bytes(&w, m->key.p, m->key.n);
    return hl_message_end(&w, HL_MSG_SPOOL);
}

int hl_decode_spool_head(const uint8_t *body, size_t n, struct hl_spool_head *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    out->format = hl_get_u32(&r);
    out->uid = hl_get_u32(&r);
    out->pid = as_i64(hl_get_u64(&r));
    out->start_ticks = hl_get_u64(&r);
    out->image = hl_get_u64(&r);
    out->inode = hl_get_u64(&r);
    if (r.fault)
        return r.fault;
    if (out->format != HL_SPOOL_FORMAT)
        return HL_WIRE_BAD_VERSION;
    struct hl_field key = {0, 0, r.p};
    if (hl_reader_left(&r) > HL_KEY_MAX || !hl_reader_left(&r))
        return HL_WIRE_BAD_VALUE;
    key.n = (uint16_t)hl_reader_left(&r);
    return hl_field_str(&key, HL_KEY_MAX, &out->key);
}

int64_t hl_encode_loss(uint8_t *out, size_t cap, const struct hl_loss *m)
{
    return encode_two(out, cap, HL_MSG_LOSS, m->n_rows, m->reason);
}

int hl_decode_loss(const uint8_t *body, size_t n, struct hl_loss *out)
{
    return decode_two(body, n, &out->n_rows, &out->reason);
}

int64_t hl_encode_slot(uint8_t *out, size_t cap, const struct hl_slot *m)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u32(&w, m->number);
    hl_put_u32(&w, m->flags);
    hl_put_u64(&w, (uint64_t)m->kernel_pid);
    hl_put_u64(&w, m->page_inode);
    hl_put_u64(&w, m->rows_inode);
    return hl_message_end(&w, HL_MSG_SLOT);
}

int hl_decode_slot(const uint8_t *body, size_t n, struct hl_slot *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    out->number = hl_get_u32(&r);
    out->flags = hl_get_u32(&r);
    out->kernel_pid = as_i64(hl_get_u64(&r));
    out->page_inode = hl_get_u64(&r);
    out->rows_inode = hl_get_u64(&r);
    return hl_reader_done(&r);
}
