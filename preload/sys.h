/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's way to the kernel.  Its calls go there directly and not through the
 * C library's functions of the same names: a program may define those itself
 * (fakeroot, proxies, its own open), most are cancellation points, which malloc
 * and fork are not, and they set errno.  All return what the kernel does: a
 * negative error number on failure.  A call that a seccomp filter of the program
 * would punish is not made and fails with -EPERM (sandbox.c).
 */
#ifndef HL_SYS_H
#define HL_SYS_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>

long hl_sys(long nr, long a, long b, long c, long d, long e, long f);
/* The same without asking whether it is allowed. */
long hl_sys_unasked(long nr, long a, long b, long c, long d, long e, long f);

/* ---- sandbox.c ---- */

/* Has the program restricted its system calls? */
extern int hl_sandboxed;
/* Was standard error a file or a terminal then, which cannot raise SIGPIPE? */
extern int hl_stderr_is_plain;
/* Would this call return to us, if only with an error? */
int hl_sandbox_allows(long nr, const long args[6]);

/* ---- the calls in use ---- */

#define HL_SYS0(nr) hl_sys(nr, 0, 0, 0, 0, 0, 0)
#define HL_SYS1(nr, a) hl_sys(nr, (long)(a), 0, 0, 0, 0, 0)
#define HL_SYS2(nr, a, b) hl_sys(nr, (long)(a), (long)(b), 0, 0, 0, 0)
#define HL_SYS3(nr, a, b, c) hl_sys(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define HL_SYS4(nr, a, b, c, d)                                                          \
    hl_sys(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define HL_SYS5(nr, a, b, c, d, e)                                                       \
    hl_sys(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

static inline pid_t hl_getpid(void)
{
    return (pid_t)HL_SYS0(SYS_getpid);
}

static inline int hl_openat(int dir, const char *name, int flags, unsigned mode)
{
    return (int)HL_SYS4(SYS_openat, dir, name, flags | O_CLOEXEC, mode);
}

static inline int hl_close(int fd)
{
    return (int)HL_SYS1(SYS_close, fd);
}

static inline long hl_read(int fd, void *p, size_t n)
{
    return HL_SYS3(SYS_read, fd, p, n);
}

static inline long hl_write(int fd, const void *p, size_t n)
{
    return HL_SYS3(SYS_write, fd, p, n);
}

static inline int hl_fstat(int fd, struct stat *st)
{
    return (int)HL_SYS2(SYS_fstat, fd, st);
}

static inline int hl_fcntl(int fd, int what, long arg)
{
    return (int)HL_SYS3(SYS_fcntl, fd, what, arg);
}

static inline int hl_truncate(int fd, long size)
{
    return (int)HL_SYS2(SYS_ftruncate, fd, size);
}

static inline void hl_unmap(void *p, size_t n)
{
    HL_SYS2(SYS_munmap, p, n);
}

/* The soft limit; "none" when it cannot be asked. */
static inline rlim_t hl_limit(int resource)
{
    struct rlimit l;
    return HL_SYS4(SYS_prlimit64, 0, resource, 0, &l) == 0 ? l.rlim_cur : RLIM_INFINITY;
}

/* Ready for events now: 1; not: 0; or an error. */
static inline int hl_is_ready(int fd, short events)
{
    struct pollfd p = {fd, events, 0};
    const struct timespec now = {0, 0};
    return (int)HL_SYS5(SYS_ppoll, &p, 1, &now, 0, 0);
}

/* The same for writing to fd 0 to 63, where RLIMIT_NOFILE 0 forbids ppoll. */
static inline int hl_is_writable(int fd)
{
    unsigned long set[1] = {0};
    struct timespec now = {0, 0};
    set[0] = 1ul << fd;
    return (int)hl_sys(SYS_pselect6, fd + 1, 0, (long)set, 0, (long)&now, 0);
}

/* Sets of signals are the kernel's here: bit n - 1 is signal n. */
static inline uint64_t hl_signal_bit(int signal)
{
    return 1ull << (signal - 1);
}

static inline int hl_signal_mask(int how, const uint64_t *set, uint64_t *old)
{
    return (int)HL_SYS4(SYS_rt_sigprocmask, how, set, old, sizeof *set);
}

static inline int hl_signals_pending(uint64_t *set)
{
    return (int)HL_SYS2(SYS_rt_sigpending, set, sizeof *set);
}

/* Take a pending signal of the set away; -EAGAIN: there is none. */
static inline int hl_take_signal(const uint64_t *set)
{
    const struct timespec now = {0, 0};
    return (int)HL_SYS4(SYS_rt_sigtimedwait, set, 0, &now, sizeof *set);
}

#endif
