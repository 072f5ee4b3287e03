#include "tests/testing.h"

#include "tests/sim/engine/random_step.h"

#include <math.h>
#include <stdlib.h>

/* Mean time of `draws` random steps of 1F1B with 4 stages and 16 microbatches. */
static double mean_drawn_s(const struct jitter *jitter, int draws)
{
    struct step step;
    double sum_s = 0;
    step_init(&step, "1f1b", 4, 1, 16);
    step.cost.draws = true;
    step.cost.jitter = *jitter;
    for (int i = 0; i < draws; i++) {
        step.cost.jitter.seed = (uint64_t)i;
        sum_s += step_run_s(&step);
    }
    return sum_s / draws;
}

static const struct jitter none = {
    .num_gpus = 8, .stage_ranks = 2, .pass_ranks = 1, .data_members = 1, .data_replicas = 1
};

START_TEST(without_spreads_a_drawn_step_has_the_same_bits)
{
    struct step step;
    srand(23);
    for (int i = 0; i < 200; i++) {
        step_randomise_whole(&step);
        step.cost.draws = false;
        double mean_s = step_run_s(&step);
        step.cost.draws = true;
        step.cost.jitter = none;
        ck_assert(step_run_s(&step) == mean_s);
    }
}
END_TEST

/* Four stages have 2 chips each. The costs already assume the slowest of the 8 chips. The other
 * stages are faster, so fill and drain of the pipeline take slightly less: the step takes (16 + 3)
 * x 3 s, minus at most 1 %. */
START_TEST(the_mean_slowdown_by_chips_equals_the_closed_form)
{
    struct jitter chips = none;
    chips.chip_spread = 0.01;
    double mean_s = mean_drawn_s(&chips, TURNS(2000));
    ck_assert_double_le(mean_s, 19 * 3 * 1.001);
    ck_assert_double_ge(mean_s, 19 * 3 * 0.99);
}
END_TEST

/* If passes vary around their mean, each microbatch waits for its slowest stage. */
START_TEST(varying_pass_times_lengthen_a_pipeline)
{
    struct jitter passes = none;
    passes.pass_spread = 0.05;
    double mean_s = mean_drawn_s(&passes, TURNS(400));
    ck_assert_double_ge(mean_s, 19 * 3 * 1.01);
    ck_assert_double_le(mean_s, 19 * 3 * 1.1);
}
END_TEST

/* With one pass of 1 s forward and 2 s backward, and deviations of 5 %, the sum of both has a
 * deviation of 5 % of sqrt(1 + 4). The slowest of n replicas exceeds the mean by this deviation
 * times the expected maximum of n normal values. */
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
        sum_s += step_run_s(&step);
    }
    ck_assert_double_eq_tol(sum_s / 1000, 3 + 0.05 * sqrt(5) * 3.24, 0.02);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("jitter");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, without_spreads_a_drawn_step_has_the_same_bits);
    tcase_add_test(tc, the_mean_slowdown_by_chips_equals_the_closed_form);
    tcase_add_test(tc, varying_pass_times_lengthen_a_pipeline);
    tcase_add_test(tc, the_norm_waits_for_the_slowest_replica);
    Suite *s = suite_create("sim/engine/jitter");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
