/* sim/plan/holding.h - which parts of the model a pipeline chunk or stage holds.
 *
 * sim/schedule/placement says where chunks are, and which has the embedding and the head. A chunk's
 * costs follow from its number of blocks of each kind; the total is enough only when the model has
 * one kind. */
#ifndef SIM_PLAN_HOLDING_H
#define SIM_PLAN_HOLDING_H

#include "sim/plan/plan.h"

/* The pieces of a chunk: blocks, by kind, the model's two ends, and with the head the modules that
 * predict later tokens: their blocks, and the two ends once more for each of them. */
enum { PIECE_EMBEDDING = MAX_BLOCK_KINDS, PIECE_HEAD, PIECE_LATER, PIECE_LATER_ENDS, NUM_PIECES };

struct holding {
    int count[NUM_PIECES];           /* number of each piece: layers per kind, the embedding ... */
    int recomputed[MAX_BLOCK_KINDS]; /* layers per kind that the backward recomputes in full */
    int layers;                      /* of all kinds */
    int first_kind;                  /* kind of the first layer of the (stage's first) chunk */
};

static inline bool piece_is_layer(int piece)
{
    return piece < MAX_BLOCK_KINDS;
}

/* Whether the backward recomputes a module that predicts later tokens in full, but for its
 * embedding and its head; where some first blocks of a chunk are recomputed, it is not (Megatron
 * Core, transformer/multi_token_prediction.py, _checkpointed_forward). */
bool plan_recomputes_later(const struct plan *plan);

struct holding chunk_holding(const struct plan *plan, const struct model *model, int chunk);
/* The holding of all chunks of a stage. */
struct holding stage_holding(const struct plan *plan, const struct model *model, int stage);
/* The holding of the whole model. */
struct holding model_holding(const struct plan *plan, const struct model *model);

/* Number of layers in the chunks before this one. */
int chunk_first_layer(const struct plan *plan, const struct model *model, int chunk);
/* Whether a chunk holds and recomputes the same as the one before, so that its passes cost the
 * same. */
bool chunk_is_as_before(const struct plan *plan, const struct model *model, int chunk);
/* Whether all chunks of a stage hold and recompute the same as those of the stage before. Always
 * false for uneven plans, and where either stage has the embedding or the head. */
bool stage_is_as_before(const struct plan *plan, const struct model *model, int stage);

#endif
