/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows to the columns of the HDF5 file, in a buffer of bounded size.  A rank that fits
 * into it, as nearly all do, is written dataset by dataset at its end.  Of a larger
 * one the datasets are made first and the columns written piece by piece straight into
 * the file; where those pieces would be tiny, because there are very many columns, the
 * buffers go through a scratch file instead, and whole columns are read back from it.
 */
#include "h5_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER_CELLS = 1 << 20,   /* 8 MiB */
    COMPACT_BYTES = 60 << 10, /* in the object's header, of 64 KiB at most */
    PIECE_ROWS = 512,         /* pieces of at least 4 KiB are worth a write each */
    BLOCK_ROWS = 16           /* of a transposition: lines that stay in the cache */
};

/* ---- where columns are ---- */

/* Columns in the order in which the tree is walked, so that they are visited one after
 * the other. */
static size_t place_columns(struct h5_sink *h, size_t node, size_t next)
{
    const struct hl_region_node *n = &h->tree.node[node];
    if (n->path != SIZE_MAX) {
        h->column_of[2 * n->path] = next++;
        h->column_of[2 * n->path + 1] = next++;
    }
    for (size_t i = n->first; i; i = h->tree.node[i].next)
        next = place_columns(h, i, next);
    return next;
}

static int make_lists(struct h5_sink *h)
{
    h->compact = H5Pcreate(H5P_DATASET_CREATE);
    h->placed = H5Pcreate(H5P_DATASET_CREATE);
    return h->compact < 0 || h->placed < 0 ||
                   H5Pset_layout(h->compact, H5D_COMPACT) < 0 ||
                   H5Pset_obj_track_times(h->compact, 0) < 0 ||
                   H5Pset_alloc_time(h->placed, H5D_ALLOC_TIME_EARLY) < 0 ||
                   H5Pset_fill_time(h->placed, H5D_FILL_TIME_NEVER) < 0 ||
                   H5Pset_obj_track_times(h->placed, 0) < 0
               ? -1
               : 0;
}

/* A batch, which is more than the buffer where one row is; and whole columns when they
 * are read back. */
static size_t column_cells(const struct h5_sink *h)
{
    size_t batch = h->batch_rows * h->n_columns;
    return batch > BUFFER_CELLS ? batch : BUFFER_CELLS;
}

int h5_rows_begin(struct h5_sink *h, struct hl_err *e)
{
    const struct hl_catalog *c = h->run->catalog;
    size_t stride = hl_catalog_stride(c);
    h->n_metrics = c->metrics.n;
    h->n_columns = 2 * c->paths.n;
    h->batch_rows = stride ? BUFFER_CELLS / stride : BUFFER_CELLS;
    h->batch_rows = h->batch_rows ? h->batch_rows : 1;
    h->column_of = malloc((h->n_columns + 1) * sizeof *h->column_of);
    h->offset = malloc((h->n_columns + 1) * sizeof *h->offset);
    h->columns = malloc(column_cells(h) * sizeof *h->columns);
    h->scalars = malloc((h->batch_rows * h->n_metrics + 1) * sizeof *h->scalars);
    if (!h->column_of || !h->offset || !h->columns || !h->scalars)
        return hl_fail(e, ENOMEM, "%s: no memory left", h->out.name);
    place_columns(h, 0, 0);
    return make_lists(h) ? h5_fail(h, e, "property lists") : 0;
}

static void close_spaces(struct h5_sink *h)
{
    if (h->line >= 0)
        H5Sclose(h->line);
    if (h->table >= 0)
        H5Sclose(h->table);
    h->line = h->table = -1;
}

void h5_rows_fini(struct h5_sink *h)
{
    hid_t list[] = {h->compact, h->placed};
    close_spaces(h);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i] >= 0)
            H5Pclose(list[i]);
    if (h->scratch >= 0)
        close(h->scratch);
    free(h->column_of);
    free(h->offset);
    free(h->columns);
    free(h->scalars);
    free(h->staging);
}

/* Data spaces of a rank; ranks mostly have the same number of frames. */
static int make_spaces(struct h5_sink *h)
{
    hsize_t dims[2] = {h->n_frames, h->n_metrics};
    if (h->line >= 0 && h->space_frames == h->n_frames)
        return 0;
    close_spaces(h);
    h->line = H5Screate_simple(1, dims, NULL);
    h->table = H5Screate_simple(2, dims, NULL);
    h->space_frames = h->n_frames;
    return h->line < 0 || h->table < 0 ? -1 : 0;
}

/* ---- datasets ---- */

static int write_whole(struct h5_sink *h, hid_t at, const char *name, hid_t space,
                       size_t width, const double *data)
{
    uint64_t bytes = h->n_frames * width * sizeof *data;
    hid_t d = H5Dcreate2(at, name, H5T_IEEE_F64LE, space, H5P_DEFAULT,
                         bytes <= COMPACT_BYTES ? h->compact : h->placed, H5P_DEFAULT);
    if (d < 0)
        return -1;
    int bad = H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0;
    return H5Dclose(d) < 0 || bad ? -1 : 0;
}

int h5_place(struct h5_sink *h, hid_t at, const char *name, hid_t space, haddr_t *offset)
{
    hid_t d =
        H5Dcreate2(at, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, h->placed, H5P_DEFAULT);
    if (d < 0)
        return -1;
    *offset = H5Dget_offset(d);
    return H5Dclose(d) < 0 || *offset == HADDR_UNDEF ? -1 : 0;
}

int h5_put_cells(struct h5_sink *h, haddr_t offset, double *v, size_t n)
{
    if (H5Tconvert(H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE, n, v, NULL, H5P_DEFAULT) < 0)
        return -1;
    if (!hl_path_pwrite_all(h->out.fd, v, n * sizeof *v, (off_t)offset))
        return 0;
    h5_note_errno(errno);
    return -1;
}

/* ---- the scratch file ---- */

/* A buffer is n_columns times batch_rows cells, whole also when it is not full. */
static off_t scratch_at(const struct h5_sink *h, uint64_t batch, size_t column)
{
    return (off_t)((batch * h->n_columns + column) * h->batch_rows * sizeof(double));
}

static int spill(struct h5_sink *h)
{
    off_t at = scratch_at(h, h->n_written / h->batch_rows, 0);
    if (h->scratch < 0)
        h->scratch = hl_out_scratch(&h->out);
    if (h->scratch < 0 || lseek(h->scratch, at, SEEK_SET) < 0 ||
        hl_path_write_all(h->scratch, h->columns,
                          h->n_columns * h->batch_rows * sizeof(double))) {
        h5_note_errno(errno);
        return -1;
    }
    return 0;
}

/* Whole columns from `first` on, as many as the buffer holds. */
static int read_back(struct h5_sink *h, size_t first)
{
    size_t n = BUFFER_CELLS / h->n_frames, rows;
    n = n < h->n_columns - first ? n : h->n_columns - first;
    for (uint64_t at = 0; at < h->n_frames; at += rows) {
        rows = h->n_frames - at < h->batch_rows ? h->n_frames - at : h->batch_rows;
        if (hl_path_pread_all(h->scratch, h->staging, n * h->batch_rows * sizeof(double),
                              scratch_at(h, at / h->batch_rows, first))) {
            h5_note_errno(errno);
            return -1;
        }
        for (size_t i = 0; i < n; i++)
            memcpy(h->columns + i * h->n_frames + at, h->staging + i * h->batch_rows,
                   rows * sizeof(double));
    }
    h->first_back = first;
    h->n_back = n;
    return 0;
}

static int make_staging(struct h5_sink *h)
{
    free(h->staging);
    h->staging =
        malloc((BUFFER_CELLS / h->n_frames + 1) * h->batch_rows * sizeof(double));
    return h->staging ? 0 : -1;
}

/* ---- the tree ---- */

static int put_column(struct h5_sink *h, hid_t at, const char *name, size_t column)
{
    if (h->mode == H5_PIECES)
        return h5_place(h, at, name, h->line, &h->offset[column]);
    if (h->mode == H5_SPILLED && column >= h->first_back + h->n_back &&
        read_back(h, column))
        return -1;
    size_t i = h->mode == H5_SPILLED ? column - h->first_back : column;
    return write_whole(h, at, name, h->line, 1, h->columns + i * h->n_frames);
}

static int walk(struct h5_sink *h, hid_t at, size_t node)
{
    const struct hl_region_node *n = &h->tree.node[node];
    int bad = 0;
    if (n->path != SIZE_MAX)
        bad = put_column(h, at, "inclusive", h->column_of[2 * n->path]) ||
              put_column(h, at, "exclusive", h->column_of[2 * n->path + 1]);
    for (size_t i = n->first; i && !bad; i = h->tree.node[i].next) {
        hid_t g =
            H5Gcreate2(at, h->tree.node[i].name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        bad = g < 0 || walk(h, g, i);
        if (g >= 0)
            H5Gclose(g);
    }
    return bad ? -1 : 0;
}

/* ---- a rank ---- */

static int place_rank(struct h5_sink *h)
{
    if (h->n_metrics && h5_place(h, h->at, "frame_scalars", h->table, &h->scalars_offset))
        return -1;
    return h->mode == H5_PIECES ? walk(h, h->at, 0) : 0;
}

int h5_rank_rows(struct h5_sink *h, struct hl_err *e)
{
    h->n_written = h->n_held = 0;
    h->first_back = h->n_back = 0;
    h->mode = h->n_frames <= h->batch_rows                                ? H5_WHOLE
              : h->batch_rows >= PIECE_ROWS || h->n_frames > BUFFER_CELLS ? H5_PIECES
                                                                          : H5_SPILLED;
    h->held_cap = h->mode == H5_WHOLE ? (size_t)h->n_frames : h->batch_rows;
    if (make_spaces(h) || (h->mode != H5_WHOLE && place_rank(h)))
        return h5_fail(h, e, "datasets");
    return 0;
}

static int flush_rows(struct h5_sink *h, struct hl_err *e)
{
    size_t n = h->n_held;
    int bad = 0;
    if (!n || h->mode == H5_WHOLE)
        return 0;
    if (h->n_metrics)
        bad = h5_put_cells(h, h->scalars_offset + h->n_written * h->n_metrics * 8,
                           h->scalars, n * h->n_metrics);
    if (!bad && h->mode == H5_SPILLED)
        bad = spill(h);
    for (size_t i = 0; i < h->n_columns && !bad && h->mode == H5_PIECES; i++)
        bad = h5_put_cells(h, h->offset[i] + h->n_written * 8,
                           h->columns + i * h->held_cap, n);
    h->n_written += n;
    h->n_held = 0;
    return bad ? h5_fail(h, e, "frames") : 0;
}

/* n rows, at most BLOCK_ROWS, into the columns. */
static void transpose(struct h5_sink *h, const double *cells, size_t n)
{
    size_t stride = h->n_metrics + h->n_columns;
    for (size_t i = 0; i < n; i++)
        memcpy(h->scalars + (h->n_held + i) * h->n_metrics, cells + i * stride,
               h->n_metrics * sizeof *cells);
    for (size_t c = 0; c < h->n_columns; c++) {
        double *to = h->columns + h->column_of[c] * h->held_cap + h->n_held;
        const double *from = cells + h->n_metrics + c;
        for (size_t i = 0; i < n; i++)
            to[i] = from[i * stride];
    }
    h->n_held += n;
}

static int count_fault(struct h5_sink *h, uint64_t came, struct hl_err *e)
{
    return hl_fail(e, HL_ERR_FORMAT, "%s: %llu frames came where %llu were announced",
                   h->out.name, (unsigned long long)came,
                   (unsigned long long)h->n_frames);
}

int h5_rows(struct hl_sink *s, const double *cells, size_t n, struct hl_err *e)
{
    struct h5_sink *h = (struct h5_sink *)s;
    size_t stride = h->n_metrics + h->n_columns;
    uint64_t came = h->n_written + h->n_held + n;
    h5_arm();
    if (came > h->n_frames)
        return count_fault(h, came, e);
    while (n) {
        size_t k = h->held_cap - h->n_held;
        k = k < BLOCK_ROWS ? k : BLOCK_ROWS;
        k = k < n ? k : n;
        transpose(h, cells, k);
        cells += k * stride;
        n -= k;
        if (h->n_held == h->held_cap && flush_rows(h, e))
            return -1;
    }
    return 0;
}

static int write_held(struct h5_sink *h)
{
    if (h->n_metrics &&
        write_whole(h, h->at, "frame_scalars", h->table, h->n_metrics, h->scalars))
        return -1;
    return walk(h, h->at, 0);
}

int h5_rank_end(struct hl_sink *s, struct hl_err *e)
{
    struct h5_sink *h = (struct h5_sink *)s;
    h5_arm();
    if (flush_rows(h, e))
        return -1;
    if (h->n_written + h->n_held != h->n_frames)
        return count_fault(h, h->n_written + h->n_held, e);
    int bad = 0;
    if (h->mode == H5_WHOLE && h->n_frames)
        bad = write_held(h);
    else if (h->mode == H5_SPILLED)
        bad = make_staging(h) || walk(h, h->at, 0);
    if (H5Gclose(h->at) < 0 || bad)
        return h5_fail(h, e, "frames");
    h->at = -1;
    hsize_t size;
    if (H5Fget_filesize(h->file, &size) >= 0)
        hl_out_hurry(&h->out, (off_t)size);
    return 0;
}
