/* SPDX-License-Identifier: Apache-2.0
 *
 * Each allocation function and each of its corner cases alone.
 *
 *   preload_calls calls [LIBRARY]  prints a line for each: what was returned and errno,
 *                        to be compared with a run without the agent; with the agent
 *                        the counts must be those of malloc_usable_size
 *   preload_calls glibc  likewise for what the C library allocates for its caller
 *   preload_calls late PLACE K [LIBRARY]   K blocks made and K / 2 released at PLACE
 *   preload_calls time   prints when the highest heap was reached
 *   preload_calls deepbind LIBRARY   blocks whose making or release is hidden
 * Exit status 0: all as it must be; 1: not, and what (on stderr).
 */
#include "preload_truth.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <iconv.h>
#include <locale.h>
#include <netdb.h>
#include <obstack.h>
#include <pthread.h>
#include <regex.h>
#include <string.h>
#include <time.h>
#include <wordexp.h>

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

static struct heapline_stats before;
static void *filler;
static int bad;
static volatile size_t vast = SIZE_MAX / 2 + 1; /* the compiler must not know */
static const char *library;

/* Live is lifted to the peak, so that the next byte shows. */
static void begin(void)
{
    errno = 0;
    if (!get_stats)
        return;
    before = stats_now();
    filler = malloc((size_t)(before.peak_bytes - before.live_bytes) + 1000);
    before = stats_now();
    if (before.live_bytes != before.peak_bytes)
        _exit(3);
    errno = 0;
}

static void differs(const char *name, const char *what, int64_t got, int64_t want)
{
    if (got == want)
        return;
    bad = 1;
    fprintf(stderr, "%s: %s %lld instead of %lld\n", name, what, (long long)got,
            (long long)want);
}

/* top: the highest net of what was done; below 0: not known. */
static void end(const char *name, int64_t allocs, int64_t frees, int64_t live,
                int64_t top)
{
    int e = errno;
    if (get_stats) {
        struct heapline_stats s = stats_now();
        int64_t a = (int64_t)(s.allocs - before.allocs);
        int64_t f = (int64_t)(s.frees - before.frees);
        differs(name, "allocs", a, allocs);
        differs(name, "frees", f, frees);
        differs(name, "live", s.live_bytes - before.live_bytes, live);
        if (top >= 0)
            differs(name, "peak", s.peak_bytes - before.peak_bytes, top);
        free(filler);
    }
    errno = e;
}

/* Made: a - f = kept blocks, however many there were between. */
static void kept(const char *name, int64_t blocks, int64_t bytes)
{
    if (get_stats) {
        struct heapline_stats s = stats_now();
        int64_t more = (int64_t)(s.allocs - before.allocs - (s.frees - before.frees));
        differs(name, "blocks kept", more, blocks);
        differs(name, "bytes kept", s.live_bytes - before.live_bytes, bytes);
        if (s.allocs == before.allocs)
            differs(name, "allocs", 0, 1);
        if (s.peak_bytes - before.peak_bytes < bytes)
            differs(name, "peak", s.peak_bytes - before.peak_bytes, bytes);
        free(filler);
    }
}

static void fact(const char *name, long result)
{
    int e = errno;
    say("%s %ld %d\n", name, result, e);
}

/* ---- the functions ---- */

static int64_t size_of(void *p)
{
    return (int64_t)malloc_usable_size(p);
}

enum kind { MALLOC, CALLOC, REALLOC, ARRAY, POSIX, C11, MEM, PAGE, PAGES };
static const char *const names[] = {"malloc",       "calloc",         "realloc",
                                    "reallocarray", "posix_memalign", "aligned_alloc",
                                    "memalign",     "valloc",         "pvalloc"};

static void *make(enum kind kind, size_t align, size_t n, int *result)
{
    void *p = NULL;
    switch (kind) {
    case MALLOC: return malloc(n);
    case CALLOC: return calloc(n, 1);
    case REALLOC: return realloc(NULL, n);
    case ARRAY: return reallocarray(NULL, 1, n);
    case POSIX: return (*result = posix_memalign(&p, align, n)) == 0 ? p : NULL;
    case C11: return aligned_alloc(align, n);
    case MEM: return memalign(align, n);
    case PAGE: return valloc(n);
    default: return pvalloc(n);
    }
}

static void one(enum kind kind, size_t align, size_t n)
{
    char name[80];
    int result = 0;
    snprintf(name, sizeof name, "%s %zu %zu", names[kind], align, n);
    begin();
    void *p = make(kind, align, n, &result);
    int64_t got = p ? size_of(p) : 0;
    fact(name, result ? result
               : !p   ? -1
                      : (align & (align - 1)) == 0 && align && (uintptr_t)p % align);
    end(name, p != NULL, 0, got, got);
    if (!p)
        return;
    begin();
    errno = 55;
    free(p);
    fact("free", 0);
    end(name, 0, 1, -got, 0);
}

static void every_function(void)
{
    static const size_t size[] = {0, 1, 24, 25, 1000, 131072, 5000000};
    static const size_t aligned[] = {0, 1, 3, 8, 16, 24, 64, 4096, 5000, 1u << 21};
    for (int kind = MALLOC; kind <= PAGES; kind++)
        for (size_t i = 0; i < sizeof size / sizeof *size; i++)
            for (size_t k = 0; k < sizeof aligned / sizeof *aligned; k++)
                if ((kind >= POSIX && kind <= MEM) || k == 0)
                    one((enum kind)kind, aligned[k], size[i]);
    for (int kind = MALLOC; kind <= PAGES; kind++) {
        one((enum kind)kind, 16, vast - 1); /* PTRDIFF_MAX */
        one((enum kind)kind, 16, vast);
        one((enum kind)kind, 16, vast * 2 - 1);
        if (kind >= POSIX && kind <= MEM) {
            one((enum kind)kind, (size_t)1 << 30, 100);
            one((enum kind)kind, (size_t)1 << 62, 100);
            one((enum kind)kind, ((size_t)1 << 62) + 8, 100);
            one((enum kind)kind, (size_t)1 << 63, 100);
            one((enum kind)kind, vast * 2 - 1, 100);
        }
    }
}

static void resize(const char *name, void *p, size_t n, int array)
{
    int64_t old = p ? size_of(p) : 0;
    begin();
    void *q = array ? reallocarray(p, n, 1) : realloc(p, n);
    int64_t now = q ? size_of(q) : 0;
    int gone = p && (q || n == 0);
    fact(name, q != NULL);
    end(name, q != NULL, gone, gone ? now - old : now,
        gone && now < old ? 0
        : gone            ? now - old
                          : now);
    free(q ? q : gone ? NULL : p);
}

static void reallocs(void)
{
    void *p = NULL;
    resize("realloc of nothing", NULL, 100, 0);
    resize("realloc of nothing to 0", NULL, 0, 0);
    resize("realloc larger", malloc(10), 100000, 0);
    resize("realloc smaller", malloc(100000), 10, 0);
    resize("realloc the same", malloc(100), 100, 0);
    resize("realloc to 0", malloc(100), 0, 0);
    resize("realloc to too much", malloc(100), vast, 0);
    resize("realloc to PTRDIFF_MAX", malloc(100), vast - 1, 0);
    resize("realloc of a mapped block", malloc(1000000), 3000000, 0);
    resize("realloc of a mapped block to too much", malloc(1000000), vast, 0);
    resize("realloc of a mapped block to a small one", malloc(1000000), 30, 0);
    resize("realloc of a mapped block to 0", malloc(1000000), 0, 0);
    resize("realloc of an aligned block", memalign(4096, 100), 9000, 0);
    resize("realloc of an aligned block down", memalign(1 << 20, 9000), 9, 0);
    if (posix_memalign(&p, 1 << 16, 100000) == 0)
        resize("realloc of a large aligned block", p, 500000, 0);
    resize("realloc of pages", pvalloc(1), 20000, 0);
    resize("reallocarray", malloc(10), 100000, 1);
    resize("reallocarray to 0", malloc(10), 0, 1);
    resize("reallocarray of nothing", NULL, 40, 1);
    begin();
    p = malloc(100);
    int64_t n = size_of(p);
    void *q = reallocarray(p, vast / 2, 5);
    fact("reallocarray overflow", q != NULL);
    q = calloc(vast / 2, 5);
    fact("calloc overflow", q != NULL);
    q = reallocarray(NULL, vast, 2);
    fact("reallocarray overflow to 0", q != NULL);
    q = calloc(vast, 2);
    fact("calloc overflow to 0", q != NULL);
    end("overflows", 1, 0, n, n);
    free(p);
    begin();
    errno = 7;
    free(NULL);
    fact("free of nothing", 0);
    q = calloc(0, 0);
    n = size_of(q);
    fact("calloc of nothing", q != NULL);
    end("nothing", 1, 0, n, n);
    free(q);
    begin();
    p = (void *)77;
    int e = posix_memalign(&p, 24, 10);
    fact("posix_memalign leaves the pointer alone", e + (p != (void *)77) * 1000);
    e = posix_memalign(&p, 16, vast);
    fact("posix_memalign without memory, too", e + (p != (void *)77) * 1000);
    end("posix_memalign", 0, 0, 0, 0);
}

/* Once more where blocks come from other places. */
static void elsewhere(void)
{
    for (int threshold = 0; threshold < 2; threshold++) {
        begin();
        fact("mallopt", mallopt(M_MMAP_THRESHOLD, threshold));
        end("mallopt", 0, 0, 0, 0);
        for (int kind = MALLOC; kind <= PAGES; kind++)
            one((enum kind)kind, kind >= POSIX && kind <= MEM ? 64 : 0, 100);
        resize("realloc of a small mapped block", malloc(10), 9000, 0);
        resize("realloc of a small mapped block to 0", malloc(10), 0, 0);
    }
    mallopt(M_MMAP_THRESHOLD, 131072);
    begin();
    malloc_trim(0);
    end("malloc_trim", 0, 0, 0, 0);
}

/* ---- what the C library allocates ---- */

static void strings(void)
{
    char *p, *q = NULL;
    size_t n = 0;
    begin();
    p = strdup("some text");
    fact("strdup", p != NULL);
    end("strdup", 1, 0, size_of(p), size_of(p));
    free(p);
    begin();
    p = strndup("some text", 4);
    end("strndup", 1, 0, size_of(p), size_of(p));
    free(p);
    begin();
    fact("asprintf", asprintf(&p, "%d %s", 5, "five"));
    kept("asprintf", 1, size_of(p));
    free(p);
    begin();
    p = realpath("/.", NULL);
    kept("realpath", 1, size_of(p));
    free(p);
    begin();
    p = getcwd(NULL, 0);
    kept("getcwd", 1, size_of(p));
    free(p);
    FILE *f = tmpfile();
    for (int i = 0; f && i < 300; i++)
        fputs("a long line of text in a file; ", f);
    if (!f)
        return;
    rewind(f);
    fgetc(f);
    begin();
    fact("getdelim", getdelim(&q, &n, ';', f));
    end("getdelim", 1, 0, size_of(q), size_of(q));
    begin();
    int64_t old = size_of(q);
    fact("getline", getline(&q, &n, f));
    kept("getline", 0, size_of(q) - old);
    free(q);
    fclose(f);
}

static void nothing_stays(const char *name, int rc)
{
    fact(name, rc);
    kept(name, 0, 0);
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void files(void)
{
    char *text = NULL;
    size_t n = 0;
    static int many[200000];
    begin();
    FILE *f = fopen("/dev/null", "r");
    fgetc(f);
    fclose(f);
    nothing_stays("fopen", f != NULL);
    begin();
    f = tmpfile();
    fputs("x", f);
    fclose(f);
    nothing_stays("tmpfile", f != NULL);
    begin();
    f = open_memstream(&text, &n);
    for (int i = 0; i < 9000; i++)
        fputc('x', f);
    fclose(f);
    kept("open_memstream", 1, size_of(text));
    free(text);
    begin();
    DIR *d = opendir("/");
    nothing_stays("opendir", readdir(d) != NULL && closedir(d) == 0);
    begin();
    struct dirent **list;
    int found = scandir("/", &list, NULL, alphasort);
    for (int i = 0; i < found; i++)
        free(list[i]);
    free(list);
    nothing_stays("scandir", found > 0);
    begin();
    glob_t g;
    int rc = glob("/*", 0, NULL, &g);
    globfree(&g);
    nothing_stays("glob", rc);
    begin();
    wordexp_t w;
    rc = wordexp("one two ~ $HOME", &w, WRDE_NOCMD);
    wordfree(&w);
    nothing_stays("wordexp", rc);
    for (int i = 0; i < 200000; i++)
        many[i] = i * 7919 % 200000;
    begin();
    qsort(many, 200000, sizeof *many, by_value);
    nothing_stays("qsort", many[5]);
}

static int open_iconv(void)
{
    iconv_t i = iconv_open("UTF-16", "UTF-8");
    return i == (iconv_t)-1 || iconv_close(i) != 0;
}

static int open_locale(void)
{
    locale_t l = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL), m = l ? duplocale(l) : NULL;
    if (!m)
        return 1;
    freelocale(m);
    freelocale(l);
    return 0;
}

static int change_locale(void)
{
    return !setlocale(LC_ALL, "C.UTF-8") || !setlocale(LC_ALL, "C");
}

/* The first time the library loads what it keeps. */
static void locales(void)
{
    static const struct {
        const char *name;
        int (*work)(void);
    } of[] = {{"iconv_open", open_iconv},
              {"newlocale", open_locale},
              {"setlocale", change_locale}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        int failed = of[i].work();
        begin();
        failed |= of[i].work();
        if (failed) { /* not installed */
            fact(of[i].name, failed);
            free(get_stats ? filler : NULL);
        } else {
            nothing_stays(of[i].name, failed);
        }
    }
}

static void services(void)
{
    struct addrinfo *a = NULL, hints = {.ai_flags = AI_NUMERICHOST};
    regex_t r;
    struct obstack o;
    int rc = getaddrinfo("127.0.0.1", NULL, &hints, &a); /* reads its files once */
    if (rc == 0)
        freeaddrinfo(a);
    begin();
    rc = getaddrinfo("127.0.0.1", NULL, &hints, &a);
    if (rc == 0)
        freeaddrinfo(a);
    nothing_stays("getaddrinfo", rc);
    begin();
    rc = regcomp(&r, "a(b|c)*[x-z]+", REG_EXTENDED);
    int found = regexec(&r, "abcbcxyz", 0, NULL, 0);
    regfree(&r);
    nothing_stays("regcomp", rc + found);
    begin();
    obstack_init(&o);
    for (int i = 0; i < 1000; i++)
        obstack_copy(&o, "some bytes", 11);
    obstack_free(&o, NULL);
    nothing_stays("obstack", 0);
    void *d = NULL;
    for (int i = 0; i < 5; i++) /* tables grow */
        if (!library || !(d = dlopen(library, RTLD_NOW)) || dlclose(d) != 0)
            return;
    begin();
    d = dlopen(library, RTLD_NOW);
    rc = d ? dlclose(d) : -1;
    nothing_stays("dlopen", rc);
}

/* ---- threads, the environment ---- */

static void *makes_one(void *arg)
{
    *(void **)arg = malloc(300);
    return arg;
}

static void threads(void)
{
    pthread_t id;
    void *p = NULL;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&id, NULL, makes_one, &p) == 0)
        pthread_join(id, NULL);
    free(p);
    begin(); /* the stack is there, and what the library made for it */
    if (pthread_create(&id, NULL, makes_one, &p) == 0)
        pthread_join(id, NULL);
    fact("a thread", p != NULL);
    end("a thread", 1, 0, size_of(p), -1);
    free(p);
    p = NULL;
    begin();
    pthread_create(&id, &detached, makes_one, &p);
    while (!__atomic_load_n(&p, __ATOMIC_ACQUIRE))
        usleep(100);
    fact("a detached thread", 0);
    end("a detached thread", 1, 0, size_of(p), -1);
    free(p);
}

static void environment(void)
{
    static char text[] = "HL_TEST_ONE=1";
    setenv("HL_TEST_TWO", "x", 1); /* from now on the list is the library's own */
    putenv(text);
    begin();
    fact("putenv", putenv(text));
    end("putenv of a known name", 0, 0, 0, 0);
    begin();
    fact("setenv", setenv("HL_TEST_TWO", "x", 1));
    fact("setenv again", setenv("HL_TEST_TWO", "x", 1));
    end("setenv of a known value", 0, 0, 0, 0);
}

/* ---- late operations ---- */

static long n_late;
static pthread_key_t key;

static void work_late(void)
{
    for (long i = 0; i < n_late; i++) {
        void *volatile p = malloc(100);
        if (i % 2)
            free(p);
    }
}

static void on_exit_late(int status, void *unused)
{
    (void)status, (void)unused;
    work_late();
}

/* In each of the rounds of the keys' destructors, and in the last one. */
static void key_late(void *round)
{
    if ((long)round < 4)
        pthread_setspecific(key, (char *)round + 1);
    if ((long)round == 1 || (long)round == 4)
        work_late();
}

static void *with_key(void *waits)
{
    pthread_setspecific(key, (void *)1);
    if (waits) {
        work_late();
        *(volatile int *)waits = 1;
        for (;;)
            pause();
    }
    return NULL;
}

static void *ends_process(void *unused)
{
    (void)unused;
    work_late();
    exit(0);
}

static void load_and_leave(void)
{
    void *d = dlopen(library, RTLD_NOW);
    long *n = d ? dlsym(d, "n_late") : NULL;
    if (!n)
        _exit(77);
    *n = n_late;
}

static int late(const char *place)
{
    pthread_t id;
    volatile int up = 0;
    pthread_key_create(&key, key_late);
    if (strcmp(place, "atexit") == 0)
        atexit(work_late);
    else if (strcmp(place, "on_exit") == 0)
        on_exit(on_exit_late, NULL);
    else if (strcmp(place, "at_quick_exit") == 0 && at_quick_exit(work_late) == 0)
        quick_exit(0);
    else if (strcmp(place, "library") == 0)
        load_and_leave();
    else if (strcmp(place, "key") == 0) {
        if (pthread_create(&id, NULL, with_key, NULL) == 0)
            pthread_join(id, NULL);
    } else if (strcmp(place, "running") == 0 &&
               pthread_create(&id, NULL, with_key, (void *)&up) == 0) {
        while (!up)
            usleep(100);
    } else if (strcmp(place, "other") == 0 &&
               pthread_create(&id, NULL, ends_process, NULL) == 0) {
        for (;;)
            pause();
    } else if (strcmp(place, "main-gone") == 0 &&
               pthread_create(&id, NULL, with_key, NULL) == 0) {
        atexit(work_late);
        pthread_exit(NULL);
    }
    return 0;
}

/* ---- the time of the peak; hidden blocks ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int peak_time(void)
{
    static void *volatile p[3];
    if (!get_stats)
        return 77;
    p[0] = malloc(100000);
    usleep(300000);
    p[1] = malloc(1000);
    double at = now();
    usleep(200000);
    free(p[1]);
    p[2] = malloc(500); /* not a peak */
    struct heapline_stats s = stats_now();
    double truth = s.elapsed_s - (now() - at);
    say("%.4f %.4f\n", truth, s.peak_time_s);
    return s.peak_time_s < truth - 0.02 || s.peak_time_s > truth + 0.02;
}

static int deepbind(void)
{
    void *d = dlopen(library, RTLD_NOW | RTLD_DEEPBIND);
    void *(*make_there)(size_t) = d ? (void *(*)(size_t))dlsym(d, "make") : NULL;
    void (*drop_there)(void *) = d ? (void (*)(void *))dlsym(d, "drop") : NULL;
    if (!get_stats || !make_there || !drop_there)
        return 77;
    begin();
    for (int i = 0; i < 500; i++)
        free(make_there(100000));
    struct heapline_stats a = stats_now();
    int hidden = a.allocs == before.allocs;
    differs("hidden allocations", "frees", (int64_t)(a.frees - before.frees), 500);
    differs("hidden allocations", "live is negative", a.live_bytes < 0, hidden);
    differs("hidden allocations", "peak",
            a.peak_bytes >= 0 && a.peak_bytes < before.peak_bytes + 200000, 1);
    for (int i = 0; i < 500; i++)
        drop_there(malloc(1000));
    struct heapline_stats b = stats_now();
    differs("hidden releases", "allocs", (int64_t)(b.allocs - a.allocs), 500);
    differs("hidden releases", "frees", (int64_t)(b.frees - a.frees), hidden ? 0 : 500);
    say("%s\n", hidden ? "hidden" : "seen");
    return bad;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    *(void **)&get_stats = dlsym(RTLD_DEFAULT, "heapline_get_stats");
    library = argc > 2 ? argv[argc - 1] : NULL;
    n_late = argc > 3 ? atol(argv[3]) : 0;
    if (strcmp(mode, "late") == 0 && argc > 3)
        return late(argv[2]);
    if (strcmp(mode, "time") == 0)
        return peak_time();
    if (strcmp(mode, "deepbind") == 0)
        return deepbind();
    setvbuf(stderr, NULL, _IONBF, 0);
    if (strcmp(mode, "calls") == 0) {
        every_function();
        reallocs();
        elsewhere();
    } else if (strcmp(mode, "glibc") == 0) {
        strings();
        files();
        services();
        locales();
        environment();
        threads();
    } else {
        return 2;
    }
    return bad;
}
