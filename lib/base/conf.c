/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of key = value files; see conf.h.
 */
#include "conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct line {
    const char *name; /* of the file */
    size_t number;
    const char *p;
    size_t n;
};

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const char **p, size_t *n)
{
    while (*n && is_blank(**p))
        (*p)++, (*n)--;
    while (*n && is_blank((*p)[*n - 1]))
        (*n)--;
}

static int bad_line(const struct line *l, struct hl_err *e, const char *what,
                    const char *text, size_t n)
{
    char shown[80];
    hl_printable(text, n, shown, sizeof shown);
    return hl_fail(e, HL_ERR_FORMAT, "%s:%zu: %s '%s'", l->name, l->number, what, shown);
}

static int printable(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] < 32 || p[i] == 127)
            return 0;
    return 1;
}

static int take_value(const struct line *l, const struct hl_conf_key *k, const char *p,
                      size_t n, void *out, struct hl_err *e)
{
    char value[HL_CONF_VALUE_MAX + 1], shown[80];
    const char *why = "is not valid";
    if (!n)
        return hl_fail(e, HL_ERR_FORMAT, "%s:%zu: %s has no value", l->name, l->number,
                       k->name);
    if (n > HL_CONF_VALUE_MAX || !printable(p, n))
        return hl_fail(e, HL_ERR_FORMAT,
                       "%s:%zu: the value of %s is too long or not text", l->name,
                       l->number, k->name);
    memcpy(value, p, n);
    value[n] = 0;
    if (k->set((char *)out + k->offset, value, &why) == 0)
        return 0;
    hl_printable(p, n, shown, sizeof shown);
    return hl_fail(e, HL_ERR_FORMAT, "%s:%zu: %s = %s: %s", l->name, l->number, k->name,
                   shown, why);
}

static int take_line(const struct line *l, const struct hl_conf_key *keys, size_t n_keys,
                     size_t *seen, void *out, struct hl_err *e)
{
    const char *p = l->p, *hash = memchr(l->p, '#', l->n);
    size_t n = hash ? (size_t)(hash - p) : l->n;
    trim(&p, &n);
    if (!n)
        return 0;
    const char *equal = memchr(p, '=', n);
    if (!equal)
        return bad_line(l, e, "expected key = value, not", p, n);
    const char *key = p, *value = equal + 1;
    size_t key_n = (size_t)(equal - p), value_n = n - key_n - 1;
    trim(&key, &key_n);
    trim(&value, &value_n);
    for (size_t i = 0; i < n_keys; i++) {
        if (strlen(keys[i].name) != key_n || memcmp(keys[i].name, key, key_n) != 0)
            continue;
        if (seen[i])
            return hl_fail(e, HL_ERR_FORMAT, "%s:%zu: %s was set before, in line %zu",
                           l->name, l->number, keys[i].name, seen[i]);
        seen[i] = l->number;
        return take_value(l, &keys[i], value, value_n, out, e);
    }
    return bad_line(l, e, "unknown key", key, key_n);
}

int hl_conf_parse(const char *name, const char *text, size_t n,
                  const struct hl_conf_key *keys, size_t n_keys, void *out,
                  struct hl_err *e)
{
    size_t seen[HL_CONF_KEYS_MAX] = {0};
    struct line l = {name, 0, text, 0};
    if (n_keys > HL_CONF_KEYS_MAX)
        return hl_fail(e, EINVAL, "too many keys");
    while (n) {
        const char *end = memchr(l.p, '\n', n);
        l.n = end ? (size_t)(end - l.p) : n;
        l.number++;
        if (take_line(&l, keys, n_keys, seen, out, e))
            return -1;
        size_t used = l.n + (end ? 1 : 0);
        l.p += used;
        n -= used;
    }
    return 0;
}

static char *read_text(int fd, size_t *n)
{
    char *text = malloc(HL_CONF_FILE_MAX + 1);
    *n = 0;
    while (text && *n <= HL_CONF_FILE_MAX) {
        ssize_t k = read(fd, text + *n, HL_CONF_FILE_MAX + 1 - *n);
        if (k == 0)
            return text;
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            break;
        *n += (size_t)k;
    }
    if (text && *n > HL_CONF_FILE_MAX)
        errno = EFBIG;
    free(text);
    return NULL;
}

int hl_conf_load(const char *path, const struct hl_conf_key *keys, size_t n_keys,
                 void *out, struct hl_err *e)
{
    size_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && errno == ENOENT)
        return 1;
    char *text = fd < 0 ? NULL : read_text(fd, &n);
    if (!text)
        hl_fail_errno(e, "cannot read the configuration %s", path);
    if (fd >= 0)
        close(fd);
    int r = text ? hl_conf_parse(path, text, n, keys, n_keys, out, e) : -1;
    free(text);
    return r;
}

int hl_conf_duration(const char *value, int64_t *out_ns)
{
    static const struct {
        const char *suffix;
        int64_t ns;
    } units[] = {{"", 1000000000},   {"ms", 1000000},      {"s", 1000000000},
                 {"m", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000}};
    int64_t v = 0;
    const char *p = value;
    if (*p < '0' || *p > '9')
        return -1;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
            return -1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(p, units[i].suffix) == 0)
            return __builtin_mul_overflow(v, units[i].ns, out_ns) ? -1 : 0;
    return -1;
}
