/* SPDX-License-Identifier: Apache-2.0
 *
 * The merged CSV: the record's two head lines, then a row a process.
 */
#include "path.h"
#include "record.h"
#include "sink.h"
#include "utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct csv_sink {
    struct hl_sink base;
    struct hl_out out;
};

static struct csv_sink *self(struct hl_sink *s)
{
    return (struct csv_sink *)s;
}

static int put(struct csv_sink *c, const char *p, size_t n, struct hl_err *e)
{
    return fwrite(p, 1, n, c->out.file) == n
               ? 0
               : hl_fail_errno(e, "cannot write %s", c->out.name);
}

static int csv_begin(struct hl_sink *s, const struct hl_run *run, struct hl_err *e)
{
    static const char head[] = HL_RECORD_VERSION_LINE HL_RECORD_COLUMN_LINE;
    (void)run;
    return put(self(s), head, sizeof head - 1, e);
}

static int csv_heap(struct hl_sink *s, const struct hl_heap_row *row, struct hl_err *e)
{
    char text[HL_RECORD_ROW_MAX];
    struct hl_record r = row->record;
    s->n_replaced += hl_utf8_clean_in_place(r.host, sizeof r.host) ? 1 : 0;
    s->n_replaced += hl_utf8_clean_in_place(r.job, sizeof r.job) ? 1 : 0;
    return put(self(s), text, hl_record_row(&r, text, sizeof text), e);
}

static void csv_abort(struct hl_sink *s)
{
    hl_out_abort(&self(s)->out);
    free(s);
}

static int csv_finish(struct hl_sink *s, struct hl_err *e)
{
    return hl_out_finish(&self(s)->out, e);
}

static int csv_commit(struct hl_sink *s, struct hl_err *e)
{
    int r = hl_out_commit(&self(s)->out, e);
    free(s);
    return r;
}

static const struct hl_sink_ops ops = {.begin = csv_begin,
                                       .heap = csv_heap,
                                       .finish = csv_finish,
                                       .commit = csv_commit,
                                       .abort = csv_abort};

struct hl_sink *hl_csv_sink(const char *name, struct hl_err *e)
{
    struct csv_sink *c = calloc(1, sizeof *c);
    if (!c) {
        hl_fail(e, ENOMEM, "%s: no memory left", name);
        return NULL;
    }
    c->base.ops = &ops;
    if (hl_out_begin(&c->out, name, 1, e)) {
        free(c);
        return NULL;
    }
    return &c->base;
}
