#include "tests/testing.h"

#include "sim/engine/events.h"
#include "sim/engine/pipeline.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_STAGES = 8, MAX_CHUNKS = 32 };

/* A schedule and what it takes. */
struct step {
    const struct generator *generator;
    struct schedule_shape shape;
    struct lowering lowering;
    struct chunk_cost chunks[MAX_CHUNKS];
    struct stage_cost stages[MAX_STAGES];
    struct boundary boundaries[MAX_STAGES];
    struct step_cost cost;
};

static double random_between(double low, double high)
{
    return low + (high - low) * rand() / RAND_MAX;
}

/* The step must stay where it is: the cost points into it. */
static void step_init(struct step *step, const char *generator, int p, int v, int m)
{
    *step = (struct step){ .generator = generator_find(generator), .shape = { p, v, m } };
    for (int c = 0; c < p * v; c++)
        step->chunks[c] = (struct chunk_cost){ 1.0 / v, 0, 1.0 / v, 1.0 / v };
    step->cost = (struct step_cost){ .chunks = step->chunks,
                                     .stages = step->stages,
                                     .boundaries = step->boundaries,
                                     .slowdowns = { 1, 1 },
                                     .messages_are_delays = true };
}

static struct timeline *run(const struct step *step, struct arena *arena)
{
    struct err err = { 0 };
    struct schedule *schedule =
        schedule_new(step->generator, &step->shape, &step->lowering, arena, &err);
    ck_assert_msg(schedule != NULL, "%s", err.msg);
    struct timeline *timeline = events_run(schedule, &step->cost, arena, &err);
    ck_assert_msg(timeline != NULL, "%s, %d stages x %d chunks, %d microbatches: %s: %s",
                  step->generator->name, step->shape.num_stages, step->shape.chunks_per_stage,
                  step->shape.num_microbatches, err.where, err.msg);
    return timeline;
}

static double run_s(const struct step *step)
{
    struct arena arena = { 0 };
    double end_s = timeline_end_s(run(step, &arena));
    arena_release(&arena);
    return end_s;
}

/* The same by the recurrence, every microbatch. */
static double recurrence_s(const struct step *step)
{
    double duration_s[CHUNK_PASSES * MAX_CHUNKS], end_s[MAX_STAGES];
    bool is_split = generator_splits(step->generator);
    int num_chunks = step->shape.num_stages * step->shape.chunks_per_stage;
    int p = step->shape.num_stages;
    double lag_s[MAX_STAGES] = { 0 };
    for (int s = 0; s < p && !step->cost.blocking; s++)
        lag_s[s] = step->boundaries[s].message_s;
    for (int c = 0; c < num_chunks; c++) {
        const struct chunk_cost *chunk = &step->chunks[c];
        double *of = duration_s + CHUNK_PASSES * c;
        double down_s = c < num_chunks - 1 ? step->boundaries[c % p].message_s : 0;
        double up_s = c > 0 ? step->boundaries[(c - 1) % p].message_s : 0;
        of[CHUNK_FORWARD] = chunk->forward_s + (step->cost.blocking ? down_s : 0);
        of[CHUNK_BACKWARD] = chunk->input_s + (step->cost.blocking ? up_s : 0);
        of[CHUNK_WEIGHT] = is_split ? chunk->weight_s : 0;
        if (step->lowering.recompute)
            of[CHUNK_BACKWARD] += chunk->recompute_s;
        if (!is_split)
            of[CHUNK_BACKWARD] += chunk->weight_s;
    }
    struct pipeline_cache cache = { 0 };
    struct pipeline pipeline = { step->generator, step->shape, duration_s, lag_s };
    double time_s = pipeline_full_s(&cache, &pipeline, end_s);
    pipeline_cache_release(&cache);
    return time_s;
}

static void randomise(struct step *step)
{
    int g = rand() % num_generators;
    int p = 1 + rand() % MAX_STAGES;
    int v = 1 + rand() % 4;
    int m = 1 + rand() % (3 * p);
    struct schedule_shape shape = { p, v, m };
    struct err ignored = { 0 };
    if (!generators[g].accepts(&shape, &ignored)) {
        randomise(step);
        return;
    }
    step_init(step, generators[g].name, p, v, m);
    double spread = rand() % 3 * 0.3;
    for (int c = 0; c < p * v; c++)
        step->chunks[c] = (struct chunk_cost){
            .forward_s = random_between(1 - spread, 1 + spread),
            .input_s = random_between(1 - spread, 1 + spread),
            .weight_s = random_between(1 - spread, 1 + spread),
        };
    bool has_messages = rand() % 4;
    for (int s = 0; has_messages && s < p; s++)
        step->boundaries[s].message_s = random_between(0, 1.5);
}

static void check_same(const struct step *step, double got_s, double expected_s)
{
    ck_assert_msg(fabs(got_s - expected_s) <= 1e-9 * expected_s,
                  "%s, %d stages x %d chunks, %d microbatches: %.12g s is not %.12g s",
                  step->generator->name, step->shape.num_stages, step->shape.chunks_per_stage,
                  step->shape.num_microbatches, got_s, expected_s);
}

/* --- without contention: the recurrence --------------------------------------------------- */

START_TEST(delayed_messages_take_as_long_as_the_recurrence)
{
    struct step step;
    srand(20261120);
    for (int i = 0; i < TURNS(4000); i++) {
        randomise(&step);
        double expected_s = recurrence_s(&step);
        check_same(&step, run_s(&step), expected_s);
    }
}
END_TEST

START_TEST(blocking_delays_take_as_long_as_the_recurrence)
{
    struct step step;
    srand(20261121);
    for (int i = 0; i < TURNS(4000); i++) {
        randomise(&step);
        step.cost.blocking = true;
        double expected_s = recurrence_s(&step);
        check_same(&step, run_s(&step), expected_s);
    }
}
END_TEST

/* 2 stages, 1 microbatch, f 1, b 2, message 0.5, its own end 4: as in test_order, 7 s and then the
 * optimizer, which waits for the norm of both, 0.25 and 4. */
START_TEST(the_update_waits_for_the_norm_of_all_stages)
{
    struct step step;
    step_init(&step, "1f1b", 2, 1, 1);
    step.boundaries[0].message_s = 0.5;
    step.stages[0].optimizer_s = 0.25;
    step.stages[1].optimizer_s = 4;
    ck_assert_double_eq_tol(run_s(&step), 7 + 4, 1e-12);
}
END_TEST

/* The same without: stage 1 is through at 4.5 and updates until 8.5, from 1.5 on; stage 0
 * takes 7.25.
 */
START_TEST(a_stage_that_is_validated_later_waits_for_no_norm)
{
    struct step step;
    struct arena arena = { 0 };
    step_init(&step, "1f1b", 2, 1, 1);
    step.boundaries[0].message_s = 0.5;
    step.stages[0].optimizer_s = 0.25;
    step.stages[1].optimizer_s = 4;
    step.cost.validates = true;
    struct timeline *timeline = run(&step, &arena);
    ck_assert_double_eq_tol(timeline_end_s(timeline), 8.5, 1e-12);
    ck_assert_double_eq_tol(timeline_own_s(timeline), 7.25, 1e-12);
    arena_release(&arena);
}
END_TEST

/* The recompute is part of the backward that the recurrence knows. */
START_TEST(recompute_delays_the_backward)
{
    struct step step;
    srand(5);
    for (int i = 0; i < TURNS(500); i++) {
        randomise(&step);
        step.lowering.recompute = true;
        for (int c = 0; c < step.shape.num_stages * step.shape.chunks_per_stage; c++)
            step.chunks[c].recompute_s = random_between(0, 1);
        check_same(&step, run_s(&step), recurrence_s(&step));
    }
}
END_TEST

/* --- rendezvous --------------------------------------------------------------------------- */

static struct jitter random_jitter(void)
{
    return (struct jitter){ .seed = (uint64_t)rand(),
                            .chip_spread = random_between(0, 0.1),
                            .pass_spread = random_between(0, 0.1),
                            .wire_spread = { random_between(0, 0.3), random_between(0, 0.3) },
                            .num_gpus = 1024,
                            .stage_ranks = 128,
                            .pass_ranks = 1 + rand() % 8,
                            .data_members = 1 + rand() % 64,
                            .data_replicas = 1 + rand() % 64 };
}

/* All that lowering can add, at random durations. */
static void randomise_whole(struct step *step)
{
    randomise(step);
    step->lowering = (struct lowering){ .recompute = rand() % 2,
                                        .has_data_group = rand() % 2,
                                        .gather_updated = rand() % 2,
                                        .tied = rand() % 2 };
    for (int c = 0; c < step->shape.num_stages * step->shape.chunks_per_stage; c++)
        step->chunks[c].recompute_s = random_between(0, 1);
    for (int s = 0; s < step->shape.num_stages; s++)
        step->stages[s] = (struct stage_cost){ random_between(0, 2), random_between(0, 1),
                                               random_between(0, 1), random_between(0, 1), 0 };
    step->cost.messages_are_delays = rand() % 4 == 0;
    step->cost.blocking = rand() % 2;
    step->cost.reduces_last = rand() % 2;
    for (int s = 0; s < step->shape.num_stages; s++)
        step->boundaries[s].wire = rand() % 2 ? WIRE_NODE : WIRE_NETWORK;
    step->cost.data_wire = rand() % 2 ? WIRE_NODE : WIRE_NETWORK;
    step->cost.slowdowns.compute = random_between(1, 1.4);
    step->cost.slowdowns.comm = random_between(1, 1.4);
    step->cost.validates = rand() % 4 == 0;
    step->cost.draws = rand() % 3 == 0;
    step->cost.jitter = random_jitter();
}

START_TEST(no_schedule_deadlocks_and_no_lane_does_two_things_at_once)
{
    struct step step;
    srand(20261122);
    for (int i = 0; i < TURNS(10000); i++) {
        struct arena arena = { 0 };
        struct err err = { 0 };
        randomise_whole(&step);
        bool ok = timeline_check(run(&step, &arena), 1e-9, &err);
        ck_assert_msg(ok, "%s: %s: %s", step.generator->name, err.where, err.msg);
        arena_release(&arena);
    }
}
END_TEST

static double idle_s(const struct timeline *timeline, int rank, enum lane lane)
{
    const struct instrs *list = &timeline->schedule->ranks[rank];
    double idle = 0;
    double free_s = 0;
    for (int i = 0; i < list->count; i++) {
        if (opcode_infos[list->at[i].op].lane != lane)
            continue;
        idle += timeline->ranks[rank][i].start_s - free_s;
        free_s = timeline->ranks[rank][i].end_s;
    }
    return idle + timeline_end_s(timeline) - free_s;
}

START_TEST(busy_and_idle_add_up_to_the_step_on_every_lane)
{
    struct step step;
    srand(20261123);
    for (int i = 0; i < TURNS(500); i++) {
        struct arena arena = { 0 };
        randomise_whole(&step);
        struct timeline *timeline = run(&step, &arena);
        double step_s = timeline_end_s(timeline);
        for (int rank = 0; rank < step.shape.num_stages; rank++)
            for (int lane = 0; lane < NUM_LANES; lane++) {
                double busy_s = timeline_busy_s(timeline, rank, (enum lane)lane);
                double idle = idle_s(timeline, rank, (enum lane)lane);
                ck_assert_double_ge(idle, -1e-9);
                ck_assert_double_eq_tol(busy_s + idle, step_s, 1e-9 * step_s);
            }
        arena_release(&arena);
    }
}
END_TEST

/* Without contention a lane is as busy as its instructions take alone. */
START_TEST(compute_is_as_busy_as_its_passes_take)
{
    struct step step;
    srand(9);
    for (int i = 0; i < 200; i++) {
        struct arena arena = { 0 };
        randomise(&step);
        step.cost.messages_are_delays = false;
        struct timeline *timeline = run(&step, &arena);
        for (int rank = 0; rank < step.shape.num_stages; rank++) {
            double alone_s = 0;
            for (int c = rank; c < step.shape.num_stages * step.shape.chunks_per_stage;
                 c += step.shape.num_stages)
                alone_s +=
                    step.chunks[c].forward_s + step.chunks[c].input_s + step.chunks[c].weight_s;
            alone_s *= step.shape.num_microbatches;
            ck_assert_double_eq_tol(timeline_busy_s(timeline, rank, LANE_COMPUTE), alone_s,
                                    1e-9 * alone_s);
        }
        arena_release(&arena);
    }
}
END_TEST

/* A receive is posted one pass ahead, so what a delay hides may wait; never the other way round. */
START_TEST(a_rendezvous_is_never_faster_than_a_delay)
{
    struct step step;
    srand(20261124);
    for (int i = 0; i < TURNS(2000); i++) {
        randomise(&step);
        double delayed_s = run_s(&step);
        step.cost.messages_are_delays = false;
        ck_assert_double_ge(run_s(&step), delayed_s * (1 - 1e-9));
    }
}
END_TEST

/* --- jitter ------------------------------------------------------------------------------- */

/* 1F1B of 4 stages and 16 microbatches, as `draws` steps on the average. */
static double mean_drawn_s(const struct jitter *jitter, int draws)
{
    struct step step;
    double sum_s = 0;
    step_init(&step, "1f1b", 4, 1, 16);
    step.cost.draws = true;
    step.cost.jitter = *jitter;
    for (int i = 0; i < draws; i++) {
        step.cost.jitter.seed = (uint64_t)i;
        sum_s += run_s(&step);
    }
    return sum_s / draws;
}

static const struct jitter none = {
    .num_gpus = 8, .stage_ranks = 2, .pass_ranks = 1, .data_members = 1, .data_replicas = 1
};

START_TEST(without_spreads_a_drawn_step_is_the_same_to_the_bit)
{
    struct step step;
    srand(23);
    for (int i = 0; i < 200; i++) {
        randomise_whole(&step);
        step.cost.draws = false;
        double mean_s = run_s(&step);
        step.cost.draws = true;
        step.cost.jitter = none;
        ck_assert(run_s(&step) == mean_s);
    }
}
END_TEST

/* 4 stages of 2 chips: the slowest of the 8 sets the pace, as the costs have it already. The others
 * are faster, so a pipeline's ends take a little less: (16 + 3) x 3 s and up to 1 % of it less. */
START_TEST(chips_cost_in_the_mean_what_the_closed_form_says)
{
    struct jitter chips = none;
    chips.chip_spread = 0.01;
    double mean_s = mean_drawn_s(&chips, TURNS(2000));
    ck_assert_double_le(mean_s, 19 * 3 * 1.001);
    ck_assert_double_ge(mean_s, 19 * 3 * 0.99);
}
END_TEST

/* Passes stray around their mean, but each microbatch waits for the slowest stage that it meets. */
START_TEST(a_pipeline_whose_passes_stray_takes_longer)
{
    struct jitter passes = none;
    passes.pass_spread = 0.05;
    double mean_s = mean_drawn_s(&passes, TURNS(400));
    ck_assert_double_ge(mean_s, 19 * 3 * 1.01);
    ck_assert_double_le(mean_s, 19 * 3 * 1.1);
}
END_TEST

/* One pass of 1 s forward and 2 s backward, deviations 5 %: their sum strays by 5 % of sqrt(1 + 4),
 * and the slowest of n replicas by the expected maximum times that. */
START_TEST(the_norm_waits_for_the_slowest_replica)
{
    struct jitter replicas = none;
    struct step step;
    replicas.pass_spread = 0.05;
    replicas.data_replicas = 1000;
    step_init(&step, "1f1b", 1, 1, 1);
    step.cost.draws = true;
    double sum_s = 0;
    for (int i = 0; i < 1000; i++) {
        step.cost.jitter = replicas;
        step.cost.jitter.seed = (uint64_t)i;
        sum_s += run_s(&step);
    }
    ck_assert_double_eq_tol(sum_s / 1000, 3 + 0.05 * sqrt(5) * 3.24, 0.02);
}
END_TEST

/* --- monotone ----------------------------------------------------------------------------- */

static void scale_compute(struct step *step, double by)
{
    for (int c = 0; c < step->shape.num_stages * step->shape.chunks_per_stage; c++) {
        step->chunks[c].forward_s *= by;
        step->chunks[c].recompute_s *= by;
        step->chunks[c].input_s *= by;
        step->chunks[c].weight_s *= by;
    }
    for (int s = 0; s < step->shape.num_stages; s++)
        step->stages[s].optimizer_s *= by;
}

static void scale_comm(struct step *step, double by)
{
    for (int s = 0; s < step->shape.num_stages; s++) {
        step->boundaries[s].message_s *= by;
        step->stages[s].reduce_s *= by;
        step->stages[s].gather_s *= by;
        step->stages[s].tied_s *= by;
    }
}

START_TEST(a_step_scales_with_all_that_it_is_made_of)
{
    struct step step;
    srand(20261125);
    for (int i = 0; i < TURNS(500); i++) {
        randomise_whole(&step);
        double once_s = run_s(&step);
        scale_compute(&step, 4);
        scale_comm(&step, 4);
        check_same(&step, run_s(&step), 4 * once_s);
    }
}
END_TEST

/* How much longer a random step takes when a part of it is made faster: 0 or less, or an anomaly.
 */
static double slower_by(struct step *step, void (*scale)(struct step *, double))
{
    double slow_s = run_s(step);
    scale(step, random_between(0.3, 1));
    return run_s(step) / slow_s - 1;
}

START_TEST(faster_is_never_slower_where_nothing_is_shared)
{
    void (*const scales[])(struct step *, double) = { scale_compute, scale_comm };
    struct step step;
    srand(20261126);
    for (int i = 0; i < TURNS(4000); i++) {
        randomise_whole(&step);
        step.cost.messages_are_delays = true;
        step.cost.slowdowns = (struct slowdowns){ 1, 1 };
        double slower = slower_by(&step, scales[i % 2]);
        ck_assert_msg(slower <= 1e-9, "seed 20261126, case %d: slower by %g", i, slower);
    }
}
END_TEST

/* A faster pass may meet a transfer that it had missed, and slow it: fair shares are not monotone,
 * in the field neither. It stays far below what was gained. */
START_TEST(faster_is_hardly_ever_slower_where_transfers_meet)
{
    void (*const scales[])(struct step *, double) = { scale_compute, scale_comm };
    struct step step;
    int anomalies = 0;
    srand(20261127);
    for (int i = 0; i < TURNS(4000); i++) {
        randomise_whole(&step);
        double slower = slower_by(&step, scales[i % 2]);
        anomalies += slower > 1e-9;
        ck_assert_msg(slower <= 0.03, "seed 20261127, case %d: slower by %g", i, slower);
    }
    ck_assert_int_le(anomalies, 8);
}
END_TEST

START_TEST(contention_makes_no_step_one_percent_shorter)
{
    struct step step;
    srand(20261128);
    for (int i = 0; i < TURNS(2000); i++) {
        randomise_whole(&step);
        double slowed_s = run_s(&step);
        step.cost.slowdowns = (struct slowdowns){ 1, 1 };
        double slower = run_s(&step) / slowed_s - 1;
        ck_assert_msg(slower <= 0.01, "seed 20261128, case %d: slower by %g", i, slower);
    }
}
END_TEST

/* --- by hand ------------------------------------------------------------------------------ */

/* Messages that take no time, nothing in each other's way. */
static struct step_cost hand_cost(const struct chunk_cost *chunks, const struct stage_cost *stages)
{
    static const struct boundary boundaries[MAX_STAGES];
    return (struct step_cost){
        .chunks = chunks, .stages = stages, .boundaries = boundaries, .slowdowns = { 1, 1 }
    };
}

static struct timeline *run_text(const char *lists, const struct step_cost *cost,
                                 struct arena *arena)
{
    struct err err = { 0 };
    struct schedule *schedule = schedule_parse(lists, arena, &err);
    ck_assert_msg(schedule != NULL, "%s: %s", err.where, err.msg);
    struct timeline *timeline = events_run(schedule, cost, arena, &err);
    ck_assert_msg(timeline != NULL, "%s: %s", err.where, err.msg);
    return timeline;
}

/* One stage: forward 1 s, then a reduction of 3 s beside a backward of 4 s, x 1.25 and y 1.5. Both
 * run from 1 s on: the reduction needs 4.5 s, in which the backward does 4.5 / 1.25 = 3.6 s of its
 * work; the other 0.4 s are undisturbed. Reduction 1 to 5.5, backward 1 to 5.9. */
START_TEST(compute_and_a_collective_slow_each_other_while_both_run)
{
    struct arena arena = { 0 };
    struct chunk_cost chunks[] = { { .forward_s = 1, .input_s = 3, .weight_s = 1 } };
    struct stage_cost stages[] = { { .reduce_s = 3 } };
    struct step_cost cost = { .chunks = chunks, .stages = stages, .slowdowns = { 1.25, 1.5 } };
    struct timeline *t = run_text("0: F0.0 DG0@0 B0.0 DN@2 OPT@3\n", &cost, &arena);
    ck_assert_double_eq_tol(t->ranks[0][1].start_s, 1, 1e-12);
    ck_assert_double_eq_tol(t->ranks[0][1].end_s, 5.5, 1e-12);
    ck_assert_double_eq_tol(t->ranks[0][2].start_s, 1, 1e-12);
    ck_assert_double_eq_tol(t->ranks[0][2].end_s, 5.9, 1e-12);
    arena_release(&arena);
}
END_TEST

/* cost-model.md 4.4: C + M y (1 - 1/x) when the collective is the shorter, else C x + M - C x / y.
 */
START_TEST(one_overlap_equals_the_two_block_formula)
{
    srand(13);
    for (int i = 0; i < 200; i++) {
        struct arena arena = { 0 };
        double c = random_between(0.1, 4), m = random_between(0.1, 4);
        double x = random_between(1, 1.5), y = random_between(1, 1.5);
        struct chunk_cost chunks[] = { { .input_s = c } };
        struct stage_cost stages[] = { { .reduce_s = m } };
        struct step_cost cost = { .chunks = chunks, .stages = stages, .slowdowns = { x, y } };
        double expected_s = m * y <= c * x ? c + m * y * (1 - 1 / x) : c * x + m - c * x / y;
        struct timeline *t = run_text("0: F0.0 DG0@0 B0.0 DN@2 OPT@3\n", &cost, &arena);
        ck_assert_double_eq_tol(timeline_end_s(t), expected_s, 1e-9);
        arena_release(&arena);
    }
}
END_TEST

/* Stage 0 sends 2 s of activations while it reduces 3 s on the same NIC: each gets half of what
 * goes out until the message is through, after 4 s; the reduction has done 2 s then and ends after
 * one more. Over NVLink instead, the message is in nobody's way. */
START_TEST(transfers_on_one_nic_halve_it)
{
    static const char lists[] = "0: F0.0 SA0.0>1@0 DG0@0 DN OPT@3\n1: RA0.0<0 F1.0@0 DN@1 OPT@2\n";
    struct arena arena = { 0 };
    struct chunk_cost chunks[] = { { .forward_s = 1 }, { .forward_s = 1 } };
    struct stage_cost stages[2] = { { .reduce_s = 3 } };
    struct boundary boundaries[2] = { { 2, WIRE_NETWORK } };
    struct step_cost cost = { .chunks = chunks,
                              .stages = stages,
                              .boundaries = boundaries,
                              .data_wire = WIRE_NETWORK,
                              .slowdowns = { 1, 1 } };
    struct timeline *t = run_text(lists, &cost, &arena);
    ck_assert_double_eq_tol(t->ranks[0][1].end_s, 5, 1e-12);
    ck_assert_double_eq_tol(t->ranks[0][2].end_s, 6, 1e-12);
    ck_assert_double_eq_tol(t->ranks[1][1].start_s, 5, 1e-12);
    boundaries[0].wire = WIRE_NODE;
    t = run_text(lists, &cost, &arena);
    ck_assert_double_eq_tol(t->ranks[0][1].end_s, 3, 1e-12);
    ck_assert_double_eq_tol(t->ranks[0][2].end_s, 4, 1e-12);
    arena_release(&arena);
}
END_TEST

/* Nothing is buffered: the send of microbatch 1 is ready at 2 s, but stage 1 receives it only when
 * it posts the receive, after the forward of microbatch 0, at 1 + 5. */
START_TEST(a_send_waits_for_its_receive)
{
    struct arena arena = { 0 };
    struct chunk_cost chunks[] = { { .forward_s = 1 }, { .forward_s = 5 } };
    struct stage_cost stages[2] = { [0] = { .tied_s = 0 } };
    struct step_cost cost = hand_cost(chunks, stages);
    struct timeline *t = run_text("0: F0.0 SA0.0>1@0 F0.1 SA0.1>1@2 DN OPT@4\n"
                                  "1: RA0.0<0 F1.0@0 RA0.1<0@1 F1.1@2 DN@3 OPT@4\n",
                                  &cost, &arena);
    ck_assert_double_eq_tol(t->ranks[0][2].end_s, 2, 1e-12);
    ck_assert_double_eq_tol(t->ranks[0][3].start_s, 6, 1e-12);
    ck_assert_double_eq_tol(t->ranks[1][3].start_s, 6, 1e-12);
    arena_release(&arena);
}
END_TEST

/* Stage 0 waits with its second forward until its first message is through. */
START_TEST(a_blocking_send_stops_the_next_pass)
{
    struct arena arena = { 0 };
    struct chunk_cost chunks[] = { { .forward_s = 1 }, { .forward_s = 1 } };
    struct stage_cost stages[2] = { [0] = { .tied_s = 0 } };
    struct boundary boundaries[2] = { { 0.5, WIRE_NODE } };
    struct step_cost cost = { .chunks = chunks,
                              .stages = stages,
                              .boundaries = boundaries,
                              .slowdowns = { 1, 1 },
                              .blocking = true };
    struct timeline *t = run_text("0: F0.0 SA0.0>1@0 F0.1 SA0.1>1@2 DN OPT@4\n"
                                  "1: RA0.0<0 RA0.1<0 F1.0@0 F1.1@1 DN@3 OPT@4\n",
                                  &cost, &arena);
    ck_assert_double_eq_tol(t->ranks[0][2].start_s, 1.5, 1e-12);
    ck_assert_double_eq_tol(t->ranks[1][2].start_s, 1.5, 1e-12);
    arena_release(&arena);
}
END_TEST

/* The first and the last stage add up their embedding's gradients in the longer of their times. */
START_TEST(tied_gradients_join_two_stages)
{
    struct arena arena = { 0 };
    struct chunk_cost chunks[] = { { .forward_s = 1 }, { .forward_s = 2 }, { .forward_s = 3 } };
    struct stage_cost stages[3] = { [0].tied_s = 0.5, [2].tied_s = 0.5 };
    struct step_cost cost = hand_cost(chunks, stages);
    struct timeline *t = run_text("0: F0.0 DT>2@0 DN OPT@2\n1: F1.0 DN@0 OPT@1\n"
                                  "2: F2.0 DT>0@0 DN OPT@2\n",
                                  &cost, &arena);
    ck_assert_double_eq_tol(t->ranks[0][1].start_s, 3, 1e-12);
    ck_assert_double_eq_tol(t->ranks[0][1].end_s, 3.5, 1e-12);
    ck_assert_double_eq_tol(t->ranks[2][1].end_s, 3.5, 1e-12);
    ck_assert_double_eq_tol(t->ranks[1][2].start_s, 3.5, 1e-12);
    arena_release(&arena);
}
END_TEST

START_TEST(lists_that_wait_for_each_other_are_an_error)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct chunk_cost chunks[] = { { .forward_s = 1 }, { .forward_s = 1 } };
    struct stage_cost stages[2] = { [0] = { .tied_s = 0 } };
    struct step_cost cost = hand_cost(chunks, stages);
    struct schedule *schedule = schedule_parse("0: RG1.0<1 F0.0@0 SA0.0>1@1 B0.0\n"
                                               "1: RA0.0<0 F1.0@0 B1.0 SG1.0>0@2\n",
                                               &arena, &err);
    ck_assert_ptr_null(events_run(schedule, &cost, &arena, &err));
    ck_assert_int_eq(err.code, ERR_INFEASIBLE);
    ck_assert_str_eq(err.where, "stage 0, instruction 0");
    arena_release(&arena);
}
END_TEST

/* Same bits, whatever ran before in the arena. */
START_TEST(a_step_takes_the_same_every_time)
{
    struct step step;
    srand(17);
    for (int i = 0; i < 200; i++) {
        randomise_whole(&step);
        double first_s = run_s(&step);
        ck_assert(run_s(&step) == first_s);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("events");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, delayed_messages_take_as_long_as_the_recurrence);
    tcase_add_test(tc, blocking_delays_take_as_long_as_the_recurrence);
    tcase_add_test(tc, the_update_waits_for_the_norm_of_all_stages);
    tcase_add_test(tc, a_stage_that_is_validated_later_waits_for_no_norm);
    tcase_add_test(tc, recompute_delays_the_backward);
    tcase_add_test(tc, no_schedule_deadlocks_and_no_lane_does_two_things_at_once);
    tcase_add_test(tc, busy_and_idle_add_up_to_the_step_on_every_lane);
    tcase_add_test(tc, compute_is_as_busy_as_its_passes_take);
    tcase_add_test(tc, a_rendezvous_is_never_faster_than_a_delay);
    tcase_add_test(tc, without_spreads_a_drawn_step_is_the_same_to_the_bit);
    tcase_add_test(tc, chips_cost_in_the_mean_what_the_closed_form_says);
    tcase_add_test(tc, a_pipeline_whose_passes_stray_takes_longer);
    tcase_add_test(tc, the_norm_waits_for_the_slowest_replica);
    tcase_add_test(tc, a_step_scales_with_all_that_it_is_made_of);
    tcase_add_test(tc, faster_is_never_slower_where_nothing_is_shared);
    tcase_add_test(tc, faster_is_hardly_ever_slower_where_transfers_meet);
    tcase_add_test(tc, contention_makes_no_step_one_percent_shorter);
    tcase_add_test(tc, compute_and_a_collective_slow_each_other_while_both_run);
    tcase_add_test(tc, one_overlap_equals_the_two_block_formula);
    tcase_add_test(tc, transfers_on_one_nic_halve_it);
    tcase_add_test(tc, a_send_waits_for_its_receive);
    tcase_add_test(tc, a_blocking_send_stops_the_next_pass);
    tcase_add_test(tc, tied_gradients_join_two_stages);
    tcase_add_test(tc, lists_that_wait_for_each_other_are_an_error);
    tcase_add_test(tc, a_step_takes_the_same_every_time);
    Suite *s = suite_create("sim/engine/events");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
