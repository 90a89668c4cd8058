/* SPDX-License-Identifier: Apache-2.0
 *
 * Spool files: append, find by stream offset, cut the torn tail; see spool.h.
 */
#include "spool.h"

#include "messages.h"
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

void hl_spool_close(struct hl_spool *s)
{
    if (s->fd < 0)
        return;
    unlink_open(s);
    s->pool->n_open--;
    close(s->fd);
    s->fd = -1;
}

static int no_descriptors(int err)
{
    return err == EMFILE || err == ENFILE;
}

/* Where no descriptor is left, those of other spools are given up first. */
static int open_at(struct hl_spool *s, int flags)
{
    struct hl_spool_pool *p = s->pool;
    int fd;
    while ((fd = openat(p->root, s->name, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC,
                        0600)) < 0 &&
           no_descriptors(errno) && p->oldest)
        hl_spool_close(p->oldest);
    return fd < 0 ? -errno : fd;
}

static int make_folders(const struct hl_spool *s)
{
    char name[PATH_MAX];
    for (const char *slash = strchr(s->name, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        size_t n = (size_t)(slash - s->name);
        if (n >= sizeof name)
            return -ENAMETOOLONG;
        memcpy(name, s->name, n);
        name[n] = 0;
        if (mkdirat(s->pool->root, name, 0700) && errno != EEXIST)
            return -errno;
    }
    return 0;
}

static int open_file(struct hl_spool *s)
{
    struct hl_spool_pool *p = s->pool;
    int flags = s->made ? 0 : O_CREAT | O_EXCL, fd;
    while (p->n_open >= p->max_open)
        hl_spool_close(p->oldest);
    fd = open_at(s, flags);
    if (fd == -ENOENT && !s->made) {
        int r = make_folders(s);
        fd = r ? r : open_at(s, flags);
    }
    if (fd < 0)
        return fd;
    s->fd = fd;
    s->made = 1;
    p->n_open++;
    link_newest(s);
    return fd;
}

int hl_spool_fd(struct hl_spool *s)
{
    if (s->fd < 0)
        return open_file(s);
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

int hl_spool_note(struct hl_spool *s, const uint8_t *p, size_t n, uint64_t *at)
{
    *at = s->size;
    return s->is_damaged ? -EBADMSG : note_all(s, p, n);
}

/* ---- the file ---- */

int hl_spool_init(struct hl_spool *s, struct hl_spool_pool *pool, const char *name)
{
    memset(s, 0, sizeof *s);
    s->pool = pool;
    s->fd = -1;
    s->name = strdup(name);
    return s->name ? 0 : -1;
}

int hl_spool_pool_write(const struct hl_spool_pool *pool, int fd, const uint8_t *p,
                        size_t n, uint64_t at)
{
    while (n) {
        ssize_t k = pool->write(fd, p, n, (off_t)at);
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

static void mark_dirty(struct hl_spool *s)
{
    if (s->is_dirty)
        return;
    s->is_dirty = 1;
    s->next_dirty = s->pool->dirty;
    s->pool->dirty = s;
}

static void mark_clean(struct hl_spool *s)
{
    struct hl_spool **at = &s->pool->dirty;
    if (!s->is_dirty)
        return;
    while (*at != s)
        at = &(*at)->next_dirty;
    *at = s->next_dirty;
    s->is_dirty = 0;
}

/* Its process lives and goes on: what it still has comes again. */
static int cut_bad_tail(struct hl_spool *s, int fd, uint64_t at)
{
    if (s->has_bad_tail && ftruncate(fd, (off_t)at))
        return -errno;
    s->has_bad_tail = 0;
    return 0;
}

int hl_spool_write(struct hl_spool *s, const uint8_t *p, size_t n, uint64_t at)
{
    if (s->failed && at > s->failed_at)
        return s->failed; /* behind a gap it would be lost to every reader */
    int fd = hl_spool_fd(s);
    int r = fd < 0 ? fd : cut_bad_tail(s, fd, at);
    if (!r)
        r = hl_spool_pool_write(s->pool, fd, p, n, at);
    if (!r)
        mark_dirty(s);
    /* What came of it is no message, but takes the room that others may need. */
    else if (fd >= 0 && ftruncate(fd, (off_t)at) && r != -ENOSPC)
        r = -EIO;
    s->failed = r;
    s->failed_at = at;
    return r;
}

int hl_spool_sync(struct hl_spool *s)
{
    if (!s->is_dirty)
        return 0;
    int fd = hl_spool_fd(s);
    if (fd < 0)
        return fd;
    if (fdatasync(fd))
        return -errno;
    mark_clean(s);
    return 0;
}

/* ---- load ---- */

static int fail_code(struct hl_err *e, int negative, const char *name)
{
    errno = -negative;
    return hl_fail_errno(e, "spool %s", name);
}

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
        if (code == HL_WIRE_BAD_VERSION && !s->size)
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

/* ---- has it ended? ---- */

enum { END_BYTES = 16384 }; /* RECORD, BYE and LOSS are far smaller */

/* Whole messages from p to the very end, a record that is final among them. */
static int is_end(const uint8_t *p, size_t n)
{
    int final = 0;
    while (n) {
        struct hl_wire_header h;
        struct hl_record_msg m;
        const uint8_t *body;
        size_t used;
        if (hl_wire_next(p, n, HL_IN_SPOOL, HL_STATE_FILE, &h, &body, &used))
            return 0;
        if (h.type == HL_MSG_RECORD && hl_decode_record(body, h.length, &m) == 0)
            final = m.end.kind != HL_ENDED_SAMPLED && m.end.kind != HL_ENDED_RUNNING;
        p += used;
        n -= used;
    }
    return final;
}

static void visit_all(const uint8_t *p, size_t n, hl_spool_visit_fn *visit, void *ctx)
{
    struct hl_wire_header h;
    const uint8_t *body;
    for (size_t at = 0, k; at < n; at += k) {
        if (hl_wire_next(p + at, n - at, HL_IN_SPOOL, HL_STATE_FILE, &h, &body, &k))
            return;
        visit(ctx, &h, body);
    }
}

/* Read the end of a file of size bytes, from `from` on at most, for the last words of
 * its process; visit gets them.  1, 0, or a negative errno. */
static int visit_end(int fd, uint64_t size, uint64_t from, hl_spool_visit_fn *visit,
                     void *ctx)
{
    uint8_t *buf = malloc(END_BYTES);
    size_t n = size - from < END_BYTES ? (size_t)(size - from) : END_BYTES;
    int r = buf ? hl_path_pread_all(fd, buf, n, (off_t)(size - n)) : -ENOMEM;
    if (r > 0)
        r = 0; /* it has become shorter */
    else if (r == 0)
        for (size_t i = 0; i + HL_WIRE_HEADER < n && !r; i++) {
            r = buf[i] == (HL_WIRE_MAGIC & 0xff) && buf[i + 1] == HL_WIRE_MAGIC >> 8 &&
                buf[i + 3] == HL_MSG_RECORD && is_end(buf + i, n - i);
            if (r && visit)
                visit_all(buf + i, n - i, visit, ctx);
        }
    free(buf);
    return r < 0 && r != -ENOMEM ? -EIO : r;
}

int hl_spool_is_finished(int fd, uint64_t size)
{
    return visit_end(fd, size, 0, NULL, NULL);
}

/* ---- a tail ---- */

/* A machine that crashes may leave blocks that were never written. */
static int ends_in_zeros(int fd, uint64_t from, uint64_t size)
{
    enum { BLOCK = 512, SURE = 16 };
    uint8_t end[BLOCK + SURE];
    uint64_t last = (size - SURE) / BLOCK * BLOCK; /* so many at least */
    size_t n = (size_t)(size - (last < from ? from : last)), zeros = 0;
    if (hl_path_pread_all(fd, end, n, (off_t)(size - n)))
        return 0;
    while (zeros < n && !end[zeros])
        zeros++;
    return zeros == n;
}

/* Whoever was killed while it wrote leaves the start of a message; other bytes were
 * changed by somebody else.  1, 0, or a negative errno. */
static int is_torn(const struct hl_spool *s, int fd, uint64_t size)
{
    struct hl_wire_header h;
    const uint8_t *body;
    uint64_t left = size - s->size;
    size_t used, n = left < SCAN_BYTES ? (size_t)left : SCAN_BYTES;
    uint8_t *buf = malloc(n);
    int r = buf ? 0 : -ENOMEM;
    if (buf && hl_path_pread_all(fd, buf, n, (off_t)s->size))
        r = -EIO;
    else if (buf)
        r = hl_wire_next(buf, n, HL_IN_SPOOL, HL_STATE_FILE, &h, &body, &used) ==
                HL_WIRE_SHORT ||
            ends_in_zeros(fd, s->size, size);
    free(buf);
    return r;
}

/* A tail that ends with the last words of its process was not torn, nor was one of other
 * bytes than a message begins with: something is damaged, and what follows is left for
 * who can mend it. */
static int cut_tail(struct hl_spool *s, int fd, hl_spool_visit_fn *visit, void *ctx,
                    struct hl_err *e)
{
    struct stat st;
    if (!s->size)
        return hl_fail(e, HL_ERR_FORMAT, "%s is no spool: it has no head", s->name);
    if (fstat(fd, &st))
        return fail_code(e, -errno, s->name);
    s->cut_bytes = (uint64_t)st.st_size - s->size;
    if (!s->cut_bytes)
        return 0;
    s->is_damaged = visit_end(fd, (uint64_t)st.st_size, s->size, visit, ctx) > 0;
    int torn = s->is_damaged ? 0 : is_torn(s, fd, (uint64_t)st.st_size);
    if (torn < 0 || (torn && ftruncate(fd, (off_t)s->size)))
        return fail_code(e, torn < 0 ? torn : -errno, s->name);
    s->has_bad_tail = !torn && !s->is_damaged;
    return 0;
}

int hl_spool_load(struct hl_spool *s, struct hl_spool_pool *pool, const char *name,
                  hl_spool_visit_fn *visit, void *ctx, struct hl_err *e)
{
    int fd = -1, r = -1;
    uint8_t *buf = malloc(SCAN_BYTES);
    if (hl_spool_init(s, pool, name) || !buf) {
        fail_code(e, -ENOMEM, name);
        goto out;
    }
    s->made = 1;
    fd = openat(pool->root, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    r = fd < 0 ? fail_code(e, -errno, name) : scan(s, fd, buf, visit, ctx, e);
    if (!r)
        r = cut_tail(s, fd, visit, ctx, e);
out:
    if (fd >= 0)
        close(fd);
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

size_t hl_spool_plan(const struct hl_spool *s, uint64_t offset, size_t n,
                     struct hl_spool_piece *out, size_t cap)
{
    size_t pieces = 0;
    while (n && pieces < cap && offset < s->stream_bytes) {
        size_t i = extent_of(s, offset);
        uint64_t end = i + 1 < s->n_extents ? s->extent[i + 1].stream : s->stream_bytes;
        size_t k = end - offset < n ? (size_t)(end - offset) : n;
        out[pieces++] = (struct hl_spool_piece){
            s->extent[i].file + (offset - s->extent[i].stream), k};
        offset += k;
        n -= k;
    }
    return pieces;
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

size_t hl_spool_plan_catalogs(const struct hl_spool *s, uint64_t offset, size_t n,
                              struct hl_spool_piece *out, size_t cap)
{
    size_t pieces = 0;
    while (n && pieces < cap && offset < s->catalog_bytes) {
        const struct hl_spool_catalog *c = &s->catalog[catalog_at(s, offset)];
        uint64_t into = offset - c->before;
        size_t want = c->bytes - into < n ? (size_t)(c->bytes - into) : n;
        /* A message lies in one piece: extents begin where messages do. */
        pieces += hl_spool_plan(s, c->stream + into, want, out + pieces, 1);
        offset += want;
        n -= want;
    }
    return pieces;
}

void hl_spool_leave(struct hl_spool *s)
{
    if (!s->pool)
        return;
    mark_clean(s);
    hl_spool_close(s);
    s->pool = NULL;
}

void hl_spool_fini(struct hl_spool *s)
{
    hl_spool_leave(s);
    free(s->name);
    free(s->extent);
    free(s->catalog);
    memset(s, 0, sizeof *s);
    s->fd = -1;
}
