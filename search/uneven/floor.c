/* Lower bounds of the step times of all divisions of a plan's layers over its 1F1B stages. */
#include "search/uneven/lattice.h"

#include "models/blocks.h"
#include "search/uneven/deal.h"

#include <math.h>

/* Lower bounds of a stage's times with this number of layers, at any place in the pipeline and with
 * as little recompute as the plan allows. */
struct least_stage {
    double pass_s, longer_s; /* sum of forward and backward; the longer of the two */
    double optimizer_s;
};

/* The least difference between the time of a middle stage's messages and that of the second stage's
 * messages. Of the middle stages, only the second is timed. */
static double least_messages_s(const struct plan *plan, const struct stage_common *common)
{
    const struct boundary *boundaries = common->boundaries;
    double least_s = HUGE_VAL;
    for (int stage = 1; stage < plan->pp - 1; stage++)
        least_s = fmin(least_s, boundaries[stage].message_s + boundaries[stage - 1].message_s);
    return common->blocking ? least_s - boundaries[1].message_s - boundaries[0].message_s : 0;
}

/* The largest number of layers of a stage: what is left if each other stage has its fewest. */
static int most_layers(const struct model *model, const struct plan *plan)
{
    struct deal deal =
        deal_of(plan, model, 0); /* the head's time, 0 here, does not affect the range */
    return deal_most(&deal, 0);
}

/* Iterates over the positions at which `layers` consecutive layers may take a different time.
 * Returns the next position after `first` at which the sequence of kinds differs from that one
 * layer earlier; a result beyond the model's layers means that there is none. The first call passes
 * 0. */
static int next_first(const struct model *model, int layers, int first)
{
    if (model_num_kinds(model) == 1)
        return model->layers;
    do
        first++;
    while (first + layers <= model->layers && model_blocks_repeat(model, first, first - 1, layers));
    return first;
}

static void lower(struct least_stage *least, const struct stage_score *score, double messages_s)
{
    least->pass_s = fmin(least->pass_s, score->forward_s + score->backward_s + messages_s);
    least->longer_s = fmin(least->longer_s, fmax(score->forward_s, score->backward_s) + messages_s);
    least->optimizer_s = fmin(least->optimizer_s, score->optimizer_s);
}

static struct least_stage least_stage(struct evaluator *evaluator, const struct model *model,
                                      const struct plan *plan, const struct stage_common *common,
                                      int layers)
{
    int places[] = { 0, 1, plan->pp - 1 }; /* 1 represents all middle stages */
    struct least_stage least = { HUGE_VAL, HUGE_VAL, HUGE_VAL };
    for (int i = 0; i < 3; i++) {
        if (places[i] >= plan->pp || (i > 0 && places[i] <= places[i - 1]))
            continue;
        bool is_middle = places[i] > 0 && places[i] < plan->pp - 1;
        double messages_s = is_middle ? least_messages_s(plan, common) : 0;
        for (int first = 0; first + layers <= model->layers;
             first = next_first(model, layers, first)) {
            struct stage_share share = { places[i], layers, 0, first };
            struct stage_score score = evaluate_stage_with(evaluator, plan, common, &share);
            lower(&least, &score, messages_s);
        }
    }
    return least;
}

/* Of p stages, some stage has at least 1/p of the layers. Let T be its pass (forward and backward
 * of one microbatch), A the sum of all stages' passes, x the forward time of the stages before it,
 * m the number of microbatches and w those in flight. By the lower bound's terms (composition.h)
 * - for w < m the step takes at least x + m T and x + (m - w + 1) T + 2 (A - T - x), so at least
 *   their mean, A + (m - 1 - (w - 1) / 2) T;
 * - for w = m <= p it takes A + (m - 1) times the longer of forward and backward. */
static double span_floor_s(const struct least_stage *full, double all_s, double microbatches,
                           double stages)
{
    double most_in_flight = fmin(stages, microbatches - 1);
    double turns_s = (microbatches - 1 - (most_in_flight - 1) / 2) * full->pass_s;
    if (microbatches <= stages)
        turns_s = fmin(turns_s, (microbatches - 1) * full->longer_s);
    return all_s + turns_s;
}

/* A lower bound of the step's passes. Per layer, a stage with the most layers takes the least time,
 * as most layers share the stage's fixed costs; so all stages together take at least that time per
 * layer. If layers are of several kinds, the fastest run of that many consecutive layers counts.
 * `full` becomes a stage with the mean number of layers per stage, rounded up. */
static double work_floor_s(struct evaluator *evaluator, const struct model *model,
                           const struct plan *plan, const struct stage_common *common,
                           struct least_stage *full)
{
    int most = most_layers(model, plan);
    int stages = plan->pp;
    *full = least_stage(evaluator, model, plan, common, (model->layers + stages - 1) / stages);
    double all_s = least_stage(evaluator, model, plan, common, most).pass_s;
    if (model_num_kinds(model) == 1)
        all_s = model->layers * all_s / most;
    return span_floor_s(full, all_s, plan_microbatches(plan, model->batch), plan->pp);
}

/* Computed for the largest possible stage: each other stage has one layer, and all layers are
 * recomputed. */
double lattice_once_s(struct evaluator *evaluator, const struct model *model,
                      const struct stack *stack, const struct plan *plan)
{
    if (exchange_keeps_replicas_equal(&plan->exchange))
        return stack->host.step_s;
    struct plan longest = *plan;
    longest.recompute = RECOMPUTE_BLOCK;
    struct arena arena = { 0 };
    struct stage_common common = evaluate_stage_common(evaluator, &longest, &arena);
    double passes_s = 0;
    int most = most_layers(model, plan);
    for (int stage = 0; stage < plan->pp; stage++)
        for (int first = 0; first + most <= model->layers; first = next_first(model, most, first)) {
            struct stage_share share = { stage, most, most, first };
            struct stage_score score = evaluate_stage_with(evaluator, &longest, &common, &share);
            passes_s = fmax(passes_s, score.forward_s + score.backward_s);
        }
    arena_release(&arena);
    return evaluate_least_once_s(evaluator, plan, passes_s);
}

double lattice_floor_s(struct evaluator *evaluator, const struct model *model,
                       const struct stack *stack, const struct plan *plan)
{
    struct least_stage full;
    struct arena arena = { 0 };
    struct stage_common common = evaluate_stage_common(evaluator, plan, &arena);
    struct plan least = *plan;
    least.offloads &= ~(1u << OFFLOAD_ACTIVATIONS); /* copies only add time */
    double work_s = work_floor_s(evaluator, model, &least, &common, &full);
    /* A single stage hides more of its reduction the longer it runs. */
    struct stage_share first = { 0, plan->pp == 1 ? model->layers : 1, 0, 0 };
    double comm_s = evaluate_stage_with(evaluator, plan, &common, &first).data_comm_s;
    arena_release(&arena);
    return work_s + comm_s + full.optimizer_s + lattice_once_s(evaluator, model, stack, plan);
}

/* ZeRO 0 adds nothing to passes, and the fixed costs per step may be fully hidden or sharded. */
double lattice_block_floor_s(struct evaluator *evaluator, const struct model *model,
                             const struct stack *stack, const struct plan *plan)
{
    struct least_stage full;
    struct plan least = *plan;
    least.zero = 0;
    least.recompute = RECOMPUTE_NONE;
    least.offloads &= ~(1u << OFFLOAD_ACTIVATIONS); /* copies only add time */
    struct arena arena = { 0 };
    struct stage_common common = evaluate_stage_common(evaluator, &least, &arena);
    double work_s = work_floor_s(evaluator, model, &least, &common, &full);
    arena_release(&arena);
    return work_s + lattice_once_s(evaluator, model, stack, plan);
}
