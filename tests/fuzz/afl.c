/* SPDX-License-Identifier: Apache-2.0
 *
 * The main function of a fuzz program for afl-fuzz: in persistent mode where the
 * compiler is afl-clang-fast, else one input from standard input.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CAP = 1 << 16, LOOPS = 10000 };

#ifdef __AFL_FUZZ_TESTCASE_LEN
__AFL_FUZZ_INIT();
#endif

/* A copy of exactly its size, so that a read beyond the end is seen. */
static void run(const uint8_t *p, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        abort();
    memcpy(copy, p, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

int main(void)
{
#ifdef __AFL_FUZZ_TESTCASE_LEN
    __AFL_INIT();
    const uint8_t *buf = __AFL_FUZZ_TESTCASE_BUF;
    while (__AFL_LOOP(LOOPS)) {
        size_t n = (size_t)__AFL_FUZZ_TESTCASE_LEN;
        run(buf, n < CAP ? n : CAP);
    }
#else
    static uint8_t buf[CAP];
    size_t n = 0;
    ssize_t k;
    while (n < sizeof buf && (k = read(STDIN_FILENO, buf + n, sizeof buf - n)) > 0)
        n += (size_t)k;
    run(buf, n);
#endif
    return 0;
}
