/* Tests each part of a calibration (kind of measurement) on one rank and one small shape (model and
 * microbatch). No test expects a certain time. */
#include "calibration/measure/budget.h"
#include "calibration/measure/disk_rate.h"
#include "calibration/measure/gpu_sweep.h"
#include "calibration/measure/host_profile.h"
#include "sim/engine/simulate.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct host_rank host;
static struct arena arena;
static struct stack stack;

static void set_up(void)
{
    struct err err = { 0 };
    struct place place = place_alone();
    ck_assert_msg(stack_load("host", &stack, &err), "%s: %s", err.where, err.msg);
    ck_assert_msg(host_rank_open(&place, "host", 32 << 20, &host, &err), "%s: %s", err.where,
                  err.msg);
}

static void tear_down(void)
{
    host_rank_close(&host);
    stack_release(&stack);
    arena_release(&arena);
    arena = (struct arena){ 0 };
}

static struct host_shape small_shape(void)
{
    struct err err = { 0 };
    struct host_shape shape = { .is_unfused = false };
    ck_assert_msg(model_load("tiny", &shape.model, &err), "%s: %s", err.where, err.msg);
    shape.model.layers = 1;
    shape.model.seq = shape.model.max_positions = 16;
    shape.model.batch = 2;
    shape.model.vocab = 512; /* so that no other product has the size of the logits' product */
    return shape;
}

static struct host_ops measure_small(void)
{
    struct err err = { 0 };
    struct host_shape shape = small_shape();
    struct host_ops ops = { .at = ARENA_ARRAY(&arena, struct host_op, 256), .room = 256 };
    ck_assert_msg(host_ops_measure(&host, &shape, &stack, 0.02, &arena, &ops, &err), "%s: %s",
                  err.where, err.msg);
    return ops;
}

static int count_kind(const struct host_ops *ops, int kind, int pass)
{
    int count = 0;
    for (int i = 0; i < ops->count; i++)
        count += ops->at[i].kind == kind && ops->at[i].pass == pass;
    return count;
}

/* In this model the products qkv, projection, fc1, fc2 and logits all have different sizes. */
START_TEST(every_op_of_a_step_is_timed)
{
    struct host_ops ops = measure_small();
    ck_assert_int_eq(count_kind(&ops, OP_GEMM, PASS_FORWARD), 5);
    ck_assert_int_eq(count_kind(&ops, OP_GEMM, PASS_BACKWARD_INPUT), 5);
    ck_assert_int_eq(count_kind(&ops, OP_GEMM, PASS_BACKWARD_WEIGHT), 5);
    static const int both[] = { OP_NORM, OP_ACTIVATION, OP_RESIDUAL, OP_FLASH_ATTENTION,
                                OP_CROSS_ENTROPY };
    for (size_t i = 0; i < LENGTH(both); i++) {
        ck_assert_int_eq(count_kind(&ops, both[i], PASS_FORWARD), 1);
        ck_assert_int_eq(count_kind(&ops, both[i], PASS_BACKWARD_INPUT), 1);
    }
    ck_assert_int_eq(count_kind(&ops, KERNEL_OPTIMIZER, PASS_FORWARD), 1);
    for (int i = 0; i < ops.count; i++) {
        const struct host_time *time = &ops.at[i].time;
        ck_assert(time->median_s > 0 && time->p10_s <= time->median_s &&
                  time->median_s <= time->p90_s);
    }
}
END_TEST

/* The sizes of the grid depend on the speed of the device; on one core the grid takes a second. */
START_TEST(a_sweep_times_products_attention_and_updates_in_every_pass)
{
    struct err err = { 0 };
    enum { ROOM = 1024 };
    struct host_ops ops = { .at = ARENA_ARRAY(&arena, struct host_op, ROOM), .room = ROOM };
    ck_assert_msg(gpu_sweep_measure(&host, true, 3, &ops, &err), "%s: %s", err.where, err.msg);
    int products = count_kind(&ops, OP_GEMM, PASS_FORWARD);
    ck_assert_int_ge(products, 20);
    ck_assert_int_eq(count_kind(&ops, OP_GEMM, PASS_BACKWARD_INPUT), products);
    ck_assert_int_ge(count_kind(&ops, OP_GEMM, PASS_BACKWARD_WEIGHT), 20);
    ck_assert_int_ge(count_kind(&ops, OP_FLASH_ATTENTION, PASS_FORWARD), 3);
    ck_assert_int_ge(count_kind(&ops, OP_FLASH_ATTENTION, PASS_BACKWARD_INPUT), 3);
    ck_assert_int_ge(count_kind(&ops, KERNEL_OPTIMIZER, PASS_FORWARD), 5);
    for (int i = 0; i < ops.count; i++)
        ck_assert(ops.at[i].time.p10_s > 0 && ops.at[i].time.p10_s <= ops.at[i].time.median_s);
}
END_TEST

static void write_json(const char *path, json_t *json)
{
    ck_assert_int_eq(json_dump_file(json, path, JSON_INDENT(1)), 0);
    json_decref(json);
}

/* Number of times that an op occurs in one step of a model with one layer. The model has three
 * norms, two residuals, and two biases as wide as the residual stream. */
static int repeats_of(const struct host_op *op, const struct model *model)
{
    if (op->kind == OP_NORM)
        return 3;
    bool is_twice =
        op->kind == OP_RESIDUAL || (op->kind == OP_BIAS_GRAD && (int)op->size[1] == model->hidden);
    return is_twice ? 2 : 1;
}

START_TEST(the_file_predicts_the_ops_from_which_it_was_made)
{
    struct err err = { 0 };
    struct host_measured measured = { .num_ranks = 1,
                                      .ops = measure_small(),
                                      .launch = { .call_s = 1e-6 },
                                      .copy_bytes_per_s = 1e10 };
    char path[] = "/tmp/test_host_calibration.XXXXXX";
    struct system system;
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
    write_json(path, host_cluster_json(&measured, &stack));
    ck_assert_msg(system_load(path, NULL, 1, &system, &err), "%s: %s", err.where, err.msg);
    unlink(path);
    ck_assert_str_eq(system.stack.name, "host");
    ck_assert(system.profile.measured && system.profile.num_kernels > 10);

    struct host_shape shape = small_shape();
    struct plan plan;
    ck_assert(plan_parse("mb2 dtype=fp32", &arena, &plan, &err));
    plan.dp = 1;
    struct evaluator *evaluator = evaluator_new(&system, &shape.model);
    struct prediction prediction = evaluate(evaluator, &plan);
    double ops_s = prediction.time.compute_s + prediction.time.optimizer_s;
    double measured_s = 0;
    for (int i = 0; i < measured.ops.count; i++) {
        int times = repeats_of(&measured.ops.at[i], &shape.model);
        measured_s += times * measured.ops.at[i].time.median_s;
    }
    ck_assert_double_eq_tol(ops_s / measured_s, 1, 0.02);
    evaluator_free(evaluator);
    system_release(&system);
}
END_TEST

/* --- times outside the op lists ------------------------------------------------------------- */

START_TEST(a_launch_takes_time_on_the_caller_and_on_the_stream)
{
    struct err err = { 0 };
    struct launch_cost cost;
    host_rank_close(&host);
    struct place place = place_alone();
    ck_assert(host_rank_open(&place, "host", 96 << 20, &host, &err));
    ck_assert_msg(launch_cost_measure(&host, &cost, &err), "%s: %s", err.where, err.msg);
    ck_assert(cost.call_s > 0 && cost.issue_s > 0 && cost.kernel_s > 0);
    ck_assert(cost.graph_issue_s > 0 && cost.graph_kernel_s > 0);
    ck_assert(cost.event_issue_s > 0 && cost.event_s > 0);
}
END_TEST

/* Nine ops are each timed at 4, 16, 64 and 256 KiB and at 1 MiB. */
START_TEST(memory_bound_ops_are_timed_warm_and_cold_at_every_size)
{
    struct err err = { 0 };
    struct bandwidths traffic;
    ck_assert_msg(bandwidth_measure(&host, 1 << 20, 0, &traffic, &err), "%s: %s", err.where,
                  err.msg);
    ck_assert_int_eq(traffic.count, 45);
    for (int i = 0; i < traffic.count; i++) {
        const struct bandwidth_point *point = &traffic.at[i];
        double asked_bytes = 4096 * pow(4, i % 5);
        ck_assert(point->warm_s > 0 && point->cold_s > 0);
        ck_assert_msg(point->bytes > 0.8 * asked_bytes && point->bytes <= asked_bytes,
                      "%s moves %.0f of the %.0f bytes asked for", point->op, point->bytes,
                      asked_bytes);
    }
    struct bandwidth_fit fit = bandwidth_fit(&traffic);
    ck_assert(fit.bytes_per_s > 0 && fit.kernel_s >= 0 && isfinite(fit.median_error));
    json_t *json = bandwidths_json(&traffic);
    ck_assert_uint_eq(json_object_size(json), 9);
    ck_assert_uint_eq(json_array_size(json_object_get(json, "adamw")), 5);
    json_decref(json);
}
END_TEST

START_TEST(copies_to_and_from_the_host_have_rates)
{
    struct err err = { 0 };
    struct host_copies copies;
    ck_assert_msg(host_copies_measure(&host, 1 << 20, &copies, &err), "%s: %s", err.where, err.msg);
    ck_assert(copies.up_bytes_per_s > 0 && copies.down_bytes_per_s > 0);
    ck_assert(copies.both_bytes_per_s > 0);
}
END_TEST

START_TEST(a_disk_is_timed_and_no_file_is_left)
{
    struct err err = { 0 };
    double rate, none;
    char folder[] = "/tmp/test_host_calibration.XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert(disk_rate_measure(&host, folder, 3.5 * (1 << 20), &rate, &err));
    ck_assert(rate > 0);
    ck_assert_int_eq(rmdir(folder), 0); /* the folder is empty again */
    ck_assert(disk_rate_measure(&host, folder, 1 << 20, &none, &err));
    ck_assert_double_eq(none, 0);
    ck_assert_int_eq(err.code, ERR_NONE);
}
END_TEST

/* A calibration expects 30 s. Its first part expected 10 s and took 20, so 20 s of expected work
 * must fit in the 10 s that are left. */
START_TEST(a_part_gets_less_time_after_parts_that_overran)
{
    struct budget budget = { .end_s = 130 };
    budget_expect(&budget, 10);
    budget_expect(&budget, 12);
    budget_expect(&budget, 8);
    ck_assert_double_eq(budget_done(&budget), 0);
    ck_assert_double_eq(budget_take(&budget, 100, 10), 10);
    ck_assert_double_eq_tol(budget_done(&budget), 1.0 / 3, 1e-12);
    ck_assert_double_eq_tol(budget_take(&budget, 120, 12), 6, 1e-12);
    ck_assert_double_eq(budget_take(&budget, 131, 8), 0);
    ck_assert_double_eq(budget_done(&budget), 1);
}
END_TEST

/* The first part was expected to take 10 s and took 60 s. At that pace the next part of 10 s does
 * not fit in the 50 s that are left, but one of 8 s does. */
START_TEST(on_a_busy_machine_parts_are_skipped_to_end_on_time)
{
    struct budget budget = { .start_s = 100, .end_s = 210 };
    budget_expect(&budget, 10);
    budget_expect(&budget, 20);
    ck_assert_double_eq_tol(budget_left_s(&budget, 100), 30, 1e-12);
    budget_take(&budget, 100, 10);
    ck_assert_double_eq_tol(budget_pace(&budget, 160), 6, 1e-12);
    /* If work takes six times as long as expected, 20 s of work would take 120 s, but only 50 s are
     * left. */
    ck_assert_double_eq_tol(budget_left_s(&budget, 160), 50, 1e-12);
    ck_assert(!budget_affords(&budget, 160, 10));
    ck_assert(budget_affords(&budget, 160, 8));
    budget_leave_out(&budget, 12);
    ck_assert_double_eq_tol(budget_left_s(&budget, 160), 48, 1e-12);
    /* After the last part nothing can be skipped any more, so the pace alone decides. */
    ck_assert_double_eq_tol(budget_left_s(&budget, 220), 8 * 12, 1e-12);
}
END_TEST

START_TEST(numbers_of_repeats_stay_within_their_limits)
{
    ck_assert_int_eq(budget_repeats(-2.5, 3, 25), 3);
    ck_assert_int_eq(budget_repeats(7.9, 3, 25), 7);
    ck_assert_int_eq(budget_repeats(1e300, 3, 25), 25);
    struct host_rank busy = { .is_busy = true }, quiet = { .is_busy = false };
    ck_assert_int_eq(host_rank_least(&quiet, 7), 7);
    ck_assert_int_eq(host_rank_least(&busy, 7), 4);
    ck_assert_int_eq(host_rank_least(&busy, 1), 1);
}
END_TEST

START_TEST(held_out_rows_have_shapes_that_no_op_is_timed_for)
{
    for (int grid = GRID_CORE; grid <= GRID_GPU; grid++)
        for (int is_quick = 0; is_quick < 2; is_quick++) {
            struct held_out_row rows[MOST_HELD_OUT];
            int count = held_out_rows((enum host_grid)grid, is_quick, rows);
            struct host_shapes shapes = host_shapes_grid((enum host_grid)grid, is_quick, &arena);
            ck_assert_int_gt(count, 0);
            for (int i = 0; i < count * shapes.count; i++) {
                const struct held_out_row *row = &rows[i % count];
                const struct model *timed = &shapes.at[i / count].model;
                ck_assert(row->hidden != timed->hidden || row->seq != timed->seq);
            }
        }
}
END_TEST

/* A cluster file is made from the op times of one shape, and predicts the held-out steps of
 * another. In `make test` the steps are those of a smaller model than in `make campaign`. */
START_TEST(held_out_steps_are_compared_with_the_file)
{
    struct err err = { 0 };
    struct held_out_row steps[MOST_HELD_OUT] = {
        { .hidden = 64, .head_dim = 32, .seq = 48, .layers = 2, .batch = 4, .vocab = 256 }
    };
    steps[0].layout = "mb2";
    int count = is_campaign() ? held_out_rows(GRID_CORE, true, steps) : 1;
    host.is_busy = true; // takes as few steps as a calibration on a busy machine
    struct host_measured measured = { .num_ranks = 1,
                                      .ops = measure_small(),
                                      .launch = { .call_s = 1e-6 },
                                      .copy_bytes_per_s = 1e10,
                                      .precision = PRECISION_FP32 };
    ck_assert_msg(
        held_out_measure(&host, &stack, steps, count, 0, &arena, &measured.held_out, &err),
        "%s: %s", err.where, err.msg);
    ck_assert_int_eq(measured.held_out.count, 1);
    ck_assert(measured.held_out.at[0].step_s > 0);
    json_t *cluster = host_cluster_json(&measured, &stack);
    ck_assert_msg(host_add_held_out(&measured, cluster, &err), "%s: %s", err.where, err.msg);
    json_t *profile =
        json_object_get(json_array_get(json_object_get(cluster, "groups"), 0), "profile");
    const json_t *rows = json_object_get(json_object_get(profile, "residuals"), "held_out");
    ck_assert_uint_eq(json_array_size(rows), 1);
    const json_t *row = json_array_get(rows, 0);
    ck_assert_str_eq(json_string_value(json_object_get(row, "model")),
                     is_campaign() ? "h384-s192" : "h64-s48");
    ck_assert(json_number_value(json_object_get(row, "predicted_step_s")) > 0);
    ck_assert(json_number_value(json_object_get(row, "predicted_layer_s")) > 0);
    json_decref(cluster);
}
END_TEST

/* Makes held-out steps that took `times` times as long as predicted, on ranks that got only a
 * fraction of their cores' time. */
static const struct {
    double core_share, times;
    bool is_marked;
} checks[] = {
    { 1, 1, false },      { 0.97, 1.01, false },
    { 1, 1 / 3.0, true }, /* the measured time is outside the profile's interval */
    { 0.15, 6.85, true }, /* the step took 3.15 s instead of 0.46 s */
    { 0.5, 1, true }, /* this time is right by chance, because other programs had half of the cores
                       */
};

START_TEST(a_files_interval_is_at_least_its_held_out_error)
{
    struct err err = { 0 };
    struct model model = small_shape().model;
    struct host_measured measured = {
        .num_ranks = 1,
        .ops = measure_small(),
        .launch = { .call_s = 1e-6 },
        .copy_bytes_per_s = 1e10,
        .precision = PRECISION_FP32,
        .held_out = { .at = { { .model = &model, .layout = "mb2", .step_s = 1, .layer_s = 1 } },
                      .count = 1 },
    };
    json_t *cluster = host_cluster_json(&measured, &stack);
    json_t *rows = held_out_json(&measured.held_out, PRECISION_FP32, cluster, &err);
    ck_assert_ptr_nonnull(rows);
    measured.held_out.at[0].step_s =
        checks[_i].times *
        json_number_value(json_object_get(json_array_get(rows, 0), "predicted_step_s"));
    measured.disturbed.core_share = checks[_i].core_share;
    json_decref(rows);
    json_t *object =
        json_object_get(json_array_get(json_object_get(cluster, "groups"), 0), "profile");
    double stated = json_number_value(json_object_get(object, "error_log"));
    ck_assert(host_add_held_out(&measured, cluster, &err));
    struct profile profile;
    ck_assert_msg(profile_read(object, &profile, &err), "%s: %s", err.where, err.msg);
    double error = fabs(log(checks[_i].times));
    ck_assert_double_eq_tol(profile.error_log, fmax(stated, error), 1e-9);
    ck_assert_msg(profile.is_disturbed == checks[_i].is_marked,
                  "wrong mark for %g times the predicted time at a core share of %g",
                  checks[_i].times, checks[_i].core_share);
    if (profile.is_disturbed)
        ck_assert_double_eq_tol(profile.disturbed.held_out_error, error, 1e-9);
    profile_release(&profile);
    json_decref(cluster);
}
END_TEST

/* Every shape occurs once, and the shapes of the given model come first. Among the grid's first six
 * shapes are some of the narrower half and some of the wider half. */
START_TEST(the_first_shapes_include_small_and_large_ones)
{
    struct err err = { 0 };
    struct model model;
    struct host_shapes shapes = host_shapes_grid(GRID_CORE, true, &arena);
    int grid = shapes.count, narrow = 0;
    bool seen[64] = { false };
    ck_assert(model_load("tiny", &model, &err));
    host_shapes_add(&shapes, &model, 2, &arena);
    ck_assert_int_eq(shapes.num_own, shapes.count - grid);
    for (int i = 0; i < shapes.count; i++) {
        int turn = host_shapes_turn(&shapes, i);
        ck_assert(turn >= 0 && turn < shapes.count && !seen[turn]);
        seen[turn] = true;
        ck_assert_int_eq(turn >= grid, i < shapes.num_own);
        narrow += i >= shapes.num_own && i < shapes.num_own + 6 && turn < grid / 2;
    }
    ck_assert_int_ge(narrow, 2);
    ck_assert_int_le(narrow, 4);
}
END_TEST

START_TEST(a_curve_has_the_requested_sizes)
{
    struct err err = { 0 };
    struct curve curve;
    static const double wanted[] = { 1024, 2048, 3000, 4096, 8192, 16384 };
    struct host_sizes sizes = { 1024, 16384, { 3000 }, 0.001, 1e9 };
    ck_assert_msg(host_curve_measure(&host, COLLECTIVE_ALL_GATHER, 1, &sizes, &curve, &err),
                  "%s: %s", err.where, err.msg);
    ck_assert_int_eq(curve.num_points, 6);
    for (int i = 0; i < 6; i++) {
        ck_assert(curve.points[i].bytes == wanted[i]);
        ck_assert(curve.points[i].time_s > 0);
    }
}
END_TEST

START_TEST(a_curve_ends_once_a_size_takes_too_long)
{
    struct err err = { 0 };
    struct curve curve;
    struct host_sizes sizes = { 1024, 16384, { 0 }, 0.001, 1e-12 };
    ck_assert(host_curve_measure(&host, COLLECTIVE_ALL_GATHER, 1, &sizes, &curve, &err));
    ck_assert_int_eq(curve.num_points, 1);
}
END_TEST

/* Whether a calibration with this mutual slowdown of messages and compute lets them overlap. */
static bool overlaps_messages(double slowdown)
{
    struct host_measured measured = {
        .num_ranks = 1,
        .launch = { .call_s = 1e-6 },
        .copy_bytes_per_s = 1e10,
        .overlaps = { .at = { { .slowdown = { slowdown, slowdown } } }, .count = 1 },
    };
    json_t *cluster = host_cluster_json(&measured, &stack);
    json_t *overlaps = json_object_get(json_object_get(cluster, "stack"), "overlap");
    const char *first = json_string_value(json_array_get(overlaps, 0));
    bool overlaps_p2p = first && strcmp(first, "p2p") == 0;
    json_decref(cluster);
    return overlaps_p2p;
}

START_TEST(messages_overlap_compute_if_neither_slows_the_other)
{
    ck_assert(overlaps_messages(1));
    ck_assert(!overlaps_messages(2));
}
END_TEST

START_TEST(a_models_shapes_are_those_of_its_tensor_ranks)
{
    struct err err = { 0 };
    struct model model;
    struct host_shapes shapes = host_shapes_grid(GRID_CORE, true, &arena);
    int before = shapes.count;
    ck_assert(model_load("tiny", &model, &err));
    host_shapes_add(&shapes, &model, 2, &arena);
    /* the shapes are for 1 and 2 ranks and for microbatches of 1, 2 and 4 */
    ck_assert_int_eq(shapes.count, before + 6);
    const struct model *last = &shapes.at[shapes.count - 1].model;
    ck_assert_int_eq(last->heads, model.heads / 2);
    ck_assert_int_eq(last->ffn, model.ffn / 2);
    ck_assert_int_eq(last->hidden, model.hidden);
    ck_assert(last->batch == 4);
}
END_TEST

static const struct {
    const char *layout;
    enum precision precision;
} alone[] = {
    { "mb1", PRECISION_FP32 },
    { "mb4", PRECISION_FP32 },
    { "mb2 recompute=full", PRECISION_FP32 },
    { "mb2 recompute=selective attn=unfused", PRECISION_FP32 },
    { "mb2 attn=unfused", PRECISION_FP32 },
    { "mb4", PRECISION_BF16 },
    { "mb2 recompute=full", PRECISION_BF16 },
    { "mb2 attn=unfused", PRECISION_FP16 },
};
enum { NUM_ALONE = LENGTH(alone) };

/* The memory model predicts within 3 % the executor's memory, which its arena counts. */
START_TEST(predicted_memory_agrees_with_the_arenas_count)
{
    struct err err = { 0 };
    struct system system;
    struct host_run run;
    struct step_result ignored;
    struct model model;
    struct host_run_options options = {
        .layout = alone[_i].layout, .stack = &stack, .arena_bytes = 64 << 20, .is_alone = true
    };
    host.precision = alone[_i].precision;
    ck_assert(model_load("tiny", &model, &err));
    ck_assert_msg(host_run_open(&host, &model, &options, &run, &err), "%s: %s", err.where, err.msg);
    for (long step = 1; step <= 2; step++)
        ck_assert_msg(rank_step(run.rank, step, NULL, &ignored, &err), "%s", err.msg);
    double measured = (double)device_host.memory(run.device).high_water_bytes;
    ck_assert_msg(system_load("dgx-h100", "host", 1, &system, &err), "%s: %s", err.where, err.msg);
    struct evaluator *evaluator = evaluator_new(&system, &model);
    double predicted = evaluate_peak_bytes(evaluator, &run.plan);
    ck_assert_msg(predicted > 0.97 * measured && predicted < 1.03 * measured,
                  "%s: predicted %.0f bytes, measured %.0f", alone[_i].layout, predicted, measured);
    evaluator_free(evaluator);
    system_release(&system);
    host_run_close(&run);
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("host_calibration");
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, every_op_of_a_step_is_timed);
    tcase_add_test(cases, a_sweep_times_products_attention_and_updates_in_every_pass);
    tcase_add_test(cases, the_file_predicts_the_ops_from_which_it_was_made);
    tcase_add_test(cases, a_launch_takes_time_on_the_caller_and_on_the_stream);
    tcase_add_test(cases, memory_bound_ops_are_timed_warm_and_cold_at_every_size);
    tcase_add_test(cases, copies_to_and_from_the_host_have_rates);
    tcase_add_test(cases, a_disk_is_timed_and_no_file_is_left);
    tcase_add_test(cases, a_part_gets_less_time_after_parts_that_overran);
    tcase_add_test(cases, on_a_busy_machine_parts_are_skipped_to_end_on_time);
    tcase_add_test(cases, numbers_of_repeats_stay_within_their_limits);
    tcase_add_loop_test(cases, a_files_interval_is_at_least_its_held_out_error, 0, LENGTH(checks));
    tcase_add_test(cases, the_first_shapes_include_small_and_large_ones);
    tcase_add_test(cases, held_out_rows_have_shapes_that_no_op_is_timed_for);
    tcase_add_test(cases, held_out_steps_are_compared_with_the_file);
    tcase_add_test(cases, a_curve_has_the_requested_sizes);
    tcase_add_test(cases, a_curve_ends_once_a_size_takes_too_long);
    tcase_add_test(cases, messages_overlap_compute_if_neither_slows_the_other);
    tcase_add_test(cases, a_models_shapes_are_those_of_its_tensor_ranks);
    tcase_add_loop_test(cases, predicted_memory_agrees_with_the_arenas_count, 0, NUM_ALONE);
    Suite *s = suite_create("calibration/measure/host");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
