/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of one kind in a session, metrics or region paths, in order of
 * registration, found by hash.  The holder has the names lock.
 */
#ifndef HL_CLIENT_NAMES_H
#define HL_CLIENT_NAMES_H

#include "memory.h"

#define HL_NAME_NONE UINT32_MAX

struct hl_name {
    const char *text; /* stays in place while the session lives */
    uint32_t len, hash;
};

struct hl_name_list {
    struct hl_bytes names; /* of struct hl_name */
    struct hl_bytes index; /* of uint32_t, 0: free, else the number plus one */
    struct hl_arena texts;
    uint32_t n;
};

static inline const struct hl_name *hl_name_at(const struct hl_name_list *l, uint32_t i)
{
    return (const struct hl_name *)(const void *)l->names.p + i;
}

/* Number of a name, or HL_NAME_NONE. */
uint32_t hl_name_find(const struct hl_name_list *l, const char *s, size_t len);
/* Add a name that is not there. 0 or -1: no memory. */
int hl_name_add(struct hl_name_list *l, const char *s, size_t len);
void hl_names_free(struct hl_name_list *l);

/* FNV-1a, continuing from h. */
static inline uint32_t hl_name_hash(uint32_t h, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}
#define HL_NAME_HASH 2166136261u

#endif
