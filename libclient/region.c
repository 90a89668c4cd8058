/* SPDX-License-Identifier: Apache-2.0
 *
 * Regions: names to handles, and entering and leaving them.  The fast paths
 * take no lock and look at the thread's own timers and the epoch alone.
 */
#include "session.h"

#include "region_name.h"

#include <math.h>
#include <string.h>

#define likely(x) __builtin_expect(!!(x), 1)

/* ---- names ---- */

static struct hl_added *added(const heapline_session *s)
{
    return (struct hl_added *)(void *)s->added.p;
}

const struct hl_added *hl_region_added(const heapline_session *s, uint32_t i,
                                       uint64_t frame)
{
    return added(s)[i].frame == frame ? &added(s)[i] : NULL;
}

/* What a frame needs for one region more, so that ending one cannot fail. */
static int make_room(heapline_session *s)
{
    size_t n = (size_t)s->paths.n + 1;
    return hl_bytes_reserve(&s->added, n * sizeof(struct hl_added)) ||
                   hl_bytes_reserve(&s->sums, 2 * n * sizeof(struct hl_sum)) ||
                   hl_bytes_reserve(&s->row, (s->metrics.n + 2 * n) * sizeof(double))
               ? -1
               : 0;
}

static int add_path(heapline_session *s, const char *path, size_t len)
{
    if (hl_name_find(&s->paths, path, len) != HL_NAME_NONE)
        return 0;
    if (s->paths.n >= HL_CATALOG_NAMES_MAX)
        return HEAPLINE_ELIMIT;
    return make_room(s) || hl_name_add(&s->paths, path, len) ? HEAPLINE_ENOMEM : 0;
}

/* With names_lock: the path and its parents, parents first. */
static int register_path(heapline_session *s, const char *path, size_t len, uint32_t *out)
{
    switch (hl_path_check(path, len, NULL)) {
    case HL_PATH_MALFORMED: return HEAPLINE_ENAME;
    case HL_PATH_RESERVED: return HEAPLINE_ERESERVED;
    default: break;
    }
    uint32_t known = hl_name_find(&s->paths, path, len);
    for (size_t n = 1; known == HL_NAME_NONE && n <= len; n++) {
        int e = n == len || path[n] == '/' ? add_path(s, path, n) : 0;
        if (e)
            return e;
    }
    *out = known != HL_NAME_NONE ? known : hl_name_find(&s->paths, path, len);
    return 0;
}

int heapline_region_register(heapline_session *s, const char *path, heapline_region *out)
{
    struct hl_call c = hl_call_begin();
    int idle, e = hl_session_check(s, &idle);
    if (!e && (!path || !out))
        e = HEAPLINE_EINVAL;
    if (e)
        return hl_call_end(c, e);
    pthread_mutex_lock(&s->names_lock);
    e = register_path(s, path, strnlen(path, HL_PATH_MAX + 1), out);
    pthread_mutex_unlock(&s->names_lock);
    return hl_call_end(c, e);
}

/* ---- entering ---- */

/* With names_lock: timers of this thread, up to date, with room on the stack. */
static int ready(heapline_session *s, struct hl_thread **out)
{
    if (!hl_frame_is_open())
        return HEAPLINE_ENOFRAME;
    struct hl_thread *t = hl_timer_self(s->number, s->paths.n);
    if (!t)
        return HEAPLINE_ENOMEM;
    hl_timer_turn(t, hl_epoch);
    *out = t;
    return hl_own(t->stack.depth) < HL_DEPTH_MAX ? 0 : HEAPLINE_EDEPTH;
}

static int begin_slow(heapline_session *s, uint32_t region)
{
    struct hl_call c = hl_call_begin();
    struct hl_thread *t = NULL;
    int idle, e = hl_session_check(s, &idle);
    if (e || idle)
        return hl_call_end(c, e);
    pthread_mutex_lock(&s->names_lock);
    e = region < s->paths.n ? ready(s, &t) : HEAPLINE_EINVAL;
    pthread_mutex_unlock(&s->names_lock);
    if (!e)
        hl_timer_enter(t, region);
    return hl_call_end(c, e);
}

int heapline_region_begin(heapline_session *s, heapline_region region)
{
    struct hl_thread *t = hl_self;
    if (likely(t && s == &hl_session && t->fast_epoch == hl_see(hl_epoch) &&
               region < t->n_known && hl_own(t->stack.depth) < HL_DEPTH_MAX)) {
        hl_timer_enter(t, region);
        return 0;
    }
    return begin_slow(s, region);
}

/* ---- leaving ---- */

static int end_slow(heapline_session *s, uint64_t region)
{
    struct hl_call c = hl_call_begin();
    struct hl_thread *t = hl_self;
    int idle, e = hl_session_check(s, &idle);
    if (e || idle)
        return hl_call_end(c, e);
    pthread_mutex_lock(&s->names_lock);
    uint64_t depth = t && t->session == s->number ? hl_own(t->stack.depth) : 0;
    if (!depth)
        e = hl_frame_is_open() ? HEAPLINE_EREGION : HEAPLINE_ENOFRAME;
    else if (region != UINT64_MAX && hl_own(t->stack.open[depth - 1].region) != region)
        e = HEAPLINE_EREGION;
    else
        hl_timer_turn(t, hl_epoch);
    pthread_mutex_unlock(&s->names_lock);
    if (!e)
        hl_timer_leave(t);
    return hl_call_end(c, e);
}

int heapline_region_end(heapline_session *s, heapline_region region)
{
    struct hl_thread *t = hl_self;
    if (likely(t && s == &hl_session && t->fast_epoch == hl_see(hl_epoch))) {
        uint64_t d = hl_own(t->stack.depth);
        if (likely(d && hl_own(t->stack.open[d - 1].region) == region)) {
            hl_timer_leave(t);
            return 0;
        }
    }
    return end_slow(s, region);
}

int heapline_region_pop(heapline_session *s)
{
    struct hl_thread *t = hl_self;
    if (likely(t && s == &hl_session && t->fast_epoch == hl_see(hl_epoch) &&
               hl_own(t->stack.depth))) {
        hl_timer_leave(t);
        return 0;
    }
    return end_slow(s, UINT64_MAX);
}

/* ---- by name ---- */

static uint32_t innermost(const struct hl_thread *t)
{
    uint64_t d = hl_own(t->stack.depth);
    return d ? (uint32_t)hl_own(t->stack.open[d - 1].region) : HL_NAME_NONE;
}

static struct hl_pushed *slot_of(struct hl_thread *t, uint32_t parent, const char *name,
                                 size_t len)
{
    uint32_t h = hl_name_hash((HL_NAME_HASH ^ parent) * 16777619u, name, len);
    return &t->pushed[(h ^ h >> 16) % HL_PUSH_SLOTS];
}

/* With names_lock: handle of "parent/name". */
static int child_of(heapline_session *s, uint32_t parent, const char *name, size_t len,
                    uint32_t *out)
{
    char path[HL_PATH_MAX + 1];
    size_t at = 0;
    if (parent != HL_NAME_NONE) {
        const struct hl_name *p = hl_name_at(&s->paths, parent);
        at = p->len + 1;
        if (at + len > HL_PATH_MAX)
            return HEAPLINE_ENAME;
        memcpy(path, p->text, p->len);
        path[p->len] = '/';
    }
    if (len > HL_PATH_MAX)
        return HEAPLINE_ENAME;
    memcpy(path + at, name, len);
    return register_path(s, path, at + len, out);
}

static int resolve(heapline_session *s, struct hl_thread *t, const char *name,
                   uint32_t *out)
{
    size_t len = strnlen(name, HL_PATH_MAX + 1);
    uint32_t parent = innermost(t);
    int e = child_of(s, parent, name, len, out);
    if (e)
        return e;
    if (!hl_timer_self(s->number, s->paths.n))
        return HEAPLINE_ENOMEM;
    const struct hl_name *n = hl_name_at(&s->paths, *out);
    *slot_of(t, parent, name, len) =
        (struct hl_pushed){parent, *out, (uint32_t)len, n->text + n->len - len};
    return 0;
}

static int push_slow(heapline_session *s, const char *name)
{
    struct hl_call c = hl_call_begin();
    struct hl_thread *t = NULL;
    uint32_t region = 0;
    int idle, e = hl_session_check(s, &idle);
    if (!e && !name)
        e = HEAPLINE_EINVAL;
    if (e || idle)
        return hl_call_end(c, e);
    pthread_mutex_lock(&s->names_lock);
    e = ready(s, &t);
    if (!e)
        e = resolve(s, t, name, &region);
    pthread_mutex_unlock(&s->names_lock);
    if (!e)
        hl_timer_enter(t, region);
    return hl_call_end(c, e);
}

int heapline_region_push(heapline_session *s, const char *name)
{
    struct hl_thread *t = hl_self;
    if (likely(t && name && s == &hl_session && t->fast_epoch == hl_see(hl_epoch) &&
               hl_own(t->stack.depth) < HL_DEPTH_MAX)) {
        size_t len = strlen(name);
        uint32_t parent = innermost(t);
        const struct hl_pushed *p = slot_of(t, parent, name, len);
        if (likely(p->text && p->parent == parent && p->len == len &&
                   !memcmp(p->text, name, len))) {
            hl_timer_enter(t, p->region);
            return 0;
        }
    }
    return push_slow(s, name);
}

/* ---- measured elsewhere ---- */

static int add(heapline_session *s, uint32_t region, double inclusive_s,
               double exclusive_s)
{
    if (region >= s->paths.n)
        return HEAPLINE_EINVAL;
    if (!hl_frame_is_open())
        return HEAPLINE_ENOFRAME;
    struct hl_added *a = &added(s)[region];
    if (a->frame == hl_epoch) {
        inclusive_s += a->inclusive_s;
        exclusive_s += a->exclusive_s;
    }
    if (!isfinite(inclusive_s) || !isfinite(exclusive_s))
        return HEAPLINE_EFINITE;
    *a = (struct hl_added){inclusive_s, exclusive_s, hl_epoch};
    return 0;
}

int heapline_region_add(heapline_session *s, heapline_region region, double inclusive_s,
                        double exclusive_s)
{
    struct hl_call c = hl_call_begin();
    int idle, e = hl_session_check(s, &idle);
    if (e || idle)
        return hl_call_end(c, e);
    pthread_mutex_lock(&s->names_lock);
    e = add(s, region, inclusive_s, exclusive_s);
    pthread_mutex_unlock(&s->names_lock);
    return hl_call_end(c, e);
}
