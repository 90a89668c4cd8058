/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions: begin, end, the end of the process, forked children.
 */
#include "session.h"

#include "image.h"
#include "region_name.h"

#include <errno.h>
#include <string.h>

struct heapline_session hl_session = {
    .frame_lock = PTHREAD_MUTEX_INITIALIZER,
    .names_lock = PTHREAD_MUTEX_INITIALIZER,
};

const char *heapline_version(void)
{
    return HEAPLINE_VERSION;
}

const char *heapline_strerror(int code)
{
    switch (code) {
#define HEAPLINE_X(number, name, sentence)                                               \
    case number: return sentence;
        HEAPLINE_ERRORS(HEAPLINE_X)
#undef HEAPLINE_X
    default: return "unknown code";
    }
}

/* ---- around every call ---- */

struct hl_call hl_call_begin(void)
{
    struct hl_call c = {errno, PTHREAD_CANCEL_ENABLE};
    /* A thread that is cancelled in here would take locks with it. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &c.cancel);
    return c;
}

int hl_call_end(struct hl_call c, int result)
{
    pthread_setcancelstate(c.cancel, NULL);
    errno = c.error;
    return result;
}

int hl_session_check(const heapline_session *s, int *idle)
{
    *idle = 0;
    if (s != &hl_session)
        return HEAPLINE_EINVAL;
    switch (hl_session_state(s)) {
    case HL_SESSION_NONE: return HEAPLINE_ECLOSED;
    case HL_SESSION_IDLE: *idle = 1; break;
    default: break;
    }
    return 0;
}

static void set_state(heapline_session *s, enum hl_session_state state)
{
    __atomic_store_n(&s->state, (uint32_t)state, __ATOMIC_RELEASE);
}

/* ---- begin ---- */

static int name_fault(const char *name)
{
    size_t n = name ? strnlen(name, HL_NAME_MAX + 1) : 0;
    if (!name)
        return HEAPLINE_EINVAL;
    return !n || n > HL_NAME_MAX || hl_has_control(name, n) ? HEAPLINE_ENAME : 0;
}

static int take_metrics(heapline_session *s, const char *const *metrics, size_t n)
{
    if (n > HL_CATALOG_NAMES_MAX)
        return HEAPLINE_ELIMIT;
    if (n && !metrics)
        return HEAPLINE_EINVAL;
    for (size_t i = 0; i < n; i++) {
        int e = name_fault(metrics[i]);
        if (e)
            return e;
        size_t len = strlen(metrics[i]);
        if (hl_name_find(&s->metrics, metrics[i], len) != HL_NAME_NONE)
            return HEAPLINE_EEXIST;
        if (hl_name_add(&s->metrics, metrics[i], len))
            return HEAPLINE_ENOMEM;
    }
    return hl_bytes_reserve(&s->values, n * sizeof(struct hl_value)) ||
                   hl_bytes_reserve(&s->row, n * sizeof(double))
               ? HEAPLINE_ENOMEM
               : 0;
}

static void free_names(heapline_session *s)
{
    hl_names_free(&s->metrics);
    hl_names_free(&s->paths);
    hl_bytes_free(&s->values);
    hl_bytes_free(&s->added);
    hl_bytes_free(&s->row);
    hl_bytes_free(&s->sums);
    hl_bytes_free(&s->message);
}

static enum hl_session_state find_sink(heapline_session *s)
{
    struct hl_sender *d = &s->sender;
    hl_setup_read(&d->setup);
    s->rank = d->setup.rank < 0 ? 0 : d->setup.rank;
    if (d->setup.off)
        return HL_SESSION_IDLE;
    hl_sender_start(d);
    return d->sink == HL_SINK_NONE && !d->setup.asked ? HL_SESSION_IDLE : HL_SESSION_LIVE;
}

/* A system call in each frame would cost more than all else that a frame needs. */
static void mark_own(heapline_session *s)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    s->pid = getpid();
    if (!s->own) {
        s->own = hl_sys_mmap(page, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (s->own == MAP_FAILED)
            s->own = NULL;
        else if (madvise(s->own, page, MADV_WIPEONFORK)) {
            munmap(s->own, page);
            s->own = NULL;
        }
    }
    if (s->own)
        *s->own = 1;
}

int hl_session_is_own(const heapline_session *s)
{
    return s->own ? *s->own != 0 : s->pid == getpid();
}

static int begin(heapline_session *s, const char *const *metrics, size_t n_metrics)
{
    if (hl_session_state(s) != HL_SESSION_NONE)
        return HEAPLINE_EEXIST;
    pthread_mutex_lock(&s->names_lock);
    int e = take_metrics(s, metrics, n_metrics);
    if (e)
        free_names(s);
    pthread_mutex_unlock(&s->names_lock);
    if (e)
        return e;
    s->number++;
    mark_own(s);
    s->n_frames = 0;
    s->told = (struct hl_told){0, 0, 0};
    set_state(s, find_sink(s));
    return 0;
}

int heapline_session_begin(heapline_session **out, const char *const *metrics,
                           size_t n_metrics)
{
    struct hl_call c = hl_call_begin();
    heapline_session *s = &hl_session;
    if (!out)
        return hl_call_end(c, HEAPLINE_EINVAL);
    pthread_mutex_lock(&s->frame_lock);
    int e = begin(s, metrics, n_metrics);
    pthread_mutex_unlock(&s->frame_lock);
    *out = e ? NULL : s;
    return hl_call_end(c, e);
}

static int set_version(heapline_session *s, const char *version)
{
    struct hl_setup *setup = &s->sender.setup;
    int idle, e = hl_session_check(s, &idle);
    if (e)
        return e;
    if (s->n_frames || hl_frame_is_open())
        return HEAPLINE_EFRAME;
    memcpy(setup->app_version, version, strlen(version) + 1);
    if (!idle)
        hl_sender_greet_again(&s->sender);
    return 0;
}

int heapline_set_app_version(heapline_session *s, const char *version)
{
    struct hl_call c = hl_call_begin();
    int e = s == &hl_session ? name_fault(version) : HEAPLINE_EINVAL;
    if (e)
        return hl_call_end(c, e);
    pthread_mutex_lock(&s->frame_lock);
    e = set_version(s, version);
    pthread_mutex_unlock(&s->frame_lock);
    return hl_call_end(c, e);
}

/* ---- end ---- */

/* At the end of the process other threads may still be running: what they may
 * look at without a lock stays. */
static void end(heapline_session *s, int of_process)
{
    enum hl_session_state was = hl_session_state(s);
    set_state(s, HL_SESSION_NONE);
    pthread_mutex_lock(&s->names_lock);
    if (hl_epoch & 1)
        hl_set(hl_epoch, hl_epoch + 1);
    pthread_mutex_unlock(&s->names_lock);
    if (was == HL_SESSION_LIVE)
        hl_sender_finish(&s->sender);
    if (of_process)
        return;
    pthread_mutex_lock(&s->names_lock);
    free_names(s);
    pthread_mutex_unlock(&s->names_lock);
}

int heapline_session_end(heapline_session *s)
{
    struct hl_call c = hl_call_begin();
    int idle;
    if (s != &hl_session)
        return hl_call_end(c, HEAPLINE_EINVAL);
    pthread_mutex_lock(&s->frame_lock);
    int e = hl_session_check(s, &idle);
    if (!e && s->pid != getpid())
        e = HEAPLINE_ECLOSED;
    if (!e)
        end(s, 0);
    pthread_mutex_unlock(&s->frame_lock);
    return hl_call_end(c, e);
}

/* A thread may be waiting for a collector with the lock held; the program's
 * end does not wait for it: the row buffer is in the collector's hands. */
__attribute__((destructor)) static void at_process_end(void)
{
    struct hl_call c = hl_call_begin();
    heapline_session *s = &hl_session;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    if (hl_session_state(s) != HL_SESSION_NONE && s->pid == getpid() &&
        pthread_mutex_timedlock(&s->frame_lock, &until) == 0) {
        if (hl_session_state(s) != HL_SESSION_NONE)
            end(s, 1);
        pthread_mutex_unlock(&s->frame_lock);
    }
    hl_call_end(c, 0);
}

/* ---- threads and children ---- */

static void at_thread_end(void *timers)
{
    struct hl_call c = hl_call_begin();
    pthread_mutex_lock(&hl_session.names_lock);
    hl_timer_release(timers);
    pthread_mutex_unlock(&hl_session.names_lock);
    hl_call_end(c, 0);
}

/* Other threads of the parent may have held the locks and been half way through
 * a change: the child begins anew and leaves the parent's memory alone. */
static void in_child(void)
{
    heapline_session *s = &hl_session;
    struct hl_call c = hl_call_begin();
    uint64_t number = s->number;
    uint32_t *own = s->own;
    hl_sender_forget(&s->sender);
    memset(s, 0, sizeof *s);
    s->own = own;
    pthread_mutex_init(&s->frame_lock, NULL);
    pthread_mutex_init(&s->names_lock, NULL);
    s->number = number;
    hl_epoch = (hl_epoch | 1) + 1; /* a new one, with no frame open */
    hl_timer_forget();
    hl_image_forget();
    hl_call_end(c, 0);
}

__attribute__((constructor)) static void at_load(void)
{
    struct hl_call c = hl_call_begin();
    hl_timer_setup(at_thread_end);
    pthread_atfork(NULL, NULL, in_child);
    hl_call_end(c, 0);
}
