/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the HDF5 writer share: h5_out.c (head and calls), h5_file.c (the
 * file for HDF5), h5_rows.c (frames), h5_heap.c (heapline's own group), h5_timeline.c.
 */
#ifndef HL_H5_PRIV_H
#define HL_H5_PRIV_H

#include "path.h"
#include "region_tree.h"
#include "sink.h"
#include "utf8.h"

#include <hdf5.h>

enum {
    H5_HEAP_BATCH = 512,
    H5_N_HEAP_COLUMNS = 13,
    H5_MISSING_BATCH = 256,
    H5_N_SERIES = 7,
    H5_PROCESS_NAME_MAX = 3 * HL_HOST_MAX + 64
};

/* How the frames of a rank are written; see h5_rows.c. */
enum h5_mode { H5_WHOLE, H5_PIECES, H5_SPILLED };

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
    hid_t file, ranks, other, own_base, timeline, at;
    hid_t text_type;            /* variable-length ASCII, as the schema's strings are */
    struct hl_region_tree tree; /* its names are UTF-8 */
    /* rows */
    hid_t compact, placed; /* property lists */
    hid_t line, table;     /* data spaces of space_frames frames */
    uint64_t space_frames;
    size_t n_metrics, n_columns, batch_rows;
    size_t *column_of; /* by cell */
    haddr_t *offset;   /* of columns, in the file */
    haddr_t scalars_offset;
    double *columns, *scalars, *staging;
    uint64_t n_frames, n_written; /* of the rank under way */
    size_t n_held, held_cap;
    enum h5_mode mode;
    int scratch;               /* file, or -1 */
    size_t first_back, n_back; /* columns read back from it */
    /* heapline's own */
    struct h5_table heap, images;
    struct h5_timeline *points;
    char *missing[H5_MISSING_BATCH];
    size_t n_missing;
    uint64_t n_missing_written;
};

/* HDF5's errors are kept, not printed, in the calling thread from now on. */
void h5_arm(void);
/* The cause of a failure that h5_fail will tell. */
void h5_note_errno(int error);
int h5_fail(struct h5_sink *h, struct hl_err *e, const char *what);
hid_t h5_group(hid_t at, const char *name);
int h5_attr_int(hid_t at, const char *name, hid_t type, int64_t v);
int h5_attr_text(struct h5_sink *h, hid_t at, const char *name, const char *v);
int h5_names(struct h5_sink *h, hid_t at, const char *name, char *const *v, size_t n);
/* Letters, digits and the characters of `keep` stay, others become '_'. */
void h5_sanitise(const char *in, const char *keep, char *out, size_t cap);
/* "PID@HOST", with ".2", ".3" ... behind the pid when the group has it. */
void h5_process_name(struct h5_sink *h, hid_t group, int64_t pid, const char *host,
                     char *out, size_t cap);
/* A text of a sink's caller as UTF-8, counted if it had to be changed; b is scratch. */
const char *h5_text(struct h5_sink *h, struct hl_buf *b, const char *s);

/* h5_file.c: fapl's file will be fd, whatever its name; it stays open. */
int h5_file_use(hid_t fapl, int fd);
/* In this thread nothing is written any more, and nothing fails. */
extern _Thread_local int h5_file_discard;

int h5_rows_begin(struct h5_sink *h, struct hl_err *e);
void h5_rows_fini(struct h5_sink *h);
/* Begin n_frames rows in the group h->at. */
int h5_rank_rows(struct h5_sink *h, struct hl_err *e);
int h5_rows(struct hl_sink *s, const double *cells, size_t n, struct hl_err *e);
int h5_rank_end(struct hl_sink *s, struct hl_err *e);
/* A dataset of doubles whose place in the file is known before it is written. */
int h5_place(struct h5_sink *h, hid_t at, const char *name, hid_t space, haddr_t *offset);
/* n doubles into the file at that place; v may be changed. */
int h5_put_cells(struct h5_sink *h, haddr_t offset, double *v, size_t n);

int h5_timeline_begin(struct hl_sink *s, int64_t pid, const char *host, uint64_t n,
                      struct hl_err *e);
int h5_points(struct hl_sink *s, const struct hl_point *v, size_t n, struct hl_err *e);
int h5_timeline_end(struct hl_sink *s, struct hl_err *e);

int h5_heap_begin(struct h5_sink *h, struct hl_err *e);
int h5_heap_row(struct hl_sink *s, const struct hl_heap_row *row, struct hl_err *e);
int h5_image_row(struct hl_sink *s, const struct hl_heap_row *row, struct hl_err *e);
int h5_missing(struct hl_sink *s, const char *text, struct hl_err *e);
int h5_heap_end(struct h5_sink *h, struct hl_err *e);
void h5_heap_fini(struct h5_sink *h);

#endif
