/* SPDX-License-Identifier: Apache-2.0
 *
 * A private collector ends when no keeper or gather is connected and either all
 * its data were read whole (then its folder goes) or no process is alive (then
 * the spools stay for a gather to come).  See lifetime.h.
 */
#include "lifetime.h"

#include "clock.h"
#include "ident.h"
#include "job.h"
#include "listen.h"
#include "path.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Whoever started it needs time to connect; and one keeper may go just before
 * the next comes. */
enum { FIRST_WAIT_S = 10, SETTLE_MS = 50 };

void hl_lifetime_check(struct hl_daemon *d)
{
    if (d->private_run && !d->stopping)
        hl_timer_set(d->private_timer, SETTLE_MS, 0);
}

static int all_taken(const struct hl_daemon *d)
{
    const struct hl_job *j;
    for (size_t at = 0; (j = hl_table_next(&d->jobs, &at));)
        if (j->n_processes && !j->taken)
            return 0;
    return 1;
}

void hl_lifetime_on_timer(void *daemon)
{
    struct hl_daemon *d = daemon;
    int64_t age_ns = hl_mono_ns() - d->started_ns;
    if (d->n_keepers || d->n_gathers || d->n_new || !d->scanned)
        return; /* their end calls again */
    if (!d->met_anyone && age_ns < (int64_t)FIRST_WAIT_S * 1000000000) {
        hl_timer_set(d->private_timer, FIRST_WAIT_S * 1000, 0);
        return;
    }
    if (d->n_alive && !(d->met_anyone && all_taken(d)))
        return; /* the last process's end calls again */
    if (hl_listen_accept(d)) {
        hl_timer_set(d->private_timer, SETTLE_MS, 0);
        return;
    }
    hl_daemon_stop(d);
}

/* Is this the folder of one run as heapline-run makes it? */
static int is_run_folder(const char *dir)
{
    char base[HL_NAME_CAP];
    size_t n = hl_private_base((uint32_t)geteuid(), base);
    return strncmp(dir, base, n) == 0 && dir[n] == '/' && dir[n + 1] &&
           dir[n + 1] != '.' && !strchr(dir + n + 1, '/');
}

void hl_lifetime_remove_spools(struct hl_daemon *d)
{
    struct hl_job *j;
    if (!d->private_run || !all_taken(d))
        return;
    for (size_t at = 0; (j = hl_table_next(&d->jobs, &at));)
        if (j->n_processes && hl_job_is_at_rest(j))
            hl_job_remove(j, "read whole");
}

static void folder_of(const char *member, char *out, size_t cap)
{
    snprintf(out, cap, "%s", member);
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = 0;
}

/* The folder that a run's socket or spool lies in. */
static void remove_run_folder(const char *member)
{
    char dir[4096];
    folder_of(member, dir, sizeof dir);
    if (is_run_folder(dir))
        hl_path_remove_tree(dir);
}

/* A gather reads a spool that was left: the collector's own folder has nothing of it. */
static int spool_is_elsewhere(const struct hl_daemon *d)
{
    char socket[4096], spool[4096];
    folder_of(d->set.socket, socket, sizeof socket);
    folder_of(d->set.spool, spool, sizeof spool);
    return strcmp(socket, spool) != 0;
}

void hl_lifetime_clean(struct hl_daemon *d)
{
    if (d->private_run && spool_is_elsewhere(d))
        remove_run_folder(d->set.socket);
    if (!d->private_run || !all_taken(d))
        return;
    /* Only what is known to be ours: --spool may name any folder. */
    unlinkat(d->root, "samples", 0);
    unlinkat(d->root, "lock", 0);
    rmdir(d->set.spool);
    remove_run_folder(d->set.socket);
    remove_run_folder(
        d->set.spool); /* another one when a gather reads a spool that was left */
}
