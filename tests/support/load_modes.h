/* SPDX-License-Identifier: Apache-2.0
 *
 * The options and modes of collector_load.
 */
#ifndef HL_TEST_LOAD_MODES_H
#define HL_TEST_LOAD_MODES_H

#include "load.h"

struct options {
    const char *socket, *key;
    uint64_t procs, jobs, rows, seed, ring, wait, width, batch, message, bytes, moving,
        rounds, paced, greedy, seconds, interval;
    int pages, two, plain, shared, taken, hold, ack;
    char **command; /* of the collector: kill */
};

/* Memory that forked clients share with their parent. */
void *load_shared(size_t size);
/* The i-th key: KEY itself, or KEY-i where there are several jobs. */
const char *load_key(const struct options *o, uint64_t i);

int mode_swarm(const struct options *o);
int mode_verify(const struct options *o);
int mode_kill(const struct options *o);
int mode_stream(const struct options *o);
int mode_storm(const struct options *o);
int mode_fair(const struct options *o);

#endif
