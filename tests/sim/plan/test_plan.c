#include "sim/plan/plan.h"

#include "base/length.h"
#include "base/random.h"
#include "sim/plan/fold.h"
#include "sim/plan/group.h"
#include "sim/plan/state_share.h"
#include "sim/plan/tokens.h"
#include "sim/schedule/schedule.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>

static struct arena arena;
static struct text text;
static struct err err;

static void release(void)
{
    arena_release(&arena);
    text_release(&text);
}

static const char *written(const struct plan *plan)
{
    text_release(&text);
    plan_write(plan, &text);
    return text_get(&text);
}

START_TEST(omitted_words_of_a_layout_have_their_defaults)
{
    struct plan plan = plan_of("tp2", &arena);
    struct plan expected = plan_default();
    expected.tp = 2;
    expected.dp = 0;
    ck_assert(plan_equal(&plan, &expected));
    ck_assert_int_eq(plan.dp, 0);
    ck_assert_int_eq(plan.precision, PRECISION_BF16);
    ck_assert_int_eq(plan.gradient_dtype, DTYPE_FP32);
    ck_assert_int_eq(plan.reduce_dtype, DTYPE_FP32);
    ck_assert_str_eq(plan_schedule(&plan), "1f1b");
}
END_TEST

START_TEST(every_word_sets_its_field_of_the_plan)
{
    struct plan plan = plan_of(
        "tp2 cp3 ep4 etp5 pp2 dp7 mb8 vpp2 sp zero1 shard=3 schedule=gpipe stages=12,14,14,2 "
        "recompute=block:3,2,2,0 attn=flash dtype=fp16 grad=fp16 reduce=fp32 optimizer=momentum "
        "overlap=grad,tp order=dp-tp-pp-cp offload=activations",
        &arena);
    ck_assert_int_eq(plan.tp, 2);
    ck_assert_int_eq(plan.cp, 3);
    ck_assert_int_eq(plan.ep, 4);
    ck_assert_int_eq(plan.etp, 5);
    ck_assert_int_eq(plan.pp, 2);
    ck_assert_int_eq(plan.dp, 7);
    ck_assert_int_eq(plan.microbatch, 8);
    ck_assert_int_eq(plan.vpp, 2);
    ck_assert(plan.sp);
    ck_assert_int_eq(plan.zero, 1);
    ck_assert_int_eq(plan.shard, 3);
    ck_assert_str_eq(plan.schedule, "gpipe");
    ck_assert_int_eq(plan.num_chunk_layers, 4);
    ck_assert_int_eq(plan.chunk_layers[1], 14);
    ck_assert_int_eq(plan.chunk_layers[3], 2);
    ck_assert_int_eq(plan.recompute, RECOMPUTE_BLOCK);
    ck_assert_int_eq(plan.num_recompute_layers, 4);
    ck_assert_int_eq(plan.recompute_layers[0], 3);
    ck_assert_int_eq(plan.recompute_layers[3], 0);
    ck_assert_int_eq(plan.attention, PLAN_ATTENTION_FLASH);
    ck_assert_int_eq(plan.precision, PRECISION_FP16);
    ck_assert_int_eq(plan.gradient_dtype, DTYPE_FP16);
    ck_assert_int_eq(plan.reduce_dtype, DTYPE_FP32);
    ck_assert_int_eq(plan.optimizer, OPTIMIZER_MOMENTUM);
    ck_assert(plan.overlaps_given);
    ck_assert_uint_eq(plan.overlaps, 1u << PLAN_OVERLAP_GRAD | 1u << PLAN_OVERLAP_TP);
    ck_assert_uint_eq(plan.offloads, 1u << OFFLOAD_ACTIVATIONS);
    int order[] = { AXIS_EXPERT, AXIS_DATA, AXIS_TENSOR, AXIS_PIPELINE, AXIS_CONTEXT };
    ck_assert_mem_eq(plan.order, order, sizeof order);
}
END_TEST

static const struct {
    const char *layout;
    const char *canonical;
} layouts[] = {
    { "tp1", "tp1 pp1 mb1" },
    { "tp8 cp1 ep1 etp1 pp8 dp16 mb1 vpp1 sp0 zero0", "tp8 pp8 dp16 mb1" },
    { "zero1 sp vpp3 mb1 dp16 pp8 tp8", "tp8 pp8 dp16 mb1 vpp3 sp zero1" },
    { "  tp=8\tpp=8  mb=2\ndp=16 sp=1 zero=1 ", "tp8 pp8 dp16 mb2 sp zero1" },
    { "tp2 sp1 ep4 cp2 etp2", "tp2 cp2 ep4 etp2 pp1 mb1 sp" },
    { "tp007", "tp7 pp1 mb1" },
    { "cp2 cp-comm=p2p", "tp1 cp2 pp1 mb1" },
    { "cp-comm=a2a tp2 cp4", "tp2 cp4 cp-comm=a2a pp1 mb1" },
    { "cp8 cp-comm=all-gather", "tp1 cp8 cp-comm=all-gather pp1 mb1" },
    { "tp16777216", "tp16777216 pp1 mb1" },
    { "pp4 schedule=1f1b", "tp1 pp4 mb1" },
    { "pp4 vpp2 schedule=interleaved", "tp1 pp4 mb1 vpp2" },
    { "pp4 schedule=interleaved", "tp1 pp4 mb1 schedule=interleaved" },
    { "pp4 vpp2 schedule=1f1b", "tp1 pp4 mb1 vpp2 schedule=1f1b" },
    { "pp4 schedule=zb-h1", "tp1 pp4 mb1 schedule=zb-h1" },
    { "pp4 stages=12,14,14,12", "tp1 pp4 mb1 stages=12,14,14,12" },
    { "pp4 stages=12,14x2,12", "tp1 pp4 mb1 stages=12,14,14,12" },
    { "pp8 stages=5,4,4,4,4,4,4,3", "tp1 pp8 mb1 stages=5,4x6,3" },
    { "pp2 vpp3 stages=0,1x4,0", "tp1 pp2 mb1 vpp3 stages=0,1x4,0" },
    { "pp4 stages=12x4", "tp1 pp4 mb1" },
    { "pp4 stages=E|t*3|ttL", "tp1 pp4 mb1 stages=0,3,2" },
    { "pp4 stages=Et*5|(t*4|)*2,t*3L", "tp1 pp4 mb1 stages=5,4,4,3" },
    { "pp2 stages=Et|ttmL", "tp1 pp2 mb1 stages=1,2" },
    { "pp4 stages=Et*3|t*4|tm|L", "tp1 pp4 mb1 stages=3,4,1,0 mtp=apart" },
    { "pp4 stages=Et*3|t*4|m|L mtp=apart", "tp1 pp4 mb1 stages=3,4,0,0 mtp=apart" },
    { "pp4 recompute=block:1,1x2,0", "tp1 pp4 mb1 recompute=block:1x3,0" },
    { "pp4 stages=12,12,12,12", "tp1 pp4 mb1" },
    { "pp4 stages=12,12", "tp1 pp4 mb1 stages=12,12" },
    { "shard=8 zero3", "tp1 pp1 mb1 zero3 shard=8" },
    { "dp16 zero3 shard=8", "tp1 pp1 dp16 mb1 zero3 shard=8" },
    { "dp8 zero3 shard=8", "tp1 pp1 dp8 mb1 zero3" },
    { "cp2 dp4 zero1 shard=8", "tp1 cp2 pp1 dp4 mb1 zero1" },
    { "recompute=none", "tp1 pp1 mb1" },
    { "recompute=selective", "tp1 pp1 mb1 recompute=selective" },
    { "recompute=selective:core_attn", "tp1 pp1 mb1 recompute=selective" },
    { "recompute=selective:mlp", "tp1 pp1 mb1 recompute=selective:mlp" },
    { "recompute=selective:layernorm+mlp+core_attn",
      "tp1 pp1 mb1 recompute=selective:core_attn+mlp+layernorm" },
    { "pp4 recompute=selective:mlp+core_attn,mlp,none,none",
      "tp1 pp4 mb1 recompute=selective:core_attn+mlp,mlp,none*2" },
    { "pp4 recompute=selective:none*2,layernorm,core_attn",
      "tp1 pp4 mb1 recompute=selective:none*2,layernorm,core_attn" },
    { "pp4 recompute=selective:mlp*4", "tp1 pp4 mb1 recompute=selective:mlp" },
    { "pp4 recompute=selective:core_attn*4", "tp1 pp4 mb1 recompute=selective" },
    { "pp4 recompute=selective:none*4", "tp1 pp4 mb1" },
    { "pp4 recompute=selective:mlp*3", "tp1 pp4 mb1 recompute=selective:mlp*3" },
    { "recompute=op-selective", "tp1 pp1 mb1 recompute=op-selective" },
    { "recompute=full", "tp1 pp1 mb1 recompute=full" },
    { "recompute=full:1", "tp1 pp1 mb1 recompute=full" },
    { "recompute=full:4", "tp1 pp1 mb1 recompute=full:4" },
    { "pp2 recompute=block:3", "tp1 pp2 mb1 recompute=block:3" },
    { "pp2 recompute=block:3,3", "tp1 pp2 mb1 recompute=block:3" },
    { "pp3 recompute=block:3,2,0", "tp1 pp3 mb1 recompute=block:3,2,0" },
    { "pp3 recompute=block-share:0.250", "tp1 pp3 mb1 recompute=block-share:0.25" },
    { "recompute=block-share:1", "tp1 pp1 mb1 recompute=block-share:1" },
    { "attn=unfused", "tp1 pp1 mb1 attn=unfused" },
    { "dtype=bf16 grad=fp32 reduce=fp32", "tp1 pp1 mb1" },
    { "grad=bf16", "tp1 pp1 mb1 grad=bf16" },
    { "grad=bf16 reduce=bf16", "tp1 pp1 mb1 grad=bf16" },
    { "grad=bf16 reduce=fp32", "tp1 pp1 mb1 grad=bf16 reduce=fp32" },
    { "reduce=bf16", "tp1 pp1 mb1 reduce=bf16" },
    { "grad=bf16 dtype=bf16-pure", "tp1 pp1 mb1 dtype=bf16-pure" },
    { "dtype=bf16-pure grad=fp32", "tp1 pp1 mb1 dtype=bf16-pure grad=fp32" },
    { "dtype=fp8", "tp1 pp1 mb1 dtype=fp8" },
    { "optimizer=adam", "tp1 pp1 mb1" },
    { "optimizer=adam-8bit", "tp1 pp1 mb1 optimizer=adam-8bit" },
    { "overlap=tp,p2p,param,grad", "tp1 pp1 mb1 overlap=grad,param,p2p,tp" },
    { "overlap=none", "tp1 pp1 mb1 overlap=none" },
    { "order=tp-cp-dp-pp", "tp1 pp1 mb1" },
    { "order=tp-cp-ep-dp-pp", "tp1 pp1 mb1" },
    { "order=pp-ep-dp-cp-tp", "tp1 pp1 mb1 order=pp-dp-cp-tp" },
    { "capacity=1.250", "tp1 capacity=1.25 pp1 mb1" },
    { "capacity=2", "tp1 capacity=2 pp1 mb1" },
    { "offload=activations,optimizer", "tp1 pp1 mb1 offload=optimizer,activations" },
    { "offload=none", "tp1 pp1 mb1" },
};
enum { NUM_LAYOUTS = LENGTH(layouts) };

START_TEST(a_layout_has_one_canonical_text)
{
    struct plan plan = plan_of(layouts[_i].layout, &arena);
    ck_assert_str_eq(written(&plan), layouts[_i].canonical);
}
END_TEST

START_TEST(a_written_layout_reads_back_equal)
{
    struct plan plan = plan_of(layouts[_i].canonical, &arena);
    ck_assert_str_eq(written(&plan), layouts[_i].canonical);
    struct plan first = plan_of(layouts[_i].layout, &arena);
    ck_assert(plan_equal(&first, &plan));
}
END_TEST

static const struct {
    const char *layout;
    const char *where;
    const char *says;
} slips[] = {
    { "", "", "the layout is empty; one is written like \"tp8 pp8 dp16 mb1\"" },
    { " \t\n", "", "the layout is empty" },
    { "tp8 shedule=1f1b", "shedule=1f1b", "unknown word \"shedule\"; did you mean \"schedule\"?" },
    { "8", "8", "unknown word \"8\"" },
    { "gpipe", "gpipe", "unknown word \"gpipe\"; a layout is written like" },
    { "tp8,pp8", "tp8,pp8", "expected a whole number from 1 to 16777216, found \"8,pp8\"" },
    { "tp8 pp8 tp8", "tp8", "tp is given twice" },
    { "tp", "tp", "expected a whole number from 1 to 16777216, found \"\"" },
    { "recompute=selective:mlp,", "recompute=selective:mlp,",
      "unknown word \"\"; expected one of" },
    { "recompute=selective:mlp*0", "recompute=selective:mlp*0",
      "expected a number of stages from 1 to 1048576 after the * in \"mlp*0\"" },
    { "recompute=selective:mlp,non", "recompute=selective:mlp,non", "unknown word \"non\"" },
    { "tp=", "tp=", "expected tpN" },
    { "tp0", "tp0", "expected a whole number from 1 to 16777216, found \"0\"" },
    { "tp-8", "tp-8", "expected a whole number from 1 to 16777216, found \"-8\"" },
    { "tp16777217", "tp16777217", "from 1 to 16777216" },
    { "tp167772160", "tp167772160", "from 1 to 16777216" },
    { "tp99999999999999999999", "tp99999999999999999999", "from 1 to 16777216" },
    { "tp8x", "tp8x", "found \"8x\"" },
    { "tp8.5", "tp8.5", "found \"8.5\"" },
    { "dp0", "dp0", "found \"0\"" },
    { "zero4", "zero4", "expected a whole number from 0 to 3, found \"4\"" },
    { "sp2", "sp2", "expected sp, sp1 or sp0, found \"sp2\"" },
    { "schedule", "schedule", "expected schedule=NAME" },
    { "schedule1f1b", "schedule1f1b", "expected schedule=NAME" },
    { "schedule=", "schedule=", "expected schedule=NAME" },
    { "schedule=gpip", "schedule=gpip", "did you mean \"gpipe\"?" },
    { "schedule=soon", "schedule=soon", "unknown word \"soon\"; expected one of naive, gpipe" },
    { "stages=12,", "stages=12,", "at most 1048576 in all (4x6 means 4 six times), found \"12,\"" },
    { "stages=12,,3", "stages=12,,3", "separated by commas" },
    { "stages=12,-1", "stages=12,-1", "whole numbers from 0 to 16777216" },
    { "stages=12,14x", "stages=12,14x", "separated by commas" },
    { "stages=12,14x0", "stages=12,14x0", "separated by commas" },
    { "stages=12,14xx2", "stages=12,14xx2", "separated by commas" },
    { "stages=1x1048576,1", "stages=1x1048576,1", "at most 1048576 in all" },
    { "stages=Et|t", "stages=Et|t", "expected L once, as the last letter" },
    { "stages=Et|tm||L", "stages=Et|tm||L", "or in the one before it, not in chunk 1 of 4" },
    { "mtp=near", "mtp=near", "expected one of beside, apart" },
    { "recompute=some", "recompute=some", "expected one of none, selective, full" },
    { "recompute=selectiv", "recompute=selectiv", "did you mean \"selective\"?" },
    { "recompute=full:0", "recompute=full:0", "expected full:K with a whole number of layers" },
    { "recompute=full:4,4", "recompute=full:4,4", "expected full:K" },
    { "recompute=full:K", "recompute=full:K", "expected full:K" },
    { "recompute=block:N", "recompute=block:N", "separated by commas" },
    { "recompute=block:", "recompute=block:", "separated by commas" },
    { "recompute=block-share:", "recompute=block-share:", "a share from 0 to 1" },
    { "recompute=block-share:1.01", "recompute=block-share:1.01", "a share from 0 to 1" },
    { "recompute=block-share:nan", "recompute=block-share:nan", "a share from 0 to 1" },
    { "recompute=block-share:P", "recompute=block-share:P", "a share from 0 to 1" },
    { "attn=fast", "attn=fast", "unknown word \"fast\"" },
    { "dtype=bf61", "dtype=bf61", "unknown word \"bf61\"" },
    { "dtype=fp3", "dtype=fp3", "did you mean \"fp32\"?" },
    { "grad=fp8", "grad=fp8", "unknown word \"fp8\"; " },
    { "optimizer=adamw", "optimizer=adamw", "did you mean \"adam\"?" },
    { "overlap=grad,", "overlap=grad,",
      "unknown word \"\"; expected one of grad, param, p2p, tp, ep" },
    { "overlap=grad,grad", "overlap=grad,grad", "\"grad\" is given twice" },
    { "overlap=none,grad", "overlap=none,grad", "unknown word \"none\"" },
    { "capacity=1.255", "capacity=1.255", "at most two decimals" },
    { "capacity=0", "capacity=0", "expected 0.01 to 1000" },
    { "capacity=-1", "capacity=-1", "expected 0.01 to 1000" },
    { "capacity=+2", "capacity=+2", "expected 0.01 to 1000" },
    { "capacity=.5", "capacity=.5", "expected 0.01 to 1000" },
    { "capacity=1001", "capacity=1001", "expected 0.01 to 1000" },
    { "capacity=1x", "capacity=1x", "expected 0.01 to 1000" },
    { "order=tp-cp-dp", "order=tp-cp-dp", "expected tp, cp, dp and pp once each" },
    { "order=tp-cp-dp-pp-", "order=tp-cp-dp-pp-", "unknown word \"\"" },
    { "order=tp-cp-dp-dp", "order=tp-cp-dp-dp", "\"dp\" is given twice" },
    { "order=ep-tp-cp-dp-pp", "order=ep-tp-cp-dp-pp", "ep only right before dp" },
    { "order=tp-cp-dp-pp-ep", "order=tp-cp-dp-pp-ep", "ep only right before dp" },
    { "order=tp-cp-dp-qq", "order=tp-cp-dp-qq", "unknown word \"qq\"" },
    { "zero3 shard=0", "shard=0", "expected a whole number from 1" },
    { "zero3 shard=16777217", "shard=16777217", "expected a whole number from 1" },
    { "zero3 shard=167772160", "shard=167772160", "expected a whole number from 1" },
    { "zero3 shard8", "shard8", "expected shard=N" },
    { "offload=weights", "offload=weights", "expected one of optimizer, activations" },
};
enum { NUM_SLIPS = LENGTH(slips) };

START_TEST(an_error_in_a_layout_is_a_sentence_naming_its_word)
{
    struct plan plan;
    ck_assert_msg(!plan_parse(slips[_i].layout, &arena, &plan, &err), "%s is accepted",
                  slips[_i].layout);
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_str_eq(err.where, slips[_i].where);
    ck_assert_msg(strstr(err.msg, slips[_i].says), "\"%s\" lacks \"%s\"", err.msg, slips[_i].says);
}
END_TEST

START_TEST(a_token_of_a_thousand_letters_is_an_error_like_any_other)
{
    char layout[1001];
    memset(layout, 's', sizeof layout - 1);
    layout[1000] = '\0';
    struct plan plan;
    ck_assert(!plan_parse(layout, &arena, &plan, &err));
    memcpy(layout, "schedule=", 9);
    err = (struct err){ 0 };
    ck_assert(!plan_parse(layout, &arena, &plan, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
}
END_TEST

START_TEST(the_longest_schedule_name_fits_in_a_plan)
{
    struct plan plan;
    for (int i = 0; i < num_generators; i++)
        ck_assert_uint_lt(strlen(generators[i].name), sizeof plan.schedule);
}
END_TEST

/* The name of a layout word consists of letters, and hyphens between them. */
START_TEST(a_words_name_ends_before_its_value)
{
    static const struct {
        const char *word;
        size_t length;
    } words[] = { { "tp8", 2 },  { "cp-comm=p2p", 7 }, { "x-y3", 3 }, { "x-y-z", 5 }, { "-x", 0 },
                  { "tp-8", 2 }, { "sp", 2 },          { "8", 0 },    { "a-", 1 } };
    for (int i = 0; i < LENGTH(words); i++)
        ck_assert_uint_eq(plan_token_length(words[i].word), words[i].length);
}
END_TEST

START_TEST(every_word_is_documented_and_named_once)
{
    for (int i = 0; i < plan_num_tokens(); i++) {
        const struct plan_token *token = plan_token_at(i);
        ck_assert_int_eq(strncmp(token->form, token->name, strlen(token->name)), 0);
        ck_assert_int_eq(token->doc[strlen(token->doc) - 1], '.');
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(plan_token_at(j)->name, token->name);
    }
}
END_TEST

static struct plan random_plan(struct random *rng)
{
    struct plan plan = plan_default();
    int *degrees[] = { &plan.tp, &plan.cp, &plan.ep, &plan.pp, &plan.vpp, &plan.microbatch };
    for (size_t i = 0; i < LENGTH(degrees); i++)
        *degrees[i] = 1 + random_below(rng, 4);
    plan.dp = random_below(rng, 3);
    plan.sp = random_below(rng, 2);
    plan.zero = random_below(rng, 4);
    plan.shard = random_below(rng, 5);
    plan.reshard = random_below(rng, 3);
    if (random_below(rng, 2))
        snprintf(plan.schedule, sizeof plan.schedule, "%s",
                 generators[random_below(rng, num_generators)].name);
    plan.recompute = random_below(rng, 5);
    plan.recompute_every = 1 + random_below(rng, 3);
    int *layers = ARENA_ARRAY(&arena, int, 16);
    for (int i = 0; i < 16; i++)
        layers[i] = 1 + random_below(rng, 2);
    plan.recompute_layers = layers;
    plan.num_recompute_layers = 1 + random_below(rng, 16);
    plan.stage_replays = random_below(rng, 2) ? layers : NULL;
    plan.num_stage_replays = plan.stage_replays ? plan.num_recompute_layers : 0;
    plan.chunk_layers = random_below(rng, 2) ? layers : NULL;
    plan.num_chunk_layers = plan.chunk_layers ? 1 + random_below(rng, 16) : 0;
    plan.attention = random_below(rng, 3);
    plan.precision = random_below(rng, NUM_PRECISIONS);
    plan.gradient_dtype = random_below(rng, DTYPE_BF16 + 1);
    plan.reduce_dtype = random_below(rng, DTYPE_BF16 + 1);
    plan.optimizer = random_below(rng, NUM_OPTIMIZERS);
    plan.overlaps_given = random_below(rng, 2);
    plan.overlaps = plan.overlaps_given ? (unsigned)random_below(rng, 1 << NUM_PLAN_OVERLAPS) : 0;
    plan.offloads = (unsigned)random_below(rng, 1 << NUM_OFFLOADS);
    return plan;
}

/* With shard= of all data ranks a plan equals the default, also with DualPipe, whose two copies of
 * the model double the number of ranks with the same weights. */
START_TEST(a_mirrored_plan_that_shards_over_all_data_ranks_folds_as_one_without_the_word)
{
    struct plan given = plan_of("pp4 dp4 shard=4 zero1 schedule=dualpipe", &arena);
    struct plan written_again = plan_of(written(&given), &arena);
    ck_assert_int_eq(plan_folded(&given).shard, plan_folded(&written_again).shard);
    struct plan half = plan_of("pp4 dp4 shard=2 zero1 schedule=dualpipe", &arena);
    ck_assert_int_eq(plan_folded(&half).shard, 2);
}
END_TEST

START_TEST(random_plans_round_trip)
{
    struct random rng = random_new(1, 0);
    for (int i = 0; i < 3000; i++) {
        struct plan plan = random_plan(&rng);
        char first[512];
        snprintf(first, sizeof first, "%s", written(&plan));
        struct plan again = plan_of(first, &arena);
        ck_assert_str_eq(written(&again), first);
        ck_assert(plan_equal(&plan, &again));
    }
}
END_TEST

START_TEST(random_text_is_read_or_refused_without_a_crash)
{
    static const char alphabet[] = "tpcedmbvsz0123489=,:- recomputfulschgai";
    struct random rng = random_new(7, 0);
    for (int i = 0; i < 20000; i++) {
        char layout[24];
        int length = random_below(&rng, sizeof layout);
        for (int j = 0; j < length; j++)
            layout[j] = alphabet[random_below(&rng, sizeof alphabet - 1)];
        layout[length] = '\0';
        struct plan plan;
        err = (struct err){ 0 };
        bool ok = plan_parse(layout, &arena, &plan, &err);
        ck_assert_int_eq(ok, err.code == ERR_NONE);
    }
}
END_TEST

/* Setting the kind of recompute clears everything that words of the layout said about it. */
START_TEST(a_plan_whose_recompute_is_set_equals_one_without_words_of_recompute)
{
    static const char *const words[] = {
        "pp2 recompute=full:4",
        "pp2 recompute=block:3",
        "pp2 recompute=block-share:0.5",
        "pp2 recompute=selective:mlp",
        "pp2 recompute=selective:mlp,none",
    };
    struct plan expected = plan_of("pp2", &arena);
    for (int i = 0; i < LENGTH(words); i++) {
        struct plan plan = plan_of(words[i], &arena);
        plan_set_recompute(&plan, RECOMPUTE_NONE);
        ck_assert_msg(plan_equal(&plan, &expected), "%s", words[i]);
        ck_assert_int_eq(plan.recompute_every, expected.recompute_every);
        ck_assert_uint_eq(plan.replays, expected.replays);
        ck_assert_int_eq(plan.num_stage_replays, 0);
        ck_assert_int_eq(plan.num_recompute_layers, 0);
    }
}
END_TEST

START_TEST(plans_that_differ_are_not_equal)
{
    struct plan a = plan_of("tp8 pp8 mb1", &arena);
    struct plan b = plan_of("tp8 pp8 mb1 sp", &arena);
    ck_assert(!plan_equal(&a, &b));
}
END_TEST

/* The number of ranks over which state is sharded: optimizer state from ZeRO stage 1 on, gradients
 * from 2 on, parameters from 3 on. They are dp x cp ranks, or groups of N neighbours, context ranks
 * first. */
static const struct {
    const char *layout;
    int ranks[NUM_STATES]; /* number of ranks over which optimizer, gradients and parameters are
                              sharded */
    int group[2]; /* whether the ranks are context and data ranks together, or data ranks only */
    bool updated, gathers, reduces, repeats;
} shares[] = {
    { "dp8 mb1", { 1, 1, 1 }, { 8, 1 }, false, false, false, false },
    { "dp8 mb1 zero1", { 8, 1, 1 }, { 8, 1 }, true, false, false, false },
    { "dp8 mb1 zero2", { 8, 8, 1 }, { 8, 1 }, true, false, true, false },
    { "dp8 mb1 zero3", { 8, 8, 8 }, { 8, 1 }, false, true, true, false },
    { "dp8 cp2 mb1 zero1", { 16, 1, 1 }, { 2, 8 }, true, false, false, false },
    { "dp8 cp2 mb1 zero3 shard=4", { 4, 4, 4 }, { 2, 2 }, false, true, true, true },
    { "dp2 cp8 mb1 zero1 shard=4", { 4, 1, 1 }, { 4, 1 }, true, false, false, true },
    { "dp8 mb1 zero1 shard=8", { 8, 1, 1 }, { 8, 1 }, true, false, false, false },
    { "pp2 dp8 mb1 zero2", { 8, 8, 1 }, { 8, 1 }, true, false, false, false },
    { "pp2 dp8 mb1 zero3", { 8, 8, 8 }, { 8, 1 }, true, false, false, false },
    { "pp2 dp8 mb1 zero3 reshard=pass", { 8, 8, 8 }, { 8, 1 }, false, true, false, false },
    { "pp2 dp8 mb1 zero3 reshard=gradients", { 8, 8, 8 }, { 8, 1 }, false, true, true, false },
    { "pp2 dp8 mb1 zero2 reshard=gradients", { 8, 8, 1 }, { 8, 1 }, true, false, true, false },
};

static int size_along(const struct rank_group *group, int set)
{
    return set < group->num_sets ? group->sets[set].size : 1;
}

START_TEST(a_zero_stage_shards_state_over_neighbouring_ranks)
{
    struct plan plan = plan_of(shares[_i].layout, &arena);
    for (int what = 0; what < NUM_STATES; what++) {
        int ranks = state_ranks(&plan, (enum state)what);
        ck_assert_int_eq(ranks, shares[_i].ranks[what]);
        ck_assert_int_eq(plan_cuts(&plan, (enum state)what), ranks > 1);
    }
    struct rank_group group = shard_ranks(&plan);
    ck_assert_int_eq(size_along(&group, 0), shares[_i].group[0]);
    ck_assert_int_eq(size_along(&group, 1), shares[_i].group[1]);
    ck_assert_int_eq(plan_gathers_updated(&plan), shares[_i].updated);
    ck_assert_int_eq(plan_gathers(&plan), shares[_i].gathers);
    ck_assert_int_eq(plan_reduces(&plan), shares[_i].reduces);
    ck_assert_int_eq(plan_repeats_shares(&plan), shares[_i].repeats);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("grammar");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_test(tc, omitted_words_of_a_layout_have_their_defaults);
    tcase_add_test(tc, every_word_sets_its_field_of_the_plan);
    tcase_add_loop_test(tc, a_layout_has_one_canonical_text, 0, NUM_LAYOUTS);
    tcase_add_loop_test(tc, a_written_layout_reads_back_equal, 0, NUM_LAYOUTS);
    tcase_add_loop_test(tc, an_error_in_a_layout_is_a_sentence_naming_its_word, 0, NUM_SLIPS);
    tcase_add_test(tc, a_token_of_a_thousand_letters_is_an_error_like_any_other);
    tcase_add_test(tc, the_longest_schedule_name_fits_in_a_plan);
    tcase_add_test(tc, a_words_name_ends_before_its_value);
    tcase_add_test(tc, every_word_is_documented_and_named_once);
    tcase_add_test(tc,
                   a_mirrored_plan_that_shards_over_all_data_ranks_folds_as_one_without_the_word);
    tcase_add_test(tc, random_plans_round_trip);
    tcase_add_test(tc, random_text_is_read_or_refused_without_a_crash);
    tcase_add_test(tc, a_plan_whose_recompute_is_set_equals_one_without_words_of_recompute);
    tcase_add_test(tc, plans_that_differ_are_not_equal);
    tcase_add_loop_test(tc, a_zero_stage_shards_state_over_neighbouring_ranks, 0, LENGTH(shares));
    Suite *s = suite_create("sim/plan");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
