/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs in sessions of their own; see watch.h.
 */
#include "watch.h"

#include "fds.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 200, SOON_MS = 20, AFTER_KILL_MS = 5000 };

int64_t watch_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- start ---- */

static _Noreturn void be_program(const struct watch_plan *p, const int out[2],
                                 const int err[2])
{
    int null = open("/dev/null", O_RDWR);
    int log = p->log ? open(p->log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    setsid();
    dup2(null, 0);
    if (p->is_quiet) {
        dup2(null, 1);
        dup2(null, 2);
    } else {
        dup2(out[1], 1);
        if (p->reads_errors)
            dup2(err[1], 2);
        else if (log >= 0)
            dup2(log, 2);
    }
    hl_fds_close_others(-1); /* the pipes of the run's caller are not for it */
    execvpe(p->argv[0], p->argv, p->envp);
    fprintf(stderr, "heapline-run: cannot execute %s: %s\n", p->argv[0], strerror(errno));
    _exit(127);
}

static void close_pair(int p[2])
{
    for (int i = 0; i < 2; i++)
        if (p[i] >= 0)
            close(p[i]);
}

int watch_start(struct watch *w, const struct watch_plan *plan)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1}, why = 0;
    memset(w, 0, sizeof *w);
    w->plan = *plan;
    w->stream[WATCH_OUT].fd = w->stream[WATCH_ERR].fd = -1;
    if (!plan->is_quiet &&
        (pipe2(out, O_CLOEXEC) || (plan->reads_errors && pipe2(err, O_CLOEXEC))))
        why = errno;
    else if ((w->pid = fork()) < 0)
        why = errno;
    if (why) {
        close_pair(out);
        close_pair(err);
        return why;
    }
    if (w->pid == 0)
        be_program(plan, out, err);
    w->stream[WATCH_OUT].fd = out[0];
    w->stream[WATCH_ERR].fd = err[0];
    out[0] = err[0] = -1;
    close_pair(out);
    close_pair(err);
    for (int i = 0; i < 2; i++)
        if (w->stream[i].fd >= 0)
            fcntl(w->stream[i].fd, F_SETFL, O_NONBLOCK);
    return 0;
}

/* ---- lines ---- */

static void tell_line(struct watch *w, int i, size_t n)
{
    w->stream[i].text[n] = 0;
    w->plan.line(w->plan.ctx, i, w->stream[i].text);
}

static void split(struct watch *w, int i)
{
    char *text = w->stream[i].text, *end;
    size_t n = w->stream[i].n;
    while ((end = memchr(text, '\n', n))) {
        size_t k = (size_t)(end - text);
        tell_line(w, i, k);
        n -= k + 1;
        memmove(text, end + 1, n);
    }
    if (n == WATCH_LINE - 1) /* no line of ours is that long */
        tell_line(w, i, n), n = 0;
    w->stream[i].n = n;
}

/* All that is there; closed at its end. */
static void drain(struct watch *w, int i)
{
    while (w->stream[i].fd >= 0) {
        ssize_t n = read(w->stream[i].fd, w->stream[i].text + w->stream[i].n,
                         WATCH_LINE - 1 - w->stream[i].n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n > 0) {
            w->stream[i].n += (size_t)n;
            split(w, i);
            continue;
        }
        if (w->stream[i].n)
            tell_line(w, i, w->stream[i].n);
        w->stream[i].n = 0;
        close(w->stream[i].fd);
        w->stream[i].fd = -1;
    }
}

static int has_exited(const struct watch *w)
{
    siginfo_t si = {0};
    int r = waitid(P_PID, (id_t)w->pid, &si, WEXITED | WNOWAIT | WNOHANG);
    return (r < 0 && errno != EINTR) || si.si_pid;
}

int watch_step(struct watch *w, int ms)
{
    int64_t until = watch_now_ms() + ms;
    for (;;) {
        int exited = has_exited(w);
        struct pollfd p[2] = {{w->stream[0].fd, POLLIN, 0}, {w->stream[1].fd, POLLIN, 0}};
        int64_t left = until - watch_now_ms();
        int is_open = p[0].fd >= 0 || p[1].fd >= 0;
        int tick = is_open ? TICK_MS : SOON_MS;
        /* Its children may hold the pipes: its own end counts. */
        if (!exited && left > 0 && poll(p, 2, left < tick ? (int)left : tick) < 0)
            left = 0; /* a signal: let the caller look */
        drain(w, WATCH_OUT);
        drain(w, WATCH_ERR);
        if (exited || left <= 0)
            return exited;
    }
}

/* ---- the end ---- */

/* The session and state of a process by /proc/PID/stat, 0 for one that is gone or
 * dead. */
static long session_and_state(const char *pid, char *out)
{
    char name[300], text[512];
    snprintf(name, sizeof name, "/proc/%s/stat", pid);
    FILE *f = fopen(name, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    long session = 0;
    char state = 0;
    if (f)
        fclose(f);
    text[n] = 0;
    char *s = strrchr(text, ')'); /* a program's name may hold anything */
    *out = 0;
    if (!s || sscanf(s + 1, " %c %*d %*d %ld", &state, &session) != 2 || state == 'Z')
        return 0;
    *out = state;
    return session;
}

static long session_of(const char *pid)
{
    char state;
    return session_and_state(pid, &state);
}

pid_t watch_stopped(const struct watch *w)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    pid_t found = 0;
    char state;
    while (d && !found && (e = readdir(d)))
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
            session_and_state(e->d_name, &state) == w->pid && state == 'T')
            found = (pid_t)atol(e->d_name);
    if (d)
        closedir(d);
    return found;
}

/* Signal every process of the session, whatever its group: launchers give their
 * remote shells groups of their own.  The number of them. */
static size_t signal_session(pid_t sid, int sig)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    size_t n = 0;
    while (d && (e = readdir(d)))
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && session_of(e->d_name) == sid) {
            n++;
            if (sig)
                kill((pid_t)atol(e->d_name), sig);
        }
    if (d)
        closedir(d);
    return n;
}

static void close_streams(struct watch *w)
{
    for (int i = 0; i < 2; i++) {
        drain(w, i);
        if (w->stream[i].fd >= 0)
            close(w->stream[i].fd);
        w->stream[i].fd = -1;
    }
}

void watch_stop(struct watch *w, int patience_ms)
{
    int64_t until = watch_now_ms() + patience_ms;
    kill(w->pid, SIGTERM); /* not yet a session's leader, maybe */
    size_t left = signal_session(w->pid, SIGTERM);
    while ((left || !w->ended) && watch_now_ms() < until) {
        w->ended = watch_step(w, SOON_MS);
        left = signal_session(w->pid, 0);
        if (left || !w->ended)
            poll(NULL, 0, SOON_MS);
    }
    if (left || !w->ended) {
        kill(w->pid, SIGKILL);
        signal_session(w->pid, SIGKILL);
        w->ended = watch_step(w, AFTER_KILL_MS);
    }
    if (w->ended)
        watch_end(w);
    else
        close_streams(w); /* it hangs in the kernel: nothing more can be done */
}

void watch_end(struct watch *w)
{
    int status = 0;
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
        ;
    w->ended = 1;
    w->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    close_streams(w);
}
