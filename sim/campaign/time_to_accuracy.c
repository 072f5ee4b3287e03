#include "sim/campaign/time_to_accuracy.h"

#include "sim/cost/exchange.h"
#include "sim/cost/stage_load.h"
#include "sim/exchange/averaging.h"
#include "sim/exchange/robust.h"

#include <math.h>

/* Compressors' bounds are computed for the first stage's tensors. An adaptive period is taken at
 * its mean over the run. */
struct time_to_accuracy time_to_accuracy(const struct convergence *convergence,
                                         const struct system *system, const struct model *model,
                                         const struct plan *plan, double step_s)
{
    struct arena arena = { 0 };
    struct stage_load first;
    struct pieces pieces = pieces_cost(system, model, plan, &arena);
    fill_stage_load(model, plan, &pieces, 0, 1, &first);
    struct exchange_use use = exchange_use_of(&plan->exchange, &first.load, plan->dp);
    if (use.period > 0)
        use.period = 1 / averaging_share(&plan->exchange, model);
    if (exchange_sums_in_groups(&plan->exchange)) {
        struct exchange_ranks ranks = exchange_ranks(system, plan);
        use.group = exchange_group_size(&plan->exchange, &ranks);
    }
    double all_reduce_steps = ceil(model->tokens / (model->batch * model->seq));
    struct steps_outlook outlook = convergence_outlook(convergence, &use, all_reduce_steps);
    struct time_to_accuracy out = {
        .all_reduce_steps = all_reduce_steps,
        .transient_steps = convergence_transient_steps(convergence, &use),
        .noise_factor = convergence_noise_factor(convergence, &use),
        .gradient_error = robust_error(&plan->exchange, plan->dp),
        .basis = outlook.basis,
        .source = outlook.source,
        .steps = outlook.steps,
        .seconds = outlook.steps * step_s,
        .most_steps = outlook.most_steps,
        .most_seconds = outlook.most_steps * step_s,
    };
    arena_release(&arena);
    return out;
}
