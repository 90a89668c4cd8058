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

const char *const hl_point_metrics[HL_N_POINT_METRICS] = {
    "step",      "mpi_rank", "time_s", "heap_bytes", "heap_peak_bytes",
    "rss_bytes", "allocs",   "frees"};

static int cmp64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Order of start: across nodes the clocks of boot differ, but the order within
 * a node is what counts; then the index's own order. */
static int by_start(const void *pa, const void *pb, void *index)
{
    const struct hl_index *x = index;
    const struct hl_entry *a = &x->entry[*(const uint32_t *)pa];
    const struct hl_entry *b = &x->entry[*(const uint32_t *)pb];
    int r = cmp64(a->start_ticks, b->start_ticks);
    r = r ? r : cmp64(a->node, b->node);
    return r ? r : cmp64(a->unit, b->unit);
}

/* ---- ranks ---- */

static uint64_t count_ranks(const struct hl_index *x)
{
    uint64_t n = 0;
    for (size_t i = 0; i < x->n; i++)
        if (x->entry[i].rank >= 0 && (uint64_t)x->entry[i].rank + 1 > n)
            n = (uint64_t)x->entry[i].rank + 1;
    return n && x->max_size > 0 && (uint64_t)x->max_size > n ? (uint64_t)x->max_size : n;
}

/* Entries with frames, in order of start; malloced. */
static uint32_t *framing(const struct hl_index *x, size_t *n)
{
    uint32_t *f = malloc((x->n + 1) * sizeof *f);
    *n = 0;
    for (size_t i = 0; f && i < x->n; i++)
        if (x->entry[i].n_rows)
            f[(*n)++] = (uint32_t)i;
    if (f)
        qsort_r(f, *n, sizeof *f, by_start, (void *)x);
    return f;
}

static int name_twice(struct hl_plan *p, const struct hl_index *x, uint32_t i,
                      struct hl_err *e)
{
    const struct hl_entry *t = &x->entry[i], *first = &x->entry[p->rank[t->rank]];
    p->n_twice++;
    return hl_plan_missing(
        p, e,
        "rank %d: process %d on %s says it is this rank, as process %d "
        "on %s did before; its frames are in heapline/other",
        (int)t->rank, (int)t->pid, x->hosts.name[t->host], (int)first->pid,
        x->hosts.name[first->host]);
}

/* Of processes that have samples only, the one that was largest, as what it was in
 * the end. */
static void assign_samples(struct hl_plan *p, const struct hl_index *x, int ranked)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct hl_entry *t = &x->entry[i];
        int64_t r = ranked ? t->rank : 0;
        if (r < 0 || !hl_plan_samples_are_frames(t) || (t->flags & HL_ENTRY_IMAGE))
            continue;
        const struct hl_entry *best =
            p->rank[r] == HL_NO_ENTRY ? NULL : &x->entry[p->rank[r]];
        if (!best || (!best->n_rows && t->hwm_pages > best->hwm_pages))
            p->rank[r] = (uint32_t)i;
    }
}

static int assign_frames(struct hl_plan *p, const struct hl_index *x, const uint32_t *f,
                         size_t n, int ranked, struct hl_err *e)
{
    for (size_t i = 0; i < n; i++) {
        int64_t r = ranked ? x->entry[f[i]].rank : (int64_t)i;
        if (r >= 0 && p->rank[r] == HL_NO_ENTRY) {
            p->rank[r] = f[i];
            continue;
        }
        p->other[p->n_other++] = f[i];
        if (r >= 0 && name_twice(p, x, f[i], e))
            return -1;
    }
    return 0;
}

static int assign_ranks(struct hl_plan *p, const struct hl_index *x, struct hl_err *e)
{
    size_t n;
    uint32_t *f = framing(x, &n);
    uint64_t ranked = count_ranks(x);
    int bad = 0;
    p->n_ranks = ranked ? ranked : n ? n : 1;
    p->rank = malloc((size_t)p->n_ranks * sizeof *p->rank);
    p->other = malloc((n + 1) * sizeof *p->other);
    if (!f || !p->rank || !p->other) {
        bad = hl_fail(e, ENOMEM, "no memory left");
    } else {
        memset(p->rank, 0xff, (size_t)p->n_ranks * sizeof *p->rank);
        bad = assign_frames(p, x, f, n, ranked != 0, e);
        if (!bad)
            assign_samples(p, x, ranked != 0);
    }
    free(f);
    return bad;
}

static int is_timeline(const struct hl_plan *p, const struct hl_index *x, size_t i)
{
    const struct hl_entry *t = &x->entry[i];
    uint64_t r = t->rank < 0 ? 0 : (uint64_t)t->rank;
    return hl_entry_points(t) && !(hl_plan_samples_are_frames(t) && p->rank[r] == i);
}

/* What processes were before an exec comes last, so that what they were in the end
 * gets the plain name. */
static int list_timelines(struct hl_plan *p, const struct hl_index *x, struct hl_err *e)
{
    p->timeline = malloc((x->n + 1) * sizeof *p->timeline);
    if (!p->timeline)
        return hl_fail(e, ENOMEM, "no memory left");
    for (int before = 0; before < 2; before++)
        for (size_t i = 0; i < x->n; i++)
            if (((x->entry[i].flags & HL_ENTRY_IMAGE) != 0) == before &&
                is_timeline(p, x, i))
                p->timeline[p->n_timelines++] = (uint32_t)i;
    return 0;
}

static int name_unseen_ranks(struct hl_plan *p, const struct hl_index *x,
                             struct hl_err *e)
{
    char *seen = calloc((size_t)p->n_ranks, 1);
    size_t before = p->n_missing;
    int bad = seen ? 0 : hl_fail(e, ENOMEM, "no memory left");
    int any = 0;
    for (size_t i = 0; !bad && i < x->n; i++)
        if (x->entry[i].rank >= 0)
            any = seen[x->entry[i].rank] = 1;
    for (uint64_t r = 0; any && !bad && r < p->n_ranks; r++) {
        uint64_t last = r;
        if (seen[r])
            continue;
        while (last + 1 < p->n_ranks && !seen[last + 1])
            last++;
        p->n_unseen += last - r + 1;
        if (last == r)
            bad = hl_plan_missing(p, e, "rank %llu: never seen", (unsigned long long)r);
        else
            bad = hl_plan_missing(p, e, "ranks %llu to %llu: never seen",
                                  (unsigned long long)r, (unsigned long long)last);
        r = last;
    }
    free(seen);
    /* A node without ranks needs no collector: it is named only when any are
     * looked for. */
    for (size_t i = 0; (p->n_missing > before || !x->n) && !bad && i < x->bare.n; i++)
        bad = hl_plan_missing(p, e, "node %s: no collector, and no files of the run",
                              x->bare.name[i]);
    return bad;
}

/* ---- the rest ---- */

static int unite_points(struct hl_plan *p)
{
    for (size_t i = 0; i < HL_N_POINT_METRICS; i++)
        if (hl_names_add(&p->catalog.metrics, hl_point_metrics[i],
                         strlen(hl_point_metrics[i]), NULL))
            return -1;
    return 0;
}

static int unite_entry(struct hl_plan *p, const struct hl_index *x, uint32_t i)
{
    if (i == HL_NO_ENTRY)
        return 0;
    const struct hl_entry *t = &x->entry[i];
    return hl_plan_samples_are_frames(t)
               ? unite_points(p)
               : hl_catalog_unite(&p->catalog, &x->catalog[t->catalog]);
}

/* Ranks first, then others, then sessions without frames. */
static int unite(struct hl_plan *p, const struct hl_index *x, struct hl_err *e)
{
    int bad = 0;
    for (uint64_t r = 0; r < p->n_ranks && !bad; r++)
        if (!r || p->rank[r] == HL_NO_ENTRY || p->rank[r - 1] == HL_NO_ENTRY ||
            x->entry[p->rank[r]].catalog != x->entry[p->rank[r - 1]].catalog ||
            hl_plan_samples_are_frames(&x->entry[p->rank[r]]))
            bad = unite_entry(p, x, p->rank[r]);
    for (size_t i = 0; i < p->n_other && !bad; i++)
        bad = unite_entry(p, x, p->other[i]);
    for (size_t i = 0; i < x->n_catalogs && !bad; i++)
        bad = hl_catalog_unite(&p->catalog, &x->catalog[i]);
    if (bad || hl_catalog_sort_paths(&p->catalog) ||
        hl_catalog_clean(&p->catalog, &p->shown, &p->n_replaced))
        return hl_fail(e, ENOMEM, "no memory left for the names of metrics and regions");
    return 0;
}

uint64_t hl_plan_frames(const struct hl_entry *t)
{
    return hl_plan_samples_are_frames(t) ? hl_entry_points(t) : t->n_rows;
}

static void sum_up(struct hl_plan *p, const struct hl_index *x)
{
    for (uint64_t r = 0; r < p->n_ranks; r++)
        if (p->rank[r] != HL_NO_ENTRY)
            p->total_frames += hl_plan_frames(&x->entry[p->rank[r]]);
    for (size_t i = 0; i < x->n; i++) {
        const struct hl_entry *t = &x->entry[i];
        unsigned ended = hl_entry_ended(t);
        p->n_heap += (t->flags & HL_ENTRY_ROW) != 0;
        p->n_images += (t->flags & HL_ENTRY_IMAGE) != 0;
        p->n_running += ended == HL_ENDED_RUNNING;
        p->n_unshared += (t->flags & HL_PROC_UNSHARED) &&
                         (ended == HL_ENDED_SIGNAL || ended == HL_ENDED_KILLED_OR_EXIT);
    }
}

/* Nothing failed, but who reads the row must know what it is not. */
static int name_bypassed(struct hl_plan *p, const struct hl_index *x, struct hl_err *e)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct hl_entry *t = &x->entry[i];
        char rank[32] = "";
        if (!(t->flags & HL_PROC_NOTE_BYPASSED) || !(t->flags & HL_ENTRY_ROW))
            continue;
        if (t->rank >= 0)
            snprintf(rank, sizeof rank, "rank %d, ", (int)t->rank);
        p->n_bypassed++;
        if (hl_plan_missing(p, e,
                            "heap of %sprocess %d on %s: what its own malloc or "
                            "operator new allocates, which bypasses the agent",
                            rank, (int)t->pid, x->hosts.name[t->host]))
            return -1;
    }
    return 0;
}

enum { SHOWN_CAP = 64 + HL_HOST_MAX };

static const char *shown(const struct hl_index *x, const struct hl_entry *t, char *out)
{
    char rank[32] = "";
    if (t->rank >= 0)
        snprintf(rank, sizeof rank, "rank %d, ", (int)t->rank);
    snprintf(out, SHOWN_CAP, "%sprocess %d on %s", rank, (int)t->pid,
             x->hosts.name[t->host]);
    return out;
}

/* Each process with that flag, between two texts. */
static int name_flagged(struct hl_plan *p, const struct hl_index *x, uint32_t flag,
                        const char *before, const char *after, struct hl_err *e)
{
    char who[SHOWN_CAP];
    for (size_t i = 0; i < x->n; i++) {
        const struct hl_entry *t = &x->entry[i];
        if (!(t->flags & flag))
            continue;
        p->n_damaged++;
        if (hl_plan_missing(p, e, "%s%s: %s", before, shown(x, t, who), after))
            return -1;
    }
    return 0;
}

static int name_damaged(struct hl_plan *p, const struct hl_index *x, struct hl_err *e)
{
    char who[SHOWN_CAP];
    for (size_t i = 0; i < x->n; i++) {
        const struct hl_entry *t = &x->entry[i];
        if (!(t->flags & HL_PROC_NOTE_DAMAGED))
            continue;
        p->n_damaged++;
        if (hl_plan_missing(p, e,
                            "frames of %s: its spool or file is damaged behind the first "
                            "%llu, which are here",
                            shown(x, t, who), (unsigned long long)t->n_rows))
            return -1;
    }
    return 0;
}

/* Not damaged: nothing more of it is anywhere. */
static int name_unended(struct hl_plan *p, const struct hl_index *x, struct hl_err *e)
{
    char who[SHOWN_CAP];
    for (size_t i = 0; i < x->n; i++) {
        const struct hl_entry *t = &x->entry[i];
        if (hl_entry_ended(t) != HL_ENDED_SAMPLED ||
            t->flags & (HL_PROC_NOTE_DAMAGED | HL_PROC_NOTE_UNREAD))
            continue;
        if (hl_plan_missing(p, e,
                            "end of %s: its collector was stopped or killed before, what "
                            "came then is not here",
                            shown(x, t, who)))
            return -1;
    }
    return 0;
}

static int name_lost_points(struct hl_plan *p, const struct hl_index *x, struct hl_err *e)
{
    char who[SHOWN_CAP];
    for (size_t i = 0; i < x->n; i++) {
        const struct hl_entry *t = &x->entry[i];
        if (!t->n_points_lost)
            continue;
        p->n_damaged++;
        if (hl_plan_missing(p, e,
                            "timeline of %s: %llu points are damaged, dropped or gone, "
                            "the other %llu are here",
                            shown(x, t, who), (unsigned long long)t->n_points_lost,
                            (unsigned long long)hl_entry_points(t)))
            return -1;
    }
    return 0;
}

int hl_plan_make(struct hl_plan *p, const struct hl_index *x, struct hl_err *e)
{
    memset(p, 0, sizeof *p);
    int bad = assign_ranks(p, x, e) || list_timelines(p, x, e) ||
              name_unseen_ranks(p, x, e) || unite(p, x, e);
    if (!bad)
        sum_up(p, x);
    bad = bad || name_bypassed(p, x, e) || name_damaged(p, x, e) ||
          name_flagged(p, x, HL_PROC_NOTE_PAGE, "heap of ",
                       "its page of counters is damaged", e) ||
          name_flagged(p, x, HL_PROC_NOTE_UNREAD, "",
                       "its spool is gone or cannot be read", e) ||
          name_flagged(p, x, HL_PROC_NOTE_HELD, "frames of ",
                       "not all, its collector's disk does not take them; gather again "
                       "when it does",
                       e) ||
          name_lost_points(p, x, e) || name_unended(p, x, e);
    for (size_t i = 0; i < x->n_notes && !bad; i++)
        bad = hl_plan_missing(p, e, "%s", x->note[i]);
    if (!bad && x->n_lost)
        bad = hl_plan_missing(p, e, "%llu frames: lost by a collector",
                              (unsigned long long)x->n_lost);
    if (!bad && x->n_dropped)
        bad = hl_plan_missing(p, e, "%llu frames: dropped by their program's sender",
                              (unsigned long long)x->n_dropped);
    if (bad)
        hl_plan_fini(p);
    return bad ? -1 : 0;
}

void hl_plan_fini(struct hl_plan *p)
{
    free(p->rank);
    free(p->other);
    free(p->timeline);
    hl_catalog_fini(&p->catalog);
    hl_catalog_fini(&p->shown);
    for (size_t i = 0; i < p->n_missing; i++)
        free(p->missing[i]);
    free(p->missing);
    memset(p, 0, sizeof *p);
}
