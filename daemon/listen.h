/* SPDX-License-Identifier: Apache-2.0
 *
 * The listening socket: made here or handed over by the service manager;
 * accepting, and what happens at the limit of descriptors.
 */
#ifndef HL_LISTEN_H
#define HL_LISTEN_H

#include "daemon.h"
#include "err.h"

/* Open the socket of the settings, or take the activated one.  The spool's lock
 * must be held: a socket that nobody answers is then stale and replaced. */
int hl_listen_open(struct hl_daemon *d, struct hl_err *e);
int hl_listen_start(struct hl_daemon *d, struct hl_err *e);
/* Accept those who wait, a bounded number; returns how many. */
int hl_listen_accept(struct hl_daemon *d);
/* Stop accepting; the socket file goes if it is ours. */
void hl_listen_close(struct hl_daemon *d);

#endif
