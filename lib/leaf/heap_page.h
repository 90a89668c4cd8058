/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of heap counters that an agent shares with the collector: a sealed
 * memfd (or, without a collector, a file), 64 KiB, a header of 4 KiB and 960
 * slots of a cache line.  The only definition; written by the agent, read by
 * the collector with pread and by the gather from fallback files.
 *
 * Every count is the sum over all slots (plus, for live bytes, what a fork's
 * child inherited), read at any time.  A slot has one writer, its thread, but
 * for the last one, which is shared with atomic adds when all are taken.
 */
#ifndef HL_HEAP_PAGE_H
#define HL_HEAP_PAGE_H

#include "messages.h"
#include "record.h"

#include <stddef.h>
#include <stdint.h>

enum {
    HL_HEAP_PAGE_SIZE = 65536,
    HL_HEAP_PAGE_HEADER = 4096,
    HL_HEAP_SLOT_SIZE = 64,
    HL_HEAP_N_SLOTS = (HL_HEAP_PAGE_SIZE - HL_HEAP_PAGE_HEADER) / HL_HEAP_SLOT_SIZE,
    HL_HEAP_PAGE_VERSION = 1
};
#define HL_HEAP_PAGE_MAGIC 0x31505048454e4948ull

/* A thread's counters.  After an allocation the agent compares net with high,
 * after a release with low, and does the rest only beyond them.
 *   window: highest net since a region of this thread set it to net (and high to
 *     INT64_MIN, so that the next allocation looks); INT64_MAX: nobody asks.
 *   high, low: with one thread high is the window; from the second thread on the
 *     range in which the thread need not tell the others (preload/peak.c).
 */
struct hl_heap_slot {
    uint64_t allocs, frees;
    int64_t net_bytes; /* allocated minus released by this slot's threads */
    uint64_t claim;    /* what the others reckon with (preload/peak.c) */
    int64_t window_bytes;
    int64_t high_bytes, low_bytes;
    int32_t owner_tid; /* 0: free */
    int32_t reserved;
};
_Static_assert(sizeof(struct hl_heap_slot) == HL_HEAP_SLOT_SIZE, "one cache line");

enum hl_heap_state {
    HL_HEAP_RUNNING = 0,
    HL_HEAP_EXIT = 1, /* end_status holds the exit status */
    HL_HEAP_EXEC = 2  /* exec is under way; reset when it fails */
};

struct hl_heap_header {
    uint64_t magic;
    uint32_t version;
    uint32_t size; /* HL_HEAP_PAGE_SIZE */
    uint64_t image;
    int64_t pid;
    uint64_t start_ticks;  /* field 22 of /proc/self/stat; 0 unknown */
    int64_t load_mono_ns;  /* CLOCK_MONOTONIC when the agent was loaded */
    int64_t load_real_ns;  /* CLOCK_REALTIME, for display */
    int32_t rank, n_ranks; /* -1 none, unknown */
    char host[HL_HOST_MAX + 1];
    char job[HL_JOB_MAX + 1];
    char key[HL_KEY_MAX + 1];
    uint32_t uid;
    uint32_t flags; /* enum hl_heap_flags */

    /* Changes while the program runs.  While one thread counts, it alone writes
     * peak (plain stores); from the second thread on all raise shared_peak (compare
     * and swap).  So neither can overwrite the other, and the peak is the larger. */
    _Alignas(64) int64_t peak_bytes;
    /* Since load_mono_ns: the time of the kernel's last tick before the peak was
     * reached, which lies in the process's memory, so that no clock is read. */
    int64_t peak_time_ns;
    int64_t inherited_bytes; /* live when a fork's child began; else 0 */
    uint32_t n_slots_used;   /* slots at or above were never taken */
    uint32_t n_threads_seen; /* 1: the first thread is the only one that counted */
    _Alignas(64) int64_t shared_peak_bytes;
    int64_t shared_peak_time_ns;

    /* Written once at the end. */
    _Alignas(64) uint32_t state; /* enum hl_heap_state */
    int32_t end_status;
    int64_t end_mono_ns;              /* 0 until the end */
    int64_t vmhwm_bytes, vmrss_bytes; /* -1 until known */
};
_Static_assert(sizeof(struct hl_heap_header) <= HL_HEAP_PAGE_HEADER,
               "header of the page");

enum hl_heap_flags {
    HL_HEAP_BYPASSED = 1,    /* the program's own malloc does not come through us */
    HL_HEAP_NEW_BYPASSED = 2 /* malloc does, but operator new has one of its own */
};

/* Offset of slot i in the page. */
static inline size_t hl_heap_slot_offset(size_t i)
{
    return HL_HEAP_PAGE_HEADER + i * HL_HEAP_SLOT_SIZE;
}

/* Is this the header of a page that this version understands? 1 or 0. */
int hl_heap_header_ok(const struct hl_heap_header *h);

/* What a page cannot say whose header is ok: a sentence, or NULL where all can be.
 * There is no checksum, as a process may be killed between any two stores; this tells
 * what no instant of a true page shows, once its process stands still (of one that
 * runs, the slots are not read at one time: look again).
 *   What is in use (live, peak, blocks) fits into an address space.  What only grows
 *   fits into years.  Blocks that were made behind the agent's back and are released
 *   through it let frees pass allocs and live fall below zero, so below is more room.
 *   A slot's bytes need operations, each of at most an address space; the operation is
 *   counted first.  Slots that were never taken have counted nothing.
 *   Not so live <= peak: each thread may be between counting and raising the peak. */
const char *hl_heap_fault(const struct hl_heap_header *h,
                          const struct hl_heap_slot *slots, size_t n_slots);

/* How many slots a reader should read, clamped to what the page holds. */
size_t hl_heap_slots_to_read(const struct hl_heap_header *h);

/* The record of what header and slots say.  Any content is safe: sums wrap
 * without trapping, texts are cut at their size, counts and peak never come
 * out negative.  now_mono_ns: the time of the end where the page holds none.
 * The slots must be a copy or stay in place during the call. */
void hl_heap_record(const struct hl_heap_header *h, const struct hl_heap_slot *slots,
                    size_t n_slots, int64_t now_mono_ns, struct hl_record *out);

/* How the page says the process ended: HL_ENDED_EXIT, HL_ENDED_EXEC or
 * HL_ENDED_KILLED_OR_EXIT when it says nothing. */
struct hl_end hl_heap_end(const struct hl_heap_header *h);

#endif
