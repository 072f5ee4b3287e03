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
/* A lower bound of it for every plan with these tp, cp, ep, etp, pp, dp and zero: state alone, as
 * it would be if all stages held equally much, since the fullest holds no less than the mean. */
double plan_state_floor_bytes(const struct memory_input *input);

/* For a plan that recomputes all layers in full and holds `*bytes`: the K up to which full:K holds
 * less and less, from 1 on; not beyond the first that holds no more than `most_bytes`. `*bytes`
 * becomes what it holds. */
int plan_lean_interval(const struct memory_input *input, double most_bytes, double *bytes);
/* A lower bound of plan_unplaced_bytes for every such K. */
double plan_least_grouped_bytes(const struct memory_input *input);
/* A lower bound of plan_unplaced_bytes, by one stage: also with any such K in place of full. */
double plan_first_stage_bytes(const struct memory_input *input);

/* Parameters of one tensor rank in the layers that a stage, or the whole model, holds. */
double held_layer_parameters(const struct holding *held, const struct pieces *pieces);
/* Parameters in all held pieces, and the experts' part. A tied head counts if it is a copy of its
 * own. */
struct stage_weights held_weights(const struct holding *held, const struct pieces *pieces);
/* The part of them that has gradients. */
struct stage_weights held_trained(const struct holding *held, const struct pieces *pieces);
/* The matrices of the held layers that the optimizer treats apart; else none. */
struct held_matrices held_matrices(const struct plan *plan, const struct holding *held,
                                   const struct pieces *pieces);
/* held_weights of a stage. */
double stage_parameters(const struct model *model, const struct plan *plan,
                        const struct pieces *pieces, int stage);

#endif
