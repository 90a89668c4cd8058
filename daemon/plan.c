/* SPDX-License-Identifier: Apache-2.0
 *
 * From the index to the order of the outputs; see plan.h.
 */
#include "plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 1 << 26 };

int hl_plan_missing(struct hl_plan *p, struct hl_err *e, const char *format, ...)
{
    char **q = realloc(p->missing, (p->n_missing + 1) * sizeof *q), *text;
    va_list ap;
    if (!q)
        return hl_fail(e, ENOMEM, "no memory left");
    p->missing = q;
    va_start(ap, format);
    int n = vasprintf(&text, format, ap);
    va_end(ap);
    if (n < 0)
        return hl_fail(e, ENOMEM, "no memory left");
    p->missing[p->n_missing++] = text;
    return 0;
}

static int64_t order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_text(struct hl_str a, struct hl_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int r = n ? memcmp(a.p, b.p, n) : 0;
    return r ? r : (int)order(a.n, b.n);
}

/* Order of start: across nodes the clocks of boot differ, but the order within
 * a node is what counts; then the index's own order. */
static int by_start(const void *pa, const void *pb)
{
    const struct hl_member *a = *(const struct hl_member *const *)pa;
    const struct hl_member *b = *(const struct hl_member *const *)pb;
    int64_t r = order(a->proc.hello.start_ticks, b->proc.hello.start_ticks);
    r = r ? r : a->node - b->node;
    return (int)(r ? r : order(a->unit, b->unit));
}

static int by_csv(const void *pa, const void *pb)
{
    const struct hl_member *a = *(const struct hl_member *const *)pa;
    const struct hl_member *b = *(const struct hl_member *const *)pb;
    int64_t r = (int64_t)a->proc.hello.rank - b->proc.hello.rank;
    r = r ? r : by_text(a->proc.hello.host, b->proc.hello.host);
    r = r ? r : a->proc.hello.pid - b->proc.hello.pid;
    return r ? (r < 0 ? -1 : 1) : by_start(pa, pb);
}

/* Images of one process next to each other, in the order they came: an image may
 * have another rank than the one before it (a shell that sets the variable). */
static int by_process(const void *pa, const void *pb)
{
    const struct hl_member *a = *(const struct hl_member *const *)pa;
    const struct hl_member *b = *(const struct hl_member *const *)pb;
    int64_t r = a->node - b->node;
    r = r ? r : a->proc.hello.pid - b->proc.hello.pid;
    r = r ? r : order(a->proc.hello.start_ticks, b->proc.hello.start_ticks);
    r = r ? r : order(a->unit, b->unit);
    return r < 0 ? -1 : r > 0;
}

static int same_process(const struct hl_member *a, const struct hl_member *b)
{
    return a->node == b->node && a->proc.hello.pid == b->proc.hello.pid &&
           a->proc.hello.start_ticks == b->proc.hello.start_ticks;
}

/* ---- ranks ---- */

static uint64_t count_ranks(const struct hl_index *x)
{
    uint64_t n = 0;
    for (size_t i = 0; i < x->n; i++) {
        const struct hl_hello *h = &x->member[i].proc.hello;
        if (h->rank >= 0 && (uint64_t)h->rank + 1 > n)
            n = (uint64_t)h->rank + 1;
        if (h->rank >= 0 && h->size > 0 && (uint64_t)h->size > n)
            n = (uint64_t)h->size;
    }
    return n;
}

/* Members with frames, in order of start; malloced. */
static const struct hl_member **framing(const struct hl_index *x, size_t *n)
{
    const struct hl_member **f = malloc((x->n + 1) * sizeof *f);
    *n = 0;
    for (size_t i = 0; f && i < x->n; i++)
        if (x->member[i].proc.n_rows)
            f[(*n)++] = &x->member[i];
    if (f)
        qsort(f, *n, sizeof *f, by_start);
    return f;
}

static int assign_ranks(struct hl_plan *p, const struct hl_index *x, struct hl_err *e)
{
    size_t n;
    const struct hl_member **f = framing(x, &n);
    uint64_t ranked = count_ranks(x);
    p->n_ranks = ranked ? ranked : n ? n : 1;
    if (p->n_ranks > RANKS_MAX) {
        free(f);
        return hl_fail(e, HL_ERR_FORMAT,
                       "a process calls itself rank %llu: that cannot be",
                       (unsigned long long)p->n_ranks - 1);
    }
    p->rank = calloc((size_t)p->n_ranks, sizeof *p->rank);
    p->other = malloc((n + 1) * sizeof *p->other);
    if (!f || !p->rank || !p->other) {
        free(f);
        return hl_fail(e, ENOMEM, "no memory left");
    }
    for (size_t i = 0; i < n; i++) {
        int64_t r = ranked ? f[i]->proc.hello.rank : (int64_t)i;
        if (r >= 0 && !p->rank[r])
            p->rank[r] = f[i];
        else
            p->other[p->n_other++] = f[i];
    }
    free(f);
    return 0;
}

static int name_unseen_ranks(struct hl_plan *p, const struct hl_index *x,
                             struct hl_err *e)
{
    char *seen = calloc((size_t)p->n_ranks, 1);
    int bad = seen ? 0 : hl_fail(e, ENOMEM, "no memory left");
    int any = 0;
    for (size_t i = 0; !bad && i < x->n; i++)
        if (x->member[i].proc.hello.rank >= 0)
            any = seen[x->member[i].proc.hello.rank] = 1;
    for (uint64_t r = 0; any && !bad && r < p->n_ranks; r++) {
        uint64_t last = r;
        if (seen[r])
            continue;
        while (last + 1 < p->n_ranks && !seen[last + 1])
            last++;
        if (last == r)
            bad = hl_plan_missing(p, e, "rank %llu: never seen", (unsigned long long)r);
        else
            bad = hl_plan_missing(p, e, "ranks %llu to %llu: never seen",
                                  (unsigned long long)r, (unsigned long long)last);
        r = last;
    }
    free(seen);
    return bad;
}

/* ---- heap rows ---- */

/* Of a process's images, the one that is its row: the last that did not end by
 * exec, else the last. */
static size_t row_of(const struct hl_member **m, size_t n)
{
    for (size_t i = n; i-- > 0;)
        if (m[i]->proc.heap.end.kind != HL_ENDED_EXEC)
            return i;
    return n - 1;
}

static int order_heap(struct hl_plan *p, const struct hl_index *x, struct hl_err *e)
{
    const struct hl_member **all = malloc((x->n + 1) * sizeof *all);
    size_t n = 0;
    p->heap = malloc((x->n + 1) * sizeof *p->heap);
    p->image = malloc((x->n + 1) * sizeof *p->image);
    if (!all || !p->heap || !p->image) {
        free(all);
        return hl_fail(e, ENOMEM, "no memory left");
    }
    for (size_t i = 0; i < x->n; i++)
        if (x->member[i].proc.flags & HL_PROC_HEAP)
            all[n++] = &x->member[i];
    qsort(all, n, sizeof *all, by_process);
    for (size_t i = 0, k; i < n; i += k) {
        for (k = 1; i + k < n && same_process(all[i], all[i + k]);)
            k++;
        size_t row = row_of(all + i, k);
        p->heap[p->n_heap++] = all[i + row];
        for (size_t j = 0; j < k; j++)
            if (j != row)
                p->image[p->n_images++] = all[i + j];
    }
    free(all);
    qsort(p->heap, p->n_heap, sizeof *p->heap, by_csv);
    qsort(p->image, p->n_images, sizeof *p->image, by_csv);
    return 0;
}

/* ---- the rest ---- */

static int unite(struct hl_plan *p, const struct hl_index *x, struct hl_err *e)
{
    int bad = 0;
    for (uint64_t r = 0; r < p->n_ranks && !bad; r++)
        if (p->rank[r])
            bad = hl_catalog_unite(&p->catalog, p->rank[r]->catalog);
    for (size_t i = 0; i < p->n_other && !bad; i++)
        bad = hl_catalog_unite(&p->catalog, p->other[i]->catalog);
    for (size_t i = 0; i < x->n && !bad; i++) /* sessions without frames */
        bad = hl_catalog_unite(&p->catalog, x->member[i].catalog);
    if (bad || hl_catalog_sort_paths(&p->catalog) ||
        hl_catalog_clean(&p->catalog, &p->shown, &p->n_replaced))
        return hl_fail(e, ENOMEM, "no memory left for the names of metrics and regions");
    return 0;
}

static void take_version(struct hl_plan *p, const struct hl_member *m)
{
    struct hl_str v = m->proc.hello.app_version;
    if (!p->app_version[0] && v.n && v.n < sizeof p->app_version)
        memcpy(p->app_version, v.p, v.n);
}

static void sum_up(struct hl_plan *p, const struct hl_index *x)
{
    for (uint64_t r = 0; r < p->n_ranks; r++)
        if (p->rank[r]) {
            p->total_frames += p->rank[r]->proc.n_rows;
            take_version(p, p->rank[r]);
        }
    for (size_t i = 0; i < x->n; i++) {
        const struct hl_proc *q = &x->member[i].proc;
        take_version(p, &x->member[i]);
        p->n_dropped += q->n_dropped;
        p->n_lost += q->n_lost;
        p->n_running += q->heap.end.kind == HL_ENDED_RUNNING;
        p->n_unshared += (q->flags & HL_PROC_UNSHARED) &&
                         (q->heap.end.kind == HL_ENDED_SIGNAL ||
                          q->heap.end.kind == HL_ENDED_KILLED_OR_EXIT);
    }
}

/* Nothing failed, but who reads the row must know what it is not. */
static int name_bypassed(struct hl_plan *p, struct hl_err *e)
{
    for (size_t i = 0; i < p->n_heap; i++) {
        const struct hl_proc *q = &p->heap[i]->proc;
        char rank[32] = "";
        if (!(q->flags & HL_PROC_NOTE_BYPASSED))
            continue;
        if (q->heap.record.rank >= 0)
            snprintf(rank, sizeof rank, "rank %d, ", (int)q->heap.record.rank);
        p->n_bypassed++;
        if (hl_plan_missing(p, e,
                            "heap of %sprocess %lld on %s: what its own malloc or "
                            "operator new allocates, which bypasses the agent",
                            rank, (long long)q->heap.record.pid, q->heap.record.host))
            return -1;
    }
    return 0;
}

int hl_plan_make(struct hl_plan *p, const struct hl_index *x, struct hl_err *e)
{
    memset(p, 0, sizeof *p);
    int bad = assign_ranks(p, x, e) || name_unseen_ranks(p, x, e) ||
              order_heap(p, x, e) || unite(p, x, e);
    if (!bad)
        sum_up(p, x);
    bad = bad || name_bypassed(p, e);
    for (size_t i = 0; i < x->n_notes && !bad; i++)
        bad = hl_plan_missing(p, e, "%s", x->note[i]);
    if (!bad && p->n_lost)
        bad = hl_plan_missing(p, e, "%llu frames: lost by a collector",
                              (unsigned long long)p->n_lost);
    if (!bad && p->n_dropped)
        bad = hl_plan_missing(p, e, "%llu frames: dropped by their program's sender",
                              (unsigned long long)p->n_dropped);
    if (bad)
        hl_plan_fini(p);
    return bad ? -1 : 0;
}

void hl_plan_fini(struct hl_plan *p)
{
    free(p->rank);
    free(p->other);
    free(p->heap);
    free(p->image);
    hl_catalog_fini(&p->catalog);
    hl_catalog_fini(&p->shown);
    for (size_t i = 0; i < p->n_missing; i++)
        free(p->missing[i]);
    free(p->missing);
    memset(p, 0, sizeof *p);
}
