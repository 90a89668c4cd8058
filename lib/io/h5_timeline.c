/* SPDX-License-Identifier: Apache-2.0
 *
 * Timelines in the HDF5 export: of a process that records frames of its own, what
 * the collector saw of it, a series a metric, in B/timeline.
 */
#include "h5_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { BATCH = 4096 };

struct h5_timeline {
    haddr_t offset[H5_N_SERIES];
    double value[H5_N_SERIES][BATCH];
    uint64_t n_all, n_written;
    size_t n_held;
};

static const char *const series[H5_N_SERIES] = {
    "step", "time_s", "heap_bytes", "heap_peak_bytes", "rss_bytes", "allocs", "frees"};

static double known(int64_t v)
{
    return v == -1 ? NAN : (double)v;
}

static void hold(struct h5_timeline *t, const struct hl_point *p)
{
    const double v[H5_N_SERIES] = {(double)(t->n_written + t->n_held),
                                   (double)p->time_ns / 1e9,
                                   known(p->heap_bytes),
                                   known(p->heap_peak_bytes),
                                   known(p->rss_bytes),
                                   known((int64_t)p->allocs),
                                   known((int64_t)p->frees)};
    for (size_t i = 0; i < H5_N_SERIES; i++)
        t->value[i][t->n_held] = v[i];
    t->n_held++;
}

static int flush(struct h5_sink *h, struct h5_timeline *t)
{
    for (size_t i = 0; i < H5_N_SERIES && t->n_held; i++)
        if (h5_put_cells(h, t->offset[i] + t->n_written * 8, t->value[i], t->n_held))
            return -1;
    t->n_written += t->n_held;
    t->n_held = 0;
    return 0;
}

static int make_series(struct h5_sink *h, hid_t group, uint64_t n)
{
    hsize_t dim = n;
    hid_t space = H5Screate_simple(1, &dim, NULL);
    int bad = space < 0;
    for (size_t i = 0; i < H5_N_SERIES && n && !bad; i++)
        bad = h5_place(h, group, series[i], space, &h->points->offset[i]);
    if (space >= 0)
        H5Sclose(space);
    return bad ? -1 : 0;
}

int h5_timeline_begin(struct hl_sink *s, int64_t pid, const char *host, uint64_t n,
                      struct hl_err *e)
{
    struct h5_sink *h = (struct h5_sink *)s;
    char name[H5_PROCESS_NAME_MAX];
    h5_arm();
    if (!h->points && !(h->points = malloc(sizeof *h->points)))
        return hl_fail(e, ENOMEM, "%s: no memory left", h->out.name);
    h->points->n_all = n;
    h->points->n_written = h->points->n_held = 0;
    if (h->timeline < 0)
        h->timeline = h5_group(h->own_base, "timeline");
    h5_process_name(h, h->timeline, pid, host, name, sizeof name);
    hid_t g = h5_group(h->timeline, name);
    int bad = g < 0 || make_series(h, g, n);
    if (g >= 0)
        H5Gclose(g);
    return bad ? h5_fail(h, e, "timeline") : 0;
}

int h5_points(struct hl_sink *s, const struct hl_point *v, size_t n, struct hl_err *e)
{
    struct h5_sink *h = (struct h5_sink *)s;
    struct h5_timeline *t = h->points;
    h5_arm();
    if (n > t->n_all - t->n_written - t->n_held)
        return hl_fail(e, HL_ERR_FORMAT, "%s: more points came than the %llu announced",
                       h->out.name, (unsigned long long)t->n_all);
    for (size_t i = 0; i < n; i++) {
        hold(t, &v[i]);
        if (t->n_held == BATCH && flush(h, t))
            return h5_fail(h, e, "timeline");
    }
    return 0;
}

int h5_timeline_end(struct hl_sink *s, struct hl_err *e)
{
    struct h5_sink *h = (struct h5_sink *)s;
    struct h5_timeline *t = h->points;
    h5_arm();
    if (flush(h, t))
        return h5_fail(h, e, "timeline");
    if (t->n_written != t->n_all)
        return hl_fail(e, HL_ERR_FORMAT, "%s: %llu points came where %llu were announced",
                       h->out.name, (unsigned long long)t->n_written,
                       (unsigned long long)t->n_all);
    return 0;
}
