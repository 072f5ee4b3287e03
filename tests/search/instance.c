#include "tests/search/instance.h"

#include "tests/testing.h"

#include "tests/draw.h"

void instance_load_with(struct instance *instance, const char *cluster, const char *stack)
{
    struct err err = { 0 };
    bool ok = system_load(cluster, stack, 16, &instance->system, &err) &&
              model_load("gpt3-1.3b", &instance->model, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    instance->model.batch = 64;
}

void instance_load(struct instance *instance)
{
    instance_load_with(instance, "dgx-h100", "megatron-core");
}

void instance_release(struct instance *instance)
{
    system_release(&instance->system);
}

void instance_randomize(struct instance *instance, uint64_t seed)
{
    struct random rng = random_new(seed, 0);
    struct model *model = &instance->model;
    struct system *system = &instance->system;
    model->layers = PICK(&rng, 4, 6, 8, 12, 13);
    model->heads = model->kv_heads = PICK(&rng, 6, 8, 12, 16);
    model->head_dim = PICK(&rng, 64, 128);
    model->hidden = model->heads * model->head_dim;
    model->ffn = 4 * model->hidden;
    model->batch = PICK(&rng, 12, 16, 32, 48, 60);
    model->blocks = (struct blocks){ 0 };
    draw_blocks(model, seed);
    draw_experts(model, seed);
    system->num_gpus = PICK(&rng, 1, 4, 8, 12, 16, 24, 32);
    system->gpu.memory_bytes = between(&rng, 6e9, 20e9);
    system->cluster.levels[0].bytes_per_s *= between(&rng, 0.1, 2);
    system->cluster.levels[1].bytes_per_s *= between(&rng, 0.1, 2);
    system->gpu.memory_bytes_per_s *= between(&rng, 0.3, 2);
}

struct search_request instance_request(const struct instance *instance)
{
    return (struct search_request){ .system = &instance->system,
                                    .model = &instance->model,
                                    .base = plan_default(),
                                    .top = 20,
                                    .jobs = 2 };
}
