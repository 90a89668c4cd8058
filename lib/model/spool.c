/* SPDX-License-Identifier: Apache-2.0
 *
 * Spool files: append, read by stream offset, cut the torn tail; see spool.h.
 */
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the pool of open files ---- */

void hl_spool_pool_init(struct hl_spool_pool *p, int root, size_t max_open)
{
    *p = (struct hl_spool_pool){
        .root = root, .max_open = max_open ? max_open : 1, .write = pwrite};
}

static void unlink_open(struct hl_spool *s)
{
    struct hl_spool_pool *p = s->pool;
    *(s->newer ? &s->newer->older : &p->newest) = s->older;
    *(s->older ? &s->older->newer : &p->oldest) = s->newer;
    s->newer = s->older = NULL;
}

static void link_newest(struct hl_spool *s)
{
    struct hl_spool_pool *p = s->pool;
    s->older = p->newest;
    s->newer = NULL;
    *(p->newest ? &p->newest->newer : &p->oldest) = s;
    p->newest = s;
}

static void close_file(struct hl_spool *s)
{
    if (s->fd < 0)
        return;
    unlink_open(s);
    s->pool->n_open--;
    close(s->fd);
    s->fd = -1;
}

static int open_file(struct hl_spool *s, int flags)
{
    struct hl_spool_pool *p = s->pool;
    while (p->n_open >= p->max_open)
        close_file(p->oldest);
    s->fd = openat(p->root, s->name, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (s->fd < 0)
        return -errno;
    p->n_open++;
    link_newest(s);
    return s->fd;
}

int hl_spool_fd(struct hl_spool *s)
{
    if (s->fd < 0)
        return open_file(s, 0);
    unlink_open(s);
    link_newest(s);
    return s->fd;
}

/* ---- what lies where ---- */

static int grow(void **p, size_t n, size_t max, size_t each)
{
    if (n >= max)
        return -EFBIG;
    if (n & (n - 1)) /* room is made at powers of two */
        return 0;
    void *q = realloc(*p, (n ? 2 * n : 1) * each);
    if (!q)
        return -ENOMEM;
    *p = q;
    return 0;
}

/* Does the stream go on where the last extent ends? */
static int extent_goes_on(const struct hl_spool *s)
{
    if (!s->n_extents)
        return 0;
    const struct hl_spool_extent *x = &s->extent[s->n_extents - 1];
    return s->size - x->file == s->stream_bytes - x->stream;
}

static int note_stream(struct hl_spool *s, unsigned type, uint32_t bytes)
{
    int r = extent_goes_on(s) ? 0
                              : grow((void **)&s->extent, s->n_extents,
                                     HL_SPOOL_EXTENTS_MAX, sizeof *s->extent);
    if (!r && type == HL_MSG_CATALOG)
        r = grow((void **)&s->catalog, s->n_catalogs, HL_SPOOL_CATALOGS_MAX,
                 sizeof *s->catalog);
    if (r)
        return r;
    if (!extent_goes_on(s))
        s->extent[s->n_extents++] = (struct hl_spool_extent){s->stream_bytes, s->size};
    if (type == HL_MSG_CATALOG) {
        s->catalog[s->n_catalogs++] =
            (struct hl_spool_catalog){s->stream_bytes, s->catalog_bytes, bytes};
        s->catalog_bytes += bytes;
    }
    s->stream_bytes += bytes;
    return 0;
}

static int note_message(struct hl_spool *s, const struct hl_wire_header *h)
{
    uint32_t bytes = HL_WIRE_HEADER + h->length;
    const struct hl_wire_type *t = hl_wire_type(h->type);
    int r = t && t->where & HL_IN_STREAM ? note_stream(s, h->type, bytes) : 0;
    if (!r)
        s->size += bytes;
    return r;
}

/* Counters as they were; the arrays only grow, so nothing else is undone. */
static void go_back(struct hl_spool *s, const struct hl_spool *was)
{
    s->size = was->size;
    s->stream_bytes = was->stream_bytes;
    s->catalog_bytes = was->catalog_bytes;
    s->n_extents = was->n_extents;
    s->n_catalogs = was->n_catalogs;
}

static int note_all(struct hl_spool *s, const uint8_t *p, size_t n)
{
    struct hl_spool was = *s;
    for (size_t at = 0; at < n;) {
        struct hl_wire_header h;
        int r =
            hl_wire_header_get(p + at, n - at, &h) || n - at - HL_WIRE_HEADER < h.length
                ? -EBADMSG
                : note_message(s, &h);
        if (r) {
            go_back(s, &was);
            return r;
        }
        at += HL_WIRE_HEADER + h.length;
    }
    return 0;
}

/* ---- append ---- */

static int write_at(struct hl_spool *s, int fd, const uint8_t *p, size_t n, uint64_t at)
{
    while (n) {
        ssize_t k = s->pool->write(fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return k ? -errno : -ENOSPC;
        p += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

int hl_spool_append(struct hl_spool *s, const uint8_t *p, size_t n)
{
    struct hl_spool was = *s;
    int fd = hl_spool_fd(s);
    int r = fd < 0 ? fd : note_all(s, p, n);
    if (r)
        return r;
    r = write_at(s, fd, p, n, was.size);
    if (r) {
        go_back(s, &was);
        /* Should this fail, the next append writes over the rest, and a
         * checksum tells a reader where to stop. */
        return ftruncate(fd, (off_t)was.size) && r != -ENOSPC ? -EIO : r;
    }
    s->dirty = 1;
    return 0;
}

static int start(struct hl_spool *s, struct hl_spool_pool *pool, const char *name,
                 struct hl_err *e)
{
    memset(s, 0, sizeof *s);
    s->pool = pool;
    s->fd = -1;
    s->name = strdup(name);
    return s->name ? 0 : hl_fail(e, ENOMEM, "spool %s: no memory left", name);
}

static int fail_code(struct hl_err *e, int negative, const char *name)
{
    errno = -negative;
    return hl_fail_errno(e, "spool %s", name);
}

int hl_spool_create(struct hl_spool *s, struct hl_spool_pool *pool, const char *name,
                    const uint8_t *first, size_t n, struct hl_err *e)
{
    if (start(s, pool, name, e))
        return -1;
    int made = open_file(s, O_CREAT | O_EXCL);
    int r = made < 0 ? made : hl_spool_append(s, first, n);
    if (!r)
        return 0;
    if (made >= 0)
        hl_spool_remove(s);
    hl_spool_fini(s);
    return fail_code(e, r, name);
}

/* ---- open again ---- */

enum { SCAN_BYTES = HL_WIRE_HEADER + HL_WIRE_MAX_BODY };

static int check_head(const struct hl_wire_header *h, const char *name, struct hl_err *e)
{
    return h->type == HL_MSG_SPOOL
               ? 0
               : hl_fail(e, HL_ERR_FORMAT, "%s is no spool: it has no head", name);
}

/* Take whole messages from p; *used of n bytes.  1: a torn tail begins here. */
static int scan_piece(struct hl_spool *s, const uint8_t *p, size_t n, size_t *used,
                      hl_spool_visit_fn *visit, void *ctx, struct hl_err *e)
{
    *used = 0;
    for (;;) {
        struct hl_wire_header h;
        const uint8_t *body;
        size_t k;
        int code =
            hl_wire_next(p + *used, n - *used, HL_IN_SPOOL, HL_STATE_FILE, &h, &body, &k);
        if (code == HL_WIRE_SHORT)
            return 0;
        if (code == HL_WIRE_BAD_VERSION)
            return hl_fail(e, HL_ERR_VERSION, "%s was written by an unknown version",
                           s->name);
        if (!code && !s->size && check_head(&h, s->name, e))
            return -1;
        if (code || (visit && visit(ctx, &h, body)))
            return 1;
        int r = note_message(s, &h);
        if (r)
            return fail_code(e, r, s->name);
        *used += k;
    }
}

static int scan(struct hl_spool *s, int fd, uint8_t *buf, hl_spool_visit_fn *visit,
                void *ctx, struct hl_err *e)
{
    for (;;) {
        size_t used;
        ssize_t n = pread(fd, buf, SCAN_BYTES, (off_t)s->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_code(e, -errno, s->name);
        int r = scan_piece(s, buf, (size_t)n, &used, visit, ctx, e);
        if (r || !used)
            return r < 0 ? -1 : 0;
    }
}

static int cut_tail(struct hl_spool *s, int fd, struct hl_err *e)
{
    struct stat st;
    if (!s->size)
        return hl_fail(e, HL_ERR_FORMAT, "%s is no spool: it has no head", s->name);
    if (fstat(fd, &st))
        return fail_code(e, -errno, s->name);
    s->cut_bytes = (uint64_t)st.st_size - s->size;
    if (s->cut_bytes && ftruncate(fd, (off_t)s->size))
        return fail_code(e, -errno, s->name);
    return 0;
}

int hl_spool_open(struct hl_spool *s, struct hl_spool_pool *pool, const char *name,
                  hl_spool_visit_fn *visit, void *ctx, struct hl_err *e)
{
    if (start(s, pool, name, e))
        return -1;
    uint8_t *buf = malloc(SCAN_BYTES);
    int fd = buf ? open_file(s, 0) : -ENOMEM;
    int r = fd < 0 ? fail_code(e, fd, name) : scan(s, fd, buf, visit, ctx, e);
    if (!r)
        r = cut_tail(s, fd, e);
    free(buf);
    if (r)
        hl_spool_fini(s);
    return r;
}

/* ---- read ---- */

static size_t extent_of(const struct hl_spool *s, uint64_t offset)
{
    size_t lo = 0, hi = s->n_extents;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->extent[mid].stream <= offset)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static int read_file(struct hl_spool *s, uint64_t at, uint8_t *out, size_t n)
{
    int fd = hl_spool_fd(s);
    while (fd >= 0 && n) {
        ssize_t k = pread(fd, out, n, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return k ? -errno : -EIO;
        out += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return fd < 0 ? fd : 0;
}

int hl_spool_read(struct hl_spool *s, uint64_t offset, uint8_t *out, size_t n,
                  size_t *got)
{
    *got = 0;
    while (*got < n && offset < s->stream_bytes) {
        size_t i = extent_of(s, offset);
        uint64_t end = i + 1 < s->n_extents ? s->extent[i + 1].stream : s->stream_bytes;
        size_t k = end - offset < n - *got ? (size_t)(end - offset) : n - *got;
        int r = read_file(s, s->extent[i].file + (offset - s->extent[i].stream),
                          out + *got, k);
        if (r)
            return r;
        *got += k;
        offset += k;
    }
    return 0;
}

static size_t catalog_at(const struct hl_spool *s, uint64_t offset)
{
    size_t lo = 0, hi = s->n_catalogs;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->catalog[mid].before <= offset)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

int hl_spool_read_catalogs(struct hl_spool *s, uint64_t offset, uint8_t *out, size_t n,
                           size_t *got)
{
    *got = 0;
    while (*got < n && offset < s->catalog_bytes) {
        const struct hl_spool_catalog *c = &s->catalog[catalog_at(s, offset)];
        uint64_t into = offset - c->before;
        size_t want = c->bytes - into < n - *got ? (size_t)(c->bytes - into) : n - *got,
               k;
        int r = hl_spool_read(s, c->stream + into, out + *got, want, &k);
        if (r || k != want)
            return r ? r : -EIO;
        *got += k;
        offset += k;
    }
    return 0;
}

/* ---- the rest ---- */

int hl_spool_sync(struct hl_spool *s)
{
    if (!s->dirty)
        return 0;
    int fd = hl_spool_fd(s);
    if (fd < 0)
        return fd;
    if (fdatasync(fd))
        return -errno;
    s->dirty = 0;
    return 0;
}

int hl_spool_remove(struct hl_spool *s)
{
    close_file(s);
    return unlinkat(s->pool->root, s->name, 0) ? -errno : 0;
}

void hl_spool_move(struct hl_spool *to, struct hl_spool *from)
{
    close_file(from);
    *to = *from;
    memset(from, 0, sizeof *from);
    from->fd = -1;
}

void hl_spool_fini(struct hl_spool *s)
{
    if (s->pool)
        close_file(s);
    free(s->name);
    free(s->extent);
    free(s->catalog);
    memset(s, 0, sizeof *s);
    s->fd = -1;
}
