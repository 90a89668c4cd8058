/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the page of counters lies: in a sealed memfd that the collector reads,
 * in a file of the fallback folder that the gather reads, or in static memory
 * that only this process sees.  Pages are made when the agent is loaded and in
 * forked children, never later.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

union hl_page hl_static_page __attribute__((aligned(4096)));

/* Growing a file, a memfd included, beyond RLIMIT_FSIZE raises a signal that the
 * program would die of. */
static int size_is_allowed(void)
{
    struct rlimit l;
    return getrlimit(RLIMIT_FSIZE, &l) != 0 || l.rlim_cur >= HL_HEAP_PAGE_SIZE;
}

static int map_page(int fd, void *at, void **page)
{
    void *p = mmap(at, HL_HEAP_PAGE_SIZE, PROT_READ | PROT_WRITE,
                   MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
    if (p == MAP_FAILED)
        return -1;
    *page = p;
    return 0;
}

int hl_page_memfd(void *at, void **page)
{
    const unsigned seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (!size_is_allowed()) {
        hl_say("the heap page is not shared: RLIMIT_FSIZE is below 64 KiB", NULL, 0);
        return -1;
    }
    int fd = memfd_create("heapline", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = memfd_create("heapline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, HL_HEAP_PAGE_SIZE) == 0 &&
        fcntl(fd, F_ADD_SEALS, seals) == 0 && map_page(fd, at, page) == 0)
        return fd;
    hl_say("the heap page is not shared", NULL, errno);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The user's own folder below the fallback folder: others may write there, too. */
static int own_folder(const char *name)
{
    struct stat st;
    mkdir(name, 0700);
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 07777) == 0700)
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* The space is taken before the file is mapped: a full disk must not become
 * SIGBUS at the program's next allocation. */
static int fill_file(int fd, void *at, void **page)
{
    int e = posix_fallocate(fd, 0, HL_HEAP_PAGE_SIZE);
    if (e) {
        errno = e;
        return -1;
    }
    return map_page(fd, at, page);
}

int hl_page_file(void *at, const struct hl_heap_header *id, void **page)
{
    static char folder[PATH_MAX];
    char name[HL_NAME_CAP];
    if (!hl_fallback_dir(hl_agent.fallback, geteuid(), folder, sizeof folder) ||
        !size_is_allowed()) {
        hl_say("no fallback file", hl_agent.fallback, EFBIG);
        return -1;
    }
    hl_process_file_name(id->key, id->pid, id->image, ".page", name);
    int dir = own_folder(folder), fd = -1, done = -1;
    if (dir >= 0)
        fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        done = fill_file(fd, at, page);
        if (done != 0)
            unlinkat(dir, name, 0);
        close(fd);
    }
    if (done != 0)
        hl_say("no fallback file in", folder, errno);
    if (dir >= 0)
        close(dir);
    return done;
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
