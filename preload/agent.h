/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the heap agent share: the state of the process, that of a
 * thread, the next functions in the chain.  The agent is a guest: nothing here
 * may allocate through malloc, use stdio or the locale, wait, or end the program.
 */
#ifndef HL_AGENT_H
#define HL_AGENT_H

#include "heap_page.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define HL_RARE(x) __builtin_expect(!!(x), 0)
#define HL_KEEP_OUT __attribute__((noinline))
/* What every process uses lies together, in a page that is the process's own anyway:
 * each page more makes loading longer. */
#define HL_USED __attribute__((section(".data")))
#define HL_ORDER() __asm__ volatile("" ::: "memory")
#if defined __x86_64__
#define HL_PAUSE() __asm__ volatile("pause")
#else
#define HL_PAUSE() __asm__ volatile("yield")
#endif

#if defined __x86_64__
enum { HL_WIPE_BYTES = 4096 };
#else
enum { HL_WIPE_BYTES = 65536 }; /* the largest page size in use */
#endif

/* The functions that are called for each operation.  They lie in memory that
 * the kernel clears in a forked child (MADV_WIPEONFORK), so the test that every
 * interposer makes, "is my next function known", also finds children that
 * were made by a raw clone, at no cost. */
struct hl_calls {
    void *(*malloc)(size_t);
    void (*free)(void *);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    size_t (*usable)(void *);
};
union hl_wiped {
    struct hl_calls next;
    char room[HL_WIPE_BYTES];
};
extern union hl_wiped hl_wiped;
#define hl_next hl_wiped.next

/* The rest of the chain, kept by fork. */
struct hl_other {
    long (*syscall)(long, ...);
    int (*prctl)(int, ...);
    pid_t (*fork)(void);
    pid_t (*fork_raw)(void); /* _Fork; NULL before glibc 2.34 */
    void (*exit_now)(int);   /* _exit */
    void (*quick_exit)(int);
    int (*execve)(const char *, char *const *, char *const *);
    int (*execv)(const char *, char *const *);
    int (*execvp)(const char *, char *const *);
    int (*execvpe)(const char *, char *const *, char *const *);
    int (*fexecve)(int, char *const *, char *const *);
    int (*execveat)(int, const char *, char *const *, char *const *, int);
    int (*clock)(clockid_t, struct timespec *); /* the C library's own */
};
extern struct hl_other hl_other;

/* A thread.  slot is never NULL: threads that have none share one whose limits
 * send every operation to the slow path and whose counts nobody reads. */
struct hl_thread {
    struct hl_heap_slot *slot;
    int64_t fork_live; /* live just before a fork of this thread */
    unsigned char fork_known, leaving, ending, n_rounds, has_left;
    unsigned n_shared; /* operations counted in the shared slot */
};
extern __thread struct hl_thread hl_mine __attribute__((tls_model("initial-exec")));
extern struct hl_heap_slot hl_no_slot;

enum hl_mode {
    HL_MODE_EARLY = 0, /* counting in the static page; the environment is not there yet */
    HL_MODE_ON = 1,
    HL_MODE_OFF = 2, /* disabled, a launcher, or privileged: nothing at all */
    HL_MODE_BUSY = 3 /* a new process is setting itself up; nothing is counted */
};

struct hl_agent {
    int mode;       /* enum hl_mode */
    int no_barrier; /* membarrier is missing: see peak.c */
    struct hl_heap_header *page;
    struct hl_heap_slot *slots;
    int page_is_static, page_is_file;
    pid_t pid;
    int finished; /* 0, 1 under way, 2 done */
    int quick_status;
    int verbose;
    int key_ok; /* a pthread key tells us of ending threads */
    unsigned key;
    /* the connection; -1 none */
    int sock;
    dev_t sock_dev;
    ino_t sock_ino;
    int said_hello; /* the collector has hello and page of this image */
    int unshared;   /* ... hello without a page: send the record at the end */
    int64_t interval_ns;
    const char *sockets;  /* HEAPLINE_SOCKET */
    const char *fallback; /* HEAPLINE_FALLBACK_DIR, "" none */
    const char *output;   /* HEAPLINE_OUTPUT, absolute, "" none */
    /* standard error as it was at the start */
    dev_t stderr_dev;
    ino_t stderr_ino;
    int has_stderr;
};
extern struct hl_agent hl_agent;

/* ---- real.c ---- */

/* Called where a next function is unknown: looks all up, or sets a forked child
 * up.  0: they are known now; -1: a look-up is under way, use the arena. */
int hl_wake(void);
/* Have the next functions cleared in forked children. */
void hl_wipe_on_fork(void);
/* After a fork: are the next functions cleared?  And bring them back. */
int hl_is_wiped(void);
/* Which of the program's allocations will not come to us: HL_HEAP_BYPASSED, when
 * malloc is another function than ours, HL_HEAP_NEW_BYPASSED; or 0. */
unsigned hl_bypass(void);
void hl_unwipe(void);
/* Memory for what the dynamic linker asks while it looks functions up. */
void *hl_arena_take(size_t align, size_t n);
void *hl_arena_move(void *p, size_t n);
extern char hl_arena[];
enum { HL_ARENA_BYTES = 32768 };
static inline int hl_in_arena(const void *p)
{
    return HL_RARE((uintptr_t)p - (uintptr_t)hl_arena < HL_ARENA_BYTES);
}

/* ---- count.c ---- */

/* What an operation does beyond the slot's limits; bytes: its net change. */
void *hl_alloc_beyond(void *p, int64_t bytes);
void hl_free_beyond(int64_t bytes);
void hl_realloc_beyond(int64_t bytes, unsigned frees, unsigned allocs);
/* Give the first slot to this thread; the page has counted nothing yet. */
void hl_first_slot(void);
/* The thread ends: its slot goes to the next one. */
void hl_leave_slot(void);
/* Live bytes: inherited and all slots. */
int64_t hl_live_now(void);
/* The numbers of this instant, each slot read consistently. */
void hl_snapshot(int64_t now_mono_ns, struct hl_record *out);

/* ---- peak.c ---- */

int64_t hl_mono_ns(void);

/* ---- page.c ---- */

/* Pages for the process that are empty but for their size. */
extern union hl_page {
    struct hl_heap_header header;
    char room[HL_HEAP_PAGE_SIZE];
} hl_static_page;
/* A sealed memfd mapped at *at (NULL: anywhere); the descriptor or -1. */
int hl_page_memfd(void *at, void **page);
/* A file in the fallback folder; 0 or -1. */
int hl_page_file(void *at, const struct hl_heap_header *id, void **page);
/* Make page the process's page: identity and counts of the one before. */
void hl_page_adopt(void *page, int is_static, int is_file);

/* ---- send.c ---- */

/* Connect to the first collector that answers, make the page, send the hello.
 * reuse: address to map the page at, or NULL. */
void hl_send_start(void *reuse);
/* The end: what the collector cannot read in the page. */
void hl_send_end(const struct hl_end *end);
/* Close the connection if it is still ours. */
void hl_send_forget(void);

/* ---- start.c ---- */

void hl_start(void);
/* In a new process that shares no memory with its parent. */
void hl_child(void);
/* Is this process the page's own (not a vfork child)? */
int hl_is_own(void);
/* The end of the process, once: page, collector, HEAPLINE_OUTPUT. */
void hl_finish(int status);
void hl_state(enum hl_heap_state state);
/* One line on stderr if HEAPLINE_VERBOSE asked for it. */
void hl_say(const char *what, const char *name, int error);

#endif
