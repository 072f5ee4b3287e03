#include "sim/memory/held.h"

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
