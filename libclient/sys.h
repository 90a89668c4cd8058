/* SPDX-License-Identifier: Apache-2.0
 *
 * The system calls of the client library that can fail or take time, one
 * function each, so that unit tests can make the k-th of them fail and can
 * set the clock.  In the library they are the plain calls.
 */
#ifndef HL_CLIENT_SYS_H
#define HL_CLIENT_SYS_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifdef HL_CLIENT_SEAMS
int64_t hl_sys_now(void);
void *hl_sys_mmap(size_t size, int flags, int fd);
int hl_sys_memfd(const char *name, unsigned flags);
int hl_sys_ftruncate(int fd, off_t size);
int hl_sys_connect(int fd, const struct sockaddr *a, socklen_t n);
ssize_t hl_sys_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t hl_sys_recv(int fd, void *p, size_t n, int flags);
ssize_t hl_sys_pwrite(int fd, const void *p, size_t n, off_t at);
int hl_sys_poll(struct pollfd *p, nfds_t n, int ms);
#else
/* CLOCK_MONOTONIC in nanoseconds. */
static inline int64_t hl_sys_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static inline void *hl_sys_mmap(size_t size, int flags, int fd)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
}
static inline int hl_sys_memfd(const char *name, unsigned flags)
{
    return memfd_create(name, flags);
}
static inline int hl_sys_ftruncate(int fd, off_t size)
{
    return ftruncate(fd, size);
}
static inline int hl_sys_connect(int fd, const struct sockaddr *a, socklen_t n)
{
    return connect(fd, a, n);
}
static inline ssize_t hl_sys_sendmsg(int fd, const struct msghdr *m, int flags)
{
    return sendmsg(fd, m, flags);
}
static inline ssize_t hl_sys_recv(int fd, void *p, size_t n, int flags)
{
    return recv(fd, p, n, flags);
}
static inline ssize_t hl_sys_pwrite(int fd, const void *p, size_t n, off_t at)
{
    return pwrite(fd, p, n, at);
}
static inline int hl_sys_poll(struct pollfd *p, nfds_t n, int ms)
{
    return poll(p, n, ms);
}
#endif

#endif
