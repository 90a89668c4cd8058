/* SPDX-License-Identifier: Apache-2.0
 *
 * The collector is killed at random instants (the seed decides) and started again,
 * under load:
 *
 *   collector_load kill SOCKET KEY rounds=N seed=N -- COLLECTOR ARGUMENT...
 *
 * Eight clients commit rows of their own sizes into rings of their own sizes all the
 * time.  Some die by SIGKILL between the kills, in one of two ways: with rows that
 * only the ring holds, while connected, and then the collector is given the time to
 * see it (what is in the ring of a process that dies while no collector runs cannot
 * be known to anybody); or with everything acknowledged, and then the collector is
 * killed whenever it comes.  At the end each committed row of each of them must be
 * there once, by its value.
 */
#include "config.h"

#include "load_modes.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { N_LIVE = 8, N_MAX = 2048 };

/* One client: written by its process, but for stop. */
struct state {
    uint32_t collector; /* which one it is connected to: that or a later one */
    uint32_t stop, quiet;
};
struct subject {
    struct load_client c;
    pid_t pid;
    int dead, record_due;
};

static const struct options *opt;
static struct state *states;
static uint32_t *n_collectors; /* begun so far: the earlier ones are dead */
static pid_t owner;
static struct subject subject[N_MAX];
static unsigned n_subjects;
static pid_t collector;
static uint64_t chance;
static unsigned n_deaths[2], n_kills;

/* ---- the collector ---- */

static void start_collector(void)
{
    __atomic_add_fetch(n_collectors, 1, __ATOMIC_ACQ_REL);
    collector = load_fork();
    if (!collector) {
        execv(opt->command[0], opt->command);
        LOAD_DIE("%s: %s", opt->command[0], strerror(errno));
    }
}

static void kill_collector(void)
{
    int status;
    kill(collector, SIGKILL);
    if (waitpid(collector, &status, 0) != collector || !WIFSIGNALED(status) ||
        WTERMSIG(status) != SIGKILL)
        LOAD_DIE("the collector ended by itself, status 0x%x, before kill %u", status,
                 n_kills);
    n_kills++;
}

static int check_running(void)
{
    int status;
    if (waitpid(collector, &status, WNOHANG) == collector)
        LOAD_DIE("the collector ended by itself, status 0x%x", status);
    return 1;
}

/* ---- a client's life ---- */

static void client(struct load_client *c, struct state *s)
{
    uint64_t luck = c->image;
    for (;;) {
        if (c->fd < 0) {
            uint32_t which = __atomic_load_n(n_collectors, __ATOMIC_ACQUIRE);
            if (load_connect(c)) {
                if (c->refused)
                    LOAD_DIE("refused with code %u", c->refused);
                load_nap(3000);
                continue;
            }
            __atomic_store_n(&s->collector, which, __ATOMIC_RELEASE);
        }
        int stop = __atomic_load_n(&s->stop, __ATOMIC_ACQUIRE);
        if ((!stop && load_random(&luck) % 4 == 0) || !c->ring->head) {
            load_commit(c, 1 + (unsigned)(load_random(&luck) % 16));
            load_nap((int64_t)(load_random(&luck) % 20000)); /* or spools grow large */
        }
        if (load_step(c, 1 + load_random(&luck) % 65536, (int)(load_random(&luck) % 12)))
            load_disconnect(c);
        if (stop && c->fd >= 0 && c->ring->acked == c->ring->head) {
            __atomic_store_n(&s->quiet, 1, __ATOMIC_RELEASE);
            for (;;)
                pause();
        }
    }
}

static void begin(void)
{
    struct subject *s = &subject[n_subjects];
    struct load_client *c = &s->c;
    uint64_t luck = load_mix(opt->seed + n_subjects);
    if (n_subjects == N_MAX)
        LOAD_DIE("too many clients");
    load_init(c, opt->socket, opt->key, load_image(opt->seed, n_subjects),
              (int32_t)n_subjects);
    c->two = 1;
    c->width = 1 + (uint32_t)(load_random(&luck) % 60);
    c->batch = 1 + (uint32_t)(load_random(&luck) % 12);
    load_make_ring(c, load_random(&luck) % 2 ? 65536 : 1 << 20);
    load_make_page(c); /* of its image alone: pid and start time are not read */
    s->pid = load_fork();
    if (!s->pid) {
        c->pid = getpid();
        c->start_ticks = hl_start_ticks(c->pid);
        client(c, &states[n_subjects]);
    }
    close(c->ring_fd);
    close(c->page_fd);
    n_subjects++;
}

static struct subject *any_alive(void)
{
    for (;;) {
        struct subject *s = &subject[load_random(&chance) % n_subjects];
        if (!s->dead)
            return s;
    }
}

static void bury(struct subject *s)
{
    int status;
    kill(s->pid, SIGKILL);
    if (waitpid(s->pid, &status, 0) != s->pid || !WIFSIGNALED(status))
        LOAD_DIE("client %d ended by itself, status 0x%x", s->c.rank, status);
    s->dead = 1;
}

static void until(const uint32_t *flag, uint32_t value, const struct subject *s,
                  const char *what)
{
    const struct hl_row_buffer *r = s->c.ring;
    for (int i = 0; __atomic_load_n(flag, __ATOMIC_ACQUIRE) != value; i++) {
        if (i == 20000)
            LOAD_DIE("client %d was never %s, after %u kills: head %llu sent %llu "
                     "acknowledged %llu",
                     s->c.rank, what, n_kills, (unsigned long long)r->head,
                     (unsigned long long)r->sent, (unsigned long long)r->acked);
        check_running();
        load_nap(1000);
    }
}

/* Until the index tells the end; the collector runs on meanwhile. */
static void until_seen(struct subject *s)
{
    struct hl_link l;
    struct load_index x;
    for (int i = 0; i < 20000; i++) {
        load_gather_open(&l, opt->socket, opt->key);
        if (load_gather_index(&l, 0, &x))
            LOAD_DIE("the collector went away");
        struct load_seen *seen = load_find(&x, s->c.image);
        int over = seen && seen->end.kind != HL_ENDED_RUNNING;
        load_index_fini(&x);
        hl_link_close(&l);
        if (over)
            return;
        load_nap(3000);
    }
    LOAD_DIE("a client's death was never seen");
}

static void die_connected(void)
{
    struct subject *s = any_alive();
    struct state *t = &states[s - subject];
    until(&t->collector, *n_collectors, s, "connected");
    load_nap((int64_t)(load_random(&chance) % 8000));
    bury(s);
    s->record_due = 1;
    until_seen(s);
    n_deaths[0]++;
    begin();
}

static void die_quiet(void)
{
    struct subject *s = any_alive();
    struct state *t = &states[s - subject];
    __atomic_store_n(&t->stop, 1, __ATOMIC_RELEASE);
    until(&t->quiet, 1, s, "quiet");
    bury(s);
    n_deaths[1]++;
    begin();
}

static int64_t random_us(void)
{
    static const uint64_t most[] = {4000, 15000, 60000, 200000};
    return (int64_t)(load_random(&chance) % most[load_random(&chance) % 4]);
}

/* ---- the end ---- */

static void end_all(void)
{
    for (unsigned i = 0; i < n_subjects; i++)
        if (!subject[i].dead)
            __atomic_store_n(&states[i].stop, 1, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < n_subjects; i++)
        if (!subject[i].dead) {
            until(&states[i].quiet, 1, &subject[i], "quiet");
            bury(&subject[i]);
            subject[i].record_due = 1;
        }
}

static int check(struct hl_link *l, struct load_index *x, const struct subject *s,
                 uint64_t *rows)
{
    uint64_t head = s->c.ring->head, committed = load_rows_of(&s->c, head);
    struct load_seen *seen = load_find(x, s->c.image);
    if (!seen) {
        printf("# client %d: not in the index, %llu rows\n", s->c.rank,
               (unsigned long long)committed);
        return committed != 0;
    }
    if (load_gather_check(l, seen))
        LOAD_DIE("the collector went away");
    *rows += seen->found;
    int bad = seen->found != committed || seen->rows != committed || seen->missing ||
              seen->doubled || seen->altered || seen->rest || seen->lost ||
              seen->stream_bytes != head;
    int record_bad = s->record_due && !load_record_right(seen);
    if (bad || record_bad)
        printf("# client %d (%u cells, %u rows a message, ring of %llu): %llu committed, "
               "%llu found, %llu told, missing %llu doubled %llu altered %llu rest %llu "
               "lost %llu, stream %llu of %llu, ended %u, record %s\n",
               s->c.rank, s->c.width, s->c.batch, (unsigned long long)s->c.ring->size,
               (unsigned long long)committed, (unsigned long long)seen->found,
               (unsigned long long)seen->rows, (unsigned long long)seen->missing,
               (unsigned long long)seen->doubled, (unsigned long long)seen->altered,
               (unsigned long long)seen->rest, (unsigned long long)seen->lost,
               (unsigned long long)seen->stream_bytes, (unsigned long long)head,
               seen->end.kind, record_bad ? "wrong" : "right");
    return bad + 2 * record_bad;
}

static int verdict(void)
{
    struct hl_link l;
    struct load_index x;
    unsigned bad = 0, bad_records = 0;
    uint64_t rows = 0;
    load_gather_open(&l, opt->socket, opt->key);
    if (load_gather_index(&l, 20000, &x))
        LOAD_DIE("the collector went away");
    for (unsigned i = 0; i < n_subjects; i++) {
        int r = check(&l, &x, &subject[i], &rows);
        bad += (unsigned)(r & 1);
        bad_records += (unsigned)(r >> 1);
    }
    printf("kills=%u deaths=%u quiet_deaths=%u clients=%u rows=%llu alive=%llu "
           "strangers=%ld wrong=%u wrong_records=%u\n",
           n_kills, n_deaths[0], n_deaths[1], n_subjects, (unsigned long long)rows,
           (unsigned long long)x.n_alive, (long)x.n - (long)n_subjects, bad, bad_records);
    load_index_fini(&x);
    hl_link_close(&l);
    return bad || bad_records;
}

static void end_children(void)
{
    if (getpid() != owner)
        return;
    if (collector > 0)
        kill(collector, SIGKILL);
    for (unsigned i = 0; i < n_subjects; i++)
        if (!subject[i].dead && subject[i].pid > 0)
            kill(subject[i].pid, SIGKILL);
}

int mode_kill(const struct options *o)
{
    if (!o->command)
        LOAD_DIE("kill: which collector?");
    opt = o;
    chance = load_mix(o->seed);
    states = load_shared(N_MAX * sizeof *states);
    n_collectors = load_shared(sizeof *n_collectors);
    owner = getpid();
    if (atexit(end_children))
        LOAD_DIE("atexit");
    start_collector();
    for (int i = 0; i < N_LIVE; i++)
        begin();
    for (uint64_t i = 0; i < o->rounds; i++) {
        load_nap(random_us());
        switch (load_random(&chance) % 6) {
        case 0: die_connected(); break;
        case 1: die_quiet(); break;
        default: break;
        }
        check_running();
        kill_collector();
        if (load_random(&chance) % 4 == 0)
            load_nap(random_us() / 4);
        start_collector();
    }
    end_all();
    int r = verdict();
    kill(collector, SIGTERM);
    int status;
    waitpid(collector, &status, 0);
    printf("stopped=%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    collector = 0;
    return r;
}
