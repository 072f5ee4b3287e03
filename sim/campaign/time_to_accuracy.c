#include "sim/campaign/time_to_accuracy.h"

#include "sim/cost/stage_load.h"

#include <math.h>

/* Bounds of compressors are those of the first stage's tensors. */
struct time_to_accuracy time_to_accuracy(const struct system *system, const struct model *model,
                                         const struct plan *plan, double step_s)
{
    struct arena arena = { 0 };
    struct stage_load first;
    struct pieces pieces = pieces_cost(system, model, plan, &arena);
    fill_stage_load(model, plan, &pieces, 0, 1, &first);
    const struct exchange *exchange = &plan->exchange;
    double all_reduce_steps = ceil(model->tokens / (model->batch * model->seq));
    struct convergence convergence = convergence_published(all_reduce_steps);
    struct time_to_accuracy out = {
        .all_reduce_steps = all_reduce_steps,
        .transient_steps =
            convergence_transient_steps(&convergence, exchange, &first.load, plan->dp),
        .noise_factor = convergence_noise_factor(exchange, &first.load, plan->dp),
        .steps = convergence_steps(&convergence, exchange, &first.load, plan->dp),
    };
    out.seconds = out.steps * step_s;
    arena_release(&arena);
    return out;
}
