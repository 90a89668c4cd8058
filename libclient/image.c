/* SPDX-License-Identifier: Apache-2.0
 *
 * Image id and live heap figures; see image.h.
 */
#include "image.h"

#include "session.h"
#include "sys.h"

#include <sys/random.h>

/* In libheapline-preload.so, version node HEAPLINE_PRIVATE. */
extern struct hl_heap_header *heapline_agent_v1(void) __attribute__((weak));

static uint64_t own_image; /* drawn under the frame lock; 0: not yet */

const struct hl_heap_header *hl_agent_page(void)
{
    const struct hl_heap_header *h = heapline_agent_v1 ? heapline_agent_v1() : NULL;
    return h && hl_heap_header_ok(h) ? h : NULL;
}

static uint64_t draw(void)
{
    uint64_t v = 0;
    if (getrandom(&v, sizeof v, GRND_NONBLOCK) != sizeof v || !v)
        v = (uint64_t)hl_sys_now() ^ (uint64_t)getpid() << 32 ^ (uintptr_t)&v;
    return v;
}

uint64_t hl_image(void)
{
    const struct hl_heap_header *h = hl_agent_page();
    if (h && h->image)
        return h->image;
    if (!own_image)
        own_image = draw();
    return own_image;
}

void hl_image_forget(void)
{
    own_image = 0;
}

int heapline_get_stats(struct heapline_stats *out)
{
    const struct hl_heap_header *h = hl_agent_page();
    struct hl_record r;
    if (!out)
        return HEAPLINE_EINVAL;
    *out = (struct heapline_stats){0};
    if (!h)
        return 0;
    const void *slots = (const char *)h + HL_HEAP_PAGE_HEADER;
    hl_heap_record(h, slots, hl_heap_slots_to_read(h), hl_sys_now(), &r);
    out->allocs = r.allocs;
    out->frees = r.frees;
    out->live_bytes = r.live_bytes;
    out->peak_bytes = r.peak_bytes;
    out->peak_time_s = (double)r.peak_time_ns * 1e-9;
    out->elapsed_s = (double)r.elapsed_ns * 1e-9;
    return 0;
}
