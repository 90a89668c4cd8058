/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting a run's private collector; see private.h.
 */
#include "private.h"

#include "fds.h"
#include "install.h"
#include "wire_link.h"
#include "path.h"
#include "ulimits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_MS = 15000, STEP_MS = 10, LOG_BYTES = 4096 };

void hl_private_names(struct hl_private *p, const char *key)
{
    hl_private_dir((uint32_t)geteuid(), key, p->dir);
    snprintf(p->socket, sizeof p->socket, "%s/s", p->dir);
    snprintf(p->spool, sizeof p->spool, "%s/spool", p->dir);
    snprintf(p->log, sizeof p->log, "%s/log", p->dir);
}

static int make_folder(const struct hl_private *p, struct hl_err *e)
{
    char base[HL_NAME_CAP];
    hl_private_base((uint32_t)geteuid(), base);
    int fd = hl_path_own_dir(base, e);
    if (fd < 0)
        return -1;
    close(fd);
    return hl_path_own_dir(p->dir, e);
}

static _Noreturn void become_collector(const struct hl_private *p, const char *spool,
                                       const char *program, int log, int lock)
{
    int null = open("/dev/null", O_RDWR);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid(); /* signals of the terminal are for the run, not for its collector */
    dup2(null, 0);
    dup2(null, 1);
    dup2(log >= 0 ? log : null, 2);
    hl_fds_close_others(lock); /* whoever reads a pipe of the run waits for its end */
    execl(program, program, "-f", "--private", "--socket", p->socket, "--spool", spool,
          (char *)NULL);
    _exit(127);
}

/* A program that gets no memory or descriptors may end without a word. */
static void guess(char *out, size_t cap)
{
    enum { FEW = 64 };
    struct rlimit r;
    char hint[128];
    hl_limit_hint(ENOMEM, hint, sizeof hint);
    if (!hint[0] && getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < FEW)
        hl_limit_hint(EMFILE, hint, sizeof hint);
    snprintf(out, cap, "heaplined ended without a message%s", hint);
}

static void last_line(const char *name, char *out, size_t cap)
{
    static const char mark[] = "heaplined: error: ";
    FILE *f = fopen(name, "re");
    char line[512];
    guess(out, cap);
    while (f && fgets(line, sizeof line, f)) {
        int ours = !strncmp(line, mark, sizeof mark - 1);
        line[strcspn(line, "\n")] = 0;
        snprintf(out, cap, "%s", ours ? line + sizeof mark - 1 : line);
    }
    if (f)
        fclose(f);
}

/* No process's data are in the spool. */
static int is_empty(const char *spool)
{
    static const char *const own[] = {".", "..", "lock", "samples"};
    DIR *d = opendir(spool);
    struct dirent *de;
    size_t i = 0;
    while (d && i < sizeof own / sizeof *own && (de = readdir(d)))
        for (i = 0; i < sizeof own / sizeof *own && strcmp(de->d_name, own[i]);)
            i++;
    if (d)
        closedir(d);
    return i < sizeof own / sizeof *own;
}

int hl_private_failed(const struct hl_private *p, struct hl_err *e)
{
    char why[512];
    last_line(p->log, why, sizeof why);
    hl_fail(e, HL_ERR_PEER, "cannot start a private collector: %s", why);
    if (is_empty(p->spool)) /* nothing was kept: leave no trace */
        hl_path_remove_tree(p->dir);
    return -1;
}

/* Wait until the socket answers; pid: the collector we started, or 0. */
static int wait_ready(const struct hl_private *p, pid_t pid, struct hl_link *link,
                      struct hl_err *e)
{
    for (int ms = 0; ms < START_MS; ms += STEP_MS) {
        int status;
        if (hl_link_open(link, p->socket, (int64_t)geteuid(), NULL) == 0)
            return 0;
        if (pid && waitpid(pid, &status, WNOHANG) == pid)
            return hl_private_failed(p, e);
        nanosleep(&(struct timespec){0, STEP_MS * 1000000L}, NULL);
    }
    return hl_fail(e, ETIMEDOUT, "the private collector at %s did not start", p->socket);
}

static int start(const struct hl_private *p, const char *spool, int lock,
                 struct hl_link *link, struct hl_err *e)
{
    char program[4096];
    if (hl_find_program("heaplined", program, sizeof program, e))
        return -1;
    int log = open(p->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (log >= 0) /* so that it can say that the disk is full */
        fallocate(log, FALLOC_FL_KEEP_SIZE, 0, LOG_BYTES);
    pid_t pid = fork();
    if (pid == 0) {
        fcntl(lock, F_SETFD, 0); /* the lock lives as long as the collector */
        become_collector(p, spool, program, log, lock);
    }
    if (log >= 0)
        close(log);
    return pid < 0 ? hl_fail_errno(e, "cannot start a private collector")
                   : wait_ready(p, pid, link, e);
}

int hl_private_start(struct hl_private *p, const char *spool, struct hl_link *link,
                     struct hl_err *e)
{
    link->fd = -1;
    int dir = make_folder(p, e);
    if (dir < 0)
        return -1;
    mode_t before = umask(0077); /* the user's may keep us from our own files */
    int lock = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    close(dir);
    if (lock < 0) {
        umask(before);
        return hl_fail_errno(e, "cannot open %s/lock", p->dir);
    }
    int bad = flock(lock, LOCK_EX | LOCK_NB) == 0
                  ? start(p, spool ? spool : p->spool, lock, link, e)
                  : wait_ready(p, 0, link, e);
    umask(before);
    close(lock);
    if (bad && access(p->spool, F_OK))
        hl_path_remove_tree(p->dir);
    return bad;
}
