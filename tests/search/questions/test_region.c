#include "search/questions/region.h"

#include "base/length.h"
#include "base/random.h"
#include "tests/search/instance.h"
#include "tests/search/searching.h"
#include "tests/testing.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define OF_PROFILE(key, member, sd)                      \
    {                                                    \
        key, false, offsetof(struct profile, member), sd \
    }

static const struct uncertain usual[] = {
    OF_PROFILE("gemm_efficiency", gemm_efficiency, 0.06),
    OF_PROFILE("gemm_half_k", gemm_half_k, 0.4),
    OF_PROFILE("memory_efficiency", memory_efficiency, 0.2),
    OF_PROFILE("inter_bandwidth_factor", inter_bandwidth_factor, 0.15),
    OF_PROFILE("kernel", kernel_s, 0.2),
};

static void set(struct system *system, int constant, double value)
{
    memcpy((char *)&system->profile + usual[constant].offset, &value, sizeof value);
}

static double get(const struct system *system, int constant)
{
    double value;
    memcpy(&value, (const char *)&system->profile + usual[constant].offset, sizeof value);
    return value;
}

static double step_s(const struct instance *instance, const struct system *system,
                     const struct plan *plan)
{
    struct evaluator *evaluator = evaluator_new(system, &instance->model);
    double step_s = evaluate_step_s(evaluator, plan);
    evaluator_free(evaluator);
    return step_s;
}

/* Finds the fastest plan's time. The searches of these tests rank plans by time, whatever their
 * risk of exceeding memory. */
static double best_s(const struct search_request *asked, const struct system *system)
{
    struct search_request request = *asked;
    request.system = system;
    request.top = 1;
    struct search_result result = search_of(&request);
    ck_assert_int_eq(result.num_top, 1);
    double best_s = result.top[0].prediction.step_s;
    search_result_release(&result);
    return best_s;
}

/* The region is a box of the system's constants around their fitted values. The search divides it
 * into parts, and decides for each whether the plan is the best there or another plan is faster. */

/* --- decided parts ------------------------------------------------------------------------ */

struct drawing {
    const struct instance *instance;
    const struct search_request *request;
    const struct plan *choice;
    int count;
    struct random rng;
    double best, beaten;
    int checked;
    double density; /* share of the region's volume that the last decided part has */
};

/* Draws a point of the part; half of the coordinates are at an end of their range. */
static void draw_point(struct drawing *d, const struct region_part *part, struct system *system)
{
    *system = d->instance->system;
    for (int i = 0; i < d->count; i++) {
        double share = random_below(&d->rng, 2) ? random_unit(&d->rng) : random_below(&d->rng, 2);
        set(system, i, part->low[i] * pow(part->high[i] / part->low[i], share));
    }
}

static int num_pieces; /* number of decided parts that are not the whole region */

static void check_part(void *context, const struct region_part *part)
{
    enum { MOST_CHECKED = 40 };
    struct drawing *d = context;
    struct system system;
    double density = part->volume;
    for (int i = 0; i < d->count; i++)
        density /= log(part->high[i] / part->low[i]);
    num_pieces += part->volume < 1;
    if (d->checked > 0)
        ck_assert_double_eq_tol(density, d->density, 1e-9 * density);
    d->density = density;
    *(part->faster ? &d->beaten : &d->best) += part->volume;
    if (d->checked++ >= MOST_CHECKED)
        return;
    draw_point(d, part, &system);
    double choice_s = step_s(d->instance, &system, d->choice);
    if (part->faster)
        ck_assert_double_gt(choice_s,
                            step_s(d->instance, &system, part->faster) * (1 + BEST_WITHIN));
    else
        ck_assert_double_le(choice_s, best_s(d->request, &system) * (1 + BEST_WITHIN) * (1 + 1e-9));
}

/* A constant's range has quarters. `best` and `beaten` have, for each quarter, the share of its
 * volume in which the plan is the best or is beaten. Returns the largest difference between the
 * shares of two quarters. */
static double spread_of(const struct region_range *range)
{
    double low[] = { 1, 1 }, high[] = { 0, 0 };
    for (int q = 0; q < NUM_QUARTERS; q++) {
        low[0] = fmin(low[0], range->best[q]);
        high[0] = fmax(high[0], range->best[q]);
        low[1] = fmin(low[1], range->beaten[q]);
        high[1] = fmax(high[1], range->beaten[q]);
    }
    return fmax(high[0] - low[0], high[1] - low[1]);
}

static int num_deciding; /* number of regions in which one constant decides */

/* The constant whose quarters differ most (spread_of) is the constant that decides. */
static void check_deciding(const struct region *region)
{
    double most = 0;
    for (int i = 0; i < region->num_ranges; i++)
        most = fmax(most, spread_of(&region->ranges[i]));
    ck_assert_int_eq(region->decides >= 0, most > 1e-9);
    num_deciding += region->decides >= 0;
    if (region->decides >= 0)
        ck_assert_double_eq_tol(spread_of(&region->ranges[region->decides]), most, 1e-9);
}

static void check_region(const struct region *region, const struct drawing *d)
{
    check_deciding(region);
    ck_assert_double_eq_tol(region->best_share, d->best, 1e-9);
    ck_assert_double_eq_tol(region->beaten_share, d->beaten, 1e-9);
    ck_assert_double_le(region->best_share + region->beaten_share, 1 + 1e-9);
    double whole = d->density;
    for (int i = 0; i < region->num_ranges; i++)
        whole *= log(region->ranges[i].high / region->ranges[i].low);
    ck_assert(d->checked == 0 || fabs(whole - 1) < 1e-9);
    for (int i = 0; i < region->num_ranges; i++) {
        double best = 0, beaten = 0;
        for (int q = 0; q < NUM_QUARTERS; q++) {
            ck_assert_double_le(region->ranges[i].best[q] + region->ranges[i].beaten[q], 1 + 1e-9);
            best += region->ranges[i].best[q] / NUM_QUARTERS;
            beaten += region->ranges[i].beaten[q] / NUM_QUARTERS;
        }
        ck_assert_double_eq_tol(best, region->best_share, 1e-9);
        ck_assert_double_eq_tol(beaten, region->beaten_share, 1e-9);
    }
}

/* Checks the region of the best plan, or of a slower plan, which other plans beat in a larger part
 * of the region. */
static bool check_seed(int seed)
{
    struct instance instance;
    struct random rng = random_new((uint64_t)seed, 11);
    instance_load(&instance);
    instance_randomize(&instance, (uint64_t)seed);
    struct search_request request = instance_request(&instance);
    request.chunks = seed % 2;
    request.recompute_modules = seed % 3 > 0;
    struct search_result result = search_of(&request);
    int count = 1 + random_below(&rng, LENGTH(usual));
    int chosen = result.num_top > 2 ? random_below(&rng, 3) : 0;
    bool found = result.num_top > 0;
    if (found) {
        struct drawing d = {
            &instance, &request, &result.top[chosen].plan, count, rng, 0, 0, 0, 0
        };
        struct region_request asked = {
            &request, d.choice, usual, count, 0.9, 2000, check_part, &d
        };
        struct region region;
        struct err err = { 0 };
        bool ok = region_find(&asked, &region, &err);
        ck_assert_msg(ok, "seed %d: %s: %s", seed, err.where, err.msg);
        check_region(&region, &d);
        region_release(&region);
    }
    search_result_release(&result);
    instance_release(&instance);
    return found;
}

START_TEST(random_points_agree_with_every_decided_part)
{
    int wanted = SAMPLED(100, 5);
    for (int seed = 1; wanted > 0 || (num_pieces == 0 && seed < 50); seed++)
        wanted -= check_seed(seed);
    ck_assert_int_gt(num_pieces, 0);
}
END_TEST

START_TEST(one_constant_decides)
{
    const int seed = 7; /* the first seed whose region has a deciding constant */
    ck_assert(check_seed(seed));
    ck_assert_int_gt(num_deciding, 0);
}
END_TEST

/* --- the two properties that the proof uses --------------------------------------------- */

/* The logarithm of a plan's time at both ends of a segment and at its middle. */
struct segment {
    double at[3];
};

static struct segment segment_of(const struct instance *instance, const struct plan *plan,
                                 const struct product_range *range, const double *from,
                                 const double *to)
{
    struct segment segment;
    for (int k = 0; k < 3; k++) {
        struct system system = instance->system;
        for (int i = 0; i < LENGTH(usual); i++)
            set(&system, i, exp(from[i] + (to[i] - from[i]) * k / 2));
        system.profile.range = range;
        segment.at[k] = log(step_s(instance, &system, plan));
    }
    return segment;
}

static void check_plan(const struct instance *instance, const struct plan *plan, struct random *rng)
{
    static const bool is_rate[] = { true, false, true, true, false };
    double low[LENGTH(usual)], high[LENGTH(usual)], from[LENGTH(usual)], to[LENGTH(usual)];
    struct system fast = instance->system, slow = instance->system;
    for (int i = 0; i < LENGTH(usual); i++) {
        double value = log(get(&instance->system, i));
        low[i] = value - random_unit(rng);
        high[i] = value + random_unit(rng);
        set(&fast, i, exp(is_rate[i] ? high[i] : low[i]));
        set(&slow, i, exp(is_rate[i] ? low[i] : high[i]));
        from[i] = low[i] + (high[i] - low[i]) * random_unit(rng);
        to[i] = low[i] + (high[i] - low[i]) * random_unit(rng);
    }
    struct product_range floor = { &fast.profile, &slow.profile, true };
    struct product_range ceiling = { &fast.profile, &slow.profile, false };
    struct segment times = segment_of(instance, plan, NULL, from, to);
    struct segment floors = segment_of(instance, plan, &floor, from, to);
    struct segment ceilings = segment_of(instance, plan, &ceiling, from, to);
    for (int k = 0; k < 3; k++) {
        ck_assert_double_le(floors.at[k], times.at[k] + 1e-9);
        ck_assert_double_le(times.at[k], ceilings.at[k] + 1e-9);
        ck_assert_double_ge(times.at[k], log(step_s(instance, &fast, plan)) - 1e-9);
        ck_assert_double_le(times.at[k], log(step_s(instance, &slow, plan)) + 1e-9);
    }
    ck_assert_double_le(floors.at[1], (floors.at[0] + floors.at[2]) / 2 + 1e-9);
    ck_assert_double_le(ceilings.at[1], (ceilings.at[0] + ceilings.at[2]) / 2 + 1e-9);
}

/* Draws plans of all kinds, not only the best ones. */
START_TEST(step_times_increase_with_costs_and_their_logarithms_are_convex)
{
    int wanted = SAMPLED(300, 8);
    for (int seed = 1; wanted > 0; seed++) {
        struct instance instance;
        struct random rng = random_new((uint64_t)seed, 12);
        instance_load(&instance);
        instance_randomize(&instance, (uint64_t)seed);
        struct search_request request = instance_request(&instance);
        static const char *const fixed[] = { "", "recompute=full", "mb1", "zero0", "zero3" };
        request.fix = fixed[random_below(&rng, LENGTH(fixed))];
        request.without_hints = true;
        request.recompute_modules = seed % 2 == 0;
        struct search_result result = search_of(&request);
        for (int i = 0; i < result.num_top; i += 3)
            check_plan(&instance, &result.top[i].plan, &rng);
        wanted -= result.num_top > 0;
        search_result_release(&result);
        instance_release(&instance);
    }
}
END_TEST

/* --- a question for the remaining tests ------------------------------------------------- */

static struct instance instance;
static struct search_request request;
static struct search_result result;

static void set_up(void)
{
    instance_load(&instance);
    request = instance_request(&instance);
    result = search_of(&request);
    ck_assert_int_gt(result.num_top, 5);
}

static void tear_down(void)
{
    search_result_release(&result);
    instance_release(&instance);
}

static struct region region_of(int choice, const struct uncertain *constants, int count)
{
    struct region_request asked = { .search = &request,
                                    .choice = &result.top[choice].plan,
                                    .constants = constants,
                                    .num_constants = count,
                                    .probability = 0.9,
                                    .most_timed = 4000 };
    struct region region;
    struct err err = { 0 };
    bool ok = region_find(&asked, &region, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    return region;
}

START_TEST(without_errors_the_best_plan_is_proved_best)
{
    struct uncertain certain[] = { usual[0], usual[1] };
    certain[0].log_sd = certain[1].log_sd = 0;
    for (int count = 0; count <= 2; count++) {
        struct region region = region_of(0, certain, count);
        ck_assert_double_eq(region.best_share, 1);
        ck_assert_double_eq(region.beaten_share, 0);
        ck_assert_int_eq(region.num_ranges, 0);
        ck_assert_int_eq(region.parts, 1);
        region_release(&region);
    }
}
END_TEST

/* The first plan of the list that is slower by more than the tolerance for equal times. */
static int clearly_slower(void)
{
    int i = 1;
    while (result.top[i].prediction.step_s <=
           result.top[0].prediction.step_s * (1 + 2 * BEST_WITHIN))
        ck_assert_int_lt(++i, result.num_top);
    return i;
}

START_TEST(a_faster_plan_is_found_and_named)
{
    struct uncertain narrow[] = { usual[0], usual[1], usual[2] };
    for (int i = 0; i < 3; i++)
        narrow[i].log_sd = 1e-5;
    struct region region = region_of(clearly_slower(), narrow, 3);
    ck_assert_double_eq(region.best_share, 0);
    ck_assert_double_eq_tol(region.beaten_share, 1, 1e-12);
    ck_assert_int_ge(region.num_faster, 1);
    ck_assert(plan_equal(&region.faster[0].plan, &result.top[0].plan));
    region_release(&region);
}
END_TEST

/* Sidak: z is the normal quantile for which three independent ranges hold together with probability
 * 0.9, each with 0.9^(1/3). The upper end of a share of a peak is limited to 1. */
START_TEST(ranges_of_the_region_hold_jointly_with_probability_0_9)
{
    struct uncertain wide[] = { usual[0], usual[1], usual[2] };
    wide[2].log_sd = 2;
    struct region region = region_of(0, wide, 3);
    ck_assert_double_eq_tol(region.z, 2.1141, 1e-3);
    for (int i = 0; i < region.num_ranges; i++) {
        const struct region_range *range = &region.ranges[i];
        double width = region.z * range->of->log_sd;
        ck_assert_double_eq_tol(log(range->value / range->low), width, 1e-9);
        ck_assert_double_eq_tol(
            range->high, fmin(range->value * exp(width), range->of->log_sd > 1 ? 1 : HUGE_VAL),
            1e-9);
    }
    region_release(&region);
}
END_TEST

START_TEST(the_region_does_not_depend_on_the_number_of_jobs)
{
    struct region first = region_of(0, usual, 4);
    request.jobs = 5;
    struct region again = region_of(0, usual, 4);
    ck_assert_double_eq(first.best_share, again.best_share);
    ck_assert_double_eq(first.beaten_share, again.beaten_share);
    ck_assert_int_eq(first.parts, again.parts);
    ck_assert_double_eq(first.timed, again.timed);
    ck_assert_int_eq(first.decides, again.decides);
    region_release(&first);
    region_release(&again);
}
END_TEST

START_TEST(a_search_without_proof_is_refused)
{
    static const char *const fixed[] = { "overlap=tp", "schedule=zb-h1", "offload=optimizer" };
    struct uncertain unknown = usual[0];
    unknown.name = "gemm_memory_efficiency";
    for (int i = 0; i < LENGTH(fixed) + 1; i++) {
        struct region_request asked = { .search = &request,
                                        .choice = &result.top[0].plan,
                                        .constants = i < LENGTH(fixed) ? usual : &unknown,
                                        .num_constants = 1,
                                        .probability = 0.9 };
        struct region region;
        struct err err = { 0 };
        request.fix = i < LENGTH(fixed) ? fixed[i] : NULL;
        ck_assert(!region_find(&asked, &region, &err));
        ck_assert_int_eq(err.code, ERR_USAGE);
        ck_assert_str_eq(err.where, "--robust region");
        region_release(&region);
    }
}
END_TEST

/* Each of these options is refused, with the message in the table. */
START_TEST(unsupported_options_of_a_request_are_refused)
{
    static const char *const words[] = { "measured times",      "measured times",
                                         "measured times",      "--uneven",
                                         "--recompute-mixes",   "--placement",
                                         "global gradient norm" };
    for (int i = 0; i < (int)LENGTH(words); i++) {
        struct system system = *request.system;
        struct search_request asked = request;
        struct err err = { 0 };
        struct region region;
        asked.system = &system;
        system.profile.num_gemm_points += i == 0;
        system.profile.num_kernels += i == 1;
        system.profile.num_curves += i == 2;
        asked.uneven = i == 3;
        asked.recompute_mixes = i == 4;
        asked.placement = i == 5;
        system.stack.pipeline.post_validation = i == 6;
        struct region_request of = { .search = &asked,
                                     .choice = &result.top[0].plan,
                                     .constants = usual,
                                     .num_constants = 1,
                                     .probability = 0.9 };
        ck_assert(!region_find(&of, &region, &err));
        ck_assert_int_eq(err.code, ERR_USAGE);
        ck_assert_msg(strstr(err.msg, words[i]), "%s", err.msg);
        region_release(&region);
    }
}
END_TEST

/* A star in a rule matches any text in a constant's name; all other letters must be equal. */
static const struct {
    const char *name;
    bool has_rule;
} named[] = {
    { "gemm_efficiency", true },
    { "gemm_efficienc", false },
    { "gemm_efficiency_", false },
    { "kernel_", false },
    { "ernel", false },
    { "", false },
    { "gemm_tiles", true },
    { "gemm_tiles.128", true },
    { "gemm_tile", false },
    { "attention.flash.half_seq", true },
    { "attention.flash.half_se", false },
    { "attention.flash_efficiency", true },
    { "tattention.flash_efficiency", false },
};

START_TEST(a_constant_without_a_rule_is_refused_by_its_name)
{
    struct uncertain constant = usual[0];
    struct err err = { 0 };
    struct region region;
    constant.name = named[_i].name;
    struct region_request of = { .search = &request,
                                 .choice = &result.top[0].plan,
                                 .constants = &constant,
                                 .num_constants = 1,
                                 .probability = 0.9 };
    ck_assert_msg(region_find(&of, &region, &err) == named[_i].has_rule, "%s: %s", err.where,
                  err.msg);
    ck_assert_msg(named[_i].has_rule || strstr(err.msg, named[_i].name), "%s", err.msg);
    region_release(&region);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("region");
    TCase *drawn = tcase_create("drawn");
    tcase_set_timeout(drawn, 900);
    tcase_add_test(drawn, random_points_agree_with_every_decided_part);
    tcase_add_test(drawn, one_constant_decides);
    tcase_add_test(drawn, step_times_increase_with_costs_and_their_logarithms_are_convex);
    suite_add_tcase(s, drawn);
    TCase *one = tcase_create("one");
    tcase_set_timeout(one, 120);
    tcase_add_checked_fixture(one, set_up, tear_down);
    tcase_add_test(one, without_errors_the_best_plan_is_proved_best);
    tcase_add_test(one, a_faster_plan_is_found_and_named);
    tcase_add_test(one, ranges_of_the_region_hold_jointly_with_probability_0_9);
    tcase_add_test(one, a_search_without_proof_is_refused);
    tcase_add_test(one, unsupported_options_of_a_request_are_refused);
    tcase_add_loop_test(one, a_constant_without_a_rule_is_refused_by_its_name, 0, LENGTH(named));
    suite_add_tcase(s, one);
    TCase *threads = tcase_create("threads");
    tcase_set_tags(threads, THREADS);
    tcase_set_timeout(threads, 120);
    tcase_add_checked_fixture(threads, set_up, tear_down);
    tcase_add_test(threads, the_region_does_not_depend_on_the_number_of_jobs);
    suite_add_tcase(s, threads);
    return s;
}

TEST_MAIN(suite)
