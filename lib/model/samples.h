/* SPDX-License-Identifier: Apache-2.0
 *
 * The file `samples` beside the spools: a cell of 256 bytes for each living
 * process, at the place of its slot, with the numbers of its last sample.  When
 * the collector was killed and nobody kept the heap page, they are its record.
 * Cells are written in place; a torn one fails its checksum and is ignored.
 */
#ifndef HL_SAMPLES_H
#define HL_SAMPLES_H

#include "record.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    HL_SAMPLE_BYTES = 256,
    HL_SAMPLE_VERSION = 1,
    HL_SAMPLE_RUN_MAX = 64 /* cells written at once */
};
#define HL_SAMPLE_MAGIC 0x504d5348u /* "HSMP" */

/* Whose sample it is. */
struct hl_sample_id {
    uint64_t image, start_ticks;
    int64_t pid;
};

/* Pure: the numbers of r, without its texts, into a cell. */
void hl_sample_put(uint8_t cell[HL_SAMPLE_BYTES], const struct hl_sample_id *id,
                   const struct hl_record *r);
/* Pure: the numbers of a cell into r, whose texts stay as they are.  0; -1: torn,
 * of another version, or another process's (r is untouched). */
int hl_sample_get(const uint8_t cell[HL_SAMPLE_BYTES], const struct hl_sample_id *id,
                  struct hl_record *r);

/* n cells (up to HL_SAMPLE_RUN_MAX) from slot first on, in one write.  0 or a
 * negative errno. */
int hl_samples_write(int fd, uint32_t first, const uint8_t *cells, size_t n);
/* A cell; 0, 1: the file ends before, or a negative errno. */
int hl_samples_read(int fd, uint32_t slot, uint8_t cell[HL_SAMPLE_BYTES]);

#endif
