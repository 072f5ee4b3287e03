#include "tests/search/uneven_space.h"

#include "models/layer.h"
#include "tests/search/naive_space.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct listing {
    const struct search_request *request;
    struct evaluator *evaluator;
    struct uneven_space found;
};

static void list_plan(struct listing *listing, const struct plan *plan)
{
    struct err err = { 0 };
    const struct model *model = listing->request->model;
    const struct system *system = listing->request->system;
    listing->found.plans++;
    if (plan_check(plan, model, model->batch, system->num_gpus, &err))
        return;
    if (evaluate_peak_bytes(listing->evaluator, plan) <= system->gpu.memory_bytes)
        listing->found.fastest_s =
            fmin(listing->found.fastest_s, evaluate_step_s(listing->evaluator, plan));
}

/* The sets of a layer's modules that a stage may recompute, the empty set first. */
static int list_parts(const struct search_request *request, int sets[1 << REPLAY_PER_OP])
{
    unsigned possible = plan_possible_replays(request->model);
    int count = 0;
    sets[count++] = 0;
    if (!request->recompute_modules) {
        sets[count++] = REPLAYS_CORE;
        return count;
    }
    for (unsigned parts = 1; parts <= possible; parts++)
        if ((parts & possible) == parts && !replays_overlap(parts))
            sets[count++] = (int)parts;
    return count;
}

/* Lists a plan with a split that the space names. If the request has recompute_modules, selective
 * recompute stands for all sets of modules. */
static void list_named(struct listing *listing, struct plan plan)
{
    int sets[1 << REPLAY_PER_OP], count = 1;
    double plans = listing->found.plans;
    if (plan.recompute == RECOMPUTE_SELECTIVE && listing->request->recompute_modules)
        count = list_parts(listing->request, sets);
    for (int i = count > 1; i < count; i++) {
        plan.replays = count > 1 ? (unsigned)sets[i] : 0;
        list_plan(listing, &plan);
    }
    listing->found.plans = plans + 1;
}

static bool same_layers(const int *a, const int *b, int count)
{
    return a && b && memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

static bool all_are(const int *list, int count, int value)
{
    for (int i = 0; i < count; i++)
        if (list[i] != value)
            return false;
    return true;
}

/* Whether the space of named splits already has this division. */
static bool is_known(const struct naive_splits *known, const struct plan *plan, const int *layers,
                     int count)
{
    for (int i = 0; i < known->count; i++) {
        const struct naive_split *split = &known->at[i];
        if (split->vpp == plan->vpp && split->layers &&
            split->is_apart == (plan->mtp_place == MTP_APART) &&
            memcmp(split->layers, layers, (size_t)count * sizeof *layers) == 0)
            return true;
    }
    return false;
}

/* --- stages of several chunks, in any schedule: layers dealt one by one -------------------------
 */

/* Adds a stage's next layer to its chunk with the smallest weight; on a tie, to the latest one. The
 * head counts as `head` layers of its chunk. Each MTP module (multi-token prediction) counts as one
 * layer of its chunk and, in the head's chunk, as another head too. Returns false if no chunk of
 * the stage can have layers. */
static bool add_layer(const struct model *model, double head, const struct plan *plan, int stage,
                      int *chunks)
{
    bool is_apart = plan->mtp_place == MTP_APART;
    int last = plan->pp * plan->vpp - 1 - is_apart, best = -1;
    double least = HUGE_VAL;
    head = is_apart ? model->mtp : head + model->mtp * (1 + head);
    for (int chunk = 0; chunk <= last; chunk++) {
        double weight = chunks[chunk] + (chunk == last ? head : 0);
        if (placement_stage(plan_placement(plan), chunk) != stage || weight > least)
            continue;
        best = chunk;
        least = weight;
    }
    if (best >= 0)
        chunks[best]++;
    return best >= 0;
}

/* Returns the fewest layers of a chunk. This is one, except for the last chunk that may have
 * layers: it may have none if it has MTP modules or if its stage has several chunks. Chunks after
 * it have no layers. */
static int fewest(const struct model *model, const struct plan *plan, int chunk)
{
    int last = plan->pp * plan->vpp - 1 - (plan->mtp_place == MTP_APART);
    bool may_be_empty = model->mtp > 0 || plan->vpp > 1;
    return chunk < last || (chunk == last && (!may_be_empty || chunk == 0));
}

/* Each chunk begins with its fewest layers. Divisions in `known` are left out. */
static void list_dealt(struct listing *listing, struct plan plan, const struct naive_splits *known)
{
    int chunks[MOST_LISTED_LAYERS], more[MOST_LISTED_LAYERS] = { 0 };
    const struct model *model = listing->request->model;
    int count = plan.pp * plan.vpp, left = model->layers;
    double head = model_head_layers(model, model->seq);
    if (count > MOST_LISTED_LAYERS + 1)
        return;
    for (int chunk = 0; chunk < count; chunk++)
        left -= fewest(model, &plan, chunk);
    if (left < 0)
        return;
    for (;;) {
        int sum = 0;
        for (int chunk = 0; chunk < count; chunk++)
            chunks[chunk] = fewest(model, &plan, chunk);
        for (int stage = 0; stage < plan.pp; sum += more[stage++])
            for (int i = 0; i < more[stage]; i++)
                if (!add_layer(model, head, &plan, stage, chunks))
                    sum = left + 1; /* no such division */
        plan.chunk_layers = chunks;
        plan.num_chunk_layers = count;
        bool is_even = all_are(chunks, count, chunks[0]);
        if (sum == left && !is_even && !is_known(known, &plan, chunks, count))
            list_plan(listing, &plan);
        int stage = 0;
        while (stage < plan.pp && more[stage] == left)
            more[stage++] = 0;
        if (stage == plan.pp)
            return;
        more[stage]++;
    }
}

/* Whether the MTP modules may be in another chunk than the head. That chunk must not be on the
 * first stage. */
static bool has_apart(const struct listing *listing, const struct plan *plan)
{
    return listing->request->model->mtp > 0 && plan->pp > 2 && listing->request->uneven;
}

/* Tries every number of chunks that the schedule allows, even if the space has no split with this
 * number. */
static void list_all_dealt(struct listing *listing, struct plan plan)
{
    struct naive_splits known = naive_splits(listing->request->model, plan.pp);
    if (!listing->request->uneven || plan.vpp != known.at[0].vpp ||
        (plan.chunk_layers != known.at[0].layers &&
         !same_layers(plan.chunk_layers, known.at[0].layers, plan.pp)))
        return;
    for (plan.vpp = 2; plan.pp > 1 && plan.pp * plan.vpp <= listing->request->model->layers + 2;
         plan.vpp++)
        for (int place = 0; place <= has_apart(listing, &plan); place++) {
            plan.mtp_place = place;
            list_dealt(listing, plan, &known);
        }
}

/* Lists every combination of recomputed layers per stage, except the two that have a layout word of
 * their own: no layers and all layers. */
static void list_mixes(struct listing *listing, struct plan plan, const int *layers,
                       const struct naive_splits *known)
{
    int recomputed[MOST_LISTED_LAYERS] = { 0 };
    bool is_listed = all_are(layers, plan.pp, layers[0]) || is_known(known, &plan, layers, plan.pp);
    plan.recompute = RECOMPUTE_BLOCK;
    plan.recompute_layers = recomputed;
    plan.num_recompute_layers = plan.pp;
    for (;;) {
        bool is_named = all_are(recomputed, plan.pp, 0) ||
                        memcmp(recomputed, layers, (size_t)plan.pp * sizeof *layers) == 0;
        if (!is_listed || !is_named)
            list_plan(listing, &plan);
        int stage = 0;
        while (stage < plan.pp && recomputed[stage] == layers[stage])
            recomputed[stage++] = 0;
        if (stage == plan.pp)
            return;
        recomputed[stage]++;
    }
}

/* Tries every combination of recomputed modules per stage. Together they count as one plan, as
 * elsewhere in the search. */
static void list_sets(struct listing *listing, struct plan plan)
{
    int sets[1 << REPLAY_PER_OP], of_stage[MOST_LISTED_LAYERS + 2] = { 0 };
    int chosen[MOST_LISTED_LAYERS + 2], count = list_parts(listing->request, sets);
    double plans = listing->found.plans;
    plan.stage_replays = chosen;
    plan.num_stage_replays = plan.pp;
    for (;;) {
        for (int stage = 0; stage < plan.pp; stage++)
            chosen[stage] = sets[of_stage[stage]];
        list_plan(listing, &plan);
        int stage = 0;
        while (stage < plan.pp && of_stage[stage] == count - 1)
            of_stage[stage++] = 0;
        if (stage == plan.pp)
            break;
        of_stage[stage]++;
    }
    listing->found.plans = plans + 1;
}

/* Lists the divisions with the MTP modules at one place: in the head's chunk or in the one before
 * it. */
static void list_divisions_at(struct listing *listing, struct plan plan,
                              const struct naive_splits *known)
{
    int layers[MOST_LISTED_LAYERS + 2];
    const struct model *model = listing->request->model;
    bool mixes = listing->request->recompute_mixes;
    int left = model->layers;
    if (plan.pp > MOST_LISTED_LAYERS + 2)
        return;
    for (int stage = 0; stage < plan.pp; stage++)
        left -= layers[stage] = fewest(model, &plan, stage);
    if (left < 0)
        return;
    plan.chunk_layers = layers;
    plan.num_chunk_layers = plan.pp;
    for (;;) {
        int sum = 0;
        bool is_enough = plan.mtp_place == MTP_BESIDE || layers[plan.pp - 1] == 0;
        for (int stage = 0; stage < plan.pp; stage++)
            sum += layers[stage];
        bool is_even = all_are(layers, plan.pp, layers[0]);
        if (is_enough && sum == model->layers && (listing->request->uneven || is_even)) {
            if (mixes && plan.recompute == RECOMPUTE_FULL)
                list_mixes(listing, plan, layers, known);
            else if (mixes && plan.recompute == RECOMPUTE_SELECTIVE && plan.pp > 1)
                list_sets(listing, plan);
            else if (!is_even && !is_known(known, &plan, layers, plan.pp))
                list_plan(listing, &plan);
        }
        int stage = 0;
        while (stage < plan.pp && layers[stage] == fewest(model, &plan, stage) + left) {
            layers[stage] = fewest(model, &plan, stage);
            stage++;
        }
        if (stage == plan.pp)
            return;
        layers[stage]++;
    }
}

static void list_divisions(struct listing *listing, struct plan plan)
{
    struct naive_splits known = naive_splits(listing->request->model, plan.pp);
    /* all combinations of recomputed layers are listed with the first value of recompute */
    if (plan.chunk_layers != known.at[0].layers &&
        !same_layers(plan.chunk_layers, known.at[0].layers, plan.pp))
        return;
    bool mixes = listing->request->recompute_mixes;
    /* combinations of recomputed layers are listed with full recompute, and not once more here */
    if (mixes && plan.recompute == RECOMPUTE_NONE)
        return;
    for (int place = 0; place <= has_apart(listing, &plan); place++) {
        plan.mtp_place = place;
        list_divisions_at(listing, plan, &known);
    }
}

/* Whether the plan has all words of the request's `fix`, which may have only degrees and mb. */
static bool has_fixed_words(const struct search_request *request, const struct plan *plan)
{
    struct text layout = { 0 };
    bool has_all = true;
    plan_write(plan, &layout);
    text_add(&layout, " ");
    const char *fix = request->fix ? request->fix : "";
    for (size_t length; *fix && has_all; fix += length + (fix[length] == ' ')) {
        char word[32];
        length = strcspn(fix, " ");
        snprintf(word, sizeof word, "%.*s ", (int)length, fix);
        has_all = strstr(text_get(&layout), word) != NULL;
    }
    text_release(&layout);
    return has_all;
}

struct uneven_space uneven_space_list(const struct search_request *request)
{
    struct listing listing = { .request = request,
                               .evaluator = evaluator_new(request->system, request->model),
                               .found.fastest_s = HUGE_VAL };
    struct naive_space space = naive_space_new(request->model, request->system->num_gpus);
    for (int i = 0; i < space.count; i++) {
        if (!has_fixed_words(request, &space.at[i]))
            continue;
        list_named(&listing, space.at[i]);
        if (space.at[i].vpp == 1)
            list_divisions(&listing, space.at[i]);
        list_all_dealt(&listing, space.at[i]);
    }
    free(space.at);
    evaluator_free(listing.evaluator);
    return listing.found;
}

struct uneven_space uneven_space_of(const struct search_request *request, const struct plan *plan)
{
    struct listing listing = { .request = request,
                               .evaluator = evaluator_new(request->system, request->model),
                               .found.fastest_s = HUGE_VAL };
    int count = plan->pp * plan->vpp, even[MOST_LISTED_LAYERS];
    struct naive_splits none = { 0 }; /* the request has only even chunks */
    list_dealt(&listing, *plan, &none);
    struct plan even_plan = *plan;
    for (int chunk = 0; chunk < count; chunk++)
        even[chunk] = request->model->layers / count;
    even_plan.chunk_layers = even;
    even_plan.num_chunk_layers = count;
    if (request->model->layers % count == 0)
        list_plan(&listing, &even_plan);
    evaluator_free(listing.evaluator);
    return listing.found;
}
