/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to a collector: connect, hello with the row buffer, bytes
 * out, answers in.  Never blocks except in hl_conn_wait; never raises SIGPIPE.
 * The holder has the lock.
 */
#ifndef HL_CLIENT_CONN_H
#define HL_CLIENT_CONN_H

#include "setup.h"

#include <sys/uio.h>

enum hl_conn_state {
    HL_CONN_CLOSED = 0,
    HL_CONN_GREETED, /* hello sent, no answer yet: nothing may follow it */
    HL_CONN_OPEN
};

struct hl_conn {
    enum hl_conn_state state;
    int fd;
    struct hl_fd_id id;
    size_t n_in;
    uint8_t in[2048]; /* answers are at most 1040 bytes */
};

enum hl_answer {
    HL_ANSWER_NONE = 0,
    HL_ANSWER_OK,      /* *offset: where the collector wants the stream resumed */
    HL_ANSWER_ACK,     /* *offset: the stream is kept up to there */
    HL_ANSWER_HELD,    /* the disk does not take rows now, or does again; it was told */
    HL_ANSWER_REFUSED, /* the connection is closed; the reason was told */
    HL_ANSWER_BROKEN   /* the connection is closed */
};

/* Connect and send the hello.  buffer_fd: row buffer to hand over, or -1.
 * 0; -EAGAIN: the collector is there but has no room yet; other negative
 * values: no collector there, or not one to talk to. */
int hl_conn_open(struct hl_conn *c, const struct hl_setup *s, const char *path,
                 const struct hl_hello *hello, int buffer_fd);
void hl_conn_close(struct hl_conn *c);

/* The next answer that has arrived. */
enum hl_answer hl_conn_next(struct hl_conn *c, const struct hl_setup *s,
                            uint64_t *offset);

/* Send what goes without waiting: bytes sent, 0 when full, -1: closed now. */
ssize_t hl_conn_send(struct hl_conn *c, struct iovec *v, int n);

/* Wait for an answer, or for room as well, at most ns. */
void hl_conn_wait(struct hl_conn *c, int for_room, int64_t ns);

#endif
