/* tests/exec/comm/comm_cases.h - compares the calls of a communicator with a plain loop. */
#ifndef TESTS_EXEC_COMM_COMM_CASES_H
#define TESTS_EXEC_COMM_COMM_CASES_H

#include "exec/comm/comm.h"

/* Makes, as one of several ranks, `turns` random calls on the group of all ranks and on random
 * groups, several groups at once. All ranks pass the same seed. When a result differs from that of
 * the plain loop, prints the difference and returns false. */
bool comm_cases_run(const struct comm_api *api, const struct comm_options *options, uint64_t seed,
                    int turns);

#endif
