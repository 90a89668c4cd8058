/* SPDX-License-Identifier: Apache-2.0
 *
 * pidfd and /proc; see procfs.h.
 */
#include "procfs.h"

#include "wire_link.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Linux 6.15; older headers lack it.  The first 64 bytes of the structure. */
struct pidfd_info_v0 {
    uint64_t mask, cgroupid;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
};
_Static_assert(sizeof(struct pidfd_info_v0) == 64, "the kernel's first version");
#define GET_INFO _IOWR(0xFF, 11, struct pidfd_info_v0)
#define INFO_EXIT ((uint64_t)1 << 3)
enum { PEERPIDFD = 77 };

static ssize_t read_proc(int64_t pid, const char *what, char *text, size_t cap)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%lld/%s", (long long)pid, what);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, cap - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return n;
}

/* Field n (from 3) of a stat line: the name in field 2 may hold anything, so
 * counting begins at its last ')'. */
static const char *stat_field(const char *text, int n)
{
    const char *p = strrchr(text, ')');
    for (int field = 2; p && field < n; field++)
        p = strchr(p + 1, ' ');
    return p ? p + 1 : NULL;
}

/* Linux 6.5 gives it with the connection (from 6.16 even of a process that was
 * waited for already); before, the number must serve. */
static int peer_pidfd(int sock, int64_t pid)
{
    int fd = -1;
    socklen_t n = sizeof fd;
    if (sock >= 0 && getsockopt(sock, SOL_SOCKET, PEERPIDFD, &fd, &n) == 0 && fd >= 0)
        return fd; /* it is close-on-exec */
    return pid > 0 && pid <= INT32_MAX ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
}

int hl_procfs_open(int sock, int64_t pid, uint64_t start_ticks)
{
    int fd = peer_pidfd(sock, pid);
    if (fd < 0)
        return -1;
    /* While the pidfd shows it alive, its number is nobody else's. */
    struct pollfd p = {fd, POLLIN, 0};
    uint64_t now = start_ticks ? hl_start_ticks(pid) : 0;
    if (now && now != start_ticks && poll(&p, 1, 0) == 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void kib(const char *text, const char *name, int64_t *out)
{
    const char *p = strstr(text, name);
    if (p)
        *out = strtoll(p + strlen(name), NULL, 10) * 1024;
}

void hl_procfs_memory(int64_t pid, int64_t *vmhwm, int64_t *vmrss)
{
    char text[4096];
    if (pid <= 0 || read_proc(pid, "status", text, sizeof text) <= 0)
        return;
    kib(text, "\nVmHWM:", vmhwm);
    kib(text, "\nVmRSS:", vmrss);
}

int64_t hl_procfs_rss(int64_t pid)
{
    char text[256];
    if (pid <= 0 || read_proc(pid, "statm", text, sizeof text) <= 0)
        return -1;
    const char *p = strchr(text, ' ');
    long long pages = p ? strtoll(p, NULL, 10) : 0;
    return pages > 0 ? pages * sysconf(_SC_PAGESIZE) : -1;
}

int64_t hl_procfs_age_ns(uint64_t start_ticks)
{
    struct timespec t;
    int64_t second = 1000000000, hz = sysconf(_SC_CLK_TCK);
    if (!start_ticks || hz <= 0 || clock_gettime(CLOCK_BOOTTIME, &t))
        return -1;
    int64_t now = (int64_t)t.tv_sec * second + t.tv_nsec, whole;
    uint64_t s = start_ticks / (uint64_t)hz, rest = start_ticks % (uint64_t)hz;
    if (s > (uint64_t)(INT64_MAX / second - 1)) /* a client said so */
        return -1;
    whole = (int64_t)s * second + (int64_t)rest * second / hz;
    return now > whole ? now - whole : 0;
}

static struct hl_end end_of_wait_status(int status)
{
    if (WIFSIGNALED(status))
        return (struct hl_end){HL_ENDED_SIGNAL, WTERMSIG(status)};
    return (struct hl_end){HL_ENDED_EXIT, WEXITSTATUS(status)};
}

/* Field 52 of a zombie is its wait status, for those who may trace it; others
 * read 0, which then says nothing. */
static int zombie_status(int64_t pid, uint64_t start_ticks, int may_trace, int *status)
{
    char text[1024];
    if (pid <= 0 || read_proc(pid, "stat", text, sizeof text) <= 0)
        return 0;
    const char *state = stat_field(text, 3), *start = stat_field(text, 22);
    const char *code = stat_field(text, 52);
    if (!state || (*state != 'Z' && *state != 'X') || !start || !code)
        return 0;
    if (start_ticks && strtoull(start, NULL, 10) != start_ticks)
        return 0;
    *status = (int)strtol(code, NULL, 10);
    return may_trace || *status != 0;
}

int hl_procfs_end(int pidfd, int64_t pid, uint64_t start_ticks, int may_trace,
                  struct hl_end *end)
{
    struct pidfd_info_v0 info = {.mask = INFO_EXIT};
    int status;
    if (pidfd >= 0 && ioctl(pidfd, GET_INFO, &info) == 0 && info.mask & INFO_EXIT)
        status = info.exit_code;
    else if (!zombie_status(pid, start_ticks, may_trace, &status))
        return 0;
    *end = end_of_wait_status(status);
    return 1;
}

int hl_procfs_pidfd_tells(void)
{
    static int known = -1;
    if (known < 0) {
        struct pidfd_info_v0 info = {.mask = INFO_EXIT};
        int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
        known = fd >= 0 && ioctl(fd, GET_INFO, &info) == 0;
        if (fd >= 0)
            close(fd);
    }
    return known;
}

int hl_procfs_uids_hidden(void)
{
    unsigned long long inside, outside, n;
    FILE *f = fopen("/proc/self/uid_map", "re");
    int whole = !f || fscanf(f, "%llu %llu %llu", &inside, &outside, &n) != 3 ||
                (inside == 0 && n >= 4294967295u);
    if (f)
        fclose(f);
    return !whole;
}
