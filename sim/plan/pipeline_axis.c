/* The axis pp: its words in a plan's text, and its rules. A chunk is the layers that a stage runs
 * without interruption. */
#include "base/length.h"
#include "models/blocks.h"
#include "sim/plan/axes.h"
#include "sim/plan/fold.h"
#include "sim/plan/lowering.h"
#include "sim/schedule/schedule.h"

#include <stdint.h>
#include <stdio.h>

void plan_set_schedule(struct plan *plan, const char *name)
{
    const struct generator *generator = generator_find(name);
    snprintf(plan->schedule, sizeof plan->schedule, "%s", name);
    bool is_laid = generator && generator->rule && !generator->rule->is_mirrored;
    plan->placement = is_laid ? generator->rule : NULL;
}

static bool chunks_are_even(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    int layers = of->model->layers;
    if (layers % plan_chunks(plan) == 0)
        return true;
    if (plan->vpp == 1)
        return err_set(err, ERR_INFEASIBLE, token_text("pp", plan->pp).at,
                       "%d layers do not divide over %d stages", layers, plan->pp);
    return err_set(err, ERR_INFEASIBLE, token_text("vpp", plan->vpp).at,
                   "%d layers do not divide over %d stages of %d chunks", layers, plan->pp,
                   plan->vpp);
}

/* Whether the chunk also holds the embedding, the head or modules for later tokens; it may then
 * have no layers. */
static bool has_more_than_layers(const struct plan *plan, int chunk)
{
    return plan_chunks(plan) > 1 && plan_has_end(plan, chunk);
}

/* If the modules for later tokens are not in the head's chunk, the head needs its own chunk after
 * them, and the modules must be on another rank than the embedding (Megatron Core, docs of
 * multi-token prediction). */
static bool places_modules(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    if (plan->mtp_place == MTP_BESIDE)
        return true;
    if (of->model->mtp == 0)
        return err_set(err, ERR_INFEASIBLE, "mtp",
                       "the model has no modules that predict later tokens");
    if (!plan->chunk_layers || plan->chunk_layers[plan_chunks(plan) - 1] > 0)
        return err_set(err, ERR_INFEASIBLE, "mtp",
                       "modules that predict later tokens can be in another chunk than the head "
                       "only if the last chunk has no layers (stages=... ends in 0); it has %d",
                       plan_chunk_layers(plan, of->model, plan_chunks(plan) - 1));
    struct placement placement = plan_placement(plan);
    return placement_stage(placement, plan_later_chunk(plan)) !=
               placement_embedding_stage(placement) ||
           err_set(err, ERR_INFEASIBLE, "mtp",
                   "modules that predict later tokens and are not in the head's chunk cannot be on "
                   "stage 0, which has the embedding");
}

static bool pipeline_holds_all_layers(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    if (!plan->chunk_layers)
        return chunks_are_even(of, err) && places_modules(of, err);
    if (plan->num_chunk_layers != plan_chunks(plan))
        return err_set(err, ERR_INFEASIBLE, "stages",
                       "stages= lists %d chunks, but pp %d x vpp %d is %d", plan->num_chunk_layers,
                       plan->pp, plan->vpp, plan_chunks(plan));
    int64_t sum = 0;
    for (int i = 0; i < plan->num_chunk_layers; i++) {
        sum += plan->chunk_layers[i];
        if (plan->chunk_layers[i] < (has_more_than_layers(plan, i) ? 0 : 1))
            return err_set(err, ERR_INFEASIBLE, "stages",
                           "chunk %d has %d layers, but every chunk between the first and the last "
                           "needs 1 or more",
                           i, plan->chunk_layers[i]);
    }
    if (sum != of->model->layers)
        return err_set(err, ERR_INFEASIBLE, "stages", "stages= sums to %lld of %d layers",
                       (long long)sum, of->model->layers);
    if (plan->stage_modules > 0 && plan->stage_modules != of->model->mtp)
        return err_set(err, ERR_INFEASIBLE, "stages",
                       "stages= has %d modules that predict later tokens, but the model has %d",
                       plan->stage_modules, of->model->mtp);
    return places_modules(of, err);
}

/* A message between stages carries only one value, but a decoder's stages also need the encoder's
 * output. */
static bool pipeline_has_no_decoder(const struct plan_case *of, struct err *err)
{
    return of->plan->pp == 1 || !model_has_attention(of->model, ATTENTION_CROSS) ||
           err_set(err, ERR_INFEASIBLE, token_text("pp", of->plan->pp).at,
                   "the encoder's output is not sent to the stages of a decoder; expected pp 1");
}

bool pipeline_can_interleave(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    if (plan->vpp == 1)
        return true;
    if (plan->pp == 1)
        return err_set(err, ERR_INFEASIBLE, token_text("vpp", plan->vpp).at,
                       "vpp %d needs pp of 2 or more, not 1", plan->vpp);
    int microbatches = plan_microbatches(plan, of->global_batch);
    if (microbatches >= plan->pp)
        return true;
    return err_set(err, ERR_INFEASIBLE, token_text("vpp", plan->vpp).at,
                   "interleaving needs at least pp %d microbatches, not %d", plan->pp,
                   microbatches);
}

/* Longer lists would exceed an index and memory; 175B on 131,072 GPUs has 16,384. */
enum { MAX_SCHEDULE_PASSES = 1 << 24 };

/* Full recompute keeps inputs for one backward. A schedule that computes weight gradients later
 * would need them again. */
static bool keeps_for_two_halves(const struct plan *plan, struct err *err)
{
    if (plan->recompute == RECOMPUTE_NONE || plan->recompute == RECOMPUTE_SELECTIVE)
        return true;
    return err_set(
        err, ERR_INFEASIBLE, "schedule",
        "schedule %s keeps the inputs of weight gradients, so layers cannot be recomputed",
        plan_schedule(plan));
}

bool pipeline_has_schedule(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    const char *name = plan_schedule(plan);
    const struct generator *generator = generator_find(name);
    if (!generator)
        return err_set(err, ERR_INFEASIBLE, "schedule", "schedule %s is not modelled yet", name);
    int microbatches = plan_microbatches(plan, of->global_batch);
    if ((double)microbatches * plan->pp * plan->vpp > MAX_SCHEDULE_PASSES)
        return err_set(err, ERR_INFEASIBLE, token_text("mb", plan->microbatch).at,
                       "a step of %d microbatches through %.0f chunks is longer than the %d passes "
                       "that a schedule may have",
                       microbatches, (double)plan->pp * plan->vpp, MAX_SCHEDULE_PASSES);
    if (generator_splits(generator) && !keeps_for_two_halves(plan, err))
        return false;
    if (plan_is_mirrored(plan) && microbatches % 2 != 0)
        return err_set(err, ERR_INFEASIBLE, "schedule",
                       "schedule %s sends half of the microbatches from each end, so it needs an "
                       "even number, not %d",
                       name, microbatches);
    struct schedule_shape shape = plan_shape(plan, of->global_batch);
    return generator->accepts(&shape, err);
}

static int next_degree(const struct axis_case *of, int degree)
{
    return next_divisor(of->num_gpus, degree);
}

/* Experts are on the same pipeline stages as the rest of the model. */
static int expert_degree(const struct plan *plan)
{
    return plan->pp;
}

/* --- the axis ------------------------------------------------------------------------------ */

static const struct plan_token words[] = {
    { "pp", "ppN", "Pipeline stages.", TOKEN_NUMBER, TOKEN_MEMBER(pp), .min = 1 },
};

static const struct plan_rule rules[] = {
    { "pipeline_layers",
      "The chunks together have every layer once, and each chunk has at least one.",
      pipeline_holds_all_layers },
    { "pipeline_decoder",
      "A model with an encoder and a decoder has pp 1: every block of the decoder reads the "
      "encoder's output.",
      pipeline_has_no_decoder },
};

const struct axis pipeline_axis = {
    .name = "pp",
    .summary = "Each rank holds some of the layers; microbatches pass from one to the next.",
    .source = "Huang et al. 2019, GPipe; Narayanan et al. 2021",
    .place = 50,
    .words = words,
    .num_words = LENGTH(words),
    .rules = rules,
    .num_rules = LENGTH(rules),
    .next_degree = next_degree,
    .expert_degree = expert_degree,
};
