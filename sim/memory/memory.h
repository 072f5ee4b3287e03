/* sim/memory/memory.h - bytes that one rank of each pipeline stage holds at its peak.
 *
 * The planning peak is that of the second step, when the optimizer's moments exist: state, the
 * activations of the microbatches in flight, and the largest transient allocation. */
#ifndef SIM_MEMORY_MEMORY_H
#define SIM_MEMORY_MEMORY_H

#include "sim/memory/memory_input.h"

struct stage_memory {
    double weights_bytes;
    double gradients_bytes;
    double optimizer_bytes;   /* all the time */
    double step_bytes;        /* of it during its step alone, when no activations are there */
    double activations_bytes; /* of all chunks in flight, or their checkpoints */
    double logits_bytes;      /* at the loss, for the microbatches whose loss is in flight */
    double recompute_bytes; /* activations of one layer while it is recomputed, and its gradients */
    double buckets_bytes;   /* gathered parameters, reduction buckets, other ranks' keys */
    double library_bytes;   /* workspaces of matrix libraries */
    double allocated_bytes; /* the sum of the above at the peak: what the framework allocates */
    double slack_bytes;     /* reserved by the allocator beyond allocated_bytes */
    double network_bytes;   /* communicators' buffers */
    double context_bytes;   /* context and code of the runtime, pools of captured graphs */
    double total_bytes;     /* reserved, network and context: this must fit the GPU */
};

struct stage_memory stage_memory(const struct memory_input *input, int stage);
/* The same in two steps, for many stages of one plan: first what all stages share, then the
 * rest. */
struct stage_memory common_memory(const struct memory_input *input);
struct stage_memory stage_memory_with(const struct memory_input *input, int stage,
                                      const struct stage_memory *common);
/* The memory of all stages at once, which is cheaper than one by one; room for pp. */
void plan_memory(const struct memory_input *input, struct stage_memory *stages);
/* The largest total_bytes of any stage. */
double plan_peak_bytes(const struct memory_input *input);
/* The same without communicator buffers, the only part that depends on the rank order. */
double plan_unplaced_bytes(const struct memory_input *input);

/* For a plan that recomputes all layers in full and holds `*bytes`: the K up to which full:K holds
 * less and less, from 1 on; not beyond the first that holds no more than `most_bytes`. `*bytes`
 * becomes what it holds. */
int plan_lean_interval(const struct memory_input *input, double most_bytes, double *bytes);
/* A lower bound of plan_unplaced_bytes for every such K. */
double plan_least_grouped_bytes(const struct memory_input *input);

/* Parameters of a stage's rank in its layers, and in all; a tied head counts when it is a copy of
 * its own. */
double stage_layer_parameters(const struct model *model, const struct plan *plan,
                              const struct pieces *pieces, int stage);
/* Of all pieces of a stage: what one rank holds, and the part of it that is of experts. */
struct stage_weights stage_weights(const struct model *model, const struct plan *plan,
                                   const struct pieces *pieces, int stage);
/* The part of them that has gradients. */
struct stage_weights stage_trained(const struct model *model, const struct plan *plan,
                                   const struct pieces *pieces, int stage);
/* Of all layers of a stage, where the optimizer treats matrices apart; else none. */
struct held_matrices stage_matrices(const struct model *model, const struct plan *plan,
                                    const struct pieces *pieces, int stage);
double stage_parameters(const struct model *model, const struct plan *plan,
                        const struct pieces *pieces, int stage);

#endif
