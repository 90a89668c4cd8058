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

#include <signal.h>
#include <stdint.h>

/* How its holder waits. */
struct hl_link_wait {
    int64_t patience_ns;               /* to connect, to send, for the hello's answer */
    const sigset_t *mask;              /* while it waits, as in ppoll; may be NULL */
    const volatile sig_atomic_t *stop; /* set by a handler: give up; may be NULL */
};

struct hl_link {
    int fd;           /* -1 not connected */
    struct hl_buf in; /* bytes received and not yet consumed */
    char path[108];
    struct hl_link_wait wait;
};

/* Connect to a socket; a full backlog is waited for like an answer.  uid_wanted:
 * refuse a collector that runs as another uid, or -1 for any.  0 or -1. */
int hl_link_open(struct hl_link *l, const char *path, int64_t uid_wanted,
                 struct hl_err *e);
/* The same with other patience than 30 s. */
int hl_link_open_with(struct hl_link *l, const char *path, int64_t uid_wanted,
                      const struct hl_link_wait *wait, struct hl_err *e);
void hl_link_close(struct hl_link *l);

/* Send an encoded message of n bytes (n as encoders return it: negative is an
 * error of the caller's). */
int hl_link_send(struct hl_link *l, const uint8_t *p, int64_t n, struct hl_err *e);

/* The next message from the collector: *h and *body, which stays valid until
 * the next call.  Refusals become errors with the collector's sentence.
 * timeout_ms: until it is whole, however its bytes trickle in; -1: for ever. */
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
