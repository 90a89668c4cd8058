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
#include "sampling.h"
#include "store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    for (size_t i = 0; i < j->n_members; i++)
        if (j->member[i].live)
            hl_process_free(j->member[i].live);
    d->n_alive -= j->n_alive; /* at the daemon's end some still are */
    j->user->n_alive -= j->n_alive;
    free(j->member);
    free(j->told);
    j->user->n_jobs--;
    hl_user_release(d, j->user);
    free(j);
}

void hl_job_release(struct hl_job *j)
{
    if (!j->n_processes && !j->n_keepers && !j->n_gathers && !j->n_tasks)
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

void hl_job_spool_name(const struct hl_job *j, int64_t pid, uint64_t image, char *out)
{
    hl_job_folder(j, out);
    size_t n = strlen(out);
    out[n++] = '/';
    hl_process_file_name(j->key, pid, image, ".spool", out + n);
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
        hl_log(&j->d->log, HL_LOG_INFO, "jobs begin", &about, "job %s of uid %u begins",
               j->shown, (unsigned)j->user->uid);
    if (s == HL_JOB_QUIET && j->state == HL_JOB_LIVE)
        hl_log(&j->d->log, HL_LOG_INFO, "jobs end", &about,
               "job %s of uid %u: its last process has ended, %zu in all", j->shown,
               (unsigned)j->user->uid, j->n_processes);
    j->state = s;
}

/* ---- members ---- */

int64_t hl_job_add(struct hl_job *j, int64_t pid, uint64_t start_ticks, uint64_t image)
{
    if (j->n_members == j->cap) {
        size_t cap = j->cap ? 2 * j->cap : 4;
        struct hl_member *q = realloc(j->member, cap * sizeof *q);
        if (!q || cap > UINT32_MAX)
            return -1;
        j->member = q;
        j->cap = cap;
    }
    j->n_processes++;
    j->member[j->n_members] =
        (struct hl_member){pid, start_ticks, image, NULL, -1, HL_ROWS_UNKNOWN, 0};
    return (int64_t)j->n_members++;
}

int64_t hl_job_folded(const struct hl_job *j, int64_t pid, uint64_t image)
{
    for (size_t i = 0; i < j->n_members; i++)
        if (j->member[i].image == image && j->member[i].pid == pid && !j->member[i].live)
            return (int64_t)i;
    return -1;
}

void hl_job_fold(struct hl_job *j)
{
    for (size_t i = 0; i < j->n_members && j->n_open; i++)
        if (j->member[i].live)
            hl_process_fold(j->member[i].live);
}

int hl_job_is_at_rest(const struct hl_job *j)
{
    if (j->n_alive || j->n_keepers || j->n_gathers || j->n_tasks || !j->n_processes)
        return 0;
    for (size_t i = 0; j->n_open && i < j->n_members; i++)
        if (j->member[i].live && !hl_process_is_settled(j->member[i].live))
            return 0;
    return 1;
}

/* ---- begin and end ---- */

/* The marker that outlives a restart of the daemon. */
static void taken_name(const struct hl_job *j, char *out, size_t cap)
{
    char folder[HL_NAME_CAP];
    hl_job_folder(j, folder);
    snprintf(out, cap, "%s/taken", folder);
}

static void forget_taken(struct hl_job *j)
{
    char name[HL_NAME_CAP + 8];
    taken_name(j, name, sizeof name);
    hl_store_unlink(j->d, name);
    j->taken = 0;
}

void hl_job_started(struct hl_job *j)
{
    j->n_alive++;
    j->user->n_alive++;
    j->d->n_alive++;
    if (!j->begun_real_ns)
        j->begun_real_ns = hl_real_ns();
    if (j->taken) /* new data: what was read whole is whole no more */
        forget_taken(j);
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

struct taken {
    struct hl_job *j;
    void (*done)(struct hl_job *j, int result);
};

static void taken_noted(void *ctx, int result)
{
    struct taken *t = ctx;
    struct hl_job *j = t->j;
    j->n_tasks--;
    if (result) {
        j->taken = 0;
    } else if (!j->n_alive) {
        j->taken_real_ns = hl_real_ns();
        hl_job_set_state(j, HL_JOB_DONE, "read whole");
    }
    t->done(j, result);
    free(t);
    hl_job_release(j);
}

int hl_job_taken(struct hl_job *j, void (*done)(struct hl_job *j, int result))
{
    char name[HL_NAME_CAP + 8];
    struct taken *t = malloc(sizeof *t);
    if (!t)
        return -1;
    *t = (struct taken){j, done};
    j->n_tasks++;
    j->taken = 1;
    taken_name(j, name, sizeof name);
    if (!j->n_processes) /* nothing to mark, and no folder to do it in */
        taken_noted(t, 0);
    else if (hl_store_touch(j->d, name, taken_noted, t))
        taken_noted(t, -ENOMEM);
    return 0;
}

void hl_job_remove(struct hl_job *j, const char *cause)
{
    struct hl_log_about about = hl_job_about(j);
    char name[HL_NAME_CAP];
    struct hl_daemon *d = j->d;
    hl_log(&d->log, HL_LOG_INFO, "jobs removed", &about,
           "job %s of uid %u: its %zu spools are removed (%s)", j->shown,
           (unsigned)j->user->uid, j->n_processes, cause);
    j->user->spool_bytes -= j->spool_bytes;
    d->n_folded += j->n_members;
    hl_tidy_soon(d);
    hl_job_folder(j, name);
    uid_t uid = j->user->uid;
    hl_job_free(j);
    hl_store_remove_folder(d, uid, name);
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
