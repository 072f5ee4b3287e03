/* Times a pipeline from a few cycles of its steady state. In a round each stage runs one forward
 * and one backward; a cycle is the number of rounds after which the order of passes repeats. */
#include "sim/engine/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A schedule with its numbers of stages, chunks and microbatches, and the sorted order of its
 * passes (order.h). Shapes are kept in a linked list, the last used first, as successive plans
 * often share one. */
struct pipeline_shape {
    const struct generator *generator;
    struct order *order;
    struct pipeline_shape *older;
};

void pipeline_cache_release(struct pipeline_cache *cache)
{
    free(cache->done_s);
    free(cache->table_s);
    arena_release(&cache->arena);
    arena_release(&cache->large);
    *cache = (struct pipeline_cache){ 0 };
}

static bool same_shape(const struct schedule_shape *a, const struct schedule_shape *b)
{
    return a->num_stages == b->num_stages && a->chunks_per_stage == b->chunks_per_stage &&
           a->num_microbatches == b->num_microbatches && a->group == b->group;
}

static const struct order *find_order(struct pipeline_cache *cache,
                                      const struct generator *generator,
                                      const struct schedule_shape *shape)
{
    for (struct pipeline_shape **at = &cache->shapes; *at; at = &(*at)->older) {
        struct pipeline_shape *known = *at;
        if (known->generator != generator || !same_shape(&known->order->shape, shape))
            continue;
        *at = known->older; /* moves it to the front, where the next plan finds it at once */
        known->older = cache->shapes;
        cache->shapes = known;
        return known->order;
    }
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

static void make_table_room(struct pipeline_cache *cache, int count)
{
    if (count <= cache->table_capacity)
        return;
    cache->table_capacity = 2 * count;
    cache->table_s = arena_grow(cache->table_s, sizeof(double) * (size_t)cache->table_capacity);
}

/* Fills the lags that order_time reads (sim/engine/order.h): between stages, at the turn of a V and
 * between the last two chunks. */
static void fill_lags(const struct pipeline *pipeline, double *lag_s)
{
    const struct schedule_shape *shape = &pipeline->shape;
    struct placement placement = { shape->num_stages, shape->chunks_per_stage,
                                   pipeline->generator->rule };
    int last = placement_boundary(placement, placement_chunks(placement) - 2);
    memcpy(lag_s, pipeline->lag_s, sizeof(double) * (size_t)shape->num_stages);
    lag_s[order_turn(shape)] = pipeline->turn_s;
    lag_s[order_last(shape)] =
        pipeline->last_more_s + (last == NO_BOUNDARY ? 0 : pipeline->lag_s[last]);
}

/* Fills the durations that order_time reads: the pipeline's, then those of whole backwards and
 * pairs. */
static void fill_durations(const struct pipeline *pipeline, double *duration_s)
{
    const struct schedule_shape *shape = &pipeline->shape;
    int chunks = shape->num_stages * shape->chunks_per_stage;
    memcpy(duration_s, pipeline->duration_s, sizeof(double) * CHUNK_PASSES * (size_t)chunks);
    for (int chunk = 0; chunk < chunks; chunk++) {
        const double *of_s = &pipeline->duration_s[CHUNK_PASSES * chunk];
        duration_s[order_whole_slot(shape, chunk)] = of_s[CHUNK_BACKWARD] + of_s[CHUNK_WEIGHT];
        duration_s[order_pair_slot(shape, chunk)] = pipeline->pair_s[chunk];
    }
    duration_s[order_empty_slot(shape)] = 0;
}

static double time_order(struct pipeline_cache *cache, const struct pipeline *pipeline,
                         const struct order *order, double *end_s)
{
    const double *duration_s = pipeline->duration_s, *lag_s = pipeline->lag_s;
    make_room(cache, order->count);
    if (pipeline->shape.chunks_per_stage > 1) {
        int lags = order_last(&pipeline->shape) + 1;
        make_table_room(cache, lags + order_empty_slot(&pipeline->shape) + 1);
        fill_lags(pipeline, cache->table_s);
        lag_s = cache->table_s;
        if (pipeline->generator->pairs)
            fill_durations(pipeline, cache->table_s + lags);
        duration_s = pipeline->generator->pairs ? cache->table_s + lags : duration_s;
    }
    return order_time(order, duration_s, lag_s, cache->done_s, end_s);
}

/* The time of the pipeline with `num_microbatches` microbatches instead of its own number, in
 * groups of the same size. */
static double run(struct pipeline_cache *cache, const struct pipeline *pipeline,
                  int num_microbatches, const struct order **order, double *end_s)
{
    struct schedule_shape shape = pipeline->shape;
    if (shape.chunks_per_stage > 1 && !pipeline->generator->rule)
        shape.group = interleaved_group(&shape);
    shape.num_microbatches = num_microbatches;
    *order = find_order(cache, pipeline->generator, &shape);
    return time_order(cache, pipeline, *order, end_s);
}

/* Whether done[r] - done[r - period] equals `shift_s` for the last `window` rounds before `rounds`,
 * up to rounding; `at` maps a round to its op. */
static bool pass_repeats(const double *done_s, const int *at, int rounds, int window, int period,
                         double shift_s)
{
    for (int r = rounds - window; r < rounds; r++) {
        double gap_s = done_s[at[r]] - done_s[at[r - period]];
        if (fabs(gap_s - shift_s) > 1e-12 * done_s[at[r]])
            return false;
    }
    return true;
}

/* pass_repeats for all passes of a stage. */
static bool stage_repeats(const struct order *order, const double *done_s, int stage, int rounds,
                          int window, int period, double shift_s)
{
    int first = stage * order->per_stage;
    const int *forward_at = order->at[CHUNK_FORWARD] + first + order->warmup[stage];
    const int *backward_at = order->at[CHUNK_BACKWARD] + first;
    if (!pass_repeats(done_s, backward_at, rounds, window, period, shift_s) ||
        !pass_repeats(done_s, forward_at, rounds, window, period, shift_s))
        return false;
    if (!order->is_split)
        return true;
    int weight_rounds = rounds - order->put_off[stage];
    return weight_rounds >= window + period && pass_repeats(done_s, order->at[CHUNK_WEIGHT] + first,
                                                            weight_rounds, window, period, shift_s);
}

/* The time that one more cycle of `period` rounds adds, or -1 when the rounds of all stages don't
 * repeat. An op depends on nothing older than `window` rounds. A forward needs the previous stage's
 * forward of one or two rounds ago. A backward needs the next stage's backward of this round or,
 * from the last stage to the first, of as many rounds ago as a group has microbatches. So once
 * `window` rounds equal those of a cycle ago plus a shift, all later rounds do, except the
 * `last_rounds` of a smaller last group. */
static double cycle_s(const struct order *order, const double *done_s, int window, int period,
                      int last_rounds)
{
    int rounds = order->per_stage - last_rounds - order->warmup[0];
    if (rounds < window + period)
        return -1;
    const int *first = order->at[CHUNK_BACKWARD];
    double shift_s = done_s[first[rounds - 1]] - done_s[first[rounds - 1 - period]];
    for (int s = 0; s < order->shape.num_stages; s++)
        if (!stage_repeats(order, done_s, s, rounds, window, period, shift_s))
            return -1;
    return shift_s;
}

/* Only the last used shape is kept if it is too large, as one such shape may need more memory than
 * all smaller shapes together. Successive plans often share it. */
enum { MAX_KEPT_PASSES = 1 << 17 };

static const struct order *find_large(struct pipeline_cache *cache, const struct pipeline *pipeline)
{
    const struct order *last = cache->last_large;
    if (last && cache->last_generator == pipeline->generator &&
        same_shape(&last->shape, &pipeline->shape))
        return last;
    arena_rewind(&cache->large);
    cache->last_generator = pipeline->generator;
    cache->last_large = order_new(pipeline->generator, &pipeline->shape, &cache->large);
    return cache->last_large;
}

double pipeline_full_s(struct pipeline_cache *cache, const struct pipeline *pipeline, double *end_s)
{
    const struct schedule_shape *shape = &pipeline->shape;
    const struct order *order;
    double passes = (double)shape->num_stages * shape->chunks_per_stage * shape->num_microbatches;
    if (passes <= MAX_KEPT_PASSES)
        return run(cache, pipeline, shape->num_microbatches, &order, end_s);
    return time_order(cache, pipeline, find_large(cache, pipeline), end_s);
}

/* About the fewest microbatches that contain two whole cycles. With a split backward the last stage
 * has additional rounds for delayed weight gradients, at most 2 (pp - 1), the number of the first
 * stage's warm-up forwards. */
static int first_tried(const struct pipeline *pipeline)
{
    int stages = pipeline->shape.num_stages;
    if (pipeline->shape.chunks_per_stage > 1)
        return 3 * interleaved_group(&pipeline->shape);
    return (generator_splits(pipeline->generator) ? 5 : 2) * stages + 3;
}

double pipeline_s(struct pipeline_cache *cache, const struct pipeline *pipeline, double *end_s)
{
    const struct schedule_shape *shape = &pipeline->shape;
    if (pipeline->generator->rule)
        return pipeline_full_s(cache, pipeline,
                               /* it is not known how many rounds back the dependencies of this
                                * schedule reach */
                               end_s);
    bool chunked = shape->chunks_per_stage > 1;
    int cycle = chunked ? interleaved_group(shape) : 1; /* microbatches */
    int behind = shape->num_stages > cycle ? shape->num_stages : cycle;
    int window = behind > 2 ? behind : 2; /* rounds */
    /* If the last group is smaller, its rounds differ; the rounds before it repeat. */
    int last_rounds = shape->num_microbatches % cycle * shape->chunks_per_stage;
    for (int tried = first_tried(pipeline); tried < shape->num_microbatches; tried *= 2) {
        int run_microbatches = tried + (shape->num_microbatches - tried) % cycle;
        const struct order *order;
        double makespan_s = run(cache, pipeline, run_microbatches, &order, end_s);
        double shift_s =
            cycle_s(order, cache->done_s, window, cycle * shape->chunks_per_stage, last_rounds);
        if (shift_s < 0)
            continue;
        int cycles_left = (shape->num_microbatches - run_microbatches) / cycle;
        double rest_s = cycles_left * shift_s;
        for (int s = 0; s < shape->num_stages; s++)
            end_s[s] += rest_s;
        return makespan_s + rest_s;
    }
    return pipeline_full_s(cache, pipeline, end_s);
}
