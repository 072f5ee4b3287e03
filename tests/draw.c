#include "tests/draw.h"

#include "models/blocks.h"
#include "models/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

uint64_t fresh_seed(void)
{
    const char *given = getenv("SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct random rng =
        random_new((uint64_t)now.tv_sec, (uint64_t)now.tv_nsec ^ (uint64_t)getpid());
    return given ? strtoull(given, NULL, 10) : random_bits(&rng) >> 32;
}

uint64_t told_seed(void)
{
    uint64_t seed = fresh_seed();
    printf("SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

int within(struct random *rng, int least, int most)
{
    return least + random_below(rng, most - least + 1);
}

double between(struct random *rng, double low, double high)
{
    return low + (high - low) * random_unit(rng);
}

int pick(struct random *rng, const int *from, int count)
{
    return from[random_below(rng, count)];
}

double random_between(double low, double high)
{
    return low + (high - low) * rand() / RAND_MAX;
}

void draw_blocks(struct model *model, uint64_t seed)
{
    struct random rng = random_new(seed, 78);
    struct block_kind own = model_kind(model, 0), other = own;
    bool every_second = random_below(&rng, 2) && model->layers % 2 == 0;
    int first = every_second ? 1 : within(&rng, 1, 3);
    if (random_below(&rng, 3) > 0)
        return;
    other.ffn = PICK(&rng, 1, 6) * model->hidden / (every_second ? 2 : 1);
    if (random_below(&rng, 2))
        other.heads *= 2, other.kv_heads *= 2;
    model->blocks = (struct blocks){
        .kinds = { other, own },
        .runs = { { 0, first }, { 1, every_second ? 1 : model->layers - first } },
        .num_kinds = 2,
        .num_runs = 2,
    };
    /* blocks of one width are of one kind */
    if (blocks_have_one_width(&model->blocks))
        model->blocks = (struct blocks){ 0 };
}

void draw_modules(struct model *model, uint64_t seed)
{
    struct random rng = random_new(seed, 91);
    model->mtp = PICK(&rng, 0, 0, 0, 0, 1, 2);
}

void draw_experts(struct model *model, uint64_t seed)
{
    struct random rng = random_new(seed, 79);
    model->experts = model->topk = model->expert_ffn = model->shared_ffn = 0;
    model->feed_forward = FEED_FORWARD_DENSE;
    if (random_below(&rng, 3) > 0)
        return;
    model->experts = PICK(&rng, 4, 6, 8, 16);
    model->topk = PICK(&rng, 1, 2, 4);
    model->expert_ffn = PICK(&rng, 1, 2, 4) * model->hidden / 2;
    model->shared_ffn = PICK(&rng, 0, 1) * model->hidden;
    model->feed_forward = FEED_FORWARD_EXPERTS;
    if (model->blocks.num_kinds > 0)
        model->blocks.kinds[1].feed_forward = FEED_FORWARD_EXPERTS;
}
