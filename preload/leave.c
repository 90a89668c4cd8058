/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points of a process's life: fork, exec and the exits that run no
 * handlers; and the two functions by which others in the process read the
 * counts.  A vfork child shares our memory: there each does its own job alone.
 */
#include "agent.h"
#include "sys.h"

#include "../libclient/heapline.h"

#include <alloca.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#define OPEN __attribute__((visibility("default")))

/* ---- new processes ---- */

static pid_t fork_by(pid_t (*next)(void))
{
    if (hl_agent.mode == HL_MODE_ON) {
        hl_mine.fork_live = hl_live_now();
        hl_mine.fork_known = 1;
    }
    pid_t pid = next();
    if (pid == 0 && (hl_is_wiped() || hl_agent.pid != hl_getpid()))
        hl_child();
    hl_mine.fork_known = 0;
    return pid;
}

OPEN pid_t fork(void)
{
    if (!hl_other.fork && (hl_wake(), !hl_other.fork)) {
        errno = ENOSYS;
        return -1;
    }
    return fork_by(hl_other.fork);
}

OPEN pid_t _Fork(void)
{
    if (!hl_other.fork_raw && (hl_wake(), !hl_other.fork_raw)) {
        errno = ENOSYS;
        return -1;
    }
    return fork_by(hl_other.fork_raw);
}

/* ---- exec: the page says so, for whoever finds the image gone ---- */

static int exec_begins(void)
{
    if (!hl_other.execve)
        hl_wake();
    int own = !hl_is_wiped() && hl_is_own();
    if (own)
        hl_state(HL_HEAP_EXEC);
    return own;
}

static int exec_failed(int own, int result)
{
    if (own)
        hl_state(HL_HEAP_RUNNING);
    return result;
}

OPEN int execve(const char *path, char *const argv[], char *const envp[])
{
    int own = exec_begins();
    return exec_failed(own, hl_other.execve(path, argv, envp));
}

OPEN int execv(const char *path, char *const argv[])
{
    int own = exec_begins();
    return exec_failed(own, hl_other.execv(path, argv));
}

OPEN int execvp(const char *file, char *const argv[])
{
    int own = exec_begins();
    return exec_failed(own, hl_other.execvp(file, argv));
}

OPEN int execvpe(const char *file, char *const argv[], char *const envp[])
{
    int own = exec_begins();
    return exec_failed(own, hl_other.execvpe(file, argv, envp));
}

OPEN int fexecve(int fd, char *const argv[], char *const envp[])
{
    int own = exec_begins();
    return exec_failed(own, hl_other.fexecve(fd, argv, envp));
}

/* Before glibc 2.34. */
static int execveat_raw(int dir, const char *path, char *const argv[], char *const envp[],
                        int flags)
{
    long r =
        hl_sys_unasked(SYS_execveat, dir, (long)path, (long)argv, (long)envp, flags, 0);
    errno = (int)-r;
    return -1;
}

OPEN int execveat(int dir, const char *path, char *const argv[], char *const envp[],
                  int flags)
{
    int own = exec_begins(), r;
    if (hl_other.execveat)
        r = hl_other.execveat(dir, path, argv, envp, flags);
    else
        r = execveat_raw(dir, path, argv, envp, flags);
    return exec_failed(own, r);
}

/* The list forms: count, copy to the stack (a vfork child may not allocate). */
#define GATHER(first, ap, argv)                                                          \
    do {                                                                                 \
        size_t n_ = 1;                                                                   \
        va_start(ap, first);                                                             \
        while (n_++, va_arg(ap, char *))                                                 \
            ;                                                                            \
        va_end(ap);                                                                      \
        argv = alloca(n_ * sizeof *argv);                                                \
        va_start(ap, first);                                                             \
        argv[0] = (char *)first;                                                         \
        for (size_t i_ = 1; i_ < n_; i_++)                                               \
            argv[i_] = va_arg(ap, char *);                                               \
    } while (0)

OPEN int execl(const char *path, const char *arg, ...)
{
    va_list ap;
    char **argv;
    GATHER(arg, ap, argv);
    va_end(ap);
    return execv(path, argv);
}

OPEN int execlp(const char *file, const char *arg, ...)
{
    va_list ap;
    char **argv;
    GATHER(arg, ap, argv);
    va_end(ap);
    return execvp(file, argv);
}

OPEN int execle(const char *path, const char *arg, ...)
{
    va_list ap;
    char **argv;
    GATHER(arg, ap, argv);
    char **envp = va_arg(ap, char **);
    va_end(ap);
    return execve(path, argv, envp);
}

/* ---- ends without handlers ---- */

OPEN void _exit(int status)
{
    if (hl_other.exit_now || (hl_wake(), hl_other.exit_now)) {
        hl_finish(status);
        hl_other.exit_now(status);
    }
    for (;;)
        hl_sys_unasked(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

OPEN void _Exit(int status)
{
    _exit(status);
}

/* Its handlers still run; ours, the first registered, is the last of them. */
OPEN void quick_exit(int status)
{
    if (hl_other.quick_exit || (hl_wake(), hl_other.quick_exit)) {
        hl_agent.quick_status = status;
        hl_other.quick_exit(status);
    }
    _exit(status);
}

/* ---- for the client library and the program ---- */

OPEN void *heapline_agent_v1(void);
OPEN void *heapline_agent_v1(void)
{
    if (hl_is_wiped())
        hl_child();
    return hl_agent.mode == HL_MODE_ON ? hl_agent.page : NULL;
}

OPEN int heapline_get_stats(struct heapline_stats *out)
{
    struct hl_record r;
    if (!out)
        return HEAPLINE_EINVAL;
    *out = (struct heapline_stats){0};
    if (!heapline_agent_v1())
        return 0;
    hl_snapshot(hl_mono_ns(), &r);
    out->allocs = r.allocs;
    out->frees = r.frees;
    out->live_bytes = r.live_bytes;
    out->peak_bytes = r.peak_bytes;
    out->peak_time_s = (double)r.peak_time_ns / 1e9;
    out->elapsed_s = (double)r.elapsed_ns / 1e9;
    return 0;
}
