/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits behind errors; see ulimits.h.
 */
#include "ulimits.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

enum { IN_BYTES, IN_PIECES };

static const struct {
    int code, resource, unit;
    const char *text;
} limits[] = {
    {EFBIG, RLIMIT_FSIZE, IN_BYTES, "file sizes (ulimit -f)"},
    {EMFILE, RLIMIT_NOFILE, IN_PIECES, "open files (ulimit -n)"},
    {ENOMEM, RLIMIT_AS, IN_BYTES, "address space (ulimit -v)"},
    {ENOMEM, RLIMIT_DATA, IN_BYTES, "data (ulimit -d)"},
    {EAGAIN, RLIMIT_NPROC, IN_PIECES, "processes (ulimit -u)"},
};

static void tell(size_t i, rlim_t now, char *out, size_t cap)
{
    unsigned long long n = now;
    if (limits[i].unit == IN_PIECES)
        snprintf(out, cap, " (the limit on %s is %llu: raise it)", limits[i].text, n);
    else
        snprintf(out, cap, " (the limit on %s is %llu KiB: raise it)", limits[i].text,
                 n >> 10);
}

const char *hl_limit_hint(int code, char *out, size_t cap)
{
    struct rlimit r;
    int saved = errno;
    out[0] = 0;
    for (size_t i = 0; i < sizeof limits / sizeof *limits && !out[0]; i++)
        if (limits[i].code == code && getrlimit(limits[i].resource, &r) == 0 &&
            r.rlim_cur != RLIM_INFINITY)
            tell(i, r.rlim_cur, out, cap);
    errno = saved;
    return out;
}
