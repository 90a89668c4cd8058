/* SPDX-License-Identifier: Apache-2.0
 *
 * heapline-report: tables from exports and records; see heapline-report(1).
 */
#include "config.h"

#include "report.h"

#include "fds.h"
#include "ident.h"
#include "path.h"
#include "readers.h"
#include "wire.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "Usage: heapline-report [OPTION...] FILE...\n"
    "Prints the region table of JSON and HDF5 exports and the heap table of records.\n"
    "\n"
    "      --stat STAT          across ranks: mean (default), sum, min, max, median\n"
    "      --sort KEY           regions: time (default), exclusive, ncalls, name;\n"
    "                           heap: rank (default), peak, live, allocs, vmhwm\n"
    "      --top N              the first N rows only\n"
    "      --rank LIST          these ranks alone, such as 0,4-7\n"
    "      --path GLOB          regions whose path matches\n"
    "      --run ID             that run of a file of schema 3\n"
    "      --denominator METRIC what %tot refers to (default: wall_step)\n"
    "      --format FMT         table (default) or csv\n"
    "  -o, --output FILE        instead of standard output\n"
    "      --color=WHEN         accepted; tables have no colour\n"
    "      --help, --version\n";

enum {
    O_STAT = 256,
    O_SORT,
    O_TOP,
    O_RANK,
    O_PATH,
    O_RUN,
    O_DENOMINATOR,
    O_FORMAT,
    O_COLOR,
    O_HELP,
    O_VERSION
};

static const struct option longs[] = {{"stat", 1, NULL, O_STAT},
                                      {"sort", 1, NULL, O_SORT},
                                      {"top", 1, NULL, O_TOP},
                                      {"rank", 1, NULL, O_RANK},
                                      {"path", 1, NULL, O_PATH},
                                      {"run", 1, NULL, O_RUN},
                                      {"denominator", 1, NULL, O_DENOMINATOR},
                                      {"format", 1, NULL, O_FORMAT},
                                      {"output", 1, NULL, 'o'},
                                      {"color", 2, NULL, O_COLOR},
                                      {"help", 0, NULL, O_HELP},
                                      {"version", 0, NULL, O_VERSION},
                                      {NULL, 0, NULL, 0}};

static int usage(const char *what, const char *arg)
{
    fprintf(stderr, "heapline-report: %s%s%s; see heapline-report --help\n", what,
            arg ? ": " : "", arg ? arg : "");
    return -1;
}

static int take_sort(struct report_options *o, const char *key)
{
    static const struct {
        const char *name;
        enum report_sort sort;
    } keys[] = {
        {"time", SORT_TIME},           {"name", SORT_NAME},     {"ncalls", SORT_NCALLS},
        {"exclusive", SORT_EXCLUSIVE}, {"rank", SORT_RANK},     {"peak", SORT_PEAK},
        {"live", SORT_LIVE},           {"allocs", SORT_ALLOCS}, {"vmhwm", SORT_VMHWM}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i].name)) {
            o->sort = keys[i].sort;
            return 0;
        }
    return usage("--sort does not know", key);
}

/* "0,4-7" */
static int take_ranks(struct report_options *o, const char *list)
{
    for (const char *s = list;; s++) {
        char *end;
        struct rank_range *p = realloc(o->rank, (o->n_rank + 1) * sizeof *p);
        if (!p)
            return usage("no memory left", NULL);
        o->rank = p;
        if (*s < '0' || *s > '9')
            return usage("--rank wants a list such as 0,4-7, not", list);
        p[o->n_rank].lo = p[o->n_rank].hi = strtoull(s, &end, 10);
        if (*end == '-' && end[1] >= '0' && end[1] <= '9')
            p[o->n_rank].hi = strtoull(end + 1, &end, 10);
        if ((*end && *end != ',') || p[o->n_rank].hi < p[o->n_rank].lo)
            return usage("--rank wants a list such as 0,4-7, not", list);
        o->n_rank++;
        if (!*end)
            return 0;
        s = end;
    }
}

int report_wants_rank(const struct report_options *o, uint64_t rank)
{
    for (size_t i = 0; i < o->n_rank; i++)
        if (rank >= o->rank[i].lo && rank <= o->rank[i].hi)
            return 1;
    return !o->n_rank;
}

static int wants_rank(void *ctx, uint64_t rank)
{
    return report_wants_rank(ctx, rank);
}

static int take(struct report_options *o, int c, const char *arg)
{
    int64_t n;
    int stat;
    switch (c) {
    case O_STAT:
        stat = hl_stat_parse(arg);
        o->stat = stat < 0 ? HL_STAT_MEAN : (enum hl_stat)stat;
        return stat < 0 ? usage("--stat knows mean, sum, min, max and median, not", arg)
                        : 0;
    case O_SORT: return take_sort(o, arg);
    case O_TOP:
        if (hl_parse_i64(arg, 1, 1 << 30, &n))
            return usage("--top wants a number from 1, not", arg);
        o->top = (size_t)n;
        return 0;
    case O_RANK: return take_ranks(o, arg);
    case O_PATH: o->path = arg; return 0;
    case O_RUN: o->run = arg; return 0;
    case O_DENOMINATOR: o->denominator = arg; return 0;
    case O_FORMAT:
        o->format = !strcmp(arg, "csv") ? REPORT_CSV : REPORT_TABLE;
        return o->format || !strcmp(arg, "table")
                   ? 0
                   : usage("--format knows table and csv, not", arg);
    case 'o': o->output = arg; return 0;
    case O_COLOR: return 0;
    case O_HELP: fputs(help, stdout); return 1;
    default:
        printf("heapline-report %s (wire version %d)\n", PACKAGE_VERSION,
               HL_WIRE_VERSION);
        return 1;
    }
}

static int parse(struct report_options *o, int argc, char **argv)
{
    int c, r;
    *o = (struct report_options){.denominator = "wall_step"};
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":o:", longs, NULL)) != -1) {
        if (c == '?' || c == ':')
            return usage(c == '?' ? "unknown option" : "this option wants a value",
                         argv[optind - 1]);
        if ((r = take(o, c, optarg)))
            return r;
    }
    o->file = argv + optind;
    o->n_files = (size_t)(argc - optind);
    return o->n_files ? 0 : usage("no FILE is given", NULL);
}

/* ---- files ---- */

/* The HDF5 library can crash on a damaged file: that must be one clear line, too. */
static const char *volatile reading;

static void on_crash(int sig)
{
    static const char head[] = "heapline-report: ", tail[] = ": the file is damaged\n";
    const char *name = reading ? reading : "a file";
    (void)sig;
    if (write(2, head, sizeof head - 1) < 0 || write(2, name, strlen(name)) < 0 ||
        write(2, tail, sizeof tail - 1) < 0)
        _exit(1);
    _exit(1);
}

static void guard_against_crashes(void)
{
    struct sigaction sa = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGSEGV, &sa, NULL);
    sigaction(SIGBUS, &sa, NULL);
    sigaction(SIGFPE, &sa, NULL);
    sigaction(SIGABRT, &sa, NULL);
}

static int one_run(FILE *out, struct report_options *o, const char *file,
                   enum hl_file_kind kind, const char *run, struct hl_err *e)
{
    struct hl_profile p;
    hl_profile_init(&p, o->denominator);
    p.wanted = wants_rank;
    p.wanted_ctx = o;
    int bad;
#ifdef HAVE_HDF5
    if (kind == HL_FILE_HDF5)
        bad = hl_h5_read(file, run, &p.base, e);
    else
#endif
        bad = hl_json_read(file, run, &p.base, e);
    (void)kind;
    bad = bad || report_regions(out, o, &p, e);
    hl_profile_fini(&p);
    return bad;
}

static int all_runs(FILE *out, struct report_options *o, const char *file,
                    enum hl_file_kind kind, struct hl_err *e)
{
    char **run = NULL;
    size_t n = 0;
    int bad;
    if (o->run)
        return one_run(out, o, file, kind, o->run, e);
#ifdef HAVE_HDF5
    if (kind == HL_FILE_HDF5)
        bad = hl_h5_runs(file, &run, &n, e);
    else
#endif
        bad = hl_json_runs(file, &run, &n, e);
    for (size_t i = 0; i < n && !bad; i++) {
        if (i)
            fputc('\n', out);
        bad = one_run(out, o, file, kind, run[i], e);
    }
    for (size_t i = 0; i < n; i++)
        free(run[i]);
    free(run);
    return bad;
}

static int report_files(FILE *out, struct report_options *o, struct hl_err *e)
{
    char **records = malloc((o->n_files + 1) * sizeof *records);
    size_t n_records = 0;
    int any = 0, bad = records ? 0 : hl_fail(e, ENOMEM, "no memory left");
    for (size_t i = 0; i < o->n_files && !bad; i++) {
        enum hl_file_kind kind;
        reading = o->file[i];
        bad = hl_file_kind(o->file[i], &kind, e);
        if (bad || kind == HL_FILE_RECORD) {
            records[n_records++] = o->file[i];
            continue;
        }
        if (kind == HL_FILE_UNKNOWN)
            bad = hl_fail(e, HL_ERR_FORMAT,
                          "%s: neither a profiling export (JSON, HDF5) nor a heap record",
                          o->file[i]);
#ifndef HAVE_HDF5
        if (kind == HL_FILE_HDF5)
            bad = hl_fail(e, HL_ERR_FORMAT,
                          "%s: this build reads no HDF5 (--without-hdf5)", o->file[i]);
#endif
        if (any++)
            fputc('\n', out);
        bad = bad || all_runs(out, o, o->file[i], kind, e);
    }
    if (!bad && n_records) {
        if (any)
            fputc('\n', out);
        bad = report_heap(out, o, records, n_records, e);
    }
    free(records);
    return bad;
}

/* ---- where it goes ---- */

/* A file appears whole or not at all; what is none (a device, a pipe) is written to
 * as it is. */
struct target {
    struct hl_out whole;
    FILE *plain; /* stdout, or the open device; NULL: a file */
};

static int target_open(struct target *t, const char *name, struct hl_err *e)
{
    struct stat st;
    memset(t, 0, sizeof *t);
    if (!name)
        t->plain = stdout;
    else if (stat(name, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        t->plain = fopen(name, "we");
        return t->plain ? 0 : hl_fail_errno(e, "cannot write to %s", name);
    } else
        return hl_out_begin(&t->whole, name, 1, e);
    return 0;
}

static int target_close(struct target *t, const char *name, int bad, struct hl_err *e)
{
    if (!t->plain) {
        bad = bad || hl_out_finish(&t->whole, e) || hl_out_commit(&t->whole, e);
        if (bad)
            hl_out_abort(&t->whole);
        return bad;
    }
    int failed = fflush(t->plain) || ferror(t->plain);
    if (failed && !bad)
        bad = hl_fail_errno(e, "cannot write to %s", name ? name : "standard output");
    if (name)
        fclose(t->plain);
    return bad;
}

int main(int argc, char **argv)
{
    struct report_options o;
    struct hl_err e = {0};
    struct target to;
    hl_fds_hold_std();
    int r = parse(&o, argc, argv);
    if (r) {
        free(o.rank);
        return r > 0 ? 0 : 2;
    }
    guard_against_crashes();
    signal(SIGXFSZ, SIG_IGN); /* a limit is an error like a full disk */
    int bad = target_open(&to, o.output, &e);
    if (!bad) {
        bad = report_files(to.plain ? to.plain : to.whole.file, &o, &e);
        bad = target_close(&to, o.output, bad, &e);
    }
    if (bad)
        fprintf(stderr, "heapline-report: %s\n", e.text);
    free(o.rank);
    return bad ? 1 : 0;
}
