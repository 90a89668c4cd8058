/* SPDX-License-Identifier: Apache-2.0
 *
 * One encoder and one decoder for each message; see wire.h for the header and
 * heapline-protocol(7) for the bytes.
 *
 * Encoders: hl_encode_x(out, cap, ...) writes header and body and returns the
 * whole size, or HL_WIRE_NO_SPACE.  With cap 0 they return the same code.
 * Decoders: hl_decode_x(body, n, &out) take the body alone (its header was
 * checked) and return 0 or an HL_WIRE_ code.  Text and cells in the decoded
 * structure are borrowed from the body.  Pure; safe in any thread and in
 * signal handlers.
 */
#ifndef HL_MESSAGES_H
#define HL_MESSAGES_H

#include "ident.h"
#include "record.h"
#include "wire.h"

/* ---- HELLO ---- */

enum hl_role {
    HL_ROLE_HEAP = 1,   /* the heap agent of a process */
    HL_ROLE_FRAMES = 2, /* the client library of a process */
    HL_ROLE_KEEPER = 3, /* heapline-run: keeps a private collector alive */
    HL_ROLE_GATHER = 4, /* heapline-gather: reads one run's data */
    HL_ROLE_CONTROL = 5 /* heaplinectl; its key says nothing */
};

enum hl_hello_flags {
    HL_HELLO_PAGE = 1,     /* the first descriptor of this message is a heap page */
    HL_HELLO_ROWS = 2,     /* the first (next) descriptor is a row buffer */
    HL_HELLO_UNSHARED = 4, /* what the sender holds is not shared: a kill may lose it */
    HL_HELLO_FALLBACK = 8  /* first message of a fallback file, not of a connection */
};

struct hl_hello {
    uint8_t wire_min, wire_max; /* versions the sender speaks */
    uint8_t role;               /* enum hl_role */
    uint32_t flags;             /* enum hl_hello_flags */
    int64_t pid;                /* as the sender sees it */
    uint64_t start_ticks;       /* field 22 of /proc/PID/stat; 0 unknown */
    uint64_t image;             /* random; the same for both agents of one image */
    int32_t rank, size;         /* -1 none, unknown */
    int64_t interval_ns;        /* wanted between samples; 0 none */
    struct hl_str key;          /* of the run, 1 to HL_KEY_MAX bytes */
    struct hl_str host;         /* at most HL_HOST_MAX bytes */
    struct hl_str job;          /* record's column job, at most HL_JOB_MAX bytes */
    struct hl_str app_version;  /* "" unknown, at most 255 bytes */
};

enum { HL_HELLO_CAP = HL_WIRE_HEADER + 4096 };

int64_t hl_encode_hello(uint8_t *out, size_t cap, const struct hl_hello *h);
int hl_decode_hello(const uint8_t *body, size_t n, struct hl_hello *out);

/* ---- HELLO_OK, REFUSED, ACK, BYE ---- */

struct hl_hello_ok {
    uint32_t version;  /* the highest both speak */
    uint64_t appended; /* stream offset the collector has; send from there */
};
int64_t hl_encode_hello_ok(uint8_t *out, size_t cap, const struct hl_hello_ok *m);
int hl_decode_hello_ok(const uint8_t *body, size_t n, struct hl_hello_ok *out);

enum hl_refusal {
    HL_REFUSED_VERSION = 1, /* no common version */
    HL_REFUSED_PROTOCOL = 2,
    HL_REFUSED_LIMIT = 3, /* a bound of the configuration */
    HL_REFUSED_SPACE = 4, /* quota or disk */
    HL_REFUSED_UID = 5,
    HL_REFUSED_DRAINING = 6,
    HL_REFUSED_UNKNOWN_JOB = 7
};
struct hl_refused {
    uint32_t code;      /* enum hl_refusal */
    struct hl_str text; /* a sentence to show */
};
int64_t hl_encode_refused(uint8_t *out, size_t cap, uint32_t code, const char *text);
int hl_decode_refused(const uint8_t *body, size_t n, struct hl_refused *out);

int64_t hl_encode_ack(uint8_t *out, size_t cap, uint64_t appended);
int hl_decode_ack(const uint8_t *body, size_t n, uint64_t *appended);

struct hl_bye {
    uint64_t n_dropped; /* rows the sender dropped */
    uint64_t n_rows;    /* rows it committed in all, dropped ones included */
};
int64_t hl_encode_bye(uint8_t *out, size_t cap, const struct hl_bye *m);
int hl_decode_bye(const uint8_t *body, size_t n, struct hl_bye *out);

/* The disk does not take rows (code: an errno value), the connection stays and
 * the sender may wait; or it does again (code 0). */
struct hl_held {
    uint32_t code;
    struct hl_str text; /* a sentence to show */
};
int64_t hl_encode_held(uint8_t *out, size_t cap, uint32_t code, const char *text);
int hl_decode_held(const uint8_t *body, size_t n, struct hl_held *out);

/* ---- CATALOG: names are added to a base ---- */

enum {
    HL_NAME_MAX = 255,             /* bytes of a metric name */
    HL_PATH_MAX = 1023,            /* bytes of a region path */
    HL_CATALOG_NAMES_MAX = 1 << 20 /* metrics and paths of one catalog, each */
};

struct hl_catalog_msg {
    uint32_t id;                 /* from 1, new for each catalog of a stream */
    uint32_t base;               /* the catalog this one extends; 0 none */
    uint32_t flags;              /* 0 in this version */
    uint32_t first_metric;       /* number of metrics of the base */
    uint32_t first_path;         /* number of paths of the base */
    uint32_t n_metrics, n_paths; /* decoded: how many this message adds */
    const uint8_t *names;        /* decoded: fields, for hl_catalog_next */
    size_t names_bytes;
};

/* Builder: begin, add names, end (hl_message_end with HL_MSG_CATALOG). */
struct hl_writer hl_catalog_begin(uint8_t *out, size_t cap,
                                  const struct hl_catalog_msg *m);
void hl_catalog_add_metric(struct hl_writer *w, const char *name);
void hl_catalog_add_path(struct hl_writer *w, const char *path);

int hl_decode_catalog(const uint8_t *body, size_t n, struct hl_catalog_msg *out);
/* Walk the names: 1 and *is_path, *name; 0 at the end.  r begins as
 * hl_reader_on(m->names, m->names_bytes).  Cannot fail after the decoder
 * accepted the message. */
int hl_catalog_next(struct hl_reader *r, int *is_path, struct hl_str *name);

/* Cells of a row: metrics, then inclusive and exclusive of each path. */
static inline uint64_t hl_stride(uint64_t n_metrics, uint64_t n_paths)
{
    return n_metrics + 2 * n_paths;
}

/* ---- ROWS ---- */

enum {
    HL_ROWS_HEAD = 24,
    HL_ROWS_CELLS_MAX = 262144 / 8 /* cells of one message; wider rows go as parts */
};

/* first_cell 0 and n_cells a multiple of the stride: that many whole rows.
 * Stride 0 (no metrics, no regions): one row a message, n_cells 0.
 * Otherwise a part of row first_row, whose last part completes it. */
struct hl_rows {
    uint32_t catalog;
    uint32_t n_cells;
    uint64_t first_row; /* number of the first (or only) row, from 0 */
    uint64_t first_cell;
    const uint8_t *cells; /* n_cells little-endian doubles, not aligned */
};
/* Size of a message with n_cells cells. */
static inline size_t hl_rows_size(uint64_t n_cells)
{
    return HL_WIRE_HEADER + HL_ROWS_HEAD + 8 * (size_t)n_cells;
}
/* Header and row header for cells that lie, or will lie, behind them at
 * out + HL_WIRE_HEADER + HL_ROWS_HEAD; the cells must be in place. */
int64_t hl_encode_rows_in_place(uint8_t *out, size_t cap, const struct hl_rows *m);
int hl_decode_rows(const uint8_t *body, size_t n, struct hl_rows *out);
/* Cell i of a decoded message. */
double hl_rows_cell(const struct hl_rows *m, size_t i);

/* ---- RECORD ---- */

enum hl_ended {
    HL_ENDED_RUNNING = 0,
    HL_ENDED_EXIT = 1,   /* status: exit status */
    HL_ENDED_SIGNAL = 2, /* status: signal number */
    HL_ENDED_EXEC = 3,
    HL_ENDED_KILLED_OR_EXIT = 4, /* neither is known */
    HL_ENDED_SAMPLED = 5         /* the page was lost: numbers of the last sample */
};
struct hl_end {
    uint32_t kind; /* enum hl_ended */
    int32_t status;
};
/* "exit:0", "signal:9", "exec", "killed-or-_exit", "sampled", "running" at out (NUL-
 * terminated, 32 bytes); returns its length. */
size_t hl_end_text(const struct hl_end *e, char *out);

struct hl_record_msg {
    struct hl_record record;
    struct hl_end end;
    uint32_t notes;    /* HL_PROC_NOTE_...: what only the page knew */
    uint64_t n_points; /* taken of its timeline; 0 none, or not told */
};
int64_t hl_encode_record(uint8_t *out, size_t cap, const struct hl_record_msg *m);
int hl_decode_record(const uint8_t *body, size_t n, struct hl_record_msg *out);

/* ---- POINTS: the timeline of a process ---- */

enum { HL_POINT_BYTES = 48 };

/* What the collector saw of a living process; wanted by the hello's interval. */
struct hl_point {
    int64_t time_ns; /* since the load of its agent, else since its start */
    int64_t heap_bytes, heap_peak_bytes; /* -1 unknown: no heap agent */
    int64_t rss_bytes;                   /* -1 unknown */
    uint64_t allocs, frees;              /* UINT64_MAX unknown, like the heap */
};
/* What stands at the place of a point whose bytes are damaged or gone, in the answer
 * to a PULL: none that was taken has a time before its process. */
static inline struct hl_point hl_point_lost(void)
{
    return (struct hl_point){-1, -1, -1, -1, UINT64_MAX, UINT64_MAX};
}
static inline int hl_point_is_lost(const struct hl_point *p)
{
    return p->time_ns < 0;
}
/* One point as the bytes of a POINTS message, of which there are n in it, and of
 * the answer to a PULL of points. */
void hl_point_put(uint8_t out[HL_POINT_BYTES], const struct hl_point *s);
void hl_point_get(const uint8_t p[HL_POINT_BYTES], struct hl_point *out);
int64_t hl_encode_points(uint8_t *out, size_t cap, const struct hl_point *v, size_t n);
int hl_decode_points(const uint8_t *body, size_t n, size_t *n_points);

/* ---- ENDED, STATE: keepers ---- */

struct hl_ended_msg {
    int64_t pid;
    uint64_t start_ticks; /* 0 unknown */
    struct hl_end end;
};
int64_t hl_encode_ended(uint8_t *out, size_t cap, const struct hl_ended_msg *m);
int hl_decode_ended(const uint8_t *body, size_t n, struct hl_ended_msg *out);

struct hl_state {
    uint32_t n_keepers;      /* connected now, the asker included if it is one */
    uint32_t n_keepers_ever; /* connected at any time */
    uint64_t n_processes;    /* images known of the run */
    uint64_t n_alive;        /* of them, not yet ended */
    uint64_t reserved;
};
int64_t hl_encode_state_ask(uint8_t *out, size_t cap);
int64_t hl_encode_state(uint8_t *out, size_t cap, const struct hl_state *m);
int hl_decode_state(const uint8_t *body, size_t n, struct hl_state *out);

/* ---- INDEX, PULL, TAKEN: the gather ---- */

/* wait_ms: how long the answer may be held back while processes are alive. */
int64_t hl_encode_index_ask(uint8_t *out, size_t cap, uint32_t wait_ms);
int hl_decode_index_ask(const uint8_t *body, size_t n, uint32_t *wait_ms);

enum hl_proc_flags {
    HL_PROC_HEAP = 1,     /* its heap agent said hello or left a page */
    HL_PROC_FRAMES = 2,   /* its client library said hello */
    HL_PROC_UNSHARED = 4, /* the hello's flag: a kill may have lost frames */
    HL_PROC_NOTE_BYPASSED = 8,
    HL_PROC_NOTE_HELD = 16,    /* the disk does not take all that was read of it */
    HL_PROC_NOTE_DAMAGED = 32, /* its spool: frames behind a place are not readable */
    HL_PROC_NOTE_UNREAD = 64,  /* its spool is gone, or is none any more */
    HL_PROC_NOTE_PAGE = 128    /* its page of counters is damaged: there is no record */
};
struct hl_proc {
    uint32_t id;               /* for PULL */
    uint32_t flags;            /* enum hl_proc_flags */
    struct hl_hello hello;     /* identity; of either role */
    struct hl_record_msg heap; /* record and how the image ended */
    uint64_t n_rows;           /* distinct committed rows */
    uint64_t stream_bytes;     /* CATALOG and ROWS messages, headers included */
    uint64_t catalog_bytes;    /* CATALOG messages alone */
    uint64_t n_dropped;        /* rows the sender says it dropped */
    uint64_t n_lost;           /* rows known to be lost since */
    uint64_t n_points;         /* taken of its timeline */
    uint64_t n_points_lost;    /* of these, damaged or gone since */
};
int64_t hl_encode_proc(uint8_t *out, size_t cap, const struct hl_proc *m);
int hl_decode_proc(const uint8_t *body, size_t n, struct hl_proc *out);

struct hl_index_end {
    uint64_t n_processes;
    uint64_t n_alive;
};
int64_t hl_encode_index_end(uint8_t *out, size_t cap, const struct hl_index_end *m);
int hl_decode_index_end(const uint8_t *body, size_t n, struct hl_index_end *out);

enum hl_pull_what { HL_PULL_STREAM = 0, HL_PULL_CATALOGS = 1, HL_PULL_POINTS = 2 };
struct hl_pull {
    uint32_t proc;
    uint32_t what;   /* enum hl_pull_what */
    uint64_t offset; /* bytes into the stream, its catalogs alone, or its points */
    uint32_t max;    /* bytes wanted at most */
};
int64_t hl_encode_pull(uint8_t *out, size_t cap, const struct hl_pull *m);
int hl_decode_pull(const uint8_t *body, size_t n, struct hl_pull *out);

/* Bytes of a stream at an offset; none at its end.  Messages may be split
 * over DATA messages anywhere. */
struct hl_data {
    uint32_t proc;
    uint32_t what;
    uint64_t offset;
    const uint8_t *bytes;
    size_t n;
};
enum { HL_DATA_HEAD = 16, HL_DATA_MAX = HL_WIRE_MAX_BODY - HL_DATA_HEAD };
int64_t hl_encode_data(uint8_t *out, size_t cap, const struct hl_data *m);
/* The same for m->n bytes that lie at out + HL_WIRE_HEADER + HL_DATA_HEAD already. */
int64_t hl_encode_data_in_place(uint8_t *out, const struct hl_data *m);
int hl_decode_data(const uint8_t *body, size_t n, struct hl_data *out);

int64_t hl_encode_taken(uint8_t *out, size_t cap);
int64_t hl_encode_taken_ok(uint8_t *out, size_t cap);

/* ---- spool files: SPOOL first, then HELLO, CATALOG, ROWS, RECORD, BYE, LOSS ---- */

struct hl_spool_head {
    uint32_t format; /* 1 */
    uint32_t uid;
    int64_t pid;
    uint64_t start_ticks, image;
    uint64_t inode; /* of the row buffer; 0 none */
    struct hl_str key;
};
enum { HL_SPOOL_FORMAT = 1 };
int64_t hl_encode_spool_head(uint8_t *out, size_t cap, const struct hl_spool_head *m);
int hl_decode_spool_head(const uint8_t *body, size_t n, struct hl_spool_head *out);

/* Where the collector keeps what must outlive it: the name of the descriptors at
 * the service manager, the place of the samples.  The last one of a spool counts. */
struct hl_slot {
    uint32_t number;
    uint32_t flags;      /* HL_HELLO_PAGE, HL_HELLO_ROWS: that descriptor is kept */
    int64_t kernel_pid;  /* as the collector sees the process; 0 unknown */
    uint64_t page_inode; /* 0 none */
    uint64_t rows_inode;
};
int64_t hl_encode_slot(uint8_t *out, size_t cap, const struct hl_slot *m);
int hl_decode_slot(const uint8_t *body, size_t n, struct hl_slot *out);

struct hl_loss {
    uint64_t n_rows;
    uint64_t reason; /* errno value or 0 */
};
int64_t hl_encode_loss(uint8_t *out, size_t cap, const struct hl_loss *m);
int hl_decode_loss(const uint8_t *body, size_t n, struct hl_loss *out);

#endif
