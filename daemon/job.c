/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs and the users they belong to; see job.h.
 */
#include "job.h"

#include "clock.h"
#include "err.h"
#include "peer.h"
#include "lifetime.h"
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const state_names[] = {"NONE", "LIVE", "QUIET", "READ", "DONE"};

/* ---- users ---- */

struct hl_user *hl_user_of(struct hl_daemon *d, uid_t uid)
{
    struct hl_user *u = hl_table_get(&d->users, &uid, sizeof uid);
    if (u || !(u = calloc(1, sizeof *u)))
        return u;
    u->uid = uid;
    if (hl_table_put(&d->users, &uid, sizeof uid, u)) {
        free(u);
        return NULL;
    }
    return u;
}

void hl_user_release(struct hl_daemon *d, struct hl_user *u)
{
    if (u->n_peers || u->n_jobs || u->n_alive)
        return;
    hl_table_remove(&d->users, &u->uid, sizeof u->uid);
    free(u);
}

/* ---- find and make ---- */

static size_t table_key(uid_t uid, const char *key, size_t n, uint8_t *out)
{
    memcpy(out, &uid, sizeof uid);
    memcpy(out + sizeof uid, key, n);
    return sizeof uid + n;
}

struct hl_job *hl_job_find(struct hl_daemon *d, uid_t uid, struct hl_str key)
{
    uint8_t k[sizeof uid + HL_KEY_MAX];
    return hl_table_get(&d->jobs, k, table_key(uid, key.p, key.n, k));
}

struct hl_job *hl_job_get(struct hl_daemon *d, struct hl_user *u, struct hl_str key)
{
    uint8_t k[sizeof u->uid + HL_KEY_MAX];
    struct hl_job *j = hl_job_find(d, u->uid, key);
    if (j || !(j = calloc(1, sizeof *j)))
        return j;
    j->d = d;
    j->user = u;
    memcpy(j->key, key.p, key.n);
    hl_printable(key.p, key.n, j->shown, sizeof j->shown);
    if (hl_table_put(&d->jobs, k, table_key(u->uid, key.p, key.n, k), j)) {
        free(j);
        return NULL;
    }
    u->n_jobs++;
    return j;
}

void hl_job_free(struct hl_job *j)
{
    uint8_t k[sizeof j->user->uid + HL_KEY_MAX];
    struct hl_daemon *d = j->d;
    hl_table_remove(&d->jobs, k, table_key(j->user->uid, j->key, strlen(j->key), k));
    for (size_t i = 0; i < j->n_processes; i++)
        hl_process_free(j->process[i]);
    d->n_alive -= j->n_alive; /* at the daemon's end some still are */
    j->user->n_alive -= j->n_alive;
    free(j->process);
    free(j->told);
    j->user->n_jobs--;
    hl_user_release(d, j->user);
    free(j);
}

void hl_job_release(struct hl_job *j)
{
    if (!j->n_processes && !j->n_keepers && !j->n_gathers)
        hl_job_free(j);
}

struct hl_log_about hl_job_about(const struct hl_job *j)
{
    return (struct hl_log_about){j->shown, (int64_t)j->user->uid, -1};
}

/* ---- folder ---- */

void hl_job_folder(const struct hl_job *j, char *out)
{
    int n = snprintf(out, HL_NAME_CAP, "%u/", (unsigned)j->user->uid);
    hl_escape_key(j->key, HL_KEY_NAME_MAX, out + n);
}

int hl_job_make_folder(struct hl_job *j)
{
    char name[HL_NAME_CAP], user[16];
    snprintf(user, sizeof user, "%u", (unsigned)j->user->uid);
    hl_job_folder(j, name);
    if ((mkdirat(j->d->root, user, 0700) && errno != EEXIST) ||
        (mkdirat(j->d->root, name, 0700) && errno != EEXIST))
        return -errno;
    return 0;
}

/* ---- states ---- */

void hl_job_set_state(struct hl_job *j, enum hl_job_state s, const char *cause)
{
    struct hl_log_about about = hl_job_about(j);
    if (s == j->state)
        return;
    hl_log(&j->d->log, HL_LOG_DEBUG, NULL, &about, "job %s of uid %u: %s -> %s (%s)",
           j->shown, (unsigned)j->user->uid, state_names[j->state], state_names[s],
           cause);
    if (s == HL_JOB_LIVE && j->state == HL_JOB_NONE)
        j->begun_real_ns = hl_real_ns();
    if (s == HL_JOB_LIVE && j->state == HL_JOB_NONE)
        hl_log(&j->d->log, HL_LOG_INFO, "jobs begin", &about, "job %s of uid %u begins",
               j->shown, (unsigned)j->user->uid);
    if (s == HL_JOB_QUIET && j->state == HL_JOB_LIVE)
        hl_log(&j->d->log, HL_LOG_INFO, "jobs end", &about,
               "job %s of uid %u: its last process has ended, %zu in all", j->shown,
               (unsigned)j->user->uid, j->n_processes);
    j->state = s;
}

int hl_job_add(struct hl_job *j, struct hl_process *p)
{
    if (j->n_processes == j->cap) {
        size_t cap = j->cap ? 2 * j->cap : 4;
        struct hl_process **q = realloc(j->process, cap * sizeof *q);
        if (!q)
            return -1;
        j->process = q;
        j->cap = cap;
    }
    p->id = (uint32_t)j->n_processes;
    j->process[j->n_processes++] = p;
    return 0;
}

void hl_job_drop_last(struct hl_job *j)
{
    hl_process_free(j->process[--j->n_processes]);
    hl_job_release(j);
}

/* The marker that outlives a restart of the daemon. */
static void taken_name(const struct hl_job *j, char *out, size_t cap)
{
    char folder[HL_NAME_CAP];
    hl_job_folder(j, folder);
    snprintf(out, cap, "%s/taken", folder);
}

void hl_job_started(struct hl_job *j)
{
    j->n_alive++;
    j->user->n_alive++;
    j->d->n_alive++;
    if (j->taken) { /* new data: what was read whole is whole no more */
        char name[HL_NAME_CAP + 8];
        taken_name(j, name, sizeof name);
        unlinkat(j->d->root, name, 0);
        j->taken = 0;
    }
    hl_job_set_state(j, HL_JOB_LIVE, "hello");
}

void hl_job_ended(struct hl_job *j)
{
    j->n_alive--;
    j->user->n_alive--;
    j->d->n_alive--;
    if (j->n_alive)
        return;
    j->ended_real_ns = hl_real_ns();
    hl_job_set_state(j, j->taken ? HL_JOB_DONE : HL_JOB_QUIET, "last process ended");
    hl_answer_job_quiet(j);
    hl_lifetime_check(j->d);
}

int hl_job_taken(struct hl_job *j)
{
    char name[HL_NAME_CAP + 8];
    if (j->n_processes) {
        taken_name(j, name, sizeof name);
        int fd =
            openat(j->d->root, name, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return -errno;
        close(fd);
    }
    j->taken = 1;
    j->taken_real_ns = hl_real_ns();
    if (!j->n_alive)
        hl_job_set_state(j, HL_JOB_DONE, "read whole");
    return 0;
}

/* Files that were put aside go with their job. */
static void remove_bad_files(struct hl_daemon *d, const char *folder)
{
    int fd = openat(d->root, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *de;
    while (dir && (de = readdir(dir))) {
        size_t n = strlen(de->d_name);
        if (n > 4 && strcmp(de->d_name + n - 4, ".bad") == 0)
            unlinkat(fd, de->d_name, 0);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

void hl_job_remove(struct hl_job *j, const char *cause)
{
    struct hl_log_about about = hl_job_about(j);
    char name[HL_NAME_CAP + 8];
    struct hl_daemon *d = j->d;
    hl_log(&d->log, HL_LOG_INFO, "jobs removed", &about,
           "job %s of uid %u: its %zu spools are removed (%s)", j->shown,
           (unsigned)j->user->uid, j->n_processes, cause);
    for (size_t i = 0; i < j->n_processes; i++) {
        struct hl_process *p = j->process[i];
        int r = hl_spool_remove(&p->spool);
        if (r && r != -ENOENT)
            hl_log(&d->log, HL_LOG_ERR, "spools not removed", &about,
                   "cannot remove the spool %s: %s", p->spool.name, strerror(-r));
        j->user->spool_bytes -= p->spool.size;
    }
    taken_name(j, name, sizeof name);
    unlinkat(d->root, name, 0);
    hl_job_folder(j, name);
    remove_bad_files(d, name);
    unlinkat(d->root, name, AT_REMOVEDIR);
    snprintf(name, sizeof name, "%u", (unsigned)j->user->uid);
    unlinkat(d->root, name, AT_REMOVEDIR); /* stays while it holds other jobs */
    hl_job_free(j);
}

/* ---- what keepers say ---- */

void hl_job_note_end(struct hl_job *j, const struct hl_ended_msg *m)
{
    if (!j->told && !(j->told = calloc(HL_TOLD_MAX, sizeof *j->told)))
        return;
    j->told[j->n_told++ % HL_TOLD_MAX] =
        (struct hl_told_end){m->pid, m->start_ticks, m->end};
}

int hl_job_told(const struct hl_job *j, int64_t pid, uint64_t start_ticks,
                struct hl_end *end)
{
    size_t n = j->n_told < HL_TOLD_MAX ? j->n_told : HL_TOLD_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct hl_told_end *t = &j->told[i];
        if (t->pid != pid ||
            (t->start_ticks && start_ticks && t->start_ticks != start_ticks))
            continue;
        *end = t->end;
        return 1;
    }
    return 0;
}
