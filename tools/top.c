/* SPDX-License-Identifier: Apache-2.0
 *
 * heaplinectl top: a live table on a terminal, or plain tables.  The terminal is
 * left as it was found whichever way this ends; signals come in only while it
 * waits, so that none is missed.
 */
#include "heaplinectl.h"

#include "clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { PLAIN_WIDTH = 80, PATIENCE_MS = 2000, ESCAPE_MAX = 8 };

static volatile sig_atomic_t ended_by, stopped, resized, woken;

struct top {
    const struct ctl_top_options *o;
    struct ctl_link link;
    struct ctl_answer status, before, now;
    struct ctl_row *row;
    size_t n;
    struct ctl_view view;
    struct hl_err trouble; /* code 0: none */
    int screen;            /* the terminal is ours now */
    int keys;              /* standard input is a terminal, too */
    struct termios saved;
    sigset_t outside; /* signals as they were */
    char escape[ESCAPE_MAX];
    int n_escape;
    int quit;
};

/* ---- signals ---- */

static void on_signal(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else if (number == SIGTSTP)
        stopped = 1;
    else if (number != SIGCONT)
        ended_by = number;
    woken = 1;
}

static const int numbers[] = {SIGINT,   SIGTERM, SIGHUP, SIGQUIT,
                              SIGWINCH, SIGTSTP, SIGCONT};

static void catch_signals(struct top *t)
{
    struct sigaction a = {.sa_handler = on_signal};
    sigset_t ours;
    sigemptyset(&ours);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaction(numbers[i], &a, NULL);
        sigaddset(&ours, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &ours, &t->outside);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigdelset(&t->outside, numbers[i]);
}

/* As if it had not been caught. */
static void die_of(const struct top *t, int number)
{
    signal(number, SIG_DFL);
    raise(number);
    sigprocmask(SIG_SETMASK, &t->outside, NULL);
}

/* ---- terminal ---- */

static void measure(struct top *t)
{
    struct winsize w = {0};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
    t->view.width = w.ws_col ? w.ws_col : 80;
    t->view.height = w.ws_row ? w.ws_row : 24;
}

/* Other screen, no cursor, no wrapping; keys come at once and are not shown. */
static int enter_screen(struct top *t)
{
    struct ctl_out o = {0};
    if (t->keys) {
        struct termios raw = t->saved;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    measure(t);
    t->screen = 1;
    ctl_put(&o, "\033[?1049h\033[?25l\033[?7l");
    return ctl_flush(&o, STDOUT_FILENO);
}

static void leave_screen(struct top *t)
{
    struct ctl_out o = {0};
    if (!t->screen)
        return;
    t->screen = 0;
    ctl_put(&o, "\033[?7h\033[?25h\033[?1049l");
    ctl_flush(&o, STDOUT_FILENO);
    if (t->keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &t->saved);
}

/* Lines where they belong, the rest of the screen empty. */
static int draw_screen(const struct ctl_out *picture)
{
    struct ctl_out o = {0};
    const char *p = (const char *)hl_buf_data(&picture->b);
    const char *end = p + hl_buf_left(&picture->b);
    for (int line = 1; p && p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        ctl_put(&o, "\033[%d;1H%.*s\033[K", line, (int)(stop - p), p);
        p = stop + 1;
    }
    ctl_put(&o, "\033[J");
    return picture->failed ? -1 : ctl_flush(&o, STDOUT_FILENO);
}

static int draw(struct top *t, int on_screen)
{
    struct ctl_out o = {.color = t->o->color > 0};
    t->view.trouble = t->trouble.code ? t->trouble.text : NULL;
    ctl_show_top(&o, &t->view, &t->status, t->row, t->n);
    if (on_screen) {
        int r = draw_screen(&o);
        hl_buf_fini(&o.b);
        return r;
    }
    return ctl_flush(&o, STDOUT_FILENO);
}

/* ---- answers ---- */

static int ask(struct top *t, struct ctl_answer *fresh)
{
    struct hl_err *e = &t->trouble;
    *e = (struct hl_err){0};
    if (t->link.link.fd < 0 && ctl_link_open_any(&t->link, e))
        return -1;
    if (ctl_link_ask(&t->link, HL_ASK_STATUS, "", &t->status, e) ||
        ctl_link_ask(&t->link, HL_ASK_LIVE, "", fresh, e)) {
        hl_link_close(&t->link.link);
        return -1;
    }
    return 0;
}

/* What was shown makes the rates of what comes now. */
static int refresh(struct top *t)
{
    struct ctl_answer fresh = {0};
    free(t->row);
    t->row = NULL;
    t->n = 0;
    int r = ask(t, &fresh);
    if (r) {
        ctl_answer_fini(&fresh);
    } else {
        ctl_answer_fini(&t->before);
        t->before = t->now;
        t->now = fresh;
    }
    t->row = r ? calloc(1, sizeof *t->row) : ctl_rows(&t->before, &t->now);
    if (!t->row && !r)
        r = hl_fail(&t->trouble, ENOMEM, "no memory left");
    t->n = r ? 0 : t->now.n_live;
    t->view.socket =
        t->link.link.fd >= 0 || t->link.link.path[0] ? t->link.link.path : t->o->sockets;
    return r;
}

/* ---- keys ---- */

static void scroll(struct top *t, long by)
{
    size_t first = t->view.first;
    t->view.first = by < 0 && first < (size_t)-by ? 0 : first + (size_t)by;
}

static void sort_by(struct top *t, enum ctl_sort by)
{
    t->view.sort = by;
    t->view.reversed = 0;
    t->view.first = 0;
}

static void take_key(struct top *t, char c)
{
    switch (c) {
    case 'h': sort_by(t, CTL_BY_HEAP); break;
    case 'r': sort_by(t, CTL_BY_RSS); break;
    case 'a': sort_by(t, CTL_BY_RATE); break;
    case 'p': sort_by(t, CTL_BY_PID); break;
    case 'R': t->view.reversed = !t->view.reversed; break;
    case 'q': t->quit = 1; break;
    default: break;
    }
}

/* What arrows and the like send: ESC [ A, ESC O A, ESC [ 5 ~. */
static void take_escape(struct top *t)
{
    const char *s = t->escape + 1;
    long page = t->view.height > 5 ? t->view.height - 5 : 1;
    switch (t->escape[t->n_escape - 1]) {
    case 'A': scroll(t, -1); break;
    case 'B': scroll(t, 1); break;
    case 'H': t->view.first = 0; break;
    case 'F': t->view.first = SIZE_MAX / 2; break;
    case '~': scroll(t, s[1] == '5' ? -page : s[1] == '6' ? page : 0); break;
    default: break;
    }
}

static void take_byte(struct top *t, char c)
{
    if (c == '\033') {
        t->escape[0] = c;
        t->n_escape = 1;
        return;
    }
    if (!t->n_escape) {
        take_key(t, c);
        return;
    }
    t->escape[t->n_escape++] = c;
    if (t->n_escape == 2 && c != '[' && c != 'O') {
        t->n_escape = 0; /* the Esc key, then another */
        take_key(t, c);
        return;
    }
    int whole = t->n_escape > 2 && c >= '@' && c <= '~';
    if (whole)
        take_escape(t);
    if (whole || t->n_escape == ESCAPE_MAX)
        t->n_escape = 0;
}

/* 0, or -1: the terminal is gone. */
static int read_keys(struct top *t)
{
    char bytes[64];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    for (ssize_t i = 0; i < n && !t->quit; i++)
        take_byte(t, bytes[i]);
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)) ? 0 : -1;
}

/* ---- on a terminal ---- */

/* Ctrl-Z: the terminal is the shell's until we go on. */
static int pause_screen(struct top *t)
{
    struct sigaction ours = {.sa_handler = on_signal}, plain = {.sa_handler = SIG_DFL};
    sigset_t block;
    stopped = 0;
    leave_screen(t);
    sigaction(SIGTSTP, &plain, NULL);
    raise(SIGTSTP);
    sigprocmask(SIG_SETMASK, &t->outside, &block); /* it stops here */
    sigprocmask(SIG_SETMASK, &block, NULL);
    sigaction(SIGTSTP, &ours, NULL);
    if (t->keys)
        tcgetattr(STDIN_FILENO, &t->saved);
    return enter_screen(t);
}

/* Until the next table is due, drawing again whenever that changes something.
 * 0, or -1: the terminal does not take it. */
static int wait_on_screen(struct top *t, int64_t due)
{
    while (!t->quit && !ended_by) {
        int64_t left = due - hl_mono_ns();
        struct pollfd p = {t->keys ? STDIN_FILENO : -1, POLLIN, 0};
        if (left <= 0)
            return 0;
        struct timespec s = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
        int r = ppoll(&p, 1, &s, &t->outside);
        if (r > 0 && read_keys(t))
            return -1;
        if (stopped && pause_screen(t))
            return -1;
        if (resized)
            measure(t);
        if ((r > 0 || woken) && !t->quit && !ended_by && draw(t, 1))
            return -1;
        resized = woken = 0;
    }
    return 0;
}

static int watch(struct top *t)
{
    int64_t due = hl_mono_ns();
    if (enter_screen(t))
        return -1;
    for (int64_t k = 0; !t->quit && !ended_by && (!t->o->n || k < t->o->n); k++) {
        if (k)
            refresh(t);
        if (draw(t, 1))
            return -1;
        due += t->o->delay_ns;
        if (due < hl_mono_ns()) /* it took longer than that: no hurry then */
            due = hl_mono_ns() + t->o->delay_ns;
        if (wait_on_screen(t, due))
            return -1;
    }
    return 0;
}

static int on_terminal(struct top *t)
{
    t->keys = tcgetattr(STDIN_FILENO, &t->saved) == 0;
    catch_signals(t);
    t->link.mask = &t->outside;
    t->link.stop = &ended_by;
    t->link.patience_ms = PATIENCE_MS;
    int r = 0, failed = refresh(t); /* before the screen is taken */
    if (failed && !ended_by)
        r = ctl_complain("%s", t->trouble.text);
    else if (!ended_by)
        failed = watch(t);
    int err = errno;
    leave_screen(t);
    if (ended_by)
        die_of(t, ended_by);
    return r ? r : failed ? ctl_output_failed(err) : 0;
}

/* ---- plain tables ---- */

static int plain(struct top *t)
{
    int64_t n = t->o->n ? t->o->n : 1;
    int r = 0;
    t->view.width = PLAIN_WIDTH;
    for (int64_t k = 0; k < n; k++) {
        struct timespec s = {(time_t)(t->o->delay_ns / 1000000000),
                             (long)(t->o->delay_ns % 1000000000)};
        if (k)
            nanosleep(&s, NULL);
        r = refresh(t);
        if (r)
            ctl_complain("%s", t->trouble.text);
        if (r && !k)
            return 1;
        if (!r && ((k && write(STDOUT_FILENO, "\n", 1) != 1) || draw(t, 0)))
            return ctl_output_failed(errno);
    }
    return r ? 1 : 0;
}

int ctl_top(const struct ctl_top_options *o)
{
    static struct top t;
    t.o = o;
    t.link = (struct ctl_link){
        .link = {.fd = -1}, .sockets = o->sockets, .is_list = o->is_list};
    int r = isatty(STDOUT_FILENO) ? on_terminal(&t) : plain(&t);
    hl_link_close(&t.link.link);
    ctl_answer_fini(&t.status);
    ctl_answer_fini(&t.before);
    ctl_answer_fini(&t.now);
    free(t.row);
    return r;
}
