/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts of a run: from --hosts, the launcher's line, its host file, or the
 * allocation; see launch.h.
 */
#include "launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOSTS_MAX = 100000 };

int launch_is_here(const char *host)
{
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    size_t n = strcspn(own, "."), k = strcspn(host, ".");
    if (!strcmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, own))
        return 1;
    return n == k && n && !strncmp(host, own, n);
}

static int add_once(struct texts *hosts, const char *name, size_t n)
{
    char host[256];
    if (!n || n >= sizeof host || hosts->n >= HOSTS_MAX)
        return n >= sizeof host ? -1 : 0;
    memcpy(host, name, n);
    host[n] = 0;
    for (size_t i = 0; i < hosts->n; i++)
        if (!strcmp(hosts->v[i], host))
            return 0;
    return texts_add(hosts, host);
}

/* "a,b:2,c" */
static int add_list(struct texts *hosts, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        size_t name = strcspn(list, ",:");
        if (add_once(hosts, list, name < n ? name : n))
            return -1;
        list += n + (list[n] == ',');
    }
    return 0;
}

/* "n[01-03,7]x" from one comma-separated element of a Slurm list; suffix may
 * follow the bracket. */
static int add_range(struct texts *hosts, const char *prefix, size_t n_prefix,
                     const char *inside, size_t n_inside, const char *suffix,
                     size_t n_suffix)
{
    const char *end = inside + n_inside;
    while (inside < end) {
        char *stop, host[300];
        unsigned long lo = strtoul(inside, &stop, 10), hi = lo;
        int width = (int)(stop - inside);
        if (*stop == '-')
            hi = strtoul(stop + 1, &stop, 10);
        if (width == 0 || hi < lo || hi - lo > HOSTS_MAX)
            return -1;
        for (; lo <= hi; lo++) {
            int n = snprintf(host, sizeof host, "%.*s%0*lu%.*s", (int)n_prefix, prefix,
                             width, lo, (int)n_suffix, suffix);
            if (n < 0 || (size_t)n >= sizeof host || add_once(hosts, host, (size_t)n))
                return -1;
        }
        inside = stop + (*stop == ',');
    }
    return 0;
}

static int add_slurm_list(struct texts *hosts, const char *s)
{
    while (*s) {
        size_t n = strcspn(s, ",[");
        int bad;
        if (s[n] == '[') {
            const char *close = strchr(s + n, ']');
            if (!close)
                return -1;
            size_t suffix = strcspn(close + 1, ",");
            bad = add_range(hosts, s, n, s + n + 1, (size_t)(close - s) - n - 1,
                            close + 1, suffix);
            n = (size_t)(close - s) + 1 + suffix;
        } else {
            bad = add_once(hosts, s, n);
        }
        if (bad)
            return -1;
        s += n + (s[n] == ',');
    }
    return 0;
}

static int add_file(struct texts *hosts, const char *name, struct hl_err *e)
{
    FILE *f = fopen(name, "re");
    char line[512];
    if (!f)
        return hl_fail_errno(e, "cannot read the host file %s", name);
    while (fgets(line, sizeof line, f)) {
        char *s = line + strspn(line, " \t");
        size_t n = strcspn(s, " \t\r\n:#");
        if (n && add_once(hosts, s, n))
            break;
    }
    fclose(f);
    return 0;
}

static int is_one_of(const char *s, const char *const *names)
{
    for (; *names; names++)
        if (!strcmp(s, *names))
            return 1;
    return 0;
}

static int from_line(enum launcher kind, char *const *command, struct texts *hosts,
                     struct hl_err *e)
{
    static const char *const lists[] = {"-H",     "-host",   "--host",
                                        "-hosts", "--hosts", NULL};
    static const char *const files[] = {"-hostfile",     "--hostfile", "-machinefile",
                                        "--machinefile", "-f",         NULL};
    static const char *const srun[] = {"-w", "--nodelist", NULL};
    for (size_t i = 1; command[i] && command[i + 1]; i++) {
        int bad = 0;
        if (kind == LAUNCH_SRUN)
            bad = is_one_of(command[i], srun) && add_slurm_list(hosts, command[i + 1]);
        else if (is_one_of(command[i], lists))
            bad = add_list(hosts, command[i + 1]);
        else if (is_one_of(command[i], files) &&
                 (kind == LAUNCH_HYDRA || strcmp(command[i], "-f")))
            bad = add_file(hosts, command[i + 1], e);
        if (bad)
            return -1;
    }
    return 0;
}

int launch_hosts(enum launcher kind, char *const *command, const char *list,
                 struct texts *hosts, struct hl_err *e)
{
    const char *slurm = getenv("SLURM_JOB_NODELIST");
    int bad = list                  ? add_list(hosts, list)
              : kind != LAUNCH_NONE ? from_line(kind, command, hosts, e)
                                    : 0;
    if (!bad && !hosts->n && slurm)
        bad = add_slurm_list(hosts, slurm);
    if (bad && !e->code)
        hl_fail(e, EINVAL, "the list of hosts is not understood: %s",
                list ? list : slurm);
    return bad ? -1 : 0;
}
