#include "tests/sim/settings.h"

#include "base/file.h"
#include "sim/cost/datafile.h"
#include "sim/plan/ranks.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = { "gpt3-125m", "gpt3-1.3b", "llama3-8b", "gpt3-175b",
                                      "llama2-70b" };
static const char *const stacks[] = { "megatron-core", "megatron-2021", "nemo",
                                      "torch-ddp",     "xla",           "megatron-deepspeed",
                                      "torchtitan",    "vtrain" };
/* Layouts that are invalid for a model are skipped. */
static const char *const layouts[] = {
    "mb1",
    "mb4",
    "tp2",
    "tp2 sp mb2",
    "tp4 pp2",
    "tp4 pp2 sp zero1",
    "tp8",
    "tp8 sp mb2 zero1",
    "tp8 pp2 recompute=full",
    "tp8 pp4 sp recompute=selective attn=unfused",
    "tp8 pp8 mb1",
    "pp2",
    "pp4 zero1",
    "pp4 vpp2",
    "pp4 vpp2 zero1 recompute=selective",
    "tp2 pp4 vpp2 mb2 zero1",
    "tp4 pp4 vpp2 overlap=none",
    "tp4 pp4 vpp2 overlap=grad,param,p2p,tp sp zero1",
    "tp2 pp8 vpp3 zero1",
    "pp8 schedule=gpipe",
    "pp8 schedule=naive",
    "pp4 schedule=gpipe recompute=full",
    "tp8 pp2 order=tp-cp-pp-dp",
    "pp2 tp4 order=pp-tp-cp-dp",
    "tp2 order=dp-tp-cp-pp",
    "zero2",
    "zero3",
    "tp4 zero3 overlap=param",
    "zero3 recompute=full mb2",
    "pp4 stages=1,4,4,3",
    "pp4 stages=5,7,7,5 recompute=block:1,2,3,4",
    "recompute=full:2",
    "tp2 pp2 recompute=block:2 zero1",
    "optimizer=adafactor",
    "tp2 pp2 optimizer=muon zero1",
    "optimizer=momentum pp4",
    "dtype=fp32",
    "dtype=fp16 tp4",
    "dtype=fp16 grad=fp16 reduce=fp16 tp4",
    "tp8 pp4 attn=unfused overlap=tp",
    "tp16 pp4",
    "tp4 pp16",
    "cp2 zero1",
    "cp8 tp8 sp",
    "cp4 zero2 cp-comm=all-gather",
    "cp2 zero3 mb2 cp-comm=a2a",
    "tp2 cp4 pp4 vpp2 sp zero1",
    "tp4 cp2 pp2 recompute=selective cp-comm=all-gather",
    "cp2 tp2 pp2 recompute=full order=pp-cp-tp-dp",
    "cp16 pp2 overlap=none",
    "offload=optimizer",
    "tp2 pp4 zero1 offload=optimizer",
    "tp4 mb2 offload=activations",
    "zero3 offload=optimizer,activations",
    "zero3 shard=8",
    "zero2 shard=4 recompute=full",
    "tp4 pp2 zero1 shard=2",
    "cp4 zero3 shard=2",
    "cp2 tp2 zero1 shard=8 overlap=none",
    "zero3 shard=4 order=dp-tp-cp-pp",
    "exchange=local:4",
    "tp2 pp4 exchange=gossip:ring",
    "pp4 vpp2 mb2 exchange=pga:6",
};
enum { NUM_MODELS = LENGTH(models), NUM_STACKS = LENGTH(stacks), NUM_LAYOUTS = LENGTH(layouts) };
static_assert(LENGTH(layouts) <= MOST_SETTING_PLANS, "room for every layout");

static char **clusters;
static size_t num_clusters;

struct setting setting;

/* Whether the cluster has a profile, so that plans have a time. */
static bool has_profile(const char *name)
{
    struct cluster cluster;
    struct err err = { 0 };
    check_ok(cluster_load(name, &cluster, &err), &err);
    return *cluster.profile_name != '\0';
}

int settings_num_clusters(void)
{
    char folder[PATH_MAX];
    size_t count = 0;
    if (file_data_folder(cluster_files.folder, folder, sizeof folder))
        clusters = file_list_json(folder, &count);
    num_clusters = 0;
    for (size_t i = 0; i < count; i++) {
        if (has_profile(clusters[i]))
            clusters[num_clusters++] = clusters[i];
        else
            free(clusters[i]);
    }
    return (int)num_clusters;
}

void setting_release(void)
{
    system_release(&setting.system);
    arena_release(&setting.arena);
    memset(&setting, 0, sizeof setting);
}

bool setting_read_plan(const char *layout, struct plan *out)
{
    struct err err = { 0 };
    const struct system *system = &setting.system;
    check_ok(plan_parse(layout, &setting.arena, out, &err), &err);
    if (system->gpu.peak_flops_per_s[precision_dtype(out->precision)] <= 0)
        out->precision = PRECISION_FP16;
    return plan_derive_data(out, system->num_gpus, &err) &&
           !plan_check(out, &setting.model, setting.model.batch, system->num_gpus, &err) &&
           system_check(system, out, &err);
}

void setting_load(const char *cluster, const char *stack, const char *model, int num_gpus,
                  double batch)
{
    struct err err = { 0 };
    check_ok(system_load(cluster, stack, num_gpus, &setting.system, &err), &err);
    check_ok(model_load(model, &setting.model, &err), &err);
    setting.model.batch = batch;
    for (int i = 0; i < NUM_LAYOUTS; i++) {
        setting.texts[setting.num_plans] = layouts[i];
        setting.num_plans += setting_read_plan(layouts[i], &setting.plans[setting.num_plans]);
    }
}

void settings_each(int i, void (*claim)(void))
{
    int num_plans = 0, num_settings = 0;
    for (int m = 0; m < NUM_MODELS; m++) {
        if (is_spared(i * NUM_MODELS + m, NUM_MODELS))
            continue;
        setting_load(clusters[i], stacks[(i + m) % NUM_STACKS], models[m], SETTING_GPUS,
                     SETTING_BATCH);
        num_plans += setting.num_plans;
        num_settings++;
        claim();
        setting_release();
    }
    ck_assert_int_ge(num_plans, 10 * num_settings);
}

void settings_each_prediction(int i, void (*claim)(const struct prediction *, const char *))
{
    for (int m = 0; m < NUM_MODELS; m++) {
        if (is_spared(i * NUM_MODELS + m, NUM_MODELS))
            continue;
        setting_load(clusters[i], stacks[(i + m) % NUM_STACKS], models[m], SETTING_GPUS,
                     SETTING_BATCH);
        struct evaluator *evaluator = evaluator_new(&setting.system, &setting.model);
        for (int p = 0; p < setting.num_plans; p++) {
            struct prediction prediction = evaluate(evaluator, &setting.plans[p]);
            claim(&prediction, setting.texts[p]);
        }
        evaluator_free(evaluator);
        setting_release();
    }
}
