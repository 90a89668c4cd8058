/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap record of one process, version 1, from numbers to text.  Formats
 * numbers itself: no stdio, no locale, so the decimal mark is a dot whatever
 * the program has set.  heapline-record(5); specification "Output format".
 * Pure; safe in any thread and in signal handlers.
 */
#ifndef HL_RECORD_H
#define HL_RECORD_H

#include <stddef.h>
#include <stdint.h>

#define HL_RECORD_VERSION_LINE "# heapline 1\n"
#define HL_RECORD_COLUMN_LINE                                                            \
    "rank,host,pid,job,elapsed_s,allocs,frees,peak_heap_bytes,peak_heap_time_s,"         \
    "live_heap_at_exit_bytes,vmhwm_bytes,vmrss_at_exit_bytes\n"

enum {
    HL_HOST_MAX = 255, /* bytes, without the terminating NUL */
    HL_JOB_MAX = 255,
    HL_RECORD_ROW_MAX = 1024, /* one row with its line break */
    HL_RECORD_TEXT_MAX = 1536 /* the three lines */
};

struct hl_record {
    int64_t rank; /* -1 outside MPI */
    int64_t pid;
    char host[HL_HOST_MAX + 1]; /* as the system names it; cleaned when written */
    char job[HL_JOB_MAX + 1];   /* SLURM_JOB_ID or empty */
    int64_t elapsed_ns;         /* from the loading of the agent to the end */
    uint64_t allocs, frees;
    int64_t peak_bytes;
    int64_t peak_time_ns; /* since the loading of the agent */
    int64_t live_bytes;
    int64_t vmhwm_bytes, vmrss_bytes; /* -1 unknown */
};

/* The row of r with its line break.  Commas, quotes and line breaks in host
 * (and job) become '_'.  Returns the bytes written, 0 when cap is too small
 * (HL_RECORD_ROW_MAX always suffices). */
size_t hl_record_row(const struct hl_record *r, char *out, size_t cap);

/* The whole three-line record; HL_RECORD_TEXT_MAX always suffices. */
size_t hl_record_text(const struct hl_record *r, char *out, size_t cap);

/* Decimal text of v at out (no NUL); returns its length, at most 20. */
size_t hl_format_i64(int64_t v, char *out);
size_t hl_format_u64(uint64_t v, char *out);
/* Seconds with three decimals and a dot, rounded down to the millisecond;
 * negative times give 0.000.  At most 24 bytes. */
size_t hl_format_seconds(int64_t ns, char *out);

/* A file name pattern of HEAPLINE_OUTPUT: %p pid, %r rank, %h host; any other
 * % sequence is kept.  Writes a NUL-terminated name; returns its length, 0
 * when it does not fit. */
size_t hl_record_file_name(const char *pattern, int64_t pid, int64_t rank,
                           const char *host, char *out, size_t cap);

#endif
