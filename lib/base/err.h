/* SPDX-License-Identifier: Apache-2.0
 *
 * The error that is passed down by whoever will speak to the user: the depth
 * fills in what and where, the top adds what to do and prints it once.
 */
#ifndef HL_ERR_H
#define HL_ERR_H

#include <stddef.h>

struct hl_err {
    int code; /* 0 none; else a positive errno value or HL_ERR_ code */
    char text[256];
};

enum {
    HL_ERR_FORMAT = 10001,  /* the input is not what it should be */
    HL_ERR_VERSION = 10002, /* a version that is not known here */
    HL_ERR_PEER = 10003     /* the other side refused or went away */
};

/* Fill e (NULL allowed) and return -1, so that callers can return it. */
int hl_fail(struct hl_err *e, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with ": " and strerror(errno) behind the text; code is errno. */
int hl_fail_errno(struct hl_err *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Put "format: " in front of the text that is there. Returns -1. */
int hl_fail_in(struct hl_err *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* n printable bytes of foreign text at out (NUL-terminated, cap bytes): control
 * characters and bytes above 126 become \xNN, what does not fit is cut. */
void hl_printable(const char *s, size_t n, char *out, size_t cap);

#endif
