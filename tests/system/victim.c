/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that records frames, allocates known amounts, and may die half way.
 *
 *   victim FRAMES DIE-RANK DIE-FRAME HOW STATS-PREFIX
 *
 * Without MPI, so that ranks do not end each other; the rank is read from the
 * environment.  DIE-RANK kills itself when DIE-FRAME frames are committed: HOW
 * is "kill", "abort", "_exit" or "exit".  What heapline_get_stats said last, at
 * the very end, goes to STATS-PREFIX and the rank: "allocs frees live peak".
 * DIE-RANK -1 and FRAMES 0 are fine; HOW "none" never dies, nor does "slow", which
 * takes 20 ms a frame and notes its stats before the session's end.
 */
#include <heapline.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char stats_name[4096];
static char text[256];

/* No allocation from here to the end of the process, so that the numbers are
 * the final ones. */
static void note_stats(void)
{
    struct heapline_stats s;
    int fd = open(stats_name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    heapline_get_stats(&s);
    int n = snprintf(text, sizeof text, "%llu %llu %lld %lld\n",
                     (unsigned long long)s.allocs, (unsigned long long)s.frees,
                     (long long)s.live_bytes, (long long)s.peak_bytes);
    if (fd < 0 || write(fd, text, (size_t)n) != n)
        _exit(97);
    close(fd);
}

static void die(const char *how)
{
    note_stats();
    if (!strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    else if (!strcmp(how, "abort"))
        abort();
    else if (!strcmp(how, "_exit"))
        _exit(5);
    else if (!strcmp(how, "exit"))
        exit(6);
}

static void work(heapline_session *s, int rank, int frame)
{
    void *block[10];
    heapline_region_push(s, "work");
    heapline_region_push(s, frame % 2 ? "odd" : "even");
    for (int i = 0; i < 10; i++)
        block[i] = malloc((size_t)(1000 * (rank + 1) + i));
    heapline_region_pop(s);
    for (int i = 0; i < 9; i++)
        free(block[i]);
    heapline_region_pop(s);
}

int main(int argc, char **argv)
{
    static const char *const metrics[] = {"step", "mpi_rank", "wall_step"};
    const char *r = getenv("OMPI_COMM_WORLD_RANK");
    heapline_session *s = NULL;
    if (argc != 6)
        return 98;
    int rank = r ? atoi(r) : 0, frames = atoi(argv[1]), die_rank = atoi(argv[2]);
    int die_frame = atoi(argv[3]);
    snprintf(stats_name, sizeof stats_name, "%s%d", argv[5], rank);
    if (heapline_session_begin(&s, metrics, 3))
        return 96;
    for (int i = 0; i < frames; i++) {
        heapline_frame_begin(s);
        work(s, rank, i);
        if (heapline_frame_end(s))
            return 95;
        if (rank == die_rank && i + 1 == die_frame)
            die(argv[4]);
        if (!strcmp(argv[4], "slow"))
            usleep(20000);
    }
    if (!strcmp(argv[4], "slow"))
        note_stats();
    heapline_session_end(s);
    return 0;
}
