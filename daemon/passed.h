/* SPDX-License-Identifier: Apache-2.0
 *
 * What the service manager hands over at start (LISTEN_PID, LISTEN_FDS,
 * LISTEN_FDNAMES): the listening socket, known by its kind, and the descriptors
 * that an earlier collector had it keep (fdstore.h), known by their names.
 */
#ifndef HL_PASSED_H
#define HL_PASSED_H

#include "fdstore.h"

#include <stddef.h>
#include <stdint.h>

struct hl_passed {
    int64_t n_fds;   /* passed in all */
    int listener;    /* -1 none; who takes it sets -1 */
    size_t n_stored; /* in the table, not claimed yet */
    size_t n_wrong;  /* closed: of no use, or twice the same name */
    int *stored[2];  /* by slot, pages and rows: descriptor + 1; 0 none */
};

/* Read the environment; descriptors from first_fd on (3) become ours. */
void hl_passed_read(struct hl_passed *p, int first_fd);
/* The descriptor of this name, now the caller's, if it is that inode; else -1.
 * All of them are sealed memfds. */
int hl_passed_claim(struct hl_passed *p, char kind, uint32_t slot, uint64_t inode);
/* Is there one of this slot that nobody has claimed? */
int hl_passed_has(const struct hl_passed *p, uint32_t slot);
/* Close what nobody claimed and have the manager (f may be NULL) let go of it;
 * frees the table.  How many there were. */
size_t hl_passed_close_rest(struct hl_passed *p, struct hl_fdstore *f);

#endif
