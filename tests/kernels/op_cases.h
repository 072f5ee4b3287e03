/* tests/kernels/op_cases.h - every op of kernels/host/args.h on awkward shapes and fresh random
 * inputs: a backend's results compared with the host's. The host computes each case twice: in fp32
 * from the same inputs, and in the storage type. The backend's root mean square error may be
 * slightly above 1.5 times that of the host's stored result. No row's error may exceed a few
 * roundings of its largest value plus twice the host's largest error, so that a missing row is
 * detected. Outputs are NaN beforehand, and a second run must give the same bits. */
#ifndef TESTS_KERNELS_OP_CASES_H
#define TESTS_KERNELS_OP_CASES_H

#include "base/err.h"
#include "models/op.h"
#include "tests/kernels/op_backend.h"

#include <stdbool.h>
#include <stdint.h>

/* Every case in every type that values are stored as, one type after another. */
int op_case_count(void);
enum dtype op_case_storage(int index);
/* True in one of the types for each case: another for the next case and the next seed. */
bool op_case_is_drawn(int index, uint64_t seed);
const char *op_case_name(int index); /* the op's; several cases have one */

/* `self` runs values that are stored as the case wants it. Ends the test at the first difference,
 * with the seed of the inputs: SEED=n in the environment brings it back. */
void op_case_check(int index, const struct op_backend *backend);

/* As op_case_check, but returns false where that ends the test. */
bool op_case_holds(int index, const struct op_backend *backend, struct err *err);

/* Runs the case once, and compares nothing. */
void op_case_run(int index, const struct op_backend *backend);

#endif
