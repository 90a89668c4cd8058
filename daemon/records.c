/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeping PROC messages; see records.h.
 */
#include "records.h"

#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HELD_MAX = 2 << 20 };

void hl_records_init(struct hl_records *r)
{
    memset(r, 0, sizeof *r);
    r->fd = -1;
}

void hl_records_fini(struct hl_records *r)
{
    hl_buf_fini(&r->held);
    if (r->fd >= 0)
        close(r->fd);
    hl_records_init(r);
}

/* The first folder that can hold a file without a name. */
static int make_file(void)
{
    const char *tmp = getenv("TMPDIR");
    const char *dirs[] = {tmp && *tmp ? tmp : "/tmp", "/tmp", "/var/tmp", "."};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        int fd = open(dirs[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd >= 0)
            return fd;
    }
    return -1;
}

/* A disk that takes no more is no reason to fail: memory then holds them. */
static void spill(struct hl_records *r)
{
    if (r->fd < 0)
        r->fd = make_file();
    if (r->fd < 0 ||
        hl_path_write_all(r->fd, hl_buf_data(&r->held), hl_buf_left(&r->held))) {
        r->no_file = 1;
        if (r->fd >= 0 && ftruncate(r->fd, (off_t)r->base) == 0)
            lseek(r->fd, (off_t)r->base, SEEK_SET);
        return;
    }
    r->base += hl_buf_left(&r->held);
    hl_buf_consume(&r->held, hl_buf_left(&r->held));
}

int hl_records_add(struct hl_records *r, const struct hl_proc *p,
                   struct hl_record_place *place, struct hl_err *e)
{
    uint8_t msg[HL_WIRE_HEADER + HL_PROC_BODY_MAX];
    int64_t n = hl_encode_proc(msg, sizeof msg, p);
    if (n < 0)
        return hl_fail(e, HL_ERR_FORMAT, "an entry of the index is too large");
    place->at = r->base + hl_buf_left(&r->held);
    place->n = (uint32_t)(n - HL_WIRE_HEADER);
    if (hl_buf_add(&r->held, msg + HL_WIRE_HEADER, place->n))
        return hl_fail(e, ENOMEM, "no memory left");
    if (hl_buf_left(&r->held) >= HELD_MAX && !r->no_file)
        spill(r);
    return 0;
}

int hl_records_read(const struct hl_records *r, const struct hl_record_place *place,
                    uint8_t *out, struct hl_err *e)
{
    if (place->at >= r->base) {
        memcpy(out, hl_buf_data(&r->held) + (place->at - r->base), place->n);
        return 0;
    }
    return hl_path_pread_all(r->fd, out, place->n, (off_t)place->at)
               ? hl_fail_errno(e, "cannot read the index back from a temporary file")
               : 0;
}
