/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding, keeping and leaving a collector; see resume.h.
 */
#include "resume.h"

#include "image.h"
#include "sys.h"

#include <errno.h>
#include <string.h>

#define MS INT64_C(1000000)

static const int64_t greeting_wait_ns = 2000 * MS, nobody_retry_ns = 1000 * MS;

static struct hl_str text(const char *s)
{
    return (struct hl_str){s, strlen(s)};
}

static void describe(struct hl_sender *d)
{
    const struct hl_setup *s = &d->setup;
    int shared = hl_ring_shared(&d->ring);
    d->hello = (struct hl_hello){
        .wire_min = HL_WIRE_VERSION_MIN,
        .wire_max = HL_WIRE_VERSION,
        .role = HL_ROLE_FRAMES,
        .flags = shared ? HL_HELLO_ROWS : HL_HELLO_UNSHARED,
        .pid = getpid(),
        .start_ticks = hl_start_ticks(),
        .image = hl_image(),
        .rank = s->rank,
        .size = s->size,
        .interval_ns = s->interval_ns,
        .key = text(s->key),
        .host = text(s->host),
        .job = text(s->job),
        .app_version = text(s->app_version),
    };
}

/* The list's entry i at out; 1, or 0 at the end of the list. */
static int socket_at(const struct hl_setup *s, unsigned i, char *out, size_t cap)
{
    const char *p = s->sockets;
    for (; *p; p += *p == ':') {
        size_t n = strcspn(p, ":");
        if (n && i-- == 0) {
            n = n < cap ? n : cap - 1;
            memcpy(out, p, n);
            out[n] = 0;
            return 1;
        }
        p += n;
    }
    return 0;
}

/* Connect and greet the first collector that is there.  0; -EAGAIN: one is
 * there, but has no room in its queue; -1. */
static int greet_any(struct hl_sender *d)
{
    char path[512];
    int busy = 0;
    d->last_try_ns = hl_sys_now();
    for (unsigned i = d->first_socket; socket_at(&d->setup, i, path, sizeof path); i++) {
        if (!d->ring.h && hl_ring_make(&d->ring, d->setup.buffer_bytes, hl_image()))
            return -1;
        describe(d);
        int fd = d->hello.flags & HL_HELLO_ROWS ? d->ring.fd : -1;
        int e = hl_conn_open(&d->conn, &d->setup, path, &d->hello, fd);
        if (e == 0) {
            d->first_socket = i; /* refused: the next one is asked */
            d->ring.h->sent = d->ring.h->acked;
            d->sink = HL_SINK_COLLECTOR;
            return 0;
        }
        busy |= e == -EAGAIN;
    }
    return busy ? -EAGAIN : -1;
}

/* ---- answers ---- */

/* Refused: by this collector for the rest of the process. */
static void refused(struct hl_sender *d)
{
    d->first_socket++;
    if (greet_any(d))
        hl_sender_give_up(d);
}

static struct hl_mark *marks(const struct hl_sender *d, size_t *n)
{
    *n = d->marks.n / sizeof(struct hl_mark);
    return (struct hl_mark *)(void *)d->marks.p;
}

/* Catalogs in [from, to) of the stream: their bytes in d->catalogs. */
static struct iovec catalogs_within(const struct hl_sender *d, uint64_t from, uint64_t to)
{
    size_t n, first = 0, last;
    const struct hl_mark *m = marks(d, &n);
    while (first < n && m[first].stream_at < from)
        first++;
    for (last = first; last < n && m[last].stream_at < to;)
        last++;
    size_t begin = first ? m[first - 1].end : 0;
    return (struct iovec){d->catalogs.p + begin,
                          last > first ? m[last - 1].end - begin : 0};
}

/* Marks at or behind `to` go with what is held, those in [from, to) before it. */
static void move_marks(struct hl_sender *d, uint64_t from, uint64_t to, size_t n_again)
{
    size_t n;
    struct hl_mark *m = marks(d, &n);
    for (size_t i = 0; i < n; i++)
        if (m[i].stream_at >= to)
            m[i].stream_at = m[i].stream_at - to + from + n_again;
        else if (m[i].stream_at > from)
            m[i].stream_at = from;
}

/* The collector lost what it had acknowledged, from `appended` on.  What is
 * still held moves there, so that the offsets of both agree (it reads this
 * buffer by them after a kill), behind the catalogs that were lost. */
static int close_gap(struct hl_sender *d, uint64_t appended)
{
    struct hl_row_buffer *h = d->ring.h;
    struct iovec again = catalogs_within(d, appended, h->acked);
    size_t held = (size_t)(h->head - h->acked), n = held + again.iov_len;
    if (n > d->ring.capacity)
        return -1;
    uint8_t *p = n ? hl_map_new(n) : NULL;
    if (n && !p)
        return -1;
    if (again.iov_len)
        memcpy(p, again.iov_base, again.iov_len);
    if (held)
        hl_ring_get(&d->ring, h->acked, p + again.iov_len, held);
    move_marks(d, appended, h->acked, again.iov_len);
    hl_ring_jump(&d->ring, appended);
    if (n)
        hl_ring_put(&d->ring, p, n);
    hl_map_free(p, n);
    return 0;
}

static int resume_at(struct hl_sender *d, uint64_t appended)
{
    struct hl_row_buffer *h = d->ring.h;
    if (appended > h->head + d->n_extra) {
        hl_say(&d->setup, "the collector claims to have rows that were never sent");
        hl_conn_close(&d->conn);
        refused(d);
        return 0;
    }
    if (appended < h->acked) {
        hl_say(&d->setup, "the collector lost %llu bytes of rows",
               (unsigned long long)(h->acked - appended));
        d->appended = appended;
        if (close_gap(d, appended)) {
            hl_conn_close(&d->conn);
            refused(d);
            return 0;
        }
    }
    h->sent = appended;
    return 1;
}

/* 1: the collector has more than before. */
static int acknowledged(struct hl_sender *d, uint64_t upto)
{
    struct hl_row_buffer *h = d->ring.h;
    int progress = upto > d->appended;
    d->appended = upto;
    if (progress)
        d->impatient = 0;
    if (d->n_extra && upto == h->head + d->n_extra)
        hl_ring_jump(&d->ring, upto), d->n_extra = 0;
    else if (upto > h->acked)
        hl_ring_ack(&d->ring, upto);
    return progress;
}

int hl_sender_collect(struct hl_sender *d)
{
    uint64_t offset = 0;
    int progress = 0;
    while (d->conn.state != HL_CONN_CLOSED && d->sink == HL_SINK_COLLECTOR) {
        switch (hl_conn_next(&d->conn, &d->setup, &offset)) {
        case HL_ANSWER_NONE: return progress;
        case HL_ANSWER_OK:
            if (resume_at(d, offset))
                progress |= acknowledged(d, offset);
            break;
        case HL_ANSWER_ACK:
            if (offset > d->ring.h->sent) {
                hl_conn_close(&d->conn); /* more than it was sent: nonsense */
                break;
            }
            progress |= acknowledged(d, offset);
            break;
        case HL_ANSWER_REFUSED: refused(d); break;
        case HL_ANSWER_HELD:
        case HL_ANSWER_BROKEN: break;
        }
    }
    return progress;
}

/* ---- going over to the file ---- */

/* Rows in the buffer, without catalogs: the file begins with all of those. */
static int copy_rows(struct hl_sender *d, struct hl_bytes *to)
{
    const struct hl_row_buffer *h = d->ring.h;
    uint64_t n;
    unsigned type;
    for (uint64_t at = h->acked; at < h->head; at += n) {
        n = hl_ring_message(&d->ring, at, &type);
        if (!n || n > h->head - at || hl_bytes_reserve(to, to->n + n))
            return -1;
        if (type != HL_MSG_ROWS)
            continue;
        hl_ring_get(&d->ring, at, to->p + to->n, n);
        to->n += n;
    }
    return 0;
}

int hl_sender_to_file(struct hl_sender *d)
{
    const struct hl_bye bye = {d->n_dropped, d->n_rows};
    struct hl_bytes held = {NULL, 0, 0};
    int e = -1;
    describe(d);
    if (!*d->setup.fallback || hl_bytes_add(&held, d->catalogs.p, d->catalogs.n) ||
        (d->ring.h && copy_rows(d, &held)) ||
        hl_fallback_open(&d->file, &d->setup, &d->hello, &bye) ||
        (held.n && hl_fallback_append(&d->file, &d->setup, held.p, held.n)))
        goto out;
    hl_say(&d->setup, "rows go to a file in %s from now on", d->setup.fallback);
    hl_conn_close(&d->conn);
    d->sink = HL_SINK_FILE;
    e = 0;
out:
    hl_bytes_free(&held);
    return e;
}

static uint64_t rows_held(const struct hl_sender *d)
{
    uint64_t at = d->ring.h->acked, n, rows = 0;
    unsigned type;
    for (; at < d->ring.h->head && (n = hl_ring_message(&d->ring, at, &type)); at += n) {
        uint64_t first_cell = 0;
        hl_ring_get(&d->ring, at + HL_WIRE_HEADER + 16, &first_cell, sizeof first_cell);
        rows += type == HL_MSG_ROWS && first_cell == 0; /* a row begins */
    }
    return rows;
}

void hl_sender_give_up(struct hl_sender *d)
{
    if (hl_sender_to_file(d) == 0)
        return;
    hl_conn_close(&d->conn);
    d->sink = HL_SINK_NONE;
    d->first_socket = 0; /* who refused may accept later: a drain ends */
    if (!d->ring.h)
        return;
    uint64_t lost = rows_held(d);
    if (lost)
        hl_say(&d->setup, "no collector: %llu rows lost", (unsigned long long)lost);
    d->n_dropped += lost;
    __atomic_store_n(&d->ring.h->n_dropped, d->n_dropped, __ATOMIC_RELAXED);
    hl_sender_count_in_file(d);
    hl_ring_jump(&d->ring, d->ring.h->head);
}

/* ---- start and return ---- */

static void await_greeting(struct hl_sender *d)
{
    int64_t deadline = hl_sys_now() + greeting_wait_ns, now;
    while (d->sink == HL_SINK_COLLECTOR && d->conn.state != HL_CONN_OPEN &&
           (now = hl_sys_now()) < deadline) {
        hl_conn_wait(&d->conn, 0,
                     d->conn.state == HL_CONN_CLOSED ? HL_RETRY_NS : deadline - now);
        hl_sender_collect(d);
        hl_sender_revive(d);
    }
}

static void greet_patiently(struct hl_sender *d)
{
    int64_t deadline = hl_sys_now() + greeting_wait_ns;
    while (greet_any(d) == -EAGAIN && hl_sys_now() < deadline)
        hl_conn_wait(&d->conn, 0, 10 * MS);
    if (d->conn.state == HL_CONN_GREETED)
        await_greeting(d);
}

void hl_sender_start(struct hl_sender *d)
{
    d->impatient = 0;
    d->last_send_ns = hl_sys_now();
    if (d->sink == HL_SINK_FILE && d->file.open)
        return;
    if (!d->ring.h)
        d->sink = HL_SINK_NONE;
    greet_patiently(d);
    if (d->conn.state == HL_CONN_CLOSED && d->sink != HL_SINK_FILE &&
        hl_sender_to_file(d) && !(d->ring.h && d->ring.h->head > d->ring.h->acked))
        d->sink = HL_SINK_NONE;
}

void hl_sender_greet_again(struct hl_sender *d)
{
    if (d->sink == HL_SINK_FILE && !d->n_rows) {
        const struct hl_bye bye = {d->n_dropped, d->n_rows};
        describe(d);
        hl_fallback_greet_again(&d->file, &d->setup, &d->hello, &bye);
    }
    if (d->sink != HL_SINK_COLLECTOR)
        return;
    hl_conn_close(&d->conn);
    greet_patiently(d);
}

void hl_sender_revive(struct hl_sender *d)
{
    int64_t pause = d->sink == HL_SINK_NONE ? nobody_retry_ns : HL_RETRY_NS;
    if (d->sink == HL_SINK_FILE || d->conn.state != HL_CONN_CLOSED ||
        hl_sys_now() - d->last_try_ns < pause)
        return;
    greet_any(d);
}
