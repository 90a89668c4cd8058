/* SPDX-License-Identifier: Apache-2.0
 *
 * Files beside the spools: markers made and removed, folders emptied, spools put
 * aside, all in the lane that writes; see store.h.
 */
#include "store.h"

#include "ident.h"
#include "path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct file_task {
    struct hl_task task;
    int root;
    struct hl_spool *spool; /* to put aside */
    void (*done)(void *ctx, int result);
    void *ctx;
    int result;
    char user[16];
    char name[]; /* below the root */
};

static void file_done(struct hl_task *t)
{
    struct file_task *f = (struct file_task *)t;
    if (f->done)
        f->done(f->ctx, f->result);
    free(f);
}

static struct file_task *new_task(struct hl_daemon *d, const char *name,
                                  void (*work)(struct hl_task *t))
{
    size_t n = strlen(name) + 1;
    struct file_task *f = calloc(1, sizeof *f + n);
    if (!f)
        return NULL;
    f->task = (struct hl_task){work, file_done, NULL};
    f->root = d->root;
    memcpy(f->name, name, n);
    return f;
}

static void unlink_work(struct hl_task *t)
{
    struct file_task *f = (struct file_task *)t;
    unlinkat(f->root, f->name, 0);
}

void hl_store_unlink(struct hl_daemon *d, const char *name)
{
    struct file_task *f = new_task(d, name, unlink_work);
    if (f)
        hl_lane_add(&d->writes, &f->task);
}

static void touch_work(struct hl_task *t)
{
    struct file_task *f = (struct file_task *)t;
    int fd = openat(f->root, f->name, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    f->result = fd < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
}

int hl_store_touch(struct hl_daemon *d, const char *name,
                   void (*done)(void *ctx, int result), void *ctx)
{
    struct file_task *f = new_task(d, name, touch_work);
    if (!f)
        return -1;
    f->done = done;
    f->ctx = ctx;
    hl_lane_add(&d->writes, &f->task);
    return 0;
}

/* Only what is known to be ours. */
static void folder_work(struct hl_task *t)
{
    struct file_task *f = (struct file_task *)t;
    int fd = openat(f->root, f->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *de;
    while (dir && (de = readdir(dir)))
        if (hl_path_ends_with(de->d_name, ".spool") ||
            hl_path_ends_with(de->d_name, ".points") ||
            hl_path_ends_with(de->d_name, ".bad") || strcmp(de->d_name, "taken") == 0)
            unlinkat(fd, de->d_name, 0);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    unlinkat(f->root, f->name, AT_REMOVEDIR);
    unlinkat(f->root, f->user, AT_REMOVEDIR); /* stays while it holds other jobs */
}

void hl_store_remove_folder(struct hl_daemon *d, uid_t uid, const char *folder)
{
    struct file_task *f = new_task(d, folder, folder_work);
    if (!f)
        return; /* found again at the next start */
    snprintf(f->user, sizeof f->user, "%u", (unsigned)uid);
    hl_lane_add(&d->writes, &f->task);
}

static void aside_work(struct hl_task *t)
{
    struct file_task *f = (struct file_task *)t;
    char bad[2 * HL_NAME_CAP + 8];
    snprintf(bad, sizeof bad, "%s.bad", f->name);
    if (renameat(f->root, f->name, f->root, bad))
        unlinkat(f->root, f->name, 0);
    hl_spool_close(f->spool);
    f->spool->made = f->spool->failed = 0;
}

void hl_store_set_aside(struct hl_daemon *d, struct hl_spool *s, const char *why)
{
    struct file_task *f = new_task(d, s->name, aside_work);
    hl_log(&d->log, HL_LOG_WARNING, "spools not read", NULL,
           "%s/%s cannot be used: %s; renamed to .bad", d->set.spool, s->name, why);
    d->count.spools_bad++;
    if (!f)
        return;
    f->spool = s;
    hl_lane_add(&d->writes, &f->task);
}
