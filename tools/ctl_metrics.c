/* SPDX-License-Identifier: Apache-2.0
 *
 * The collector's numbers for monitoring: Prometheus text, version 0.0.4, or one
 * JSON object.  Base units; what grows ends in _total.  See heaplinectl.h.
 */
#include "heaplinectl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct family {
    struct ctl_out *o;
    int as_json, n_families, n_samples;
    char name[80];
    const char *label; /* of its samples, or NULL */
};

/* ---- both forms ---- */

static void begin(struct family *f, const char *name, const char *type, const char *help,
                  const char *label)
{
    snprintf(f->name, sizeof f->name, "heapline_%s", name);
    f->label = label;
    f->n_samples = 0;
    if (f->as_json)
        ctl_put(f->o, "%s  \"%s\": %s", f->n_families ? ",\n" : "", f->name,
                label ? "{" : "");
    else
        ctl_put(f->o, "# HELP %s %c%s.\n# TYPE %s %s\n", f->name,
                *help >= 'a' && *help <= 'z' ? *help - 'a' + 'A' : *help, help + 1,
                f->name, type);
    f->n_families++;
}

/* In a label's value backslash, quote and line break are escaped. */
static void put_label(struct ctl_out *o, struct hl_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\n')
            ctl_put(o, "\\n");
        else
            ctl_put(o, "%s%c", s.p[i] == '"' || s.p[i] == '\\' ? "\\" : "", s.p[i]);
    }
}

/* What stands before the number. */
static void begin_sample(struct family *f, const char *label_value)
{
    struct hl_str value = {label_value, label_value ? strlen(label_value) : 0};
    if (f->as_json && f->label) {
        ctl_put(f->o, "%s", f->n_samples ? ", " : "");
        ctl_json_text(f->o, value);
        ctl_put(f->o, ": ");
    } else if (!f->as_json) {
        ctl_put(f->o, "%s", f->name);
        if (f->label) {
            ctl_put(f->o, "{%s=\"", f->label);
            put_label(f->o, value);
            ctl_put(f->o, "\"}");
        }
        ctl_put(f->o, " ");
    }
    f->n_samples++;
}

static void sample(struct family *f, const char *label_value, uint64_t v)
{
    begin_sample(f, label_value);
    ctl_put(f->o, f->as_json ? "%llu" : "%llu\n", (unsigned long long)v);
}

static void end(struct family *f)
{
    if (f->as_json && f->label)
        ctl_put(f->o, "}");
}

/* ---- numbers of STATUS ---- */

/* Families of several numbers, told apart by a label. */
static const struct group {
    const char *prefix, *name, *label, *help;
} groups[] = {
    {"jobs_removed_", "jobs_removed", "cause", "jobs removed, by whether they were read"},
    {"jobs_", "jobs", "state", "jobs by state"},
    {"refused_", "refused", "reason", "connections refused, by reason"},
};

static const struct group *group_of(unsigned tag)
{
    const struct hl_status_info *info = hl_status_info(tag);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strncmp(info->name, groups[i].prefix, strlen(groups[i].prefix)) == 0 &&
            info->is_counter == (i != 1))
            return &groups[i];
    return NULL;
}

static void put_group(struct family *f, const struct hl_status *s, const struct group *g)
{
    char name[64];
    int is_counter = g != &groups[1];
    snprintf(name, sizeof name, "%s%s", g->name, is_counter ? "_total" : "");
    begin(f, name, is_counter ? "counter" : "gauge", g->help, g->label);
    for (unsigned i = 0; i < HL_STATUS_N; i++)
        if (s->known[i] && group_of(i) == g)
            sample(f, hl_status_info(i)->name + strlen(g->prefix), s->value[i]);
    end(f);
}

static void put_alone(struct family *f, const struct hl_status *s, unsigned tag)
{
    const struct hl_status_info *info = hl_status_info(tag);
    const char *type = info->is_counter ? "counter" : "gauge";
    char name[64];
    size_t n = strlen(info->name);
    if (n > 3 && !strcmp(info->name + n - 3, "_ns")) {
        snprintf(name, sizeof name, "%.*s_seconds", (int)n - 3, info->name);
        begin(f, name, type, info->help, NULL);
        begin_sample(f, NULL);
        ctl_json_seconds(f->o, s->value[tag]);
        ctl_put(f->o, f->as_json ? "" : "\n");
        return;
    }
    snprintf(name, sizeof name, "%s%s%s", strcmp(info->name, "bytes") ? "" : "received_",
             info->name, info->is_counter ? "_total" : "");
    begin(f, name, type, info->help, NULL);
    sample(f, NULL, s->value[tag]);
}

static void put_status(struct family *f, const struct hl_status *s)
{
    int done[sizeof groups / sizeof *groups] = {0};
    for (unsigned i = 0; i < HL_STATUS_N; i++) {
        const struct group *g = s->known[i] ? group_of(i) : NULL;
        if (g && !done[g - groups]++)
            put_group(f, s, g);
        else if (s->known[i] && !g)
            put_alone(f, s, i);
    }
}

/* ---- users ---- */

static int by_spool(const void *x, const void *y)
{
    const struct hl_user_line *a = x, *b = y;
    if (a->spool_bytes != b->spool_bytes)
        return a->spool_bytes > b->spool_bytes ? -1 : 1;
    return (a->uid > b->uid) - (a->uid < b->uid);
}

static void put_users(struct family *f, struct ctl_answer *a)
{
    size_t n = a->n_users < CTL_TOP_USERS ? a->n_users : CTL_TOP_USERS, n_quota = 0;
    char uid[CTL_NUMBER_CAP];
    if (n)
        qsort(a->user, a->n_users, sizeof *a->user, by_spool);
    if (n)
        begin(f, "user_spool_bytes", "gauge", "bytes in the spools of the largest users",
              "uid");
    for (size_t i = 0; i < n; i++) {
        snprintf(uid, sizeof uid, "%llu", (unsigned long long)a->user[i].uid);
        sample(f, uid, a->user[i].spool_bytes);
        n_quota += a->user[i].quota_bytes != 0;
    }
    if (n)
        end(f);
    if (!n_quota)
        return;
    begin(f, "user_quota_bytes", "gauge", "bytes that their spools may hold", "uid");
    for (size_t i = 0; i < n; i++) {
        snprintf(uid, sizeof uid, "%llu", (unsigned long long)a->user[i].uid);
        if (a->user[i].quota_bytes)
            sample(f, uid, a->user[i].quota_bytes);
    }
    end(f);
}

/* ---- all ---- */

static void put_build(struct family *f, const struct hl_status *s)
{
    char version[256];
    begin(f, "build_info", "gauge", "version of the collector", "version");
    sample(f, ctl_text(s->version, version, sizeof version), 1);
    end(f);
}

void ctl_show_metrics(struct ctl_out *o, struct ctl_answer *a, int as_json)
{
    struct family f = {.o = o, .as_json = as_json};
    if (as_json)
        ctl_put(o, "{\n");
    begin(&f, "up", "gauge", "1 when the collector answers", NULL);
    sample(&f, NULL, a != NULL);
    if (a) {
        put_build(&f, &a->status);
        put_status(&f, &a->status);
        put_users(&f, a);
    }
    if (as_json)
        ctl_put(o, "\n}\n");
}
