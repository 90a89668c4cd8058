/* SPDX-License-Identifier: Apache-2.0
 *
 * Careful opening, whole writing, atomic outputs; see path.h.
 */
#include "path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static int tell_strange(int dirfd, const char *name, struct hl_err *e)
{
    struct stat st;
    int code = errno;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) || S_ISDIR(st.st_mode)) {
        errno = code;
        return hl_fail_errno(e, "cannot open the folder %s", name);
    }
    return hl_fail(
        e, code, "%s is %s of uid %ld, where a folder of yours must be: %s", name,
        S_ISLNK(st.st_mode) ? "a symbolic link" : "no folder, but a file",
        (long)st.st_uid, st.st_uid == geteuid() ? "remove it" : "have it removed");
}

static int tell_foreign(const char *name, const struct stat *st, struct hl_err *e)
{
    if (st->st_uid == geteuid())
        return hl_fail(e, EPERM,
                       "the folder %s has mode %04o and must be for you alone: "
                       "chmod 0700 %s",
                       name, (unsigned)st->st_mode & 07777, name);
    return hl_fail(
        e, EPERM,
        "the folder %s belongs to uid %ld and must be of your own uid %ld: have "
        "it removed",
        name, (long)st->st_uid, (long)geteuid());
}

int hl_path_own_dir_at(int dirfd, const char *name, struct hl_err *e)
{
    struct stat st;
    int made = mkdirat(dirfd, name, 0700) == 0;
    if (!made && errno != EEXIST)
        return hl_fail_errno(e, "cannot make the folder %s", name);
    if (made) /* whatever the umask is */
        fchmodat(dirfd, name, 0700, 0);
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st))
        return tell_strange(dirfd, name, e);
    if (st.st_uid == geteuid() && (st.st_mode & 07777) == 0700)
        return fd;
    close(fd);
    return tell_foreign(name, &st, e);
}

int hl_path_own_dir(const char *path, struct hl_err *e)
{
    return hl_path_own_dir_at(AT_FDCWD, path, e);
}

int hl_path_is_own_dir(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 07777) == 0700;
}

int hl_path_write_all(int fd, const void *p, size_t n)
{
    const char *s = p;
    while (n) {
        ssize_t k = write(fd, s, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -1;
        s += k;
        n -= (size_t)k;
    }
    return 0;
}

int hl_path_pwrite_all(int fd, const void *p, size_t n, off_t at)
{
    const char *s = p;
    while (n) {
        ssize_t k = pwrite(fd, s, n, at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -1;
        s += k;
        at += k;
        n -= (size_t)k;
    }
    return 0;
}

int hl_path_pread_all(int fd, void *p, size_t n, off_t at)
{
    char *s = p;
    while (n) {
        ssize_t k = pread(fd, s, n, at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return k ? -1 : 1;
        s += k;
        at += k;
        n -= (size_t)k;
    }
    return 0;
}

/* ---- names ---- */

const char *hl_path_last(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

int hl_path_ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n > k && strcmp(name + n - k, end) == 0;
}

/* ---- outputs ---- */

/* Temporary names are ".heapline-HASH-RANDOM": short whatever the output's name is,
 * and told from other people's files. */
enum { TEMP_HASH_AT = 10, TEMP_RANDOM_AT = TEMP_HASH_AT + 17, TEMP_BYTES = 44 };

/* The folder of an output, for openat and friends. */
static int open_folder(const char *name)
{
    const char *last = hl_path_last(name);
    char *folder = last == name ? strdup(".") : strndup(name, (size_t)(last - name));
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int saved = errno;
    free(folder);
    errno = saved;
    return fd;
}

static void temp_name(const char *name, char out[TEMP_BYTES])
{
    static uint64_t count;
    uint64_t h = 14695981039346656037u, r;
    for (const char *s = hl_path_last(name); *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    if (getrandom(&r, sizeof r, 0) != sizeof r)
        r = (uint64_t)getpid() << 32 ^ ++count;
    snprintf(out, TEMP_BYTES, ".heapline-%016llx-%016llx", (unsigned long long)h,
             (unsigned long long)r);
}

/* A temporary file that no process holds (each holds a lock on its own). */
static void remove_if_stale(int folder, const char *name)
{
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, name, 0);
    close(fd);
}

static void remove_stale(int folder, const char *output)
{
    char like[TEMP_BYTES];
    struct dirent *de;
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    temp_name(output, like);
    while (d && (de = readdir(d)))
        if (!strncmp(de->d_name, like, TEMP_RANDOM_AT) &&
            strlen(de->d_name) == strlen(like))
            remove_if_stale(folder, de->d_name);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

/* A new file with a temporary name, locked; -1: errno. */
static int make_named(int folder, const char *output, char temp[TEMP_BYTES])
{
    struct stat st;
    for (int i = 0; i < 100; i++) {
        temp_name(output, temp);
        int fd = openat(folder, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0)
            return -1;
        /* Without locks nobody removes it but ourselves; with them, somebody may
         * have taken it for stale before it was locked. */
        if (flock(fd, LOCK_EX) || (fstat(fd, &st) == 0 && st.st_nlink > 0))
            return fd;
        close(fd);
    }
    errno = EEXIST;
    return -1;
}

/* The path by which commit can link the file. */
static int proc_path(struct hl_out *o)
{
    return asprintf(&o->temp, "/proc/self/fd/%d", o->fd) < 0 ? -1 : 0;
}

static int begin_nameless(struct hl_out *o)
{
    o->fd = openat(o->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (o->fd < 0)
        return -1;
    if (proc_path(o) == 0 && access(o->temp, W_OK) == 0) {
        flock(o->fd, LOCK_EX | LOCK_NB); /* for the moment when commit names it */
        return 0;
    }
    free(o->temp);
    o->temp = NULL;
    close(o->fd);
    o->fd = -1;
    return -1;
}

static int begin_named(struct hl_out *o)
{
    char temp[TEMP_BYTES];
    o->fd = make_named(o->folder, o->name, temp);
    if (o->fd < 0)
        return -1;
    o->named = 1;
    int prefix = (int)(hl_path_last(o->name) - o->name);
    if (asprintf(&o->temp, "%.*s%s", prefix, o->name, temp) >= 0)
        return 0;
    o->temp = NULL;
    unlinkat(o->folder, temp, 0);
    errno = ENOMEM;
    return -1;
}

static int begin_stdio(struct hl_out *o)
{
    int fd = fcntl(o->fd, F_DUPFD_CLOEXEC, 0);
    o->file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!o->file && fd >= 0)
        close(fd);
    return o->file ? 0 : -1;
}

int hl_out_begin(struct hl_out *o, const char *name, int with_stdio, struct hl_err *e)
{
    memset(o, 0, sizeof *o);
    o->fd = -1;
    o->name = strdup(name);
    o->folder = open_folder(name);
    if (o->folder >= 0)
        remove_stale(o->folder, name);
    if (o->name && o->folder >= 0 && (begin_nameless(o) == 0 || begin_named(o) == 0) &&
        (!with_stdio || begin_stdio(o) == 0))
        return 0;
    hl_fail_errno(e, "cannot write %s", name);
    hl_out_abort(o);
    return -1;
}

int hl_out_scratch(struct hl_out *o)
{
    char temp[TEMP_BYTES];
    int fd = openat(o->folder, ".", O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    fd = make_named(o->folder, o->name, temp);
    if (fd >= 0)
        unlinkat(o->folder, temp, 0);
    return fd;
}

void hl_out_hurry(struct hl_out *o, off_t n_written)
{
    enum { STEP = 8 << 20 };
    off_t end = n_written & ~(off_t)(STEP - 1);
    if (end <= o->hurried)
        return;
    sync_file_range(o->fd, o->hurried, end - o->hurried, SYNC_FILE_RANGE_WRITE);
    o->hurried = end;
}

int hl_out_finish(struct hl_out *o, struct hl_err *e)
{
    int bad = o->file && (fflush(o->file) || ferror(o->file));
    int saved = errno;
    if (o->file)
        bad |= fclose(o->file) && !bad && (saved = errno, 1);
    o->file = NULL;
    errno = saved;
    bad = bad || fsync(o->fd);
    return bad ? hl_fail_errno(e, "cannot write %s", o->name) : 0;
}

/* Give the nameless file a temporary name beside the final one. */
static int link_temp(struct hl_out *o, char temp[TEMP_BYTES])
{
    for (int i = 0; i < 100; i++) {
        temp_name(o->name, temp);
        if (linkat(AT_FDCWD, o->temp, o->folder, temp, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}

static int appear_nameless(struct hl_out *o, const char *last)
{
    char temp[TEMP_BYTES];
    if (linkat(AT_FDCWD, o->temp, o->folder, last, AT_SYMLINK_FOLLOW) == 0)
        return 0; /* nothing was there */
    if (errno != EEXIST || link_temp(o, temp))
        return -1;
    if (renameat(o->folder, temp, o->folder, last) == 0)
        return 0;
    int saved = errno;
    unlinkat(o->folder, temp, 0);
    errno = saved;
    return -1;
}

static int appear_named(struct hl_out *o, const char *last)
{
    if (renameat(o->folder, hl_path_last(o->temp), o->folder, last))
        return -1;
    o->named = 0;
    return 0;
}

int hl_out_commit(struct hl_out *o, struct hl_err *e)
{
    const char *last = hl_path_last(o->name);
    int bad = o->file ? hl_out_finish(o, e) : 0;
    if (!bad && (o->named ? appear_named(o, last) : appear_nameless(o, last)))
        bad = hl_fail_errno(e, "cannot write %s", o->name);
    /* The name too must outlive a crash; some file systems cannot be asked. */
    if (!bad && fsync(o->folder) && errno != EINVAL && errno != EBADF && errno != ENOTSUP)
        bad = hl_fail_errno(e, "cannot write the folder of %s", o->name);
    hl_out_abort(o);
    return bad;
}

void hl_out_abort(struct hl_out *o)
{
    if (!o->name)
        return; /* never begun, or ended */
    if (o->file)
        fclose(o->file);
    if (o->named && o->temp)
        unlinkat(o->folder, hl_path_last(o->temp), 0);
    if (o->fd >= 0)
        close(o->fd);
    if (o->folder >= 0)
        close(o->folder);
    free(o->temp);
    free(o->name);
    memset(o, 0, sizeof *o);
}

/* ---- trees ---- */

static int remove_below(int dirfd)
{
    DIR *d = fdopendir(dirfd);
    struct dirent *de;
    int bad = 0;
    if (!d) {
        close(dirfd);
        return -1;
    }
    while ((de = readdir(d))) {
        if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
            continue;
        if (unlinkat(dirfd, de->d_name, 0) == 0)
            continue;
        int sub =
            openat(dirfd, de->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sub >= 0)
            bad |= remove_below(sub);
        bad |= unlinkat(dirfd, de->d_name, AT_REMOVEDIR);
    }
    closedir(d);
    return bad ? -1 : 0;
}

int hl_path_remove_tree(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int bad = fd < 0 ? -1 : remove_below(fd);
    return rmdir(path) || bad ? -1 : 0;
}
