/* SPDX-License-Identifier: Apache-2.0
 *
 * The flat layout of older HDF5 exports: datasets over all ranks' frames, the
 * ranks told apart by the metric mpi_rank.
 */
#include "h5_in.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct flat_metrics {
    struct h5_in *h;
    struct hl_err *e;
};

static herr_t add_flat_metric(hid_t at, const char *name, const H5L_info_t *info,
                              void *ctx)
{
    struct flat_metrics *w = ctx;
    (void)info;
    if (!strcmp(name, "frame_scalars") || h5_in_rows_of(at, name, 1, NULL) < 0)
        return 0;
    return h5_in_add_name(w->h, &w->h->catalog.metrics, name, "the file", 0, w->e);
}

static int read_flat_batch(struct h5_in *h, int inline_metrics, uint64_t at, size_t n,
                           uint64_t n_frames, struct hl_err *e)
{
    memset(h->rows, 0, n * h->stride * sizeof *h->rows);
    if (!inline_metrics && h5_in_read_scalars(h, h->payload, at, n, n_frames, e))
        return -1;
    for (size_t i = 0; inline_metrics && i < h->catalog.metrics.n; i++)
        if (h5_in_read_column(h, h->payload, h->catalog.metrics.name[i], at, n, n_frames,
                              i, e))
            return -1;
    return h5_in_read_regions(h, h->payload, at, n, n_frames, e);
}

/* Rows come in increasing rank order; ranks that the metric mpi_rank skips have
 * no frames.  The file is read twice: once to count each rank's frames. */
static int flat_counts(struct h5_in *h, uint64_t n_frames, uint64_t **count,
                       uint64_t *n_ranks, struct hl_err *e)
{
    size_t m = hl_names_find(&h->catalog.metrics, "mpi_rank", 8);
    uint64_t last = 0;
    *n_ranks = 1;
    *count = calloc(1, sizeof **count);
    for (uint64_t at = 0; *count && at < n_frames;) {
        size_t n = n_frames - at < h->batch ? (size_t)(n_frames - at) : h->batch;
        int flat = H5Lexists(h->payload, "frame_scalars", H5P_DEFAULT) <= 0;
        if (read_flat_batch(h, flat, at, n, n_frames, e))
            return -1;
        for (size_t i = 0; i < n; i++) {
            double r = m == SIZE_MAX ? 0 : h->rows[i * h->stride + m];
            if (!(r >= (double)last) || r >= 1 << 26 || r != (double)(uint64_t)r)
                return h5_in_bad_file(
                    h, e, "mpi_rank is no rank, or frames are not in rank order");
            last = (uint64_t)r;
            if (last >= *n_ranks) {
                uint64_t *p = realloc(*count, (last + 1) * sizeof *p);
                if (!p)
                    return hl_fail(e, ENOMEM, "%s: no memory left", h->name);
                memset(p + *n_ranks, 0, (last + 1 - *n_ranks) * sizeof *p);
                *count = p;
                *n_ranks = last + 1;
            }
            (*count)[last]++;
        }
        at += n;
    }
    return *count ? 0 : hl_fail(e, ENOMEM, "%s: no memory left", h->name);
}

static int flat_frames(struct h5_in *h, int inline_metrics, uint64_t *n_frames)
{
    char dataset[HL_PATH_MAX + 16];
    int64_t n = -1;
    if (!inline_metrics)
        n = h5_in_rows_of(h->payload, "frame_scalars", 2, NULL);
    else if (h->catalog.metrics.n)
        n = h5_in_rows_of(h->payload, h->catalog.metrics.name[0], 1, NULL);
    else if (h->catalog.paths.n) {
        snprintf(dataset, sizeof dataset, "%s/inclusive", h->catalog.paths.name[0]);
        n = h5_in_rows_of(h->payload, dataset, 1, NULL);
    }
    *n_frames = n < 0 ? 0 : (uint64_t)n;
    return n < 0 ? -1 : 0;
}

int h5_in_read_flat(struct h5_in *h, struct hl_err *e)
{
    int inline_metrics = H5Lexists(h->payload, "frame_scalars", H5P_DEFAULT) <= 0;
    struct flat_metrics w = {h, e};
    uint64_t n_frames, *count = NULL, n_ranks, at = 0;
    if (inline_metrics && !h->catalog.metrics.n &&
        H5Literate(h->payload, H5_INDEX_NAME, H5_ITER_INC, NULL, add_flat_metric, &w) < 0)
        return -1;
    if (!h->catalog.paths.n && h5_in_walk_regions(h, h->payload, e))
        return -1;
    if (flat_frames(h, inline_metrics, &n_frames))
        return h5_in_bad_file(h, e, "there are neither ranks nor frames in it");
    int bad = h5_in_make_room(h, e) || flat_counts(h, n_frames, &count, &n_ranks, e) ||
              h5_in_begin_run(h, n_ranks, e);
    for (uint64_t r = 0; !bad && r < n_ranks; r++) {
        bad = h5_in_begin_rank(h, r, count[r], e);
        for (uint64_t left = count[r]; left && !bad;) {
            size_t n = left < h->batch ? (size_t)left : h->batch;
            bad = read_flat_batch(h, inline_metrics, at, n, n_frames, e) ||
                  h5_in_send_rows(h, n, e);
            at += n;
            left -= n;
        }
        bad = bad || h5_in_end_rank(h, e);
    }
    free(count);
    return bad ? -1 : 0;
}
