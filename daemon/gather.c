/* SPDX-License-Identifier: Apache-2.0
 *
 * heapline-gather: one process a node reads its node's data of a run; rank 0
 * plans, pulls and writes.  With one process, or --local, MPI is never started.
 */
#include "config.h"

#include "comm.h"
#include "fds.h"
#include "gather_index.h"
#include "gather_options.h"
#include "gather_tell.h"
#include "outlets.h"
#include "outputs.h"
#include "plan.h"
#include "pour.h"
#include "private.h"
#include "source.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What rank 0 tells the others at the end. */
enum { WRITTEN = 0, FAILED = 1, WRITTEN_BUT_KEEP = 2 };
enum { WAIT_ALIVE_MS = 1000, MAX_SINKS = 3, DAMAGED_ROUNDS = 10 };

struct gather {
    struct gather_options o;
    char host[HL_HOST_MAX + 1];
    struct hl_comm *comm;
    struct hl_source source;
    struct hl_link starter; /* to the collector of --spool, until the source is open */
    struct hl_index index;
    struct hl_plan plan;
    struct hl_sink *sink[MAX_SINKS];
    char file[MAX_SINKS][1024];
    size_t n_sinks;
    struct gather_changes changes;
    size_t n_committed;  /* outputs that have their names */
    int is_damaged;      /* a process whose data could not be read was left out */
    int others_are_away; /* they could not be told that all is written */
};

static const char *env(const char *name)
{
    return getenv(name);
}

/* What became of the outputs after a failure of rank 0. */
static const char *outcome(const struct gather *g)
{
    if (!g->comm || g->comm->rank)
        return "";
    static char spool[4300];
    if (g->o.spool && !g->n_committed) {
        snprintf(
            spool, sizeof spool,
            "; nothing was written, the data are kept in %s: run this again when that "
            "is mended",
            g->o.spool);
        return spool;
    }
    return g->n_committed ? "; the outputs before it are written, the data are kept"
                          : "; nothing was written, the data are kept";
}

/* ---- the node's side ---- */

static int start_spool(struct gather *g, struct hl_err *e)
{
    static char sockets[HL_NAME_CAP + 8];
    struct hl_private p;
    char key[64], *dir = realpath(g->o.spool, NULL);
    if (!dir)
        return hl_fail_errno(e, "cannot open the spool %s", g->o.spool);
    snprintf(key, sizeof key, "spool-%ld", (long)getpid());
    hl_private_names(&p, key);
    int bad = hl_private_start(&p, dir, &g->starter, e);
    free(dir);
    snprintf(sockets, sizeof sockets, "%s", p.socket);
    g->o.sockets = sockets;
    return bad;
}

static void tick(void *gather)
{
    struct gather *g = gather;
    struct hl_err ignored; /* who waits next meets it again */
    g->comm->ops->tick(g->comm, &ignored);
}

/* A host may be named with or without its domain. */
static int is_same_host(const char *a, const char *b)
{
    size_t n = strcspn(a, "."), k = strcspn(b, ".");
    return !strcmp(a, b) || ((!a[n] || !b[k]) && n == k && !strncmp(a, b, n));
}

static int is_left_out(const struct gather *g)
{
    for (size_t i = 0; i < g->o.n_without; i++)
        if (is_same_host(g->o.without[i], g->host))
            return 1;
    return 0;
}

static int open_source(struct gather *g, struct hl_err *e)
{
    struct hl_source_options so = {.key = g->o.key,
                                   .fallback_dir = g->o.fallback_dir,
                                   .wait_ms = WAIT_ALIVE_MS,
                                   .tick = tick,
                                   .tick_ctx = g};
    if (is_left_out(g))
        return hl_source_empty(&g->source, e);
    /* On several nodes the spool is that of one of them. */
    int here = g->o.spool && (g->comm->size == 1 || access(g->o.spool, F_OK) == 0);
    if (here && start_spool(g, e))
        return -1;
    so.sockets = g->o.sockets;
    int bad = hl_source_open(&g->source, &so, e);
    if (here)
        hl_link_close(&g->starter);
    return bad;
}

/* The outputs are there: a node that cannot note it is no failure. */
static void mark_taken(struct gather *g)
{
    struct hl_err e = {0};
    if (hl_source_taken(&g->source, &e))
        gather_tell_not_taken(g->host, &e);
}

static int begin_piece(void *source, int slot, const struct hl_want *want,
                       struct hl_err *e)
{
    return hl_source_begin(source, slot, want, e);
}

static int end_piece(void *source, int slot, const uint8_t **p, uint64_t *n,
                     struct hl_err *e)
{
    return hl_source_end(source, slot, p, n, e);
}

/* Every process but rank 0. */
static int serve_node(struct gather *g, struct hl_err *e)
{
    const struct hl_server server = {begin_piece, end_piece, &g->source};
    struct hl_buf index = {0};
    int outcome = FAILED;
    int bad =
        hl_index_encode(&g->source, &index) ? hl_fail(e, ENOMEM, "no memory left") : 0;
    bad = bad || g->comm->ops->give_index(g->comm, &index, e);
    hl_buf_fini(&index);
    bad = bad || g->comm->ops->serve(g->comm, &server, &outcome, e);
    if (bad || outcome == FAILED)
        return -1;
    if (outcome == WRITTEN)
        mark_taken(g);
    return 0;
}

/* ---- rank 0 ---- */

static int take_index(struct gather *g, int node, struct hl_err *e)
{
    struct hl_buf b = {0};
    int bad = node ? g->comm->ops->take_index(g->comm, node, &b, e)
              : hl_index_encode(&g->source, &b) ? hl_fail(e, ENOMEM, "no memory left")
                                                : 0;
    bad = bad ||
          hl_index_add(&g->index, (uint32_t)node, hl_buf_data(&b), hl_buf_left(&b), e);
    hl_buf_fini(&b);
    return bad ? -1 : 0;
}

static int take_indices(struct gather *g, struct hl_err *e)
{
    hl_index_init(&g->index);
    for (int node = 0; node < g->comm->size; node++)
        if (take_index(g, node, e))
            return -1;
    hl_index_done(&g->index);
    return 0;
}

static int add_sink(struct gather *g, unsigned kind,
                    struct hl_sink *(*open)(const char *, struct hl_err *),
                    struct hl_err *e)
{
    char *name = g->file[g->n_sinks];
    if (!(g->o.formats & kind))
        return 0;
    int n =
        snprintf(name, sizeof g->file[0], "%s%s", g->o.prefix, hl_outputs_suffix(kind));
    if (n < 0 || (size_t)n >= sizeof g->file[0])
        return hl_fail(e, ENAMETOOLONG, "the output prefix is too long");
    g->sink[g->n_sinks] = open(name, e);
    if (!g->sink[g->n_sinks])
        return -1;
    g->n_sinks++;
    return 0;
}

static int open_sinks(struct gather *g, struct hl_err *e)
{
    if (hl_outputs_check(g->o.prefix, e) || add_sink(g, HL_OUT_JSON, hl_json_sink, e))
        return -1;
#ifdef HAVE_HDF5
    if (add_sink(g, HL_OUT_HDF5, hl_h5_sink, e))
        return -1;
#endif
    return add_sink(g, HL_OUT_CSV, hl_csv_sink, e);
}

static void count_changes(struct gather *g)
{
    struct gather_changes c = {0, g->plan.n_replaced};
    for (size_t i = 0; i < g->n_sinks; i++) {
        const struct hl_sink *s = g->sink[i];
        c.n_nulls = s->n_nulls > c.n_nulls ? s->n_nulls : c.n_nulls;
        if (g->plan.n_replaced + s->n_replaced > c.n_replaced)
            c.n_replaced = g->plan.n_replaced + s->n_replaced;
    }
    g->changes = c;
}

static void abort_sinks(struct gather *g)
{
    for (size_t i = 0; i < g->n_sinks; i++)
        g->sink[i]->ops->abort(g->sink[i]);
    g->n_sinks = 0;
}

static int commit_sinks(struct gather *g, struct hl_err *e)
{
    int bad = 0;
    count_changes(g);
    for (size_t i = 0; i < g->n_sinks; i++) {
        if (bad)
            g->sink[i]->ops->abort(g->sink[i]);
        else
            bad = g->sink[i]->ops->commit(g->sink[i], e);
        g->n_committed += !bad;
        tick(g);
    }
    g->n_sinks = bad ? 0 : g->n_sinks;
    return bad;
}

static int plan(struct gather *g, struct hl_err *e)
{
    int bad = hl_plan_make(&g->plan, &g->index, e);
    for (size_t i = 0; i < g->o.n_without && !bad; i++)
        bad = hl_plan_missing(&g->plan, e, "node %s: left out", g->o.without[i]);
    if (!bad && !g->index.n)
        bad = hl_plan_missing(&g->plan, e,
                              "all data: no process of run %s was seen; is the program "
                              "static, setuid, or started with a cleared environment?",
                              g->o.key);
    return bad;
}

static int comm_tick(void *comm, struct hl_err *e)
{
    struct hl_comm *c = comm;
    return c->ops->tick(c, e);
}

static struct hl_pour pour_of(struct gather *g, const struct hl_run *run)
{
    return (struct hl_pour){.from = {.comm = g->comm,
                                     .source = &g->source,
                                     .index = &g->index,
                                     .plan = &g->plan},
                            .run = run};
}

/* *e: why it cannot be read. */
static int leave_out(void *gather, const struct hl_pour *p, struct hl_err *e)
{
    struct gather *g = gather;
    size_t at = (size_t)(p->damaged - g->index.entry);
    if (p->n_points_lost) {
        hl_index_lose_points(&g->index, at, p->n_points_lost);
        return 0;
    }
    return hl_index_leave_out(&g->index, at, p->damaged_kind, e->text)
               ? hl_fail(e, ENOMEM, "no memory left")
               : 0;
}

/* From here on the sinks have threads of their own. */
static int pour_into(struct gather *g, struct hl_sink *const *sink, size_t n,
                     struct hl_pour *p, struct hl_err *e)
{
    size_t stride = hl_catalog_stride(&g->plan.catalog);
    p->out = hl_outlets_open(sink, n, stride * sizeof(double), comm_tick, g->comm, e);
    int bad = !p->out || hl_pour(p, e);
    hl_outlets_close(p->out);
    return bad ? -1 : 0;
}

static int pour(struct gather *g, const struct hl_run *run, struct hl_err *e)
{
    struct hl_err ignored;
    struct hl_pour p = pour_of(g, run);
    int bad = pour_into(g, g->sink, g->n_sinks, &p, e);
    if (bad && p.damaged && hl_pull_drain(&p.from, &ignored) == 0)
        g->is_damaged = !leave_out(g, &p, e);
    return bad;
}

static int write_outputs(struct gather *g, struct hl_err *e)
{
    const char *version = g->o.app_version && *g->o.app_version ? g->o.app_version
                          : g->index.app_version[0]             ? g->index.app_version
                                                                : HL_GENERATOR;
    struct hl_run run = {.app_version = version,
                         .run_id = g->o.run_id,
                         .meta = g->o.meta,
                         .n_meta = g->o.n_meta,
                         .catalog = &g->plan.shown,
                         .n_ranks = g->plan.n_ranks,
                         .total_frames = g->plan.total_frames,
                         .n_dropped_rows = g->index.n_dropped,
                         .n_lost_rows = g->index.n_lost,
                         .generator = HL_GENERATOR};
    if (open_sinks(g, e) || pour(g, &run, e)) {
        abort_sinks(g);
        return -1;
    }
    return commit_sinks(g, e);
}

/* Where one process's data are damaged others' may be: all are looked through once,
 * rather than written anew for each. */
static int survey(struct gather *g, struct hl_err *e)
{
    const struct hl_run run = {.catalog = &g->plan.shown};
    if (hl_plan_make(&g->plan, &g->index, e))
        return -1;
    struct hl_pour p = pour_of(g, &run);
    p.note = leave_out;
    p.ctx = g;
    int bad = pour_into(g, NULL, 0, &p, e);
    hl_plan_fini(&g->plan);
    return bad;
}

/* Damaged data of one process must not keep the others' from being written. */
static int write_what_is_sound(struct gather *g, struct hl_err *e)
{
    for (int i = 0; i < DAMAGED_ROUNDS; i++) {
        g->is_damaged = 0;
        *e = (struct hl_err){0};
        if (plan(g, e) == 0 && write_outputs(g, e) == 0)
            return 0;
        if (!g->is_damaged)
            return -1;
        hl_plan_fini(&g->plan);
        if (survey(g, e))
            return -1;
    }
    return hl_fail_in(e, "data change while they are read");
}

static int is_not_whole(const struct gather *g)
{
    return g->index.n_unread || g->plan.n_damaged;
}

static void tell_result(const struct gather *g)
{
    const char *output[MAX_SINKS];
    for (size_t i = 0; i < g->n_sinks; i++)
        output[i] = g->file[i];
    if (!g->o.quiet)
        gather_tell_notes(&g->plan, &g->changes);
    if (!g->o.quiet && is_not_whole(g))
        gather_tell_kept(g->o.key);
    gather_tell_status(&g->plan, output, g->n_sinks);
    if (g->comm->size > 1)
        gather_tell_place(g->host, g->o.prefix);
}

static int lead(struct gather *g, struct hl_err *e)
{
    int bad = take_indices(g, e) || write_what_is_sound(g, e);
    struct hl_err ignored = {0};
    if (bad) {
        gather_tell_lost(g->comm);
        return -1;
    }
    tell_result(g);
    /* What was left out comes later: then the others' data are needed again. */
    int keep = g->o.n_without || is_not_whole(g) || g->o.keep == GATHER_KEEP ||
               (g->o.keep == GATHER_KEEP_UNSEEN && g->plan.n_unseen);
    if (g->comm->ops->end(g->comm, keep ? WRITTEN_BUT_KEEP : WRITTEN, &ignored)) {
        gather_tell_not_told(&ignored);
        g->others_are_away = 1;
    }
    if (!keep)
        mark_taken(g);
    return 0;
}

/* MPI is wanted where a launcher started more than one of us. */
static int wants_mpi(const struct gather_options *o)
{
    return !o->local && hl_ident_rank(env) >= 0 && hl_ident_size(env) > 1;
}

static int start_comm(struct gather *g, int *argc, char ***argv, struct hl_err *e)
{
    gethostname(g->host, sizeof g->host - 1);
    g->comm = wants_mpi(&g->o) ? hl_comm_mpi(argc, argv, g->host, e) : hl_comm_local();
    if (!g->comm || e->code)
        return -1;
    if (g->comm->size > 1 && !g->comm->rank)
        gather_tell_started();
    return 0;
}

static int work(struct gather *g, struct hl_err *e)
{
    if (open_source(g, e))
        return -1;
    return g->comm->rank ? serve_node(g, e) : lead(g, e);
}

int main(int argc, char **argv)
{
    static struct gather g;
    struct hl_err e = {0};
    hl_fds_hold_std();
    int r = gather_options_parse(&g.o, argc, argv);
    if (r) {
        gather_options_fini(&g.o);
        return r > 0 ? 0 : 2;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit is an error like a full disk */
    int bad = start_comm(&g, &argc, &argv, &e);
    if (!g.comm) {
        gather_tell_error(&e, "");
        return strstr(e.text, "--without-mpi") ? 2 : 1;
    }
    if (bad)
        gather_tell_lost(g.comm);
    bad = bad || work(&g, &e);
    if (bad && e.code)
        gather_tell_error(&e, outcome(&g));
    int status = bad || g.plan.n_missing > g.plan.n_bypassed;
    hl_source_close(&g.source);
    hl_plan_fini(&g.plan);
    hl_index_fini(&g.index);
    gather_options_fini(&g.o);
    g.comm->ops->close(g.comm, bad || g.others_are_away, status);
    return status;
}
