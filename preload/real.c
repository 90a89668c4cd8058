/* SPDX-License-Identifier: Apache-2.0
 *
 * The next functions of the chain, and a small arena for what the dynamic
 * linker allocates while they are looked up.  Called from the entry points
 * when a function is unknown: once in a process, and in a forked child, where
 * the kernel has cleared them.
 */
#include "agent.h"
#include "sys.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

union hl_wiped hl_wiped __attribute__((aligned(HL_WIPE_BYTES)));
struct hl_other hl_other;
static struct hl_calls kept; /* what a forked child gets back */
static int malloc_is_hidden;
extern void *malloc(size_t);

/* ---- the arena ---- */

char hl_arena[HL_ARENA_BYTES] __attribute__((aligned(64)));
static size_t arena_used;

void *hl_arena_take(size_t align, size_t n)
{
    if (align < 16)
        align = 16;
    if (n > HL_ARENA_BYTES || align > 4096)
        goto full;
    size_t room = n + align + 16; /* its size lies in front of the block */
    size_t at = __atomic_fetch_add(&arena_used, room, __ATOMIC_RELAXED);
    if (at > HL_ARENA_BYTES - room)
        goto full;
    uintptr_t p = (uintptr_t)hl_arena + at + 16;
    p = (p + align - 1) & ~(uintptr_t)(align - 1);
    memcpy((void *)(p - sizeof n), &n, sizeof n);
    return (void *)p;
full:
    errno = ENOMEM;
    return NULL;
}

/* Blocks of the arena are not the heap's: only the new one is counted. */
void *hl_arena_move(void *p, size_t n)
{
    size_t old;
    memcpy(&old, (char *)p - sizeof old, sizeof old);
    if (HL_RARE(!hl_next.malloc) && hl_wake() != 0)
        return n <= old ? p : hl_arena_take(16, n);
    void *q = malloc(n);
    if (q)
        memcpy(q, p, n < old ? n : old);
    return q;
}

/* ---- the look-up ---- */

typedef void *look_up_fn(void *, const char *);

/* A function of one loaded object, by its GNU hash table, or NULL.  glibc has
 * put the addresses in the dynamic section right when it loaded the object. */
static void *find_in(const struct link_map *map, const char *name)
{
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const uint32_t *table = NULL;
    uint32_t hash = 5381;
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            symbols = (const ElfW(Sym) *)d->d_un.d_ptr;
        else if (d->d_tag == DT_STRTAB)
            names = (const char *)d->d_un.d_ptr;
        else if (d->d_tag == DT_GNU_HASH)
            table = (const uint32_t *)d->d_un.d_ptr;
    }
    if (!symbols || !names || !table || table[0] == 0)
        return NULL;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    const uint32_t *buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = buckets + table[0];
    uint32_t i = buckets[hash % table[0]];
    for (; i >= table[1]; i++) {
        const ElfW(Sym) *s = &symbols[i];
        if ((chain[i - table[1]] | 1) == (hash | 1) && s->st_shndx != SHN_UNDEF &&
            strcmp(names + s->st_name, name) == 0)
            return (void *)(map->l_addr + s->st_value);
        if (chain[i - table[1]] & 1)
            break;
    }
    return NULL;
}

/* A function of the C library itself.  dlsym: another preloaded library may interpose
 * it, and would then look behind itself instead of behind us.  The clock: who fakes
 * the time may allocate on the way. */
static void *in_libc(const char *name)
{
    Dl_info info;
    void *map = NULL;
    if (dladdr1(gnu_get_libc_version(), &info, &map, RTLD_DL_LINKMAP) == 0 || !map)
        return NULL;
    return find_in(map, name);
}

struct wanted {
    const char *name;
    size_t at;
};
static const struct wanted hot[] = {
    {"free", offsetof(struct hl_calls, free)},
    {"calloc", offsetof(struct hl_calls, calloc)},
    {"realloc", offsetof(struct hl_calls, realloc)},
    {"posix_memalign", offsetof(struct hl_calls, posix_memalign)},
    {"aligned_alloc", offsetof(struct hl_calls, aligned_alloc)},
    {"memalign", offsetof(struct hl_calls, memalign)},
    {"valloc", offsetof(struct hl_calls, valloc)},
    {"pvalloc", offsetof(struct hl_calls, pvalloc)},
    {"malloc_usable_size", offsetof(struct hl_calls, usable)},
    {"malloc", offsetof(struct hl_calls, malloc)},
};
static const struct wanted cold[] = {
    {"syscall", offsetof(struct hl_other, syscall)},
    {"prctl", offsetof(struct hl_other, prctl)},
    {"fork", offsetof(struct hl_other, fork)},
    {"_Fork", offsetof(struct hl_other, fork_raw)},
    {"_exit", offsetof(struct hl_other, exit_now)},
    {"quick_exit", offsetof(struct hl_other, quick_exit)},
    {"execve", offsetof(struct hl_other, execve)},
    {"execv", offsetof(struct hl_other, execv)},
    {"execvp", offsetof(struct hl_other, execvp)},
    {"execvpe", offsetof(struct hl_other, execvpe)},
    {"fexecve", offsetof(struct hl_other, fexecve)},
    {"execveat", offsetof(struct hl_other, execveat)},
};

static void find(look_up_fn *look, const struct wanted *w, size_t n, void *table)
{
    int missed = 0;
    for (size_t i = 0; i < n; i++) {
        void *f = look(RTLD_NEXT, w[i].name);
        memcpy((char *)table + w[i].at, &f, sizeof f);
        missed |= !f;
    }
    if (missed)
        dlerror(); /* the program must not find our message */
}

static int is_in_this_library(void *f)
{
    Dl_info a, b;
    return f && dladdr(f, &a) && dladdr(&hl_wiped, &b) && a.dli_fbase == b.dli_fbase;
}

/* Until all are known, others see none: malloc comes last. */
static void find_all(void)
{
    void *f = in_libc("dlsym"), *clock = in_libc("clock_gettime");
    look_up_fn *look = f ? (look_up_fn *)f : dlsym;
    hl_other.clock = clock ? (int (*)(clockid_t, struct timespec *))clock : clock_gettime;
    find(look, cold, sizeof cold / sizeof *cold, &hl_other);
    find(look, hot, sizeof hot / sizeof *hot, &kept);
    malloc_is_hidden = !is_in_this_library(look(RTLD_DEFAULT, "malloc"));
    hl_next = kept;
    long e = HL_SYS3(SYS_madvise, &hl_wiped, sizeof hl_wiped, MADV_WIPEONFORK);
    if (e < 0)
        hl_say("forked children are found late: MADV_WIPEONFORK", NULL, (int)-e);
}

int hl_malloc_is_hidden(void)
{
    return malloc_is_hidden;
}

int hl_is_wiped(void)
{
    return !hl_next.malloc && kept.malloc;
}

void hl_unwipe(void)
{
    hl_next = kept;
}

int hl_wake(void)
{
    /* dlsym is declared a leaf, so without volatile the compiler may take it
     * that nobody comes back here meanwhile, and drop the guard. */
    static volatile int busy;
    int e = errno;
    if (hl_is_wiped()) {
        hl_child();
    } else if (!kept.malloc) {
        if (busy)
            return -1;
        busy = 1;
        find_all();
        busy = 0;
        hl_start();
    }
    errno = e;
    return hl_next.malloc ? 0 : -1;
}
