/* SPDX-License-Identifier: Apache-2.0
 *
 * The sender's buffer of rows that are not yet acknowledged: one sealed memfd,
 * a page of offsets and a ring of stream bytes.  The only definition; written
 * by the client library alone, read by the collector with pread after the
 * process has ended (architecture, decision 2).
 *
 *   byte o of the stream lies at HL_ROW_BUFFER_DATA + o % capacity,
 *   capacity = size - HL_ROW_BUFFER_DATA;
 *   acked <= sent <= head <= acked + capacity.
 *
 * Offsets only grow, but for one case: a collector that answers a hello with an
 * offset below acked has lost what it had acknowledged.  Then the writer moves
 * what it still holds, behind the catalogs that were lost, to that offset.
 *
 * head moves with release order after the whole frame is in place, so what a
 * reader finds below head is complete.
 */
#ifndef HL_ROW_BUFFER_H
#define HL_ROW_BUFFER_H

#include <stdint.h>

enum { HL_ROW_BUFFER_DATA = 4096, HL_ROW_BUFFER_VERSION = 1 };
#define HL_ROW_BUFFER_MAGIC 0x31574f525f4c48ull /* "HL_ROW1" */
#define HL_ROW_BUFFER_MIN ((uint64_t)64 << 10)
#define HL_ROW_BUFFER_MAX ((uint64_t)1 << 30)
#define HL_ROW_BUFFER_DEFAULT ((uint64_t)16 << 20)

struct hl_row_buffer {
    uint64_t magic;
    uint32_t version;
    uint32_t flags;             /* 0 */
    uint64_t size;              /* of the whole memfd */
    uint64_t image;             /* of the process that writes it */
    _Alignas(64) uint64_t head; /* committed end of the stream */
    uint64_t sent;              /* handed to the socket */
    uint64_t acked;             /* kept by the collector */
    uint64_t n_rows;            /* rows committed, dropped ones included */
    uint64_t n_dropped;         /* rows dropped: full buffer, no collector */
};

_Static_assert(sizeof(struct hl_row_buffer) <= HL_ROW_BUFFER_DATA, "header page");

#endif
