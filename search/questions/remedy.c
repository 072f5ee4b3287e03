/* For a plan that does not fit into memory: finds the fewest changes of its layout words with which
 * it fits. */
#include "search/questions/remedy.h"

#include "base/statistics.h"
#include "models/precision.h"
#include "models/recompute.h"
#include "sim/engine/simulate.h"
#include "sim/plan/ranks.h"

#include <stdlib.h>

enum kind { KIND_RECOMPUTE, KIND_GRADIENTS, KIND_ZERO, KIND_CONTEXT, KIND_MICROBATCH, NUM_KINDS };

/* Room for every set of modules that selective recompute can repeat, for full recompute, and for
 * the few changes of the other kinds. */
enum { MOST_CHANGES = (1 << NUM_REPLAYS) + 8 };

struct change {
    int kind;
    /* KIND_RECOMPUTE: bit set of the modules to recompute, 0: full recompute of every layer;
     * KIND_ZERO: the ZeRO stage */
    unsigned value;
};

struct changes {
    struct change at[MOST_CHANGES];
    int count;
};

static void add(struct changes *changes, int kind, unsigned value)
{
    changes->at[changes->count++] = (struct change){ kind, value };
}

/* Adds the changes of recompute. None is added if the plan already recomputes whole layers. */
static void add_recompute(const struct system *system, const struct model *model,
                          const struct plan *plan, struct changes *changes)
{
    unsigned possible = plan_possible_replays(model) & ~(unsigned)REPLAYS_PER_OP;
    if (plan->recompute != RECOMPUTE_NONE && plan->recompute != RECOMPUTE_SELECTIVE)
        return;
    if (system->stack.unstated.per_op)
        add(changes, KIND_RECOMPUTE, REPLAYS_PER_OP);
    else
        for (unsigned set = replays_next(0, possible); set; set = replays_next(set, possible))
            add(changes, KIND_RECOMPUTE, set);
    add(changes, KIND_RECOMPUTE, 0);
}

static void list_changes(const struct system *system, const struct model *model,
                         const struct plan *plan, struct changes *changes)
{
    int most_zero = plan->pp > 1 ? system->stack.shards.pipeline_zero : 3;
    bool keeps_own = system->stack.memory.main_gradients == MAIN_GRADIENTS_OWN;
    changes->count = 0;
    add_recompute(system, model, plan, changes);
    if (plan->gradient_dtype == DTYPE_FP32 && !keeps_own)
        add(changes, KIND_GRADIENTS, 0);
    for (int zero = plan->zero + 1; zero <= most_zero; zero++)
        add(changes, KIND_ZERO, (unsigned)zero);
    if (plan->dp % 2 == 0)
        add(changes, KIND_CONTEXT, 0);
    if (plan->microbatch % 2 == 0)
        add(changes, KIND_MICROBATCH, 0);
}

static void apply(const struct change *change, struct plan *plan)
{
    switch (change->kind) {
    case KIND_RECOMPUTE:
        plan_set_recompute(plan, change->value ? RECOMPUTE_SELECTIVE : RECOMPUTE_FULL);
        plan->replays = change->value == REPLAYS_CORE ? 0 : change->value;
        break;
    case KIND_GRADIENTS:
        plan->gradient_dtype = plan->reduce_dtype = (int)precision_value_dtype(plan->precision);
        break;
    case KIND_ZERO:
        plan->zero = (int)change->value;
        break;
    case KIND_CONTEXT:
        plan->cp *= 2;
        plan->dp /= 2;
        break;
    default:
        plan->microbatch /= 2;
        break;
    }
}

struct trying {
    const struct system *system;
    const struct model *model;
    struct evaluator *evaluator;
    double most_bytes;
    struct arena *arena;
};

/* Replaces `best` by the plan if the plan fits and is faster. A step_s of 0 means that there is no
 * best plan yet. */
static void try(const struct trying *of, const struct plan *plan, struct scored_plan *best)
{
    struct err ignored = { 0 };
    const struct model *model = of->model;
    if (plan_check(plan, model, model->batch, of->system->num_gpus, &ignored) ||
        !system_check(of->system, plan, &ignored) ||
        evaluate_peak_bytes(of->evaluator, plan) > of->most_bytes)
        return;
    struct scored_plan now = { *plan, evaluate(of->evaluator, plan) };
    if (best->prediction.step_s <= 0 || now.prediction.step_s < best->prediction.step_s)
        *best = scored_plan_copy(&now, of->arena);
}

static void try_pairs(const struct trying *of, const struct plan *plan,
                      const struct changes *changes, struct scored_plan *best)
{
    for (int i = 0; i < changes->count; i++)
        for (int j = i + 1; j < changes->count; j++) {
            struct plan both = *plan;
            if (changes->at[i].kind == changes->at[j].kind)
                continue;
            apply(&changes->at[i], &both);
            apply(&changes->at[j], &both);
            try(of, &both, best);
        }
}

static int by_time(const void *a, const void *b)
{
    return numbers_order(((const struct scored_plan *)a)->prediction.step_s,
                         ((const struct scored_plan *)b)->prediction.step_s);
}

int search_remedies(const struct system *system, const struct model *model, const struct plan *plan,
                    double most_bytes, struct arena *arena, struct scored_plan out[MOST_REMEDIES])
{
    struct scored_plan best[NUM_KINDS] = { 0 };
    struct changes changes;
    struct trying of = { system, model, evaluator_new(system, model), most_bytes, arena };
    int count = 0;
    list_changes(system, model, plan, &changes);
    for (int i = 0; i < changes.count; i++) {
        struct plan changed = *plan;
        apply(&changes.at[i], &changed);
        try(&of, &changed, &best[changes.at[i].kind]);
    }
    for (int kind = 0; kind < NUM_KINDS; kind++)
        if (best[kind].prediction.step_s > 0)
            out[count++] = best[kind];
    if (count == 0) {
        struct scored_plan pair = { 0 };
        try_pairs(&of, plan, &changes, &pair);
        if (pair.prediction.step_s > 0)
            out[count++] = pair;
    }
    evaluator_free(of.evaluator);
    qsort(out, (size_t)count, sizeof *out, by_time);
    return count;
}
