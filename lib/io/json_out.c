/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON export, schema 2 and 3, a frame at a time: a frame's text is the
 * same for all frames but for its numbers, so it is compiled once into pieces
 * of fixed text with a cell behind each.  json-c escapes the names.
 */
#include "buf.h"
#include "number.h"
#include "path.h"
#include "region_tree.h"
#include "sink.h"
#include "utf8.h"

#include <errno.h>
#include <json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    size_t off, len; /* of the text in front of the cell */
    size_t cell;
};

enum { BUFFER_BYTES = 1 << 20, SLACK = 64 }; /* slack: a number and what is beside it */

struct json_sink {
    struct hl_sink base;
    struct hl_out out;
    char *buffer; /* BUFFER_BYTES + SLACK */
    size_t n_held;
    off_t n_written;
    const struct hl_run *run;
    struct hl_buf text; /* of all pieces */
    struct piece *piece;
    size_t n_pieces, pieces_cap;
    size_t piece_start; /* where the text of the next piece begins */
    size_t stride;
    int any_rank, any_frame, skip; /* skip: an other process, not in JSON */
};

static struct json_sink *self(struct hl_sink *s)
{
    return (struct json_sink *)s;
}

static int no_memory(struct json_sink *j, struct hl_err *e)
{
    return hl_fail(e, ENOMEM, "%s: no memory left", j->out.name);
}

static int flush(struct json_sink *j, struct hl_err *e)
{
    if (hl_path_write_all(j->out.fd, j->buffer, j->n_held))
        return hl_fail_errno(e, "cannot write %s", j->out.name);
    j->n_written += (off_t)j->n_held;
    j->n_held = 0;
    hl_out_hurry(&j->out, j->n_written);
    return 0;
}

static int put(struct json_sink *j, const char *p, size_t n, struct hl_err *e)
{
    while (n > BUFFER_BYTES - j->n_held) {
        size_t k = BUFFER_BYTES - j->n_held;
        memcpy(j->buffer + j->n_held, p, k);
        j->n_held += k;
        p += k;
        n -= k;
        if (flush(j, e))
            return -1;
    }
    memcpy(j->buffer + j->n_held, p, n);
    j->n_held += n;
    return 0;
}

static int put_text(struct json_sink *j, const char *s, struct hl_err *e)
{
    return put(j, s, strlen(s), e);
}

/* s as a JSON string; bytes that are not UTF-8 become U+FFFD. */
static int add_string(struct hl_buf *b, const char *s, uint64_t *n_replaced)
{
    struct hl_buf clean = {0};
    const char *text = hl_utf8_text(&clean, s, n_replaced);
    struct json_object *o =
        text ? json_object_new_string_len(text, (int)strlen(text)) : NULL;
    const char *t =
        o ? json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE) : NULL;
    int bad = !t || hl_buf_add(b, t, strlen(t));
    json_object_put(o);
    hl_buf_fini(&clean);
    return bad ? -1 : 0;
}

/* A value that is JSON already. */
static int add_json(struct hl_buf *b, const char *json, uint64_t *n_replaced)
{
    struct hl_buf clean = {0};
    const char *text = hl_utf8_text(&clean, json, n_replaced);
    int bad = !text || hl_buf_add(b, text, strlen(text));
    hl_buf_fini(&clean);
    return bad ? -1 : 0;
}

static int end_piece(struct json_sink *j, size_t cell)
{
    if (j->n_pieces == j->pieces_cap) {
        size_t cap = j->pieces_cap ? 2 * j->pieces_cap : 64;
        struct piece *p = realloc(j->piece, cap * sizeof *p);
        if (!p)
            return -1;
        j->piece = p;
        j->pieces_cap = cap;
    }
    j->piece[j->n_pieces++] =
        (struct piece){j->piece_start, j->text.n - j->piece_start, cell};
    j->piece_start = j->text.n;
    return 0;
}

static int add(struct json_sink *j, const char *s)
{
    return hl_buf_add(&j->text, s, strlen(s));
}

static int compile_node(struct json_sink *j, const struct hl_region_tree *t, size_t node)
{
    const struct hl_region_node *n = &t->node[node];
    uint64_t again = 0; /* names that were changed are counted in the list of paths */
    int bad = add(j, "{");
    if (n->path != SIZE_MAX) {
        size_t cell = j->run->catalog->metrics.n + 2 * n->path;
        bad = bad || add(j, "\"inclusive\":") || end_piece(j, cell) ||
              add(j, ",\"exclusive\":") || end_piece(j, cell + 1);
    }
    for (size_t i = n->first; i && !bad; i = t->node[i].next) {
        if (i != n->first || n->path != SIZE_MAX)
            bad = add(j, ",");
        bad = bad || add_string(&j->text, t->node[i].name, &again) || add(j, ":") ||
              compile_node(j, t, i);
    }
    return bad || add(j, "}") ? -1 : 0;
}

static int compile_frame(struct json_sink *j)
{
    struct hl_region_tree t;
    int bad = add(j, "    {\"scalars\":[");
    for (size_t i = 0; i < j->run->catalog->metrics.n && !bad; i++)
        bad = (i && add(j, ",")) || end_piece(j, i);
    bad = bad || add(j, "],\"regions\":");
    if (bad || hl_region_tree_init(&t, j->run->catalog))
        return -1;
    bad = compile_node(j, &t, 0) || add(j, "}");
    hl_region_tree_fini(&t);
    return bad ? -1 : 0;
}

static int add_names(struct json_sink *j, struct hl_buf *b, const char *field,
                     const struct hl_names *l)
{
    int bad = hl_buf_printf(b, "  \"%s\": [", field);
    for (size_t i = 0; i < l->n && !bad; i++)
        bad = (i && hl_buf_add(b, ", ", 2)) ||
              add_string(b, l->name[i], &j->base.n_replaced);
    return bad || hl_buf_add(b, "],\n", 3) ? -1 : 0;
}

static int add_run_id(struct json_sink *j, struct hl_buf *b)
{
    const struct hl_run *run = j->run;
    uint64_t *n = &j->base.n_replaced;
    int bad = hl_buf_printf(b, "  \"run_id\": ") || add_string(b, run->run_id, n) ||
              hl_buf_printf(b, ",\n  \"metadata\": {");
    for (size_t i = 0; i < run->n_meta && !bad; i++)
        bad = (i && hl_buf_add(b, ", ", 2)) || add_string(b, run->meta[i].key, n) ||
              hl_buf_add(b, ": ", 2) || add_json(b, run->meta[i].json, n);
    return bad || hl_buf_printf(b, "},\n") ? -1 : 0;
}

static int json_begin(struct hl_sink *s, const struct hl_run *run, struct hl_err *e)
{
    struct json_sink *j = self(s);
    struct hl_buf b = {0};
    int v3 = run->run_id && *run->run_id;
    j->run = run;
    j->stride = hl_catalog_stride(run->catalog);
    int bad = hl_buf_printf(&b, "{\n  \"schema_version\": %d,\n  \"openpfc_version\": ",
                            v3 ? 3 : 2) ||
              add_string(&b, run->app_version, &j->base.n_replaced) ||
              hl_buf_printf(&b, ",\n") || (v3 && add_run_id(j, &b)) ||
              hl_buf_printf(&b, "  \"n_mpi_ranks\": %llu,\n  \"total_frames\": %llu,\n",
                            (unsigned long long)run->n_ranks,
                            (unsigned long long)run->total_frames) ||
              add_names(j, &b, "frame_metric_names", &run->catalog->metrics) ||
              add_names(j, &b, "region_paths", &run->catalog->paths) ||
              hl_buf_printf(&b, "  \"ranks\": [") || compile_frame(j);
    if (bad)
        no_memory(j, e);
    else
        bad = put(j, (char *)b.p, b.n, e);
    hl_buf_fini(&b);
    return bad ? -1 : 0;
}

static int json_rank_begin(struct hl_sink *s, uint64_t rank, uint64_t n_frames,
                           struct hl_err *e)
{
    struct json_sink *j = self(s);
    j->skip = 0;
    j->any_frame = 0;
    char text[128];
    int n = snprintf(
        text, sizeof text, "%s\n  {\"mpi_rank\": %llu, \"n_frames\": %llu, \"frames\": [",
        j->any_rank ? "," : "", (unsigned long long)rank, (unsigned long long)n_frames);
    j->any_rank = 1;
    return put(j, text, (size_t)n, e);
}

static int json_other_begin(struct hl_sink *s, int64_t pid, const char *host,
                            uint64_t n_frames, struct hl_err *e)
{
    (void)pid, (void)host, (void)n_frames, (void)e;
    self(s)->skip = 1; /* the schema has no place for it */
    return 0;
}

/* Behind a number there is always room: the buffer has slack. */
static int put_cell(struct json_sink *j, double v, struct hl_err *e)
{
    char *at = j->buffer + j->n_held;
    if (isfinite(v)) {
        j->n_held += hl_number_format(v, at);
    } else {
        memcpy(at, "null", 4);
        j->n_held += 4;
        j->base.n_nulls += hl_is_lacking(v) ? 0 : 1;
    }
    return j->n_held < BUFFER_BYTES ? 0 : flush(j, e);
}

static int put_frame(struct json_sink *j, const double *cells, struct hl_err *e)
{
    const char *text = (char *)j->text.p;
    int bad = put_text(j, j->any_frame ? ",\n" : "\n", e);
    j->any_frame = 1;
    for (size_t i = 0; i < j->n_pieces && !bad; i++)
        bad = put(j, text + j->piece[i].off, j->piece[i].len, e) ||
              put_cell(j, cells[j->piece[i].cell], e);
    return bad || put(j, text + j->piece_start, j->text.n - j->piece_start, e) ? -1 : 0;
}

static int json_rows(struct hl_sink *s, const double *cells, size_t n, struct hl_err *e)
{
    struct json_sink *j = self(s);
    for (size_t i = 0; i < n && !j->skip; i++)
        if (put_frame(j, cells + i * j->stride, e))
            return -1;
    return 0;
}

static int json_rank_end(struct hl_sink *s, struct hl_err *e)
{
    struct json_sink *j = self(s);
    return j->skip ? 0 : put_text(j, j->any_frame ? "\n  ]}" : "]}", e);
}

static void free_parts(struct json_sink *j)
{
    hl_buf_fini(&j->text);
    free(j->piece);
    free(j->buffer);
    free(j);
}

static void json_abort(struct hl_sink *s)
{
    hl_out_abort(&self(s)->out);
    free_parts(self(s));
}

static int json_finish(struct hl_sink *s, struct hl_err *e)
{
    struct json_sink *j = self(s);
    if (put_text(j, "\n  ]\n}\n", e) || flush(j, e))
        return -1;
    return hl_out_finish(&j->out, e);
}

static int json_commit(struct hl_sink *s, struct hl_err *e)
{
    int bad = hl_out_commit(&self(s)->out, e);
    free_parts(self(s));
    return bad;
}

static const struct hl_sink_ops ops = {
    .begin = json_begin,
    .rank_begin = json_rank_begin,
    .other_begin = json_other_begin,
    .rows = json_rows,
    .rank_end = json_rank_end,
    .finish = json_finish,
    .commit = json_commit,
    .abort = json_abort,
};

struct hl_sink *hl_json_sink(const char *name, struct hl_err *e)
{
    struct json_sink *j = calloc(1, sizeof *j);
    if (!j || !(j->buffer = malloc(BUFFER_BYTES + SLACK))) {
        free(j);
        hl_fail(e, ENOMEM, "%s: no memory left", name);
        return NULL;
    }
    j->base.ops = &ops;
    if (hl_out_begin(&j->out, name, 0, e)) {
        free_parts(j);
        return NULL;
    }
    return &j->base;
}
