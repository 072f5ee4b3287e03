/* sim/engine/pieces_memo.h - the costs of a model's pieces (layers, embedding, head), computed once
 * for all plans that share them. */
#ifndef SIM_ENGINE_PIECES_MEMO_H
#define SIM_ENGINE_PIECES_MEMO_H

#include "base/arena.h"
#include "sim/cost/piece.h"
#include "sim/schedule/schedule.h"

enum { PIECES_BUCKET_BITS = 12, NUM_PIECES_BUCKETS = 1 << PIECES_BUCKET_BITS };

/* Costs of the pieces of one system and model. Initialise it with zeros. */
struct pieces_memo {
    struct arena places; /* holds what is in `placed` */
    struct arena arena;  /* holds the pieces */
    /* keyed by the share of a rank (sim/plan/share.h) and the placement of ranks on nodes; it has
     * many more entries than the other tables, so it grows */
    struct placed_pieces **placed;
    unsigned placed_bits; /* `placed` has 1 << placed_bits buckets; 0: none yet */
    size_t num_placed;
    /* keyed by the share of a rank; valid for any placement with the same links */
    struct wired_pieces *wired[NUM_PIECES_BUCKETS];
    /* single pieces: plans with different questions (struct piece_question) often have some equal
     * pieces */
    struct built_piece *built[NUM_PIECES_BUCKETS];
    struct placed_pieces *last; /* the last result, which the next plan often needs again */
};

/* The result is valid until the memo is released. */
const struct pieces *pieces_memo_find(struct pieces_memo *memo, const struct system *system,
                                      const struct model *model, const struct plan *plan,
                                      const struct generator *generator);
/* The bytes that each set of recomputed modules frees, for the pieces that pieces_memo_find
 * returns. */
const struct pieces_sets *pieces_memo_sets(struct pieces_memo *memo, const struct system *system,
                                           const struct model *model, const struct plan *plan,
                                           const struct generator *generator);
/* Must be called when the number of GPUs changes, as the placement then differs. */
void pieces_memo_forget_places(struct pieces_memo *memo);
void pieces_memo_release(struct pieces_memo *memo);

#endif
