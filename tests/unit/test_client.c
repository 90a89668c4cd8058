/* SPDX-License-Identifier: Apache-2.0
 *
 * Seams, folder and reader for the client library's tests; see test_client.h.
 */
#include "test_client.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- seams ---- */

static struct {
    int64_t now; /* 0: the real clock */
    unsigned left;
    int which, code, hit;
} seam = {.which = -1};

void seam_fail(enum seam which, unsigned k, int code)
{
    seam.which = (int)which;
    seam.left = k;
    seam.code = code;
    seam.hit = 0;
}

int seam_was_hit(void)
{
    return seam.hit;
}

static int fails(enum seam which)
{
    if (seam.which != (int)which || !seam.left || --seam.left)
        return 0;
    seam.hit = 1;
    errno = seam.code;
    return 1;
}

void clock_set(int64_t ns)
{
    __atomic_store_n(&seam.now, ns, __ATOMIC_SEQ_CST);
}

void clock_add(int64_t ns)
{
    __atomic_add_fetch(&seam.now, ns, __ATOMIC_SEQ_CST);
}

int64_t hl_sys_now(void)
{
    struct timespec t;
    int64_t set = __atomic_load_n(&seam.now, __ATOMIC_SEQ_CST);
    if (set)
        return set;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void *hl_sys_mmap(size_t size, int flags, int fd)
{
    return fails(SEAM_MMAP) ? MAP_FAILED
                            : mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
}

int hl_sys_memfd(const char *name, unsigned flags)
{
    return fails(SEAM_MEMFD) ? -1 : memfd_create(name, flags);
}

int hl_sys_ftruncate(int fd, off_t size)
{
    return fails(SEAM_FTRUNCATE) ? -1 : ftruncate(fd, size);
}

int hl_sys_connect(int fd, const struct sockaddr *a, socklen_t n)
{
    return fails(SEAM_CONNECT) ? -1 : connect(fd, a, n);
}

ssize_t hl_sys_sendmsg(int fd, const struct msghdr *m, int flags)
{
    struct iovec half;
    struct msghdr less = *m;
    if (!fails(SEAM_SENDMSG))
        return sendmsg(fd, m, flags);
    if (seam.code)
        return -1;
    half = m->msg_iov[0];
    half.iov_len /= 2;
    less.msg_iov = &half;
    less.msg_iovlen = 1;
    return sendmsg(fd, &less, flags);
}

ssize_t hl_sys_recv(int fd, void *p, size_t n, int flags)
{
    return fails(SEAM_RECV) ? -1 : recv(fd, p, n, flags);
}

ssize_t hl_sys_pwrite(int fd, const void *p, size_t n, off_t at)
{
    if (!fails(SEAM_WRITE))
        return pwrite(fd, p, n, at);
    return seam.code ? -1 : pwrite(fd, p, n / 2, at);
}

/* With the clock set, 60 s of waiting take 60 short polls. */
int hl_sys_poll(struct pollfd *p, nfds_t n, int ms)
{
    if (!__atomic_load_n(&seam.now, __ATOMIC_SEQ_CST))
        return poll(p, n, ms);
    int most = p->fd < 0 ? 1 : 200; /* enough for the collector on a busy machine */
    int got = poll(p, n, ms < most ? ms : most);
    if (!got)
        clock_add((int64_t)ms * 1000000);
    return got;
}

/* ---- folder ---- */

char test_folder[64];

static const char *const variables[] = {
    "HEAPLINE_BUFFER",      "HEAPLINE_DISABLE",    "HEAPLINE_FALLBACK_DIR",
    "HEAPLINE_INTERVAL",    "HEAPLINE_JOB",        "HEAPLINE_ON_FULL",
    "HEAPLINE_SOCKET",      "HEAPLINE_VERBOSE",    "HEAPLINE_WAIT",
    "OMPI_COMM_WORLD_RANK", "PMIX_RANK",           "PMI_RANK",
    "SLURM_JOB_ID",         "MV2_COMM_WORLD_RANK", "SLURM_PROCID"};

void test_enter(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    setenv("HEAPLINE_SOCKET", "", 1);
    strcpy(test_folder, "/tmp/heapline-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(test_folder));
}

void test_leave(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", test_folder);
    ck_assert_int_eq(system(command), 0);
}

const char *in_folder(const char *name)
{
    static char path[4][192];
    static unsigned turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", test_folder, name);
    return p;
}

/* ---- reader ---- */

static void *grown(void *p, size_t n, size_t size)
{
    p = realloc(p, n * size);
    ck_assert_ptr_nonnull(p);
    return p;
}

static const struct seen_catalog *catalog_by_id(const struct seen *s, uint32_t id)
{
    for (size_t i = s->n_catalogs; i-- > 0;)
        if (s->catalogs[i].id == id)
            return &s->catalogs[i];
    ck_abort_msg("catalog %u is not there", id);
}

static void see_catalog(struct seen *s, const uint8_t *body, size_t n)
{
    struct hl_catalog_msg m;
    struct seen_catalog c = {0};
    struct hl_str name;
    int is_path;
    ck_assert_int_eq(hl_decode_catalog(body, n, &m), 0);
    if (m.base)
        c = *catalog_by_id(s, m.base);
    c.id = m.id;
    for (size_t i = 0; i < s->n_catalogs; i++)
        ck_assert_uint_ne(s->catalogs[i].id, m.id);
    ck_assert_uint_eq(m.first_metric, c.n_metrics);
    ck_assert_uint_eq(m.first_path, c.n_paths);
    char **metrics = calloc(c.n_metrics + m.n_metrics + 1, sizeof *metrics);
    char **paths = calloc(c.n_paths + m.n_paths + 1, sizeof *paths);
    for (size_t i = 0; i < c.n_metrics; i++)
        metrics[i] = c.metrics[i];
    for (size_t i = 0; i < c.n_paths; i++)
        paths[i] = c.paths[i];
    struct hl_reader r = hl_reader_on(m.names, m.names_bytes);
    while (hl_catalog_next(&r, &is_path, &name)) {
        if (is_path)
            paths[c.n_paths++] = strndup(name.p, name.n);
        else
            metrics[c.n_metrics++] = strndup(name.p, name.n);
    }
    c.metrics = metrics;
    c.paths = paths;
    s->catalogs = grown(s->catalogs, s->n_catalogs + 1, sizeof c);
    s->catalogs[s->n_catalogs++] = c;
}

static void see_rows(struct seen *s, const uint8_t *body, size_t n)
{
    struct hl_rows m;
    ck_assert_int_eq(hl_decode_rows(body, n, &m), 0);
    const struct seen_catalog *c = catalog_by_id(s, m.catalog);
    size_t stride = hl_stride(c->n_metrics, c->n_paths);
    struct seen_row *last = s->n_rows ? &s->rows[s->n_rows - 1] : NULL;
    if (!m.first_cell) {
        struct seen_row row = {.number = m.first_row,
                               .catalog = (uint32_t)(c - s->catalogs),
                               .cells = calloc(stride + 1, sizeof(double))};
        s->rows = grown(s->rows, s->n_rows + 1, sizeof row);
        last = &s->rows[s->n_rows++];
        *last = row;
    }
    ck_assert_ptr_nonnull(last);
    ck_assert_uint_eq(last->n_cells, m.first_cell);
    ck_assert_uint_eq(last->number, m.first_row);
    for (size_t i = 0; i < m.n_cells; i++)
        last->cells[last->n_cells++] = hl_rows_cell(&m, i);
    ck_assert_uint_le(last->n_cells, stride);
    if (m.n_cells > s->n_largest)
        s->n_largest = m.n_cells;
}

static void see_message(struct seen *s, const struct hl_wire_header *h,
                        const uint8_t *body)
{
    struct hl_hello hello;
    switch (h->type) {
    case HL_MSG_HELLO:
        ck_assert_int_eq(hl_decode_hello(body, h->length, &hello), 0);
        s->hello_flags = hello.flags;
        memcpy(s->app_version, hello.app_version.p, hello.app_version.n);
        s->n_hellos++;
        break;
    case HL_MSG_CATALOG: see_catalog(s, body, h->length); break;
    case HL_MSG_ROWS: see_rows(s, body, h->length); break;
    case HL_MSG_BYE:
        ck_assert_int_eq(hl_decode_bye(body, h->length, &s->bye), 0);
        s->n_byes++;
        break;
    default: ck_abort_msg("a message of type %u", h->type);
    }
}

struct seen *see(const uint8_t *p, size_t n)
{
    struct seen *s = calloc(1, sizeof *s);
    struct hl_wire_header h;
    const uint8_t *body;
    for (size_t at = 0, used; at < n; at += used) {
        ck_assert_int_eq(
            hl_wire_next(p + at, n - at, HL_IN_SPOOL, HL_STATE_FILE, &h, &body, &used),
            0);
        see_message(s, &h, body);
    }
    for (size_t i = 0; i < s->n_rows; i++) {
        const struct seen_catalog *c = &s->catalogs[s->rows[i].catalog];
        ck_assert_uint_eq(s->rows[i].n_cells, hl_stride(c->n_metrics, c->n_paths));
        for (size_t k = 0; k < s->n_rows; k++)
            s->rows[i].times += s->rows[k].number == s->rows[i].number;
    }
    return s;
}

struct seen *see_file(const char *path)
{
    FILE *f = path ? fopen(path, "rb") : NULL;
    size_t cap = 64 << 20;
    ck_assert_ptr_nonnull(f);
    uint8_t *p = malloc(cap);
    size_t n = fread(p, 1, cap, f);
    fclose(f);
    struct seen *s = see(p, n);
    free(p);
    return s;
}

const char *rows_file(const char *folder)
{
    static char path[512];
    char dir[128];
    const char *found = NULL;
    snprintf(dir, sizeof dir, "%s/heapline-%u", folder, (unsigned)geteuid());
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strstr(e->d_name, ".rows")) {
            ck_assert_ptr_null(found);
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
            found = path;
        }
    if (d)
        closedir(d);
    return found;
}

double region_cell(const struct seen *s, size_t row, const char *path, int which)
{
    ck_assert_uint_lt(row, s->n_rows);
    const struct seen_catalog *c = &s->catalogs[s->rows[row].catalog];
    for (size_t i = 0; i < c->n_paths; i++)
        if (!strcmp(c->paths[i], path))
            return s->rows[row].cells[c->n_metrics + 2 * i + (size_t)which];
    ck_abort_msg("no region %s", path);
}

double metric_cell(const struct seen *s, size_t row, const char *name)
{
    ck_assert_uint_lt(row, s->n_rows);
    const struct seen_catalog *c = &s->catalogs[s->rows[row].catalog];
    for (size_t i = 0; i < c->n_metrics; i++)
        if (!strcmp(c->metrics[i], name))
            return s->rows[row].cells[i];
    ck_abort_msg("no metric %s", name);
}

const struct seen_row *row_numbered(const struct seen *s, uint64_t number)
{
    for (size_t i = 0; i < s->n_rows; i++)
        if (s->rows[i].number == number)
            return &s->rows[i];
    return NULL;
}

/* ---- short forms ---- */

heapline_session *begin_session(const char *const *metrics, size_t n)
{
    heapline_session *s;
    ok(heapline_session_begin(&s, metrics, n));
    return s;
}

void frames(heapline_session *s, unsigned n)
{
    while (n--) {
        ok(heapline_frame_begin(s));
        ok(heapline_frame_end(s));
    }
}
