/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap table of records.
 */
#include "report.h"

#include "csv_in.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct heap {
    const struct report_options *o;
    struct hl_record *row;
    size_t n, cap;
};

void report_bytes(int64_t bytes, char out[32])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    int u = 0;
    for (; fabs(v) >= 1024 && u < 6; u++)
        v /= 1024;
    snprintf(out, 32, u ? "%.2f %s" : "%.0f %s", v, unit[u]);
}

static int add(void *ctx, const struct hl_record *r, struct hl_err *e)
{
    struct heap *h = ctx;
    if (h->o->n_rank && (r->rank < 0 || !report_wants_rank(h->o, (uint64_t)r->rank)))
        return 0;
    if (h->n == h->cap) {
        size_t cap = h->cap ? 2 * h->cap : 64;
        struct hl_record *p = realloc(h->row, cap * sizeof *p);
        if (!p)
            return hl_fail(e, ENOMEM, "no memory left");
        h->row = p;
        h->cap = cap;
    }
    h->row[h->n++] = *r;
    return 0;
}

static int order(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static enum report_sort sort_now; /* qsort has no context */

static int compare(const void *pa, const void *pb)
{
    const struct hl_record *a = pa, *b = pb;
    int r = 0;
    switch (sort_now) {
    case SORT_PEAK: r = order(b->peak_bytes, a->peak_bytes); break;
    case SORT_LIVE: r = order(b->live_bytes, a->live_bytes); break;
    case SORT_ALLOCS: r = a->allocs < b->allocs ? 1 : -(a->allocs > b->allocs); break;
    case SORT_VMHWM: r = order(b->vmhwm_bytes, a->vmhwm_bytes); break;
    default: break;
    }
    r = r ? r : order(a->rank, b->rank);
    r = r ? r : strcmp(a->host, b->host);
    return r ? r : order(a->pid, b->pid);
}

static void print_row(FILE *out, const struct hl_record *r)
{
    char peak[32], live[32], hwm[32] = "-";
    report_bytes(r->peak_bytes, peak);
    report_bytes(r->live_bytes, live);
    if (r->vmhwm_bytes >= 0)
        report_bytes(r->vmhwm_bytes, hwm);
    fprintf(out, "%5lld %-16s %9lld %11.3f %13llu %13llu %13s %10.3f %13s %13s\n",
            (long long)r->rank, r->host, (long long)r->pid, (double)r->elapsed_ns * 1e-9,
            (unsigned long long)r->allocs, (unsigned long long)r->frees, peak,
            (double)r->peak_time_ns * 1e-9, live, hwm);
}

static void print_sum(FILE *out, const struct heap *h)
{
    int64_t lo = 0, hi = 0;
    double total = 0;
    char a[32], b[32], c[32];
    for (size_t i = 0; i < h->n; i++) {
        int64_t v = h->row[i].peak_bytes;
        lo = !i || v < lo ? v : lo;
        hi = !i || v > hi ? v : hi;
        total += (double)v;
    }
    report_bytes(lo, a);
    report_bytes(h->n ? (int64_t)(total / (double)h->n) : 0, b);
    report_bytes(hi, c);
    fprintf(out, "%zu processes; peak heap: least %s, mean %s, most %s\n", h->n, a, b, c);
}

static void rule(FILE *out)
{
    for (int i = 0; i < 125; i++)
        fputc('-', out);
    fputc('\n', out);
}

static void print_table(FILE *out, const struct heap *h, size_t n)
{
    fprintf(out, "Heap of each process\n");
    rule(out);
    fprintf(out, "%5s %-16s %9s %11s %13s %13s %13s %10s %13s %13s\n", "rank", "host",
            "pid", "elapsed s", "allocs", "frees", "peak", "at s", "live at exit",
            "VmHWM");
    rule(out);
    for (size_t i = 0; i < n; i++)
        print_row(out, &h->row[i]);
    rule(out);
    print_sum(out, h);
}

static void print_csv(FILE *out, const struct heap *h, size_t n)
{
    fputs(HL_RECORD_VERSION_LINE HL_RECORD_COLUMN_LINE, out);
    for (size_t i = 0; i < n; i++) {
        char text[HL_RECORD_ROW_MAX];
        fwrite(text, 1, hl_record_row(&h->row[i], text, sizeof text), out);
    }
}

int report_heap(FILE *out, const struct report_options *o, char *const *files, size_t n,
                struct hl_err *e)
{
    struct heap h = {.o = o};
    int bad = 0;
    for (size_t i = 0; i < n && !bad; i++)
        bad = hl_csv_read(files[i], add, &h, e);
    if (!bad) {
        size_t shown = o->top && o->top < h.n ? o->top : h.n;
        sort_now = o->sort;
        if (h.n)
            qsort(h.row, h.n, sizeof *h.row, compare);
        (o->format == REPORT_CSV ? print_csv : print_table)(out, &h, shown);
    }
    free(h.row);
    return bad;
}
