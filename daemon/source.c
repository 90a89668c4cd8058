/* SPDX-License-Identifier: Apache-2.0
 *
 * A node's data of one run, from its collector; files are in source_files.c.
 */
#include "source.h"

#include "path.h"
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PULL_MAX = 512 << 10, ANSWER_MS = 20000 };

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

int hl_unit_set(struct hl_unit *u, const struct hl_proc *p, struct hl_err *e)
{
    uint8_t buf[HL_WIRE_HEADER + 8192];
    int64_t n = hl_encode_proc(buf, sizeof buf, p);
    uint8_t *text = n < 0 ? NULL : malloc((size_t)n - HL_WIRE_HEADER);
    if (!text)
        return hl_fail(e, ENOMEM, "no memory left");
    free(u->text);
    u->text = text;
    u->text_bytes = (size_t)n - HL_WIRE_HEADER;
    memcpy(text, buf + HL_WIRE_HEADER, u->text_bytes);
    return hl_decode_proc(u->text, u->text_bytes, &u->proc)
               ? hl_fail(e, HL_ERR_FORMAT, "an entry of the index is damaged")
               : 0;
}

struct hl_unit *hl_source_add(struct hl_source *s, const struct hl_proc *p,
                              struct hl_err *e)
{
    if (s->n_units == s->units_cap) {
        size_t cap = s->units_cap ? 2 * s->units_cap : 16;
        struct hl_unit *q = realloc(s->unit, cap * sizeof *q);
        if (!q) {
            hl_fail(e, ENOMEM, "no memory left");
            return NULL;
        }
        s->unit = q;
        s->units_cap = cap;
    }
    struct hl_unit *u = &s->unit[s->n_units];
    memset(u, 0, sizeof *u);
    if (hl_unit_set(u, p, e))
        return NULL;
    s->n_units++;
    return u;
}

static int same_names(const struct hl_names *a, const struct hl_names *b)
{
    if (a->n != b->n)
        return 0;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->name[i], b->name[i]))
            return 0;
    return 1;
}

static int keep_catalog(struct hl_source *s, struct hl_catalog *c, size_t *idx,
                        struct hl_err *e)
{
    for (size_t i = 0; i < s->n_catalogs; i++)
        if (same_names(&s->catalog[i].metrics, &c->metrics) &&
            same_names(&s->catalog[i].paths, &c->paths)) {
            *idx = i;
            hl_catalog_fini(c);
            return 0;
        }
    struct hl_catalog *p = realloc(s->catalog, (s->n_catalogs + 1) * sizeof *p);
    if (!p)
        return hl_fail(e, ENOMEM, "no memory left");
    s->catalog = p;
    s->catalog[s->n_catalogs] = *c;
    memset(c, 0, sizeof *c);
    *idx = s->n_catalogs++;
    return 0;
}

int hl_source_keep_names(struct hl_source *s, struct hl_stream *st, size_t *idx,
                         struct hl_err *e)
{
    struct hl_catalog c = {0};
    int bad = hl_stream_take_names(st, &c) ? hl_fail(e, ENOMEM, "no memory left")
                                           : keep_catalog(s, &c, idx, e);
    hl_catalog_fini(&c);
    return bad;
}

/* ---- the collector ---- */

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
            return hl_fail(e, HL_ERR_FORMAT, "the collector at %s sent a wrong index",
                           s->link.path);
        struct hl_unit *u = hl_source_add(s, &p, e);
        if (!u)
            return -1;
        u->collector_bytes = p.stream_bytes;
    }
}

/* One piece of at most PULL_MAX bytes; *got of them came. */
static int pull(struct hl_source *s, uint32_t proc, uint32_t what, uint64_t offset,
                uint64_t n, uint8_t *out, uint64_t *got, struct hl_err *e)
{
    uint8_t ask[64];
    struct hl_pull m = {proc, what, offset, (uint32_t)(n < PULL_MAX ? n : PULL_MAX)};
    struct hl_wire_header h;
    const uint8_t *body;
    struct hl_data d;
    if (hl_link_send(&s->link, ask, hl_encode_pull(ask, sizeof ask, &m), e) ||
        hl_link_next(&s->link, &h, &body, ANSWER_MS, e))
        return -1;
    if (h.type != HL_MSG_DATA || hl_decode_data(body, h.length, &d) || d.proc != proc ||
        d.offset != offset || d.n > n)
        return hl_fail(e, HL_ERR_FORMAT, "the collector at %s sent wrong data",
                       s->link.path);
    memcpy(out, d.bytes, d.n);
    *got = d.n;
    return 0;
}

static int pull_catalogs(struct hl_source *s, struct hl_unit *u, struct hl_err *e)
{
    struct hl_stream st = {0};
    uint8_t *piece = malloc(PULL_MAX);
    uint64_t at = 0, got;
    int bad = piece ? 0 : hl_fail(e, ENOMEM, "no memory left");
    while (!bad && at < u->proc.catalog_bytes) {
        bad = pull(s, u->proc.id, HL_PULL_CATALOGS, at, u->proc.catalog_bytes - at, piece,
                   &got, e);
        if (!bad && !got)
            bad = hl_fail(e, HL_ERR_FORMAT, "the collector at %s sent too few catalogs",
                          s->link.path);
        bad = bad || hl_stream_feed(&st, piece, got, NULL, NULL, e);
        at += bad ? 0 : got;
    }
    if (!bad)
        bad = hl_source_keep_names(s, &st, &u->catalog, e);
    free(piece);
    hl_stream_fini(&st);
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

int hl_source_open(struct hl_source *s, const struct hl_source_options *o,
                   struct hl_err *e)
{
    struct hl_catalog none = {0};
    size_t idx;
    memset(s, 0, sizeof *s);
    s->link.fd = -1;
    gethostname(s->host, HL_HOST_MAX);
    if (keep_catalog(s, &none, &idx, e))
        return -1;
    int r = connect_to(s, o, e);
    if (r < 0 || (r == 0 && ask_index(s, o->wait_ms, e)))
        return -1;
    for (size_t i = 0; i < s->n_units; i++)
        if (s->unit[i].proc.catalog_bytes && pull_catalogs(s, &s->unit[i], e))
            return -1;
    return o->fallback_dir ? hl_source_scan_files(s, o, e) : 0;
}

void hl_source_close(struct hl_source *s)
{
    for (size_t i = 0; i < s->n_units; i++) {
        free(s->unit[i].text);
        free(s->unit[i].rows_file);
        free(s->unit[i].page_file);
    }
    free(s->unit);
    for (size_t i = 0; i < s->n_catalogs; i++)
        hl_catalog_fini(&s->catalog[i]);
    free(s->catalog);
    for (size_t i = 0; i < s->n_notes; i++)
        free(s->note[i]);
    free(s->note);
    hl_link_close(&s->link);
}

static int read_file(const char *name, uint64_t offset, uint64_t n, uint8_t *out,
                     struct hl_err *e)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int r = fd < 0 ? -1 : hl_path_pread_all(fd, out, n, (off_t)offset);
    if (r)
        hl_fail_errno(e, "cannot read %s", name);
    if (fd >= 0)
        close(fd);
    return r ? -1 : 0;
}

int hl_source_read(struct hl_source *s, size_t unit, uint64_t offset, uint64_t n,
                   uint8_t *out, struct hl_err *e)
{
    if (unit >= s->n_units || offset > hl_unit_bytes(&s->unit[unit]) ||
        n > hl_unit_bytes(&s->unit[unit]) - offset)
        return hl_fail(e, EINVAL, "a piece outside of a stream was asked for");
    const struct hl_unit *u = &s->unit[unit];
    while (n) {
        uint64_t got;
        if (offset >= u->collector_bytes)
            return read_file(u->rows_file, offset - u->collector_bytes, n, out, e);
        uint64_t want = u->collector_bytes - offset;
        if (pull(s, u->proc.id, HL_PULL_STREAM, offset, want < n ? want : n, out, &got,
                 e))
            return -1;
        if (!got)
            return hl_fail(e, HL_ERR_FORMAT, "the collector at %s has less than it said",
                           s->link.path);
        offset += got;
        out += got;
        n -= got;
    }
    return 0;
}

int hl_source_taken(struct hl_source *s, struct hl_err *e)
{
    uint8_t msg[HL_WIRE_HEADER];
    struct hl_wire_header h;
    const uint8_t *body;
    for (size_t i = 0; i < s->n_units; i++) {
        if (s->unit[i].rows_file)
            unlink(s->unit[i].rows_file);
        if (s->unit[i].page_file)
            unlink(s->unit[i].page_file);
    }
    if (s->link.fd < 0)
        return 0;
    if (hl_link_send(&s->link, msg, hl_encode_taken(msg, sizeof msg), e) ||
        hl_link_next(&s->link, &h, &body, ANSWER_MS, e))
        return -1;
    return h.type == HL_MSG_TAKEN_OK
               ? 0
               : hl_fail(e, HL_ERR_FORMAT, "the collector at %s gave a wrong answer",
                         s->link.path);
}
