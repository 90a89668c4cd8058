/* SPDX-License-Identifier: Apache-2.0
 *
 * Races inside the heap agent, provoked: true figures are known because the
 * threads concerned stand still when it matters.
 *
 *   preload_races first-step ROUNDS   two threads join the first one at once
 *   preload_races held-tight ROUNDS   a thread is held at any point of an allocation
 *   preload_races held-loose ROUNDS   or release, while another one passes the peak
 *   preload_races torn-up ROUNDS      live is read while blocks go from thread to
 *   preload_races torn-down ROUNDS    thread, the later slot's or the earlier's first
 *   preload_races wrap ROUNDS         more bytes than 48 bits hold are released that
 *                                     the agent has not seen allocated
 *   preload_races far ROUNDS          so many are handed from one thread to another
 *   preload_races short COUNT         so many threads, one after another; prints the
 *                                     slots in use and the resident bytes at the end
 *   preload_races deep-end ROUNDS     exit while blocks go from thread to thread
 *
 * A thread is held by a signal whose handler only waits.  Exit status 0: all as
 * it must be; 1: not; 77: not possible here.
 */
#include "preload_truth.h"

#include "../../lib/leaf/heap_page.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

enum { X = 60000, IDLE = 64, QUEUE = 4, MAX_BLOCKS = 100000 };
static volatile int ready, go, stop;
static void *block[MAX_BLOCKS];
static long n_blocks;
static struct model mine; /* this thread's, and what was there before */
static void *volatile sink, *volatile other_sink;
static long rounds, n_bad;

static void rest(void)
{
    const struct timespec t = {0, 50000};
    nanosleep(&t, NULL);
}

static void start(void *(*body)(void *), void *arg)
{
    pthread_t id;
    pthread_attr_t small;
    int before = ready;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    if (pthread_create(&id, &small, body, arg) != 0)
        _exit(77);
    while (ready == before)
        rest();
}

static void is_ready(void)
{
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
}

static void *idle(void *arg)
{
    sink = malloc(10);
    is_ready();
    for (;;)
        pause();
    return arg;
}

static void more(size_t size, long n)
{
    for (; n > 0 && n_blocks < MAX_BLOCKS; n--)
        entered(&mine, block[n_blocks++] = malloc(size));
}

static void fewer(long n)
{
    for (; n > 0 && n_blocks; n--) {
        left(&mine, malloc_usable_size(block[--n_blocks]));
        free(block[n_blocks]);
    }
}

static void busy(long n)
{
    for (long i = 0; i < n; i++) {
        sink = malloc(30000);
        free(sink);
    }
}

/* ---- the step from one thread to several ---- */

static void *comes_small(void *arg)
{
    is_ready();
    while (!go)
        ;
    other_sink = malloc(16);
    return arg;
}

static void *comes_large(void *arg)
{
    is_ready();
    while (!go)
        ;
    for (volatile long i = 0; i < (long)arg; i++)
        ;
    sink = malloc(X);
    free(sink);
    return arg;
}

/* The large block stands beside all that the first thread has. */
static int first_step_once(long delay)
{
    pthread_t a, b;
    more(100000, 1);
    if (pthread_create(&a, NULL, comes_small, NULL) != 0 ||
        pthread_create(&b, NULL, comes_large, (void *)delay) != 0)
        return 77;
    while (ready < 2)
        sched_yield();
    int64_t truth = stats_now().live_bytes + X;
    go = 1;
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    return stats_now().peak_bytes < truth - truth * bound_units(3) / 8192;
}

static void first_step(void)
{
    for (long r = 0; r < rounds; r++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            _exit(first_step_once(r % 60 * 10));
        if (child < 0 || waitpid(child, &status, 0) != child)
            _exit(77);
        n_bad += status != 0;
    }
    say("%ld of %ld peaks missed; ", n_bad, rounds);
}

/* ---- a thread held inside ---- */

static volatile int held, let_go;
static int64_t victims; /* its one block */
static void hold(int signal)
{
    (void)signal;
    held = 1;
    while (!let_go)
        sched_yield();
    held = 0;
}

static void *makes_and_drops(void *arg)
{
    is_ready();
    while (!go)
        rest();
    while (!stop) {
        other_sink = malloc(X);
        free(other_sink);
    }
    return arg;
}

static pthread_t victim;
static void hold_victim(void)
{
    let_go = 0;
    pthread_kill(victim, SIGUSR1);
    while (!held)
        sched_yield();
}

static void let_victim_go(void)
{
    let_go = 1;
    while (held)
        sched_yield();
}

/* Only this thread moves: pass the peak by less than half a block of the victim's,
 * then leave it, and see what was recorded.  The victim's block may be counted or
 * not: it is being made or released. */
static void pass_while_held(void)
{
    int64_t before = stats_now().peak_bytes, allowed;
    while (mine.live < before + X / 4)
        more(4000, 1);
    fewer(200);
    int64_t got = stats_now().peak_bytes;
    allowed = mine.peak * bound_units(IDLE + 2) / 8192;
    if (got > mine.peak + victims + allowed || got < mine.peak - allowed)
        if (n_bad++ < 3)
            say("peak %lld instead of %lld or %lld more; ", (long long)got,
                (long long)mine.peak, (long long)victims);
}

static void to_the_peak(void)
{
    int64_t peak = stats_now().peak_bytes;
    while (mine.live <= peak)
        more(4000, 1);
}

static void held_inside(int loose)
{
    signal(SIGUSR1, hold);
    more(4000, 1000);
    for (int i = 0; i < (loose ? IDLE : 0); i++)
        start(idle, NULL);
    sink = malloc(X);
    victims = (int64_t)malloc_usable_size(sink);
    free(sink);
    ready = 0;
    if (pthread_create(&victim, NULL, makes_and_drops, NULL) != 0)
        _exit(77);
    while (!ready)
        rest();
    mine.live = mine.peak = stats_now().live_bytes; /* it keeps none for long */
    go = 1;
    for (long r = 0; r < rounds && n_blocks < MAX_BLOCKS - 300; r++) {
        to_the_peak();
        if (loose) {
            fewer(n_blocks / 32);
            busy(1500);
        }
        hold_victim();
        if (!loose) {
            fewer(300);
            busy(1500); /* the others are calm, then one passes the peak */
        }
        pass_while_held();
        let_victim_go();
    }
    stop = 1;
    pthread_join(victim, NULL);
    say("%ld of %ld wrong; ", n_bad, rounds);
}

static void held_tight(void)
{
    held_inside(0);
}

static void held_loose(void)
{
    held_inside(1);
}

/* ---- reading while blocks move ---- */

static void *volatile queue[QUEUE];
static void *produce(void *arg)
{
    sink = malloc(10);
    is_ready();
    while (!go)
        rest();
    for (unsigned i = 0; !stop; i++) {
        void *p = malloc(1000);
        while (queue[i % QUEUE] && !stop)
            sched_yield();
        queue[i % QUEUE] = p;
    }
    for (;;)
        pause();
    return arg;
}

static void *consume(void *arg)
{
    other_sink = malloc(10);
    is_ready();
    while (!go)
        rest();
    for (unsigned i = 0; !stop; i++) {
        void *p;
        while (!(p = queue[i % QUEUE]) && !stop)
            sched_yield();
        queue[i % QUEUE] = NULL;
        free(p);
    }
    for (;;)
        pause();
    return arg;
}

/* At most the queue and two blocks in hand; as much again for what is under way. */
static void torn(void *(*first)(void *), void *(*last)(void *))
{
    const int64_t most = (QUEUE + 3) * 1008;
    start(first, NULL);
    for (int i = 0; i < 500; i++)
        start(idle, NULL);
    start(last, NULL);
    struct heapline_stats s = stats_now();
    int64_t base = s.live_bytes, low = 0, high = 0;
    go = 1;
    for (long r = 0; r < rounds; r++) {
        s = stats_now();
        int64_t d = s.live_bytes - base;
        low = d < low ? d : low;
        high = d > high ? d : high;
        n_bad += d > most || d < -most || s.peak_bytes > base + most;
    }
    stop = 1;
    say("live moved from %lld to %lld, at most %lld are possible; ", (long long)low,
        (long long)high, (long long)most);
}

static void torn_up(void)
{
    torn(consume, produce);
}

static void torn_down(void)
{
    torn(produce, consume);
}

/* The script compares the record. */
static void deep_end(void)
{
    start(consume, NULL);
    for (int i = 0; i < 500; i++)
        start(idle, NULL);
    start(produce, NULL);
    struct heapline_stats s = stats_now();
    say("base %lld\n", (long long)s.live_bytes);
    go = 1;
    rest();
    exit(0);
}

/* ---- very many bytes; none of them is touched ---- */

static size_t huge = (size_t)16 << 30;
static void find_huge(void *(*from)(size_t))
{
    void *p = NULL;
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    while (from && huge > (size_t)4 << 30 && !(p = from(huge)))
        huge /= 2;
    if (!p)
        _exit(77);
    free(p);
}

static void wrap(void)
{
    void *(*hidden)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "__libc_malloc");
    find_huge(hidden);
    int64_t step = (int64_t)1 << 44, next = -step;
    for (int64_t sum = 0; sum > -((int64_t)1 << 49); sum -= (int64_t)huge) {
        void *p = hidden(huge);
        if (!p)
            _exit(77);
        free(p);
        if (sum < next) {
            start(idle, NULL);
            next -= step;
        }
    }
    struct heapline_stats s = stats_now();
    n_bad = is_off("live", s.live_bytes, -((int64_t)1 << 50), -((int64_t)1 << 48)) |
            is_off("peak", s.peak_bytes, 0, 1 << 20) |
            is_off("allocs", (int64_t)s.allocs, 1, 100000);
}

static void *volatile parcel;
static void *takes(void *arg)
{
    is_ready();
    while (!stop) {
        void *p = parcel;
        if (!p)
            continue;
        free(p);
        parcel = NULL;
    }
    return arg;
}

static void far(void)
{
    find_huge(malloc);
    struct heapline_stats a = stats_now(), b;
    start(takes, NULL);
    for (int64_t sum = 0; sum < (int64_t)150 << 40; sum += (int64_t)huge) {
        void *p = malloc(huge);
        if (!p)
            _exit(77);
        parcel = p;
        while (parcel)
            ;
    }
    b = stats_now();
    n_bad = is_off("live", b.live_bytes - a.live_bytes, 0, 1000) |
            is_off("releases", (int64_t)(b.frees - a.frees),
                   (int64_t)(b.allocs - a.allocs) - 1, (int64_t)(b.allocs - a.allocs));
    more(huge / 4, 5); /* a quarter more than was ever there */
    int64_t top = b.live_bytes + mine.live, allowed = top * bound_units(2) / 8192;
    if (n_blocks != 5 || !block[4])
        _exit(77);
    fewer(5);
    n_bad |= is_off("peak", stats_now().peak_bytes, top - allowed, top + allowed);
    stop = 1;
}

/* ---- short threads ---- */

static void *brief(void *arg)
{
    void *volatile p = malloc(50), *volatile q = malloc(70);
    free(p);
    free(q);
    return arg;
}

static void print_use(void)
{
    char text[200] = "";
    const struct hl_heap_header *(*page)(void) =
        (const struct hl_heap_header *(*)(void))dlsym(RTLD_DEFAULT, "heapline_agent_v1");
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (!page || !page() || fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        _exit(77);
    close(fd);
    say("use %u %ld\n", page()->n_slots_used,
        atol(strchr(text, ' ') + 1) * sysconf(_SC_PAGESIZE));
}

static void short_threads(void)
{
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (long i = 0; i < rounds; i++) {
        pthread_t id;
        if (pthread_create(&id, &small, brief, NULL) != 0)
            _exit(77);
        pthread_join(id, NULL);
    }
    print_use();
}

static const struct {
    const char *name;
    void (*run)(void);
} attacks[] = {{"first-step", first_step},
               {"held-tight", held_tight},
               {"held-loose", held_loose},
               {"torn-up", torn_up},
               {"torn-down", torn_down},
               {"wrap", wrap},
               {"far", far},
               {"deep-end", deep_end},
               {"short", short_threads}};

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    rounds = atol(argv[2]);
    find_agent();
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
        if (strcmp(attacks[i].name, argv[1]) == 0) {
            attacks[i].run();
            _exit(n_bad != 0);
        }
    return 2;
}
