/* SPDX-License-Identifier: Apache-2.0
 *
 * Rights; see rights.h.
 */
#include "rights.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { PEERGROUPS = 59 /* SO_PEERGROUPS, Linux 4.13 */, GROUPS_MAX = 65536 };

static int is_own_group(int sock, gid_t gid)
{
    struct ucred c;
    socklen_t n = sizeof c;
    return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &c, &n) == 0 && c.gid == gid;
}

static int is_supplementary(int sock, gid_t gid)
{
    gid_t few[32], *all = few;
    socklen_t n = sizeof few;
    int found = 0, r = getsockopt(sock, SOL_SOCKET, PEERGROUPS, few, &n);
    if (r && errno == ERANGE && n <= GROUPS_MAX * sizeof(gid_t) && (all = malloc(n)))
        r = getsockopt(sock, SOL_SOCKET, PEERGROUPS, all, &n);
    for (size_t i = 0; !r && all && i < n / sizeof(gid_t); i++)
        found |= all[i] == gid;
    if (all != few)
        free(all);
    return found;
}

int hl_rights_admin(const struct hl_daemon *d, int sock, uid_t uid)
{
    if (uid == 0 || uid == d->self)
        return 1;
    if (d->set.admin_gid < 0)
        return 0;
    gid_t gid = (gid_t)d->set.admin_gid;
    return is_own_group(sock, gid) || is_supplementary(sock, gid);
}

int hl_rights_owner(uid_t uid, uid_t owner)
{
    return uid == 0 || uid == owner;
}
