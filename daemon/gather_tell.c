/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes and lines; see gather_tell.h.
 */
#include "gather_tell.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    va_list ap;
    fputs("heapline-gather: ", stderr);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void gather_tell_error(const struct hl_err *e, const char *outcome)
{
    note("%s%s", e->text, outcome);
}

void gather_tell_started(void)
{
    printf("heapline-gather: started\n");
    fflush(stdout);
}

void gather_tell_lost(struct hl_comm *c)
{
    if (c->lost < 0)
        return;
    const char *host = c->ops->host(c, c->lost);
    if (host)
        printf("heapline-gather: lost %s\n", host);
    else
        printf("heapline-gather: lost #%d\n", c->lost);
    fflush(stdout);
}

static void tell_processes(const struct hl_plan *p)
{
    if (p->n_other)
        note("frames of %zu more processes are in the HDF5 group heapline/other: they "
             "have no rank, or another process has it",
             p->n_other);
    if (p->n_running)
        note("%zu processes were still running", p->n_running);
    if (p->n_unshared)
        note("%zu killed processes could share no memory with the collector: their last "
             "frames may be lost",
             p->n_unshared);
}

static void tell_changes(const struct gather_changes *c)
{
    if (c->n_nulls)
        note("%llu numbers are infinite or not a number: they are null in the JSON file",
             (unsigned long long)c->n_nulls);
    if (c->n_replaced)
        note("%llu texts are not UTF-8: the bytes at fault are U+FFFD in the outputs",
             (unsigned long long)c->n_replaced);
}

void gather_tell_notes(const struct hl_plan *p, const struct gather_changes *c)
{
    for (size_t i = 0; i < p->n_missing; i++)
        note("missing: %s", p->missing[i]);
    tell_processes(p);
    tell_changes(c);
}

void gather_tell_status(const struct hl_plan *p, const char *const *output, size_t n)
{
    char unseen[48] = "";
    if (p->n_unseen)
        snprintf(unseen, sizeof unseen, " (%llu never seen)",
                 (unsigned long long)p->n_unseen);
    printf("heapline-gather: %s: %llu ranks%s, %llu frames, %zu processes in",
           p->n_missing > p->n_bypassed ? "incomplete" : "complete",
           (unsigned long long)p->n_ranks, unseen, (unsigned long long)p->total_frames,
           p->n_heap);
    for (size_t i = 0; i < n; i++)
        printf(" %s", output[i]);
    printf("\n");
    fflush(stdout);
}

void gather_tell_place(const char *host, const char *prefix)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", prefix);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = 0;
    char *whole = realpath(slash ? dir : ".", NULL);
    if (whole)
        printf("heapline-gather: written on %s in %s\n", host, whole);
    fflush(stdout);
    free(whole);
}

void gather_tell_kept(const char *key)
{
    note("not all could be read: the data of the run stay in their spools and fallback "
         "folders, and heapline-gather -j %s reads them again",
         key);
}

void gather_tell_not_taken(const char *host, const struct hl_err *e)
{
    note("the outputs are written, but the data on node %s are not marked as read: %s",
         host, e->text);
}

void gather_tell_not_told(const struct hl_err *e)
{
    note("the outputs are written, but not all nodes could be told, which keep their "
         "data: %s",
         e->text);
}
