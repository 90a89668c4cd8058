/* SPDX-License-Identifier: Apache-2.0
 *
 * What the client library's unit tests share: the seams, a collector that runs
 * as a thread of the test, and a reader of what came out.
 */
#ifndef HL_TEST_CLIENT_H
#define HL_TEST_CLIENT_H

#include "session.h"

#include <check.h>
#include <pthread.h>

/* ---- seams ---- */

enum seam {
    SEAM_MMAP,
    SEAM_MEMFD,
    SEAM_FTRUNCATE,
    SEAM_CONNECT,
    SEAM_SENDMSG,
    SEAM_RECV,
    SEAM_WRITE,
    SEAM_N
};
/* Make the k-th call from now fail with an errno value; 0: none. For SENDMSG
 * and WRITE, code 0 means a short one of half the bytes. */
void seam_fail(enum seam which, unsigned k, int code);
/* Has the call that should fail been reached? */
int seam_was_hit(void);
/* From now on the clock stands at ns, and waits in poll pass by at once. */
void clock_set(int64_t ns);
void clock_add(int64_t ns);

/* ---- a private folder, the environment ---- */

/* Empty temporary folder and a clean environment: no collector, no fallback.
 * test_leave removes the folder. */
void test_enter(void);
void test_leave(void);
extern char test_folder[64];
/* Path of a name in the folder, static storage for the last four. */
const char *in_folder(const char *name);

/* ---- what came out ---- */

struct seen_catalog {
    uint32_t id;
    size_t n_metrics, n_paths;
    char **metrics, **paths;
};
struct seen_row {
    uint64_t number;
    uint32_t catalog; /* index in catalogs */
    size_t n_cells;
    double *cells;
    unsigned times; /* how often it was there */
};
struct seen {
    struct seen_catalog *catalogs;
    size_t n_catalogs;
    struct seen_row *rows; /* in order of arrival */
    size_t n_rows;
    unsigned n_hellos, n_byes;
    uint32_t hello_flags;
    char app_version[256];
    struct hl_bye bye;
    size_t n_largest; /* cells of the largest ROWS message */
};
/* Read whole messages: hello, catalogs, rows, bye. Fails the test on a fault. */
struct seen *see(const uint8_t *p, size_t n);
struct seen *see_file(const char *path);
/* The only file "*.rows" in FOLDER/heapline-UID, or NULL. */
const char *rows_file(const char *folder);
/* Cell of a region in a row; which: 0 inclusive, 1 exclusive. */
double region_cell(const struct seen *s, size_t row, const char *path, int which);
double metric_cell(const struct seen *s, size_t row, const char *name);
const struct seen_row *row_numbered(const struct seen *s, uint64_t number);

/* ---- a collector ---- */

struct fake {
    /* Set before it is met; read by its thread under the lock. */
    int mute;           /* says nothing after the hello */
    int no_ack;         /* answers the hello, acknowledges nothing */
    int no_read;        /* leaves the socket full after the hello */
    uint32_t refuse;    /* enum hl_refusal: what it answers to a hello */
    size_t close_every; /* breaks off each connection after so many bytes */
    uint64_t forget;    /* bytes it lost when the next hello comes */
    uint64_t claim;     /* offset it claims in HELLO_OK; 0: the truth */
    /* What it saw. */
    uint8_t *stream;
    size_t n, cap;
    unsigned n_hellos, n_byes, n_breaks;
    struct hl_bye bye;
    struct hl_hello hello;
    char app_version[256], key[256];
    int buffer_fd; /* of the last hello; -1: none came */
    /* Its own. */
    char path[108];
    int listener, conn, wake[2];
    uint8_t *in;
    size_t n_in, cap_in, n_conn;
    pthread_mutex_t lock;
    pthread_t thread;
};
/* Listen at FOLDER/name. */
struct fake *fake_new(const char *name);
void fake_lock(struct fake *f);
void fake_unlock(struct fake *f);
/* Ends its thread; the socket's name goes away. */
void fake_stop(struct fake *f);
void fake_free(struct fake *f);
struct seen *fake_seen(struct fake *f);

/* ---- short forms ---- */
heapline_session *begin_session(const char *const *metrics, size_t n);
void frames(heapline_session *s, unsigned n);
#define ok(call) ck_assert_int_eq((call), HEAPLINE_OK)

#endif
