/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening the spools' folder and reading what an earlier run left; see store.h.
 * Layout: SPOOL/lock, SPOOL/UID/ESCAPED-KEY/NAME.spool and, once a gather has
 * read everything, SPOOL/UID/ESCAPED-KEY/taken.
 */
#include "store.h"

#include "clock.h"
#include "job.h"
#include "path.h"
#include "process.h"
#include "quota.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { SPOOLS_OPEN = 256 };

/* ---- folder and lock ---- */

static int open_folder(struct hl_daemon *d, struct hl_err *e)
{
    struct stat st;
    const char *name = d->set.spool;
    if (mkdir(name, 0700) && errno != EEXIST)
        return hl_fail_errno(
            e,
            "cannot make the spool folder %s (its parent must exist and be "
            "writable for uid %u)",
            name, (unsigned)d->self);
    d->root = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->root < 0 || fstat(d->root, &st))
        return hl_fail_errno(e, "cannot open the spool folder %s", name);
    if (st.st_uid != d->self || st.st_mode & 022)
        return hl_fail(e, EPERM,
                       "the spool folder %s must belong to uid %u and be writable for "
                       "it alone (mode 0700)",
                       name, (unsigned)d->self);
    return 0;
}

static int take_lock(struct hl_daemon *d, struct hl_err *e)
{
    char pid[32];
    d->lock = openat(d->root, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->lock < 0)
        return hl_fail_errno(e, "cannot make the lock %s/lock", d->set.spool);
    if (flock(d->lock, LOCK_EX | LOCK_NB)) {
        int err = errno;
        ssize_t n = pread(d->lock, pid, sizeof pid - 1, 0);
        pid[n > 0 ? n : 0] = 0;
        errno = err;
        if (err != EWOULDBLOCK)
            return hl_fail_errno(e, "cannot lock %s/lock", d->set.spool);
        return hl_fail(e, EBUSY, "already running: process %ld uses the spool %s",
                       strtol(pid, NULL, 10), d->set.spool);
    }
    int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(d->lock, 0) || pwrite(d->lock, pid, (size_t)n, 0) != n)
        hl_log(&d->log, HL_LOG_WARNING, NULL, NULL, "%s/lock: cannot note the pid: %s",
               d->set.spool, strerror(errno));
    return 0;
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

int hl_store_open(struct hl_daemon *d, struct hl_err *e)
{
    if (open_folder(d, e) || take_lock(d, e))
        return -1;
    hl_spool_pool_init(&d->pool, d->root, SPOOLS_OPEN);
    hl_quota_measure(d);
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

struct restore {
    struct hl_daemon *d;
    uid_t uid;
    struct hl_process *p; /* made when the head has come */
};

static int take_head(struct restore *r, const uint8_t *body, size_t n)
{
    struct hl_spool_head m;
    struct hl_daemon *d = r->d;
    if (r->p || hl_decode_spool_head(body, n, &m) || m.uid != r->uid)
        return -1;
    struct hl_user *u = hl_user_of(d, r->uid);
    struct hl_job *j = u ? hl_job_get(d, u, m.key) : NULL;
    if (!j || hl_process_find(d, r->uid, m.pid, m.image))
        return -1;
    r->p = hl_process_restore(j, m.pid, m.start_ticks, m.image);
    return r->p ? 0 : -1;
}

static int take_hello(struct restore *r, const uint8_t *body, size_t n)
{
    struct hl_hello h;
    if (hl_decode_hello(body, n, &h))
        return -1;
    if (h.role == HL_ROLE_FRAMES && h.flags & HL_HELLO_UNSHARED)
        r->p->flags |= HL_PROC_UNSHARED;
    return hl_process_keep_hello(r->p, h.role, body, n);
}

static int take_record(struct restore *r, const uint8_t *body, size_t n)
{
    struct hl_record_msg m;
    if (hl_decode_record(body, n, &m) ||
        (!r->p->record && !(r->p->record = malloc(sizeof m))))
        return -1;
    *r->p->record = m; /* the last one counts */
    return 0;
}

static int take_rest(struct restore *r, const struct hl_wire_header *h,
                     const uint8_t *body)
{
    struct hl_bye bye;
    struct hl_loss loss;
    const char *why;
    switch (h->type) {
    case HL_MSG_HELLO: return take_hello(r, body, h->length);
    case HL_MSG_RECORD: return take_record(r, body, h->length);
    case HL_MSG_BYE:
        if (hl_decode_bye(body, h->length, &bye))
            return -1;
        r->p->n_dropped = bye.n_dropped;
        return 0;
    case HL_MSG_LOSS:
        if (hl_decode_loss(body, h->length, &loss))
            return -1;
        r->p->n_lost = loss.n_rows;
        r->p->lost_reason = (int)(loss.reason & 0xffff);
        return 0;
    default: return hl_tally_take(&r->p->tally, h, body, &why);
    }
}

static int visit(void *ctx, const struct hl_wire_header *h, const uint8_t *body)
{
    struct restore *r = ctx;
    if (h->type == HL_MSG_SPOOL)
        return take_head(r, body, h->length);
    return r->p ? take_rest(r, h, body) : -1;
}

/* A file that cannot be used must not be in the way of its process. */
static void set_aside(struct hl_daemon *d, const char *name, const struct hl_err *e)
{
    char bad[PATH_MAX];
    d->count.spools_bad++;
    snprintf(bad, sizeof bad, "%s.bad", name);
    int moved = renameat(d->root, name, d->root, bad) == 0;
    hl_log(&d->log, HL_LOG_WARNING, "spools not read", NULL, "%s/%s cannot be used: %s%s",
           d->set.spool, name, e->text[0] ? e->text : "its head is wrong",
           moved ? "; renamed to .bad" : "");
}

static void restore_file(struct hl_daemon *d, uid_t uid, const char *name)
{
    struct restore r = {d, uid, NULL};
    struct hl_spool s;
    struct hl_err e = {0};
    int bad = hl_spool_open(&s, &d->pool, name, visit, &r, &e);
    if (bad || !r.p) {
        if (!bad)
            hl_spool_fini(&s);
        if (r.p)
            hl_job_drop_last(r.p->job);
        set_aside(d, name, &e);
        return;
    }
    hl_spool_move(&r.p->spool, &s);
    r.p->job->user->spool_bytes += r.p->spool.size;
    d->count.torn_tails += r.p->spool.cut_bytes != 0;
    if (r.p->spool.cut_bytes)
        hl_log(&d->log, HL_LOG_NOTICE, "torn tails cut", NULL,
               "spool %s: a torn tail of %llu bytes was cut", name,
               (unsigned long long)r.p->spool.cut_bytes);
}

static int is_spool(const char *name)
{
    size_t n = strlen(name);
    return n > 6 && strcmp(name + n - 6, ".spool") == 0;
}

/* The job's states of before: ended when its newest file was written. */
static void age_job(struct hl_job *j)
{
    char name[HL_NAME_CAP + 8];
    struct stat st;
    j->ended_real_ns = 0;
    for (size_t i = 0; i < j->n_processes; i++)
        if (fstatat(j->d->root, j->process[i]->spool.name, &st, AT_SYMLINK_NOFOLLOW) ==
                0 &&
            (int64_t)st.st_mtim.tv_sec * 1000000000 > j->ended_real_ns)
            j->ended_real_ns = (int64_t)st.st_mtim.tv_sec * 1000000000;
    hl_job_folder(j, name);
    strcat(name, "/taken");
    if (fstatat(j->d->root, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        j->taken = 1;
        j->taken_real_ns = (int64_t)st.st_mtim.tv_sec * 1000000000;
    }
    j->state = j->taken ? HL_JOB_DONE : HL_JOB_QUIET;
}

/* Names in a folder, without dots; calls fn with each. */
static void each_name(struct hl_daemon *d, const char *folder, uid_t uid,
                      void (*fn)(struct hl_daemon *d, uid_t uid, const char *path))
{
    char path[PATH_MAX];
    struct dirent *de;
    int fd = openat(d->root, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((de = readdir(dir)))
        if (de->d_name[0] != '.' &&
            snprintf(path, sizeof path, "%s/%s", folder, de->d_name) < (int)sizeof path)
            fn(d, uid, path);
    closedir(dir);
}

static void restore_entry(struct hl_daemon *d, uid_t uid, const char *path)
{
    if (is_spool(path))
        restore_file(d, uid, path);
}

static void restore_job(struct hl_daemon *d, uid_t uid, const char *path)
{
    each_name(d, path, uid, restore_entry);
}

static void restore_user(struct hl_daemon *d, uid_t unused, const char *path)
{
    int64_t uid;
    (void)unused;
    if (hl_parse_i64(path + 2, 0, UINT32_MAX - 1, &uid) == 0) /* behind "./" */
        each_name(d, path + 2, (uid_t)uid, restore_job);
}

void hl_store_restore(struct hl_daemon *d)
{
    struct hl_job *j;
    size_t n = 0;
    each_name(d, ".", 0, restore_user);
    for (size_t at = 0; (j = hl_table_next(&d->jobs, &at));) {
        n += j->n_processes;
        age_job(j);
    }
    if (n)
        hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL, "%zu spools of %zu jobs found in %s",
               n, d->jobs.n, d->set.spool);
}
