/* SPDX-License-Identifier: Apache-2.0
 *
 * A file driver of HDF5 that works on an open descriptor: the output has no name
 * while it is written, the cause of a failed write is known, and an output that is
 * given up is closed without a write.  What it writes is what HDF5's own driver
 * would, so that every HDF5 reads it.
 */
#include "h5_priv.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

enum { BUFFER_BYTES = 256 << 10 };

_Thread_local int h5_file_discard;

struct file {
    H5FD_t pub; /* first: HDF5's own part */
    int fd;
    haddr_t eoa, eof;
    haddr_t held_at; /* where the bytes of the buffer go */
    size_t n_held;
    char held[BUFFER_BYTES]; /* headers mostly follow each other */
};

static int write_at(int fd, haddr_t at, const char *p, size_t n)
{
    if (h5_file_discard || !hl_path_pwrite_all(fd, p, n, (off_t)at))
        return 0;
    h5_note_errno(errno);
    return -1;
}

static int flush_held(struct file *f)
{
    size_t n = f->n_held;
    f->n_held = 0;
    return write_at(f->fd, f->held_at, f->held, n);
}

static H5FD_t *file_open(const char *name, unsigned flags, hid_t fapl, haddr_t maxaddr)
{
    const int *fd = H5Pget_driver_info(fapl);
    struct file *f = fd ? malloc(sizeof *f) : NULL;
    (void)name, (void)flags, (void)maxaddr;
    if (!f || ftruncate(*fd, 0)) {
        free(f);
        return NULL;
    }
    memset(f, 0, offsetof(struct file, held));
    f->fd = *fd;
    return &f->pub;
}

static herr_t file_close(H5FD_t *p)
{
    int bad = flush_held((struct file *)p);
    free(p);
    return bad;
}

static herr_t file_query(const H5FD_t *p, unsigned long *flags)
{
    (void)p;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA |
             H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA |
             H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

static haddr_t file_get_eoa(const H5FD_t *p, H5FD_mem_t type)
{
    (void)type;
    return ((const struct file *)p)->eoa;
}

static herr_t file_set_eoa(H5FD_t *p, H5FD_mem_t type, haddr_t at)
{
    (void)type;
    ((struct file *)p)->eoa = at;
    return 0;
}

static haddr_t file_get_eof(const H5FD_t *p, H5FD_mem_t type)
{
    (void)type;
    return ((const struct file *)p)->eof;
}

/* Behind the end there are zeros. */
static herr_t file_read(H5FD_t *p, H5FD_mem_t type, hid_t dxpl, haddr_t at, size_t n,
                        void *to)
{
    struct file *f = (struct file *)p;
    char *s = to;
    (void)type, (void)dxpl;
    if (f->n_held && at < f->held_at + f->n_held && at + n > f->held_at && flush_held(f))
        return -1;
    while (n) {
        ssize_t k = pread(f->fd, s, n, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            h5_note_errno(errno);
            return -1;
        }
        if (k == 0) {
            memset(s, 0, n);
            break;
        }
        s += k;
        at += (haddr_t)k;
        n -= (size_t)k;
    }
    return 0;
}

static herr_t file_write(H5FD_t *p, H5FD_mem_t type, hid_t dxpl, haddr_t at, size_t n,
                         const void *from)
{
    struct file *f = (struct file *)p;
    (void)type, (void)dxpl;
    if (at + n > f->eof)
        f->eof = at + n;
    if (f->n_held && (at != f->held_at + f->n_held || n > BUFFER_BYTES - f->n_held) &&
        flush_held(f))
        return -1;
    if (n > BUFFER_BYTES / 2)
        return write_at(f->fd, at, from, n);
    if (!f->n_held)
        f->held_at = at;
    memcpy(f->held + f->n_held, from, n);
    f->n_held += n;
    return 0;
}

static herr_t file_truncate(H5FD_t *p, hid_t dxpl, hbool_t closing)
{
    struct file *f = (struct file *)p;
    (void)dxpl, (void)closing;
    if (flush_held(f))
        return -1;
    if (!h5_file_discard && ftruncate(f->fd, (off_t)f->eoa)) {
        h5_note_errno(errno);
        return -1;
    }
    f->eof = f->eoa;
    return 0;
}

static const H5FD_class_t driver = {
#ifdef H5FD_CLASS_VERSION
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)601, /* of the range for private drivers */
#endif
    .name = "heapline",
    .maxaddr = INT64_MAX,
    .fc_degree = H5F_CLOSE_WEAK,
    .fapl_size = sizeof(int),
    .open = file_open,
    .close = file_close,
    .query = file_query,
    .get_eoa = file_get_eoa,
    .set_eoa = file_set_eoa,
    .get_eof = file_get_eof,
    .read = file_read,
    .write = file_write,
    .truncate = file_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

int h5_file_use(hid_t fapl, int fd)
{
    /* For good: when HDF5 closes a file it lets go of the driver, and looks at it
     * once more behind that. */
    static hid_t registered = H5I_INVALID_HID;
    if (registered < 0)
        registered = H5FDregister(&driver);
    return registered < 0 || H5Pset_driver(fapl, registered, &fd) < 0 ? -1 : 0;
}
