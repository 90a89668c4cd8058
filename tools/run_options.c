/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of heapline-run; see heapline-run(1).
 */
#include "config.h"

#include "run_options.h"

#include "ident.h"
#include "outputs.h"
#include "wire.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: heapline-run [OPTION...] [--] COMMAND [ARG...]\n"
    "Runs COMMAND (a program, or mpirun, mpiexec or srun with one), records time and\n"
    "memory of every process, and writes PREFIX.json, PREFIX.h5 and PREFIX.csv.\n"
    "Also works inside the launcher: mpirun -n 4 heapline-run ./app\n"
    "\n"
    "  -o, --output PREFIX      names of the outputs (default: heapline-DATE-TIME,\n"
    "                           or heapline- and the Slurm job id)\n"
    "  -f, --format LIST        any of json,hdf5,csv (default: all)\n"
    "      --run-id ID          write schema 3 with this id\n"
    "      --app-version TEXT   for the field openpfc_version\n"
    "      --metadata KEY=VALUE entry of the metadata of schema 3; repeatable\n"
    "  -r, --report[=STAT]      print tables at the end: mean (default), sum, min, max,\n"
    "                           median across ranks\n"
    "  -i, --interval SECONDS   sample heap and resident set of every process\n"
    "      --no-heap            do not count the heap\n"
    "      --no-frames          do not record frames and regions\n"
    "      --socket PATH        the collector to use\n"
    "      --private            always start a collector for this run alone\n"
    "      --hosts LIST         nodes that the outputs are gathered from\n"
    "      --launcher CMD       what starts the gather on several nodes\n"
    "  -q, --quiet              no messages but errors\n"
    "  -v, --verbose            say what is done\n"
    "      --help, --version\n"
    "\n"
    "The exit status is COMMAND's own; 125 for errors of heapline-run itself, 126 when\n"
    "COMMAND cannot be executed, 127 when it is not found.\n";

enum {
    O_RUN_ID = 256,
    O_APP,
    O_META,
    O_NO_HEAP,
    O_NO_FRAMES,
    O_SOCKET,
    O_PRIVATE,
    O_HOSTS,
    O_LAUNCHER,
    O_HELP,
    O_VERSION
};

static const struct option longs[] = {{"output", 1, NULL, 'o'},
                                      {"format", 1, NULL, 'f'},
                                      {"run-id", 1, NULL, O_RUN_ID},
                                      {"app-version", 1, NULL, O_APP},
                                      {"metadata", 1, NULL, O_META},
                                      {"report", 2, NULL, 'r'},
                                      {"interval", 1, NULL, 'i'},
                                      {"no-heap", 0, NULL, O_NO_HEAP},
                                      {"no-frames", 0, NULL, O_NO_FRAMES},
                                      {"socket", 1, NULL, O_SOCKET},
                                      {"private", 0, NULL, O_PRIVATE},
                                      {"hosts", 1, NULL, O_HOSTS},
                                      {"launcher", 1, NULL, O_LAUNCHER},
                                      {"quiet", 0, NULL, 'q'},
                                      {"verbose", 0, NULL, 'v'},
                                      {"help", 0, NULL, O_HELP},
                                      {"version", 0, NULL, O_VERSION},
                                      {NULL, 0, NULL, 0}};

static int usage(const char *what, const char *arg)
{
    fprintf(stderr, "heapline-run: %s%s%s; see heapline-run --help\n", what,
            arg ? ": " : "", arg ? arg : "");
    return -1;
}

static int add_meta(struct run_options *o, const char *arg)
{
    const char *eq = strchr(arg, '=');
    const char **p = realloc(o->meta, (o->n_meta + 1) * sizeof *p);
    if (!p)
        return usage("no memory left", NULL);
    o->meta = p;
    p[o->n_meta++] = arg;
    return eq && eq != arg ? 0 : usage("--metadata wants KEY=VALUE, not", arg);
}

static int take_report(struct run_options *o, const char *stat)
{
    static const char *const known[] = {"mean", "sum", "min", "max", "median"};
    o->report = stat ? stat : "mean";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(o->report, known[i]))
            return 0;
    return usage("--report knows mean, sum, min, max and median, not", stat);
}

static int take_interval(struct run_options *o, const char *text)
{
    int64_t ns;
    o->interval = text;
    return hl_parse_interval(text, &ns)
               ? usage("--interval wants seconds from 0.01 to 86400, not", text)
               : 0;
}

static int take(struct run_options *o, int c, const char *arg)
{
    switch (c) {
    case 'o': o->prefix = arg; return *arg ? 0 : usage("--output wants a name", NULL);
    case 'f':
        o->format = arg;
        return hl_outputs_parse(arg)
                   ? 0
                   : usage("--format knows json, hdf5 and csv, not", arg);
    case 'r': return take_report(o, arg);
    case 'i': return take_interval(o, arg);
    case 'q': o->quiet = 1; return 0;
    case 'v': o->verbose = 1; return 0;
    case O_RUN_ID: o->run_id = arg; return 0;
    case O_APP: o->app_version = arg; return 0;
    case O_META: return add_meta(o, arg);
    case O_NO_HEAP: o->no_heap = 1; return 0;
    case O_NO_FRAMES: o->no_frames = 1; return 0;
    case O_SOCKET: o->socket = arg; return 0;
    case O_PRIVATE: o->private_only = 1; return 0;
    case O_HOSTS: o->hosts = arg; return 0;
    case O_LAUNCHER: o->launcher = arg; return 0;
    case O_HELP: fputs(help, stdout); return 1;
    case O_VERSION:
        printf("heapline-run %s (wire version %d)\n", PACKAGE_VERSION, HL_WIRE_VERSION);
        return 1;
    default: return usage("unknown option", NULL);
    }
}

int run_options_parse(struct run_options *o, int argc, char **argv)
{
    int c, r;
    memset(o, 0, sizeof *o);
    opterr = 0;
    while ((c = getopt_long(argc, argv, "+:o:f:r::i:qv", longs, NULL)) != -1) {
        if (c == '?' || c == ':')
            return usage(c == '?' ? "unknown option" : "this option wants a value",
                         argv[optind - 1]);
        if ((r = take(o, c, optarg)))
            return r;
    }
    if (o->socket && o->private_only)
        return usage("--socket and --private exclude each other", NULL);
    if (o->interval && o->no_heap && o->no_frames)
        return usage("--interval needs an agent: not --no-heap and --no-frames", NULL);
    if (optind >= argc || !*argv[optind])
        return usage("no COMMAND is given", NULL);
    o->command = argv + optind;
    return 0;
}

void run_options_fini(struct run_options *o)
{
    free(o->meta);
}
