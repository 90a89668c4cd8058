/* SPDX-License-Identifier: Apache-2.0
 *
 * The command that gathers a run later, for the user to paste; see collect.h.
 */
#include "collect.h"

#include "command.h"
#include "ident.h"
#include "path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void collect_absolute(const char *prefix, char *out, size_t cap)
{
    char own[4096];
    if (*prefix == '/' || !getcwd(own, sizeof own))
        snprintf(out, cap, "%s", prefix);
    else
        snprintf(out, cap, "%s/%s", own, prefix);
}

/* A long list goes to a file beside the outputs. Its name, or NULL: not needed. */
static const char *keep_host_file(const struct collect *c, const struct texts *hosts,
                                  char *name, size_t cap)
{
    struct starter s;
    if (hosts->n <= COLLECT_HOSTS_IN_LINE || !command_is_remote(hosts) ||
        starter_init(&s, c->o->launcher, c->fallback_dir))
        return NULL;
    snprintf(name, cap, "%s.hosts", c->prefix);
    FILE *f = fopen(name, "we");
    int bad = !f || starter_write_hosts(&s, hosts, f);
    if (f)
        fclose(f);
    starter_fini(&s);
    return bad ? NULL : name;
}

static void print_command(const struct collect *c, const struct texts *argv)
{
    for (size_t i = 0; i < argv->n; i++)
        if (strcmp(argv->v[i], "-q"))
            command_print(stderr, argv->v[i]);
    if (c->spool) {
        fprintf(stderr, " --spool");
        command_print(stderr, c->spool);
    }
    fprintf(stderr, "\n");
}

/* What holds for a command that is pasted later. */
static struct collect for_later(const struct collect *c, char *prefix, size_t cap)
{
    struct collect later = *c;
    collect_absolute(c->prefix, prefix, cap);
    later.prefix = prefix;
    if (later.spool && !later.spool_is_far && access(later.spool, F_OK))
        later.spool = NULL;
    if (later.spool)
        later.sockets = NULL;
    return later;
}

void collect_tell_command(const struct collect *c, const char *why)
{
    struct texts argv = {0}, hosts = {0};
    char prefix[8300], file[8400];
    struct collect later = for_later(c, prefix, sizeof prefix);
    if (command_order(c->hosts, &hosts) == 0 &&
        collect_command(&later, &hosts, keep_host_file(&later, &hosts, file, sizeof file),
                        &argv) == 0) {
        fprintf(stderr, "heapline-run: %s:", why);
        /* A launcher's line hands it on; here the gather has to be told. */
        if (!command_is_remote(&hosts) && strcmp(c->fallback_dir, "/tmp")) {
            fprintf(stderr, " env");
            char *set = NULL;
            if (asprintf(&set, "HEAPLINE_FALLBACK_DIR=%s", c->fallback_dir) >= 0)
                command_print(stderr, set);
            free(set);
        }
        print_command(&later, &argv);
    }
    texts_fini(&hosts);
    texts_fini(&argv);
}

/* How the launchers say how many: "-n 1", or in one word. */
static void put_unknown_counts(struct texts *argv)
{
    static const char *const words[] = {"--nodes=", "--ntasks="};
    for (size_t i = 0; i < argv->n; i++) {
        if (i + 1 < argv->n && !strcmp(argv->v[i], "-n") && !strcmp(argv->v[i + 1], "1"))
            strcpy(argv->v[i + 1], "N");
        for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
            size_t n = strlen(words[k]);
            if (!strncmp(argv->v[i], words[k], n) && !strcmp(argv->v[i] + n, "1"))
                strcpy(argv->v[i] + n, "N");
        }
    }
}

void collect_tell_unknown(const struct collect *c, const char *why)
{
    struct texts argv = {0}, hosts = {0};
    char prefix[8300];
    struct collect later = for_later(c, prefix, sizeof prefix);
    if (texts_add(&hosts, "NODES") == 0 &&
        collect_command(&later, &hosts, NULL, &argv) == 0) {
        fprintf(
            stderr,
            "heapline-run: %s, NODES being the list of them and N their number:", why);
        put_unknown_counts(&argv);
        print_command(&later, &argv);
    }
    texts_fini(&hosts);
    texts_fini(&argv);
}

void collect_tell_failure(const struct collect *c)
{
    char dir[4096];
    int has_files = hl_fallback_dir(c->fallback_dir, geteuid(), dir, sizeof dir) &&
                    hl_path_is_own_dir(dir);
    if (c->has_collector || has_files || command_is_remote(c->hosts))
        collect_tell_command(
            c, "the outputs were not written; the data are kept, write them with");
    else
        fprintf(stderr,
                "heapline-run: nothing was recorded: no collector, and no folder in %s "
                "that is "
                "this user's alone\n",
                c->fallback_dir);
}
