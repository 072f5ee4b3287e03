/* models/unfused.h - what an op costs that a framework does in several kernels. */
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

/* All that the kernels read and write for one value of the op: values of the list's type, and bytes
 * of what is wider. Rotary's kernels are those of queries and keys together. */
struct unfused {
    double values, bytes, kernels;
    double backward_values, backward_bytes, backward_kernels;
};
struct unfused_ops {
    struct unfused of[NUM_UNFUSED_OPS];
};

#endif
