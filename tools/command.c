/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines and environment of the gather; see command.h.
 */
#include "config.h"

#include "command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the launcher's part ---- */

static int add_words(struct texts *t, const char *s)
{
    int bad = 0;
    while (*(s += strspn(s, " \t")) && !bad) {
        size_t n = strcspn(s, " \t");
        bad = texts_addf(t, "%.*s", (int)n, s);
        s += n;
    }
    return bad;
}

int starter_init(struct starter *s, const char *launcher, const char *fallback_dir)
{
    const char *words = launcher ? launcher : HL_MPIRUN;
    memset(s, 0, sizeof *s);
    s->fallback_dir = fallback_dir;
    int bad = access(words, X_OK) == 0 ? texts_add(&s->words, words)
                                       : add_words(&s->words, words);
    if (bad || !s->words.n)
        return -1;
    s->kind = launch_kind(s->words.v);
    return 0;
}

void starter_fini(struct starter *s)
{
    texts_fini(&s->words);
}

static int add_joined(const struct texts *hosts, struct texts *argv)
{
    size_t n = 1;
    for (size_t i = 0; i < hosts->n; i++)
        n += strlen(hosts->v[i]) + 1;
    char *joined = malloc(n), *at = joined;
    for (size_t i = 0; joined && i < hosts->n; i++) {
        at = i ? stpcpy(at, ",") : at;
        at = stpcpy(at, hosts->v[i]);
    }
    int bad = !joined || texts_add(argv, joined);
    free(joined);
    return bad;
}

static int add_all(struct texts *argv, const char *const *words)
{
    int bad = 0;
    for (; *words && !bad; words++)
        bad = texts_add(argv, *words);
    return bad;
}

static int add_hosts(const char *list_option, const char *file_option,
                     const struct texts *hosts, const char *file, struct texts *argv)
{
    return texts_add(argv, file ? file_option : list_option) ||
           (file ? texts_add(argv, file) : add_joined(hosts, argv));
}

/* On the line what may come from a file of parameters, too: it would spoil the
 * one process a node. */
static int line_openmpi(const struct starter *s, const struct texts *hosts,
                        const char *file, struct texts *argv)
{
    static const char *const place[] = {"--map-by", "ppr:1:node", "--bind-to",
                                        "none",     "--mca",      "orte_default_hostfile",
                                        "none",     NULL};
    return (geteuid() == 0 && texts_add(argv, "--allow-run-as-root")) ||
           add_hosts("--host", "--hostfile", hosts, file, argv) ||
           texts_add(argv, "-n") || texts_addf(argv, "%zu", hosts->n) ||
           add_all(argv, place) || texts_add(argv, "-x") ||
           texts_addf(argv, "HEAPLINE_FALLBACK_DIR=%s", s->fallback_dir);
}

static int line_hydra(const struct starter *s, const struct texts *hosts,
                      const char *file, struct texts *argv)
{
    return add_hosts("-hosts", "-f", hosts, file, argv) || texts_add(argv, "-ppn") ||
           texts_add(argv, "1") || texts_add(argv, "-n") ||
           texts_addf(argv, "%zu", hosts->n) || texts_add(argv, "-genv") ||
           texts_add(argv, "HEAPLINE_FALLBACK_DIR") || texts_add(argv, s->fallback_dir);
}

/* "arbitrary" keeps the order of the list; a name with a slash is a file. */
static int line_srun(const struct texts *hosts, const char *file, struct texts *argv)
{
    return add_hosts("-w", "-w", hosts, file, argv) ||
           texts_addf(argv, "--nodes=%zu", hosts->n) ||
           texts_addf(argv, "--ntasks=%zu", hosts->n) ||
           texts_add(argv, "--distribution=arbitrary");
}

int starter_line(const struct starter *s, const struct texts *hosts, const char *file,
                 struct texts *argv)
{
    int bad = 0;
    for (size_t i = 0; i < s->words.n && !bad; i++)
        bad = texts_add(argv, s->words.v[i]);
    if (bad)
        return -1;
    switch (s->kind) {
    case LAUNCH_HYDRA: return line_hydra(s, hosts, file, argv);
    case LAUNCH_SRUN: return line_srun(hosts, file, argv);
    default: return line_openmpi(s, hosts, file, argv);
    }
}

int starter_write_hosts(const struct starter *s, const struct texts *hosts, FILE *f)
{
    const char *behind = s->kind == LAUNCH_HYDRA  ? ":1"
                         : s->kind == LAUNCH_SRUN ? ""
                                                  : " slots=1";
    for (size_t i = 0; i < hosts->n; i++)
        fprintf(f, "%s%s\n", hosts->v[i], behind);
    return fflush(f) || ferror(f) ? -1 : 0;
}

/* ---- the hosts ---- */

int command_is_remote(const struct texts *hosts)
{
    for (size_t i = 0; i < hosts->n; i++)
        if (!launch_is_here(hosts->v[i]))
            return 1;
    return 0;
}

/* A loopback name means another node on each of them. */
static int add_here(const char *name, struct texts *list)
{
    char own[256] = "localhost";
    gethostname(own, sizeof own - 1);
    int is_loop = !strcmp(name, "localhost") || !strncmp(name, "127.", 4);
    return texts_add(list, is_loop ? own : name);
}

int command_order(const struct texts *hosts, struct texts *list)
{
    int bad = 0;
    for (size_t i = 0; i < hosts->n && !bad && !list->n; i++)
        if (launch_is_here(hosts->v[i]))
            bad = add_here(hosts->v[i], list);
    for (size_t i = 0; i < hosts->n && !bad; i++)
        if (!launch_is_here(hosts->v[i]))
            bad = texts_add(list, hosts->v[i]);
    return bad;
}

/* ---- the environment ---- */

static int is_in(const char *const *prefixes, const char *var)
{
    for (; *prefixes; prefixes++)
        if (!strncmp(var, *prefixes, strlen(*prefixes)))
            return 1;
    return 0;
}

/* What the user's settings say of the places, numbers and outputs of ranks. */
static const char *const of_the_launch[] = {"OMPI_MCA_mca_base_env_list=",
                                            "OMPI_MCA_rmaps",
                                            "OMPI_MCA_hwloc_base_binding_policy=",
                                            "OMPI_MCA_hwloc_base_cpu_",
                                            "OMPI_MCA_hwloc_base_slot_list=",
                                            "OMPI_MCA_orte_default_hostfile=",
                                            "OMPI_MCA_orte_rankfile=",
                                            "OMPI_MCA_orte_cpu_set=",
                                            "OMPI_MCA_orte_output_filename=",
                                            "OMPI_MCA_orte_tag_output=",
                                            "OMPI_MCA_orte_timestamp_output=",
                                            "OMPI_MCA_orte_xml_output=",
                                            "HYDRA_HOST_FILE=",
                                            "HYDRA_BINDING=",
                                            "HYDRA_MAPPING=",
                                            "HEAPLINE_",
                                            NULL};

/* What a launcher tells its ranks: only where heapline-run is such a rank. */
static const char *const of_a_rank[] = {"OMPI_COMM_WORLD_",
                                        "OMPI_UNIVERSE_SIZE=",
                                        "OMPI_COMMAND=",
                                        "OMPI_ARGV=",
                                        "OMPI_FILE_LOCATION=",
                                        "OMPI_APP_CTX_NUM_PROCS=",
                                        "OMPI_FIRST_RANKS=",
                                        "OMPI_NUM_APP_CTX=",
                                        "OMPI_MCA_ess",
                                        "OMPI_MCA_pmix=",
                                        "OMPI_MCA_plm=",
                                        "OMPI_MCA_initial_wdir=",
                                        "OMPI_MCA_orte_ess_",
                                        "OMPI_MCA_orte_hnp_uri=",
                                        "OMPI_MCA_orte_local_daemon_uri=",
                                        "OMPI_MCA_orte_node_regex=",
                                        "OMPI_MCA_orte_num_nodes=",
                                        "OMPI_MCA_orte_app_num=",
                                        "OMPI_MCA_orte_launch=",
                                        "OMPI_MCA_orte_daemonize=",
                                        "OMPI_MCA_orte_precondition_transports=",
                                        "OMPI_MCA_orte_jobfam_session_dir=",
                                        "OMPI_MCA_orte_top_session_dir=",
                                        "OMPI_MCA_mpi_oversubscribe=",
                                        "OMPI_MCA_shmem_RUNTIME_QUERY_hint=",
                                        NULL};

static const char *const always[] = {"PMIX_",     "PMI_",  "PMI2_", "MV2_COMM_",
                                     "MPI_LOCAL", "HYDI_", NULL};

static int is_unwanted(const char *var, int by_openmpi)
{
    static const char *const kept[] = {"PMIX_MCA_", NULL};
    return (is_in(of_the_launch, var) || is_in(always, var) ||
            (by_openmpi && is_in(of_a_rank, var))) &&
           !is_in(kept, var);
}

/* The gather is no rank: the user's own libraries stay, the agents do not. */
static int add_preload(struct texts *envp, const char *list)
{
    char *kept = calloc(1, strlen(list) + 16), *at = kept;
    if (!kept)
        return -1;
    at = stpcpy(at, "LD_PRELOAD=");
    char *start = at;
    while (*(list += strspn(list, ": "))) {
        size_t n = strcspn(list, ": ");
        const char *name = memrchr(list, '/', n);
        name = name ? name + 1 : list;
        if (strncmp(name, "libheapline-", 12)) {
            at = at > start ? stpcpy(at, ":") : at;
            at = stpncpy(at, list, n);
        }
        list += n;
    }
    int bad = at > start ? texts_add(envp, kept) : 0;
    free(kept);
    return bad;
}

static int has(char *const *env, const char *prefix)
{
    for (; *env; env++)
        if (!strncmp(*env, prefix, strlen(prefix)))
            return 1;
    return 0;
}

int command_environment(char *const *from, const char *fallback_dir, struct texts *envp)
{
    int by_openmpi = has(from, "OMPI_COMM_WORLD_RANK="), bad = 0;
    for (char *const *v = from; *v && !bad; v++)
        if (!strncmp(*v, "LD_PRELOAD=", 11))
            bad = add_preload(envp, *v + 11);
        else if (!is_unwanted(*v, by_openmpi))
            bad = texts_add(envp, *v);
    /* Steps of the gather and of the probes may meet on a node. */
    if (!bad && has(from, "SLURM_JOB_ID=") && !has(from, "SLURM_OVERLAP="))
        bad = texts_add(envp, "SLURM_OVERLAP=1");
    return bad || texts_addf(envp, "HEAPLINE_FALLBACK_DIR=%s", fallback_dir);
}

/* ---- for a shell ---- */

void command_print(FILE *f, const char *s)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%";
    if (*s && !s[strspn(s, plain)]) {
        fprintf(f, " %s", s);
        return;
    }
    fprintf(f, " '");
    for (; *s; s++)
        fprintf(f, *s == '\'' ? "'\\''" : "%c", *s);
    fprintf(f, "'");
}
