/* sim/plan/holding.h - which parts of the model a chunk of the pipeline holds, and a stage.
 *
 * Where chunks are, and which has the embedding and the head, is sim/schedule/placement's. What
 * holds of a chunk follows from the blocks in it, of each kind so many; how many blocks there are
 * in all says it only where all are of one kind. */
#ifndef SIM_PLAN_HOLDING_H
#define SIM_PLAN_HOLDING_H

#include "sim/plan/plan.h"

/* What a chunk is made of: blocks, by their kind, and the model's two ends. */
enum { PIECE_EMBEDDING = MAX_BLOCK_KINDS, PIECE_HEAD, NUM_PIECES };

struct holding {
    int count[NUM_PIECES]; /* of each piece: layers of each kind, the embedding, the head */
    int recomputed[MAX_BLOCK_KINDS]; /* of the layers, those that the backward recomputes in full */
    int layers;                      /* of all kinds */
    int first_kind;                  /* that of the first layer of the (stage's first) chunk */
};

static inline bool piece_is_layer(int piece)
{
    return piece < MAX_BLOCK_KINDS;
}

struct holding chunk_holding(const struct plan *plan, const struct model *model, int chunk);
/* The same for all chunks of a stage. */
struct holding stage_holding(const struct plan *plan, const struct model *model, int stage);
/* The same for the whole model. */
struct holding model_holding(const struct plan *plan, const struct model *model);

/* The layers of the model that are in chunks before. */
int chunk_first_layer(const struct plan *plan, const struct model *model, int chunk);
/* Whether a chunk holds what the one before does and recomputes as much: its passes cost the same.
 */
bool chunk_is_as_before(const struct plan *plan, const struct model *model, int chunk);
/* The same of a stage and all its chunks. Only said of even plans. */
bool stage_is_as_before(const struct plan *plan, const struct model *model, int stage);

#endif
