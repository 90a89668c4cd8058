/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and kinds of outputs; see outputs.h.
 */
#include "outputs.h"

#include "path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *word, *suffix;
    unsigned bit;
} kinds[] = {{"json", ".json", HL_OUT_JSON},
             {"hdf5", ".h5", HL_OUT_HDF5},
             {"h5", ".h5", HL_OUT_HDF5},
             {"csv", ".csv", HL_OUT_CSV}};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

unsigned hl_outputs_parse(const char *list)
{
    unsigned bits = 0;
    for (;;) {
        size_t n = strcspn(list, ","), i;
        for (i = 0; i < N_KINDS; i++)
            if (strlen(kinds[i].word) == n && !strncmp(kinds[i].word, list, n))
                break;
        if (i == N_KINDS)
            return 0;
        bits |= kinds[i].bit;
        if (!list[n])
            return bits;
        list += n + 1;
    }
}

const char *hl_outputs_suffix(unsigned kind)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (kinds[i].bit == kind)
            return kinds[i].suffix;
    return "";
}

static int any_exists(const char *prefix)
{
    char name[4096];
    struct stat st;
    for (size_t i = 0; i < N_KINDS; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, kinds[i].suffix);
        if (lstat(name, &st) == 0)
            return 1;
    }
    return 0;
}

void hl_outputs_default_prefix(char *out, size_t cap)
{
    const char *job = getenv("SLURM_JOB_ID");
    char base[300] = "heapline-";
    if (job && *job) {
        snprintf(base, sizeof base, "heapline-%.200s", job);
        for (char *s = base; *s; s++)
            *s = *s == '/' ? '_' : *s;
    } else {
        time_t now = time(NULL);
        struct tm tm;
        localtime_r(&now, &tm);
        strftime(base + 9, sizeof base - 9, "%Y%m%d-%H%M%S", &tm);
    }
    snprintf(out, cap, "%s", base);
    for (int k = 2; any_exists(out); k++)
        snprintf(out, cap, "%s.%d", base, k);
}

int hl_outputs_check(const char *prefix, struct hl_err *e)
{
    char name[4096];
    struct hl_out probe;
    struct hl_err why;
    const char *slash = strrchr(prefix, '/');
    struct stat st;
    const char *last = slash ? slash + 1 : prefix;
    if (!*last || !strcmp(last, ".") || !strcmp(last, ".."))
        return hl_fail(e, EINVAL, "the output prefix '%s' has no file name", prefix);
    int n = snprintf(name, sizeof name, "%s.json", prefix);
    if (n < 0 || (size_t)n >= sizeof name || strlen(last) + strlen(".json") > NAME_MAX)
        return hl_fail(e, ENAMETOOLONG, "the output prefix is too long");
    if (hl_out_begin(&probe, name, 0, &why)) {
        errno = why.code;
        return hl_fail_errno(e, "cannot write outputs %s.*", prefix);
    }
    hl_out_abort(&probe);
    for (size_t i = 0; i < N_KINDS; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, kinds[i].suffix);
        if (stat(name, &st) == 0 && S_ISDIR(st.st_mode))
            return hl_fail(e, EISDIR, "cannot write %s: it is a folder", name);
    }
    return 0;
}
