/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that does not answer, for one process: preloaded, it lets pwrite wait for
 * as long as the file named by HL_HANG exists, and fail while the one named by
 * HL_FULL does.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))
SEEN ssize_t pwrite(int fd, const void *p, size_t n, off_t at);
SEEN ssize_t pwrite64(int fd, const void *p, size_t n, off_t at);

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    const char *hang = getenv("HL_HANG"), *full = getenv("HL_FULL");
    while (hang && access(hang, F_OK) == 0)
        usleep(20000);
    if (full && access(full, F_OK) == 0) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, p, n, at);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off_t at)
{
    return pwrite(fd, p, n, at);
}
