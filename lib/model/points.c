/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of points; see points.h.
 */
#include "points.h"

#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AT_ONCE = 64, HEAD_MAX = HL_WIRE_HEADER + 64 + HL_KEY_MAX };

int hl_points_name(const char *spool, char *out, size_t cap)
{
    static const char was[] = ".spool", is[] = ".points";
    size_t n = strlen(spool);
    if (n < sizeof was || strcmp(spool + n - (sizeof was - 1), was) != 0 ||
        n + sizeof is - (sizeof was - 1) > cap)
        return -1;
    n -= sizeof was - 1;
    memcpy(out, spool, n);
    memcpy(out + n, is, sizeof is);
    return 0;
}

/* ---- what is there ---- */

struct layout {
    uint64_t head; /* bytes before the first point; 0: it has no head */
    uint64_t size; /* of the file */
    uint64_t n;    /* whole points */
    struct hl_point last;
};

static const uint8_t *point_of(const uint8_t *p, size_t n)
{
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used;
    return hl_wire_next(p, n, HL_IN_SPOOL, HL_STATE_FILE, &h, &body, &used) ||
                   h.type != HL_MSG_POINTS || used != HL_POINTS_MESSAGE
               ? NULL
               : body;
}

static int is_last_whole(int fd, struct layout *l)
{
    uint8_t m[HL_POINTS_MESSAGE];
    off_t at = (off_t)(l->head + (l->n - 1) * HL_POINTS_MESSAGE);
    const uint8_t *body =
        hl_path_pread_all(fd, m, sizeof m, at) ? NULL : point_of(m, sizeof m);
    if (body)
        hl_point_get(body, &l->last);
    return body != NULL;
}

/* Bytes of the head, 0: there is none; or a negative errno. */
static int64_t head_of(int fd)
{
    uint8_t buf[HEAD_MAX + 4 * HL_POINTS_MESSAGE];
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used;
    ssize_t n = pread(fd, buf, sizeof buf, 0);
    if (n < 0)
        return -errno;
    if (hl_wire_next(buf, (size_t)n, HL_IN_SPOOL, HL_STATE_FILE, &h, &body, &used) == 0 &&
        h.type == HL_MSG_SPOOL)
        return (int64_t)used;
    /* A damaged one is not needed where a point behind it is sound. */
    for (used = HL_WIRE_HEADER; used + HL_POINTS_MESSAGE <= (size_t)n; used++)
        if (point_of(buf + used, HL_POINTS_MESSAGE))
            return (int64_t)used;
    return 0;
}

/* A crash of the machine may leave a tail that is no points. */
static int look(int fd, struct layout *l)
{
    struct stat st;
    int64_t head = head_of(fd);
    if (head < 0 || fstat(fd, &st))
        return head < 0 ? (int)head : -errno;
    *l = (struct layout){
        .head = (uint64_t)head, .size = (uint64_t)st.st_size, .last = hl_point_lost()};
    if (head)
        l->n = (l->size - l->head) / HL_POINTS_MESSAGE;
    while (l->n && !is_last_whole(fd, l))
        l->n--;
    return 0;
}

/* A file's descriptor and layout; -1 and errno: there is none. */
static int open_to_read(const struct hl_spool_pool *pool, const char *name,
                        struct layout *l)
{
    struct stat st;
    int fd = openat(pool->root, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && look(fd, l) == 0)
        return fd;
    close(fd);
    errno = ENOENT;
    return -1;
}

struct hl_point hl_points_last(const struct hl_spool_pool *pool, const char *name)
{
    struct layout l;
    int fd = open_to_read(pool, name, &l);
    if (fd < 0)
        return hl_point_lost();
    close(fd);
    return l.last;
}

/* ---- write ---- */

/* A new file, or one whose head a crash has torn; never one that is not understood. */
static int begin(const struct hl_spool_pool *pool, int fd,
                 const struct hl_points_write *w, struct layout *l)
{
    if (l->size >= w->head_bytes)
        return -EBADMSG;
    int r = ftruncate(fd, 0) ? -errno
                             : hl_spool_pool_write(pool, fd, w->head, w->head_bytes, 0);
    l->head = w->head_bytes;
    l->n = 0;
    return r;
}

/* The file ends where we wrote last: it need not be read. */
static int is_as_left(int fd, const struct hl_points_write *w, struct layout *l)
{
    struct stat st;
    if (w->at <= 0 || fstat(fd, &st))
        return 0;
    *l = (struct layout){
        .head = w->head_bytes, .size = (uint64_t)st.st_size, .n = (uint64_t)w->at};
    return l->size == l->head + l->n * HL_POINTS_MESSAGE;
}

static int write_to(const struct hl_spool_pool *pool, int fd, struct hl_points_write *w)
{
    struct layout l = {0};
    int r = is_as_left(fd, w, &l) ? 0 : look(fd, &l);
    uint64_t before = l.size;
    if (!r && !l.head)
        r = begin(pool, fd, w, &l);
    if (r)
        return r;
    uint64_t first = w->at < 0 || (uint64_t)w->at > l.n ? l.n : (uint64_t)w->at;
    uint64_t at = l.head + first * HL_POINTS_MESSAGE;
    uint64_t end = at + w->n * HL_POINTS_MESSAGE;
    r = hl_spool_pool_write(pool, fd, w->messages, w->n * HL_POINTS_MESSAGE, at);
    if ((r || l.size > end) && ftruncate(fd, (off_t)(r ? at : end)) && !r)
        r = -errno;
    w->n_points = first + w->n;
    w->grown = (int64_t)end - (int64_t)before;
    return r;
}

int hl_points_write(const struct hl_spool_pool *pool, const char *name,
                    struct hl_points_write *w)
{
    int fd = openat(pool->root, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = write_to(pool, fd, w);
    close(fd);
    return r;
}

/* ---- read ---- */

/* The next messages, at most AT_ONCE; how many. */
static size_t read_messages(int fd, const struct layout *l, uint64_t first, uint8_t *m)
{
    size_t n = l->n - first < AT_ONCE ? (size_t)(l->n - first) : AT_ONCE;
    if (hl_path_pread_all(fd, m, n * HL_POINTS_MESSAGE,
                          (off_t)(l->head + first * HL_POINTS_MESSAGE)))
        memset(m, 0, n * HL_POINTS_MESSAGE); /* which is no message */
    return n;
}

void hl_points_count(const struct hl_spool_pool *pool, const char *name,
                     struct hl_points_found *out)
{
    uint8_t m[AT_ONCE * HL_POINTS_MESSAGE];
    struct layout l;
    int fd = open_to_read(pool, name, &l);
    *out = (struct hl_points_found){.last = hl_point_lost()};
    if (fd < 0)
        return;
    out->n = l.n;
    out->last = l.last;
    for (uint64_t at = 0, n; at < l.n; at += n) {
        n = read_messages(fd, &l, at, m);
        for (size_t i = 0; i < n; i++)
            out->n_bad += !point_of(m + i * HL_POINTS_MESSAGE, HL_POINTS_MESSAGE);
    }
    close(fd);
}

/* Points from first on, the bytes of them that lie from skip on; how many bytes, at
 * most max. */
static size_t read_some(int fd, const struct layout *l, uint64_t first, size_t skip,
                        uint8_t *out, size_t max)
{
    uint8_t m[AT_ONCE * HL_POINTS_MESSAGE], lost[HL_POINT_BYTES];
    struct hl_point none = hl_point_lost();
    size_t n = read_messages(fd, l, first, m), used = 0;
    hl_point_put(lost, &none);
    for (size_t i = 0; i < n && used < max; i++, skip = 0) {
        const uint8_t *body = point_of(m + i * HL_POINTS_MESSAGE, HL_POINTS_MESSAGE);
        size_t k =
            HL_POINT_BYTES - skip < max - used ? HL_POINT_BYTES - skip : max - used;
        memcpy(out + used, (body ? body : lost) + skip, k);
        used += k;
    }
    return used;
}

static int is_for_now(int err)
{
    return err == EMFILE || err == ENFILE || err == ENOMEM;
}

int64_t hl_points_read(const struct hl_spool_pool *pool, const char *name,
                       uint64_t offset, uint8_t *out, size_t max)
{
    struct layout l;
    size_t n = 0;
    int fd = open_to_read(pool, name, &l);
    if (fd < 0)
        return is_for_now(errno) ? -errno : 0;
    while (n < max && (offset + n) / HL_POINT_BYTES < l.n) {
        uint64_t at = offset + n;
        n += read_some(fd, &l, at / HL_POINT_BYTES, (size_t)(at % HL_POINT_BYTES),
                       out + n, max - n);
    }
    close(fd);
    return (int64_t)n;
}
