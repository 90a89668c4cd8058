/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with known operations, for tests of the heap agent.
 *
 *   preload_prog MODE [ARGUMENT]
 *
 * Each mode makes N = 500 blocks of 64 bytes more than mode "none" and then:
 *   none            nothing of it; returns 0
 *   return exit _exit _Exit quick abort kill thread   ends so (status 5)
 *   late            the blocks are made by an atexit function and a destructor
 *   fork _fork raw vfork spawn daemon    children; prints their pids
 *   execl execlp execle execv execvp execvpe execve fexecve execveat ARGUMENT
 *                   becomes "preload_prog none" (ARGUMENT: this program's path)
 *   badexec         an exec that fails, then exit 5
 *   limit           sets RLIMIT_NOFILE to 3 before it ends
 *   closeall        closes every descriptor from 3 on
 *   steal           puts a file on every descriptor from 3 to 1023, then exits
 *   stats           prints heapline_get_stats before and after
 *   sleep           says "up" and waits to be killed
 */
#include "../../libclient/heapline.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { N = 500 };
static void *volatile sink;
static int late;

static void blocks(void)
{
    for (int i = 0; i < N; i++)
        sink = malloc(64);
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char line[200];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    if (write(1, line, (size_t)n) != n)
        _exit(99);
}

static void at_exit(void)
{
    if (late)
        for (int i = 0; i < N / 2; i++)
            sink = malloc(64);
}
__attribute__((destructor)) static void destructor(void)
{
    at_exit();
}

static void *ender(void *unused)
{
    (void)unused;
    exit(5);
}

static int wait_for(pid_t pid)
{
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A child makes 7 blocks more and ends with 6. */
static int children(const char *mode, char *self)
{
    char *args[] = {self, (char *)"none", NULL};
    pid_t pid = -1;
    if (strcmp(mode, "fork") == 0 || strcmp(mode, "daemon") == 0)
        pid = fork();
    else if (strcmp(mode, "_fork") == 0)
        pid = _Fork();
    else if (strcmp(mode, "raw") == 0)
        pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    else if (strcmp(mode, "spawn") == 0)
        posix_spawn(&pid, self, NULL, NULL, args, environ);
    else if ((pid = vfork()) == 0)
        _exit(6);
    if (pid == 0) {
        for (int i = 0; i < 7; i++)
            sink = malloc(100);
        exit(6);
    }
    int status = wait_for(pid);
    say("child %d status %d\n", (int)pid, status);
    return 0;
}

static void become(const char *mode, char *self)
{
    char *args[] = {self, (char *)"none", NULL};
    if (strcmp(mode, "execl") == 0)
        execl(self, self, "none", (char *)NULL);
    else if (strcmp(mode, "execlp") == 0)
        execlp(self, self, "none", (char *)NULL);
    else if (strcmp(mode, "execle") == 0)
        execle(self, self, "none", (char *)NULL, environ);
    else if (strcmp(mode, "execv") == 0)
        execv(self, args);
    else if (strcmp(mode, "execvp") == 0)
        execvp(self, args);
    else if (strcmp(mode, "execvpe") == 0)
        execvpe(self, args, environ);
    else if (strcmp(mode, "execve") == 0)
        execve(self, args, environ);
    else if (strcmp(mode, "fexecve") == 0)
        fexecve(open(self, O_RDONLY | O_CLOEXEC), args, environ);
    else if (strcmp(mode, "execveat") == 0)
        execveat(AT_FDCWD, self, args, environ, 0);
    _exit(97);
}

static void stats(void)
{
    struct heapline_stats s = {0};
    int (*get)(struct heapline_stats *) = dlsym(RTLD_DEFAULT, "heapline_get_stats");
    int e = get ? get(&s) : 1;
    say("stats %d %llu %llu %lld %lld\n", e, (unsigned long long)s.allocs,
        (unsigned long long)s.frees, (long long)s.live_bytes, (long long)s.peak_bytes);
}

static void descriptors(const char *mode)
{
    struct rlimit l = {3, 3};
    int file = strcmp(mode, "steal") == 0 ? open("stolen", O_RDWR | O_CREAT, 0600) : -1;
    if (strcmp(mode, "limit") == 0)
        setrlimit(RLIMIT_NOFILE, &l);
    else
        for (int i = 3; i < 1024; i++)
            if (file < 0)
                close(i);
            else
                dup2(file, i);
}

int main(int argc, char **argv)
{
    const char *m = argc > 1 ? argv[1] : "none";
    pthread_t t;
    if (strcmp(m, "none") == 0)
        return 0;
    late = strcmp(m, "late") == 0;
    if (late) {
        atexit(at_exit);
        exit(5);
    }
    if (strcmp(m, "stats") == 0)
        stats();
    blocks();
    if (strcmp(m, "exit") == 0)
        exit(5);
    if (strcmp(m, "_exit") == 0)
        _exit(5);
    if (strcmp(m, "_Exit") == 0)
        _Exit(5);
    if (strcmp(m, "quick") == 0)
        quick_exit(5);
    if (strcmp(m, "abort") == 0)
        abort();
    if (strcmp(m, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(m, "thread") == 0 && pthread_create(&t, NULL, ender, NULL) == 0)
        pthread_join(t, NULL);
    if (strncmp(m, "exec", 4) == 0 || strcmp(m, "fexecve") == 0)
        become(m, argv[2]);
    if (strcmp(m, "badexec") == 0 && execl("/nonexistent", "x", (char *)NULL) == -1)
        exit(5);
    if (strstr("fork _fork raw vfork spawn daemon", m))
        return children(m, argv[2]);
    if (strcmp(m, "limit") == 0 || strcmp(m, "closeall") == 0 || strcmp(m, "steal") == 0)
        descriptors(m);
    if (strcmp(m, "stats") == 0)
        stats();
    if (strcmp(m, "sleep") == 0) {
        say("up\n");
        for (;;)
            pause();
    }
    return 5;
}
