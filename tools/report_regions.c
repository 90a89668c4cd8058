/* SPDX-License-Identifier: Apache-2.0
 *
 * The region table: ncalls, time, %tot, avg and exclusive as the schema's
 * console section defines them, and how unevenly the ranks share a region.
 */
#include "report.h"

#include "region_tree.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct line {
    size_t path; /* SIZE_MAX: a parent that is not in the catalog */
    const char *name;
    double time, exclusive, largest, mean;
    uint64_t hits;
    size_t depth;
};

struct table {
    FILE *out;
    const struct report_options *o;
    const struct hl_profile *p;
    struct line *of_path; /* [path] */
    int width;
};

void report_time(double s, char out[32])
{
    double a = fabs(s);
    if (s == 0 || a >= 1 || !isfinite(s))
        snprintf(out, 32, "%.3f s", s == 0 ? 0.0 : s);
    else if (a >= 1e-3)
        snprintf(out, 32, "%.3f ms", s * 1e3);
    else if (a >= 1e-6)
        snprintf(out, 32, "%.3f us", s * 1e6);
    else
        snprintf(out, 32, "%.3f ns", s * 1e9);
}

static int compute(struct table *t)
{
    size_t n = t->p->catalog.paths.n;
    double *scratch = malloc(((size_t)t->p->n_ranks + 1) * sizeof *scratch);
    t->of_path = calloc(n + 1, sizeof *t->of_path);
    for (size_t i = 0; scratch && t->of_path && i < n; i++)
        t->of_path[i] =
            (struct line){.path = i,
                          .name = t->p->catalog.paths.name[i],
                          .hits = t->p->hits[i],
                          .time = hl_profile_inclusive(t->p, i, t->o->stat, scratch),
                          .exclusive = hl_profile_exclusive(t->p, i, t->o->stat, scratch),
                          .largest = hl_profile_inclusive(t->p, i, HL_STAT_MAX, scratch),
                          .mean = hl_profile_inclusive(t->p, i, HL_STAT_MEAN, scratch)};
    int bad = !scratch || !t->of_path;
    free(scratch);
    return bad;
}

static int by_name(const struct line *a, const struct line *b)
{
    return strcmp(a->name, b->name);
}

static int falling(double a, double b)
{
    return a > b ? -1 : a < b;
}

static int compare(const struct line *a, const struct line *b, enum report_sort sort)
{
    int r = 0;
    if (sort == SORT_NCALLS)
        r = falling((double)a->hits, (double)b->hits);
    else if (sort == SORT_EXCLUSIVE)
        r = falling(a->exclusive, b->exclusive);
    else if (sort != SORT_NAME)
        r = falling(a->time, b->time);
    return r ? r : by_name(a, b);
}

static enum report_sort sort_now; /* qsort has no context */

static int for_qsort(const void *a, const void *b)
{
    return compare(a, b, sort_now);
}

static double percent(const struct table *t, double seconds)
{
    return t->p->total > 0 ? 100.0 * seconds / t->p->total : 0.0;
}

static void print_line(const struct table *t, const struct line *l)
{
    char time[32], avg[32], exc[32], total[16] = "-";
    if (l->path == SIZE_MAX) {
        fprintf(t->out, "%*s%-*s\n", (int)(2 * l->depth), "",
                t->width - (int)(2 * l->depth), l->name);
        return;
    }
    report_time(l->time, time);
    report_time(l->hits ? l->time / (double)l->hits : 0.0, avg);
    report_time(l->exclusive, exc);
    if (t->p->has_denominator)
        snprintf(total, sizeof total, "%.1f%%", percent(t, l->time));
    fprintf(t->out, "%*s%-*s %9llu %13s %7s %13s %13s %9.2f\n", (int)(2 * l->depth), "",
            t->width - (int)(2 * l->depth), l->name, (unsigned long long)l->hits, time,
            total, avg, exc, l->mean > 0 ? l->largest / l->mean : 1.0);
}

static void print_csv_line(const struct table *t, const struct line *l)
{
    if (strpbrk(l->name, ",\"")) {
        fputc('"', t->out);
        for (const char *s = l->name; *s; s++)
            fprintf(t->out, *s == '"' ? "\"\"" : "%c", *s);
        fputc('"', t->out);
    } else {
        fputs(l->name, t->out);
    }
    fprintf(t->out, ",%llu,%.17g,%.17g,%.17g,%.17g,%.17g\n", (unsigned long long)l->hits,
            l->time, percent(t, l->time), l->hits ? l->time / (double)l->hits : 0.0,
            l->exclusive, l->mean > 0 ? l->largest / l->mean : 1.0);
}

/* ---- flat: a selection, or machine text ---- */

static int print_flat(struct table *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->p->catalog.paths.n; i++)
        if (!t->o->path || fnmatch(t->o->path, t->of_path[i].name, 0) == 0)
            t->of_path[n++] = t->of_path[i];
    sort_now = t->o->sort;
    qsort(t->of_path, n, sizeof *t->of_path, for_qsort);
    if (t->o->top && t->o->top < n)
        n = t->o->top;
    for (size_t i = 0; i < n; i++)
        (t->o->format == REPORT_CSV ? print_csv_line : print_line)(t, &t->of_path[i]);
    return 0;
}

/* ---- the tree, siblings sorted ---- */

static struct line line_of(const struct table *t, const struct hl_region_node *n)
{
    struct line l = {.path = SIZE_MAX};
    if (n->path != SIZE_MAX)
        l = t->of_path[n->path];
    l.name = n->name;
    l.depth = n->depth - 1;
    return l;
}

static int print_children(const struct table *t, const struct hl_region_tree *tree,
                          size_t node)
{
    struct child {
        struct line line;
        size_t node;
    } *child = NULL;
    size_t n = 0;
    for (size_t i = tree->node[node].first; i; i = tree->node[i].next)
        n++;
    child = malloc((n + 1) * sizeof *child);
    if (!child)
        return -1;
    n = 0;
    for (size_t i = tree->node[node].first; i; i = tree->node[i].next)
        child[n++] = (struct child){line_of(t, &tree->node[i]), i};
    sort_now = t->o->sort;
    qsort(child, n, sizeof *child, for_qsort); /* the line is the first member */
    int bad = 0;
    for (size_t i = 0; i < n && !bad; i++) {
        print_line(t, &child[i].line);
        bad = print_children(t, tree, child[i].node);
    }
    free(child);
    return bad;
}

static int print_tree(const struct table *t)
{
    struct hl_region_tree tree;
    if (hl_region_tree_init(&tree, &t->p->catalog))
        return -1;
    int bad = print_children(t, &tree, 0);
    hl_region_tree_fini(&tree);
    return bad;
}

static void rule(const struct table *t)
{
    for (int i = 0; i < t->width + 70; i++)
        fputc('-', t->out);
    fputc('\n', t->out);
}

static int name_width(const struct table *t, int flat)
{
    size_t w = 36;
    for (size_t i = 0; i < t->p->catalog.paths.n; i++) {
        const char *s = t->p->catalog.paths.name[i], *last = s;
        size_t depth = 0;
        for (const char *c = s; *c; c++)
            if (*c == '/')
                depth++, last = c + 1;
        size_t n = flat ? strlen(s) : 2 * depth + strlen(last);
        w = n > w ? n : w;
    }
    return (int)(w < 120 ? w : 120);
}

static void print_end(const struct table *t)
{
    char time[32];
    rule(t);
    report_time(t->p->total, time);
    if (t->p->has_denominator)
        fprintf(t->out, "Sum of %s over all ranks and frames: %s\n", t->p->denominator,
                time);
    else
        fprintf(t->out, "There is no metric %s: %%tot is not known\n", t->p->denominator);
}

int report_regions(FILE *out, const struct report_options *o, const struct hl_profile *p,
                   struct hl_err *e)
{
    struct table t = {.out = out, .o = o, .p = p};
    int flat = o->format == REPORT_CSV || o->path || o->top, bad = compute(&t);
    if (bad) {
        free(t.of_path);
        return hl_fail(e, ENOMEM, "no memory left");
    }
    t.width = name_width(&t, flat);
    if (o->format == REPORT_CSV) {
        fprintf(out, "path,ncalls,time_s,tot_percent,avg_s,exclusive_s,max_over_mean\n");
        bad = print_flat(&t);
    } else {
        fprintf(out, "Regions, %s over %llu ranks, %llu frames (%s%s%s)\n",
                hl_stat_name(o->stat), (unsigned long long)p->n_ranks,
                (unsigned long long)p->n_frames, p->version, *p->run_id ? ", run " : "",
                p->run_id);
        rule(&t);
        fprintf(out, "%-*s %9s %13s %7s %13s %13s %9s\n", t.width, "Section", "ncalls",
                "time", "%tot", "avg", "exclusive", "max/mean");
        rule(&t);
        bad = flat ? print_flat(&t) : print_tree(&t);
        print_end(&t);
    }
    free(t.of_path);
    return bad ? hl_fail(e, ENOMEM, "no memory left") : 0;
}
