/* sim/engine/data_parallel.h - the data-parallel communication of gradients and parameters, and how
 * much of it is exposed. */
#ifndef SIM_ENGINE_DATA_PARALLEL_H
#define SIM_ENGINE_DATA_PARALLEL_H

#include "sim/cost/group_links.h"
#include "sim/cost/hardware.h"
#include "sim/cost/piece.h"

/* Time until both compute and a transfer are done, if each slows the other while both run. */
double overlapped_s(const struct profile *profile, double compute_s, double comm_s);

/* The exposed time of a transfer in `pieces` equal buckets that overlaps `window_s` of compute,
 * which produces the buckets one by one (reductions) or consumes them one by one (gathers). */
double exposed_s(const struct profile *profile, double comm_s, double window_s, double pieces);

/* Buckets of unequal sizes that follow each other on one lane. bucket_lane_add: compute runs for
 * `compute_s`; then a bucket is ready, whose transfer alone takes `comm_s`. bucket_lane_exposed_s
 * is the exposed time of all transfers. */
struct bucket_lane {
    const struct profile *profile;
    double ready_s, done_s, comm_s;
};
void bucket_lane_add(struct bucket_lane *lane, double compute_s, double comm_s);
double bucket_lane_exposed_s(const struct bucket_lane *lane);

/* Seconds to communicate one rank's gradients and parameters. */
struct data_comm {
    double reduce_s; /* gradients: all-reduce, or reduce-scatter if they are sharded */
    double gather_s; /* parameters: all-gather after a sharded optimizer, or before use (ZeRO-3) */
};
struct data_comm data_comm(const struct stack *stack, const struct plan *plan,
                           const struct data_groups *groups, double parameters);

/* Seconds of this communication if each of `tensors` weight tensors belongs whole to one rank of
 * the shard's group, as in InternEvo's HybridZeroOptimizer. Gradients are all-reduced over all data
 * ranks, and each owner broadcasts its tensors in one message. */
struct data_comm whole_tensors_comm(const struct data_groups *groups, double gradient_bytes,
                                    double weight_bytes, double tensors);

/* Time of the copies out of a gather's buffer and into a reduction's buffer, if the stack (training
 * software) shards each parameter by itself (`shard_copies`); else 0. */
struct data_comm shard_copies(const struct system *system, const struct plan *plan,
                              double parameters);

/* Bytes of an element of the gradients that data ranks sum. If the layout leaves both types at
 * fp32, the default, and the stack keeps gradients in the weights' type (`main_gradients`), they
 * are summed in that type. */
double reduced_gradient_bytes(const struct stack *stack, const struct plan *plan);

/* How many times a step gathers each weight. */
double weight_gathers(const struct stack *stack, const struct plan *plan, int num_microbatches);

/* Bytes of a gathered weight element. Stacks gather embedding and head in bf16 even if layers'
 * weights are quantised; here they are counted like layers. */
double gathered_weight_bytes(const struct stack *stack, const struct plan *plan);

/* Seconds to quantise weights: once per step for all microbatches, or with ZeRO-3 after each
 * gather. If the optimizer writes quantised weights, only their transposed copy is made. */
double quantize_weights_s(const struct system *system, const struct plan *plan,
                          double layer_parameters, int num_microbatches);

/* Seconds of the gradient norm and of one fused pass over the optimizer's state; only the norm if
 * the state is in host memory. */
double optimizer_s(const struct system *system, const struct model *model, const struct plan *plan,
                   struct stage_weights weights);
/* The same as optimizer_s, but also valid for plans in which matrices have a separate optimizer
 * (plan_matrices_apart). */
double optimizer_with_matrices_s(const struct system *system, const struct model *model,
                                 const struct plan *plan, struct stage_weights weights,
                                 const struct held_matrices *matrices);

#endif
