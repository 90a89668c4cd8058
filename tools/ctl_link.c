/* SPDX-License-Identifier: Apache-2.0
 *
 * heaplinectl's questions and their answers.  Nothing here waits without a bound: a
 * collector that hangs, or sends a byte now and then, is given up.
 */
#include "heaplinectl.h"

#include "clock.h"
#include "messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ctl_message {
    struct ctl_message *next;
    uint8_t body[];
};

/* ---- open ---- */

static int64_t patience_ns(const struct ctl_link *l)
{
    return (int64_t)(l->patience_ms ? l->patience_ms : CTL_PATIENCE_MS) * 1000000;
}

static int open_one(struct ctl_link *l, const char *path, struct hl_err *e)
{
    const struct hl_link_wait wait = {patience_ns(l), l->mask, l->stop};
    if (hl_link_open_with(&l->link, path, -1, &wait, e) == 0 &&
        hl_link_hello(&l->link, HL_ROLE_CONTROL, "heaplinectl", getpid(), e) == 0)
        return 0;
    hl_link_close(&l->link);
    return -1;
}

int ctl_link_open_any(struct ctl_link *l, struct hl_err *e)
{
    const char *list = l->sockets;
    char path[4096];
    int tried = 0;
    while (*list) {
        size_t n = l->is_list ? strcspn(list, ":") : strlen(list);
        if (n && n < sizeof path) {
            memcpy(path, list, n);
            path[n] = 0;
            tried = 1;
            if (open_one(l, path, e) == 0)
                return 0;
            if (l->stop && *l->stop)
                return -1;
        }
        list += n + (list[n] == ':');
    }
    return tried ? -1
                 : hl_fail(e, EINVAL, "%s names no socket: set it, or use --socket",
                           l->is_list ? "HEAPLINE_SOCKET" : "--socket");
}

/* ---- answers ---- */

void ctl_answer_fini(struct ctl_answer *a)
{
    struct ctl_message *m;
    while ((m = a->messages)) {
        a->messages = m->next;
        free(m);
    }
    free(a->job);
    free(a->live);
    free(a->user);
    memset(a, 0, sizeof *a);
}

static const uint8_t *keep(struct ctl_answer *a, const uint8_t *body, size_t n)
{
    struct ctl_message *m = malloc(sizeof *m + n + 1);
    if (!m)
        return NULL;
    memcpy(m->body, body, n);
    m->next = a->messages;
    a->messages = m;
    return m->body;
}

/* Room for one more; NULL: no memory. */
static void *one_more(void **list, size_t n, size_t *cap, size_t size)
{
    if (n == *cap) {
        size_t more = *cap ? 2 * *cap : 64;
        void *q = realloc(*list, more * size);
        if (!q)
            return NULL;
        *list = q;
        *cap = more;
    }
    return (char *)*list + n * size;
}

/* 1: the answer is whole; 0: there is more; negative: an HL_WIRE_ code, or
 * HL_WIRE_NO_SPACE without memory. */
static int take(struct ctl_answer *a, unsigned type, const uint8_t *body, size_t n)
{
    void *at, *list;
    int code = HL_WIRE_BAD_TYPE;
    if (!(body = keep(a, body, n)))
        return HL_WIRE_NO_SPACE;
    switch (type) {
    case HL_MSG_STATUS: a->has_status = 1; return hl_decode_status(body, n, &a->status);
    case HL_MSG_JOB:
        list = a->job;
        at = one_more(&list, a->n_jobs, &a->cap[0], sizeof *a->job);
        a->job = list;
        code = at ? hl_decode_job_line(body, n, at) : HL_WIRE_NO_SPACE;
        a->n_jobs += !code;
        return code;
    case HL_MSG_LIVE:
        list = a->live;
        at = one_more(&list, a->n_live, &a->cap[1], sizeof *a->live);
        a->live = list;
        code = at ? hl_decode_live_line(body, n, at) : HL_WIRE_NO_SPACE;
        a->n_live += !code;
        return code;
    case HL_MSG_USER:
        list = a->user;
        at = one_more(&list, a->n_users, &a->cap[2], sizeof *a->user);
        a->user = list;
        code = at ? hl_decode_user_line(body, n, at) : HL_WIRE_NO_SPACE;
        a->n_users += !code;
        return code;
    case HL_MSG_DONE: code = hl_decode_done(body, n, &a->done); return code ? code : 1;
    default: return code;
    }
}

int ctl_link_ask(struct ctl_link *l, uint32_t what, const char *arg,
                 struct ctl_answer *out, struct hl_err *e)
{
    uint8_t ask[HL_CONTROL_CAP];
    struct hl_wire_header h;
    const uint8_t *body;
    struct hl_ask m = {what, {arg, strlen(arg)}};
    int64_t last = hl_mono_ns() + (int64_t)CTL_ANSWER_MAX_MS * 1000000;
    ctl_answer_fini(out);
    if (hl_link_send(&l->link, ask, hl_encode_ask(ask, sizeof ask, &m), e))
        return -1;
    for (;;) {
        int64_t left = last - hl_mono_ns(), patience = patience_ns(l);
        left = left < 0 ? 0 : left < patience ? left : patience;
        if (hl_link_next(&l->link, &h, &body, (int)(left / 1000000), e))
            return -1;
        int r = take(out, h.type, body, h.length);
        if (r > 0)
            return 0;
        if (r == HL_WIRE_NO_SPACE)
            return hl_fail(e, ENOMEM, "no memory left");
        if (r < 0)
            return hl_fail(e, HL_ERR_FORMAT,
                           "the collector at %s gave a wrong answer: %s", l->link.path,
                           hl_wire_strerror(r));
    }
}
