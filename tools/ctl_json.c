/* SPDX-License-Identifier: Apache-2.0
 *
 * status and jobs as JSON (RFC 8259), written directly; see heaplinectl.h.
 */
#include "heaplinectl.h"

#include "region_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Control characters, in UTF-8 up to U+009F. */
static int control_code(const char *p, size_t n)
{
    unsigned char c = (unsigned char)*p;
    if (n == 1 && (c < 32 || c == 127))
        return c;
    return n == 2 && c == 0xc2 && (unsigned char)p[1] < 0xa0 ? (unsigned char)p[1] : -1;
}

static void put_character(struct ctl_out *o, const char *p, size_t n)
{
    int control = n ? control_code(p, n) : -1;
    if (!n)
        ctl_put(o, "\xef\xbf\xbd");
    else if (control >= 0)
        ctl_put(o, "\\u%04x", (unsigned)control);
    else
        ctl_put(o, "%s%.*s", *p == '"' || *p == '\\' ? "\\" : "", (int)n, p);
}

void ctl_json_text(struct ctl_out *o, struct hl_str s)
{
    char *copy = malloc(s.n + 1); /* with the NUL that ends a cut sequence */
    if (!copy) {
        o->failed = 1;
        return;
    }
    if (s.n)
        memcpy(copy, s.p, s.n);
    copy[s.n] = 0;
    ctl_put(o, "\"");
    for (size_t at = 0; at < s.n;) {
        size_t n = copy[at] ? hl_utf8_sequence(copy + at) : 0;
        put_character(o, copy + at, n);
        at += n ? n : 1;
    }
    ctl_put(o, "\"");
    free(copy);
}

void ctl_json_seconds(struct ctl_out *o, uint64_t ns)
{
    ctl_put(o, "%llu.%09llu", (unsigned long long)(ns / 1000000000),
            (unsigned long long)(ns % 1000000000));
}

/* ---- status ---- */

static void put_name(struct ctl_out *o, const char *name)
{
    ctl_put(o, "  \"%s\": ", name);
}

static void put_text(struct ctl_out *o, const char *name, struct hl_str s)
{
    put_name(o, name);
    ctl_json_text(o, s);
    ctl_put(o, ",\n");
}

/* "uptime_ns" becomes "uptime_s", in seconds. */
static void put_number(struct ctl_out *o, unsigned tag, uint64_t v)
{
    char name[64];
    snprintf(name, sizeof name, "%s", hl_status_info(tag)->name);
    size_t n = strlen(name);
    int is_time = n > 3 && !strcmp(name + n - 3, "_ns");
    if (is_time)
        strcpy(name + n - 2, "s");
    put_name(o, name);
    if (is_time)
        ctl_json_seconds(o, v);
    else
        ctl_put(o, "%llu", (unsigned long long)v);
    ctl_put(o, ",\n");
}

static void put_user(struct ctl_out *o, const struct hl_user_line *u)
{
    ctl_put(o,
            "{\"uid\": %llu, \"connections\": %llu, \"max_connections\": %llu, "
            "\"processes\": %llu, \"max_processes\": %llu, \"jobs\": %llu, "
            "\"max_jobs\": %llu, \"spool_bytes\": %llu, \"quota_bytes\": ",
            (unsigned long long)u->uid, (unsigned long long)u->n_connections,
            (unsigned long long)u->max_connections, (unsigned long long)u->n_processes,
            (unsigned long long)u->max_processes, (unsigned long long)u->n_jobs,
            (unsigned long long)u->max_jobs, (unsigned long long)u->spool_bytes);
    if (u->quota_bytes)
        ctl_put(o, "%llu}", (unsigned long long)u->quota_bytes);
    else
        ctl_put(o, "null}");
}

void ctl_json_status(struct ctl_out *o, const struct ctl_answer *a)
{
    const struct hl_status *s = &a->status;
    ctl_put(o, "{\n");
    put_text(o, "version", s->version);
    put_text(o, "state", (struct hl_str){ctl_state(s), strlen(ctl_state(s))});
    if (s->is_admin) {
        put_text(o, "socket", s->socket);
        put_text(o, "spool", s->spool);
        put_text(o, "last_error", s->last_error);
    }
    for (unsigned i = 0; i < HL_STATUS_N; i++)
        if (s->known[i])
            put_number(o, i, s->value[i]);
    put_name(o, "user");
    if (a->n_users)
        put_user(o, &a->user[0]);
    else
        ctl_put(o, "null");
    ctl_put(o, "\n}\n");
}

/* ---- jobs ---- */

static void put_time(struct ctl_out *o, const char *name, int64_t ns)
{
    ctl_put(o, ", \"%s\": ", name);
    if (ns > 0)
        ctl_json_seconds(o, (uint64_t)ns);
    else
        ctl_put(o, "null");
}

static void put_job(struct ctl_out *o, const struct hl_job_line *j)
{
    ctl_put(o, "{\"key\": ");
    ctl_json_text(o, j->key);
    ctl_put(
        o,
        ", \"uid\": %llu, \"state\": \"%s\", \"processes\": %llu, \"alive\": %llu, "
        "\"keepers\": %llu, \"gathers\": %llu, \"spool_bytes\": %llu, \"rows\": %llu, "
        "\"rows_dropped\": %llu, \"rows_lost\": %llu",
        (unsigned long long)j->uid, hl_job_state_name(j->state),
        (unsigned long long)j->n_processes, (unsigned long long)j->n_alive,
        (unsigned long long)j->n_keepers, (unsigned long long)j->n_gathers,
        (unsigned long long)j->spool_bytes, (unsigned long long)j->n_rows,
        (unsigned long long)j->n_dropped, (unsigned long long)j->n_lost);
    put_time(o, "begun_s", j->begun_ns);
    put_time(o, "ended_s", j->ended_ns);
    put_time(o, "read_s", j->taken_ns);
    ctl_put(o, "}");
}

void ctl_json_jobs(struct ctl_out *o, struct ctl_answer *a)
{
    ctl_put(o, "{\"jobs\": [");
    for (size_t i = 0; i < a->n_jobs; i++) {
        ctl_put(o, i ? ",\n  " : "\n  ");
        put_job(o, &a->job[i]);
    }
    ctl_put(o, a->n_jobs ? "\n]}\n" : "]}\n");
}
