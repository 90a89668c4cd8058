/* SPDX-License-Identifier: Apache-2.0
 *
 * Doubles to text and back to the same bits; see number.h.
 */
#include "number.h"

#include "record.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Both halves of a decimal fraction of nine digits.  n / 1e9 is rounded
 * correctly, so a parser that reads those digits gives the same double. */
static size_t nanoseconds(uint64_t n, char *out)
{
    uint64_t whole = n / 1000000000, part = n % 1000000000;
    size_t at = hl_format_u64(whole, out);
    int digits = 9;
    out[at++] = '.';
    for (; digits > 1 && part % 10 == 0; digits--)
        part /= 10;
    for (int i = digits - 1; i >= 0; i--) {
        out[at + (size_t)i] = (char)('0' + part % 10);
        part /= 10;
    }
    return at + (size_t)digits;
}

static size_t general(double v, char *out)
{
    int n = 0;
    for (int digits = 15; digits <= 17; digits++) {
        n = snprintf(out, HL_NUMBER_MAX, "%.*g", digits, v);
        if (strtod(out, NULL) == v)
            break;
    }
    if (!strpbrk(out, ".e")) {
        memcpy(out + n, ".0", 3);
        n += 2;
    }
    return (size_t)n;
}

size_t hl_number_format(double v, char out[HL_NUMBER_MAX])
{
    double a = fabs(v);
    size_t sign = signbit(v) ? 1 : 0;
    if (sign)
        out[0] = '-';
    if (a < 1e15 && a == (double)(uint64_t)a) {
        size_t n = sign + hl_format_u64((uint64_t)a, out + sign);
        memcpy(out + n, ".0", 2);
        return n + 2;
    }
    if (a < 9e6 && a > 1e-9) {
        uint64_t n = (uint64_t)(a * 1e9 + 0.5);
        if ((double)n / 1e9 == a)
            return sign + nanoseconds(n, out + sign);
    }
    return general(v, out);
}
