/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fuzz program consists of: an entry point in libFuzzer's form and seeds
 * that are right.  Linked with replay.c it is a test that replays the seeds, some
 * changes to each, and the files of its corpus; built with -fsanitize=fuzzer
 * it runs freely (make fuzz).
 */
#ifndef HL_FUZZ_H
#define HL_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Seed i at out; its size, or 0 when there are no more. */
size_t fuzz_seed(unsigned i, uint8_t *out, size_t cap);

/* Are all seeds right, and nothing left out?  0, or -1. */
int fuzz_seeds_right(void);

#endif
