/* SPDX-License-Identifier: Apache-2.0
 *
 * Bench: what it costs to be loaded.
 *
 *   preload_load run LIBRARY   start a program that does nothing, with LIBRARY
 *                              preloaded ("": none); prints milliseconds
 *   preload_load memory        64 threads allocate; prints KiB that are private to
 *                              the process's libraries and stacks, the heap apart
 */
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int run(char *self, const char *library)
{
    char *const child[] = {self, "nothing", NULL};
    pid_t pid;
    int status = 1;
    if (*library)
        setenv("LD_PRELOAD", library, 1);
    double from = now_ms();
    if (posix_spawn(&pid, self, NULL, NULL, child, environ) != 0 ||
        waitpid(pid, &status, 0) != pid)
        return 1;
    printf("%.4f\n", now_ms() - from);
    return status;
}

static pthread_barrier_t gate;

static void *work(void *unused)
{
    for (size_t i = 0; i < 1000; i++)
        free(malloc(100 + i));
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    return unused;
}

/* Private dirty memory of files' mappings and of what follows them directly. */
static long private_kib(void)
{
    char line[512], file[256] = "";
    long sum = 0, kib;
    int of_file = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long from, to, inode;
        int n = sscanf(line, "%lx-%lx %*s %*s %*s %lu %255s", &from, &to, &inode, file);
        if (n >= 3)
            of_file = n == 4 ? strstr(file, ".so") != NULL : of_file;
        if (of_file && sscanf(line, "Private_Dirty: %ld", &kib) == 1)
            sum += kib;
    }
    if (f)
        fclose(f);
    return sum;
}

static int memory(void)
{
    pthread_t id[64];
    pthread_barrier_init(&gate, NULL, 65);
    for (int i = 0; i < 64; i++)
        if (pthread_create(&id[i], NULL, work, NULL) != 0)
            return 1;
    pthread_barrier_wait(&gate);
    printf("%ld\n", private_kib());
    pthread_barrier_wait(&gate);
    for (int i = 0; i < 64; i++)
        pthread_join(id[i], NULL);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "run") == 0)
        return run(argv[0], argv[2]);
    return argc > 1 && strcmp(argv[1], "memory") == 0 ? memory() : 0;
}
