/* SPDX-License-Identifier: Apache-2.0
 *
 * heapline-gather: one process a node reads its node's data of a run; rank 0
 * plans, pulls and writes.  With one process, or --local, MPI is never started.
 */
#include "config.h"

#include "comm.h"
#include "gather_index.h"
#include "gather_options.h"
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

enum { WAIT_ALIVE_MS = 1000, MAX_SINKS = 3 };

struct gather {
    struct gather_options o;
    struct hl_comm *comm;
    struct hl_source source;
    struct hl_link starter; /* to the collector of --spool, until the source is open */
    struct hl_index index;
    struct hl_plan plan;
    struct hl_sink *sink[MAX_SINKS];
    char file[MAX_SINKS][1024];
    size_t n_sinks;
    uint64_t n_nulls, n_replaced; /* for the notes */
};

static const char *env(const char *name)
{
    return getenv(name);
}

static int say(const struct hl_err *e)
{
    fprintf(stderr, "heapline-gather: %s\n", e->text);
    return -1;
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

static int open_source(struct gather *g, struct hl_err *e)
{
    struct hl_source_options so = {.key = g->o.key,
                                   .sockets = g->o.sockets,
                                   .fallback_dir = g->o.fallback_dir,
                                   .wait_ms = WAIT_ALIVE_MS};
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

static int serve_piece(void *ctx, const struct hl_piece *piece, uint8_t *out,
                       struct hl_err *e)
{
    return hl_source_read(ctx, (size_t)piece->unit, piece->offset, piece->n, out, e);
}

/* Every process but rank 0. */
static int serve_node(struct gather *g, struct hl_err *e)
{
    struct hl_buf index = {0};
    int outcome = 1;
    int bad =
        hl_index_encode(&g->source, &index) ? hl_fail(e, ENOMEM, "no memory left") : 0;
    bad = bad || g->comm->ops->give_index(g->comm, &index, e);
    hl_buf_fini(&index);
    bad = bad || g->comm->ops->serve(g->comm, serve_piece, &g->source, &outcome, e);
    if (!bad && outcome == 0 && !g->o.keep)
        bad = hl_source_taken(&g->source, e);
    return bad || outcome ? -1 : 0;
}

/* ---- rank 0 ---- */

static int take_indices(struct gather *g, struct hl_err *e)
{
    struct hl_buf b = {0};
    if (hl_index_init(&g->index, g->comm->size, e))
        return -1;
    if (hl_index_encode(&g->source, &b))
        return hl_fail(e, ENOMEM, "no memory left");
    for (int node = 0; node < g->comm->size; node++) {
        if (node && g->comm->ops->take_index(g->comm, node, &b, e))
            return -1;
        if (hl_index_add(&g->index, node, &b, e))
            return -1;
    }
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

static int commit_sinks(struct gather *g, struct hl_err *e)
{
    int bad = 0;
    g->n_replaced = g->plan.n_replaced;
    for (size_t i = 0; i < g->n_sinks && !bad; i++) {
        const struct hl_sink *s = g->sink[i];
        bad = s->ops->finish(g->sink[i], e);
        g->n_nulls = s->n_nulls > g->n_nulls ? s->n_nulls : g->n_nulls;
        if (g->plan.n_replaced + s->n_replaced > g->n_replaced)
            g->n_replaced = g->plan.n_replaced + s->n_replaced;
    }
    for (size_t i = 0; i < g->n_sinks; i++) {
        if (bad)
            g->sink[i]->ops->abort(g->sink[i]);
        else
            bad = g->sink[i]->ops->commit(g->sink[i], e);
    }
    g->n_sinks = bad ? 0 : g->n_sinks;
    return bad;
}

static void abort_sinks(struct gather *g)
{
    for (size_t i = 0; i < g->n_sinks; i++)
        g->sink[i]->ops->abort(g->sink[i]);
    g->n_sinks = 0;
}

static int plan(struct gather *g, struct hl_err *e)
{
    if (hl_plan_make(&g->plan, &g->index, e))
        return -1;
    for (size_t i = 0; i < g->o.n_without; i++)
        if (hl_plan_missing(&g->plan, e, "node %s: left out", g->o.without[i]))
            return -1;
    return 0;
}

static int write_outputs(struct gather *g, struct hl_err *e)
{
    const char *version = g->o.app_version && *g->o.app_version ? g->o.app_version
                          : g->plan.app_version[0]              ? g->plan.app_version
                                                                : HL_GENERATOR;
    struct hl_run run = {.app_version = version,
                         .run_id = g->o.run_id,
                         .meta = g->o.meta,
                         .n_meta = g->o.n_meta,
                         .catalog = &g->plan.shown,
                         .n_ranks = g->plan.n_ranks,
                         .total_frames = g->plan.total_frames,
                         .n_dropped_rows = g->plan.n_dropped,
                         .n_lost_rows = g->plan.n_lost,
                         .generator = HL_GENERATOR};
    struct hl_pour pour = {g->comm, &g->source, &g->plan, &run, g->sink, g->n_sinks};
    if (open_sinks(g, e)) {
        abort_sinks(g);
        return -1;
    }
    pour.n_sinks = g->n_sinks;
    if (hl_pour(&pour, e)) {
        abort_sinks(g);
        return -1;
    }
    return commit_sinks(g, e);
}

/* What is not in the outputs, and where frames went that have no rank. */
static void tell_notes(const struct gather *g)
{
    if (g->o.quiet)
        return;
    for (size_t i = 0; i < g->plan.n_missing; i++)
        fprintf(stderr, "heapline-gather: missing: %s\n", g->plan.missing[i]);
    if (g->plan.n_other)
        fprintf(stderr,
                "heapline-gather: frames of %zu more processes are in the HDF5 group "
                "heapline/other: they have no rank, or another process has it\n",
                g->plan.n_other);
    if (g->plan.n_running)
        fprintf(stderr, "heapline-gather: %zu processes were still running\n",
                g->plan.n_running);
    if (g->plan.n_unshared)
        fprintf(stderr,
                "heapline-gather: %zu killed processes could share no memory with the "
                "collector: their last frames may be lost\n",
                g->plan.n_unshared);
    if (g->n_nulls)
        fprintf(
            stderr,
            "heapline-gather: %llu numbers are infinite or not a number: they are null "
            "in the JSON file\n",
            (unsigned long long)g->n_nulls);
    if (g->n_replaced)
        fprintf(
            stderr,
            "heapline-gather: %llu texts are not UTF-8: the bytes at fault are U+FFFD "
            "in the outputs\n",
            (unsigned long long)g->n_replaced);
    if (!g->index.n)
        fprintf(stderr,
                "heapline-gather: no process of run %s was seen: is the program static, "
                "setuid, or started with a cleared environment?\n",
                g->o.key);
}

/* heapline-run goes by this line, not by a launcher's exit status. */
static void tell_status(const struct gather *g)
{
    printf("heapline-gather: %s: %llu ranks, %llu frames, %zu processes in",
           g->plan.n_missing > g->plan.n_bypassed ? "incomplete" : "complete",
           (unsigned long long)g->plan.n_ranks, (unsigned long long)g->plan.total_frames,
           g->plan.n_heap);
    for (size_t i = 0; i < g->n_sinks; i++)
        printf(" %s", g->file[i]);
    printf("\n");
    fflush(stdout);
}

static int lead(struct gather *g, struct hl_err *e)
{
    int bad = take_indices(g, e) || plan(g, e) || write_outputs(g, e);
    struct hl_err ignored;
    if (bad) {
        g->comm->ops->end(g->comm, 1, &ignored);
        return -1;
    }
    if (g->comm->ops->end(g->comm, 0, e) ||
        (!g->o.keep && hl_source_taken(&g->source, e)))
        return -1;
    tell_notes(g);
    tell_status(g);
    return 0;
}

/* MPI is wanted where a launcher started more than one of us. */
static int wants_mpi(const struct gather_options *o)
{
    return !o->local && hl_ident_rank(env) >= 0 && hl_ident_size(env) > 1;
}

int main(int argc, char **argv)
{
    static struct gather g;
    struct hl_err e = {0};
    int r = gather_options_parse(&g.o, argc, argv);
    if (r) {
        gather_options_fini(&g.o);
        return r > 0 ? 0 : 2;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit is an error like a full disk */
    if (wants_mpi(&g.o)) {
        g.comm = hl_comm_mpi(&argc, &argv, &e);
        if (!g.comm) {
            say(&e);
            return strstr(e.text, "--without-mpi") ? 2 : 1;
        }
    } else {
        g.comm = hl_comm_local();
    }
    int bad = open_source(&g, &e);
    bad = bad || (g.comm->rank ? serve_node(&g, &e) : lead(&g, &e));
    if (bad && e.code)
        say(&e);
    int incomplete = g.plan.n_missing > g.plan.n_bypassed;
    hl_source_close(&g.source);
    hl_plan_fini(&g.plan);
    hl_index_fini(&g.index);
    gather_options_fini(&g.o);
    g.comm->ops->close(g.comm, bad ? 1 : 0);
    return bad || incomplete ? 1 : 0;
}
