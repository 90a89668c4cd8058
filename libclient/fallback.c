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
    if (mkdir(path, 0700) && errno != EEXIST) {
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
        openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
               0600));
    if (f->fd < 0)
        hl_say(s, "%s in %s cannot be made: %s", name, s->fallback,
               strerrordesc_np(errno));
    close(dir);
    return f->fd < 0 ? -1 : 0;
}

static int over_limit(const struct hl_fallback *f, size_t n)
{
    struct rlimit r;
    return getrlimit(RLIMIT_FSIZE, &r) == 0 && r.rlim_cur != RLIM_INFINITY &&
           (f->size > r.rlim_cur || n > r.rlim_cur - f->size);
}

int hl_fallback_append(struct hl_fallback *f, const struct hl_setup *s, const void *p,
                       size_t n)
{
    ssize_t done;
    if (!f->open || !hl_fd_is(f->fd, f->id))
        return -1;
    if (over_limit(f, n)) {
        hl_say(s, "rows dropped: the file in %s is at the limit of its size",
               s->fallback);
        return -1;
    }
    do
        done = hl_sys_write(f->fd, p, n);
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

static int write_hello(struct hl_fallback *f, const struct hl_setup *s,
                       const struct hl_hello *hello)
{
    uint8_t bytes[HL_HELLO_CAP];
    struct hl_hello h = *hello;
    h.flags = HL_HELLO_FALLBACK;
    int64_t n = hl_encode_hello(bytes, sizeof bytes, &h);
    return n < 0 ? -1 : hl_fallback_append(f, s, bytes, (size_t)n);
}

int hl_fallback_open(struct hl_fallback *f, const struct hl_setup *s,
                     const struct hl_hello *hello)
{
    if (f->open)
        return 0;
    if (!*s->fallback || create(f, s, hello))
        return -1;
    f->open = 1;
    f->size = 0;
    f->id = hl_fd_id(f->fd);
    if (write_hello(f, s, hello) == 0)
        return 0;
    hl_fallback_close(f);
    return -1;
}

void hl_fallback_greet_again(struct hl_fallback *f, const struct hl_setup *s,
                             const struct hl_hello *hello)
{
    if (!f->open || !hl_fd_is(f->fd, f->id) || hl_sys_ftruncate(f->fd, 0))
        return;
    f->size = 0;
    if (write_hello(f, s, hello))
        hl_fallback_close(f); /* rows without a hello are nobody's */
}

void hl_fallback_close(struct hl_fallback *f)
{
    if (f->open && hl_fd_is(f->fd, f->id))
        close(f->fd);
    f->open = 0;
}
