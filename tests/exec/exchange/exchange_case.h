/* tests/exec/exchange/exchange_case.h - runs a gradient exchange on several ranks, with test values
 * that every rank can compute for every other rank.
 */
#ifndef TESTS_EXEC_EXCHANGE_EXCHANGE_CASE_H
#define TESTS_EXEC_EXCHANGE_EXCHANGE_CASE_H

#include "tests/exec/exchange/exchange_side.h"

/* The parameters that all ranks of a case share. */
struct exchange_case {
    const char *word; /* exchange word of a layout */
    int size, per_node;
    const struct exchange_tensor *tensors; /* NULL: case_tensors */
    int num_tensors;
    bool (*check)(struct exchange_side *side, const struct exchange_case *of);
    uint64_t seed;
};

/* Runs the case. A failed check on any rank fails the test. */
void exchange_case_run(const struct comm_api *api, struct exchange_case of);

/* The tensors are a matrix, a vector and two equal matrices, with 24 x 20 + 12 + 2 (12 x 16) = 876
 * elements in all. */
enum { NUM_TENSORS = 3, ALL_ELEMENTS = 24 * 20 + 12 + 2 * 12 * 16 };
extern const struct exchange_tensor case_tensors[NUM_TENSORS];

/* The test value of one rank, and the sum of the test values over all ranks. Values are small whole
 * numbers, so sums are exact. */
float exchange_case_value(const struct exchange_case *of, int rank, int step, size_t i);
float exchange_case_sum(const struct exchange_case *of, int step, size_t i);
/* Fills an array with this rank's values. */
void exchange_case_fill(const struct exchange_side *side, const struct exchange_case *of, int step,
                        float *at);

/* Runs the exchange on the gradients; false when it failed. */
bool exchange_case_sum_step(struct exchange_side *side, int step);

#endif
