/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling in a struct hl_err; see err.h.
 */
#include "err.h"

#include "ulimits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Texts may quote names out of files and messages: one line it must stay, and no
 * terminal may take orders from it. */
static void make_plain(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 32 || *s == 127)
            *s = '?';
}

/* A limit that the user has set is told as the cause. */
static void add_hint(struct hl_err *e)
{
    char hint[128];
    size_t n = strlen(e->text), k = strlen(hl_limit_hint(e->code, hint, sizeof hint));
    if (n + k < sizeof e->text)
        memcpy(e->text + n, hint, k + 1);
}

int hl_fail(struct hl_err *e, int code, const char *format, ...)
{
    va_list ap;
    if (!e)
        return -1;
    e->code = code;
    va_start(ap, format);
    vsnprintf(e->text, sizeof e->text, format, ap);
    va_end(ap);
    make_plain(e->text);
    add_hint(e);
    return -1;
}

int hl_fail_errno(struct hl_err *e, const char *format, ...)
{
    int saved = errno;
    char why[96];
    va_list ap;
    if (!e)
        return -1;
    e->code = saved;
    va_start(ap, format);
    vsnprintf(e->text, sizeof e->text, format, ap);
    va_end(ap);
    make_plain(e->text);
    /* The GNU strerror_r: thread-safe, and its answer may lie elsewhere. */
    const char *s = strerror_r(saved, why, sizeof why);
    size_t n = strlen(e->text), room = sizeof e->text - n;
    if (room < strlen(s) + 3) {
        n = sizeof e->text - strlen(s) - 3;
        room = sizeof e->text - n;
    }
    snprintf(e->text + n, room, ": %s", s);
    add_hint(e);
    return -1;
}

int hl_fail_in(struct hl_err *e, const char *format, ...)
{
    char old[sizeof e->text];
    va_list ap;
    if (!e)
        return -1;
    memcpy(old, e->text, sizeof old);
    va_start(ap, format);
    int n = vsnprintf(e->text, sizeof e->text, format, ap);
    va_end(ap);
    make_plain(e->text);
    if (n >= 0 && (size_t)n < sizeof e->text)
        snprintf(e->text + n, sizeof e->text - (size_t)n, ": %.*s",
                 (int)(sizeof e->text - (size_t)n), old);
    return -1;
}

void hl_printable(const char *s, size_t n, char *out, size_t cap)
{
    static const char hex[] = "0123456789abcdef";
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        int plain = c >= 32 && c < 127 && c != '\\';
        if (at + (plain ? 1 : 4) >= cap)
            break;
        if (plain) {
            out[at++] = (char)c;
        } else {
            out[at++] = '\\';
            out[at++] = 'x';
            out[at++] = hex[c >> 4];
            out[at++] = hex[c & 15];
        }
    }
    if (cap)
        out[at] = 0;
}
