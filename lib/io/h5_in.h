/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two files of the HDF5 reader share: h5_in.c (files, names, ranks as
 * groups) and h5_flat_in.c (the flat layout).
 */
#ifndef HL_H5_IN_H
#define HL_H5_IN_H

#include "readers.h"

#include <hdf5.h>

struct h5_in {
    const char *name;
    hid_t file, payload;
    struct hl_catalog catalog;
    struct hl_sink *sink;
    char version[256], run_id[256];
    double *rows, *column;
    size_t stride, batch;
};

int h5_in_bad_file(struct h5_in *h, struct hl_err *e, const char *what);
/* A metric or path of the file into the catalog, refused when it is there. */
int h5_in_add_name(struct h5_in *h, struct hl_names *to, const char *s, const char *what,
                   int paths, struct hl_err *e);
/* Rows of a numeric dataset of n_dims dimensions; -1: it is not one. */
int64_t h5_in_rows_of(hid_t at, const char *name, int n_dims, hsize_t *width);
/* Add the regions that a group's subgroups name. */
int h5_in_walk_regions(struct h5_in *h, hid_t group, struct hl_err *e);

/* n rows from `first` of n_frames into h->rows. */
int h5_in_read_column(struct h5_in *h, hid_t at, const char *name, uint64_t first,
                      size_t n, uint64_t n_frames, size_t cell, struct hl_err *e);
int h5_in_read_regions(struct h5_in *h, hid_t at, uint64_t first, size_t n,
                       uint64_t n_frames, struct hl_err *e);
int h5_in_read_scalars(struct h5_in *h, hid_t at, uint64_t first, size_t n,
                       uint64_t n_frames, struct hl_err *e);

/* Room for a batch, and the sink's calls. */
int h5_in_make_room(struct h5_in *h, struct hl_err *e);
int h5_in_begin_run(struct h5_in *h, uint64_t n_ranks, struct hl_err *e);
int h5_in_begin_rank(struct h5_in *h, uint64_t rank, uint64_t n, struct hl_err *e);
int h5_in_send_rows(struct h5_in *h, size_t n, struct hl_err *e);
int h5_in_end_rank(struct h5_in *h, struct hl_err *e);

/* The flat layout below h->payload. */
int h5_in_read_flat(struct h5_in *h, struct hl_err *e);

#endif
