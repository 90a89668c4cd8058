/* SPDX-License-Identifier: Apache-2.0
 *
 * Log lines, their limit, and the journal's own protocol: one datagram of
 * NAME=value lines (values without line breaks need no length).  See log.h.
 */
#include "log.h"

#include "clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *const level_names[] = {[HL_LOG_ERR] = "error",
                                          [HL_LOG_WARNING] = "warning",
                                          [HL_LOG_NOTICE] = "notice",
                                          [HL_LOG_INFO] = "info",
                                          [HL_LOG_DEBUG] = "debug"};

int hl_log_level_by_name(const char *name)
{
    if (strcmp(name, "err") == 0)
        return HL_LOG_ERR;
    for (int i = HL_LOG_ERR; i <= HL_LOG_DEBUG; i++)
        if (strcmp(name, level_names[i]) == 0)
            return i;
    return -1;
}

static size_t field(char *out, size_t cap, size_t at, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(out + at, cap - at, format, ap);
    va_end(ap);
    return n < 0 || (size_t)n >= cap - at ? at : at + (size_t)n;
}

static int put_journal(struct hl_log *l, int level, const struct hl_log_about *a,
                       const char *line)
{
    char out[2048];
    size_t n =
        field(out, sizeof out, 0,
              "PRIORITY=%d\nSYSLOG_IDENTIFIER=heaplined\nMESSAGE=%s\n", level, line);
    if (a && a->key)
        n = field(out, sizeof out, n, "HEAPLINE_JOB=%s\n", a->key);
    if (a && a->uid >= 0)
        n = field(out, sizeof out, n, "HEAPLINE_UID=%lld\n", (long long)a->uid);
    if (a && a->pid >= 0)
        n = field(out, sizeof out, n, "HEAPLINE_PID=%lld\n", (long long)a->pid);
    return send(l->journal, out, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

static void put_line(struct hl_log *l, int level, const struct hl_log_about *a,
                     const char *line)
{
    if (l->journal >= 0 && put_journal(l, level, a, line) == 0)
        return;
    fprintf(stderr, "heaplined: %s%s%s\n",
            level <= HL_LOG_WARNING ? level_names[level] : "",
            level <= HL_LOG_WARNING ? ": " : "", line);
}

void hl_log_init(struct hl_log *l)
{
    memset(l, 0, sizeof *l);
    l->level = HL_LOG_INFO;
    l->burst = 10;
    l->journal = -1;
    l->now = hl_mono_ns;
    l->put = put_line;
}

void hl_log_fini(struct hl_log *l)
{
    if (l->journal >= 0)
        close(l->journal);
    l->journal = -1;
}

int hl_log_to_journal(struct hl_log *l)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX,
                            .sun_path = "/run/systemd/journal/socket"};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a)) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    l->journal = fd;
    return 0;
}

/* A kind whose window is over says what it held back and starts anew. */
static void end_window(struct hl_log *l, struct hl_log_kind *k, int64_t now)
{
    char line[128];
    if (k->n_held && k->level <= l->level) {
        snprintf(line, sizeof line, "%s (%llu more in %lld s)", k->name,
                 (unsigned long long)k->n_held,
                 (long long)((now - k->since_ns) / 1000000000));
        l->put(l, k->level, NULL, line);
    }
    k->n = k->n_held = 0;
    k->since_ns = now;
}

static int window_over(const struct hl_log_kind *k, int64_t now)
{
    return now - k->since_ns >= (int64_t)HL_LOG_WINDOW_S * 1000000000;
}

static struct hl_log_kind *kind_of(struct hl_log *l, const char *name, int64_t now)
{
    for (int i = 0; i < HL_LOG_KINDS; i++) {
        struct hl_log_kind *k = &l->kind[i];
        if (!k->name)
            *k = (struct hl_log_kind){.name = name, .since_ns = now};
        if (strcmp(k->name, name) == 0)
            return k;
    }
    return NULL;
}

static int held_back(struct hl_log *l, int level, const char *kind)
{
    if (!kind || !l->burst)
        return 0;
    int64_t now = l->now();
    struct hl_log_kind *k = kind_of(l, kind, now);
    if (!k)
        return 0;
    if (window_over(k, now))
        end_window(l, k, now);
    k->level = level;
    if (k->n < l->burst) {
        k->n++;
        return 0;
    }
    k->n_held++;
    l->n_held++;
    return 1;
}

void hl_log(struct hl_log *l, int level, const char *kind,
            const struct hl_log_about *about, const char *format, ...)
{
    char line[1024];
    va_list ap;
    if (level > l->level || held_back(l, level, kind))
        return;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    for (char *p = line; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127)
            *p = '?';
    if (level <= HL_LOG_ERR)
        snprintf(l->last_error, sizeof l->last_error, "%.255s", line);
    l->put(l, level, about, line);
}

void hl_log_tick(struct hl_log *l)
{
    int64_t now = l->now();
    for (int i = 0; i < HL_LOG_KINDS && l->kind[i].name; i++)
        if (window_over(&l->kind[i], now))
            end_window(l, &l->kind[i], now);
}

void hl_log_flush(struct hl_log *l)
{
    int64_t now = l->now();
    for (int i = 0; i < HL_LOG_KINDS && l->kind[i].name; i++)
        end_window(l, &l->kind[i], now);
}
