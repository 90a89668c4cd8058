/* SPDX-License-Identifier: Apache-2.0
 *
 * The private collector of one run: its folder below /tmp/heapline-UID, its
 * socket, its start (heapline-run(1)).  Of several that want it, who gets the
 * lock starts heaplined, which then holds the lock; the others wait for the
 * socket.
 */
#ifndef HL_PRIVATE_H
#define HL_PRIVATE_H

#include "err.h"
#include "ident.h"
#include "wire_link.h"

#include <sys/types.h>

struct hl_private {
    char dir[HL_NAME_CAP];        /* /tmp/heapline-UID/ESCAPED-KEY */
    char socket[HL_NAME_CAP + 8]; /* DIR/s */
    char spool[HL_NAME_CAP + 8];  /* DIR/spool */
    char log[HL_NAME_CAP + 8];    /* DIR/log: what heaplined has to say */
};

/* Names only, nothing is made. */
void hl_private_names(struct hl_private *p, const char *key);

/* Make the folder and have a collector answer at p->socket.  spool: NULL for
 * p->spool, or an existing spool of the caller's own.  *link is connected, so that
 * the collector, which nobody else may need yet, does not end; the caller says
 * hello on it, or closes it when something else is connected.  0 or -1. */
int hl_private_start(struct hl_private *p, const char *spool, struct hl_link *link,
                     struct hl_err *e);
/* One that was started has ended at once: *e says why; its folder goes if it kept
 * nothing.  -1. */
int hl_private_failed(const struct hl_private *p, struct hl_err *e);

#endif
