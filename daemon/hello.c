/* SPDX-License-Identifier: Apache-2.0
 *
 * The hello decides what a connection is: an agent of a process (heap, frames),
 * a keeper or a gather.  Descriptors are checked here and nowhere else; a memfd
 * of a client is never mapped.
 */
#include "peer.h"

#include "heap_page.h"
#include "job.h"
#include "path.h"
#include "lifetime.h"
#include "process.h"
#include "quota.h"
#include "row_buffer.h"
#include "wire_link.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- descriptors ---- */

struct handed { /* borrowed from the peer until they are kept */
    int page, rows;
    uint64_t rows_size;
};

/* Sealed against shrinking, so that a size checked once holds; only a memfd can
 * be. */
static int sealed_size(int fd, uint64_t *size)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS), want = F_SEAL_SHRINK | F_SEAL_GROW;
    if (seals < 0 || (seals & want) != want || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return -1;
    *size = (uint64_t)st.st_size;
    return 0;
}

static int check_page(int fd, const struct hl_hello *h, const char **why)
{
    struct hl_heap_header page;
    uint64_t size;
    *why = "the heap page is not a memfd sealed against shrinking and growing";
    if (sealed_size(fd, &size))
        return -1;
    *why = "the heap page has a wrong size";
    if (size != HL_HEAP_PAGE_SIZE)
        return -1;
    *why = "the heap page is not of this version, or of another image than the hello";
    return hl_path_pread_all(fd, &page, sizeof page, 0) || !hl_heap_header_ok(&page) ||
                   page.image != h->image
               ? -1
               : 0;
}

static int check_rows(int fd, const struct hl_hello *h, uint64_t *size, const char **why)
{
    struct hl_row_buffer b;
    *why = "the row buffer is not a memfd sealed against shrinking and growing";
    if (sealed_size(fd, size))
        return -1;
    *why = "the row buffer's size is out of bounds";
    if (*size < HL_ROW_BUFFER_MIN || *size > HL_ROW_BUFFER_MAX)
        return -1;
    *why = "the row buffer is not of this version, or of another image than the hello";
    return hl_path_pread_all(fd, &b, sizeof b, 0) || b.magic != HL_ROW_BUFFER_MAGIC ||
                   b.version != HL_ROW_BUFFER_VERSION || b.size != *size ||
                   b.image != h->image
               ? -1
               : 0;
}

static int check_descriptors(const struct hl_peer *p, const struct hl_hello *h,
                             struct handed *out, const char **why)
{
    int i = 0, wanted = !!(h->flags & HL_HELLO_PAGE) + !!(h->flags & HL_HELLO_ROWS);
    *out = (struct handed){-1, -1, 0};
    *why = "the descriptors that came are not those that the hello announces";
    if (wanted != p->n_fds)
        return -1;
    if (h->flags & HL_HELLO_PAGE && check_page(out->page = p->fds[i++], h, why))
        return -1;
    if (h->flags & HL_HELLO_ROWS &&
        check_rows(out->rows = p->fds[i], h, &out->rows_size, why))
        return -1;
    return 0;
}

/* New descriptors replace old ones of their kind. */
static void keep_descriptors(struct hl_peer *p, struct hl_process *proc,
                             const struct handed *fds)
{
    if (fds->page >= 0) {
        if (proc->page_fd >= 0)
            close(proc->page_fd);
        proc->page_fd = fds->page;
    }
    if (fds->rows >= 0) {
        if (proc->rows_fd >= 0)
            close(proc->rows_fd);
        proc->rows_fd = fds->rows;
        proc->rows_size = fds->rows_size;
    }
    p->n_fds = 0; /* the process owns them now */
}

/* ---- the agents of a process ---- */

enum { HELLOS_KEPT = 64 }; /* of one process, in its spool */

static void leave_new(struct hl_peer *p, enum hl_peer_state s)
{
    p->state = s;
    p->d->n_new--;
    hl_timer_free(p->timer);
    p->timer = NULL;
    p->d->count.n_hellos++;
}

static struct hl_process *new_process(struct hl_peer *p, const struct hl_hello *h,
                                      const uint8_t *body, size_t n)
{
    struct hl_err e = {0};
    struct hl_daemon *d = p->d;
    struct hl_job *j = hl_job_find(d, p->uid, h->key);
    if (d->draining) {
        hl_peer_refuse(p, HL_REFUSED_DRAINING,
                       "the collector is draining: it takes nothing new");
        return NULL;
    }
    int no_job = !j && hl_quota_job(d, p->user, &e);
    if (no_job || hl_quota_process(d, p->user, &e)) {
        ++*(no_job ? &d->count.refused_jobs : &d->count.refused_processes);
        hl_peer_refuse(p, HL_REFUSED_LIMIT, "%s", e.text);
        return NULL;
    }
    if (hl_quota_bytes(d, p->user, n, &e)) {
        hl_peer_refuse(p, HL_REFUSED_SPACE, "%s", e.text);
        return NULL;
    }
    j = j ? j : hl_job_get(d, p->user, h->key);
    struct hl_hello known = *h;
    if (!known.start_ticks && p->pid > 0) /* it has no /proc, we may */
        known.start_ticks = hl_start_ticks(p->pid);
    struct hl_process *proc = j ? hl_process_start(j, &known, body, n, &e) : NULL;
    if (!proc) {
        hl_log(&d->log, HL_LOG_ERR, "spools not made", NULL, "cannot begin a spool: %s",
               j ? e.text : "no memory left");
        if (j)
            hl_job_release(j);
        hl_peer_refuse(p, HL_REFUSED_SPACE, "the collector cannot begin a spool");
    }
    return proc;
}

/* A hello of this role has come before: an earlier connection of it is read to
 * its end first.  -1: what it sent waits for the disk, and so must this one. */
static int reconnect(struct hl_peer *p, struct hl_process *proc, int i)
{
    struct hl_peer *old = proc->peer[i];
    if (old)
        while (hl_peer_drain(old, HL_PIECE_BYTES) > 0)
            continue;
    if (hl_buf_left(&proc->pending)) {
        hl_peer_refuse(p, HL_REFUSED_SPACE, "the spool cannot be written now");
        return -1;
    }
    if (old && old->process == proc) {
        hl_peer_detach(old); /* its end is not the process's */
        hl_peer_close(old);
    }
    proc->peer[i] = p;
    p->process = proc;
    return 0;
}

/* The second agent's hello goes into the spool as well, and one that says more
 * than the one before it: the application's version may be told later. */
static int note_hello(struct hl_process *proc, const struct hl_hello *h,
                      const uint8_t *body, size_t n)
{
    uint8_t out[HL_HELLO_CAP];
    int i = h->role == HL_ROLE_FRAMES;
    if (proc->hello[i] && proc->hello_bytes[i] == n &&
        memcmp(proc->hello[i], body, n) == 0)
        return 0;
    if (proc->n_hellos >= HELLOS_KEPT)
        return 0;
    proc->n_hellos++;
    memcpy(out + HL_WIRE_HEADER, body, n);
    hl_wire_header_put(out, HL_MSG_HELLO, out + HL_WIRE_HEADER, (uint32_t)n);
    if (hl_process_note(proc, out, HL_WIRE_HEADER + n))
        return -1;
    return hl_process_keep_hello(proc, h->role, body, n);
}

static struct hl_process *join(struct hl_peer *p, const struct hl_hello *h,
                               const uint8_t *body, size_t n)
{
    struct hl_process *proc = hl_process_find(p->d, p->uid, h->pid, h->image);
    if (!proc)
        return new_process(p, h, body, n);
    if (note_hello(proc, h, body, n)) {
        hl_peer_refuse(p, HL_REFUSED_SPACE, "the spool cannot be written now");
        return NULL;
    }
    hl_process_revive(proc);
    return proc;
}

static void take_agent(struct hl_peer *p, const struct hl_hello *h, const uint8_t *body,
                       size_t n)
{
    uint8_t out[HL_WIRE_HEADER + 16];
    int i = h->role == HL_ROLE_FRAMES;
    struct handed fds;
    const char *why;
    if (check_descriptors(p, h, &fds, &why)) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "HELLO: %s", why);
        return;
    }
    struct hl_process *proc = join(p, h, body, n);
    if (!proc || reconnect(p, proc, i))
        return;
    leave_new(p, HL_PEER_CLIENT);
    keep_descriptors(p, proc, &fds);
    if (i && h->flags & HL_HELLO_UNSHARED)
        proc->flags |= HL_PROC_UNSHARED;
    hl_process_watch(proc, p->fd, p->pid);
    hl_process_sample(proc, 1);
    struct hl_hello_ok ok = {HL_WIRE_VERSION, proc->spool.stream_bytes};
    hl_peer_send(p, out, hl_encode_hello_ok(out, sizeof out, &ok));
}

/* ---- keepers and gathers ---- */

static void take_keeper(struct hl_peer *p, const struct hl_hello *h)
{
    struct hl_err e = {0};
    struct hl_job *j = hl_job_find(p->d, p->uid, h->key);
    if (!j && hl_quota_job(p->d, p->user, &e)) {
        p->d->count.refused_jobs++;
        hl_peer_refuse(p, HL_REFUSED_LIMIT, "%s", e.text);
        return;
    }
    p->job = j ? j : hl_job_get(p->d, p->user, h->key);
    if (!p->job) {
        hl_peer_refuse(p, HL_REFUSED_LIMIT, "the collector has no memory left");
        return;
    }
    leave_new(p, HL_PEER_KEEPER);
    p->job->n_keepers++;
    p->job->n_keepers_ever++;
    p->d->n_keepers++;
    p->d->met_anyone = 1;
}

/* root may read any user's job: where a key is known of several, its own. */
static struct hl_job *job_to_read(struct hl_daemon *d, uid_t uid, struct hl_str key)
{
    struct hl_job *j = hl_job_find(d, uid, key);
    const struct hl_user *u;
    for (size_t at = 0; !j && uid == 0 && (u = hl_table_next(&d->users, &at));)
        j = hl_job_find(d, u->uid, key);
    return j;
}

static void take_gather(struct hl_peer *p, const struct hl_hello *h)
{
    p->job = job_to_read(p->d, p->uid, h->key);
    if (h->key.n)
        memcpy(p->key, h->key.p, h->key.n);
    p->key[h->key.n] = 0;
    leave_new(p, HL_PEER_GATHER);
    if (p->job)
        p->job->n_gathers++;
    p->d->n_gathers++;
    p->d->met_anyone = 1;
}

void hl_hello_take(struct hl_peer *p, const uint8_t *body, size_t n)
{
    uint8_t out[HL_WIRE_HEADER + 16];
    struct hl_hello h;
    int code = hl_decode_hello(body, n, &h);
    if (code) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "HELLO: %s", hl_wire_strerror(code));
        return;
    }
    if (h.wire_min > HL_WIRE_VERSION || h.wire_max < HL_WIRE_VERSION_MIN) {
        hl_peer_refuse(p, HL_REFUSED_VERSION,
                       "you speak protocol versions %u to %u, this collector %d to %d",
                       h.wire_min, h.wire_max, HL_WIRE_VERSION_MIN, HL_WIRE_VERSION);
        return;
    }
    p->role = h.role;
    if (h.role == HL_ROLE_HEAP || h.role == HL_ROLE_FRAMES) {
        take_agent(p, &h, body, n);
        return;
    }
    if (p->n_fds) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "HELLO: descriptors where none belong");
        return;
    }
    if (h.role == HL_ROLE_KEEPER)
        take_keeper(p, &h);
    else if (h.role == HL_ROLE_CONTROL)
        leave_new(p, HL_PEER_CONTROL);
    else
        take_gather(p, &h);
    struct hl_hello_ok ok = {HL_WIRE_VERSION, 0};
    if (!p->closing && p->state != HL_PEER_CLOSED)
        hl_peer_send(p, out, hl_encode_hello_ok(out, sizeof out, &ok));
}
