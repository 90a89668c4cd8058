/* SPDX-License-Identifier: Apache-2.0
 *
 * Taking over what was passed; see passed.h.
 */
#include "passed.h"

#include "ident.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { PASSED_MAX = 1 << 20 };

/* How many descriptors are meant for this process. */
static int64_t passed_count(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    int64_t p, n;
    if (!pid || !fds || hl_parse_i64(pid, 1, INT32_MAX, &p) || p != getpid() ||
        hl_parse_i64(fds, 0, PASSED_MAX, &n))
        return 0;
    return n;
}

static int is_listening_socket(int fd)
{
    struct sockaddr_un a;
    socklen_t n = sizeof a, size = sizeof(int);
    int listening = 0;
    return getsockname(fd, (struct sockaddr *)&a, &n) == 0 && a.sun_family == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening;
}

static int is_sealed_memfd(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS), want = F_SEAL_SHRINK | F_SEAL_GROW;
    return seals >= 0 && (seals & want) == want;
}

static int *place(struct hl_passed *p, char kind, uint32_t slot)
{
    int **table = &p->stored[kind == 'r'];
    if (!*table)
        *table = calloc(HL_FDSTORE_SLOTS, sizeof **table);
    return *table ? &(*table)[slot] : NULL;
}

/* 0: the descriptor has found its place. */
static int take(struct hl_passed *p, int fd, const char *name, size_t n)
{
    char kind;
    uint32_t slot;
    if (is_listening_socket(fd)) {
        if (p->listener >= 0)
            return -1;
        p->listener = fd;
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        return 0;
    }
    if (hl_fdstore_parse(name, n, &kind, &slot) || !is_sealed_memfd(fd))
        return -1;
    int *at = place(p, kind, slot);
    if (!at || *at)
        return -1;
    *at = fd + 1;
    p->n_stored++;
    return 0;
}

void hl_passed_read(struct hl_passed *p, int first_fd)
{
    const char *names = getenv("LISTEN_FDNAMES");
    *p = (struct hl_passed){.listener = -1, .n_fds = passed_count()};
    for (int fd = first_fd; fd - first_fd < p->n_fds; fd++) {
        size_t n = names ? strcspn(names, ":") : 0;
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (take(p, fd, names, n)) {
            p->n_wrong++;
            close(fd);
        }
        if (names)
            names = names[n] ? names + n + 1 : NULL;
    }
}

int hl_passed_claim(struct hl_passed *p, char kind, uint32_t slot, uint64_t inode)
{
    struct stat st;
    int *table = p->stored[kind == 'r'];
    if (!table || slot >= HL_FDSTORE_SLOTS || !table[slot])
        return -1;
    int fd = table[slot] - 1;
    if (fstat(fd, &st) || (uint64_t)st.st_ino != inode)
        return -1;
    table[slot] = 0;
    p->n_stored--;
    return fd;
}

static size_t close_table(int *table, char kind, struct hl_fdstore *f)
{
    size_t n = 0;
    for (uint32_t slot = 0; table && slot < HL_FDSTORE_SLOTS; slot++) {
        if (!table[slot])
            continue;
        close(table[slot] - 1);
        hl_fdstore_adopt(f, kind, slot);
        hl_fdstore_drop(f, kind, slot);
        n++;
    }
    free(table);
    return n;
}

int hl_passed_has(const struct hl_passed *p, uint32_t slot)
{
    return (p->stored[0] && p->stored[0][slot]) || (p->stored[1] && p->stored[1][slot]);
}

size_t hl_passed_close_rest(struct hl_passed *p, struct hl_fdstore *f)
{
    size_t n = close_table(p->stored[0], 'p', f) + close_table(p->stored[1], 'r', f);
    p->stored[0] = p->stored[1] = NULL;
    p->n_stored = 0;
    return n;
}
