/* SPDX-License-Identifier: Apache-2.0
 *
 * What a writer of outputs is.  The gather drives any number of sinks with the
 * same calls, in this order:
 *
 *   begin( run )
 *   for each rank in increasing order:  rank_begin, rows ..., rank_end
 *   for each other process:             other_begin, rows ..., other_end
 *   for each heap record in CSV order:  heap
 *   for each image that ended by exec:  image
 *   for each timeline:                  timeline_begin, points ..., timeline_end
 *   for each thing that is missing:     missing
 *   finish    then commit, or, at any time, abort
 *
 * Sinks write to files without a name, or with a temporary one in the same folder.
 * finish writes what is held and has it all on the disk; commit, which is called
 * when every sink has finished, makes the output appear whole under its name; abort
 * (also after a failed call) removes every trace.  All calls of one sink come from
 * one thread at a time, not always the same one.  A sink holds a bounded
 * amount of memory whatever the number of ranks and frames.  NULL members are
 * skipped.  Functions return 0 or -1 with *e filled.
 */
#ifndef HL_SINK_H
#define HL_SINK_H

#include "catalog.h"
#include "err.h"
#include "messages.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* One entry of the metadata of schema 3. */
struct hl_meta {
    const char *key;
    const char *json; /* the value as JSON text */
    const char *text; /* the value as a string attribute: strings bare */
};

/* The run as all sinks see it; borrowed until commit or abort. */
struct hl_run {
    const char *app_version; /* field openpfc_version */
    const char *run_id;      /* NULL or "": schema 2 */
    const struct hl_meta *meta;
    size_t n_meta;
    const struct hl_catalog *catalog; /* the united one, or as it is in replays */
    uint64_t n_ranks;
    uint64_t total_frames;
    uint64_t n_dropped_rows, n_lost_rows;
    const char *generator; /* "heapline VERSION" */
};

/* A heap row with what only the HDF5 file holds beside it. */
struct hl_heap_row {
    struct hl_record record;
    struct hl_end end;
    uint64_t start_ticks; /* last key of the CSV order */
};

struct hl_sink;

struct hl_sink_ops {
    int (*begin)(struct hl_sink *s, const struct hl_run *run, struct hl_err *e);
    int (*rank_begin)(struct hl_sink *s, uint64_t rank, uint64_t n_frames,
                      struct hl_err *e);
    int (*other_begin)(struct hl_sink *s, int64_t pid, const char *host,
                       uint64_t n_frames, struct hl_err *e);
    /* n rows of stride(run->catalog) doubles, row after row; belongs to the rank
     * or process begun last. */
    int (*rows)(struct hl_sink *s, const double *cells, size_t n, struct hl_err *e);
    int (*rank_end)(struct hl_sink *s, struct hl_err *e); /* also of other_begin */
    int (*heap)(struct hl_sink *s, const struct hl_heap_row *row, struct hl_err *e);
    int (*image)(struct hl_sink *s, const struct hl_heap_row *row, struct hl_err *e);
    /* Points of a process that also records frames: n in all, in order. */
    int (*timeline_begin)(struct hl_sink *s, int64_t pid, const char *host, uint64_t n,
                          struct hl_err *e);
    int (*points)(struct hl_sink *s, const struct hl_point *v, size_t n,
                  struct hl_err *e);
    int (*timeline_end)(struct hl_sink *s, struct hl_err *e);
    int (*missing)(struct hl_sink *s, const char *text, struct hl_err *e);
    int (*finish)(struct hl_sink *s, struct hl_err *e);
    int (*commit)(struct hl_sink *s, struct hl_err *e); /* also frees s */
    void (*abort)(struct hl_sink *s);                   /* also frees s */
};

struct hl_sink {
    const struct hl_sink_ops *ops;
    /* For the user's notes; whole after finish. */
    uint64_t n_nulls;    /* recorded numbers that the format cannot hold, now null */
    uint64_t n_replaced; /* texts whose bytes were not UTF-8, with U+FFFD now */
};

/* The cell of a metric that a process lacks: a NaN that no arithmetic makes, so
 * that it is told from numbers that were recorded. */
#define HL_LACKING_BITS 0x7ff800006c61636bu
static inline double hl_lacking(void)
{
    const uint64_t bits = HL_LACKING_BITS;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
static inline int hl_is_lacking(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits == HL_LACKING_BITS;
}

/* The writers; each opens PREFIX-derived `name` by itself.  NULL on failure. */
struct hl_sink *hl_csv_sink(const char *name, struct hl_err *e);
struct hl_sink *hl_json_sink(const char *name, struct hl_err *e);
struct hl_sink *hl_h5_sink(const char *name, struct hl_err *e); /* HDF5 builds only */

#endif
