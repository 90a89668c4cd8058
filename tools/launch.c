/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognising launchers and handing variables to ranks; see launch.h.
 */
#include "launch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

int texts_add(struct texts *t, const char *s)
{
    char **p = realloc(t->v, (t->n + 2) * sizeof *p);
    if (!p)
        return -1;
    t->v = p;
    p[t->n] = strdup(s);
    p[t->n + 1] = NULL;
    return p[t->n] ? (t->n++, 0) : -1;
}

int texts_addf(struct texts *t, const char *format, ...)
{
    char *s;
    va_list ap;
    va_start(ap, format);
    int n = vasprintf(&s, format, ap);
    va_end(ap);
    int bad = n < 0 || texts_add(t, s);
    if (n >= 0)
        free(s);
    return bad ? -1 : 0;
}

void texts_fini(struct texts *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->v[i]);
    free(t->v);
    memset(t, 0, sizeof *t);
}

static const char *base_name(const char *path)
{
    const char *s = strrchr(path, '/');
    return s ? s + 1 : path;
}

/* Full path of a command as the shell would find it. 0 or -1. */
static int find_command(const char *name, char *out, size_t cap)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/'))
        return snprintf(out, cap, "%s", name) < (int)cap ? 0 : -1;
    for (const char *s = path ? path : "/usr/bin:/bin"; *s;) {
        size_t n = strcspn(s, ":");
        int k = snprintf(out, cap, "%.*s/%s", (int)(n ? n : 1), n ? s : ".", name);
        if (k > 0 && (size_t)k < cap && access(out, X_OK) == 0)
            return 0;
        s += n + (s[n] == ':');
    }
    return -1;
}

static enum launcher by_name(const char *name)
{
    static const struct {
        const char *name;
        enum launcher kind;
    } known[] = {{"orterun", LAUNCH_OPENMPI},        {"prterun", LAUNCH_OPENMPI},
                 {"mpirun.openmpi", LAUNCH_OPENMPI}, {"mpiexec.openmpi", LAUNCH_OPENMPI},
                 {"mpiexec.hydra", LAUNCH_HYDRA},    {"mpirun.mpich", LAUNCH_HYDRA},
                 {"mpiexec.mpich", LAUNCH_HYDRA},    {"srun", LAUNCH_SRUN},
                 {"mpirun", LAUNCH_MPI_OTHER},       {"mpiexec", LAUNCH_MPI_OTHER}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name))
            return known[i].kind;
    return LAUNCH_NONE;
}

static enum launcher ask_version(const char *path)
{
    char line[256], command[4200];
    enum launcher kind = LAUNCH_MPI_OTHER;
    if (strchr(path, '\''))
        return kind;
    snprintf(command, sizeof command, "'%s' --version 2>&1 </dev/null", path);
    FILE *f = popen(command, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strcasestr(line, "open mpi") || strcasestr(line, "open-mpi") ||
            strcasestr(line, "prrte"))
            kind = LAUNCH_OPENMPI;
        else if (strcasestr(line, "hydra"))
            kind = LAUNCH_HYDRA;
    }
    if (f)
        pclose(f);
    return kind;
}

enum launcher launch_kind(char *const *command)
{
    char path[4096], real[4096];
    enum launcher kind = by_name(base_name(command[0]));
    if (kind != LAUNCH_MPI_OTHER)
        return kind;
    if (find_command(command[0], path, sizeof path))
        return kind;
    if (realpath(path, real)) {
        enum launcher k = by_name(base_name(real));
        if (k != LAUNCH_NONE && k != LAUNCH_MPI_OTHER)
            return k;
    }
    return ask_version(path);
}

/* ---- variables ---- */

static int is_preload(const char *var)
{
    return !strncmp(var, "LD_PRELOAD=", 11);
}

/* "LD_PRELOAD=ours" with what is there behind it. */
static int add_merged(struct texts *t, const char *var, const char *there,
                      const char *behind)
{
    return there && *there ? texts_addf(t, "%s:%s%s", var, there, behind)
                           : texts_addf(t, "%s%s", var, behind);
}

static size_t name_length(const char *var)
{
    return strcspn(var, "=") + 1;
}

static int copy_environment(struct texts *envp, const struct texts *vars, int with_vars)
{
    for (char **v = environ; *v; v++) {
        int ours = 0;
        for (size_t i = 0; with_vars && i < vars->n; i++)
            ours |= !strncmp(*v, vars->v[i], name_length(vars->v[i]));
        if (!ours && texts_add(envp, *v))
            return -1;
    }
    for (size_t i = 0; with_vars && i < vars->n; i++)
        if (add_merged(envp, vars->v[i],
                       is_preload(vars->v[i]) ? getenv("LD_PRELOAD") : NULL, ""))
            return -1;
    return 0;
}

/* All variables as one mca_base_env_list, behind the user's own entries. */
static int add_env_list(struct texts *out, const char *before, const struct texts *vars)
{
    char *list = strdup(before), *more;
    for (size_t i = 0; list && i < vars->n; i++) {
        int n = is_preload(vars->v[i]) && getenv("LD_PRELOAD")
                    ? asprintf(&more, "%s;%s:%s", list, vars->v[i], getenv("LD_PRELOAD"))
                    : asprintf(&more, "%s;%s", list, vars->v[i]);
        free(list);
        list = n < 0 ? NULL : more;
    }
    int bad = !list || texts_add(out, list);
    free(list);
    return bad;
}

/* The user's own -x LD_PRELOAD[=VALUE] becomes one that has ours in front. */
static int user_preload(char *const *command, size_t i)
{
    const char *a = command[i];
    return a && !strcmp(a, "-x") && command[i + 1] &&
           !strncmp(command[i + 1], "LD_PRELOAD", 10) &&
           (!command[i + 1][10] || command[i + 1][10] == '=');
}

static int is_env_list(char *const *command, size_t i)
{
    const char *a = command[i];
    return a &&
           (!strcmp(a, "--mca") || !strcmp(a, "-mca") || !strcmp(a, "--gmca") ||
            !strcmp(a, "-gmca")) &&
           command[i + 1] && !strcmp(command[i + 1], "mca_base_env_list") &&
           command[i + 2];
}

static int openmpi_with_list(char *const *command, const struct texts *vars,
                             struct texts *argv)
{
    for (size_t i = 0; command[i]; i++) {
        if (!is_env_list(command, i)) {
            if (texts_add(argv, command[i]))
                return -1;
            continue;
        }
        if (texts_add(argv, command[i]) || texts_add(argv, command[i + 1]) ||
            add_env_list(argv, command[i + 2], vars))
            return -1;
        i += 2;
    }
    return 0;
}

/* "-x NAME=VALUE" for one program of the line, whose options begin at i. */
static int add_x(char *const *command, size_t i, const struct texts *vars,
                 struct texts *argv)
{
    int theirs = 0;
    for (; command[i] && strcmp(command[i], ":"); i++)
        theirs |= user_preload(command, i);
    for (size_t k = 0; k < vars->n; k++) {
        int preload = is_preload(vars->v[k]);
        if (preload && theirs)
            continue;
        if (texts_add(argv, "-x") ||
            add_merged(argv, vars->v[k], preload ? getenv("LD_PRELOAD") : NULL, ""))
            return -1;
    }
    return 0;
}

/* Open MPI reads -x for each program of "a : b" apart. */
static int openmpi_with_x(char *const *command, const struct texts *vars,
                          struct texts *argv)
{
    if (texts_add(argv, command[0]) || add_x(command, 1, vars, argv))
        return -1;
    for (size_t i = 1; command[i]; i++) {
        if (texts_add(argv, command[i]))
            return -1;
        if (!strcmp(command[i], ":") && add_x(command, i + 1, vars, argv))
            return -1;
        if (!user_preload(command, i))
            continue;
        const char *value = strchr(command[++i], '=');
        int done = 0;
        for (size_t k = 0; k < vars->n && !done; k++)
            if (is_preload(vars->v[k])) {
                if (add_merged(argv, vars->v[k], value ? value + 1 : getenv("LD_PRELOAD"),
                               ""))
                    return -1;
                done = 1;
            }
        if (!done && texts_add(argv, command[i]))
            return -1;
    }
    return 0;
}

static int prepare_openmpi(char *const *command, const struct texts *vars,
                           struct texts *argv, struct texts *envp)
{
    const char *list = getenv("OMPI_MCA_mca_base_env_list");
    int on_line = 0;
    for (size_t i = 1; command[i]; i++)
        on_line |= is_env_list(command, i);
    if (on_line)
        return openmpi_with_list(command, vars, argv) || copy_environment(envp, vars, 0);
    if (!list || !*list)
        return openmpi_with_x(command, vars, argv) || copy_environment(envp, vars, 0);
    for (size_t i = 0; command[i]; i++)
        if (texts_add(argv, command[i]))
            return -1;
    for (char **v = environ; *v; v++) {
        static const char name[] = "OMPI_MCA_mca_base_env_list=";
        int bad = strncmp(*v, name, sizeof name - 1) ? texts_add(envp, *v)
                                                     : add_env_list(envp, *v, vars);
        if (bad)
            return -1;
    }
    return 0;
}

/* "-genv LD_PRELOAD VALUE", also "-env" and "LD_PRELOAD=VALUE": where the value
 * begins in the word *i is left at, or NULL. */
static const char *hydra_preload(char *const *command, size_t *i)
{
    const char *a = command[*i] + (command[*i][0] == '-' && command[*i][1] == '-');
    const char *name = command[*i + 1];
    if ((strcmp(a, "-genv") && strcmp(a, "-env")) || !name ||
        strncmp(name, "LD_PRELOAD", 10))
        return NULL;
    if (name[10] == '=')
        return command[++*i] + 11;
    return name[10] || !command[*i + 2] ? NULL : command[*i += 2];
}

/* -genv for the ranks alone: the launcher and its proxies are none.  It stands
 * behind the launcher's name; the user's own preloads get ours in front. */
static int prepare_hydra(char *const *command, const struct texts *vars,
                         struct texts *argv)
{
    const char *agent = NULL;
    int bad = texts_add(argv, command[0]);
    for (size_t k = 0; k < vars->n && !bad; k++) {
        const char *value = strchr(vars->v[k], '=') + 1;
        const char *there = is_preload(vars->v[k]) ? getenv("LD_PRELOAD") : NULL;
        agent = is_preload(vars->v[k]) ? value : agent;
        bad = texts_add(argv, "-genv") ||
              texts_addf(argv, "%.*s", (int)(value - vars->v[k]) - 1, vars->v[k]) ||
              add_merged(argv, value, there, "");
    }
    for (size_t i = 1; command[i] && !bad; i++) {
        size_t from = i;
        const char *theirs = agent ? hydra_preload(command, &i) : NULL;
        for (; from < i && !bad; from++)
            bad = texts_add(argv, command[from]);
        bad =
            bad || (!theirs ? texts_add(argv, command[i])
                            : texts_addf(argv, "%.*s%s%s%s", (int)(theirs - command[i]),
                                         command[i], agent, *theirs ? ":" : "", theirs));
    }
    return bad;
}

int launch_prepare(enum launcher kind, char *const *command, const struct texts *vars,
                   struct texts *argv, struct texts *envp)
{
    if (kind == LAUNCH_OPENMPI)
        return prepare_openmpi(command, vars, argv, envp);
    if (kind == LAUNCH_HYDRA)
        return prepare_hydra(command, vars, argv) || copy_environment(envp, vars, 0);
    for (size_t i = 0; command[i]; i++)
        if (texts_add(argv, command[i]))
            return -1;
    return copy_environment(envp, vars, 1);
}
