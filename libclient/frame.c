/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames: begin, end, discard.  A frame's row is made under the names lock and
 * handed to the sender, which may wait, without it.
 */
#include "session.h"

#include <string.h>

/* ---- the row ---- */

/* Added seconds come out bit for bit where nothing was measured. */
static double cell(uint64_t ns, const double *added)
{
    if (!ns)
        return added ? *added : 0;
    return added ? (double)ns / 1e9 + *added : (double)ns / 1e9;
}

static void fill_regions(const heapline_session *s, uint64_t frame, double *cells,
                         const struct hl_sum *sums)
{
    for (uint32_t i = 0; i < s->paths.n; i++) {
        const struct hl_added *a = hl_region_added(s, i, frame);
        cells[2 * i] = cell(sums[i].inclusive, a ? &a->inclusive_s : NULL);
        cells[2 * i + 1] = cell(sums[i].exclusive, a ? &a->exclusive_s : NULL);
    }
}

/* Cross the boundary: what threads do from here on is of the next frame. */
static void cross(heapline_session *s, int64_t now, struct hl_sum *total)
{
    struct hl_sum *sums = (void *)s->sums.p;
    hl_set(hl_epoch, hl_epoch + 1);
    if (total)
        memset(total, 0, s->paths.n * sizeof *total);
    hl_timer_read(s->number, hl_epoch, (uint64_t)now, total,
                  sums ? sums + s->paths.n : NULL, s->paths.n);
}

/* With both locks. Bytes of catalogs in s->message, or -1: no memory. */
static int64_t make_row(heapline_session *s, int64_t now)
{
    double *cells = (void *)s->row.p;
    struct hl_sum *total = (void *)s->sums.p;
    uint64_t frame = hl_epoch;
    hl_metric_fill(s, cells, (double)(now - s->frame_start) / 1e9);
    cross(s, now, total);
    fill_regions(s, frame, cells + s->metrics.n, total);
    return hl_encode_frame(s, s->sender.n_rows, s->metrics.n + 2 * (size_t)s->paths.n);
}

/* ---- calls ---- */

/* With the frame lock: is s ours to use, and is a frame open, or not, as it
 * should be?  A raw clone runs no atfork handler: a child is known by its memory. */
static int check(const heapline_session *s, int open, int *idle)
{
    int e = hl_session_check(s, idle);
    if (e)
        return e;
    if (!hl_session_is_own(s))
        return HEAPLINE_ECLOSED;
    if (hl_frame_is_open() != open)
        return open ? HEAPLINE_ENOFRAME : HEAPLINE_EFRAME;
    return 0;
}

static int begin(heapline_session *s)
{
    int idle, e = check(s, 0, &idle);
    if (e)
        return e;
    pthread_mutex_lock(&s->names_lock);
    s->frame_start = idle ? 0 : hl_sys_now();
    if (idle)
        hl_set(hl_epoch, hl_epoch + 1);
    else
        cross(s, s->frame_start, NULL);
    pthread_mutex_unlock(&s->names_lock);
    return 0;
}

static int commit(heapline_session *s)
{
    int64_t now = hl_sys_now();
    pthread_mutex_lock(&s->names_lock);
    int64_t catalogs = make_row(s, now);
    pthread_mutex_unlock(&s->names_lock);
    s->n_frames++;
    if (catalogs < 0) {
        hl_sender_drop(&s->sender);
        return HEAPLINE_EDROPPED;
    }
    if (hl_sender_commit(&s->sender, s->message.p, s->message.n, (size_t)catalogs))
        return HEAPLINE_EDROPPED;
    hl_frame_told(s);
    return 0;
}

static int close_frame(heapline_session *s, int keep)
{
    int idle, e = check(s, 1, &idle);
    if (e)
        return e;
    if (keep && !idle)
        return commit(s);
    pthread_mutex_lock(&s->names_lock);
    hl_set(hl_epoch, hl_epoch + 1);
    pthread_mutex_unlock(&s->names_lock);
    s->n_frames += (uint64_t)keep;
    return 0;
}

int heapline_frame_begin(heapline_session *s)
{
    struct hl_call c = hl_call_begin();
    if (s != &hl_session)
        return hl_call_end(c, HEAPLINE_EINVAL);
    pthread_mutex_lock(&s->frame_lock);
    int e = begin(s);
    pthread_mutex_unlock(&s->frame_lock);
    return hl_call_end(c, e);
}

static int close_call(heapline_session *s, int keep)
{
    struct hl_call c = hl_call_begin();
    if (s != &hl_session)
        return hl_call_end(c, HEAPLINE_EINVAL);
    pthread_mutex_lock(&s->frame_lock);
    int e = close_frame(s, keep);
    pthread_mutex_unlock(&s->frame_lock);
    return hl_call_end(c, e);
}

int heapline_frame_end(heapline_session *s)
{
    return close_call(s, 1);
}

int heapline_frame_discard(heapline_session *s)
{
    return close_call(s, 0);
}
