/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoding and joining the nodes' indices; see gather_index.h.
 */
#include "gather_index.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_MAGIC = 0x33584e48, ENTRY_BYTES = 72, GAP_BYTES = 24 };

/* ---- out ---- */

static int put(struct hl_buf *b, uint64_t v)
{
    uint8_t raw[8];
    struct hl_writer w = hl_writer_on(raw, sizeof raw);
    hl_put_u64(&w, v);
    return hl_buf_add(b, raw, sizeof raw);
}

static int put_text(struct hl_buf *b, const char *s)
{
    return put(b, strlen(s)) || hl_buf_add(b, s, strlen(s));
}

static int put_names(struct hl_buf *b, const struct hl_names *l)
{
    int bad = put(b, l->n);
    for (size_t i = 0; i < l->n && !bad; i++)
        bad = put_text(b, l->name[i]);
    return bad;
}

static int put_entry(struct hl_buf *b, const struct hl_unit *u)
{
    const struct hl_entry *t = &u->entry;
    uint8_t raw[ENTRY_BYTES];
    struct hl_writer w = hl_writer_on(raw, sizeof raw);
    hl_put_u32(&w, (uint32_t)t->rank);
    hl_put_u32(&w, (uint32_t)t->pid);
    hl_put_u32(&w, t->unit);
    hl_put_u32(&w, t->catalog);
    hl_put_u32(&w, t->host);
    hl_put_u32(&w, t->flags);
    hl_put_u32(&w, t->hwm_pages);
    hl_put_u32(&w, t->n_points_lost);
    hl_put_u64(&w, t->n_rows);
    hl_put_u64(&w, t->bytes);
    hl_put_u64(&w, t->start_ticks);
    hl_put_u64(&w, t->n_points);
    hl_put_u64(&w, u->image);
    return hl_buf_add(b, raw, sizeof raw);
}

int hl_index_encode(const struct hl_source *s, struct hl_buf *out)
{
    int bad = put(out, INDEX_MAGIC) || put(out, (uint64_t)s->max_size) ||
              put(out, (uint64_t)s->version_rank) || put_text(out, s->app_version) ||
              put(out, s->n_unread) || put(out, s->n_notes);
    for (size_t i = 0; i < s->n_notes && !bad; i++)
        bad = put_text(out, s->note[i]);
    bad = bad || put_text(out, hl_source_is_bare(s) ? s->host : "") ||
          put_names(out, &s->hosts) || put(out, s->n_catalogs);
    for (size_t i = 0; i < s->n_catalogs && !bad; i++)
        bad = put_names(out, &s->catalog[i].metrics) ||
              put_names(out, &s->catalog[i].paths);
    bad = bad || put(out, s->n_gaps);
    for (size_t i = 0; i < s->n_gaps && !bad; i++)
        bad = put(out, s->gap[i].unit) || put(out, s->gap[i].n_dropped) ||
              put(out, s->gap[i].n_lost);
    bad = bad || put(out, s->n_units);
    for (size_t i = 0; i < s->n_units && !bad; i++)
        bad = put_entry(out, &s->unit[i]);
    return bad ? -1 : 0;
}

/* ---- in ---- */

/* A node's own numbers of hosts and catalogs, and what they are here. */
struct joining {
    struct hl_index *x;
    uint32_t node;
    struct hl_reader r;
    uint32_t *host, *catalog;
    size_t n_hosts, n_catalogs;
    const uint8_t *gaps;
    size_t n_gaps;
};

static struct hl_str get_text(struct hl_reader *r)
{
    uint64_t n = hl_get_u64(r);
    struct hl_str s = {"", 0};
    if (n > hl_reader_left(r)) {
        r->fault = HL_WIRE_SHORT;
        return s;
    }
    s.n = (size_t)n;
    s.p = (const char *)hl_get_bytes(r, s.n);
    return s;
}

/* A count of things of at least `least` bytes each. */
static size_t get_count(struct hl_reader *r, size_t least)
{
    uint64_t n = hl_get_u64(r);
    if (n > hl_reader_left(r) / least) {
        r->fault = HL_WIRE_SHORT;
        return 0;
    }
    return (size_t)n;
}

static int get_version(struct joining *j)
{
    struct hl_index *x = j->x;
    int64_t size = (int64_t)hl_get_u64(&j->r), rank = (int64_t)hl_get_u64(&j->r);
    struct hl_str v = get_text(&j->r);
    x->n_unread += hl_get_u64(&j->r);
    if (size > x->max_size && size <= HL_RANKS_MAX)
        x->max_size = size;
    if (!j->r.fault && v.n && rank < x->version_rank && v.n < sizeof x->app_version) {
        memcpy(x->app_version, v.p, v.n);
        x->app_version[v.n] = 0;
        x->version_rank = rank;
    }
    return 0;
}

/* text, malloced, becomes the index's. */
static int add_note(struct hl_index *x, char *text)
{
    char **p = text ? realloc(x->note, (x->n_notes + 1) * sizeof *p) : NULL;
    if (!p) {
        free(text);
        return -1;
    }
    x->note = p;
    p[x->n_notes++] = text;
    return 0;
}

static int get_notes(struct joining *j)
{
    size_t n = get_count(&j->r, 8);
    for (size_t i = 0; i < n && !j->r.fault; i++) {
        struct hl_str s = get_text(&j->r);
        if (!j->r.fault && add_note(j->x, strndup(s.p, s.n)))
            return -1;
    }
    return 0;
}

static int get_bare(struct joining *j)
{
    struct hl_str s = get_text(&j->r);
    return s.n && !j->r.fault ? hl_names_add(&j->x->bare, s.p, s.n, NULL) : 0;
}

static int get_hosts(struct joining *j)
{
    size_t n = get_count(&j->r, 8);
    j->host = malloc((n + 1) * sizeof *j->host);
    if (!j->host)
        return -1;
    for (; j->n_hosts < n && !j->r.fault; j->n_hosts++) {
        struct hl_str s = get_text(&j->r);
        size_t at;
        if (hl_names_add(&j->x->hosts, s.p ? s.p : "", s.n, &at))
            return -1;
        j->host[j->n_hosts] = (uint32_t)at;
    }
    return 0;
}

static int get_names(struct hl_reader *r, struct hl_names *l)
{
    size_t n = get_count(r, 8);
    for (size_t i = 0; i < n && !r->fault; i++) {
        struct hl_str s = get_text(r);
        if (!r->fault && hl_names_add(l, s.p ? s.p : "", s.n, NULL))
            return -1;
    }
    return 0;
}

static int get_catalogs(struct joining *j)
{
    struct hl_index *x = j->x;
    size_t n = get_count(&j->r, 16);
    j->catalog = malloc((n + 1) * sizeof *j->catalog);
    if (!j->catalog)
        return -1;
    for (; j->n_catalogs < n && !j->r.fault; j->n_catalogs++) {
        struct hl_catalog c = {0};
        if (get_names(&j->r, &c.metrics) || get_names(&j->r, &c.paths) ||
            hl_catalog_keep(&x->catalog, &x->n_catalogs, &c,
                            &j->catalog[j->n_catalogs])) {
            hl_catalog_fini(&c);
            return -1;
        }
    }
    return 0;
}

static int get_gaps(struct joining *j)
{
    j->n_gaps = get_count(&j->r, GAP_BYTES);
    j->gaps = hl_get_bytes(&j->r, j->n_gaps * GAP_BYTES);
    return 0;
}

/* What a unit lacks, its entry lacks here. */
static int add_gaps(struct joining *j, uint32_t unit, size_t entry)
{
    struct hl_index *x = j->x;
    struct hl_reader r = hl_reader_on(j->gaps, j->n_gaps * GAP_BYTES);
    for (size_t i = 0; i < j->n_gaps; i++) {
        uint64_t of = hl_get_u64(&r);
        struct hl_index_gap g = {.entry = entry};
        g.n_dropped = hl_get_u64(&r);
        g.n_lost = hl_get_u64(&r);
        if (of != unit)
            continue;
        struct hl_index_gap *p = realloc(x->gap, (x->n_gaps + 1) * sizeof *p);
        if (!p)
            return -1;
        x->gap = p;
        p[x->n_gaps++] = g;
    }
    return 0;
}

static void forget_gaps(struct hl_index *x, size_t entry)
{
    size_t n = 0;
    for (size_t i = 0; i < x->n_gaps; i++)
        if (x->gap[i].entry != entry)
            x->gap[n++] = x->gap[i];
    x->n_gaps = n;
}

static int take_rank_away(struct hl_index *x, struct hl_entry *t)
{
    char *text;
    if (t->rank < HL_RANKS_MAX)
        return 0;
    int n =
        asprintf(&text, "rank %d: process %d on %s says it is this rank, which cannot be",
                 (int)t->rank, (int)t->pid, x->hosts.name[t->host]);
    t->rank = -1;
    return n < 0 ? -1 : add_note(x, text);
}

/* Both tell of one image: what only one of them has must not go unseen. */
static int choose_entry(struct joining *j, size_t at, const struct hl_entry *t)
{
    struct hl_index *x = j->x;
    struct hl_entry *old = &x->entry[at];
    uint32_t both = (old->flags | t->flags) & (HL_PROC_HEAP | HL_PROC_FRAMES);
    uint64_t n = old->n_rows, k = t->n_rows;
    char *text;
    if (k > n || (k == n && (t->flags & both) == both && (old->flags & both) != both)) {
        *old = *t;
        forget_gaps(x, at);
        if (add_gaps(j, t->unit, at))
            return -1;
    }
    if (n == k || !n || !k)
        return 0;
    x->n_unread++;
    return asprintf(&text,
                    "process %d on %s: two nodes have it, with %llu and %llu frames; the "
                    "larger part is here",
                    (int)t->pid, x->hosts.name[t->host], (unsigned long long)n,
                    (unsigned long long)k) < 0
               ? -1
               : add_note(x, text);
}

static int add_entry(struct joining *j, const struct hl_entry *t, uint64_t image)
{
    struct hl_index *x = j->x;
    const uint32_t *known = hl_images_find(&x->images, image);
    if (known && x->entry[*known].node != j->node)
        return choose_entry(j, *known, t);
    if (!known && hl_images_add(&x->images, image, (uint32_t)x->n))
        return -1;
    if (x->n == x->cap) {
        size_t cap = x->cap ? x->cap + x->cap / 2 : 64;
        struct hl_entry *p = realloc(x->entry, cap * sizeof *p);
        if (!p || x->n >= UINT32_MAX - 1)
            return -1;
        x->entry = p;
        x->cap = cap;
    }
    x->entry[x->n++] = *t;
    return j->n_gaps ? add_gaps(j, t->unit, x->n - 1) : 0;
}

static int get_entries(struct joining *j)
{
    struct hl_reader *r = &j->r;
    size_t n = get_count(r, ENTRY_BYTES);
    for (size_t i = 0; i < n && !r->fault; i++) {
        struct hl_entry t = {.node = j->node};
        t.rank = (int32_t)hl_get_u32(r);
        t.pid = (int32_t)hl_get_u32(r);
        t.unit = hl_get_u32(r);
        t.catalog = hl_get_u32(r);
        t.host = hl_get_u32(r);
        t.flags = hl_get_u32(r);
        t.hwm_pages = hl_get_u32(r);
        t.n_points_lost = hl_get_u32(r) & HL_POINTS_LOST_MAX;
        t.n_rows = hl_get_u64(r);
        t.bytes = hl_get_u64(r);
        t.start_ticks = hl_get_u64(r);
        t.n_points = hl_get_u64(r) & HL_POINTS_MAX;
        uint64_t image = hl_get_u64(r);
        if (t.catalog >= j->n_catalogs || t.host >= j->n_hosts || t.unit != i ||
            t.n_points_lost > t.n_points) {
            r->fault = HL_WIRE_BAD_VALUE;
            return 0;
        }
        t.catalog = j->catalog[t.catalog];
        t.host = j->host[t.host];
        if (take_rank_away(j->x, &t) || add_entry(j, &t, image))
            return -1;
    }
    return 0;
}

int hl_index_add(struct hl_index *x, uint32_t node, const uint8_t *p, size_t n,
                 struct hl_err *e)
{
    struct joining j = {.x = x, .node = node, .r = hl_reader_on(p, n)};
    if (hl_get_u64(&j.r) != INDEX_MAGIC)
        return hl_fail(e, HL_ERR_VERSION,
                       "another version of heapline-gather runs on a node");
    int bad = get_version(&j) || get_notes(&j) || get_bare(&j) || get_hosts(&j) ||
              get_catalogs(&j) || get_gaps(&j) || get_entries(&j);
    free(j.host);
    free(j.catalog);
    if (bad)
        return hl_fail(e, ENOMEM, "no memory left for the index");
    return hl_reader_done(&j.r) ? hl_fail(e, HL_ERR_FORMAT, "the index is damaged") : 0;
}

/* ---- order ---- */

static int cmp64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_csv(const void *pa, const void *pb, void *index)
{
    const struct hl_entry *a = pa, *b = pb;
    const struct hl_index *x = index;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    int r =
        a->host == b->host ? 0 : strcmp(x->hosts.name[a->host], x->hosts.name[b->host]);
    r = r ? r : cmp64((uint32_t)a->pid, (uint32_t)b->pid);
    r = r ? r : cmp64(a->start_ticks, b->start_ticks);
    r = r ? r : cmp64(a->node, b->node);
    return r ? r : cmp64(a->unit, b->unit);
}

void hl_index_done(struct hl_index *x)
{
    hl_images_fini(&x->images);
    for (size_t i = 0; i < x->n_gaps; i++) {
        x->n_dropped += x->gap[i].n_dropped;
        x->n_lost += x->gap[i].n_lost;
    }
    qsort_r(x->entry, x->n, sizeof *x->entry, by_csv, x);
}

int hl_index_leave_out(struct hl_index *x, size_t entry, enum hl_ask_kind kind,
                       const char *why)
{
    struct hl_entry *t = &x->entry[entry];
    char rank[32] = "", *text;
    if (t->rank >= 0)
        snprintf(rank, sizeof rank, "rank %d, ", (int)t->rank);
    int points = kind == HL_WANT_POINTS;
    int n = asprintf(&text, "%llu %s of %sprocess %d on %s: %s",
                     (unsigned long long)(points ? t->n_points : t->n_rows),
                     points ? "samples" : "frames", rank, (int)t->pid,
                     x->hosts.name[t->host], why);
    if (points)
        t->n_points = 0;
    else
        t->n_rows = t->bytes = 0, t->flags |= HL_ENTRY_LOST;
    x->n_unread++;
    return n < 0 ? -1 : add_note(x, text);
}

void hl_index_lose_points(struct hl_index *x, size_t entry, uint64_t n)
{
    struct hl_entry *t = &x->entry[entry];
    hl_entry_set_points(t, t->n_points, t->n_points_lost + n);
}

void hl_index_init(struct hl_index *x)
{
    memset(x, 0, sizeof *x);
    x->max_size = -1;
    x->version_rank = INT64_MAX;
}

void hl_index_fini(struct hl_index *x)
{
    for (size_t i = 0; i < x->n_catalogs; i++)
        hl_catalog_fini(&x->catalog[i]);
    for (size_t i = 0; i < x->n_notes; i++)
        free(x->note[i]);
    hl_catalog_fini(&(struct hl_catalog){.metrics = x->hosts, .paths = x->bare});
    hl_images_fini(&x->images);
    free(x->note);
    free(x->gap);
    free(x->catalog);
    free(x->entry);
    memset(x, 0, sizeof *x);
}
