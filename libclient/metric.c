/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics of the open frame.
 */
#include "session.h"

#include <math.h>
#include <string.h>

static struct hl_value *values(const heapline_session *s)
{
    return (struct hl_value *)(void *)s->values.p;
}

static int set(heapline_session *s, uint32_t index, double value)
{
    if (index >= s->metrics.n)
        return HEAPLINE_EINVAL;
    if (!hl_frame_is_open())
        return HEAPLINE_ENOFRAME;
    if (!isfinite(value))
        return HEAPLINE_EFINITE;
    values(s)[index] = (struct hl_value){value, hl_epoch};
    return 0;
}

int heapline_set_metric(heapline_session *s, size_t index, double value)
{
    struct hl_call c = hl_call_begin();
    int idle, e = hl_session_check(s, &idle);
    if (e)
        return hl_call_end(c, e);
    pthread_mutex_lock(&s->names_lock);
    e = set(s, index < UINT32_MAX ? (uint32_t)index : UINT32_MAX, value);
    pthread_mutex_unlock(&s->names_lock);
    return hl_call_end(c, e);
}

int heapline_set_metric_by_name(heapline_session *s, const char *name, double value)
{
    struct hl_call c = hl_call_begin();
    int idle, e = hl_session_check(s, &idle);
    if (e || !name)
        return hl_call_end(c, e ? e : HEAPLINE_EINVAL);
    pthread_mutex_lock(&s->names_lock);
    e = set(s, hl_name_find(&s->metrics, name, strlen(name)), value);
    pthread_mutex_unlock(&s->names_lock);
    return hl_call_end(c, e);
}

static void fill_unset(const heapline_session *s, double *cells, const char *name,
                       double value)
{
    uint32_t i = hl_name_find(&s->metrics, name, strlen(name));
    if (i != HL_NAME_NONE && values(s)[i].frame != hl_epoch)
        cells[i] = value;
}

void hl_metric_fill(heapline_session *s, double *cells, double wall_s)
{
    for (uint32_t i = 0; i < s->metrics.n; i++)
        cells[i] = values(s)[i].frame == hl_epoch ? values(s)[i].value : 0;
    fill_unset(s, cells, "step", (double)s->n_frames);
    fill_unset(s, cells, "mpi_rank", s->rank);
    fill_unset(s, cells, "wall_step", wall_s);
}
