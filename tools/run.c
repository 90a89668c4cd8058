/* SPDX-License-Identifier: Apache-2.0
 *
 * heapline-run, the outer form: prepares the ranks' environment, runs COMMAND,
 * gathers, reports.  The inner form is in inner.c.
 */
#include "config.h"

#include "child.h"
#include "collect.h"
#include "command.h"
#include "fds.h"
#include "inner.h"
#include "outputs.h"
#include "run_options.h"
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run {
    struct session s;
    enum launcher kind;
    struct texts hosts, without, vars, argv, envp;
    int is_far;           /* this node is none of the hosts */
    int hosts_are_hidden; /* the launcher makes an allocation of its own */
};

static int say(const struct hl_err *e)
{
    fprintf(stderr, "heapline-run: %s\n", e->text);
    return -1;
}

static void fini(struct run *r)
{
    hl_link_close(&r->s.keeper);
    texts_fini(&r->hosts);
    texts_fini(&r->without);
    texts_fini(&r->vars);
    texts_fini(&r->argv);
    texts_fini(&r->envp);
}

static void note(const struct run *r, const char *text)
{
    if (!r->s.o->quiet)
        fprintf(stderr, "heapline-run: %s\n", text);
}

#ifndef HAVE_MPI
/* The other hosts are named as missing from the start. */
static int stay_here(struct run *r)
{
    struct texts all = r->hosts;
    int bad = 0;
    if (!command_is_remote(&all))
        return 0;
    fprintf(stderr,
            "heapline-run: this build has no MPI (--without-mpi): the outputs will "
            "have this node's processes alone\n");
    r->hosts = (struct texts){0};
    for (size_t i = 0; i < all.n && !bad; i++)
        bad = !launch_is_here(all.v[i]) && texts_add(&r->without, all.v[i]);
    texts_fini(&all);
    return bad;
}
#else
static int stay_here(struct run *r)
{
    (void)r;
    return 0;
}
#endif

/* Which nodes take part, and what it means for this one. */
static int find_hosts(struct run *r, struct hl_err *e)
{
    const struct run_options *o = r->s.o;
    const char *list = getenv("SLURM_JOB_NODELIST");
    if (launch_hosts(r->kind, o->command, o->hosts, &r->hosts, e))
        return -1;
    if (stay_here(r))
        return hl_fail(e, ENOMEM, "no memory left");
    r->hosts_are_hidden =
        r->kind == LAUNCH_SRUN && !r->hosts.n && !o->hosts && !(list && *list);
    if (r->hosts_are_hidden)
        note(r,
             "outside an allocation srun chooses the nodes itself, and they are not "
             "known here: name them by --hosts LIST, or run this below salloc or sbatch");
    r->is_far = r->hosts.n > 0;
    for (size_t i = 0; i < r->hosts.n; i++)
        r->is_far &= !launch_is_here(r->hosts.v[i]);
    /* Where the variables are set plainly, the launcher itself has agents here. */
    r->s.is_elsewhere =
        r->is_far && (r->kind == LAUNCH_OPENMPI || r->kind == LAUNCH_HYDRA);
    if (r->is_far && r->kind == LAUNCH_NONE)
        note(r, "this node is none of the run's: what runs on it is not in the outputs");
    return 0;
}

static int prepare(struct run *r, const struct run_options *o, struct hl_err *e)
{
    r->s.o = o;
    r->kind = launch_kind(o->command);
    if (o->prefix)
        snprintf(r->s.prefix, sizeof r->s.prefix, "%s", o->prefix);
    else
        hl_outputs_default_prefix(r->s.prefix, sizeof r->s.prefix);
    if (hl_outputs_check(r->s.prefix, e) || find_hosts(r, e))
        return -1;
    session_new_key(&r->s);
    if (session_variables(&r->s, &r->vars, e)) /* before anything is started */
        return -1;
    texts_fini(&r->vars);
    if (session_open(&r->s, e)) {
        if (o->socket)
            return -1;
        session_tell_fallback(&r->s, e);
    }
    if (session_variables(&r->s, &r->vars, e))
        return -1;
    return launch_prepare(r->kind, o->command, &r->vars, &r->argv, &r->envp)
               ? hl_fail(e, ENOMEM, "no memory left")
               : 0;
}

static void explain(const struct run *r)
{
    const struct run_options *o = r->s.o;
    if (!o->verbose)
        return;
    fprintf(stderr, "heapline-run: run %s, collector %s, outputs %s.*\n", r->s.key,
            !r->s.has_collector ? "none"
            : r->s.is_private   ? r->s.private.socket
                                : r->s.sockets,
            r->s.prefix);
}

static int cannot_execute(struct run *r, int why)
{
    fprintf(stderr, "heapline-run: cannot execute %s: %s\n", r->s.o->command[0],
            strerror(why));
    session_discard(&r->s);
    return why == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT_EXECUTE;
}

/* Gather and report; returns whether the outputs are whole. */
static int finish(struct run *r)
{
    struct session *s = &r->s;
    struct collect c = {.o = s->o,
                        .key = s->key,
                        .prefix = s->prefix,
                        .sockets = s->sockets,
                        .spool = s->is_private ? s->private.spool : NULL,
                        .has_collector = s->has_collector,
                        .fallback_dir = s->fallback_dir,
                        .hosts = &r->hosts,
                        .without = &r->without,
                        .keep_unseen = r->kind == LAUNCH_NONE && !r->hosts.n};
    if (r->hosts_are_hidden && !session_saw_ranks(s)) {
        session_discard(s);
        c.spool = NULL;
        collect_tell_unknown(&c,
                             "the outputs were not written: the data are on the nodes "
                             "that srun chose; write them with");
        return -1;
    }
    enum collected how = session_mend(s) ? COLLECTED_NOTHING : collect_run(&c);
    if (r->is_far && how != COLLECTED_NOTHING) /* of the launcher itself, at most */
        session_discard(s);
    if (how == COLLECTED_NOTHING) {
        collect_tell_failure(&c);
        return -1;
    }
    if (c.keep_unseen && c.ranks_unseen)
        collect_tell_unknown(&c, "ranks were never seen, so the data are kept; if other "
                                 "nodes have them, write all outputs on those and this "
                                 "node with");
    if (s->o->report && collect_report(&c))
        how = COLLECTED_INCOMPLETE;
    return how == COLLECTED_WHOLE ? 0 : -1;
}

static int outer(const struct run_options *o)
{
    struct run r = {0};
    struct hl_err e = {0};
    struct hl_end end;
    pid_t pid;
    r.s.keeper.fd = r.s.log = -1;
    if (prepare(&r, o, &e)) {
        say(&e);
        fini(&r);
        return RUN_USAGE;
    }
    explain(&r);
    int why = child_start(r.argv.v, r.envp.v, &pid);
    if (why) {
        int status = cannot_execute(&r, why);
        fini(&r);
        return status;
    }
    struct child_watch watch = {r.s.keeper.fd, session_mend_fd, &r.s};
    if (child_wait(pid, &watch, &end))
        end = (struct hl_end){HL_ENDED_EXIT, RUN_USAGE};
    session_tell_end(&r.s, pid, &end);
    child_reap(pid);
    int bad = finish(&r);
    session_tell_log(&r.s);
    fini(&r);
    int status = child_status(&end);
    return status == 0 && bad ? RUN_USAGE : status;
}

int main(int argc, char **argv)
{
    struct run_options o;
    hl_fds_hold_std();
    child_prepare();
    int r = run_options_parse(&o, argc, argv);
    if (r) {
        run_options_fini(&o);
        return r > 0 ? 0 : RUN_USAGE;
    }
    int status = inner_is_wanted(o.command) ? inner_run(&o) : outer(&o);
    run_options_fini(&o);
    return status;
}
