/* SPDX-License-Identifier: Apache-2.0
 *
 * From inside a rank: which nodes the launch is on; see launch.h.
 */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 100000, LINE_MAX_BYTES = 1 << 17 };

/* "2:1-3,7" between brackets: the digits' number, then ranges. */
static int add_numbers(struct texts *hosts, const char *prefix, int n_prefix,
                       const char *s, const char *end, const char *suffix, int n_suffix)
{
    char *stop;
    int width = (int)strtoul(s, &stop, 10);
    if (stop == s || *stop != ':' || width < 0 || width > 20)
        return -1;
    for (s = stop + 1; s < end; s = stop + 1) {
        unsigned long lo = strtoul(s, &stop, 10), hi = lo;
        if (stop == s)
            return -1;
        if (*stop == '-')
            hi = strtoul(stop + 1, &stop, 10);
        if ((stop != end && *stop != ',') || hi < lo || hi - lo > NODES_MAX)
            return -1;
        for (; lo <= hi; lo++)
            if (texts_addf(hosts, "%.*s%0*lu%.*s", n_prefix, prefix, width, lo, n_suffix,
                           suffix))
                return -1;
    }
    return 0;
}

int launch_add_regex(struct texts *hosts, const char *s)
{
    while (*s && *s != '@') {
        size_t n = strcspn(s, ",[@");
        int bad;
        if (s[n] == '[') {
            const char *close = strchr(s + n, ']');
            if (!close)
                return -1;
            size_t suffix = strcspn(close + 1, ",@");
            bad = add_numbers(hosts, s, (int)n, s + n + 1, close, close + 1, (int)suffix);
            n = (size_t)(close + 1 - s) + suffix;
        } else {
            bad = n == 0 || texts_addf(hosts, "%.*s", (int)n, s);
        }
        if (bad)
            return -1;
        s += n + (s[n] == ',');
    }
    return 0;
}

/* The list begins with the head's node, whether or not it has ranks. */
static void drop_head(struct texts *hosts)
{
    const char *n = getenv("OMPI_MCA_orte_num_nodes");
    if (!n || hosts->n < 2 || strtoul(n, NULL, 10) != hosts->n - 1)
        return;
    free(hosts->v[0]);
    memmove(hosts->v, hosts->v + 1, hosts->n-- * sizeof *hosts->v);
}

static int from_parent(long parent, struct texts *hosts)
{
    char name[64], *text = malloc(LINE_MAX_BYTES + 1);
    struct texts words = {0};
    struct hl_err e = {0};
    snprintf(name, sizeof name, "/proc/%ld/cmdline", parent);
    FILE *f = text ? fopen(name, "re") : NULL;
    size_t n = f ? fread(text, 1, LINE_MAX_BYTES, f) : 0;
    int bad = n == 0;
    if (f)
        fclose(f);
    if (n)
        text[n] = 0;
    for (size_t i = 0; i < n && !bad; i += strlen(text + i) + 1)
        bad = texts_add(&words, text + i);
    if (!bad && launch_kind(words.v) == LAUNCH_OPENMPI)
        bad = launch_hosts(LAUNCH_OPENMPI, words.v, NULL, hosts, &e);
    texts_fini(&words);
    free(text);
    return bad ? -1 : 0;
}

int launch_rank_hosts(long parent, struct texts *hosts)
{
    const char *regex = getenv("OMPI_MCA_orte_node_regex");
    int bad = regex ? launch_add_regex(hosts, regex) : from_parent(parent, hosts);
    if (bad)
        texts_fini(hosts);
    else if (regex)
        drop_head(hosts);
    return bad;
}
