/* SPDX-License-Identifier: Apache-2.0
 *
 * Bench: an interposer that passes each call on and does nothing.  With
 * -DCOUNTING it also keeps each thread's number of calls and bytes, as cheaply as
 * can be: no peak, no sum over threads, no record.  What the heap agent costs is
 * told as a ratio to the counting one.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define OPEN __attribute__((visibility("default")))
#define RARE(x) __builtin_expect(!!(x), 0)

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    void *(*aligned_alloc)(size_t, size_t);
} next;
static char arena[16384] __attribute__((aligned(64)));
static size_t arena_used;
static volatile int looking;

static int from_arena(const void *p)
{
    return (uintptr_t)p - (uintptr_t)arena < sizeof arena;
}

static void *take(size_t n)
{
    size_t at = arena_used;
    if (n > sizeof arena - 16 - at)
        return NULL;
    arena_used = (at + n + 15) & ~(size_t)15;
    return arena + at;
}

static int unknown(void)
{
    if (looking)
        return 1;
    looking = 1;
    next.calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    next.realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    next.free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next.aligned_alloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
    next.malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    looking = 0;
    return !next.malloc;
}

#ifdef COUNTING
static __thread struct {
    uint64_t made, released;
    int64_t bytes;
} own __attribute__((tls_model("initial-exec")));

static void *made(void *p)
{
    if (p) {
        own.made++;
        own.bytes += (int64_t)malloc_usable_size(p);
    }
    return p;
}

static void released(void *p)
{
    own.released++;
    own.bytes -= (int64_t)malloc_usable_size(p);
}
#else
#define made(p) (p)
#define released(p) ((void)0)
#endif

OPEN void *malloc(size_t n)
{
    if (RARE(!next.malloc) && unknown())
        return take(n);
    return made(next.malloc(n));
}

OPEN void free(void *p)
{
    if (RARE(from_arena(p)) || (RARE(!next.free) && unknown()))
        return;
    if (p)
        released(p);
    next.free(p);
}

OPEN void *calloc(size_t a, size_t b)
{
    if (RARE(!next.calloc) && unknown())
        return take(a * b);
    return made(next.calloc(a, b));
}

OPEN void *realloc(void *p, size_t n)
{
    if (RARE(from_arena(p))) {
        void *q = malloc(n);
        size_t left = (size_t)(arena + sizeof arena - (char *)p);
        return q ? memcpy(q, p, n < left ? n : left) : NULL;
    }
    if (RARE(!next.realloc) && unknown())
        return take(n);
#ifdef COUNTING
    if (p)
        released(p);
#endif
    return made(next.realloc(p, n));
}

OPEN void *aligned_alloc(size_t align, size_t n)
{
    if (RARE(!next.aligned_alloc) && unknown())
        return NULL;
    return made(next.aligned_alloc(align, n));
}
