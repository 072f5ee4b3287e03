#include "tests/testing.h"

#include "exec/comm/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const all[] = {
    "SIMSEARCH_RANK",
    "OMPI_COMM_WORLD_RANK",
    "RANK",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "SLURM_STEP_NODELIST",
    "SLURM_LOCALID",
    "SLURM_JOB_ID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "SIMSEARCH_MEETING_FD",
    "SIMSEARCH_TOKEN",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_RUN_ID",
};

/* Sets the variables in "NAME=value NAME=value", and unsets all others that launchers use. */
static void set_environment(const char *pairs)
{
    for (size_t i = 0; i < LENGTH(all); i++)
        unsetenv(all[i]);
    char copy[800];
    strcpy(copy, pairs);
    for (char *pair = strtok(copy, " "); pair; pair = strtok(NULL, " ")) {
        char *value = strchr(pair, '=');
        *value = '\0';
        setenv(pair, value + 1, 1);
    }
}

static struct place place_in(const char *pairs)
{
    struct place place;
    struct err err = { 0 };
    set_environment(pairs);
    ck_assert_msg(place_of_environment(&place, &err), "%s: %s", err.where, err.msg);
    return place;
}

START_TEST(without_a_launcher_there_is_one_rank)
{
    struct place place = place_in("");
    ck_assert_int_eq(place.rank, 0);
    ck_assert_int_eq(place.size, 1);
    ck_assert_str_eq(place.launcher, "");
}
END_TEST

/* The shell runs inside a Slurm job of 8 tasks but is not one of these tasks. */
START_TEST(a_shell_in_a_slurm_job_counts_as_one_rank)
{
    ck_assert_int_eq(place_in("SLURM_NTASKS=8 SLURM_PROCID=0").size, 1);
}
END_TEST

START_TEST(simsearchs_launcher_sets_meeting_address_and_token)
{
    struct place place = place_in("SIMSEARCH_RANK=2 SIMSEARCH_RANKS=4 "
                                  "SIMSEARCH_MEETING=127.0.0.1:4711 SIMSEARCH_TOKEN=ff");
    ck_assert_int_eq(place.rank, 2);
    ck_assert_int_eq(place.size, 4);
    ck_assert_int_eq(place.local_rank, 2);
    ck_assert_str_eq(place.meeting_host, "127.0.0.1");
    ck_assert_int_eq(place.meeting_port, 4711);
    ck_assert_int_eq(place.meeting_fd, -1);
    ck_assert_str_eq(place.token, "ff");
}
END_TEST

START_TEST(mpirun_sets_ranks_but_no_meeting_address)
{
    struct place place = place_in("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 "
                                  "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4");
    ck_assert_str_eq(place.launcher, "mpirun");
    ck_assert_int_eq(place.rank, 5);
    ck_assert_int_eq(place.local_rank, 1);
    ck_assert_int_eq(place.local_size, 4);
    ck_assert_str_eq(place.meeting_host, "");
}
END_TEST

START_TEST(the_meeting_port_differs_from_that_of_torchruns_store)
{
    const char *plain = "RANK=1 WORLD_SIZE=2 MASTER_ADDR=host7 MASTER_PORT=29500";
    ck_assert_int_eq(place_in(plain).meeting_port, 29500);
    struct place place = place_in("RANK=1 WORLD_SIZE=2 MASTER_ADDR=host7 MASTER_PORT=29500 "
                                  "TORCHELASTIC_USE_AGENT_STORE=True");
    ck_assert_str_eq(place.meeting_host, "host7");
    ck_assert_int_eq(place.meeting_port, 29501);
}
END_TEST

START_TEST(ranks_of_srun_and_torchrun_read_their_local_rank)
{
    ck_assert_int_eq(
        place_in("SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_LOCALID=2 ").local_rank, 2);
    struct place place = place_in("RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 LOCAL_WORLD_SIZE=8 "
                                  "MASTER_ADDR=a MASTER_PORT=1");
    ck_assert_int_eq(place.rank, 9);
    ck_assert_int_eq(place.size, 16);
    ck_assert_int_eq(place.local_rank, 1);
    ck_assert_int_eq(place.local_size, 8);
}
END_TEST

START_TEST(sruns_ranks_meet_on_the_first_node)
{
    static const struct {
        const char *nodes, *host;
    } lists[] = { { "gpu[07-09,12]", "gpu07" },
                  { "gpu[3,5]", "gpu3" },
                  { "a1,b2", "a1" },
                  { "alone", "alone" } };
    for (size_t i = 0; i < LENGTH(lists); i++) {
        char pairs[300] = "SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 "
                          "SLURM_JOB_ID=77 SLURM_STEP_NODELIST=";
        struct place place = place_in(strcat(pairs, lists[i].nodes));
        ck_assert_int_eq(place.rank, 3);
        ck_assert_int_eq(place.size, 4);
        ck_assert_str_eq(place.meeting_host, lists[i].host);
        ck_assert_int_ge(place.meeting_port, 20000);
        ck_assert_int_lt(place.meeting_port, 40000);
    }
}
END_TEST

/* Several steps (srun) of a Slurm job, and successive jobs, may share a node, so they need
 * different ports. */
START_TEST(successive_jobs_and_steps_use_different_ports)
{
    enum { JOBS = 6, STEPS = 20 };
    int ports[JOBS * STEPS];
    for (int i = 0; i < JOBS * STEPS; i++) {
        char pairs[200];
        snprintf(pairs, sizeof pairs,
                 "SLURM_STEP_ID=%d SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=%d "
                 "SLURM_STEP_NODELIST=a",
                 i % STEPS, 1000 + i / STEPS);
        ports[i] = place_in(pairs).meeting_port;
        for (int j = 0; j < i; j++)
            ck_assert_int_ne(ports[j], ports[i]);
    }
}
END_TEST

#define TORCHRUN "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 "
#define SRUN     "SLURM_STEP_ID=5 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=77 "
#define LONGEST  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde" /* length 63 */
static const struct {
    const char *pairs, *token;
} tokens[] = {
    { TORCHRUN, "torchrun " },
    { TORCHRUN "TORCHELASTIC_RUN_ID=9c5d", "torchrun 9c5d" },
    { TORCHRUN "TORCHELASTIC_RUN_ID=9c5d SIMSEARCH_TOKEN=of-its-own", "of-its-own" },
    { SRUN, "srun 77.5" },
    { SRUN "SIMSEARCH_TOKEN=" LONGEST, LONGEST },
    { SRUN "SIMSEARCH_TOKEN=t", "t" },
};

START_TEST(a_token_in_the_environment_has_priority_over_the_launchers)
{
    struct place place = place_in(tokens[_i].pairs);
    char expected[PLACE_TOKEN_BYTES] = {
        0
    }; /* the rest of the array is zero, because the whole array is compared */
    strcpy(expected, tokens[_i].token);
    ck_assert_mem_eq(place.token, expected, sizeof expected);
}
END_TEST

/* The values at the bounds of each variable are accepted. */
#define HOST LONGEST LONGEST LONGEST LONGEST "abc" /* length 255 */
START_TEST(values_at_the_bounds_are_accepted)
{
    struct place place = place_in("RANK=3 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 LOCAL_RANK=0 "
                                  "MASTER_ADDR=a MASTER_PORT=65534");
    ck_assert_int_eq(place.meeting_port, 65534);
    ck_assert_int_eq(place.local_size, 2);
    ck_assert_int_eq(place.local_rank, 0);
    place = place_in("RANK=3 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1");
    ck_assert_int_eq(place.meeting_port, 1);
    ck_assert_int_eq(place.local_rank, 1);
    place = place_in("SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_JOB_ID=0 "
                     "SLURM_LOCALID=0");
    ck_assert_int_eq(place.size, 1);
    ck_assert_int_eq(place.local_rank, 0);
    ck_assert_str_eq(place.meeting_host, "localhost");
    ck_assert_int_eq(place.meeting_port, 20000);
    ck_assert_str_eq(place.token, "srun 0.0");
    place = place_in("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 "
                     "OMPI_COMM_WORLD_LOCAL_SIZE=1");
    ck_assert_int_eq(place.size, 1);
    ck_assert_int_eq(place.local_size, 1);
    place = place_in("SIMSEARCH_RANK=0 SIMSEARCH_RANKS=1 SIMSEARCH_MEETING=" HOST ":1 "
                     "SIMSEARCH_MEETING_FD=0");
    ck_assert_str_eq(place.meeting_host, HOST);
    ck_assert_int_eq(place.meeting_port, 1);
    ck_assert_int_eq(place.meeting_fd, 0);
}
END_TEST

static const struct {
    const char *pairs, *where, *msg; /* NULL: any */
} faults[] = {
    { SRUN "SIMSEARCH_TOKEN=", "SIMSEARCH_TOKEN", "expected 1 to 63 characters; found 0" },
    { SRUN "SIMSEARCH_TOKEN=" LONGEST "f", "SIMSEARCH_TOKEN",
      "expected 1 to 63 characters; found 64" },
    { "SIMSEARCH_RANK=0 SIMSEARCH_RANKS=4 SIMSEARCH_MEETING=" HOST "d:1", "SIMSEARCH_MEETING",
      NULL },
    { "SIMSEARCH_RANK=0 SIMSEARCH_RANKS=0 SIMSEARCH_MEETING=a:1", "SIMSEARCH_RANKS",
      "expected a whole number from 1 to 2147483647; found \"0\"" },
    { "SIMSEARCH_RANK=-1 SIMSEARCH_RANKS=4 SIMSEARCH_MEETING=a:1", "SIMSEARCH_RANK",
      "expected a whole number from 0 to 3; found \"-1\"" },
    { "RANK=-1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1", "RANK", NULL },
    { "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=0", "MASTER_PORT",
      "expected a whole number from 1 to 65534; found \"0\"" },
    { "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK", NULL },
    { "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=-1",
      "OMPI_COMM_WORLD_LOCAL_RANK", NULL },
    { "SLURM_STEP_ID=5 SLURM_PROCID=-1 SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID", NULL },
    { SRUN "SLURM_JOB_ID=-1", "SLURM_JOB_ID", NULL },
    { "SLURM_STEP_ID=-1 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_ID", NULL },
    { "SIMSEARCH_RANK=4 SIMSEARCH_RANKS=4 SIMSEARCH_MEETING=a:1", "SIMSEARCH_RANK", NULL },
    { "SIMSEARCH_RANK=x SIMSEARCH_RANKS=4 SIMSEARCH_MEETING=a:1", "SIMSEARCH_RANK", NULL },
    { "SIMSEARCH_RANK=0 SIMSEARCH_RANKS=4 SIMSEARCH_MEETING=a", "SIMSEARCH_MEETING", NULL },
    { "SIMSEARCH_RANK=0 SIMSEARCH_RANKS=4 SIMSEARCH_MEETING=:1", "SIMSEARCH_MEETING", NULL },
    { "SIMSEARCH_RANK=0 SIMSEARCH_RANKS=4 SIMSEARCH_MEETING=a:0", "SIMSEARCH_MEETING", NULL },
    { "SIMSEARCH_RANK=0 SIMSEARCH_RANKS=4", "SIMSEARCH_MEETING", NULL },
    { "SIMSEARCH_RANK=0 SIMSEARCH_MEETING=a:1", "SIMSEARCH_RANKS", NULL },
    { "SIMSEARCH_RANK=0 SIMSEARCH_RANKS=4 SIMSEARCH_MEETING=a:1 SIMSEARCH_MEETING_FD=-1",
      "SIMSEARCH_MEETING_FD", NULL },
    { "SIMSEARCH_RANK= SIMSEARCH_RANKS=4 SIMSEARCH_MEETING=a:1", "SIMSEARCH_RANK", NULL },
    { "SIMSEARCH_RANK=1x SIMSEARCH_RANKS=4 SIMSEARCH_MEETING=a:1", "SIMSEARCH_RANK", NULL },
    { "SIMSEARCH_RANK=0 SIMSEARCH_RANKS=99999999999999999999 SIMSEARCH_MEETING=a:1",
      "SIMSEARCH_RANKS", NULL },
    { "RANK=0 WORLD_SIZE=0 MASTER_ADDR=a MASTER_PORT=1", "WORLD_SIZE", NULL },
    { "OMPI_COMM_WORLD_RANK=-1 OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK", NULL },
    { "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=0", "OMPI_COMM_WORLD_SIZE", NULL },
    { "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=x",
      "OMPI_COMM_WORLD_LOCAL_RANK", NULL },
    { "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=0",
      "OMPI_COMM_WORLD_LOCAL_SIZE", NULL },
    { TORCHRUN "LOCAL_WORLD_SIZE=0", "LOCAL_WORLD_SIZE", NULL },
    { TORCHRUN "LOCAL_RANK=-1", "LOCAL_RANK", NULL },
    { "RANK=2 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1", "RANK", NULL },
    { "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=65535", "MASTER_PORT", NULL },
    { "SLURM_STEP_ID=5 SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID", NULL },
    { "SLURM_STEP_ID=5 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=0", "SLURM_STEP_NUM_TASKS", NULL },
    { SRUN "SLURM_LOCALID=-1", "SLURM_LOCALID", NULL },
    { "SLURM_STEP_ID=5 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=x", "SLURM_JOB_ID",
      NULL },
    { "SLURM_STEP_ID=x SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_ID", NULL },
    { "WORLD_SIZE=2 RANK=1 MASTER_PORT=2000 MASTER_ADDR=", "MASTER_ADDR", NULL },
};

START_TEST(an_invalid_environment_variable_is_named)
{
    struct place place;
    struct err err = { 0 };
    set_environment(faults[_i].pairs);
    ck_assert(!place_of_environment(&place, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, faults[_i].where);
    if (faults[_i].msg)
        ck_assert_str_eq(err.msg, faults[_i].msg);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("place");
    tcase_add_test(tc, without_a_launcher_there_is_one_rank);
    tcase_add_test(tc, a_shell_in_a_slurm_job_counts_as_one_rank);
    tcase_add_test(tc, simsearchs_launcher_sets_meeting_address_and_token);
    tcase_add_test(tc, mpirun_sets_ranks_but_no_meeting_address);
    tcase_add_test(tc, the_meeting_port_differs_from_that_of_torchruns_store);
    tcase_add_test(tc, ranks_of_srun_and_torchrun_read_their_local_rank);
    tcase_add_test(tc, sruns_ranks_meet_on_the_first_node);
    tcase_add_test(tc, successive_jobs_and_steps_use_different_ports);
    tcase_add_loop_test(tc, a_token_in_the_environment_has_priority_over_the_launchers, 0,
                        LENGTH(tokens));
    tcase_add_test(tc, values_at_the_bounds_are_accepted);
    tcase_add_loop_test(tc, an_invalid_environment_variable_is_named, 0, LENGTH(faults));
    Suite *s = suite_create("exec/comm/place");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
