/* tests/exec/mpirun.h - lets a test program start itself again as the ranks of an MPI job.
 */
#ifndef TESTS_EXEC_MPIRUN_H
#define TESTS_EXEC_MPIRUN_H

#include "tests/exec/parity.h"
#include "tests/testing.h"

/* Returns false and prints a message if the MPI plugin or mpirun is not installed. */
bool mpirun_is_here(void);

/* Runs this program as `num_ranks` ranks, also if the user is root or the machine has fewer cores.
 * Fails the test unless all ranks exit with 0. */
void mpirun_self(int num_ranks);

bool mpirun_is_rank(void); /* whether this process is a rank of such a job */

/* The main function of a test that starts itself. It runs the suite or, on a rank of the job, only
 * the rank's tests in this process; the rank's communicator is opened into *process. Returns the
 * exit status. */
int mpirun_main(struct parity_process *process, Suite *(*suite)(void),
                void (*add_rank_tests)(TCase *cases));

#endif
