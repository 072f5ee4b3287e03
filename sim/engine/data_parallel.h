/* sim/engine/data_parallel.h - what gradients and parameters cost on the data-parallel wires, and
 * how much of it compute can't hide. */
#ifndef SIM_ENGINE_DATA_PARALLEL_H
#define SIM_ENGINE_DATA_PARALLEL_H

#include "sim/cost/hardware.h"
#include "sim/cost/network.h"
#include "sim/cost/piece.h"

/* A compute block and a transfer side by side, each slowing the other down while both run. */
double overlapped_s(const struct profile *profile, double compute_s, double comm_s);

/* What a transfer in `pieces` equal buckets adds to the `window_s` of compute that makes the
 * buckets ready one by one (reductions), or uses them one by one (gathers). */
double exposed_s(const struct profile *profile, double comm_s, double window_s, double pieces);

/* Seconds on the wires of one rank's parameters. */
struct data_comm {
    double reduce_s; /* gradients: all-reduce, or reduce-scatter when they are sharded */
    double gather_s; /* parameters: all-gather after a sharded optimizer, or before use (ZeRO-3) */
};
struct data_comm data_comm(const struct stack *stack, const struct plan *plan,
                           const struct data_groups *groups, double parameters);

/* Copies out of a gather's buffer, and into a reduction's, of a stack that shards each parameter by
 * itself (`shard_copies`); else nothing. */
struct data_comm shard_copies(const struct system *system, const struct plan *plan,
                              double parameters);

/* How often a step gathers each weight. */
double weight_gathers(const struct stack *stack, const struct plan *plan, int num_microbatches);

/* The bytes of an element of a weight as it is gathered. Embedding and head travel in bf16 even
 * where layers' weights are kept quantised; they count as layers here. */
double gathered_weight_bytes(const struct stack *stack, const struct plan *plan);

/* Quantising weights: once a step, as they are kept for all its microbatches, or with ZeRO-3
 * after each gather. Where the optimizer writes them quantised, the second copy alone. */
double quantize_weights_s(const struct system *system, const struct plan *plan,
                          double layer_parameters, int num_microbatches);

/* One fused pass over the optimizer's state, and the gradient norm before it, which is all when the
 * state is in host memory. */
double optimizer_s(const struct system *system, const struct model *model, const struct plan *plan,
                   double parameters);

#endif
