/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoding and joining the nodes' indices; see gather_index.h.
 */
#include "gather_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_MAGIC = 0x58444e48 };

/* ---- out ---- */

static int put(struct hl_buf *b, uint64_t v)
{
    uint8_t raw[8];
    struct hl_writer w = hl_writer_on(raw, sizeof raw);
    hl_put_u64(&w, v);
    return hl_buf_add(b, raw, sizeof raw);
}

static int put_bytes(struct hl_buf *b, const void *p, size_t n)
{
    return put(b, n) || hl_buf_add(b, p, n);
}

static int put_names(struct hl_buf *b, const struct hl_names *l)
{
    int bad = put(b, l->n);
    for (size_t i = 0; i < l->n && !bad; i++)
        bad = put_bytes(b, l->name[i], strlen(l->name[i]));
    return bad;
}

int hl_index_encode(const struct hl_source *s, struct hl_buf *out)
{
    int bad = put(out, INDEX_MAGIC) || put(out, s->n_notes);
    for (size_t i = 0; i < s->n_notes && !bad; i++)
        bad = put_bytes(out, s->note[i], strlen(s->note[i]));
    bad = bad || put(out, s->n_catalogs);
    for (size_t i = 0; i < s->n_catalogs && !bad; i++)
        bad = put_names(out, &s->catalog[i].metrics) ||
              put_names(out, &s->catalog[i].paths);
    bad = bad || put(out, s->n_units);
    for (size_t i = 0; i < s->n_units && !bad; i++) {
        const struct hl_unit *u = &s->unit[i];
        uint8_t body[HL_WIRE_HEADER + 8192];
        int64_t n = hl_encode_proc(body, sizeof body, &u->proc);
        bad = n < 0 || put(out, u->catalog) || put(out, hl_unit_bytes(u)) ||
              put_bytes(out, body + HL_WIRE_HEADER, (size_t)n - HL_WIRE_HEADER);
    }
    return bad ? -1 : 0;
}

/* ---- in ---- */

static struct hl_str get_bytes(struct hl_reader *r)
{
    uint64_t n = hl_get_u64(r);
    struct hl_str s = {NULL, 0};
    if (n > hl_reader_left(r)) {
        r->fault = HL_WIRE_SHORT;
        return s;
    }
    s.n = (size_t)n;
    s.p = (const char *)hl_get_bytes(r, s.n);
    return s;
}

static int get_names(struct hl_reader *r, struct hl_names *l)
{
    uint64_t n = hl_get_u64(r);
    for (uint64_t i = 0; i < n && !r->fault; i++) {
        struct hl_str s = get_bytes(r);
        if (!r->fault && hl_names_add(l, s.p, s.n, NULL))
            return -1;
    }
    return 0;
}

static int get_notes(struct hl_index *x, struct hl_reader *r)
{
    uint64_t n = hl_get_u64(r);
    for (uint64_t i = 0; i < n && !r->fault; i++) {
        struct hl_str s = get_bytes(r);
        char **p = realloc(x->note, (x->n_notes + 1) * sizeof *p);
        if (!p)
            return -1;
        x->note = p;
        p[x->n_notes] = strndup(s.n ? s.p : "", s.n);
        if (!p[x->n_notes])
            return -1;
        x->n_notes++;
    }
    return 0;
}

static int get_catalogs(struct hl_index *x, int node, struct hl_reader *r)
{
    uint64_t n = hl_get_u64(r);
    if (n > hl_reader_left(r)) {
        r->fault = HL_WIRE_SHORT;
        return 0;
    }
    x->catalog[node] = calloc(n ? n : 1, sizeof **x->catalog);
    if (!x->catalog[node])
        return -1;
    x->n_catalogs[node] = (size_t)n;
    for (uint64_t i = 0; i < n && !r->fault; i++)
        if (get_names(r, &x->catalog[node][i].metrics) ||
            get_names(r, &x->catalog[node][i].paths))
            return -1;
    return 0;
}

static int known_image(const struct hl_index *x, size_t n_before, uint64_t image)
{
    for (size_t i = 0; i < n_before && image; i++)
        if (x->member[i].proc.hello.image == image)
            return 1;
    return 0;
}

static int add_member(struct hl_index *x, const struct hl_member *m)
{
    if (x->n == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 64;
        struct hl_member *p = realloc(x->member, cap * sizeof *p);
        if (!p)
            return -1;
        x->member = p;
        x->cap = cap;
    }
    x->member[x->n++] = *m;
    return 0;
}

static int get_units(struct hl_index *x, int node, struct hl_reader *r)
{
    size_t before = x->n;
    uint64_t n = hl_get_u64(r);
    for (uint64_t i = 0; i < n && !r->fault; i++) {
        struct hl_member m = {.node = node, .unit = i};
        uint64_t catalog = hl_get_u64(r);
        m.bytes = hl_get_u64(r);
        struct hl_str body = get_bytes(r);
        if (r->fault || catalog >= x->n_catalogs[node] ||
            hl_decode_proc((const uint8_t *)body.p, body.n, &m.proc)) {
            r->fault = HL_WIRE_BAD_VALUE;
            return 0;
        }
        m.catalog = &x->catalog[node][catalog];
        if (!known_image(x, before, m.proc.hello.image) && add_member(x, &m))
            return -1;
    }
    return 0;
}

int hl_index_init(struct hl_index *x, int n_nodes, struct hl_err *e)
{
    memset(x, 0, sizeof *x);
    x->n_nodes = n_nodes;
    x->bytes = calloc((size_t)n_nodes, sizeof *x->bytes);
    x->catalog = calloc((size_t)n_nodes, sizeof *x->catalog);
    x->n_catalogs = calloc((size_t)n_nodes, sizeof *x->n_catalogs);
    return x->bytes && x->catalog && x->n_catalogs ? 0
                                                   : hl_fail(e, ENOMEM, "no memory left");
}

int hl_index_add(struct hl_index *x, int node, struct hl_buf *b, struct hl_err *e)
{
    x->bytes[node] = *b;
    memset(b, 0, sizeof *b);
    struct hl_reader r =
        hl_reader_on(hl_buf_data(&x->bytes[node]), hl_buf_left(&x->bytes[node]));
    if (hl_get_u64(&r) != INDEX_MAGIC)
        return hl_fail(e, HL_ERR_VERSION,
                       "node %d runs another version of heapline-gather", node);
    if (get_notes(x, &r) || get_catalogs(x, node, &r) || get_units(x, node, &r))
        return hl_fail(e, ENOMEM, "no memory left");
    return hl_reader_done(&r)
               ? hl_fail(e, HL_ERR_FORMAT, "the index of node %d is damaged", node)
               : 0;
}

void hl_index_fini(struct hl_index *x)
{
    for (int i = 0; i < x->n_nodes; i++) {
        if (x->bytes)
            hl_buf_fini(&x->bytes[i]);
        for (size_t k = 0; x->n_catalogs && k < x->n_catalogs[i]; k++)
            hl_catalog_fini(&x->catalog[i][k]);
        if (x->catalog)
            free(x->catalog[i]);
    }
    for (size_t i = 0; i < x->n_notes; i++)
        free(x->note[i]);
    free(x->note);
    free(x->bytes);
    free(x->catalog);
    free(x->n_catalogs);
    free(x->member);
    memset(x, 0, sizeof *x);
}
