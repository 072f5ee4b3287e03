/* Tests a further parallel axis: tests/sim/plan/feature_axis.c and its line in the table below,
 * which is linked instead of sim/plan/axes.c. No other source mentions the axis. */
#include "tests/testing.h"

#include "exec/comm/groups.h"
#include "exec/supported.h"
#include "interchange/target.h"
#include "search/search.h"
#include "search/space.h"
#include "sim/cost/piece.h"
#include "sim/plan/axes.h"
#include "sim/plan/group.h"
#include "sim/plan/local.h"
#include "sim/plan/ranks.h"
#include "tests/search/searching.h"
#include "tests/sim/machine.h"
#include "tests/sim/named.h"
#include "tests/sim/plan/feature_axis.h"

#include <string.h>

const struct axis *const axes[] = {
    [AXIS_TENSOR] = &tensor_axis, [AXIS_CONTEXT] = &context_axis,
    [AXIS_EXPERT] = &expert_axis, [AXIS_PIPELINE] = &pipeline_axis,
    [AXIS_DATA] = &data_axis,     [AXIS_FEATURE] = &feature_axis,
};
const int num_axes = LENGTH(axes);

static struct arena arena;
static struct err err;
static struct model model;

static void set_up(void)
{
    machine_load("dgx-h100", 8);
    model = model_of("gpt3-350m");
    model.batch = 16;
    err = (struct err){ 0 };
}

static void tear_down(void)
{
    machine_release();
    arena_release(&arena);
}

static const char *text_of(const struct plan *plan)
{
    struct text text = { 0 };
    plan_write(plan, &text);
    return text_keep(&text, &arena);
}

/* --- words, rules, ranks -------------------------------------------------------------------- */

START_TEST(the_new_axis_word_is_read_and_written)
{
    static const char *const layouts[] = { "tp2 pp1 dp2 xp2 mb1",
                                           "tp1 pp1 dp2 xp2 mb1 order=dp-xp-tp-cp-pp" };
    for (size_t i = 0; i < LENGTH(layouts); i++) {
        struct plan plan = plan_of(layouts[i], &arena);
        ck_assert_int_eq(plan.degree[AXIS_FEATURE], 2);
        ck_assert_str_eq(text_of(&plan), layouts[i]);
    }
    struct plan plan = plan_of("tp2 dp4 mb1", &arena);
    ck_assert_int_eq(plan.degree[AXIS_FEATURE], 1);
    ck_assert(!plan_parse("tp2 order=tp-cp-dp-pp", &arena, &plan, &err));
    ck_assert_msg(strstr(err.msg, "tp, xp, cp, dp and pp once each"), "%s", err.msg);
}
END_TEST

START_TEST(the_new_axis_ranks_are_counted_and_its_rules_checked)
{
    struct plan plan = plan_of("tp2 pp2 xp2 mb1", &arena);
    ck_assert(!plan_derive_data(&plan, 12, &err));
    ck_assert_str_eq(
        err.msg,
        "the number of GPUs, 12, is not a multiple of the 8 ranks of tp 2 x cp 1 x pp 2 x xp 2");
    err = (struct err){ 0 };
    ck_assert(plan_derive_data(&plan, 16, &err));
    ck_assert_int_eq(plan.dp, 2);
    ck_assert_int_eq(plan_ranks(&plan), 16);
    ck_assert_int_eq(plan_stage_ranks(&plan), 8);
    ck_assert_int_eq(plan_replicas(&plan), 2);
    ck_assert_ptr_null(plan_check(&plan, &model, 16, 16, &err));
    plan.degree[AXIS_FEATURE] = 3;
    ck_assert_str_eq(plan_check(&plan, &model, 16, 24, &err)->name, "feature");
    plan.degree[AXIS_FEATURE] = 0;
    ck_assert_str_eq(plan_check(&plan, &model, 16, 24, &err)->name, "degrees");
}
END_TEST

/* With tp2 xp2 dp2 (xp is the new axis), tensor ranks are neighbours, and feature ranks are two
 * apart. */
START_TEST(the_new_axis_ranks_are_grouped)
{
    struct plan plan = plan_of("tp2 pp1 dp2 xp2 mb1", &arena);
    static const int expected[] = { 1, 3 }, of_model[] = { 0, 1, 2, 3 };
    int members[8];
    struct rank_group group = plan_group(&plan, 1u << AXIS_FEATURE);
    ck_assert_int_eq(group_ranks(&group, 3, members), 2);
    ck_assert_mem_eq(members, expected, sizeof expected);
    ck_assert_int_eq(layout_coordinates_of(&plan, 6).at[AXIS_FEATURE], 1);
    ck_assert_int_eq(group_members(&plan, 2, GROUP_MODEL, members), 4);
    ck_assert_mem_eq(members, of_model, sizeof of_model);
    ck_assert_int_eq(group_members(&plan, 2, GROUP_WORLD, members), 8);
    ck_assert_int_eq(group_members(&plan, 2, GROUP_DATA, members), 2);
    ck_assert_int_eq(members[0], 2);
    ck_assert_int_eq(members[1], 6);
}
END_TEST

/* --- costs ---------------------------------------------------------------------------------- */

START_TEST(the_new_axis_group_runs_its_collectives)
{
    struct plan plan = plan_on(&machine, &model, "tp1 pp1 dp4 xp2 mb1", &arena);
    struct plan whole = plan_on(&machine, &model, "tp1 pp1 dp8 mb1", &arena);
    struct rank_group ranks = plan_group(&plan, 1u << AXIS_FEATURE);
    struct comm_group group = network_group(&machine, &ranks);
    struct layer_options options = plan_layer_options(&plan, &machine);
    struct local_ops layer =
        local_layer(rank_share_of(&plan), &model, model.seq, &options, false, &arena);
    double sums_s = 0, sums = 0;
    for (int i = 0; i < layer.forward.count; i++)
        if (layer.forward.at[i].stream == axis_stream(AXIS_FEATURE)) {
            sums_s += collective_s(&group, COLLECTIVE_ALL_REDUCE, layer.forward.at[i].comm_bytes);
            sums++;
        }
    ck_assert_double_eq(sums, 1);
    struct pieces cut = pieces_cost(&machine, &model, &plan, &arena);
    struct pieces uncut = pieces_cost(&machine, &model, &whole, &arena);
    ck_assert_double_eq(uncut.at[0].forward.comm_s, 0);
    ck_assert_double_ge(cut.at[0].forward.comm_s, sums_s * (1 - 1e-12));
    ck_assert_double_le(cut.at[0].forward.comm_s, 2 * sums_s);
    double matrices = 2.0 * model.hidden * model.ffn / 2;
    ck_assert_double_eq_tol(uncut.at[0].parameters - cut.at[0].parameters, matrices, model.ffn);
    struct kind_totals totals = plan_kind_totals(&machine, &model, &plan);
    double layers_run = 4.0 * 8 * model.layers; /* number of microbatches x ranks x layers */
    ck_assert_double_ge(totals.count[OP_ALL_REDUCE], layers_run);
}
END_TEST

/* Selective recompute repeats the scores, the softmax and the product with the values, and no other
 * op. */
START_TEST(totals_by_kind_include_recomputed_ops)
{
    static const char *const layouts[] = { "dp8 mb1 attn=unfused",
                                           "dp8 mb1 attn=unfused recompute=selective" };
    struct kind_totals totals[2];
    for (int i = 0; i < 2; i++) {
        struct plan plan = plan_on(&machine, &model, layouts[i], &arena);
        totals[i] = plan_kind_totals(&machine, &model, &plan);
    }
    for (int kind = 0; kind < NUM_OP_KINDS; kind++) {
        double again = totals[1].count[kind] - totals[0].count[kind];
        bool is_replayed = kind == OP_SCORES || kind == OP_SOFTMAX;
        ck_assert_double_ge(again, is_replayed ? model.batch * model.layers : 0);
        ck_assert(kind != OP_GEMM || again == 0);
        ck_assert(kind != OP_NORM || again == 0);
    }
}
END_TEST

/* With one rank and no overlap, ops run one after the other, so the seconds of all kinds of ops of
 * the layers, the embedding and the head add up to the time of their lists. */
START_TEST(seconds_by_kind_add_up_to_the_time_of_the_lists)
{
    struct plan plan = plan_on(&machine, &model, "dp8 mb1", &arena);
    struct kind_totals totals = plan_kind_totals(&machine, &model, &plan);
    struct pieces pieces = pieces_cost(&machine, &model, &plan, &arena);
    double sum_s = 0, lists_s = 0;
    for (int kind = 0; kind < NUM_OP_KINDS; kind++)
        sum_s += totals.seconds[kind];
    for (int i = 0; i < NUM_PIECES; i++)
        lists_s += (i == 0 ? model.layers : 1) *
                   (pieces.at[i].forward.total_s + pieces.at[i].backward.total_s);
    ck_assert_double_eq_tol(sum_s, model.batch * lists_s, 1e-9 * sum_s);
}
END_TEST

/* A feed-forward's recompute repeats both products, or only the first if the stack does not repeat
 * what no backward op reads. */
START_TEST(totals_of_recompute_omit_products_that_nothing_reads)
{
    struct system reads = machine;
    model.dropout = 0; /* a mask of the block's last sum would need the last product */
    struct plan plan = plan_on(&machine, &model, "dp8 mb1", &arena);
    struct plan again = plan_on(&machine, &model, "dp8 mb1 recompute=selective:mlp", &arena);
    double passes = model.batch * model.layers;
    double once = plan_kind_totals(&machine, &model, &plan).count[OP_GEMM];
    reads.stack.recomputes_unread = false;
    ck_assert(machine.stack.recomputes_unread);
    ck_assert_double_eq(plan_kind_totals(&machine, &model, &again).count[OP_GEMM] - once,
                        2 * passes);
    ck_assert_double_eq(plan_kind_totals(&reads, &model, &again).count[OP_GEMM] - once, passes);
    struct pieces all = pieces_cost(&machine, &model, &again, &arena);
    struct pieces read = pieces_cost(&reads, &model, &again, &arena);
    double flops = 2.0 * model.seq * model.hidden * model.ffn;
    ck_assert_double_eq_tol(all.at[0].replay.flops - read.at[0].replay.flops, flops, 1e-6 * flops);
    ck_assert_double_lt(read.at[0].replay.total_s, all.at[0].replay.total_s);
    ck_assert_double_eq(read.at[0].replayed_bytes, all.at[0].replayed_bytes);
}
END_TEST

/* The degrees to try are 1, 2, 4 and 8 context ranks, if they divide the GPUs. */
START_TEST(degrees_to_try_divide_the_gpus)
{
    struct plan base = plan_default();
    for (int gpus = 1; gpus <= 48; gpus++) {
        struct axis_case of = { &model, gpus, &base, true };
        int expected = 1;
        for (int degree = axes[AXIS_CONTEXT]->next_degree(&of, 0); degree > 0;
             degree = axes[AXIS_CONTEXT]->next_degree(&of, degree)) {
            ck_assert_int_eq(degree, expected);
            ck_assert_int_eq(gpus % degree, 0);
            expected *= 2;
        }
        ck_assert(expected == 16 || gpus % expected != 0);
        for (int axis = 0; axis < num_axes;
             axis++) /* the product with the degrees of other axes must divide the GPUs */
            for (int degree = 0; axes[axis]->next_degree && !axes[axis]->is_folded &&
                                 (degree = axes[axis]->next_degree(&of, degree)) > 0;)
                ck_assert_int_eq(gpus % degree, 0);
    }
}
END_TEST

/* --- search ------------------------------------------------------------------------------------
 */

static struct search_request request_of(const char *method, const char *fix)
{
    return (struct search_request){ .system = &machine,
                                    .model = &model,
                                    .method = method,
                                    .fix = fix,
                                    .base = plan_default(),
                                    .budget = 300,
                                    .top = 1,
                                    .jobs = 1 };
}

static double candidates_of(const char *fix)
{
    struct search_request request = request_of("exhaustive", fix);
    struct search_result result = search_of(&request);
    ck_assert_ptr_nonnull(strstr(result.space_name, " xp"));
    double candidates = result.candidates;
    search_result_release(&result);
    return candidates;
}

START_TEST(searches_include_the_new_axis)
{
    double one = candidates_of("xp1 mb1"), two = candidates_of("xp2 mb1");
    ck_assert_double_gt(two, 0);
    ck_assert_double_eq(candidates_of("mb1"), one + two);
    static const char *const methods[] = { "exhaustive", "bnb", "random", "zo", "rl" };
    for (size_t i = 0; i < LENGTH(methods); i++) {
        struct search_request request = request_of(methods[i], "mb1 xp2");
        struct search_result result = search_of(&request);
        const struct plan *best = &result.top[0].plan;
        ck_assert_int_eq(best->degree[AXIS_FEATURE], 2);
        ck_assert_int_eq(plan_ranks(best), 8);
        search_result_release(&result);
    }
}
END_TEST

START_TEST(searches_include_all_rank_orders_of_the_new_axis)
{
    struct search_request exhaustive = request_of("exhaustive", "mb1 sp0 zero1 recompute=none");
    exhaustive.placement = true;
    struct search_request bnb = exhaustive;
    bnb.method = "bnb";
    struct search_result all = search_of(&exhaustive), best = search_of(&bnb);
    ck_assert_str_eq(text_of(&all.top[0].plan), text_of(&best.top[0].plan));
    ck_assert_double_eq(all.top[0].prediction.step_s, best.top[0].prediction.step_s);
    ck_assert_double_eq(all.candidates, best.candidates);
    search_result_release(&all);
    search_result_release(&best);
    exhaustive.forbid = "xp";
    all = search_of(&exhaustive);
    ck_assert_int_eq(all.top[0].plan.degree[AXIS_FEATURE], 1);
    search_result_release(&all);
}
END_TEST

/* --- parts of the program that do not support the axis ---------------------------------- */

START_TEST(the_executor_and_frameworks_refuse_the_new_axis)
{
    struct plan plan = plan_on(&machine, &model, "tp1 pp1 dp4 xp2 mb1", &arena);
    ck_assert(!run_supported(&plan, &model, &err));
    ck_assert_str_eq(err.where, "xp");
    for (int i = 0; i < num_targets; i++) {
        struct job job = job_begin(&machine.stack, &machine.gpu);
        job.model = model;
        job.plan = plan;
        job.num_gpus = 8;
        const struct target_rule *broken = NULL;
        do {
            err = (struct err){ 0 };
            broken = target_check_job(&targets[i], &job, broken ? broken + 1 : NULL, &arena, &err);
            ck_assert_msg(broken, "%s", targets[i].name);
        } while (strcmp(err.where, "xp") != 0);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("a further axis");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, the_new_axis_word_is_read_and_written);
    tcase_add_test(tc, the_new_axis_ranks_are_counted_and_its_rules_checked);
    tcase_add_test(tc, the_new_axis_ranks_are_grouped);
    tcase_add_test(tc, the_new_axis_group_runs_its_collectives);
    tcase_add_test(tc, totals_by_kind_include_recomputed_ops);
    tcase_add_test(tc, seconds_by_kind_add_up_to_the_time_of_the_lists);
    tcase_add_test(tc, totals_of_recompute_omit_products_that_nothing_reads);
    tcase_add_test(tc, degrees_to_try_divide_the_gpus);
    tcase_add_test(tc, searches_include_the_new_axis);
    tcase_add_test(tc, searches_include_all_rank_orders_of_the_new_axis);
    tcase_add_test(tc, the_executor_and_frameworks_refuse_the_new_axis);
    Suite *s = suite_create("sim/plan/axis");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
