/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking the folder of the spools; see scan.h.  Layout: UID/ESCAPED-KEY/NAME.spool
 * and, once a gather has read everything, UID/ESCAPED-KEY/taken.
 */
#include "scan.h"

#include "points.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct walk {
    struct hl_found *f;
    struct hl_spool_pool *pool;
    const int *stop;
    uid_t uid;
    struct hl_found_job *job;
};

/* ---- growing lists ---- */

static void *one_more(void *list, size_t *n, size_t *cap, size_t each)
{
    char *p = *(char **)list;
    if (*n == *cap) {
        size_t more = *cap ? 2 * *cap : 8;
        p = realloc(p, more * each);
        if (!p)
            return NULL;
        *(char **)list = p;
        *cap = more;
    }
    p += (*n)++ * each;
    memset(p, 0, each);
    return p;
}

static int64_t mtime_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* ---- one file ---- */

/* A file that cannot be used must not be in the way of its process. */
static void set_aside(struct walk *w, const char *name, const char *why)
{
    char bad[PATH_MAX], text[PATH_MAX + 400];
    snprintf(bad, sizeof bad, "%s.bad", name);
    int moved = renameat(w->pool->root, name, w->pool->root, bad) == 0;
    snprintf(text, sizeof text, "%s cannot be used: %s%s", name, why,
             moved ? "; renamed to .bad" : "");
    char **p = one_more(&w->f->bad, &w->f->n_bad, &w->f->cap_bad, sizeof *w->f->bad);
    if (p)
        *p = strdup(text);
}

static struct hl_found_job *job_of(struct walk *w, const char *key)
{
    if (!w->job || strcmp(w->job->key, key) != 0) {
        w->job = one_more(&w->f->job, &w->f->n, &w->f->cap, sizeof *w->f->job);
        if (!w->job)
            return NULL;
        w->job->uid = w->uid;
        strcpy(w->job->key, key);
    }
    return w->job;
}

static uint64_t points_bytes(const struct walk *w, const char *spool)
{
    char name[PATH_MAX];
    struct stat st;
    return hl_points_name(spool, name, sizeof name) == 0 &&
                   fstatat(w->pool->root, name, &st, AT_SYMLINK_NOFOLLOW) == 0
               ? (uint64_t)st.st_size
               : 0;
}

static void add_file(struct walk *w, const char *name, const struct hl_loaded *l,
                     const struct stat *st, struct hl_loaded *keep)
{
    struct hl_found_job *j = job_of(w, l->key);
    struct hl_found_file *file =
        j ? one_more(&j->file, &j->n, &j->cap, sizeof *file) : NULL;
    if (!file) {
        w->f->no_memory = 1;
        if (keep)
            hl_loaded_fini(keep);
        free(keep);
        return;
    }
    *file = (struct hl_found_file){.pid = l->head.pid,
                                   .start_ticks = l->head.start_ticks,
                                   .image = l->head.image,
                                   .bytes = (uint64_t)st->st_size,
                                   .mtime_ns = mtime_ns(st),
                                   .loaded = keep};
    if (keep)
        file->bytes = keep->spool->size;
    file->bytes += points_bytes(w, name);
}

static void load_file(struct walk *w, const char *name, const struct stat *st)
{
    struct hl_err e = {0};
    struct hl_loaded *l = calloc(1, sizeof *l);
    if (!l) {
        w->f->no_memory = 1;
    } else if (hl_load(l, w->pool, w->uid, name, &e)) {
        set_aside(w, name, e.text[0] ? e.text : "its head is wrong");
        free(l);
    } else {
        l->head.key.p = l->key;
        add_file(w, name, l, st, l);
    }
}

static void take_file(struct walk *w, const char *name)
{
    struct hl_loaded head;
    struct stat st;
    int fd = openat(w->pool->root, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    int ended = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                hl_load_head(&head, fd, w->uid) == 0 &&
                hl_spool_is_finished(fd, (uint64_t)st.st_size) == 1;
    close(fd);
    if (ended)
        add_file(w, name, &head, &st, NULL);
    else
        load_file(w, name, &st);
}

/* ---- folders ---- */

static int is_spool(const char *name)
{
    size_t n = strlen(name);
    return n > 6 && strcmp(name + n - 6, ".spool") == 0;
}

/* Names in a folder, without dots; calls fn with each. */
static void each_name(struct walk *w, const char *folder,
                      void (*fn)(struct walk *w, const char *path))
{
    char path[PATH_MAX];
    struct dirent *de;
    int fd =
        openat(w->pool->root, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((de = readdir(dir)) && !__atomic_load_n(w->stop, __ATOMIC_RELAXED))
        if (de->d_name[0] != '.' &&
            snprintf(path, sizeof path, "%s/%s", folder, de->d_name) < (int)sizeof path)
            fn(w, path);
    closedir(dir);
}

static void on_entry(struct walk *w, const char *path)
{
    if (is_spool(path))
        take_file(w, path);
}

static void on_job(struct walk *w, const char *path)
{
    char taken[PATH_MAX];
    struct stat st;
    size_t from = w->f->n;
    w->job = NULL;
    each_name(w, path, on_entry);
    if (snprintf(taken, sizeof taken, "%s/taken", path) >= (int)sizeof taken ||
        fstatat(w->pool->root, taken, &st, AT_SYMLINK_NOFOLLOW))
        return;
    for (size_t i = from; i < w->f->n; i++)
        w->f->job[i].taken_ns = mtime_ns(&st);
}

static void on_user(struct walk *w, const char *path)
{
    int64_t uid;
    if (hl_parse_i64(path + 2, 0, UINT32_MAX - 1, &uid)) /* behind "./" */
        return;
    w->uid = (uid_t)uid;
    each_name(w, path + 2, on_job);
}

void hl_scan(struct hl_found *f, struct hl_spool_pool *pool, const int *stop)
{
    struct walk w = {.f = f, .pool = pool, .stop = stop};
    *f = (struct hl_found){.n = 0};
    each_name(&w, ".", on_user);
}

void hl_found_fini(struct hl_found *f)
{
    for (size_t i = 0; i < f->n; i++) {
        for (size_t k = 0; k < f->job[i].n; k++)
            if (f->job[i].file[k].loaded) {
                hl_loaded_fini(f->job[i].file[k].loaded);
                free(f->job[i].file[k].loaded);
            }
        free(f->job[i].file);
    }
    for (size_t i = 0; i < f->n_bad; i++)
        free(f->bad[i]);
    free(f->job);
    free(f->bad);
    *f = (struct hl_found){.n = 0};
}
