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

static struct hl_unit *find_image(struct hl_source *s, uint64_t image)
{
    for (size_t i = 0; i < s->n_units; i++)
        if (s->unit[i].proc.hello.image == image)
            return &s->unit[i];
    return NULL;
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

static int same_key(struct hl_str a, const char *key)
{
    return a.n == strlen(key) && (!a.n || !memcmp(a.p, key, a.n));
}

/* Feed the collector's part of a unit, to know which rows it has. */
static int feed_collector_part(struct hl_source *s, struct hl_unit *u,
                               struct hl_stream *st, struct hl_err *e)
{
    size_t idx = (size_t)(u - s->unit);
    uint8_t *piece = malloc(READ_BYTES);
    int bad = piece ? 0 : hl_fail(e, ENOMEM, "no memory left");
    for (uint64_t at = 0; !bad && at < u->collector_bytes;) {
        uint64_t n = u->collector_bytes - at;
        n = n < READ_BYTES ? n : READ_BYTES;
        bad = hl_source_read(s, idx, at, n, piece, e) ||
              hl_stream_feed(st, piece, n, NULL, NULL, e);
        at += n;
    }
    free(piece);
    return bad ? -1 : 0;
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
        if (hl_stream_feed(st, piece, (size_t)n, NULL, NULL, &why))
            break;
    }
    free(piece);
    *good = st->used_bytes - before;
    if (*good < at || n < 0)
        hl_source_note(s, "fallback file %s: damaged behind byte %llu, the rest is lost",
                       name, (unsigned long long)*good);
    return 0;
}

/* The heap agent's entry does not know the application's version. */
static int add_version(struct hl_unit *u, struct hl_str version, struct hl_err *e)
{
    struct hl_proc p = u->proc;
    if (!version.n || p.hello.app_version.n)
        return 0;
    p.hello.app_version = version;
    return hl_unit_set(u, &p, e);
}

static int add_rows_file(struct hl_source *s, int fd, const char *name,
                         const struct hl_source_options *o, struct hl_err *e)
{
    uint8_t head[HL_HELLO_CAP];
    struct hl_proc p = {0};
    struct hl_stream st = {0};
    ssize_t n = pread(fd, head, sizeof head, 0);
    if (n < 0 || first_hello(head, (size_t)n, &p.hello)) {
        hl_source_note(s, "fallback file %s: not a heapline file, or damaged", name);
        return 0;
    }
    if (!same_key(p.hello.key, o->key))
        return 0;
    struct hl_unit *u = find_image(s, p.hello.image);
    p.flags = HL_PROC_FRAMES;
    p.heap.end.kind = HL_ENDED_KILLED_OR_EXIT;
    p.heap.record.vmhwm_bytes = p.heap.record.vmrss_bytes = -1;
    int bad = u ? add_version(u, p.hello.app_version, e) : 0;
    if (bad || (!u && !(u = hl_source_add(s, &p, e))))
        return -1;
    bad = (u->collector_bytes && feed_collector_part(s, u, &st, e));
    hl_buf_fini(&st.pending);
    if (!bad) {
        feed_file(s, fd, name, &st, &u->file_bytes);
        u->proc.n_rows = st.n_rows;
        if (st.n_dropped > u->proc.n_dropped)
            u->proc.n_dropped = st.n_dropped;
        u->proc.flags |= HL_PROC_FRAMES;
        u->rows_file = strdup(name);
        bad = !u->rows_file ? hl_fail(e, ENOMEM, "no memory left") : 0;
    }
    /* Rank 0 unites names: the file's catalog holds all that the collector's
     * did, as a sender repeats its whole catalog there. */
    if (!bad)
        bad = hl_source_keep_names(s, &st, &u->catalog, e);
    hl_stream_fini(&st);
    return bad ? -1 : 0;
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

static int add_page_file(struct hl_source *s, int fd, const char *name,
                         const struct hl_source_options *o, struct hl_err *e)
{
    union {
        struct hl_heap_header h;
        uint8_t bytes[HL_HEAP_PAGE_SIZE];
    } *page = malloc(sizeof *page);
    struct hl_record r;
    struct hl_proc p = {0};
    struct stat st;
    int bad = 0;
    if (!page)
        return hl_fail(e, ENOMEM, "no memory left");
    if (fstat(fd, &st) || hl_path_pread_all(fd, page, sizeof *page, 0) ||
        !hl_heap_header_ok(&page->h)) {
        hl_source_note(s, "fallback file %s: not a heap page, or damaged", name);
    } else if (!strncmp(page->h.key, o->key, HL_KEY_MAX + 1)) {
        const struct hl_heap_slot *slots =
            (const struct hl_heap_slot *)(page->bytes + HL_HEAP_PAGE_HEADER);
        hl_heap_record(&page->h, slots, hl_heap_slots_to_read(&page->h),
                       is_alive(&page->h) ? mono_now() : end_guess(&page->h, &st), &r);
        proc_of_page(&page->h, &r, &p);
        struct hl_unit *u = find_image(s, p.hello.image);
        if (u) { /* the page is newer than what a lost collector knew of it */
            u->proc.heap = p.heap;
            u->proc.flags |= p.flags;
        }
        if (!u && !(u = hl_source_add(s, &p, e)))
            bad = -1;
        if (!bad && !u->page_file && !(u->page_file = strdup(name)))
            bad = hl_fail(e, ENOMEM, "no memory left");
    }
    free(page);
    return bad;
}

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
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
        int rows = ends_with(de->d_name, ".rows"), page = ends_with(de->d_name, ".page");
        char name[4096 + 256];
        if ((!rows && !page) || strncmp(de->d_name, prefix, n))
            continue;
        snprintf(name, sizeof name, "%s/%s", dir, de->d_name);
        int f = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (f < 0)
            continue;
        bad = rows ? add_rows_file(s, f, name, o, e) : add_page_file(s, f, name, o, e);
        close(f);
    }
    closedir(d);
    return bad;
}
