/* SPDX-License-Identifier: Apache-2.0
 *
 * The collector's answers to heaplinectl.  One question of a connection is under
 * way at a time; long answers go out in pieces, between which everybody else is
 * served.
 */
#ifndef HL_CTL_H
#define HL_CTL_H

#include "messages.h"
#include "peer.h"

struct hl_control;

/* Take an ASK of a connection in state HL_PEER_CONTROL. */
void hl_control_take(struct hl_peer *p, const struct hl_wire_header *h,
                     const uint8_t *body);
/* There is room again: go on with the answer. */
void hl_control_continue(struct hl_peer *p);
/* Forget an answer that is under way. */
void hl_control_drop(struct hl_peer *p);

#endif
