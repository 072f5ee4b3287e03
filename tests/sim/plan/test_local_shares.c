#include "sim/plan/local.h"

#include "models/layer.h"
#include "sim/plan/axis.h"
#include "sim/plan/lowering.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <math.h>
#include <stdlib.h>

static struct arena arena;
static struct err err;

static void release(void)
{
    arena_release(&arena);
}

/* --- parameters ------------------------------------------------------------------------------- */

/* Megatron-LM's functional test gpt3_7b_tp4_pp1: the model has untied embeddings, grouped-query
 * attention, and 131073 tokens, padded to 131584. The optimizer's moments, 8 bytes per parameter
 * over two data ranks, were measured: 6,854,303,744 bytes. */
static struct model megatron_7b(void)
{
    return (struct model){ .layers = 32,
                           .hidden = 4096,
                           .heads = 32,
                           .kv_heads = 8,
                           .head_dim = 128,
                           .ffn = 16384,
                           .vocab = 131073,
                           .seq = 8192,
                           .max_positions = 8192,
                           .linear_bias = true,
                           .dropout = 0.1 };
}

START_TEST(parameters_per_rank_of_megatrons_7b_test_follow_from_its_moments)
{
    struct model model = megatron_7b();
    struct plan plan = plan_of("tp4 dp2 mb2", &arena);
    double parameters = local_embedding_parameters(rank_share_of(&plan), &model) +
                        model.layers * local_layer_parameters(rank_share_of(&plan), &model) +
                        local_head_parameters(rank_share_of(&plan), &model);
    ck_assert_double_eq(parameters, 1713299456);
    ck_assert_double_eq_tol(8 * parameters / 2, 6854303744, 0.0002 * 6854303744);
}
END_TEST

START_TEST(one_rank_holds_the_model_and_its_padding)
{
    struct model model = model_of("gpt2");
    struct plan plan = plan_of("tp1", &arena);
    double parameters = local_embedding_parameters(rank_share_of(&plan), &model) +
                        model.layers * local_layer_parameters(rank_share_of(&plan), &model) +
                        local_head_parameters(rank_share_of(&plan), &model);
    ck_assert_double_eq(parameters, model_parameters(&model) + (50304 - 50257) * 768);
}
END_TEST

/* Parameters that each of tp ranks holds in addition to 1/tp of the model: norms, biases added
 * after the sum, and copies of key and value heads. */
static double copies(const struct model *model, int tp)
{
    double hidden = model->hidden;
    double norms = 2 * hidden * (model->norm == NORM_LAYER ? 2 : 1);
    double head_norms = model->qk_norm ? 2 * model->head_dim : 0;
    double biases = model->linear_bias ? 2 * hidden : 0;
    double of_one_head =
        2 * model->head_dim * (hidden + (model->linear_bias || model->qkv_bias ? 1 : 0));
    double heads = tp > model->kv_heads ? tp - model->kv_heads : 0;
    return (tp - 1) * (norms + head_norms + biases) + heads * of_one_head;
}

/* Whether tensor ranks divide all of the model's matrices. Experts and latent attention have
 * weights that every rank holds whole; test_experts tests these. */
static bool can_split(const struct model *model, int tp)
{
    if (model->experts > 0 || model->kv_lora > 0)
        return tp == 1;
    bool fits_kv = model->kv_heads % tp == 0 || tp % model->kv_heads == 0;
    return model->heads % tp == 0 && model->ffn % tp == 0 && fits_kv;
}

START_TEST(ranks_together_hold_a_layer_and_the_copies)
{
    size_t count;
    struct model_preset *presets = model_presets(&count, &err);
    ck_assert_msg(presets, "%s", err.msg);
    for (size_t i = 0; i < count; i++)
        for (int tp = 1; tp <= 32; tp *= 2) {
            const struct model *model = &presets[i].model;
            struct plan plan = plan_default();
            plan.tp = tp;
            if (has_costs(model) && can_split(model, tp))
                ck_assert_msg(tp * local_layer_parameters(rank_share_of(&plan), model) ==
                                  model_layer_parameters(model) + copies(model, tp),
                              "%s at tp %d", model->name, tp);
        }
    free(presets);
}
END_TEST

START_TEST(a_family_may_disable_padding_of_the_vocabulary)
{
    struct model model = model_of("gpt3-175b");
    struct plan plan = plan_of("tp4", &arena);
    struct layer_options odd = layer_flash;
    model.vocab = 50257;
    odd.leaves_vocab_odd = true;
    struct local_ops ops = local_head(rank_share_of(&plan), &model, 2048, &odd, false, &arena);
    for (int i = 0; i < ops.forward.count; i++)
        if (ops.forward.at[i].kind == OP_GEMM)
            ck_assert_double_eq(ops.forward.at[i].n, 12564);
}
END_TEST

START_TEST(ranks_together_hold_the_padded_vocabulary_once_and_positions_each)
{
    struct model model = model_of("gpt3-175b");
    struct plan plan = plan_of("tp8", &arena);
    ck_assert_double_eq(8 * local_embedding_parameters(rank_share_of(&plan), &model),
                        12288 * (padded_vocab(&model, 8) + 8 * 2048.0));
}
END_TEST

START_TEST(a_tied_head_is_copied_to_the_last_stage_only_when_there_is_another)
{
    struct model model = model_of("gpt3-175b");
    struct plan one = plan_of("tp8 pp1", &arena);
    struct plan eight = plan_of("tp8 pp8", &arena);
    ck_assert_double_eq(local_head_parameters(rank_share_of(&one), &model), 2 * 12288);
    ck_assert_double_eq(local_head_parameters(rank_share_of(&eight), &model),
                        2 * 12288 + padded_vocab(&model, 8) / 8 * 12288);
}
END_TEST

/* The gradients of a tied embedding are summed only if the first and the last chunk are on
 * different stages, so that there are two copies. In a V, and in mirrored schedules, a stage has
 * both. */
START_TEST(a_tied_table_is_summed_only_if_two_stages_hold_it)
{
    static const struct {
        const char *layout;
        bool is_summed;
    } cases[] = { { "pp4", true },
                  { "pp4 vpp2", true },
                  { "dp4", false },
                  { "pp4 vpp2 schedule=zb-v", false },
                  { "pp4 vpp2 schedule=dualpipev", false },
                  { "pp4 schedule=dualpipe", false } };
    struct model model = model_of("gpt3-1.3b");
    for (int i = 0; i < LENGTH(cases); i++) {
        struct plan plan = plan_of(cases[i].layout, &arena);
        bool is_summed = plan_lowering(&plan, &model).tied;
        ck_assert_msg(is_summed == cases[i].is_summed, "%s: expected is_summed %d", cases[i].layout,
                      cases[i].is_summed);
    }
}
END_TEST

/* --- laws over presets ------------------------------------------------------------------------ */

static bool is_sane(const struct op *op)
{
    const double sizes[] = { op->m,
                             op->n,
                             op->k,
                             op->batch,
                             op->flops,
                             op->model_flops,
                             op->bytes,
                             op->kernels,
                             op->comm_bytes,
                             op->backward_bytes,
                             op->backward_kernels };
    for (size_t i = 0; i < LENGTH(sizes); i++)
        if (!isfinite(sizes[i]) || sizes[i] < 0)
            return false;
    return op->model_flops <= op->flops;
}

typedef void check_fn(const struct plan *plan, const struct model *model);

static void for_each_preset(check_fn *check)
{
    size_t count;
    struct model_preset *presets = model_presets(&count, &err);
    ck_assert_msg(presets, "%s", err.msg);
    for (size_t i = 0; i < count; i++)
        for (int tp = 1; tp <= 16; tp *= 2)
            for (int sp = 0; sp <= (tp > 1); sp++) {
                struct plan plan = plan_default();
                plan.tp = tp;
                plan.sp = sp;
                if (has_costs(&presets[i].model) && can_split(&presets[i].model, tp))
                    check(&plan, &presets[i].model);
                arena_release(&arena);
            }
    free(presets);
}

static void check_sizes(const struct plan *plan, const struct model *model)
{
    struct local_ops parts[] = {
        local_layer(rank_share_of(plan), model, model->seq, &layer_flash, true, &arena),
        local_embedding(rank_share_of(plan), model, model->seq, &layer_flash, true, &arena),
        local_head(rank_share_of(plan), model, model->seq, &layer_flash, true, &arena),
    };
    for (size_t part = 0; part < 3; part++) {
        check_operands(parts[part].forward, parts[part].backward);
        for (int i = 0; i < parts[part].forward.count; i++)
            ck_assert_msg(is_sane(&parts[part].forward.at[i]),
                          "%s: forward op %s has a wrong number", model->name,
                          parts[part].forward.at[i].name);
        for (int i = 0; i < parts[part].backward.count; i++)
            ck_assert_msg(is_sane(&parts[part].backward.at[i]),
                          "%s: backward op %s has a wrong number", model->name,
                          parts[part].backward.at[i].name);
    }
}

START_TEST(sizes_of_every_preset_are_plausible_and_operands_exist)
{
    for_each_preset(check_sizes);
}
END_TEST

static double forward_flops(const struct plan *plan, const struct model *model)
{
    return ops_flops(
        local_layer(rank_share_of(plan), model, model->seq, &layer_flash, false, &arena).forward);
}

/* Each rank computes 1/tp of the FLOPs, except for copied key heads, which each rank that has them
 * computes. */
static void check_flops(const struct plan *plan, const struct model *model)
{
    if (!can_split(model, plan->tp))
        return;
    struct plan one = plan_default();
    double spare_heads = plan->tp > model->kv_heads ? plan->tp - model->kv_heads : 0;
    double copied = 2.0 * model->seq * model->hidden * 2 * spare_heads * model->head_dim;
    double expected = forward_flops(&one, model) + copied;
    ck_assert_double_eq_tol(plan->tp * forward_flops(plan, model), expected, 1e-12 * expected);
}

START_TEST(flops_of_all_ranks_sum_to_those_of_one)
{
    for_each_preset(check_flops);
}
END_TEST

static double saved_bytes(const struct plan *plan, const struct model *model)
{
    struct ops ops =
        local_layer(rank_share_of(plan), model, model->seq, &layer_flash, false, &arena).forward;
    double bytes = 0;
    for (int i = 0; i < ops.count; i++)
        bytes += op_saved_bytes(&ops, &ops.at[i]);
    return bytes;
}

/* With sequence parallelism only the copies of key and value heads are kept more than once. */
static void check_activations(const struct plan *plan, const struct model *model)
{
    struct plan one = plan_default();
    double whole = saved_bytes(&one, model);
    double share = saved_bytes(plan, model);
    ck_assert(share <= whole);
    if (plan->sp && plan->tp <= model->kv_heads && !model->qk_norm)
        ck_assert_double_eq_tol(plan->tp * share, whole, 1e-12 * whole);
    else
        ck_assert(plan->tp * share >= whole * (1 - 1e-12));
}

START_TEST(kept_bytes_of_all_ranks_sum_to_at_least_those_of_one)
{
    for_each_preset(check_activations);
}
END_TEST

static TCase *parameters(void)
{
    TCase *tc = tcase_create("parameters");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, parameters_per_rank_of_megatrons_7b_test_follow_from_its_moments);
    tcase_add_test(tc, one_rank_holds_the_model_and_its_padding);
    tcase_add_test(tc, ranks_together_hold_a_layer_and_the_copies);
    tcase_add_test(tc, a_family_may_disable_padding_of_the_vocabulary);
    tcase_add_test(tc, ranks_together_hold_the_padded_vocabulary_once_and_positions_each);
    tcase_add_test(tc, a_tied_table_is_summed_only_if_two_stages_hold_it);
    tcase_add_test(tc, a_tied_head_is_copied_to_the_last_stage_only_when_there_is_another);
    return tc;
}

static TCase *presets_laws(void)
{
    TCase *tc = tcase_create("presets");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, sizes_of_every_preset_are_plausible_and_operands_exist);
    tcase_add_test(tc, flops_of_all_ranks_sum_to_those_of_one);
    tcase_add_test(tc, kept_bytes_of_all_ranks_sum_to_at_least_those_of_one);
    return tc;
}

static Suite *suite(void)
{
    Suite *s = suite_create("sim/plan/local: shares of ranks");
    suite_add_tcase(s, parameters());
    suite_add_tcase(s, presets_laws());
    return s;
}

TEST_MAIN(suite)
