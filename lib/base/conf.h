/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of `key = value` lines with # comments.  An unknown key, a repeated key
 * or a bad value is an error that names file and line; nothing is guessed.
 */
#ifndef HL_CONF_H
#define HL_CONF_H

#include "err.h"

#include <stddef.h>
#include <stdint.h>

enum { HL_CONF_KEYS_MAX = 64, HL_CONF_FILE_MAX = 1 << 20, HL_CONF_VALUE_MAX = 4095 };

struct hl_conf_key {
    const char *name;
    /* Take a value (not empty, without blanks around it, printable).  at: the
     * caller's structure plus offset.  0, or -1 with *why a reason such as
     * "must be a whole number from 1 to 10". */
    int (*set)(void *at, const char *value, const char **why);
    size_t offset;
};

/* Parse n bytes of text; name is for messages.  out may be partly filled when
 * -1 is returned: parse into a copy. */
int hl_conf_parse(const char *name, const char *text, size_t n,
                  const struct hl_conf_key *keys, size_t n_keys, void *out,
                  struct hl_err *e);
/* The same from a file.  1: there is none (e untouched). */
int hl_conf_load(const char *path, const struct hl_conf_key *keys, size_t n_keys,
                 void *out, struct hl_err *e);

/* "10", "250ms", "10s", "5m", "2h", "7d" to nanoseconds; a bare number is
 * seconds.  0, or -1. */
int hl_conf_duration(const char *value, int64_t *out_ns);

#endif
