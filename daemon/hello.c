/* SPDX-License-Identifier: Apache-2.0
 *
 * The hello decides what a connection is: an agent of a process (heap, frames),
 * a keeper or a gather.  Descriptors are checked here and nowhere else; a memfd
 * of a client is never mapped.
 */
#include "peer.h"

#include "heap_page.h"
#include "job.h"
#include "keep.h"
#include "path.h"
#include "lifetime.h"
#include "process.h"
#include "quota.h"
#include "row_buffer.h"
#include "sampling.h"
#include "session.h"
#include "store.h"
#include "wire_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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
    p->d->count.hellos++;
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
    if ((!j && hl_quota_job(d, p->user, &e)) || hl_quota_process(d, p->user, &e)) {
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
        if (j)
            hl_job_release(j);
        hl_peer_refuse(p, HL_REFUSED_LIMIT, "the collector has no memory left");
    }
    return proc;
}

/* A hello of this role has come before: an earlier connection of it is read to its
 * end first.  Where there is no room for that it is given up: what was not
 * acknowledged is sent again. */
static void reconnect(struct hl_peer *p, struct hl_process *proc, int i)
{
    struct hl_peer *old = proc->peer[i];
    if (old)
        while (hl_peer_drain(old, HL_READ_BYTES) == 1)
            continue;
    if (old && old->process == proc) {
        hl_peer_detach(old); /* its end is not the process's */
        hl_peer_close(old);
    }
    proc->peer[i] = p;
    p->process = proc;
}

/* The second agent's hello goes into the spool as well, and one that says more
 * than the one before it: the application's version may be told later. */
static int note_hello(struct hl_process *proc, const struct hl_hello *h,
                      const uint8_t *body, size_t n)
{
    int i = h->role == HL_ROLE_FRAMES;
    if (proc->hello[i] && proc->hello_bytes[i] == n &&
        memcmp(proc->hello[i], body, n) == 0)
        return 0;
    if (proc->n_hellos >= HELLOS_KEPT)
        return 0;
    proc->n_hellos++;
    if (hl_process_note_hello(proc, body, n))
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

void hl_hello_answer(struct hl_peer *p)
{
    uint8_t out[HL_WIRE_HEADER + 16];
    if (!p->want_ok || p->closing || p->state != HL_PEER_CLIENT)
        return;
    struct hl_hello_ok ok = {HL_WIRE_VERSION, hl_append_done_with(p->process)};
    p->want_ok = 0;
    p->acked = ok.appended;
    hl_peer_send(p, out, hl_encode_hello_ok(out, sizeof out, &ok));
    hl_peer_resume(p);
}

/* What the sender is told that it has must be on the disk, and a file of the same
 * image be known: its answer waits.  A heap agent needs none. */
static void answer_agent(struct hl_peer *p, const struct hl_process *proc)
{
    p->want_ok = 1;
    if (p->role == HL_ROLE_HEAP ||
        (!proc->n_flying && !proc->loading && !hl_buf_left(&proc->held)))
        hl_hello_answer(p);
    else if (proc->failing)
        hl_peer_refuse(p, HL_REFUSED_SPACE, "the collector cannot write its spool (%s)",
                       strerror(p->d->spool_errno));
}

static void take_agent(struct hl_peer *p, const struct hl_hello *h, const uint8_t *body,
                       size_t n)
{
    int i = h->role == HL_ROLE_FRAMES;
    struct handed fds;
    const char *why;
    if (check_descriptors(p, h, &fds, &why)) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "HELLO: %s", why);
        return;
    }
    struct hl_process *proc = join(p, h, body, n);
    if (!proc)
        return;
    reconnect(p, proc, i);
    leave_new(p, HL_PEER_CLIENT);
    keep_descriptors(p, proc, &fds);
    if (i && h->flags & HL_HELLO_UNSHARED)
        proc->flags |= HL_PROC_UNSHARED;
    if (!proc->watched || proc->pidfd < 0) {
        proc->kernel_pid = p->pid;
        proc->watched = 0;
        hl_sampling_meet(proc);
    } else {
        hl_keep_descriptors(proc);
    }
    hl_timeline_ask(proc, h->interval_ns);
    answer_agent(p, proc);
}

/* ---- keepers and gathers ---- */

static void take_keeper(struct hl_peer *p, const struct hl_hello *h)
{
    struct hl_err e = {0};
    struct hl_job *j = hl_job_find(p->d, p->uid, h->key);
    if (!j && hl_quota_job(p->d, p->user, &e)) {
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

static void take_gather(struct hl_peer *p, const struct hl_hello *h)
{
    p->key = calloc(1, h->key.n + 1);
    if (!p->key) {
        hl_peer_refuse(p, HL_REFUSED_LIMIT, "the collector has no memory left");
        return;
    }
    memcpy(p->key, h->key.p, h->key.n);
    leave_new(p, HL_PEER_GATHER);
    hl_answer_greeted(p);
    p->d->n_gathers++;
    p->d->met_anyone = 1;
}

void hl_hello_take(struct hl_peer *p, const uint8_t *body, size_t n)
{
    uint8_t out[HL_WIRE_HEADER + 16];
    struct hl_hello h;
    char why[160];
    int code = hl_session_hello(body, n, &h, why);
    if (code) {
        hl_peer_refuse(p, (enum hl_refusal)code, "%s", why);
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
