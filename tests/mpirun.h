/* tests/mpirun.h - a test program as the ranks of an MPI job: it starts itself again under mpirun.
 */
#ifndef TESTS_MPIRUN_H
#define TESTS_MPIRUN_H

#include "tests/parity.h"
#include "tests/testing.h"

/* Where the plugin or mpirun is not installed, says so. */
bool mpirun_is_here(void);

/* Runs this program as so many ranks, as root too and on fewer cores; fails the test unless all
 * exit with 0. */
void mpirun_self(int num_ranks);

bool mpirun_is_rank(void); /* whether this process is one */

/* The main of such a rank: opens its communicator into *process, runs the suite's tests in this
 * process and tells of those that fail. Exit status. */
int mpirun_rank(struct parity_process *process, Suite *suite);

#endif
