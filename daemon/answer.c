/* SPDX-License-Identifier: Apache-2.0
 *
 * What keepers and gathers ask: the state of a run, its index, pieces of its
 * streams.  A gather reads its own uid's run, root any.
 */
#include "peer.h"

#include "job.h"
#include "lifetime.h"
#include "process.h"

#include <stdlib.h>
#include <string.h>

enum { INDEX_HIGH = 256 << 10, INDEX_WAIT_MAX_MS = 60000 };

/* ---- the job of a gather ---- */

/* A run may begin after the gather's hello. */
static struct hl_job *job_of(struct hl_peer *p)
{
    if (!p->job) {
        p->job = hl_job_find(p->d, p->uid, (struct hl_str){p->key, strlen(p->key)});
        if (p->job)
            p->job->n_gathers++;
    }
    return p->job;
}

/* ---- STATE ---- */

static void take_state_ask(struct hl_peer *p)
{
    uint8_t out[HL_WIRE_HEADER + 64];
    const struct hl_job *j = job_of(p);
    struct hl_state s = {0};
    if (j)
        s = (struct hl_state){.n_keepers = j->n_keepers,
                              .n_keepers_ever = j->n_keepers_ever,
                              .n_processes = j->n_processes,
                              .n_alive = j->n_alive};
    hl_peer_send(p, out, hl_encode_state(out, sizeof out, &s));
}

static void take_ended(struct hl_peer *p, const uint8_t *body, size_t n)
{
    struct hl_ended_msg m;
    struct hl_job *j = p->job;
    int code = hl_decode_ended(body, n, &m);
    if (!code && m.end.kind != HL_ENDED_EXIT && m.end.kind != HL_ENDED_SIGNAL)
        code = HL_WIRE_BAD_VALUE;
    if (code) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "ENDED: %s", hl_wire_strerror(code));
        return;
    }
    hl_job_note_end(j, &m);
    for (size_t i = 0; i < j->n_processes; i++) {
        struct hl_process *proc = j->process[i];
        struct hl_end end;
        if (proc->pid == m.pid && hl_job_told(j, proc->pid, proc->start_ticks, &end))
            hl_death_told(proc, &m.end);
    }
}

/* ---- INDEX ---- */

static void send_index_end(struct hl_peer *p)
{
    uint8_t out[HL_WIRE_HEADER + 16];
    const struct hl_job *j = p->job;
    struct hl_index_end m = {j ? j->n_processes : 0, j ? j->n_alive : 0};
    p->indexing = 0;
    hl_peer_send(p, out, hl_encode_index_end(out, sizeof out, &m));
    if (p->state != HL_PEER_CLOSED)
        hl_peer_resume(p); /* questions that came meanwhile */
}

/* As much as fits; the rest when there is room again. */
void hl_answer_continue(struct hl_peer *p)
{
    uint8_t out[HL_WIRE_HEADER + 8192];
    struct hl_proc m;
    if (p->timer)
        return; /* held back */
    while (p->job && p->index_at < p->job->n_processes) {
        if (p->state == HL_PEER_CLOSED || hl_buf_left(&p->out) > INDEX_HIGH)
            return;
        hl_process_describe(p->job->process[p->index_at++], &m);
        hl_peer_send(p, out, hl_encode_proc(out, sizeof out, &m));
    }
    if (p->state != HL_PEER_CLOSED)
        send_index_end(p);
}

static void start_index(struct hl_peer *p)
{
    struct hl_job *j = job_of(p);
    hl_timer_free(p->timer);
    p->timer = NULL;
    if (j && j->n_processes && j->state != HL_JOB_LIVE && !j->taken)
        hl_job_set_state(j, HL_JOB_READ, "index");
    hl_answer_continue(p);
}

/* What lies in the sockets belongs into the answer. */
static void read_sockets(struct hl_job *j)
{
    for (size_t i = 0; i < j->n_processes; i++)
        for (int k = 0; k < 2; k++)
            if (j->process[i]->peer[k])
                hl_peer_drain(j->process[i]->peer[k], HL_SCRATCH_BYTES);
}

static void on_index_timer(void *ctx)
{
    struct hl_peer *p = ctx;
    struct hl_job *j = job_of(p);
    if (j)
        read_sockets(j);
    start_index(p);
}

static void take_index_ask(struct hl_peer *p, const uint8_t *body, size_t n)
{
    uint32_t wait_ms = 0;
    const struct hl_job *j = job_of(p);
    int code = hl_decode_index_ask(body, n, &wait_ms);
    if (code) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "INDEX_ASK: %s", hl_wire_strerror(code));
        return;
    }
    if (wait_ms > INDEX_WAIT_MAX_MS)
        wait_ms = INDEX_WAIT_MAX_MS;
    if (!j || !j->n_alive)
        wait_ms = 0;
    /* Never from here: other connections are read before it is answered. */
    p->timer = hl_timer_new(p->d->loop, on_index_timer, p);
    if (!p->timer) {
        hl_peer_refuse(p, HL_REFUSED_LIMIT, "the collector has no memory left");
        return;
    }
    p->indexing = 1;
    p->index_at = 0;
    hl_timer_set(p->timer, wait_ms, 0);
}

void hl_answer_job_quiet(struct hl_job *j)
{
    for (struct hl_peer *p = j->d->peers; p; p = p->next)
        if (p->indexing && p->timer && p->job == j)
            hl_timer_set(p->timer, 0, 0);
}

/* ---- PULL ---- */

static void take_pull(struct hl_peer *p, const uint8_t *body, size_t n)
{
    struct hl_pull m;
    struct hl_job *j = job_of(p);
    int code = hl_decode_pull(body, n, &m);
    if (!code && (!j || m.proc >= j->n_processes))
        code = HL_WIRE_BAD_VALUE;
    if (code) {
        hl_peer_refuse(p, HL_REFUSED_PROTOCOL, "PULL: %s", hl_wire_strerror(code));
        return;
    }
    size_t cap = HL_WIRE_HEADER + HL_DATA_HEAD + (size_t)m.max;
    uint8_t *bytes = malloc(m.max), *out = malloc(cap);
    struct hl_data d = {m.proc, m.what, m.offset, bytes, 0};
    struct hl_spool *s = &j->process[m.proc]->spool;
    int r = !bytes || !out ? -1
            : m.what == HL_PULL_CATALOGS
                ? hl_spool_read_catalogs(s, m.offset, bytes, m.max, &d.n)
                : hl_spool_read(s, m.offset, bytes, m.max, &d.n);
    if (r)
        hl_peer_refuse(p, HL_REFUSED_SPACE, "the spool of process %lld cannot be read",
                       (long long)j->process[m.proc]->pid);
    else
        hl_peer_send(p, out, hl_encode_data(out, cap, &d));
    free(bytes);
    free(out);
}

static void take_taken(struct hl_peer *p)
{
    uint8_t out[HL_WIRE_HEADER];
    struct hl_job *j = job_of(p);
    if (j && hl_job_taken(j)) {
        hl_peer_refuse(p, HL_REFUSED_SPACE, "the collector cannot mark the run as read");
        return;
    }
    hl_peer_send(p, out, hl_encode_taken_ok(out, sizeof out));
    hl_lifetime_check(p->d);
}

void hl_answer_take(struct hl_peer *p, const struct hl_wire_header *h,
                    const uint8_t *body)
{
    switch (h->type) {
    case HL_MSG_STATE_ASK: take_state_ask(p); break;
    case HL_MSG_ENDED: take_ended(p, body, h->length); break;
    case HL_MSG_INDEX_ASK: take_index_ask(p, body, h->length); break;
    case HL_MSG_PULL: take_pull(p, body, h->length); break;
    case HL_MSG_TAKEN: take_taken(p); break;
    default: break; /* the table lets nothing else through */
    }
}
