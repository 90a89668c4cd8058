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

/* Differences of untrusted numbers: unsigned arithmetic cannot trap. */
static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
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
