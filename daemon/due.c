/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap of times; see due.h.
 */
#include "due.h"

#include <stdlib.h>

static void set(struct hl_due_heap *h, size_t place, struct hl_due *d)
{
    h->at[place - 1] = d;
    d->place = place;
}

static void rise(struct hl_due_heap *h, struct hl_due *d)
{
    size_t i = d->place;
    for (; i > 1 && h->at[i / 2 - 1]->at_ns > d->at_ns; i /= 2)
        set(h, i, h->at[i / 2 - 1]);
    set(h, i, d);
}

static void sink(struct hl_due_heap *h, struct hl_due *d)
{
    size_t i = d->place, k;
    for (; (k = 2 * i) <= h->n; i = k) {
        if (k < h->n && h->at[k]->at_ns < h->at[k - 1]->at_ns)
            k++;
        if (h->at[k - 1]->at_ns >= d->at_ns)
            break;
        set(h, i, h->at[k - 1]);
    }
    set(h, i, d);
}

static int make_room(struct hl_due_heap *h)
{
    if (h->n < h->cap)
        return 0;
    size_t cap = h->cap ? 2 * h->cap : 16;
    struct hl_due **at = realloc(h->at, cap * sizeof *at);
    if (!at)
        return -1;
    h->at = at;
    h->cap = cap;
    return 0;
}

int hl_due_put(struct hl_due_heap *h, struct hl_due *d, int64_t at_ns)
{
    if (!d->place) {
        if (make_room(h))
            return -1;
        h->n++;
        set(h, h->n, d);
    }
    d->at_ns = at_ns;
    rise(h, d);
    sink(h, d);
    return 0;
}

void hl_due_remove(struct hl_due_heap *h, struct hl_due *d)
{
    size_t place = d->place;
    if (!place)
        return;
    struct hl_due *last = h->at[--h->n];
    d->place = 0;
    if (last != d) {
        set(h, place, last);
        rise(h, last);
        sink(h, last);
    }
    if (!h->n)
        hl_due_fini(h);
}

struct hl_due *hl_due_first(const struct hl_due_heap *h)
{
    return h->n ? h->at[0] : NULL;
}

void hl_due_fini(struct hl_due_heap *h)
{
    free(h->at);
    *h = (struct hl_due_heap){.at = NULL};
}

int64_t hl_due_next(int64_t at_ns, int64_t interval_ns, int64_t now_ns)
{
    if (now_ns < at_ns)
        return at_ns;
    return at_ns + ((now_ns - at_ns) / interval_ns + 1) * interval_ns;
}
