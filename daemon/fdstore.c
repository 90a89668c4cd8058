/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors kept by the service manager; see fdstore.h.
 */
#include "fdstore.h"

#include "clock.h"
#include "ident.h"
#include "notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RETRY_MS = 500 };

struct entry {
    struct entry *next;
    int fd; /* owned; -1: the name is let go */
    int64_t due_ns;
    char kind;
    uint32_t slot;
};

struct hl_fdstore {
    int sock;
    struct hl_watch *watch;
    struct hl_timer *timer;
    struct entry *first, **end;
    size_t n, n_keeps, n_stored, max;
    int64_t delay_ns;
    /* What the manager has once the drops of the queue are sent; so a drop is
     * queued for what was stored alone, and their number is bounded. */
    uint8_t stored[2][HL_FDSTORE_SLOTS / 8];
};

/* ---- names ---- */

static const char digits[] = "0123456789abcdefghijklmnopqrstuv";

void hl_fdstore_name(char kind, uint32_t slot, char *out)
{
    int shift = 30;
    *out++ = kind;
    while (shift && !(slot >> shift))
        shift -= 5;
    for (; shift >= 0; shift -= 5)
        *out++ = digits[slot >> shift & 31];
    *out = 0;
}

int hl_fdstore_parse(const char *name, size_t n, char *kind, uint32_t *slot)
{
    uint32_t v = 0;
    if (n < 2 || n > 6 || (name[0] != 'p' && name[0] != 'r') || (n > 2 && name[1] == '0'))
        return -1;
    for (size_t i = 1; i < n; i++) {
        const char *d = name[i] ? strchr(digits, name[i]) : NULL;
        if (!d)
            return -1;
        v = v << 5 | (uint32_t)(d - digits);
    }
    if (v >= HL_FDSTORE_SLOTS)
        return -1;
    *kind = name[0];
    *slot = v;
    return 0;
}

int hl_fdstore_available(void)
{
    const char *max = getenv("FDSTORE"); /* said since systemd 254 */
    int64_t n;
    return hl_notify_fd() >= 0 && (!max || (!hl_parse_i64(max, 1, INT64_MAX, &n)));
}

/* ---- what is stored ---- */

static uint8_t *stored_byte(struct hl_fdstore *f, char kind, uint32_t slot)
{
    return &f->stored[kind == 'r'][slot / 8];
}

static int is_stored(struct hl_fdstore *f, char kind, uint32_t slot)
{
    return *stored_byte(f, kind, slot) >> slot % 8 & 1;
}

static void set_stored(struct hl_fdstore *f, char kind, uint32_t slot, int yes)
{
    uint8_t bit = (uint8_t)(1 << slot % 8), *b = stored_byte(f, kind, slot);
    f->n_stored += !!yes - (size_t)is_stored(f, kind, slot);
    *b = (uint8_t)(yes ? *b | bit : *b & ~bit);
}

/* ---- queue ---- */

static int append(struct hl_fdstore *f, char kind, uint32_t slot, int fd)
{
    struct entry *e = malloc(sizeof *e);
    if (!e)
        return -1;
    *e = (struct entry){NULL, fd, fd >= 0 ? hl_mono_ns() + f->delay_ns : 0, kind, slot};
    *f->end = e;
    f->end = &e->next;
    f->n++;
    f->n_keeps += fd >= 0;
    return 0;
}

static void take_out(struct hl_fdstore *f, struct entry **at)
{
    struct entry *e = *at;
    *at = e->next;
    if (!*at)
        f->end = at;
    f->n--;
    if (e->fd >= 0) {
        f->n_keeps--;
        close(e->fd);
    }
    free(e);
}

static void forget_queued_keep(struct hl_fdstore *f, char kind, uint32_t slot)
{
    for (struct entry **at = &f->first; *at && f->n_keeps; at = &(*at)->next)
        if ((*at)->fd >= 0 && (*at)->kind == kind && (*at)->slot == slot) {
            take_out(f, at);
            return; /* there is never a second one */
        }
}

static int send_entry(struct hl_fdstore *f, const struct entry *e)
{
    char text[64], name[HL_FDSTORE_NAME_CAP];
    hl_fdstore_name(e->kind, e->slot, name);
    int n = snprintf(text, sizeof text, "%s=1\nFDNAME=%s",
                     e->fd >= 0 ? "FDSTORE" : "FDSTOREREMOVE", name);
    return hl_notify_send(f->sock, text, (size_t)n, e->fd);
}

/* Full for now, or too many descriptors of ours are under way. */
static int comes_later(int r)
{
    return r == -EAGAIN || r == -ENOBUFS || r == -ENOMEM || r == -ETOOMANYREFS ||
           r == -EINTR || r == -ECONNREFUSED || r == -ENOTCONN;
}

/* Send what is due (all: everything); how many ms the rest waits, 0: there is
 * none.  *full: it waits for the socket. */
static uint64_t send_queue(struct hl_fdstore *f, int all, int *full)
{
    int64_t now = hl_mono_ns();
    *full = 0;
    while (f->first) {
        if (!all && f->first->due_ns > now)
            return (uint64_t)(f->first->due_ns - now) / 1000000 + 1;
        int r = send_entry(f, f->first);
        if (comes_later(r)) {
            *full = r == -EAGAIN;
            return RETRY_MS;
        }
        if (!r && f->first->fd >= 0)
            set_stored(f, f->first->kind, f->first->slot, 1);
        take_out(f, &f->first);
    }
    return 0;
}

static void go_on(struct hl_fdstore *f)
{
    int full;
    uint64_t wait_ms = send_queue(f, 0, &full);
    if (f->watch)
        hl_watch_set(f->watch, full ? HL_WRITABLE : 0);
    if (wait_ms)
        hl_timer_set(f->timer, wait_ms, 0);
    else
        hl_timer_stop(f->timer);
}

static void on_writable(void *ctx, int events)
{
    (void)events;
    go_on(ctx);
}

static void on_timer(void *ctx)
{
    go_on(ctx);
}

/* ---- life ---- */

/* Beyond it the manager would refuse, and say so in the log each time. */
static size_t manager_max(void)
{
    const char *max = getenv("FDSTORE");
    int64_t n;
    return max && !hl_parse_i64(max, 0, HL_FDSTORE_QUEUE_MAX, &n) ? (size_t)n
           : max                                                  ? HL_FDSTORE_QUEUE_MAX
                 : HL_FDSTORE_DEFAULT_MAX;
}

void hl_fdstore_delay(struct hl_fdstore *f, int ms)
{
    if (f)
        f->delay_ns = (int64_t)ms * 1000000;
}

struct hl_fdstore *hl_fdstore_new(struct hl_loop *l, int sock)
{
    struct hl_fdstore *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->sock = sock;
    f->end = &f->first;
    f->max = manager_max();
    f->timer = hl_timer_new(l, on_timer, f);
    f->watch = hl_watch_new(l, sock, on_writable, f); /* without: the timer serves */
    if (f->timer)
        return f;
    hl_fdstore_free(f);
    return NULL;
}

void hl_fdstore_free(struct hl_fdstore *f)
{
    if (!f)
        return;
    while (f->first)
        take_out(f, &f->first);
    hl_watch_free(f->watch, NULL);
    hl_timer_free(f->timer);
    free(f);
}

/* ---- keep and drop ---- */

int hl_fdstore_keep(struct hl_fdstore *f, char kind, uint32_t slot, int fd)
{
    if (!f || slot >= HL_FDSTORE_SLOTS)
        return -1;
    hl_fdstore_drop(f, kind, slot);
    int room = f->n_stored + f->n_keeps < f->max;
    int copy = room ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (copy < 0 || append(f, kind, slot, copy)) {
        if (copy >= 0)
            close(copy);
        return -1;
    }
    go_on(f);
    return 0;
}

void hl_fdstore_drop(struct hl_fdstore *f, char kind, uint32_t slot)
{
    if (!f || slot >= HL_FDSTORE_SLOTS)
        return;
    forget_queued_keep(f, kind, slot);
    if (!is_stored(f, kind, slot) || append(f, kind, slot, -1))
        return; /* no memory: it stays marked, the next user of the slot drops it */
    set_stored(f, kind, slot, 0);
    go_on(f);
}

void hl_fdstore_adopt(struct hl_fdstore *f, char kind, uint32_t slot)
{
    if (f && slot < HL_FDSTORE_SLOTS)
        set_stored(f, kind, slot, 1);
}

size_t hl_fdstore_queued(const struct hl_fdstore *f)
{
    return f ? f->n : 0;
}

size_t hl_fdstore_flush(struct hl_fdstore *f, int wait_ms)
{
    int full;
    if (!f)
        return 0;
    for (int waited = 0; send_queue(f, 1, &full) && waited < wait_ms; waited += 50) {
        struct pollfd p = {f->sock, POLLOUT, 0};
        if (!full)
            usleep(50000);
        else if (poll(&p, 1, wait_ms - waited) <= 0)
            break;
    }
    return f->n;
}
