/* sim/cost/timed_op.h - one op of a list whose time is computed (sim/cost/list_cost.h). */
#ifndef SIM_COST_TIMED_OP_H
#define SIM_COST_TIMED_OP_H

#include "models/op.h"

/* The properties of an op on which its list's time depends. */
struct timed_op {
    double alone_s; /* its time when it runs alone and its ranks begin together */
    double kernels, flops;
    enum op_stream stream;
    int after;     /* as in struct op */
    int num_ranks; /* ranks of a collective's group; 0: not a collective */
    enum op_kind kind;
    enum op_pass pass;
    struct ids in; /* values that it reads, with those of `sum` */
    short sum[MAX_SUMS];
    short made; /* its first output; NO_ID: none */
    enum op_region region, source_region;
};

#endif
