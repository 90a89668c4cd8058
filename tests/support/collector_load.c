/* SPDX-License-Identifier: Apache-2.0
 *
 * Many clients at once, and the gather that checks them:
 *
 *   collector_load MODE SOCKET KEY [NAME=VALUE | WORD]... [-- COLLECTOR ARGUMENT...]
 *
 * swarm   procs=N processes in jobs=N jobs (KEY-0, KEY-1, ...; one: KEY): each
 *         connects, commits rows=N rows into a ring=BYTES (0: no ring), sends them
 *         and dies by SIGKILL, at once or (ack) when they are acknowledged.  pages:
 *         each has a heap page; two: on a connection of its own.  hold: says "ready",
 *         and they die when standard input ends; moving=N count meanwhile.
 *         interval=MS: they ask for samples.
 * verify  reads all jobs and checks every row; wait=MS for processes to end; taken:
 *         says so
 * kill    load_kill.c      stream, storm, fair    load_stream.c
 *
 * seed=N decides about all values.
 */
#include "config.h"

#include "load_modes.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

void *load_shared(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        LOAD_DIE("no memory");
    return p;
}

const char *load_key(const struct options *o, uint64_t i)
{
    static char key[300];
    if (o->jobs < 2)
        return o->key;
    snprintf(key, sizeof key, "%s-%llu", o->key, (unsigned long long)(i % o->jobs));
    return key;
}

/* ---- swarm ---- */

static void count_on(struct load_client *c)
{
    struct hl_heap_slot *s = (void *)((char *)c->page + HL_HEAP_PAGE_HEADER);
    for (;;) {
        s->allocs++;
        s->frees++;
        load_nap(50000);
    }
}

static void live(const struct options *o, uint64_t i, uint32_t *n_ready)
{
    struct load_client c;
    load_init(&c, o->socket, load_key(o, i), load_image(o->seed, i), (int32_t)i);
    c.width = (uint32_t)o->width;
    c.batch = (uint32_t)o->batch;
    c.two = o->two;
    c.interval_ns = (int64_t)o->interval * 1000000;
    c.start_ticks = hl_start_ticks(c.pid);
    if (o->pages)
        load_make_page(&c);
    if (o->ring)
        load_make_ring(&c, o->ring);
    while (load_connect(&c)) {
        if (c.refused)
            LOAD_DIE("process %llu was refused, code %u", (unsigned long long)i,
                     c.refused);
        load_nap(1000);
    }
    while (o->ring && c.ring->n_rows < o->rows) {
        load_commit(&c, 1);
        if (load_step(&c, 65536, c.sent < c.ring->head ? 10000 : 0))
            LOAD_DIE("process %llu lost its connection", (unsigned long long)i);
    }
    if (o->ack)
        load_finish(&c);
    __atomic_add_fetch(n_ready, 1, __ATOMIC_ACQ_REL);
    if (o->hold && i < o->moving)
        count_on(&c);
    while (o->hold)
        pause();
    raise(SIGKILL);
}

static uint64_t reap(uint64_t n)
{
    uint64_t killed = 0;
    int status;
    for (uint64_t i = 0; i < n; i++)
        if (wait(&status) > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
            killed++;
    return killed;
}

/* 0 when one of them has ended already, which it must not. */
static int all_ready(const uint32_t *n_ready, uint64_t n)
{
    siginfo_t info = {0};
    while (__atomic_load_n(n_ready, __ATOMIC_ACQUIRE) < n) {
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            return 0;
        load_nap(2000);
    }
    return 1;
}

int mode_swarm(const struct options *o)
{
    uint32_t *n_ready = load_shared(sizeof *n_ready);
    pid_t *pid = calloc(o->procs, sizeof *pid);
    char line[64];
    for (uint64_t i = 0; pid && i < o->procs; i++) {
        pid[i] = load_fork();
        if (!pid[i])
            live(o, i, n_ready);
    }
    if (o->hold) {
        printf("%s\n", all_ready(n_ready, o->procs) ? "ready" : "failed");
        fflush(stdout);
        while (fgets(line, sizeof line, stdin))
            continue;
        for (uint64_t i = 0; i < o->procs; i++)
            kill(pid[i], SIGKILL);
    }
    uint64_t killed = reap(o->procs);
    printf("swarm processes=%llu killed=%llu\n", (unsigned long long)o->procs,
           (unsigned long long)killed);
    free(pid);
    return killed == o->procs ? 0 : 1;
}

/* ---- verify ---- */

struct sums {
    uint64_t procs, alive, records, rows, told, missing, doubled, altered, rest, lost;
};

static void add(struct sums *t, const struct load_seen *s)
{
    t->procs++;
    t->records += (uint64_t)load_record_right(s);
    t->rows += s->found;
    t->told += s->rows;
    t->missing += s->missing;
    t->doubled += s->doubled;
    t->altered += s->altered;
    t->rest += s->rest;
    t->lost += s->lost;
}

/* While some are alive the collector may answer early: ask again. */
static void whole_index(struct hl_link *l, const struct options *o, struct load_index *x)
{
    int64_t until = load_now_ns() + (int64_t)o->wait * 1000000;
    for (;;) {
        uint32_t ms = o->wait > 30000 ? 30000 : (uint32_t)o->wait;
        if (load_gather_index(l, ms, x))
            LOAD_DIE("the collector went away");
        if (!x->n_alive || load_now_ns() >= until)
            return;
        load_index_fini(x);
    }
}

int mode_verify(const struct options *o)
{
    struct sums t = {0};
    for (uint64_t k = 0; k < (o->jobs ? o->jobs : 1); k++) {
        struct hl_link l;
        struct load_index x;
        load_gather_open(&l, o->socket, load_key(o, k));
        whole_index(&l, o, &x);
        t.alive += x.n_alive;
        for (size_t i = 0; i < x.n; i++) {
            if (load_gather_check(&l, &x.seen[i]))
                LOAD_DIE("the collector went away");
            add(&t, &x.seen[i]);
        }
        if (o->taken && load_gather_taken(&l))
            LOAD_DIE("not taken");
        load_index_fini(&x);
        hl_link_close(&l);
    }
    printf("verify processes=%llu alive=%llu records=%llu rows=%llu told=%llu "
           "missing=%llu doubled=%llu altered=%llu rest=%llu lost=%llu\n",
           (unsigned long long)t.procs, (unsigned long long)t.alive,
           (unsigned long long)t.records, (unsigned long long)t.rows,
           (unsigned long long)t.told, (unsigned long long)t.missing,
           (unsigned long long)t.doubled, (unsigned long long)t.altered,
           (unsigned long long)t.rest, (unsigned long long)t.lost);
    return 0;
}

/* ---- options ---- */

static void word(struct options *o, const char *a)
{
    struct {
        const char *name;
        int *at;
    } words[] = {{"pages", &o->pages},   {"two", &o->two},     {"plain", &o->plain},
                 {"shared", &o->shared}, {"taken", &o->taken}, {"hold", &o->hold},
                 {"ack", &o->ack}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(a, words[i].name)) {
            *words[i].at = 1;
            return;
        }
    LOAD_DIE("unknown word %s", a);
}

static void option(struct options *o, const char *a)
{
    struct {
        const char *name;
        uint64_t *at;
    } names[] = {
        {"procs", &o->procs},      {"jobs", &o->jobs},     {"rows", &o->rows},
        {"seed", &o->seed},        {"ring", &o->ring},     {"wait", &o->wait},
        {"width", &o->width},      {"batch", &o->batch},   {"message", &o->message},
        {"bytes", &o->bytes},      {"moving", &o->moving}, {"rounds", &o->rounds},
        {"paced", &o->paced},      {"greedy", &o->greedy}, {"seconds", &o->seconds},
        {"interval", &o->interval}};
    const char *equal = strchr(a, '=');
    if (!equal) {
        word(o, a);
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == (size_t)(equal - a) &&
            !memcmp(a, names[i].name, (size_t)(equal - a))) {
            *names[i].at = strtoull(equal + 1, NULL, 10);
            return;
        }
    LOAD_DIE("unknown option %s", a);
}

int main(int argc, char **argv)
{
    struct options o = {.procs = 8,
                        .jobs = 1,
                        .rows = 100,
                        .seed = 1,
                        .wait = 60000,
                        .width = 4,
                        .batch = 1,
                        .message = 65536};
    static const struct {
        const char *name;
        int (*run)(const struct options *o);
    } modes[] = {{"swarm", mode_swarm},   {"verify", mode_verify}, {"kill", mode_kill},
                 {"stream", mode_stream}, {"storm", mode_storm},   {"fair", mode_fair}};
    if (argc < 4)
        LOAD_DIE("MODE SOCKET KEY [NAME=VALUE]... [-- COLLECTOR ARGUMENT...]");
    o.socket = argv[2];
    o.key = argv[3];
    for (int i = 4; i < argc; i++) {
        if (!strcmp(argv[i], "--")) {
            o.command = argv + i + 1;
            break;
        }
        option(&o, argv[i]);
    }
    load_raise_limit();
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name))
            return modes[i].run(&o);
    LOAD_DIE("unknown mode %s", argv[1]);
}
