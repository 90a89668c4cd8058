/* SPDX-License-Identifier: Apache-2.0
 *
 * Environment, identity and descriptors; see setup.h.
 */
#include "setup.h"

#include "heap_page.h"
#include "row_buffer.h"
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define SECOND INT64_C(1000000000)
#define DEFAULT_SOCKET "/run/heapline/collector.sock"

static const char *env(const char *name)
{
    return getenv(name);
}

static int is(const char *name, const char *value)
{
    const char *s = env(name);
    return s && !strcmp(s, value);
}

static int is_set(const char *name)
{
    const char *s = env(name);
    return s && *s;
}

void hl_say(const struct hl_setup *s, const char *format, ...)
{
    char line[512] = "libheapline: ";
    size_t at = strlen(line);
    va_list ap;
    if (!s->verbose)
        return;
    va_start(ap, format);
    int n = vsnprintf(line + at, sizeof line - at - 1, format, ap);
    va_end(ap);
    if (n < 0)
        return;
    at += (size_t)n < sizeof line - at - 1 ? (size_t)n : sizeof line - at - 2;
    line[at++] = '\n';
    if (write(STDERR_FILENO, line, at) < 0)
        return; /* nobody listens: there is nothing else to tell it to */
}

static void copy_text(char *to, size_t cap, const char *from)
{
    size_t n = strnlen(from, cap - 1);
    memcpy(to, from, n);
    to[n] = 0;
}

/* Longer lists and folders than fit are no names of sockets or files. */
static void read_places(struct hl_setup *s)
{
    const char *sockets = env("HEAPLINE_SOCKET"), *dir = env("HEAPLINE_FALLBACK_DIR");
    if (!sockets)
        sockets = DEFAULT_SOCKET;
    if (strlen(sockets) < sizeof s->sockets)
        copy_text(s->sockets, sizeof s->sockets, sockets);
    else
        hl_say(s, "HEAPLINE_SOCKET is too long, ignored");
    if (dir && strlen(dir) >= sizeof s->fallback)
        hl_say(s, "HEAPLINE_FALLBACK_DIR is too long, ignored");
    else if (dir)
        copy_text(s->fallback, sizeof s->fallback, dir);
}

static void read_seconds(const struct hl_setup *s, const char *name, int64_t max_ns,
                         int64_t *out)
{
    const char *text = env(name);
    if (text && *text && hl_parse_seconds(text, 0, max_ns, out))
        hl_say(s, "%s=%s is no number of seconds, ignored", name, text);
}

static void read_numbers(struct hl_setup *s)
{
    const char *buffer = env("HEAPLINE_BUFFER"), *interval = env("HEAPLINE_INTERVAL");
    s->wait_ns = 60 * SECOND;
    read_seconds(s, "HEAPLINE_WAIT", 1000000 * SECOND, &s->wait_ns);
    if (interval && *interval && hl_parse_interval(interval, &s->interval_ns))
        hl_say(s,
               "HEAPLINE_INTERVAL=%s is not a number of seconds from 0.01 to 86400, no "
               "samples are asked for",
               interval);
    s->buffer_bytes = HL_ROW_BUFFER_DEFAULT;
    if (buffer && *buffer &&
        hl_parse_size(buffer, HL_ROW_BUFFER_MIN, HL_ROW_BUFFER_MAX, &s->buffer_bytes))
        hl_say(s, "HEAPLINE_BUFFER=%s is not a size from 64K to 1G, 16M used", buffer);
    if (is_set("HEAPLINE_CLOCK") && !is("HEAPLINE_CLOCK", "monotonic"))
        hl_say(s, "HEAPLINE_CLOCK=%s is not there in this version, monotonic used",
               env("HEAPLINE_CLOCK"));
}

void hl_setup_read(struct hl_setup *s)
{
    memset(s, 0, sizeof *s);
    if (getauxval(AT_SECURE)) {
        s->off = 1;
        return;
    }
    s->off = is("HEAPLINE_DISABLE", "1") || is("HEAPLINE_DISABLE", "frames");
    s->verbose = is("HEAPLINE_VERBOSE", "1");
    s->drop = is("HEAPLINE_ON_FULL", "drop");
    if (is_set("HEAPLINE_ON_FULL") && !s->drop && !is("HEAPLINE_ON_FULL", "block"))
        hl_say(s, "HEAPLINE_ON_FULL=%s is neither block nor drop, block used",
               env("HEAPLINE_ON_FULL"));
    s->asked = is_set("HEAPLINE_JOB") || is_set("HEAPLINE_SOCKET") ||
               is_set("HEAPLINE_FALLBACK_DIR");
    read_places(s);
    read_numbers(s);
    s->rank = hl_ident_rank(env);
    s->size = hl_ident_size(env);
    hl_ident_key(env, getsid(0), s->key);
    copy_text(s->job, sizeof s->job, hl_ident_job(env));
    if (gethostname(s->host, sizeof s->host - 1))
        copy_text(s->host, sizeof s->host, "localhost");
}

uint64_t hl_start_ticks(void)
{
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    char *p = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}

int hl_high_fd(int fd)
{
    struct rlimit r;
    int low = 64;
    if (fd < 0)
        return fd;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur > 512)
        low = r.rlim_cur > 1024 ? 960 : (int)r.rlim_cur - 64;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, low);
    if (high < 0)
        high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

struct hl_fd_id hl_fd_id(int fd)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return (struct hl_fd_id){0, 0};
    return (struct hl_fd_id){st.st_dev, st.st_ino};
}

int hl_fd_is(int fd, struct hl_fd_id id)
{
    struct hl_fd_id now = hl_fd_id(fd);
    return fd >= 0 && id.ino && now.dev == id.dev && now.ino == id.ino;
}
