/* SPDX-License-Identifier: Apache-2.0
 *
 * Fallback files of a run (architecture, decision 8): rows and heap pages that
 * agents wrote on a node where no collector answered.
 */
#include "source.h"

#include "heap_page.h"
#include "ident.h"
#include "path.h"
#include "stream.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 256 << 10 };
#define IS_COPY "its name is not that of what is in it: a copy, or damaged"

/* A file that cannot be taken, or not as a whole: it is named, and nothing of the run
 * may go. */
static void name_file(struct hl_source *s, const char *name, const char *what)
{
    s->n_unread++;
    hl_source_note(s, "fallback file %s: %s", name, what);
}

/* Agents name a file for what is in it.  Another name is a copy's, or what is in it
 * is damaged. */
static int is_named_for(const char *name, const char *key, int64_t pid, uint64_t image,
                        const char *suffix)
{
    char wanted[HL_NAME_CAP];
    hl_process_file_name(key, pid, image, suffix, wanted);
    return !strcmp(hl_path_last(name), wanted);
}

/* The HELLO that a fallback file begins with. */
static int first_hello(const uint8_t *p, size_t n, struct hl_hello *out)
{
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used;
    if (hl_wire_next(p, n, HL_IN_SPOOL, HL_STATE_FILE, &h, &body, &used) ||
        h.type != HL_MSG_HELLO)
        return -1;
    return hl_decode_hello(body, h.length, out);
}

static int is_rows_name(const char *name, const struct hl_hello *h)
{
    char key[HL_KEY_MAX + 1];
    snprintf(key, sizeof key, "%.*s", (int)h->key.n, h->key.n ? h->key.p : "");
    return is_named_for(name, key, h->pid, h->image, ".rows");
}

static int same_key(struct hl_str a, const char *key)
{
    return a.n == strlen(key) && (!a.n || !memcmp(a.p, key, a.n));
}

/* Feed the collector's part of a unit, to know which rows it has.  1: it is damaged
 * or cannot be read, why says it. */
static int feed_collector_part(struct hl_source *s, const struct hl_unit *u,
                               uint64_t bytes, struct hl_stream *st, struct hl_err *why,
                               struct hl_err *e)
{
    const uint8_t *piece;
    for (uint64_t at = 0, n; at < bytes; at += n) {
        struct hl_want w = {HL_WANT_STREAM, (uint64_t)(u - s->unit), at, bytes - at};
        w.n = w.n < READ_BYTES ? w.n : READ_BYTES;
        hl_source_tick(s);
        if (hl_source_begin(s, 0, &w, e) || hl_source_end(s, 0, &piece, &n, e))
            return -1;
        if (!n)
            hl_fail(why, HL_ERR_FORMAT, HL_CANNOT_BE_READ);
        else
            hl_stream_feed(st, piece, n, NULL, NULL, why);
        if (why->code)
            return why->code == HL_ERR_FORMAT ? 1 : (*e = *why, -1);
    }
    return 0;
}

/* What the file adds to comes first.  Where that is lost, the file is all there is. */
static int begin_stream(struct hl_source *s, struct hl_unit *u, uint64_t bytes,
                        struct hl_stream *st, struct hl_err *e)
{
    struct hl_err why = {0};
    int bad = feed_collector_part(s, u, bytes, st, &why, e);
    if (bad > 0) {
        hl_stream_fini(st);
        bad = hl_unit_lose_frames(s, u, why.text, e);
    }
    hl_buf_fini(&st->pending);
    return bad;
}

/* Feed a file; what lies behind its last sound message is told and left. */
static int feed_file(struct hl_source *s, int fd, const char *name, struct hl_stream *st,
                     uint64_t *good)
{
    uint8_t *piece = malloc(READ_BYTES);
    uint64_t before = st->used_bytes, at = 0;
    struct hl_err why = {0};
    ssize_t n = -1;
    while (piece && (n = pread(fd, piece, READ_BYTES, (off_t)at)) > 0) {
        at += (uint64_t)n;
        hl_source_tick(s);
        if (hl_stream_feed(st, piece, (size_t)n, NULL, NULL, &why))
            break;
    }
    free(piece);
    *good = st->used_bytes - before;
    if (*good < at || n < 0) {
        char what[80];
        snprintf(what, sizeof what, "damaged behind byte %llu, the rest is not here",
                 (unsigned long long)*good);
        name_file(s, name, what);
    }
    return 0;
}

/* Rows that neither part has are lost, but for those the sender dropped itself. */
static void count_rows(const struct hl_stream *st, struct hl_proc *p)
{
    uint64_t gap = hl_stream_gap(st);
    p->n_rows = st->n_rows;
    p->n_dropped = st->n_dropped > p->n_dropped ? st->n_dropped : p->n_dropped;
    p->n_lost = gap > p->n_dropped ? gap - p->n_dropped : 0;
}

/* A file's frames join an image that is known by its heap agent, or by what a
 * collector got of it before it went away. */
static int join_rows(struct hl_source *s, struct hl_unit *u, struct hl_proc *p, int fd,
                     const char *name, struct hl_err *e)
{
    struct hl_unit_files *f = hl_unit_need_files(s, u);
    struct hl_stream st = {0};
    uint64_t file_bytes = 0;
    if (!f)
        return hl_fail(e, ENOMEM, "no memory left");
    int bad = f->collector_bytes && begin_stream(s, u, f->collector_bytes, &st, e);
    if (!bad) {
        feed_file(s, fd, name, &st, &file_bytes);
        count_rows(&st, p);
        p->flags |= HL_PROC_FRAMES;
        free(f->rows);
        f->rows = strdup(name);
        bad = !f->rows ? hl_fail(e, ENOMEM, "no memory left") : hl_unit_set(s, u, p, e);
        u->entry.bytes = f->collector_bytes + file_bytes;
    }
    /* Rank 0 unites names: the file's catalog holds all that the collector's
     * did, as a sender repeats its whole catalog there. */
    bad = bad || hl_source_keep_names(s, &st, &u->entry.catalog, e);
    hl_stream_fini(&st);
    return bad ? -1 : 0;
}

static int add_rows_file(struct hl_source *s, int fd, const char *name,
                         const struct hl_source_options *o, struct hl_err *e)
{
    uint8_t head[HL_HELLO_CAP], body[HL_PROC_BODY_MAX];
    struct hl_proc p = {0}, known;
    ssize_t n = pread(fd, head, sizeof head, 0);
    if (n < 0 || first_hello(head, (size_t)n, &p.hello) || p.hello.pid > INT32_MAX) {
        name_file(s, name, "not a heapline file, or damaged");
        return 0;
    }
    if (!is_rows_name(name, &p.hello)) {
        name_file(s, name, IS_COPY);
        return 0;
    }
    if (!same_key(p.hello.key, o->key))
        return 0;
    struct hl_unit *u = hl_source_find(s, p.hello.image);
    p.flags = HL_PROC_FRAMES;
    p.heap.end.kind = HL_ENDED_KILLED_OR_EXIT;
    p.heap.record.vmhwm_bytes = p.heap.record.vmrss_bytes = -1;
    if (!u)
        return (u = hl_source_add(s, &p, e)) ? join_rows(s, u, &p, fd, name, e) : -1;
    if (hl_unit_get(s, u, body, &known, e))
        return -1;
    /* The heap agent's entry does not know the application's version. */
    if (!known.hello.app_version.n)
        known.hello.app_version = p.hello.app_version;
    return join_rows(s, u, &known, fd, name, e);
}

static int64_t mono_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int is_alive(const struct hl_heap_header *h)
{
    return h->pid > 0 && h->start_ticks && hl_start_ticks(h->pid) == h->start_ticks;
}

/* When the page's process ended, if it could not say so: the file's last
 * change, as far as the kernel has noted it. */
static int64_t end_guess(const struct hl_heap_header *h, const struct stat *st)
{
    int64_t changed = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    int64_t elapsed = changed - h->load_real_ns;
    return h->load_mono_ns + (elapsed > 0 ? elapsed : 0);
}

static void proc_of_page(const struct hl_heap_header *h, const struct hl_record *r,
                         struct hl_proc *p)
{
    p->flags = HL_PROC_HEAP | (h->flags & (HL_HEAP_BYPASSED | HL_HEAP_NEW_BYPASSED)
                                   ? HL_PROC_NOTE_BYPASSED
                                   : 0);
    p->heap.record = *r;
    p->heap.end = hl_heap_end(h);
    if (p->heap.end.kind == HL_ENDED_KILLED_OR_EXIT && is_alive(h))
        p->heap.end.kind = HL_ENDED_RUNNING;
    p->hello = (struct hl_hello){.wire_min = HL_WIRE_VERSION,
                                 .wire_max = HL_WIRE_VERSION,
                                 .role = HL_ROLE_HEAP,
                                 .pid = h->pid,
                                 .start_ticks = h->start_ticks,
                                 .image = h->image,
                                 .rank = h->rank < -1 ? -1 : h->rank,
                                 .size = h->n_ranks < -1 ? -1 : h->n_ranks,
                                 .key = {h->key, strnlen(h->key, HL_KEY_MAX)},
                                 .host = {r->host, strlen(r->host)},
                                 .job = {r->job, strlen(r->job)},
                                 .app_version = {"", 0}};
}

/* The page is newer than what a lost collector knew of it. */
static int join_page(struct hl_source *s, struct hl_unit *u, const struct hl_proc *p,
                     const char *name, struct hl_err *e)
{
    uint8_t body[HL_PROC_BODY_MAX];
    struct hl_proc known;
    struct hl_unit_files *f = hl_unit_need_files(s, u);
    if (!f || (!f->page && !(f->page = strdup(name))))
        return hl_fail(e, ENOMEM, "no memory left");
    if (hl_unit_get(s, u, body, &known, e))
        return -1;
    uint32_t catalog = u->entry.catalog, lost = u->entry.flags & HL_ENTRY_LOST;
    uint64_t bytes = u->entry.bytes;
    known.heap = p->heap;
    known.flags |= p->flags;
    int bad = hl_unit_set(s, u, &known, e);
    u->entry.catalog = catalog;
    u->entry.bytes = bytes;
    u->entry.flags |= lost;
    return bad;
}

typedef union {
    struct hl_heap_header h;
    uint8_t bytes[HL_HEAP_PAGE_SIZE];
} page_bytes;

static int take_page(struct hl_source *s, const page_bytes *page, const struct stat *st,
                     const char *name, struct hl_err *e)
{
    const struct hl_heap_slot *slots =
        (const struct hl_heap_slot *)(page->bytes + HL_HEAP_PAGE_HEADER);
    struct hl_record r;
    struct hl_proc p = {0};
    hl_heap_record(&page->h, slots, hl_heap_slots_to_read(&page->h),
                   is_alive(&page->h) ? mono_now() : end_guess(&page->h, st), &r);
    proc_of_page(&page->h, &r, &p);
    struct hl_unit *u = hl_source_find(s, p.hello.image);
    if (!u && !(u = hl_source_add(s, &p, e)))
        return -1;
    return join_page(s, u, &p, name, e);
}

/* Why a page cannot be taken; NULL when it can. */
static const char *page_fault(const page_bytes *page, const char *name)
{
    static char text[128];
    const struct hl_heap_header *h = &page->h;
    const struct hl_heap_slot *slots =
        (const struct hl_heap_slot *)(page->bytes + HL_HEAP_PAGE_HEADER);
    if (!hl_heap_header_ok(h))
        return "not a heap page, or damaged";
    const char *fault = hl_heap_fault(h, slots, HL_HEAP_N_SLOTS);
    if (!fault)
        return is_named_for(name, h->key, h->pid, h->image, ".page") ? NULL : IS_COPY;
    snprintf(text, sizeof text, "damaged, its counters are left out: %s", fault);
    return text;
}

static int add_page_file(struct hl_source *s, int fd, const char *name,
                         const struct hl_source_options *o, struct hl_err *e)
{
    page_bytes *page = malloc(sizeof *page);
    struct stat st;
    int bad = 0;
    if (!page)
        return hl_fail(e, ENOMEM, "no memory left");
    const char *fault = fstat(fd, &st) || st.st_size != (off_t)sizeof *page ||
                                hl_path_pread_all(fd, page, sizeof *page, 0)
                            ? "not a heap page, or damaged"
                            : page_fault(page, name);
    if (fault)
        name_file(s, name, fault);
    else if (!strncmp(page->h.key, o->key, HL_KEY_MAX + 1))
        bad = take_page(s, page, &st, name, e);
    free(page);
    return bad;
}

/* A regular file's descriptor; -1: it is named, unless it has just gone. */
static int open_file(struct hl_source *s, const char *name)
{
    struct stat st;
    int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    if (fd >= 0 || errno != ENOENT) {
        char what[160];
        snprintf(what, sizeof what, "cannot be read: %s",
                 fd >= 0 ? "it is no regular file" : strerror(errno));
        name_file(s, name, what);
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

int hl_source_scan_files(struct hl_source *s, const struct hl_source_options *o,
                         struct hl_err *e)
{
    char dir[4096], prefix[HL_NAME_CAP];
    if (!hl_fallback_dir(o->fallback_dir, (uint32_t)geteuid(), dir, sizeof dir) ||
        access(dir, F_OK))
        return 0;
    if (!hl_path_is_own_dir(dir)) { /* no agent of this user wrote there */
        if (s->link.fd < 0)
            hl_source_note(s, "node %s: no collector, and %s is not this user's alone",
                           s->host, dir);
        return 0;
    }
    int fd = hl_path_own_dir(dir, e);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *de;
    int bad = 0;
    if (!d)
        return fd < 0 ? -1 : hl_fail_errno(e, "cannot read %s", dir);
    size_t n = hl_escape_key(o->key, HL_KEY_NAME_MAX, prefix);
    prefix[n++] = '.';
    while (!bad && (de = readdir(d))) {
        int rows = hl_path_ends_with(de->d_name, ".rows"),
            page = hl_path_ends_with(de->d_name, ".page");
        char name[4096 + 256];
        if ((!rows && !page) || strncmp(de->d_name, prefix, n))
            continue;
        snprintf(name, sizeof name, "%s/%s", dir, de->d_name);
        int f = open_file(s, name);
        if (f < 0)
            continue;
        bad = rows ? add_rows_file(s, f, name, o, e) : add_page_file(s, f, name, o, e);
        close(f);
    }
    closedir(d);
    return bad;
}
