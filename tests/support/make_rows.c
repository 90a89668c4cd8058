/* SPDX-License-Identifier: Apache-2.0
 *
 * Fallback files of a run of any size, without running it:
 *
 *   make_rows FOLDER KEY FIRST LAST SIZE FRAMES PATHS [without-pages | gap=N]
 *
 * Ranks FIRST to LAST of SIZE.  Cells are times of whole nanoseconds, the metrics
 * step and mpi_rank; cell c of frame f of rank r, beyond the metrics, is
 * ((r * 7919 + f * 104729 + c * 1299709) % 1000000007) / 1e9 seconds.  Each process
 * has a heap page, too: rank r allocated r + 3 times.  gap=N: frames 0 to N - 1 are
 * not in the files.
 */
#include "heap_page.h"
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
    (fprintf(stderr, "make_rows: " __VA_ARGS__), fputc('\n', stderr), exit(2))

enum { METRICS = 2, FIRST_PID = 1000, BODY = 1 << 18 };

struct plan {
    const char *dir, *key;
    uint64_t first, last, size, frames, paths, gap;
    int pages;
};

static uint8_t out[1 << 20];

static void write_all(int fd, const uint8_t *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0)
            DIE("cannot write: %s", strerror(errno));
        p += k;
        n -= (size_t)k;
    }
}

static uint64_t image_of(uint64_t rank)
{
    return 0x5eed000000000000u + rank + 1;
}

static int make(const struct plan *p, uint64_t rank, const char *suffix)
{
    char key[HL_NAME_CAP], name[8192];
    hl_escape_key(p->key, HL_KEY_NAME_MAX, key);
    snprintf(name, sizeof name, "%s/%s.%llu.%016llx.%s", p->dir, key,
             (unsigned long long)(FIRST_PID + rank), (unsigned long long)image_of(rank),
             suffix);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        DIE("%s: %s", name, strerror(errno));
    return fd;
}

static struct hl_str text(const char *s)
{
    return (struct hl_str){s, strlen(s)};
}

static void put_hello(const struct plan *p, uint64_t rank, int fd)
{
    struct hl_hello h = {.wire_min = HL_WIRE_VERSION,
                         .wire_max = HL_WIRE_VERSION,
                         .role = HL_ROLE_FRAMES,
                         .pid = (int64_t)(FIRST_PID + rank),
                         .start_ticks = 5000 + rank,
                         .image = image_of(rank),
                         .rank = (int32_t)rank,
                         .size = (int32_t)p->size,
                         .key = text(p->key),
                         .host = text("made"),
                         .job = text(""),
                         .app_version = text("made 1")};
    int64_t n = hl_encode_hello(out, sizeof out, &h);
    if (n < 0)
        DIE("hello");
    write_all(fd, out, (size_t)n);
}

static void put_catalog(const struct plan *p, int fd)
{
    struct hl_catalog_msg m = {.id = 1};
    struct hl_writer w = hl_catalog_begin(out, sizeof out, &m);
    hl_catalog_add_metric(&w, "step");
    hl_catalog_add_metric(&w, "mpi_rank");
    for (uint64_t i = 0; i < p->paths; i++) {
        char path[32];
        snprintf(path, sizeof path, "r%06llu", (unsigned long long)i);
        hl_catalog_add_path(&w, path);
    }
    int64_t n = hl_message_end(&w, HL_MSG_CATALOG);
    if (n < 0)
        DIE("too many paths for one catalog message");
    write_all(fd, out, (size_t)n);
}

static void fill_row(double *c, const struct plan *p, uint64_t rank, uint64_t frame)
{
    c[0] = (double)frame;
    c[1] = (double)rank;
    for (uint64_t i = 0; i < 2 * p->paths; i++)
        c[METRICS + i] =
            (double)((rank * 7919 + frame * 104729 + i * 1299709) % 1000000007) / 1e9;
}

static void put_rows(const struct plan *p, uint64_t rank, int fd)
{
    uint64_t stride = METRICS + 2 * p->paths, at_once = BODY / 8 / stride;
    double *row = malloc(stride * sizeof *row);
    if (!row || !at_once)
        DIE("rows too long");
    for (uint64_t f = p->gap; f < p->frames;) {
        uint64_t n = p->frames - f < at_once ? p->frames - f : at_once;
        for (uint64_t i = 0; i < n; i++) {
            fill_row(row, p, rank, f + i);
            memcpy(out + HL_WIRE_HEADER + HL_ROWS_HEAD + 8 * stride * i, row, 8 * stride);
        }
        struct hl_rows m = {
            .catalog = 1, .n_cells = (uint32_t)(n * stride), .first_row = f};
        int64_t k = hl_encode_rows_in_place(out, sizeof out, &m);
        if (k < 0)
            DIE("rows");
        write_all(fd, out, (size_t)k);
        f += n;
    }
    free(row);
}

static void put_page(const struct plan *p, uint64_t rank)
{
    static union {
        struct hl_heap_header h;
        uint8_t bytes[HL_HEAP_PAGE_SIZE];
    } page;
    page.h = (struct hl_heap_header){.magic = HL_HEAP_PAGE_MAGIC,
                                     .version = HL_HEAP_PAGE_VERSION,
                                     .size = HL_HEAP_PAGE_SIZE,
                                     .image = image_of(rank),
                                     .pid = (int64_t)(FIRST_PID + rank),
                                     .start_ticks = 5000 + rank,
                                     .rank = (int32_t)rank,
                                     .n_ranks = (int32_t)p->size,
                                     .host = "made",
                                     .n_slots_used = 1,
                                     .state = HL_HEAP_EXIT,
                                     .end_mono_ns = 1000000000,
                                     .vmhwm_bytes = 4096,
                                     .vmrss_bytes = 4096};
    snprintf(page.h.key, sizeof page.h.key, "%s", p->key);
    struct hl_heap_slot slot = {.allocs = rank + 3};
    memcpy(page.bytes + HL_HEAP_PAGE_HEADER, &slot, sizeof slot);
    int fd = make(p, rank, "page");
    write_all(fd, page.bytes, sizeof page);
    close(fd);
}

int main(int argc, char **argv)
{
    static char dir[4096];
    if (argc < 8)
        DIE("FOLDER KEY FIRST LAST SIZE FRAMES PATHS [without-pages]");
    struct plan p = {.dir = dir,
                     .key = argv[2],
                     .first = strtoull(argv[3], NULL, 10),
                     .last = strtoull(argv[4], NULL, 10),
                     .size = strtoull(argv[5], NULL, 10),
                     .frames = strtoull(argv[6], NULL, 10),
                     .paths = strtoull(argv[7], NULL, 10),
                     .gap = argc > 8 && !strncmp(argv[8], "gap=", 4)
                                ? strtoull(argv[8] + 4, NULL, 10)
                                : 0};
    p.pages = argc < 9 || p.gap;
    if (!hl_fallback_dir(argv[1], (uint32_t)geteuid(), dir, sizeof dir) ||
        (mkdir(dir, 0700) && errno != EEXIST))
        DIE("%s: %s", dir, strerror(errno));
    for (uint64_t r = p.first; r <= p.last; r++) {
        int fd = make(&p, r, "rows");
        put_hello(&p, r, fd);
        put_catalog(&p, fd);
        put_rows(&p, r, fd);
        close(fd);
        if (p.pages)
            put_page(&p, r);
    }
    return 0;
}
