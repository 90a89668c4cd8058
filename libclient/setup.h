/* SPDX-License-Identifier: Apache-2.0
 *
 * What the environment asks of the client library, read once at the start of
 * a session (heapline-run(1) and interfaces document the variables), and the
 * lines it writes to stderr with HEAPLINE_VERBOSE=1.
 */
#ifndef HL_CLIENT_SETUP_H
#define HL_CLIENT_SETUP_H

#include "ident.h"
#include "messages.h"

struct hl_setup {
    int off;     /* HEAPLINE_DISABLE, or a program with raised privileges */
    int asked;   /* a run, a collector or a fallback folder was named */
    int verbose; /* HEAPLINE_VERBOSE=1 */
    int drop;    /* HEAPLINE_ON_FULL=drop */
    int64_t wait_ns, interval_ns;
    uint64_t buffer_bytes;
    int32_t rank, size;
    char sockets[4096];  /* separated by ':' */
    char fallback[1024]; /* "": none */
    char key[HL_KEY_MAX + 1], host[HL_HOST_MAX + 1], job[HL_JOB_MAX + 1];
    char app_version[256];
};

/* Fill s.  Values that cannot be read count as unset, with a line. */
void hl_setup_read(struct hl_setup *s);

/* A line "libheapline: ..." on stderr, if verbose. */
void hl_say(const struct hl_setup *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Field 22 of /proc/self/stat, 0 if it cannot be read. */
uint64_t hl_start_ticks(void);

/* A descriptor above those that programs use by number or expect next; closes
 * fd.  The descriptor is close-on-exec; fd itself when there is none higher. */
int hl_high_fd(int fd);

/* Which file a descriptor was; a program may have closed it and reused its
 * number, so this is compared before each use. */
struct hl_fd_id {
    uint64_t dev, ino;
};
struct hl_fd_id hl_fd_id(int fd);
int hl_fd_is(int fd, struct hl_fd_id id);

#endif
