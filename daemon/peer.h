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
    uint8_t bad_fds;            /* descriptors where none belong */
    uint8_t closing;            /* refused: ends when the other side does */
    uint8_t want_ack;           /* an acknowledgement waits for room */
    uint8_t want_ok;            /* HELLO_OK waits for what is on its way to the disk */
    uint8_t parked;             /* is in the daemon's list of those that wait for room */
    uint8_t indexing;           /* an answer is being made: nothing more is taken */
    uint8_t indexed;            /* it was told what there is to pull */
    uint8_t waits_for_load;     /* of a process that is folded */
    uint8_t points_flushed;     /* what an index counts is on its way to the disk */
    uint8_t awaits_taken;       /* TAKEN_OK, until the marker is on the disk */
    uint8_t told_held;          /* was told that the disk does not take its rows */
    uint64_t acked;             /* offset that it was told last */
    struct hl_process *process; /* of a client */
    struct hl_job *job;         /* of a keeper or gather; NULL: not known */
    char *key;                  /* of a gather; owned */
    unsigned pass;              /* daemon's number when it was last met */
    struct hl_control *control; /* an answer to heaplinectl */
    size_t index_at;
    uint64_t index_pass;       /* batch that must be written first; 0 not known yet */
    struct hl_pull_task *pull; /* under way */
    struct hl_peer *next_parked;
};

/* Take over an accepted connection. */
void hl_peer_accept(struct hl_daemon *d, int fd);
/* Read at most about max bytes.  1: there may be more; HL_DRAIN_NO_ROOM: there is,
 * but no room for it now; 0: all was read for now, or the disk does not take the
 * process's bytes; -1: the connection has ended (and is closed). */
enum { HL_DRAIN_NO_ROOM = 2 };
int hl_peer_drain(struct hl_peer *p, size_t max);
/* There is room again: those that wait for it are read, in turn. */
void hl_peer_unpark(struct hl_daemon *d);
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
/* Acknowledge what the spool has, if it was not said yet. */
void hl_peer_ack(struct hl_peer *p);
/* Say that the disk does not take its rows (reason: errno value), or does again
 * (0). */
void hl_peer_tell_held(struct hl_peer *p, int reason);

/* ---- hello.c ---- */
void hl_hello_take(struct hl_peer *p, const uint8_t *body, size_t n);
/* The HELLO_OK that had to wait. */
void hl_hello_answer(struct hl_peer *p);

/* ---- answer.c: keepers and gathers ---- */
void hl_answer_take(struct hl_peer *p, const struct hl_wire_header *h,
                    const uint8_t *body);
/* A gather has said hello: its job, if it is known, stays while it is connected. */
void hl_answer_greeted(struct hl_peer *p);
/* There is room again: go on with an index. */
void hl_answer_continue(struct hl_peer *p);
/* All processes of the job have ended: indexes held back go out. */
void hl_answer_job_quiet(struct hl_job *j);
/* Processes of the job were loaded: indexes that waited for them go on. */
void hl_answer_loaded(struct hl_job *j);
/* The peer is closed: answers under way know it no more. */
void hl_answer_peer_gone(struct hl_peer *p);
/* What an earlier run left is known now. */
void hl_answer_scanned(struct hl_daemon *d);

#endif
