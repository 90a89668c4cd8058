/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of heapline-gather; see heapline-gather(1).
 */
#include "config.h"

#include "gather_options.h"

#include "comm.h"
#include "meta.h"
#include "outputs.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: heapline-gather [OPTION...]\n"
    "Reads one run's data from the collector of each node and writes the outputs.\n"
    "Start it once a node: mpirun --map-by ppr:1:node heapline-gather -j KEY -o PREFIX\n"
    "\n"
    "  -j, --job KEY            the run (default: HEAPLINE_JOB, or the batch job's id)\n"
    "  -o, --output PREFIX      outputs are PREFIX.json, PREFIX.h5, PREFIX.csv\n"
    "  -f, --format LIST        any of json,hdf5,csv (default: all)\n"
    "      --run-id ID          write schema 3 with this id\n"
    "      --app-version TEXT   for the field openpfc_version\n"
    "      --metadata KEY=VALUE entry of the metadata of schema 3; repeatable\n"
    "      --socket PATH[:PATH] collectors' sockets, the first that answers is used\n"
    "      --spool DIR          read a private spool that a run left\n"
    "      --without-node HOST  go on without that node, and say so in the outputs\n"
    "      --local              this node alone, whatever the environment says\n"
    "      --keep[=unseen]      do not mark the data as read; or only if ranks were\n"
    "                           never seen\n"
    "  -q, --quiet              no notes, only the status line and errors\n"
    "      --help, --version\n";

enum {
    O_RUN_ID = 256,
    O_APP,
    O_META,
    O_SOCKET,
    O_SPOOL,
    O_WITHOUT,
    O_LOCAL,
    O_KEEP,
    O_HELP,
    O_VERSION
};

static const struct option longs[] = {{"job", 1, NULL, 'j'},
                                      {"output", 1, NULL, 'o'},
                                      {"format", 1, NULL, 'f'},
                                      {"run-id", 1, NULL, O_RUN_ID},
                                      {"app-version", 1, NULL, O_APP},
                                      {"metadata", 1, NULL, O_META},
                                      {"socket", 1, NULL, O_SOCKET},
                                      {"spool", 1, NULL, O_SPOOL},
                                      {"without-node", 1, NULL, O_WITHOUT},
                                      {"local", 0, NULL, O_LOCAL},
                                      {"keep", 2, NULL, O_KEEP},
                                      {"quiet", 0, NULL, 'q'},
                                      {"help", 0, NULL, O_HELP},
                                      {"version", 0, NULL, O_VERSION},
                                      {NULL, 0, NULL, 0}};

static const char *env(const char *name)
{
    return getenv(name);
}

static int usage(const char *what, const char *arg)
{
    fprintf(stderr, "heapline-gather: %s%s%s; see heapline-gather --help\n", what,
            arg ? ": " : "", arg ? arg : "");
    return -1;
}

static int add_meta(struct gather_options *o, const char *arg)
{
    struct hl_meta *p = realloc(o->meta, (o->n_meta + 1) * sizeof *p);
    if (!p)
        return usage("no memory left", NULL);
    o->meta = p;
    if (hl_meta_parse(&p[o->n_meta], arg))
        return usage("--metadata wants KEY=VALUE", arg);
    o->n_meta++;
    return 0;
}

static int add_without(struct gather_options *o, const char *arg)
{
    const char **p = realloc(o->without, (o->n_without + 1) * sizeof *p);
    if (!p)
        return usage("no memory left", NULL);
    o->without = p;
    p[o->n_without++] = arg;
    return 0;
}

/* One whose path no socket can have would look like a collector that is not there. */
static int check_sockets(const char *list)
{
    enum { PATH_MAX_BYTES = 107 };
    for (const char *p = list; *p; p += *p == ':') {
        size_t n = strcspn(p, ":");
        if (n > PATH_MAX_BYTES)
            return usage("--socket: the path is longer than 107 bytes", p);
        p += n;
    }
    return 0;
}

static int version(void)
{
    char mpi[256];
    printf("heapline-gather %s (wire version %d)\n%s\n", PACKAGE_VERSION, HL_WIRE_VERSION,
           hl_comm_mpi_name(mpi, sizeof mpi));
    return 1;
}

static int take_keep(struct gather_options *o, const char *arg)
{
    o->keep = arg ? GATHER_KEEP_UNSEEN : GATHER_KEEP;
    return arg && strcmp(arg, "unseen") ? usage("--keep knows unseen, not", arg) : 0;
}

static int take(struct gather_options *o, int c, const char *arg)
{
    switch (c) {
    case 'j':
        o->key = arg;
        return !*arg || strlen(arg) > HL_KEY_MAX
                   ? usage("--job wants 1 to 255 bytes", NULL)
                   : 0;
    case 'o': o->prefix = arg; return 0;
    case 'f':
        o->formats = hl_outputs_parse(arg);
        return o->formats ? 0 : usage("--format knows json, hdf5 and csv, not", arg);
    case O_RUN_ID: o->run_id = arg; return 0;
    case O_APP: o->app_version = arg; return 0;
    case O_META: return add_meta(o, arg);
    case O_SOCKET: o->sockets = arg; return check_sockets(arg);
    case O_SPOOL: o->spool = arg; return 0;
    case O_WITHOUT: return add_without(o, arg);
    case O_LOCAL: o->local = 1; return 0;
    case O_KEEP: return take_keep(o, arg);
    case 'q': o->quiet = 1; return 0;
    case O_HELP: fputs(help, stdout); return 1;
    case O_VERSION: return version();
    default: return usage("unknown option, or one without its value", NULL);
    }
}

static void defaults(struct gather_options *o)
{
    if (!o->key) {
        hl_ident_key(env, getsid(0), o->key_text);
        o->key = o->key_text;
    }
    if (!o->run_id)
        o->run_id = getenv("OPENPFC_PROFILING_RUN_ID");
    if (!o->run_id || !*o->run_id)
        o->run_id = getenv("SLURM_JOB_ID");
    if (!o->sockets)
        o->sockets = getenv("HEAPLINE_SOCKET");
    if (!o->sockets)
        o->sockets = "/run/heapline/collector.sock";
    o->fallback_dir = getenv("HEAPLINE_FALLBACK_DIR");
    if (!o->fallback_dir || !*o->fallback_dir)
        o->fallback_dir = getenv("TMPDIR");
    if (!o->fallback_dir || !*o->fallback_dir)
        o->fallback_dir = "/tmp";
    if (!o->prefix) {
        hl_outputs_default_prefix(o->prefix_text, sizeof o->prefix_text);
        o->prefix = o->prefix_text;
    }
}

int gather_options_parse(struct gather_options *o, int argc, char **argv)
{
    int c, r;
    memset(o, 0, sizeof *o);
    o->formats = HL_OUT_ALL;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":j:o:f:q", longs, NULL)) != -1) {
        if (c == '?' || c == ':')
            return usage(c == '?' ? "unknown option" : "this option wants a value",
                         argv[optind - 1]);
        if ((r = take(o, c, optarg)))
            return r;
    }
    if (optind < argc)
        return usage("unexpected argument", argv[optind]);
#ifndef HAVE_HDF5
    o->formats &= ~(unsigned)HL_OUT_HDF5;
    if (!o->formats)
        return usage("this build has no HDF5 output (it was configured --without-hdf5)",
                     NULL);
#endif
    defaults(o);
    return 0;
}

void gather_options_fini(struct gather_options *o)
{
    hl_meta_free(o->meta, o->n_meta);
    free(o->meta);
    free(o->without);
}
