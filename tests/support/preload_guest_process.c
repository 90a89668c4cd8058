/* SPDX-License-Identifier: Apache-2.0
 *
 * preload_guest's children, images, threads and signals.  A child makes 7 blocks,
 * releases 3 and ends with 6, unless its mode says otherwise.
 */
#include "preload_guest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char small[] = "small", zero[] = "0";

static void child_work(void)
{
    guest_note("child", 7, 3);
    guest_more(4);
    guest_churn(3);
}

static int child_main(void *unused)
{
    (void)unused;
    child_work();
    _exit(6);
}

/* Nothing but seven blocks; what others start. */
static int run_small(int n, char **args)
{
    (void)n;
    (void)args;
    guest_more(7);
    guest_say("small\n");
    return 6;
}

/* ---- forks ---- */

enum { STORM_THREADS = 4, STORM_TURNS = 20000, STORM_FORKS = 40 };
static volatile sig_atomic_t n_ticks;

static void tick(int sig)
{
    (void)sig;
    n_ticks++;
}

static void *storm(void *unused)
{
    guest_churn(STORM_TURNS);
    return unused;
}

static void set_timer(int which, int sig, void (*handler)(int), int us)
{
    struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval t = {{0, us}, {0, us}};
    sigaction(sig, &a, NULL);
    setitimer(which, &t, NULL);
}

/* Children of a parent whose other threads allocate all the time, under timers. */
static int run_storm(int n, char **args)
{
    pthread_t t[STORM_THREADS];
    int wrong = 0;
    (void)args;
    set_timer(ITIMER_REAL, SIGALRM, tick, 700);
    set_timer(ITIMER_PROF, SIGPROF, tick, 1000);
    for (int i = 0; i < STORM_THREADS; i++)
        pthread_create(&t[i], NULL, storm, NULL);
    for (int i = 0; i < STORM_FORKS; i++) {
        pid_t pid = i % 4 == 3 ? _Fork() : fork();
        if (pid == 0 && i % 4 == 3)
            _exit(6); /* after _Fork nothing that takes a lock */
        if (pid == 0) {
            child_work();
            exit(6);
        }
        wrong += guest_wait(pid) != 6;
    }
    for (int i = 0; i < STORM_THREADS; i++)
        pthread_join(t[i], NULL);
    guest_more(n);
    guest_say("children that went wrong: %d\n", wrong);
    return 5;
}

/* glibc allows malloc in a handler where nothing it interrupts allocates. */
static void allocate_in_handler(int sig)
{
    int e = errno;
    (void)sig;
    if (n_ticks < 50) {
        guest_churn(1);
        n_ticks++;
    }
    errno = e;
}

static int run_handler(int n, char **args)
{
    sigset_t prof;
    (void)args;
    sigemptyset(&prof);
    sigaddset(&prof, SIGPROF);
    sigprocmask(SIG_BLOCK, &prof, NULL);
    set_timer(ITIMER_PROF, SIGPROF, allocate_in_handler, 1000);
    sigprocmask(SIG_UNBLOCK, &prof, NULL);
    while (n_ticks < 50)
        ;
    sigprocmask(SIG_BLOCK, &prof, NULL);
    guest_more(n);
    guest_say("%d ticks\n", (int)n_ticks);
    return 5;
}

static volatile sig_atomic_t n_forks, n_bad;

/* _Fork and _exit may be called in any handler, malloc interrupted or not. */
static void fork_in_handler(int sig)
{
    int e = errno, status = 0;
    (void)sig;
    if (n_forks >= 30)
        return;
    n_forks++;
    pid_t pid = _Fork();
    if (pid == 0)
        _exit(6);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 6)
        n_bad++;
    errno = e;
}

/* The number of turns depends on time, so n is what main adds up to in the end. */
static int run_sigfork(int n, char **args)
{
    struct itimerval off = {{0, 0}, {0, 0}};
    (void)args;
    set_timer(ITIMER_REAL, SIGALRM, fork_in_handler, 1500);
    int turns = 0;
    for (; n_forks < 30; turns++)
        guest_churn(1);
    setitimer(ITIMER_REAL, &off, NULL);
    guest_note("exact", turns + n, turns);
    guest_more(n);
    guest_say("%d forks, %d went wrong\n", (int)n_forks, (int)n_bad);
    return 5;
}

/* The C library's clone, without CLONE_VM. */
static int run_clone(int n, char **args)
{
    static char stack[65536] __attribute__((aligned(64)));
    (void)args;
    pid_t pid = clone(child_main, stack + sizeof stack, SIGCHLD, NULL);
    guest_more(n);
    guest_say("child %d\n", guest_wait(pid));
    return 5;
}

static int one_vfork(void)
{
    pid_t pid = vfork();
    if (pid == 0)
        _exit(6);
    return guest_wait(pid);
}

static int run_vfork(int n, char **args)
{
    (void)args;
    for (int i = 0; i < 20; i++)
        if (one_vfork() != 6)
            return 9;
    guest_more(n);
    return 5;
}

/* What many programs do when the exec fails, though they should not. */
static int run_vforkexit(int n, char **args)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/nonexistent", "x", (char *)NULL);
        if (args[0])
            quick_exit(6);
        exit(6);
    }
    guest_say("the child's status %d\n", guest_wait(pid));
    guest_more(n);
    if (args[0])
        quick_exit(5);
    return 5;
}

static pthread_barrier_t at_once;

static void *exit_at_once(void *quick)
{
    pthread_barrier_wait(&at_once);
    if (quick)
        quick_exit(5);
    exit(5);
}

/* Three threads end the process, two of them by the same list of functions. */
static int run_exits(int n, char **args)
{
    pthread_t t[2];
    (void)args;
    guest_more(n);
    pthread_barrier_init(&at_once, NULL, 3);
    pthread_create(&t[0], NULL, exit_at_once, NULL);
    pthread_create(&t[1], NULL, exit_at_once, &at_once);
    pthread_barrier_wait(&at_once);
    exit(5);
}

static int run_spawn(int n, char **args)
{
    char *argv[] = {guest_self, small, zero, NULL};
    pid_t pid;
    (void)args;
    if (posix_spawn(&pid, guest_self, NULL, NULL, argv, environ) != 0)
        return 9;
    guest_say("spawned %d\n", guest_wait(pid));
    guest_more(n);
    return 5;
}

/* Two images and a shell: the shell stays, as it has more to do. */
static int run_system(int n, char **args)
{
    (void)args;
    int status = system("\"$GUEST_SELF\" small 0; (exit 4)");
    guest_say("system %d\n", WEXITSTATUS(status));
    guest_more(n);
    return 5;
}

static int run_popen(int n, char **args)
{
    char line[40] = "";
    (void)args;
    FILE *f = popen("\"$GUEST_SELF\" small 0; (exit 4)", "r");
    if (!f || !fgets(line, sizeof line, f))
        return 9;
    guest_say("read %s", line);
    guest_say("popen %d\n", WEXITSTATUS(pclose(f)));
    guest_more(n);
    return 5;
}

/* A child that is the first process of its own PID namespace. */
static int run_pidns(int n, char **args)
{
    (void)args;
    if (unshare(CLONE_NEWPID) != 0)
        return 77;
    pid_t pid = fork();
    if (pid == 0) {
        guest_more(7);
        guest_say("I am %d\n", (int)getpid());
        exit(6);
    }
    guest_say("child %d\n", guest_wait(pid));
    guest_more(n);
    return 5;
}

/* ---- daemons ---- */

static void close_all(const char *how)
{
    struct rlimit l = {65536, 65536};
    if (strcmp(how, "closefrom") == 0)
        closefrom(0);
    else if (strcmp(how, "close_range") == 0)
        close_range(0, ~0u, 0);
    else if (setrlimit(RLIMIT_NOFILE, &l), 1)
        for (int fd = 0; fd < 65536; fd++)
            close(fd);
}

static void daemon_main(const char *how)
{
    static void *blocks[801];
    guest_note("child", 801, 500);
    close_all(how);
    if (open("/dev/null", O_RDWR) != 0 || dup(0) != 1 || dup(0) != 2)
        _exit(11);
    if (guest_lowest() != 3)
        _exit(12);
    for (int i = 0; i < 801; i++)
        blocks[i] = malloc((size_t)(1 + i * 5));
    for (int i = 0; i < 500; i++)
        free(blocks[i]);
    exit(guest_lowest() == 3 ? 4 : 13);
}

/* The first process adopts the daemon, to learn how it ended. */
static int run_daemon(int n, char **args)
{
    int a, b;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (fork() == 0)
            daemon_main(args[0]);
        guest_note("child", 0, 0);
        _exit(0);
    }
    a = guest_wait(pid);
    b = guest_wait(-1);
    guest_more(n);
    guest_say("between %d, daemon %d\n", a, b);
    return 5;
}

/* Puts a descriptor of its own on every number above 2. */
static void take_all(int mine)
{
    for (int fd = 3; fd < 65536; fd++)
        if (fd != mine && (fd < 1024 || fcntl(fd, F_GETFD) >= 0))
            dup2(mine, fd);
}

/* What comes through after the child has written one line and ended. */
static int run_steal(int n, char **args)
{
    int p[2], type = strcmp(args[0], "dgram") == 0 ? SOCK_DGRAM : SOCK_STREAM;
    char b[200] = "";
    ssize_t got, all = 0;
    if (strcmp(args[0], "pipe") == 0 ? pipe(p) : socketpair(AF_UNIX, type, 0, p))
        return 9;
    pid_t pid = fork();
    if (pid == 0) {
        guest_note("child", 7, 0);
        take_all(p[1]);
        guest_more(7);
        exit(write(p[1], "mine\n", 5) == 5 ? 6 : 7);
    }
    int status = guest_wait(pid);
    close(p[1]);
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    while ((got = read(p[0], b + all, sizeof b - 1 - (size_t)all)) > 0)
        all += got;
    guest_more(n);
    guest_say("child %d, %d bytes: %s", status, (int)all, b);
    return 5;
}

/* The same without a child, onto a file; whoever started this looks at it. */
static int run_stealfile(int n, char **args)
{
    int fd = open(args[0], O_RDWR | O_CREAT | O_TRUNC, 0644);
    take_all(fd);
    guest_more(n);
    return write(fd, "mine\n", 5) == 5 ? 5 : 9;
}

/* ---- images ---- */

static int run_execenv(int n, char **args)
{
    char *argv[] = {guest_self, small, zero, NULL};
    guest_more(n);
    if (strcmp(args[0], "clear") == 0) {
        clearenv();
        setenv("GUEST_SELF", guest_self, 1);
    } else if (strcmp(args[0], "unset") == 0) {
        unsetenv("LD_PRELOAD");
    } else {
        setenv("HEAPLINE_OUTPUT", args[1], 1);
    }
    execv(guest_self, argv);
    return 97;
}

/* "env -u LD_PRELOAD", as scripts write it. */
static int run_execunset(int n, char **args)
{
    (void)args;
    guest_more(n);
    execlp("env", "env", "-u", "LD_PRELOAD", guest_self, "small", "0", (char *)NULL);
    return 97;
}

/* The same program under an odd name: NAME, "" or none at all. */
static int run_execname(int n, char **args)
{
    char amount[12], plain[] = "plain";
    char *argv[] = {strcmp(args[0], "null") == 0 ? NULL : args[0], plain, amount, NULL};
    snprintf(amount, sizeof amount, "%d", n);
    setenv("GUEST_MODE", plain, 1);
    setenv("GUEST_N", amount, 1);
    if (args[1] && strcmp(args[1], "descriptor") == 0)
        syscall(SYS_execveat, open(guest_self, O_RDONLY), "", argv, environ,
                AT_EMPTY_PATH);
    else
        execve(args[1] ? args[1] : guest_self, argv, environ);
    return 97;
}

/* ---- threads ---- */

static void *cancelled(void *how)
{
    pthread_cancel(pthread_self());
    guest_more(10);
    guest_churn(1000);
    if (strcmp(how, "exit") == 0)
        exit(5);
    if (strcmp(how, "_exit") == 0)
        _exit(5);
    pid_t pid = fork();
    if (pid == 0) {
        guest_churn(3);
        _exit(6);
    }
    int status = 0;
    while (syscall(SYS_wait4, pid, &status, 0, NULL) < 0)
        ;
    static const char line[] = "still there\n";
    syscall(SYS_write, 1, line, sizeof line - 1);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 6)
        syscall(SYS_exit_group, 8);
    pthread_testcancel();
    return NULL;
}

/* None of malloc, free, fork and _exit is a cancellation point. */
static int run_cancel(int n, char **args)
{
    pthread_t t;
    void *result = NULL;
    guest_more(n);
    pthread_create(&t, NULL, cancelled, args[0]);
    pthread_join(t, &result);
    if (strcmp(args[0], "fork") != 0)
        return 7; /* the thread was to end the process */
    guest_say("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "not cancelled");
    return 5;
}

static void *small_thread(void *how)
{
    guest_churn(100);
    pid_t pid = fork();
    if (pid == 0)
        child_main(NULL);
    guest_wait(pid);
    if (strcmp(how, "exit") == 0)
        exit(5);
    if (strcmp(how, "_exit") == 0)
        _exit(5);
    return NULL;
}

static int run_smallstack(int n, char **args)
{
    pthread_attr_t a;
    pthread_t t;
    guest_more(n);
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, (size_t)sysconf(_SC_THREAD_STACK_MIN));
    if (pthread_create(&t, &a, small_thread, args[0]) != 0)
        return 77;
    pthread_join(t, NULL);
    return strcmp(args[0], "return") == 0 ? 5 : 7;
}

static const char *in_altstack;

static void on_altstack(int sig)
{
    (void)sig;
    guest_churn(1);
    if (strcmp(in_altstack, "_exit") == 0)
        _exit(5);
}

/* Room for the signal's frame and "room" bytes for the handler, a guard below. */
static int run_altstack(int n, char **args)
{
    size_t size = (size_t)sysconf(_SC_MINSIGSTKSZ) + (size_t)atoi(args[1]);
    size_t page = (size_t)getpagesize(), all = (size + page - 1) / page * page + page;
    char *m = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t s = {.ss_sp = m + all - size, .ss_size = size};
    struct sigaction a = {.sa_handler = on_altstack, .sa_flags = SA_ONSTACK};
    /* What lies below is not ours: the handler is to find it as it was. */
    memset(m + page, 0x5a, all - size - page);
    mprotect(m, page, PROT_NONE);
    in_altstack = args[0];
    guest_churn(1); /* now they are bound */
    guest_more(n);
    if (sigaltstack(&s, NULL) != 0 || sigaction(SIGUSR1, &a, NULL) != 0)
        return 77;
    raise(SIGUSR1);
    for (char *p = m + page; p < m + all - size; p++)
        if (*p != 0x5a)
            return 9;
    return 5;
}

/* ---- ends ---- */

static int run_end(int n, char **args)
{
    guest_more(n);
    const char *how = args[0];
    if (strcmp(how, "exit") == 0)
        exit(5);
    if (strcmp(how, "_exit") == 0)
        _exit(5);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(5);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "raw") == 0)
        syscall(SYS_exit_group, 5);
    if (strcmp(how, "segv") == 0)
        raise(SIGSEGV);
    if (strcmp(how, "term") == 0)
        raise(SIGTERM);
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "thread_exit") == 0)
        pthread_exit(NULL);
    return 5;
}

const struct guest_mode guest_processes[] = {{"small", run_small},
                                             {"storm", run_storm},
                                             {"handler", run_handler},
                                             {"sigfork", run_sigfork},
                                             {"clone", run_clone},
                                             {"vfork", run_vfork},
                                             {"vforkexit", run_vforkexit},
                                             {"exits", run_exits},
                                             {"spawn", run_spawn},
                                             {"system", run_system},
                                             {"popen", run_popen},
                                             {"pidns", run_pidns},
                                             {"daemon", run_daemon},
                                             {"steal", run_steal},
                                             {"stealfile", run_stealfile},
                                             {"execenv", run_execenv},
                                             {"execunset", run_execunset},
                                             {"execname", run_execname},
                                             {"cancel", run_cancel},
                                             {"smallstack", run_smallstack},
                                             {"altstack", run_altstack},
                                             {"end", run_end},
                                             {NULL, NULL}};
