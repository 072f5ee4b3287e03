/* tests/sim/listed.h - an op list (sequence of operations) of a forward, written as data: tables of
 * values, weights and ops.
 */
#ifndef TESTS_SIM_LISTED_H
#define TESTS_SIM_LISTED_H

#include "models/layer.h"

struct listed {
    const struct op_value *values;
    const struct op_weight *weights;
    const struct op *ops;
    int num_values, num_weights, num_ops;
    short input, output;
    struct ids aside;
};

/* { .in = IDS(X, SHARES) } */
#define IDS(...)                                          \
    {                                                     \
        sizeof((short[]){ __VA_ARGS__ }) / sizeof(short), \
        {                                                 \
            __VA_ARGS__                                   \
        }                                                 \
    }
#define LISTED(of_values, of_weights, of_ops)                                        \
    .values = (of_values), .num_values = LENGTH(of_values), .weights = (of_weights), \
    .num_weights = LENGTH(of_weights), .ops = (of_ops), .num_ops = LENGTH(of_ops)

/* The ops in fp32, run in sequence. FLOPs of products and least traffic follow from the operands,
 * so the tables do not have them. */
struct ops listed_ops(const struct listed *listed, struct arena *arena);

#endif
