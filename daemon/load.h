/* SPDX-License-Identifier: Apache-2.0
 *
 * A spool read back: what its process was and left.  Used at the start, when a
 * process comes back, and when somebody reads a job whose processes are folded.
 * Pure of the daemon's state: any thread.
 */
#ifndef HL_LOAD_H
#define HL_LOAD_H

#include "messages.h"
#include "points.h"
#include "spool.h"
#include "tally.h"

struct hl_loaded {
    struct hl_spool *spool; /* owned until taken */
    struct hl_tally tally;
    uint8_t *hello[2]; /* bodies, heap and frames; owned until taken */
    size_t hello_bytes[2];
    uint32_t flags; /* HL_PROC_... */
    unsigned n_hellos;
    struct hl_record_msg *record; /* the last one; owned until taken */
    int has_timeline;             /* a hello wanted one */
    struct hl_points_found points;
    uint64_t n_points_gone; /* that its record counted, and its file lacks */
    uint64_t n_dropped, n_lost;
    int lost_reason;
    int has_slot;
    struct hl_slot slot; /* the last one; none behind a final record */
    struct hl_spool_head head;
    char key[HL_KEY_MAX + 1];
};

/* Read a spool of this uid; 0, or -1 and *e. */
int hl_load(struct hl_loaded *l, struct hl_spool_pool *pool, uid_t uid, const char *name,
            struct hl_err *e);
/* What its file of points holds, for a spool that cannot be read. */
void hl_load_points(struct hl_loaded *l, struct hl_spool_pool *pool, const char *name);
/* Its head alone (key and head are filled in). */
int hl_load_head(struct hl_loaded *l, int fd, uid_t uid);
/* Free what was not taken. */
void hl_loaded_fini(struct hl_loaded *l);

#endif
