/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner form, mpirun -n 4 heapline-run ./app.  The instances agree on the
 * run's key without a word, share one private collector a node, and rank 0's
 * gathers, where all ranks are on one node, in a child that outlives the
 * launcher's cleaning up.
 */
#include "inner.h"

#include "child.h"
#include "collect.h"
#include "command.h"
#include "fds.h"
#include "outputs.h"
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { POLL_MS = 20, LATE_MS = 2000, ORPHAN_MS = 30000 };

struct inner {
    struct session s;
    enum launcher kind;
    struct texts hosts, vars, argv, envp;
    int32_t rank, size;
    pid_t launcher;   /* our parent at the start */
    pid_t gatherer;   /* rank 0's child, or 0 */
    int key_is_local; /* other nodes have another */
    int go;           /* its pipe: closed when our COMMAND has ended */
    char log[4200];
};

static const char *env(const char *name)
{
    return getenv(name);
}

int inner_is_wanted(char *const *command)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "MV2_COMM_WORLD_RANK"};
    int ranked = getenv("SLURM_PROCID") && hl_ident_in_slurm_step(env);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ranked |= getenv(names[i]) != NULL;
    return ranked && launch_kind(command) == LAUNCH_NONE;
}

/* ---- the key ---- */

static uint64_t mix(uint64_t h, const char *s)
{
    for (; s && *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return (h ^ 0xff) * 1099511628211u;
}

static const char *starts_with(const char *prefix)
{
    for (char **v = environ; *v; v++)
        if (!strncmp(*v, prefix, strlen(prefix)))
            return strchr(*v, '=') + 1;
    return NULL;
}

static void hash_to_key(struct inner *n, const char *space, const char *server)
{
    const char *job = getenv("SLURM_JOB_ID");
    snprintf(n->s.key, sizeof n->s.key, "%.100s%s%016llx", job ? job : "", job ? "." : "",
             (unsigned long long)mix(mix(14695981039346656037u, space), server));
}

/* The same on every instance of one launch, another in every launch.  Open MPI 4
 * numbers its namespaces, which may repeat: the address of its head, the same on
 * all nodes, tells launches apart.  PRRTE names them after head and process.
 * Other servers' addresses are of one node each, so Slurm's step comes before. */
static void derive_key(struct inner *n)
{
    const char *job = getenv("SLURM_JOB_ID"), *space = getenv("PMIX_NAMESPACE");
    const char *head = getenv("OMPI_MCA_orte_hnp_uri");
    const char *server = starts_with("PMIX_SERVER_URI");
    if (space && (head || !strncmp(space, "prte", 4))) {
        hash_to_key(n, space, head ? head : "");
        return;
    }
    if (job && hl_ident_in_slurm_step(env)) {
        snprintf(n->s.key, sizeof n->s.key, "%.100s.%.100s", job,
                 getenv("SLURM_STEP_ID"));
        return;
    }
    n->key_is_local = 1;
    if (space && server)
        hash_to_key(n, space, server);
    else
        snprintf(n->s.key, sizeof n->s.key, "p%ld.%llu", (long)n->launcher,
                 (unsigned long long)hl_start_ticks(n->launcher));
}

/* Ranks on this node by the launcher's word, -1 unknown. */
static int64_t local_size(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                        "MV2_COMM_WORLD_LOCAL_SIZE"};
    int64_t v;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) && hl_parse_i64(getenv(names[i]), 1, INT32_MAX, &v) == 0)
            return v;
    const char *nodes = getenv("SLURM_STEP_NUM_NODES");
    if (nodes && !strcmp(nodes, "1"))
        return hl_ident_size(env);
    return -1;
}

static int is_one_node(const struct inner *n)
{
    int64_t local = local_size();
    return n->size <= 1 || local >= n->size ||
           (local < 0 && !getenv("SLURM_STEP_NUM_NODES") && !getenv("PMIX_NAMESPACE"));
}

/* ---- the gathering child of rank 0 ---- */

static void drop_launcher_environment(void)
{
    static const char *const prefixes[] = {
        "OMPI_",        "PMIX_",         "PMI_",        "MPI_",   "MV2_",
        "ORTE_",        "PRTE_",         "HYDI_",       "HYDRA_", "SLURM_STEP",
        "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"};
    for (size_t again = 1; again;) {
        again = 0;
        for (char **v = environ; *v && !again; v++)
            for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !again; i++)
                if (!strncmp(*v, prefixes[i], strlen(prefixes[i]))) {
                    char name[256];
                    snprintf(name, sizeof name, "%.*s", (int)strcspn(*v, "="), *v);
                    again = unsetenv(name) == 0;
                }
    }
}

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

/* Every other instance has left, and none can come any more. */
static void wait_for_others(struct inner *n)
{
    int late = 0, orphan = 0;
    struct hl_state st;
    while (hl_link_state(&n->s.keeper, &st, NULL) == 0) {
        int launcher_gone = kill(n->launcher, 0) && errno == ESRCH;
        int all_came = n->size > 0 && st.n_keepers_ever > (uint32_t)n->size;
        late = st.n_keepers <= 1 ? late + POLL_MS : 0;
        orphan = launcher_gone ? orphan + POLL_MS : 0;
        if (st.n_keepers <= 1 && (all_came || launcher_gone || late >= LATE_MS))
            return;
        if (orphan >= ORPHAN_MS)
            return;
        pause_ms(POLL_MS);
    }
}

static struct collect collect_of(struct inner *n)
{
    return (struct collect){.o = n->s.o,
                            .key = n->s.key,
                            .prefix = n->s.prefix,
                            .sockets = n->s.sockets,
                            .spool = n->s.is_private ? n->s.private.spool : NULL,
                            .has_collector = n->s.has_collector,
                            .fallback_dir = n->s.fallback_dir,
                            .hosts = &n->hosts};
}

static _Noreturn void gather_when_all_ended(struct inner *n, int go)
{
    char c;
    int null = open("/dev/null", O_RDWR), i;
    setsid();
    for (i = SIGHUP; i <= SIGTERM; i++)
        if (i != SIGKILL && i != SIGCHLD)
            signal(i, SIG_IGN);
    /* The launcher waits for the ends of its pipes: hold none of them. */
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
    drop_launcher_environment();
    char socket[sizeof n->s.keeper.path];
    memcpy(socket, n->s.keeper.path, sizeof socket);
    hl_link_close(&n->s.keeper);
    hl_fds_close_others(go);
    if (hl_link_open(&n->s.keeper, socket, -1, NULL) ||
        hl_link_hello(&n->s.keeper, HL_ROLE_KEEPER, n->s.key, getpid(), NULL))
        n->s.keeper.fd = -1;
    while (read(go, &c, 1) < 0 && errno == EINTR)
        ;
    if (n->s.keeper.fd >= 0)
        wait_for_others(n);
    struct collect col = collect_of(n);
    col.log = n->log;
    enum collected how = session_mend(&n->s) ? COLLECTED_NOTHING : collect_run(&col);
    _exit(how == COLLECTED_WHOLE ? 0 : how == COLLECTED_INCOMPLETE ? 1 : 2);
}

static void start_gatherer(struct inner *n)
{
    int go[2];
    if (pipe2(go, O_CLOEXEC))
        return;
    n->gatherer = fork();
    if (n->gatherer == 0) {
        close(go[1]);
        gather_when_all_ended(n, go[0]);
    }
    close(go[0]);
    n->go = go[1];
}

/* ---- the end of rank 0's instance ---- */

static void relay_log(const char *name)
{
    char line[1024];
    FILE *f = fopen(name, "re");
    while (f && fgets(line, sizeof line, f))
        fputs(line, stderr);
    if (f)
        fclose(f);
    unlink(name);
}

static int wait_for_gatherer(struct inner *n)
{
    int status = 0;
    close(n->go);
    hl_link_close(&n->s.keeper);
    while (waitpid(n->gatherer, &status, 0) < 0 && errno == EINTR)
        ;
    relay_log(n->log);
    session_tell_log(&n->s);
    struct collect c = collect_of(n);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 2) {
        collect_tell_failure(&c);
        return -1;
    }
    if (n->s.o->report && collect_report(&c))
        return -1;
    return WEXITSTATUS(status) ? -1 : 0;
}

/* ---- flow ---- */

static void identify(struct inner *n)
{
    n->launcher = getppid();
    n->rank = hl_ident_rank(env);
    n->size = hl_ident_size(env);
    derive_key(n);
}

static int prepare(struct inner *n, struct hl_err *e)
{
    const struct run_options *o = n->s.o;
    n->kind = launch_kind(o->command);
    if (o->prefix)
        snprintf(n->s.prefix, sizeof n->s.prefix, "%s", o->prefix);
    else
        hl_outputs_default_prefix(n->s.prefix, sizeof n->s.prefix);
    if (n->rank == 0 && hl_outputs_check(n->s.prefix, e))
        return -1;
    if (session_open(&n->s, e)) {
        if (o->socket)
            return -1;
        session_tell_fallback(&n->s, e);
    }
    snprintf(n->log, sizeof n->log, "%s.gather.%ld", n->s.prefix, (long)getpid());
    if (n->s.is_private)
        snprintf(n->log, sizeof n->log, "%s/gather", n->s.private.dir);
    if (session_variables(&n->s, &n->vars, e))
        return -1;
    return launch_prepare(LAUNCH_NONE, o->command, &n->vars, &n->argv, &n->envp)
               ? hl_fail(e, ENOMEM, "no memory left")
               : 0;
}

/* The nodes of the launch, with this one. */
static void find_nodes(struct inner *n)
{
    struct hl_err e = {0};
    char own[256] = "";
    int any_here = 0;
    const char *list = n->s.o->hosts;
    if (!list)
        launch_rank_hosts(n->launcher, &n->hosts);
    if (!n->hosts.n)
        launch_hosts(LAUNCH_NONE, n->s.o->command, list, &n->hosts, &e);
    for (size_t i = 0; i < n->hosts.n; i++)
        any_here |= launch_is_here(n->hosts.v[i]);
    gethostname(own, sizeof own - 1);
    if (n->hosts.n && !any_here && !list)
        texts_add(&n->hosts, own);
}

/* Rank 0 of a run on several nodes: say what to do. */
static void tell_later(struct inner *n)
{
    struct collect c = collect_of(n);
    if (n->s.o->quiet)
        return;
    find_nodes(n);
    /* Where a node had no collector its instances started one: the folder has the
     * same name everywhere. */
    c.spool = n->s.o->socket ? NULL : n->s.private.spool;
    c.spool_is_far = 1;
    if (command_is_remote(&n->hosts))
        collect_tell_command(&c, "write the outputs of all nodes with");
    else
        collect_tell_unknown(&c, "write the outputs of all nodes with");
}

/* Already recorded by an outer heapline-run: just be COMMAND. */
static int is_recorded(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return getenv("HEAPLINE_JOB") && getenv("HEAPLINE_SOCKET") && preload &&
           strstr(preload, "libheapline-preload.so");
}

static int be_command(char **command)
{
    execvp(command[0], command);
    int why = errno;
    fprintf(stderr, "heapline-run: cannot execute %s: %s\n", command[0], strerror(why));
    return why == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT_EXECUTE;
}

static int run_rank(struct inner *n)
{
    struct hl_end end;
    pid_t pid;
    int bad = 0, one_node = is_one_node(n);
    if (n->rank == 0 && one_node)
        start_gatherer(n);
    int why = child_start(n->argv.v, n->envp.v, &pid);
    if (why) {
        fprintf(stderr, "heapline-run: cannot execute %s: %s\n", n->s.o->command[0],
                strerror(why));
        end = (struct hl_end){HL_ENDED_EXIT,
                              why == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT_EXECUTE};
    } else {
        struct child_watch watch = {n->s.keeper.fd, session_mend_fd, &n->s};
        if (child_wait(pid, &watch, &end))
            end = (struct hl_end){HL_ENDED_EXIT, RUN_USAGE};
        session_tell_end(&n->s, pid, &end);
        child_reap(pid);
    }
    if (n->gatherer > 0)
        bad = wait_for_gatherer(n);
    else if (n->rank == 0 && !one_node)
        tell_later(n);
    int status = child_status(&end);
    return status == 0 && bad ? RUN_USAGE : status;
}

int inner_run(const struct run_options *o)
{
    struct inner n = {0};
    struct hl_err e = {0};
    int status = RUN_USAGE;
    if (is_recorded())
        return be_command(o->command);
    n.s.o = o;
    n.s.keeper.fd = n.s.log = -1;
    identify(&n);
    if (n.key_is_local && !is_one_node(&n)) {
        if (n.rank == 0)
            fprintf(stderr,
                    "heapline-run: nothing is recorded: this launcher tells the "
                    "ranks nothing that those of other nodes know, too; put "
                    "heapline-run before it: heapline-run mpiexec ... %s\n",
                    o->command[0]);
        return be_command(o->command);
    }
    if (prepare(&n, &e))
        fprintf(stderr, "heapline-run: %s\n", e.text);
    else
        status = run_rank(&n);
    hl_link_close(&n.s.keeper);
    texts_fini(&n.hosts);
    texts_fini(&n.vars);
    texts_fini(&n.argv);
    texts_fini(&n.envp);
    return status;
}
