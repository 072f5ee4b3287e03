/* The parameters, matrices and activations that a stage holds. */
#include "sim/memory/held.h"

#include <math.h>

double held_layer_parameters(const struct holding *held, const struct pieces *pieces)
{
    double parameters = 0;
    for (int kind = 0; kind < MAX_BLOCK_KINDS; kind++)
        parameters += held->count[kind] * pieces->at[kind].parameters;
    return parameters + held->count[PIECE_LATER] * pieces->at[PIECE_LATER].parameters;
}

struct stage_weights held_weights(const struct holding *held, const struct pieces *pieces)
{
    struct stage_weights weights = { 0 };
    for (int piece = 0; piece < NUM_PIECES; piece++) {
        weights.all += held->count[piece] * pieces->at[piece].parameters;
        weights.experts += held->count[piece] * pieces->at[piece].of_experts;
    }
    return weights;
}

struct stage_weights held_trained(const struct holding *held, const struct pieces *pieces)
{
    struct stage_weights trained = { 0 };
    for (int piece = 0; piece < NUM_PIECES; piece++) {
        trained.all += held->count[piece] * pieces->at[piece].trained.all;
        trained.experts += held->count[piece] * pieces->at[piece].trained.experts;
    }
    return trained;
}

double held_tensors(const struct holding *held, const struct pieces *pieces)
{
    double tensors = 0;
    for (int piece = 0; piece < NUM_PIECES; piece++)
        tensors += held->count[piece] * pieces->at[piece].host_tensors;
    return tensors;
}

struct held_matrices held_matrices(const struct plan *plan, const struct holding *held,
                                   const struct pieces *pieces)
{
    struct held_matrices matrices = { 0 };
    for (int piece = 0; piece < NUM_PIECES && plan_matrices_apart(plan); piece++)
        matrices_add(&matrices, &pieces->at[piece].matrices, held->count[piece]);
    return matrices;
}

double stage_parameters(const struct model *model, const struct plan *plan,
                        const struct pieces *pieces, int stage)
{
    struct holding held = stage_holding(plan, model, stage);
    return held_weights(&held, pieces).all;
}

double kept_layers_bytes(const struct plan *plan, const struct piece_cost *layer, double layers)
{
    double bytes = layers * layer->saved_bytes;
    return plan->recompute == RECOMPUTE_SELECTIVE ? bytes - layers * layer->replayed_bytes : bytes;
}

double held_kept_bytes(const struct plan *plan, const struct holding *held,
                       const struct pieces *pieces)
{
    int every = plan->recompute == RECOMPUTE_EVERY ? plan->recompute_every : 1;
    double bytes = 0;
    int recomputed = 0;
    for (int kind = 0; kind < pieces->num_kinds; kind++) {
        double kept = held->count[kind] - held->recomputed[kind];
        bytes += kept_layers_bytes(plan, &pieces->at[kind], kept);
        recomputed += held->recomputed[kind];
    }
    /* every = 0 represents any K: at least one input is kept */
    double inputs = every == 0 ? recomputed > 0 : ceil((double)recomputed / every);
    return bytes + inputs * pieces->at[0].input_bytes;
}

double held_offload_bytes(const struct plan *plan, const struct holding *held,
                          const struct pieces *pieces)
{
    enum { BUFFERS = 2 };
    double most_bytes = 0;
    for (int kind = 0; kind < pieces->num_kinds; kind++) {
        if (held->count[kind] > held->recomputed[kind])
            most_bytes = fmax(most_bytes, kept_layers_bytes(plan, &pieces->at[kind], 1));
        if (held->recomputed[kind] > 0)
            most_bytes = fmax(most_bytes, pieces->at[0].input_bytes);
    }
    return fmin(held->layers, BUFFERS) * most_bytes;
}
