#include "search/uneven/dealt.h"

#include "search/splits.h"
#include "search/uneven/deal.h"
#include "search/uneven/fronts.h"
#include "tests/check_ok.h"
#include "tests/draw.h"
#include "tests/search/instance.h"
#include "tests/search/searching.h"
#include "tests/search/uneven_space.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

/* Compares the search of uneven stages with several chunks each with a loop over all divisions of
 * the layers, on small models. */

static struct instance instance;

static void tear_down(void)
{
    instance_release(&instance);
}

/* --- dealing layers to chunks ----------------------------------------------------------- */

static void check_list(const int *chunks, const int *expected, int count)
{
    for (int i = 0; i < count; i++)
        ck_assert_msg(chunks[i] == expected[i], "chunk %d has %d layers, not %d", i, chunks[i],
                      expected[i]);
}

/* The two MTP modules (multi-token prediction) are not in the head's chunk 5 but in chunk 4, on
 * stage 0, where they count as two layers. Stage 0 gives chunks 0 and 2 two layers each before
 * chunk 4 gets one. Stage 1 has chunks 1 and 3 for layers. */
START_TEST(modules_count_as_layers_where_they_are)
{
    struct deal apart = { { 2, 3, NULL }, 12, 2, 4, 0 };
    int chunks[6];
    ck_assert_int_eq(deal_least(&apart, 0), 2);
    ck_assert_int_eq(deal_least(&apart, 1), 2);
    ck_assert_int_eq(deal_most(&apart, 1), 10);
    ck_assert_int_eq(deal_least_before(&apart, 3), 3);
    deal_all(&apart, (const int[]){ 5, 7 }, chunks);
    check_list(chunks, (const int[]){ 2, 3, 2, 4, 1, 0 }, 6);
    ck_assert(deal_makes(&apart, chunks));
    ck_assert(!deal_makes(&apart, (const int[]){ 2, 3, 2, 3, 1, 1 }));
    struct deal single = { { 3, 1, NULL }, 12, 1, 1, 0 };
    ck_assert_int_eq(deal_least_sum(&single), 1);
    ck_assert(deal_holds(&single, 1) && !deal_holds(&single, 2));
    deal_all(&single, (const int[]){ 12, 0, 0 }, chunks);
    check_list(chunks, (const int[]){ 12, 0, 0 }, 3);
}
END_TEST

/* A stage's layers are dealt to its chunks one by one. In this case of two stages with three
 * chunks, stage 0 has chunks 0, 2 and 4, stage 1 has 1, 3 and 5. Chunk 5 has the head, which counts
 * as 1.5 layers. Of stage 1's seven layers, chunks 1 and 3 get two each before chunk 5 gets its
 * first, because 1.5 + 1 is more than 2. Then chunks 1 and 3 get a third layer. */
START_TEST(layers_go_to_the_chunk_with_the_least_weight)
{
    struct deal ring = { { 2, 3, NULL }, 12, 1.5, 5, 0 };
    int chunks[6];
    ck_assert_int_eq(deal_least(&ring, 0), 3);
    ck_assert_int_eq(deal_least(&ring, 1), 2);
    ck_assert_int_eq(deal_least_sum(&ring), 5);
    deal_all(&ring, (const int[]){ 5, 7 }, chunks);
    check_list(chunks, (const int[]){ 1, 3, 2, 3, 2, 1 }, 6);
    ck_assert(deal_makes(&ring, chunks));
    deal_all(&ring, (const int[]){ 3, 2 }, chunks);
    check_list(chunks, (const int[]){ 1, 1, 1, 1, 1, 0 }, 6);
    ck_assert(!deal_makes(&ring, (const int[]){ 2, 3, 1, 3, 2, 1 }));
    ck_assert(!deal_makes(&ring, (const int[]){ 1, 0, 1, 1, 1, 1 }));
    struct deal v = { { 3, 2, &placement_v }, 12, 1, 5, 0 };
    deal_all(&v, (const int[]){ 4, 5, 3 }, chunks);
    check_list(chunks, (const int[]){ 2, 2, 1, 2, 3, 2 }, 6);
    struct deal single = { { 3, 1, NULL }, 12, 9, 2, 1 };
    deal_all(&single, (const int[]){ 4, 5, 3 }, chunks);
    check_list(chunks, (const int[]){ 4, 5, 3 }, 3);
}
END_TEST

/* --- tables of whole plans ---------------------------------------------------------------------
 */

static const char *const layouts[] = {
    "pp2 mb1 vpp2 zero1",
    "pp3 mb2 vpp2 zero1 recompute=selective",
    "pp2 mb2 vpp3 zero1 recompute=full",
    "tp2 sp pp3 mb1 vpp2",
    "pp3 mb1 vpp2 schedule=zb-v zero1",
    "pp2 mb1 vpp2 schedule=zb-v",
    "pp2 mb1 vpp2 schedule=dualpipev zero1",
    "pp4 mb1 schedule=zb-h1 zero1",
    "pp3 mb2 schedule=zb-h2",
    "pp3 mb2 schedule=gpipe zero1 recompute=full",
    "pp3 mb1 vpp2 zero1 mtp=apart",
    "pp4 mb1 schedule=zb-h1 zero1 mtp=apart",
    "pp3 mb1 vpp2 schedule=zb-v mtp=apart",
    "pp4 mb1 vpp2 zero1 mtp=apart", /* stage 2 has the last layers */
    "pp2 mb1 vpp2 zero3",           /* passes gather the weights of the chunk's first layer */
    "tp2 pp4 mb2 vpp2 overlap=none",
    "tp2 pp4 mb1 schedule=zb-h1 overlap=none",
};

enum { NUM_KINDS_OF_MODELS = 3 };

/* Makes the layers all of one kind, the first one wider, or every third narrower. */
static void mix(int which)
{
    struct model *model = &instance.model;
    struct block_kind own = { 16, 16, 128, 8192, ATTENTION_FULL, FEED_FORWARD_DENSE, 0 };
    struct block_kind other = own;
    int layers = model->layers;
    other.ffn = which == 1 ? 4 * own.ffn : own.ffn / 4;
    if (which == 1)
        model->blocks = (struct blocks){ .kinds = { other, own },
                                         .runs = { { 0, 2 }, { 1, layers - 2 } },
                                         .num_kinds = 2,
                                         .num_runs = 2 };
    if (which == 2)
        model->blocks = (struct blocks){
            .kinds = { other, own }, .runs = { { 0, 1 }, { 1, 2 } }, .num_kinds = 2, .num_runs = 2
        };
}

static void make(const char *layout, int which, struct plan *plan, struct arena *arena)
{
    struct err err = { 0 };
    check_ok(system_load("dgx-h100", "megatron-core", 24, &instance.system, &err), &err);
    check_ok(model_load("gpt3-1.3b", &instance.model, &err), &err);
    struct model *model = &instance.model;
    model->layers = MOST_LISTED_LAYERS;
    model->heads = model->kv_heads = 16;
    model->vocab = 120000;
    model->batch = 96;
    mix(which);
    model->mtp = strstr(layout, "mtp=") ? 1 + which % 2 : 0;
    check_ok(plan_parse(layout, arena, plan, &err), &err);
    check_ok(plan_derive_data(plan, 24, &err), &err);
}

static struct stage_request table_request(const struct plan *plan, double head_layers)
{
    return (struct stage_request){ .model = &instance.model,
                                   .plan = plan,
                                   .head_layers = head_layers,
                                   .memory_bytes = HUGE_VAL,
                                   .limit_s = HUGE_VAL,
                                   .step_s = instance.system.stack.host.step_s };
}

/* Sets the next combination of layers per stage whose sum is right. To begin, set the fewest layers
 * of each stage, minus one on the first. */
static bool next_layers(const struct deal *deal, int *layers)
{
    for (;;) {
        int stage = 0, sum = 0, stages = deal->placement.num_stages;
        while (stage < stages && layers[stage] == deal_most(deal, stage)) {
            layers[stage] = deal_least(deal, stage);
            stage++;
        }
        if (stage == stages)
            return false;
        layers[stage]++;
        for (int s = 0; s < stages; s++)
            sum += layers[s];
        if (sum == deal->num_layers)
            return true;
    }
}

static const struct stage_option *option_at(const struct stage_table *table, int stage, int layers)
{
    return &stage_options(table, stage, 0)[layers];
}

/* The table has an option for each number of layers, and of recomputed layers, of a stage. Compares
 * an option's pass times with those of the stage in a whole plan. If layers are of several kinds,
 * an option is a lower bound, so it must not take longer. With one chunk per stage, or without
 * overlap, passes contain blocking messages, which are not compared. */
static void check_option(const struct stage_option *option, const struct plan *plan,
                         const struct step_cost *cost, int stage, bool is_exact)
{
    double all_s = 0, weights_s = 0;
    const struct chunk_cost *first = NULL;
    for (int round = 0; round < plan->vpp; round++) {
        const struct chunk_cost *chunk =
            &cost->chunks[placement_chunk(plan_placement(plan), stage, round)];
        first = first ? first : chunk;
        all_s += chunk->forward_s + chunk->recompute_s + chunk->input_s + chunk->weight_s;
        weights_s += generator_splits(generator_find(plan_schedule(plan))) ? chunk->weight_s : 0;
    }
    double pass_s = stage_pass_s(option);
    if (plan->vpp == 1 || cost->blocking)
        return;
    ck_assert_double_le(pass_s, all_s * (1 + 1e-9));
    ck_assert_double_le(option->forward_s, first->forward_s * (1 + 1e-9));
    if (!is_exact)
        return;
    ck_assert_double_eq_tol(pass_s, all_s, 1e-9 * all_s);
    ck_assert_double_eq_tol(option->forward_s, first->forward_s, 1e-9 * first->forward_s);
    ck_assert_double_eq_tol(option->weights_s, weights_s, 1e-9 * all_s);
}

static double bound_of(const struct stage_table *table, const int *layers)
{
    struct suffix suffix = { 0 };
    const struct composition *bound = table_bound(table);
    for (int stage = table->num_stages - 1; stage >= 0; stage--)
        suffix = bound->prepend(table, stage, option_at(table, stage, layers[stage]), &suffix);
    return bound->total_s(table, &suffix);
}

START_TEST(floor_and_bound_are_at_most_every_divisions_time_and_options_equal_stage_times)
{
    if (is_spared(_i, 1))
        return;
    struct arena arena = { 0 };
    struct plan plan, whole;
    int which = _i % NUM_KINDS_OF_MODELS;
    make(layouts[_i / NUM_KINDS_OF_MODELS], which, &plan, &arena);
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    double head_layers = 2.2;
    struct stage_request request = table_request(&plan, head_layers);
    struct stage_table table = dealt_table_new(evaluator, &request, &arena);
    struct deal deal = deal_of(&plan, &instance.model, head_layers);
    double floor_s = dealt_floor_s(evaluator, &instance.system.stack, &request, HUGE_VAL);
    double block_s = dealt_block_floor_s(evaluator, &instance.system.stack, &plan);
    ck_assert_double_le(block_s, floor_s);
    bool has_pairs = generator_find(plan_schedule(&plan))->pairs != NULL;
    ck_assert(floor_s > 0 || (has_pairs && which > 0));
    int layers[MOST_LISTED_LAYERS], chunks[MOST_LISTED_LAYERS + 1], divisions = 0;
    for (int stage = 0; stage < plan.pp; stage++)
        layers[stage] = deal_least(&deal, stage) - (stage == 0);
    whole = plan;
    whole.chunk_layers = chunks;
    whole.num_chunk_layers = plan.pp * plan.vpp;
    for (; next_layers(&deal, layers); divisions++) {
        deal_all(&deal, layers, chunks);
        double step_s = evaluate_step_s(evaluator, &whole);
        double bound_s = bound_of(&table, layers);
        ck_assert_msg(bound_s <= step_s * (1 + 1e-9), "the lower bound %a exceeds the step time %a",
                      bound_s, step_s);
        ck_assert_msg(floor_s <= bound_s * (1 + 1e-9),
                      "the bound of all divisions, %a, exceeds that of one, %a", floor_s, bound_s);
        struct step_cost cost = evaluate_cost(evaluator, &whole, &arena);
        for (int stage = 0; stage < plan.pp; stage++)
            check_option(option_at(&table, stage, layers[stage]), &whole, &cost, stage,
                         which == 0 && !has_pairs);
    }
    ck_assert_int_gt(divisions, 3);
    evaluator_free(evaluator);
    arena_release(&arena);
}
END_TEST

/* An option of the table must fit in memory exactly if that stage of a whole plan fits. */
START_TEST(a_stage_fits_in_the_table_exactly_if_it_fits_in_a_plan)
{
    struct arena arena = { 0 };
    struct plan plan, whole;
    int chunks[MOST_LISTED_LAYERS], layers[MOST_LISTED_LAYERS], without = 0, with = 0;
    make(layouts[_i], 0, &plan, &arena);
    struct evaluator *evaluator = evaluator_new(&instance.system, &instance.model);
    struct deal deal = deal_of(&plan, &instance.model, 1);
    for (int stage = 0; stage < plan.pp; stage++)
        layers[stage] = deal_least(&deal, stage) - (stage == 0);
    whole = plan;
    whole.chunk_layers = chunks;
    whole.num_chunk_layers = plan.pp * plan.vpp;
    while (next_layers(&deal, layers)) {
        deal_all(&deal, layers, chunks);
        struct prediction prediction = evaluate(evaluator, &whole);
        for (int stage = 0; stage < plan.pp; stage++) {
            struct stage_request request = table_request(&plan, 1);
            double bytes = prediction.stages[stage].total_bytes;
            struct arena scratch = { 0 };
            request.memory_bytes = bytes;
            struct stage_table table = dealt_table_new(evaluator, &request, &scratch);
            with += option_at(&table, stage, layers[stage])->fits;
            request.memory_bytes = bytes * (1 - 1e-6);
            table = dealt_table_new(evaluator, &request, &scratch);
            without += option_at(&table, stage, layers[stage])->fits;
            ck_assert_int_eq(without, 0);
            arena_release(&scratch);
        }
        ck_assert_int_eq(with % plan.pp, 0);
    }
    ck_assert_int_gt(with, 0);
    evaluator_free(evaluator);
    arena_release(&arena);
}
END_TEST

/* --- whole searches of one point ---------------------------------------------------------------
 */

static const char *const points[] = {
    "tp1 cp1 pp2 mb1 vpp2 zero1 recompute=none",
    "tp1 cp1 pp3 mb2 vpp2 zero1 recompute=selective",
    "tp2 sp cp1 pp2 mb2 vpp3 zero1 recompute=none",
    "tp1 cp1 pp3 mb1 vpp2 schedule=zb-v zero1 recompute=none",
    "tp1 cp1 pp2 mb1 vpp2 schedule=dualpipev zero1 recompute=none",
    "tp1 cp1 pp4 mb1 vpp1 schedule=zb-h1 zero1 recompute=none",
    "tp1 cp1 pp3 mb2 vpp1 schedule=gpipe zero1 recompute=full",
    "tp1 cp1 pp3 mb1 vpp2 zero1 recompute=none mtp=apart",
    "tp1 cp1 pp4 mb1 vpp1 schedule=zb-h1 zero1 recompute=none mtp=apart",
};

enum { NUM_TIGHT = 2 };

START_TEST(the_search_equals_enumeration_of_all_divisions)
{
    if (is_spared(_i, 2))
        return;
    static const char *const methods[] = { "dp", "bnb", "milp" };
    struct arena arena = { 0 };
    struct plan plan;
    int which = _i % NUM_KINDS_OF_MODELS, tight = _i / NUM_KINDS_OF_MODELS % NUM_TIGHT;
    const char *fix = points[_i / NUM_KINDS_OF_MODELS / NUM_TIGHT];
    make(fix, which, &plan, &arena);
    instance.system.gpu.memory_bytes = tight ? 1.05e10 : 6e10;
    struct search_request request = instance_request(&instance);
    request.fix = fix;
    request.uneven = true;
    request.chunks = CHUNKS_EVEN;
    struct uneven_space listed = uneven_space_of(&request, &plan);
    for (int i = 0; i < LENGTH(methods); i++) {
        request.method = methods[i];
        struct search_result result = search_of(&request);
        bool is_milp = strcmp(methods[i], "milp") == 0;
        ck_assert(is_milp || result.proved_optimal);
        ck_assert_int_eq(result.num_top > 0, listed.fastest_s < HUGE_VAL);
        if (result.num_top > 0) {
            double step_s = result.top[0].prediction.step_s;
            ck_assert_double_ge(step_s, listed.fastest_s * (1 - 1e-9));
            ck_assert_double_le(result.lower_bound_s, listed.fastest_s * (1 + 1e-9));
            ck_assert(result.top[0].prediction.fits);
            if (result.proved_optimal)
                ck_assert_double_eq_tol(step_s, listed.fastest_s, 1e-9 * step_s);
        }
        if (result.proved_optimal)
            ck_assert_double_ge(result.candidates, listed.plans);
        search_result_release(&result);
    }
    arena_release(&arena);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("dealt");
    TCase *tc = tcase_create("dealt");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_loop_test(
        tc, floor_and_bound_are_at_most_every_divisions_time_and_options_equal_stage_times, 0,
        LENGTH(layouts) * NUM_KINDS_OF_MODELS);
    tcase_add_loop_test(tc, a_stage_fits_in_the_table_exactly_if_it_fits_in_a_plan, 0,
                        LENGTH(layouts));
    tcase_add_loop_test(tc, the_search_equals_enumeration_of_all_divisions, 0,
                        LENGTH(points) * NUM_KINDS_OF_MODELS * NUM_TIGHT);
    suite_add_tcase(s, tc);
    TCase *deals = tcase_create("deals");
    tcase_add_test(deals, layers_go_to_the_chunk_with_the_least_weight);
    tcase_add_test(deals, modules_count_as_layers_where_they_are);
    suite_add_tcase(s, deals);
    return s;
}

TEST_MAIN(suite)
