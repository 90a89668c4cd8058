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
HL_USED struct hl_other hl_other;
HL_USED static struct hl_calls kept; /* what a forked child gets back */
HL_USED static unsigned bypass;
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

/* The symbols of one loaded object: the first n_undefined are those it wants from
 * others, then follow those in its GNU hash table. */
struct symbols {
    const ElfW(Sym) * at;
    const char *names;
    const uint32_t *table;
    uint32_t n_undefined;
};

/* glibc has put the addresses in the dynamic section right when it loaded the object,
 * but for that of the kernel's own, which cannot be written. */
static const void *address(const struct link_map *map, const ElfW(Dyn) * d)
{
    return (const void *)(d->d_un.d_ptr < map->l_addr ? d->d_un.d_ptr + map->l_addr
                                                      : d->d_un.d_ptr);
}

static int symbols_of(const struct link_map *map, struct symbols *s)
{
    *s = (struct symbols){0};
    for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            s->at = address(map, d);
        else if (d->d_tag == DT_STRTAB)
            s->names = address(map, d);
        else if (d->d_tag == DT_GNU_HASH)
            s->table = address(map, d);
    }
    if (!s->at || !s->names || !s->table || s->table[0] == 0)
        return -1;
    s->n_undefined = s->table[1];
    return 0;
}

/* A function of one loaded object, by its GNU hash table, or NULL. */
static void *find_in(const struct link_map *map, const char *name)
{
    struct symbols t;
    uint32_t hash = 5381;
    if (symbols_of(map, &t) != 0)
        return NULL;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    const uint32_t *buckets = t.table + 4 + t.table[2] * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = buckets + t.table[0];
    uint32_t i = buckets[hash % t.table[0]];
    for (; i >= t.n_undefined; i++) {
        const ElfW(Sym) *s = &t.at[i];
        if ((chain[i - t.n_undefined] | 1) == (hash | 1) && s->st_shndx != SHN_UNDEF &&
            strcmp(t.names + s->st_name, name) == 0)
            return (void *)(map->l_addr + s->st_value);
        if (chain[i - t.n_undefined] & 1)
            break;
    }
    return NULL;
}

static int wants(const struct link_map *map, const char *name)
{
    struct symbols t;
    if (symbols_of(map, &t) != 0)
        return 0;
    for (uint32_t i = 1; i < t.n_undefined; i++)
        if (strcmp(t.names + t.at[i].st_name, name) == 0)
            return 1;
    return 0;
}

/* Where an address belongs. */
static const struct link_map *object_of(const void *f)
{
#if __GLIBC_PREREQ(2, 35) /* dladdr looks through all symbols of the object */
    struct dl_find_object found;
    return f && _dl_find_object((void *)f, &found) == 0 ? found.dlfo_link_map : NULL;
#else
    Dl_info info;
    void *map = NULL;
    return f && dladdr1(f, &info, &map, RTLD_DL_LINKMAP) ? map : NULL;
#endif
}

/* A function of the C library itself.  dlsym: another preloaded library may interpose
 * it, and would then look behind itself instead of behind us.  The clock: who fakes
 * the time may allocate on the way. */
static void *in_libc(const char *name)
{
    const struct link_map *map = object_of(gnu_get_libc_version());
    return map ? find_in(map, name) : NULL;
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

/* An allocator that brings its own operator new, which has no need of its malloc by
 * name: what C++ code allocates goes past us.  Asked for like this, as a name that is
 * nowhere costs dlsym an error message. */
static int new_goes_past(void)
{
    static const char new[] = "_Znwm";
    const struct link_map *first = object_of(&hl_wiped), *own;
    while (first && first->l_prev)
        first = first->l_prev;
    for (own = first; own && !find_in(own, new); own = own->l_next)
        ;
    if (!own || !find_in(own, "malloc"))
        return 0;
    for (const struct link_map *m = first; m; m = m->l_next)
        if (m != own && !find_in(m, new) && wants(m, new))
            return 1;
    return 0;
}

/* Until all are known, others see none: malloc comes last. */
static void find_all(void)
{
    void *f = in_libc("dlsym"), *clock = in_libc("clock_gettime");
    look_up_fn *look = f ? (look_up_fn *)f : dlsym;
    hl_other.clock = clock ? (int (*)(clockid_t, struct timespec *))clock : clock_gettime;
    find(look, cold, sizeof cold / sizeof *cold, &hl_other);
    find(look, hot, sizeof hot / sizeof *hot, &kept);
    bypass = object_of(look(RTLD_DEFAULT, "malloc")) != object_of(&hl_wiped)
                 ? HL_HEAP_BYPASSED
                 : 0;
    bypass |= new_goes_past() ? HL_HEAP_NEW_BYPASSED : 0;
    hl_next = kept;
}

void hl_wipe_on_fork(void)
{
    long e = HL_SYS3(SYS_madvise, &hl_wiped, sizeof hl_wiped, MADV_WIPEONFORK);
    if (e < 0)
        hl_say("forked children are found late: MADV_WIPEONFORK", NULL, (int)-e);
}

unsigned hl_bypass(void)
{
    return bypass;
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
    HL_USED static volatile int busy;
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
