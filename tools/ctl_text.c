/* SPDX-License-Identifier: Apache-2.0
 *
 * status and jobs for people, and the forms of numbers; see heaplinectl.h.
 */
#include "heaplinectl.h"

#include "path.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SCREEN = 80, LABEL = 14 };

/* ---- output ---- */

void ctl_put(struct ctl_out *o, const char *format, ...)
{
    char text[8192];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (n < 0 ||
        hl_buf_add(&o->b, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1))
        o->failed = 1;
}

int ctl_flush(struct ctl_out *o, int fd)
{
    int r =
        o->failed ? -1 : hl_path_write_all(fd, hl_buf_data(&o->b), hl_buf_left(&o->b));
    hl_buf_fini(&o->b);
    o->failed = 0;
    return r;
}

/* ---- numbers and texts ---- */

const char *ctl_size(int64_t bytes, char *out)
{
    static const char units[] = "BKMGTPE";
    double v = (double)bytes;
    int u = 0;
    if (bytes < 0)
        return strcpy(out, "-");
    for (; v >= 1023.5 && units[u + 1]; u++)
        v /= 1024;
    if (u == 0)
        snprintf(out, CTL_NUMBER_CAP, "%lld", (long long)bytes);
    else
        snprintf(out, CTL_NUMBER_CAP, v < 9.95 ? "%.1f%c" : "%.0f%c", v, units[u]);
    return out;
}

const char *ctl_count(uint64_t n, char *out)
{
    static const char units[] = " kMGTPE";
    double v = (double)n;
    int u = 0;
    if (n < 1000000) {
        snprintf(out, CTL_NUMBER_CAP, "%llu", (unsigned long long)n);
        return out;
    }
    for (; v >= 999.5; u++)
        v /= 1000;
    snprintf(out, CTL_NUMBER_CAP,
             v < 9.995   ? "%.2f%c"
             : v < 99.95 ? "%.1f%c"
                         : "%.0f%c",
             v, units[u]);
    return out;
}

const char *ctl_duration(uint64_t ns, char *out)
{
    unsigned long long s = ns / 1000000000;
    if (s >= 86400)
        snprintf(out, CTL_NUMBER_CAP, "%llud %lluh", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        snprintf(out, CTL_NUMBER_CAP, "%lluh %llum", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(out, CTL_NUMBER_CAP, "%llum %llus", s / 60, s % 60);
    else
        snprintf(out, CTL_NUMBER_CAP, "%llus", s);
    return out;
}

const char *ctl_text(struct hl_str s, char *out, size_t cap)
{
    hl_printable(s.p, s.n, out, cap);
    return out;
}

const char *ctl_state(const struct hl_status *s)
{
    if (s->value[HL_STATUS_spool_errno])
        return "spool failing";
    if (s->value[HL_STATUS_low_space])
        return "spool full";
    return s->value[HL_STATUS_draining] ? "draining" : "running";
}

/* ---- status ---- */

/* "Label         words...", broken at spaces, going on below the first word. */
static void put_wrapped(struct ctl_out *o, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put_wrapped(struct ctl_out *o, const char *label, const char *format, ...)
{
    char text[5000];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    const char *p = text;
    ctl_put(o, "%-*s", LABEL, label);
    for (;;) {
        size_t n = strlen(p), fit = n;
        if (n > SCREEN - LABEL) {
            for (fit = SCREEN - LABEL; fit && p[fit] != ' ';)
                fit--;
            if (!fit)
                fit = strcspn(p, " "); /* a long word stays whole */
        }
        ctl_put(o, "%.*s\n", (int)fit, p);
        p += fit;
        while (*p == ' ')
            p++;
        if (!*p)
            return;
        ctl_put(o, "%*s", LABEL, "");
    }
}

static unsigned long long get(const struct hl_status *s, enum hl_status_tag tag)
{
    return s->value[tag];
}
#define GET(name) get(s, HL_STATUS_##name)

static void put_head(struct ctl_out *o, const struct hl_status *s)
{
    char version[64], up[CTL_NUMBER_CAP];
    const char *state = ctl_state(s);
    const char *color = !o->color                     ? ""
                        : !strncmp(state, "spool", 5) ? "\033[31m"
                        : !strcmp(state, "draining")  ? "\033[33m"
                                                      : "\033[32m";
    ctl_text(s->version, version, sizeof version);
    ctl_put(o, "%-*s%s, %s%s%s", LABEL, "Collector", version, color, state,
            o->color ? "\033[0m" : "");
    if (GET(draining))
        ctl_put(o, ": nothing new is taken");
    if (s->known[HL_STATUS_uptime_ns])
        ctl_put(o, ", up %s", ctl_duration(GET(uptime_ns), up));
    ctl_put(o, "\n");
    if (GET(spool_errno))
        put_wrapped(o, "", "the spool cannot be written: %s; clients wait",
                    strerror((int)GET(spool_errno)));
    if (GET(low_space))
        put_wrapped(o, "", "less than min_free is free: nothing more is taken");
}

static void put_spool(struct ctl_out *o, const struct hl_status *s)
{
    char path[4200], a[CTL_NUMBER_CAP], b[CTL_NUMBER_CAP], c[CTL_NUMBER_CAP];
    put_wrapped(o, "Socket", "%s", ctl_text(s->socket, path, sizeof path));
    put_wrapped(o, "Spool", "%s: %s in it, %s of %s free",
                ctl_text(s->spool, path, sizeof path),
                ctl_size((int64_t)GET(spool_bytes), a),
                ctl_size((int64_t)GET(spool_free_bytes), b),
                ctl_size((int64_t)GET(spool_size_bytes), c));
    put_wrapped(o, "", "%s written, %llu writes and %llu syncs failed, %s waiting",
                ctl_size((int64_t)GET(appended_bytes), a), GET(appends_failed),
                GET(syncs_failed), ctl_size((int64_t)GET(waiting_bytes), b));
    if (GET(torn_tails) || GET(spools_bad))
        put_wrapped(o, "", "at the start %llu torn tails cut, %llu files not readable",
                    GET(torn_tails), GET(spools_bad));
}

static void put_refusals(struct ctl_out *o, const struct hl_status *s)
{
    static const char prefix[] = "refused_";
    char text[512] = "";
    for (unsigned i = 0; i < HL_STATUS_N; i++) {
        const char *name = hl_status_info(i)->name;
        size_t n = strlen(text);
        if (s->value[i] && strncmp(name, prefix, sizeof prefix - 1) == 0)
            snprintf(text + n, sizeof text - n, "%s%s %llu", n ? ", " : "",
                     name + sizeof prefix - 1, (unsigned long long)s->value[i]);
    }
    put_wrapped(o, "Refused", "%s", *text ? text : "none");
}

static void put_work(struct ctl_out *o, const struct hl_status *s)
{
    char a[CTL_NUMBER_CAP], b[CTL_NUMBER_CAP];
    put_wrapped(o, "Connections",
                "%llu (%llu new, %llu keepers, %llu gathers), %llu accepted",
                GET(connections), GET(connections_new), GET(keepers), GET(gathers),
                GET(accepted));
    put_wrapped(o, "Descriptors", "%llu of %llu, %llu kept by the service manager%s",
                GET(descriptors), GET(descriptors_max), GET(descriptors_kept),
                GET(accept_failed) ? "; was at the limit" : "");
    put_wrapped(o, "Processes", "%llu alive, %llu ended", GET(processes),
                GET(processes_ended));
    put_wrapped(o, "Jobs", "%llu live, %llu quiet, %llu being read, %llu done",
                GET(jobs_live), GET(jobs_quiet), GET(jobs_read), GET(jobs_done));
    put_wrapped(o, "", "removed: %llu read, %llu unread, %llu forgotten",
                GET(jobs_removed_read), GET(jobs_removed_unread), GET(jobs_forgotten));
    put_wrapped(o, "Rows", "%s taken, %s dropped, %s lost; %s received",
                ctl_count(GET(rows), (char[CTL_NUMBER_CAP]){0}),
                ctl_count(GET(rows_dropped), (char[CTL_NUMBER_CAP]){0}),
                ctl_count(GET(rows_lost), a), ctl_size((int64_t)GET(bytes), b));
    put_refusals(o, s);
    put_wrapped(o, "Loop", "longest turn %.3f ms, 99%% within %.3f ms (last minute)",
                (double)GET(loop_delay_max_ns) / 1e6,
                (double)GET(loop_delay_p99_ns) / 1e6);
    put_wrapped(o, "Memory", "%s resident", ctl_size((int64_t)GET(memory_bytes), a));
    if (GET(reloads) || GET(reload_failures))
        put_wrapped(o, "Configuration", "read again %llu times, %llu times not valid",
                    GET(reloads), GET(reload_failures));
}

static void put_own(struct ctl_out *o, const struct hl_user_line *u)
{
    char a[CTL_NUMBER_CAP], b[CTL_NUMBER_CAP];
    char label[LABEL + 16];
    snprintf(label, sizeof label, "uid %llu ", (unsigned long long)u->uid);
    put_wrapped(
        o, label,
        "%llu of %llu connections, %llu of %llu processes, %llu of %llu jobs, %s%s%s in "
        "spools",
        (unsigned long long)u->n_connections, (unsigned long long)u->max_connections,
        (unsigned long long)u->n_processes, (unsigned long long)u->max_processes,
        (unsigned long long)u->n_jobs, (unsigned long long)u->max_jobs,
        ctl_size((int64_t)u->spool_bytes, a), u->quota_bytes ? " of " : "",
        u->quota_bytes ? ctl_size((int64_t)u->quota_bytes, b) : "");
}

void ctl_show_status(struct ctl_out *o, const struct ctl_answer *a)
{
    const struct hl_status *s = &a->status;
    char text[1100];
    put_head(o, s);
    if (s->is_admin) {
        put_spool(o, s);
        put_work(o, s);
    }
    for (size_t i = 0; i < a->n_users; i++)
        put_own(o, &a->user[i]);
    if (s->is_admin)
        put_wrapped(o, "Last error", "%s",
                    s->last_error.n ? ctl_text(s->last_error, text, sizeof text)
                                    : "none");
}

/* ---- jobs ---- */

static int64_t since(const struct hl_job_line *j)
{
    int64_t ns = j->taken_ns ? j->taken_ns : j->ended_ns ? j->ended_ns : j->begun_ns;
    return ns;
}

static int by_user_and_time(const void *x, const void *y)
{
    const struct hl_job_line *a = x, *b = y;
    if (a->uid != b->uid)
        return a->uid < b->uid ? -1 : 1;
    if (since(a) != since(b))
        return since(a) < since(b) ? -1 : 1;
    size_t n = a->key.n < b->key.n ? a->key.n : b->key.n;
    int r = n ? memcmp(a->key.p, b->key.p, n) : 0;
    return r ? r : (a->key.n > b->key.n) - (a->key.n < b->key.n);
}

static const char *moment(int64_t ns, char *out, size_t cap)
{
    time_t t = (time_t)(ns / 1000000000);
    struct tm tm;
    if (!ns || !localtime_r(&t, &tm) || !strftime(out, cap, "%Y-%m-%d %H:%M", &tm))
        return "-";
    return out;
}

static void sort_jobs(struct ctl_answer *a)
{
    if (a->n_jobs)
        qsort(a->job, a->n_jobs, sizeof *a->job, by_user_and_time);
}

void ctl_show_jobs(struct ctl_out *o, struct ctl_answer *a)
{
    sort_jobs(a);
    ctl_put(o, "%-10s %-5s %6s %6s %7s %6s %5s %-16s %s\n", "UID", "STATE", "PROCS",
            "ALIVE", "ROWS", "LOST", "SPOOL", "SINCE", "JOB");
    for (size_t i = 0; i < a->n_jobs; i++) {
        const struct hl_job_line *j = &a->job[i];
        char key[1100], when[64], rows[CTL_NUMBER_CAP], lost[CTL_NUMBER_CAP],
            size[CTL_NUMBER_CAP];
        ctl_put(o, "%-10llu %-5s %6llu %6llu %7s %6s %5s %-16s %s\n",
                (unsigned long long)j->uid, hl_job_state_name(j->state),
                (unsigned long long)j->n_processes, (unsigned long long)j->n_alive,
                ctl_count(j->n_rows, rows), ctl_count(j->n_dropped + j->n_lost, lost),
                ctl_size((int64_t)j->spool_bytes, size),
                moment(since(j), when, sizeof when), ctl_text(j->key, key, sizeof key));
    }
}
