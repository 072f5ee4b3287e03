#include "exec/supported.h"
#include "tests/testing.h"

#include <string.h>

static struct model model_of(void)
{
    struct err err = { 0 };
    struct model model;
    ck_assert_msg(model_load("tiny", &model, &err), "%s", err.msg);
    model.kv_heads = 2;
    return model;
}

static bool is_supported(const char *layout, const struct model *model, struct err *err)
{
    struct arena arena = { 0 };
    struct plan plan;
    ck_assert_msg(plan_parse(layout, &arena, &plan, err), "%s: %s", layout, err->msg);
    plan.dp = plan.dp > 0 ? plan.dp : 1;
    bool ok = run_supported(&plan, model, err);
    arena_release(&arena);
    return ok;
}

static const struct {
    const char *layout, *where;
} refused[] = {
    { "cp2", "cp" },
    { "dp2 ep2", "ep" },
    { "dp4 zero1 shard=2", "shard" },
    { "offload=optimizer", "offload" },
    { "tp4", "tp" },
    { "dtype=fp8", "dtype" },
    { "dtype=bf16-pure", "dtype" },
    { "reduce=bf16", "grad" },
    { "recompute=selective:mlp", "recompute" },
    { "grad=bf16", "grad" },
    { "optimizer=adafactor", "optimizer" },
    { "optimizer=muon", "optimizer" },
    { "pp4 schedule=dualpipe", "schedule" },
    { "pp2 vpp2 dp2 zero2 schedule=zb-v", "zero" },
    { "pp2 vpp2 schedule=zb-v exchange=topk:0.1", "exchange" },
    { "dp2 dtype=fp16 exchange=topk:0.1", "exchange" },
    { "dp2 dtype=fp16 exchange=qsgd:4", "exchange" },
    { "dp4 dtype=fp16 exchange=median:1", "exchange" },
    { "dp2 dtype=fp16 exchange=async:2", "exchange" },
};
enum { NUM_REFUSED = LENGTH(refused) };

START_TEST(unsupported_plans_are_refused_by_name)
{
    struct err err = { 0 };
    struct model model = model_of();
    ck_assert_msg(!is_supported(refused[_i].layout, &model, &err), "%s is accepted",
                  refused[_i].layout);
    ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
    ck_assert_str_eq(err.where, refused[_i].where);
    ck_assert(strstr(err.msg, " can") != NULL || strstr(err.msg, " only ") != NULL);
}
END_TEST

START_TEST(unsupported_models_are_refused)
{
    struct err err = { 0 };
    struct model model = model_of();
    model.positions = POSITION_ALIBI;
    ck_assert(!is_supported("mb1", &model, &err));
    ck_assert_str_eq(err.where, "model");
    err = (struct err){ 0 };
    model = model_of();
    model.mtp = 1;
    ck_assert(!is_supported("mb1", &model, &err));
    ck_assert_msg(strstr(err.msg, "multi-token-prediction"), "%s", err.msg);
}
END_TEST

enum { NUM_CHANGES = 20 };

/* Makes change number `which`. After changes 0 to 17 the executor cannot run the model. After
 * change 18 (norms of queries and keys per head) it can, and number 19 changes nothing. */
static void change(struct model *model, int which)
{
    static const int kinds[] = { ATTENTION_WINDOW, ATTENTION_DELTA };
    model->experts = which == 0 ? 4 : model->experts;
    model->kv_lora = which == 1 ? 8 : 0;
    model->attention_gate = which == 2;
    model->sinks = which == 3;
    model->out_bias = which == 4;
    model->ffn_bias = which == 5;
    model->norm = which == 6 ? NORM_GAIN : model->norm;
    model->norm_place = which == 7 ? NORMS_AFTER : which == 8 ? NORMS_AROUND : NORMS_BEFORE;
    model->activation = which == 9 ? ACTIVATION_RELU2 : model->activation;
    model->qk_norm = which == 10 || which == 11 || which == 18;
    model->qk_norm_kind = which == 10 ? QK_NORM_EACH : which == 11 ? QK_NORM_ALL : QK_NORM_HEAD;
    if (which == 12 || which == 13)
        model->attention = kinds[which - 12];
    model->feed_forward = which == 14 ? FEED_FORWARD_NONE : model->feed_forward;
    model->reference = which == 15;
    model->lora = which == 16 ? 4 : 0;
    model->positions = which == 17 ? POSITION_TRANSFORMER_XL : model->positions;
}

START_TEST(each_property_that_cannot_be_run_is_refused)
{
    struct err err = { 0 };
    struct model model = model_of();
    change(&model, _i);
    ck_assert_int_eq(is_supported("mb1", &model, &err), _i >= 18);
    ck_assert_str_eq(err.where, _i >= 18 ? "" : _i == 0 ? "ep" : "model");
}
END_TEST

START_TEST(every_refusal_is_tested)
{
    bool is_met = strcmp(run_refusals[_i].where, "model") == 0;
    for (int i = 0; i < NUM_REFUSED; i++)
        is_met |= strcmp(run_refusals[_i].where, refused[i].where) == 0;
    ck_assert_msg(is_met, "no refusal of %s is tested", run_refusals[_i].where);
}
END_TEST

static const char *const run[] = {
    "tp2 sp pp2 vpp2 dp2 zero1", "dp2 zero3 recompute=full",       "recompute=full:2",
    "recompute=block:1",         "dtype=fp16 recompute=selective", "dtype=fp32 optimizer=sgd",
    "pp2 vpp2 schedule=zb-v",    "pp2 vpp2 schedule=dualpipev",    "pp2 schedule=zb-h1",
    "dp2 exchange=topk:0.1",     "dp2 exchange=local:4",           "recompute=op-selective",
};
enum { NUM_RUN = LENGTH(run) };

START_TEST(supported_plans_are_accepted)
{
    struct err err = { 0 };
    struct model model = model_of();
    ck_assert_msg(is_supported(run[_i], &model, &err), "%s: %s: %s", run[_i], err.where, err.msg);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("supported");
    tcase_add_loop_test(tc, unsupported_plans_are_refused_by_name, 0, NUM_REFUSED);
    tcase_add_test(tc, unsupported_models_are_refused);
    tcase_add_loop_test(tc, each_property_that_cannot_be_run_is_refused, 0, NUM_CHANGES);
    tcase_add_loop_test(tc, every_refusal_is_tested, 0, num_run_refusals);
    tcase_add_loop_test(tc, supported_plans_are_accepted, 0, NUM_RUN);
    Suite *s = suite_create("exec/supported");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
