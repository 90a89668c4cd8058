/* SPDX-License-Identifier: Apache-2.0
 *
 * A blocking connection to a collector, for the tools: whole messages out and
 * in, every wait bounded.  (The agents have their own, which never block.)
 */
#ifndef HL_WIRE_LINK_H
#define HL_WIRE_LINK_H

#include "buf.h"
#include "err.h"
#include "messages.h"

#include <stdint.h>

struct hl_link {
    int fd;           /* -1 not connected */
    struct hl_buf in; /* bytes received and not yet consumed */
    char path[108];
};

/* Connect to a socket.  uid_wanted: refuse a collector that runs as another
 * uid, or -1 for any.  0 or -1. */
int hl_link_open(struct hl_link *l, const char *path, int64_t uid_wanted,
                 struct hl_err *e);
void hl_link_close(struct hl_link *l);

/* Send an encoded message of n bytes (n as encoders return it: negative is an
 * error of the caller's). */
int hl_link_send(struct hl_link *l, const uint8_t *p, int64_t n, struct hl_err *e);

/* The next message from the collector: *h and *body, which stays valid until
 * the next call.  Refusals become errors with the collector's sentence.
 * timeout_ms: -1 for ever. */
int hl_link_next(struct hl_link *l, struct hl_wire_header *h, const uint8_t **body,
                 int timeout_ms, struct hl_err *e);

/* Say hello in a role without descriptors and wait for the answer. */
int hl_link_hello(struct hl_link *l, enum hl_role role, const char *key, int64_t pid,
                  struct hl_err *e);

/* Ask how the run stands. */
int hl_link_state(struct hl_link *l, struct hl_state *out, struct hl_err *e);

/* Field 22 of /proc/PID/stat, 0 unknown. */
uint64_t hl_start_ticks(int64_t pid);

#endif
