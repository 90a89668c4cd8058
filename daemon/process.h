/* SPDX-License-Identifier: Apache-2.0
 *
 * One image of one process: what its agents handed over, its spool, its record.
 */
#ifndef HL_PROCESS_H
#define HL_PROCESS_H

#include "buf.h"
#include "daemon.h"
#include "messages.h"
#include "tally.h"

enum hl_process_state { HL_PROCESS_ALIVE, HL_PROCESS_ENDING, HL_PROCESS_ENDED };

struct hl_process {
    struct hl_daemon *d;
    struct hl_job *job;
    uint32_t id; /* place in the job */
    enum hl_process_state state;
    uint32_t flags;          /* HL_PROC_... */
    int64_t pid, kernel_pid; /* as it says; as we see it, 0 unknown */
    uint64_t start_ticks, image;
    uint8_t *hello[2]; /* bodies of the hellos, heap and frames; owned */
    size_t hello_bytes[2];
    unsigned n_hellos;           /* in the spool, but the first */
    struct hl_peer *peer[2];     /* connections, heap and frames */
    int page_fd, rows_fd, pidfd; /* -1 none; owned */
    uint64_t rows_size;
    struct hl_watch *pid_watch;
    struct hl_spool spool;
    struct hl_tally tally;
    struct hl_buf pending;        /* checked messages that the disk did not take yet */
    struct hl_record_msg *record; /* final, or told by an agent without a page */
    int record_unsaved;
    int64_t vmhwm_bytes, vmrss_bytes; /* last sample; -1 none */
    uint64_t n_counted; /* operations at the last sample: does it stand still? */
    uint32_t n_still;   /* samples since */
    uint64_t n_dropped, n_lost;
    int lost_reason;                 /* errno value, or 0 */
    int64_t end_seen_ns;             /* when it was found dead */
    int32_t slot;                    /* keep.c's, as are the next; -1 none */
    uint64_t page_inode, rows_inode; /* kept by the service manager; 0 not */
    unsigned n_slots_noted;
    int sample_due, keep_again, note_again;
    int ended_by_exec;
    struct hl_process *next_ending;
};

/* Find by image; NULL. */
struct hl_process *hl_process_find(struct hl_daemon *d, uid_t uid, int64_t pid,
                                   uint64_t image);
/* A process that says its first hello (body: of that message), with its spool.
 * NULL and *e. */
struct hl_process *hl_process_start(struct hl_job *j, const struct hl_hello *h,
                                    const uint8_t *body, size_t n, struct hl_err *e);
/* The same from a spool file found at start (state ENDED). */
struct hl_process *hl_process_restore(struct hl_job *j, int64_t pid, uint64_t start_ticks,
                                      uint64_t image);
/* An ended one is back: a spool found at start, or a peer of unknown pid. */
void hl_process_revive(struct hl_process *p);
/* Keep a hello's body as the process's of that role; 0 or -1 (no memory). */
int hl_process_keep_hello(struct hl_process *p, unsigned role, const uint8_t *body,
                          size_t n);
/* Watch for the end of the process behind a connection. */
void hl_process_watch(struct hl_process *p, int sock, int64_t kernel_pid);

/* Append checked stream messages.  0; 1: the disk does not take them now, they
 * are held and the process is not read on until they are written. */
int hl_process_append(struct hl_process *p, const uint8_t *msgs, size_t n);
/* Try again; 0 when nothing is held any more. */
int hl_process_retry(struct hl_process *p);
/* Append messages outside the stream; 0 or a negative errno. */
int hl_process_note(struct hl_process *p, const uint8_t *msgs, size_t n);

/* The record as it is now, from the page if there is one. */
void hl_process_record(struct hl_process *p, int64_t now_ns, struct hl_record_msg *out);
/* Its line of the index; texts are borrowed from the process. */
void hl_process_describe(struct hl_process *p, struct hl_proc *out);

/* Resident sizes from /proc; always: even if its counters stand still. */
void hl_process_sample(struct hl_process *p, int always);
void hl_process_close_descriptors(struct hl_process *p);
/* Free the memory; the spool file stays. */
void hl_process_free(struct hl_process *p);

/* ---- death.c ---- */

/* The process has ended, or its image by exec: read what it left. */
void hl_death_begin(struct hl_process *p, const char *cause);
/* A connection is gone; where the pid is unknown, so is the process. */
void hl_death_peer_gone(struct hl_process *p);
/* Read all that ended processes left, now. */
void hl_death_finish_all(struct hl_daemon *d);
/* A keeper knows how it ended. */
void hl_death_told(struct hl_process *p, const struct hl_end *end);
/* RECORD, BYE and LOSS into the spool; 0 or a negative errno. */
int hl_death_save(struct hl_process *p);
void hl_death_on_timer(void *daemon);

#endif
