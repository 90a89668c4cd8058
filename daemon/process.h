/* SPDX-License-Identifier: Apache-2.0
 *
 * One image of one process: what its agents handed over, its spool, its record.
 * Ended ones that nobody reads are folded: their job knows their names, the rest
 * is in their spools (load.h).
 */
#ifndef HL_PROCESS_H
#define HL_PROCESS_H

#include "append.h"
#include "buf.h"
#include "daemon.h"
#include "messages.h"
#include "tally.h"
#include "timeline.h"

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
    struct hl_spool *spool; /* owned; freed behind the last write */
    struct hl_tally tally;
    struct hl_progress written; /* on the disk, so acknowledged */
    uint32_t n_flying;          /* pieces in batches, and what is tried again */
    struct hl_buf held;         /* checked messages that are in no batch */
    uint64_t held_at;           /* their place in the file */
    uint64_t settled_pass;
    uint16_t n_slots;             /* in use in the page when it was read last */
    uint8_t watched;              /* its pidfd was asked for */
    uint8_t retrying;             /* what was held is on its way */
    uint8_t loading;              /* its former spool is being read */
    uint8_t failing;              /* the disk does not take its bytes */
    uint8_t recount;              /* its own count will say what its spool lacks */
    uint8_t broken;               /* nothing more can be kept of it */
    uint8_t discards;             /* what comes is acknowledged, and counted as lost */
    uint8_t record_noted;         /* the final record has its place in the spool */
    struct hl_record_msg *record; /* final, or told by an agent without a page */
    int64_t vmhwm_bytes, vmrss_bytes; /* last sample; -1 none */
    uint64_t n_counted; /* operations at the last sample: does it stand still? */
    uint32_t n_still;   /* samples since */
    struct hl_timeline *timeline; /* NULL: none is wanted; owned */
    uint64_t n_points;            /* of it, on the disk */
    uint64_t n_points_bad;        /* of these, damaged */
    uint64_t n_points_gone;       /* taken, but not there any more, or dropped */
    int64_t last_point_ns;        /* time of its newest, taken or found */
    uint64_t n_dropped, n_lost;
    int lost_reason;                 /* errno value, or 0 */
    int64_t end_seen_ns;             /* when it was found dead */
    int32_t slot;                    /* keep.c's, as are the next; -1 none */
    uint64_t page_inode, rows_inode; /* kept by the service manager; 0 not */
    unsigned n_slots_noted;
    int sample_due, keep_again;
    int ended_by_exec;
    struct hl_process *next_ending;
    struct hl_process *next, *prev; /* of the list that its state says */
};

/* Find by image; NULL. */
struct hl_process *hl_process_find(struct hl_daemon *d, uid_t uid, int64_t pid,
                                   uint64_t image);
/* A process that says its first hello (body: of that message), with its spool.
 * NULL and *e. */
struct hl_process *hl_process_start(struct hl_job *j, const struct hl_hello *h,
                                    const uint8_t *body, size_t n, struct hl_err *e);
/* The place member of the job again, from its spool (state ENDED); takes over
 * what was loaded.  NULL: no memory. */
struct hl_loaded;
struct hl_process *hl_process_restore(struct hl_job *j, size_t member,
                                      struct hl_loaded *l);
/* An ended one is back: a spool found at start, or a peer of unknown pid. */
void hl_process_revive(struct hl_process *p);
/* Keep a hello's body as the process's of that role; 0 or -1 (no memory). */
int hl_process_keep_hello(struct hl_process *p, unsigned role, const uint8_t *body,
                          size_t n);
/* A hello's body into its spool; 0 or a negative errno. */
int hl_process_note_hello(struct hl_process *p, const uint8_t *body, size_t n);
/* Watch for the end of the process behind one of its connections. */
void hl_process_watch(struct hl_process *p);

/* Its pidfd says that it has ended, whether or not that was met already. */
int hl_process_is_gone(const struct hl_process *p);

/* What was on its way to the disk has arrived there, or is held: answers, the
 * work of the dead and waiting hellos go on. */
void hl_process_settled(struct hl_process *p);
/* Rows of it that were taken, and are not kept. */
uint64_t hl_process_lost(const struct hl_process *p);
/* The disk does not take all of what was read of it, and may yet. */
int hl_process_is_held(const struct hl_process *p);
/* Nothing of it is in the air: it may be freed. */
int hl_process_is_settled(const struct hl_process *p);
/* The spool's file exists: an earlier life of the same image. */
void hl_process_meet_former(struct hl_process *p);
/* Its file is gone (reason: errno value): what was in it counts as lost, and its
 * spool begins anew. */
void hl_process_begin_again(struct hl_process *p, int reason);
/* Move into the list of another state. */
void hl_process_set_state(struct hl_process *p, enum hl_process_state s);
/* Free what nobody needs to remember of an ended one, if so. */
void hl_process_fold(struct hl_process *p);

/* The head of its spool and of its points; the key is the job's. */
struct hl_spool_head hl_process_spool_head(const struct hl_process *p);

/* The record as it is now, from the page if there is one.  look: the end is what the
 * page says, also of one that is on its way out; record: of one that lives, none. */
void hl_process_look(struct hl_process *p, int64_t now_ns, struct hl_record_msg *out);
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
/* Nobody is left whose last bytes are to be read. */
int hl_death_is_done(const struct hl_daemon *d);
/* There is room for bytes again. */
void hl_death_go_on(struct hl_daemon *d);
/* n rows of one that has ended will never be on the disk: counted and logged. */
void hl_death_lost(struct hl_process *p, uint64_t n);
/* A keeper knows how it ended. */
void hl_death_told(struct hl_process *p, const struct hl_end *end);
/* RECORD, BYE and LOSS into the spool. */
void hl_death_save(struct hl_process *p);
void hl_death_on_timer(void *daemon);

#endif
