/* models/unfused.h - the cost of an op that a framework runs as several kernels. */
#ifndef MODELS_UNFUSED_H
#define MODELS_UNFUSED_H

enum unfused_op {
    UNFUSED_NORM,
    UNFUSED_ROTARY,
    UNFUSED_SOFTMAX,
    UNFUSED_ACTIVATION,
    UNFUSED_GATE,
    UNFUSED_CROSS_ENTROPY,
    NUM_UNFUSED_OPS
};

/* Memory traffic of all of an op's kernels, per value of the op: the number of values of the list's
 * type that move, and the bytes of wider types. Rotary counts queries and keys together.
 * kept_values and kept_bytes: values and bytes that autograd keeps for the backward beyond what one
 * fused kernel would keep. */
struct unfused {
    double values, bytes, kernels;
    double backward_values, backward_bytes, backward_kernels;
    double kept_values, kept_bytes;
};
struct unfused_ops {
    struct unfused of[NUM_UNFUSED_OPS];
};

#endif
