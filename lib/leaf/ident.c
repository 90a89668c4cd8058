/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank, size, key and the names made from them; see ident.h.
 */
#include "ident.h"

#include "bound.h"
#include "record.h"

#include <string.h>

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int hl_parse_i64(const char *s, int64_t lo, int64_t hi, int64_t *out)
{
    int negative = *s == '-';
    int64_t v = 0;
    s += negative;
    if (!is_digit(*s))
        return -1;
    for (; is_digit(*s); s++) {
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, negative ? -(*s - '0') : *s - '0', &v))
            return -1;
    }
    if (*s || v < lo || v > hi)
        return -1;
    *out = v;
    return 0;
}

int hl_parse_size(const char *s, uint64_t lo, uint64_t hi, uint64_t *out)
{
    uint64_t v = 0;
    unsigned shift = 0;
    if (!is_digit(*s))
        return -1;
    for (; is_digit(*s); s++)
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            return -1;
    switch (*s) {
    case 'G':
    case 'g': shift += 10; /* fall through */
    case 'M':
    case 'm': shift += 10; /* fall through */
    case 'K':
    case 'k':
        shift += 10;
        s++;
        break;
    default: break;
    }
    if (*s || v > UINT64_MAX >> shift || v << shift < lo || v << shift > hi)
        return -1;
    *out = v << shift;
    return 0;
}

int hl_parse_seconds(const char *s, int64_t lo_ns, int64_t hi_ns, int64_t *out)
{
    int64_t v = 0, unit = 1000000000;
    int digits = 0;
    for (; is_digit(*s); s++, digits++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s - '0', &v))
            return -1;
    if (__builtin_mul_overflow(v, unit, &v))
        return -1;
    if (*s == '.')
        for (s++; is_digit(*s); s++, digits++) {
            unit /= 10;
            if (__builtin_add_overflow(v, unit * (*s - '0'), &v))
                return -1;
        }
    if (*s || !digits || v < lo_ns || v > hi_ns)
        return -1;
    *out = v;
    return 0;
}

int hl_parse_interval(const char *s, int64_t *ns)
{
    return hl_parse_seconds(s, 10000000, 86400 * (int64_t)1000000000, ns);
}

static int number(hl_getenv_fn *env, const char *name, int64_t lo, int32_t *out)
{
    const char *s = env(name);
    int64_t v;
    if (!s || hl_parse_i64(s, lo, INT32_MAX, &v))
        return -1;
    *out = (int32_t)v;
    return 0;
}

int hl_ident_in_slurm_step(hl_getenv_fn *env)
{
    const char *s = env("SLURM_STEP_ID");
    int64_t v;
    return s && hl_parse_i64(s, 0, 4294967279, &v) == 0;
}

static const struct {
    const char *rank, *size;
} families[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMIX_RANK", NULL},
    {"PMI_RANK", "PMI_SIZE"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"SLURM_PROCID", NULL},
};

static int family(hl_getenv_fn *env, int32_t *rank)
{
    for (int i = 0; i < (int)(sizeof families / sizeof *families); i++)
        if (number(env, families[i].rank, 0, rank) == 0)
            return i;
    return -1;
}

int32_t hl_ident_rank(hl_getenv_fn *env)
{
    int32_t rank = -1;
    family(env, &rank);
    return rank;
}

int32_t hl_ident_size(hl_getenv_fn *env)
{
    int32_t rank = -1, size = -1;
    int f = family(env, &rank);
    if (f < 0)
        return -1;
    if (families[f].size)
        number(env, families[f].size, 1, &size);
    else if (hl_ident_in_slurm_step(env))
        number(env, "SLURM_STEP_NUM_TASKS", 1, &size);
    return size;
}

const char *hl_ident_job(hl_getenv_fn *env)
{
    const char *s = env("SLURM_JOB_ID");
    return s ? s : "";
}

size_t hl_ident_key(hl_getenv_fn *env, int64_t session_id, char *out)
{
    static const char *const names[] = {"HEAPLINE_JOB", "SLURM_JOB_ID", "PBS_JOBID",
                                        "LSB_JOBID", "FLUX_JOB_ID"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !n; i++) {
        const char *s = env(names[i]);
        n = s ? hl_text_length(s, HL_KEY_MAX) : 0;
        if (n)
            memcpy(out, s, n);
    }
    if (!n) {
        memcpy(out, "uid-", 4);
        n = 4 + hl_format_i64(session_id, out + 4);
    }
    out[n] = 0;
    return n;
}

static const char hex[] = "0123456789abcdef";

static size_t put_hex64(uint64_t v, char *out)
{
    for (int i = 0; i < 16; i++)
        out[i] = hex[v >> (60 - 4 * i) & 15];
    return 16;
}

/* FNV-1a; collisions only make two long keys share a folder name, and every
 * file in it still carries its key. */
static uint64_t hash_key(const char *key)
{
    uint64_t h = 14695981039346656037u;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 1099511628211u;
    return h;
}

static int is_plain(char c, int first)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || (c == '.' && !first);
}

size_t hl_escape_key(const char *key, size_t max, char *out)
{
    size_t n = 0;
    if (max > HL_KEY_NAME_MAX)
        max = HL_KEY_NAME_MAX;
    for (const char *s = key; *s; s++) {
        int plain = is_plain(*s, s == key);
        if (n + (plain ? 1 : 3) > max) {
            out[0] = 'h';
            n = 1 + put_hex64(hash_key(key), out + 1);
            break;
        }
        if (plain) {
            out[n++] = *s;
        } else {
            out[n++] = '%';
            out[n++] = hex[(unsigned char)*s >> 4];
            out[n++] = hex[(unsigned char)*s & 15];
        }
    }
    if (!n)
        out[n++] = '_';
    out[n] = 0;
    return n;
}

size_t hl_process_file_name(const char *key, int64_t pid, uint64_t image,
                            const char *suffix, char *out)
{
    size_t n = hl_escape_key(key, HL_KEY_NAME_MAX, out);
    out[n++] = '.';
    n += hl_format_i64(pid, out + n);
    out[n++] = '.';
    n += put_hex64(image, out + n);
    size_t len = hl_text_length(suffix, HL_NAME_CAP);
    if (len >= HL_NAME_CAP - n)
        len = HL_NAME_CAP - n - 1;
    memcpy(out + n, suffix, len);
    n += len;
    out[n] = 0;
    return n;
}

static int hex_digit(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "%XX" or one that stands for itself; returns the bytes read, 0: neither. */
static size_t unescape(const char *s, char *out)
{
    if (*s != '%') {
        *out = *s;
        return 1;
    }
    int high = hex_digit(s[1]), low = high < 0 ? -1 : hex_digit(s[2]);
    if (low < 0)
        return 0;
    *out = (char)(high << 4 | low);
    return 3;
}

static int key_of_name(const char *name, size_t n, char *key)
{
    size_t k = 0, used;
    for (size_t i = 0; i < n; i += used) {
        used = k < HL_KEY_MAX ? unescape(name + i, key + k++) : 0;
        if (!used || i + used > n)
            return -1;
    }
    key[k] = 0;
    return k ? 0 : -1;
}

/* The last part of name[0..*n), behind a '.', which is taken off. */
static const char *last_part(const char *name, size_t *n)
{
    size_t end = *n;
    while (*n && name[*n - 1] != '.')
        --*n;
    if (!*n || *n == end)
        return NULL;
    return name + (*n)--;
}

int hl_process_of_file_name(const char *name, const char *suffix, char *key, int64_t *pid,
                            uint64_t *image)
{
    char again[HL_NAME_CAP], number[24] = "";
    size_t all = hl_text_length(name, HL_NAME_CAP);
    size_t k = hl_text_length(suffix, HL_NAME_CAP), n = all - k;
    if (all >= HL_NAME_CAP || all <= k)
        return -1;
    const char *digits = last_part(name, &n);
    size_t before = n;
    const char *process = digits ? last_part(name, &n) : NULL;
    if (!process || before - n - 1 >= sizeof number)
        return -1;
    *image = 0;
    for (int c; (c = hex_digit(*digits)) >= 0; digits++)
        *image = *image << 4 | (uint64_t)c;
    memcpy(number, process, before - n - 1);
    if (hl_parse_i64(number, 1, INT64_MAX, pid) || key_of_name(name, n, key))
        return -1;
    if (hl_process_file_name(key, *pid, *image, suffix, again) != all)
        return -1;
    return memcmp(again, name, all) ? -1 : 0;
}

size_t hl_private_base(uint32_t uid, char *out)
{
    return hl_fallback_dir("/tmp", uid, out, HL_NAME_CAP);
}

size_t hl_private_dir(uint32_t uid, const char *key, char *out)
{
    size_t n = hl_private_base(uid, out);
    out[n++] = '/';
    return n + hl_escape_key(key, HL_KEY_DIR_MAX, out + n);
}

size_t hl_fallback_dir(const char *fallback_dir, uint32_t uid, char *out, size_t cap)
{
    static const char mid[] = "/heapline-";
    size_t n = hl_text_length(fallback_dir, cap);
    if (n + sizeof mid + 11 > cap)
        return 0;
    memcpy(out, fallback_dir, n);
    memcpy(out + n, mid, sizeof mid - 1);
    n += sizeof mid - 1;
    n += hl_format_u64(uid, out + n);
    out[n] = 0;
    return n;
}
