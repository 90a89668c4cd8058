/* SPDX-License-Identifier: Apache-2.0
 *
 * One run's data on one node, as heapline-gather reads it: what the node's
 * collector has, and what lies in fallback files; an image that came both ways
 * is one unit.  The stream of a unit is the collector's bytes, then those of
 * the file, whose HELLO marks the border (see stream.h).
 *
 * Data are read in pieces through a few slots: begin asks, end waits, so that the
 * collector reads the next piece while the last one is used.  Pieces are ended
 * in the order in which they were begun.
 */
#ifndef HL_SOURCE_H
#define HL_SOURCE_H

#include "catalog.h"
#include "entry.h"
#include "err.h"
#include "images.h"
#include "messages.h"
#include "records.h"
#include "stream.h"
#include "wire_link.h"

#include <stddef.h>
#include <stdint.h>

enum {
    HL_SLOTS = 4,            /* pieces on their way */
    HL_PIECE_MAX = 512 << 10 /* bytes of a piece */
};

/* What rank 0 asks of a node. */
enum hl_ask_kind {
    HL_WANT_STREAM = 1, /* n bytes of a unit's stream from offset */
    HL_WANT_POINTS = 2, /* the same of its timeline */
    HL_WANT_RECORDS = 3 /* n units' PROC bodies from `unit` on, each behind its length
                         * (u32); as many as fit in `offset` bytes, at least one */
};
struct hl_want {
    uint64_t kind, unit, offset, n;
};

/* Files of a unit that was not, or not wholly, a collector's. */
struct hl_unit_files {
    uint64_t collector_bytes; /* first part of the stream */
    char *rows, *page;        /* second part; page; NULL none; owned */
};

struct hl_unit {
    struct hl_entry entry;
    uint64_t image;
    struct hl_record_place record;
    uint32_t proc;    /* the collector's number of it */
    uint32_t files;   /* 1 + index into hl_source.files; 0 none */
    uint32_t arrival; /* order in which the units were met */
};

/* Units with rows that are not there; few. */
struct hl_gap {
    uint32_t unit;
    uint64_t n_dropped, n_lost;
};

struct hl_piece_slot {
    struct hl_want want;
    uint8_t *bytes; /* HL_PIECE_MAX, made when first needed */
    uint64_t got;   /* bytes that are there */
    int unread;     /* the rest cannot be read */
};

/* A question to the collector that has no answer yet. */
struct hl_question {
    int slot;
    uint64_t at, n; /* within the slot's bytes */
};

struct hl_source {
    char host[HL_HOST_MAX + 1];
    struct hl_link link;
    struct hl_unit *unit;
    size_t n_units, units_cap;
    struct hl_unit_files *files;
    size_t n_files;
    struct hl_images images; /* to units, while they are read in */
    struct hl_records records;
    struct hl_catalog *catalog; /* distinct ones; [0] is empty */
    size_t n_catalogs;
    struct hl_names hosts;
    struct hl_gap *gap;
    size_t n_gaps;
    size_t n_unread;       /* processes and files that are not here as a whole */
    int left_out;          /* its data are not wanted */
    int64_t max_size;      /* n_mpi_ranks that a ranked process told; -1 none */
    char app_version[256]; /* of the lowest rank that told one */
    int64_t version_rank;  /* that rank, INT64_MAX without one */
    char **note;           /* what could not be read, for the user */
    size_t n_notes;
    struct hl_piece_slot slot[HL_SLOTS];
    struct hl_question question[HL_SLOTS + 1];
    size_t n_questions;
    void (*tick)(void *); /* called now and then while something takes long */
    void *tick_ctx;
};

/* Neither a collector nor a file of the run is on this node. */
static inline int hl_source_is_bare(const struct hl_source *s)
{
    return !s->left_out && s->link.fd < 0 && !s->n_units;
}

/* Why, where only the node knows more. */
#define HL_CANNOT_BE_READ "they cannot be read there; the collector's log says why"

struct hl_source_options {
    const char *key;
    const char *sockets;      /* ':'-separated, the first that answers is used */
    const char *fallback_dir; /* NULL: none */
    uint32_t wait_ms;         /* for processes that are still alive */
    void (*tick)(void *);     /* may be NULL */
    void *tick_ctx;
};

/* Read the index.  No collector and no file is no error: a source without
 * units.  0 or -1. */
int hl_source_open(struct hl_source *s, const struct hl_source_options *o,
                   struct hl_err *e);
/* A source without units, for a node that is left out. */
int hl_source_empty(struct hl_source *s, struct hl_err *e);
void hl_source_close(struct hl_source *s);

/* Ask for a piece of at most HL_PIECE_MAX bytes; wait for it.  A STREAM or POINTS
 * piece has exactly want->n bytes, or none: this process's data cannot be read.  The
 * bytes stay until the slot is begun again. */
int hl_source_begin(struct hl_source *s, int slot, const struct hl_want *want,
                    struct hl_err *e);
int hl_source_end(struct hl_source *s, int slot, const uint8_t **p, uint64_t *n,
                  struct hl_err *e);

/* Everything was written: tell the collector, remove the files. */
int hl_source_taken(struct hl_source *s, struct hl_err *e);

/* ---- used by source_files.c ---- */
struct hl_unit *hl_source_add(struct hl_source *s, const struct hl_proc *p,
                              struct hl_err *e);
/* The entry as it was kept; buf keeps its texts. */
int hl_unit_get(const struct hl_source *s, const struct hl_unit *u,
                uint8_t buf[HL_PROC_BODY_MAX], struct hl_proc *out, struct hl_err *e);
/* Keep a changed entry in its place. */
int hl_unit_set(struct hl_source *s, struct hl_unit *u, const struct hl_proc *p,
                struct hl_err *e);
/* Its frames cannot be read, says why: they are named and left out.  0 or -1. */
int hl_unit_lose_frames(struct hl_source *s, struct hl_unit *u, const char *why,
                        struct hl_err *e);
/* The unit's files, made on demand; NULL: no memory. */
struct hl_unit_files *hl_unit_need_files(struct hl_source *s, struct hl_unit *u);
struct hl_unit *hl_source_find(struct hl_source *s, uint64_t image);
int hl_source_note(struct hl_source *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Keep the names of a stream that was read to its end. */
int hl_source_keep_names(struct hl_source *s, struct hl_stream *st, uint32_t *idx,
                         struct hl_err *e);
int hl_source_scan_files(struct hl_source *s, const struct hl_source_options *o,
                         struct hl_err *e);
void hl_source_tick(struct hl_source *s);

#endif
