/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading JSON exports of schema 1, 2 and 3; see readers.h.  "Schema 1" files
 * in the wild say 2 and have the flat layout, so the structure decides.
 */
#include "readers.h"

#include "catalog.h"
#include "region_name.h"

#include <errno.h>
#include <json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH_MAX = 1200, READ_BYTES = 1 << 20 };

struct json_in {
    const char *name;
    struct json_object *root;
    struct hl_catalog catalog;
    struct hl_sink *sink;
    double *row;
    size_t stride;
    int inline_metrics; /* flat frames: metrics are fields of the frame */
};

static struct json_object *field(struct json_object *o, const char *name,
                                 enum json_type type)
{
    struct json_object *v = NULL;
    if (!json_object_object_get_ex(o, name, &v) || !json_object_is_type(v, type))
        return NULL;
    return v;
}

/* Anything but white space in the rest? */
static int trailing(FILE *f, const char *rest, size_t n)
{
    int c;
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", rest[i]) || !rest[i])
            return 1;
    while ((c = getc(f)) != EOF)
        if (!c || !strchr(" \t\r\n", c))
            return 1;
    return 0;
}

static struct json_object *parse(const char *name, struct hl_err *e)
{
    FILE *f = fopen(name, "rbe");
    struct json_tokener *t = json_tokener_new_ex(DEPTH_MAX);
    char *piece = malloc(READ_BYTES);
    struct json_object *root = NULL;
    enum json_tokener_error why = json_tokener_continue;
    size_t n = 0;
    if (!f || !t || !piece) {
        hl_fail_errno(e, "cannot read %s", name);
        goto out;
    }
    while (why == json_tokener_continue && (n = fread(piece, 1, READ_BYTES, f)) > 0) {
        root = json_tokener_parse_ex(t, piece, (int)n);
        why = json_tokener_get_error(t);
    }
    if (why == json_tokener_success && trailing(f, piece + json_tokener_get_parse_end(t),
                                                n - json_tokener_get_parse_end(t)))
        hl_fail(e, HL_ERR_FORMAT, "%s: not valid JSON: there is more behind its end",
                name);
    else if (ferror(f))
        hl_fail_errno(e, "cannot read %s", name);
    else if (why != json_tokener_success)
        hl_fail(e, HL_ERR_FORMAT, "%s: not valid JSON: %s", name,
                why == json_tokener_continue ? "it ends too early"
                                             : json_tokener_error_desc(why));
    if (e->code) {
        json_object_put(root);
        root = NULL;
    }
out:
    free(piece);
    if (t)
        json_tokener_free(t);
    if (f)
        fclose(f);
    return root;
}

static int bad_file(struct json_in *j, struct hl_err *e, const char *what)
{
    return hl_fail(e, HL_ERR_FORMAT, "%s: %s", j->name, what);
}

static int open_root(struct json_in *j, struct hl_err *e)
{
    j->root = parse(j->name, e);
    if (!j->root)
        return -1;
    struct json_object *v = NULL;
    if (!json_object_is_type(j->root, json_type_object) ||
        !json_object_object_get_ex(j->root, "schema_version", &v))
        return bad_file(j, e, "not a profiling export: there is no schema_version");
    int64_t version = json_object_get_int64(v);
    if (!json_object_is_type(v, json_type_int) || version < 1 || version > 3)
        return hl_fail(e, HL_ERR_VERSION,
                       "%s: schema version %s is not known here (1, 2 and 3 are)",
                       j->name, json_object_to_json_string(v));
    return 0;
}

/* ---- names ---- */

static int take_names(struct json_in *j, const char *what, struct hl_names *to, int paths,
                      struct hl_err *e)
{
    struct json_object *a = field(j->root, what, json_type_array);
    size_t n = a ? json_object_array_length(a) : 0;
    for (size_t i = 0; i < n; i++) {
        struct json_object *v = json_object_array_get_idx(a, i);
        const char *s =
            json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;
        const char *why = s && paths ? hl_path_fault(s, strlen(s)) : NULL;
        size_t before = to->n;
        if (!s)
            return hl_fail(e, HL_ERR_FORMAT, "%s: %s holds something that is no string",
                           j->name, what);
        if (why)
            return hl_fail(e, HL_ERR_FORMAT, "%s: region '%s': %s", j->name, s, why);
        if (hl_names_add(to, s, strlen(s), NULL))
            return hl_fail(e, ENOMEM, "%s: no memory left", j->name);
        if (to->n == before)
            return hl_fail(e, HL_ERR_FORMAT, "%s: '%s' is twice in %s", j->name, s, what);
    }
    return 0;
}

/* ---- frames ---- */

static int number(struct json_object *v, double *out)
{
    if (!v) { /* null: not a finite number when it was written */
        *out = NAN;
        return 0;
    }
    if (!json_object_is_type(v, json_type_double) &&
        !json_object_is_type(v, json_type_int))
        return -1;
    *out = json_object_get_double(v);
    return 0;
}

static int take_region(struct json_in *j, const char *path, struct json_object *o,
                       struct hl_err *e);

static int take_children(struct json_in *j, const char *path, struct json_object *o,
                         struct hl_err *e)
{
    json_object_object_foreach(o, key, v)
    {
        char child[HL_PATH_MAX + 2];
        if (*path && (!strcmp(key, "inclusive") || !strcmp(key, "exclusive")))
            continue;
        int n = snprintf(child, sizeof child, "%s%s%s", path, *path ? "/" : "", key);
        if (!json_object_is_type(v, json_type_object) || n < 0 ||
            (size_t)n >= sizeof child)
            return hl_fail(e, HL_ERR_FORMAT, "%s: region '%s' is not an object", j->name,
                           child);
        if (take_region(j, child, v, e))
            return -1;
    }
    return 0;
}

static int take_region(struct json_in *j, const char *path, struct json_object *o,
                       struct hl_err *e)
{
    struct json_object *inc = NULL, *exc = NULL;
    int has = json_object_object_get_ex(o, "inclusive", &inc);
    has |= json_object_object_get_ex(o, "exclusive", &exc) << 1;
    if (has) {
        size_t i = hl_names_find(&j->catalog.paths, path, strlen(path));
        double *cell = j->row + j->catalog.metrics.n + 2 * i;
        if (i == SIZE_MAX)
            return hl_fail(e, HL_ERR_FORMAT, "%s: region '%s' is not in region_paths",
                           j->name, path);
        if (has != 3 || number(inc, &cell[0]) || number(exc, &cell[1]))
            return hl_fail(e, HL_ERR_FORMAT,
                           "%s: region '%s' lacks inclusive or exclusive seconds",
                           j->name, path);
    }
    return take_children(j, path, o, e);
}

static int take_scalars(struct json_in *j, struct json_object *frame, struct hl_err *e)
{
    size_t n = j->catalog.metrics.n;
    struct json_object *a = field(frame, "scalars", json_type_array), *v;
    if (j->inline_metrics) {
        for (size_t i = 0; i < n; i++)
            if (!json_object_object_get_ex(frame, j->catalog.metrics.name[i], &v) ||
                number(v, &j->row[i]))
                return hl_fail(e, HL_ERR_FORMAT, "%s: a frame lacks '%s'", j->name,
                               j->catalog.metrics.name[i]);
        return 0;
    }
    if ((a ? json_object_array_length(a) : 0) != n)
        return bad_file(j, e, "a frame's scalars do not fit frame_metric_names");
    for (size_t i = 0; i < n; i++)
        if (number(json_object_array_get_idx(a, i), &j->row[i]))
            return bad_file(j, e, "a frame's scalars hold something that is no number");
    return 0;
}

static int take_frame(struct json_in *j, struct json_object *frame, struct hl_err *e)
{
    struct json_object *regions;
    memset(j->row, 0, (j->stride + 1) * sizeof *j->row);
    if (!json_object_is_type(frame, json_type_object))
        return bad_file(j, e, "a frame is not an object");
    regions = field(frame, "regions", json_type_object);
    if (!regions && json_object_object_get_ex(frame, "regions", NULL))
        return bad_file(j, e, "a frame's regions are not an object");
    if (take_scalars(j, frame, e) || (regions && take_children(j, "", regions, e)))
        return -1;
    return 0;
}

static int send_frame(struct json_in *j, struct hl_err *e)
{
    return j->sink->ops->rows ? j->sink->ops->rows(j->sink, j->row, 1, e) : 0;
}

static int begin_rank(struct json_in *j, uint64_t rank, uint64_t n, struct hl_err *e)
{
    return j->sink->ops->rank_begin ? j->sink->ops->rank_begin(j->sink, rank, n, e) : 0;
}

static int end_rank(struct json_in *j, struct hl_err *e)
{
    return j->sink->ops->rank_end ? j->sink->ops->rank_end(j->sink, e) : 0;
}

/* ---- schema 2 and 3 ---- */

static int read_rank(struct json_in *j, struct json_object *r, uint64_t i,
                     struct hl_err *e)
{
    struct json_object *frames = field(r, "frames", json_type_array);
    struct json_object *n_frames = field(r, "n_frames", json_type_int);
    struct json_object *rank = field(r, "mpi_rank", json_type_int);
    size_t n = frames ? json_object_array_length(frames) : 0;
    if (!frames || (n_frames && json_object_get_int64(n_frames) != (int64_t)n))
        return hl_fail(e, HL_ERR_FORMAT,
                       "%s: entry %llu of ranks: n_frames and frames differ", j->name,
                       (unsigned long long)i);
    if (rank && json_object_get_int64(rank) < 0)
        return bad_file(j, e, "a rank is negative");
    if (begin_rank(j, rank ? (uint64_t)json_object_get_int64(rank) : i, n, e))
        return -1;
    for (size_t k = 0; k < n; k++)
        if (take_frame(j, json_object_array_get_idx(frames, k), e) || send_frame(j, e))
            return -1;
    return end_rank(j, e);
}

/* A number of the root that must be what the content adds up to. */
static int check_count(struct json_in *j, const char *name, uint64_t want,
                       struct hl_err *e)
{
    struct json_object *v = field(j->root, name, json_type_int);
    if (v && json_object_get_int64(v) != (int64_t)want)
        return hl_fail(e, HL_ERR_FORMAT, "%s: %s says %s, but there are %llu", j->name,
                       name, json_object_to_json_string(v), (unsigned long long)want);
    return 0;
}

static int read_hierarchical(struct json_in *j, struct json_object *ranks,
                             struct hl_err *e)
{
    uint64_t frames = 0;
    if (check_count(j, "n_mpi_ranks", json_object_array_length(ranks), e))
        return -1;
    for (size_t i = 0; i < json_object_array_length(ranks); i++) {
        struct json_object *r = json_object_array_get_idx(ranks, i);
        if (!json_object_is_type(r, json_type_object))
            return bad_file(j, e, "an entry of ranks is not an object");
        if (read_rank(j, r, i, e))
            return -1;
        frames += json_object_array_length(field(r, "frames", json_type_array));
    }
    return check_count(j, "total_frames", frames, e);
}

/* ---- the flat layout ---- */

static int inline_names(struct json_in *j, struct json_object *frames, struct hl_err *e)
{
    if (!json_object_array_length(frames))
        return 0;
    struct json_object *first = json_object_array_get_idx(frames, 0);
    if (!json_object_is_type(first, json_type_object))
        return bad_file(j, e, "a frame is not an object");
    if (json_object_object_get_ex(first, "scalars", NULL))
        return 0;
    j->inline_metrics = 1;
    json_object_object_foreach(first, key, v)
    {
        double d;
        if (strcmp(key, "regions") && number(v, &d) == 0 &&
            hl_names_add(&j->catalog.metrics, key, strlen(key), NULL))
            return hl_fail(e, ENOMEM, "%s: no memory left", j->name);
    }
    return 0;
}

static int64_t rank_of_row(const struct json_in *j)
{
    size_t i = hl_names_find(&j->catalog.metrics, "mpi_rank", 8);
    double r = i == SIZE_MAX ? 0 : j->row[i];
    return r >= 0 && r < 1e9 && r == floor(r) ? (int64_t)r : -1;
}

/* All ranks' frames one after the other, in increasing rank order. */
static int read_flat(struct json_in *j, struct json_object *frames, uint64_t n_ranks,
                     struct hl_err *e)
{
    size_t n = json_object_array_length(frames);
    int64_t *rank = malloc((n + 1) * sizeof *rank);
    int bad = rank ? 0 : hl_fail(e, ENOMEM, "%s: no memory left", j->name);
    for (size_t i = 0; i < n && !bad; i++) {
        bad = take_frame(j, json_object_array_get_idx(frames, i), e);
        if (!bad && (rank[i] = rank_of_row(j)) < 0)
            bad = bad_file(j, e, "a frame's mpi_rank is no rank");
        if (!bad && i && rank[i] < rank[i - 1])
            bad = bad_file(j, e, "frames are not in the order of their ranks");
        if (!bad && (uint64_t)rank[i] >= n_ranks)
            n_ranks = (uint64_t)rank[i] + 1;
    }
    size_t at = 0;
    for (uint64_t r = 0; r < n_ranks && !bad; r++) {
        size_t end = at;
        while (end < n && rank[end] == (int64_t)r)
            end++;
        bad = begin_rank(j, r, end - at, e);
        for (; at < end && !bad; at++)
            bad = take_frame(j, json_object_array_get_idx(frames, at), e) ||
                  send_frame(j, e);
        bad = bad || end_rank(j, e);
    }
    free(rank);
    return bad ? -1 : 0;
}

/* ---- the whole ---- */

static int read_all(struct json_in *j, struct hl_err *e)
{
    struct json_object *ranks = field(j->root, "ranks", json_type_array);
    struct json_object *frames = field(j->root, "frames", json_type_array);
    struct json_object *v = field(j->root, "openpfc_version", json_type_string);
    struct json_object *id = field(j->root, "run_id", json_type_string);
    struct json_object *n =
        field(j->root, ranks ? "n_mpi_ranks" : "n_ranks", json_type_int);
    if (!ranks && !frames)
        return bad_file(j, e, "there are neither ranks nor frames in it");
    if (take_names(j, "frame_metric_names", &j->catalog.metrics, 0, e) ||
        take_names(j, "region_paths", &j->catalog.paths, 1, e) ||
        (!ranks && !j->catalog.paths.n &&
         take_names(j, "catalog", &j->catalog.paths, 1, e)) ||
        (!ranks && inline_names(j, frames, e)))
        return -1;
    j->stride = hl_catalog_stride(&j->catalog);
    j->row = malloc((j->stride + 1) * sizeof *j->row);
    if (!j->row)
        return hl_fail(e, ENOMEM, "%s: no memory left", j->name);
    struct hl_run run = {.app_version = v ? json_object_get_string(v) : "",
                         .run_id = id ? json_object_get_string(id) : "",
                         .catalog = &j->catalog,
                         .n_ranks = ranks ? json_object_array_length(ranks) : 1,
                         .generator = ""};
    if (!ranks && n && json_object_get_int64(n) > 1 && json_object_get_int64(n) < 1 << 26)
        run.n_ranks = (uint64_t)json_object_get_int64(n);
    if (j->sink->ops->begin && j->sink->ops->begin(j->sink, &run, e))
        return -1;
    return ranks ? read_hierarchical(j, ranks, e) : read_flat(j, frames, run.n_ranks, e);
}

int hl_json_runs(const char *name, char ***runs, size_t *n, struct hl_err *e)
{
    (void)name;
    *runs = malloc(sizeof **runs);
    if (!*runs || !((*runs)[0] = strdup("")))
        return hl_fail(e, ENOMEM, "no memory left");
    *n = 1;
    return 0;
}

int hl_json_read(const char *name, const char *run, struct hl_sink *s, struct hl_err *e)
{
    struct json_in j = {.name = name, .sink = s};
    int bad = open_root(&j, e);
    if (!bad && run && *run) {
        struct json_object *id = field(j.root, "run_id", json_type_string);
        if (!id || strcmp(json_object_get_string(id), run))
            bad = hl_fail(e, ENOENT, "%s: there is no run '%s' in it", name, run);
    }
    bad = bad || read_all(&j, e);
    json_object_put(j.root);
    hl_catalog_fini(&j.catalog);
    free(j.row);
    return bad ? -1 : 0;
}

int hl_file_kind(const char *name, enum hl_file_kind *kind, struct hl_err *e)
{
    char head[16] = "";
    FILE *f = fopen(name, "rbe");
    struct stat st;
    if (!f)
        return hl_fail_errno(e, "cannot read %s", name);
    if (fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode)) {
        fclose(f);
        return hl_fail(e, EISDIR, "cannot read %s: it is a folder", name);
    }
    size_t n = fread(head, 1, sizeof head - 1, f);
    size_t space = strspn(head, " \t\r\n");
    fclose(f);
    *kind = n >= 8 && !memcmp(head, "\x89HDF\r\n\x1a\n", 8) ? HL_FILE_HDF5
            : head[space] == '{'                            ? HL_FILE_JSON
            : head[0] == '#'                                ? HL_FILE_RECORD
                                                            : HL_FILE_UNKNOWN;
    return 0;
}
