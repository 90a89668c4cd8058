/* SPDX-License-Identifier: Apache-2.0
 *
 * The PROC messages of a node, kept until the gather's rank 0 wants them: in
 * memory while they are few, else in a file without a name, so that a node with
 * a hundred thousand short processes costs no memory.
 */
#ifndef HL_RECORDS_H
#define HL_RECORDS_H

#include "buf.h"
#include "err.h"
#include "messages.h"

struct hl_records {
    struct hl_buf held; /* from `base` on */
    uint64_t base;      /* bytes in the file */
    int fd;             /* -1: all is in memory */
    int no_file;        /* none can be made: memory it is */
};

struct hl_record_place {
    uint64_t at;
    uint32_t n;
};

void hl_records_init(struct hl_records *r);
void hl_records_fini(struct hl_records *r);

/* Keep an entry.  0 or -1. */
int hl_records_add(struct hl_records *r, const struct hl_proc *p,
                   struct hl_record_place *place, struct hl_err *e);
/* The body of a PROC message, place->n bytes at out. */
int hl_records_read(const struct hl_records *r, const struct hl_record_place *place,
                    uint8_t *out, struct hl_err *e);

enum { HL_PROC_BODY_MAX = 8192 };

#endif
