/* SPDX-License-Identifier: Apache-2.0
 *
 * The sender's other half: finding a collector, coming back to it after the
 * connection broke, and leaving it for the fallback file.  For sender.c alone.
 */
#ifndef HL_CLIENT_RESUME_H
#define HL_CLIENT_RESUME_H

#include "sender.h"

#define HL_RETRY_NS INT64_C(100000000)

/* Connect again where there is no connection, at most every HL_RETRY_NS. */
void hl_sender_revive(struct hl_sender *d);

/* Send what goes without waiting. */
void hl_sender_push(struct hl_sender *d);

/* Take all answers that have arrived; 1: the collector has more than before. A
 * greeting alone is none: a collector may fail at the same bytes for ever. */
int hl_sender_collect(struct hl_sender *d);

/* Move to the file with all that is not acknowledged. 0; -1: no file, nothing
 * changed. */
int hl_sender_to_file(struct hl_sender *d);

/* No collector will take what is held: to the file, or dropped and counted. */
void hl_sender_give_up(struct hl_sender *d);

#endif
