/* tests/kernels/op_cases.h - compares a backend's results with the host's, for every op of
 * kernels/host/args.h on unusual shapes and random inputs. The host computes each case twice: in
 * fp32 from the same inputs, and in the storage type. The backend's root mean square error may be
 * slightly above 1.5 times that of the host's stored result. No row's error may exceed a few
 * roundings of its largest value plus twice the host's largest error, so that a missing row is
 * detected. Outputs are set to NaN first, and a second run must give the same bits. */
#ifndef TESTS_KERNELS_OP_CASES_H
#define TESTS_KERNELS_OP_CASES_H

#include "base/err.h"
#include "models/op.h"
#include "tests/kernels/op_backend.h"

#include <stdbool.h>
#include <stdint.h>

/* Number of cases, over all storage types. The cases of one type follow those of another. */
int op_case_count(void);
enum dtype op_case_storage(int index);
/* Whether this is the one storage type in which its case is sampled; the seed decides which type
 * that is. */
bool op_case_is_drawn(int index, uint64_t seed);
const char *op_case_name(int index); /* name of the op; several cases may have the same */

/* Checks a case. The backend must have the case's storage type. Ends the test at the first
 * difference and prints the seed of the inputs; SEED=n in the environment repeats it. */
void op_case_check(int index, const struct op_backend *backend);

/* Checks a case as op_case_check does, but returns false on a difference. */
bool op_case_holds(int index, const struct op_backend *backend, struct err *err);

/* Runs the case once without a comparison. */
void op_case_run(int index, const struct op_backend *backend);

#endif
