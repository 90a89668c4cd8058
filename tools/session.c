/* SPDX-License-Identifier: Apache-2.0
 *
 * Key, collector and variables of a run; see session.h.
 */
#include "session.h"

#include "install.h"
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define SYSTEM_SOCKET "/run/heapline/collector.sock"

void session_new_key(struct session *s)
{
    const char *job = getenv("SLURM_JOB_ID");
    uint64_t r = 0;
    if (getrandom(&r, sizeof r, 0) != sizeof r) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        r = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)t.tv_sec << 20 ^
            (uint64_t)getpid();
    }
    snprintf(s->key, sizeof s->key, "%.200s%s%016llx", job ? job : "",
             job && *job ? "." : "", (unsigned long long)r);
}

static int be_keeper(struct session *s, struct hl_err *e)
{
    if (hl_link_hello(&s->keeper, HL_ROLE_KEEPER, s->key, getpid(), e)) {
        hl_link_close(&s->keeper);
        return -1;
    }
    return 0;
}

static int keep(struct session *s, const char *socket, struct hl_err *e)
{
    return hl_link_open(&s->keeper, socket, -1, e) || be_keeper(s, e) ? -1 : 0;
}

static int keep_private(struct session *s, struct hl_err *e)
{
    if (hl_private_start(&s->private, NULL, &s->keeper, e))
        return -1;
    if (be_keeper(s, e) == 0)
        return 0;
    return e->code == HL_ERR_PEER ? hl_private_failed(&s->private, e) : -1;
}

/* Samples are the collector's work. */
static void tell_no_timeline(const struct session *s)
{
    if (s->o->interval && !s->has_collector && !s->is_elsewhere && !s->o->socket &&
        !s->o->quiet)
        fprintf(stderr, "heapline-run: no collector on this node: its processes have no "
                        "timeline\n");
}

int session_open(struct session *s, struct hl_err *e)
{
    const char *tmp = getenv("TMPDIR");
    s->keeper.fd = s->log = -1;
    s->fallback_dir = tmp && *tmp == '/' ? tmp : "/tmp";
    hl_private_names(&s->private, s->key);
    if (s->o->socket)
        snprintf(s->sockets, sizeof s->sockets, "%s", s->o->socket);
    else
        snprintf(s->sockets, sizeof s->sockets, "%s%s", s->private.socket,
                 s->o->private_only ? "" : ":" SYSTEM_SOCKET);
    if (s->o->socket)
        s->has_collector = keep(s, s->o->socket, e) == 0;
    else if (!s->o->private_only && keep(s, SYSTEM_SOCKET, NULL) == 0)
        s->has_collector = 1;
    else if (!s->is_elsewhere && keep_private(s, e) == 0)
        s->has_collector = s->is_private = 1;
    if (s->is_private)
        s->log = open(s->private.log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    tell_no_timeline(s);
    return s->has_collector || s->is_elsewhere ? 0 : -1;
}

static int can_keep_files(const struct session *s)
{
    char dir[4096];
    if (!hl_fallback_dir(s->fallback_dir, geteuid(), dir, sizeof dir))
        return 0;
    if (access(dir, F_OK))
        return access(s->fallback_dir, W_OK | X_OK) == 0;
    return hl_path_is_own_dir(dir) && access(dir, W_OK | X_OK) == 0;
}

void session_tell_fallback(const struct session *s, const struct hl_err *e)
{
    if (can_keep_files(s))
        fprintf(stderr, "heapline-run: %s; going on with fallback files in %s\n", e->text,
                s->fallback_dir);
    else
        fprintf(stderr,
                "heapline-run: %s; nothing can be kept in %s either: set TMPDIR to a "
                "folder of your own\n",
                e->text, s->fallback_dir);
}

enum { MENDS_MAX = 5 };

static int answers(struct session *s)
{
    struct hl_state st;
    return s->keeper.fd >= 0 && hl_link_state(&s->keeper, &st, NULL) == 0;
}

int session_mend(struct session *s)
{
    struct hl_err e = {0};
    if (!s->is_private || answers(s))
        return 0;
    hl_link_close(&s->keeper);
    if (s->n_mended++ >= MENDS_MAX) {
        fprintf(stderr, "heapline-run: the private collector ended %d times; see %s\n",
                MENDS_MAX + 1, s->private.log);
        return -1;
    }
    if (keep_private(s, &e)) {
        fprintf(
            stderr,
            "heapline-run: the private collector ended and cannot be started again: %s\n",
            e.text);
        return -1;
    }
    if (!s->o->quiet)
        fprintf(stderr,
                "heapline-run: the private collector ended; it was started again\n");
    return 0;
}

int session_mend_fd(void *session)
{
    struct session *s = session;
    if (session_mend(s) || !s->is_private)
        hl_link_close(&s->keeper);
    return s->keeper.fd;
}

int session_variables(const struct session *s, struct texts *vars, struct hl_err *e)
{
    /* What the user set for the agents must reach the ranks of other nodes. */
    static const char *const passed[] = {"HEAPLINE_OUTPUT",  "HEAPLINE_WAIT",
                                         "HEAPLINE_ON_FULL", "HEAPLINE_BUFFER",
                                         "HEAPLINE_CLOCK",   "HEAPLINE_VERBOSE"};
    char agent[4096];
    int bad = 0;
    if (!s->o->no_heap) {
        if (hl_find_agent("libheapline-preload.so", agent, sizeof agent, e))
            return -1;
        bad = texts_addf(vars, "LD_PRELOAD=%s", agent);
    }
    bad = bad || texts_addf(vars, "HEAPLINE_JOB=%s", s->key) ||
          texts_addf(vars, "HEAPLINE_SOCKET=%s", s->sockets) ||
          texts_addf(vars, "HEAPLINE_FALLBACK_DIR=%s", s->fallback_dir);
    if (s->o->no_heap || s->o->no_frames)
        bad = bad || texts_addf(vars, "HEAPLINE_DISABLE=%s",
                                !s->o->no_frames ? "heap"
                                : s->o->no_heap  ? "1"
                                                 : "frames");
    if (s->o->interval)
        bad = bad || texts_addf(vars, "HEAPLINE_INTERVAL=%s", s->o->interval);
    else if (getenv("HEAPLINE_INTERVAL"))
        bad =
            bad || texts_addf(vars, "HEAPLINE_INTERVAL=%s", getenv("HEAPLINE_INTERVAL"));
    for (size_t i = 0; i < sizeof passed / sizeof *passed && !bad; i++)
        if (getenv(passed[i]))
            bad = texts_addf(vars, "%s=%s", passed[i], getenv(passed[i]));
    return bad ? hl_fail(e, ENOMEM, "no memory left") : 0;
}

void session_tell_end(struct session *s, int64_t pid, const struct hl_end *end)
{
    struct hl_ended_msg m = {pid, hl_start_ticks(pid), *end};
    uint8_t out[64];
    if (s->keeper.fd >= 0)
        hl_link_send(&s->keeper, out, hl_encode_ended(out, sizeof out, &m), NULL);
}

/* The entries of the index up to the first with a rank. */
static int index_has_rank(struct hl_link *l, const char *key)
{
    struct hl_wire_header h;
    const uint8_t *body;
    struct hl_proc p;
    uint8_t out[64];
    if (hl_link_hello(l, HL_ROLE_GATHER, key, getpid(), NULL))
        return 0;
    if (hl_link_send(l, out, hl_encode_index_ask(out, sizeof out, 0), NULL))
        return 0;
    while (hl_link_next(l, &h, &body, 5000, NULL) == 0 && h.type == HL_MSG_PROC &&
           hl_decode_proc(body, h.length, &p) == 0)
        if (p.hello.rank >= 0)
            return 1;
    return 0;
}

int session_saw_ranks(struct session *s)
{
    struct hl_link l;
    if (!s->has_collector || hl_link_open(&l, s->keeper.path, -1, NULL))
        return 0;
    int found = index_has_rank(&l, s->key);
    hl_link_close(&l);
    return found;
}

void session_tell_log(const struct session *s)
{
    static const char mark[] = "heaplined: error: ";
    char text[4096];
    ssize_t n = s->log < 0 ? -1 : pread(s->log, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    const char *found = strstr(text, mark);
    if (found) /* what follows from the first is counted by the gather */
        fprintf(stderr, "heapline-run: the private collector: %.*s\n",
                (int)strcspn(found + sizeof mark - 1, "\n"), found + sizeof mark - 1);
}

void session_discard(struct session *s)
{
    struct hl_link l;
    struct hl_wire_header h;
    const uint8_t *body;
    uint8_t out[64];
    if (!s->is_private || hl_link_open(&l, s->private.socket, (int64_t)geteuid(), NULL))
        return;
    if (hl_link_hello(&l, HL_ROLE_GATHER, s->key, getpid(), NULL) == 0 &&
        hl_link_send(&l, out, hl_encode_taken(out, sizeof out), NULL) == 0)
        hl_link_next(&l, &h, &body, 5000, NULL);
    hl_link_close(&l);
    hl_link_close(&s->keeper);
}
