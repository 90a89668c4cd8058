/* SPDX-License-Identifier: Apache-2.0
 *
 * A node's data of one run, from its collector; files are in source_files.c.
 */
#include "source.h"

#include "path.h"
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PULL_MAX = 512 << 10, ANSWER_MS = 20000, HWM_PAGE = 4096 };

void hl_source_tick(struct hl_source *s)
{
    if (s->tick)
        s->tick(s->tick_ctx);
}

int hl_source_note(struct hl_source *s, const char *format, ...)
{
    char **p = realloc(s->note, (s->n_notes + 1) * sizeof *p), *text;
    va_list ap;
    if (!p)
        return -1;
    s->note = p;
    va_start(ap, format);
    int n = vasprintf(&text, format, ap);
    va_end(ap);
    if (n < 0)
        return -1;
    s->note[s->n_notes++] = text;
    return 0;
}

/* ---- units ---- */

static void fill_entry(struct hl_entry *t, const struct hl_proc *p)
{
    int64_t hwm = p->heap.record.vmhwm_bytes;
    t->rank = p->hello.rank;
    t->pid = (int32_t)p->hello.pid;
    t->flags = (p->flags & 0xff) | p->heap.end.kind << HL_ENTRY_ENDED_SHIFT;
    int unknown = p->heap.end.kind == HL_ENDED_SAMPLED && !p->heap.record.elapsed_ns;
    if (unknown || p->flags & HL_PROC_NOTE_PAGE) /* there is nothing to show in a row */
        t->flags &= ~(uint32_t)HL_PROC_HEAP;
    t->hwm_pages = hwm <= 0                                ? 0
                   : hwm / HWM_PAGE >= (int64_t)UINT32_MAX ? UINT32_MAX
                                                           : (uint32_t)(hwm / HWM_PAGE);
    t->n_rows = p->n_rows;
    t->start_ticks = p->hello.start_ticks;
    hl_entry_set_points(t, p->n_points, p->n_points_lost);
}

/* What the whole run needs of single processes. */
static int note_gap(struct hl_source *s, uint32_t arrival, const struct hl_proc *p)
{
    size_t i = 0;
    while (i < s->n_gaps && s->gap[i].unit != arrival)
        i++;
    if (i == s->n_gaps) {
        if (!p->n_dropped && !p->n_lost)
            return 0;
        struct hl_gap *q = realloc(s->gap, (i + 1) * sizeof *q);
        if (!q)
            return -1;
        s->gap = q;
        s->n_gaps++;
    }
    s->gap[i] = (struct hl_gap){arrival, p->n_dropped, p->n_lost};
    return 0;
}

static void note_run(struct hl_source *s, const struct hl_proc *p)
{
    struct hl_str v = p->hello.app_version;
    int64_t rank = p->hello.rank >= 0 ? p->hello.rank : INT64_MAX - 1;
    if (p->hello.rank >= 0 && p->hello.size > s->max_size)
        s->max_size = p->hello.size;
    if (v.n && rank < s->version_rank && v.n < sizeof s->app_version) {
        memcpy(s->app_version, v.p, v.n);
        s->app_version[v.n] = 0;
        s->version_rank = rank;
    }
}

int hl_unit_set(struct hl_source *s, struct hl_unit *u, const struct hl_proc *p,
                struct hl_err *e)
{
    size_t host;
    fill_entry(&u->entry, p);
    note_run(s, p);
    if (hl_names_add(&s->hosts, p->hello.host.p ? p->hello.host.p : "", p->hello.host.n,
                     &host) ||
        note_gap(s, u->arrival, p))
        return hl_fail(e, ENOMEM, "no memory left");
    u->entry.host = (uint32_t)host;
    return hl_records_add(&s->records, p, &u->record, e);
}

int hl_unit_get(const struct hl_source *s, const struct hl_unit *u,
                uint8_t buf[HL_PROC_BODY_MAX], struct hl_proc *out, struct hl_err *e)
{
    if (hl_records_read(&s->records, &u->record, buf, e))
        return -1;
    return hl_decode_proc(buf, u->record.n, out)
               ? hl_fail(e, HL_ERR_FORMAT, "an entry of the index is damaged")
               : 0;
}

int hl_unit_lose_frames(struct hl_source *s, struct hl_unit *u, const char *why,
                        struct hl_err *e)
{
    uint8_t body[HL_PROC_BODY_MAX];
    char rank[32] = "";
    struct hl_proc p;
    if (hl_unit_get(s, u, body, &p, e))
        return -1;
    if (p.hello.rank >= 0)
        snprintf(rank, sizeof rank, "rank %lld, ", (long long)p.hello.rank);
    if (hl_source_note(s, "%llu frames of %sprocess %lld on %s: %s",
                       (unsigned long long)p.n_rows, rank, (long long)p.hello.pid,
                       s->hosts.name[u->entry.host], why))
        return hl_fail(e, ENOMEM, "no memory left");
    s->n_unread++;
    p.n_rows = u->entry.bytes = 0;
    if (u->files)
        s->files[u->files - 1].collector_bytes = 0;
    if (hl_unit_set(s, u, &p, e))
        return -1;
    u->entry.flags |= HL_ENTRY_LOST;
    return 0;
}

struct hl_unit *hl_source_add(struct hl_source *s, const struct hl_proc *p,
                              struct hl_err *e)
{
    if (s->n_units == s->units_cap) {
        size_t cap = s->units_cap ? 2 * s->units_cap : 16;
        struct hl_unit *q = realloc(s->unit, cap * sizeof *q);
        if (!q || s->n_units >= UINT32_MAX - 1) {
            hl_fail(e, ENOMEM, "no memory left for the index");
            return NULL;
        }
        s->unit = q;
        s->units_cap = cap;
    }
    struct hl_unit *u = &s->unit[s->n_units];
    memset(u, 0, sizeof *u);
    u->image = p->hello.image;
    u->arrival = (uint32_t)s->n_units;
    if (hl_unit_set(s, u, p, e))
        return NULL;
    if (!hl_images_find(&s->images, u->image) &&
        hl_images_add(&s->images, u->image, u->arrival)) {
        hl_fail(e, ENOMEM, "no memory left for the index");
        return NULL;
    }
    s->n_units++;
    if (s->n_units % 256 == 0)
        hl_source_tick(s);
    return u;
}

struct hl_unit *hl_source_find(struct hl_source *s, uint64_t image)
{
    const uint32_t *i = hl_images_find(&s->images, image);
    return i ? &s->unit[*i] : NULL;
}

struct hl_unit_files *hl_unit_need_files(struct hl_source *s, struct hl_unit *u)
{
    if (!u->files) {
        struct hl_unit_files *p = realloc(s->files, (s->n_files + 1) * sizeof *p);
        if (!p)
            return NULL;
        s->files = p;
        p[s->n_files++] = (struct hl_unit_files){u->entry.bytes, NULL, NULL};
        u->files = (uint32_t)s->n_files;
    }
    return &s->files[u->files - 1];
}

/* ---- their order ---- */

static int cmp64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_process(const void *pa, const void *pb)
{
    const struct hl_unit *a = pa, *b = pb;
    int r = cmp64((uint32_t)a->entry.pid, (uint32_t)b->entry.pid);
    r = r ? r : cmp64(a->entry.start_ticks, b->entry.start_ticks);
    return r ? r : cmp64(a->arrival, b->arrival);
}

static int by_csv(const void *pa, const void *pb, void *source)
{
    const struct hl_unit *a = pa, *b = pb;
    const struct hl_source *s = source;
    if (a->entry.rank != b->entry.rank)
        return a->entry.rank < b->entry.rank ? -1 : 1;
    int r = strcmp(s->hosts.name[a->entry.host], s->hosts.name[b->entry.host]);
    r = r ? r : cmp64((uint32_t)a->entry.pid, (uint32_t)b->entry.pid);
    r = r ? r : cmp64(a->entry.start_ticks, b->entry.start_ticks);
    return r ? r : cmp64(a->arrival, b->arrival);
}

/* Of the images of one process that have a heap, the row is the last that did not
 * end by exec, else the last. */
static void mark_process(struct hl_unit *u, size_t n)
{
    size_t row = SIZE_MAX, last = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        u[i].entry.flags |= i ? HL_ENTRY_AFTER : 0;
        if (!(u[i].entry.flags & HL_PROC_HEAP))
            continue;
        last = i;
        if (hl_entry_ended(&u[i].entry) != HL_ENDED_EXEC)
            row = i;
    }
    row = row == SIZE_MAX ? last : row;
    for (size_t i = 0; i < n; i++)
        if (u[i].entry.flags & HL_PROC_HEAP)
            u[i].entry.flags |= i == row ? HL_ENTRY_ROW : HL_ENTRY_IMAGE;
}

static int put_in_order(struct hl_source *s)
{
    uint32_t *place = malloc((s->n_units + 1) * sizeof *place);
    if (!place)
        return -1;
    qsort(s->unit, s->n_units, sizeof *s->unit, by_process);
    for (size_t i = 0, k; i < s->n_units; i += k) {
        for (k = 1; i + k < s->n_units &&
                    s->unit[i + k].entry.pid == s->unit[i].entry.pid &&
                    s->unit[i + k].entry.start_ticks == s->unit[i].entry.start_ticks;)
            k++;
        mark_process(s->unit + i, k);
    }
    qsort_r(s->unit, s->n_units, sizeof *s->unit, by_csv, s);
    for (size_t i = 0; i < s->n_units; i++) {
        s->unit[i].entry.unit = (uint32_t)i;
        place[s->unit[i].arrival] = (uint32_t)i;
    }
    for (size_t i = 0; i < s->n_gaps; i++)
        s->gap[i].unit = place[s->gap[i].unit];
    free(place);
    hl_images_fini(&s->images);
    return 0;
}

/* ---- catalogs ---- */

static int keep_catalog(struct hl_source *s, struct hl_catalog *c, uint32_t *idx,
                        struct hl_err *e)
{
    return hl_catalog_keep(&s->catalog, &s->n_catalogs, c, idx)
               ? hl_fail(e, ENOMEM, "no memory left")
               : 0;
}

int hl_source_keep_names(struct hl_source *s, struct hl_stream *st, uint32_t *idx,
                         struct hl_err *e)
{
    struct hl_catalog c = {0};
    int bad = hl_stream_take_names(st, &c) ? hl_fail(e, ENOMEM, "no memory left")
                                           : keep_catalog(s, &c, idx, e);
    hl_catalog_fini(&c);
    return bad;
}

/* ---- the collector ---- */

static int wrong(const struct hl_source *s, struct hl_err *e, const char *what)
{
    return hl_fail(e, HL_ERR_FORMAT, "the collector at %s sent %s", s->link.path, what);
}

static int take_proc(struct hl_source *s, const struct hl_proc *p, struct hl_err *e)
{
    if (p->hello.pid > INT32_MAX || p->hello.pid < 0)
        return hl_source_note(s, "a process with the number %lld, which cannot be",
                              (long long)p->hello.pid);
    struct hl_unit *u = hl_source_add(s, p, e);
    if (!u)
        return -1;
    u->entry.bytes = p->stream_bytes;
    u->proc = p->id;
    return 0;
}

static int ask_index(struct hl_source *s, uint32_t wait_ms, struct hl_err *e)
{
    uint8_t ask[64];
    if (hl_link_send(&s->link, ask, hl_encode_index_ask(ask, sizeof ask, wait_ms), e))
        return -1;
    for (;;) {
        struct hl_wire_header h;
        const uint8_t *body;
        struct hl_proc p;
        if (hl_link_next(&s->link, &h, &body, (int)wait_ms + ANSWER_MS, e))
            return -1;
        if (h.type == HL_MSG_INDEX_END)
            return 0;
        if (h.type != HL_MSG_PROC || hl_decode_proc(body, h.length, &p))
            return wrong(s, e, "a wrong index");
        if (take_proc(s, &p, e))
            return -1;
    }
}

static int ask_piece(struct hl_source *s, uint32_t proc, uint32_t what, uint64_t offset,
                     uint64_t n, struct hl_err *e)
{
    uint8_t ask[64];
    struct hl_pull m = {proc, what, offset, (uint32_t)(n < PULL_MAX ? n : PULL_MAX)};
    return hl_link_send(&s->link, ask, hl_encode_pull(ask, sizeof ask, &m), e);
}

/* The answer to the oldest question: at most n bytes. */
static int get_piece(struct hl_source *s, uint64_t n, uint8_t *out, uint64_t *got,
                     struct hl_err *e)
{
    struct hl_wire_header h;
    const uint8_t *body;
    struct hl_data d;
    if (hl_link_next(&s->link, &h, &body, ANSWER_MS, e))
        return -1;
    if (h.type != HL_MSG_DATA || hl_decode_data(body, h.length, &d) || d.n > n)
        return wrong(s, e, "wrong data");
    memcpy(out, d.bytes, d.n);
    *got = d.n;
    return 0;
}

/* Feed a unit's catalogs.  1: they are damaged or cannot be read, why says it. */
static int feed_catalogs(struct hl_source *s, const struct hl_unit *u, uint64_t bytes,
                         uint8_t *piece, struct hl_stream *st, struct hl_err *why,
                         struct hl_err *e)
{
    for (uint64_t at = 0, got; at < bytes; at += got) {
        if (ask_piece(s, u->proc, HL_PULL_CATALOGS, at, bytes - at, e) ||
            get_piece(s, PULL_MAX, piece, &got, e))
            return -1;
        if (!got)
            hl_fail(why, HL_ERR_FORMAT, HL_CANNOT_BE_READ);
        else
            hl_stream_feed(st, piece, got, NULL, NULL, why);
        if (why->code)
            return why->code == HL_ERR_FORMAT ? 1 : (*e = *why, -1);
    }
    return 0;
}

static int pull_catalogs(struct hl_source *s, struct hl_unit *u, uint64_t bytes,
                         uint8_t *piece, struct hl_err *e)
{
    struct hl_stream st = {0};
    struct hl_err why = {0};
    int bad = feed_catalogs(s, u, bytes, piece, &st, &why, e);
    if (bad > 0)
        bad = hl_unit_lose_frames(s, u, why.text, e);
    else
        bad = bad || hl_source_keep_names(s, &st, &u->entry.catalog, e);
    hl_stream_fini(&st);
    return bad ? -1 : 0;
}

/* The names of each unit that has any. */
static int read_catalogs(struct hl_source *s, struct hl_err *e)
{
    uint8_t *buf = malloc(HL_PROC_BODY_MAX), *piece = malloc(PULL_MAX);
    int bad = buf && piece ? 0 : hl_fail(e, ENOMEM, "no memory left");
    for (size_t i = 0; i < s->n_units && !bad; i++) {
        struct hl_proc p;
        hl_source_tick(s);
        bad =
            hl_unit_get(s, &s->unit[i], buf, &p, e) ||
            (p.catalog_bytes && pull_catalogs(s, &s->unit[i], p.catalog_bytes, piece, e));
    }
    free(buf);
    free(piece);
    return bad ? -1 : 0;
}

static int connect_to(struct hl_source *s, const struct hl_source_options *o,
                      struct hl_err *e)
{
    char *list = strdup(o->sockets), *rest = list, *path;
    struct hl_err why = {0};
    int found = -1;
    while (found && rest && (path = strsep(&rest, ":")))
        if (*path) /* below /tmp anybody can make a socket: it must be our own */
            found =
                hl_link_open(&s->link, path,
                             strncmp(path, "/tmp/", 5) ? -1 : (int64_t)geteuid(), &why);
    free(list);
    if (found)
        return 1;
    return hl_link_hello(&s->link, HL_ROLE_GATHER, o->key, getpid(), e);
}

int hl_source_empty(struct hl_source *s, struct hl_err *e)
{
    struct hl_catalog none = {0};
    uint32_t idx;
    memset(s, 0, sizeof *s);
    s->link.fd = -1;
    s->max_size = -1;
    s->version_rank = INT64_MAX;
    s->left_out = 1;
    hl_records_init(&s->records);
    gethostname(s->host, HL_HOST_MAX);
    return keep_catalog(s, &none, &idx, e);
}

int hl_source_open(struct hl_source *s, const struct hl_source_options *o,
                   struct hl_err *e)
{
    if (hl_source_empty(s, e))
        return -1;
    s->left_out = 0;
    s->tick = o->tick;
    s->tick_ctx = o->tick_ctx;
    int r = connect_to(s, o, e);
    if (r < 0 || (r == 0 && (ask_index(s, o->wait_ms, e) || read_catalogs(s, e))) ||
        (o->fallback_dir && hl_source_scan_files(s, o, e)))
        return -1;
    return put_in_order(s) ? hl_fail(e, ENOMEM, "no memory left for the index") : 0;
}

void hl_source_close(struct hl_source *s)
{
    for (size_t i = 0; i < s->n_files; i++) {
        free(s->files[i].rows);
        free(s->files[i].page);
    }
    free(s->files);
    free(s->unit);
    hl_images_fini(&s->images);
    if (s->unit || s->catalog)
        hl_records_fini(&s->records);
    for (size_t i = 0; i < s->n_catalogs; i++)
        hl_catalog_fini(&s->catalog[i]);
    free(s->catalog);
    hl_catalog_fini(&(struct hl_catalog){.metrics = s->hosts});
    for (size_t i = 0; i < s->n_notes; i++)
        free(s->note[i]);
    free(s->note);
    free(s->gap);
    for (int i = 0; i < HL_SLOTS; i++)
        free(s->slot[i].bytes);
    if (s->catalog)
        hl_link_close(&s->link);
    memset(s, 0, sizeof *s);
    s->link.fd = -1;
}

/* ---- pieces ---- */

static uint64_t collector_bytes(const struct hl_source *s, const struct hl_unit *u)
{
    return u->files ? s->files[u->files - 1].collector_bytes : u->entry.bytes;
}

/* 0, or 1 when it has gone or changed since it was looked through. */
static int read_file(const char *name, uint64_t offset, uint64_t n, uint8_t *out)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int r = fd < 0 ? -1 : hl_path_pread_all(fd, out, n, (off_t)offset);
    if (fd >= 0)
        close(fd);
    return r != 0;
}

/* Part of a slot's piece, asked of the collector. */
static int question(struct hl_source *s, int slot, uint64_t at, uint64_t n,
                    struct hl_err *e)
{
    const struct hl_want *w = &s->slot[slot].want;
    uint32_t what = w->kind == HL_WANT_POINTS ? HL_PULL_POINTS : HL_PULL_STREAM;
    s->question[s->n_questions++] = (struct hl_question){slot, at, n};
    return ask_piece(s, s->unit[w->unit].proc, what, w->offset + at, n, e);
}

/* Points that the collector counted and has no more; rank 0 meets them. */
static void put_lost_points(uint8_t *out, uint64_t n)
{
    const struct hl_point lost = hl_point_lost();
    for (uint64_t at = 0; at + HL_POINT_BYTES <= n; at += HL_POINT_BYTES)
        hl_point_put(out + at, &lost);
}

/* Take the next answer, whichever slot it is for; ask again for what it lacks. */
static int answer(struct hl_source *s, struct hl_err *e)
{
    struct hl_question q = s->question[0];
    uint64_t got;
    s->n_questions--;
    memmove(s->question, s->question + 1, s->n_questions * sizeof *s->question);
    if (get_piece(s, q.n, s->slot[q.slot].bytes + q.at, &got, e))
        return -1;
    if (!got && s->slot[q.slot].want.kind == HL_WANT_POINTS) {
        put_lost_points(s->slot[q.slot].bytes + q.at, q.n);
        got = q.n;
    }
    s->slot[q.slot].got += got;
    if (!got)
        s->slot[q.slot].unread = 1;
    return got && got < q.n ? question(s, q.slot, q.at + got, q.n - got, e) : 0;
}

static int asked_of(const struct hl_source *s, int slot)
{
    for (size_t i = 0; i < s->n_questions; i++)
        if (s->question[i].slot == slot)
            return 1;
    return 0;
}

/* PROC bodies, each behind its length. */
static int put_records(struct hl_source *s, struct hl_piece_slot *t, struct hl_err *e)
{
    uint64_t most = t->want.offset < HL_PIECE_MAX ? t->want.offset : HL_PIECE_MAX;
    size_t end =
        s->n_units - t->want.unit < t->want.n ? s->n_units : t->want.unit + t->want.n;
    for (size_t i = t->want.unit; i < end; i++) {
        const struct hl_record_place *r = &s->unit[i].record;
        struct hl_writer w = hl_writer_on(t->bytes + t->got, 4);
        if (t->got && t->got + 4 + r->n > most)
            break;
        hl_put_u32(&w, r->n);
        if (hl_records_read(&s->records, r, t->bytes + t->got + 4, e))
            return -1;
        t->got += 4 + r->n;
    }
    return 0;
}

static int is_within(const struct hl_source *s, const struct hl_want *w)
{
    if (w->unit >= s->n_units)
        return 0;
    const struct hl_entry *t = &s->unit[w->unit].entry;
    uint64_t all = w->kind == HL_WANT_POINTS ? t->n_points * HL_POINT_BYTES : t->bytes;
    if (w->kind == HL_WANT_RECORDS)
        return w->n > 0;
    return (w->kind == HL_WANT_STREAM || w->kind == HL_WANT_POINTS) &&
           w->n <= HL_PIECE_MAX && w->offset <= all && w->n <= all - w->offset;
}

int hl_source_begin(struct hl_source *s, int slot, const struct hl_want *want,
                    struct hl_err *e)
{
    struct hl_piece_slot *t = &s->slot[slot];
    if (!is_within(s, want))
        return hl_fail(e, EINVAL, "a piece outside of a stream was asked for");
    if (!t->bytes && !(t->bytes = malloc(HL_PIECE_MAX)))
        return hl_fail(e, ENOMEM, "no memory left");
    t->want = *want;
    t->got = 0;
    t->unread = 0;
    if (want->kind == HL_WANT_RECORDS)
        return put_records(s, t, e);
    uint64_t of_collector = want->kind == HL_WANT_POINTS
                                ? UINT64_MAX
                                : collector_bytes(s, &s->unit[want->unit]);
    if (want->offset >= of_collector || !want->n)
        return 0;
    uint64_t n = of_collector - want->offset;
    return question(s, slot, 0, n < want->n ? n : want->n, e);
}

int hl_source_end(struct hl_source *s, int slot, const uint8_t **p, uint64_t *n,
                  struct hl_err *e)
{
    struct hl_piece_slot *t = &s->slot[slot];
    while (asked_of(s, slot))
        if (answer(s, e))
            return -1;
    if (!t->unread && t->want.kind == HL_WANT_STREAM && t->got < t->want.n) {
        const struct hl_unit *u = &s->unit[t->want.unit];
        uint64_t at = t->want.offset + t->got - collector_bytes(s, u);
        t->unread = read_file(s->files[u->files - 1].rows, at, t->want.n - t->got,
                              t->bytes + t->got);
        t->got = t->want.n;
    }
    *p = t->bytes;
    *n = t->unread ? 0 : t->got;
    return 0;
}

static int remove_file(const char *name, size_t n_before, struct hl_err *e)
{
    if (!name || unlink(name) == 0 || errno == ENOENT)
        return 0;
    if (!n_before)
        hl_fail_errno(
            e, "fallback files stay and would be gathered again: cannot remove %s", name);
    return 1;
}

/* The number of those that stay: *e. */
static size_t remove_files(const struct hl_source *s, struct hl_err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_files; i++) {
        n += (size_t)remove_file(s->files[i].rows, n, e);
        n += (size_t)remove_file(s->files[i].page, n, e);
    }
    return n;
}

int hl_source_taken(struct hl_source *s, struct hl_err *e)
{
    uint8_t msg[HL_WIRE_HEADER];
    struct hl_wire_header h;
    const uint8_t *body;
    int bad = remove_files(s, e) ? -1 : 0;
    if (s->link.fd < 0)
        return bad;
    if (hl_link_send(&s->link, msg, hl_encode_taken(msg, sizeof msg), e) ||
        hl_link_next(&s->link, &h, &body, ANSWER_MS, e))
        return -1;
    return h.type == HL_MSG_TAKEN_OK ? bad : wrong(s, e, "a wrong answer");
}
