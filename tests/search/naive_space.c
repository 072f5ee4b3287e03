#include "tests/search/naive_space.h"

#include "base/arena.h"
#include "base/text.h"
#include "models/layer.h"
#include "sim/plan/ranks.h"

#include <stdlib.h>
#include <string.h>

static void add(struct naive_space *space, int *capacity, const struct plan *plan)
{
    if (space->count == *capacity) {
        *capacity = 2 * *capacity + 64;
        space->at = arena_grow(space->at, (size_t)*capacity * sizeof *space->at);
    }
    space->at[space->count++] = *plan;
}

/* --- splits: all lists that the words of search/splits.h allow, found by trying -----------------
 */

static struct arena lists;

static void add_split_at(struct naive_splits *splits, int pp, int vpp, const int *layers,
                         bool is_apart)
{
    int chunks = pp * vpp;
    bool is_even = true;
    for (int i = 1; i < chunks; i++)
        is_even = is_even && layers[i] == layers[0];
    for (int i = 0; i < splits->count; i++) {
        const struct naive_split *known = &splits->at[i];
        if (known->vpp == vpp && known->is_apart == is_apart &&
            (known->layers
                 ? !is_even && memcmp(known->layers, layers, (size_t)chunks * sizeof *layers) == 0
                 : is_even))
            return;
    }
    int *copy = is_even ? NULL : ARENA_ARRAY(&lists, int, (size_t)chunks);
    if (copy)
        memcpy(copy, layers, (size_t)chunks * sizeof *layers);
    splits->at[splits->count++] = (struct naive_split){ vpp, copy, is_apart };
}

static void add_split(struct naive_splits *splits, int pp, int vpp, const int *layers)
{
    add_split_at(splits, pp, vpp, layers, false);
}

/* Adds the splits with `most` layers per chunk and fewer in the first and the last chunk. */
static bool try_ends(const struct model *model, struct naive_splits *splits, int pp, int vpp,
                     int first, int last)
{
    int chunks = pp * vpp;
    for (int most = 1; most <= model->layers + 1; most++) {
        if (most * chunks - first - last != model->layers)
            continue;
        int layers[4096];
        for (int i = 0; i < chunks; i++)
            layers[i] = most - (i == 0 ? first : 0) - (i == chunks - 1 ? last : 0);
        add_split(splits, pp, vpp, layers);
        return true;
    }
    return false;
}

/* Removes one layer from the last chunk, the first, the second and so on until the sum is right. */
static void try_nearly(const struct model *model, struct naive_splits *splits, int pp, int vpp)
{
    int layers[4096], chunks = pp * vpp, sum = 0;
    for (int i = 0; i < chunks; i++)
        sum += layers[i] = (model->layers + chunks - 1) / chunks;
    for (int turn = 0; sum > model->layers; turn++, sum--)
        layers[turn == 0 ? chunks - 1 : turn - 1]--;
    add_split(splits, pp, vpp, layers);
}

static void try_stages(struct naive_splits *splits, int pp, int vpp, int first, int middle,
                       int last)
{
    int layers[4096], least = vpp > 1 ? vpp : 0;
    if (first < least || last < least || first > middle)
        return;
    for (int i = 0; i < pp * vpp; i++)
        layers[i] = (i % pp == 0 ? first : i % pp == pp - 1 ? last : middle) / vpp;
    add_split(splits, pp, vpp, layers);
}

static void try_light(const struct model *model, struct naive_splits *splits, int pp, int vpp)
{
    double head = model_head_layers(model, model->seq);
    for (int middle = vpp; middle < 100000; middle += vpp)
        for (int last = middle - vpp; last >= (vpp > 1 ? vpp : 0); last -= vpp) {
            int first = model->layers - (pp - 2) * middle - last;
            bool is_least = vpp > 1 ? last == vpp : last == 0;
            bool is_light = middle - head >= last;
            bool enough = pp * (double)middle >= model->layers + head;
            if (!(is_light || is_least) || !enough)
                continue;
            if (first > middle)
                break; /* the split with the fewest layers in the last chunk */
            try_stages(splits, pp, vpp, first, middle, last);
            if (head >= 0.5)
                try_stages(splits, pp, vpp, first + vpp, middle, last - vpp);
            return;
        }
}

/* Gives each of the first `used` chunks the same number of layers; the last of these chunks counts
 * as having `more` layers in addition. Then removes one layer from the last used chunk, the first,
 * the second and so on until the sum is right. */
static bool deal_on(const struct model *model, int *layers, int used, int more)
{
    int sum = 0, all = model->layers + more;
    for (int i = 0; i < used; i++)
        sum += layers[i] = (all + used - 1) / used;
    for (int turn = 0; sum > all; turn++, sum--)
        layers[turn == 0 ? used - 1 : turn - 1]--;
    layers[used - 1] -= more;
    return layers[used - 1] >= 0;
}

/* Adds the splits whose last chunks have no layers, for models with MTP modules (multi-token
 * prediction). */
static void try_without_layers(const struct model *model, struct naive_splits *splits, int pp,
                               int vpp)
{
    int layers[4096], chunks = pp * vpp;
    if (model->mtp == 0 || chunks - 1 > model->layers)
        return;
    layers[chunks - 1] = 0;
    deal_on(model, layers, chunks - 1, 0);
    add_split_at(splits, pp, vpp, layers, false);
    if (pp == 2)
        return;
    if (deal_on(model, layers, chunks - 1, model->mtp))
        add_split_at(splits, pp, vpp, layers, true);
    layers[chunks - 2] = 0;
    deal_on(model, layers, chunks - 2, 0);
    add_split_at(splits, pp, vpp, layers, true);
}

/* Moves a layer of the last chunk to the middle stage of the same round of chunks. */
static void try_moved(const struct model *model, struct naive_splits *splits, int pp, int vpp)
{
    int layers[4096], chunks = pp * vpp;
    for (int i = 0; i < chunks; i++) {
        bool is_middle = i / pp == vpp - 1 && i % pp == (pp - 1) - pp / 2;
        layers[i] = model->layers / chunks + is_middle - (i == chunks - 1);
    }
    add_split(splits, pp, vpp, layers);
}

struct naive_splits naive_splits(const struct model *model, int pp)
{
    struct naive_splits splits = {
        ARENA_ARRAY(&lists, struct naive_split, 9 * (size_t)model->layers + 27), 0
    };
    bool any = false, is_heavy = model_head_layers(model, model->seq) >= 0.5;
    for (int counted = 0; counted < 3; counted++)
        any = any || (model->layers + counted) % pp == 0;
    for (int vpp = 1; pp > 1 && pp * vpp <= model->layers + 2; vpp++) {
        int before = splits.count;
        bool even = model->layers % (pp * vpp) == 0;
        if (even)
            try_ends(model, &splits, pp, vpp, 0, 0);
        bool one =
            try_ends(model, &splits, pp, vpp, 1, 0) && try_ends(model, &splits, pp, vpp, 0, 1);
        bool both = !one && try_ends(model, &splits, pp, vpp, 1, 1);
        if (both && is_heavy && model->layers + 2 > pp * vpp)
            try_ends(model, &splits, pp, vpp, 0, 2);
        if (!one && !both && !any && pp * vpp <= model->layers)
            try_nearly(model, &splits, pp, vpp);
        if (vpp == 1 || splits.count > before)
            try_light(model, &splits, pp, vpp);
        if (even && is_heavy)
            try_moved(model, &splits, pp, vpp);
        if (vpp == 1 || splits.count > before)
            try_without_layers(model, &splits, pp, vpp);
    }
    if (splits.count == 0)
        splits.at[splits.count++] = (struct naive_split){ 1, NULL, false };
    return splits;
}

/* --- the space ------------------------------------------------------------------------------ */

static void add_inner(struct naive_space *space, int *capacity, struct plan plan)
{
    static const int recomputes[] = { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };
    for (int i = 0; i < 3; i++)
        for (plan.zero = 0; plan.zero < 4; plan.zero++) {
            plan.recompute = recomputes[i];
            add(space, capacity, &plan);
        }
}

/* Adds the candidates with these tensor, context and expert ranks. */
static void add_degrees(struct naive_space *space, int *capacity, struct plan plan, int num_gpus,
                        const struct naive_splits *of_pp)
{
    for (int sp = 0; sp <= (plan.tp > 1); sp++)
        for (plan.microbatch = 1; plan.microbatch <= 16; plan.microbatch *= 2)
            for (plan.pp = 1; plan.pp <= num_gpus; plan.pp++)
                for (int split = 0;
                     num_gpus % (plan.tp * plan.cp * plan.pp) == 0 && split < of_pp[plan.pp].count;
                     split++) {
                    const struct naive_split *of = &of_pp[plan.pp].at[split];
                    plan.sp = sp;
                    plan.vpp = of->vpp;
                    plan.mtp_place = of->is_apart ? MTP_APART : MTP_BESIDE;
                    plan.chunk_layers = of->layers;
                    plan.num_chunk_layers = of->layers ? plan.pp * of->vpp : 0;
                    plan.dp = num_gpus / plan.tp / plan.cp / plan.pp;
                    add_inner(space, capacity, plan);
                }
}

struct naive_space naive_space_new(const struct model *model, int num_gpus)
{
    struct naive_space space = { 0 };
    int capacity = 0;
    struct naive_splits *of_pp = calloc((size_t)num_gpus + 1, sizeof *of_pp);
    for (int pp = 1; pp <= num_gpus; pp++)
        if (num_gpus % pp == 0)
            of_pp[pp] = naive_splits(model, pp);
    struct plan plan = plan_default();
    int most_ep = model->experts > 0 ? model->experts : 1;
    for (plan.tp = 1; plan.tp <= 64; plan.tp++)
        for (plan.cp = 1; plan.cp <= 8; plan.cp *= 2)
            for (plan.ep = 1; plan.ep <= most_ep && plan.ep <= num_gpus; plan.ep++)
                for (int shared = 0; shared <= (model->experts > 0 && plan.tp > 1); shared++) {
                    plan.etp = shared ? plan.tp : 1;
                    if (most_ep % plan.ep == 0)
                        add_degrees(&space, &capacity, plan, num_gpus, of_pp);
                }
    free(of_pp);
    return space;
}

const struct plan_rule *naive_rule(const struct plan *plan, const struct model *model, int num_gpus,
                                   const struct system *system)
{
    struct err err = { 0 };
    const struct plan_rule *broken = plan_check(plan, model, model->batch, num_gpus, &err);
    int most_zero = system ? system->stack.shards.pipeline_zero : 1;
    if (plan->pp == 1 || plan->zero <= most_zero)
        return broken;
    for (int i = 0; i < plan_num_rules() && broken != plan_rule_at(i); i++)
        if (strcmp(plan_rule_at(i)->name, "zero") == 0)
            return plan_rule_at(i);
    return broken;
}

struct naive_space naive_space_kept(const struct model *model, int num_gpus,
                                    const struct system *system)
{
    struct naive_space all = naive_space_new(model, num_gpus);
    struct naive_space kept = { .at = all.at };
    for (int i = 0; i < all.count; i++) {
        if (!naive_rule(&all.at[i], model, num_gpus, system))
            kept.at[kept.count++] = all.at[i];
    }
    return kept;
}

void naive_settle(struct evaluator *evaluator, const struct model *model, struct plan *plan)
{
    struct err err = { 0 };
    struct plan grouped = *plan;
    struct prediction now = evaluate(evaluator, plan);
    if (plan->recompute != RECOMPUTE_FULL)
        return;
    grouped.recompute = RECOMPUTE_EVERY;
    for (int every = 2; !now.fits; every++) {
        double before_bytes = now.peak_memory_bytes;
        grouped.recompute_every = every;
        if (plan_check(&grouped, model, model->batch, plan_ranks(plan), &err))
            return;
        now = evaluate(evaluator, &grouped);
        if (now.peak_memory_bytes >= before_bytes)
            return;
        *plan = grouped;
    }
}

bool naive_space_fits(const struct system *system, const struct model *model)
{
    struct naive_space space = naive_space_kept(model, system->num_gpus, system);
    struct evaluator *evaluator = evaluator_new(system, model);
    bool fits = false;
    for (int i = 0; i < space.count && !fits; i++) {
        naive_settle(evaluator, model, &space.at[i]);
        fits = evaluate_peak_bytes(evaluator, &space.at[i]) <= system->gpu.memory_bytes;
    }
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
