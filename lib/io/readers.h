/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers of exports: each reads one run of a file and drives a sink with it,
 * so that a table, a converter and a writer all take from any format.  Schema
 * 1, 2 and 3, told by structure; unknown versions are refused with the version
 * named; names that the layout cannot hold are told, not guessed at.
 */
#ifndef HL_READERS_H
#define HL_READERS_H

#include "err.h"
#include "sink.h"

/* What a file is, by its first bytes. */
enum hl_file_kind { HL_FILE_UNKNOWN, HL_FILE_JSON, HL_FILE_HDF5, HL_FILE_RECORD };
int hl_file_kind(const char *name, enum hl_file_kind *kind, struct hl_err *e);

/* Names of the runs in a file: one, "", for schema 1 and 2; ids (JSON) or group
 * names (HDF5) for schema 3.  Owned by the caller: free each and the array. */
int hl_json_runs(const char *name, char ***runs, size_t *n, struct hl_err *e);
int hl_h5_runs(const char *name, char ***runs, size_t *n, struct hl_err *e);

/* Drive `s` from begin to the last rank_end, without commit.  run: one of the
 * names above. */
int hl_json_read(const char *name, const char *run, struct hl_sink *s, struct hl_err *e);
int hl_h5_read(const char *name, const char *run, struct hl_sink *s, struct hl_err *e);

#endif
