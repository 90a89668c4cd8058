/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a private collector: it serves one user's run and ends by itself.
 */
#ifndef HL_LIFETIME_H
#define HL_LIFETIME_H

#include "daemon.h"

/* Something changed: may a private collector end?  Nothing for the service. */
void hl_lifetime_check(struct hl_daemon *d);
void hl_lifetime_on_timer(void *daemon);
/* At the end, nothing alive: remove spools that were read whole; then, when that is
 * done, the folder. */
void hl_lifetime_remove_spools(struct hl_daemon *d);
void hl_lifetime_clean(struct hl_daemon *d);

#endif
