/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at the folder of the spools while the daemon runs: how much room there
 * is, and whether it is still the one that was opened.  See store.h.
 */
#include "store.h"

#include "job.h"
#include "keep.h"
#include "process.h"
#include "quota.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct check {
    struct hl_task task;
    struct hl_daemon *d;
    struct statvfs v;
    int bad;        /* errno: it is gone, or another */
    int root, lock; /* of one in its place; -1 none */
    struct hl_err e;
};

static int is_the_same(int root, const char *name)
{
    struct stat ours, there;
    if (fstat(root, &ours) || stat(name, &there))
        return 0;
    return there.st_ino == ours.st_ino && there.st_dev == ours.st_dev;
}

static void check_work(struct hl_task *t)
{
    struct check *c = (struct check *)t;
    c->root = c->lock = -1;
    if (is_the_same(c->d->root, c->d->configured.spool)) {
        c->bad = fstatvfs(c->d->root, &c->v) ? errno : 0;
        return;
    }
    c->bad = ENOENT;
    hl_store_open_folder(c->d, &c->root, &c->lock, &c->e);
}

/* Those alive begin anew; of those that had ended nothing is left. */
static void begin_again(struct hl_daemon *d)
{
    struct hl_job *j;
    size_t n_lost = 0;
    for (int i = 0; i < 3; i++)
        for (struct hl_process *p = d->list[i].first; p; p = p->next)
            if (p->job->n_alive || i < HL_PROCESS_ENDED)
                hl_process_begin_again(p, ENOENT);
    for (size_t at = 0; (j = hl_table_next(&d->jobs, &at));) {
        if (!hl_job_is_at_rest(j))
            continue;
        n_lost++;
        hl_job_remove(j, "its folder is gone");
    }
    if (n_lost)
        hl_log(&d->log, HL_LOG_ERR, NULL, NULL,
               "%zu finished jobs are lost with the spool folder %s", n_lost,
               d->set.spool);
}

static void replace(struct hl_daemon *d, const struct check *c)
{
    /* Their numbers stay: other lanes may be about to use them. */
    dup3(c->root, d->root, O_CLOEXEC);
    dup3(c->lock, d->lock, O_CLOEXEC);
    close(c->root);
    close(c->lock);
    hl_keep_open_samples(d);
    hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL,
           "the spool folder %s is used anew; what was in the former one counts as lost",
           d->set.spool);
    begin_again(d);
}

static void say_gone(struct hl_daemon *d, const struct check *c)
{
    if (!d->folder_gone)
        hl_log(&d->log, HL_LOG_ERR, NULL, NULL,
               "the spool folder %s is gone or another one is in its place: %s",
               d->set.spool, c->e.text);
    d->folder_gone = 1;
    d->spool_errno = ENOENT;
    if (!hl_timer_is_set(d->retry_timer))
        hl_timer_set(d->retry_timer, 1000, 1000);
}

static void check_done(struct hl_task *t)
{
    struct check *c = (struct check *)t;
    struct hl_daemon *d = c->d;
    d->checking = 0;
    if (!c->bad)
        hl_quota_measured(d, (uint64_t)c->v.f_blocks * c->v.f_frsize,
                          (uint64_t)c->v.f_bavail * c->v.f_frsize);
    else if (c->root >= 0)
        replace(d, c);
    else if (c->bad == ENOENT)
        say_gone(d, c);
    if (c->root >= 0 || !c->bad)
        d->folder_gone = 0;
    free(c);
}

void hl_store_check(struct hl_daemon *d)
{
    struct check *c = d->checking || d->stopping ? NULL : calloc(1, sizeof *c);
    if (!c)
        return;
    d->checking = 1;
    c->d = d;
    c->task = (struct hl_task){check_work, check_done, NULL};
    hl_lane_add(&d->writes, &c->task);
}
