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

static const char *joined(const struct texts *t)
{
    static char out[1000];
    out[0] = 0;
    for (size_t i = 0; i < t->n; i++)
        strcat(strcat(out, i ? "," : ""), t->v[i]);
    return out;
}

static const char *prepared(enum launcher kind, const char *line)
{
    static char out[1000];
    char *own[] = {"LD_PRELOAD=/a.so", "HEAPLINE_JOB=k"}, *words[32], copy[500];
    struct texts vars = {own, 2}, argv = {0}, envp = {0};
    size_t n = 0;
    char *rest = copy, *w;
    snprintf(copy, sizeof copy, "%s", line);
    while ((w = strsep(&rest, " ")))
        words[n++] = w;
    words[n] = NULL;
    ck_assert_int_eq(launch_prepare(kind, words, &vars, &argv, &envp), 0);
    out[0] = 0;
    for (size_t i = 0; i < argv.n; i++)
        strcat(strcat(out, i ? " " : ""), argv.v[i]);
    for (size_t i = 0; i < envp.n; i++) /* not for the launcher itself */
        ck_assert(strncmp(envp.v[i], "HEAPLINE_JOB=", 13));
    texts_fini(&argv);
    texts_fini(&envp);
    return out;
}

START_TEST(other_schedulers)
{
    setenv("PBS_NODEFILE", file, 1);
    IS(LAUNCH_OPENMPI, "mpirun ./app", "f1,f2,f3");
    IS(LAUNCH_OPENMPI, "mpirun --host a ./app", "a");
    IS(LAUNCH_NONE, "./job.sh", "f1,f2,f3");
    setenv("PBS_NODEFILE", "/nowhere/at/all", 1); /* inherited from elsewhere */
    IS(LAUNCH_NONE, "./job.sh", "");
    unsetenv("PBS_NODEFILE");
}
END_TEST

START_TEST(variables_for_hydra)
{
    unsetenv("LD_PRELOAD");
    unsetenv("HEAPLINE_JOB");
    ck_assert_str_eq(prepared(LAUNCH_HYDRA, "mpiexec -n 2 ./app"),
                     "mpiexec -genv LD_PRELOAD /a.so -genv HEAPLINE_JOB k -n 2 ./app");
    ck_assert_str_eq(prepared(LAUNCH_HYDRA, "mpiexec -genv LD_PRELOAD /b.so ./app"),
                     "mpiexec -genv LD_PRELOAD /a.so -genv HEAPLINE_JOB k "
                     "-genv LD_PRELOAD /a.so:/b.so ./app");
    ck_assert_str_eq(prepared(LAUNCH_HYDRA, "mpiexec -env LD_PRELOAD=/b.so ./app : ./c"),
                     "mpiexec -genv LD_PRELOAD /a.so -genv HEAPLINE_JOB k "
                     "-env LD_PRELOAD=/a.so:/b.so ./app : ./c");
    ck_assert_str_eq(prepared(LAUNCH_HYDRA, "mpiexec -genv LD_PRELOADS x ./app -genv"),
                     "mpiexec -genv LD_PRELOAD /a.so -genv HEAPLINE_JOB k "
                     "-genv LD_PRELOADS x ./app -genv");
}
END_TEST

static const char *of_regex(const char *regex)
{
    struct texts t = {0};
    const char *out = launch_add_regex(&t, regex) ? "error" : joined(&t);
    texts_fini(&t);
    return out;
}

START_TEST(lists_of_open_mpi)
{
    ck_assert_str_eq(of_regex("head,node[1:2,0]@0(3)"), "head,node2,node0");
    ck_assert_str_eq(of_regex("n[3:8-10,40].ib,x@0(5)"),
                     "n008.ib,n009.ib,n010.ib,n040.ib,x");
    ck_assert_str_eq(of_regex("a"), "a");
    ck_assert_str_eq(of_regex(""), "");
    ck_assert_str_eq(of_regex("n[2:3-1]@0(1)"), "error");
    ck_assert_str_eq(of_regex("n[2:1"), "error");
    ck_assert_str_eq(of_regex("n[1-2]"), "error");
    ck_assert_str_eq(of_regex("n[2:x]"), "error");
    ck_assert_str_eq(of_regex("a,,b"), "error");
}
END_TEST

START_TEST(nodes_of_the_own_launch)
{
    struct texts t = {0};
    setenv("OMPI_MCA_orte_node_regex", "head,n[1:1-2]@0(3)", 1);
    setenv("OMPI_MCA_orte_num_nodes", "2", 1);
    ck_assert_int_eq(launch_rank_hosts(1, &t), 0);
    ck_assert_str_eq(joined(&t), "n1,n2"); /* the head has no ranks */
    texts_fini(&t);
    setenv("OMPI_MCA_orte_num_nodes", "3", 1);
    ck_assert_int_eq(launch_rank_hosts(1, &t), 0);
    ck_assert_str_eq(joined(&t), "head,n1,n2");
    texts_fini(&t);
    unsetenv("OMPI_MCA_orte_node_regex");
    unsetenv("OMPI_MCA_orte_num_nodes");
    launch_rank_hosts((long)getpid(), &t); /* a parent that is no launcher */
    ck_assert_uint_eq(t.n, 0);
}
END_TEST

START_TEST(one_node_by_two_names)
{
    ck_assert(launch_same_host("n1", "n1"));
    ck_assert(launch_same_host("n1.cluster", "n1"));
    ck_assert(launch_same_host("n1", "n1.cluster"));
    ck_assert(!launch_same_host("n1.a", "n1.b"));
    ck_assert(!launch_same_host("n1", "n10"));
    ck_assert(!launch_same_host("10.0.0.1", "10"));
    ck_assert(!launch_same_host("10.0.0.1", "10.0.0.2"));
    ck_assert(!launch_same_host("", "x"));
    ck_assert(launch_is_here("localhost"));
    ck_assert(launch_is_here("127.0.0.1"));
    ck_assert(launch_is_here("::1"));
    ck_assert(!launch_is_here("192.0.2.1"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("launch");
    TCase *t = tcase_create("hosts");
    unsetenv("SLURM_JOB_NODELIST");
    unsetenv("PBS_NODEFILE");
    unsetenv("LSB_DJOB_HOSTFILE");
    unsetenv("PE_HOSTFILE");
    unsetenv("OAR_NODEFILE");
    unsetenv("OMPI_MCA_orte_default_hostfile");
    unsetenv("HYDRA_HOST_FILE");
    write_file();
    tcase_add_test(t, openmpi_lines);
    tcase_add_test(t, hydra_lines);
    tcase_add_test(t, slurm_lines);
    tcase_add_test(t, other_schedulers);
    tcase_add_test(t, variables_for_hydra);
    tcase_add_test(t, lists_of_open_mpi);
    tcase_add_test(t, nodes_of_the_own_launch);
    tcase_add_test(t, one_node_by_two_names);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    unlink(file);
    return failed != 0;
}
