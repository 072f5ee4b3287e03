/* tests/exec/mpirun.h - a test program as the ranks of an MPI job: it starts itself again under
 * mpirun.
 */
#ifndef TESTS_EXEC_MPIRUN_H
#define TESTS_EXEC_MPIRUN_H

#include "tests/exec/parity.h"
#include "tests/testing.h"

/* False, with a message, when the plugin or mpirun is not installed. */
bool mpirun_is_here(void);

/* Runs this program as `num_ranks` ranks, even as root and on fewer cores; fails the test unless
 * all exit with 0. */
void mpirun_self(int num_ranks);

bool mpirun_is_rank(void); /* whether this process is one */

/* The main of a test that starts itself: its suite, or on such a rank the rank's tests alone, in
 * this process, whose communicator is opened into *process. Exit status. */
int mpirun_main(struct parity_process *process, Suite *(*suite)(void),
                void (*add_rank_tests)(TCase *cases));

#endif
