/* SPDX-License-Identifier: Apache-2.0
 *
 * Files and folders that must be opened with care: a user's own folder below
 * a shared one, and outputs that appear whole or not at all.
 */
#ifndef HL_PATH_H
#define HL_PATH_H

#include "err.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* Make (if need be) and open a folder that only this user may use: mode 0700,
 * no symbolic link, owned by the effective uid (architecture, decision 8).
 * Returns an O_DIRECTORY descriptor (close-on-exec), or -1. */
int hl_path_own_dir(const char *path, struct hl_err *e);
/* The same for one component below an open folder. */
int hl_path_own_dir_at(int dirfd, const char *name, struct hl_err *e);
/* Is it there, and such a folder? */
int hl_path_is_own_dir(const char *path);

/* Write all n bytes, going on after short writes and EINTR. 0 or -1 (errno). */
int hl_path_write_all(int fd, const void *p, size_t n);
/* The same at an offset. */
int hl_path_pwrite_all(int fd, const void *p, size_t n, off_t at);
/* Read exactly n bytes at an offset. 0; 1 when the file ends before; -1. */
int hl_path_pread_all(int fd, void *p, size_t n, off_t at);

/* A name without its folders; borrowed from it. */
const char *hl_path_last(const char *name);
/* Does it end so, and is more than that? */
int hl_path_ends_with(const char *name, const char *end);

/* An output until it appears under its name: a file without a name in the target
 * folder, which goes with the process however that ends; where the file system has no
 * such files, one with a temporary name, locked as long as a process holds it. */
struct hl_out {
    FILE *file; /* buffered; NULL when it was not wanted, and after finish */
    int fd;     /* the file itself, until commit or abort */
    char *name; /* final */
    char *temp; /* the path that commit takes it from */
    int folder; /* that it is in */
    int named;  /* temp is a name in the folder */
    off_t hurried;
};
/* Begin; also removes temporary files of the same output that nobody holds any more.
 * with_stdio: open o->file as well. */
int hl_out_begin(struct hl_out *o, const char *name, int with_stdio, struct hl_err *e);
/* A file without a name in the same folder, for what does not fit into memory; -1:
 * errno.  The caller closes it. */
int hl_out_scratch(struct hl_out *o);
/* So much is written: let the disk begin with it, so that finish need not wait long. */
void hl_out_hurry(struct hl_out *o, off_t n_written);
/* Flush and sync; o->file is closed. */
int hl_out_finish(struct hl_out *o, struct hl_err *e);
/* After finish (which it does itself if o->file is still open): the file takes its
 * final name, in place of what was there.  Ends o, also when it fails. */
int hl_out_commit(struct hl_out *o, struct hl_err *e);
/* Remove every trace; frees what is held.  Harmless after commit. */
void hl_out_abort(struct hl_out *o);

/* Remove a folder and all below it, never following links. 0 or -1. */
int hl_path_remove_tree(const char *path);

#endif
