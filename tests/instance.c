#include "tests/instance.h"

#include "tests/testing.h"

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

uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int pick(uint64_t *state, const int *from, int count)
{
    return from[next_random(state) % (uint64_t)count];
}

double between(uint64_t *state, double low, double high)
{
    return low + (high - low) * ((double)(next_random(state) >> 11) / 9007199254740992.0);
}

void instance_randomize(struct instance *instance, uint64_t seed)
{
    uint64_t state = seed;
    struct model *model = &instance->model;
    struct system *system = &instance->system;
    model->layers = PICK(&state, 4, 6, 8, 12, 13);
    model->heads = model->kv_heads = PICK(&state, 6, 8, 12, 16);
    model->head_dim = PICK(&state, 64, 128);
    model->hidden = model->heads * model->head_dim;
    model->ffn = 4 * model->hidden;
    model->batch = PICK(&state, 12, 16, 32, 48, 60);
    system->num_gpus = PICK(&state, 1, 4, 8, 12, 16, 24, 32);
    system->gpu.memory_bytes = between(&state, 6e9, 20e9);
    system->cluster.levels[0].bytes_per_s *= between(&state, 0.1, 2);
    system->cluster.levels[1].bytes_per_s *= between(&state, 0.1, 2);
    system->gpu.memory_bytes_per_s *= between(&state, 0.3, 2);
}

struct search_request instance_request(const struct instance *instance)
{
    return (struct search_request){ .system = &instance->system,
                                    .model = &instance->model,
                                    .base = plan_default(),
                                    .top = 20,
                                    .jobs = 2 };
}
