/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that exports functions of the C library's names, as programs with a
 * wrapper of their own do.  Each says so when it is called; the program itself
 * calls none of them, so a line means that the agent went through it.
 * preload_guest_own N [abort]: N blocks more; "abort": a call is deadly.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OWN __attribute__((visibility("default"), used))
static int deadly;
static void *volatile sink;

/* The kernel, without any function of the C library's that could be ours. */
static long call(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined __x86_64__
    long r;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
#else
    (void)nr, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    return -ENOSYS;
#endif
}

static long result(long r)
{
    if (r < 0 && r > -4096) {
        errno = (int)-r;
        return -1;
    }
    return r;
}

static void called(const char *name)
{
    char line[60];
    size_t n = 0;
    for (; name[n] && n < sizeof line - 10; n++)
        line[n] = name[n];
    for (const char *s = " called\n"; *s; s++)
        line[n++] = *s;
    call(SYS_write, 1, (long)line, (long)n, 0, 0, 0);
    sink = malloc(100); /* would be counted as the program's */
    errno = EDOM;
    if (deadly)
        abort();
}

/* The types do not matter to the linker; each passes six words on. */
#define STAND_IN(name)                                                                   \
    OWN long own_##name(long a, long b, long c, long d, long e, long f) __asm__(#name);  \
    OWN long own_##name(long a, long b, long c, long d, long e, long f)                  \
    {                                                                                    \
        called(#name);                                                                   \
        return result(call(SYS_##name, a, b, c, d, e, f));                               \
    }

STAND_IN(read)
STAND_IN(write)
STAND_IN(open)
STAND_IN(openat)
STAND_IN(close)
STAND_IN(connect)
STAND_IN(socket)
STAND_IN(sendmsg)
STAND_IN(getsockopt)
STAND_IN(getpid)
STAND_IN(geteuid)
STAND_IN(getsid)
STAND_IN(clock_gettime)
STAND_IN(mmap)
STAND_IN(munmap)
STAND_IN(madvise)
STAND_IN(poll)
STAND_IN(memfd_create)
STAND_IN(fcntl)
STAND_IN(fstat)
STAND_IN(ftruncate)
STAND_IN(getrlimit)
STAND_IN(getrandom)
STAND_IN(uname)
STAND_IN(mkdir)
STAND_IN(unlinkat)
STAND_IN(nanosleep)
STAND_IN(getcwd)

OWN long own_syscall(long nr, long a, long b, long c, long d, long e,
                     long f) __asm__("syscall");
OWN long own_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
    called("syscall");
    return result(call(nr, a, b, c, d, e, f));
}

/* Those that are more than a system call: a plausible answer will do. */
#define FAILS(name, answer)                                                              \
    OWN long own_##name(void) __asm__(#name);                                            \
    OWN long own_##name(void)                                                            \
    {                                                                                    \
        called(#name);                                                                   \
        return answer;                                                                   \
    }
FAILS(sigpending, -1)
FAILS(sigtimedwait, -1)
FAILS(pthread_sigmask, EINVAL)
FAILS(posix_fallocate, EINVAL)

OWN char *own_getenv(const char *name) __asm__("getenv");
OWN char *own_getenv(const char *name)
{
    size_t n = strlen(name);
    called("getenv");
    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    return NULL;
}

/* Before any constructor runs: the agent's own is among the first. */
static void decide(int argc, char **argv, char **envp)
{
    (void)envp;
    deadly = argc > 2 && argv[2][0] == 'a';
}
__attribute__((section(".preinit_array"),
               used)) static void (*const first)(int, char **, char **) = decide;

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < n; i++)
        sink = malloc(64);
    pid_t pid = fork();
    if (pid == 0) {
        sink = malloc(64);
        exit(6);
    }
    call(SYS_wait4, pid, 0, 0, 0, 0, 0);
    return 5;
}
