/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that takes rows on a node without a collector (architecture,
 * decision 8): "FALLBACK_DIR/heapline-UID/KEY.PID.IMAGE.rows", holding HELLO,
 * catalogs and rows as a spool does.  It stays open while the process lives.
 */
#ifndef HL_CLIENT_FALLBACK_H
#define HL_CLIENT_FALLBACK_H

#include "setup.h"

struct hl_fallback {
    int fd; /* valid if open */
    int open;
    struct hl_fd_id id;
    uint64_t size;
};

/* Make the file and write the hello (its flags become FALLBACK alone). 0 or -1. */
int hl_fallback_open(struct hl_fallback *f, const struct hl_setup *s,
                     const struct hl_hello *hello);

/* Append n bytes whole, with one write; what a short write left is cut back. 0
 * or -1: nothing was appended. */
int hl_fallback_append(struct hl_fallback *f, const struct hl_setup *s, const void *p,
                       size_t n);

/* Write the hello anew, as long as nothing else is in the file. */
void hl_fallback_greet_again(struct hl_fallback *f, const struct hl_setup *s,
                             const struct hl_hello *hello);

void hl_fallback_close(struct hl_fallback *f);

#endif
