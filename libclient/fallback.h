/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that takes rows on a node without a collector (architecture,
 * decision 8): "FALLBACK_DIR/heapline-UID/KEY.PID.IMAGE.rows", holding HELLO,
 * catalogs and rows as a spool does.  It stays open while the process lives.  Its
 * BYE lies behind HELLO from the start and is written over in place: a full disk
 * cannot keep the file from telling what it does not hold.
 */
#ifndef HL_CLIENT_FALLBACK_H
#define HL_CLIENT_FALLBACK_H

#include "setup.h"

struct hl_fallback {
    int fd; /* valid if open */
    int open;
    struct hl_fd_id id;
    uint64_t size;
    uint64_t bye_at; /* where the BYE lies */
};

/* Make the file and write hello (its flags become FALLBACK alone) and bye. 0 or -1. */
int hl_fallback_open(struct hl_fallback *f, const struct hl_setup *s,
                     const struct hl_hello *hello, const struct hl_bye *bye);

/* Append n bytes whole, with one write; what a short write left is cut back. 0
 * or -1: nothing was appended. */
int hl_fallback_append(struct hl_fallback *f, const struct hl_setup *s, const void *p,
                       size_t n);

/* Write hello and bye anew, as long as nothing else is in the file. */
void hl_fallback_greet_again(struct hl_fallback *f, const struct hl_setup *s,
                             const struct hl_hello *hello, const struct hl_bye *bye);

/* The counts as they are now, in the place of those before. */
void hl_fallback_count(const struct hl_fallback *f, const struct hl_bye *bye);

void hl_fallback_close(struct hl_fallback *f);

#endif
