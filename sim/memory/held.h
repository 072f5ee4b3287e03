/* sim/memory/held.h - the parameters and matrices that a stage holds. */
#ifndef SIM_MEMORY_HELD_H
#define SIM_MEMORY_HELD_H

#include "sim/cost/piece.h"

/* Parameters of one tensor rank in the layers that a stage, or the whole model, holds, including
 * the blocks of modules for later tokens. */
double held_layer_parameters(const struct holding *held, const struct pieces *pieces);
/* Parameters in all held pieces (layers, embedding, head), in total and of experts. A tied head
 * counts only if it is a separate copy. */
struct stage_weights held_weights(const struct holding *held, const struct pieces *pieces);
/* The part of held_weights that has gradients. */
struct stage_weights held_trained(const struct holding *held, const struct pieces *pieces);
/* Number of held tensors with gradients that the software handles one by one. */
double held_tensors(const struct holding *held, const struct pieces *pieces);
/* The matrices of the held layers that have a separate optimizer (plan_matrices_apart), if any. */
struct held_matrices held_matrices(const struct plan *plan, const struct holding *held,
                                   const struct pieces *pieces);
/* Bytes that `layers` layers of a kind keep from forward to backward if they are not recomputed in
 * full. */
double kept_layers_bytes(const struct plan *plan, const struct piece_cost *layer, double layers);
/* Bytes that held layers keep for one microbatch, on the GPU or on the host. A recomputed layer
 * keeps its input (full:K: one input per K layers). */
double held_kept_bytes(const struct plan *plan, const struct holding *held,
                       const struct pieces *pieces);
/* Bytes of activations that stay on the GPU while a chunk's activations are offloaded, for one
 * direction: those of the layer in use and of the layer being copied. Both count as a layer that
 * keeps the most. */
double held_offload_bytes(const struct plan *plan, const struct holding *held,
                          const struct pieces *pieces);
/* held_weights of a stage. */
double stage_parameters(const struct model *model, const struct plan *plan,
                        const struct pieces *pieces, int stage);

#endif
