/* SPDX-License-Identifier: Apache-2.0
 *
 * heapline's own group of the HDF5 export, beside the schema's: heap records
 * as columns, images that ended by exec, what is missing, counts of loss.
 */
#include "h5_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum kind { INT, COUNT, SECONDS, TEXT };

struct column {
    const char *name;
    enum kind kind;
};

static const struct column columns[H5_N_HEAP_COLUMNS] = {{"rank", INT},
                                                         {"host", TEXT},
                                                         {"pid", INT},
                                                         {"job", TEXT},
                                                         {"elapsed_s", SECONDS},
                                                         {"allocs", COUNT},
                                                         {"frees", COUNT},
                                                         {"peak_heap_bytes", INT},
                                                         {"peak_heap_time_s", SECONDS},
                                                         {"live_heap_at_exit_bytes", INT},
                                                         {"vmhwm_bytes", INT},
                                                         {"vmrss_at_exit_bytes", INT},
                                                         {"ended", TEXT}};

static int64_t int_of(const struct hl_heap_row *row, size_t col)
{
    const struct hl_record *r = &row->record;
    switch (col) {
    case 0: return r->rank;
    case 2: return r->pid;
    case 4: return r->elapsed_ns;
    case 5: return (int64_t)r->allocs;
    case 6: return (int64_t)r->frees;
    case 7: return r->peak_bytes;
    case 8: return r->peak_time_ns;
    case 9: return r->live_bytes;
    case 10: return r->vmhwm_bytes;
    default: return r->vmrss_bytes;
    }
}

/* The text of a cell; scratch keeps what must be made. */
static const char *text_of(const struct hl_heap_row *row, size_t col, char scratch[32])
{
    if (col == 1)
        return row->record.host;
    if (col == 3)
        return row->record.job;
    hl_end_text(&row->end, scratch);
    return scratch;
}

/* Seconds as the CSV shows them: whole milliseconds, rounded down. */
static double seconds_of(int64_t ns)
{
    return ns < 0 ? 0.0 : (double)(ns / 1000000) / 1000.0;
}

union cells {
    int64_t i[H5_HEAP_BATCH];
    double d[H5_HEAP_BATCH];
    const char *s[H5_HEAP_BATCH];
};

static void fill(const struct h5_table *t, size_t col, union cells *c,
                 char (*scratch)[32])
{
    for (size_t i = 0; i < t->n_held; i++) {
        const struct hl_heap_row *row = &t->row[i];
        switch (columns[col].kind) {
        case SECONDS: c->d[i] = seconds_of(int_of(row, col)); break;
        case TEXT: c->s[i] = text_of(row, col, scratch[i]); break;
        default: c->i[i] = int_of(row, col); break;
        }
    }
}

static hid_t file_type(struct h5_sink *h, enum kind k)
{
    return k == TEXT      ? h->text_type
           : k == SECONDS ? H5T_IEEE_F64LE
           : k == COUNT   ? H5T_STD_U64LE
                          : H5T_STD_I64LE;
}

static hid_t memory_type(struct h5_sink *h, enum kind k)
{
    return k == TEXT      ? h->text_type
           : k == SECONDS ? H5T_NATIVE_DOUBLE
           : k == COUNT   ? H5T_NATIVE_UINT64
                          : H5T_NATIVE_INT64;
}

/* final: no more rows follow, so the first batch has the exact size. */
static hid_t make_column(struct h5_sink *h, struct h5_table *t, size_t col, int final)
{
    hsize_t n = t->n_held, unlimited = H5S_UNLIMITED, chunk = H5_HEAP_BATCH;
    hid_t space = H5Screate_simple(1, &n, final ? NULL : &unlimited);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(dcpl, 0);
    if (!final)
        H5Pset_chunk(dcpl, 1, &chunk);
    hid_t d = H5Dcreate2(t->group, columns[col].name, file_type(h, columns[col].kind),
                         space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    H5Pclose(dcpl);
    H5Sclose(space);
    return d;
}

static int write_column(struct h5_sink *h, struct h5_table *t, size_t col, int final)
{
    union cells *c = malloc(sizeof *c);
    char(*scratch)[32] = malloc(H5_HEAP_BATCH * sizeof *scratch);
    hsize_t start = t->n_written, n = t->n_held, whole = start + n;
    hid_t d = start ? H5Dopen2(t->group, columns[col].name, H5P_DEFAULT)
                    : make_column(h, t, col, final);
    int bad = !c || !scratch || d < 0 || (start && H5Dset_extent(d, &whole) < 0);
    if (!bad && n) {
        hid_t mem = H5Screate_simple(1, &n, NULL), space = H5Dget_space(d);
        fill(t, col, c, scratch);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &n, NULL);
        bad = H5Dwrite(d, memory_type(h, columns[col].kind), mem, space, H5P_DEFAULT, c) <
              0;
        H5Sclose(space);
        H5Sclose(mem);
    }
    H5Dclose(d);
    free(scratch);
    free(c);
    return bad ? -1 : 0;
}

static int make_table(struct h5_sink *h, struct h5_table *t)
{
    hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_link_creation_order(gcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    t->group = H5Gcreate2(h->own_base, t->name, H5P_DEFAULT, gcpl, H5P_DEFAULT);
    H5Pclose(gcpl);
    return t->group < 0 ? -1 : 0;
}

static int flush_table(struct h5_sink *h, struct h5_table *t, int final, struct hl_err *e)
{
    h5_arm();
    if (t->group < 0 && make_table(h, t))
        return h5_fail(h, e, t->name);
    for (size_t col = 0; col < H5_N_HEAP_COLUMNS; col++)
        if (write_column(h, t, col, final))
            return h5_fail(h, e, columns[col].name);
    t->n_written += t->n_held;
    t->n_held = 0;
    return 0;
}

static int add_row(struct h5_sink *h, struct h5_table *t, const struct hl_heap_row *row,
                   struct hl_err *e)
{
    if (!t->row)
        t->row = calloc(H5_HEAP_BATCH, sizeof *t->row);
    if (!t->row)
        return hl_fail(e, ENOMEM, "%s: no memory left", h->out.name);
    struct hl_record *r = &t->row[t->n_held].record;
    t->row[t->n_held++] = *row;
    h->base.n_replaced += hl_utf8_clean_in_place(r->host, sizeof r->host) ? 1 : 0;
    h->base.n_replaced += hl_utf8_clean_in_place(r->job, sizeof r->job) ? 1 : 0;
    return t->n_held == H5_HEAP_BATCH ? flush_table(h, t, 0, e) : 0;
}

int h5_heap_row(struct hl_sink *s, const struct hl_heap_row *row, struct hl_err *e)
{
    struct h5_sink *h = (struct h5_sink *)s;
    return add_row(h, &h->heap, row, e);
}

int h5_image_row(struct hl_sink *s, const struct hl_heap_row *row, struct hl_err *e)
{
    struct h5_sink *h = (struct h5_sink *)s;
    return add_row(h, &h->images, row, e);
}

/* final: nothing was written before, and no more follow. */
static int flush_missing(struct h5_sink *h, int final)
{
    hsize_t start = h->n_missing_written, n = h->n_missing, whole = start + n,
            unlimited = H5S_UNLIMITED, chunk = H5_MISSING_BATCH;
    if (final)
        return h5_names(h, h->own_base, "missing", h->missing, n);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE),
          all = H5Screate_simple(1, &whole, &unlimited),
          mem = H5Screate_simple(1, &n, NULL);
    H5Pset_chunk(dcpl, 1, &chunk);
    hid_t d = start ? H5Dopen2(h->own_base, "missing", H5P_DEFAULT)
                    : H5Dcreate2(h->own_base, "missing", h->text_type, all, H5P_DEFAULT,
                                 dcpl, H5P_DEFAULT);
    H5Sselect_hyperslab(all, H5S_SELECT_SET, &start, NULL, &n, NULL);
    int bad = d < 0 || (start && H5Dset_extent(d, &whole) < 0) ||
              H5Dwrite(d, h->text_type, mem, all, H5P_DEFAULT, h->missing) < 0;
    H5Dclose(d);
    H5Sclose(mem);
    H5Sclose(all);
    H5Pclose(dcpl);
    h->n_missing_written = whole;
    return bad ? -1 : 0;
}

static void forget_missing(struct h5_sink *h)
{
    for (size_t i = 0; i < h->n_missing; i++)
        free(h->missing[i]);
    h->n_missing = 0;
}

int h5_missing(struct hl_sink *s, const char *text, struct hl_err *e)
{
    struct h5_sink *h = (struct h5_sink *)s;
    struct hl_buf clean = {0};
    const char *t = h5_text(h, &clean, text);
    char *copy = t ? strdup(t) : NULL;
    hl_buf_fini(&clean);
    h5_arm();
    if (!copy)
        return hl_fail(e, ENOMEM, "%s: no memory left", h->out.name);
    h->missing[h->n_missing++] = copy;
    if (h->n_missing < H5_MISSING_BATCH)
        return 0;
    int bad = flush_missing(h, 0) ? h5_fail(h, e, "missing") : 0;
    forget_missing(h);
    return bad;
}

int h5_heap_begin(struct h5_sink *h, struct hl_err *e)
{
    const struct hl_run *run = h->run;
    hid_t own = h5_group(h->file, "heapline"), runs = -1, base = own;
    int bad = own < 0 || h5_attr_int(own, "version", H5T_STD_I32LE, 1);
    h->heap.name = "heap";
    h->images.name = "images";
    if (h->run_name[0]) {
        runs = h5_group(own, "runs");
        base = h5_group(runs, h->run_name);
        H5Gclose(runs);
        H5Gclose(own);
    }
    h->own_base = base;
    bad = bad || base < 0 ||
          h5_attr_text(h, base, "run_id", run->run_id ? run->run_id : "") ||
          h5_attr_text(h, base, "generator", run->generator) ||
          h5_attr_int(base, "n_dropped_rows", H5T_STD_I64LE,
                      (int64_t)run->n_dropped_rows) ||
          h5_attr_int(base, "n_lost_rows", H5T_STD_I64LE, (int64_t)run->n_lost_rows);
    return bad ? h5_fail(h, e, "group heapline") : 0;
}

int h5_heap_end(struct h5_sink *h, struct hl_err *e)
{
    int bad = 0;
    if (!h->heap.n_written || h->heap.n_held)
        bad = flush_table(h, &h->heap, !h->heap.n_written, e);
    if (!bad && h->images.n_held)
        bad = flush_table(h, &h->images, !h->images.n_written, e);
    if (!bad && h->n_missing && flush_missing(h, !h->n_missing_written))
        bad = h5_fail(h, e, "missing");
    return bad;
}

void h5_heap_fini(struct h5_sink *h)
{
    free(h->heap.row);
    free(h->images.row);
    free(h->points);
    forget_missing(h);
}

void h5_process_name(struct h5_sink *h, hid_t group, int64_t pid, const char *host,
                     char *out, size_t cap)
{
    struct hl_buf b = {0};
    char clean[3 * HL_HOST_MAX + 1];
    const char *text = h5_text(h, &b, host);
    snprintf(clean, sizeof clean, "%s", text && *text ? text : "_");
    hl_buf_fini(&b);
    for (char *s = clean; *s; s++)
        *s = *s == '/' ? '_' : *s;
    if (!strcmp(clean, ".") || !strcmp(clean, ".."))
        strcpy(clean, "_");
    snprintf(out, cap, "%lld@%s", (long long)pid, clean);
    for (int k = 2; H5Lexists(group, out, H5P_DEFAULT) > 0; k++)
        snprintf(out, cap, "%lld.%d@%s", (long long)pid, k, clean);
}
