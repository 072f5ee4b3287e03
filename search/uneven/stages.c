/* Fills the table of stages. An option of a stage is a number of layers with the fastest recompute
 * that fits, and its times. */
#include "search/uneven/stages.h"

#include "base/statistics.h"
#include "models/blocks.h"
#include "search/parts.h"
#include "search/uneven/deal.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static size_t options_at(const struct stage_table *table, int stage, int first)
{
    size_t row = (size_t)stage * (size_t)table->num_firsts;
    return (row + (size_t)(table->num_firsts > 1 ? first : 0)) * ((size_t)table->most_layers + 1);
}

const struct stage_option *stage_options(const struct stage_table *table, int stage, int first)
{
    return &table->options[options_at(table, stage, first)];
}

static size_t num_options(const struct stage_table *table)
{
    return options_at(table, table->num_stages, 0);
}

double stage_pass_s(const struct stage_option *option)
{
    return option->forward_s + option->backward_s + option->others_s;
}

static double optimizer_s(const struct stage_option *option)
{
    return option->optimizer_s;
}

/* --- filling the table ------------------------------------------------------------------------ */

/* A table that is being filled. */
struct filler {
    struct evaluator *evaluator;
    const struct stage_request *request;
    struct stage_common common;
    struct deal deal;
    struct stage_table *table;
};

/* Whether the stage fits with `recomputed` layers recomputed. */
static bool fits(const struct filler *filler, struct stage_share share, int recomputed)
{
    const struct stage_request *request = filler->request;
    share.recomputed = recomputed;
    return evaluate_stage_bytes(filler->evaluator, request->plan, &filler->common, &share) <=
           request->memory_bytes;
}

/* The fewest recomputed layers, at least 1, with which the stage fits; if it fits with none of
 * these numbers, `layers`. Each further recomputed layer keeps its input instead of all its
 * activations. The first may need more memory than no recompute, as its activations exist while it
 * is recomputed. */
static int fewest_recomputed(const struct filler *filler, struct stage_share share)
{
    int low = 1;
    int high = share.layers;
    while (low < high) {
        int middle = (low + high) / 2;
        if (fits(filler, share, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static struct stage_option score(const struct filler *filler, struct stage_share share,
                                 int recomputed)
{
    share.recomputed = recomputed;
    struct stage_score score =
        evaluate_stage_with(filler->evaluator, filler->request->plan, &filler->common, &share);
    filler->table->lag_s = fmin(filler->table->lag_s, score.lag_s);
    return (struct stage_option){ .fits = true,
                                  .layers = share.layers,
                                  .recomputed = recomputed,
                                  .forward_s = score.forward_s,
                                  .backward_s = score.backward_s,
                                  .data_comm_s = score.data_comm_s,
                                  .optimizer_s = score.optimizer_s };
}

static bool has_subset(const int *sets, int count, int parts)
{
    for (int i = 0; i < count; i++)
        if ((sets[i] & parts) == sets[i])
            return true;
    return false;
}

/* The option with the set of recomputed modules that fits and has the shortest backward. A set is
 * not timed if it contains another set that fits, as it repeats more; smaller sets come first. */
static struct stage_option fastest_set(const struct filler *filler, struct stage_share share)
{
    const struct stage_request *request = filler->request;
    struct stage_option best = { .fits = false };
    int fitting[MOST_SETS], count = 0;
    for (int i = 0; i < request->num_sets; i++) {
        int parts = request->sets[i];
        if (has_subset(fitting, count, parts) || !fits(filler, share, parts))
            continue;
        fitting[count++] = parts;
        struct stage_option option = score(filler, share, parts);
        if (!best.fits || option.backward_s < best.backward_s)
            best = option;
    }
    return best;
}

static struct stage_option find_option(const struct filler *filler, struct stage_share share)
{
    if (fits(filler, share, 0))
        return score(filler, share, 0);
    if (plan_lists_parts(filler->request->plan))
        return fastest_set(filler, share);
    bool mixes = filler->request->plan->recompute == RECOMPUTE_BLOCK;
    if (!mixes || !fits(filler, share, share.layers))
        return (struct stage_option){ .fits = false };
    return score(filler, share, fewest_recomputed(filler, share));
}

/* An option without recompute that fits on a middle stage also fits on the next one, and takes the
 * same time except for messages over other boundaries. */
static bool is_as_before(const struct filler *filler, int stage, const struct stage_option *before)
{
    return stage > 1 && stage < filler->table->num_stages - 1 && stage != filler->deal.end_chunk &&
           before->fits && before->recomputed == 0;
}

/* If a stage that begins one layer later has layers of the same kinds in the same order, its time
 * and memory are the same. So if the stage did not fit or was too slow one layer earlier, it does
 * not fit or is too slow here too. */
static bool is_as_earlier(const struct filler *filler, struct stage_share share,
                          const struct stage_option *earlier)
{
    bool was_tried = earlier->layers == share.layers && (earlier->fits || share.layers > 0);
    return share.first_layer > 0 && was_tried &&
           model_blocks_repeat(filler->request->model, share.first_layer, share.first_layer - 1,
                               share.layers);
}

/* Time of a blocking message over the boundary after a stage; 0 if messages do not block. */
static double message_s(const struct filler *filler, int stage)
{
    return filler->common.blocking ? filler->common.boundaries[stage].message_s : 0;
}

static struct stage_option next_middle(const struct filler *filler, int stage,
                                       const struct stage_option *before)
{
    struct stage_option next = *before;
    next.forward_s += message_s(filler, stage) - message_s(filler, stage - 1);
    next.backward_s += message_s(filler, stage - 1) - message_s(filler, stage - 2);
    return next;
}

/* The range of layers that a stage may have if it begins after `first` layers: from *least to the
 * returned number; -1: it cannot begin there. Each other stage needs its fewest layers, and the
 * last stage that can have layers takes all that are left. If all layers are equal, any number is
 * allowed that leaves enough for the others. */
static int range_of(const struct filler *filler, int stage, int first, int *least)
{
    const struct stage_table *table = filler->table;
    const struct deal *deal = &filler->deal;
    int only = filler->request->layers, most = deal_most(deal, stage);
    *least = deal_least(deal, stage);
    if (table->num_firsts > 1) {
        int before = deal_least_before(deal, stage);
        int left = table->num_layers - first;
        int behind = deal_least_sum(deal) - before - *least;
        if (first < before || left - behind < *least || (stage == 0 && first > 0))
            return -1;
        if (stage > deal->end_chunk && left > 0)
            return -1;
        most = left - behind;
        if (stage >= deal->end_chunk)
            *least = most;
    }
    if (only == 0)
        return most;
    if (only < *least || only > most)
        return -1;
    *least = only;
    return only;
}

/* Ends at the first option that doesn't fit or takes too long: more layers never need less time or
 * memory. */
static void fill_options(const struct filler *filler, int stage, int first)
{
    struct stage_table *table = filler->table;
    struct stage_option *options = &table->options[options_at(table, stage, first)];
    const struct stage_option *before =
        stage > 0 ? stage_options(table, stage - 1, first) : options;
    const struct stage_option *earlier =
        first > 0 ? stage_options(table, stage, first - 1) : options;
    double limit_s = filler->request->limit_s;
    int least, most = range_of(filler, stage, first, &least);
    if (most > table->most_layers) { /* a stage with this many layers would be too slow */
        most = table->most_layers;
        table->is_limited = true;
    }
    for (int i = least; i <= most; i++) {
        struct stage_share share = { .stage = stage, .layers = i, .first_layer = first };
        options[i] = is_as_before(filler, stage, &before[i])
                         ? next_middle(filler, stage, &before[i])
                     : is_as_earlier(filler, share, &earlier[i]) ? earlier[i]
                                                                 : find_option(filler, share);
        options[i].layers = i;
        if (!options[i].fits)
            break;
        if (table->num_microbatches * stage_pass_s(&options[i]) < limit_s)
            continue;
        options[i].fits = false;
        table->is_limited = true;
        break;
    }
}

/* --- lower bounds of any division
 * -------------------------------------------------------------- */

/* The largest number of equal layers for which the stage's `of_s` is at most `most_s`; -1: none. */
static int most_within(const struct stage_table *table, int stage,
                       double (*of_s)(const struct stage_option *option), double most_s)
{
    const struct stage_option *options = stage_options(table, stage, 0);
    for (int k = table->most_layers; k >= 0; k--)
        if (options[k].fits && of_s(&options[k]) <= most_s)
            return k;
    return -1;
}

/* Whether the stages hold all layers if each takes as many as it can. Fewer layers never take
 * longer, so this is decisive if all layers are equal. */
static bool equal_layers_are_held(const struct stage_table *table,
                                  double (*of_s)(const struct stage_option *option), double most_s)
{
    int layers = 0;
    for (int stage = 0; stage < table->num_stages; stage++) {
        int most = most_within(table, stage, of_s, most_s);
        if (most < 0)
            return false;
        layers += most;
    }
    return layers >= table->num_layers;
}

/* [stage][layers]: whether a division has `layers` on the earlier stages. */
struct reached {
    bool *at;
    size_t row;
};

static bool *reached_at(const struct reached *reached, int stage, int layers)
{
    return &reached->at[(size_t)stage * reached->row + (size_t)layers];
}

/* Finds the layers at which each stage can begin. With several kinds of layers it is not enough to
 * give each stage its most layers, as the next stage may then begin with layers that do not fit.
 * The caller frees `at`. */
static struct reached reach(const struct stage_table *table,
                            double (*of_s)(const struct stage_option *option), double most_s)
{
    struct reached reached = { .row = (size_t)table->num_layers + 1 };
    size_t count = ((size_t)table->num_stages + 1) * reached.row;
    reached.at = arena_grow(NULL, count * sizeof *reached.at);
    memset(reached.at, 0, count * sizeof *reached.at);
    *reached_at(&reached, 0, 0) = true;
    for (int stage = 0; stage < table->num_stages; stage++)
        for (int first = 0; first <= table->num_layers; first++) {
            if (!*reached_at(&reached, stage, first))
                continue;
            const struct stage_option *options = stage_options(table, stage, first);
            int most = table->most_layers < table->num_layers - first ? table->most_layers
                                                                      : table->num_layers - first;
            for (int k = 0; k <= most; k++)
                if (options[k].fits && of_s(&options[k]) <= most_s)
                    *reached_at(&reached, stage + 1, first + k) = true;
        }
    return reached;
}

static bool holds_all(const struct stage_table *table,
                      double (*of_s)(const struct stage_option *option), double most_s)
{
    if (table->num_firsts == 1)
        return equal_layers_are_held(table, of_s, most_s);
    struct reached reached = reach(table, of_s, most_s);
    bool holds = *reached_at(&reached, table->num_stages, table->num_layers);
    free(reached.at);
    return holds;
}

/* The smallest value that the longest `of_s` of a division's stages can take. It is the time of
 * some option, so it is found by bisection over all options' times. */
static double least_longest_s(const struct stage_table *table,
                              double (*of_s)(const struct stage_option *option),
                              struct arena *arena)
{
    size_t room = num_options(table);
    double *values = ARENA_ARRAY(arena, double, room);
    size_t count = 0;
    for (size_t i = 0; i < room; i++)
        if (table->options[i].fits)
            values[count++] = of_s(&table->options[i]);
    numbers_sort(values, count);
    if (count == 0 || !holds_all(table, of_s, values[count - 1]))
        return HUGE_VAL;
    size_t low = 0;
    size_t high = count - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (holds_all(table, of_s, values[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    return values[low];
}

static double least_s(const struct stage_table *table, int stage, size_t member)
{
    const struct stage_option *options = stage_options(table, stage, 0);
    double least_s = HUGE_VAL;
    for (int i = 0; i < table->num_firsts * (table->most_layers + 1); i++)
        if (options[i].fits)
            least_s =
                fmin(least_s, *(const double *)(const void *)((const char *)&options[i] + member));
    return least_s;
}

void stage_table_close(struct stage_table *table, struct arena *arena)
{
    struct arena_mark mark;
    table->after_s = ARENA_ARRAY(arena, double, (size_t)table->num_stages + 1);
    mark = arena_mark(arena);
    table->longest_pass_s = least_longest_s(table, stage_pass_s, arena);
    table->longest_optimizer_s = least_longest_s(table, optimizer_s, arena);
    arena_reset(arena, mark);
    double after_s = least_s(table, 0, offsetof(struct stage_option, data_comm_s));
    for (int stage = 0; stage < table->num_stages; stage++) {
        table->after_s[stage] = after_s;
        after_s += table->lag_s + least_s(table, stage, offsetof(struct stage_option, backward_s));
    }
}

/* Gives the stages from the last to the first as few layers as they can have. */
static void balance_kinds(const struct stage_table *table, int *layers)
{
    struct reached reached = reach(table, stage_pass_s, table->longest_pass_s);
    for (int stage = table->num_stages - 1, end = table->num_layers; stage >= 0; stage--) {
        for (int k = table->most_layers; k >= 0; k--) {
            if (k > end || !*reached_at(&reached, stage, end - k))
                continue;
            const struct stage_option *option = &stage_options(table, stage, end - k)[k];
            if (option->fits && stage_pass_s(option) <= table->longest_pass_s)
                layers[stage] = k;
        }
        end -= layers[stage];
    }
    free(reached.at);
}

bool stage_table_balance(const struct stage_table *table, int *layers)
{
    if (table->longest_pass_s == HUGE_VAL)
        return false;
    if (table->num_firsts > 1) {
        balance_kinds(table, layers);
        return true;
    }
    int excess = -table->num_layers;
    for (int stage = 0; stage < table->num_stages; stage++) {
        layers[stage] = most_within(table, stage, stage_pass_s, table->longest_pass_s);
        excess += layers[stage];
    }
    /* layers are removed from the last stages first, as fewer microbatches are in flight there */
    while (excess > 0)
        for (int stage = table->num_stages - 1; stage >= 0 && excess > 0; stage--)
            if (layers[stage] > 0 && stage_options(table, stage, 0)[layers[stage] - 1].fits) {
                layers[stage]--;
                excess--;
            }
    return true;
}

/* The largest number of layers of a stage that may take less than the limit. With several kinds of
 * layers the table has a row for each first layer, so its size matters. */
static int most_below_limit(struct evaluator *evaluator, const struct stage_request *request,
                            const struct deal *deal)
{
    int most = deal_most(deal, 0);
    double each_s = plan_microbatches(request->plan, request->model->batch) *
                    evaluate_layer_floor_s(evaluator, request->plan);
    return most * each_s < request->limit_s ? most : (int)(request->limit_s / each_s);
}

struct stage_table stage_table_new(struct evaluator *evaluator, const struct stage_request *request,
                                   struct arena *arena)
{
    const struct plan *plan = request->plan;
    struct deal deal = deal_of(plan, request->model, request->head_layers);
    assert(plan->vpp == 1 && deal_least_sum(&deal) <= request->model->layers);
    struct stage_table table = {
        .num_stages = plan->pp,
        .num_layers = request->model->layers,
        .num_microbatches = plan_microbatches(plan, request->model->batch),
        .most_layers = most_below_limit(evaluator, request, &deal),
        .num_firsts = model_num_kinds(request->model) > 1 ? request->model->layers + 1 : 1,
        .lag_s = HUGE_VAL,
        .step_s = request->step_s,
    };
    table.options = ARENA_ARRAY(arena, struct stage_option, num_options(&table));
    struct filler filler = { evaluator, request, evaluate_stage_common(evaluator, plan, arena),
                             deal, &table };
    for (int stage = 0; stage < table.num_stages; stage++)
        for (int first = 0; first < table.num_firsts; first++)
            fill_options(&filler, stage, first);
    stage_table_close(&table, arena);
    return table;
}
