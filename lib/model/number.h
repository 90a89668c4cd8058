/* SPDX-License-Identifier: Apache-2.0
 *
 * Doubles as decimal text that parses back to the same bits.
 */
#ifndef HL_NUMBER_H
#define HL_NUMBER_H

#include <stddef.h>

enum { HL_NUMBER_MAX = 32 };

/* A finite double as a JSON number with a decimal point or an exponent, so that
 * readers take it for a double; returns its length (no NUL).  Whole numbers
 * and whole nanoseconds, nearly all that profiles hold, are printed from
 * integers; the rest by the shortest of %.15g to %.17g that comes back.  The C
 * locale must be in force. */
size_t hl_number_format(double v, char out[HL_NUMBER_MAX]);

#endif
