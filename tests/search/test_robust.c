#include "tests/testing.h"

#include "search/robust.h"

#include "base/length.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_RIVALS = 30 };

static struct system machine;
static struct model model;
static struct search_result found;

static void set_up(void)
{
    struct err err = { 0 };
    bool ok = system_load("dgx-h100", "megatron-core", 32, &machine, &err) &&
              model_load("gpt3-13b", &model, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    struct search_request request = {
        .system = &machine, .model = &model, .base = plan_default(), .top = NUM_RIVALS, .jobs = 1
    };
    ok = search_run(&request, &found, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    ck_assert_int_eq(found.num_top, NUM_RIVALS);
}

static void tear_down(void)
{
    search_result_release(&found);
    system_release(&machine);
}

static struct robust_request new_request(double spread)
{
    return (struct robust_request){ .system = &machine,
                                    .model = &model,
                                    .rivals = found.top,
                                    .num_rivals = found.num_top,
                                    .spread = spread,
                                    .num_draws = 25,
                                    .seed = 7,
                                    .jobs = 2 };
}

/* The step time of each rival (plan that is compared with the choice); HUGE_VAL if it does not fit.
 */
struct times {
    double step_s[NUM_RIVALS];
};

static struct times times_on(const struct system *system)
{
    struct times times;
    struct evaluator *evaluator = evaluator_new(system, &model);
    for (int i = 0; i < NUM_RIVALS; i++) {
        struct prediction p = evaluate(evaluator, &found.top[i].plan);
        times.step_s[i] = p.fits ? p.step_s : HUGE_VAL;
    }
    evaluator_free(evaluator);
    return times;
}

static int best_of(const struct times *times)
{
    int best = 0;
    for (int i = 1; i < NUM_RIVALS; i++)
        if (times->step_s[i] < times->step_s[best])
            best = i;
    return best;
}

static int best_on(const struct system *system)
{
    struct times times = times_on(system);
    return best_of(&times);
}

START_TEST(without_errors_the_choice_is_always_the_best)
{
    struct robust_request request = new_request(0);
    struct robustness r = search_robust(&request);
    ck_assert_double_eq(r.choice.best_share, 1);
    ck_assert_double_eq(r.choice.close_share, 1);
    ck_assert_double_eq(r.choice.fits_share, 1);
    ck_assert_double_eq(r.choice.largest_regret, 0);
    ck_assert_double_eq(r.choice.mean_regret, 0);
    ck_assert_int_eq(r.often.rival, 0);
    ck_assert_int_eq(r.safe.rival, 0);
}
END_TEST

static void draw(const struct robust_request *request, int number, struct system *system,
                 struct arena *arena)
{
    *system = machine;
    for (int i = 0; i < num_cost_classes; i++)
        cost_classes[i].scale(system, robust_factor(request, number, i), arena);
}

START_TEST(shares_and_regrets_equal_a_plain_loop_over_the_draws)
{
    struct robust_request request = new_request(0.4);
    struct robustness r = search_robust(&request);
    double num_best = 0, num_close = 0, num_fits = 0, largest = 0, sum = 0;
    for (int number = 0; number < request.num_draws; number++) {
        struct arena arena = { 0 };
        struct system system;
        draw(&request, number, &system, &arena);
        struct times times = times_on(&system);
        int best = best_of(&times);
        if (times.step_s[0] < HUGE_VAL) {
            double regret = times.step_s[0] / times.step_s[best] - 1;
            num_fits++;
            num_best += best == 0;
            num_close += regret <= 0.01;
            largest = fmax(largest, regret);
            sum += regret;
        }
        arena_release(&arena);
    }
    /* if the choice won every draw, the test would be trivial */
    ck_assert_double_lt(num_best, request.num_draws);
    ck_assert_double_eq_tol(r.choice.best_share, num_best / request.num_draws, 1e-12);
    ck_assert_double_eq_tol(r.choice.close_share, num_close / request.num_draws, 1e-12);
    ck_assert_double_eq_tol(r.choice.fits_share, num_fits / request.num_draws, 1e-12);
    ck_assert_double_eq_tol(r.choice.largest_regret, largest, 1e-12);
    ck_assert_double_eq_tol(r.choice.mean_regret, sum / num_fits, 1e-12);
    ck_assert_double_ge(r.often.best_share, r.choice.best_share);
    ck_assert(r.safe.fits_share > r.choice.fits_share ||
              r.safe.largest_regret <= r.choice.largest_regret);
}
END_TEST

static bool is_same(const struct rival_score *a, const struct rival_score *b)
{
    return a->rival == b->rival && a->best_share == b->best_share &&
           a->close_share == b->close_share && a->fits_share == b->fits_share &&
           a->largest_regret == b->largest_regret && a->mean_regret == b->mean_regret;
}

START_TEST(draws_depend_on_the_seed_but_not_on_the_number_of_jobs)
{
    if (is_spared(_i, 1))
        return;
    struct robust_request request = new_request(0.6);
    struct robustness first = search_robust(&request);
    request.jobs = 5 - 4 * _i;
    struct robustness again = search_robust(&request);
    ck_assert(is_same(&first.choice, &again.choice));
    ck_assert(is_same(&first.often, &again.often));
    ck_assert(is_same(&first.safe, &again.safe));
    for (int i = 0; i < num_cost_classes; i++) {
        ck_assert_double_eq(first.flips[i].factor, again.flips[i].factor);
        ck_assert_int_eq(first.flips[i].to, again.flips[i].to);
    }
    request.seed = 8;
    struct robustness other = search_robust(&request);
    ck_assert_double_ne(first.choice.mean_regret, other.choice.mean_regret);
}
END_TEST

START_TEST(drawn_factors_lie_within_the_spread_and_differ)
{
    struct robust_request request = new_request(0.25);
    double sum = 0, sum_of_squares = 0;
    for (int number = 0; number < 1000; number++) {
        double factor = robust_factor(&request, number, _i);
        ck_assert_double_ge(factor, 0.75);
        ck_assert_double_lt(factor, 1.25);
        ck_assert_double_ne(factor, robust_factor(&request, number, _i + 1));
        sum += factor - 1;
        sum_of_squares += (factor - 1) * (factor - 1);
    }
    /* The logarithms of the factors are uniform with mean 0 and variance 0.25^2 / 3. Five standard
     * deviations of the mean of 1,000 draws are allowed. */
    ck_assert_double_eq_tol(sum / 1000, 0, 5 * 0.25 / sqrt(3000));
    ck_assert_double_eq_tol(sum_of_squares / 1000, 0.25 * 0.25 / 3, 0.003);
}
END_TEST

/* --- classes ------------------------------------------------------------------------------ */

START_TEST(a_class_scaled_by_one_changes_no_bit)
{
    struct arena arena = { 0 };
    struct system system = machine;
    cost_classes[_i].scale(&system, 1, &arena);
    struct times before = times_on(&machine);
    struct times after = times_on(&system);
    for (int i = 0; i < NUM_RIVALS; i++)
        ck_assert_double_eq(after.step_s[i], before.step_s[i]);
    arena_release(&arena);
}
END_TEST

/* A step time consists of sums and maxima of terms. Each term is proportional to the factor,
 * inversely proportional to it, or independent of it. So the step changes by at most the factor. */
START_TEST(a_cost_class_changes_a_step_by_at_most_its_factor)
{
    static const double factors[] = { 0.5, 0.9, 1.1, 2 };
    struct arena arena = { 0 };
    bool changes_any = false;
    machine.gpu.memory_bytes = 1e18;
    struct evaluator *before = evaluator_new(&machine, &model);
    for (int j = 0; j < 4; j++) {
        struct system system = machine;
        double most = fmax(factors[j], 1 / factors[j]);
        cost_classes[_i].scale(&system, factors[j], &arena);
        struct evaluator *after = evaluator_new(&system, &model);
        for (int i = 0; i < NUM_RIVALS; i++) {
            struct prediction a = evaluate(before, &found.top[i].plan);
            struct prediction b = evaluate(after, &found.top[i].plan);
            ck_assert_double_le(b.step_s, a.step_s * most * (1 + 1e-12));
            ck_assert_double_ge(b.step_s, a.step_s / most * (1 - 1e-12));
            changes_any |= a.step_s != b.step_s || a.peak_memory_bytes != b.peak_memory_bytes;
        }
        evaluator_free(after);
    }
    evaluator_free(before);
    ck_assert(changes_any);
    arena_release(&arena);
}
END_TEST

/* Scales the constants of a class by separate code, written from the documented table of classes.
 * If a constant is a slowdown, only its excess over 1 is scaled. */
static void scale_by_hand(const char *name, double factor, struct system *system)
{
    struct profile *profile = &system->profile;
    struct stack *stack = &system->stack;
    double *const rates[] = { &profile->sustained, &profile->batched_gemm_efficiency };
    double *const latencies[] = { &profile->intra_latency_factor, &profile->inter_latency_factor };
    double *const of_host[] = { &profile->kernel_s,        &stack->host.issue_s,
                                &stack->host.checkpoint_s, &stack->host.microbatch_s,
                                &stack->host.step_s,       &stack->shards.message_per_rank_s };
    for (int i = 0; strcmp(name, "products") == 0 && i < LENGTH(rates); i++)
        *rates[i] *= factor;
    for (int i = 0; strcmp(name, "attention") == 0 && i < NUM_ATTENTION_KERNELS; i++) {
        profile->attention[i].forward_efficiency *= factor;
        profile->attention[i].backward_efficiency *= factor;
    }
    if (strcmp(name, "memory") == 0)
        system->gpu.memory_bytes_per_s *= factor;
    if (strcmp(name, "node") == 0)
        profile->intra_bandwidth_factor *= factor;
    if (strcmp(name, "network") == 0)
        profile->inter_bandwidth_factor *= factor;
    for (int i = 0; strcmp(name, "latency") == 0 && i < LENGTH(latencies); i++)
        *latencies[i] *= factor;
    for (int i = 0; strcmp(name, "host") == 0 && i < LENGTH(of_host); i++)
        *of_host[i] *= factor;
    if (strcmp(name, "interference") == 0) {
        profile->overlap_compute_slowdown = 1 + (profile->overlap_compute_slowdown - 1) * factor;
        profile->overlap_comm_slowdown = 1 + (profile->overlap_comm_slowdown - 1) * factor;
    }
    if (strcmp(name, "bytes") == 0)
        stack->memory.allocator_slack = (1 + stack->memory.allocator_slack) * factor - 1;
}

/* All numbers are such that no product is rounded. */
START_TEST(a_class_scales_its_constants_and_no_others)
{
    struct arena arena = { 0 };
    struct system scaled = machine;
    scaled.profile.num_curves = 0;
    scaled.profile.overlap_compute_slowdown = 1.25;
    scaled.profile.overlap_comm_slowdown = 1.5;
    scaled.stack.memory.allocator_slack = 0.5;
    scaled.stack.host.issue_s = 1e-5;
    scaled.stack.host.checkpoint_s = 2e-5;
    scaled.stack.host.microbatch_s = 3e-5;
    scaled.stack.host.step_s = 4e-5;
    scaled.stack.shards.message_per_rank_s = 5e-5;
    struct system expected = scaled;
    scale_by_hand(cost_classes[_i].name, 2, &expected);
    cost_classes[_i].scale(&scaled, 2, &arena);
    ck_assert_mem_eq(&scaled, &expected, sizeof scaled);
    arena_release(&arena);
}
END_TEST

/* Measured curves are copied before they are scaled, each by the factor of its class of costs. */
START_TEST(scaling_a_class_copies_the_profiles_curves)
{
    struct curve curves[2] = { { .num_nodes = 1, .num_points = 1 },
                               { .num_nodes = 4, .num_points = 1 } };
    struct system system = machine;
    struct arena arena = { 0 };
    for (int i = 0; i < 2; i++)
        curves[i].points[0] = (struct curve_point){ 1e6, 1e-3, log(1e6), log(1e-3) };
    system.profile.curves = curves;
    system.profile.num_curves = 2;
    for (int i = 0; i < num_cost_classes; i++) {
        if (strcmp(cost_classes[i].name, "node") == 0)
            cost_classes[i].scale(&system, 2, &arena);
        if (strcmp(cost_classes[i].name, "network") == 0)
            cost_classes[i].scale(&system, 0.5, &arena);
    }
    ck_assert_double_eq(curves[0].points[0].time_s, 1e-3);
    ck_assert_double_eq(curves[1].points[0].time_s, 1e-3);
    ck_assert_double_eq_tol(curve_s(&system.profile.curves[0], 1e6), 0.5e-3, 1e-15);
    ck_assert_double_eq_tol(curve_s(&system.profile.curves[1], 1e6), 2e-3, 1e-15);
    ck_assert_double_eq_tol(system.profile.curves[1].points[0].log_s, log(2e-3), 1e-12);
    arena_release(&arena);
}
END_TEST

START_TEST(the_best_plan_changes_exactly_at_the_reported_factor)
{
    struct robust_request request = new_request(0.1);
    request.num_draws = 1;
    struct robustness r = search_robust(&request);
    int num_flips = 0;
    for (int i = 0; i < num_cost_classes; i++) {
        double factor = r.flips[i].factor;
        struct arena arena = { 0 };
        struct system at = machine, before = machine;
        if (factor == 0)
            continue;
        num_flips++;
        ck_assert_double_le(fabs(factor - 1), LARGEST_FLIP);
        cost_classes[i].scale(&at, factor, &arena);
        ck_assert_int_eq(best_on(&at), r.flips[i].to);
        ck_assert_int_ne(r.flips[i].to, 0);
        /* The bisection ends at most 2^-8 of its step (at most 0.2) beyond the last factor for
         * which the choice was still the best. */
        double change = factor - 1;
        double nearer = change - copysign(fmin(fabs(change), 0.2 / 256), change);
        cost_classes[i].scale(&before, 1 + nearer, &arena);
        ck_assert_int_eq(best_on(&before), 0);
        arena_release(&arena);
    }
    ck_assert_int_gt(num_flips, 0);
}
END_TEST

/* No class changes the best plan by a factor that is closer to 1 than the reported one. The
 * bisection ends at most 2^-8 of its step beyond the last factor without a change. */
START_TEST(no_class_changes_the_best_plan_before_the_tipping_point)
{
    const double within = 0.9;
    struct robust_request request = new_request(0.1);
    struct tipping_point point = search_tipping_point(&request, within);
    ck_assert_int_ge(point.cost_class, 0);
    double change = fabs(point.flip.factor - 1) - within / 256;
    for (int i = 0; i < num_cost_classes; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            struct arena arena = { 0 };
            struct system at = machine;
            cost_classes[i].scale(&at, 1 + sign * change, &arena);
            ck_assert_msg(best_on(&at) == 0, "class %d changes the best plan at factor %g", i,
                          1 + sign * change);
            arena_release(&arena);
        }
}
END_TEST

/* On a machine at the tipping point the other plan is the best. From there, a factor that differs
 * from 1 by no more than the last steps of the two bisections makes the first plan the best again.
 */
START_TEST(the_way_back_from_the_tipping_point_is_short)
{
    const double within = 0.9;
    struct robust_request request = new_request(0.1);
    struct tipping_point there = search_tipping_point(&request, within);
    struct scored_plan rivals[NUM_RIVALS];
    struct system at = machine;
    struct arena arena = { 0 };
    ck_assert_int_ge(there.cost_class, 0);
    memcpy(rivals, found.top, sizeof rivals);
    rivals[0] = found.top[there.flip.to];
    rivals[there.flip.to] = found.top[0];
    cost_classes[there.cost_class].scale(&at, there.flip.factor, &arena);
    request.system = &at;
    request.rivals = rivals;
    struct tipping_point back = search_tipping_point(&request, within);
    ck_assert_int_ge(back.cost_class, 0);
    ck_assert_double_le(fabs(back.flip.factor - 1),
                        within / 256 * (1 + 1 / there.flip.factor) + 1e-9);
    arena_release(&arena);
}
END_TEST

/* Up to the reported coefficient of variation of routing the choice is the fastest candidate; above
 * it another plan is the fastest. */
START_TEST(the_best_plan_changes_at_the_reported_routing_deviation)
{
    struct err err = { 0 };
    int num_flips = 0;
    static const char *const names[] = { "qwen3-30b-a3b", "gpt-oss-20b", "olmoe-1b-7b" };
    for (int m = 0; m < LENGTH(names); m++) {
        ck_assert(model_load(names[m], &model, &err));
        model.batch = 512;
        struct search_request request = { .system = &machine,
                                          .model = &model,
                                          .base = plan_default(),
                                          .top = NUM_RIVALS,
                                          .jobs = 2 };
        search_result_release(&found);
        ck_assert(search_run(&request, &found, &err));
        ck_assert_int_eq(found.num_top, NUM_RIVALS);
        struct robust_request asked = new_request(0);
        struct routing_flip flip = search_routing_flip(&asked);
        model.routing.kind = ROUTING_SKEWED;
        if (flip.cv > 0) {
            model.routing.cv = flip.cv;
            ck_assert_int_ne(best_on(&machine), 0);
            ck_assert_int_eq(best_on(&machine), flip.to);
            /* the bisection ends within 2^-8 of its step from that deviation */
            model.routing.cv = flip.cv - 0.3 / 128;
            ck_assert(model.routing.cv <= 0 || best_on(&machine) == 0);
            num_flips++;
        } else {
            model.routing.cv = LARGEST_CV;
            ck_assert_int_eq(best_on(&machine), 0);
        }
    }
    ck_assert_int_gt(num_flips, 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("robust");
    TCase *cases = tcase_create("robust");
    tcase_set_timeout(cases, 120);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, without_errors_the_choice_is_always_the_best);
    tcase_add_test(cases, shares_and_regrets_equal_a_plain_loop_over_the_draws);
    tcase_add_loop_test(cases, drawn_factors_lie_within_the_spread_and_differ, 0, num_cost_classes);
    tcase_add_loop_test(cases, a_class_scaled_by_one_changes_no_bit, 0, num_cost_classes);
    tcase_add_loop_test(cases, a_cost_class_changes_a_step_by_at_most_its_factor, 0,
                        num_cost_classes);
    tcase_add_loop_test(cases, a_class_scales_its_constants_and_no_others, 0, num_cost_classes);
    tcase_add_test(cases, scaling_a_class_copies_the_profiles_curves);
    tcase_add_test(cases, the_best_plan_changes_exactly_at_the_reported_factor);
    tcase_add_test(cases, the_way_back_from_the_tipping_point_is_short);
    tcase_add_test(cases, no_class_changes_the_best_plan_before_the_tipping_point);
    tcase_add_test(cases, the_best_plan_changes_at_the_reported_routing_deviation);
    suite_add_tcase(s, cases);
    TCase *threads = tcase_create("threads");
    tcase_set_tags(threads, THREADS);
    tcase_set_timeout(threads, 120);
    tcase_add_checked_fixture(threads, set_up, tear_down);
    tcase_add_loop_test(threads, draws_depend_on_the_seed_but_not_on_the_number_of_jobs, 0, 2);
    suite_add_tcase(s, threads);
    return s;
}

TEST_MAIN(suite)
