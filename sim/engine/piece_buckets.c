/* The executor's reductions of whole gradients during a step's last backward. Gradients are reduced
 * piece by piece; a piece is a layer, the embedding or the head. */
#include "base/length.h"
#include "models/blocks.h"
#include "sim/cost/runtime.h"
#include "sim/engine/data_parallel.h"
#include "sim/engine/evaluation.h"
#include "sim/plan/state_share.h"

bool evaluation_reduces_pieces(const struct evaluation *w)
{
    const struct stack *stack = &w->system->stack;
    return stack_runtime(stack)->reduces_pieces && plan_reduces_pieces(w->plan) &&
           plan_overlaps(w->plan, stack, OVERLAP_GRAD);
}

/* The pieces of a plan with one stage, in the order of the backward. */
struct backward_pieces {
    struct holding held;
    int recomputed; /* number of first layers that are recomputed in full */
    int count;
};

static struct backward_pieces backward_pieces_of(const struct evaluation *w)
{
    struct backward_pieces of = { .held = chunk_holding(w->plan, w->model, 0) };
    of.recomputed = plan_recomputed_layers(w->plan, 0, of.held.layers);
    for (int piece = 0; piece < NUM_PIECES; piece++)
        of.count += of.held.count[piece];
    return of;
}

/* The kind of piece i. The head and the modules for later tokens come first, then the layers from
 * the last to the first, then the embedding. `layer` becomes the number of layers before the piece.
 */
static int piece_at(const struct evaluation *w, const struct backward_pieces *of, int i, int *layer)
{
    static const int ends[] = { PIECE_HEAD, PIECE_LATER_HEAD, PIECE_LATER, PIECE_LATER_EMBEDDING };
    *layer = of->held.layers;
    for (int e = 0; e < LENGTH(ends); i -= of->held.count[ends[e++]])
        if (i < of->held.count[ends[e]])
            return ends[e];
    *layer -= i + 1;
    return i < of->held.layers ? model_kind_of(w->model, *layer) : PIECE_EMBEDDING;
}

/* Time of the lists that a piece runs in the pass that computes weight gradients, including the
 * piece's recompute. */
static double lists_s(const struct evaluation *w, const struct backward_pieces *of, int i)
{
    int layer, piece = piece_at(w, of, i, &layer);
    const struct piece_cost *cost = &w->pieces->at[piece];
    if (generator_splits(w->generator))
        return cost->weight.total_s;
    if (w->plan->recompute == RECOMPUTE_SELECTIVE)
        return cost->backward.total_s + cost->replay.total_s;
    bool is_again = piece_is_layer(piece) && layer < of->recomputed;
    return cost->backward.total_s + (is_again ? cost->again.total_s : 0);
}

double evaluation_piece_buckets_s(const struct evaluation *w, double window_s)
{
    struct backward_pieces of = backward_pieces_of(w);
    double comm_s[NUM_PIECES], all_s = 0;
    for (int piece = 0; piece < NUM_PIECES; piece++) {
        struct stage_weights trained = w->pieces->at[piece].trained;
        comm_s[piece] = trained.all > 0 ? evaluation_data_comm(w, trained).reduce_s : 0;
    }
    for (int i = 0; i < of.count; i++)
        all_s += lists_s(w, &of, i);
    struct bucket_lane lane = { .profile = &w->system->profile };
    for (int i = 0; i < of.count; i++) {
        int layer, piece = piece_at(w, &of, i, &layer);
        bucket_lane_add(&lane, window_s * lists_s(w, &of, i) / all_s, comm_s[piece]);
    }
    return bucket_lane_exposed_s(&lane);
}
