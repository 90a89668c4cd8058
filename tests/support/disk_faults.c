/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults of a disk for one process, preloaded.  HL_FAULT is a list of
 *
 *   no-tmpfile    files without a name cannot be made (as on many network disks)
 *   CALL:N:ERRNO  the Nth call of write (pwrite too), fsync, rename or link, and
 *                 all after it, fail so; ERRNO is EIO, EDQUOT or ENOSPC.  Calls on
 *                 sockets, pipes and descriptors 0 to 2 are not counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))

static const char *wish(const char *what)
{
    const char *all = getenv("HL_FAULT");
    return all ? strstr(all, what) : NULL;
}

static int is_file(int fd)
{
    struct stat st;
    return fd > 2 && fstat(fd, &st) == 0 && !S_ISSOCK(st.st_mode) &&
           !S_ISFIFO(st.st_mode);
}

/* Count a call; 1: it fails, errno is set. */
static int fails(const char *call, unsigned *count)
{
    const char *w = wish(call);
    if (!w)
        return 0;
    char *end;
    unsigned long n = strtoul(w + strlen(call), &end, 10);
    if (__atomic_add_fetch(count, 1, __ATOMIC_RELAXED) < n)
        return 0;
    errno = !strncmp(end, ":EIO", 4)      ? EIO
            : !strncmp(end, ":EDQUOT", 7) ? EDQUOT
                                          : ENOSPC;
    return 1;
}

static unsigned n_write, n_fsync, n_rename, n_link;

SEEN ssize_t write(int fd, const void *p, size_t n);
ssize_t write(int fd, const void *p, size_t n)
{
    return is_file(fd) && fails("write:", &n_write) ? -1 : syscall(SYS_write, fd, p, n);
}

SEEN ssize_t pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    return is_file(fd) && fails("write:", &n_write) ? -1
                                                    : syscall(SYS_pwrite64, fd, p, n, at);
}

SEEN ssize_t pwrite64(int fd, const void *p, size_t n, off_t at);
ssize_t pwrite64(int fd, const void *p, size_t n, off_t at)
{
    return pwrite(fd, p, n, at);
}

SEEN int fsync(int fd);
int fsync(int fd)
{
    return fails("fsync:", &n_fsync) ? -1 : (int)syscall(SYS_fsync, fd);
}

SEEN int renameat(int a, const char *from, int b, const char *to);
int renameat(int a, const char *from, int b, const char *to)
{
    return fails("rename:", &n_rename) ? -1
                                       : (int)syscall(SYS_renameat2, a, from, b, to, 0);
}

SEEN int linkat(int a, const char *from, int b, const char *to, int flags);
int linkat(int a, const char *from, int b, const char *to, int flags)
{
    return fails("link:", &n_link) ? -1 : (int)syscall(SYS_linkat, a, from, b, to, flags);
}

static int open_file(int dir, const char *name, int flags, mode_t mode)
{
    if ((flags & O_TMPFILE) == O_TMPFILE && wish("no-tmpfile")) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, dir, name, flags, mode);
}

SEEN int openat(int dir, const char *name, int flags, ...);
int openat(int dir, const char *name, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = va_arg(ap, mode_t);
    va_end(ap);
    return open_file(dir, name, flags, mode);
}

SEEN int openat64(int dir, const char *name, int flags, ...);
int openat64(int dir, const char *name, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = va_arg(ap, mode_t);
    va_end(ap);
    return open_file(dir, name, flags, mode);
}
