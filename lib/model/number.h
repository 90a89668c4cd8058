/* SPDX-License-Identifier: Apache-2.0
 *
 * Doubles as decimal text that parses back to the same bits.
 */
#ifndef HL_NUMBER_H
#define HL_NUMBER_H

#include <stddef.h>

enum { HL_NUMBER_MAX = 32 };

/* A finite double as a JSON number with a decimal point or an exponent, so that
 * readers take it for a double; returns its length (no NUL).  No shorter row of
 * digits comes back as the same double; among the shortest it is the nearest.
 * Whatever the locale; allocates nothing; safe in any thread. */
size_t hl_number_format(double v, char out[HL_NUMBER_MAX]);

#endif
