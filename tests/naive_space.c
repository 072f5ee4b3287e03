#include "tests/naive_space.h"

#include "base/arena.h"
#include "base/text.h"

#include <stdlib.h>

static void add(struct naive_space *space, int *capacity, const struct plan *plan)
{
    if (space->count == *capacity) {
        *capacity = 2 * *capacity + 64;
        space->at = arena_grow(space->at, (size_t)*capacity * sizeof *space->at);
    }
    space->at[space->count++] = *plan;
}

static bool is_vpp(const struct model *model, int pp, int vpp)
{
    if (pp == 1 || model->layers % pp != 0)
        return vpp == 1;
    return model->layers / pp % vpp == 0;
}

static void add_inner(struct naive_space *space, int *capacity, struct plan plan)
{
    static const int recomputes[] = { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };
    for (int i = 0; i < 3; i++)
        for (plan.zero = 0; plan.zero < 4; plan.zero++) {
            plan.recompute = recomputes[i];
            add(space, capacity, &plan);
        }
}

struct naive_space naive_space_new(const struct model *model, int num_gpus)
{
    struct naive_space space = { 0 };
    int capacity = 0;
    for (int tp = 1; tp <= 64; tp++)
        for (int cp = 1; cp <= 8; cp *= 2)
            for (int sp = 0; sp <= (tp > 1); sp++)
                for (int microbatch = 1; microbatch <= 16; microbatch *= 2)
                    for (int pp = 1; pp <= num_gpus; pp++)
                        for (int vpp = 1; vpp <= model->layers; vpp++) {
                            if (num_gpus % (tp * cp * pp) != 0 || !is_vpp(model, pp, vpp))
                                continue;
                            struct plan plan = plan_default();
                            plan.tp = tp;
                            plan.cp = cp;
                            plan.sp = sp;
                            plan.microbatch = microbatch;
                            plan.pp = pp;
                            plan.vpp = vpp;
                            plan.dp = num_gpus / tp / cp / pp;
                            add_inner(&space, &capacity, plan);
                        }
    return space;
}

struct naive_space naive_space_kept(const struct model *model, int num_gpus)
{
    struct naive_space all = naive_space_new(model, num_gpus);
    struct naive_space kept = { .at = all.at };
    for (int i = 0; i < all.count; i++) {
        struct err err = { 0 };
        if (!plan_check(&all.at[i], model, model->batch, num_gpus, &err))
            kept.at[kept.count++] = all.at[i];
    }
    return kept;
}

bool naive_space_fits(const struct system *system, const struct model *model)
{
    struct naive_space space = naive_space_kept(model, system->num_gpus);
    struct evaluator *evaluator = evaluator_new(system, model);
    bool fits = false;
    for (int i = 0; i < space.count && !fits; i++)
        fits = evaluate_peak_bytes(evaluator, &space.at[i]) <= system->gpu.memory_bytes;
    evaluator_free(evaluator);
    free(space.at);
    return fits;
}

char *naive_layout(const struct plan *plan)
{
    struct text text = { 0 };
    plan_write(plan, &text);
    return text.at;
}
