/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading what the gather and its launcher say; see words.h.
 */
#include "words.h"

#include "ident.h"

#include <stdio.h>
#include <string.h>

void words_init(struct words *w)
{
    memset(w, 0, sizeof *w);
    w->how = COLLECTED_NOTHING;
}

void words_fini(struct words *w)
{
    texts_fini(&w->lost);
}

/* What follows `head` in the line, or NULL.  Launchers may put tags in front. */
static const char *behind(const char *line, const char *head)
{
    const char *s = strstr(line, head);
    return s ? s + strlen(head) : NULL;
}

/* "written on HOST in FOLDER": a host has no spaces, a folder may have. */
static void take_place(struct words *w, const char *s)
{
    size_t n = strcspn(s, " ");
    if (!n || n >= sizeof w->host || strncmp(s + n, " in /", 5))
        return;
    snprintf(w->host, sizeof w->host, "%.*s", (int)n, s);
    snprintf(w->folder, sizeof w->folder, "%s", s + n + 4);
}

void words_output(struct words *w, const char *line)
{
    const char *s;
    if (behind(line, "heapline-gather: complete"))
        w->how = COLLECTED_WHOLE;
    else if (behind(line, "heapline-gather: incomplete"))
        w->how = COLLECTED_INCOMPLETE,
        w->ranks_unseen = strstr(line, " never seen)") != 0;
    else if (behind(line, "heapline-gather: started"))
        w->started = 1;
    else if ((s = behind(line, "heapline-gather: lost ")) && s[strspn(s, " ")])
        texts_add(&w->lost, s);
    else if ((s = behind(line, "heapline-gather: written on ")))
        take_place(w, s);
}

/* mpirun: "... process rank 1 with PID 7 on node n2 exited on signal 9 (Killed)." */
void words_error(struct words *w, const char *line)
{
    const char *s = behind(line, " on node "), *end = strstr(line, " exited on signal ");
    if (behind(line, "heapline-gather: "))
        w->complained = 1;
    else if (s && end > s && strcspn(s, " ") == (size_t)(end - s))
        snprintf(w->named, sizeof w->named, "%.*s", (int)(end - s), s);
}

int words_any(const struct words *w)
{
    return w->started || w->lost.n || w->how != COLLECTED_NOTHING;
}

static size_t index_of(const struct texts *hosts, const char *name)
{
    int64_t k;
    size_t i = 0;
    if (*name == '#')
        return hl_parse_i64(name + 1, 0, INT32_MAX, &k) ? hosts->n : (size_t)k;
    while (i < hosts->n && !launch_same_host(hosts->v[i], name))
        i++;
    return i;
}

size_t words_lost(const struct words *w, const struct texts *hosts, char *is_lost)
{
    size_t n = 0;
    for (size_t k = 0; k < w->lost.n; k++) {
        size_t i = index_of(hosts, w->lost.v[k]);
        if (i < hosts->n && !is_lost[i])
            is_lost[i] = 1, n++;
    }
    return n;
}
