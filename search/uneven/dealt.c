/* The table of stages whose layers are dealt, that is divided over the stage's chunks by the rule
 * of search/uneven/deal.h. An option of a stage is a number of layers with its times. A place of a
 * chunk is the index of a layer at which the chunk may begin. A stage's chunk of round r is the one
 * that a microbatch visits in its r-th pass through the stages. */
#include "search/uneven/dealt.h"

#include "models/blocks.h"
#include "search/uneven/deal.h"

#include <math.h>
#include <string.h>

/* A table that is being filled. */
struct filler {
    struct evaluator *evaluator;
    const struct stage_request *request;
    struct stage_common common;
    struct deal deal;
    struct plan plan;   /* the request's plan, with `chunks` as its list of layers */
    int *chunks;        /* [chunk] */
    double *duration_s; /* [CHUNK_PASSES x round + pass] */
    struct stage_table *table;
};

static int chunk_of(const struct filler *filler, int stage, int round)
{
    return placement_chunk(filler->deal.placement, stage, round);
}

static int num_rounds(const struct filler *filler)
{
    return filler->deal.placement.chunks_per_stage;
}

/* --- one kind of layers: exact ---------------------------------------------------------------- */

static struct stage_option option_of(const struct filler *filler, int layers,
                                     const struct rounds_score *score)
{
    const double *of_s = filler->duration_s;
    struct stage_option option = { .fits = true,
                                   .layers = layers,
                                   .forward_s = of_s[CHUNK_FORWARD],
                                   .backward_s = of_s[CHUNK_BACKWARD],
                                   .first_weights_s = of_s[CHUNK_WEIGHT],
                                   .data_comm_s = score->data_comm_s,
                                   .optimizer_s = score->optimizer_s };
    double all_s = 0;
    for (int round = 0; round < num_rounds(filler); round++) {
        const double *chunk_s = &of_s[CHUNK_PASSES * round];
        all_s += chunk_s[CHUNK_FORWARD] + chunk_s[CHUNK_BACKWARD] + chunk_s[CHUNK_WEIGHT];
        option.weights_s += chunk_s[CHUNK_WEIGHT];
    }
    double spared_s = score->spared_s / filler->table->num_microbatches;
    option.others_s = all_s - option.forward_s - option.backward_s - spared_s;
    return option;
}

/* Sets the number of layers of every chunk: this stage's chunks get `layers` layers as dealt,
 * chunks of other stages the fewest that they can have. */
static void list_all(struct filler *filler, int stage, int layers)
{
    for (int other = 0; other < filler->table->num_stages; other++)
        deal_stage(&filler->deal, other, other == stage ? layers : deal_least(&filler->deal, other),
                   filler->chunks);
}

/* The same as list_all, but only for this stage's chunks. This suffices if all layers are of one
 * kind. */
static void list_own(struct filler *filler, int stage, int layers)
{
    memset(filler->chunks, 0,
           (size_t)placement_chunks(filler->deal.placement) * sizeof *filler->chunks);
    deal_stage(&filler->deal, stage, layers, filler->chunks);
}

static struct rounds_score time_listed(struct filler *filler, int stage)
{
    return evaluate_rounds_with(filler->evaluator, &filler->plan, &filler->common, stage,
                                filler->duration_s);
}

/* The stage's option for the numbers of layers in filler->chunks. */
static struct stage_option exact_option(struct filler *filler, int stage, int layers)
{
    if (evaluate_rounds_bytes(filler->evaluator, &filler->plan, &filler->common, stage) >
        filler->request->memory_bytes)
        return (struct stage_option){ .fits = false };
    struct rounds_score score = time_listed(filler, stage);
    return option_of(filler, layers, &score);
}

/* --- several kinds: the least over all places
 * -------------------------------------------------- */

/* The places of a chunk. A place is left out if the chunk would have the same kinds of layers there
 * as at an earlier place. */
struct places {
    int *first;
    int count;
};

static bool are_alike(const struct model *model, int layers, int a, int b)
{
    int of_a[MAX_BLOCK_KINDS], of_b[MAX_BLOCK_KINDS];
    if (model_kind_of(model, a) != model_kind_of(model, b))
        return false;
    model_count_kinds(model, a, layers, of_a);
    model_count_kinds(model, b, layers, of_b);
    return memcmp(of_a, of_b, sizeof of_a) == 0;
}

/* Recompute by block-share recomputes a chunk's first layers, so two places are then the same only
 * if the kinds also have the same order. */
static bool is_new_place(const struct filler *filler, const struct places *places, int layers,
                         int first)
{
    const struct model *model = filler->request->model;
    bool in_order = filler->plan.recompute == RECOMPUTE_SHARE;
    for (int i = 0; i < places->count; i++) {
        int other = places->first[i];
        if (in_order ? model_blocks_repeat(model, first, other, layers)
                     : are_alike(model, layers, first, other))
            return false;
    }
    return true;
}

/* The places at which the chunk can begin when every other chunk has at least its fewest layers.
 * The last chunk that can have layers has only one place: it takes all layers that are left. */
static struct places places_of(const struct filler *filler, int chunk, int layers,
                               struct arena *arena)
{
    const struct deal *deal = &filler->deal;
    int behind = deal_least_sum(deal) - deal_least_before(deal, chunk + 1);
    int last = chunk == 0 ? 0 : deal->num_layers - layers - behind;
    int least = chunk >= deal->end_chunk ? last : deal_least_before(deal, chunk);
    size_t room = last > least ? (size_t)(last - least) + 1 : 1;
    struct places places = { ARENA_ARRAY(arena, int, room), 0 };
    for (int first = least; first <= last; first++)
        if (is_new_place(filler, &places, layers, first))
            places.first[places.count++] = first;
    return places;
}

/* Sets filler->chunks so that `chunk` has `layers` layers, and all layers before it are in the
 * first chunk. */
static void list_at(struct filler *filler, int chunk, int layers, int first)
{
    memset(filler->chunks, 0,
           (size_t)placement_chunks(filler->deal.placement) * sizeof *filler->chunks);
    filler->chunks[0] = first;
    filler->chunks[chunk] = layers;
}

static void lower_durations(struct filler *filler, int round, const double *chunk_s)
{
    double *least_s = &filler->duration_s[CHUNK_PASSES * round];
    for (int pass = 0; pass < CHUNK_PASSES; pass++)
        least_s[pass] = fmin(least_s[pass], chunk_s[pass]);
}

/* Finds the shortest time of each pass of the stage's chunks over all their places. Returns whether
 * each chunk has only one place. `places` gets the places of the chunks of the first two rounds. */
static bool least_durations(struct filler *filler, int stage, const int *of_round,
                            struct places places[2], struct arena *arena)
{
    bool is_only = true;
    for (int round = 0; round < num_rounds(filler); round++) {
        int chunk = chunk_of(filler, stage, round);
        struct places at = places_of(filler, chunk, of_round[round], arena);
        for (int pass = 0; pass < CHUNK_PASSES; pass++)
            filler->duration_s[CHUNK_PASSES * round + pass] = HUGE_VAL;
        for (int i = 0; i < at.count; i++) {
            double chunk_s[CHUNK_PASSES];
            list_at(filler, chunk, of_round[round], at.first[i]);
            evaluate_chunk_with(filler->evaluator, &filler->plan, &filler->common, chunk, chunk_s);
            lower_durations(filler, round, chunk_s);
        }
        is_only = is_only && at.count == 1;
        if (round < 2)
            places[round] = at;
    }
    return is_only;
}

/* In some schedules a forward of one chunk and a backward of the other run as a pair, which saves
 * time. Returns the most time that such pairs can save, over all places of the stage's two
 * chunks. */
static double most_spared_s(struct filler *filler, int stage, const int *of_round,
                            const struct places places[2], double *durations_s)
{
    int near = chunk_of(filler, stage, 0), far = chunk_of(filler, stage, 1);
    double most_s = 0, *least_s = filler->duration_s;
    filler->duration_s = durations_s;
    for (int i = 0; i < places[0].count; i++)
        for (int j = 0; j < places[1].count; j++) {
            int between = places[1].first[j] - places[0].first[i] - of_round[0];
            if (between < 0 && far > near + 1)
                continue;
            list_at(filler, near, of_round[0], places[0].first[i]);
            if (far > near + 1)
                filler->chunks[near + 1] = between;
            filler->chunks[far] = of_round[1];
            most_s =
                fmax(most_s, evaluate_rounds_passes(filler->evaluator, &filler->plan,
                                                    &filler->common, stage, filler->duration_s));
        }
    filler->duration_s = least_s;
    return most_s;
}

static struct stage_option least_option(struct filler *filler, int stage, int layers)
{
    struct arena arena = { 0 };
    struct places places[2] = { 0 };
    int *of_round = ARENA_ARRAY(&arena, int, (size_t)num_rounds(filler));
    list_all(filler, stage, layers);
    for (int round = 0; round < num_rounds(filler); round++)
        of_round[round] = filler->chunks[chunk_of(filler, stage, round)];
    struct stage_option option;
    if (least_durations(filler, stage, of_round, places, &arena)) {
        list_all(filler, stage, layers);
        option = exact_option(filler, stage, layers);
    } else {
        struct rounds_score none = { 0 };
        size_t durations = CHUNK_PASSES * (size_t)num_rounds(filler);
        if (generator_find(plan_schedule(&filler->plan))->pairs)
            none.spared_s = most_spared_s(filler, stage, of_round, places,
                                          ARENA_ARRAY(&arena, double, durations));
        option = option_of(filler, layers, &none);
    }
    arena_release(&arena);
    return option;
}

/* --- the table -------------------------------------------------------------------------------- */

static bool has_kinds(const struct filler *filler)
{
    return model_num_kinds(filler->request->model) > 1;
}

/* Whether the options of the previous stage also hold for this stage, if they fit. Stages without
 * embedding and head take the same time unless messages block, and a later stage needs less memory,
 * as it has fewer microbatches in flight. This does not hold if the schedule has its own placement
 * of chunks, such as a V, and not for the stage of the chunk that has the last layers. */
static bool is_as_before(const struct filler *filler, int stage)
{
    return stage > 1 && stage < filler->table->num_stages - 1 &&
           stage != placement_stage(filler->deal.placement, filler->deal.end_chunk) &&
           !has_kinds(filler) && !filler->common.blocking && !filler->deal.placement.rule;
}

static struct stage_option find_option(struct filler *filler, int stage, int layers)
{
    if (is_as_before(filler, stage) && stage_options(filler->table, stage - 1, 0)[layers].fits)
        return stage_options(filler->table, stage - 1, 0)[layers];
    return has_kinds(filler) ? least_option(filler, stage, layers)
                             : exact_option(filler, stage, layers);
}

static void fill_options(struct filler *filler, int stage)
{
    struct stage_table *table = filler->table;
    struct stage_option *options = &table->options[stage * (table->most_layers + 1)];
    int least = deal_least(&filler->deal, stage), most = deal_most(&filler->deal, stage);
    list_own(filler, stage, least);
    for (int layers = least; layers <= most; layers++) {
        struct stage_option *option = &options[layers];
        *option = find_option(filler, stage, layers);
        if (!has_kinds(filler) && layers < most)
            deal_next(&filler->deal, stage, filler->chunks);
        if (!option->fits)
            break;
        if (table->num_microbatches * stage_pass_s(option) < filler->request->limit_s)
            continue;
        option->fits = false;
        table->is_limited = true;
        break;
    }
}

static struct filler filler_of(struct evaluator *evaluator, const struct stage_request *request,
                               struct stage_table *table, struct arena *arena)
{
    const struct plan *plan = request->plan;
    struct filler filler = { .evaluator = evaluator,
                             .request = request,
                             .common = evaluate_stage_common(evaluator, plan, arena),
                             .deal = deal_of(plan, request->model, request->head_layers),
                             .plan = *plan,
                             .chunks = ARENA_ARRAY(arena, int, (size_t)plan_chunks(plan)),
                             .duration_s =
                                 ARENA_ARRAY(arena, double, CHUNK_PASSES *(size_t)plan->vpp),
                             .table = table };
    filler.plan.chunk_layers = filler.chunks;
    filler.plan.num_chunk_layers = plan_chunks(plan);
    return filler;
}

static struct stage_table empty_table(const struct stage_request *request)
{
    const struct plan *plan = request->plan;
    return (struct stage_table){
        .num_stages = plan->pp,
        .num_layers = request->model->layers,
        .num_microbatches = plan_microbatches(plan, request->model->batch),
        .most_layers = request->model->layers,
        .num_firsts = 1,
        .in_any_order = true,
        .step_s = request->step_s,
    };
}

/* The least latency of a message from a stage to the next. */
static double least_lag_s(const struct stage_common *common, int num_stages)
{
    double least_s = HUGE_VAL;
    for (int stage = 0; stage + 1 < num_stages; stage++)
        least_s = fmin(least_s, common->boundaries[stage].message_s);
    return common->blocking || num_stages == 1 ? 0 : least_s;
}

static double longest_pass_s(const struct stage_table *table)
{
    double longest_s = 0;
    for (int i = 0; i < table->num_stages * (table->most_layers + 1); i++)
        if (table->options[i].fits)
            longest_s = fmax(longest_s, stage_pass_s(&table->options[i]));
    return longest_s;
}

struct stage_table dealt_table_new(struct evaluator *evaluator, const struct stage_request *request,
                                   struct arena *arena)
{
    struct stage_table table = empty_table(request);
    size_t options = (size_t)table.num_stages * ((size_t)table.most_layers + 1);
    table.options = ARENA_ARRAY(arena, struct stage_option, options);
    struct filler filler = filler_of(evaluator, request, &table, arena);
    table.validates = filler.common.validates;
    table.lag_s = least_lag_s(&filler.common, table.num_stages);
    for (int stage = 0; stage < table.num_stages; stage++)
        fill_options(&filler, stage);
    if (!exchange_keeps_replicas_equal(&request->plan->exchange))
        table.step_s = evaluate_least_once_s(evaluator, request->plan, longest_pass_s(&table));
    stage_table_close(&table, arena);
    return table;
}

/* --- the floor -------------------------------------------------------------------------------- */

/* Time of a stage's passes for one microbatch. */
static double listed_pass_s(struct filler *filler, int stage, int layers)
{
    struct rounds_score score = { .spared_s = evaluate_rounds_passes(filler->evaluator,
                                                                     &filler->plan, &filler->common,
                                                                     stage, filler->duration_s) };
    struct stage_option option = option_of(filler, layers, &score);
    return stage_pass_s(&option);
}

/* A lower bound of a step's time. Some stage has at least the average number of layers, so the step
 * takes at least as long as the passes of the fastest stage with that many layers. */
static double average_stage_s(struct filler *filler)
{
    const struct stage_table *table = filler->table;
    int layers = (table->num_layers + table->num_stages - 1) / table->num_stages;
    double least_s = HUGE_VAL;
    for (int stage = 0; stage < table->num_stages; stage++) {
        /* if messages do not block, all stages without embedding and head take the same time */
        if (!filler->common.blocking && stage > 1 && stage < table->num_stages - 1)
            continue;
        int least = deal_least(&filler->deal, stage);
        if (deal_most(&filler->deal, stage) < layers)
            continue;
        list_own(filler, stage, layers > least ? layers : least);
        least_s = fmin(least_s, listed_pass_s(filler, stage, layers));
    }
    return table->num_microbatches * least_s;
}

/* The least time that a microbatch spends at a stage other than the last in its first chunk,
 * forward and backward, and in the two messages to the next stage. The chunk is assumed to have one
 * layer, of the kind that takes the least time. A chunk without layers has MTP modules (multi-token
 * prediction), which take longer. */
static double least_way_s(struct filler *filler)
{
    const struct model *model = filler->request->model;
    int chunks = placement_chunks(filler->deal.placement);
    if (chunks > 2 && filler->deal.end_chunk == 1)
        return 0; /* every chunk may have embedding or head */
    int chunk = chunks > 2 ? 1 : 0;
    double least_s = HUGE_VAL;
    for (int first = 0; first < model->layers; first++) {
        double of_s[CHUNK_PASSES];
        if (first > 0 && model_num_kinds(model) == 1)
            break;
        if (first > 0 && model_kind_of(model, first) == model_kind_of(model, first - 1))
            continue;
        list_at(filler, chunk, 1, chunk > 0 ? first : 0);
        evaluate_chunk_with(filler->evaluator, &filler->plan, &filler->common, chunk, of_s);
        least_s = fmin(least_s, of_s[CHUNK_FORWARD] + of_s[CHUNK_BACKWARD]);
        if (chunk == 0)
            return model_num_kinds(model) == 1 ? least_s : 0;
    }
    return least_s + 2 * filler->table->lag_s;
}

/* A lower bound of the time that a stage waits at the beginning and at the end of a step, averaged
 * over the stages. The first microbatch reaches a stage, and its last gradient goes back, through
 * the first chunks of the stages before it, on average half of the other stages. The bound is 0
 * with blocking messages, whose times differ between stages, and if stages start their update
 * without waiting for the others. */
static double half_ways_s(struct filler *filler)
{
    if (filler->common.blocking || filler->common.validates)
        return 0;
    return 0.5 * (filler->table->num_stages - 1) * least_way_s(filler);
}

double dealt_block_floor_s(struct evaluator *evaluator, const struct stack *stack,
                           const struct plan *plan)
{
    struct plan least = *plan;
    least.offloads &= ~(1u << OFFLOAD_ACTIVATIONS); /* copies only add time */
    if (!exchange_keeps_replicas_equal(&plan->exchange))
        return 0;
    return evaluate_work_floor_s(evaluator, &least) + stack->host.step_s;
}

double dealt_floor_s(struct evaluator *evaluator, const struct stack *stack,
                     const struct stage_request *request, double limit_s)
{
    double floor_s = dealt_block_floor_s(evaluator, stack, request->plan);
    if (floor_s >= limit_s || !exchange_keeps_replicas_equal(&request->plan->exchange))
        return floor_s;
    struct arena arena = { 0 };
    struct stage_table table = empty_table(request);
    struct plan least = *request->plan;
    least.offloads &= ~(1u << OFFLOAD_ACTIVATIONS);
    struct stage_request without = *request;
    without.plan = &least;
    struct filler filler = filler_of(evaluator, &without, &table, &arena);
    table.lag_s = least_lag_s(&filler.common, table.num_stages);
    floor_s += floor_s > stack->host.step_s ? half_ways_s(&filler) : 0;
    if (floor_s < limit_s && model_num_kinds(request->model) == 1)
        floor_s = fmax(floor_s, average_stage_s(&filler) + stack->host.step_s);
    arena_release(&arena);
    return floor_s;
}
