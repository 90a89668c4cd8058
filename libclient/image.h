/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap agent as the client library meets it, if it is there: through one
 * weak function.  It owns the image id; without it the library draws its own.
 */
#ifndef HL_CLIENT_IMAGE_H
#define HL_CLIENT_IMAGE_H

#include "heap_page.h"

/* The agent's page, or NULL. */
const struct hl_heap_header *hl_agent_page(void);

/* Id of this image, the same for both agents; not 0. */
uint64_t hl_image(void);

/* In a forked child: the next image id is a new one. */
void hl_image_forget(void);

#endif
