/* SPDX-License-Identifier: Apache-2.0
 *
 * The HDF5 export: the schema's group openpfc/profiling, and heapline's own
 * group beside it (h5_heap.c).  Rows are turned into columns in a bounded
 * buffer; a rank that fits into it, as nearly all do, is written dataset by
 * dataset at once, a larger one in pieces.
 */
#include "h5_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN_BUFFER_BYTES = 16 << 20, COMPACT_BYTES = 8192 };

static struct h5_sink *self(struct hl_sink *s)
{
    return (struct h5_sink *)s;
}

int h5_fail(struct h5_sink *h, struct hl_err *e, const char *what)
{
    return hl_fail(e, EIO, "cannot write %s (%s): is the disk full?", h->out.name, what);
}

/* ---- small pieces, shared with h5_heap.c ---- */

hid_t h5_group(hid_t at, const char *name)
{
    return H5Gcreate2(at, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
}

int h5_attr_int(hid_t at, const char *name, hid_t type, int64_t v)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t a = H5Acreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    int bad = a < 0 || H5Awrite(a, H5T_NATIVE_INT64, &v) < 0;
    H5Aclose(a);
    H5Sclose(space);
    return bad ? -1 : 0;
}

int h5_attr_text(struct h5_sink *h, hid_t at, const char *name, const char *v)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t a = H5Acreate2(at, name, h->text_type, space, H5P_DEFAULT, H5P_DEFAULT);
    int bad = a < 0 || H5Awrite(a, h->text_type, &v) < 0;
    H5Aclose(a);
    H5Sclose(space);
    return bad ? -1 : 0;
}

int h5_names(struct h5_sink *h, hid_t at, const char *name, char *const *v, size_t n)
{
    hsize_t dim = n;
    hid_t space = H5Screate_simple(1, &dim, NULL);
    hid_t d =
        H5Dcreate2(at, name, h->text_type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    int bad = d < 0 || H5Dwrite(d, h->text_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) < 0;
    H5Dclose(d);
    H5Sclose(space);
    return bad ? -1 : 0;
}

void h5_sanitise(const char *in, const char *keep, char *out, size_t cap)
{
    size_t n = 0;
    for (; *in && n + 1 < cap; in++) {
        int plain = (*in >= '0' && *in <= '9') || (*in >= 'a' && *in <= 'z') ||
                    (*in >= 'A' && *in <= 'Z') || strchr(keep, *in);
        out[n++] = plain ? *in : '_';
    }
    if (!n)
        out[n++] = '_';
    out[n] = 0;
}

/* ---- the file and its head ---- */

static int write_meta(struct h5_sink *h, hid_t group, const struct hl_run *run)
{
    for (size_t i = 0; i < run->n_meta; i++) {
        char name[512];
        size_t n;
        h5_sanitise(run->meta[i].key, "_.", name, sizeof name - 16);
        if (!strcmp(name, "schema_version") || !strcmp(name, "openpfc_version"))
            continue;
        n = strlen(name);
        for (int k = 2; H5Aexists(group, name) > 0; k++) /* two keys became one name */
            snprintf(name + n, sizeof name - n, "_%d", k);
        if (h5_attr_text(h, group, name, run->meta[i].text))
            return -1;
    }
    return 0;
}

/* The group that holds the payload: openpfc/profiling, or a run below it. */
static hid_t make_payload(struct h5_sink *h, const struct hl_run *run)
{
    hid_t pfc = h5_group(h->file, "openpfc");
    hid_t root = h5_group(pfc, "profiling");
    hid_t payload = root;
    H5Gclose(pfc);
    if (h->run_name[0]) {
        int bad = h5_attr_int(root, "schema_version", H5T_STD_I32LE, 3) ||
                  h5_attr_text(h, root, "openpfc_version", run->app_version);
        hid_t runs = h5_group(root, "runs");
        payload = bad ? -1 : h5_group(runs, h->run_name);
        if (payload >= 0 && write_meta(h, payload, run)) {
            H5Gclose(payload);
            payload = -1;
        }
        H5Gclose(runs);
        H5Gclose(root);
    }
    return payload;
}

static int write_head(struct h5_sink *h, const struct hl_run *run)
{
    const struct hl_catalog *c = run->catalog;
    hid_t payload = make_payload(h, run);
    int bad =
        payload < 0 || h5_attr_int(payload, "schema_version", H5T_STD_I32LE, 2) ||
        h5_attr_text(h, payload, "openpfc_version", run->app_version) ||
        (c->metrics.n &&
         h5_names(h, payload, "frame_metric_names", c->metrics.name, c->metrics.n)) ||
        (c->paths.n && h5_names(h, payload, "region_paths", c->paths.name, c->paths.n));
    h->ranks = bad ? -1 : h5_group(payload, "ranks");
    H5Gclose(payload);
    return h->ranks < 0 ? -1 : 0;
}

static hid_t open_file(const char *name)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(fapl, H5F_LIBVER_V18, H5F_LIBVER_V18);
    H5Pset_evict_on_close(fapl, 1);
    hid_t f = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    H5Pclose(fapl);
    return f;
}

static int h5_begin(struct hl_sink *s, const struct hl_run *run, struct hl_err *e)
{
    struct h5_sink *h = self(s);
    h->run = run;
    h->n_metrics = run->catalog->metrics.n;
    h->stride = hl_catalog_stride(run->catalog);
    if (run->run_id && *run->run_id)
        h5_sanitise(run->run_id, "-_", h->run_name, sizeof h->run_name);
    if (hl_region_tree_init(&h->tree, run->catalog))
        return hl_fail(e, ENOMEM, "%s: no memory left", h->out.name);
    h->batch_rows = h->stride ? COLUMN_BUFFER_BYTES / (8 * h->stride) : 1;
    if (!h->batch_rows)
        h->batch_rows = 1;
    h->file = open_file(h->out.temp);
    if (h->file < 0 || write_head(h, run))
        return h5_fail(h, e, "head");
    return h5_heap_begin(h, e);
}

/* ---- a rank ---- */

static hid_t layout_for(hsize_t bytes)
{
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_attr_phase_change(dcpl, 8, 6);
    H5Pset_obj_track_times(dcpl, 0);
    H5Pset_layout(dcpl, bytes <= COMPACT_BYTES ? H5D_COMPACT : H5D_CONTIGUOUS);
    return dcpl;
}

/* n rows of a dataset from row `first`: data is contiguous, `width` a row. */
static int write_part(struct h5_sink *h, hid_t at, const char *name, int n_dims,
                      hsize_t width, const double *data, size_t n)
{
    hsize_t whole[2] = {h->n_frames, width}, start[2] = {h->n_written, 0},
            part[2] = {n, width};
    hid_t space = H5Screate_simple(n_dims, whole, NULL), mem = H5S_ALL, sel = H5S_ALL, d;
    if (h->n_written == 0) {
        hid_t dcpl = layout_for(h->n_frames * width * 8);
        d = H5Dcreate2(at, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
        H5Pclose(dcpl);
    } else {
        d = H5Dopen2(at, name, H5P_DEFAULT);
    }
    if (n != h->n_frames) {
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL);
        mem = H5Screate_simple(n_dims, part, NULL);
        sel = space;
    }
    int bad = d < 0 || H5Dwrite(d, H5T_NATIVE_DOUBLE, mem, sel, H5P_DEFAULT, data) < 0;
    if (mem != H5S_ALL)
        H5Sclose(mem);
    H5Dclose(d);
    H5Sclose(space);
    return bad ? -1 : 0;
}

static const double *column(struct h5_sink *h, size_t cell)
{
    const double *from = h->rows + cell;
    for (size_t i = 0; i < h->n_held; i++, from += h->stride)
        h->column[i] = *from;
    return h->column;
}

static int write_region(struct h5_sink *h, hid_t at, size_t node)
{
    const struct hl_region_node *n = &h->tree.node[node];
    size_t cell = h->n_metrics + 2 * n->path;
    int bad = 0;
    if (n->path != SIZE_MAX)
        bad = write_part(h, at, "inclusive", 1, 1, column(h, cell), h->n_held) ||
              write_part(h, at, "exclusive", 1, 1, column(h, cell + 1), h->n_held);
    for (size_t i = n->first; i && !bad; i = h->tree.node[i].next) {
        const char *name = h->tree.node[i].name;
        hid_t g = h->n_written ? H5Gopen2(at, name, H5P_DEFAULT) : h5_group(at, name);
        bad = g < 0 || write_region(h, g, i);
        H5Gclose(g);
    }
    return bad ? -1 : 0;
}

static int write_scalars(struct h5_sink *h)
{
    const double *data = h->rows;
    if (!h->n_metrics)
        return 0;
    for (size_t i = 0; i < h->n_held; i++)
        memcpy(h->scalars + i * h->n_metrics, h->rows + i * h->stride,
               h->n_metrics * sizeof *data);
    return write_part(h, h->at, "frame_scalars", 2, h->n_metrics, h->scalars, h->n_held);
}

static int flush_rows(struct h5_sink *h, struct hl_err *e)
{
    if (!h->n_held)
        return 0;
    if (write_scalars(h) || write_region(h, h->at, 0))
        return h5_fail(h, e, "frames");
    h->n_written += h->n_held;
    h->n_held = 0;
    return 0;
}

static int make_room(struct h5_sink *h, struct hl_err *e)
{
    size_t want = h->n_frames < h->batch_rows ? (size_t)h->n_frames : h->batch_rows;
    if (want <= h->held_cap)
        return 0;
    free(h->rows);
    free(h->column);
    free(h->scalars);
    h->held_cap = want;
    h->rows = malloc((want * h->stride + 1) * sizeof *h->rows);
    h->column = malloc(want * sizeof *h->column);
    h->scalars = malloc((want * h->n_metrics + 1) * sizeof *h->scalars);
    if (h->rows && h->column && h->scalars)
        return 0;
    h->held_cap = 0;
    return hl_fail(e, ENOMEM, "%s: no memory left", h->out.name);
}

static int begin_group(struct h5_sink *h, hid_t at, const char *name, uint64_t n_frames,
                       struct hl_err *e)
{
    h->n_frames = n_frames;
    h->n_written = h->n_held = 0;
    h->at = h5_group(at, name);
    if (h->at < 0 || h5_attr_int(h->at, "n_frames", H5T_STD_I32LE, (int64_t)n_frames))
        return h5_fail(h, e, name);
    return make_room(h, e);
}

static int h5_rank_begin(struct hl_sink *s, uint64_t rank, uint64_t n_frames,
                         struct hl_err *e)
{
    char name[24];
    snprintf(name, sizeof name, "%llu", (unsigned long long)rank);
    return begin_group(self(s), self(s)->ranks, name, n_frames, e);
}

static int h5_other_begin(struct hl_sink *s, int64_t pid, const char *host,
                          uint64_t n_frames, struct hl_err *e)
{
    struct h5_sink *h = self(s);
    char name[HL_HOST_MAX + 48];
    if (h->other < 0)
        h->other = h5_group(h->own_base, "other");
    h5_process_name(h->other, pid, host, name, sizeof name);
    return begin_group(h, h->other, name, n_frames, e);
}

static int h5_rows(struct hl_sink *s, const double *cells, size_t n, struct hl_err *e)
{
    struct h5_sink *h = self(s);
    while (n) {
        size_t k = h->held_cap - h->n_held;
        k = k < n ? k : n;
        memcpy(h->rows + h->n_held * h->stride, cells, k * h->stride * sizeof *cells);
        h->n_held += k;
        cells += k * h->stride;
        n -= k;
        if (h->n_held == h->held_cap && flush_rows(h, e))
            return -1;
    }
    return 0;
}

static int h5_rank_end(struct hl_sink *s, struct hl_err *e)
{
    struct h5_sink *h = self(s);
    int bad = flush_rows(h, e);
    if (!bad && h->n_written != h->n_frames)
        bad = hl_fail(e, HL_ERR_FORMAT, "%s: %llu frames came where %llu were announced",
                      h->out.name, (unsigned long long)h->n_written,
                      (unsigned long long)h->n_frames);
    H5Gclose(h->at);
    h->at = -1;
    return bad;
}

/* ---- the end ---- */

static void close_ids(struct h5_sink *h)
{
    hid_t *group[] = {&h->at,       &h->ranks,      &h->other,
                      &h->own_base, &h->heap.group, &h->images.group};
    for (size_t i = 0; i < sizeof group / sizeof *group; i++) {
        if (*group[i] >= 0)
            H5Gclose(*group[i]);
        *group[i] = -1;
    }
}

static void free_parts(struct h5_sink *h)
{
    close_ids(h);
    if (h->file >= 0)
        H5Fclose(h->file);
    h5_heap_fini(h);
    hl_region_tree_fini(&h->tree);
    H5Tclose(h->text_type);
    free(h->rows);
    free(h->column);
    free(h->scalars);
    free(h);
}

static void h5_abort(struct hl_sink *s)
{
    hl_out_abort(&self(s)->out);
    free_parts(self(s));
}

static int h5_finish(struct hl_sink *s, struct hl_err *e)
{
    struct h5_sink *h = self(s);
    if (h5_heap_end(h, e))
        return -1;
    close_ids(h);
    int bad = H5Fclose(h->file) < 0 ? h5_fail(h, e, "closing") : 0;
    h->file = -1;
    return bad ? -1 : hl_out_finish(&h->out, e);
}

static int h5_commit(struct hl_sink *s, struct hl_err *e)
{
    int bad = hl_out_commit(&self(s)->out, e);
    free_parts(self(s));
    return bad;
}

static const struct hl_sink_ops ops = {
    .begin = h5_begin,
    .rank_begin = h5_rank_begin,
    .other_begin = h5_other_begin,
    .rows = h5_rows,
    .rank_end = h5_rank_end,
    .heap = h5_heap_row,
    .image = h5_image_row,
    .missing = h5_missing,
    .finish = h5_finish,
    .commit = h5_commit,
    .abort = h5_abort,
};

struct hl_sink *hl_h5_sink(const char *name, struct hl_err *e)
{
    struct h5_sink *h = calloc(1, sizeof *h);
    if (!h || H5open() < 0) {
        free(h);
        hl_fail(e, ENOMEM, "%s: no memory left", name);
        return NULL;
    }
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* errors are told once, by the caller */
    h->base.ops = &ops;
    h->file = h->ranks = h->other = h->own_base = h->at = -1;
    h->heap.group = h->images.group = -1;
    h->text_type = H5Tcopy(H5T_C_S1);
    H5Tset_size(h->text_type, H5T_VARIABLE);
    if (hl_out_begin(&h->out, name, 0, e)) {
        H5Tclose(h->text_type);
        free(h);
        return NULL;
    }
    return &h->base;
}
