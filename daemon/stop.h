/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of the daemon: what was accepted is finished, within a bound.
 */
#ifndef HL_STOP_H
#define HL_STOP_H

#include "daemon.h"

/* Read what connections hold, write what was read, note what is known of the
 * living, and close.  A disk that does not answer ends the process here. */
void hl_stop(struct hl_daemon *d);
/* Free everything. */
void hl_stop_release(struct hl_daemon *d);

#endif
