/* SPDX-License-Identifier: Apache-2.0
 *
 * One run's data on one node, as heapline-gather reads it: what the node's
 * collector has, and what lies in fallback files; an image that came both ways
 * is one unit.  The stream of a unit is the collector's bytes, then those of
 * the file, whose HELLO marks the border (see stream.h).
 */
#ifndef HL_SOURCE_H
#define HL_SOURCE_H

#include "catalog.h"
#include "err.h"
#include "stream.h"
#include "wire_link.h"
#include "messages.h"

#include <stddef.h>
#include <stdint.h>

struct hl_unit {
    struct hl_proc proc; /* its texts lie in `text` */
    uint8_t *text;       /* body of a PROC message, owned */
    size_t text_bytes;
    uint64_t collector_bytes; /* first part of the stream */
    char *rows_file;          /* second part, or NULL; owned */
    uint64_t file_bytes;
    char *page_file; /* fallback page, or NULL; owned */
    size_t catalog;  /* index into hl_source.catalog */
};

struct hl_source {
    char host[HL_HOST_MAX + 1];
    struct hl_link link;
    struct hl_unit *unit;
    size_t n_units, units_cap;
    struct hl_catalog *catalog; /* distinct ones; [0] is empty */
    size_t n_catalogs;
    char **note; /* what could not be read, for the user */
    size_t n_notes;
};

struct hl_source_options {
    const char *key;
    const char *sockets;      /* ':'-separated, the first that answers is used */
    const char *fallback_dir; /* NULL: none */
    uint32_t wait_ms;         /* for processes that are still alive */
};

/* Read the index.  No collector and no file is no error: a source without
 * units.  0 or -1. */
int hl_source_open(struct hl_source *s, const struct hl_source_options *o,
                   struct hl_err *e);
void hl_source_close(struct hl_source *s);

/* Bytes of a unit's stream in all. */
static inline uint64_t hl_unit_bytes(const struct hl_unit *u)
{
    return u->collector_bytes + u->file_bytes;
}

/* Exactly n bytes of a unit's stream from offset. */
int hl_source_read(struct hl_source *s, size_t unit, uint64_t offset, uint64_t n,
                   uint8_t *out, struct hl_err *e);

/* Everything was written: tell the collector, remove the files. */
int hl_source_taken(struct hl_source *s, struct hl_err *e);

/* Used by source_files.c. */
struct hl_unit *hl_source_add(struct hl_source *s, const struct hl_proc *p,
                              struct hl_err *e);
/* Take over an entry with a copy of its texts. */
int hl_unit_set(struct hl_unit *u, const struct hl_proc *p, struct hl_err *e);
int hl_source_note(struct hl_source *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Keep the names of a stream that was read to its end. */
int hl_source_keep_names(struct hl_source *s, struct hl_stream *st, size_t *idx,
                         struct hl_err *e);
int hl_source_scan_files(struct hl_source *s, const struct hl_source_options *o,
                         struct hl_err *e);

#endif
