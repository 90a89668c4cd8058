/* SPDX-License-Identifier: Apache-2.0
 *
 * heaplinectl: options and commands; see heaplinectl(8).  Exit status: 0 done,
 * 1 not done, 2 usage.
 */
#include "config.h"

#include "heaplinectl.h"

#include "clock.h"
#include "fds.h"
#include "ident.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_SOCKET "/run/heapline/collector.sock"
#define SECOND ((int64_t)1000000000)

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const char help[] =
    "Usage: heaplinectl [OPTION...] COMMAND\n"
    "Ask and direct the collector of this node.\n"
    "\n"
    "  status            how it stands, on a screen\n"
    "  jobs              your jobs (root: all) and what is kept of them\n"
    "  top               live table of your processes\n"
    "      -d SECONDS      between tables (default 1)\n"
    "      -n COUNT        so many tables, then end\n"
    "  metrics           all numbers in Prometheus' text format\n"
    "  drain             take no new processes\n"
    "      --off           take them again\n"
    "      --wait SECONDS  wait until no process is left\n"
    "  forget JOB        remove a job, or all of a batch job\n"
    "\n"
    "  --socket PATH     the collector's socket (default: HEAPLINE_SOCKET, else\n"
    "                    " DEFAULT_SOCKET ")\n"
    "  --json            for programs; not with top\n"
    "  --color=WHEN      auto (default), always or never\n"
    "  --help            this text\n"
    "  --version         name, version and wire version\n"
    "\n"
    "See heaplinectl(8).\n";

struct options {
    const char *sockets, *command, *job;
    int is_list;     /* sockets are HEAPLINE_SOCKET's */
    int json, color; /* color 0: as standard output is */
    int off;
    int64_t wait_ns; /* -1: do not wait */
    int64_t delay_ns, n;
    int seen_top, seen_drain; /* options of these commands */
};

struct session {
    const struct options *o;
    struct ctl_link link;
    struct ctl_answer answer;
    struct ctl_out out;
};

/* ---- saying what went wrong ---- */

int ctl_complain(const char *format, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    fprintf(stderr, "heaplinectl: %s\n", text);
    return EXIT_FAILED;
}

static int usage(const char *what, const char *arg)
{
    char shown[300] = "";
    if (arg)
        hl_printable(arg, strlen(arg), shown, sizeof shown);
    ctl_complain("%s%s%s; see heaplinectl --help", what, arg ? ": " : "", shown);
    return EXIT_USAGE;
}

int ctl_output_failed(int code)
{
    if (code != EPIPE)
        ctl_complain("cannot write to standard output: %s", strerror(code));
    return EXIT_FAILED;
}

static int finish(struct session *s)
{
    errno = ENOMEM;
    return ctl_flush(&s->out, STDOUT_FILENO) ? ctl_output_failed(errno) : 0;
}

static int print(const char *text)
{
    struct ctl_out o = {0};
    ctl_put(&o, "%s", text);
    return ctl_flush(&o, STDOUT_FILENO) ? ctl_output_failed(errno) : 0;
}

/* ---- questions ---- */

static int ask(struct session *s, uint32_t what, const char *arg)
{
    struct hl_err e = {0};
    char text[512];
    if (s->link.link.fd < 0 && ctl_link_open_any(&s->link, &e))
        return ctl_complain("%s", e.text);
    if (ctl_link_ask(&s->link, what, arg, &s->answer, &e))
        return ctl_complain("%s", e.text);
    if (s->answer.done.code == HL_DONE_OK)
        return 0;
    hl_printable(s->answer.done.text.p, s->answer.done.text.n, text, sizeof text);
    return ctl_complain("%s: the collector at %s says: %s", s->o->command,
                        s->link.link.path, *text ? text : "no");
}

static int wrong_answer(const struct session *s)
{
    return ctl_complain("the collector at %s gave a wrong answer: nothing came",
                        s->link.link.path);
}

static int do_status(struct session *s)
{
    if (ask(s, HL_ASK_STATUS, ""))
        return EXIT_FAILED;
    if (!s->answer.has_status)
        return wrong_answer(s);
    if (s->o->json)
        ctl_json_status(&s->out, &s->answer);
    else
        ctl_show_status(&s->out, &s->answer);
    return 0;
}

static int do_jobs(struct session *s)
{
    if (ask(s, HL_ASK_JOBS, ""))
        return EXIT_FAILED;
    if (s->o->json)
        ctl_json_jobs(&s->out, &s->answer);
    else
        ctl_show_jobs(&s->out, &s->answer);
    return 0;
}

/* Where nobody answers, that is a number as well. */
static int do_metrics(struct session *s)
{
    int r = ask(s, HL_ASK_METRICS, "");
    if (!r && !s->answer.has_status)
        return wrong_answer(s);
    if (!r || !s->answer.done.code)
        ctl_show_metrics(&s->out, r ? NULL : &s->answer, s->o->json);
    return r;
}

/* ---- drain ---- */

static void show_drain(struct session *s, uint64_t n)
{
    const char *many = n == 1 ? "process is" : "processes are";
    if (s->o->json)
        ctl_put(&s->out, "{\"draining\": %s, \"processes\": %llu}\n",
                s->o->off ? "false" : "true", (unsigned long long)n);
    else
        ctl_put(&s->out, "%s: %llu %s alive\n", s->o->off ? "running" : "draining",
                (unsigned long long)n, many);
}

/* The number that is left; negative: it cannot be learned. */
static int64_t wait_for_end(struct session *s, uint64_t n)
{
    int64_t until = hl_mono_ns() + s->o->wait_ns;
    while (n && hl_mono_ns() < until) {
        int64_t left = until - hl_mono_ns(), step = left < SECOND / 2 ? left : SECOND / 2;
        struct timespec t = {0, (long)(step > 0 ? step : 0)};
        nanosleep(&t, NULL);
        if (ask(s, HL_ASK_STATUS, ""))
            return -1;
        n = s->answer.status.value[HL_STATUS_processes];
    }
    return (int64_t)n;
}

static int do_drain(struct session *s)
{
    if (ask(s, s->o->off ? HL_ASK_UNDRAIN : HL_ASK_DRAIN, ""))
        return EXIT_FAILED;
    int64_t n = (int64_t)s->answer.done.n;
    if (s->o->wait_ns < 0) {
        show_drain(s, (uint64_t)n);
        return 0;
    }
    if ((n = wait_for_end(s, (uint64_t)n)) < 0)
        return EXIT_FAILED;
    show_drain(s, (uint64_t)n);
    return n ? ctl_complain(
                   "still alive after --wait: %lld; the collector goes on draining",
                   (long long)n)
             : 0;
}

/* ---- forget ---- */

static int do_forget(struct session *s)
{
    if (ask(s, HL_ASK_FORGET, s->o->job))
        return EXIT_FAILED;
    unsigned long long n = s->answer.done.n;
    if (s->o->json)
        ctl_put(&s->out, "{\"forgotten\": %llu}\n", n);
    else
        ctl_put(&s->out, "%llu job%s forgotten\n", n, n == 1 ? "" : "s");
    return 0;
}

/* ---- options ---- */

static int take_color(struct options *o, const char *when)
{
    static const char *const words[] = {"never", "auto", "always"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(when, words[i])) {
            o->color = i - 1;
            return -1;
        }
    return usage("--color knows auto, always and never, not", when);
}

enum { O_SOCKET = 256, O_JSON, O_COLOR, O_OFF, O_WAIT, O_HELP, O_VERSION };

/* -1: go on; else the exit status. */
static int take(struct options *o, int c, const char *arg)
{
    char version[128];
    switch (c) {
    case O_SOCKET: o->sockets = arg; return -1;
    case O_JSON: o->json = 1; return -1;
    case O_COLOR: return take_color(o, arg ? arg : "always");
    case O_OFF: o->off = o->seen_drain = 1; return -1;
    case O_WAIT:
        o->seen_drain = 1;
        return hl_parse_seconds(arg, 0, 30 * 86400 * SECOND, &o->wait_ns)
                   ? usage("--wait wants seconds, up to 30 days, not", arg)
                   : -1;
    case 'd':
        o->seen_top = 1;
        return hl_parse_seconds(arg, SECOND / 10, 3600 * SECOND, &o->delay_ns)
                   ? usage("-d wants seconds from 0.1 to 3600, not", arg)
                   : -1;
    case 'n':
        o->seen_top = 1;
        return hl_parse_i64(arg, 1, INT32_MAX, &o->n)
                   ? usage("-n wants a number from 1, not", arg)
                   : -1;
    case O_HELP: return print(help);
    case O_VERSION:
        snprintf(version, sizeof version, "heaplinectl (heapline) %s, wire version %d\n",
                 PACKAGE_VERSION, HL_WIRE_VERSION);
        return print(version);
    default: return usage("wrong option", NULL);
    }
}

static const struct command {
    const char *name;
    int (*run)(struct session *s); /* NULL: top */
} commands[] = {{"status", do_status},   {"jobs", do_jobs},   {"top", NULL},
                {"metrics", do_metrics}, {"drain", do_drain}, {"forget", do_forget}};

static const struct command *command_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static int check_use(const struct options *o, char **rest)
{
    int is_top = !strcmp(o->command, "top"), is_drain = !strcmp(o->command, "drain");
    if (!strcmp(o->command, "forget")) {
        if (!o->job || !*o->job)
            return usage("forget wants a JOB: see heaplinectl jobs", NULL);
        if (strlen(o->job) > HL_KEY_MAX)
            return usage("a JOB has at most 255 bytes, not", o->job);
        rest++;
    }
    if (*rest)
        return usage("too many words", *rest);
    if (o->json && is_top)
        return usage("top has no --json", NULL);
    if (o->seen_top && !is_top)
        return usage("-d and -n are for top alone", NULL);
    if (o->seen_drain && !is_drain)
        return usage("--off and --wait are for drain alone", NULL);
    if (o->off && o->wait_ns >= 0)
        return usage("--wait is not for --off", NULL);
    return -1;
}

static int read_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"socket", 1, NULL, O_SOCKET},   {"json", 0, NULL, O_JSON},
        {"color", 2, NULL, O_COLOR},     {"off", 0, NULL, O_OFF},
        {"wait", 1, NULL, O_WAIT},       {"help", 0, NULL, O_HELP},
        {"version", 0, NULL, O_VERSION}, {NULL, 0, NULL, 0}};
    int c, r;
    *o = (struct options){.wait_ns = -1, .delay_ns = SECOND};
    while ((c = getopt_long(argc, argv, "d:n:", longs, NULL)) != -1)
        if ((r = take(o, c, optarg)) >= 0)
            return r;
    if (optind == argc)
        return usage("a command is wanted", NULL);
    o->command = argv[optind];
    if (!command_by_name(o->command))
        return usage("no such command", o->command);
    o->job = argv[optind + 1];
    if (!o->sockets && (o->sockets = getenv("HEAPLINE_SOCKET")))
        o->is_list = 1;
    else if (!o->sockets)
        o->sockets = DEFAULT_SOCKET;
    return check_use(o, argv + optind + 1);
}

static int wants_color(const struct options *o)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (o->color)
        return o->color > 0;
    return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb");
}

int main(int argc, char **argv)
{
    struct options o;
    hl_fds_hold_std();
    signal(SIGPIPE, SIG_IGN);
    int r = read_options(argc, argv, &o);
    if (r >= 0)
        return r;
    const struct command *c = command_by_name(o.command);
    if (!c->run)
        return ctl_top(&(struct ctl_top_options){.color = wants_color(&o) ? 1 : -1,
                                                 .delay_ns = o.delay_ns,
                                                 .n = o.n,
                                                 .sockets = o.sockets,
                                                 .is_list = o.is_list});
    struct session s = {
        .o = &o,
        .link = {.link = {.fd = -1}, .sockets = o.sockets, .is_list = o.is_list},
        .out = {.color = wants_color(&o)}};
    r = c->run(&s);
    int w = finish(&s);
    hl_link_close(&s.link.link);
    ctl_answer_fini(&s.answer);
    return r ? r : w;
}
