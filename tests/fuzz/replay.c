/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs an entry point without any fuzzer: its seeds, changed seeds (the same on
 * each run; FUZZ_RUNS says how many), and the files of FUZZ_CORPUS/NAME-*.  A
 * fault ends the program, so does a seed that is not right; built with sanitizers,
 * more counts as a fault.
 */
#include "fuzz.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAP = 1 << 16 };

static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static size_t change(uint8_t *p, size_t n)
{
    static const uint8_t likely[] = {0, 1, 0x7f, 0x80, 0xff, '=', '\n', '%', '#'};
    for (uint64_t k = 1 + next() % 4; k && n; k--)
        switch (next() % 5) {
        case 0: p[next() % n] ^= (uint8_t)(1 << next() % 8); break;
        case 1: p[next() % n] = likely[next() % sizeof likely]; break;
        case 2: n = next() % (n + 1); break;
        case 3: {
            size_t from = next() % n, to = next() % n, len = next() % 16;
            for (size_t i = 0; i < len && from + i < n && to + i < n; i++)
                p[to + i] = p[from + i];
            break;
        }
        default:
            if (n < CAP)
                p[n++] = (uint8_t)next();
        }
    return n;
}

/* A copy of exactly its size, so that a read beyond the end is seen. */
static void run(const uint8_t *p, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        exit(99);
    memcpy(copy, p, n);
    LLVMFuzzerTestOneInput(n ? copy : NULL, n);
    free(copy);
}

static unsigned long run_corpus(const char *name)
{
    static uint8_t buf[CAP];
    const char *folder = getenv("FUZZ_CORPUS");
    char pattern[4096];
    unsigned long n_files = 0;
    glob_t g;
    snprintf(pattern, sizeof pattern, "%s/%s-*", folder ? folder : "", name);
    if (!folder || glob(pattern, 0, NULL, &g))
        return 0;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        FILE *f = fopen(g.gl_pathv[i], "rb");
        if (!f)
            exit(99);
        run(buf, fread(buf, 1, sizeof buf, f));
        fclose(f);
        n_files++;
    }
    globfree(&g);
    return n_files;
}

/* --seeds FOLDER: the seeds as files, for a fuzzer to begin with. */
static int write_seeds(const char *folder)
{
    static uint8_t buf[CAP];
    char name[4096];
    size_t n;
    for (unsigned i = 0; (n = fuzz_seed(i, buf, CAP)) > 0; i++) {
        snprintf(name, sizeof name, "%s/seed-%u", folder, i);
        FILE *f = fopen(name, "wb");
        if (!f || fwrite(buf, 1, n, f) != n || fclose(f)) {
            perror(name);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    static uint8_t buf[CAP + 8];
    const char *runs = getenv("FUZZ_RUNS"), *slash = strrchr(argv[0], '/');
    unsigned long n_runs = runs ? strtoul(runs, NULL, 10) : 3000;
    unsigned n_seeds = 0;
    const char *name = slash ? slash + 1 : argv[0];
    if (argc == 3 && !strcmp(argv[1], "--seeds"))
        return write_seeds(argv[2]);
    if (fuzz_seeds_right()) {
        printf("a seed is not right, or missing\n");
        return 1;
    }
    while (fuzz_seed(n_seeds, buf, CAP))
        n_seeds++;
    for (unsigned i = 0; i < n_seeds; i++)
        run(buf, fuzz_seed(i, buf, CAP));
    for (unsigned long i = 0; i < n_runs && n_seeds; i++)
        run(buf, change(buf, fuzz_seed((unsigned)(i % n_seeds), buf, CAP)));
    unsigned long n_files = run_corpus(strncmp(name, "fuzz_", 5) ? name : name + 5);
    printf("%u seeds, %lu changes, %lu files\n", n_seeds, n_runs, n_files);
    return n_seeds ? 0 : 1;
}
