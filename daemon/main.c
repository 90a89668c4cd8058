/* SPDX-License-Identifier: Apache-2.0
 *
 * heaplined: options, start, signals, end.  It never forks.  Exit status: 0
 * stopped as asked, 1 failed in its work, 2 usage or configuration.
 */
#include "config.h"

#include "clock.h"
#include "daemon.h"
#include "fds.h"
#include "job.h"
#include "keep.h"
#include "listen.h"
#include "notify.h"
#include "peer.h"
#include "lifetime.h"
#include "process.h"
#include "procfs.h"
#include "sampling.h"
#include "stop.h"
#include "store.h"
#include "timeline.h"

#include "heap_page.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXIT_WORK = 1, EXIT_USAGE = 2 };

struct options {
    const char *conf, *socket, *spool;
    int check, foreground, private_run;
};

/* ---- options ---- */

static const char help[] =
    "Usage: heaplined [OPTION...]\n"
    "Collect heap records and profiling frames of the processes on this node.\n\n"
    "  -c FILE        configuration (default " HL_SETTINGS_FILE ")\n"
    "  -t             check the configuration and exit\n"
    "  -f             send the log to stderr\n"
    "  --socket PATH  socket to listen on, instead of the configured one\n"
    "  --spool DIR    folder of the spools, instead of the configured one\n"
    "  --private      serve one run of the caller, then end\n"
    "  --help         this text\n"
    "  --version      name, version and wire version\n\n"
    "See heaplined(8).\n";

static int complain(const char *text)
{
    fprintf(stderr, "heaplined: %s\n", text);
    return EXIT_USAGE;
}

/* -1: go on; else the exit status. */
static int read_options(int argc, char **argv, struct options *o)
{
    enum { O_SOCKET = 256, O_SPOOL, O_PRIVATE, O_HELP, O_VERSION };
    static const struct option longs[] = {{"socket", required_argument, NULL, O_SOCKET},
                                          {"spool", required_argument, NULL, O_SPOOL},
                                          {"private", no_argument, NULL, O_PRIVATE},
                                          {"help", no_argument, NULL, O_HELP},
                                          {"version", no_argument, NULL, O_VERSION},
                                          {NULL, 0, NULL, 0}};
    int c;
    *o = (struct options){0};
    while ((c = getopt_long(argc, argv, "c:tf", longs, NULL)) != -1)
        switch (c) {
        case 'c': o->conf = optarg; break;
        case 't': o->check = 1; break;
        case 'f': o->foreground = 1; break;
        case O_SOCKET: o->socket = optarg; break;
        case O_SPOOL: o->spool = optarg; break;
        case O_PRIVATE: o->private_run = 1; break;
        case O_HELP: fputs(help, stdout); return 0;
        case O_VERSION:
            printf("heaplined (heapline) %s, wire version %d\n", PACKAGE_VERSION,
                   HL_WIRE_VERSION);
            return 0;
        default: return complain("see heaplined --help");
        }
    if (optind < argc)
        return complain("takes no arguments; see heaplined --help");
    if (o->private_run && (!o->socket || !o->spool))
        return complain("--private needs --socket and --spool");
    return -1;
}

static int override_path(char *out, size_t cap, const char *value, const char *option)
{
    if (!value)
        return 0;
    if (value[0] != '/' || strlen(value) >= cap) {
        fprintf(stderr,
                "heaplined: %s %s: must be an absolute path of at most %zu bytes\n",
                option, value, cap - 1);
        return -1;
    }
    strcpy(out, value);
    return 0;
}

static int load_settings(struct hl_daemon *d, const struct options *o)
{
    struct hl_err e = {0};
    hl_settings_init(&d->set);
    d->conf_file = o->conf ? o->conf : HL_SETTINGS_FILE;
    d->conf_missing_ok = !o->conf;
    d->private_run = o->private_run;
    /* The node's configuration is the service's: a private one has its own. */
    if ((!o->private_run || o->conf) &&
        hl_settings_load(&d->set, d->conf_file, d->conf_missing_ok, &e)) {
        fprintf(stderr, "heaplined: %s\n", e.text);
        return -1;
    }
    if (o->private_run && !o->conf)
        d->set.log_level = HL_LOG_WARNING;
    return override_path(d->set.socket, sizeof d->set.socket, o->socket, "--socket") ||
                   override_path(d->set.spool, sizeof d->set.spool, o->spool, "--spool")
               ? -1
               : 0;
}

/* ---- log ---- */

static int stderr_is_journal(void)
{
    const char *s = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;
    return s && sscanf(s, "%llu:%llu", &dev, &ino) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

static void start_log(struct hl_daemon *d, const struct options *o)
{
    d->log.level = d->set.log_level;
    d->log.burst = (uint32_t)d->set.log_burst;
    int journal = d->set.log_target == HL_LOG_JOURNAL ||
                  (d->set.log_target == HL_LOG_AUTO && stderr_is_journal());
    if (journal && !o->foreground && !o->private_run && hl_log_to_journal(&d->log))
        hl_log(&d->log, HL_LOG_WARNING, NULL, NULL,
               "cannot reach the journal: stderr is used");
}

/* ---- signals ---- */

static void say_state(struct hl_daemon *d)
{
    const struct hl_counters *c = &d->count;
    const struct hl_job *j;
    hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL,
           "state: %zu connections, %zu jobs, %zu processes alive; %llu hellos, %llu "
           "messages, %llu bytes, %llu rows, %llu ended, %llu failed appends, %llu times "
           "without descriptors",
           d->n_peers, d->jobs.n, d->n_alive, (unsigned long long)c->hellos,
           (unsigned long long)c->messages, (unsigned long long)c->bytes,
           (unsigned long long)c->rows, (unsigned long long)c->processes_ended,
           (unsigned long long)c->appends_failed, (unsigned long long)c->accept_failed);
    for (size_t at = 0; (j = hl_table_next(&d->jobs, &at));) {
        struct hl_log_about about = hl_job_about(j);
        hl_log(&d->log, HL_LOG_NOTICE, NULL, &about,
               "state: job %s of uid %u: %zu processes, %zu alive, %u keepers%s",
               j->shown, (unsigned)j->user->uid, j->n_processes, j->n_alive, j->n_keepers,
               j->taken ? ", read whole" : "");
    }
}

static void set_timers(struct hl_daemon *d)
{
    uint64_t sync = (uint64_t)(d->set.sync_interval_ns / 1000000);
    d->sync_each = !d->private_run && !sync;
    hl_sampling_set(d);
    if (sync && !d->private_run)
        hl_timer_set(d->sync_timer, sync, sync);
    else
        hl_timer_stop(d->sync_timer);
    hl_store_set_expire_timer(d);
}

struct reload {
    struct hl_task task;
    struct hl_daemon *d;
    struct hl_settings fresh;
    struct hl_err e;
    int bad;
};

static void reload_work(struct hl_task *t)
{
    struct reload *r = (struct reload *)t;
    hl_settings_init(&r->fresh);
    r->bad =
        hl_settings_load(&r->fresh, r->d->conf_file, r->d->conf_missing_ok, &r->e) != 0;
}

static void put_in_force(struct hl_daemon *d, struct hl_settings *fresh)
{
    const char *key = hl_settings_needs_restart(&d->configured, fresh);
    if (key)
        hl_log(&d->log, HL_LOG_WARNING, NULL, NULL,
               "%s has changed: this needs a restart, the old value stays in force", key);
    hl_settings_keep_fixed(fresh, &d->set);
    d->set = *fresh;
    d->log.level = fresh->log_level;
    d->log.burst = (uint32_t)fresh->log_burst;
    d->count.reloads++;
    d->conf_invalid = 0;
    hl_store_check(d);
    set_timers(d);
    hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL, "configuration %s read again",
           d->conf_file);
    hl_notify("READY=1\nSTATUS=configuration read again%s",
              d->draining ? ", draining" : "");
}

static void reload_done(struct hl_task *t)
{
    struct reload *r = (struct reload *)t;
    struct hl_daemon *d = r->d;
    if (r->bad) {
        d->count.reload_failures++;
        d->conf_invalid = 1;
        hl_log(&d->log, HL_LOG_ERR, NULL, NULL,
               "the new configuration is not used, the old one stays: %s", r->e.text);
        hl_notify(
            "READY=1\nSTATUS=old configuration in force, the new one is invalid: %s",
            r->e.text);
    } else {
        put_in_force(d, &r->fresh);
    }
    free(r);
}

static void reload(struct hl_daemon *d)
{
    struct reload *r = calloc(1, sizeof *r);
    if (!r)
        return;
    hl_notify("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(hl_mono_ns() / 1000));
    r->task = (struct hl_task){reload_work, reload_done, NULL};
    r->d = d;
    hl_lane_add(&d->reads, &r->task);
}

void hl_daemon_stop(struct hl_daemon *d)
{
    d->stopping = 1;
    hl_loop_stop(d->loop);
}

static void on_signal(void *ctx, int number)
{
    struct hl_daemon *d = ctx;
    if (number == SIGHUP && !d->private_run)
        reload(d);
    else if (number == SIGUSR1)
        say_state(d);
    else if (number == SIGTERM || number == SIGINT)
        hl_daemon_stop(d);
}

/* ---- timers ---- */

static void on_watchdog(void *ctx)
{
    struct hl_daemon *d = ctx;
    hl_notify("WATCHDOG=1\nSTATUS=%s%zu jobs, %zu processes alive%s%s",
              d->draining ? "draining: " : "", d->jobs.n, d->n_alive,
              d->spool_errno ? ", the spool cannot be written" : "",
              d->conf_invalid
                  ? ", the new configuration is invalid: the old one is in force"
                  : "");
}

/* ---- start and end ---- */

static int make_timers(struct hl_daemon *d)
{
    const struct {
        struct hl_timer **timer;
        hl_timer_fn *fn;
    } all[] = {{&d->ending_timer, hl_death_on_timer},
               {&d->retry_timer, hl_store_on_retry},
               {&d->sample_timer, hl_sampling_on_timer},
               {&d->expire_timer, hl_store_on_expire},
               {&d->sync_timer, hl_store_on_sync},
               {&d->private_timer, hl_lifetime_on_timer},
               {&d->watchdog_timer, on_watchdog},
               {&d->tidy_timer, hl_tidy_on_timer},
               {&d->fresh_timer, hl_sampling_on_fresh},
               {&d->points_timer, hl_timeline_on_timer}};
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(*all[i].timer = hl_timer_new(d->loop, all[i].fn, d)))
            return -1;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(d->signals[i] = hl_signal_new(d->loop, numbers[i], on_signal, d)))
            return -1;
    return 0;
}

static int cannot_start(struct hl_err *e)
{
    int code = errno == EMFILE || errno == ENFILE ? errno : ENOMEM;
    return hl_fail(e, code, "cannot start: %s", strerror(code));
}

static int start(struct hl_daemon *d, struct hl_err *e)
{
    errno = 0;
    d->self = geteuid();
    d->overflow_uid = hl_procfs_uids_hidden();
    d->started_ns = hl_mono_ns();
    d->loop = hl_loop_new();
    d->page = aligned_alloc(64, HL_HEAP_PAGE_SIZE);
    d->ending_end = &d->ending;
    d->parked_end = &d->parked;
    if (!d->loop || !d->page || make_timers(d) || hl_append_init(d) ||
        hl_loop_on_turn(d->loop, hl_append_turn, d))
        return cannot_start(e);
    hl_lane_init(&d->writes, d->loop);
    hl_lane_init(&d->reads, d->loop);
    hl_lane_init(&d->syncs, d->loop);
    if (hl_store_open(d, e))
        return -1;
    hl_keep_open(d);
    if (hl_listen_open(d, e))
        return -1;
    if (hl_store_restore(d))
        return hl_fail(e, ENOMEM, "cannot start: no memory left");
    if (hl_listen_start(d, e))
        return -1;
    set_timers(d);
    hl_lifetime_check(d);
    uint64_t watchdog = hl_notify_watchdog_ms();
    if (watchdog)
        hl_timer_set(d->watchdog_timer, watchdog, watchdog);
    return 0;
}

static int run(struct hl_daemon *d)
{
    struct hl_err e = {0};
    if (start(d, &e)) {
        hl_log(&d->log, HL_LOG_ERR, NULL, NULL, "%s", e.text);
        hl_notify("STATUS=%s\nERRNO=%d", e.text, e.code < 10000 ? e.code : 0);
        hl_listen_close(d);
        hl_stop_release(d);
        return EXIT_WORK;
    }
    hl_log(&d->log, HL_LOG_NOTICE, NULL, NULL, "heapline %s listens on %s, spools in %s",
           PACKAGE_VERSION,
           d->listener.activated ? "the socket it was passed" : d->set.socket,
           d->set.spool);
    hl_notify("READY=1\nSTATUS=listening");
    hl_loop_run(d->loop);
    hl_stop(d);
    hl_stop_release(d);
    hl_log_flush(&d->log);
    return 0;
}

/* As many as we may have: the soft limit is for programs that use select. */
static void raise_descriptor_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* glibc's caches of freed pieces, of each thread, are spread over all of the heap
 * and keep its pages: after thousands of processes most of the memory would stay.
 * They can only be turned off before the program starts. */
static void start_without_caches(char **argv)
{
    const char *preloaded = getenv("LD_PRELOAD");
    char self[4096]; /* by its name, which others look for */
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return;
    self[n] = 0;
    if (getenv("GLIBC_TUNABLES") || (preloaded && strstr(preloaded, "vgpreload")))
        return; /* it was done, or somebody has other wishes */
    if (setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1) == 0)
        execv(self, argv); /* where that fails it runs all the same */
}

int main(int argc, char **argv)
{
    static struct hl_daemon d = {
        .listener = {.fd = -1}, .passed = {.listener = -1}, .root = -1, .lock = -1};
    struct options o;
    hl_fds_hold_std();
    int status = read_options(argc, argv, &o);
    if (status >= 0)
        return status;
    if (load_settings(&d, &o))
        return EXIT_USAGE;
    if (o.check) {
        printf("heaplined: %s is valid\n", d.conf_file);
        return 0;
    }
    if (d.private_run)
        unsetenv("NOTIFY_SOCKET"); /* the service it was started in is another one */
    d.configured = d.set;
    start_without_caches(argv);
    raise_descriptor_limit();
    /* What the pool's threads allocate goes back, too, and large buffers at once. */
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    umask(0077);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on files is an error like a full disk */
    hl_log_init(&d.log);
    start_log(&d, &o);
    status = run(&d);
    hl_log_fini(&d.log);
    return status;
}
