/* SPDX-License-Identifier: Apache-2.0
 *
 * The spool of one process: a file of messages, SPOOL first, then HELLO,
 * CATALOG, ROWS, SLOT, RECORD, BYE and LOSS, only ever appended to.  Stream
 * offsets count CATALOG and ROWS alone; extents map them to the file.  A tail
 * that was torn by a crash is cut when the file is loaded again.
 *
 * A spool has two halves, so that the disk may be waited for in another thread:
 * the map says what lies where and belongs to the thread that appends; the file
 * belongs to the one that writes.  hl_spool_note gives bytes their place,
 * hl_spool_write puts them there; writing again at the same place is harmless.
 *
 * Files are opened when they are needed and closed again when a pool has too
 * many open: thousands of spools need few descriptors.
 */
#ifndef HL_SPOOL_H
#define HL_SPOOL_H

#include "err.h"
#include "wire.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hl_spool;

/* Shared by all spools below one folder; belongs to the writing thread. */
struct hl_spool_pool {
    int root;        /* O_DIRECTORY descriptor, borrowed */
    size_t max_open; /* descriptors to keep */
    size_t n_open;
    struct hl_spool *newest, *oldest; /* open ones by last use */
    struct hl_spool *dirty;           /* written since they were synced */
    /* Seam for tests: as pwrite(2). */
    ssize_t (*write)(int fd, const void *p, size_t n, off_t at);
};

/* Stream bytes [stream, next extent's stream) lie at file onwards. */
struct hl_spool_extent {
    uint64_t stream, file;
};
struct hl_spool_catalog {
    uint64_t stream; /* offset of the CATALOG message */
    uint64_t before; /* bytes of the catalogs before it */
    uint32_t bytes;
};

struct hl_spool {
    char *name; /* below the root; owned; never changes */
    /* the map */
    uint64_t size;          /* bytes of whole messages */
    uint64_t stream_bytes;  /* CATALOG and ROWS messages */
    uint64_t catalog_bytes; /* CATALOG messages */
    uint64_t cut_bytes;     /* of a torn tail, cut by hl_spool_load */
    int is_damaged;         /* sound words of its end follow: nothing was cut, and
                             * nothing is taken any more (-EBADMSG) */
    int has_bad_tail;       /* the tail is damaged, not torn: it is cut when something
                             * is to be written behind the sound part */
    struct hl_spool_extent *extent;
    size_t n_extents;
    struct hl_spool_catalog *catalog;
    size_t n_catalogs;
    /* the file */
    struct hl_spool_pool *pool;
    int fd;   /* -1 while closed */
    int made; /* it exists: a file that is gone is not made again */
    struct hl_spool *newer, *older, *next_dirty;
    int is_dirty;
    int failed; /* of the last write, and where: nothing is written behind it */
    uint64_t failed_at;
};

/* Something in its file was changed by somebody else, and is not read. */
static inline int hl_spool_has_damage(const struct hl_spool *s)
{
    return s->is_damaged || s->has_bad_tail;
}

enum { HL_SPOOL_EXTENTS_MAX = 65536, HL_SPOOL_CATALOGS_MAX = 65536 };

void hl_spool_pool_init(struct hl_spool_pool *p, int root, size_t max_open);

/* n bytes at a place of a file of the pool, whole.  0 or a negative errno. */
int hl_spool_pool_write(const struct hl_spool_pool *pool, int fd, const uint8_t *p,
                        size_t n, uint64_t at);

/* A spool whose file will be made by the first write; name is copied.  0 or -1
 * (no memory). */
int hl_spool_init(struct hl_spool *s, struct hl_spool_pool *pool, const char *name);
/* Close and free what is held; the file stays.  Both halves. */
void hl_spool_fini(struct hl_spool *s);

/* ---- the map ---- */

/* Give whole, checked messages of n bytes the next place; *at: where in the file
 * they belong.  0, or a negative errno: nothing has changed. */
int hl_spool_note(struct hl_spool *s, const uint8_t *p, size_t n, uint64_t *at);

/* A piece of the file. */
struct hl_spool_piece {
    uint64_t at;
    size_t n;
};
/* Where at most n bytes of the stream (or of its catalogs alone) from an offset
 * lie: at most cap pieces in their order.  Returns how many; 0 at the end. */
size_t hl_spool_plan(const struct hl_spool *s, uint64_t offset, size_t n,
                     struct hl_spool_piece *out, size_t cap);
size_t hl_spool_plan_catalogs(const struct hl_spool *s, uint64_t offset, size_t n,
                              struct hl_spool_piece *out, size_t cap);

/* ---- the file ---- */

/* Put n bytes at their place, making the file and its folders first if need be
 * (-EEXIST: another file of the name is there).  0, or a negative errno: from
 * there on the file holds no messages until that place is written again, and
 * writes behind it fail alike. */
int hl_spool_write(struct hl_spool *s, const uint8_t *p, size_t n, uint64_t at);
/* Its descriptor, opened if need be, borrowed until the next call on any spool of
 * the pool; or a negative errno. */
int hl_spool_fd(struct hl_spool *s);
/* Write it to the disk; 0 or a negative errno. */
int hl_spool_sync(struct hl_spool *s);
/* Close it for good: its pool knows it no more. */
void hl_spool_leave(struct hl_spool *s);
/* Close it, as if the pool had too many open. */
void hl_spool_close(struct hl_spool *s);

/* ---- what an earlier run left; any thread ---- */

/* Each whole message of a file, SPOOL included; a value other than 0 ends the
 * reading: the message is taken for the start of the torn tail. */
typedef int hl_spool_visit_fn(void *ctx, const struct hl_wire_header *h,
                              const uint8_t *body);

/* Read a file through and cut its torn tail; s is then as if it had written it.
 * -1 with code HL_ERR_FORMAT or HL_ERR_VERSION when its first message is no head
 * of a spool (the file is left as it is). */
int hl_spool_load(struct hl_spool *s, struct hl_spool_pool *pool, const char *name,
                  hl_spool_visit_fn *visit, void *ctx, struct hl_err *e);

/* Does a file of size bytes end with the last words of its process?  Reads its
 * end alone.  1, 0, or a negative errno. */
int hl_spool_is_finished(int fd, uint64_t size);

#endif
