/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the parts of an installation; see install.h.
 */
#include "install.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Folder of the running program, without a trailing "/.libs". 0 or -1. */
static int own_folder(char *out, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", out, cap - 1);
    if (n <= 0)
        return -1;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (!slash)
        return -1;
    *slash = 0;
    slash = strrchr(out, '/');
    if (slash && !strcmp(slash, "/.libs"))
        *slash = 0;
    return 0;
}

static int try_path(const char *dir, const char *sub, const char *name, int mode,
                    char *out, size_t cap)
{
    int n = snprintf(out, cap, "%s%s/%s", dir, sub, name);
    return n > 0 && (size_t)n < cap && access(out, mode) == 0 ? 0 : -1;
}

int hl_find_program(const char *name, char *out, size_t cap, struct hl_err *e)
{
    char own[4096];
    if (own_folder(own, sizeof own) == 0 &&
        (try_path(own, "", name, X_OK, out, cap) == 0 ||
         try_path(own, "/../sbin", name, X_OK, out, cap) == 0 ||
         try_path(own, "/../bin", name, X_OK, out, cap) == 0))
        return 0;
    if (try_path(BINDIR, "", name, X_OK, out, cap) == 0 ||
        try_path(SBINDIR, "", name, X_OK, out, cap) == 0)
        return 0;
    return hl_fail(e, ENOENT, "cannot find %s: looked in %s and %s", name, BINDIR,
                   SBINDIR);
}

int hl_find_agent(const char *name, char *out, size_t cap, struct hl_err *e)
{
    char own[4096];
    int here = own_folder(own, sizeof own) == 0;
    if (here && try_path(own, "/.libs", name, R_OK, out, cap) == 0)
        return 0;
    if (try_path(PKGLIBDIR, "", name, R_OK, out, cap) == 0)
        return 0;
    if (here && try_path(own, "/../lib/heapline", name, R_OK, out, cap) == 0)
        return 0;
    return hl_fail(e, ENOENT, "cannot find %s: looked in %s", name, PKGLIBDIR);
}
