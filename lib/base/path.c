/* SPDX-License-Identifier: Apache-2.0
 *
 * Careful opening, whole writing, atomic outputs; see path.h.
 */
#include "path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int hl_path_own_dir_at(int dirfd, const char *name, struct hl_err *e)
{
    struct stat st;
    if (mkdirat(dirfd, name, 0700) && errno != EEXIST)
        return hl_fail_errno(e, "cannot make the folder %s", name);
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return hl_fail_errno(e, "cannot open the folder %s", name);
    if (fstat(fd, &st) || st.st_uid != geteuid() || (st.st_mode & 07777) != 0700) {
        close(fd);
        return hl_fail(
            e, EPERM,
            "the folder %s is not yours alone: it must belong to uid %ld with mode 0700",
            name, (long)geteuid());
    }
    return fd;
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

int hl_out_begin(struct hl_out *o, const char *name, int with_stdio, struct hl_err *e)
{
    memset(o, 0, sizeof *o);
    o->name = strdup(name);
    if (!o->name || asprintf(&o->temp, "%s.XXXXXX", name) < 0) {
        o->temp = NULL;
        hl_out_abort(o);
        return hl_fail(e, ENOMEM, "%s: no memory left", name);
    }
    int fd = mkostemp(o->temp, O_CLOEXEC);
    if (fd < 0) {
        hl_fail_errno(e, "cannot write %s", name);
        free(o->temp);
        o->temp = NULL;
        hl_out_abort(o);
        return -1;
    }
    /* mkostemp makes 0600; outputs get what the user's umask allows. */
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);
    o->file = with_stdio ? fdopen(fd, "w") : NULL;
    if (!o->file)
        close(fd);
    if (with_stdio && !o->file) {
        hl_fail_errno(e, "cannot write %s", name);
        hl_out_abort(o);
        return -1;
    }
    return 0;
}

static int sync_file(const char *name)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int r = fsync(fd);
    close(fd);
    return r;
}

int hl_out_finish(struct hl_out *o, struct hl_err *e)
{
    int bad = 0;
    if (o->file) {
        bad = fflush(o->file) || ferror(o->file) || fsync(fileno(o->file));
        int saved = errno;
        bad |= fclose(o->file) && !bad;
        errno = bad ? saved : errno;
        o->file = NULL;
    } else {
        bad = sync_file(o->temp);
    }
    return bad ? hl_fail_errno(e, "cannot write %s", o->name) : 0;
}

int hl_out_commit(struct hl_out *o, struct hl_err *e)
{
    if (rename(o->temp, o->name)) {
        hl_fail_errno(e, "cannot write %s", o->name);
        hl_out_abort(o);
        return -1;
    }
    free(o->temp);
    o->temp = NULL;
    hl_out_abort(o);
    return 0;
}

void hl_out_abort(struct hl_out *o)
{
    if (o->file)
        fclose(o->file);
    if (o->temp)
        unlink(o->temp);
    free(o->temp);
    free(o->name);
    memset(o, 0, sizeof *o);
}

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
