/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may ask the collector what (architecture, decision 6).  The kernel's word
 * about the other side counts; no name is looked up here.
 */
#ifndef HL_RIGHTS_H
#define HL_RIGHTS_H

#include "daemon.h"

/* root, the collector's own uid, and who was a member of admin_group when the
 * connection sock was made. */
int hl_rights_admin(const struct hl_daemon *d, int sock, uid_t uid);
/* May uid see and remove what belongs to owner? */
int hl_rights_owner(uid_t uid, uid_t owner);

#endif
