/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that restrict their own system calls (seccomp).  What such a program
 * must not do would end it, or call its handler, if the agent did it on its behalf,
 * and nothing tells beforehand whether a call is allowed.  So the calls that install
 * filters are interposed, copies of the filters kept, and each call of the agent's
 * own is put to them first, as the kernel will do.  Filters from before the program
 * was loaded (containers, services) are not known here; they allow ordinary programs
 * what the agent does, or answer with an error.
 *
 * A filter may bind one thread alone; here it counts for all, and for good.
 */
#include "agent.h"
#include "sys.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define OPEN __attribute__((visibility("default")))

#if defined __x86_64__
enum { ARCH = (int)AUDIT_ARCH_X86_64 };
#else
enum { ARCH = (int)AUDIT_ARCH_AARCH64 };
#endif

struct filter {
    struct filter *next;
    int is_active;
    unsigned n;
    struct sock_filter code[];
};

int hl_sandboxed, hl_stderr_is_plain;
static struct filter *filters;
static int strict; /* only read, write and exit; or a filter that could not be kept */

/* ---- what a filter says ---- */

struct machine {
    uint32_t a, x, m[BPF_MEMWORDS];
};

static uint32_t compute(unsigned op, uint32_t a, uint32_t b)
{
    switch (op) {
    case BPF_ADD: return a + b;
    case BPF_SUB: return a - b;
    case BPF_MUL: return a * b;
    case BPF_DIV: return b ? a / b : 0;
    case BPF_OR: return a | b;
    case BPF_AND: return a & b;
    case BPF_XOR: return a ^ b;
    case BPF_LSH: return b < 32 ? a << b : 0;
    case BPF_RSH: return b < 32 ? a >> b : 0;
    default: return -a; /* BPF_NEG; the kernel takes no others */
    }
}

static int jumps(unsigned op, uint32_t a, uint32_t b)
{
    switch (op) {
    case BPF_JEQ: return a == b;
    case BPF_JGT: return a > b;
    case BPF_JGE: return a >= b;
    default: return (a & b) != 0; /* BPF_JSET */
    }
}

static uint32_t load(const struct machine *m, const struct sock_filter *i,
                     const struct seccomp_data *d)
{
    uint32_t v = i->k;
    if (BPF_MODE(i->code) == BPF_MEM)
        return m->m[i->k % BPF_MEMWORDS];
    if (BPF_MODE(i->code) == BPF_LEN)
        return sizeof *d;
    if (BPF_MODE(i->code) == BPF_ABS && i->k <= sizeof *d - sizeof v)
        memcpy(&v, (const char *)d + i->k, sizeof v);
    return v;
}

/* The filter's answer to a call, as the kernel computes it. */
static uint32_t ask(const struct filter *f, const struct seccomp_data *d)
{
    struct machine m = {0};
    for (unsigned at = 0; at < f->n; at++) {
        const struct sock_filter *i = &f->code[at];
        uint32_t other = BPF_SRC(i->code) == BPF_X ? m.x : i->k;
        switch (BPF_CLASS(i->code)) {
        case BPF_LD: m.a = load(&m, i, d); break;
        case BPF_LDX: m.x = load(&m, i, d); break;
        case BPF_ST: m.m[i->k % BPF_MEMWORDS] = m.a; break;
        case BPF_STX: m.m[i->k % BPF_MEMWORDS] = m.x; break;
        case BPF_ALU: m.a = compute(BPF_OP(i->code), m.a, other); break;
        case BPF_JMP:
            if (BPF_OP(i->code) == BPF_JA)
                at += i->k;
            else
                at += jumps(BPF_OP(i->code), m.a, other) ? i->jt : i->jf;
            break;
        case BPF_RET: return BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
        default: /* BPF_MISC */
            if (BPF_MISCOP(i->code) == BPF_TAX)
                m.x = m.a;
            else
                m.a = m.x;
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}

int hl_sandbox_allows(long nr, const long args[6])
{
    struct seccomp_data d = {.nr = (int)nr, .arch = (uint32_t)ARCH};
    if (strict)
        return nr == SYS_read || nr == SYS_write;
    for (int i = 0; i < 6; i++)
        d.args[i] = (uint64_t)args[i];
    for (const struct filter *f = __atomic_load_n(&filters, __ATOMIC_ACQUIRE); f;
         f = f->next) {
        uint32_t action = ask(f, &d) & SECCOMP_RET_ACTION_FULL;
        if (f->is_active && action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG &&
            action != SECCOMP_RET_ERRNO)
            return 0;
    }
    return 1;
}

/* ---- keeping filters ---- */

/* Copy what the program points to; its pointer may be wrong, and the kernel is to
 * say so.  Where this call is not to be had pointers are taken to be right. */
static int copy_in(void *to, const void *from, size_t n)
{
    const struct iovec ours = {to, n}, theirs = {(void *)from, n};
    long r =
        hl_sys(SYS_process_vm_readv, hl_agent.pid, (long)&ours, 1, (long)&theirs, 1, 0);
    if (r == -EPERM || r == -ENOSYS) {
        memcpy(to, from, n);
        r = (long)n;
    }
    return r == (long)n ? 0 : -1;
}

/* A copy of the filter; NULL: there is none, or it is beyond what can be known. */
static struct filter *copy_filter(const void *from)
{
    struct sock_fprog p;
    if (!from || copy_in(&p, from, sizeof p) != 0 || p.len == 0 || p.len > BPF_MAXINSNS)
        return NULL;
    size_t bytes = p.len * sizeof *p.filter;
    long at = hl_sys(SYS_mmap, 0, (long)(sizeof(struct filter) + bytes),
                     PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at < 0 && at > -4096) {
        strict = hl_sandboxed = 1; /* it may come to be, and we should not know it */
        return NULL;
    }
    struct filter *f = (struct filter *)at;
    f->n = p.len;
    if (copy_in(f->code, p.filter, bytes) == 0)
        return f;
    hl_sys(SYS_munmap, at, (long)(sizeof(struct filter) + bytes), 0, 0, 0, 0);
    return NULL;
}

/* From before it is installed: afterwards it may be too late to ask. */
static struct filter *keep(const void *from)
{
    struct filter *f = copy_filter(from);
    if (!f)
        return NULL;
    f->is_active = 1;
    f->next = __atomic_load_n(&filters, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&filters, &f->next, f, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
        ;
    hl_sandboxed = 1;
    return f;
}

/* ---- programs that are started from the sandbox ---- */

/* Would the agent's start be punished in a program that inherits the filters? */
static int start_is_punished(void)
{
    static const int calls[] = {
        SYS_madvise, SYS_getpid,       SYS_openat,     SYS_read,           SYS_close,
        SYS_uname,   SYS_getrandom,    SYS_geteuid,    SYS_getsid,         SYS_membarrier,
        SYS_connect, SYS_memfd_create, SYS_ftruncate,  SYS_fcntl,          SYS_mmap,
        SYS_sendmsg, SYS_fstat,        SYS_prlimit64,  SYS_rt_sigprocmask, SYS_ppoll,
        SYS_write,   SYS_munmap,       SYS_getsockopt, SYS_rt_sigpending};
    const long none[6] = {0}, local[6] = {AF_UNIX, SOCK_STREAM};
    if (!hl_sandbox_allows(SYS_socket, local))
        return 1;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!hl_sandbox_allows(calls[i], none))
            return 1;
    return 0;
}

/* There it will not know the filters, so it is told to stay out.  What getenv finds
 * first counts.  Returns the environment as it was; NULL: not changed. */
static char **tell_children(void)
{
    static char word[] = "HEAPLINE_DISABLE=heap";
    char **old = environ;
    size_t n = 0;
    if (!old || !start_is_punished() || (*old && strcmp(*old, word) == 0))
        return NULL;
    while (old[n])
        n++;
    long at = hl_sys_unasked(SYS_mmap, 0, (long)((n + 2) * sizeof *old),
                             PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at < 0 && at > -4096)
        return NULL;
    char **to = (char **)at;
    to[0] = word;
    memcpy(to + 1, old, (n + 1) * sizeof *old);
    environ = to;
    return old;
}

/* ---- entry points ---- */

struct request {
    long nr, arg[6];
};

static long pass_on(const struct request *q)
{
    const long *a = q->arg;
    if (q->nr == SYS_prctl && hl_other.prctl)
        return hl_other.prctl((int)a[0], a[1], a[2], a[3], a[4]);
    if (hl_other.syscall)
        return hl_other.syscall(q->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    long r = hl_sys_unasked(q->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (r < 0 && r > -4096) {
        errno = (int)-r;
        return -1;
    }
    return r;
}

static int is_request_for(const struct request *q, int prctl_mode, int seccomp_mode)
{
    return (q->nr == SYS_prctl && q->arg[0] == PR_SET_SECCOMP &&
            q->arg[1] == prctl_mode) ||
           (q->nr == SYS_seccomp && q->arg[0] == seccomp_mode);
}

static void look_at_stderr(void)
{
    struct stat st;
    int e = hl_fstat(2, &st);
    if (e != -EPERM) /* else an earlier filter is in the way, and we have looked */
        hl_stderr_is_plain = e == 0 && (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode));
}

static long install(const struct request *q)
{
    int to_filter = is_request_for(q, SECCOMP_MODE_FILTER, SECCOMP_SET_MODE_FILTER);
    int to_strict = is_request_for(q, SECCOMP_MODE_STRICT, SECCOMP_SET_MODE_STRICT);
    /* A child of vfork restricts itself alone but shares our memory. */
    int own = (to_filter || to_strict) && hl_is_own();
    if (own)
        look_at_stderr();
    struct filter *kept = own && to_filter ? keep((const void *)q->arg[2]) : NULL;
    char **old_environ = kept ? tell_children() : NULL;
    long r = pass_on(q);
    if (kept && r < 0) {
        kept->is_active = 0;
        environ = old_environ ? old_environ : environ;
    }
    if (own && to_strict && r >= 0)
        strict = hl_sandboxed = 1;
    return r;
}

OPEN int prctl(int what, ...)
{
    struct request q = {SYS_prctl, {what}};
    va_list ap;
    va_start(ap, what);
    for (int i = 1; i < 5; i++)
        q.arg[i] = va_arg(ap, long);
    va_end(ap);
    if (!hl_other.prctl)
        hl_wake();
    return (int)(what == PR_SET_SECCOMP ? install(&q) : pass_on(&q));
}

/* syscall(2) itself is passed on without a frame of ours, since what returns twice
 * or on another stack may come this way.  Here arrive the two calls that matter, and
 * those from before the next function is known. */
long hl_syscall_slow(long nr, long a, long b, long c, long d, long e, long f);
__attribute__((used)) long hl_syscall_slow(long nr, long a, long b, long c, long d,
                                           long e, long f)
{
    const struct request q = {nr, {a, b, c, d, e, f}};
    if (!hl_other.syscall)
        hl_wake();
    return install(&q);
}

_Static_assert(offsetof(struct hl_other, syscall) == 0, "first, for the code below");
#define NUMBER_(n) #n
#define NUMBER(n) NUMBER_(n)
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, %function\n"
        ".hidden hl_other\n"
        ".hidden hl_syscall_slow\n"
        "syscall:\n"
        ".cfi_startproc\n"
#if defined __x86_64__
        "endbr64\n"
        "cmpl $" NUMBER(__NR_seccomp) ", %edi\n"
                                      "je 1f\n"
                                      "cmpl $" NUMBER(
                                          __NR_prctl) ", %edi\n"
                                                      "je 1f\n"
                                                      "movq hl_other(%rip), %rax\n"
                                                      "testq %rax, %rax\n"
                                                      "je 1f\n"
                                                      "jmpq *%rax\n"
                                                      "1: jmp hl_syscall_slow\n"
#else
        "hint #34\n" /* bti c */
        "cmp w0, #" NUMBER(
            __NR_seccomp) "\n"
                          "b.eq 1f\n"
                          "cmp w0, #" NUMBER(
                              __NR_prctl) "\n"
                                          "b.eq 1f\n"
                                          "adrp x16, hl_other\n"
                                          "ldr x16, [x16, #:lo12:hl_other]\n"
                                          "cbz x16, 1f\n"
                                          "br x16\n"
                                          "1: b hl_syscall_slow\n"
#endif
                                                      ".cfi_endproc\n"
                                                      ".size syscall, . - syscall\n");
