/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows in a file; see fallback.h.
 */
#include "fallback.h"

#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* The folder lies where everyone may write: it is used only if it is a real
 * folder, ours, and closed to others. */
static int open_folder(const struct hl_setup *s)
{
    char path[sizeof s->fallback + HL_NAME_CAP];
    struct stat st;
    if (!hl_fallback_dir(s->fallback, (uint32_t)geteuid(), path, sizeof path))
        return -1;
    if (mkdir(path, 0700) == 0) {
        chmod(path, 0700); /* whatever the umask is */
    } else if (errno != EEXIST) {
        hl_say(s, "%s cannot be made: %s", path, strerrordesc_np(errno));
        return -1;
    }
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0 && fstat(dir, &st) == 0 && st.st_uid == geteuid() &&
        (st.st_mode & 07777) == 0700)
        return dir;
    if (dir >= 0)
        close(dir);
    hl_say(s, "%s is not a folder of this user alone (mode 0700), not used", path);
    return -1;
}

static int create(struct hl_fallback *f, const struct hl_setup *s,
                  const struct hl_hello *hello)
{
    char name[HL_NAME_CAP];
    int dir = open_folder(s);
    if (dir < 0)
        return -1;
    hl_process_file_name(s->key, hello->pid, hello->image, ".rows", name);
    f->fd = hl_high_fd(
        openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (f->fd >= 0)
        fchmod(f->fd, 0600); /* whoever gathers is this user */
    else
        hl_say(s, "%s in %s cannot be made: %s", name, s->fallback,
               strerrordesc_np(errno));
    close(dir);
    return f->fd < 0 ? -1 : 0;
}

/* There the kernel would kill the program. */
static int over_limit(uint64_t at, size_t n)
{
    struct rlimit r;
    return getrlimit(RLIMIT_FSIZE, &r) == 0 && r.rlim_cur != RLIM_INFINITY &&
           (at > r.rlim_cur || n > r.rlim_cur - at);
}

int hl_fallback_append(struct hl_fallback *f, const struct hl_setup *s, const void *p,
                       size_t n)
{
    ssize_t done;
    if (!f->open || !hl_fd_is(f->fd, f->id))
        return -1;
    if (over_limit(f->size, n)) {
        hl_say(s, "rows dropped: the file in %s is at the limit of its size",
               s->fallback);
        return -1;
    }
    do
        done = hl_sys_pwrite(f->fd, p, n, (off_t)f->size);
    while (done < 0 && errno == EINTR);
    if (done == (ssize_t)n) {
        f->size += n;
        return 0;
    }
    hl_say(s, "rows dropped: the file in %s cannot be written: %s", s->fallback,
           done < 0 ? strerrordesc_np(errno) : "no space left");
    /* Behind a torn message no reader could find the next one. */
    if (done > 0 && hl_sys_ftruncate(f->fd, (off_t)f->size))
        hl_fallback_close(f);
    return -1;
}

enum { BYE_BYTES = HL_WIRE_HEADER + 16 };

static int write_head(struct hl_fallback *f, const struct hl_setup *s,
                      const struct hl_hello *hello, const struct hl_bye *bye)
{
    uint8_t bytes[HL_HELLO_CAP + BYE_BYTES];
    struct hl_hello h = *hello;
    h.flags = HL_HELLO_FALLBACK;
    int64_t n = hl_encode_hello(bytes, HL_HELLO_CAP, &h);
    if (n < 0 || hl_encode_bye(bytes + n, BYE_BYTES, bye) != BYE_BYTES)
        return -1;
    f->bye_at = (uint64_t)n;
    return hl_fallback_append(f, s, bytes, (size_t)n + BYE_BYTES);
}

void hl_fallback_count(const struct hl_fallback *f, const struct hl_bye *bye)
{
    uint8_t bytes[BYE_BYTES];
    if (!f->open || !hl_fd_is(f->fd, f->id) || over_limit(f->bye_at, sizeof bytes) ||
        hl_encode_bye(bytes, sizeof bytes, bye) != BYE_BYTES)
        return;
    for (size_t n = 0; n < sizeof bytes;) {
        ssize_t done =
            hl_sys_pwrite(f->fd, bytes + n, sizeof bytes - n, (off_t)(f->bye_at + n));
        if (done == 0 || (done < 0 && errno != EINTR))
            return;
        n += done > 0 ? (size_t)done : 0;
    }
}

int hl_fallback_open(struct hl_fallback *f, const struct hl_setup *s,
                     const struct hl_hello *hello, const struct hl_bye *bye)
{
    if (f->open)
        return 0;
    if (!*s->fallback || create(f, s, hello))
        return -1;
    f->open = 1;
    f->size = 0;
    f->id = hl_fd_id(f->fd);
    if (write_head(f, s, hello, bye) == 0)
        return 0;
    hl_fallback_close(f);
    return -1;
}

void hl_fallback_greet_again(struct hl_fallback *f, const struct hl_setup *s,
                             const struct hl_hello *hello, const struct hl_bye *bye)
{
    if (!f->open || !hl_fd_is(f->fd, f->id) || hl_sys_ftruncate(f->fd, 0))
        return;
    f->size = 0;
    if (write_head(f, s, hello, bye))
        hl_fallback_close(f); /* rows without a hello are nobody's */
}

void hl_fallback_close(struct hl_fallback *f)
{
    if (f->open && hl_fd_is(f->fd, f->id))
        close(f->fd);
    f->open = 0;
}
