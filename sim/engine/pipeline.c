#include "sim/engine/pipeline.h"

#include "sim/engine/order.h"

#include <math.h>
#include <stdlib.h>

/* A shape that was sorted before. A list: there are about a hundred, met in runs. */
struct pipeline_shape {
    const struct generator *generator;
    struct order *order;
    struct pipeline_shape *older;
};

void pipeline_cache_release(struct pipeline_cache *cache)
{
    free(cache->done_s);
    arena_release(&cache->arena);
    *cache = (struct pipeline_cache){ 0 };
}

static bool same_shape(const struct schedule_shape *a, const struct schedule_shape *b)
{
    return a->num_stages == b->num_stages && a->chunks_per_stage == b->chunks_per_stage &&
           a->num_microbatches == b->num_microbatches;
}

static const struct order *find_order(struct pipeline_cache *cache,
                                      const struct generator *generator,
                                      const struct schedule_shape *shape)
{
    for (struct pipeline_shape *known = cache->shapes; known; known = known->older)
        if (known->generator == generator && same_shape(&known->order->shape, shape))
            return known->order;
    struct pipeline_shape *found = ARENA_NEW(&cache->arena, struct pipeline_shape);
    *found = (struct pipeline_shape){ .generator = generator,
                                      .order = order_new(generator, shape, &cache->arena),
                                      .older = cache->shapes };
    cache->shapes = found;
    return found->order;
}

static void make_room(struct pipeline_cache *cache, int count)
{
    if (count <= cache->done_capacity)
        return;
    cache->done_capacity = 2 * count;
    cache->done_s = arena_grow(cache->done_s, sizeof(double) * (size_t)cache->done_capacity);
}

/* Runs `num_microbatches` of the pipeline. */
static double run(struct pipeline_cache *cache, const struct pipeline *pipeline,
                  int num_microbatches, const struct order **order, double *end_s)
{
    struct schedule_shape shape = pipeline->shape;
    shape.num_microbatches = num_microbatches;
    *order = find_order(cache, pipeline->generator, &shape);
    make_room(cache, (*order)->count);
    return order_time(*order, pipeline->duration_s, pipeline->lag_s, cache->done_s, end_s);
}

/* Whether done[r] - done[r - period] is `shift_s` for the last two periods of rounds before
 * `rounds`; `at` maps a round to its op. Rounding may differ in the last bits. */
static bool repeats(const double *done_s, const int *at, int rounds, int period, double shift_s)
{
    for (int r = rounds - 2 * period; r < rounds; r++) {
        double gap_s = done_s[at[r]] - done_s[at[r - period]];
        if (fabs(gap_s - shift_s) > 1e-12 * done_s[at[r]])
            return false;
    }
    return true;
}

/* The time that one more cycle of `period` rounds adds, or -1 when the rounds of all stages don't
 * repeat. What a round needs of other stages lies within one cycle, so two that repeat prove that
 * the next one does. */
static double cycle_s(const struct order *order, const double *done_s, int period)
{
    int rounds = order->per_stage - order->warmup[0];
    if (rounds < 3 * period + 1)
        return -1;
    const int *first = order->backward_at;
    double shift_s = done_s[first[rounds - 1]] - done_s[first[rounds - 1 - period]];
    for (int s = 0; s < order->shape.num_stages; s++) {
        const int *backward_at = order->backward_at + s * order->per_stage;
        const int *forward_at = order->forward_at + s * order->per_stage + order->warmup[s];
        if (!repeats(done_s, backward_at, rounds, period, shift_s) ||
            !repeats(done_s, forward_at, rounds, period, shift_s))
            return -1;
    }
    return shift_s;
}

double pipeline_full_s(struct pipeline_cache *cache, const struct pipeline *pipeline, double *end_s)
{
    const struct order *order;
    return run(cache, pipeline, pipeline->shape.num_microbatches, &order, end_s);
}

double pipeline_s(struct pipeline_cache *cache, const struct pipeline *pipeline, double *end_s)
{
    const struct schedule_shape *shape = &pipeline->shape;
    bool chunked = shape->chunks_per_stage > 1;
    int cycle = chunked ? shape->num_stages : 1; /* microbatches */
    int warm = chunked ? 5 * shape->num_stages : 2 * shape->num_stages + 3;
    for (int extra = 0; warm + extra < shape->num_microbatches; extra = 2 * extra + warm) {
        int run_microbatches = warm + extra;
        run_microbatches += (shape->num_microbatches - run_microbatches) % cycle;
        const struct order *order;
        double makespan_s = run(cache, pipeline, run_microbatches, &order, end_s);
        double shift_s = cycle_s(order, cache->done_s, cycle * shape->chunks_per_stage);
        if (shift_s < 0)
            continue;
        double rest_s = (shape->num_microbatches - run_microbatches) / cycle * shift_s;
        for (int s = 0; s < shape->num_stages; s++)
            end_s[s] += rest_s;
        return makespan_s + rest_s;
    }
    return pipeline_full_s(cache, pipeline, end_s);
}
