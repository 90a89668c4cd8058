/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening the spools' folder and taking over what an earlier run left; see
 * store.h and scan.h.
 */
#include "store.h"

#include "job.h"
#include "keep.h"
#include "lifetime.h"
#include "peer.h"
#include "process.h"
#include "quota.h"
#include "scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { SPOOLS_OPEN = 256 };

/* ---- folder and lock ---- */

static int open_root(const struct hl_daemon *d, int *root, struct hl_err *e)
{
    struct stat st;
    const char *name = d->configured.spool;
    if (mkdir(name, 0700) && errno != EEXIST)
        return hl_fail_errno(
            e,
            "cannot make the spool folder %s (its parent must exist and be "
            "writable for uid %u)",
            name, (unsigned)d->self);
    *root = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*root < 0 || fstat(*root, &st))
        return hl_fail_errno(e, "cannot open the spool folder %s", name);
    if (st.st_uid != d->self || st.st_mode & 022)
        return hl_fail(e, EPERM,
                       "the spool folder %s must belong to uid %u and be writable for "
                       "it alone (mode 0700)",
                       name, (unsigned)d->self);
    return 0;
}

static int take_lock(const struct hl_daemon *d, int root, int *lock, struct hl_err *e)
{
    char pid[32];
    *lock = openat(root, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*lock < 0)
        return hl_fail_errno(e, "cannot make the lock %s/lock", d->configured.spool);
    if (flock(*lock, LOCK_EX | LOCK_NB)) {
        int err = errno;
        ssize_t n = pread(*lock, pid, sizeof pid - 1, 0);
        pid[n > 0 ? n : 0] = 0;
        errno = err;
        if (err != EWOULDBLOCK)
            return hl_fail_errno(e, "cannot lock %s/lock", d->configured.spool);
        return hl_fail(e, EBUSY, "already running: process %ld uses the spool %s",
                       strtol(pid, NULL, 10), d->configured.spool);
    }
    int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    /* On a full disk the lock holds all the same; the number is a courtesy. */
    int noted = ftruncate(*lock, 0) == 0 && pwrite(*lock, pid, (size_t)n, 0) == n;
    (void)noted;
    return 0;
}

int hl_store_open_folder(const struct hl_daemon *d, int *root, int *lock,
                         struct hl_err *e)
{
    *root = *lock = -1;
    if (open_root(d, root, e) == 0 && take_lock(d, *root, lock, e) == 0)
        return 0;
    if (*root >= 0)
        close(*root);
    if (*lock >= 0)
        close(*lock);
    *root = *lock = -1;
    return -1;
}

static void warn_of_network(struct hl_daemon *d)
{
    static const unsigned long magics[] = {0x6969 /* NFS */,
                                           0xff534d42 /* CIFS */,
                                           0xfe534d42 /* SMB2 */,
                                           0x0bd00bd0 /* Lustre */,
                                           0x47504653 /* GPFS */,
                                           0x19830326 /* BeeGFS */,
                                           0x00c36400 /* Ceph */};
    struct statfs s;
    if (d->private_run || fstatfs(d->root, &s))
        return;
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (((unsigned long)s.f_type & 0xffffffff) == magics[i])
            hl_log(&d->log, HL_LOG_WARNING, NULL, NULL,
                   "the spool %s is on a network file system: use a local disk",
                   d->set.spool);
}

static void measure(struct hl_daemon *d)
{
    struct statvfs v;
    if (fstatvfs(d->root, &v) == 0)
        hl_quota_measured(d, (uint64_t)v.f_blocks * v.f_frsize,
                          (uint64_t)v.f_bavail * v.f_frsize);
}

int hl_store_open(struct hl_daemon *d, struct hl_err *e)
{
    if (hl_store_open_folder(d, &d->root, &d->lock, e))
        return -1;
    hl_spool_pool_init(&d->pool, d->root, SPOOLS_OPEN);
    measure(d);
    warn_of_network(d);
    return 0;
}

void hl_store_close(struct hl_daemon *d)
{
    if (d->root >= 0)
        close(d->root);
    if (d->lock >= 0)
        close(d->lock);
    d->root = d->lock = -1;
}

/* ---- what an earlier run left ---- */

struct scan {
    struct hl_task task;
    struct hl_daemon *d;
    struct hl_found found;
};

static void scan_work(struct hl_task *t)
{
    struct scan *s = (struct scan *)t;
    hl_scan(&s->found, &s->d->pool, &s->d->stopping);
}

static void enter_file(struct hl_job *j, struct hl_found_file *file)
{
    int64_t id;
    j->spool_bytes += file->bytes;
    j->user->spool_bytes += file->bytes;
    struct hl_process *p = hl_process_find(j->d, j->user->uid, file->pid, file->image);
    if (p) { /* it came back already, and meets its former life */
        if (file->loaded && file->loaded->has_slot)
            hl_keep_claim(p, &file->loaded->slot);
        return;
    }
    id = hl_job_add(j, file->pid, file->start_ticks, file->image);
    if (id < 0)
        return;
    j->n_aside += file->is_aside != 0;
    if (!file->loaded) {
        j->member[id].has_end = !file->is_aside;
        return;
    }
    if (hl_spool_has_damage(file->loaded->spool)) {
        hl_log(&j->d->log, HL_LOG_WARNING, "spools damaged", NULL,
               "spool %s: damaged; %llu bytes, but for the end, cannot be read",
               file->loaded->spool->name,
               (unsigned long long)file->loaded->spool->cut_bytes);
    } else if (file->loaded->spool->cut_bytes) {
        j->d->count.torn_tails++;
        hl_log(&j->d->log, HL_LOG_NOTICE, "torn tails cut", NULL,
               "spool %s: a torn tail of %llu bytes was cut", file->loaded->spool->name,
               (unsigned long long)file->loaded->spool->cut_bytes);
    }
    struct hl_slot slot = file->loaded->slot;
    int has_slot = file->loaded->has_slot;
    p = hl_process_restore(j, (size_t)id, file->loaded);
    if (p && has_slot)
        hl_keep_restore(p, &slot);
}

/* The job's states of before: ended when its newest file was written. */
static void enter_job(struct hl_daemon *d, struct hl_found_job *found)
{
    struct hl_user *u = hl_user_of(d, found->uid);
    struct hl_job *j =
        u ? hl_job_get(d, u, (struct hl_str){found->key, strlen(found->key)}) : NULL;
    if (!j)
        return;
    for (size_t i = 0; i < found->n; i++) {
        enter_file(j, &found->file[i]);
        if (!j->n_alive && found->file[i].mtime_ns > j->ended_real_ns)
            j->ended_real_ns = found->file[i].mtime_ns;
    }
    if (j->n_alive)
        return;
    j->taken = found->taken_ns != 0;
    j->taken_real_ns = found->taken_ns;
    j->state = j->taken ? HL_JOB_DONE : HL_JOB_QUIET;
}

static void scan_done(struct hl_task *t)
{
    struct scan *s = (struct scan *)t;
    struct hl_daemon *d = s->d;
    struct hl_found *f = &s->found;
    size_t n = 0;
    for (size_t i = 0; i < f->n_bad; i++)
        if (f->bad[i])
            hl_log(&d->log, HL_LOG_WARNING, "spools not read", NULL, "%s/%s",
                   d->set.spool, f->bad[i]);
    d->count.spools_bad += f->n_bad;
    for (size_t i = 0; i < f->n; i++) {
        enter_job(d, &f->job[i]);
        n += f->job[i].n;
    }
    if (f->no_memory)
        hl_log(&d->log, HL_LOG_ERR, NULL, NULL,
               "no memory for all spools in %s: some are not known until the next start",
               d->set.spool);
    if (n)
        hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL, "%zu spools of %zu jobs found in %s",
               n, f->n, d->set.spool);
    hl_found_fini(f);
    free(s);
    hl_keep_restored(d);
    d->scanned = 1;
    hl_answer_scanned(d);
    hl_lifetime_check(d);
}

int hl_store_restore(struct hl_daemon *d)
{
    struct scan *s = calloc(1, sizeof *s);
    if (!s)
        return -1;
    s->task = (struct hl_task){scan_work, scan_done, NULL};
    s->d = d;
    hl_lane_add(&d->writes, &s->task);
    return 0;
}
