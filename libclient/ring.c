/* SPDX-License-Identifier: Apache-2.0
 *
 * The row buffer as its writer sees it; see ring.h and lib/leaf/row_buffer.h.
 */
#include "ring.h"

#include "sys.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

enum { RELEASE_BYTES = 4 << 20, READY_BYTES = 64 << 10 };
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Passing RLIMIT_FSIZE would raise SIGXFSZ in the program, and a large part of
 * its address space is not ours to take. */
static uint64_t allowed_size(uint64_t want)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_FSIZE, &r) == 0 && r.rlim_cur < want)
        want = r.rlim_cur;
    if (getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur / 16 < want)
        want = r.rlim_cur / 16;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return want / page * page;
}

static void *map_shared(uint64_t size, int *fd)
{
    void *p = MAP_FAILED;
    *fd = hl_high_fd(hl_sys_memfd("heapline-rows", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (*fd < 0)
        return NULL;
    if (hl_sys_ftruncate(*fd, (off_t)size) == 0 &&
        fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        p = hl_sys_mmap(size, MAP_SHARED, *fd);
    if (p != MAP_FAILED)
        return p;
    close(*fd);
    *fd = -1;
    return NULL;
}

int hl_ring_make(struct hl_ring *r, uint64_t want, uint64_t image)
{
    uint64_t size = allowed_size(want);
    r->fd = -1;
    r->h = size < HL_ROW_BUFFER_MIN ? NULL : map_shared(size, &r->fd);
    if (!r->h) {
        size = HL_ROW_BUFFER_MIN;
        void *p = hl_sys_mmap(size, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (p == MAP_FAILED)
            return -1;
        r->h = p;
    }
    madvise(r->h, size, MADV_DONTFORK); /* a child must not write to its parent's */
    r->id = hl_fd_id(r->fd);
    r->data = (uint8_t *)r->h + HL_ROW_BUFFER_DATA;
    r->capacity = size - HL_ROW_BUFFER_DATA;
    r->mapped = size;
    r->h->version = HL_ROW_BUFFER_VERSION;
    r->h->size = size;
    r->h->image = image;
    __atomic_store_n(&r->h->magic, HL_ROW_BUFFER_MAGIC, __ATOMIC_RELEASE);
    return 0;
}

int hl_ring_shared(const struct hl_ring *r)
{
    return r->h && hl_fd_is(r->fd, r->id);
}

int hl_ring_pieces(const struct hl_ring *r, uint64_t from, uint64_t to,
                   struct iovec out[2])
{
    uint64_t at = from % r->capacity, n = to - from, first = r->capacity - at;
    if (!n)
        return 0;
    out[0] = (struct iovec){r->data + at, n < first ? n : first};
    if (n <= first)
        return 1;
    out[1] = (struct iovec){r->data, n - first};
    return 2;
}

/* One call for many pages, where a fault for each would cost the most of a row.
 * A kernel that cannot, or has no memory left, leaves it to the faults. */
static void make_ready(struct hl_ring *r, uint64_t upto)
{
    struct iovec v[2];
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uint64_t from = r->ready > r->h->head ? r->ready : r->h->head;
    r->ready = upto + READY_BYTES;
    if (r->fd < 0 || r->ready - from > r->capacity)
        return;
    int pieces = hl_ring_pieces(r, from, r->ready, v);
    for (int i = 0; i < pieces; i++) {
        uintptr_t at = (uintptr_t)v[i].iov_base / page * page;
        madvise((void *)at, (uintptr_t)v[i].iov_base + v[i].iov_len - at,
                MADV_POPULATE_WRITE);
    }
}

void hl_ring_put(struct hl_ring *r, const uint8_t *p, size_t n)
{
    if (r->h->head + n > r->ready)
        make_ready(r, r->h->head + n);
    struct iovec v[2];
    int pieces = hl_ring_pieces(r, r->h->head, r->h->head + n, v);
    for (int i = 0; i < pieces; p += v[i++].iov_len)
        memcpy(v[i].iov_base, p, v[i].iov_len);
    __atomic_store_n(&r->h->head, r->h->head + n, __ATOMIC_RELEASE);
}

void hl_ring_get(const struct hl_ring *r, uint64_t at, void *out, size_t n)
{
    struct iovec v[2];
    uint8_t *to = out;
    int pieces = hl_ring_pieces(r, at, at + n, v);
    for (int i = 0; i < pieces; to += v[i++].iov_len)
        memcpy(to, v[i].iov_base, v[i].iov_len);
}

uint64_t hl_ring_message(const struct hl_ring *r, uint64_t at, unsigned *type)
{
    uint8_t head[HL_WIRE_HEADER];
    struct hl_wire_header h;
    hl_ring_get(r, at, head, sizeof head);
    if (hl_wire_header_get(head, sizeof head, &h))
        return 0; /* our own bytes: only a program that wrote over them comes here */
    *type = h.type;
    return HL_WIRE_HEADER + (uint64_t)h.length;
}

/* Whole pages of [p, p + n): the kernel takes no others. */
static void release(uint8_t *p, size_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)p + page - 1) / page * page,
              to = (uintptr_t)(p + n) / page * page;
    if (from < to)
        madvise((void *)from, to - from, MADV_REMOVE);
}

static void release_acked(struct hl_ring *r)
{
    struct iovec v[2];
    if (r->fd < 0 || r->h->acked - r->released < RELEASE_BYTES)
        return;
    /* A turn later the same memory holds what was made ready behind head. */
    uint64_t ahead = r->ready > r->h->head ? r->ready - r->h->head : 0,
             held = r->h->head - r->h->acked, most = r->capacity - held;
    most = most > ahead ? most - ahead : 0;
    if (r->h->acked - r->released > most)
        r->released = r->h->acked - most;
    int pieces = hl_ring_pieces(r, r->released, r->h->acked, v);
    for (int i = 0; i < pieces; i++)
        release(v[i].iov_base, v[i].iov_len);
    r->released = r->h->acked;
}

void hl_ring_ack(struct hl_ring *r, uint64_t upto)
{
    uint64_t at = r->h->acked, n;
    unsigned type;
    if (upto >= r->h->head)
        at = r->h->head;
    else
        while (at < upto && (n = hl_ring_message(r, at, &type)) && at + n <= upto)
            at += n;
    r->h->acked = at;
    release_acked(r);
}

void hl_ring_jump(struct hl_ring *r, uint64_t at)
{
    r->h->acked = r->h->sent = r->released = r->ready = at;
    __atomic_store_n(&r->h->head, at, __ATOMIC_RELEASE);
}
