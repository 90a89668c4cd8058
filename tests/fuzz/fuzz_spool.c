/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a spool file: opened, cut, read, appended to, opened again.
 */
#include "fuzz.h"
#include "points.h"
#include "seeds.h"
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int root = -1;
static char name[32];

static void make_room(void)
{
    if (root >= 0)
        return;
    const char *folder = getenv("TMPDIR");
    root = open(folder ? folder : "/tmp", O_RDONLY | O_DIRECTORY);
    if (root < 0)
        abort();
    snprintf(name, sizeof name, "hl-fuzz.%ld", (long)getpid());
}

static void check(const struct hl_spool *s, const struct hl_spool_piece *p, size_t n,
                  uint64_t *at)
{
    for (size_t i = 0; i < n; i++) {
        if (!p[i].n || p[i].at + p[i].n > s->size)
            abort();
        *at += p[i].n;
    }
}

static void read_all(const struct hl_spool *s)
{
    struct hl_spool_piece p[3];
    uint64_t at = 0, catalogs = 0;
    size_t n;
    while ((n = hl_spool_plan(s, at, 97, p, 3)))
        check(s, p, n, &at);
    while ((n = hl_spool_plan_catalogs(s, catalogs, 97, p, 3)))
        check(s, p, n, &catalogs);
    if (at != s->stream_bytes || catalogs != s->catalog_bytes)
        abort();
}

static void as_spool(const uint8_t *data, size_t n)
{
    struct hl_spool_pool pool;
    struct hl_spool s;
    struct hl_err e = {0};
    uint8_t row[512];
    hl_spool_pool_init(&pool, root, 4);
    int fd = openat(root, name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || (n && write(fd, data, n) != (ssize_t)n))
        abort();
    close(fd);
    if (hl_spool_load(&s, &pool, name, NULL, NULL, &e) == 0) {
        read_all(&s);
        uint64_t size = s.size, stream = s.stream_bytes;
        size_t k = seed_message(3, row, sizeof row);
        uint64_t at;
        int r = hl_spool_note(&s, row, k, &at);
        if (r != (s.is_damaged ? -EBADMSG : 0))
            abort();
        if (s.is_damaged) { /* it is left as it is */
            hl_spool_fini(&s);
            unlinkat(root, name, 0);
            return;
        }
        if (hl_spool_write(&s, row, k, at))
            abort();
        hl_spool_fini(&s);
        if (hl_spool_load(&s, &pool, name, NULL, NULL, &e) || s.size != size + k ||
            s.stream_bytes != stream + k || s.cut_bytes)
            abort();
        hl_spool_fini(&s);
    }
    unlinkat(root, name, 0);
}

/* The same bytes as a file of points: what is counted can be read, and
 * the series goes on, or the file is left alone. */
static void as_points(const uint8_t *data, size_t n)
{
    struct hl_spool_pool pool;
    uint8_t head[256], point[HL_POINTS_MESSAGE], out[1000];
    struct hl_points_write w = {.head = head, .messages = point, .n = 1, .at = -1};
    struct hl_points_found found;
    hl_spool_pool_init(&pool, root, 4);
    int fd = openat(root, name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || (n && write(fd, data, n) != (ssize_t)n))
        abort();
    close(fd);
    w.head_bytes = seed_message(0, head, sizeof head);
    seed_message(28, point, sizeof point);
    hl_points_count(&pool, name, &found);
    uint64_t had = found.n;
    int64_t got = hl_points_read(&pool, name, 7, out, sizeof out);
    int64_t all = had ? (int64_t)had * HL_POINT_BYTES - 7 : 0;
    if (found.n_bad > had || hl_point_is_lost(&found.last) != !had ||
        got != (all < (int64_t)sizeof out ? all : (int64_t)sizeof out))
        abort();
    int r = hl_points_write(&pool, name, &w);
    hl_points_count(&pool, name, &found);
    if ((r && (r != -EBADMSG || had)) || found.n != (r ? 0 : had + 1))
        abort();
    unlinkat(root, name, 0);
}

/* Checksums and lengths of messages that fit, made right: what was changed in a body
 * is then read. */
static void make_right(uint8_t *p, size_t n)
{
    struct hl_wire_header h;
    for (size_t at = 0; at + HL_WIRE_HEADER <= n; at += HL_WIRE_HEADER + h.length) {
        if (hl_wire_header_get(p + at, n - at, &h) || h.length > n - at - HL_WIRE_HEADER)
            return;
        hl_wire_header_put(p + at, h.type, p + at + HL_WIRE_HEADER, h.length);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *right = malloc(n ? n : 1);
    make_room();
    as_spool(data, n);
    as_points(data, n);
    if (right && n) {
        memcpy(right, data, n);
        make_right(right, n);
        as_spool(right, n);
        as_points(right, n);
    }
    free(right);
    return 0;
}

/* Seed i: the first i + 1 messages that may lie in a spool. */
size_t fuzz_seed(unsigned i, uint8_t *out, size_t cap)
{
    size_t n = 0;
    if (i >= 9)
        return 0;
    if (i == 8) { /* a file of points */
        n = seed_message(0, out, cap);
        for (int k = 0; k < 3; k++)
            n += seed_message(28, out + n, cap - n);
        return n;
    }
    for (unsigned k = 0; k <= i && k < 7; k++)
        n += seed_message(k, out + n, cap - n);
    if (i == 7)
        n += (size_t)seed_control(7, out + n, cap - n); /* SLOT */
    return n;
}

static int count(void *n, const struct hl_wire_header *h, const uint8_t *body)
{
    (void)h;
    (void)body;
    ++*(unsigned *)n;
    return 0;
}

int fuzz_seeds_right(void)
{
    uint8_t buf[4096];
    size_t n;
    make_room();
    for (unsigned i = 0; (n = fuzz_seed(i, buf, sizeof buf)) > 0; i++) {
        struct hl_spool_pool pool;
        struct hl_spool s;
        struct hl_err e = {0};
        unsigned n_messages = 0;
        hl_spool_pool_init(&pool, root, 4);
        int fd = openat(root, name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || write(fd, buf, n) != (ssize_t)n)
            abort();
        close(fd);
        if (hl_spool_load(&s, &pool, name, count, &n_messages, &e))
            return -1;
        int cut = s.cut_bytes != 0;
        hl_spool_fini(&s);
        unlinkat(root, name, 0);
        if (cut || n_messages != (i == 8 ? 4 : i + 1))
            return -1;
    }
    return 0;
}
