/* SPDX-License-Identifier: Apache-2.0
 *
 * A gather that checks each row by its value and holds one piece of one stream at
 * a time; see load.h.
 */
#include "config.h"

#include "load.h"

#include <string.h>

enum { PIECE = 256 << 10, ANSWER_MS = 45000 };

void load_gather_open(struct hl_link *l, const char *socket, const char *key)
{
    struct hl_err e = {0};
    if (hl_link_open(l, socket, -1, &e) ||
        hl_link_hello(l, HL_ROLE_GATHER, key, getpid(), &e))
        LOAD_DIE("gather: %s", e.text);
}

/* ---- the index ---- */

static void note(struct load_index *x, const struct hl_proc *p)
{
    if (x->n % 256 == 0 && !(x->seen = realloc(x->seen, (x->n + 256) * sizeof *x->seen)))
        LOAD_DIE("no memory");
    x->seen[x->n++] = (struct load_seen){.id = p->id,
                                         .image = p->hello.image,
                                         .rows = p->n_rows,
                                         .stream_bytes = p->stream_bytes,
                                         .dropped = p->n_dropped,
                                         .lost = p->n_lost,
                                         .end = p->heap.end,
                                         .record = p->heap.record};
}

int load_gather_index(struct hl_link *l, uint32_t wait_ms, struct load_index *out)
{
    uint8_t ask[64];
    struct hl_err e = {0};
    struct hl_wire_header h;
    const uint8_t *body;
    struct hl_index_end end;
    struct hl_proc p;
    memset(out, 0, sizeof *out);
    if (hl_link_send(l, ask, hl_encode_index_ask(ask, sizeof ask, wait_ms), &e))
        return -1;
    while (hl_link_next(l, &h, &body, ANSWER_MS, &e) == 0) {
        if (h.type == HL_MSG_PROC && !hl_decode_proc(body, h.length, &p)) {
            note(out, &p);
            continue;
        }
        if (h.type != HL_MSG_INDEX_END || hl_decode_index_end(body, h.length, &end) ||
            end.n_processes != out->n)
            LOAD_DIE("a wrong index");
        out->n_alive = end.n_alive;
        return 0;
    }
    fprintf(stderr, "load: index: %s\n", e.text);
    load_index_fini(out);
    return -1;
}

void load_index_fini(struct load_index *x)
{
    free(x->seen);
    memset(x, 0, sizeof *x);
}

struct load_seen *load_find(struct load_index *x, uint64_t image)
{
    for (size_t i = 0; i < x->n; i++)
        if (x->seen[i].image == image)
            return &x->seen[i];
    return NULL;
}

int load_record_right(const struct load_seen *s)
{
    struct hl_record r = load_record(s->image);
    return s->end.kind != HL_ENDED_RUNNING && s->end.kind != HL_ENDED_SAMPLED &&
           s->record.allocs == r.allocs && s->record.frees == r.frees &&
           s->record.live_bytes == r.live_bytes && s->record.peak_bytes == r.peak_bytes;
}

/* ---- a stream ---- */

struct reader {
    uint8_t buf[PIECE + HL_WIRE_HEADER + HL_ROWS_HEAD + 262144];
    size_t n;
    uint32_t width, catalog;
};

static void check_row(struct load_seen *s, const struct hl_rows *m, uint64_t row,
                      size_t from, uint32_t width)
{
    uint64_t next = s->found + s->missing;
    if (row < next) {
        s->doubled++;
        return;
    }
    s->missing += row - next;
    s->found++;
    for (uint32_t i = 0; i < width; i++)
        if (hl_rows_cell(m, from + i) != load_value(s->image, row, i)) {
            s->altered++;
            return;
        }
}

static void check_message(struct load_seen *s, struct reader *r, unsigned type,
                          const uint8_t *body, size_t n)
{
    struct hl_catalog_msg c;
    struct hl_rows m;
    if (type == HL_MSG_CATALOG && !hl_decode_catalog(body, n, &c)) {
        r->width = c.n_metrics;
        r->catalog = c.id;
        return;
    }
    if (type != HL_MSG_ROWS || hl_decode_rows(body, n, &m) || m.catalog != r->catalog ||
        !r->width || m.n_cells % r->width || m.first_cell) {
        s->altered++;
        return;
    }
    for (uint32_t k = 0; k < m.n_cells / r->width; k++)
        check_row(s, &m, m.first_row + k, (size_t)k * r->width, r->width);
}

static void check_piece(struct load_seen *s, struct reader *r)
{
    struct hl_wire_header h;
    const uint8_t *body;
    size_t at = 0, used;
    while (hl_wire_next(r->buf + at, r->n - at, HL_IN_STREAM, HL_STATE_FILE, &h, &body,
                        &used) == 0) {
        check_message(s, r, h.type, body, h.length);
        at += used;
    }
    memmove(r->buf, r->buf + at, r->n -= at);
}

int load_gather_check(struct hl_link *l, struct load_seen *s)
{
    static struct reader r;
    struct hl_err e = {0};
    r.n = r.width = r.catalog = 0;
    for (uint64_t at = 0;;) {
        uint8_t ask[64];
        struct hl_pull m = {s->id, HL_PULL_STREAM, at, PIECE};
        struct hl_wire_header h;
        const uint8_t *body;
        struct hl_data d;
        if (hl_link_send(l, ask, hl_encode_pull(ask, sizeof ask, &m), &e) ||
            hl_link_next(l, &h, &body, ANSWER_MS, &e)) {
            fprintf(stderr, "load: stream: %s\n", e.text);
            return -1;
        }
        if (h.type != HL_MSG_DATA || hl_decode_data(body, h.length, &d) ||
            d.offset != at || d.proc != s->id)
            LOAD_DIE("wrong data");
        if (!d.n)
            break;
        if (r.n + d.n > sizeof r.buf) { /* no message is as long */
            r.n = 0;
            s->altered++;
        }
        memcpy(r.buf + r.n, d.bytes, d.n);
        r.n += d.n;
        at += d.n;
        check_piece(s, &r);
    }
    s->rest = r.n;
    return 0;
}

int load_gather_taken(struct hl_link *l)
{
    uint8_t out[64];
    struct hl_err e = {0};
    struct hl_wire_header h;
    const uint8_t *body;
    return hl_link_send(l, out, hl_encode_taken(out, sizeof out), &e) ||
                   hl_link_next(l, &h, &body, ANSWER_MS, &e) || h.type != HL_MSG_TAKEN_OK
               ? -1
               : 0;
}
