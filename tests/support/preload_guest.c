/* SPDX-License-Identifier: Apache-2.0
 *
 * A program in all the situations that a program can be in, for tests of the heap
 * agent:  preload_guest MODE N [ARGUMENT...]
 *
 * It prints what it can see of itself, which must be the same with the agent and
 * without, allocates N blocks more than with N = 0, and ends with status 5.  What
 * each of its processes allocates it notes in the file that GUEST_NOTES names.
 * Here: the views; preload_guest_process.c: children, images, threads and signals;
 * preload_guest_cage.c: limits, privileges and filters.
 */
#include "preload_guest.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined __x86_64__ || defined __i386__
#include <xmmintrin.h>
#endif

char *guest_self;
static void *volatile sink;

void guest_more(int n)
{
    for (int i = 0; i < n; i++)
        sink = malloc(64);
}

void guest_churn(int n)
{
    for (int i = 0; i < n; i++) {
        void *p = malloc((size_t)(1 + i % 900));
        sink = p; /* shared by threads: never freed from there */
        free(p);
    }
}

void guest_say(const char *format, ...)
{
    char line[400];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    if (write(1, line, (size_t)n) != n)
        _exit(99);
}

void guest_note(const char *role, int allocs, int frees)
{
    char line[100];
    const char *name = getenv("GUEST_NOTES");
    int fd = name ? open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (fd < 0)
        return;
    int n =
        snprintf(line, sizeof line, "%s %d %d %d\n", role, (int)getpid(), allocs, frees);
    if (write(fd, line, (size_t)n) != n)
        _exit(98);
    close(fd);
}

int guest_wait(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 255;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int guest_lowest(void)
{
    int fd = fcntl(0, F_DUPFD, 0);
    if (fd >= 0)
        close(fd);
    return fd;
}

/* ---- what a process sees of itself ---- */

static void look_at_descriptors(const char *who)
{
    for (int i = 0; i < 256; i++) {
        int flags = fcntl(i, F_GETFD);
        if (flags >= 0)
            guest_say("%s: descriptor %d, flags %d\n", who, i, flags);
    }
    guest_say("%s: lowest free %d\n", who, guest_lowest());
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && (e = readdir(d));) {
        int fd = atoi(e->d_name), flags = fcntl(fd, F_GETFD);
        if (fd >= 256 && flags >= 0 && !(flags & FD_CLOEXEC))
            guest_say("%s: %d stays open over exec\n", who, fd);
    }
    if (d)
        closedir(d);
}

static void look_at_signals(const char *who)
{
    sigset_t blocked, waiting;
    struct sigaction a;
    struct itimerval t = {0};
    sigemptyset(&blocked);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    sigpending(&waiting);
    for (int i = 1; i < 65; i++) {
        if (sigismember(&blocked, i) == 1 || sigismember(&waiting, i) == 1)
            guest_say("%s: signal %d blocked or pending\n", who, i);
        if (sigaction(i, NULL, &a) == 0 && a.sa_handler != SIG_DFL)
            guest_say("%s: signal %d has a handler\n", who, i);
    }
    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++)
        if (getitimer(which, &t) == 0 && (t.it_value.tv_sec || t.it_value.tv_usec))
            guest_say("%s: timer %d runs\n", who, which);
}

/* The names of all threads, and how many there are. */
static void look_at_threads(const char *who)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[100], name[32] = "";
        int fd;
        if (*e->d_name == '.')
            continue;
        n++;
        snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", e->d_name);
        if ((fd = open(path, O_RDONLY)) >= 0) {
            if (read(fd, name, sizeof name - 1) > 0)
                guest_say("%s: thread %s", who, name);
            close(fd);
        }
    }
    if (d)
        closedir(d);
    guest_say("%s: %d threads\n", who, n);
}

static void look_at_process(const char *who)
{
    char name[17] = "";
    struct rlimit l;
    mode_t mask = umask(0);
    umask(mask);
    prctl(PR_GET_NAME, name);
    guest_say("%s: name %s, dumpable %d, no new privileges %d, umask %o\n", who, name,
              prctl(PR_GET_DUMPABLE), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
              (unsigned)mask);
    for (int i = 0; i < (int)RLIM_NLIMITS; i++)
        if (getrlimit((__rlimit_resource_t)i, &l) == 0)
            guest_say("%s: limit %d %lld\n", who, i, (long long)l.rlim_cur);
    guest_say("%s: dlerror %s\n", who, dlerror() ? "is set" : "is not set");
}

#define KEPT(call)                                                                       \
    do {                                                                                 \
        errno = 4711;                                                                    \
        call;                                                                            \
        if (errno != 4711)                                                               \
            guest_say("%s: " #call ": errno %d\n", who, errno);                          \
    } while (0)

static void look_at_errno(const char *who)
{
    void *p, *q;
    KEPT(p = malloc(10));
    KEPT(p = realloc(p, 300000));
    KEPT(q = calloc(7, 7));
    KEPT(free(q));
    KEPT(free(p));
    KEPT(free(NULL));
    for (int i = 0; i < 1000; i++) {
        KEPT(p = malloc((size_t)i * 40));
        KEPT(free(p));
    }
    errno = 0;
    p = malloc((size_t)PTRDIFF_MAX);
    guest_say("%s: too much: %s, errno %d\n", who, p ? "a block" : "none", errno);
}

void guest_look(const char *who)
{
    int e = errno;
    guest_say("%s: errno %d\n", who, e);
    look_at_errno(who);
    look_at_descriptors(who);
    look_at_signals(who);
    look_at_threads(who);
    look_at_process(who);
}

static void *look_in_thread(void *unused)
{
    guest_look("thread");
    return unused;
}

static void look_at_exit(void)
{
    guest_look("atexit");
}

static int view_look(int n, char **args)
{
    pthread_t t;
    (void)args;
    guest_look("main");
    atexit(look_at_exit);
    guest_more(n);
    if (pthread_create(&t, NULL, look_in_thread, NULL) == 0)
        pthread_join(t, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        guest_look("child");
        exit(6);
    }
    guest_say("child %d\n", guest_wait(pid));
    guest_look("parent");
    return 5;
}

/* ---- floating point ---- */

static unsigned sse_control(void)
{
#if defined __x86_64__ || defined __i386__
    return _mm_getcsr() & 0xffc0u;
#else
    return 0;
#endif
}

static unsigned x87_control(void)
{
    unsigned short w = 0;
#if defined __x86_64__ || defined __i386__
    __asm__ volatile("fnstcw %0" : "=m"(w));
#endif
    return w;
}

static void look_at_floats(const char *who)
{
    guest_say("%s: rounding %d, mxcsr %x, x87 %x, exceptions %x\n", who, fegetround(),
              sse_control(), x87_control(), (unsigned)fetestexcept(FE_ALL_EXCEPT));
}

static void set_floats(void)
{
    fesetround(FE_UPWARD);
    feraiseexcept(FE_UNDERFLOW);
#if defined __x86_64__ || defined __i386__
    unsigned short w = (unsigned short)((x87_control() & ~0x300u) | 0x200u);
    _mm_setcsr(_mm_getcsr() | 0x8040u); /* flush to zero, denormals are zero */
    __asm__ volatile("fldcw %0" : : "m"(w));
#endif
}

static void *floats_in_thread(void *unused)
{
    look_at_floats("thread before");
    guest_churn(1000);
    look_at_floats("thread");
    return unused;
}

static int view_floats(int n, char **args)
{
    pthread_t t;
    (void)args;
    look_at_floats("start");
    set_floats();
    guest_more(n);
    guest_churn(5000);
    look_at_floats("main");
    if (pthread_create(&t, NULL, floats_in_thread, NULL) == 0)
        pthread_join(t, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        guest_churn(10);
        look_at_floats("child");
        _exit(6);
    }
    guest_wait(pid);
    look_at_floats("parent");
    return 5;
}

/* ---- other views ---- */

static int view_plain(int n, char **args)
{
    guest_more(n);
    for (int i = 0; args[i]; i++)
        guest_say("argument %s\n", args[i]);
    return 5;
}

/* Writes to 1 and 2 with SIGPIPE ignored if asked; the status says what happened. */
static int view_streams(int n, char **args)
{
    int status = 5;
    if (args[0] && strcmp(args[0], "ignore") == 0)
        signal(SIGPIPE, SIG_IGN);
    guest_more(n);
    if (write(1, "to stdout\n", 10) != 10)
        status += errno == EPIPE ? 10 : errno == ENOSPC ? 20 : errno == EBADF ? 30 : 40;
    if (write(2, "to stderr\n", 10) != 10)
        status += errno == EPIPE    ? 50
                  : errno == ENOSPC ? 100
                  : errno == EBADF  ? 150
                                    : 200;
    return status;
}

/* Started with 0, 1 and 2 closed: are they, and are they the next to be had? */
static int view_nostreams(int n, char **args)
{
    (void)args;
    guest_more(n);
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) != -1)
            return 10 + fd;
    for (int fd = 0; fd < 4; fd++)
        if (open("/dev/null", O_RDWR) != fd)
            return 20 + fd;
    return 5;
}

static int view_locale(int n, char **args)
{
    char b[30];
    if (!args[0] || !setlocale(LC_ALL, args[0]))
        return 77;
    guest_more(n);
    snprintf(b, sizeof b, "%.3f", 0.5);
    guest_say("a half is %s\n", b);
    usleep(20000);
    return 5;
}

static int view_named(int n, char **args)
{
    (void)args;
    prctl(PR_SET_NAME, "a) 1 (b, c");
    guest_more(n);
    look_at_threads("named");
    return 5;
}

static int view_libraries(int n, char **args)
{
    (void)args;
    for (int i = 0; i < 20; i++) {
        void *h = dlopen("libm.so.6", RTLD_NOW | (i % 2 ? RTLD_DEEPBIND : 0));
        if (h)
            dlclose(h);
    }
    void *apart = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    guest_say("a second C library: %s\n", apart ? "loaded" : "not loaded");
    void *(*other_malloc)(size_t) =
        apart ? (void *(*)(size_t))dlsym(apart, "malloc") : NULL;
    void (*other_free)(void *) = apart ? (void (*)(void *))dlsym(apart, "free") : NULL;
    for (int i = 0; other_malloc && other_free && i < 50; i++)
        other_free(other_malloc(100));
    guest_more(n);
    if (apart)
        dlclose(apart);
    guest_say("dlerror %s\n", dlerror() ? "is set" : "is not set");
    return 5;
}

const struct guest_mode guest_views[] = {
    {"look", view_look},       {"floats", view_floats},       {"plain", view_plain},
    {"streams", view_streams}, {"nostreams", view_nostreams}, {"locale", view_locale},
    {"named", view_named},     {"libraries", view_libraries}, {NULL, NULL}};

/* ---- the program ---- */

static const struct guest_mode *find(const char *name)
{
    const struct guest_mode *const all[] = {guest_views, guest_processes, guest_cages};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (const struct guest_mode *m = all[i]; m->name; m++)
            if (strcmp(m->name, name) == 0)
                return m;
    return NULL;
}

int main(int argc, char **argv)
{
    char *none[] = {NULL};
    /* GUEST_MODE: for images that are started without arguments. */
    const char *name = argc > 1 ? argv[1] : getenv("GUEST_MODE");
    const struct guest_mode *m = name ? find(name) : NULL;
    const char *amount = argc > 2 ? argv[2] : getenv("GUEST_N");
    int n = amount ? atoi(amount) : 0;
    guest_self = getenv("GUEST_SELF");
    if (!m || !guest_self)
        return 96;
    guest_note("main", n, 0);
    return m->run(n, argc > 3 ? argv + 3 : none);
}
