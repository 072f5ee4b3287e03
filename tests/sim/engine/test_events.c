#include "tests/testing.h"

#include "sim/engine/pipeline.h"
#include "tests/draw.h"
#include "tests/sim/engine/random_step.h"

#include <math.h>
#include <stdlib.h>

/* The time of the message between a chunk and the next. */
static double message_s(const struct step *step, struct placement placement, int chunk)
{
    int boundary = placement_boundary(placement, chunk);
    double more_s = chunk + 2 == placement_chunks(placement) ? step->cost.last_more_s : 0;
    return boundary == NO_BOUNDARY ? 0 : step->boundaries[boundary].message_s + more_s;
}

/* The step time by the recurrence over every microbatch. */
static double recurrence_s(const struct step *step)
{
    double duration_s[CHUNK_PASSES * MAX_CHUNKS], end_s[MAX_STAGES];
    bool is_split = generator_splits(step->generator);
    int num_chunks = step->shape.num_stages * step->shape.chunks_per_stage;
    int p = step->shape.num_stages;
    struct placement placement = step_placement(step);
    double lag_s[MAX_STAGES] = { 0 }, pair_s[MAX_CHUNKS];
    for (int s = 0; s < p && !step->cost.blocking; s++)
        lag_s[s] = step->boundaries[s].message_s;
    for (int c = 0; c < num_chunks; c++) {
        const struct chunk_cost *chunk = &step->chunks[c];
        double *of = duration_s + CHUNK_PASSES * c;
        double down_s = c < num_chunks - 1 ? message_s(step, placement, c) : 0;
        double up_s = c > 0 ? message_s(step, placement, c - 1) : 0;
        of[CHUNK_FORWARD] = chunk->forward_s + (step->cost.blocking ? down_s : 0);
        of[CHUNK_BACKWARD] = chunk->input_s + (step->cost.blocking ? up_s : 0);
        of[CHUNK_WEIGHT] = is_split ? chunk->weight_s : 0;
        if (step->lowering.recompute)
            of[CHUNK_BACKWARD] += chunk->recompute_s;
        if (!is_split)
            of[CHUNK_BACKWARD] += chunk->weight_s;
        pair_s[c] = chunk->pair_s + (step->lowering.recompute ? chunk->recompute_s : 0);
    }
    struct pipeline_cache cache = { 0 };
    struct pipeline pipeline = { .generator = step->generator,
                                 .shape = step->shape,
                                 .duration_s = duration_s,
                                 .lag_s = lag_s,
                                 .last_more_s = step->cost.blocking ? 0 : step->cost.last_more_s,
                                 .pair_s = pair_s };
    double time_s = pipeline_full_s(&cache, &pipeline, end_s);
    pipeline_cache_release(&cache);
    return time_s;
}

static void check_same(const struct step *step, double got_s, double expected_s)
{
    ck_assert_msg(fabs(got_s - expected_s) <= 1e-9 * expected_s,
                  "%s, %d stages x %d chunks, %d microbatches: the step takes %.12g s, not %.12g s",
                  step->generator->name, step->shape.num_stages, step->shape.chunks_per_stage,
                  step->shape.num_microbatches, got_s, expected_s);
}

/* --- without contention: the recurrence --------------------------------------------------- */

START_TEST(with_pure_delays_the_events_equal_the_recurrence)
{
    struct step step;
    srand(20261120);
    for (int i = 0; i < SAMPLED(4000, 500); i++) {
        step_randomise(&step);
        double expected_s = recurrence_s(&step);
        check_same(&step, step_run_s(&step), expected_s);
    }
}
END_TEST

START_TEST(with_blocking_delays_the_events_equal_the_recurrence)
{
    struct step step;
    srand(20261121);
    for (int i = 0; i < SAMPLED(4000, 500); i++) {
        step_randomise(&step);
        step.cost.blocking = !step.generator->rule;
        double expected_s = recurrence_s(&step);
        check_same(&step, step_run_s(&step), expected_s);
    }
}
END_TEST

/* Two stages run one microbatch, with a forward of 1 s, a backward of 2 s and a message of 0.5 s.
 * As in test_order the passes take 7 s. The optimizer takes 0.25 s on stage 0 and 4 s on stage 1;
 * both wait for the gradient norm, which needs the passes of both stages. */
START_TEST(the_update_waits_for_the_norm_of_all_stages)
{
    struct step step;
    step_init(&step, "1f1b", 2, 1, 1);
    step.boundaries[0].message_s = 0.5;
    step.stages[0].optimizer_s = 0.25;
    step.stages[1].optimizer_s = 4;
    ck_assert_double_eq_tol(step_run_s(&step), 7 + 4, 1e-12);
}
END_TEST

/* The same step without waiting for the norm. Stage 1 begins at 1.5 s, ends its passes at 4.5 s and
 * updates until 8.5 s. Stage 0 ends its passes at 7 s and its update at 7.25 s, which is the
 * longest time from a stage's own first pass to its end. */
START_TEST(without_the_norm_a_stage_updates_after_its_own_passes)
{
    struct step step;
    struct arena arena = { 0 };
    step_init(&step, "1f1b", 2, 1, 1);
    step.boundaries[0].message_s = 0.5;
    step.stages[0].optimizer_s = 0.25;
    step.stages[1].optimizer_s = 4;
    step.cost.validates = true;
    struct timeline *timeline = step_run(&step, &arena);
    ck_assert_double_eq_tol(timeline_end_s(timeline), 8.5, 1e-12);
    ck_assert_double_eq_tol(timeline_own_s(timeline), 7.25, 1e-12);
    arena_release(&arena);
}
END_TEST

/* The recurrence counts recompute as a part of the backward. */
START_TEST(recompute_delays_the_backward)
{
    struct step step;
    srand(5);
    for (int i = 0; i < SAMPLED(500, 60); i++) {
        step_randomise(&step);
        step.lowering.recompute = true;
        for (int c = 0; c < step.shape.num_stages * step.shape.chunks_per_stage; c++)
            step.chunks[c].recompute_s = random_between(0, 1);
        check_same(&step, step_run_s(&step), recurrence_s(&step));
    }
}
END_TEST

/* --- rendezvous --------------------------------------------------------------------------- */

START_TEST(no_schedule_deadlocks_and_no_lane_runs_two_instructions_at_once)
{
    struct step step;
    srand(20261122);
    for (int i = 0; i < SAMPLED(10000, 1200); i++) {
        struct arena arena = { 0 };
        struct err err = { 0 };
        step_randomise_whole(&step);
        bool ok = timeline_check(step_run(&step, &arena), 1e-9, &err);
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
        if (instr_lane(&list->at[i]) != lane)
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
    for (int i = 0; i < SAMPLED(500, 60); i++) {
        struct arena arena = { 0 };
        step_randomise_whole(&step);
        struct timeline *timeline = step_run(&step, &arena);
        double step_s = timeline_end_s(timeline);
        for (int rank = 0; rank < step.shape.num_stages; rank++)
            for (int lane = 0; lane < NUM_ALL_LANES; lane++) {
                double busy_s = timeline_busy_s(timeline, rank, (enum lane)lane);
                double idle = idle_s(timeline, rank, (enum lane)lane);
                ck_assert_double_ge(idle, -1e-9);
                ck_assert_double_eq_tol(busy_s + idle, step_s, 1e-9 * step_s);
            }
        arena_release(&arena);
    }
}
END_TEST

/* The time of all passes of a stage without contention. */
static double passes_s(const struct step *step, int stage)
{
    const struct generator *generator = step->generator;
    double sum_s = 0;
    for (int round = 0; round < step->shape.chunks_per_stage; round++) {
        int c = placement_chunk(step_placement(step), stage, round);
        int pairs = generator->pairs ? generator->pairs(&step->shape, stage, round) : 0;
        int other = generator->pairs ? placement_chunk(step_placement(step), stage, 1 - round) : c;
        const struct chunk_cost *chunk = &step->chunks[c];
        double backward_s = chunk->input_s + chunk->weight_s;
        sum_s += step->shape.num_microbatches * (chunk->forward_s + backward_s) +
                 pairs * (chunk->pair_s - step->chunks[other].forward_s - backward_s);
    }
    return sum_s;
}

/* Without contention the busy time of a lane (compute, or one direction of messages) is the sum of
 * its instructions' times. */
START_TEST(without_contention_a_compute_lanes_busy_time_is_the_sum_of_its_passes)
{
    struct step step;
    srand(9);
    for (int i = 0; i < 200; i++) {
        struct arena arena = { 0 };
        step_randomise(&step);
        step.cost.messages_are_delays = false;
        struct timeline *timeline = step_run(&step, &arena);
        for (int rank = 0; rank < step.shape.num_stages; rank++) {
            double alone_s = passes_s(&step, rank);
            ck_assert_double_eq_tol(timeline_busy_s(timeline, rank, LANE_COMPUTE), alone_s,
                                    1e-9 * alone_s);
        }
        arena_release(&arena);
    }
}
END_TEST

/* In a rendezvous the message starts when the receive is posted, which is one pass ahead. So a
 * message that is hidden as a pure delay may wait in a rendezvous; the opposite never happens. */
START_TEST(a_rendezvous_is_never_faster_than_a_delay)
{
    struct step step;
    srand(20261124);
    for (int i = 0; i < SAMPLED(2000, 250); i++) {
        step_randomise(&step);
        double delayed_s = step_run_s(&step);
        step.cost.messages_are_delays = false;
        ck_assert_double_ge(step_run_s(&step), delayed_s * (1 - 1e-9));
    }
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
        step->chunks[c].pair_s *= by;
    }
    for (int s = 0; s < step->shape.num_stages; s++)
        step->stages[s].optimizer_s *= by;
}

static void scale_comm(struct step *step, double by)
{
    step->cost.last_more_s *= by;
    for (int s = 0; s < step->shape.num_stages; s++) {
        step->boundaries[s].message_s *= by;
        step->stages[s].reduce_s *= by;
        step->stages[s].gather_s *= by;
        step->stages[s].tied_s *= by;
    }
}

START_TEST(scaling_all_durations_scales_the_step)
{
    struct step step;
    srand(20261125);
    for (int i = 0; i < SAMPLED(500, 60); i++) {
        step_randomise_whole(&step);
        double once_s = step_run_s(&step);
        scale_compute(&step, 4);
        scale_comm(&step, 4);
        check_same(&step, step_run_s(&step), 4 * once_s);
    }
}
END_TEST

/* The increase of a random step's time when a part of it is made faster: zero or negative, unless
 * this is a scheduling anomaly. */
static double slower_by(struct step *step, void (*scale)(struct step *, double))
{
    double slow_s = step_run_s(step);
    scale(step, random_between(0.3, 1));
    return step_run_s(step) / slow_s - 1;
}

START_TEST(without_shared_links_a_faster_part_never_lengthens_the_step)
{
    void (*const scales[])(struct step *, double) = { scale_compute, scale_comm };
    struct step step;
    srand(20261126);
    for (int i = 0; i < SAMPLED(4000, 500); i++) {
        step_randomise_whole(&step);
        step.cost.messages_are_delays = true;
        step.cost.slowdowns = (struct slowdowns){ 1, 1 };
        double slower = slower_by(&step, scales[i % 2]);
        ck_assert_msg(slower <= 1e-9,
                      "seed 20261126, case %d: a faster part lengthens the step by the share %g", i,
                      slower);
    }
}
END_TEST

/* A faster pass may overlap a transfer that it had missed before, and slow it: fair shares are not
 * monotone. The loss stays far below the gain. */
START_TEST(with_shared_links_a_faster_part_rarely_lengthens_the_step_and_by_at_most_3_percent)
{
    void (*const scales[])(struct step *, double) = { scale_compute, scale_comm };
    struct step step;
    int anomalies = 0;
    srand(20261127);
    for (int i = 0; i < SAMPLED(4000, 500); i++) {
        step_randomise_whole(&step);
        double slower = slower_by(&step, scales[i % 2]);
        anomalies += slower > 1e-9;
        ck_assert_msg(slower <= 0.03,
                      "seed 20261127, case %d: a faster part lengthens the step by the share %g", i,
                      slower);
    }
    ck_assert_int_le(anomalies, 8);
}
END_TEST

START_TEST(contention_makes_no_step_one_percent_shorter)
{
    struct step step;
    srand(20261128);
    for (int i = 0; i < SAMPLED(2000, 250); i++) {
        step_randomise_whole(&step);
        double slowed_s = step_run_s(&step);
        step.cost.slowdowns = (struct slowdowns){ 1, 1 };
        double slower = step_run_s(&step) / slowed_s - 1;
        ck_assert_msg(slower <= 0.01,
                      "seed 20261128, case %d: a faster part lengthens the step by the share %g", i,
                      slower);
    }
}
END_TEST

/* The result has the same bits whatever the arena was used for before. */
START_TEST(repeated_simulations_have_the_same_bits)
{
    struct step step;
    srand(17);
    for (int i = 0; i < 200; i++) {
        step_randomise_whole(&step);
        double first_s = step_run_s(&step);
        ck_assert(step_run_s(&step) == first_s);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("events");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, with_pure_delays_the_events_equal_the_recurrence);
    tcase_add_test(tc, with_blocking_delays_the_events_equal_the_recurrence);
    tcase_add_test(tc, the_update_waits_for_the_norm_of_all_stages);
    tcase_add_test(tc, without_the_norm_a_stage_updates_after_its_own_passes);
    tcase_add_test(tc, recompute_delays_the_backward);
    tcase_add_test(tc, no_schedule_deadlocks_and_no_lane_runs_two_instructions_at_once);
    tcase_add_test(tc, busy_and_idle_add_up_to_the_step_on_every_lane);
    tcase_add_test(tc, without_contention_a_compute_lanes_busy_time_is_the_sum_of_its_passes);
    tcase_add_test(tc, a_rendezvous_is_never_faster_than_a_delay);
    tcase_add_test(tc, scaling_all_durations_scales_the_step);
    tcase_add_test(tc, without_shared_links_a_faster_part_never_lengthens_the_step);
    tcase_add_test(
        tc, with_shared_links_a_faster_part_rarely_lengthens_the_step_and_by_at_most_3_percent);
    tcase_add_test(tc, contention_makes_no_step_one_percent_shorter);
    tcase_add_test(tc, repeated_simulations_have_the_same_bits);
    Suite *s = suite_create("sim/engine/events");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
