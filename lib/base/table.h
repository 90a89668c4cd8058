/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash map from short byte strings to pointers.  Keys are copied, values are
 * the caller's.  Not thread-safe; owned by its holder.
 */
#ifndef HL_TABLE_H
#define HL_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct hl_table_slot {
    uint64_t hash;
    void *key; /* NULL: never used; a mark of table.c: removed */
    size_t key_bytes;
    void *value;
};

struct hl_table {
    struct hl_table_slot *slot;
    size_t cap;  /* a power of two, or 0 */
    size_t n;    /* entries */
    size_t used; /* entries and removed ones */
};

/* A zeroed structure is an empty table.  fini frees the keys, never a value. */
void hl_table_fini(struct hl_table *t);
/* Put or replace; 0, or -1 (no memory; nothing changed). */
int hl_table_put(struct hl_table *t, const void *key, size_t n, void *value);
/* The value, or NULL. */
void *hl_table_get(const struct hl_table *t, const void *key, size_t n);
/* Take an entry out; returns its value or NULL. */
void *hl_table_remove(struct hl_table *t, const void *key, size_t n);
/* Give memory back when most entries are gone; not during a walk. */
void hl_table_shrink(struct hl_table *t);
/* Walk in no order: *at begins at 0; NULL at the end.  The entry just given may
 * be removed on the way; nothing may be put. */
void *hl_table_next(const struct hl_table *t, size_t *at);

#endif
