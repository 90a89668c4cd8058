/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C (polynomial 0x1EDC6F41, reflected): by the processor's instruction
 * where it has one, else four bits at a time from a table of 16 words, which
 * needs no initialisation.
 */
#include "wire.h"

#include <string.h>

static const uint32_t nibble[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                    0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                    0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};

static uint32_t by_table(uint32_t c, const uint8_t *p, size_t n)
{
    while (n--) {
        c ^= *p++;
        c = (c >> 4) ^ nibble[c & 15];
        c = (c >> 4) ^ nibble[c & 15];
    }
    return c;
}

#if defined(__x86_64__)
#include <cpuid.h>

__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t c, const uint8_t *p, size_t n)
{
    uint64_t c8 = c;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        c8 = __builtin_ia32_crc32di(c8, v);
    }
    c = (uint32_t)c8;
    while (n--)
        c = __builtin_ia32_crc32qi(c, *p++);
    return c;
}

/* cpuid traps in virtual machines, so its answer is kept.  Every thread
 * stores the same value: no order is needed. */
static int has_instruction(void)
{
    static signed char known;
    signed char k = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!k) {
        unsigned a, b, c, d;
        k = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2) ? 1 : -1;
        __atomic_store_n(&known, k, __ATOMIC_RELAXED);
    }
    return k > 0;
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>

static uint32_t by_instruction(uint32_t c, const uint8_t *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        c = __crc32cd(c, v);
    }
    while (n--)
        c = __crc32cb(c, *p++);
    return c;
}

static int has_instruction(void)
{
    return 1;
}
#else
#define by_instruction by_table
static int has_instruction(void)
{
    return 0;
}
#endif

uint32_t hl_crc32c(uint32_t crc, const void *data, size_t n)
{
    crc = ~crc;
    return ~(has_instruction() ? by_instruction(crc, data, n) : by_table(crc, data, n));
}
