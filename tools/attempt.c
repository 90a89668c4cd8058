/* SPDX-License-Identifier: Apache-2.0
 *
 * One start of the gather, and probes; see attempt.h.
 */
#include "attempt.h"

#include "child.h"
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PROBES_MAX = 32,
    FAILED_MAX = 8,
    STEP_MS = 200,
    PROBE_STEP_MS = 20,
    HELD_MAX = 1000,
    LOOK_MS = 1000
};

struct attempt_bounds attempt_bounds(size_t n)
{
    return (struct attempt_bounds){.ask = 10000 + 50 * (int64_t)n,
                                   .start = 120000 + 200 * (int64_t)n,
                                   .probe = 15000,
                                   .end = 10000,
                                   .finish = 40000 + 50 * (int64_t)n,
                                   .resist = 5000};
}

/* ---- which nodes answer ---- */

struct group {
    size_t at, n; /* of the hosts */
    struct watch watch;
    int failed;
};

static int start_probe(const struct starter *s, const struct texts *hosts,
                       char *const *envp, struct group *g)
{
    struct texts argv = {0}, some = {hosts->v + g->at, g->n};
    int bad = starter_line(s, &some, NULL, &argv) || texts_add(&argv, "true");
    struct watch_plan plan = {.argv = argv.v, .envp = envp, .is_quiet = 1};
    bad = bad || watch_start(&g->watch, &plan);
    texts_fini(&argv);
    return bad ? -1 : 0;
}

/* All groups at once, until each has answered or the time is over. */
static void ask_groups(const struct starter *s, const struct texts *hosts,
                       char *const *envp, const struct attempt_bounds *b, struct group *g,
                       size_t n)
{
    int64_t until = watch_now_ms() + b->probe;
    for (size_t i = 0; i < n; i++)
        g[i].failed = start_probe(s, hosts, envp, &g[i]) ? -1 : 1;
    for (size_t left = n; left && watch_now_ms() < until && !child_signalled();) {
        left = 0;
        for (size_t i = 0; i < n; i++) {
            if (g[i].failed < 0 || g[i].watch.ended)
                continue;
            if (watch_step(&g[i].watch, 0)) {
                watch_end(&g[i].watch);
                g[i].failed = g[i].watch.status != 0;
            } else {
                left++;
            }
        }
        if (left)
            usleep(PROBE_STEP_MS * 1000);
    }
    for (size_t i = 0; i < n; i++)
        if (g[i].failed > 0 && !g[i].watch.ended)
            watch_stop(&g[i].watch, 200);
}

/* Cut the range at..at+n in up to `parts` groups. */
static size_t cut(struct group *g, size_t at, size_t n, size_t parts)
{
    size_t each = (n + parts - 1) / parts, k = 0;
    for (size_t i = 0; i < n; i += each)
        g[k++] = (struct group){.at = at + i, .n = n - i < each ? n - i : each};
    return k;
}

/* The groups that failed, split again; hosts that failed alone are silent.  The
 * number of groups, or -1: so many failed that it is not for single nodes. */
static int split_failed(const struct group *g, size_t n, struct group *next, char *silent)
{
    size_t n_large = 0, k = 0;
    for (size_t i = 0; i < n; i++) {
        if (g[i].failed && g[i].n == 1)
            silent[g[i].at] = 1;
        n_large += g[i].failed && g[i].n > 1;
    }
    if (n_large > FAILED_MAX)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (g[i].failed && g[i].n > 1)
            k += cut(next + k, g[i].at, g[i].n, PROBES_MAX / n_large);
    return (int)k;
}

int attempt_probe(const struct starter *s, const struct texts *hosts, char *const *envp,
                  const struct attempt_bounds *b, char *silent)
{
    struct group *g = calloc(2 * PROBES_MAX, sizeof *g), *next = g + PROBES_MAX;
    memset(silent, 0, hosts->n);
    int n = g ? (int)cut(g, 0, hosts->n, PROBES_MAX) : -1;
    struct group *now = g;
    while (n > 0 && !child_signalled()) {
        ask_groups(s, hosts, envp, b, now, (size_t)n);
        n = split_failed(now, (size_t)n, next, silent);
        struct group *old = now;
        now = next;
        next = old;
    }
    free(g);
    return n < 0 ? -1 : 0;
}

/* ---- one start ---- */

static void take_line(void *ctx, int stream, const char *line)
{
    struct attempt *a = ctx;
    if (stream == WATCH_OUT)
        words_output(&a->words, line);
    else
        words_error(&a->words, line);
    if (a->verbose || (stream == WATCH_ERR && strstr(line, "heapline-gather: ")))
        fprintf(stderr, "%s\n", line);
    else if (stream == WATCH_ERR && a->held.n < HELD_MAX)
        texts_add(&a->held, line);
}

void attempt_tell_held(struct attempt *a)
{
    for (size_t i = 0; i < a->held.n; i++)
        fprintf(stderr, "%s\n", a->held.v[i]);
    texts_fini(&a->held);
}

static int any_silent(const struct attempt *a)
{
    return a->silent && memchr(a->silent, 1, a->hosts->n) != NULL;
}

/* No word yet.  1: give up. */
static int ask(struct attempt *a, struct watch *w)
{
    if (!a->silent)
        a->silent = calloc(a->hosts->n + 1, 1);
    if (!a->silent ||
        attempt_probe(a->starter, a->hosts, a->envp, &a->bounds, a->silent) ||
        watch_step(w, 0) || words_any(&a->words)) { /* it came meanwhile */
        free(a->silent);
        a->silent = NULL;
        return 0;
    }
    return any_silent(a);
}

/* Somebody has stopped it, or what it started here, and nobody goes on with it: it
 * would wait for ever.  1: that has lasted. */
static int is_stopped(struct attempt *a, const struct watch *w, int64_t now)
{
    if (now < a->look_ms)
        return 0;
    a->look_ms = now + LOOK_MS;
    pid_t pid = watch_stopped(w);
    if (!pid)
        a->stopped_ms = 0;
    else if (!a->stopped_ms)
        a->stopped_ms = now;
    else if (now - a->stopped_ms > a->bounds.end) {
        fprintf(stderr,
                "heapline-run: process %ld of the gather is stopped: it is ended\n",
                (long)pid);
        return 1;
    }
    return 0;
}

/* Until the launcher has ended (1), or has to be ended (0). */
static int follow(struct attempt *a, struct watch *w)
{
    int64_t start = watch_now_ms(), last_word = -1;
    int asked = !a->starter;
    while (!watch_step(w, STEP_MS)) {
        int64_t now = watch_now_ms();
        if (child_signalled() || is_stopped(a, w, now))
            return 0;
        if (last_word < 0 && (a->words.lost.n || a->words.how != COLLECTED_NOTHING))
            last_word = now;
        int is_done = a->words.how != COLLECTED_NOTHING;
        if (last_word >= 0 &&
            now - last_word > (is_done ? a->bounds.finish : a->bounds.end))
            return 0;
        if (!a->starter || words_any(&a->words))
            continue;
        if (!asked && now - start > a->bounds.ask) {
            asked = 1;
            if (ask(a, w))
                return 0;
        }
        /* A single process has nobody to meet, and need not say that it did. */
        a->is_late = a->hosts->n > 1 && now - start > a->bounds.start;
        if (a->is_late)
            return 0;
    }
    return 1;
}

int attempt_run(struct attempt *a)
{
    struct watch w;
    struct watch_plan plan = {.argv = a->argv,
                              .envp = a->envp,
                              .reads_errors = a->starter != NULL,
                              .log = a->log,
                              .line = take_line,
                              .ctx = a};
    words_init(&a->words);
    int why = watch_start(&w, &plan);
    if (why) {
        fprintf(stderr, "heapline-run: cannot start %s: %s\n", a->argv[0], strerror(why));
        return -1;
    }
    int ended = follow(a, &w);
    if (ended && a->words.how != COLLECTED_NOTHING)
        watch_end(&w);
    else
        watch_stop(&w, (int)a->bounds.resist);
    /* A launcher says so itself. */
    if (ended && !a->starter && a->words.how == COLLECTED_NOTHING && w.status > 128)
        fprintf(stderr, "heapline-run: the gather was killed by signal %d\n",
                w.status - 128);
    return a->words.how == COLLECTED_NOTHING ? -1 : 0;
}

void attempt_fini(struct attempt *a)
{
    words_fini(&a->words);
    texts_fini(&a->held);
    free(a->silent);
}
