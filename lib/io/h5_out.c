/* SPDX-License-Identifier: Apache-2.0
 *
 * The HDF5 export: file and head of the schema's group openpfc/profiling, and the
 * sink's calls.  Frames are written by h5_rows.c, heapline's own group by h5_heap.c
 * and h5_timeline.c.
 */
#include "h5_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct h5_sink *self(struct hl_sink *s)
{
    return (struct h5_sink *)s;
}

/* ---- errors ---- */

/* The disk's first error.  It stays: HDF5 may go on after it and fail later. */
static _Thread_local int first_errno;

void h5_note_errno(int error)
{
    if (!first_errno)
        first_errno = error;
}

void h5_arm(void)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

int h5_fail(struct h5_sink *h, struct hl_err *e, const char *what)
{
    if (first_errno)
        return hl_fail(e, first_errno, "cannot write %s: %s", h->out.name,
                       strerror(first_errno));
    return hl_fail(e, EIO, "cannot write %s (%s): HDF5 failed", h->out.name, what);
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

const char *h5_text(struct h5_sink *h, struct hl_buf *b, const char *s)
{
    return hl_utf8_text(b, s, &h->base.n_replaced);
}

int h5_attr_text(struct h5_sink *h, hid_t at, const char *name, const char *v)
{
    struct hl_buf clean = {0};
    const char *text = h5_text(h, &clean, v);
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t a = H5Acreate2(at, name, h->text_type, space, H5P_DEFAULT, H5P_DEFAULT);
    int bad = !text || a < 0 || H5Awrite(a, h->text_type, &text) < 0;
    hl_buf_fini(&clean);
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

/* The catalog's names, made UTF-8 and counted. */
static int write_names(struct h5_sink *h, hid_t at, const char *name,
                       const struct hl_names *l)
{
    char **v = calloc(l->n + 1, sizeof *v);
    int bad = !v;
    for (size_t i = 0; i < l->n && !bad; i++) {
        struct hl_buf clean = {0};
        const char *text = h5_text(h, &clean, l->name[i]);
        bad = !text;
        v[i] = text == l->name[i] ? l->name[i] : (char *)clean.p;
    }
    bad = bad || (l->n && h5_names(h, at, name, v, l->n));
    for (size_t i = 0; v && i < l->n; i++)
        if (v[i] != l->name[i])
            free(v[i]);
    free(v);
    return bad ? -1 : 0;
}

/* Groups are named by the tree; its names were counted as the catalog's. */
static int clean_tree(struct h5_sink *h)
{
    uint64_t again = 0;
    for (size_t i = 1; i < h->tree.n; i++) {
        struct hl_buf clean = {0};
        char *name = h->tree.node[i].name;
        const char *text = hl_utf8_text(&clean, name, &again);
        if (!text)
            return -1;
        if (text != name) {
            free(name);
            h->tree.node[i].name = (char *)clean.p;
        }
    }
    return 0;
}

/* A run's group, in whose header all attributes stay, however much metadata there is:
 * HDF5 up to 1.10.8 cannot copy strings from its other store (h5copy crashes). */
static hid_t make_run(hid_t at, const char *name)
{
    hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_attr_phase_change(gcpl, 65535, 0);
    hid_t g = H5Gcreate2(at, name, H5P_DEFAULT, gcpl, H5P_DEFAULT);
    H5Pclose(gcpl);
    return g;
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
        h->base.n_replaced = 0; /* the same text again below, counted there */
        hid_t runs = h5_group(root, "runs");
        payload = bad ? -1 : make_run(runs, h->run_name);
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
    int bad = payload < 0 || h5_attr_int(payload, "schema_version", H5T_STD_I32LE, 2) ||
              h5_attr_text(h, payload, "openpfc_version", run->app_version) ||
              write_names(h, payload, "frame_metric_names", &c->metrics) ||
              write_names(h, payload, "region_paths", &c->paths);
    h->ranks = bad ? -1 : h5_group(payload, "ranks");
    H5Gclose(payload);
    return h->ranks < 0 ? -1 : 0;
}

static hid_t open_file(struct hl_out *out)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(fapl, H5F_LIBVER_V18, H5F_LIBVER_V18);
    H5Pset_evict_on_close(fapl, 1);
    hid_t f = h5_file_use(fapl, out->fd)
                  ? -1
                  : H5Fcreate(out->name, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    H5Pclose(fapl);
    return f;
}

static int h5_begin(struct hl_sink *s, const struct hl_run *run, struct hl_err *e)
{
    struct h5_sink *h = self(s);
    h5_arm();
    first_errno = 0;
    h->run = run;
    if (run->run_id && *run->run_id)
        h5_sanitise(run->run_id, "-_", h->run_name, sizeof h->run_name);
    if (hl_region_tree_init(&h->tree, run->catalog) || clean_tree(h))
        return hl_fail(e, ENOMEM, "%s: no memory left", h->out.name);
    h->file = open_file(&h->out);
    if (h->file < 0 || write_head(h, run))
        return h5_fail(h, e, "head");
    return h5_rows_begin(h, e) || h5_heap_begin(h, e) ? -1 : 0;
}

/* ---- a rank ---- */

static int begin_group(struct h5_sink *h, hid_t at, const char *name, uint64_t n_frames,
                       struct hl_err *e)
{
    h5_arm();
    if (n_frames > INT32_MAX)
        return hl_fail(e, EOVERFLOW,
                       "%s: %s has %llu frames, and the format counts them in 31 bits",
                       h->out.name, name, (unsigned long long)n_frames);
    h->n_frames = n_frames;
    h->at = h5_group(at, name);
    if (h->at < 0 || h5_attr_int(h->at, "n_frames", H5T_STD_I32LE, (int64_t)n_frames))
        return h5_fail(h, e, name);
    return h5_rank_rows(h, e);
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
    char name[H5_PROCESS_NAME_MAX];
    h5_arm();
    if (h->other < 0)
        h->other = h5_group(h->own_base, "other");
    h5_process_name(h, h->other, pid, host, name, sizeof name);
    return begin_group(h, h->other, name, n_frames, e);
}

/* ---- the end ---- */

static void close_ids(struct h5_sink *h)
{
    hid_t *group[] = {&h->at,       &h->ranks,      &h->other,       &h->timeline,
                      &h->own_base, &h->heap.group, &h->images.group};
    for (size_t i = 0; i < sizeof group / sizeof *group; i++) {
        if (*group[i] >= 0)
            H5Gclose(*group[i]);
        *group[i] = -1;
    }
}

static void free_parts(struct h5_sink *h)
{
    h5_arm();
    h5_file_discard = h->file >= 0;
    close_ids(h);
    h5_rows_fini(h);
    if (h->file >= 0)
        H5Fclose(h->file);
    h5_file_discard = 0;
    h5_heap_fini(h);
    hl_region_tree_fini(&h->tree);
    H5Tclose(h->text_type);
    free(h);
}

static void h5_abort(struct hl_sink *s)
{
    struct hl_out out = self(s)->out;
    free_parts(self(s)); /* which still writes, to nowhere */
    hl_out_abort(&out);
}

static int h5_finish(struct hl_sink *s, struct hl_err *e)
{
    struct h5_sink *h = self(s);
    h5_arm();
    if (h5_heap_end(h, e))
        return -1;
    close_ids(h);
    int bad = H5Fclose(h->file) < 0 ? h5_fail(h, e, "closing") : 0;
    h->file = -1;
    return bad ? -1 : hl_out_finish(&h->out, e);
}

static int h5_commit(struct hl_sink *s, struct hl_err *e)
{
    int bad = hl_out_commit(&self(s)->out, e); /* HDF5 has closed it */
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
    .timeline_begin = h5_timeline_begin,
    .points = h5_points,
    .timeline_end = h5_timeline_end,
    .missing = h5_missing,
    .finish = h5_finish,
    .commit = h5_commit,
    .abort = h5_abort,
};

struct hl_sink *hl_h5_sink(const char *name, struct hl_err *e)
{
    struct h5_sink *h = calloc(1, sizeof *h);
    /* Once a file could not be closed, HDF5's own clearing away at exit crashes. */
    H5dont_atexit();
    if (!h || H5open() < 0) {
        free(h);
        hl_fail(e, ENOMEM, "%s: no memory left", name);
        return NULL;
    }
    h5_arm();
    h->base.ops = &ops;
    h->file = h->ranks = h->other = h->own_base = h->timeline = h->at = -1;
    h->compact = h->placed = h->line = h->table = -1;
    h->heap.group = h->images.group = -1;
    h->scratch = -1;
    h->text_type = H5Tcopy(H5T_C_S1);
    H5Tset_size(h->text_type, H5T_VARIABLE);
    if (hl_out_begin(&h->out, name, 0, e)) {
        H5Tclose(h->text_type);
        free(h);
        return NULL;
    }
    return &h->base;
}
