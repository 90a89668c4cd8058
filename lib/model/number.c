/* SPDX-License-Identifier: Apache-2.0
 *
 * Doubles to text and back to the same bits; see number.h.  Whole numbers and whole
 * nanoseconds are printed from integers; the rest by the method of R. Giulietti's
 * "The Schubfach way to render doubles": the ends of the interval of reals that round
 * to the double are scaled by one power of ten, of which 128 bits suffice, and the
 * shortest decimal between them is read off.
 */
#include "number.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- powers of ten ---- */

enum {
    POWER_MIN = -292, /* what the exponents of doubles need */
    POWER_MAX = 324,
    BIG_WORDS = 48 /* 1536 bits: 10^324, and 2^1535 / 10^292 with 128 bits and more */
};

/* 10^e * 2^x, rounded up, with x such that the top bit of 128 is set. */
static struct {
    uint64_t hi, lo;
} power[POWER_MAX - POWER_MIN + 1];

struct big {
    uint32_t word[BIG_WORDS]; /* lowest first */
};

static void times_ten(struct big *b)
{
    uint64_t carry = 0;
    for (int i = 0; i < BIG_WORDS; i++) {
        carry += (uint64_t)b->word[i] * 10;
        b->word[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* Rounds down; doing so again and again rounds the true quotient down. */
static void by_ten(struct big *b)
{
    uint64_t rest = 0;
    for (int i = BIG_WORDS; i-- > 0;) {
        rest = rest << 32 | b->word[i];
        b->word[i] = (uint32_t)(rest / 10);
        rest %= 10;
    }
}

static int bit(const struct big *b, int i)
{
    return i >= 0 && (b->word[i / 32] >> i % 32 & 1);
}

/* The top 128 bits; one more in the last place when bits below are lost. */
static void keep(const struct big *b, int e, int inexact)
{
    unsigned __int128 v = 0;
    int top = 32 * BIG_WORDS - 1;
    while (!bit(b, top))
        top--;
    for (int i = 0; i < 128; i++)
        v = v << 1 | (unsigned)bit(b, top - i);
    for (int i = top - 128; i >= 0 && !inexact; i--)
        inexact = bit(b, i);
    v += inexact ? 1 : 0;
    power[e - POWER_MIN].hi = (uint64_t)(v >> 64);
    power[e - POWER_MIN].lo = (uint64_t)v;
}

/* Before main, so that threads find the table whole. */
__attribute__((constructor)) static void make_powers(void)
{
    struct big b = {{1}};
    for (int e = 0; e <= POWER_MAX; e++) {
        keep(&b, e, 0);
        times_ten(&b);
    }
    memset(&b, 0, sizeof b);
    b.word[BIG_WORDS - 1] = 0x80000000u;
    for (int e = -1; e >= POWER_MIN; e--) {
        by_ten(&b);
        keep(&b, e, 1);
    }
}

/* ---- the shortest decimal ---- */

struct decimal {
    uint64_t digits;
    int exponent;
};

/* The upper 64 bits of g * c / 2^128 times 2^64, the last one set when bits below it
 * are lost, so that comparisons with even numbers stay right. */
static uint64_t scaled(int e, uint64_t c)
{
    unsigned __int128 low = (unsigned __int128)power[e - POWER_MIN].lo * c;
    unsigned __int128 v =
        (unsigned __int128)power[e - POWER_MIN].hi * c + (uint64_t)(low >> 64);
    return (uint64_t)(v >> 64) | ((uint64_t)v > 1);
}

/* Floors of logarithms, right over the whole range of exponents. */
static int log10_pow2(int e, int three_quarters)
{
    return (e * 1262611 - (three_quarters ? 524031 : 0)) >> 22;
}

static int log2_pow10(int e)
{
    return (e * 1741647) >> 19;
}

/* Of the two candidates s and s + 1 (units of 4) the one inside, else the nearer. */
static uint64_t choose(uint64_t s, uint64_t lower, uint64_t mid, uint64_t upper)
{
    int below = lower <= 4 * s, above = 4 * s + 4 <= upper;
    if (below != above)
        return s + (above ? 1 : 0);
    return s + (mid > 4 * s + 2 || (mid == 4 * s + 2 && (s & 1)) ? 1 : 0);
}

/* Positive, finite, not zero. */
static struct decimal shortest(uint64_t bits)
{
    uint64_t fraction = bits & ((1ull << 52) - 1), c = fraction;
    int biased = (int)(bits >> 52), q = -1074;
    int closer = !fraction && biased > 1; /* a power of two: half as far down */
    if (biased) {
        c |= 1ull << 52;
        q = biased - 1075;
    }
    int k = log10_pow2(q, closer), h = q + log2_pow10(-k) + 1;
    uint64_t odd = c & 1;
    uint64_t lower = scaled(-k, (4 * c - 2 + (closer ? 1 : 0)) << h) + odd;
    uint64_t mid = scaled(-k, 4 * c << h);
    uint64_t upper = scaled(-k, (4 * c + 2) << h) - odd;
    uint64_t s = mid / 4, tens = s / 10;
    if (s >= 10) {
        int below = lower <= 40 * tens, above = 40 * tens + 40 <= upper;
        if (below != above)
            return (struct decimal){tens + (above ? 1 : 0), k + 1};
    }
    return (struct decimal){choose(s, lower, mid, upper), k};
}

/* ---- text ---- */

static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                            "25262728293031323334353637383940414243444546474849"
                            "50515253545556575859606162636465666768697071727374"
                            "75767778798081828384858687888990919293949596979899";

static int count_digits(uint64_t v)
{
    int n = 1;
    for (; v >= 10000; v /= 10000)
        n += 4;
    return n + (v >= 10) + (v >= 100) + (v >= 1000);
}

/* Exactly n digits, zeros in front. */
static void put_digits(uint64_t v, int n, char *out)
{
    for (; n >= 2; n -= 2, v /= 100)
        memcpy(out + n - 2, pairs + 2 * (v % 100), 2);
    if (n)
        out[0] = (char)('0' + v % 10);
}

static size_t put_exponent(int x, char *out)
{
    size_t at = 0;
    out[at++] = 'e';
    if (x < 0)
        out[at++] = '-';
    x = x < 0 ? -x : x;
    int n = count_digits((uint64_t)x);
    put_digits((uint64_t)x, n, out + at);
    return at + (size_t)n;
}

/* d.digits * 10^d.exponent: plain from 1e-4 to 1e16, as most programs print doubles,
 * else with an exponent. */
static size_t put_decimal(struct decimal d, char *out)
{
    while (d.digits % 10 == 0) {
        d.digits /= 10;
        d.exponent++;
    }
    int n = count_digits(d.digits), x = n - 1 + d.exponent;
    if (x < -4 || x >= 16) {
        put_digits(d.digits, n, out + 1);
        out[0] = out[1];
        out[1] = '.';
        size_t at = n > 1 ? (size_t)n + 1 : 1;
        return at + put_exponent(x, out + at);
    }
    if (d.exponent >= 0) {
        put_digits(d.digits, n, out);
        memset(out + n, '0', (size_t)d.exponent);
        memcpy(out + n + d.exponent, ".0", 2);
        return (size_t)(n + d.exponent) + 2;
    }
    int whole = x < 0 ? 1 : x + 1; /* digits in front of the point */
    if (x < 0) {
        memcpy(out, "0.000", 5);
        put_digits(d.digits, n, out + 1 - x);
        return (size_t)(n + 1 - x);
    }
    put_digits(d.digits, n, out + 1);
    memmove(out, out + 1, (size_t)whole);
    out[whole] = '.';
    return (size_t)n + 1;
}

/* Doubles below 2^23 lie closer than nanoseconds, so that two numbers of nanoseconds
 * are two doubles, and the one that gives this double has its shortest digits.
 * n / 1e9 is rounded correctly, so a parser that reads those digits gets the same. */
static int whole_nanoseconds(double a, struct decimal *d)
{
    if (!(a < 8388608.0 && a > 1e-9))
        return 0;
    d->digits = (uint64_t)(a * 1e9 + 0.5);
    d->exponent = -9;
    return (double)d->digits / 1e9 == a;
}

size_t hl_number_format(double v, char out[HL_NUMBER_MAX])
{
    double a = fabs(v);
    struct decimal d;
    uint64_t bits;
    size_t sign = signbit(v) ? 1 : 0;
    out[0] = '-';
    if (a < 9007199254740992.0 && a == (double)(uint64_t)a) {
        int n = count_digits((uint64_t)a);
        put_digits((uint64_t)a, n, out + sign);
        memcpy(out + sign + n, ".0", 2);
        return sign + (size_t)n + 2;
    }
    if (!whole_nanoseconds(a, &d)) {
        memcpy(&bits, &a, sizeof bits);
        d = shortest(bits);
    }
    return sign + put_decimal(d, out + sign);
}
