/* SPDX-License-Identifier: Apache-2.0
 *
 * preload_guest's cages: system call filters, lowered limits, changed roots and
 * users.  Once inside, a mode calls nothing that its cage does not allow.
 */
#include "preload_guest.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
extern char **environ;
enum { ALL_RULES = 64, NOBODY = 65534 };

/* ---- filters ---- */

/* What a program needs that only allocates, writes and ends. */
static const int few[] = {SYS_read,         SYS_write,  SYS_brk,        SYS_mmap,
                          SYS_munmap,       SYS_mremap, SYS_madvise,    SYS_futex,
                          SYS_rt_sigreturn, SYS_exit,   SYS_exit_group, -1};
/* ... and what a child needs besides. */
static const int few_and_fork[] = {SYS_read,
                                   SYS_write,
                                   SYS_brk,
                                   SYS_mmap,
                                   SYS_munmap,
                                   SYS_mremap,
                                   SYS_madvise,
                                   SYS_futex,
                                   SYS_rt_sigreturn,
                                   SYS_exit,
                                   SYS_exit_group,
                                   SYS_clone,
                                   SYS_set_robust_list,
                                   SYS_wait4,
                                   SYS_rt_sigprocmask,
                                   SYS_gettid,
                                   SYS_getpid,
                                   -1};
/* What sandboxes take away. */
static const int outside[] = {
#ifdef SYS_open
    SYS_open,
#endif
    SYS_openat, SYS_socket, SYS_connect, -1};
/* ... that an image can be loaded without. */
static const int network[] = {SYS_socket, SYS_connect, SYS_sendmsg, SYS_memfd_create, -1};

static unsigned action_named(const char *name)
{
    if (strcmp(name, "errno") == 0)
        return SECCOMP_RET_ERRNO | EPERM;
    if (strcmp(name, "trap") == 0)
        return SECCOMP_RET_TRAP;
    if (strcmp(name, "thread") == 0)
        return SECCOMP_RET_KILL_THREAD;
    return SECCOMP_RET_KILL_PROCESS;
}

/* Calls in the list get "listed", all others "rest". */
static unsigned short build_filter(struct sock_filter *f, const int *list,
                                   unsigned listed, unsigned rest)
{
    unsigned short n = 0;
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                          offsetof(struct seccomp_data, nr));
    for (int i = 0; list[i] >= 0; i++) {
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                              (unsigned)list[i], 0, 1);
        f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
    }
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, rest);
    return n;
}

/* Through the library, which is loaded here, as the program may be built without. */
static int install_by_library(const int *list, unsigned listed, unsigned rest)
{
    void *h = dlopen("libseccomp.so.2", RTLD_NOW);
    if (!h)
        return -1;
    void *(*init)(uint32_t) = (void *(*)(uint32_t))dlsym(h, "seccomp_init");
    int (*add)(void *, uint32_t, int, unsigned, ...) =
        (int (*)(void *, uint32_t, int, unsigned, ...))dlsym(h, "seccomp_rule_add");
    int (*load)(void *) = (int (*)(void *))dlsym(h, "seccomp_load");
    void *c = init && add && load ? init(rest) : NULL;
    for (int i = 0; c && list[i] >= 0; i++)
        if (add(c, listed, list[i], 0) != 0)
            return -1;
    return c ? load(c) : -1;
}

static int install(const char *by, const int *list, unsigned listed, unsigned rest)
{
    struct sock_filter f[ALL_RULES];
    struct sock_fprog p = {build_filter(f, list, listed, rest), f};
    guest_churn(1); /* the first allocation needs more than others */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    if (strcmp(by, "library") == 0)
        return install_by_library(list, listed, rest);
    if (strcmp(by, "prctl") == 0)
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        strcmp(by, "tsync") == 0 ? SECCOMP_FILTER_FLAG_TSYNC : 0, &p);
}

/* A program that watches what it is refused. */
static void on_sigsys(int sig, siginfo_t *info, void *unused)
{
    char line[] = "refused call 000\n";
    int nr = info->si_syscall;
    (void)sig;
    (void)unused;
    for (int at = 15; at > 12; at--, nr /= 10)
        line[at] = (char)('0' + nr % 10);
    syscall(SYS_write, 1, line, sizeof line - 1);
}

static void watch_refusals(void)
{
    struct sigaction a = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &a, NULL);
}

static int end_as(const char *how)
{
    if (how && strcmp(how, "_exit") == 0)
        _exit(5);
    if (how && strcmp(how, "exit") == 0)
        exit(5);
    if (how && strcmp(how, "quick_exit") == 0)
        quick_exit(5);
    return 5;
}

/* allow BY ACTION END: all but a few calls get ACTION. */
static int cage_allow(int n, char **args)
{
    watch_refusals();
    if (install(args[0], few, SECCOMP_RET_ALLOW, action_named(args[1])) != 0)
        return 77;
    guest_more(n);
    guest_churn(2000);
    guest_say("inside\n");
    return end_as(args[2]);
}

/* deny BY ACTION END: no files to open and no sockets. */
static int cage_deny(int n, char **args)
{
    watch_refusals();
    if (install(args[0], outside, action_named(args[1]), SECCOMP_RET_ALLOW) != 0)
        return 77;
    guest_more(n);
    if (strcmp(args[1], "errno") == 0) {
        int fd = open("/dev/null", O_RDONLY), e = errno;
        guest_say("open %d, errno %d\n", fd, e);
    }
    return end_as(args[2]);
}

/* filterfork BY: a child that is born in the cage. */
static int cage_fork(int n, char **args)
{
    if (install(args[0], few_and_fork, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS) != 0)
        return 77;
    pid_t pid = fork();
    if (pid == 0) {
        guest_more(7);
        guest_say("born inside\n");
        _exit(6);
    }
    int status = guest_wait(pid);
    guest_more(n);
    guest_say("child %d\n", status);
    return 5;
}

/* filterexec ACTION [start]: an image that is loaded in the cage, without the network or
 * without calls that nobody but the agent makes when it starts. */
static int cage_exec(int n, char **args)
{
    static const int start[] = {SYS_madvise, SYS_getsid, SYS_membarrier, -1};
    char amount[12], plain[] = "plain";
    char *argv[] = {guest_self, plain, amount, NULL};
    snprintf(amount, sizeof amount, "%d", n);
    if (strcmp(args[0], "trap") == 0)
        return 77; /* a handler does not live through exec */
    if (install("prctl", args[1] ? start : network, action_named(args[0]),
                SECCOMP_RET_ALLOW) != 0)
        return 77;
    execve(guest_self, argv, environ);
    return 97;
}

/* read, write, exit and sigreturn alone: the blocks come from what was released. */
static int cage_strict(int n, char **args)
{
    static void *room[400];
    for (int i = 0; i < 400; i++)
        room[i] = malloc(1000);
    void *volatile end = malloc(1);
    for (int i = 0; i < 400; i++)
        free(room[i]);
    if (!end || prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        return 77;
    guest_more(n);
    guest_say("inside\n");
    if (strcmp(args[0], "_exit") == 0)
        _exit(5); /* exit_group is not allowed: killed */
    syscall(SYS_exit, 5);
    return 9;
}

/* ---- limits ---- */

static long present_size(void)
{
    long pages = 0;
    char line[100] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    if (fd >= 0 && read(fd, line, sizeof line - 1) > 0)
        pages = atol(line);
    if (fd >= 0)
        close(fd);
    return pages * getpagesize();
}

static void lower(__rlimit_resource_t what, rlim_t to)
{
    struct rlimit l = {to, to};
    if (setrlimit(what, &l) != 0)
        _exit(77);
}

static int cage_files(int n, char **args)
{
    lower(RLIMIT_NOFILE, (rlim_t)atoi(args[0]));
    guest_more(n);
    int fd = open("/dev/null", O_RDONLY), e = errno;
    guest_say("open %d, errno %d\n", fd, e);
    pid_t pid = fork();
    if (pid == 0) {
        guest_more(7);
        exit(6);
    }
    guest_say("child %d\n", guest_wait(pid));
    return 5;
}

static int cage_memory(int n, char **args)
{
    guest_churn(1); /* makes the heap */
    lower(strcmp(args[0], "as") == 0 ? RLIMIT_AS : RLIMIT_DATA,
          (rlim_t)(present_size() + atoi(args[1])));
    guest_more(n);
    errno = 0;
    void *volatile p = malloc(1u << 30);
    guest_say("a gigabyte: %s, errno %d\n", p ? "a block" : "none", errno);
    pid_t pid = fork();
    if (pid == 0) {
        guest_more(7);
        exit(6);
    }
    guest_say("child %d\n", guest_wait(pid));
    return 5;
}

static int cage_filesize(int n, char **args)
{
    lower(RLIMIT_FSIZE, (rlim_t)atoi(args[0]));
    if (args[1] && strcmp(args[1], "ignore") == 0)
        signal(SIGXFSZ, SIG_IGN);
    guest_more(n);
    pid_t pid = fork();
    if (pid == 0) {
        guest_more(7);
        exit(6);
    }
    guest_say("child %d\n", guest_wait(pid));
    return 5;
}

static int become_nobody(void)
{
    return geteuid() == 0 &&
           (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
            setresuid(NOBODY, NOBODY, NOBODY) != 0);
}

static int cage_processes(int n, char **args)
{
    (void)args;
    if (become_nobody())
        return 77;
    lower(RLIMIT_NPROC, 0);
    errno = 0;
    pid_t pid = fork();
    int e = errno;
    if (pid == 0)
        _exit(0);
    guest_more(n);
    guest_say("fork %d, errno %d\n", (int)pid, e);
    return 5;
}

/* ---- roots and users ---- */

static int cage_chroot(int n, char **args)
{
    if (chdir(args[0]) != 0 || chroot(".") != 0)
        return 77;
    guest_more(n);
    guest_say("inside\n");
    pid_t pid = fork();
    if (pid == 0) {
        guest_more(7);
        exit(6);
    }
    guest_say("child %d\n", guest_wait(pid));
    return 5;
}

static int cage_user(int n, char **args)
{
    int failed = strcmp(args[0], "setuid") == 0   ? become_nobody()
                 : strcmp(args[0], "setgid") == 0 ? setgid(NOBODY)
                                                  : seteuid(NOBODY);
    if (failed)
        return 77;
    guest_more(n);
    guest_say("%d %d %d %d\n", (int)getuid(), (int)geteuid(), (int)getgid(),
              (int)getegid());
    pid_t pid = fork();
    if (pid == 0) {
        guest_more(7);
        exit(6);
    }
    guest_say("child %d\n", guest_wait(pid));
    return 5;
}

/* Refused to processes of several threads. */
static int cage_namespace(int n, char **args)
{
    (void)args;
    errno = 0;
    int done = unshare(CLONE_NEWUSER), e = errno;
    guest_more(n);
    guest_say("unshare %d, errno %d, uid %d\n", done, e, (int)getuid());
    return 5;
}

/* What libraries with run-time code run into. */
static int cage_prctl(int n, char **args)
{
    int done = -1;
    if (strcmp(args[0], "dumpable") == 0)
        done = prctl(PR_SET_DUMPABLE, 0);
    else if (strcmp(args[0], "privileges") == 0)
        done = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    else if (strcmp(args[0], "execution") == 0)
        done = prctl(PR_SET_MDWE, 1, 0, 0, 0);
    if (done != 0)
        return 77;
    guest_more(n);
    pid_t pid = fork();
    if (pid == 0) {
        guest_more(7);
        exit(6);
    }
    guest_say("%s: child %d, dumpable %d\n", args[0], guest_wait(pid),
              prctl(PR_GET_DUMPABLE));
    return 5;
}

const struct guest_mode guest_cages[] = {
    {"allow", cage_allow},         {"deny", cage_deny},
    {"filterfork", cage_fork},     {"filterexec", cage_exec},
    {"strict", cage_strict},       {"files", cage_files},
    {"memory", cage_memory},       {"filesize", cage_filesize},
    {"processes", cage_processes}, {"chroot", cage_chroot},
    {"user", cage_user},           {"namespace", cage_namespace},
    {"prctl", cage_prctl},         {NULL, NULL}};
