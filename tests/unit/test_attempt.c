/* SPDX-License-Identifier: Apache-2.0
 *
 * The gather as heapline-run sees it: lines that are read, command lines and
 * environments that are made, and runs of a script in its place with short bounds.
 */
#include "attempt.h"
#include "watch.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/hl-attempt.XXXXXX";
extern char **environ;

/* ---- words ---- */

static void hear(struct words *w, const char *const *lines)
{
    words_init(w);
    for (; *lines; lines++)
        words_output(w, *lines);
}

#define HEAR(w, ...) hear(w, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(lines_of_the_gather)
{
    struct words w;
    HEAR(&w, "", "heapline-gather: started", "Warning: something");
    ck_assert(w.started && words_any(&w));
    ck_assert_int_eq(w.how, COLLECTED_NOTHING);
    HEAR(&w, "heapline-gather: complete: 2 ranks in a.csv",
         "heapline-gather: written on n1 in /a folder/b");
    ck_assert_int_eq(w.how, COLLECTED_WHOLE);
    ck_assert_str_eq(w.host, "n1");
    ck_assert_str_eq(w.folder, "/a folder/b");
    HEAR(&w, "[1,0]<stdout>:heapline-gather: incomplete: 2 ranks");
    ck_assert_int_eq(w.how, COLLECTED_INCOMPLETE);
    HEAR(&w, "gather: complete", "heapline-gather: written on n1 in relative",
         "heapline-gather: written on ", "heapline-gather: lost ");
    ck_assert_str_eq(w.host, "");
    ck_assert(!words_any(&w));
}
END_TEST

START_TEST(lost_nodes)
{
    char *names[] = {"n0", "n1.cluster", "10.0.0.1"};
    struct texts hosts = {names, 3};
    char lost[3] = {0};
    struct words w;
    HEAR(&w, "heapline-gather: lost n1", "heapline-gather: lost #2",
         "heapline-gather: lost #3", "heapline-gather: lost #-1",
         "heapline-gather: lost #", "heapline-gather: lost elsewhere");
    ck_assert_uint_eq(words_lost(&w, &hosts, lost), 2);
    ck_assert(!lost[0] && lost[1] && lost[2]);
    words_fini(&w);
}
END_TEST

START_TEST(what_the_launcher_says)
{
    struct words w;
    words_init(&w);
    words_error(&w,
                "mpirun noticed that process rank 1 with PID 7 on node n1.x exited on "
                "signal 9 (Killed).");
    ck_assert_str_eq(w.named, "n1.x");
    ck_assert(!w.complained);
    words_init(&w);
    words_error(&w, "it ran on node n1 and exited on signal 9");
    words_error(&w, "exited on signal 9 on node n1");
    ck_assert_str_eq(w.named, "");
    words_error(&w, "heapline-gather: no space left");
    ck_assert(w.complained);
}
END_TEST

/* ---- lines ---- */

static const char *line_of(const char *launcher, const char *file)
{
    static char out[1000];
    char *names[] = {"a", "b"};
    struct texts hosts = {names, 2}, argv = {0};
    struct starter s;
    out[0] = 0;
    ck_assert_int_eq(starter_init(&s, launcher, "/t"), 0);
    ck_assert_int_eq(starter_line(&s, &hosts, file, &argv), 0);
    for (size_t i = 0; i < argv.n; i++)
        if (strcmp(argv.v[i], "--allow-run-as-root"))
            strcat(strcat(out, i ? " " : ""), argv.v[i]);
    texts_fini(&argv);
    starter_fini(&s);
    return out;
}

#define PLACE " -n 2 --map-by ppr:1:node --bind-to none --mca orte_default_hostfile none"

START_TEST(launchers_lines)
{
    ck_assert_str_eq(line_of("orterun --mca a b", NULL),
                     "orterun --mca a b --host a,b" PLACE " -x HEAPLINE_FALLBACK_DIR=/t");
    ck_assert_str_eq(line_of("orterun", "/f"),
                     "orterun --hostfile /f" PLACE " -x HEAPLINE_FALLBACK_DIR=/t");
    ck_assert_str_eq(
        line_of("mpiexec.hydra", NULL),
        "mpiexec.hydra -hosts a,b -ppn 1 -n 2 -genv HEAPLINE_FALLBACK_DIR /t");
    ck_assert_str_eq(
        line_of("srun --mpi=pmix", "/f"),
        "srun --mpi=pmix -w /f --nodes=2 --ntasks=2 --distribution=arbitrary");
}
END_TEST

START_TEST(this_node_comes_first)
{
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    char *with[] = {"other", "localhost", "other2"}, *without[] = {"o2", "o1"};
    struct texts hosts = {with, 3}, far = {without, 2}, list = {0};
    ck_assert_int_eq(command_order(&hosts, &list), 0);
    ck_assert_uint_eq(list.n, 3);
    ck_assert_str_eq(list.v[0], own); /* a loopback name would be another's there */
    ck_assert_str_eq(list.v[1], "other");
    texts_fini(&list);
    ck_assert_int_eq(command_order(&far, &list), 0);
    ck_assert_uint_eq(list.n, 2);
    ck_assert_str_eq(list.v[0], "o2");
    texts_fini(&list);
}
END_TEST

static int has(const struct texts *t, const char *var)
{
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(t->v[i], var))
            return 1;
    return 0;
}

START_TEST(environment_of_the_gather)
{
    char *from[] = {"PATH=/bin",
                    "OMPI_MCA_mca_base_env_list=A=1",
                    "OMPI_MCA_rmaps_base_mapping_policy=core",
                    "OMPI_MCA_orte_default_hostfile=/h",
                    "OMPI_MCA_plm_rsh_agent=rsh",
                    "OMPI_MCA_oob_tcp_if_include=eth0",
                    "OMPI_MCA_plm=rsh",
                    "HEAPLINE_JOB=other",
                    "PMIX_RANK=1",
                    "PMIX_MCA_gds=hash",
                    "SLURM_JOB_ID=5",
                    "LD_PRELOAD=/x/libheapline-preload.so:/y/lib.so libheapline-mpi.so",
                    NULL};
    static const char *const kept[] = {"PATH=/bin",
                                       "OMPI_MCA_plm_rsh_agent=rsh",
                                       "PMIX_MCA_gds=hash",
                                       "OMPI_MCA_plm=rsh",
                                       "OMPI_MCA_oob_tcp_if_include=eth0",
                                       "SLURM_JOB_ID=5",
                                       "SLURM_OVERLAP=1",
                                       "LD_PRELOAD=/y/lib.so",
                                       "HEAPLINE_FALLBACK_DIR=/t"};
    struct texts envp = {0};
    ck_assert_int_eq(command_environment(from, "/t", &envp), 0);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        ck_assert_msg(has(&envp, kept[i]), "%s", kept[i]);
    ck_assert_uint_eq(envp.n, sizeof kept / sizeof *kept);
    texts_fini(&envp);
    /* What an mpirun around heapline-run set is a rank's, not the user's. */
    from[0] = "OMPI_COMM_WORLD_RANK=0";
    ck_assert_int_eq(command_environment(from, "/t", &envp), 0);
    ck_assert(!has(&envp, from[0]) && !has(&envp, "OMPI_MCA_plm=rsh"));
    texts_fini(&envp);
}
END_TEST

/* ---- runs ---- */

static const char *script(const char *text)
{
    static char name[64];
    snprintf(name, sizeof name, "%s/script", folder);
    FILE *f = fopen(name, "w");
    fprintf(f, "#!/bin/sh\n%s\n", text);
    fclose(f);
    chmod(name, 0700);
    return name;
}

static const struct attempt_bounds brief = {.ask = 200,
                                            .start = 30000,
                                            .probe = 20000,
                                            .end = 200,
                                            .finish = 1000,
                                            .resist = 200};

/* A script instead of the launcher; probes run it as well, with "true" behind. */
static struct attempt run_within(int64_t start, const char *text, struct texts *hosts)
{
    static struct starter s;
    struct texts argv = {0};
    ck_assert_int_eq(starter_init(&s, script(text), "/t"), 0);
    texts_add(&argv, s.words.v[0]);
    texts_add(&argv, "gather");
    struct attempt a = {
        .starter = &s, .hosts = hosts, .argv = argv.v, .envp = environ, .bounds = brief};
    a.bounds.start = start;
    attempt_run(&a);
    texts_fini(&argv);
    starter_fini(&s);
    return a;
}

static struct attempt run(const char *text, struct texts *hosts)
{
    return run_within(brief.start, text, hosts);
}

static char *two[] = {"a", "b"};
static struct texts hosts_two = {two, 2};

/* Only the probe of b fails. */
#define PROBE_B "case \"$*\" in *\" b \"*true) exit 1 ;; *true) exit 0 ;; esac\n"
#define PROBES_WELL "case \"$*\" in *true) exit 0 ;; esac\n"

START_TEST(a_launcher_that_hangs_on_a_dead_host)
{
    struct attempt a = run(PROBE_B "sleep 100", &hosts_two);
    ck_assert_int_eq(a.words.how, COLLECTED_NOTHING);
    ck_assert_ptr_nonnull(a.silent);
    ck_assert(!a.silent[0] && a.silent[1] && !a.is_late);
    attempt_fini(&a);
}
END_TEST

START_TEST(a_launcher_that_hangs_though_all_answer)
{
    struct attempt a = run_within(500, PROBES_WELL "sleep 100", &hosts_two);
    ck_assert(a.is_late && a.silent && !a.silent[0] && !a.silent[1]);
    attempt_fini(&a);
}
END_TEST

START_TEST(a_slow_start_is_waited_for)
{
    struct attempt a =
        run(PROBES_WELL "sleep 0.4; echo heapline-gather: started; sleep 1\n"
                        "echo heapline-gather: complete: x",
            &hosts_two);
    ck_assert_int_eq(a.words.how, COLLECTED_WHOLE);
    attempt_fini(&a);
}
END_TEST

START_TEST(a_gather_that_started_may_be_silent)
{
    struct attempt a = run(PROBE_B "echo heapline-gather: started; sleep 1.5\n"
                                   "echo heapline-gather: complete: x",
                           &hosts_two);
    ck_assert_int_eq(a.words.how, COLLECTED_WHOLE);
    ck_assert_ptr_null(a.silent);
    attempt_fini(&a);
}
END_TEST

/* The state letter of a process, Z when it is gone. */
static char state_of(int pid)
{
    char name[64], state = 'Z';
    snprintf(name, sizeof name, "/proc/%d/stat", pid);
    FILE *f = fopen(name, "r");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    if (f)
        fclose(f);
    return state;
}

/* The launcher ignores TERM, and has a child in a group of its own. */
START_TEST(a_launcher_that_does_not_end)
{
    char text[400], name[100];
    int pid = 0;
    snprintf(name, sizeof name, "%s/stray", folder);
    snprintf(text, sizeof text,
             "trap '' TERM\nbash -c 'set -m; sleep 100 & echo $! >%s'\n"
             "echo heapline-gather: complete: x; sleep 100",
             name);
    struct attempt a = run(text, &hosts_two);
    ck_assert_int_eq(a.words.how, COLLECTED_WHOLE);
    FILE *f = fopen(name, "r");
    ck_assert(f && fscanf(f, "%d", &pid) == 1 && pid > 1);
    fclose(f);
    for (int i = 0; i < 500 && state_of(pid) != 'Z'; i++) /* the kernel takes its time */
        usleep(10000);
    ck_assert_int_eq(state_of(pid), 'Z');
    attempt_fini(&a);
}
END_TEST

START_TEST(lines_come_in_any_pieces)
{
    struct attempt a =
        run("printf 'heapline-gather: st'; sleep 0.05; printf 'arted\\n\\nheap'\n"
            "printf 'line-gather: lost b' ; exit 1",
            &hosts_two);
    ck_assert(a.words.started);
    ck_assert_uint_eq(a.words.lost.n, 1);
    ck_assert_str_eq(a.words.lost.v[0], "b");
    attempt_fini(&a);
}
END_TEST

START_TEST(a_program_that_is_not_there)
{
    char *argv[] = {"/nowhere/at/all", NULL};
    struct watch w;
    struct watch_plan plan = {.argv = argv, .envp = environ, .is_quiet = 1};
    ck_assert_int_eq(watch_start(&w, &plan), 0);
    while (!watch_step(&w, 100))
        ;
    watch_end(&w);
    ck_assert_int_eq(w.status, 127);
}
END_TEST

/* ---- probes of many ---- */

/* n hosts h0...; the probe of a group fails when one of `dead` is in it. */
static int probe(size_t n, const char *dead, char *silent)
{
    struct starter s;
    struct texts hosts = {0};
    char text[300];
    snprintf(text, sizeof text,
             "while [ \"$1\" != --host ]; do shift; done\n"
             "for h in %s; do case ,$2, in *,$h,*) exit 1 ;; esac; done\nexit 0",
             dead);
    ck_assert_int_eq(starter_init(&s, script(text), "/t"), 0);
    for (size_t i = 0; i < n; i++)
        texts_addf(&hosts, "h%zu", i);
    int bad = attempt_probe(&s, &hosts, environ, &brief, silent);
    texts_fini(&hosts);
    starter_fini(&s);
    return bad;
}

START_TEST(dead_ones_among_many)
{
    char silent[200];
    ck_assert_int_eq(probe(200, "h0 h77 h199", silent), 0);
    for (size_t i = 0; i < sizeof silent; i++)
        ck_assert_msg(silent[i] == (i == 0 || i == 77 || i == 199), "h%zu", i);
    ck_assert_int_eq(probe(1, "none", silent), 0);
    ck_assert(!silent[0]);
    ck_assert_int_eq(probe(200, "h0 h10 h20 h30 h40 h50 h60 h70 h80 h90", silent), -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("attempt");
    TCase *t = tcase_create("words"), *r = tcase_create("runs");
    if (!mkdtemp(folder))
        return 99;
    tcase_add_test(t, lines_of_the_gather);
    tcase_add_test(t, lost_nodes);
    tcase_add_test(t, what_the_launcher_says);
    tcase_add_test(t, launchers_lines);
    tcase_add_test(t, this_node_comes_first);
    tcase_add_test(t, environment_of_the_gather);
    tcase_set_timeout(r, 30);
    tcase_add_test(r, a_launcher_that_hangs_on_a_dead_host);
    tcase_add_test(r, a_launcher_that_hangs_though_all_answer);
    tcase_add_test(r, a_slow_start_is_waited_for);
    tcase_add_test(r, a_gather_that_started_may_be_silent);
    tcase_add_test(r, a_launcher_that_does_not_end);
    tcase_add_test(r, lines_come_in_any_pieces);
    tcase_add_test(r, a_program_that_is_not_there);
    tcase_add_test(r, dead_ones_among_many);
    suite_add_tcase(s, t);
    suite_add_tcase(s, r);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
