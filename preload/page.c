/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the page of counters lies: in a sealed memfd that the collector reads,
 * in a file of the fallback folder that the gather reads, or in static memory
 * that only this process sees.  Pages are made when the agent is loaded and in
 * forked children, never later.
 */
#include "agent.h"
#include "sys.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

union hl_page hl_static_page __attribute__((aligned(4096)));

/* Growing a file, a memfd included, beyond RLIMIT_FSIZE raises a signal that the
 * program would die of. */
static int size_is_allowed(void)
{
    return hl_limit(RLIMIT_FSIZE) >= HL_HEAP_PAGE_SIZE;
}

static int map_page(int fd, void *at, void **page)
{
    long p = hl_sys(SYS_mmap, (long)at, HL_HEAP_PAGE_SIZE, PROT_READ | PROT_WRITE,
                    MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
    if (p < 0 && p > -4096)
        return (int)p;
    *page = (void *)p;
    return 0;
}

int hl_page_memfd(void *at, void **page)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (!size_is_allowed()) {
        hl_say("the heap page is not shared: RLIMIT_FSIZE is below 64 KiB", NULL, 0);
        return -1;
    }
    int fd = (int)HL_SYS2(SYS_memfd_create, "heapline", flags | MFD_NOEXEC_SEAL), e = fd;
    if (fd == -EINVAL) /* before Linux 6.3 */
        fd = e = (int)HL_SYS2(SYS_memfd_create, "heapline", flags);
    if (fd >= 0 && (e = hl_truncate(fd, HL_HEAP_PAGE_SIZE)) == 0 &&
        (e = hl_fcntl(fd, F_ADD_SEALS, seals)) == 0 && (e = map_page(fd, at, page)) == 0)
        return fd;
    hl_say("the heap page is not shared", NULL, -e);
    if (fd >= 0)
        hl_close(fd);
    return -1;
}

/* The user's own folder below the fallback folder: others may write there, too. */
static int own_folder(const char *name)
{
    struct stat st;
    if (HL_SYS3(SYS_mkdirat, AT_FDCWD, name, 0700) == 0)
        HL_SYS3(SYS_fchmodat, AT_FDCWD, name, 0700); /* whatever the umask is */
    int fd = hl_openat(AT_FDCWD, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return fd;
    if (hl_fstat(fd, &st) == 0 && st.st_uid == (uid_t)HL_SYS0(SYS_geteuid) &&
        (st.st_mode & 07777) == 0700)
        return fd;
    hl_close(fd);
    return -EPERM;
}

/* Zeros where the file system cannot set space aside. */
static int write_zeros(int fd)
{
    static const char zeros[4096];
    for (long at = 0; at < HL_HEAP_PAGE_SIZE; at += (long)sizeof zeros) {
        long n = HL_SYS4(SYS_pwrite64, fd, zeros, sizeof zeros, at);
        if (n != (long)sizeof zeros)
            return n < 0 ? (int)n : -ENOSPC;
    }
    return 0;
}

/* The space is taken before the file is mapped: a full disk must not become
 * SIGBUS at the program's next allocation. */
static int fill_file(int fd, void *at, void **page)
{
    int e = (int)HL_SYS4(SYS_fallocate, fd, 0, 0, HL_HEAP_PAGE_SIZE);
    if (e == -EOPNOTSUPP || e == -ENOSYS)
        e = write_zeros(fd);
    return e ? e : map_page(fd, at, page);
}

static int make_file(int dir, const char *name, void *at, void **page)
{
    int fd = hl_openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fd;
    HL_SYS2(SYS_fchmod, fd, 0600); /* whoever gathers is this user */
    int e = fill_file(fd, at, page);
    if (e)
        HL_SYS3(SYS_unlinkat, dir, name, 0);
    hl_close(fd);
    return e;
}

int hl_page_file(void *at, const struct hl_heap_header *id, void **page)
{
    static char folder[PATH_MAX];
    char name[HL_NAME_CAP];
    if (!hl_fallback_dir(hl_agent.fallback, (uint32_t)HL_SYS0(SYS_geteuid), folder,
                         sizeof folder) ||
        !size_is_allowed()) {
        hl_say("no fallback file", hl_agent.fallback, EFBIG);
        return -1;
    }
    hl_process_file_name(id->key, id->pid, id->image, ".page", name);
    int dir = own_folder(folder);
    int e = dir < 0 ? dir : make_file(dir, name, at, page);
    if (e)
        hl_say("no fallback file in", folder, -e);
    if (dir >= 0)
        hl_close(dir);
    return e ? -1 : 0;
}

void hl_page_adopt(void *page, int is_static, int is_file)
{
    struct hl_agent *a = &hl_agent;
    struct hl_heap_header *h = page;
    if (a->page && page != a->page) {
        size_t used = hl_heap_slots_to_read(a->page);
        memcpy((char *)page + HL_HEAP_PAGE_HEADER, a->slots, used * HL_HEAP_SLOT_SIZE);
        memcpy(h, a->page, sizeof *h);
    }
    a->page = h;
    a->slots = (struct hl_heap_slot *)((char *)page + HL_HEAP_PAGE_HEADER);
    a->page_is_static = is_static;
    a->page_is_file = is_file;
}
