/* sim/engine/pieces_memo.h - the costs of a model's pieces, computed once for all plans that share
 * them. */
#ifndef SIM_ENGINE_PIECES_MEMO_H
#define SIM_ENGINE_PIECES_MEMO_H

#include "base/arena.h"
#include "sim/cost/piece.h"
#include "sim/schedule/schedule.h"

enum { PIECES_BUCKET_BITS = 12, NUM_PIECES_BUCKETS = 1 << PIECES_BUCKET_BITS };

/* Costs of the pieces of one system and model. Zero-initialise. */
struct pieces_memo {
    struct arena places;                              /* holds what is in `placed` */
    struct arena arena;                               /* holds the pieces */
    struct placed_pieces *placed[NUM_PIECES_BUCKETS]; /* by question and placement */
    struct wired_pieces *wired[NUM_PIECES_BUCKETS];   /* by question alone, for any placement */
    struct placed_pieces *last; /* the last answer, which the next plan often needs again */
};

/* Valid until the memo is released. */
const struct pieces *pieces_memo_find(struct pieces_memo *memo, const struct system *system,
                                      const struct model *model, const struct plan *plan,
                                      const struct generator *generator);
/* Call before plans on another number of GPUs, whose placement differs. */
void pieces_memo_forget_places(struct pieces_memo *memo);
void pieces_memo_release(struct pieces_memo *memo);

#endif
