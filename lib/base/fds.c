/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors of others; see fds.h.
 */
#include "fds.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FIRST = 3 };

void hl_fds_hold_std(void)
{
    for (int fd = 0; fd < FIRST; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            open("/dev/null", (fd ? O_RDONLY : O_WRONLY) | O_CLOEXEC); /* the lowest */
}

static int close_from_to(unsigned first, unsigned last)
{
#ifdef SYS_close_range
    return first > last ? 0 : (int)syscall(SYS_close_range, first, last, 0);
#else
    (void)first;
    (void)last;
    return -1;
#endif
}

/* Kernels before 5.9 have no close_range, and some cages forbid it. */
static void close_each(int keep)
{
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;
    if (!d) {
        long n = sysconf(_SC_OPEN_MAX);
        for (int fd = FIRST; fd < (n > 0 && n < 65536 ? n : 65536); fd++)
            if (fd != keep)
                close(fd);
        return;
    }
    while ((e = readdir(d))) {
        int fd = atoi(e->d_name);
        if (fd >= FIRST && fd != keep && fd != dirfd(d))
            close(fd);
    }
    closedir(d);
}

void hl_fds_close_others(int keep)
{
    int bad = keep < FIRST ? close_from_to(FIRST, UINT_MAX)
                           : close_from_to(FIRST, (unsigned)keep - 1) ||
                                 close_from_to((unsigned)keep + 1, UINT_MAX);
    if (bad)
        close_each(keep);
}
