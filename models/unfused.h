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
    UNFUSED_EXPERT_BIAS,       /* of the experts' first product */
    UNFUSED_EXPERT_SHARE_BIAS, /* of their second product, times the row's share */
    NUM_UNFUSED_OPS
};

/* Cost of an op that runs as several kernels, forward and backward, per value of the op. `values`:
 * values of the list's type that its kernels read and write. `bytes`: bytes of wider types that
 * they read and write. `kernels`: number of launches, per op. kept_values and kept_bytes: values
 * and bytes that autograd keeps for the backward in addition to those of one fused kernel. For
 * rotary, the values are those of queries and keys together. */
struct unfused {
    double values, bytes, kernels;
    double backward_values, backward_bytes, backward_kernels;
    double kept_values, kept_bytes;
};
struct unfused_ops {
    struct unfused of[NUM_UNFUSED_OPS];
};

#endif
