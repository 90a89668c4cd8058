/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading HDF5 exports of schema 1, 2 and 3; see readers.h.  Columns are read
 * in batches and turned into rows.
 */
#include "h5_in.h"

#include "region_name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_BYTES = 4 << 20 };

int h5_in_bad_file(struct h5_in *h, struct hl_err *e, const char *what)
{
    return hl_fail(e, HL_ERR_FORMAT, "%s: %s", h->name, what);
}

/* ---- attributes and names ---- */

static int int_attr(hid_t at, const char *name, int64_t *out)
{
    if (H5Aexists(at, name) <= 0)
        return -1;
    hid_t a = H5Aopen(at, name, H5P_DEFAULT), space = H5Aget_space(a);
    int bad =
        H5Sget_simple_extent_npoints(space) != 1 || H5Aread(a, H5T_NATIVE_INT64, out) < 0;
    H5Sclose(space);
    H5Aclose(a);
    return bad ? -1 : 0;
}

static hid_t text_type(void)
{
    hid_t t = H5Tcopy(H5T_C_S1);
    H5Tset_size(t, H5T_VARIABLE);
    return t;
}

/* Is the stored type text of variable length? Others cannot be converted. */
static int is_text(hid_t stored)
{
    int r = H5Tget_class(stored) == H5T_STRING && H5Tis_variable_str(stored) > 0;
    H5Tclose(stored);
    return r;
}

static hid_t text_like(hid_t stored)
{
    hid_t t = text_type();
    H5Tset_cset(t, H5Tget_cset(stored));
    H5Tclose(stored);
    return t;
}

static void text_attr(hid_t at, const char *name, char *out, size_t cap)
{
    char *s = NULL;
    out[0] = 0;
    if (H5Aexists(at, name) <= 0)
        return;
    hid_t a = H5Aopen(at, name, H5P_DEFAULT), space = H5Aget_space(a);
    if (H5Sget_simple_extent_npoints(space) == 1 && is_text(H5Aget_type(a))) {
        hid_t t = text_like(H5Aget_type(a));
        if (H5Aread(a, t, &s) >= 0 && s)
            snprintf(out, cap, "%s", s);
        H5free_memory(s);
        H5Tclose(t);
    }
    H5Sclose(space);
    H5Aclose(a);
}

int h5_in_add_name(struct h5_in *h, struct hl_names *to, const char *s, const char *what,
                   int paths, struct hl_err *e)
{
    size_t before = to->n;
    const char *why = paths ? hl_path_fault(s, strlen(s)) : NULL;
    if (why)
        return hl_fail(e, HL_ERR_FORMAT, "%s: region '%s': %s", h->name, s, why);
    if (hl_names_add(to, s, strlen(s), NULL))
        return hl_fail(e, ENOMEM, "%s: no memory left", h->name);
    if (to->n == before)
        return hl_fail(e, HL_ERR_FORMAT, "%s: '%s' is twice in %s", h->name, s, what);
    return 0;
}

static int read_names(struct h5_in *h, const char *what, struct hl_names *to, int paths,
                      struct hl_err *e)
{
    if (H5Lexists(h->payload, what, H5P_DEFAULT) <= 0)
        return 0;
    hid_t d = H5Dopen2(h->payload, what, H5P_DEFAULT);
    if (d < 0)
        return h5_in_bad_file(h, e, "a list of names is no dataset");
    hid_t space = H5Dget_space(d);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    int bad = n < 0 || n > HL_CATALOG_NAMES_MAX ||
              H5Sget_simple_extent_ndims(space) > 1 || !is_text(H5Dget_type(d));
    char **s = bad ? NULL : calloc((size_t)n + 1, sizeof *s);
    if (!s)
        bad = h5_in_bad_file(h, e, "a list of names is damaged");
    hid_t t = bad ? -1 : text_like(H5Dget_type(d));
    if (!bad && H5Dread(d, t, H5S_ALL, H5S_ALL, H5P_DEFAULT, s) < 0)
        bad = h5_in_bad_file(h, e, "a list of names cannot be read");
    for (hssize_t i = 0; i < n && !bad; i++)
        bad = !s[i] ? h5_in_bad_file(h, e, "a name is missing in a list")
                    : h5_in_add_name(h, to, s[i], what, paths, e);
    for (hssize_t i = 0; s && i < n; i++)
        H5free_memory(s[i]);
    free(s);
    if (t >= 0)
        H5Tclose(t);
    H5Sclose(space);
    H5Dclose(d);
    return bad ? -1 : 0;
}

/* Rows of a dataset of n_dims dimensions, width in the second; -1: it is not. */
int64_t h5_in_rows_of(hid_t at, const char *name, int n_dims, hsize_t *width)
{
    hsize_t dim[2] = {0, 1};
    if (H5Lexists(at, name, H5P_DEFAULT) <= 0)
        return -1;
    hid_t d = H5Dopen2(at, name, H5P_DEFAULT);
    if (d < 0)
        return -1;
    hid_t space = H5Dget_space(d), type = H5Dget_type(d);
    H5T_class_t class = H5Tget_class(type);
    int ok = H5Sget_simple_extent_ndims(space) == n_dims &&
             H5Sget_simple_extent_dims(space, dim, NULL) == n_dims &&
             (class == H5T_FLOAT || class == H5T_INTEGER);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(d);
    if (width)
        *width = dim[1];
    return ok && dim[0] < INT64_MAX ? (int64_t)dim[0] : -1;
}

/* ---- the tree, where region_paths is not in the file ---- */

struct walk {
    struct h5_in *h;
    struct hl_err *e;
    char path[HL_PATH_MAX + 1];
};

static herr_t walk_one(hid_t at, const char *name, const H5L_info_t *info, void *ctx)
{
    struct walk *w = ctx;
    size_t n = strlen(w->path);
    H5O_info_t o;
    (void)info;
    if (H5Oget_info_by_name(at, name, &o, H5P_DEFAULT) < 0 || o.type != H5O_TYPE_GROUP)
        return 0;
    if (n + strlen(name) + 2 > sizeof w->path)
        return h5_in_bad_file(w->h, w->e, "a region path is too long");
    sprintf(w->path + n, "%s%s", n ? "/" : "", name);
    hid_t g = H5Gopen2(at, name, H5P_DEFAULT);
    int bad = g < 0;
    if (!bad && H5Lexists(g, "inclusive", H5P_DEFAULT) > 0 &&
        hl_names_find(&w->h->catalog.paths, w->path, strlen(w->path)) == SIZE_MAX)
        bad = h5_in_add_name(w->h, &w->h->catalog.paths, w->path, "the file", 1, w->e);
    bad = bad || H5Literate(g, H5_INDEX_NAME, H5_ITER_INC, NULL, walk_one, ctx) < 0;
    H5Gclose(g);
    w->path[n] = 0;
    return bad ? -1 : 0;
}

int h5_in_walk_regions(struct h5_in *h, hid_t group, struct hl_err *e)
{
    struct walk w = {.h = h, .e = e};
    if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, walk_one, &w) < 0)
        return e->code ? -1
                       : h5_in_bad_file(h, e, "the groups of regions cannot be read");
    return 0;
}

/* ---- rows ---- */

/* n rows from `first` of a dataset into memory: width values a row. */
static int read_part(struct h5_in *h, hid_t at, const char *name, int n_dims,
                     hsize_t width, uint64_t first, size_t n, double *out,
                     struct hl_err *e)
{
    hsize_t start[2] = {first, 0}, part[2] = {n, width};
    hid_t d = H5Dopen2(at, name, H5P_DEFAULT), space = H5Dget_space(d);
    hid_t mem = H5Screate_simple(n_dims, part, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL);
    int bad = H5Dread(d, H5T_NATIVE_DOUBLE, mem, space, H5P_DEFAULT, out) < 0;
    H5Sclose(mem);
    H5Sclose(space);
    H5Dclose(d);
    return bad ? hl_fail(e, HL_ERR_FORMAT, "%s: dataset %s cannot be read", h->name, name)
               : 0;
}

int h5_in_read_column(struct h5_in *h, hid_t at, const char *name, uint64_t first,
                      size_t n, uint64_t n_frames, size_t cell, struct hl_err *e)
{
    int64_t have = h5_in_rows_of(at, name, 1, NULL);
    if (have == -1 && H5Lexists(at, name, H5P_DEFAULT) <= 0)
        return 0; /* a region left out: zeros */
    if (have != (int64_t)n_frames)
        return hl_fail(e, HL_ERR_FORMAT, "%s: dataset %s does not have %llu values",
                       h->name, name, (unsigned long long)n_frames);
    if (read_part(h, at, name, 1, 1, first, n, h->column, e))
        return -1;
    for (size_t i = 0; i < n; i++)
        h->rows[i * h->stride + cell] = h->column[i];
    return 0;
}

/* Does every group of that path exist below `at`? */
static int group_exists(hid_t at, const char *path)
{
    char part[HL_PATH_MAX + 1];
    for (const char *s = path; s; s = strchr(s + 1, '/')) {
        const char *end = strchr(s + (s != path), '/');
        size_t n = end ? (size_t)(end - path) : strlen(path);
        memcpy(part, path, n);
        part[n] = 0;
        if (H5Lexists(at, part, H5P_DEFAULT) <= 0)
            return 0;
        if (!end)
            break;
    }
    return 1;
}

int h5_in_read_regions(struct h5_in *h, hid_t at, uint64_t first, size_t n,
                       uint64_t n_frames, struct hl_err *e)
{
    for (size_t i = 0; i < h->catalog.paths.n; i++) {
        const char *path = h->catalog.paths.name[i];
        size_t cell = h->catalog.metrics.n + 2 * i;
        if (!group_exists(at, path))
            continue;
        hid_t g = H5Gopen2(at, path, H5P_DEFAULT);
        int bad =
            g < 0
                ? hl_fail(e, HL_ERR_FORMAT, "%s: region '%s' is no group", h->name, path)
                : h5_in_read_column(h, g, "inclusive", first, n, n_frames, cell, e) ||
                      h5_in_read_column(h, g, "exclusive", first, n, n_frames, cell + 1,
                                        e);
        H5Gclose(g);
        if (bad)
            return -1;
    }
    return 0;
}

int h5_in_read_scalars(struct h5_in *h, hid_t at, uint64_t first, size_t n,
                       uint64_t n_frames, struct hl_err *e)
{
    hsize_t width = 0;
    size_t nm = h->catalog.metrics.n;
    if (!nm)
        return 0;
    if (h5_in_rows_of(at, "frame_scalars", 2, &width) != (int64_t)n_frames || width != nm)
        return h5_in_bad_file(
            h, e, "frame_scalars does not fit n_frames and frame_metric_names");
    double *part = malloc(n * nm * sizeof *part);
    int bad = part ? read_part(h, at, "frame_scalars", 2, width, first, n, part, e)
                   : hl_fail(e, ENOMEM, "%s: no memory left", h->name);
    for (size_t i = 0; i < n && !bad; i++)
        memcpy(h->rows + i * h->stride, part + i * nm, nm * sizeof *part);
    free(part);
    return bad;
}

int h5_in_make_room(struct h5_in *h, struct hl_err *e)
{
    h->stride = hl_catalog_stride(&h->catalog);
    h->batch = h->stride ? BATCH_BYTES / (8 * h->stride) : 4096;
    h->batch = h->batch ? h->batch : 1;
    h->rows = malloc((h->batch * h->stride + 1) * sizeof *h->rows);
    h->column = malloc(h->batch * sizeof *h->column);
    return h->rows && h->column ? 0 : hl_fail(e, ENOMEM, "%s: no memory left", h->name);
}

int h5_in_begin_rank(struct h5_in *h, uint64_t rank, uint64_t n, struct hl_err *e)
{
    return h->sink->ops->rank_begin ? h->sink->ops->rank_begin(h->sink, rank, n, e) : 0;
}

int h5_in_end_rank(struct h5_in *h, struct hl_err *e)
{
    return h->sink->ops->rank_end ? h->sink->ops->rank_end(h->sink, e) : 0;
}

int h5_in_send_rows(struct h5_in *h, size_t n, struct hl_err *e)
{
    return h->sink->ops->rows ? h->sink->ops->rows(h->sink, h->rows, n, e) : 0;
}

/* ---- schema 2 and 3: a group a rank ---- */

static int read_rank(struct h5_in *h, hid_t ranks, uint64_t rank, struct hl_err *e)
{
    char name[24];
    int64_t n_frames = -1;
    snprintf(name, sizeof name, "%llu", (unsigned long long)rank);
    hid_t g = H5Gopen2(ranks, name, H5P_DEFAULT);
    int bad = g < 0 || int_attr(g, "n_frames", &n_frames) || n_frames < 0
                  ? hl_fail(e, HL_ERR_FORMAT, "%s: rank %s has no valid n_frames",
                            h->name, name)
                  : h5_in_begin_rank(h, rank, (uint64_t)n_frames, e);
    for (uint64_t at = 0; !bad && at < (uint64_t)n_frames;) {
        size_t n = (uint64_t)n_frames - at < h->batch ? (size_t)((uint64_t)n_frames - at)
                                                      : h->batch;
        memset(h->rows, 0, n * h->stride * sizeof *h->rows);
        bad = h5_in_read_scalars(h, g, at, n, (uint64_t)n_frames, e) ||
              h5_in_read_regions(h, g, at, n, (uint64_t)n_frames, e) ||
              h5_in_send_rows(h, n, e);
        at += n;
    }
    bad = bad || h5_in_end_rank(h, e);
    H5Gclose(g);
    return bad ? -1 : 0;
}

struct rank_list {
    struct h5_in *h;
    struct hl_err *e;
    uint64_t *rank;
    size_t n, cap;
};

static herr_t add_rank(hid_t at, const char *name, const H5L_info_t *info, void *ctx)
{
    struct rank_list *l = ctx;
    char *end;
    unsigned long long r = strtoull(name, &end, 10);
    (void)at, (void)info;
    if (*end || *name < '0' || *name > '9')
        return hl_fail(l->e, HL_ERR_FORMAT, "%s: '%s' is no rank", l->h->name, name);
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        uint64_t *p = realloc(l->rank, l->cap * sizeof *p);
        if (!p)
            return hl_fail(l->e, ENOMEM, "%s: no memory left", l->h->name);
        l->rank = p;
    }
    l->rank[l->n++] = r;
    return 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int h5_in_begin_run(struct h5_in *h, uint64_t n_ranks, struct hl_err *e)
{
    struct hl_run run = {.app_version = h->version,
                         .run_id = h->run_id,
                         .catalog = &h->catalog,
                         .n_ranks = n_ranks,
                         .generator = ""};
    return h->sink->ops->begin ? h->sink->ops->begin(h->sink, &run, e) : 0;
}

static int read_hierarchical(struct h5_in *h, struct hl_err *e)
{
    hid_t ranks = H5Gopen2(h->payload, "ranks", H5P_DEFAULT);
    struct rank_list l = {.h = h, .e = e};
    int bad = ranks < 0 ||
              H5Literate(ranks, H5_INDEX_NAME, H5_ITER_INC, NULL, add_rank, &l) < 0;
    if (bad && !e->code)
        h5_in_bad_file(h, e, "the group ranks cannot be read");
    if (!bad)
        qsort(l.rank, l.n, sizeof *l.rank, by_number);
    if (!bad && !h->catalog.paths.n)
        for (size_t i = 0; i < l.n && !bad; i++) {
            char name[24];
            snprintf(name, sizeof name, "%llu", (unsigned long long)l.rank[i]);
            hid_t g = H5Gopen2(ranks, name, H5P_DEFAULT);
            bad = h5_in_walk_regions(h, g, e);
            H5Gclose(g);
        }
    bad = bad || h5_in_make_room(h, e) || h5_in_begin_run(h, l.n, e);
    for (size_t i = 0; i < l.n && !bad; i++)
        bad = read_rank(h, ranks, l.rank[i], e);
    free(l.rank);
    H5Gclose(ranks);
    return bad ? -1 : 0;
}

/* ---- the file ---- */

static int open_file(struct h5_in *h, int64_t *version, struct hl_err *e)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    h->payload = -1;
    h->file = H5Fopen(h->name, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (h->file < 0)
        return h5_in_bad_file(h, e, "not a readable HDF5 file: is it whole?");
    if (H5Lexists(h->file, "openpfc", H5P_DEFAULT) <= 0 ||
        H5Lexists(h->file, "openpfc/profiling", H5P_DEFAULT) <= 0)
        return h5_in_bad_file(
            h, e, "not a profiling export: there is no group openpfc/profiling");
    h->payload = H5Gopen2(h->file, "openpfc/profiling", H5P_DEFAULT);
    if (h->payload < 0 || int_attr(h->payload, "schema_version", version))
        return h5_in_bad_file(h, e, "not a profiling export: there is no schema_version");
    if (*version < 1 || *version > 3)
        return hl_fail(e, HL_ERR_VERSION,
                       "%s: schema version %lld is not known here (1, 2 and 3 are)",
                       h->name, (long long)*version);
    return 0;
}

static void close_file(struct h5_in *h)
{
    if (h->payload >= 0)
        H5Gclose(h->payload);
    if (h->file >= 0)
        H5Fclose(h->file);
    hl_catalog_fini(&h->catalog);
    free(h->rows);
    free(h->column);
}

struct run_list {
    char **name;
    size_t n;
};

static herr_t add_run(hid_t at, const char *name, const H5L_info_t *info, void *ctx)
{
    struct run_list *l = ctx;
    char **p = realloc(l->name, (l->n + 1) * sizeof *p);
    (void)at, (void)info;
    if (!p)
        return -1;
    l->name = p;
    p[l->n] = strdup(name);
    return p[l->n] ? (l->n++, 0) : -1;
}

int hl_h5_runs(const char *name, char ***runs, size_t *n, struct hl_err *e)
{
    struct h5_in h = {.name = name};
    struct run_list l = {NULL, 0};
    int64_t version;
    int bad = open_file(&h, &version, e);
    if (!bad && version == 3 && H5Lexists(h.payload, "runs", H5P_DEFAULT) > 0) {
        hid_t g = H5Gopen2(h.payload, "runs", H5P_DEFAULT);
        if (g < 0 || H5Literate(g, H5_INDEX_NAME, H5_ITER_INC, NULL, add_run, &l) < 0)
            bad = h5_in_bad_file(&h, e, "the group runs cannot be read");
        H5Gclose(g);
    } else if (!bad) {
        bad = add_run(-1, "", NULL, &l) ? hl_fail(e, ENOMEM, "no memory left") : 0;
    }
    close_file(&h);
    *runs = l.name;
    *n = l.n;
    return bad;
}

static int enter_run(struct h5_in *h, const char *run, struct hl_err *e)
{
    char path[300];
    int64_t version;
    snprintf(path, sizeof path, "runs/%s", run);
    if (strchr(run, '/') || H5Lexists(h->payload, "runs", H5P_DEFAULT) <= 0 ||
        H5Lexists(h->payload, path, H5P_DEFAULT) <= 0)
        return hl_fail(e, ENOENT, "%s: there is no run '%s' in it", h->name, run);
    hid_t g = H5Gopen2(h->payload, path, H5P_DEFAULT);
    if (g < 0)
        return h5_in_bad_file(h, e, "a run is no group");
    H5Gclose(h->payload);
    h->payload = g;
    snprintf(h->run_id, sizeof h->run_id, "%s", run);
    if (int_attr(g, "schema_version", &version) || version < 1 || version > 2)
        return hl_fail(e, HL_ERR_VERSION,
                       "%s: run %s has no schema version that is known here", h->name,
                       run);
    return 0;
}

int hl_h5_read(const char *name, const char *run, struct hl_sink *s, struct hl_err *e)
{
    struct h5_in h = {.name = name, .sink = s};
    int64_t version;
    int bad = open_file(&h, &version, e) || (run && *run && enter_run(&h, run, e));
    if (!bad) {
        text_attr(h.payload, "openpfc_version", h.version, sizeof h.version);
        bad = read_names(&h, "frame_metric_names", &h.catalog.metrics, 0, e) ||
              read_names(&h, "region_paths", &h.catalog.paths, 1, e) ||
              (H5Lexists(h.payload, "ranks", H5P_DEFAULT) > 0 ? read_hierarchical(&h, e)
                                                              : h5_in_read_flat(&h, e));
    }
    if (bad && !e->code)
        h5_in_bad_file(&h, e, "the file is damaged");
    close_file(&h);
    return bad ? -1 : 0;
}
