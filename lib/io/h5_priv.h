/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two files of the HDF5 writer share.
 */
#ifndef HL_H5_PRIV_H
#define HL_H5_PRIV_H

#include "path.h"
#include "region_tree.h"
#include "sink.h"

#include <hdf5.h>

enum { H5_HEAP_BATCH = 512, H5_N_HEAP_COLUMNS = 13 };

/* A table of heap rows (heap, images): a batch in memory, the rest written. */
struct h5_table {
    const char *name;
    struct hl_heap_row *row; /* H5_HEAP_BATCH of them, NULL until the first */
    size_t n_held;
    uint64_t n_written;
    hid_t group; /* -1 until made */
};

struct h5_sink {
    struct hl_sink base;
    struct hl_out out;
    const struct hl_run *run;
    char run_name[256]; /* sanitised run id, "" with schema 2 */
    hid_t file, ranks, other, own_base, at;
    hid_t text_type; /* variable-length ASCII, as the schema's strings are */
    struct hl_region_tree tree;
    size_t n_metrics, stride, batch_rows;
    uint64_t n_frames, n_written; /* of the rank under way */
    double *rows, *column, *scalars;
    size_t n_held, held_cap;
    struct h5_table heap, images;
    char **missing;
    size_t n_missing;
};

int h5_fail(struct h5_sink *h, struct hl_err *e, const char *what);
hid_t h5_group(hid_t at, const char *name);
int h5_attr_int(hid_t at, const char *name, hid_t type, int64_t v);
int h5_attr_text(struct h5_sink *h, hid_t at, const char *name, const char *v);
int h5_names(struct h5_sink *h, hid_t at, const char *name, char *const *v, size_t n);
/* Letters, digits and the characters of `keep` stay, others become '_'. */
void h5_sanitise(const char *in, const char *keep, char *out, size_t cap);
/* "PID@HOST", with ".2", ".3" ... behind the pid when the group has it. */
void h5_process_name(hid_t group, int64_t pid, const char *host, char *out, size_t cap);

int h5_heap_begin(struct h5_sink *h, struct hl_err *e);
int h5_heap_row(struct hl_sink *s, const struct hl_heap_row *row, struct hl_err *e);
int h5_image_row(struct hl_sink *s, const struct hl_heap_row *row, struct hl_err *e);
int h5_missing(struct hl_sink *s, const char *text, struct hl_err *e);
int h5_heap_end(struct h5_sink *h, struct hl_err *e);
void h5_heap_fini(struct h5_sink *h);

#endif
