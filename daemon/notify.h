/* SPDX-License-Identifier: Apache-2.0
 *
 * The service manager's notification protocol, without its library: datagrams
 * to NOTIFY_SOCKET, through one connected socket that is opened on first use.
 * Nothing happens where the variable is not set.  One thread.
 */
#ifndef HL_NOTIFY_H
#define HL_NOTIFY_H

#include <stddef.h>
#include <stdint.h>

/* Lines such as "READY=1\nSTATUS=...".  Waits, at most 2 s, only for a text that
 * begins with READY: the manager would end a service that it never hears of. */
void hl_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Work that may take long goes on: the manager shall wait 10 s more for the start
 * or the stop.  Cheap: sends once a second. */
void hl_notify_progress(void);

/* The socket (borrowed), or -1: there is no manager. */
int hl_notify_fd(void);
/* A text, and a descriptor with it (-1: none), through a connected socket.  0 or
 * a negative errno; -EAGAIN: the manager's queue is full. */
int hl_notify_send(int sock, const char *text, size_t n, int fd);
/* Close the socket; it is opened again by who needs it. */
void hl_notify_close(void);

/* Interval in which the watchdog wants to hear of us, in ms; 0: not at all. */
uint64_t hl_notify_watchdog_ms(void);

#endif
