/* SPDX-License-Identifier: Apache-2.0
 *
 * A map from image ids to numbers, 12 bytes a place: thousands of processes must
 * not be compared with each other one by one.
 */
#ifndef HL_IMAGES_H
#define HL_IMAGES_H

#include <stddef.h>
#include <stdint.h>

struct hl_images {
    uint64_t *image; /* 0: a free place */
    uint32_t *value;
    size_t cap, n; /* cap: a power of two */
};

/* A zeroed structure is empty. */
void hl_images_fini(struct hl_images *m);
/* The value's place, or NULL; image 0, unknown, is never found. */
uint32_t *hl_images_find(const struct hl_images *m, uint64_t image);
/* Add an image that is not there (0: nothing happens).  0 or -1 (no memory). */
int hl_images_add(struct hl_images *m, uint64_t image, uint32_t value);

#endif
