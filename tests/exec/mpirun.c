#include "tests/exec/mpirun.h"

#include "exec/comm/place.h"
#include "exec/plugin/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool mpirun_is_here(void)
{
    struct err err = { 0 };
    bool is_here = comm_find("mpi", &err) != NULL;
    if (is_here && system("command -v mpirun >/dev/null") != 0)
        is_here = err_set(&err, ERR_UNAVAILABLE, "mpi",
                          "mpirun is not installed; its package is openmpi-bin");
    if (!is_here)
        printf("MPI is not tested: %s\n", err.msg);
    return is_here;
}

void mpirun_self(int num_ranks)
{
    char command[5000], self[4000];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    ck_assert_int_gt(length, 0);
    self[length] = '\0';
    snprintf(command, sizeof command,
             "mpirun --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 -n %d '%s'",
             num_ranks, self);
    fflush(stdout);
    ck_assert_int_eq(system(command), 0);
}

bool mpirun_is_rank(void)
{
    return getenv("OMPI_COMM_WORLD_RANK") != NULL;
}

static bool open_process(struct parity_process *process, struct err *err)
{
    struct place place;
    struct comm_options options = { .place = &place, .device = &device_host };
    process->api = comm_find("mpi", err);
    if (!process->api || !place_of_environment(&place, err))
        return false;
    process->rank = place.rank;
    process->size = place.size;
    process->comm = process->api->open(&options, err);
    return process->comm != NULL;
}

/* After a failure other ranks may wait for this rank. So this rank ends without closing its
 * communicator, and mpirun ends the other ranks. */
static int be_rank(struct parity_process *process, Suite *suite)
{
    struct err err = { 0 };
    if (!open_process(process, &err)) {
        printf("%s: %s\n", err.where, err.msg);
        return EXIT_FAILURE;
    }
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    bool failed = srunner_ntests_failed(runner) > 0;
    if (failed)
        srunner_print(runner, CK_NORMAL);
    else
        process->api->close(process->comm);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int mpirun_main(struct parity_process *process, Suite *(*suite)(void),
                void (*add_rank_tests)(TCase *cases))
{
    if (!mpirun_is_rank())
        return run_suite(suite());
    Suite *of_rank = suite_create("over MPI");
    TCase *cases = tcase_create("over MPI");
    add_rank_tests(cases);
    suite_add_tcase(of_rank, cases);
    return be_rank(process, of_rank);
}
