/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of heaplined.conf; see settings.h.
 */
#include "settings.h"

#include "conf.h"
#include "ident.h"

#include <errno.h>
#include <grp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SECOND ((int64_t)1000000000)
#define DAY (86400 * SECOND)

void hl_settings_init(struct hl_settings *s)
{
    *s = (struct hl_settings){.socket = "/run/heapline/collector.sock",
                              .spool = "/var/spool/heapline",
                              .log_level = HL_LOG_INFO,
                              .log_burst = 10,
                              .quota_per_uid = {0, 10},
                              .quota_total = {0, 50},
                              .min_free = {0, 5},
                              .sample_interval_ns = SECOND,
                              .min_interval_ns = SECOND / 10,
                              .job_keep_ns = 7 * DAY,
                              .job_keep_read_ns = DAY,
                              .hello_timeout_ns = 10 * SECOND,
                              .sync_interval_ns = 5 * SECOND,
                              .max_processes = 8192,
                              .max_processes_per_uid = 4608,
                              .max_jobs_per_uid = 256,
                              .max_message = 1 << 20,
                              .max_message_rate = 10000000,
                              .admin_gid = -1};
}

static int set_path(char *at, size_t cap, const char *value, const char **why)
{
    *why = "must be an absolute path that fits";
    if (value[0] != '/' || strlen(value) >= cap)
        return -1;
    strcpy(at, value);
    return 0;
}

static int set_socket(void *at, const char *value, const char **why)
{
    return set_path(at, sizeof((struct hl_settings *)0)->socket, value, why);
}

static int set_spool(void *at, const char *value, const char **why)
{
    return set_path(at, PATH_MAX, value, why);
}

static int set_level(void *at, const char *value, const char **why)
{
    int level = hl_log_level_by_name(value);
    *why = "must be err, warning, notice, info or debug";
    if (level < 0)
        return -1;
    *(int *)at = level;
    return 0;
}

static int set_target(void *at, const char *value, const char **why)
{
    static const char *const words[] = {"auto", "stderr", "journal"};
    *why = "must be auto, stderr or journal";
    for (int i = 0; i < 3; i++)
        if (strcmp(value, words[i]) == 0) {
            *(int *)at = i;
            return 0;
        }
    return -1;
}

static int set_share(void *at, const char *value, const char **why)
{
    struct hl_share *s = at;
    char number[32];
    size_t n = strlen(value);
    int64_t percent;
    *why = "must be bytes (with K, M or G) or a percentage from 0% to 100%";
    if (n && value[n - 1] == '%' && n <= sizeof number) {
        memcpy(number, value, n - 1);
        number[n - 1] = 0;
        if (hl_parse_i64(number, 0, 100, &percent))
            return -1;
        *s = (struct hl_share){0, (int)percent};
        return 0;
    }
    s->percent = 0;
    return hl_parse_size(value, 0, INT64_MAX, &s->bytes);
}

static int set_duration(void *at, int64_t lo, int64_t hi, const char *value)
{
    int64_t ns;
    if (hl_conf_duration(value, &ns) || ns < lo || ns > hi)
        return -1;
    *(int64_t *)at = ns;
    return 0;
}

static int set_sample(void *at, const char *value, const char **why)
{
    *why = "must be a duration from 100ms to 1h";
    return set_duration(at, SECOND / 10, 3600 * SECOND, value);
}

static int set_min_interval(void *at, const char *value, const char **why)
{
    *why = "must be a duration from 10ms to 1h";
    return set_duration(at, SECOND / 100, 3600 * SECOND, value);
}

static int set_keep(void *at, const char *value, const char **why)
{
    *why = "must be a duration up to 3650d, such as 12h or 7d";
    return set_duration(at, 0, 3650 * DAY, value);
}

static int set_hello(void *at, const char *value, const char **why)
{
    *why = "must be a duration from 100ms to 10m";
    return set_duration(at, SECOND / 10, 600 * SECOND, value);
}

static int set_sync(void *at, const char *value, const char **why)
{
    *why = "must be a duration from 0 to 1h";
    return set_duration(at, 0, 3600 * SECOND, value);
}

static int set_number(void *at, int64_t lo, int64_t hi, const char *value)
{
    int64_t v;
    if (hl_parse_i64(value, lo, hi, &v))
        return -1;
    *(uint64_t *)at = (uint64_t)v;
    return 0;
}

static int set_count(void *at, const char *value, const char **why)
{
    *why = "must be a whole number from 1 to 1000000";
    return set_number(at, 1, 1000000, value);
}

static int set_rate(void *at, const char *value, const char **why)
{
    *why = "must be a whole number from 1 to 1000000000";
    return set_number(at, 1, 1000000000, value);
}

static int set_burst(void *at, const char *value, const char **why)
{
    *why = "must be a whole number from 0 (no limit) to 1000000";
    return set_number(at, 0, 1000000, value);
}

static int set_message(void *at, const char *value, const char **why)
{
    *why = "must be from 64K to 1M";
    return hl_parse_size(value, 64 << 10, 1 << 20, at);
}

static int set_group(void *at, const char *value, const char **why)
{
    *why = "must be the name of a group (at most 63 bytes)";
    if (strlen(value) >= sizeof((struct hl_settings *)0)->admin_group ||
        strchr(value, ' '))
        return -1;
    /* Now, and never while clients wait: the answer may come over a network. */
    const struct group *g = getgrnam(value);
    *why = "must be the name of a group that exists";
    if (!g)
        return -1;
    struct hl_settings *s =
        (void *)((char *)at - offsetof(struct hl_settings, admin_group));
    strcpy(s->admin_group, value);
    s->admin_gid = g->gr_gid;
    return 0;
}

#define AT(member) offsetof(struct hl_settings, member)

static const struct hl_conf_key keys[] = {
    {"socket", set_socket, AT(socket)},
    {"spool", set_spool, AT(spool)},
    {"log_level", set_level, AT(log_level)},
    {"log_target", set_target, AT(log_target)},
    {"log_burst", set_burst, AT(log_burst)},
    {"quota_per_uid", set_share, AT(quota_per_uid)},
    {"quota_total", set_share, AT(quota_total)},
    {"min_free", set_share, AT(min_free)},
    {"sample_interval", set_sample, AT(sample_interval_ns)},
    {"min_interval", set_min_interval, AT(min_interval_ns)},
    {"job_keep", set_keep, AT(job_keep_ns)},
    {"job_keep_read", set_keep, AT(job_keep_read_ns)},
    {"max_processes", set_count, AT(max_processes)},
    {"max_processes_per_uid", set_count, AT(max_processes_per_uid)},
    {"max_jobs_per_uid", set_count, AT(max_jobs_per_uid)},
    {"max_message", set_message, AT(max_message)},
    {"max_message_rate", set_rate, AT(max_message_rate)},
    {"hello_timeout", set_hello, AT(hello_timeout_ns)},
    {"sync_interval", set_sync, AT(sync_interval_ns)},
    {"admin_group", set_group, AT(admin_group)},
};

int hl_settings_parse(struct hl_settings *s, const char *name, const char *text, size_t n,
                      struct hl_err *e)
{
    return hl_conf_parse(name, text, n, keys, sizeof keys / sizeof *keys, s, e);
}

int hl_settings_load(struct hl_settings *s, const char *path, int missing_ok,
                     struct hl_err *e)
{
    int r = hl_conf_load(path, keys, sizeof keys / sizeof *keys, s, e);
    if (r > 0 && !missing_ok) {
        errno = ENOENT;
        return hl_fail_errno(e, "cannot read the configuration %s", path);
    }
    return r < 0 ? -1 : 0;
}

const char *hl_settings_needs_restart(const struct hl_settings *old,
                                      const struct hl_settings *fresh)
{
    if (strcmp(old->socket, fresh->socket))
        return "socket";
    if (strcmp(old->spool, fresh->spool))
        return "spool";
    if (old->log_target != fresh->log_target)
        return "log_target";
    return old->max_message != fresh->max_message ? "max_message" : NULL;
}

void hl_settings_keep_fixed(struct hl_settings *fresh, const struct hl_settings *old)
{
    memcpy(fresh->socket, old->socket, sizeof fresh->socket);
    memcpy(fresh->spool, old->spool, sizeof fresh->spool);
    fresh->log_target = old->log_target;
    fresh->max_message = old->max_message;
}
