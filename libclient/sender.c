/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches, acknowledgements, waiting, and going over to the file; see sender.h.
 * Reconnecting is in resume.c.
 */
#include "sender.h"

#include "resume.h"
#include "sys.h"

#include <string.h>

#define MS INT64_C(1000000)

enum { BATCH_BYTES = 48 << 10 };
static const int64_t batch_ns = 100 * MS, end_wait_ns = 2000 * MS;

/* ---- counting ---- */

static void count(struct hl_sender *d, int dropped)
{
    d->n_rows++;
    d->n_dropped += (uint64_t)dropped;
    if (d->ring.h) {
        __atomic_store_n(&d->ring.h->n_rows, d->n_rows, __ATOMIC_RELAXED);
        __atomic_store_n(&d->ring.h->n_dropped, d->n_dropped, __ATOMIC_RELAXED);
    }
    if (dropped)
        hl_sender_count_in_file(d);
}

void hl_sender_count_in_file(const struct hl_sender *d)
{
    const struct hl_bye bye = {d->n_dropped, d->n_rows};
    hl_fallback_count(&d->file, &bye);
}

void hl_sender_drop(struct hl_sender *d)
{
    if (!d->n_dropped)
        hl_say(&d->setup, "row %llu dropped: no place for it",
               (unsigned long long)d->n_rows);
    count(d, 1);
}

/* ---- out and in ---- */

static uint64_t stream_end(const struct hl_sender *d)
{
    return d->ring.h->head + d->n_extra;
}

static int unsent_pieces(const struct hl_sender *d, struct iovec v[3])
{
    const struct hl_row_buffer *h = d->ring.h;
    int n = 0;
    if (h->sent < h->head)
        n = hl_ring_pieces(&d->ring, h->sent, h->head, v);
    if (d->n_extra) {
        size_t done = h->sent > h->head ? (size_t)(h->sent - h->head) : 0;
        v[n++] = (struct iovec){(void *)(uintptr_t)(d->extra + done), d->n_extra - done};
    }
    return n;
}

void hl_sender_push(struct hl_sender *d)
{
    struct iovec v[3];
    ssize_t n;
    if (d->conn.state != HL_CONN_OPEN)
        return;
    d->last_send_ns = hl_sys_now();
    while (d->ring.h->sent < stream_end(d)) {
        n = hl_conn_send(&d->conn, v, unsent_pieces(d, v));
        if (n <= 0)
            break;
        d->ring.h->sent += (uint64_t)n;
    }
}

/* ---- waiting ---- */

enum want { WANT_ROOM, WANT_SENT, WANT_ACKED };

static int have(const struct hl_sender *d, enum want want, size_t n)
{
    const struct hl_row_buffer *h = d->ring.h;
    switch (want) {
    case WANT_ROOM: return hl_ring_free(&d->ring) >= n;
    case WANT_SENT: return h->sent == stream_end(d) && d->conn.state == HL_CONN_OPEN;
    default: return h->acked == stream_end(d);
    }
}

/* Until the collector has done it, at most limit without any answer. 0 or -1. */
static int wait_for(struct hl_sender *d, enum want want, size_t n, int64_t limit_ns)
{
    int64_t now = hl_sys_now(), deadline = now + limit_ns;
    while (!have(d, want, n)) {
        hl_sender_revive(d);
        if (d->sink != HL_SINK_COLLECTOR)
            return -1;
        hl_sender_push(d);
        if (hl_sender_collect(d))
            deadline = hl_sys_now() + limit_ns;
        if (have(d, want, n))
            return 0;
        if ((now = hl_sys_now()) >= deadline)
            return -1;
        int64_t left = deadline - now;
        if (d->conn.state == HL_CONN_CLOSED && left > HL_RETRY_NS)
            left = HL_RETRY_NS;
        hl_conn_wait(&d->conn,
                     d->conn.state == HL_CONN_OPEN && d->ring.h->sent < stream_end(d),
                     left);
    }
    return 0;
}

static int64_t patience(const struct hl_sender *d)
{
    return d->setup.drop || d->impatient ? 0 : d->setup.wait_ns;
}

enum waited { DONE, IN_VAIN, NOT_WILLING };

/* As long as the program is willing to; an answer restores its patience. */
static enum waited wait_patiently(struct hl_sender *d, enum want want, size_t n)
{
    int64_t limit = patience(d);
    if (wait_for(d, want, n, limit) == 0)
        return DONE;
    if (!limit && patience(d)) {
        limit = patience(d);
        if (wait_for(d, want, n, limit) == 0)
            return DONE;
    }
    return limit ? IN_VAIN : NOT_WILLING;
}

/* ---- one row ---- */

/* Before the row is committed, so that this cannot fail afterwards. */
static int keep_catalogs(struct hl_sender *d, const uint8_t *p, size_t n)
{
    if (!n)
        return 0;
    return hl_bytes_reserve(&d->marks, d->marks.n + sizeof(struct hl_mark)) ||
                   hl_bytes_add(&d->catalogs, p, n)
               ? -1
               : 0;
}

static void mark_catalogs(struct hl_sender *d, size_t n_row)
{
    struct hl_mark m = {d->ring.h ? d->ring.h->head - n_row : 0, d->catalogs.n};
    hl_bytes_add(&d->marks, &m, sizeof m);
}

static int to_file(struct hl_sender *d, const uint8_t *p, size_t n)
{
    return hl_fallback_append(&d->file, &d->setup, p, n);
}

/* The buffer stayed full for as long as the program is willing to wait. */
static int waited_in_vain(struct hl_sender *d, const uint8_t *p, size_t n)
{
    if (d->sink == HL_SINK_COLLECTOR && hl_sender_to_file(d)) {
        d->impatient = 1;
        return -1;
    }
    return d->sink == HL_SINK_FILE ? to_file(d, p, n) : -1;
}

/* Some of a frame that was given up is under way, and the collector may append
 * what is whole of it, now or later: its part of the stream is used up.  A new
 * connection makes the collector forget the torn message at its end. */
static void abandon_direct(struct hl_sender *d)
{
    struct hl_row_buffer *h = d->ring.h;
    if (h->sent <= h->head)
        return;
    hl_conn_close(&d->conn);
    hl_ring_jump(&d->ring, h->sent);
}

/* A frame that the buffer can never hold is held here until acknowledged; what
 * is in the buffer goes first, since the frame's end would take its place. */
static enum waited send_direct(struct hl_sender *d, const uint8_t *p, size_t n)
{
    enum waited w = wait_patiently(d, WANT_ACKED, 0);
    if (w != DONE)
        return w;
    d->extra = p;
    d->n_extra = n;
    w = wait_patiently(d, WANT_ACKED, 0);
    d->extra = NULL;
    d->n_extra = 0;
    if (w != DONE)
        abandon_direct(d);
    return w;
}

static void send_unshared(struct hl_sender *d)
{
    if (wait_patiently(d, WANT_SENT, 0) != IN_VAIN || d->sink != HL_SINK_COLLECTOR)
        return;
    if (hl_sender_to_file(d)) {
        hl_say(&d->setup, "the collector takes no rows, and a kill would lose them");
        d->impatient = 1;
    }
}

static int to_collector(struct hl_sender *d, const uint8_t *p, size_t n)
{
    int large = n > d->ring.capacity;
    enum waited w = large ? send_direct(d, p, n) : wait_patiently(d, WANT_ROOM, n);
    if (w == DONE && !large)
        hl_ring_put(&d->ring, p, n);
    if (w == IN_VAIN || (w == NOT_WILLING && d->sink == HL_SINK_FILE))
        return waited_in_vain(d, p, n);
    return w == DONE ? 0 : -1;
}

/* Send when it makes a good batch; nothing may lie unsent for long. */
static void send_batch(struct hl_sender *d)
{
    const struct hl_row_buffer *h = d->ring.h;
    if (h->head - h->sent < BATCH_BYTES && hl_sys_now() - d->last_send_ns < batch_ns)
        return;
    hl_sender_push(d);
    hl_sender_collect(d);
}

int hl_sender_commit(struct hl_sender *d, const uint8_t *p, size_t n, size_t n_catalogs)
{
    size_t kept = d->catalogs.n;
    hl_sender_revive(d);
    if (d->sink == HL_SINK_NONE || keep_catalogs(d, p, n_catalogs))
        goto dropped;
    /* Going over to the file writes the catalogs kept so far: not yet these. */
    d->catalogs.n = kept;
    if (d->sink == HL_SINK_FILE ? to_file(d, p, n) : to_collector(d, p, n))
        goto dropped;
    d->catalogs.n = kept + n_catalogs;
    if (n_catalogs && d->sink == HL_SINK_COLLECTOR)
        mark_catalogs(d, n);
    count(d, 0);
    if (d->sink == HL_SINK_COLLECTOR) {
        if (d->ring.fd < 0)
            send_unshared(d);
        else
            send_batch(d);
    }
    return 0;
dropped:
    d->catalogs.n = kept;
    hl_sender_drop(d);
    return -1;
}

/* ---- the end ---- */

/* Everything acknowledged, or in the hands of a collector that will read the
 * buffer when the process has ended; a short wait serves the latter. */
static void drain(struct hl_sender *d)
{
    int64_t limit = d->setup.wait_ns;
    int held = d->ring.fd >= 0 && d->conn.state == HL_CONN_OPEN;
    if ((held || *d->setup.fallback) && limit > end_wait_ns)
        limit = end_wait_ns;
    if (wait_for(d, WANT_ACKED, 0, limit) == 0 || d->sink != HL_SINK_COLLECTOR)
        return;
    if (d->ring.fd >= 0 && d->conn.state == HL_CONN_OPEN)
        return;
    hl_sender_give_up(d);
}

static void say_bye(struct hl_sender *d)
{
    struct hl_bye bye = {d->n_dropped, d->n_rows};
    uint8_t bytes[HL_WIRE_HEADER + 16];
    struct iovec v = {bytes, sizeof bytes};
    if (hl_encode_bye(bytes, sizeof bytes, &bye) < 0)
        return;
    if (d->sink == HL_SINK_FILE)
        hl_sender_count_in_file(d);
    else if (d->conn.state == HL_CONN_OPEN && d->ring.h->sent == d->ring.h->head)
        hl_conn_send(&d->conn, &v, 1); /* the counts are in the row buffer, too */
}

void hl_sender_finish(struct hl_sender *d)
{
    if (d->sink == HL_SINK_COLLECTOR)
        drain(d);
    say_bye(d);
    hl_conn_close(&d->conn);
}

void hl_sender_forget(struct hl_sender *d)
{
    hl_conn_close(&d->conn);
    if (hl_ring_shared(&d->ring))
        close(d->ring.fd);
    hl_fallback_close(&d->file);
    memset(d, 0, sizeof *d);
}
