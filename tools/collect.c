/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting heapline-gather and heapline-report; see collect.h.
 */
#include "config.h"

#include "collect.h"

#include "ident.h"
#include "install.h"
#include "outputs.h"
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int collect_is_remote(const struct texts *hosts)
{
    for (size_t i = 0; i < hosts->n; i++)
        if (!launch_is_here(hosts->v[i]))
            return 1;
    return 0;
}

static int add_launcher(const struct collect *c, struct texts *argv)
{
    const char *mpirun = c->o->launcher ? c->o->launcher : HL_MPIRUN;
    struct texts list = {0};
    char own[256] = "localhost";
    int bad = 0;
    gethostname(own, sizeof own - 1);
    /* This node first: rank 0 of the gather writes the outputs here. */
    bad = texts_add(&list, own);
    for (size_t i = 0; i < c->hosts->n && !bad; i++)
        if (!launch_is_here(c->hosts->v[i]))
            bad = texts_add(&list, c->hosts->v[i]);
    size_t n = 0;
    for (size_t i = 0; i < list.n; i++)
        n += strlen(list.v[i]) + 1;
    char *joined = calloc(n + 1, 1);
    for (size_t i = 0; joined && i < list.n; i++)
        strcat(strcat(joined, i ? "," : ""), list.v[i]);
    bad = bad || !joined || texts_add(argv, mpirun) ||
          (geteuid() == 0 && texts_add(argv, "--allow-run-as-root")) ||
          texts_add(argv, "--host") || texts_add(argv, joined) || texts_add(argv, "-n") ||
          texts_addf(argv, "%zu", list.n) || texts_add(argv, "--map-by") ||
          texts_add(argv, "ppr:1:node") || texts_add(argv, "-x") ||
          texts_addf(argv, "HEAPLINE_FALLBACK_DIR=%s", c->fallback_dir);
    free(joined);
    texts_fini(&list);
    return bad;
}

static int add_option(struct texts *argv, const char *name, const char *value)
{
    return value ? texts_add(argv, name) || texts_add(argv, value) : 0;
}

int collect_command(const struct collect *c, struct texts *argv)
{
    char gather[4096];
    const struct run_options *o = c->o;
    int remote = collect_is_remote(c->hosts);
    if (hl_find_program("heapline-gather", gather, sizeof gather, NULL))
        return -1;
    int bad = (remote && add_launcher(c, argv)) || texts_add(argv, gather) ||
              (!remote && texts_add(argv, "--local")) || add_option(argv, "-j", c->key) ||
              add_option(argv, "-o", c->prefix) || add_option(argv, "-f", o->format) ||
              add_option(argv, "--run-id", o->run_id) ||
              add_option(argv, "--app-version", o->app_version) ||
              add_option(argv, "--socket", c->sockets) ||
              (o->quiet && texts_add(argv, "-q"));
    for (size_t i = 0; i < o->n_meta && !bad; i++)
        bad = add_option(argv, "--metadata", o->meta[i]);
    return bad ? -1 : 0;
}

static pid_t start(char *const *argv, int out, const char *log)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    if (out >= 0)
        dup2(out, 1);
    int err = log ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (err >= 0)
        dup2(err, 2);
    execvp(argv[0], argv);
    fprintf(stderr, "heapline-run: cannot execute %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static int wait_status(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Read the gather's stdout to its end; the status line says how it went. */
static enum collected read_status(int fd, int verbose)
{
    static const char whole[] = "heapline-gather: complete",
                      part[] = "heapline-gather: incomplete";
    enum collected r = COLLECTED_NOTHING;
    FILE *f = fdopen(fd, "r");
    char line[4096];
    while (f && fgets(line, sizeof line, f)) {
        if (!strncmp(line, whole, sizeof whole - 1))
            r = COLLECTED_WHOLE;
        else if (!strncmp(line, part, sizeof part - 1))
            r = COLLECTED_INCOMPLETE;
        if (verbose)
            fputs(line, stderr);
    }
    if (f)
        fclose(f);
    return r;
}

enum collected collect_run(const struct collect *c)
{
    struct texts argv = {0};
    int out[2];
    if (collect_command(c, &argv) || pipe2(out, O_CLOEXEC)) {
        fprintf(stderr, "heapline-run: cannot start heapline-gather: is it installed?\n");
        texts_fini(&argv);
        return COLLECTED_NOTHING;
    }
    pid_t pid = start(argv.v, out[1], c->log);
    close(out[1]);
    enum collected r = read_status(out[0], c->o->verbose);
    if (pid < 0 || wait_status(pid) < 0)
        r = COLLECTED_NOTHING;
    texts_fini(&argv);
    return r;
}

static void print_quoted(const char *s)
{
    if (*s &&
        !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                     "-_./:=,+@%")]) {
        fprintf(stderr, " %s", s);
        return;
    }
    fprintf(stderr, " '");
    for (; *s; s++)
        fprintf(stderr, *s == '\'' ? "'\\''" : "%c", *s);
    fprintf(stderr, "'");
}

void collect_tell_command(const struct collect *c, const char *why)
{
    struct texts argv = {0};
    struct collect later = *c;
    if (later.spool && access(later.spool, F_OK))
        later.spool = NULL;
    if (later.spool)
        later.sockets = NULL;
    if (collect_command(&later, &argv))
        return;
    fprintf(stderr, "heapline-run: %s:", why);
    for (size_t i = 0; i < argv.n; i++)
        if (strcmp(argv.v[i], "-q"))
            print_quoted(argv.v[i]);
    if (later.spool) {
        fprintf(stderr, " --spool");
        print_quoted(later.spool);
    }
    fprintf(stderr, "\n");
    texts_fini(&argv);
}

void collect_tell_failure(const struct collect *c)
{
    char dir[4096];
    int has_files = hl_fallback_dir(c->fallback_dir, geteuid(), dir, sizeof dir) &&
                    hl_path_is_own_dir(dir);
    if (c->has_collector || has_files || collect_is_remote(c->hosts))
        collect_tell_command(
            c, "the outputs were not written; the data are kept, write them with");
    else
        fprintf(stderr,
                "heapline-run: nothing was recorded: no collector, and no folder in %s "
                "that is "
                "this user's alone\n",
                c->fallback_dir);
}

int collect_report(const struct collect *c)
{
    static const unsigned region[] = {HL_OUT_JSON, HL_OUT_HDF5};
    unsigned formats = c->o->format ? hl_outputs_parse(c->o->format) : HL_OUT_ALL;
    char program[4096];
    struct texts argv = {0};
    struct hl_err e = {0};
    int any = 0;
    if (hl_find_program("heapline-report", program, sizeof program, &e)) {
        fprintf(stderr, "heapline-run: %s\n", e.text);
        return -1;
    }
    int bad = texts_add(&argv, program) || add_option(&argv, "--stat", c->o->report);
    for (size_t i = 0; i < 2 && !any && !bad; i++)
        if (formats & region[i])
            bad = texts_addf(&argv, "%s%s", c->prefix, hl_outputs_suffix(region[i])),
            any = 1;
    if (!bad && formats & HL_OUT_CSV)
        bad = texts_addf(&argv, "%s.csv", c->prefix);
    fflush(stdout);
    pid_t pid = bad ? -1 : start(argv.v, -1, NULL);
    texts_fini(&argv);
    return pid < 0 || wait_status(pid) ? -1 : 0;
}
