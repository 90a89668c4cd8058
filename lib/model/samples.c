/* SPDX-License-Identifier: Apache-2.0
 *
 * Last samples of living processes; see samples.h.
 */
#include "samples.h"

#include "path.h"
#include "wire.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { HEAD = 12, N_NUMBERS = 9 }; /* magic, version, checksum of what follows */

static uint32_t checksum(const uint8_t *cell)
{
    /* Magic and version are checked for what they are; the rest, to the last
     * byte of the cell, by this. */
    return hl_crc32c(0, cell + HEAD, HL_SAMPLE_BYTES - HEAD);
}

void hl_sample_put(uint8_t cell[HL_SAMPLE_BYTES], const struct hl_sample_id *id,
                   const struct hl_record *r)
{
    const uint64_t v[N_NUMBERS] = {(uint64_t)r->rank,
                                   (uint64_t)r->elapsed_ns,
                                   r->allocs,
                                   r->frees,
                                   (uint64_t)r->peak_bytes,
                                   (uint64_t)r->peak_time_ns,
                                   (uint64_t)r->live_bytes,
                                   (uint64_t)r->vmhwm_bytes,
                                   (uint64_t)r->vmrss_bytes};
    memset(cell, 0, HL_SAMPLE_BYTES);
    struct hl_writer w = hl_writer_on(cell + HEAD, HL_SAMPLE_BYTES - HEAD);
    hl_put_u32(&w, 0);
    hl_put_u64(&w, id->image);
    hl_put_u64(&w, (uint64_t)id->pid);
    hl_put_u64(&w, id->start_ticks);
    for (int i = 0; i < N_NUMBERS; i++)
        hl_put_u64(&w, v[i]);
    w = hl_writer_on(cell, HEAD);
    hl_put_u32(&w, HL_SAMPLE_MAGIC);
    hl_put_u32(&w, HL_SAMPLE_VERSION);
    hl_put_u32(&w, checksum(cell));
}

int hl_sample_get(const uint8_t cell[HL_SAMPLE_BYTES], const struct hl_sample_id *id,
                  struct hl_record *r)
{
    struct hl_reader in = hl_reader_on(cell, HL_SAMPLE_BYTES);
    uint64_t v[N_NUMBERS];
    if (hl_get_u32(&in) != HL_SAMPLE_MAGIC || hl_get_u32(&in) != HL_SAMPLE_VERSION ||
        hl_get_u32(&in) != checksum(cell) || hl_get_u32(&in) != 0 ||
        hl_get_u64(&in) != id->image || hl_get_u64(&in) != (uint64_t)id->pid ||
        hl_get_u64(&in) != id->start_ticks)
        return -1;
    for (int i = 0; i < N_NUMBERS; i++)
        v[i] = hl_get_u64(&in);
    r->pid = id->pid;
    r->rank = (int64_t)v[0];
    r->elapsed_ns = (int64_t)v[1];
    r->allocs = v[2];
    r->frees = v[3];
    r->peak_bytes = (int64_t)v[4];
    r->peak_time_ns = (int64_t)v[5];
    r->live_bytes = (int64_t)v[6];
    r->vmhwm_bytes = (int64_t)v[7];
    r->vmrss_bytes = (int64_t)v[8];
    return 0;
}

int hl_samples_write(int fd, uint32_t first, const uint8_t *cells, size_t n)
{
    size_t bytes = n * HL_SAMPLE_BYTES;
    ssize_t r = pwrite(fd, cells, bytes, (off_t)first * HL_SAMPLE_BYTES);
    /* A short write leaves whole cells, and one that is ignored. */
    return r == (ssize_t)bytes ? 0 : r < 0 ? -errno : -ENOSPC;
}

int hl_samples_read(int fd, uint32_t slot, uint8_t cell[HL_SAMPLE_BYTES])
{
    int r = hl_path_pread_all(fd, cell, HL_SAMPLE_BYTES, (off_t)slot * HL_SAMPLE_BYTES);
    return r < 0 ? -errno : r;
}
