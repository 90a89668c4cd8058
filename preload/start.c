/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a process as the agent sees it: loaded, a forked child, the end.
 * The environment is read when the agent is loaded and never again.  What is
 * done at the end is done once, by the process that owns the page.
 */
#include "agent.h"

#include "bound.h"
#include "ident.h"
#include "sys.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <unistd.h>

HL_USED struct hl_agent hl_agent = {
    .sock = -1, .sockets = "", .fallback = "", .output = ""};

static const char *env(const char *name)
{
    size_t n = strlen(name);
    for (char **e = environ; *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    return NULL;
}

static size_t copy_text(char *out, const char *in, size_t cap)
{
    size_t n = hl_text_length(in, cap - 1);
    memcpy(out, in, n);
    out[n] = 0;
    return n;
}

/* ---- speaking ---- */

/* Write with these two signals held back, and take away the one that it raised. */
static int write_held(int fd, const char *p, size_t n)
{
    const uint64_t both = hl_signal_bit(SIGPIPE) | hl_signal_bit(SIGXFSZ);
    uint64_t old, pending = 0, ours = 0;
    int held = hl_signal_mask(SIG_BLOCK, &both, &old) == 0;
    if (!held && !hl_sandboxed)
        return -EPERM;
    hl_signals_pending(&pending);
    long done = hl_write(fd, p, n);
    if (!held)
        return done == (long)n ? 0 : -EPERM;
    if (done == -EPIPE)
        ours = hl_signal_bit(SIGPIPE) & ~pending;
    else if (done == -EFBIG)
        ours = hl_signal_bit(SIGXFSZ) & ~pending;
    while (ours && hl_take_signal(&ours) == -EINTR)
        ;
    hl_signal_mask(SIG_SETMASK, &old, NULL);
    return done == (long)n ? 0 : done < 0 ? (int)done : -ENOSPC;
}

static int is_plain(int fd)
{
    struct stat st;
    int e = hl_fstat(fd, &st);
    if (e == -EPERM && hl_sandboxed)
        return fd != STDERR_FILENO || hl_stderr_is_plain;
    return e == 0 && (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode));
}

/* Write without harm to the program: a pipe nobody reads, a full one, or a file at
 * its size limit gives up and raises no signal.  In a sandbox that does not let us ask
 * only plain files are written.  0 or a negative error number. */
static int write_quietly(int fd, const char *p, size_t n)
{
    int ready = hl_is_ready(fd, POLLOUT);
    if (ready == -EINVAL && fd < 64)
        ready = hl_is_writable(fd);
    if (ready == -EPERM && is_plain(fd))
        ready = 1;
    return ready == 1 ? write_held(fd, p, n) : ready < 0 ? ready : -EAGAIN;
}

static void add(char *line, size_t cap, size_t *n, const char *s)
{
    size_t len = hl_text_length(s, cap - *n - 2);
    memcpy(line + *n, s, len);
    *n += len;
}

void hl_say(const char *what, const char *name, int error)
{
    char line[512];
    size_t n = 0;
    if (!hl_agent.verbose)
        return;
    add(line, sizeof line, &n, "libheapline-preload: ");
    add(line, sizeof line, &n, what);
    if (name) {
        add(line, sizeof line, &n, " ");
        add(line, sizeof line, &n, name);
    }
    if (error) {
        char number[24];
        number[hl_format_i64(error, number)] = 0;
        const char *s = strerrordesc_np(error);
        add(line, sizeof line, &n, ": ");
        add(line, sizeof line, &n, s ? s : number);
    }
    line[n++] = '\n';
    write_quietly(STDERR_FILENO, line, n);
}

/* ---- who we are ---- */

/* Read a file of /proc whole; its length, or 0. */
static size_t read_proc(const char *name, char *out, size_t cap)
{
    int fd = hl_openat(AT_FDCWD, name, O_RDONLY, 0);
    if (fd < 0)
        return 0;
    long n = hl_read(fd, out, cap - 1);
    hl_close(fd);
    if (n < 0)
        n = 0;
    out[n] = 0;
    return (size_t)n;
}

static char scratch[4096]; /* at the end: one thread */

/* Field 22 of stat; the name, field 2, may hold anything up to its last ')'. */
static uint64_t start_ticks(void)
{
    char line[1024];
    uint64_t v = 0;
    if (!read_proc("/proc/self/stat", line, sizeof line))
        return 0;
    const char *s = strrchr(line, ')');
    for (int field = 2; s && field < 22; field++)
        s = strchr(s + 1, ' ');
    for (s = s ? s + 1 : ""; *s >= '0' && *s <= '9'; s++)
        v = v * 10 + (uint64_t)(*s - '0');
    return v;
}

/* "VmHWM:    123 kB" in bytes, or -1. */
static int64_t status_bytes(const char *name)
{
    int64_t v = 0;
    const char *s = strstr(scratch, name);
    if (!s)
        return -1;
    for (s += strlen(name); *s == ' ' || *s == '\t'; s++)
        ;
    for (; *s >= '0' && *s <= '9'; s++)
        v = v * 10 + (*s - '0');
    return v * 1024;
}

static uint64_t draw_image(void)
{
    uint64_t v = 0;
    if (HL_SYS3(SYS_getrandom, &v, sizeof v, GRND_NONBLOCK) != sizeof v) {
        struct timespec t;
        hl_other.clock(CLOCK_REALTIME, &t);
        v = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)t.tv_sec << 20 ^
            (uint64_t)hl_getpid() * 0xbf58476d1ce4e5b9u ^ getauxval(AT_RANDOM);
    }
    return v ? v : 1;
}

static void identify_process(struct hl_heap_header *h)
{
    h->pid = hl_agent.pid;
    /* Nobody asks for it but the collector and the gather. */
    h->start_ticks = *hl_agent.sockets || *hl_agent.fallback ? start_ticks() : 0;
    h->image = draw_image();
    h->state = HL_HEAP_RUNNING;
    h->end_status = 0;
    h->end_mono_ns = 0;
    h->vmhwm_bytes = h->vmrss_bytes = -1;
}

static void identify_run(struct hl_heap_header *h)
{
    struct utsname u;
    struct timespec t;
    hl_other.clock(CLOCK_REALTIME, &t);
    h->magic = HL_HEAP_PAGE_MAGIC;
    h->version = HL_HEAP_PAGE_VERSION;
    h->size = HL_HEAP_PAGE_SIZE;
    h->load_real_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    h->load_mono_ns = hl_mono_ns();
    h->rank = hl_ident_rank(env);
    h->n_ranks = hl_ident_size(env);
    copy_text(h->host, HL_SYS1(SYS_uname, &u) == 0 ? u.nodename : "unknown",
              sizeof h->host);
    copy_text(h->job, hl_ident_job(env), sizeof h->job);
    const char *key = env("HEAPLINE_JOB");
    hl_ident_key(env, key && *key ? 0 : HL_SYS1(SYS_getsid, 0), h->key);
}

/* Processes that start the user's program on this or other nodes, and our own. */
static int is_launcher(void)
{
    static const char *const names[] = {"mpirun",
                                        "mpiexec",
                                        "mpiexec.hydra",
                                        "orterun",
                                        "orted",
                                        "prte",
                                        "prted",
                                        "prterun",
                                        "prun",
                                        "hydra_pmi_proxy",
                                        "hydra_bstrap_proxy",
                                        "srun",
                                        "salloc",
                                        "sbatch",
                                        "slurmstepd",
                                        "mpirun.openmpi",
                                        "mpiexec.openmpi",
                                        "mpirun.mpich",
                                        "mpiexec.mpich",
                                        "heapline-run",
                                        "heaplined",
                                        "heapline-gather",
                                        "heapline-report",
                                        "heapline-convert",
                                        "heaplinectl"};
    unsigned long at = getauxval(AT_EXECFN);
    const char *file = at ? (const char *)at : "", *slash = strrchr(file, '/');
    file = slash ? slash + 1 : file;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(file, names[i]) == 0 ||
            strcmp(program_invocation_short_name, names[i]) == 0)
            return 1;
    return 0;
}

static int is_unwanted(void)
{
    const char *s = env("HEAPLINE_DISABLE");
    return getauxval(AT_SECURE) || is_launcher() ||
           (s && (strcmp(s, "1") == 0 || strcmp(s, "heap") == 0));
}

/* ---- loading ---- */

/* The values that are needed later, one behind the other. */
static char values[2 * PATH_MAX + 2048];

/* Keep folder (NULL: none) and text as one value.  "" and a word when it is longer
 * than max. */
static const char *keep_value(const char *name, const char *folder, const char *text,
                              size_t max)
{
    HL_USED static size_t used;
    char *out = values + used;
    size_t n = folder ? strlen(folder) : 0, len = hl_text_length(text, max + 1);
    if (n + len >= max || n + len + 2 > sizeof values - used) {
        hl_say("too long, and taken to be empty:", name, 0);
        return "";
    }
    if (n) {
        memcpy(out, folder, n);
        if (out[n - 1] != '/')
            out[n++] = '/';
    }
    memcpy(out + n, text, len);
    out[n + len] = 0;
    used += n + len + 1;
    return out;
}

/* A relative name means the folder the program was started in. */
static const char *output_value(const char *s)
{
    char folder[PATH_MAX];
    if (!s || !*s)
        return "";
    int relative =
        *s != '/' && HL_SYS2(SYS_getcwd, folder, sizeof folder) > 0 && *folder == '/';
    s = keep_value("HEAPLINE_OUTPUT", relative ? folder : NULL, s, PATH_MAX - 1);
    return *s ? s : "/"; /* which cannot be written: the record goes to stderr */
}

/* A program may close its standard error and have another file there later. */
static void look_at_stderr(void)
{
    struct stat st;
    if (*hl_agent.output && hl_fstat(STDERR_FILENO, &st) == 0) {
        hl_agent.stderr_dev = st.st_dev;
        hl_agent.stderr_ino = st.st_ino;
        hl_agent.has_stderr = 1;
    }
}

static int is_stderr_ours(void)
{
    struct stat st;
    int e = hl_fstat(STDERR_FILENO, &st);
    return hl_agent.has_stderr &&
           (e == -EPERM || (e == 0 && st.st_dev == hl_agent.stderr_dev &&
                            st.st_ino == hl_agent.stderr_ino));
}

static void take_environment(void)
{
    struct hl_agent *a = &hl_agent;
    const char *s = env("HEAPLINE_VERBOSE");
    a->verbose = s && strcmp(s, "1") == 0;
    s = env("HEAPLINE_SOCKET");
    a->sockets =
        s ? keep_value("HEAPLINE_SOCKET", NULL, s, 1024) : "/run/heapline/collector.sock";
    s = env("HEAPLINE_FALLBACK_DIR");
    if (s && *s == '/')
        a->fallback = keep_value("HEAPLINE_FALLBACK_DIR", NULL, s, PATH_MAX - 1);
    s = env("HEAPLINE_INTERVAL");
    if (s && *s && hl_parse_interval(s, &a->interval_ns))
        hl_say("HEAPLINE_INTERVAL is not a number of seconds from 0.01 to 86400, "
               "no samples are asked for:",
               s, 0);
    a->output = output_value(env("HEAPLINE_OUTPUT"));
    look_at_stderr();
}

/* A child of vfork that calls exit, which it should not, takes the functions off the
 * list that it shares with its parent. */
static int is_borrowed(void)
{
    return hl_agent.mode == HL_MODE_ON && !hl_is_own();
}

/* Two threads that call exit share the list, too: the second one would find nothing
 * more on it, and end the process while the first one writes.  So each thread leaves
 * us there once, until the end is done. */
static int comes_again(void)
{
    if (hl_mine.has_left || hl_agent.finished == 2 || !hl_is_own())
        return 0;
    hl_mine.has_left = 1;
    return 1;
}

static void at_exit(int status, void *unused)
{
    (void)unused;
    if (is_borrowed()) {
        on_exit(at_exit, NULL);
        fflush(NULL); /* what exit would do behind us, its last function */
        hl_sys_unasked(SYS_exit_group, status, 0, 0, 0, 0, 0);
    }
    if (comes_again())
        on_exit(at_exit, NULL);
    hl_finish(status);
}

/* What at_quick_exit calls.  Without a handle of our library, whose destruction in a
 * thread that calls exit would take the function off the list. */
int __cxa_at_quick_exit(void (*f)(void *), void *dso);

static void at_quick_exit_end(void *unused)
{
    (void)unused;
    if (is_borrowed()) {
        __cxa_at_quick_exit(at_quick_exit_end, NULL);
        hl_sys_unasked(SYS_exit_group, hl_agent.quick_status, 0, 0, 0, 0, 0);
    }
    if (comes_again())
        __cxa_at_quick_exit(at_quick_exit_end, NULL);
    hl_finish(hl_agent.quick_status);
}

/* The key's functions run in up to PTHREAD_DESTRUCTOR_ITERATIONS rounds, ours
 * first; the slot is kept until the last one, for what others' allocate. */
static void thread_ends(void *mine)
{
    enum { ROUNDS = PTHREAD_DESTRUCTOR_ITERATIONS };
    if (++hl_mine.n_rounds < ROUNDS)
        pthread_setspecific(hl_agent.key, mine);
    else
        hl_leave_slot();
}

/* What must run behind all else is registered first.  No more than 32 keys lie in
 * the thread itself; for others the C library would allocate. */
static void register_ends(void)
{
    struct hl_agent *a = &hl_agent;
    pthread_key_t key;
    for (int i = 0; i < 2; i++) { /* one for a thread that comes at the same time */
        on_exit(at_exit, NULL);
        __cxa_at_quick_exit(at_quick_exit_end, NULL);
    }
    if (pthread_key_create(&key, thread_ends) == 0) {
        a->key = key;
        a->key_ok = key < 32;
    }
    long e = HL_SYS3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    if (e != 0) {
        a->no_barrier = 1;
        hl_say("several threads cost more here: membarrier", NULL, (int)-e);
    }
}

/* A malloc that is linked into the program, or preloaded before us and does not
 * pass on: nothing will come here.  The first allocation that does says otherwise. */
static void note_bypass(struct hl_heap_header *h)
{
    h->flags |= hl_bypass();
    if (hl_agent.slots[0].allocs)
        h->flags &= ~(uint32_t)HL_HEAP_BYPASSED;
}

/* Before the C library has the environment operations are counted in the static page;
 * the process is not asked for yet, as we may have been told to stay out. */
static void start_early(struct hl_heap_header *h)
{
    if (!hl_agent.page) {
        hl_page_adopt(h, 1, 0);
        hl_first_slot();
    }
}

/* Called at the first operation and when the library is initialised. */
void hl_start(void)
{
    struct hl_agent *a = &hl_agent;
    struct hl_heap_header *h = &hl_static_page.header;
    if (a->mode != HL_MODE_EARLY)
        return;
    if (!environ) {
        start_early(h);
        return;
    }
    a->mode = HL_MODE_BUSY;
    if (is_unwanted()) {
        a->mode = HL_MODE_OFF;
        hl_mine.slot = &hl_no_slot;
        return;
    }
    int e = errno;
    start_early(h);
    hl_wipe_on_fork();
    a->pid = hl_getpid();
    take_environment();
    h->uid = (uint32_t)getauxval(AT_EUID);
    identify_process(h);
    identify_run(h);
    note_bypass(h);
    register_ends();
    hl_send_start(NULL);
    hl_first_slot();
    a->mode = HL_MODE_ON;
    errno = e;
}

__attribute__((constructor)) static void loaded(void)
{
    int e = errno;
    hl_wake();
    hl_start();
    errno = e;
}

/* ---- a forked child ---- */

static void child_page(int64_t inherited)
{
    struct hl_agent *a = &hl_agent;
    struct hl_heap_header *h = &hl_static_page.header;
    void *old = a->page_is_static ? NULL : a->page;
    if (old)
        memcpy(h, old, sizeof *h);
    memset(hl_static_page.room + HL_HEAP_PAGE_HEADER, 0,
           hl_heap_slots_to_read(h) * HL_HEAP_SLOT_SIZE);
    a->pid = hl_getpid();
    h->uid = (uint32_t)HL_SYS0(SYS_geteuid);
    identify_process(h);
    h->inherited_bytes = inherited;
    h->peak_bytes = inherited > 0 ? inherited : 0;
    h->shared_peak_bytes = h->shared_peak_time_ns = 0;
    h->n_slots_used = 1;
    h->peak_time_ns = hl_mono_ns() - h->load_mono_ns;
    a->page = NULL;
    hl_page_adopt(h, 1, 0);
    hl_send_forget();
    hl_send_start(old);
    if (old && a->page_is_static)
        hl_unmap(old, HL_HEAP_PAGE_SIZE);
}

/* The thread that forked is the only one here.  Nothing is counted meanwhile:
 * what a signal handler allocates must not go to the parent's page. */
void hl_child(void)
{
    struct hl_agent *a = &hl_agent;
    int e = errno;
    if (a->mode == HL_MODE_ON) {
        int64_t inherited = hl_mine.fork_known ? hl_mine.fork_live : hl_live_now();
        a->mode = HL_MODE_BUSY;
        hl_mine.slot = &hl_no_slot;
        hl_unwipe();
        hl_mine.n_shared = 0;
        hl_mine.has_left = 0;
        a->finished = 0;
        child_page(inherited);
        hl_first_slot();
        a->mode = HL_MODE_ON;
    } else {
        hl_unwipe();
    }
    errno = e;
}

int hl_is_own(void)
{
    if (hl_is_wiped())
        hl_child();
    if (hl_agent.mode != HL_MODE_ON)
        return 0;
    pid_t pid = hl_getpid();
    return pid == hl_agent.pid || pid < 0; /* a sandbox without it has no vfork either */
}

void hl_state(enum hl_heap_state state)
{
    __atomic_store_n(&hl_agent.page->state, (uint32_t)state, __ATOMIC_RELEASE);
}

/* ---- the end ---- */

static char record[HL_RECORD_TEXT_MAX];

/* O_NONBLOCK: a FIFO that nobody reads must not hold the program up. */
static int write_file(const char *name, size_t n)
{
    if (hl_limit(RLIMIT_FSIZE) < n)
        return -EFBIG;
    int fd = hl_openat(AT_FDCWD, name,
                       O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_NONBLOCK, 0666);
    if (fd < 0)
        return fd;
    int e = write_quietly(fd, record, n);
    if (e && hl_truncate(fd, 0) == 0) /* not so a device or FIFO */
        HL_SYS3(SYS_unlinkat, AT_FDCWD, name, 0);
    hl_close(fd);
    return e;
}

/* The file, or stderr when it cannot be opened. */
static void write_record(void)
{
    const struct hl_heap_header *h = hl_agent.page;
    static struct hl_record r;
    char *name = scratch;
    int e = -ENAMETOOLONG;
    hl_snapshot(h->end_mono_ns, &r);
    size_t n = hl_record_text(&r, record, sizeof record);
    if (hl_record_file_name(hl_agent.output, h->pid, h->rank, h->host, name,
                            sizeof scratch))
        e = write_file(name, n);
    if (!e)
        return;
    hl_say("the record goes to stderr:", hl_agent.output, -e);
    if (is_stderr_ours())
        write_quietly(STDERR_FILENO, record, n);
}

/* Another thread is at it: its file must be whole before the process goes. */
static void wait_for_end(void)
{
    const struct timespec ms = {0, 1000000};
    for (int i = 0; i < 1000 && hl_agent.finished != 2 && !hl_mine.ending; i++)
        HL_SYS2(SYS_nanosleep, &ms, 0);
}

void hl_finish(int status)
{
    struct hl_agent *a = &hl_agent;
    int e = errno, none = 0;
    if (!hl_is_own())
        return;
    if (!__atomic_compare_exchange_n(&a->finished, &none, 1, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        wait_for_end();
        return;
    }
    hl_mine.ending = 1;
    struct hl_heap_header *h = a->page;
    scratch[0] = 0;
    read_proc("/proc/self/status", scratch, sizeof scratch);
    h->vmhwm_bytes = status_bytes("VmHWM:");
    h->vmrss_bytes = status_bytes("VmRSS:");
    h->end_status = status;
    h->end_mono_ns = hl_mono_ns();
    hl_state(HL_HEAP_EXIT);
    const struct hl_end end = {HL_ENDED_EXIT, status & 255};
    hl_send_end(&end);
    if (a->output[0])
        write_record();
    __atomic_store_n(&a->finished, 2, __ATOMIC_RELEASE);
    errno = e;
}
