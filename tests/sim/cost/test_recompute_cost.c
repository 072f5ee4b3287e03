#include "sim/cost/recompute_cost.h"

#include "sim/cost/piece.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <string.h>

/* Recompute costs for every set of recomputed sub-layers, derived from one op list (the source),
 * equal the costs of an op list that is built for that set alone. */

static const struct setting {
    const char *cluster, *stack, *model;
    double cv; /* coefficient of variation of the popularity of experts; 0: balanced */
} settings[] = {
    { "dgx-h100", "megatron-core", "deepseek-v3", 0 },
    { "dgx-h100", "megatron-core", "mixtral-8x7b", 0.6 },
    { "dgx-a100-80g", "megatron-2022", "gpt3-175b", 0 },
    { "dgx-h100", "xla", "llama3-8b", 0 }, /* recompute repeats only what the backward reads */
    { "dgx-h100", "xla", "mixtral-8x7b", 0.6 },
};

static struct system machine;
static struct model model;
static struct arena arena;

static void tear_down(void)
{
    system_release(&machine);
    arena_release(&arena);
}

static struct plan base_plan(bool has_experts)
{
    struct plan plan = plan_default();
    plan.tp = 4;
    plan.dp = 4;
    plan.sp = true;
    plan.microbatch = 2;
    plan.ep = has_experts ? 4 : 1;
    plan.recompute = RECOMPUTE_SELECTIVE;
    return plan;
}

static void check_equal(const struct piece_cost *a, const struct piece_cost *b)
{
    ck_assert(memcmp(&a->replay, &b->replay, sizeof a->replay) == 0);
    ck_assert_double_eq(a->replayed_bytes, b->replayed_bytes);
    ck_assert_double_eq(a->replayed_moment_bytes, b->replayed_moment_bytes);
    ck_assert_double_eq(a->saved_bytes, b->saved_bytes);
}

START_TEST(one_source_has_the_costs_of_every_set)
{
    const struct setting *of = &settings[_i];
    struct err err = { 0 };
    ck_assert(system_load(of->cluster, of->stack, 16, &machine, &err) &&
              model_load(of->model, &model, &err));
    if (of->cv > 0)
        model.routing = (struct routing){ .kind = ROUTING_SKEWED, .cv = of->cv };
    struct plan plan = base_plan(model.experts > 0);
    struct piece_question question =
        piece_question_of(&machine, &plan, generator_find(plan_schedule(&plan)));
    struct piece_wires wires = piece_wires_of(&machine, &plan);
    struct pieces core = pieces_cost(&machine, &model, &plan, &arena);
    const struct pieces_sources *sources =
        pieces_sources_of(&machine, &model, &question, &wires, &arena);
    unsigned possible = plan_possible_replays(&model);
    for (plan.replays = 1; plan.replays <= possible; plan.replays++) {
        if ((plan.replays & possible) != plan.replays)
            continue;
        struct pieces whole = pieces_cost(&machine, &model, &plan, &arena);
        struct pieces shared = pieces_replaying(&model, &core, sources, plan.replays);
        for (int kind = 0; kind < model_num_kinds(&model); kind++)
            check_equal(&shared.at[kind], &whole.at[kind]);
        check_equal(&shared.at[PIECE_LATER], &whole.at[PIECE_LATER]);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("replay_cost");
    TCase *tc = tcase_create("replay_cost");
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_loop_test(tc, one_source_has_the_costs_of_every_set, 0, LENGTH(settings));
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
