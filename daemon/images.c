/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing by image id; see images.h.
 */
#include "images.h"

#include <stdlib.h>
#include <string.h>

void hl_images_fini(struct hl_images *m)
{
    free(m->image);
    free(m->value);
    memset(m, 0, sizeof *m);
}

/* Ids are random, but a client may choose its own. */
static size_t place(const struct hl_images *m, uint64_t image)
{
    size_t i = (size_t)((image * 0x9e3779b97f4a7c15u) >> 20) & (m->cap - 1);
    while (m->image[i] && m->image[i] != image)
        i = (i + 1) & (m->cap - 1);
    return i;
}

uint32_t *hl_images_find(const struct hl_images *m, uint64_t image)
{
    if (!image || !m->cap)
        return NULL;
    size_t i = place(m, image);
    return m->image[i] ? &m->value[i] : NULL;
}

static int grow(struct hl_images *m)
{
    struct hl_images big = {.cap = m->cap ? 2 * m->cap : 64, .n = m->n};
    big.image = calloc(big.cap, sizeof *big.image);
    big.value = malloc(big.cap * sizeof *big.value);
    if (!big.image || !big.value) {
        hl_images_fini(&big);
        return -1;
    }
    for (size_t i = 0; i < m->cap; i++) {
        if (!m->image[i])
            continue;
        size_t k = place(&big, m->image[i]);
        big.image[k] = m->image[i];
        big.value[k] = m->value[i];
    }
    hl_images_fini(m);
    *m = big;
    return 0;
}

int hl_images_add(struct hl_images *m, uint64_t image, uint32_t value)
{
    if (!image)
        return 0;
    if (4 * (m->n + 1) > 3 * m->cap && grow(m))
        return -1;
    size_t i = place(m, image);
    m->n += m->image[i] == 0;
    m->image[i] = image;
    m->value[i] = value;
    return 0;
}
