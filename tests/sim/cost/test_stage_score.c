#include "base/random.h"
#include "sim/engine/simulate.h"
#include "sim/plan/ranks.h"
#include "tests/draw.h"
#include "tests/testing.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

static const struct {
    const char *model, *cluster, *stack;
} runs[] = {
    { "gpt3-1.3b", "dgx-h100", "megatron-core" }, /* this model has tied embeddings */
    { "llama3-8b", "dgx-h100", "torchtitan" },
    { "gpt3-6.7b", "dgx-a100-80g", "megatron-deepspeed" },
    { "llama2-7b", "dgx-a100-80g", "nemo" },
};
enum { NUM_RUNS = LENGTH(runs) };

/* Divides `layers` over the stages, at least one each, and draws the recomputed layers of each. */
static void cut(struct random *rng, int layers, int stages, int *has, int *recomputed)
{
    for (int s = 0; s < stages; s++)
        has[s] = 1;
    for (int left = layers - stages; left > 0; left--)
        has[random_below(rng, stages)]++;
    for (int s = 0; s < stages; s++)
        recomputed[s] = random_below(rng, has[s] + 1);
}

/* A random plan with one chunk per stage, possibly uneven and with separate recompute per stage. */
static bool make_plan(struct random *rng, const struct system *system, const struct model *model,
                      struct arena *arena, struct plan *plan)
{
    static const char *const schedules[] = { "", " schedule=zb-h1", " schedule=gpipe" };
    static const char *const recomputes[] = { "", " recompute=selective", " recompute=full" };
    static const char *const attentions[] = { "", " cp2", " cp2 cp-comm=all-gather" };
    static const char *const optimizers[] = { "", " offload=optimizer" };
    char text[200];
    int tp = 1 << random_below(rng, 3);
    snprintf(text, sizeof text, "tp%d pp%d mb%d zero%d%s%s%s%s%s", tp, 1 << random_below(rng, 4),
             1 << random_below(rng, 2), random_below(rng, 4),
             tp > 1 && random_below(rng, 2) ? " sp" : "", attentions[random_below(rng, 3)],
             schedules[random_below(rng, 3)], recomputes[random_below(rng, 3)],
             optimizers[random_below(rng, 2)]);
    struct err err = { 0 };
    if (!plan_parse(text, arena, plan, &err))
        return false;
    int *layers = ARENA_ARRAY(arena, int, (size_t)plan->pp);
    int *recomputed = ARENA_ARRAY(arena, int, (size_t)plan->pp);
    int *parts = ARENA_ARRAY(arena, int, (size_t)plan->pp);
    cut(rng, model->layers, plan->pp, layers, recomputed);
    for (int i = 0; i < plan->pp; i++)
        parts[i] = random_below(rng, 1 << (REPLAY_NORM + 1));
    if (plan->recompute == RECOMPUTE_SELECTIVE && random_below(rng, 2)) {
        plan->stage_replays = parts;
        plan->num_stage_replays = plan->pp;
    }
    plan->chunk_layers = layers;
    plan->num_chunk_layers = plan->pp;
    if (!plan->stage_replays && random_below(rng, 2)) {
        plan->recompute = RECOMPUTE_BLOCK;
        plan->recompute_layers = recomputed;
        plan->num_recompute_layers = plan->pp;
    }
    return plan_derive_data(plan, 32, &err) && !plan_check(plan, model, model->batch, 32, &err) &&
           system_check(system, plan, &err);
}

/* The step time and the memory peak of a plan, computed only from the scores (times and bytes) of
 * its stages. */
struct assembled {
    double step_s, peak_memory_bytes;
};

static struct assembled assemble(struct evaluator *evaluator, const struct system *system,
                                 const struct model *model, const struct plan *plan)
{
    enum { MOST_STAGES = 8 };
    double duration_s[CHUNK_PASSES * MOST_STAGES], end_s[MOST_STAGES], comm_s[MOST_STAGES];
    double lag_s[MOST_STAGES];
    struct assembled whole = { 0 };
    double optimizer_s = 0, reduced_s = 0;
    /* the plan without its lists of layers per stage, which the scores must not need */
    struct plan bare = *plan;
    bare.chunk_layers = NULL;
    bare.recompute_layers = NULL;
    const int none = 0;
    if (plan->stage_replays) {
        bare.stage_replays = &none;
        bare.num_stage_replays = 1;
    }
    for (int s = 0; s < plan->pp; s++) {
        struct stage_share share = { s, plan->chunk_layers[s],
                                     plan_recomputed_layers(plan, s, plan->chunk_layers[s]),
                                     chunk_first_layer(plan, model, s) };
        if (plan->stage_replays)
            share.recomputed = plan->stage_replays[s];
        struct stage_score score = evaluate_stage(evaluator, &bare, &share);
        duration_s[CHUNK_PASSES * s + CHUNK_FORWARD] = score.forward_s;
        duration_s[CHUNK_PASSES * s + CHUNK_BACKWARD] = score.backward_s;
        duration_s[CHUNK_PASSES * s + CHUNK_WEIGHT] = score.weight_s;
        comm_s[s] = score.data_comm_s;
        optimizer_s = fmax(optimizer_s, score.optimizer_s);
        whole.peak_memory_bytes = fmax(whole.peak_memory_bytes, score.memory_bytes);
        lag_s[s] = score.lag_s;
    }
    struct pipeline_cache cache = { 0 };
    struct pipeline pipeline = { .generator = generator_find(plan_schedule(plan)),
                                 .shape = { plan->pp, 1, plan_microbatches(plan, model->batch), 0 },
                                 .duration_s = duration_s,
                                 .lag_s = lag_s };
    pipeline_s(&cache, &pipeline, end_s);
    for (int s = 0; s < plan->pp; s++)
        reduced_s = fmax(reduced_s, end_s[s] + comm_s[s]);
    whole.step_s = reduced_s + optimizer_s + system->stack.host.step_s;
    pipeline_cache_release(&cache);
    return whole;
}

enum { NUM_PLANS = 600 };

START_TEST(a_plans_time_equals_that_of_its_stage_scores_bit_for_bit)
{
    struct err err = { 0 };
    struct model model;
    struct system system;
    bool ok = model_load(runs[_i].model, &model, &err) &&
              system_load(runs[_i].cluster, runs[_i].stack, 32, &system, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    model.batch = 96;
    for (uint64_t seed = 0; _i % 2 == 1 && model.blocks.num_runs == 0; seed++)
        draw_blocks(&model, seed);
    struct evaluator *whole = evaluator_new(&system, &model);
    struct evaluator *parts = evaluator_new(&system, &model);
    int scored = 0;
    for (uint64_t seed = 0; seed < TURNS(NUM_PLANS); seed++) {
        struct arena arena = { 0 };
        struct plan plan;
        struct random rng = random_new(seed, 0);
        if (make_plan(&rng, &system, &model, &arena, &plan)) {
            struct assembled got = assemble(parts, &system, &model, &plan);
            struct prediction p = evaluate(whole, &plan);
            ck_assert_msg(
                got.step_s == p.step_s && got.peak_memory_bytes == p.peak_memory_bytes,
                "run %d, seed %d: from stages %a s and %a bytes, from the plan %a s and %a bytes",
                _i, (int)seed, got.step_s, got.peak_memory_bytes, p.step_s, p.peak_memory_bytes);
            scored++;
        }
        arena_release(&arena);
    }
    ck_assert_int_gt(scored, TURNS(NUM_PLANS) / 12);
    evaluator_free(whole);
    evaluator_free(parts);
    system_release(&system);
}
END_TEST

/* Writes all times of a plan into one list. */
enum { MOST_TIMES = 128 };
struct times {
    double at[MOST_TIMES];
    int count;
};

static void add_time(struct times *times, double seconds)
{
    ck_assert_int_lt(times->count, MOST_TIMES);
    times->at[times->count++] = seconds;
}

static void add_stages(struct times *times, struct evaluator *evaluator, const struct plan *plan,
                       const struct step_cost *cost)
{
    double idle_s[8];
    evaluate_idle(evaluator, plan, idle_s);
    for (int s = 0; s < plan->pp; s++) {
        struct stage_share share = { s, plan->chunk_layers[s], 0, 0 };
        struct stage_score score = evaluate_stage(evaluator, plan, &share);
        add_time(times, score.forward_s);
        add_time(times, score.backward_s);
        add_time(times, score.data_comm_s);
        add_time(times, score.optimizer_s);
        add_time(times, score.lag_s);
        add_time(times, idle_s[s]);
        add_time(times, cost->chunks[s].forward_s + cost->chunks[s].input_s +
                            cost->chunks[s].recompute_s + cost->chunks[s].weight_s);
        add_time(times, cost->stages[s].reduce_s + cost->stages[s].gather_s +
                            cost->stages[s].tied_s + cost->stages[s].optimizer_s +
                            cost->stages[s].mix_s);
        add_time(times, cost->boundaries[s].message_s);
    }
}

static struct times times_of(struct evaluator *evaluator, const struct plan *plan, double ratio)
{
    struct times times = { 0 };
    struct arena arena = { 0 };
    struct rank_orders orders = { (int(*)[MAX_AXES])plan->order, 1 };
    struct prediction p = evaluate(evaluator, plan);
    struct step_cost cost = evaluate_cost(evaluator, plan, &arena);
    add_time(&times, p.step_s);
    for (int i = 0; i < num_time_parts; i++)
        add_time(&times, time_part_s(&p.time, i));
    add_time(&times, 1 / p.mfu);
    add_time(&times, evaluate_step_s(evaluator, plan));
    add_time(&times, evaluate_bound_s(evaluator, plan));
    add_time(&times, evaluate_floor_s(evaluator, plan));
    add_time(&times, evaluate_unplaced_floor_s(evaluator, plan, &orders));
    add_time(&times, evaluate_least_once_s(evaluator, plan, ratio * 0.125));
    add_time(&times, cost.overhead_s);
    add_time(&times, cost.spared_s);
    add_stages(&times, evaluator, plan, &cost);
    arena_release(&arena);
    return times;
}

/* the ratio is a power of 2, so that scaled times have the same digits */
START_TEST(a_learned_ratio_scales_every_time_equally)
{
    static const double ratio = 2;
    struct err err = { 0 };
    struct model model;
    struct system system;
    ck_assert(model_load(runs[_i].model, &model, &err));
    ck_assert(system_load(runs[_i].cluster, runs[_i].stack, 32, &system, &err));
    model.batch = 96;
    int compared = 0;
    for (uint64_t seed = 0; seed < TURNS(NUM_PLANS) / 4; seed++) {
        struct arena arena = { 0 };
        struct plan plan;
        struct random rng = random_new(seed, 0);
        if (make_plan(&rng, &system, &model, &arena, &plan)) {
            struct times before, after;
            struct system learned = system;
            learned.stack.learned.time_ratio = ratio;
            struct evaluator *plain = evaluator_new(&system, &model);
            struct evaluator *scaled = evaluator_new(&learned, &model);
            before = times_of(plain, &plan, 1);
            after = times_of(scaled, &plan, ratio);
            for (int i = 0; i < before.count; i++)
                ck_assert_msg(after.at[i] == ratio * before.at[i],
                              "seed %d, time %d: scaled %a s, plain %a s", (int)seed, i,
                              before.at[i], after.at[i]);
            evaluator_free(plain);
            evaluator_free(scaled);
            compared++;
        }
        arena_release(&arena);
    }
    ck_assert_int_gt(compared, TURNS(NUM_PLANS) / 48);
    system_release(&system);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("stage_score");
    TCase *cases = tcase_create("stage_score");
    tcase_add_loop_test(cases, a_plans_time_equals_that_of_its_stage_scores_bit_for_bit, 0,
                        NUM_RUNS);
    tcase_add_loop_test(cases, a_learned_ratio_scales_every_time_equally, 0, NUM_RUNS);
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
