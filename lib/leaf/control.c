/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoders and decoders of heaplinectl's messages, from tables of their
 * fields; see control.h.
 */
#include "control.h"

#include "bound.h"
#include "ident.h"

#include <string.h>

/* ---- structures as tables ---- */

enum kind { NUMBER, TEXT };
struct item {
    uint8_t tag, kind;
    uint16_t max; /* bytes of a text */
    size_t offset;
};

static void put_items(struct hl_writer *w, const struct item *items, size_t n,
                      const void *from)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = (const uint8_t *)from + items[i].offset;
        uint64_t v;
        struct hl_str s;
        if (items[i].kind == NUMBER) {
            memcpy(&v, at, sizeof v);
            hl_put_field_u64(w, items[i].tag, v);
        } else {
            memcpy(&s, at, sizeof s);
            hl_put_field_str(w, items[i].tag, s);
        }
    }
}

static int take_item(const struct item *it, const struct hl_field *f, void *to)
{
    uint8_t *at = (uint8_t *)to + it->offset;
    uint64_t v;
    struct hl_str s;
    int e = it->kind == NUMBER ? hl_field_u64(f, &v) : hl_field_str(f, it->max, &s);
    if (e)
        return e;
    if (it->kind == NUMBER)
        memcpy(at, &v, sizeof v);
    else
        memcpy(at, &s, sizeof s);
    return 0;
}

/* All fields of the table are required; others may be skipped. */
static int take_items(const uint8_t *body, size_t n, const struct item *items,
                      size_t n_items, void *to)
{
    struct hl_reader r = hl_reader_on(body, n);
    struct hl_field f;
    uint32_t seen = 0;
    int e;
    while ((e = hl_get_field(&r, &f)) > 0) {
        size_t i = 0;
        while (i < n_items && items[i].tag != f.tag)
            i++;
        if (i == n_items) {
            if (f.tag & HL_FIELD_CRITICAL)
                return HL_WIRE_BAD_FIELD;
            continue;
        }
        if (seen >> i & 1)
            return HL_WIRE_BAD_FIELD;
        seen |= (uint32_t)1 << i;
        if ((e = take_item(&items[i], &f, to)))
            return e;
    }
    if (e)
        return e;
    return seen == ((uint32_t)1 << n_items) - 1 ? 0 : HL_WIRE_BAD_FIELD;
}

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define NUM(tag, type, member)                                                           \
    {                                                                                    \
        tag, NUMBER, 0, offsetof(struct type, member)                                    \
    }
#define STR(tag, type, member, max)                                                      \
    {                                                                                    \
        tag, TEXT, max, offsetof(struct type, member)                                    \
    }

static int64_t encode_items(uint8_t *out, size_t cap, unsigned type,
                            const struct item *items, size_t n, const void *from)
{
    struct hl_writer w = hl_message_begin(out, cap);
    put_items(&w, items, n, from);
    return hl_message_end(&w, type);
}

/* ---- ASK, DONE ---- */

int64_t hl_encode_ask(uint8_t *out, size_t cap, const struct hl_ask *m)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u32(&w, m->what);
    hl_put_u32(&w, 0);
    hl_put_bytes(&w, m->arg.p, m->arg.n);
    return hl_message_end(&w, HL_MSG_ASK);
}

/* The rest of a body as text; no NUL bytes in it. */
static int rest_text(struct hl_reader *r, size_t max, struct hl_str *out)
{
    struct hl_field f = {0, 0, r->p};
    if (r->fault)
        return r->fault;
    if (hl_reader_left(r) > max)
        return HL_WIRE_BAD_VALUE;
    f.n = (uint16_t)hl_reader_left(r);
    return hl_field_str(&f, max, out);
}

int hl_decode_ask(const uint8_t *body, size_t n, struct hl_ask *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    out->what = hl_get_u32(&r);
    uint32_t reserved = hl_get_u32(&r);
    if (!r.fault && (out->what < HL_ASK_STATUS || out->what > HL_ASK_FORGET || reserved))
        return HL_WIRE_BAD_VALUE;
    return rest_text(&r, HL_KEY_MAX, &out->arg);
}

int64_t hl_encode_done(uint8_t *out, size_t cap, uint32_t code, uint64_t n,
                       const char *text)
{
    struct hl_writer w = hl_message_begin(out, cap);
    hl_put_u32(&w, code);
    hl_put_u32(&w, 0);
    hl_put_u64(&w, n);
    hl_put_bytes(&w, text, hl_text_length(text, 512));
    return hl_message_end(&w, HL_MSG_DONE);
}

int hl_decode_done(const uint8_t *body, size_t n, struct hl_done *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    out->code = hl_get_u32(&r);
    hl_get_u32(&r);
    out->n = hl_get_u64(&r);
    return rest_text(&r, 512, &out->text);
}

/* ---- STATUS ---- */

static const struct hl_status_info infos[HL_STATUS_N] = {
#define GAUGE 0
#define COUNTER 1
#define HL_STATUS_INFO(name, kind, help) {#name, help, kind},
    HL_STATUS_LIST(HL_STATUS_INFO)
#undef HL_STATUS_INFO
#undef GAUGE
#undef COUNTER
};

const struct hl_status_info *hl_status_info(unsigned tag)
{
    return tag < HL_STATUS_N ? &infos[tag] : NULL;
}

/* Numbers have their place in the list plus one as tag; texts follow at 1000. */
enum { S_VERSION = 1000, S_SOCKET, S_SPOOL, S_ERROR, S_ADMIN };

int64_t hl_encode_status(uint8_t *out, size_t cap, const struct hl_status *m)
{
    struct hl_writer w = hl_message_begin(out, cap);
    for (unsigned i = 0; i < HL_STATUS_N; i++)
        if (m->known[i])
            hl_put_field_u64(&w, i + 1, m->value[i]);
    hl_put_field_str(&w, S_VERSION, m->version);
    hl_put_field_str(&w, S_SOCKET, m->socket);
    hl_put_field_str(&w, S_SPOOL, m->spool);
    hl_put_field_str(&w, S_ERROR, m->last_error);
    hl_put_field_u64(&w, S_ADMIN, m->is_admin);
    return hl_message_end(&w, HL_MSG_STATUS);
}

static int take_status_field(const struct hl_field *f, struct hl_status *out)
{
    uint64_t admin;
    int e;
    if (f->tag && f->tag <= HL_STATUS_N) {
        if (out->known[f->tag - 1])
            return HL_WIRE_BAD_FIELD;
        out->known[f->tag - 1] = 1;
        return hl_field_u64(f, &out->value[f->tag - 1]);
    }
    switch (f->tag) {
    case S_VERSION: return hl_field_str(f, 255, &out->version);
    case S_SOCKET: return hl_field_str(f, 255, &out->socket);
    case S_SPOOL: return hl_field_str(f, 4096, &out->spool);
    case S_ERROR: return hl_field_str(f, 512, &out->last_error);
    case S_ADMIN:
        e = hl_field_u64(f, &admin);
        out->is_admin = !e && admin;
        return e;
    default: return f->tag & HL_FIELD_CRITICAL ? HL_WIRE_BAD_FIELD : 0;
    }
}

int hl_decode_status(const uint8_t *body, size_t n, struct hl_status *out)
{
    struct hl_reader r = hl_reader_on(body, n);
    struct hl_field f;
    int e;
    memset(out, 0, sizeof *out);
    out->version = out->socket = out->spool = out->last_error = (struct hl_str){"", 0};
    while ((e = hl_get_field(&r, &f)) > 0)
        if ((e = take_status_field(&f, out)))
            return e;
    return e;
}

/* ---- JOB ---- */

static const struct item job_items[] = {
    NUM(1, hl_job_line, uid),         NUM(2, hl_job_line, state),
    NUM(3, hl_job_line, n_processes), NUM(4, hl_job_line, n_alive),
    NUM(5, hl_job_line, n_keepers),   NUM(6, hl_job_line, n_gathers),
    NUM(7, hl_job_line, spool_bytes), NUM(8, hl_job_line, n_rows),
    NUM(9, hl_job_line, n_dropped),   NUM(10, hl_job_line, n_lost),
    NUM(11, hl_job_line, begun_ns),   NUM(12, hl_job_line, ended_ns),
    NUM(13, hl_job_line, taken_ns),   STR(14, hl_job_line, key, HL_KEY_MAX),
};

int64_t hl_encode_job_line(uint8_t *out, size_t cap, const struct hl_job_line *m)
{
    return encode_items(out, cap, HL_MSG_JOB, job_items, COUNT(job_items), m);
}

int hl_decode_job_line(const uint8_t *body, size_t n, struct hl_job_line *out)
{
    return take_items(body, n, job_items, COUNT(job_items), out);
}

const char *hl_job_state_name(uint64_t state)
{
    static const char *const names[] = {"kept", "live", "quiet", "read", "done"};
    return state < COUNT(names) ? names[state] : "unknown";
}

/* ---- LIVE ---- */

static const struct item live_items[] = {
    NUM(1, hl_live_line, uid),         NUM(2, hl_live_line, pid),
    NUM(3, hl_live_line, rank),        NUM(4, hl_live_line, allocs),
    NUM(5, hl_live_line, frees),       NUM(6, hl_live_line, live_bytes),
    NUM(7, hl_live_line, peak_bytes),  NUM(8, hl_live_line, vmhwm_bytes),
    NUM(9, hl_live_line, vmrss_bytes), NUM(10, hl_live_line, age_ns),
    NUM(11, hl_live_line, taken_ns),   NUM(12, hl_live_line, n_rows),
    NUM(13, hl_live_line, image),      STR(14, hl_live_line, key, HL_KEY_MAX),
    STR(15, hl_live_line, host, 255),
};

int64_t hl_encode_live_line(uint8_t *out, size_t cap, const struct hl_live_line *m)
{
    return encode_items(out, cap, HL_MSG_LIVE, live_items, COUNT(live_items), m);
}

int hl_decode_live_line(const uint8_t *body, size_t n, struct hl_live_line *out)
{
    return take_items(body, n, live_items, COUNT(live_items), out);
}

/* ---- USER ---- */

static const struct item user_items[] = {
    NUM(1, hl_user_line, uid),
    NUM(2, hl_user_line, n_connections),
    NUM(3, hl_user_line, max_connections),
    NUM(4, hl_user_line, n_processes),
    NUM(5, hl_user_line, max_processes),
    NUM(6, hl_user_line, n_jobs),
    NUM(7, hl_user_line, max_jobs),
    NUM(8, hl_user_line, spool_bytes),
    NUM(9, hl_user_line, quota_bytes),
};

int64_t hl_encode_user_line(uint8_t *out, size_t cap, const struct hl_user_line *m)
{
    return encode_items(out, cap, HL_MSG_USER, user_items, COUNT(user_items), m);
}

int hl_decode_user_line(const uint8_t *body, size_t n, struct hl_user_line *out)
{
    return take_items(body, n, user_items, COUNT(user_items), out);
}
