/* SPDX-License-Identifier: Apache-2.0
 *
 * What a connection may say next: bytes in, one event out.  No socket, no
 * allocation, no log: the rules of heapline-protocol(7) alone.
 */
#ifndef HL_SESSION_H
#define HL_SESSION_H

#include "messages.h"
#include "tally.h"

struct hl_session {
    enum hl_wire_state state;
    enum hl_role role;      /* of a client */
    uint32_t max_message;   /* bytes of a body */
    struct hl_tally *tally; /* of a client of role frames */
};

enum hl_event_kind {
    HL_EVENT_SHORT,   /* the next message is not whole yet */
    HL_EVENT_STREAM,  /* CATALOG or ROWS: checked and counted */
    HL_EVENT_MESSAGE, /* any other that fits the state */
    HL_EVENT_REFUSED  /* nothing that follows counts */
};
struct hl_event {
    enum hl_event_kind kind;
    struct hl_wire_header h;
    const uint8_t *body; /* borrowed from the bytes */
    size_t used;         /* bytes of the message */
    enum hl_refusal code;
    char why[160];
};

/* Look at the first message of n bytes. */
void hl_session_next(const struct hl_session *s, const uint8_t *p, size_t n,
                     struct hl_event *out);

/* Decode a hello and agree on a version.  0; or a refusal's code and *why (160
 * bytes). */
int hl_session_hello(const uint8_t *body, size_t n, struct hl_hello *out, char *why);

#endif
