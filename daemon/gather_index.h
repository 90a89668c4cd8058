/* SPDX-License-Identifier: Apache-2.0
 *
 * A node's index as bytes, and rank 0's table of all of them: 64 bytes a process,
 * distinct catalogs and host names once.
 */
#ifndef HL_GATHER_INDEX_H
#define HL_GATHER_INDEX_H

#include "buf.h"
#include "catalog.h"
#include "entry.h"
#include "images.h"
#include "source.h"

/* Ranks and sizes beyond it are no run's: who tells them has none. */
#define HL_RANKS_MAX (1 << 24)

/* Rows of an entry that are not there; few. */
struct hl_index_gap {
    size_t entry;
    uint64_t n_dropped, n_lost;
};

struct hl_index {
    struct hl_entry *entry; /* after hl_index_done in the order of the CSV */
    size_t n, cap;
    struct hl_catalog *catalog; /* distinct ones of all nodes */
    size_t n_catalogs;
    struct hl_names hosts;
    struct hl_names bare;     /* nodes with neither a collector nor files */
    struct hl_images images;  /* to entries, while nodes are added */
    struct hl_index_gap *gap; /* while nodes are added */
    size_t n_gaps;
    uint64_t n_dropped, n_lost; /* in all, after hl_index_done */
    size_t n_unread;       /* entries of which not all that their nodes have is here */
    int64_t max_size;      /* n_mpi_ranks that a ranked process told; -1 none */
    char app_version[256]; /* of the lowest rank that told one, or "" */
    int64_t version_rank;
    char **note;
    size_t n_notes;
};

/* This node's index.  0 or -1 (no memory). */
int hl_index_encode(const struct hl_source *s, struct hl_buf *out);

void hl_index_init(struct hl_index *x);
void hl_index_fini(struct hl_index *x);
/* Add a node's index.  Of an image that another process of the gather told of, too
 * (two on one node, a folder that nodes share), the entry with more counts. */
int hl_index_add(struct hl_index *x, uint32_t node, const uint8_t *p, size_t n,
                 struct hl_err *e);
/* All nodes were added: put the entries in order.  Later calls of add are wrong. */
void hl_index_done(struct hl_index *x);
/* Leave the frames, or the samples, of an entry out and note why: they cannot be
 * read.  0 or -1. */
int hl_index_leave_out(struct hl_index *x, size_t entry, enum hl_ask_kind kind,
                       const char *why);
/* So many more of its points are lost. */
void hl_index_lose_points(struct hl_index *x, size_t entry, uint64_t n);

#endif
