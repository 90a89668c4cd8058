/* SPDX-License-Identifier: Apache-2.0
 *
 * Running COMMAND; see child.h.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t child_pid, came;
static int is_prepared;

static const int passed_on[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                SIGUSR1, SIGUSR2, SIGALRM};
enum { N_PASSED = sizeof passed_on / sizeof *passed_on };

/* What the terminal sends goes to the whole foreground group, COMMAND included;
 * only what another process sent to us has to be passed on. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
    int saved = errno;
    (void)context;
    came = sig;
    if (child_pid > 0 && info->si_code <= 0)
        kill((pid_t)child_pid, sig);
    errno = saved;
}

/* As they were, for COMMAND: who started us may ignore the end of children, and we
 * look for it; a limit of file sizes is an error here, not a death. */
static struct sigaction old_chld, old_xfsz;

void child_prepare(void)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL},
                     ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGCHLD, &by_default, &old_chld);
    sigaction(SIGXFSZ, &ignore, &old_xfsz);
    is_prepared = 1;
}

static void catch_signals(struct sigaction *old)
{
    struct sigaction sa = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&sa.sa_mask);
    for (int i = 0; i < N_PASSED; i++) {
        sigaction(passed_on[i], NULL, &old[i]);
        if (old[i].sa_handler != SIG_IGN) /* nohup stays nohup */
            sigaction(passed_on[i], &sa, NULL);
    }
}

int child_start(char *const *argv, char *const *envp, pid_t *pid)
{
    struct sigaction old[N_PASSED];
    sigset_t block, before;
    int report[2], why = 0;
    if (pipe2(report, O_CLOEXEC))
        return errno;
    sigfillset(&block);
    sigprocmask(SIG_BLOCK, &block, &before);
    catch_signals(old);
    *pid = fork();
    if (*pid == 0) {
        for (int i = 0; i < N_PASSED; i++)
            sigaction(passed_on[i], &old[i], NULL);
        if (is_prepared) {
            sigaction(SIGCHLD, &old_chld, NULL);
            sigaction(SIGXFSZ, &old_xfsz, NULL);
        }
        sigprocmask(SIG_SETMASK, &before, NULL);
        execvpe(argv[0], argv, envp);
        why = errno;
        if (write(report[1], &why, sizeof why) < 0)
            _exit(127);
        _exit(127);
    }
    child_pid = *pid;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(report[1]);
    if (*pid < 0)
        why = errno;
    else if (read(report[0], &why, sizeof why) != sizeof why)
        why = 0;
    close(report[0]);
    if (why && *pid > 0)
        waitpid(*pid, NULL, 0);
    return why;
}

/* Until the child has ended; without pidfds there is nothing to look at. */
static void look_meanwhile(pid_t pid, struct child_watch *w)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    while (pidfd >= 0 && w->fd >= 0) {
        struct pollfd p[2] = {{pidfd, POLLIN, 0}, {w->fd, 0, 0}};
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            break;
        if (p[0].revents)
            break;
        if (p[1].revents)
            w->fd = w->gone(w->ctx);
    }
    if (pidfd >= 0)
        close(pidfd);
}

int child_wait(pid_t pid, struct child_watch *watch, struct hl_end *end)
{
    siginfo_t si;
    look_meanwhile(pid, watch);
    memset(&si, 0, sizeof si);
    while (waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT))
        if (errno != EINTR)
            return -1;
    int exited = si.si_code == CLD_EXITED;
    *end = (struct hl_end){exited ? HL_ENDED_EXIT : HL_ENDED_SIGNAL, si.si_status};
    return 0;
}

void child_reap(pid_t pid)
{
    child_pid = 0;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int child_signalled(void)
{
    return (int)came;
}

void child_forget_signal(void)
{
    came = 0;
}

int child_status(const struct hl_end *end)
{
    return end->kind == HL_ENDED_EXIT ? end->status : 128 + end->status;
}
