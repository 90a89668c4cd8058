/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading spools back; see load.h.
 */
#include "load.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct visitor {
    struct hl_loaded *l;
    uid_t uid;
    int has_head;
};

static int keep_head(struct hl_loaded *l, uid_t uid, const uint8_t *body, size_t n)
{
    if (hl_decode_spool_head(body, n, &l->head) || l->head.uid != uid)
        return -1;
    memcpy(l->key, l->head.key.p, l->head.key.n);
    l->key[l->head.key.n] = 0;
    l->head.key.p = l->key;
    return 0;
}

static int take_hello(struct hl_loaded *l, const uint8_t *body, size_t n)
{
    struct hl_hello h;
    if (hl_decode_hello(body, n, &h))
        return -1;
    int i = h.role == HL_ROLE_FRAMES;
    uint8_t *copy = malloc(n);
    if (!copy)
        return -1;
    memcpy(copy, body, n);
    free(l->hello[i]);
    l->hello[i] = copy;
    l->hello_bytes[i] = n;
    l->n_hellos++;
    l->has_timeline |= h.interval_ns > 0;
    l->flags |= i ? HL_PROC_FRAMES : HL_PROC_HEAP;
    if (i && h.flags & HL_HELLO_UNSHARED)
        l->flags |= HL_PROC_UNSHARED;
    return 0;
}

static int take_record(struct hl_loaded *l, const uint8_t *body, size_t n)
{
    struct hl_record_msg m;
    if (hl_decode_record(body, n, &m) || (!l->record && !(l->record = malloc(sizeof m))))
        return -1;
    *l->record = m; /* the last one counts */
    l->flags |= m.notes & (HL_PROC_NOTE_BYPASSED | HL_PROC_NOTE_PAGE);
    if (m.end.kind != HL_ENDED_SAMPLED)
        l->has_slot = 0; /* nothing is kept for one that has ended */
    return 0;
}

static int take_bye(struct hl_loaded *l, const uint8_t *body, size_t n)
{
    struct hl_bye m;
    if (hl_decode_bye(body, n, &m))
        return -1;
    l->n_dropped = m.n_dropped;
    return 0;
}

static int take_loss(struct hl_loaded *l, const uint8_t *body, size_t n)
{
    struct hl_loss m;
    if (hl_decode_loss(body, n, &m))
        return -1;
    l->n_lost = m.n_rows;
    l->lost_reason = (int)(m.reason & 0xffff);
    return 0;
}

static int take_slot(struct hl_loaded *l, const uint8_t *body, size_t n)
{
    l->has_slot = 1;
    return hl_decode_slot(body, n, &l->slot);
}

static int visit(void *ctx, const struct hl_wire_header *h, const uint8_t *body)
{
    struct visitor *v = ctx;
    struct hl_loaded *l = v->l;
    const char *why;
    if (h->type == HL_MSG_SPOOL || !v->has_head) {
        int bad = v->has_head || h->type != HL_MSG_SPOOL ||
                  keep_head(l, v->uid, body, h->length);
        v->has_head = !bad;
        return bad;
    }
    switch (h->type) {
    case HL_MSG_HELLO: return take_hello(l, body, h->length);
    case HL_MSG_RECORD: return take_record(l, body, h->length);
    case HL_MSG_BYE: return take_bye(l, body, h->length);
    case HL_MSG_LOSS: return take_loss(l, body, h->length);
    case HL_MSG_SLOT: return take_slot(l, body, h->length);
    case HL_MSG_POINTS: return 0; /* they have a file of their own: points.h */
    default: return hl_tally_take(&l->tally, h, body, &why);
    }
}

void hl_load_points(struct hl_loaded *l, struct hl_spool_pool *pool, const char *name)
{
    char points[PATH_MAX];
    l->points.last = hl_point_lost();
    if (hl_points_name(name, points, sizeof points) == 0)
        hl_points_count(pool, points, &l->points);
}

static void count_points(struct hl_loaded *l, struct hl_spool_pool *pool,
                         const char *spool)
{
    uint64_t told = l->record ? l->record->n_points : 0;
    if (l->has_timeline || told)
        hl_load_points(l, pool, spool);
    l->n_points_gone = told > l->points.n ? told - l->points.n : 0;
}

int hl_load(struct hl_loaded *l, struct hl_spool_pool *pool, uid_t uid, const char *name,
            struct hl_err *e)
{
    struct visitor v = {l, uid, 0};
    memset(l, 0, sizeof *l);
    if (!(l->spool = malloc(sizeof *l->spool)))
        return hl_fail(e, ENOMEM, "spool %s: no memory left", name);
    if (hl_spool_load(l->spool, pool, name, visit, &v, e)) {
        free(l->spool);
        l->spool = NULL;
    } else if (!v.has_head) {
        hl_fail(e, HL_ERR_FORMAT, "%s: its head is wrong", name);
    } else {
        l->flags |= hl_spool_has_damage(l->spool) ? HL_PROC_NOTE_DAMAGED : 0;
        count_points(l, pool, name);
        return 0;
    }
    hl_loaded_fini(l);
    return -1;
}

int hl_load_head(struct hl_loaded *l, int fd, uid_t uid)
{
    uint8_t buf[HL_WIRE_HEADER + 4096];
    struct hl_wire_header h;
    const uint8_t *body;
    size_t used;
    ssize_t n = pread(fd, buf, sizeof buf, 0);
    memset(l, 0, sizeof *l);
    return n <= 0 ||
                   hl_wire_next(buf, (size_t)n, HL_IN_SPOOL, HL_STATE_FILE, &h, &body,
                                &used) ||
                   h.type != HL_MSG_SPOOL || keep_head(l, uid, body, h.length)
               ? -1
               : 0;
}

void hl_loaded_fini(struct hl_loaded *l)
{
    if (l->spool)
        hl_spool_fini(l->spool);
    free(l->spool);
    hl_tally_fini(&l->tally);
    free(l->hello[0]);
    free(l->hello[1]);
    free(l->record);
    memset(l, 0, sizeof *l);
}
