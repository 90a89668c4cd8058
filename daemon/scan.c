/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking the folder of the spools; see scan.h.  Layout: UID/ESCAPED-KEY/NAME.spool
 * and, once a gather has read everything, UID/ESCAPED-KEY/taken.
 */
#include "scan.h"

#include "ident.h"
#include "path.h"
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
    struct aside *aside; /* of the folder */
    size_t n_aside, cap_aside;
};

/* A spool that cannot be used: its name is all that is known of its process. */
struct aside {
    char name[HL_NAME_CAP];
    struct stat st;
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

/* name: the spool's, whatever it is called now. */
static void remember_aside(struct walk *w, const char *name, const struct stat *st)
{
    const char *base = hl_path_last(name);
    if (strlen(base) >= HL_NAME_CAP)
        return; /* nobody's spool */
    struct aside *a = one_more(&w->aside, &w->n_aside, &w->cap_aside, sizeof *a);
    if (!a) {
        w->f->no_memory = 1;
        return;
    }
    strcpy(a->name, base);
    a->st = *st;
}

static void say_unusable(struct walk *w, const char *name, const char *why, int moved)
{
    char text[PATH_MAX + 400];
    snprintf(text, sizeof text, "%s cannot be used: %s%s", name, why,
             moved ? "; renamed to .bad" : "");
    char **p = one_more(&w->f->bad, &w->f->n_bad, &w->f->cap_bad, sizeof *w->f->bad);
    if (p)
        *p = strdup(text);
}

/* A file that cannot be used must not be in the way of its process. */
static void set_aside(struct walk *w, const char *name, const struct stat *st,
                      const char *why)
{
    char bad[PATH_MAX];
    snprintf(bad, sizeof bad, "%s.bad", name);
    int moved = renameat(w->pool->root, name, w->pool->root, bad) == 0;
    say_unusable(w, name, why, moved);
    remember_aside(w, name, st);
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

/* NULL: no memory. */
static struct hl_found_file *add_file(struct walk *w, const char *name,
                                      const struct hl_loaded *l, const struct stat *st,
                                      struct hl_loaded *keep)
{
    struct hl_found_job *j = job_of(w, l->key);
    struct hl_found_file *file =
        j ? one_more(&j->file, &j->n, &j->cap, sizeof *file) : NULL;
    if (!file) {
        w->f->no_memory = 1;
        if (keep)
            hl_loaded_fini(keep);
        free(keep);
        return NULL;
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
    return file;
}

static void load_file(struct walk *w, const char *name, const struct stat *st)
{
    struct hl_err e = {0};
    struct hl_loaded *l = calloc(1, sizeof *l);
    if (!l) {
        w->f->no_memory = 1;
    } else if (hl_load(l, w->pool, w->uid, name, &e)) {
        set_aside(w, name, st, e.text[0] ? e.text : "its head is wrong");
        free(l);
    } else {
        l->head.key.p = l->key;
        add_file(w, name, l, st, l);
    }
}

/* It is a link, a socket, or not ours to read. */
static void no_spool(struct walk *w, const char *name, int why)
{
    struct stat st;
    if (fstatat(w->pool->root, name, &st, AT_SYMLINK_NOFOLLOW))
        return; /* removed meanwhile */
    say_unusable(w, name, strerror(why), 0);
    remember_aside(w, name, &st);
}

static void take_file(struct walk *w, const char *name)
{
    struct hl_loaded head;
    struct stat st;
    int fd = openat(w->pool->root, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        no_spool(w, name, errno);
        return;
    }
    int ended = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                hl_load_head(&head, fd, w->uid) == 0 &&
                hl_spool_is_finished(fd, (uint64_t)st.st_size) == 1;
    close(fd);
    if (ended)
        add_file(w, name, &head, &st, NULL);
    else
        load_file(w, name, &st);
}

/* One that was set aside at an earlier start: its process is still missing, unless it
 * began another spool. */
static void take_former_aside(struct walk *w, const char *path)
{
    char name[PATH_MAX];
    struct stat st;
    snprintf(name, sizeof name, "%.*s", (int)(strlen(path) - 4), path);
    if (fstatat(w->pool->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        faccessat(w->pool->root, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        remember_aside(w, name, &st);
}

/* A long key is not in a name, but other files of its folder have it. */
static int whose(struct walk *w, const struct aside *a, size_t first_job,
                 struct hl_loaded *l)
{
    char again[HL_NAME_CAP];
    if (hl_process_of_file_name(a->name, ".spool", l->key, &l->head.pid, &l->head.image))
        return 0;
    for (size_t i = first_job; i < w->f->n; i++) {
        hl_process_file_name(w->f->job[i].key, l->head.pid, l->head.image, ".spool",
                             again);
        if (strcmp(again, a->name) == 0)
            strcpy(l->key, w->f->job[i].key);
    }
    return 1;
}

/* They are members of their job all the same, so that a gather names them. */
static void enter_asides(struct walk *w, const char *folder, size_t first_job)
{
    char name[PATH_MAX];
    for (size_t i = 0; i < w->n_aside; i++) {
        struct hl_loaded l = {.spool = NULL};
        snprintf(name, sizeof name, "%s/%s", folder, w->aside[i].name);
        struct hl_found_file *file = whose(w, &w->aside[i], first_job, &l)
                                         ? add_file(w, name, &l, &w->aside[i].st, NULL)
                                         : NULL;
        if (file)
            file->is_aside = 1;
    }
    w->n_aside = 0;
}

/* ---- folders ---- */

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
    if (hl_path_ends_with(path, ".spool"))
        take_file(w, path);
    else if (hl_path_ends_with(path, ".spool.bad"))
        take_former_aside(w, path);
}

static void on_job(struct walk *w, const char *path)
{
    char taken[PATH_MAX];
    struct stat st;
    size_t from = w->f->n;
    w->job = NULL;
    each_name(w, path, on_entry);
    enter_asides(w, path, from);
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
    free(w.aside);
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
