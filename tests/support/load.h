/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients of the collector in large numbers, and a gather that checks what became
 * of their rows.  They speak the protocol by lib/leaf alone, as the agents do:
 * rows are kept in a shared ring until they are acknowledged, and after a
 * reconnect the stream goes on where the collector says.  Every cell is a function
 * of the image, the row and the column, so a row that is missing, doubled or
 * altered is found without knowing who sent it.
 */
#ifndef HL_TEST_LOAD_H
#define HL_TEST_LOAD_H

#include "heap_page.h"
#include "messages.h"
#include "row_buffer.h"
#include "wire_link.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOAD_DIE(...)                                                                    \
    (fprintf(stderr, "load: " __VA_ARGS__), fputc('\n', stderr), exit(99))

struct load_client {
    const char *socket, *key;
    uint64_t image, start_ticks;
    int64_t pid, interval_ns;
    int32_t rank;
    uint32_t width, batch; /* cells of a row, rows of a message */
    int two;               /* a connection for the page, another for the rows */
    struct hl_heap_header *page;
    struct hl_row_buffer *ring;
    int page_fd, ring_fd, fd, heap_fd;
    uint64_t sent;
    uint32_t refused; /* code of a REFUSED, 0 none */
    size_t n_in;
    uint8_t in[4096];
};

/* A number from a seed, and the next seed. */
uint64_t load_mix(uint64_t v);
uint64_t load_random(uint64_t *state);
uint64_t load_image(uint64_t seed, uint64_t rank);
double load_value(uint64_t image, uint64_t row, uint32_t cell);
/* What the page of an image says. */
struct hl_record load_record(uint64_t image);

/* A client of its own process (pid 0: this one); no descriptor yet. */
void load_init(struct load_client *c, const char *socket, const char *key, uint64_t image,
               int32_t rank);
void load_make_page(struct load_client *c);
void load_make_ring(struct load_client *c, uint64_t size);
/* Connect and say hello; with a ring wait for the offset to go on at.
 * 0, or -1: no collector, or it went away; c->refused says if it refused. */
int load_connect(struct load_client *c);
void load_disconnect(struct load_client *c);
int load_say_hello(struct load_client *c, int fd, unsigned role, uint32_t flags,
                   const int *fds, int n_fds);
/* Commit messages of c->batch rows, the catalog before the first; returns how many
 * found room in the ring. */
unsigned load_commit(struct load_client *c, unsigned n_messages);
/* Send up to max bytes of what was committed, take acknowledgements; waits at most
 * timeout_ms for the one or the other.  0, or -1: the connection is lost. */
int load_step(struct load_client *c, size_t max, int timeout_ms);
/* Send everything and wait until it is kept, reconnecting as often as it takes. */
void load_finish(struct load_client *c);
uint64_t load_rows_of(const struct load_client *c, uint64_t stream_bytes);
size_t load_message_bytes(const struct load_client *c);
/* The catalog, and message number k, at out. */
size_t load_put_catalog(const struct load_client *c, uint8_t *out, size_t cap);
size_t load_put_rows(const struct load_client *c, uint64_t first_row, uint8_t *out,
                     size_t cap);

int load_connect_to(const char *path);
void load_send_fds(int fd, const void *p, size_t n, const int *fds, int n_fds);
void load_nap(int64_t us);
int64_t load_now_ns(void);
void load_raise_limit(void);
/* A child that does not outlive this process. */
pid_t load_fork(void);

/* ---- the gather ---- */

struct load_seen { /* one process, as the collector tells it */
    uint32_t id;
    uint64_t image, rows, stream_bytes, dropped, lost;
    struct hl_end end;
    struct hl_record record;
    /* found in the stream */
    uint64_t found, missing, doubled, altered, rest;
};
struct load_index {
    struct load_seen *seen;
    size_t n;
    uint64_t n_alive;
};

void load_gather_open(struct hl_link *l, const char *socket, const char *key);
/* 0, or -1: the collector went away. */
int load_gather_index(struct hl_link *l, uint32_t wait_ms, struct load_index *out);
void load_index_fini(struct load_index *x);
struct load_seen *load_find(struct load_index *x, uint64_t image);
/* Read a stream and check each row; 0 or -1. */
int load_gather_check(struct hl_link *l, struct load_seen *s);
int load_gather_taken(struct hl_link *l);
/* Are the record's heap numbers those of the image's page, and its end known? */
int load_record_right(const struct load_seen *s);

#endif
