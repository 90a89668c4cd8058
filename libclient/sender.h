/* SPDX-License-Identifier: Apache-2.0
 *
 * Where frames go: row buffer and collector, or the fallback file, or nowhere,
 * counted.  One for the process: a second session of a process goes on in the
 * same stream, since image and role are the same.  The holder has the frame
 * lock.  No helper thread: everything happens inside the calls.
 */
#ifndef HL_CLIENT_SENDER_H
#define HL_CLIENT_SENDER_H

#include "conn.h"
#include "fallback.h"
#include "memory.h"
#include "ring.h"

enum hl_sink {
    HL_SINK_NONE = 0,  /* nobody takes rows: they are dropped and counted */
    HL_SINK_COLLECTOR, /* row buffer and socket */
    HL_SINK_FILE       /* fallback file, for the rest of the process */
};

struct hl_mark { /* catalogs that came with one row */
    uint64_t stream_at;
    size_t end; /* of them in hl_sender.catalogs; they begin at the mark before */
};

struct hl_sender {
    struct hl_setup setup;
    enum hl_sink sink;
    struct hl_hello hello;
    struct hl_ring ring;
    struct hl_conn conn;
    struct hl_fallback file;
    struct hl_bytes catalogs; /* every CATALOG message of the stream so far */
    struct hl_bytes marks;    /* of struct hl_mark: where in the stream they are */
    unsigned first_socket;    /* those before it refused us for good */
    int impatient;            /* a wait timed out: drop until the next answer */
    int64_t last_send_ns, last_try_ns;
    const uint8_t *extra; /* a frame larger than the buffer, being sent */
    size_t n_extra;
    uint64_t appended; /* the offset the collector told last */
    uint64_t n_rows, n_dropped;
};

/* Find a sink; waits at most 2 s for a collector's answer. */
void hl_sender_start(struct hl_sender *d);

/* The application's version came after the start: greet again with it. */
void hl_sender_greet_again(struct hl_sender *d);

/* Commit one row: n bytes, catalogs first (n_catalogs of the bytes).
 * 0, or -1: dropped and counted. */
int hl_sender_commit(struct hl_sender *d, const uint8_t *p, size_t n, size_t n_catalogs);

/* A row that could not even be encoded. */
void hl_sender_drop(struct hl_sender *d);

/* Tell the fallback file, if there is one, what was dropped by now. */
void hl_sender_count_in_file(const struct hl_sender *d);

/* Send what is left, wait for its acknowledgement, say goodbye. */
void hl_sender_finish(struct hl_sender *d);

/* In a forked child: let go of everything of the parent's, touching nothing. */
void hl_sender_forget(struct hl_sender *d);

#endif
