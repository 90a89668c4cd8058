/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting heapline-gather and heapline-report; see collect.h.
 */
#include "config.h"

#include "collect.h"

#include "attempt.h"
#include "child.h"
#include "ident.h"
#include "install.h"
#include "outputs.h"
#include "path.h"
#include "watch.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const unsigned kinds[] = {HL_OUT_JSON, HL_OUT_HDF5, HL_OUT_CSV};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* ---- the command ---- */

static int add_option(struct texts *argv, const char *name, const char *value)
{
    return value ? texts_add(argv, name) || texts_add(argv, value) : 0;
}

static int add_gather(const struct collect *c, int is_local, struct texts *argv)
{
    char gather[4096];
    const struct run_options *o = c->o;
    if (hl_find_program("heapline-gather", gather, sizeof gather, NULL))
        return -1;
    int bad =
        texts_add(argv, gather) || (is_local && texts_add(argv, "--local")) ||
        add_option(argv, "-j", c->key) || add_option(argv, "-o", c->prefix) ||
        add_option(argv, "-f", o->format) || add_option(argv, "--run-id", o->run_id) ||
        add_option(argv, "--app-version", o->app_version) ||
        add_option(argv, "--socket", c->sockets) || (o->quiet && texts_add(argv, "-q"));
    for (size_t i = 0; i < o->n_meta && !bad; i++)
        bad = add_option(argv, "--metadata", o->meta[i]);
    for (size_t i = 0; c->without && i < c->without->n && !bad; i++)
        bad = add_option(argv, "--without-node", c->without->v[i]);
    return bad ? -1 : 0;
}

int collect_command(const struct collect *c, const struct texts *hosts, const char *file,
                    struct texts *argv)
{
    struct starter s = {0};
    int remote = command_is_remote(hosts);
    int bad = remote && (starter_init(&s, c->o->launcher, c->fallback_dir) ||
                         starter_line(&s, hosts, file, argv));
    bad = bad || add_gather(c, !remote, argv);
    starter_fini(&s);
    return bad ? -1 : 0;
}

/* ---- where the outputs are ---- */

struct outputs_seen {
    struct stat st[N_KINDS]; /* st_ino 0: not there */
};

static unsigned wanted(const struct collect *c)
{
    return c->o->format ? hl_outputs_parse(c->o->format) : HL_OUT_ALL;
}

static void see_outputs(const struct collect *c, struct outputs_seen *seen)
{
    char name[4200];
    memset(seen, 0, sizeof *seen);
    for (size_t i = 0; i < N_KINDS; i++) {
        snprintf(name, sizeof name, "%s%s", c->prefix, hl_outputs_suffix(kinds[i]));
        if (stat(name, &seen->st[i]))
            memset(&seen->st[i], 0, sizeof seen->st[i]);
    }
}

/* Is one of the outputs another file than before?  Old ones of that name may lie
 * here while the new ones are on another node. */
static int are_new(const struct collect *c, const struct outputs_seen *before)
{
    struct outputs_seen now;
    see_outputs(c, &now);
    for (size_t i = 0; i < N_KINDS; i++)
        if (now.st[i].st_ino &&
            (now.st[i].st_ino != before->st[i].st_ino ||
             now.st[i].st_mtim.tv_sec != before->st[i].st_mtim.tv_sec ||
             now.st[i].st_mtim.tv_nsec != before->st[i].st_mtim.tv_nsec))
            return 1;
    return 0;
}

static void folder_of(const char *prefix, char *out, size_t cap)
{
    collect_absolute(prefix, out, cap);
    char *slash = strrchr(out, '/');
    if (slash)
        slash[slash == out] = 0;
}

/* Another node wrote them: a shared folder may show them a little later, and
 * opening it makes NFS look again. */
static int are_here(const struct collect *c, const struct outputs_seen *before)
{
    enum { TRIES = 5, PAUSE_MS = 300 };
    char folder[8300];
    folder_of(c->prefix, folder, sizeof folder);
    for (int i = 0; i < TRIES; i++) {
        DIR *d = opendir(folder);
        int found = are_new(c, before);
        if (d)
            closedir(d);
        if (found)
            return 1;
        usleep(PAUSE_MS * 1000);
    }
    return 0;
}

/* A gather of one process says no place: then it is the first host's. */
static void tell_place(struct collect *c, const struct words *w,
                       const struct texts *hosts, const struct outputs_seen *before)
{
    char folder[8300];
    const char *host = w->host[0] ? w->host : hosts->v[0];
    if (launch_is_here(host) || are_here(c, before))
        return;
    folder_of(c->prefix, folder, sizeof folder);
    snprintf(c->host, sizeof c->host, "%s", host);
    snprintf(c->folder, sizeof c->folder, "%s", w->host[0] ? w->folder : folder);
    if (!c->o->quiet)
        fprintf(stderr, "heapline-run: the outputs are on %s, in %s\n", c->host,
                c->folder);
}

/* ---- runs of the gather ---- */

/* The nodes of one run of it, and how they are reached. */
struct round {
    struct starter starter;
    struct texts hosts, argv, envp;
    char file[4200]; /* the host file, "" none */
    int is_remote;
    struct attempt attempt;
};

static void round_fini(struct round *r)
{
    attempt_fini(&r->attempt);
    starter_fini(&r->starter);
    texts_fini(&r->hosts);
    texts_fini(&r->argv);
    texts_fini(&r->envp);
    if (r->file[0])
        unlink(r->file);
}

/* 0, or -1 told. */
static int make_host_file(struct round *r, const char *dir)
{
    snprintf(r->file, sizeof r->file, "%s/heapline-hosts.XXXXXX", dir);
    int fd = mkstemp(r->file);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    int bad = !f || starter_write_hosts(&r->starter, &r->hosts, f);
    if (bad)
        fprintf(stderr, "heapline-run: cannot write the host file %s: %s\n", r->file,
                strerror(errno));
    if (fd < 0)
        r->file[0] = 0;
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    return bad ? -1 : 0;
}

/* r->hosts are there. 0, or -1 told. */
static int round_prepare(const struct collect *c, struct round *r)
{
    r->is_remote = command_is_remote(&r->hosts);
    int bad =
        command_environment(environ, c->fallback_dir, &r->envp) ||
        (r->is_remote && starter_init(&r->starter, c->o->launcher, c->fallback_dir));
    if (!bad && r->is_remote && r->hosts.n > COLLECT_HOSTS_IN_LINE &&
        make_host_file(r, c->fallback_dir))
        return -1;
    bad = bad || collect_command(c, &r->hosts, r->file[0] ? r->file : NULL, &r->argv) ||
          (c->keep_unseen && texts_add(&r->argv, "--keep=unseen"));
    if (bad) {
        fprintf(stderr, "heapline-run: cannot start heapline-gather: is it installed?\n");
        return -1;
    }
    return 0;
}

static enum collected round_run(const struct collect *c, struct round *r)
{
    if (round_prepare(c, r))
        return COLLECTED_NOTHING;
    r->attempt = (struct attempt){.starter = r->is_remote ? &r->starter : NULL,
                                  .hosts = &r->hosts,
                                  .argv = r->argv.v,
                                  .envp = r->envp.v,
                                  .log = c->log,
                                  .verbose = c->o->verbose,
                                  .bounds = attempt_bounds(r->hosts.n)};
    attempt_run(&r->attempt);
    return r->attempt.words.how;
}

/* ---- once more ---- */

static int say(const char *text)
{
    fprintf(stderr, "heapline-run: %s\n", text);
    return -1;
}

static size_t count(const char *flags, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        k += flags[i] != 0;
    return k;
}

/* Who does not answer.  0, or -1: told why it is not for single nodes. */
static int ask_nodes(struct round *r, char *lost)
{
    const struct attempt *a = &r->attempt;
    if (a->silent)
        memcpy(lost, a->silent, r->hosts.n);
    else if (attempt_probe(&r->starter, &r->hosts, r->envp.v, &a->bounds, lost))
        return say("too many of the nodes do not answer");
    if (child_signalled()) /* who had no time to answer is not lost */
        return -1;
    size_t n = count(lost, r->hosts.n), n_others = r->hosts.n - 1;
    if (n && !lost[0] && n == n_others && n > 1 && !a->words.started)
        return say("none of the other nodes answers");
    return 0;
}

/* Which nodes to leave out: lost[i]; none when all go on.  0, or -1: no use. */
static int find_lost(struct round *r, char *lost)
{
    const struct attempt *a = &r->attempt;
    size_t i = 0;
    if (words_lost(&a->words, &r->hosts, lost))
        return 0;
    if (ask_nodes(r, lost))
        return -1;
    if (count(lost, r->hosts.n))
        return 0;
    if (a->is_late)
        return say("all nodes answer, but the gather did not start on them");
    while (i < r->hosts.n &&
           !(a->words.named[0] && launch_same_host(r->hosts.v[i], a->words.named)))
        i++;
    if (i < r->hosts.n)
        lost[i] = 1;
    else if (a->words.complained && a->words.started)
        return -1; /* no node's fault, and it said whose */
    return 0;
}

static void tell_retry(struct round *first, const struct texts *lost)
{
    if (!lost->n) {
        attempt_tell_held(&first->attempt);
        say("the gather ended early, though all nodes answer: gathering once more");
        return;
    }
    fprintf(stderr, "heapline-run: lost ");
    for (size_t i = 0; i < lost->n && i < 8; i++)
        fprintf(stderr, "%s%s", i ? ", " : "", lost->v[i]);
    if (lost->n > 8)
        fprintf(stderr, " and %zu more", lost->n - 8);
    fprintf(stderr, ": gathering once more, without %s\n", lost->n > 1 ? "them" : "it");
}

/* The hosts of the second run and those left out.  0, or -1. */
static int choose_hosts(struct round *first, struct texts *hosts, struct texts *without)
{
    char *lost = calloc(first->hosts.n + 1, 1);
    int bad = !lost || find_lost(first, lost);
    if (!bad && lost[0]) {
        fprintf(stderr, "heapline-run: the gather fails on %s, whose part is to write\n",
                first->hosts.v[0]);
        bad = 1;
    }
    for (size_t i = 0; i < first->hosts.n && !bad; i++)
        bad = texts_add(lost[i] ? without : hosts, first->hosts.v[i]);
    free(lost);
    return bad ? -1 : 0;
}

static enum collected once_more(const struct collect *c, struct round *first,
                                struct round *second)
{
    struct texts without = {0};
    struct collect again = *c;
    enum collected how = COLLECTED_NOTHING;
    int bad = 0;
    for (size_t i = 0; c->without && i < c->without->n && !bad; i++)
        bad = texts_add(&without, c->without->v[i]);
    size_t n_before = without.n;
    if (!bad && choose_hosts(first, &second->hosts, &without) == 0) {
        struct texts lost = {without.v + n_before, without.n - n_before};
        tell_retry(first, &lost);
        again.without = &without;
        how = round_run(&again, second);
        if (how == COLLECTED_NOTHING)
            attempt_tell_held(&second->attempt);
        else if (lost.n)
            collect_tell_command(c, "the data are kept; when all nodes are back, write "
                                    "them with");
    } else {
        attempt_tell_held(&first->attempt);
    }
    texts_fini(&without);
    return how;
}

enum collected collect_run(struct collect *c)
{
    struct round first = {0}, second = {0};
    struct outputs_seen before;
    struct round *last = &first;
    see_outputs(c, &before);
    child_forget_signal();
    enum collected how =
        command_order(c->hosts, &first.hosts) ? COLLECTED_NOTHING : round_run(c, &first);
    if (how == COLLECTED_NOTHING && first.argv.n && first.is_remote &&
        !child_signalled()) {
        last = &second;
        how = once_more(c, &first, &second);
    } else if (how == COLLECTED_NOTHING) {
        attempt_tell_held(&first.attempt);
    }
    c->ranks_unseen = last->attempt.words.ranks_unseen;
    if (how != COLLECTED_NOTHING && last->is_remote)
        tell_place(c, &last->attempt.words, &last->hosts, &before);
    round_fini(&first);
    round_fini(&second);
    return how;
}

/* ---- the report ---- */

static int report_files(const struct collect *c, const char *prefix, struct texts *argv)
{
    unsigned formats = wanted(c);
    int bad = 0, any = 0;
    for (size_t i = 0; i < N_KINDS && !bad; i++) {
        if (!(formats & kinds[i]) || (any && kinds[i] != HL_OUT_CSV))
            continue;
        bad = texts_addf(argv, "%s%s", prefix, hl_outputs_suffix(kinds[i]));
        any = 1;
    }
    return bad;
}

static void tell_no_report(const struct collect *c)
{
    struct texts files = {0};
    char prefix[12600];
    const char *base = strrchr(c->prefix, '/');
    snprintf(prefix, sizeof prefix, "%s/%s", c->folder, base ? base + 1 : c->prefix);
    fprintf(
        stderr,
        "heapline-run: no report: the outputs are not on this node; run on %s:", c->host);
    command_print(stderr, "heapline-report");
    if (strcmp(c->o->report, "mean")) {
        command_print(stderr, "--stat");
        command_print(stderr, c->o->report);
    }
    report_files(c, prefix, &files);
    for (size_t i = 0; i < files.n; i++)
        command_print(stderr, files.v[i]);
    fprintf(stderr, "\n");
    texts_fini(&files);
}

static int run_report(char *const *argv)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execv(argv[0], argv);
        fprintf(stderr, "heapline-run: cannot execute %s: %s\n", argv[0],
                strerror(errno));
        _exit(127);
    }
    int status = 1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid < 0 || status ? -1 : 0;
}

int collect_report(const struct collect *c)
{
    char program[4096];
    struct texts argv = {0};
    struct hl_err e = {0};
    if (c->host[0]) {
        tell_no_report(c);
        return 0;
    }
    if (hl_find_program("heapline-report", program, sizeof program, &e))
        return say(e.text);
    int bad = texts_add(&argv, program) || add_option(&argv, "--stat", c->o->report) ||
              texts_add(&argv, "--") || /* names may begin with a dash */
              report_files(c, c->prefix, &argv) || run_report(argv.v);
    texts_fini(&argv);
    return bad ? -1 : 0;
}
