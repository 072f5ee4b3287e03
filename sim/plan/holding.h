/* sim/plan/holding.h - which parts of the model a pipeline chunk or stage holds.
 *
 * sim/schedule/placement assigns chunks to stages and says which chunk has the embedding and the
 * head. A chunk's costs depend on its number of blocks of each kind. */
#ifndef SIM_PLAN_HOLDING_H
#define SIM_PLAN_HOLDING_H

#include "sim/plan/plan.h"

/* The pieces of a chunk: blocks by kind, the embedding, the head, and modules that predict later
 * tokens (multi-token prediction). PIECE_LATER counts the blocks of these modules. The last two
 * pieces count their embeddings, which are in the same chunk, and their heads, which are in the
 * head's chunk. */
enum {
    PIECE_EMBEDDING = MAX_BLOCK_KINDS,
    PIECE_HEAD,
    PIECE_LATER,
    PIECE_LATER_EMBEDDING,
    PIECE_LATER_HEAD,
    NUM_PIECES
};

struct holding {
    int count[NUM_PIECES];           /* number of each piece: layers per kind, the embedding ... */
    int recomputed[MAX_BLOCK_KINDS]; /* layers per kind that the backward recomputes in full */
    int layers;                      /* number of layers of all kinds */
    /* kind of the first layer of the chunk, or of the stage's first chunk */
    int first_kind;
};

static inline bool piece_is_layer(int piece)
{
    return piece < MAX_BLOCK_KINDS;
}

/* Whether the backward recomputes modules that predict later tokens in full, except their embedding
 * and head. With recompute=block, which recomputes the first blocks of a chunk, it does not
 * (Megatron Core, transformer/multi_token_prediction.py, _checkpointed_forward). */
bool plan_recomputes_later(const struct plan *plan);

struct holding chunk_holding(const struct plan *plan, const struct model *model, int chunk);
/* What all chunks of a stage hold together. */
struct holding stage_holding(const struct plan *plan, const struct model *model, int stage);
/* model_holding and model_counts count the pieces of the whole model; model_counts is faster and
 * leaves `recomputed` 0. */
struct holding model_counts(const struct plan *plan, const struct model *model);
struct holding model_holding(const struct plan *plan, const struct model *model);

/* Number of layers in the chunks before this one. */
int chunk_first_layer(const struct plan *plan, const struct model *model, int chunk);
/* Whether two chunks have layers of the same kinds in the same order and recompute the same number
 * of them; embedding and head are not compared. */
bool chunks_repeat(const struct plan *plan, const struct model *model, int a, int b);
/* Whether a chunk holds and recomputes the same as the chunk before it, so that their passes cost
 * the same. Always false if either has the embedding, the head or modules for later tokens. */
bool chunk_is_as_before(const struct plan *plan, const struct model *model, int chunk);
/* Whether each chunk of a stage holds and recomputes the same as the chunk of the stage before in
 * the same round. Always false for stage 0, and if either stage has the embedding, the head or,
 * apart from the head, modules for later tokens. */
bool stage_is_as_before(const struct plan *plan, const struct model *model, int stage);
/* Like stage_is_as_before, but chunks are compared by chunks_repeat: their layers must have the
 * same kinds in the same order, while the modules that selective recompute repeats are not
 * compared. */
bool stage_repeats(const struct plan *plan, const struct model *model, int stage);

#endif
