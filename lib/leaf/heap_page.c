/* SPDX-License-Identifier: Apache-2.0
 *
 * From a heap page to a record; see heap_page.h.
 */
#include "heap_page.h"

#include "bound.h"

#include <string.h>

int hl_heap_header_ok(const struct hl_heap_header *h)
{
    return h->magic == HL_HEAP_PAGE_MAGIC && h->version == HL_HEAP_PAGE_VERSION &&
           h->size == HL_HEAP_PAGE_SIZE;
}

/* ---- plausible ---- */

#define IN_USE_MAX                                                                       \
    (((int64_t)1 << 47) - 1)          /* user addresses; the agent's words hold it */
#define SLOT_EVER ((uint64_t)1 << 57) /* 4 years of an operation each nanosecond */
#define EVER ((int64_t)1 << 60)       /* so many nanoseconds are 36 years */
#define PID_MAX (1 << 22)             /* of Linux */

static int fits(int64_t v, int64_t least, int64_t most)
{
    return v >= least && v <= most;
}

/* Differences of untrusted numbers: unsigned arithmetic cannot trap. */
static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int ends(const char *s, size_t cap)
{
    return hl_text_length(s, cap) < cap;
}

static const char *header_fault(const struct hl_heap_header *h)
{
    if (!fits(h->pid, 1, PID_MAX) || h->state > HL_HEAP_EXEC ||
        h->flags > (HL_HEAP_BYPASSED | HL_HEAP_NEW_BYPASSED) ||
        h->n_slots_used > HL_HEAP_N_SLOTS)
        return "its header says what cannot be";
    if (!ends(h->host, sizeof h->host) || !ends(h->job, sizeof h->job) ||
        !ends(h->key, sizeof h->key))
        return "a name in it has no end";
    if (!fits(h->peak_bytes, 0, IN_USE_MAX) || !fits(h->shared_peak_bytes, 0, IN_USE_MAX))
        return "no peak can be that";
    if (!fits(h->inherited_bytes, -EVER, h->peak_bytes))
        return "what it inherited is above its peak";
    if (!fits(h->vmhwm_bytes, -1, IN_USE_MAX) || !fits(h->vmrss_bytes, -1, IN_USE_MAX))
        return "no resident set can be that large";
    if (!fits(h->peak_time_ns, -EVER, EVER) ||
        !fits(h->shared_peak_time_ns, -EVER, EVER) ||
        !fits(h->load_mono_ns, -EVER, EVER) ||
        (h->end_mono_ns && !fits(minus(h->end_mono_ns, h->load_mono_ns), -EVER, EVER)))
        return "no time can be that";
    return NULL;
}

/* n operations of at most IN_USE_MAX bytes each make up v > 0. */
static int can_be_of(int64_t v, uint64_t n)
{
    return (uint64_t)(v - 1) / IN_USE_MAX < n;
}

static int slot_is_possible(const struct hl_heap_slot *s, int is_taken)
{
    if (!is_taken)
        return !s->allocs && !s->frees && !s->net_bytes;
    if (s->allocs > SLOT_EVER || s->frees > SLOT_EVER || s->net_bytes == INT64_MIN)
        return 0;
    return s->net_bytes > 0 ? can_be_of(s->net_bytes, s->allocs)
                            : !s->net_bytes || can_be_of(-s->net_bytes, s->frees);
}

static const char *sums_fault(uint64_t allocs, uint64_t frees, int64_t live)
{
    if (allocs > frees && allocs - frees > (uint64_t)IN_USE_MAX)
        return "no heap has so many blocks";
    if (live > IN_USE_MAX)
        return "no heap is that large";
    if (live < (frees > allocs ? -EVER : -IN_USE_MAX))
        return "more was released than ever was there";
    return NULL;
}

const char *hl_heap_fault(const struct hl_heap_header *h,
                          const struct hl_heap_slot *slots, size_t n_slots)
{
    uint64_t live = (uint64_t)h->inherited_bytes, allocs = 0, frees = 0;
    const char *fault = header_fault(h);
    for (size_t i = 0; i < n_slots && !fault; i++) {
        if (!slot_is_possible(&slots[i], i < h->n_slots_used))
            fault = "a thread's counters cannot be";
        allocs += slots[i].allocs;
        frees += slots[i].frees;
        live += (uint64_t)slots[i].net_bytes;
    }
    return fault ? fault : sums_fault(allocs, frees, (int64_t)live);
}

/* ---- the record ---- */

size_t hl_heap_slots_to_read(const struct hl_heap_header *h)
{
    uint32_t n = h->n_slots_used;
    return n > HL_HEAP_N_SLOTS ? HL_HEAP_N_SLOTS : n;
}

static void copy_text(char *out, const char *in, size_t max)
{
    size_t n = hl_text_length(in, max);
    memcpy(out, in, n);
    out[n] = 0;
}

static int64_t not_negative(int64_t v)
{
    return v < 0 ? 0 : v;
}

void hl_heap_record(const struct hl_heap_header *h, const struct hl_heap_slot *slots,
                    size_t n_slots, int64_t now_mono_ns, struct hl_record *out)
{
    uint64_t live = (uint64_t)h->inherited_bytes;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < n_slots; i++) {
        out->allocs += slots[i].allocs;
        out->frees += slots[i].frees;
        live += (uint64_t)slots[i].net_bytes;
    }
    out->live_bytes = (int64_t)live;
    out->rank = h->rank < 0 ? -1 : h->rank;
    out->pid = not_negative(h->pid);
    copy_text(out->host, h->host, HL_HOST_MAX);
    copy_text(out->job, h->job, HL_JOB_MAX);
    out->elapsed_ns = not_negative(
        minus(h->end_mono_ns ? h->end_mono_ns : now_mono_ns, h->load_mono_ns));
    /* Several threads hold back what they have not published: the peak is never
     * below what is in use now. */
    int shared = h->shared_peak_bytes > h->peak_bytes;
    out->peak_bytes = not_negative(shared ? h->shared_peak_bytes : h->peak_bytes);
    if (out->live_bytes > out->peak_bytes)
        out->peak_bytes = out->live_bytes;
    out->peak_time_ns = not_negative(shared ? h->shared_peak_time_ns : h->peak_time_ns);
    out->vmhwm_bytes = h->vmhwm_bytes > 0 ? h->vmhwm_bytes : -1;
    out->vmrss_bytes = h->vmrss_bytes > 0 ? h->vmrss_bytes : -1;
}

struct hl_end hl_heap_end(const struct hl_heap_header *h)
{
    switch (h->state) {
    case HL_HEAP_EXIT: return (struct hl_end){HL_ENDED_EXIT, h->end_status & 255};
    case HL_HEAP_EXEC: return (struct hl_end){HL_ENDED_EXEC, 0};
    default: return (struct hl_end){HL_ENDED_KILLED_OR_EXIT, 0};
    }
}
