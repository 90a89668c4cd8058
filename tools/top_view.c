/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of `heaplinectl top`: rates from two answers, order, one picture of a
 * given size.  Pure; top.c brings the answers and the terminal.
 */
#include "heaplinectl.h"

#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- rates ---- */

/* The same number may be a process of another user's namespace, or a new image. */
struct process_key {
    uint64_t uid, image;
    int64_t pid;
};

static struct process_key key_of(const struct hl_live_line *l)
{
    return (struct process_key){l->uid, l->image, l->pid};
}

static double rate(const struct hl_live_line *then, const struct hl_live_line *now)
{
    if (!then || now->taken_ns <= then->taken_ns || now->allocs < then->allocs)
        return -1;
    return (double)(now->allocs - then->allocs) * 1e9 /
           (double)(now->taken_ns - then->taken_ns);
}

struct ctl_row *ctl_rows(const struct ctl_answer *before, const struct ctl_answer *now)
{
    struct ctl_row *row = calloc(now->n_live ? now->n_live : 1, sizeof *row);
    struct hl_table known = {0};
    for (size_t i = 0; row && before && i < before->n_live; i++) {
        struct process_key k = key_of(&before->live[i]);
        if (hl_table_put(&known, &k, sizeof k, &before->live[i]))
            break; /* a rate less */
    }
    for (size_t i = 0; row && i < now->n_live; i++) {
        struct process_key k = key_of(&now->live[i]);
        row[i].live = &now->live[i];
        row[i].rate = rate(hl_table_get(&known, &k, sizeof k), &now->live[i]);
    }
    hl_table_fini(&known);
    return row;
}

/* ---- order ---- */

static int by_number(double a, double b)
{
    return a > b ? -1 : a < b;
}

static int by_pid(const struct ctl_row *a, const struct ctl_row *b)
{
    if (a->live->pid != b->live->pid)
        return a->live->pid < b->live->pid ? -1 : 1;
    if (a->live->uid != b->live->uid)
        return a->live->uid < b->live->uid ? -1 : 1;
    return (a->live->image > b->live->image) - (a->live->image < b->live->image);
}

struct order {
    enum ctl_sort by;
    int sign;
};

static int compare(const void *x, const void *y, void *ctx)
{
    const struct ctl_row *a = x, *b = y;
    const struct order *o = ctx;
    int r = 0;
    switch (o->by) {
    case CTL_BY_HEAP:
        r = by_number((double)a->live->live_bytes, (double)b->live->live_bytes);
        break;
    case CTL_BY_RSS:
        r = by_number((double)a->live->vmrss_bytes, (double)b->live->vmrss_bytes);
        break;
    case CTL_BY_RATE: r = by_number(a->rate, b->rate); break;
    default: r = by_pid(a, b);
    }
    return r ? r * o->sign : by_pid(a, b);
}

void ctl_sort_rows(struct ctl_row *row, size_t n, enum ctl_sort by, int reversed)
{
    struct order o = {by, reversed ? -1 : 1};
    qsort_r(row, n, sizeof *row, compare, &o);
}

/* ---- picture ---- */

enum { OTHER_COLUMNS = 64, JOB_MIN = 8, HEAD_LINES = 4 };

/* A line cut to the width; style: an SGR number, or NULL. */
static void put_line(struct ctl_out *o, const struct ctl_view *v, const char *style,
                     const char *text)
{
    size_t n = strlen(text);
    if (n > (size_t)v->width)
        n = (size_t)v->width;
    if (style && o->color)
        ctl_put(o, "\033[%sm%.*s\033[0m\n", style, (int)n, text);
    else
        ctl_put(o, "%.*s\n", (int)n, text);
}

static int64_t whole(double v)
{
    return v < 9.2e18 ? (int64_t)v : INT64_MAX;
}

static void put_totals(struct ctl_out *o, const struct ctl_view *v,
                       const struct ctl_row *row, size_t n)
{
    char text[256], a[CTL_NUMBER_CAP], b[CTL_NUMBER_CAP], c[CTL_NUMBER_CAP],
        d[CTL_NUMBER_CAP], e[CTL_NUMBER_CAP];
    double heap = 0, peak = 0, rss = 0, rows = 0, r = -1; /* no sum is too large */
    for (size_t i = 0; i < n; i++) {
        const struct hl_live_line *l = row[i].live;
        heap += l->live_bytes > 0 ? (double)l->live_bytes : 0;
        peak += l->peak_bytes > 0 ? (double)l->peak_bytes : 0;
        rss += l->vmrss_bytes > 0 ? (double)l->vmrss_bytes : 0;
        rows += (double)l->n_rows;
        if (row[i].rate >= 0)
            r = (r < 0 ? 0 : r) + row[i].rate;
    }
    snprintf(text, sizeof text,
             "%zu process%s, heap %s, peaks %s, RSS %s, %s allocs/s, %s rows", n,
             n == 1 ? "" : "es", ctl_size(whole(heap), a), ctl_size(whole(peak), b),
             ctl_size(whole(rss), c), r < 0 ? "-" : ctl_count((uint64_t)whole(r), d),
             ctl_count((uint64_t)whole(rows), e));
    put_line(o, v, NULL, text);
}

static void put_title(struct ctl_out *o, const struct ctl_view *v)
{
    char text[256], clock[32] = "", path[160];
    time_t t = time(NULL);
    struct tm tm;
    if (localtime_r(&t, &tm))
        strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    hl_printable(v->socket, strlen(v->socket), path, sizeof path);
    snprintf(text, sizeof text, "heaplinectl top  %s  %s", clock, path);
    put_line(o, v, "1", text);
}

static void put_state(struct ctl_out *o, const struct ctl_view *v,
                      const struct ctl_answer *status)
{
    static const char *const names[] = {"heap", "RSS", "rate", "pid"};
    char text[512];
    if (v->trouble) {
        hl_printable(v->trouble, strlen(v->trouble), text, sizeof text);
        put_line(o, v, "31", text);
        return;
    }
    const char *state = status->has_status ? ctl_state(&status->status) : "running";
    snprintf(text, sizeof text, "%s; by %s%s%s", state, names[v->sort],
             v->reversed ? ", reversed" : "",
             v->height ? "   [h]eap [r]ss r[a]te [p]id [R]everse [q]uit" : "");
    put_line(o, v, strcmp(state, "running") ? "33" : NULL, text);
}

static int job_width(const struct ctl_view *v)
{
    int w = v->width - OTHER_COLUMNS;
    return w < JOB_MIN ? JOB_MIN : w > 64 ? 64 : w;
}

static void put_row(struct ctl_out *o, const struct ctl_view *v, const struct ctl_row *r)
{
    const struct hl_live_line *l = r->live;
    char text[512], job[300], rank[CTL_NUMBER_CAP] = "-", heap[CTL_NUMBER_CAP],
                              peak[CTL_NUMBER_CAP], rss[CTL_NUMBER_CAP],
                              per_s[CTL_NUMBER_CAP] = "-", rows[CTL_NUMBER_CAP];
    int w = job_width(v);
    if (l->rank >= 0)
        snprintf(rank, sizeof rank, "%lld", (long long)l->rank);
    if (r->rate >= 0)
        ctl_count((uint64_t)whole(r->rate + 0.5), per_s);
    snprintf(text, sizeof text, "%7lld %5s %10llu %-*.*s %6s %6s %6s %8s %8s",
             (long long)l->pid, rank, (unsigned long long)l->uid, w, w,
             ctl_text(l->key, job, sizeof job), ctl_size(l->live_bytes, heap),
             ctl_size(l->peak_bytes, peak), ctl_size(l->vmrss_bytes, rss), per_s,
             ctl_count(l->n_rows, rows));
    put_line(o, v, NULL, text);
}

static void put_head(struct ctl_out *o, const struct ctl_view *v)
{
    char text[256];
    snprintf(text, sizeof text, "%7s %5s %10s %-*s %6s %6s %6s %8s %8s", "PID", "RANK",
             "USER", job_width(v), "JOB", "HEAP", "PEAK", "RSS", "ALLOC/s", "ROWS");
    put_line(o, v, "7", text);
}

void ctl_show_top(struct ctl_out *o, struct ctl_view *v, const struct ctl_answer *status,
                  struct ctl_row *row, size_t n)
{
    size_t room = n;
    if (v->height)
        room = v->height > HEAD_LINES ? (size_t)(v->height - HEAD_LINES) : 0;
    if (v->first + room > n)
        v->first = n > room ? n - room : 0;
    ctl_sort_rows(row, n, v->sort, v->reversed);
    void (*const head[])(struct ctl_out *, const struct ctl_view *) = {put_title,
                                                                       put_head};
    for (int i = 0; i < HEAD_LINES && (!v->height || i < v->height); i++) {
        if (i == 0 || i == 3)
            head[i / 3](o, v);
        else if (i == 1)
            put_totals(o, v, row, n);
        else
            put_state(o, v, status);
    }
    for (size_t i = v->first; i < n && i - v->first < room; i++)
        put_row(o, v, &row[i]);
}
