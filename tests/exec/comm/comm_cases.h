/* tests/exec/comm/comm_cases.h - what every communicator must do, against a plain loop. */
#ifndef TESTS_EXEC_COMM_COMM_CASES_H
#define TESTS_EXEC_COMM_COMM_CASES_H

#include "exec/comm/comm.h"

/* One rank's side of `turns` random calls on the world and on random parts of it, several groups at
 * once. All ranks pass the same seed. False, with the first fault printed, when a result is not
 * what the loop gives. */
bool comm_cases_run(const struct comm_api *api, const struct comm_options *options, uint64_t seed,
                    int turns);

#endif
