/* SPDX-License-Identifier: Apache-2.0
 *
 * The service manager's store of file descriptors: heap pages and row buffers
 * that are put there come back with the next start (passed.h).  A name is 'p'
 * (page) or 'r' (rows) and the process's slot in base 32, so that thousands of
 * names fit into the environment.  Sends never block: what the manager does not
 * take waits in a queue, in order.
 */
#ifndef HL_FDSTORE_H
#define HL_FDSTORE_H

#include "loop.h"

#include <stddef.h>
#include <stdint.h>

enum {
    HL_FDSTORE_SLOTS = 65536, /* slots are below */
    HL_FDSTORE_NAME_CAP = 8,  /* a name has at most 6 bytes */
    HL_FDSTORE_QUEUE_MAX = 16384,
    /* Kept and queued, where the manager does not say how many it takes.  systemd
     * compares each new one with all it has: 2000 cost process 1 seconds. */
    HL_FDSTORE_DEFAULT_MAX = 1024
};

/* Put the name at out (HL_FDSTORE_NAME_CAP bytes). */
void hl_fdstore_name(char kind, uint32_t slot, char *out);
/* The other way, of n bytes; 0, or -1: no such name. */
int hl_fdstore_parse(const char *name, size_t n, char *kind, uint32_t *slot);

/* Is there a manager that may keep descriptors?  An old one does not say. */
int hl_fdstore_available(void);

struct hl_fdstore;
/* A queue to the connected socket sock (borrowed).  NULL: no memory.  All others
 * take NULL for "no store". */
struct hl_fdstore *hl_fdstore_new(struct hl_loop *l, int sock);
/* Keeps are sent so much later (0: at once): what ends before then never troubles
 * the manager. */
void hl_fdstore_delay(struct hl_fdstore *f, int ms);
/* Closes what was not sent. */
void hl_fdstore_free(struct hl_fdstore *f);

/* Keep a copy of fd, in place of what has that name now.  0, or -1: it will not
 * be kept now (the manager's limit, queue full, no descriptor left). */
int hl_fdstore_keep(struct hl_fdstore *f, char kind, uint32_t slot, int fd);
/* Let go of it; a copy that was not sent yet vanishes. */
void hl_fdstore_drop(struct hl_fdstore *f, char kind, uint32_t slot);
/* The manager has one of this name already: it was passed to us. */
void hl_fdstore_adopt(struct hl_fdstore *f, char kind, uint32_t slot);

size_t hl_fdstore_queued(const struct hl_fdstore *f);
/* Before the end: wait up to so long until all is sent; what is left. */
size_t hl_fdstore_flush(struct hl_fdstore *f, int wait_ms);

#endif
