#include "tests/exec/exchange/exchange_case.h"

#include "base/random.h"
#include "tests/exec/rank_job.h"

#include <stdio.h>

const struct exchange_tensor case_tensors[NUM_TENSORS] = { { 24, 20, 1 },
                                                           { 12, 1, 1 },
                                                           { 12, 16, 2 } };

static bool run_side(struct rank_job *job, const struct comm_options *options)
{
    const struct exchange_case *of = job->context;
    struct exchange_world world;
    struct exchange_side side;
    if (!exchange_world_open(&world, job->api, options))
        return false;
    bool ok =
        exchange_side_open(&side, &world, of->word, of->tensors, of->num_tensors, of->per_node) &&
        of->check(&side, of);
    if (!ok)
        printf("failed: exchange=%s on %d ranks over %s\n", of->word, of->size, job->api->name);
    exchange_side_close(&side);
    world.api->close(world.comm);
    return ok;
}

void exchange_case_run(const struct comm_api *api, struct exchange_case of)
{
    if (!of.tensors) {
        of.tensors = case_tensors;
        of.num_tensors = NUM_TENSORS;
    }
    rank_job_run((struct rank_job){
        .api = api, .size = of.size, .seed = of.seed + 1, .run = run_side, .context = &of });
}

float exchange_case_value(const struct exchange_case *of, int rank, int step, size_t i)
{
    struct random rng = random_new(of->seed + (uint64_t)step, (uint64_t)rank * 100003 + i);
    return (float)(random_below(&rng, 31) - 15);
}

void exchange_case_fill(const struct exchange_side *side, const struct exchange_case *of, int step,
                        float *at)
{
    for (size_t i = 0; i < ALL_ELEMENTS; i++)
        at[i] = exchange_case_value(of, side->on.rank, step, i);
}

float exchange_case_sum(const struct exchange_case *of, int step, size_t i)
{
    float sum = 0;
    for (int rank = 0; rank < of->size; rank++)
        sum += exchange_case_value(of, rank, step, i);
    return sum;
}

bool exchange_case_sum_step(struct exchange_side *side, int step)
{
    exchanger_begin_step(side->exchanger, step);
    if (exchanger_begins_early(side->exchanger))
        exchanger_begin(side->exchanger);
    exchanger_sum(side->exchanger, side->gradients);
    exchanger_end_step(side->exchanger, 1);
    return exchange_side_sync(side);
}
