/* SPDX-License-Identifier: Apache-2.0
 *
 * The fallback files of a run made from a seed, and beside them what is in it:
 *
 *   random_run SEED FOLDER KEY WANT
 *
 * Ranks meet metrics and regions of a common pool in orders of their own, more as
 * they go; wide rows come in parts, some rows come twice, some streams begin anew in
 * the middle.  WANT has a line a rank, "rank R", and a line a row: its names in
 * hexadecimal, "=", the bits of the cells; regions have two.
 */
#include "ident.h"
#include "messages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIE(...)                                                                         \
    (fprintf(stderr, "random_run: " __VA_ARGS__), fputc('\n', stderr), exit(2))

enum { POOL_METRICS = 6, POOL_PATHS = 40, NAME_CAP = 128, CELLS = 2 * 64 };

static char metric[POOL_METRICS][NAME_CAP], path[POOL_PATHS][NAME_CAP];
static uint64_t state;
static uint8_t out[1 << 16];

struct rank {
    int fd;
    FILE *want;
    uint32_t id, base; /* catalogs: the next one's id, the last one's */
    size_t m[POOL_METRICS], p[POOL_PATHS], n_m, n_p;
    uint64_t n_rows;
};

static uint64_t rnd(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 3) % below;
}

static void make_pool(void)
{
    static const char *const word[] = {"solve", "io", "gr\xc3\xbc\xc3\x9f", "a b",
                                       "x\"y"};
    for (size_t i = 0; i < POOL_METRICS; i++)
        snprintf(metric[i], NAME_CAP, "%s%zu", word[rnd(5)], i);
    for (size_t i = 0; i < POOL_PATHS; i++) {
        size_t from = rnd(i + 1);
        if (from < i && strlen(path[from]) < 60) /* below another one, or far below */
            snprintf(path[i], NAME_CAP, "%.60s/%s%s%zu", path[from],
                     rnd(3) ? "" : "between/", word[rnd(5)], i);
        else
            snprintf(path[i], NAME_CAP, "%s%zu", word[rnd(5)], i);
    }
}

static void put(struct rank *r, int64_t n)
{
    if (n < 0 || write(r->fd, out, (size_t)n) != n)
        DIE("cannot write: %s", strerror(errno));
}

static struct hl_str text(const char *s)
{
    return (struct hl_str){s, strlen(s)};
}

static void put_hello(struct rank *r, int rank, int size, const char *key)
{
    struct hl_hello h = {.wire_min = HL_WIRE_VERSION,
                         .wire_max = HL_WIRE_VERSION,
                         .role = HL_ROLE_FRAMES,
                         .pid = 500 + rank,
                         .start_ticks = 9000 - (uint64_t)rank,
                         .image = 77000 + (uint64_t)rank,
                         .rank = rank,
                         .size = size,
                         .key = text(key),
                         .host = text("random"),
                         .job = text(""),
                         .app_version = text("")};
    put(r, hl_encode_hello(out, sizeof out, &h));
}

/* Is pool name i among the n that are known? */
static int has(const size_t *known, size_t n, size_t i)
{
    for (size_t k = 0; k < n; k++)
        if (known[k] == i)
            return 1;
    return 0;
}

static void learn(size_t *known, size_t *n, size_t pool, size_t most)
{
    for (size_t k = rnd(most + 1); k; k--) {
        size_t i = rnd(pool);
        if (!has(known, *n, i))
            known[(*n)++] = i;
    }
}

/* Tell the names from the given ones on. */
static void put_catalog(struct rank *r, size_t from_m, size_t from_p)
{
    struct hl_catalog_msg m = {.id = ++r->id,
                               .base = from_m + from_p ? r->base : 0,
                               .first_metric = (uint32_t)from_m,
                               .first_path = (uint32_t)from_p};
    struct hl_writer w = hl_catalog_begin(out, sizeof out, &m);
    for (size_t i = from_m; i < r->n_m; i++)
        hl_catalog_add_metric(&w, metric[r->m[i]]);
    for (size_t i = from_p; i < r->n_p; i++)
        hl_catalog_add_path(&w, path[r->p[i]]);
    put(r, hl_message_end(&w, HL_MSG_CATALOG));
    r->base = r->id;
}

static void grow(struct rank *r)
{
    size_t m = r->n_m, p = r->n_p;
    learn(r->m, &r->n_m, POOL_METRICS, 2);
    learn(r->p, &r->n_p, POOL_PATHS, 9);
    if (r->n_m > m || r->n_p > p || !r->id)
        put_catalog(r, m, p);
}

/* ---- rows ---- */

static double any_double(void)
{
    uint64_t bits = rnd(UINT64_MAX) ^ rnd(UINT64_MAX) << 32;
    double v;
    if (!rnd(10))
        bits = 0x7ff0000000000000u | rnd(2) << 63 | rnd(2);
    if (!rnd(3))
        return (double)rnd(1u << 30) / 1e9;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void put_cells(struct rank *r, uint64_t row, const double *v, size_t n,
                      size_t first)
{
    struct hl_rows m = {.catalog = r->base,
                        .n_cells = (uint32_t)n,
                        .first_row = row,
                        .first_cell = first};
    memcpy(out + HL_WIRE_HEADER + HL_ROWS_HEAD, v, 8 * n);
    put(r, hl_encode_rows_in_place(out, sizeof out, &m));
}

static void tell_name(FILE *f, const char *kind, const char *s)
{
    fprintf(f, " %s", kind);
    for (; *s; s++)
        fprintf(f, "%02x", (unsigned char)*s);
}

static void tell_row(struct rank *r, const double *v, size_t n)
{
    for (size_t i = 0; i < r->n_m; i++)
        tell_name(r->want, "m", metric[r->m[i]]);
    for (size_t i = 0; i < r->n_p; i++)
        tell_name(r->want, "p", path[r->p[i]]);
    fputs(" =", r->want);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &v[i], 8);
        fprintf(r->want, " %llx", (unsigned long long)bits);
    }
    fputc('\n', r->want);
}

static void put_row(struct rank *r)
{
    double v[CELLS];
    size_t n = r->n_m + 2 * r->n_p, at = 0;
    for (size_t i = 0; i < n; i++)
        v[i] = any_double();
    if (rnd(4) || n < 2) {
        put_cells(r, r->n_rows, v, n, 0);
    } else {
        for (size_t k; at < n; at += k) { /* at least two parts */
            k = 1 + rnd(n - at);
            k -= !at && k == n;
            put_cells(r, r->n_rows, v + at, k, at);
        }
    }
    tell_row(r, v, n);
    r->n_rows++;
}

/* A row that was there before: its number decides, not what is in it. */
static void put_again(struct rank *r)
{
    double v[CELLS] = {0};
    if (r->n_rows)
        put_cells(r, rnd(r->n_rows), v, r->n_m + 2 * r->n_p, 0);
}

static void make_rank(int rank, int size, const char *dir, const char *key, FILE *want)
{
    struct rank r = {.want = want};
    char name[8192];
    snprintf(name, sizeof name, "%s/%s.%d.%016llx.rows", dir, key, 500 + rank,
             77000ull + (unsigned)rank);
    r.fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (r.fd < 0)
        DIE("%s: %s", name, strerror(errno));
    fprintf(want, "rank %d\n", rank);
    put_hello(&r, rank, size, key);
    for (uint64_t n = rnd(40); n; n--) {
        if (!r.id || !rnd(6))
            grow(&r);
        if (!rnd(12)) { /* what came another way begins anew */
            put_hello(&r, rank, size, key);
            put_catalog(&r, 0, 0);
        }
        put_row(&r);
        if (!rnd(8))
            put_again(&r);
    }
    close(r.fd);
}

int main(int argc, char **argv)
{
    static char dir[4096];
    if (argc != 5)
        DIE("SEED FOLDER KEY WANT");
    state = 88172645463325252u ^ strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15u;
    FILE *want = fopen(argv[4], "w");
    if (!want || !hl_fallback_dir(argv[2], (uint32_t)geteuid(), dir, sizeof dir) ||
        (mkdir(dir, 0700) && errno != EEXIST))
        DIE("%s: %s", argv[2], strerror(errno));
    make_pool();
    int size = 1 + (int)rnd(7);
    for (int r = size; r-- > 0;)
        make_rank(r, size, dir, argv[3], want);
    return fclose(want) ? 2 : 0;
}
