/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection: reading with descriptors, the table of messages, answers.
 */
#ifndef HL_PEER_H
#define HL_PEER_H

#include "buf.h"
#include "daemon.h"
#include "messages.h"

enum hl_peer_state {
    HL_PEER_NEW,    /* no hello yet */
    HL_PEER_CLIENT, /* of a process */
    HL_PEER_KEEPER,
    HL_PEER_GATHER,
    HL_PEER_CONTROL, /* heaplinectl */
    HL_PEER_CLOSED   /* gone; memory until the loop lets go */
};

enum { HL_PEER_FDS = 2 };

struct hl_peer {
    struct hl_daemon *d;
    struct hl_user *user;
    struct hl_peer *next, *prev;
    int fd;
    struct hl_watch *watch;
    struct hl_timer *timer; /* until the hello; for a held back index */
    uid_t uid;
    int64_t pid; /* the kernel's; 0 unknown */
    enum hl_peer_state state;
    enum hl_role role;
    struct hl_buf in, out;
    int fds[HL_PEER_FDS]; /* came with the hello; owned until kept */
    int n_fds;
    int bad_fds;                /* descriptors where none belong */
    int closing;                /* refused: ends when the other side does */
    int want_ack;               /* an acknowledgement waits for room */
    struct hl_process *process; /* of a client */
    struct hl_job *job;         /* of a keeper or gather; NULL: not known */
    char key[256];              /* of a gather */
    unsigned pass;              /* daemon's number when it was last met */
    int indexing;               /* an index, or an answer to heaplinectl, is being sent */
    struct hl_control *control; /* that answer */
    size_t index_at;
};

/* Take over an accepted connection. */
void hl_peer_accept(struct hl_daemon *d, int fd);
/* Read at most about max bytes.  1: there may be more; 0: all was read for now,
 * or the process is held; -1: the connection has ended (and is closed). */
int hl_peer_drain(struct hl_peer *p, size_t max);
/* Queue an encoded message of n bytes as encoders return it. */
void hl_peer_send(struct hl_peer *p, const uint8_t *m, int64_t n);
/* Send what is queued, now as far as it goes. */
void hl_peer_flush(struct hl_peer *p);
/* Say why not, then close. */
void hl_peer_refuse(struct hl_peer *p, enum hl_refusal code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Close at once; the process it belongs to is told unless detached before. */
void hl_peer_close(struct hl_peer *p);
/* Part a connection from its process, without a word about either's end. */
void hl_peer_detach(struct hl_peer *p);
/* Go on reading after the disk took what was held. */
void hl_peer_resume(struct hl_peer *p);
/* Acknowledge what the spool has. */
void hl_peer_ack(struct hl_peer *p);

/* ---- hello.c ---- */
void hl_hello_take(struct hl_peer *p, const uint8_t *body, size_t n);

/* ---- answer.c: keepers and gathers ---- */
void hl_answer_take(struct hl_peer *p, const struct hl_wire_header *h,
                    const uint8_t *body);
/* There is room again: go on with an index. */
void hl_answer_continue(struct hl_peer *p);
/* All processes of the job have ended: indexes held back go out. */
void hl_answer_job_quiet(struct hl_job *j);

#endif
