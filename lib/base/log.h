/* SPDX-License-Identifier: Apache-2.0
 *
 * The daemon's log: levels, a limit for each kind of message, the journal or
 * stderr.  Lines never hold bytes of a client: texts from outside go through
 * hl_printable first, and what is left of control characters is replaced here.
 * Not thread-safe; owned by its holder.
 */
#ifndef HL_LOG_H
#define HL_LOG_H

#include <stdint.h>

/* syslog's numbers */
enum hl_log_level {
    HL_LOG_ERR = 3,
    HL_LOG_WARNING = 4,
    HL_LOG_NOTICE = 5,
    HL_LOG_INFO = 6,
    HL_LOG_DEBUG = 7
};

enum { HL_LOG_KINDS = 64, HL_LOG_WINDOW_S = 30 };

/* Whom a line is about, for the journal's fields; uid and pid -1: not said. */
struct hl_log_about {
    const char *key; /* of the run, or NULL */
    int64_t uid, pid;
};

struct hl_log_kind {
    const char *name; /* borrowed: a literal */
    int level;
    int64_t since_ns;
    uint64_t n, n_held; /* printed and held back since then */
};

struct hl_log {
    int level;            /* the highest that is printed */
    uint32_t burst;       /* of one kind in HL_LOG_WINDOW_S; 0: no limit */
    int journal;          /* socket to the journal, or -1: stderr */
    int64_t (*now)(void); /* seams for tests; set by hl_log_init */
    void (*put)(struct hl_log *l, int level, const struct hl_log_about *about,
                const char *line);
    void *ctx;            /* for put */
    uint64_t n_held;      /* lines held back, ever */
    char last_error[256]; /* the last line of level err, "" none */
    struct hl_log_kind kind[HL_LOG_KINDS];
};

/* To stderr, level info, burst 10. */
void hl_log_init(struct hl_log *l);
void hl_log_fini(struct hl_log *l);
/* Send to the journal when there is one; 0, or -1 and stderr stays. */
int hl_log_to_journal(struct hl_log *l);

/* One line.  kind: a literal that names what happens, lines of one kind are
 * limited together; NULL: never held back.  about may be NULL. */
void hl_log(struct hl_log *l, int level, const char *kind,
            const struct hl_log_about *about, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Say how many were held back in windows that are over; call now and then. */
void hl_log_tick(struct hl_log *l);
/* Say it for all kinds, whether their window is over or not: at the end. */
void hl_log_flush(struct hl_log *l);

/* "info" and the like; -1 for another word. */
int hl_log_level_by_name(const char *name);

#endif
