/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading heap records; see csv_in.h.
 */
#include "csv_in.h"

#include "ident.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_COLUMNS = 12 };

struct csv_in {
    const char *name;
    size_t line;
    int has_version, has_columns;
    size_t n_rows;
};

static int bad_line(const struct csv_in *c, struct hl_err *e, const char *what)
{
    return hl_fail(e, HL_ERR_FORMAT, "%s: line %zu: %s", c->name, c->line, what);
}

static int take_version(struct csv_in *c, const char *line, struct hl_err *e)
{
    static const char start[] = "# heapline ";
    char shown[64];
    if (!strcmp(line, "# heapline 1")) {
        c->has_version = 1;
        c->has_columns = 0;
        return 0;
    }
    if (strncmp(line, start, sizeof start - 1))
        return bad_line(c, e, "not a heap record: '# heapline 1' is expected");
    hl_printable(line + sizeof start - 1, strlen(line) - sizeof start + 1, shown,
                 sizeof shown);
    return hl_fail(e, HL_ERR_VERSION,
                   "%s: line %zu: record version %s is not known here (1 is)", c->name,
                   c->line, shown);
}

/* "12.480": whole seconds, a dot, three decimals. */
static int seconds(const char *s, int64_t *ns)
{
    const char *dot = strchr(s, '.');
    return !dot || strlen(dot) != 4 || *s == '.' ? -1
                                                 : hl_parse_seconds(s, 0, INT64_MAX, ns);
}

static int count(const char *s, uint64_t *out)
{
    return hl_parse_size(s, 0, UINT64_MAX, out) || strspn(s, "0123456789") != strlen(s)
               ? -1
               : 0;
}

static int split(char *line, char *column[N_COLUMNS])
{
    char *rest = line;
    for (int i = 0; i < N_COLUMNS; i++) {
        column[i] = strsep(&rest, ",");
        if (!column[i])
            return -1;
    }
    return rest ? -1 : 0;
}

static int copy(char *out, size_t cap, const char *in)
{
    size_t n = strlen(in);
    if (n >= cap)
        return -1;
    memcpy(out, in, n + 1);
    return 0;
}

static int take_row(struct csv_in *c, char *line, struct hl_record *r, struct hl_err *e)
{
    char *f[N_COLUMNS];
    memset(r, 0, sizeof *r);
    if (split(line, f))
        return bad_line(c, e, "a row must have 12 columns");
    if (hl_parse_i64(f[0], -1, INT32_MAX, &r->rank) ||
        copy(r->host, sizeof r->host, f[1]) ||
        hl_parse_i64(f[2], 0, INT64_MAX, &r->pid) || copy(r->job, sizeof r->job, f[3]) ||
        seconds(f[4], &r->elapsed_ns) || count(f[5], &r->allocs) ||
        count(f[6], &r->frees) || hl_parse_i64(f[7], 0, INT64_MAX, &r->peak_bytes) ||
        seconds(f[8], &r->peak_time_ns) ||
        hl_parse_i64(f[9], INT64_MIN, INT64_MAX, &r->live_bytes) ||
        hl_parse_i64(f[10], -1, INT64_MAX, &r->vmhwm_bytes) ||
        hl_parse_i64(f[11], -1, INT64_MAX, &r->vmrss_bytes))
        return bad_line(c, e, "a value is not what its column wants");
    return 0;
}

static int take_line(struct csv_in *c, char *line, hl_record_fn *fn, void *ctx,
                     struct hl_err *e)
{
    static const char columns[] = HL_RECORD_COLUMN_LINE;
    struct hl_record r;
    if (line[0] == '#' || !c->has_version)
        return take_version(c, line, e);
    if (!c->has_columns) {
        if (strncmp(line, columns, sizeof columns - 2) || line[sizeof columns - 2])
            return bad_line(c, e, "the column names of version 1 are expected");
        c->has_columns = 1;
        return 0;
    }
    c->n_rows++;
    return take_row(c, line, &r, e) ? -1 : fn(ctx, &r, e);
}

int hl_csv_read(const char *name, hl_record_fn *fn, void *ctx, struct hl_err *e)
{
    struct csv_in c = {.name = name};
    FILE *f = fopen(name, "re");
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int bad = f ? 0 : hl_fail_errno(e, "cannot read %s", name);
    while (!bad && (n = getline(&line, &cap, f)) >= 0) {
        c.line++;
        if (memchr(line, 0, (size_t)n))
            bad = bad_line(&c, e, "there is a NUL byte in it");
        else if (line[n - 1] != '\n')
            bad = bad_line(&c, e, "the last line is cut short");
        line[n - 1] = 0;
        bad = bad || take_line(&c, line, fn, ctx, e);
    }
    if (!bad && ferror(f))
        bad = hl_fail_errno(e, "cannot read %s", name);
    if (!bad && !c.has_columns)
        bad = hl_fail(e, HL_ERR_FORMAT, "%s: not a heap record: it ends too early", name);
    free(line);
    if (f)
        fclose(f);
    return bad ? -1 : 0;
}
