/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts of a run, as launchers' lines, host files and allocations name them.
 */
#include "launch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char file[] = "/tmp/hl-hosts.XXXXXX";

static void write_file(void)
{
    static const char text[] =
        "# nodes\nf1 slots=2\n\n  f2:4 # two\nf1\nf3 max_slots=1\n";
    int fd = mkstemp(file);
    if (fd < 0 || write(fd, text, sizeof text - 1) != sizeof text - 1)
        exit(99);
    close(fd);
}

/* The line's words are split at spaces; FILE stands for the host file. */
static const char *hosts_of(enum launcher kind, const char *line)
{
    static char out[1000];
    char *words[64], copy[1000], *rest = copy, *w;
    struct texts hosts = {0};
    struct hl_err e = {0};
    size_t n = 0;
    const char *at = strstr(line, "FILE");
    if (at)
        snprintf(copy, sizeof copy, "%.*s%s%s", (int)(at - line), line, file, at + 4);
    else
        snprintf(copy, sizeof copy, "%s", line);
    while ((w = strsep(&rest, " ")))
        words[n++] = w;
    words[n] = NULL;
    out[0] = 0;
    if (launch_hosts(kind, words, NULL, &hosts, &e))
        strcpy(out, e.text[0] && !strstr(e.text, "(null)") ? "error" : e.text);
    for (size_t i = 0; i < hosts.n; i++)
        strcat(strcat(out, i ? "," : ""), hosts.v[i]);
    texts_fini(&hosts);
    return out;
}

#define IS(kind, line, wanted) ck_assert_str_eq(hosts_of(kind, line), wanted)

START_TEST(openmpi_lines)
{
    IS(LAUNCH_OPENMPI, "mpirun -n 2 ./app", "");
    IS(LAUNCH_OPENMPI, "mpirun -H a,b:2 ./app", "a,b");
    IS(LAUNCH_OPENMPI, "mpirun -host a --host b -n 2 ./app", "a,b");
    IS(LAUNCH_OPENMPI, "mpirun --host=a,b ./app", "a,b");
    IS(LAUNCH_OPENMPI, "mpirun --host a ./app -H x --host y", "a");
    IS(LAUNCH_OPENMPI, "mpirun -x A --map-by node --host a ./app", "a");
    IS(LAUNCH_OPENMPI, "mpirun --mca a b --host a ./app", "a");
    IS(LAUNCH_OPENMPI, "mpirun --host a ./x -f no : --host b ./y -H no", "a,b");
    IS(LAUNCH_OPENMPI, "mpirun --host +n0,a ./app", "a");
    IS(LAUNCH_OPENMPI, "mpirun --hostfile FILE ./app", "f1,f2,f3");
    IS(LAUNCH_OPENMPI, "mpirun -hostfile=FILE ./app", "f1,f2,f3");
    IS(LAUNCH_OPENMPI, "mpirun -machinefile FILE ./app", "f1,f2,f3");
    IS(LAUNCH_OPENMPI, "mpirun --default-hostfile FILE ./app", "f1,f2,f3");
    IS(LAUNCH_OPENMPI, "mpirun --mca orte_default_hostfile FILE ./app", "f1,f2,f3");
    IS(LAUNCH_OPENMPI, "mpirun --default-hostfile FILE --host a ./app", "a");
    IS(LAUNCH_OPENMPI, "mpirun --default-hostfile none ./app", "");
    IS(LAUNCH_OPENMPI, "mpirun --mca orte_default_hostfile none ./app", "");
    IS(LAUNCH_OPENMPI, "mpirun --hostfile /nowhere/at/all ./app", "error");
    setenv("OMPI_MCA_orte_default_hostfile", file, 1);
    IS(LAUNCH_OPENMPI, "mpirun ./app", "f1,f2,f3");
    IS(LAUNCH_OPENMPI, "mpirun --host a ./app", "a");
    unsetenv("OMPI_MCA_orte_default_hostfile");
}
END_TEST

START_TEST(hydra_lines)
{
    IS(LAUNCH_HYDRA, "mpiexec -hosts a:2,b -n 2 ./app", "a,b");
    IS(LAUNCH_HYDRA, "mpiexec -genv A=1 -host a ./app -f no", "a");
    IS(LAUNCH_HYDRA, "mpiexec -genv A 1 -host a ./app", "a");
    IS(LAUNCH_HYDRA, "mpiexec -f FILE ./app", "f1,f2,f3");
    IS(LAUNCH_HYDRA, "mpiexec -machinefile=FILE ./app", "f1,f2,f3");
    setenv("HYDRA_HOST_FILE", file, 1);
    IS(LAUNCH_HYDRA, "mpiexec ./app", "f1,f2,f3");
    unsetenv("HYDRA_HOST_FILE");
}
END_TEST

START_TEST(slurm_lines)
{
    IS(LAUNCH_SRUN, "srun -w n[01-02,7] ./app", "n01,n02,n7");
    IS(LAUNCH_SRUN, "srun --nodelist=a,b[1-2]x ./app -w no", "a,b1x,b2x");
    IS(LAUNCH_SRUN, "srun -N 2 -wa,b ./app", "a,b");
    IS(LAUNCH_SRUN, "srun -w n[1 ./app", "error");
    setenv("SLURM_JOB_NODELIST", "s[8-10]", 1);
    IS(LAUNCH_SRUN, "srun ./app", "s8,s9,s10");
    IS(LAUNCH_NONE, "./job.sh", "s8,s9,s10");
    unsetenv("SLURM_JOB_NODELIST");
    IS(LAUNCH_SRUN, "srun -N2 ./app", "");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("launch");
    TCase *t = tcase_create("hosts");
    unsetenv("SLURM_JOB_NODELIST");
    unsetenv("OMPI_MCA_orte_default_hostfile");
    unsetenv("HYDRA_HOST_FILE");
    write_file();
    tcase_add_test(t, openmpi_lines);
    tcase_add_test(t, hydra_lines);
    tcase_add_test(t, slurm_lines);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    unlink(file);
    return failed != 0;
}
