/* SPDX-License-Identifier: Apache-2.0
 *
 * The service manager's notification protocol, without its library: datagrams
 * to NOTIFY_SOCKET.  Nothing happens where it is not set.
 */
#ifndef HL_NOTIFY_H
#define HL_NOTIFY_H

#include <stdint.h>

/* Lines such as "READY=1\nSTATUS=..."; never blocks. */
void hl_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Interval in which the watchdog wants to hear of us, in ms; 0: not at all. */
uint64_t hl_notify_watchdog_ms(void);

#endif
