/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts of a run: from --hosts, the launcher's line, its host file, or the
 * allocation; see launch.h.
 */
#include "launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOSTS_MAX = 100000 };

static int is_number(const char *host)
{
    return strchr(host, ':') || !host[strspn(host, "0123456789.")];
}

int launch_same_host(const char *a, const char *b)
{
    size_t n = strcspn(a, "."), k = strcspn(b, ".");
    if (!strcmp(a, b))
        return 1;
    if (is_number(a) || is_number(b) || (a[n] && b[k]))
        return 0;
    return n == k && n && !strncmp(a, b, n);
}

/* Is one of our own interfaces called by this number? */
static int is_own_address(const char *host)
{
    struct ifaddrs *all = NULL;
    char text[INET6_ADDRSTRLEN];
    int found = 0;
    if (getifaddrs(&all))
        return 0;
    for (struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
        if (!i->ifa_addr)
            continue;
        const void *at = i->ifa_addr->sa_family == AF_INET
                             ? (void *)&((struct sockaddr_in *)i->ifa_addr)->sin_addr
                         : i->ifa_addr->sa_family == AF_INET6
                             ? (void *)&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr
                             : NULL;
        found = at && inet_ntop(i->ifa_addr->sa_family, at, text, sizeof text) &&
                !strcmp(text, host);
    }
    freeifaddrs(all);
    return found;
}

int launch_is_here(const char *host)
{
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    if (!strcmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, own))
        return 1;
    if (is_number(host))
        return is_own_address(host);
    size_t n = strcspn(own, "."), k = strcspn(host, ".");
    return n == k && n && !strncmp(host, own, n);
}

static int add_once(struct texts *hosts, const char *name, size_t n)
{
    char host[256];
    if (n && *name == '+') /* Open MPI's relative node: no name */
        return 0;
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

/* ---- the launcher's line ---- */

/* What an option of a launcher does to the words behind it. */
enum takes {
    TAKES_LIST = 1,
    TAKES_FILE,
    TAKES_DEFAULT, /* a file that counts where nothing else names hosts */
    TAKES_NODES,
    TAKES_ONE,
    TAKES_TWO
};

/* What a line says. */
struct line {
    enum launcher kind;
    struct texts *hosts;
    const char *default_file; /* NULL none */
};

static int is_in(const char *names, const char *s, size_t n)
{
    for (const char *at = names; *at;) {
        size_t k = strcspn(at, " ");
        if (k == n && !strncmp(at, s, n))
            return 1;
        at += k + (at[k] == ' ');
    }
    return 0;
}

/* The options with values, without their dashes; all others stand alone. */
static int takes_openmpi(const char *s, size_t n)
{
    static const char one[] =
        "n np c x am tune app wd wdir path map-by rank-by bind-to ppr N npernode "
        "npersocket cpus-per-proc cpus-per-rank rankfile rf cpu-set cpu-list slot-list "
        "output-filename report-uri report-pid stdin prefix ompi-server "
        "server-wait-time personality timeout stream-buffering launch-agent xterm "
        "preload-files preload-files-dest-dir max-restarts max-vm-size debugger "
        "xml-file hnp output display runtime-options";
    return is_in("H host", s, n)                          ? TAKES_LIST
           : is_in("hostfile machinefile", s, n)          ? TAKES_FILE
           : is_in("default-hostfile", s, n)              ? TAKES_DEFAULT
           : is_in("mca gmca prtemca pmixmca omca", s, n) ? TAKES_TWO
           : is_in(one, s, n)                             ? TAKES_ONE
                                                          : 0;
}

static int takes_hydra(const char *s, size_t n)
{
    static const char one[] =
        "n np wdir genvlist envlist configfile launcher launcher-exec bootstrap "
        "bootstrap-exec rmk topolib bind-to map-by membind demux iface ppn "
        "prepend-pattern outfile-pattern errfile-pattern nameserver order-nodes "
        "localhost usize gpus-per-proc umask path arch";
    return is_in("hosts host", s, n)               ? TAKES_LIST
           : is_in("f machinefile hostfile", s, n) ? TAKES_FILE
           : is_in("env genv", s, n)               ? TAKES_TWO
           : is_in(one, s, n)                      ? TAKES_ONE
                                                   : 0;
}

static int takes_srun(const char *s, size_t n)
{
    static const char one[] =
        "A B c C d D e F G i J L m M N n o p q r S t T W x account begin chdir clusters "
        "comment constraint core-spec cores-per-socket cpu-bind cpu-freq cpus-per-gpu "
        "cpus-per-task dependency distribution epilog error exclude export gid gpus "
        "gpus-per-node gpus-per-task gres hint input jobid job-name licenses mem "
        "mem-bind mem-per-cpu mem-per-gpu mincpus mpi network nodefile nodes ntasks "
        "ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode "
        "output partition priority profile prolog qos relative reservation signal "
        "sockets-per-node switches task-epilog task-prolog threads threads-per-core "
        "time time-min tmp uid wait wckey";
    return is_in("w nodelist", s, n) ? TAKES_NODES : is_in(one, s, n) ? TAKES_ONE : 0;
}

static int takes(enum launcher kind, const char *s, size_t n)
{
    if (kind == LAUNCH_SRUN)
        return takes_srun(s, n);
    int t = kind == LAUNCH_HYDRA ? 0 : takes_openmpi(s, n);
    return t || kind == LAUNCH_OPENMPI ? t : takes_hydra(s, n);
}

static int use(struct line *l, int what, const char *value, struct hl_err *e)
{
    switch (what) {
    case TAKES_LIST: return add_list(l->hosts, value);
    case TAKES_FILE: return add_file(l->hosts, value, e);
    case TAKES_NODES: return add_slurm_list(l->hosts, value);
    case TAKES_DEFAULT: l->default_file = value; return 0;
    default: return 0;
    }
}

/* One option at command[*i]; *i is left at its last word. */
static int use_option(struct line *l, char *const *command, size_t *i, struct hl_err *e)
{
    const char *name = command[*i] + 1 + (command[*i][1] == '-');
    size_t n = strcspn(name, "=");
    int what = takes(l->kind, name, n);
    if (l->kind == LAUNCH_SRUN && !what && command[*i][1] == 'w') /* -wNODES */
        return use(l, TAKES_NODES, name + 1, e);
    if (name[n] == '=')
        return use(l, what, name + n + 1, e);
    if (!what || !command[*i + 1])
        return 0;
    const char *value = command[++*i];
    if (what != TAKES_TWO || !command[*i + 1])
        return use(l, what, value, e);
    if (l->kind == LAUNCH_HYDRA && strchr(value, '=')) /* -genv NAME=VALUE */
        return 0;
    ++*i;
    if (!strcmp(value, "orte_default_hostfile"))
        l->default_file = command[*i];
    return 0;
}

/* Options end at the program, whose own -H or -f are none of ours; behind a ":"
 * the options of the next program begin. */
static int from_line(struct line *l, char *const *command, struct hl_err *e)
{
    int in_program = 0;
    for (size_t i = 1; command[i]; i++) {
        if (!strcmp(command[i], ":"))
            in_program = 0;
        else if (command[i][0] != '-')
            in_program = 1;
        else if (!in_program && use_option(l, command, &i, e))
            return -1;
    }
    return 0;
}

/* The file for lines that name no hosts; Open MPI's may be called off by "none". */
static int from_default(const struct line *l, struct hl_err *e)
{
    const char *file = l->default_file ? l->default_file
                       : l->kind == LAUNCH_OPENMPI
                           ? getenv("OMPI_MCA_orte_default_hostfile")
                       : l->kind == LAUNCH_HYDRA ? getenv("HYDRA_HOST_FILE")
                                                 : NULL;
    return file && *file && strcmp(file, "none") ? add_file(l->hosts, file, e) : 0;
}

/* Files in which other schedulers list an allocation's hosts, the name first. */
static int from_scheduler(struct texts *hosts, struct hl_err *e)
{
    static const char *const names[] = {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE",
                                        "PE_HOSTFILE", "OAR_NODEFILE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *file = getenv(names[i]);
        if (file && access(file, R_OK) == 0)
            return add_file(hosts, file, e);
    }
    return 0;
}

int launch_hosts(enum launcher kind, char *const *command, const char *list,
                 struct texts *hosts, struct hl_err *e)
{
    const char *slurm = getenv("SLURM_JOB_NODELIST");
    struct line line = {kind, hosts, NULL};
    int bad = list                  ? add_list(hosts, list)
              : kind != LAUNCH_NONE ? from_line(&line, command, e)
                                    : 0;
    if (!bad && !hosts->n && !list)
        bad = from_default(&line, e);
    if (!bad && !hosts->n && slurm)
        bad = add_slurm_list(hosts, slurm);
    else if (!bad && !hosts->n && !list)
        bad = from_scheduler(hosts, e);
    if (bad && !e->code)
        hl_fail(e, EINVAL, "the list of hosts is not understood: %s",
                list    ? list
                : slurm ? slurm
                        : command[0]);
    return bad ? -1 : 0;
}
