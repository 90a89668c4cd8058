/* SPDX-License-Identifier: Apache-2.0
 *
 * The three-line heap record; see record.h.
 */
#include "record.h"

#include "bound.h"

#include <string.h>

size_t hl_format_u64(uint64_t v, char *out)
{
    char tmp[20];
    size_t n = 0;
    do
        tmp[n++] = (char)('0' + v % 10);
    while (v /= 10);
    for (size_t i = 0; i < n; i++)
        out[i] = tmp[n - 1 - i];
    return n;
}

size_t hl_format_i64(int64_t v, char *out)
{
    if (v >= 0)
        return hl_format_u64((uint64_t)v, out);
    *out = '-';
    return 1 + hl_format_u64(0 - (uint64_t)v, out + 1);
}

size_t hl_format_seconds(int64_t ns, char *out)
{
    uint64_t ms = ns < 0 ? 0 : (uint64_t)ns / 1000000;
    size_t n = hl_format_u64(ms / 1000, out);
    out[n++] = '.';
    out[n++] = (char)('0' + ms / 100 % 10);
    out[n++] = (char)('0' + ms / 10 % 10);
    out[n++] = (char)('0' + ms % 10);
    return n;
}

/* Text that grows in a buffer that is known to be large enough. */
struct text {
    char *p;
    size_t n;
};

static void add_i64(struct text *t, int64_t v)
{
    t->n += hl_format_i64(v, t->p + t->n);
    t->p[t->n++] = ',';
}

static void add_u64(struct text *t, uint64_t v)
{
    t->n += hl_format_u64(v, t->p + t->n);
    t->p[t->n++] = ',';
}

static void add_seconds(struct text *t, int64_t ns)
{
    t->n += hl_format_seconds(ns, t->p + t->n);
    t->p[t->n++] = ',';
}

static void add_name(struct text *t, const char *s, size_t max)
{
    for (size_t i = 0; i < max && s[i]; i++) {
        char c = s[i];
        t->p[t->n++] =
            c == ',' || c == '"' || c == '\'' || c == '\n' || c == '\r' ? '_' : c;
    }
    t->p[t->n++] = ',';
}

size_t hl_record_row(const struct hl_record *r, char *out, size_t cap)
{
    if (cap < HL_RECORD_ROW_MAX)
        return 0;
    struct text t = {out, 0};
    add_i64(&t, r->rank);
    add_name(&t, r->host, HL_HOST_MAX);
    add_i64(&t, r->pid);
    add_name(&t, r->job, HL_JOB_MAX);
    add_seconds(&t, r->elapsed_ns);
    add_u64(&t, r->allocs);
    add_u64(&t, r->frees);
    add_i64(&t, r->peak_bytes);
    add_seconds(&t, r->peak_time_ns);
    add_i64(&t, r->live_bytes);
    add_i64(&t, r->vmhwm_bytes);
    add_i64(&t, r->vmrss_bytes);
    out[t.n - 1] = '\n';
    return t.n;
}

size_t hl_record_text(const struct hl_record *r, char *out, size_t cap)
{
    static const char head[] = HL_RECORD_VERSION_LINE HL_RECORD_COLUMN_LINE;
    const size_t n = sizeof head - 1;
    if (cap < HL_RECORD_TEXT_MAX)
        return 0;
    memcpy(out, head, n);
    return n + hl_record_row(r, out + n, cap - n);
}

size_t hl_record_file_name(const char *pattern, int64_t pid, int64_t rank,
                           const char *host, char *out, size_t cap)
{
    size_t n = 0;
    for (const char *s = pattern; *s; s++) {
        char number[24];
        const char *put = s;
        size_t len = 1;
        if (*s == '%' && (s[1] == 'p' || s[1] == 'r')) {
            len = hl_format_i64(s[1] == 'p' ? pid : rank, number);
            put = number;
            s++;
        } else if (*s == '%' && s[1] == 'h') {
            put = host;
            len = hl_text_length(host, HL_HOST_MAX);
            s++;
        }
        if (len >= cap - n)
            return 0;
        memcpy(out + n, put, len);
        n += len;
    }
    if (n >= cap)
        return 0;
    out[n] = 0;
    return n;
}
