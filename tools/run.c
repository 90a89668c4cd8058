/* SPDX-License-Identifier: Apache-2.0
 *
 * heapline-run, the outer form: prepares the ranks' environment, runs COMMAND,
 * gathers, reports.  The inner form is in inner.c.
 */
#include "child.h"
#include "collect.h"
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
    struct texts hosts, vars, argv, envp;
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
    texts_fini(&r->vars);
    texts_fini(&r->argv);
    texts_fini(&r->envp);
}

static int prepare(struct run *r, const struct run_options *o, struct hl_err *e)
{
    r->s.o = o;
    r->kind = launch_kind(o->command);
    if (o->prefix)
        snprintf(r->s.prefix, sizeof r->s.prefix, "%s", o->prefix);
    else
        hl_outputs_default_prefix(r->s.prefix, sizeof r->s.prefix);
    if (hl_outputs_check(r->s.prefix, e) ||
        launch_hosts(r->kind, o->command, o->hosts, &r->hosts, e))
        return -1;
    session_new_key(&r->s);
    if (session_variables(&r->s, &r->vars, e)) /* before anything is started */
        return -1;
    texts_fini(&r->vars);
    if (session_open(&r->s, e)) {
        if (o->socket)
            return -1;
        fprintf(stderr, "heapline-run: %s; going on with fallback files in %s\n", e->text,
                r->s.fallback_dir);
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
                        .hosts = &r->hosts};
    enum collected how = session_mend(s) ? COLLECTED_NOTHING : collect_run(&c);
    if (how == COLLECTED_NOTHING) {
        collect_tell_failure(&c);
        return -1;
    }
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
    r.s.keeper.fd = -1;
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
    fini(&r);
    int status = child_status(&end);
    return status == 0 && bad ? RUN_USAGE : status;
}

int main(int argc, char **argv)
{
    struct run_options o;
    int r = run_options_parse(&o, argc, argv);
    if (r) {
        run_options_fini(&o);
        return r > 0 ? 0 : RUN_USAGE;
    }
    int status = inner_is_wanted(o.command) ? inner_run(&o) : outer(&o);
    run_options_fini(&o);
    return status;
}
