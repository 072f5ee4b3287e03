#include "base/random.h"
#include "sim/plan/axis.h"
#include "sim/plan/plan.h"
#include "sim/plan/ranks.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static struct arena arena;
static struct err err;

static void release(void)
{
    arena_release(&arena);
}

static struct model gpt3(void)
{
    return (struct model){ .layers = 96,
                           .hidden = 12288,
                           .heads = 96,
                           .kv_heads = 96,
                           .head_dim = 128,
                           .ffn = 49152,
                           .vocab = 50257,
                           .seq = 2048 };
}

static struct model grouped(void)
{
    struct model model = gpt3();
    model.kv_heads = 8;
    return model;
}

static struct model narrow(void)
{
    struct model model = gpt3();
    model.ffn = 100;
    model.seq = 1000;
    return model;
}

static struct model odd(void)
{
    struct model model = gpt3();
    model.hidden = 12300;
    return model;
}

static struct model t5(void)
{
    return model_of("t5-3b");
}

static struct model mixtral(void)
{
    return model_of("mixtral-8x7b");
}

static const struct {
    const char *layout;
    struct model (*model)(void);
    int num_gpus;
    double batch;
    const char *rule; /* name of the broken rule; NULL if the plan breaks none */
    const char *where;
    const char *says;
} cases[] = {
    { "tp8 pp8 dp16 mb1 vpp3 sp zero1", gpt3, 1024, 1536, NULL, "", "" },
    { "tp4 pp8 dp32 mb1 vpp6 sp zero1 recompute=selective overlap=grad,param,p2p", gpt3, 1024, 1536,
      NULL, "", "" },
    { "tp8 pp1 dp16 mb1 zero3", gpt3, 128, 1536, NULL, "", "" },
    { "tp16 pp1 dp1 mb1", grouped, 16, 16, NULL, "", "" },
    { "tp8 pp4 dp1 mb1 stages=23,25,25,23 recompute=block:23,3,3,0", gpt3, 32, 64, NULL, "", "" },
    { "tp8 pp4 dp1 mb1 stages=23,25,25,23 recompute=block:24,3,3,0", gpt3, 32, 64, "recompute",
      "recompute", "24 layers of chunk 0 are recomputed, but it has only 23" },
    { "tp8 pp8 dp16 mb1 order=pp-dp-cp-tp", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp8 mb1", gpt3, 1024, 1536, "degrees", "dp", "dp is 0, but must be 1 or more" },
    { "tp8 pp8 dp16 mb1", gpt3, 1000, 1536, "gpus", "dp",
      "tp 8 x cp 1 x pp 8 x dp 16 is 1024 GPUs, not 1000" },
    { "tp7 pp8 dp16 mb1", gpt3, 896, 1536, "tensor_heads", "tp7",
      "heads 96 is not a multiple of tp 7" },
    { "tp12 pp8 dp16 mb1", grouped, 1536, 1536, "tensor_kv_heads", "tp12",
      "kv_heads 8 is neither a multiple nor a divisor of tp 12" },
    { "tp8 pp8 dp16 mb1", narrow, 1024, 1536, "tensor_ffn", "tp8",
      "ffn 100 is not a multiple of tp 8" },
    { "tp8 pp8 dp16 mb1", odd, 1024, 1536, "tensor_hidden", "tp8",
      "hidden 12300 is not a multiple of tp 8" },
    { "tp1 pp8 dp16 mb1 sp", gpt3, 128, 1536, "sequence_parallel", "sp",
      "sequence parallelism needs tp of 2 or more, not 1" },
    { "tp3 pp8 dp16 mb1 sp", gpt3, 384, 1536, "sequence_parallel", "sp",
      "sequence length 2048 is not a multiple of tp 3" },
    { "tp3 cp2 pp8 dp16 mb1 sp", gpt3, 768, 1536, "sequence_parallel", "sp",
      "sequence length 2048 is not a multiple of tp 3" },
    { "tp8 cp3 pp8 dp16 mb1 sp", gpt3, 3072, 1536, "sequence_parallel", "sp",
      "sequence length 2048 is not a multiple of tp 8 x cp 3" },
    { "tp8 cp2 pp8 dp8 mb1 sp zero1", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 cp4 cp-comm=a2a pp8 dp4 mb1", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 cp64 cp-comm=all-gather pp1 dp2 mb1", gpt3, 1024, 1536, NULL, "", "" },
    { "tp1 cp1024 pp1 dp1 mb1", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp8 dp16 mb1 cp-comm=a2a", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 cp2048 pp1 dp1 mb1", gpt3, 16384, 1536, "context", "cp2048",
      "sequence length 2048 is not a multiple of 2 x cp 2048" },
    { "tp8 cp3 pp8 dp16 mb1", gpt3, 3072, 1536, "context", "cp3",
      "sequence length 2048 is not a multiple of 2 x cp 3" },
    { "tp8 cp2 pp8 dp8 mb1 attn=unfused", gpt3, 1024, 1536, "context", "cp2",
      "context parallelism needs flash attention, but attn is unfused" },
    { "tp8 cp8 cp-comm=a2a pp8 dp2 mb1", gpt3, 1024, 1536, "context", "cp8",
      "cp-comm=a2a splits the 12 heads of a tensor rank, which are not a multiple of cp 8" },
    { "tp4 cp4 cp-comm=a2a pp1 dp1 mb1", grouped, 16, 16, "context", "cp4",
      "cp-comm=a2a splits the 2 kv_heads of a tensor rank, which are not a multiple of cp 4" },
    { "tp8 pp8 cp2 dp1 mb1 zero1", gpt3, 128, 1536, NULL, "", "" },
    { "tp8 ep2 pp8 dp16 mb1", gpt3, 1024, 1536, "expert", "ep2",
      "ep 2 and etp 1 divide experts, but the model has none" },
    { "tp8 etp2 pp8 dp16 mb1", gpt3, 1024, 1536, "expert", "etp2",
      "ep 1 and etp 2 divide experts, but the model has none" },
    { "tp1 ep16 pp8 dp8 mb1", mixtral, 64, 1536, "expert", "ep16",
      "8 experts are not a multiple of ep 16" },
    { "tp1 ep2 etp3 pp8 dp8 mb1", mixtral, 64, 1536, "expert", "etp3",
      "the experts' width 14336 is not a multiple of etp 3" },
    { "tp1 ep8 pp8 dp4 mb1", mixtral, 32, 1536, "expert_groups", "ep8",
      "etp 1 x ep 8 does not divide the 4 ranks of a stage" },
    { "pp8 dp8 mb1 recompute=selective:mla_up_proj", mixtral, 64, 1536, "recompute", "recompute",
      "recompute=selective:mla_up_proj names a module that this model lacks" },
    { "tp8 pp8 dp1 mb1 recompute=selective:moe_act", gpt3, 64, 1536, "recompute", "recompute",
      "recompute=selective:moe_act names a module that this model lacks" },
    { "tp1 pp2 dp2 mb1", t5, 4, 1536, "pipeline_decoder", "pp2",
      "the encoder's output is not sent to the stages of a decoder; expected pp 1" },
    { "tp2 ep8 pp2 dp8 mb1", mixtral, 32, 1536, "expert_sequence", "tp2",
      "a model with experts needs sp with tp 2" },
    { "tp8 pp7 dp16 mb1", gpt3, 896, 1536, "pipeline_layers", "pp7",
      "96 layers do not divide over 7 stages" },
    { "tp8 pp8 dp16 mb1 vpp5", gpt3, 1024, 1536, "pipeline_layers", "vpp5",
      "96 layers do not divide over 8 stages of 5 chunks" },
    { "tp8 pp4 dp1 mb1 stages=0,48,48,0", gpt3, 32, 1536, NULL, "", "" },
    { "tp8 pp4 dp1 mb1 stages=24,0,48,24", gpt3, 32, 1536, "pipeline_layers", "stages",
      "chunk 1 has 0 layers, but every chunk between the first and the last needs 1 or more" },
    { "tp8 pp4 dp1 mb1 stages=24,24,24", gpt3, 32, 1536, "pipeline_layers", "stages",
      "stages= lists 3 chunks, but pp 4 x vpp 1 is 4" },
    { "tp8 pp4 dp1 mb1 stages=24,24,24,23", gpt3, 32, 1536, "pipeline_layers", "stages",
      "stages= sums to 95 of 96 layers" },
    { "tp8 pp2 dp1 mb1 stages=Et*48|t*48mL", gpt3, 16, 1536, "pipeline_layers", "stages",
      "stages= has 1 modules that predict later tokens, but the model has 0" },
    { "tp8 pp4 dp1 mb1 stages=32,32,32,0 mtp=apart", gpt3, 32, 1536, "pipeline_layers", "mtp",
      "the model has no modules that predict later tokens" },
    { "tp8 pp1 dp7 mb2", gpt3, 56, 1536, "batch", "dp7",
      "batch 1536 is not a multiple of dp 7 x microbatch 2; nearest are 1526 and 1540" },
    { "tp8 pp1 dp16 mb2", gpt3, 128, 16, "batch", "dp16", "the smallest is 32" },
    { "tp8 pp1 dp16 mb1", gpt3, 128, 100.5, "batch", "dp16", "batch 100.5 is not a multiple" },
    { "tp8 pp1 dp16 mb1", gpt3, 128, 0, "batch", "dp16", "the smallest is 16" },
    { "tp8 pp1 dp16 mb1", gpt3, 128, (double)NAN, "batch", "dp16", "the smallest is 16" },
    { "tp8 pp1 dp16 mb1", gpt3, 128, 16e15, "batch", "mb1", "microbatches, more than 16777216" },
    { "tp8 pp1 dp16 mb1 vpp2", gpt3, 128, 1536, "interleave", "vpp2",
      "vpp 2 needs pp of 2 or more, not 1" },
    { "tp8 pp12 dp1 mb1 vpp2", gpt3, 96, 11, "interleave", "vpp2",
      "interleaving needs at least pp 12 microbatches, not 11" },
    { "tp8 dp128 mb1 zero2 optimizer=muon", gpt3, 1024, 1536, "optimizer", "optimizer",
      "updates whole matrices, whose gradients zero2 would shard" },
    { "tp8 pp8 dp16 mb1 schedule=v-half", gpt3, 1024, 1536, "schedule", "schedule",
      "schedule v-half is not modelled yet" },
    { "tp8 pp8 dp16 mb1 schedule=zb-v", gpt3, 1024, 1536, "schedule", "schedule",
      "a V-shaped schedule has 2 chunks on each stage (vpp2), not 1" },
    { "tp8 pp8 dp16 mb1 vpp2 schedule=zb-h1", gpt3, 1024, 1536, "schedule", "schedule",
      "this schedule has 1 chunk on each stage, not 2" },
    { "tp8 pp1 dp16 mb1 schedule=zb-h2", gpt3, 128, 1536, "schedule", "schedule",
      "zero-bubble schedules need 2 or more pipeline stages, not 1" },
    { "tp8 pp8 dp16 mb1 recompute=full schedule=zb-h1", gpt3, 1024, 1536, "schedule", "schedule",
      "schedule zb-h1 keeps the inputs of weight gradients, so layers cannot be recomputed" },
    { "tp8 pp8 dp16 mb1 recompute=block:2 schedule=zb-h2", gpt3, 1024, 1536, "schedule", "schedule",
      "schedule zb-h2 keeps the inputs of weight gradients, so layers cannot be recomputed" },
    { "tp8 pp8 dp16 mb1 vpp2 schedule=gpipe", gpt3, 1024, 1536, "schedule", "schedule",
      "this schedule has 1 chunk on each stage, not 2" },
    { "tp8 pp8 dp1 mb1 zero1", gpt3, 64, 1536, "zero", "zero1",
      "ZeRO stage 1 shards over data ranks, but dp is 1" },
    { "tp8 pp8 dp16 mb1 zero2", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp8 dp16 mb1 zero3 reshard=pass", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp8 dp16 mb1 zero2 reshard=gradients", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp8 dp16 mb1 schedule=dualpipe", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp8 dp16 mb1 schedule=dualpipe", gpt3, 1024, 1552, "schedule", "schedule",
      "schedule dualpipe sends half of the microbatches from each end, so it needs an even number, "
      "not 97" },
    { "tp8 pp8 dp16 mb1 zero2 schedule=dualpipe", gpt3, 1024, 1536, "zero", "zero2",
      "ZeRO stage 2 needs one copy of each stage, but schedule=dualpipe has two" },
    { "tp8 pp8 dp16 mb1 zero2 reshard=pass", gpt3, 1024, 1536, "zero", "reshard",
      "reshard=pass gathers weights, which ZeRO stage 2 does not shard" },
    { "tp8 dp16 mb1 zero3 reshard=pass", gpt3, 128, 1536, "zero", "reshard",
      "reshard= needs a pipeline and ZeRO stage 2 or 3, not pp 1 and stage 3" },
    { "tp8 pp8 dp16 mb1 zero1 shard=4", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp1 cp2 dp64 mb1 zero3 shard=1", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp8 dp16 mb1 shard=4", gpt3, 1024, 1536, "zero", "shard=4",
      "shard=4 needs ZeRO stage 1 or more: nothing is sharded at 0" },
    { "tp8 pp8 dp16 mb1 zero1 shard=5", gpt3, 1024, 1536, "zero", "shard=5",
      "shard=5 does not divide the 16 ranks of dp 16 x cp 1" },
    { "tp8 pp1 cp2 dp3 mb1 zero1 shard=3", gpt3, 48, 1536, "zero", "shard=3",
      "shard=3 is neither a multiple of cp 2 nor divides it" },
    { "tp8 pp8 dp16 mb1 recompute=selective:mlp,none*7", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp8 dp16 mb1 recompute=selective:mlp,none*6", gpt3, 1024, 1536, "recompute", "recompute",
      "recompute=selective: lists the modules of 7 stages, but pp is 8" },
    { "tp8 pp8 dp16 mb1 recompute=selective:mlp,moe,none*6", gpt3, 1024, 1536, "recompute",
      "recompute", "recompute=selective:moe names a module that this model lacks" },
    { "tp8 pp8 dp16 mb1 schedule=dualpipe recompute=selective:mlp,none*7", gpt3, 1024, 1536,
      "recompute", "recompute", "schedule dualpipe recomputes the same modules on all stages" },
    { "tp8 pp8 dp16 mb1 recompute=full:13", gpt3, 1024, 1536, "recompute", "recompute",
      "recompute=full:13 needs chunks of 13 or more layers, but they have 12" },
    { "tp8 pp8 dp16 mb1 recompute=block:13", gpt3, 1024, 1536, "recompute", "recompute",
      "13 layers of chunk 0 are recomputed, but it has only 12" },
    { "tp8 pp8 dp16 mb1 recompute=block:1,2", gpt3, 1024, 1536, "recompute", "recompute",
      "recompute=block: lists 2 chunks, but pp 8 x vpp 1 is 8" },
    { "tp8 pp8 dp16 mb1 dtype=fp8 grad=fp16", gpt3, 1024, 1536, "precision", "grad",
      "gradients of fp8 are kept in fp32 or bf16, not fp16" },
    { "tp8 pp8 dp16 mb1 grad=fp16", gpt3, 1024, 1536, "precision", "grad",
      "gradients of bf16 are kept in fp32 or bf16, not fp16" },
    { "tp8 pp8 dp16 mb1 dtype=fp32 reduce=bf16", gpt3, 1024, 1536, "precision", "reduce",
      "gradients of fp32 are reduced in fp32, not bf16" },
    { "tp8 pp8 dp16 mb1 overlap=grad,param", gpt3, 1024, 1536, "overlap", "overlap",
      "overlap=param needs ZeRO stage 1 or more, not 0" },
    { "tp8 pp8 dp16 mb1 zero1 overlap=param", gpt3, 1024, 1536, "overlap", "overlap",
      "overlap=param needs overlap=grad at ZeRO stage 1" },
    { "tp1 pp1 dp64 mb1 overlap=ep", mixtral, 64, 1536, "overlap", "overlap",
      "overlap=ep needs ep over 1" },
    { "tp1 ep8 pp4 dp16 mb1 overlap=p2p,ep", mixtral, 64, 1536, "overlap", "overlap",
      "overlap=ep needs vpp over 1 with pp over 1" },
    { "tp1 ep8 pp2 dp32 mb1 overlap=p2p,ep", mixtral, 64, 1536, "overlap", "overlap",
      "overlap=ep needs vpp over 1 with pp over 1" },
    { "tp1 ep8 pp4 dp16 mb1 vpp2 overlap=p2p,ep recompute=full:2", mixtral, 64, 1536, "overlap",
      "overlap",
      "overlap=ep needs recompute that does not repeat the experts' all-to-alls, or recompute of "
      "every layer" },
    { "tp1 ep8 pp4 dp16 mb1 vpp2 overlap=p2p,ep recompute=selective:moe", mixtral, 64, 1536,
      "overlap", "overlap",
      "overlap=ep needs recompute that does not repeat the experts' all-to-alls, or recompute of "
      "every layer" },
    { "tp1 ep8 pp4 dp16 mb1 vpp2 overlap=p2p,ep recompute=selective:moe_act", mixtral, 64, 1536,
      NULL, "", "" },
    { "tp1 ep8 pp4 dp16 mb1 overlap=shared", mixtral, 64, 1536, "overlap", "overlap",
      "overlap=shared needs a shared expert" },
    { "tp8 pp8 dp16 mb1 capacity=1.25", gpt3, 1024, 1536, "expert", "capacity",
      "capacity=1.25 needs experts, but the model has none" },
    { "tp8 pp2 dp16 mb1 vpp2 overlap=none", gpt3, 256, 1536, "overlap", "overlap",
      "vpp 2 on pp 2 needs overlap=p2p, or pp of 3 or more" },
    { "tp8 pp8 dp16 mb1 offload=optimizer", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp1 dp16 mb1 offload=activations", gpt3, 128, 1536, NULL, "", "" },
    { "tp8 pp8 dp16 mb1 offload=activations", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp1 dp16 mb1 recompute=full:2 offload=activations", gpt3, 128, 1536, NULL, "", "" },
    { "tp8 pp8 dp16 mb1 recompute=block:2 offload=activations", gpt3, 1024, 1536, "offload",
      "offload",
      "offload=activations needs layers that keep the same values, but recompute=block:N "
      "recomputes only "
      "some layers "
      "of a chunk; use selective, full or full:K" },
    { "tp8 pp8 dp16 mb1 exchange=gossip:one-peer", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp8 dp16 mb1 exchange=pga:6:graph=grid:group=4", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp8 dp16 mb1 exchange=ps:16", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp8 dp1 mb1 exchange=local:4", gpt3, 64, 1536, "exchange", "exchange",
      "exchange=local connects data ranks, but dp is 1" },
    { "tp8 pp8 dp16 mb1 zero1 exchange=gossip:exp", gpt3, 1024, 1536, "exchange", "exchange",
      "exchange=gossip needs ZeRO stage 0, not 1" },
    { "tp8 pp1 dp16 mb1 zero2 exchange=topk:0.01", gpt3, 128, 1536, "exchange", "exchange",
      "exchange=topk needs ZeRO stage 0, not 2" },
    { "tp8 cp2 pp8 dp8 mb1 exchange=qsgd:4", gpt3, 1024, 1536, "exchange", "exchange",
      "exchange=qsgd needs cp 1, not 2" },
    { "tp8 pp8 dp16 mb1 offload=optimizer exchange=gossip:ring", gpt3, 1024, 1536, "exchange",
      "exchange", "averages weights, but offload=optimizer keeps them on the host" },
    { "tp8 pp8 dp16 mb1 exchange=ps:17", gpt3, 1024, 1536, "exchange", "exchange",
      "exchange=ps:17 has more servers than the 16 data ranks" },
    { "tp8 pp8 dp16 mb1 exchange=median:7", gpt3, 1024, 1536, NULL, "", "" },
    { "tp8 pp8 dp16 mb1 exchange=median:8", gpt3, 1024, 1536, "exchange", "exchange",
      "exchange=median:8 needs n > 2 f; of 16 data ranks at most 7 may be hostile" },
    { "tp1 pp1 dp16 mb1 exchange=krum:6", gpt3, 16, 1536, NULL, "", "" },
    { "tp1 pp1 dp16 mb1 exchange=krum:7", gpt3, 16, 1536, "exchange", "exchange",
      "exchange=krum:7 needs n > 2 f + 2; of 16 data ranks at most 6 may be hostile" },
    { "tp1 pp1 dp2 mb1 exchange=krum", gpt3, 2, 1536, "exchange", "exchange",
      "exchange=krum needs n > 2 f + 2: more than the 2 data ranks" },
    { "tp8 pp1 dp16 mb1 exchange=krum", gpt3, 128, 1536, "exchange", "exchange",
      "exchange=krum needs tp 1 and pp 1, not 8 and 1" },
    { "tp1 pp8 dp16 mb1 exchange=geomedian", gpt3, 128, 1536, "exchange", "exchange",
      "exchange=geomedian needs tp 1 and pp 1, not 1 and 8" },
    { "tp8 pp1 dp16 mb1 zero1 exchange=trimmed", gpt3, 128, 1536, "exchange", "exchange",
      "exchange=trimmed needs ZeRO stage 0, not 1" },
    { "tp8 pp8 dp3 mb1 exchange=gossip:grid", gpt3, 192, 1536, "exchange", "exchange",
      "3 ranks do not form a grid with two or more rows" },
    { "tp8 pp8 dp16 mb1 exchange=gossip:ring:group=5", gpt3, 1024, 1280, "exchange", "exchange",
      "group=5 does not divide the 16 data ranks into two or more groups" },
    { "tp8 pp8 dp16 mb1 exchange=hierarchical:group=16", gpt3, 1024, 1536, "exchange", "exchange",
      "group=16 does not divide the 16 data ranks into two or more groups" },
};
enum { NUM_CASES = LENGTH(cases) };

START_TEST(each_plan_breaks_its_expected_rule)
{
    struct model model = cases[_i].model();
    struct plan plan = plan_of(cases[_i].layout, &arena);
    const struct plan_rule *rule =
        plan_check(&plan, &model, cases[_i].batch, cases[_i].num_gpus, &err);
    if (!cases[_i].rule) {
        ck_assert_msg(!rule, "%s: %s", cases[_i].layout, err.msg);
        return;
    }
    ck_assert_msg(rule, "%s is accepted", cases[_i].layout);
    ck_assert_str_eq(rule->name, cases[_i].rule);
    ck_assert_int_eq(err.code, ERR_INFEASIBLE);
    ck_assert_str_eq(err.where, cases[_i].where);
    ck_assert_msg(strstr(err.msg, cases[_i].says), "\"%s\" lacks \"%s\"", err.msg, cases[_i].says);
}
END_TEST

START_TEST(an_order_without_one_axis_is_refused)
{
    struct model model = gpt3();
    struct plan plan = plan_of("tp8 dp1", &arena);
    plan.order[0] = AXIS_PIPELINE;
    ck_assert_str_eq(plan_check(&plan, &model, 8, 8, &err)->name, "order");
}
END_TEST

static bool is_tested(const char *rule)
{
    if (strcmp(rule, "order") == 0) /* a layout text cannot break this rule */
        return true;
    for (int i = 0; i < NUM_CASES; i++)
        if (cases[i].rule && strcmp(cases[i].rule, rule) == 0)
            return true;
    return false;
}

/* Plans that no layout text can express: a number of ranks, chunks or sequences is below 1. */
START_TEST(a_plan_without_ranks_or_chunks_is_refused)
{
    struct model model = gpt3();
    for (int i = 0; i < num_axes + 3; i++) {
        struct plan plan = plan_default();
        err = (struct err){ 0 };
        int *members[] = { &plan.etp, &plan.vpp, &plan.microbatch };
        static const char *const names[] = { "etp", "vpp", "mb" };
        *(i < num_axes ? &plan.degree[i] : members[i - num_axes]) = 0;
        ck_assert(plan_check(&plan, &model, 1536, 1, &err) != NULL);
        ck_assert_str_eq(err.where, i < num_axes ? axes[i]->name : names[i - num_axes]);
    }
}
END_TEST

START_TEST(every_rule_has_a_plan_that_breaks_it)
{
    for (int i = 0; i < plan_num_rules(); i++) {
        const struct plan_rule *rule = plan_rule_at(i);
        ck_assert_msg(is_tested(rule->name), "no case breaks the rule %s", rule->name);
        ck_assert_int_eq(rule->summary[strlen(rule->summary) - 1], '.');
        ck_assert_int_eq(plan_rule_number(rule), i);
    }
}
END_TEST

/* A random plan whose degrees are small, or as large as the grammar of layouts allows. */
static struct plan random_plan(struct random *rng)
{
    static const char *const layouts[] = {
        "tp2 zero2",
        "pp2 vpp2 recompute=full:3",
        "pp2 stages=16777216,1 recompute=block:1,2",
        "sp dtype=fp16 overlap=param schedule=gpipe",
    };
    struct plan plan = plan_of(layouts[random_below(rng, 4)], &arena);
    int *degrees[] = { &plan.tp, &plan.pp, &plan.dp, &plan.vpp, &plan.microbatch };
    for (size_t i = 0; i < LENGTH(degrees); i++)
        if (random_below(rng, 2) == 0)
            *degrees[i] = 1 << random_below(rng, 25);
    plan.dp = plan.dp ? plan.dp : 1;
    return plan;
}

START_TEST(no_rule_overflows)
{
    struct model model = gpt3();
    model.layers = INT_MAX;
    struct random rng = random_new(3, 0);
    for (int i = 0; i < 2000; i++) {
        struct plan plan = random_plan(&rng);
        struct plan_case of = { &plan, &model, 1e15, plan_ranks(&plan) };
        for (int j = 0; j < plan_num_rules(); j++) {
            err = (struct err){ 0 };
            bool holds = plan_rule_at(j)->holds(&of, &err);
            ck_assert_int_eq(holds, err.code == ERR_NONE);
            /* if a plan breaks this rule, later rules are not checked */
            if (!holds)
                break;
        }
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("rules");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_loop_test(tc, each_plan_breaks_its_expected_rule, 0, NUM_CASES);
    tcase_add_test(tc, an_order_without_one_axis_is_refused);
    tcase_add_test(tc, a_plan_without_ranks_or_chunks_is_refused);
    tcase_add_test(tc, every_rule_has_a_plan_that_breaks_it);
    tcase_add_test(tc, no_rule_overflows);
    Suite *s = suite_create("sim/plan/rules");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
