/* SPDX-License-Identifier: Apache-2.0
 *
 * The spool of one process: a file of messages, SPOOL first, then HELLO,
 * CATALOG, ROWS, RECORD, BYE and LOSS, only ever appended to.  Stream offsets
 * count CATALOG and ROWS alone; extents map them to the file.  A tail that was
 * torn by a crash is cut when the file is opened again.
 *
 * Files are opened when they are needed and closed again when a pool has too
 * many open: thousands of spools need few descriptors.  Not thread-safe.
 */
#ifndef HL_SPOOL_H
#define HL_SPOOL_H

#include "err.h"
#include "wire.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hl_spool;

/* Shared by all spools below one folder. */
struct hl_spool_pool {
    int root;        /* O_DIRECTORY descriptor, borrowed */
    size_t max_open; /* descriptors to keep */
    size_t n_open;
    struct hl_spool *newest, *oldest; /* open ones by last use */
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
    struct hl_spool_pool *pool;
    char *name; /* below the root; owned */
    int fd;     /* -1 while closed */
    struct hl_spool *newer, *older;
    uint64_t size;          /* bytes of whole messages */
    uint64_t stream_bytes;  /* CATALOG and ROWS messages */
    uint64_t catalog_bytes; /* CATALOG messages */
    uint64_t cut_bytes;     /* of a torn tail, cut by hl_spool_open */
    struct hl_spool_extent *extent;
    size_t n_extents;
    struct hl_spool_catalog *catalog;
    size_t n_catalogs;
    int dirty; /* appended to since hl_spool_sync */
};

enum { HL_SPOOL_EXTENTS_MAX = 65536, HL_SPOOL_CATALOGS_MAX = 65536 };

void hl_spool_pool_init(struct hl_spool_pool *p, int root, size_t max_open);

/* A new file (it must not exist, its folder must); first: whole messages to
 * begin with, SPOOL the first.  name is copied.  0 or -1 (e->code is errno). */
int hl_spool_create(struct hl_spool *s, struct hl_spool_pool *pool, const char *name,
                    const uint8_t *first, size_t n, struct hl_err *e);

/* Each whole message of a file, SPOOL included; a value other than 0 ends the
 * reading: the message is taken for the start of the torn tail. */
typedef int hl_spool_visit_fn(void *ctx, const struct hl_wire_header *h,
                              const uint8_t *body);

/* Open a file that exists: read it through, cut the torn tail.  -1 with code
 * HL_ERR_FORMAT or HL_ERR_VERSION when its first message is no head of a spool
 * (the file is left as it is). */
int hl_spool_open(struct hl_spool *s, struct hl_spool_pool *pool, const char *name,
                  hl_spool_visit_fn *visit, void *ctx, struct hl_err *e);

/* Append whole, checked messages in one write.  0, or a negative errno: then
 * nothing was appended. */
int hl_spool_append(struct hl_spool *s, const uint8_t *p, size_t n);

/* At most n bytes of the stream, or of its catalogs alone, from an offset; *got
 * is 0 at the end.  0 or a negative errno. */
int hl_spool_read(struct hl_spool *s, uint64_t offset, uint8_t *out, size_t n,
                  size_t *got);
int hl_spool_read_catalogs(struct hl_spool *s, uint64_t offset, uint8_t *out, size_t n,
                           size_t *got);

/* The file's descriptor, opened if need be, borrowed until the next call on any
 * spool of the pool; or a negative errno. */
int hl_spool_fd(struct hl_spool *s);

/* Write what was appended to the disk; 0 or a negative errno. */
int hl_spool_sync(struct hl_spool *s);

/* Remove the file; 0 or a negative errno. */
int hl_spool_remove(struct hl_spool *s);

/* Move a spool to another address (an open one is linked by its own). */
void hl_spool_move(struct hl_spool *to, struct hl_spool *from);

/* Close and free what is held; the file stays. */
void hl_spool_fini(struct hl_spool *s);

#endif
