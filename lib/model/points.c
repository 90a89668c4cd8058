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
    int64_t last_ns;
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
    struct hl_point v;
    if (!body)
        return 0;
    hl_point_get(body, &v);
    l->last_ns = v.time_ns;
    return 1;
}

/* Bytes of the head, 0: there is none; or a negative errno. */
static int64_t head_of(int fd)
{
    uint8_t buf[HEAD_MAX];
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used;
    ssize_t n = pread(fd, buf, sizeof buf, 0);
    if (n < 0)
        return -errno;
    return hl_wire_next(buf, (size_t)n, HL_IN_SPOOL, HL_STATE_FILE, &h, &body, &used) ||
                   h.type != HL_MSG_SPOOL
               ? 0
               : (int64_t)used;
}

/* A crash of the machine may leave a tail that is no points. */
static int look(int fd, struct layout *l)
{
    struct stat st;
    int64_t head = head_of(fd);
    if (head < 0 || fstat(fd, &st))
        return head < 0 ? (int)head : -errno;
    *l = (struct layout){.head = (uint64_t)head, .size = (uint64_t)st.st_size};
    if (head)
        l->n = (l->size - l->head) / HL_POINTS_MESSAGE;
    while (l->n && !is_last_whole(fd, l))
        l->n--;
    return 0;
}

uint64_t hl_points_count(const struct hl_spool_pool *pool, const char *name,
                         int64_t *last_ns)
{
    struct layout l = {0};
    int fd = openat(pool->root, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        look(fd, &l);
        close(fd);
    }
    *last_ns = l.last_ns;
    return l.n;
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

/* Points from first on, the bytes of them that lie from skip on; how many bytes, at
 * most max. */
static int64_t read_some(int fd, const struct layout *l, uint64_t first, size_t skip,
                         uint8_t *out, size_t max)
{
    uint8_t m[AT_ONCE * HL_POINTS_MESSAGE];
    uint64_t n = l->n - first < AT_ONCE ? l->n - first : AT_ONCE;
    size_t used = 0;
    if (hl_path_pread_all(fd, m, (size_t)n * HL_POINTS_MESSAGE,
                          (off_t)(l->head + first * HL_POINTS_MESSAGE)))
        return -EIO;
    for (size_t i = 0; i < n && used < max; i++, skip = 0) {
        const uint8_t *body = point_of(m + i * HL_POINTS_MESSAGE, HL_POINTS_MESSAGE);
        size_t k =
            HL_POINT_BYTES - skip < max - used ? HL_POINT_BYTES - skip : max - used;
        if (!body)
            return -EIO;
        memcpy(out + used, body + skip, k);
        used += k;
    }
    return (int64_t)used;
}

int64_t hl_points_read(const struct hl_spool_pool *pool, const char *name,
                       uint64_t offset, uint8_t *out, size_t max)
{
    struct layout l = {0};
    size_t n = 0;
    int fd = openat(pool->root, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    int64_t r = look(fd, &l);
    while (r >= 0 && n < max && (offset + n) / HL_POINT_BYTES < l.n) {
        uint64_t at = offset + n;
        r = read_some(fd, &l, at / HL_POINT_BYTES, (size_t)(at % HL_POINT_BYTES), out + n,
                      max - n);
        n += r > 0 ? (size_t)r : 0;
    }
    close(fd);
    return r < 0 ? r : (int64_t)n;
}
