/* The time that a step loses because packed documents give ranks unequal attention work. */
#include "sim/cost/packing.h"

#include "models/blocks.h"
#include "sim/engine/evaluation.h"

/* The number of context ranks between which packed documents cause unequal work; 1 if the work is
 * equal. If keys are sent around a ring, every document is divided equally over the ranks; if heads
 * are exchanged, no document is divided (Transformer Engine, context parallelism of packed
 * sequences). If keys are gathered, tokens are divided by their place in the sequence (Llama 3
 * paper, section 3.3.2), so ranks get unequal work. */
static int ranks_by_place(const struct plan *plan)
{
    return plan->context_comm == CONTEXT_COMM_ALL_GATHER ? plan->cp : 1;
}

/* Attention time of one microbatch, forward and backward, on a stage with an equal share of the
 * layers. */
static double attention_s(const struct evaluation *w)
{
    int counts[MAX_BLOCK_KINDS];
    bool runs_again = w->plan->recompute == RECOMPUTE_FULL || w->plan->recompute == RECOMPUTE_EVERY;
    double sum_s = 0;
    model_count_kinds(w->model, 0, w->model->layers, counts);
    for (int kind = 0; kind < w->pieces->num_kinds; kind++) {
        const struct piece_cost *piece = &w->pieces->at[kind];
        sum_s += counts[kind] *
                 ((1 + runs_again) * piece->forward.attention_s + piece->backward.attention_s +
                  piece->weight.attention_s + piece->replay.attention_s);
    }
    return w->slowdown * sum_s / w->plan->pp;
}

double evaluation_packing_s(const struct evaluation *w)
{
    if (w->model->documents.mean <= 0)
        return 0;
    struct packing packing = { .sequences = w->plan->microbatch,
                               .microbatches = w->num_microbatches,
                               .data_ranks = w->plan->dp,
                               .fill = (w->plan->pp - 1.0) / w->plan->vpp,
                               .context_ranks = ranks_by_place(w->plan) };
    return attention_s(w) * packing_wait(w->model, &packing);
}
