#include "sim/engine/order.h"
#include "sim/engine/pipeline.h"
#include "tests/draw.h"
#include "tests/testing.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_CHUNKS = 128 };
static const double no_lags[MAX_CHUNKS];

/* A pipeline whose chunks all take the same time. */
struct uniform {
    const char *generator;
    int p, m, v;
    double f, b, lag;
};

static double time_uniform(const struct uniform *u)
{
    double duration_s[CHUNK_PASSES * MAX_CHUNKS];
    double end_s[MAX_CHUNKS], lag_s[MAX_CHUNKS];
    for (int s = 0; s < u->p; s++)
        lag_s[s] = u->lag;
    for (int c = 0; c < u->p * u->v; c++) {
        duration_s[CHUNK_PASSES * c + CHUNK_FORWARD] = u->f / u->v;
        duration_s[CHUNK_PASSES * c + CHUNK_BACKWARD] = u->b / u->v;
    }
    struct pipeline_cache cache = { 0 };
    struct pipeline pipeline = { .generator = generator_find(u->generator),
                                 .shape = { u->p, u->v, u->m, 0 },
                                 .duration_s = duration_s,
                                 .lag_s = lag_s };
    double time_s = pipeline_s(&cache, &pipeline, end_s);
    pipeline_cache_release(&cache);
    return time_s;
}

/* For p = 4 stages, m = 8 microbatches, forward f = 1 and backward b = 2 the time is (m + p - 1)(f
 * + b) = 33. */
START_TEST(gpipe_and_1f1b_have_the_same_bubble)
{
    struct uniform u = { "gpipe", 4, 8, 1, 1, 2, 0 };
    ck_assert_double_eq_tol(time_uniform(&u), 33, 1e-12);
    u.generator = "1f1b";
    ck_assert_double_eq_tol(time_uniform(&u), 33, 1e-12);
}
END_TEST

/* With v chunks per stage the time is m(f + b) + (p - 1)(f + b)/v: 24 + 9/2 for v = 2 and 24 + 9/4
 * for v = 4. */
START_TEST(the_bubble_is_divided_by_the_number_of_chunks)
{
    struct uniform u = { "interleaved", 4, 8, 2, 1, 2, 0 };
    ck_assert_double_eq_tol(time_uniform(&u), 28.5, 1e-12);
    u.v = 4;
    ck_assert_double_eq_tol(time_uniform(&u), 26.25, 1e-12);
}
END_TEST

/* A pipeline of equal stages whose backward is split. */
struct split {
    const char *generator;
    int p, m;
    double f, b, w;
};

/* The makespan; `longest_s` is that of one stage, from its first forward to its last pass. */
static double time_split(const struct split *u, double *longest_s)
{
    double duration_s[CHUNK_PASSES * MAX_CHUNKS];
    double end_s[MAX_CHUNKS];
    for (int c = 0; c < u->p; c++) {
        duration_s[CHUNK_PASSES * c + CHUNK_FORWARD] = u->f;
        duration_s[CHUNK_PASSES * c + CHUNK_BACKWARD] = u->b;
        duration_s[CHUNK_PASSES * c + CHUNK_WEIGHT] = u->w;
    }
    struct pipeline_cache cache = { 0 };
    struct pipeline pipeline = { .generator = generator_find(u->generator),
                                 .shape = { u->p, 1, u->m, 0 },
                                 .duration_s = duration_s,
                                 .lag_s = no_lags };
    double time_s = pipeline_s(&cache, &pipeline, end_s);
    *longest_s = 0;
    for (int s = 0; s < u->p; s++)
        *longest_s = fmax(*longest_s, end_s[s] - s * u->f);
    pipeline_cache_release(&cache);
    return time_s;
}

/* The time is m(f + b + w) + (p - 1)(f + b - w). If all passes take 1 s, it is 192 + 7 s for p = 8
 * and m = 64 (1F1B takes 213 s), and 36 + 3 s for p = 4 and m = 12. */
START_TEST(zb_h1_has_a_third_of_the_bubble_of_1f1b)
{
    double longest_s;
    struct split large = { "zb-h1", 8, 64, 1, 1, 1 };
    ck_assert_double_eq_tol(time_split(&large, &longest_s), 199, 1e-12);
    struct split small = { "zb-h1", 4, 12, 1, 1, 1 };
    ck_assert_double_eq_tol(time_split(&small, &longest_s), 39, 1e-12);
    struct uniform plain = { "1f1b", 8, 64, 1, 1, 2, 0 };
    ck_assert_double_eq_tol(time_uniform(&plain), 213, 1e-12);
}
END_TEST

/* The closed form is exact for at least p microbatches, if weight gradients take no longer than the
 * other passes. */
START_TEST(zb_h1_equals_its_closed_form)
{
    srand(29);
    for (int i = 0; i < 300; i++) {
        int p = 2 + rand() % 7;
        double w = random_between(0.2, 1);
        struct split u = { "zb-h1", p, p + rand() % 100, random_between(w, 2), random_between(w, 2),
                           w };
        double longest_s;
        double expected_s = u.m * (u.f + u.b + u.w) + (p - 1) * (u.f + u.b - u.w);
        ck_assert_double_eq_tol(time_split(&u, &longest_s), expected_s, 1e-9 * expected_s);
    }
}
END_TEST

/* A pipeline of equal stages whose schedule runs forwards and backwards in pairs. */
struct paired {
    int ranks, microbatches; /* number of microbatches in both directions of DualPipe together */
    double forward_s, input_s, weight_s, pair_s;
    double step_s, most_idle_s; /* expected */
};

static double time_paired(const struct paired *of, const char *name, double lag_s, double turn_s,
                          double *most_idle_s)
{
    double duration_s[CHUNK_PASSES * MAX_CHUNKS], pair_s[MAX_CHUNKS];
    double lags_s[MAX_CHUNKS], end_s[MAX_CHUNKS];
    const struct generator *generator = generator_find(name);
    bool is_folded = generator->rule == &placement_v;
    int stages = is_folded ? of->ranks / 2 : of->ranks;
    for (int c = 0; c < 2 * stages; c++) {
        duration_s[CHUNK_PASSES * c + CHUNK_FORWARD] = of->forward_s;
        duration_s[CHUNK_PASSES * c + CHUNK_BACKWARD] = of->input_s;
        duration_s[CHUNK_PASSES * c + CHUNK_WEIGHT] = of->weight_s;
        pair_s[c] = of->pair_s;
        lags_s[c] = lag_s;
    }
    struct pipeline_cache cache = { 0 };
    struct pipeline pipeline = { .generator = generator,
                                 .shape = { stages, 2, of->microbatches / 2, 0 },
                                 .duration_s = duration_s,
                                 .lag_s = lags_s,
                                 .pair_s = pair_s,
                                 .turn_s = turn_s };
    double step_s = pipeline_s(&cache, &pipeline, end_s);
    double all_s = of->forward_s + of->input_s + of->weight_s;
    *most_idle_s = 0;
    for (int stage = 0; stage < stages; stage++) {
        int pairs = generator->pairs(&pipeline.shape, stage, 0) +
                    generator->pairs(&pipeline.shape, stage, 1);
        double busy_s = of->microbatches * all_s - pairs * (all_s - of->pair_s);
        *most_idle_s = fmax(*most_idle_s, step_s - busy_s);
    }
    pipeline_cache_release(&cache);
    return step_s;
}

/* The times are counted by hand from DeepSeek's dualpipe.py. For comparison, ZB1P takes 67, 67,
 * 375, 213 and 150.5 s. */
static const struct paired paired[] = {
    { 8, 20, 1, 1, 1, 3, 66, 6 },      { 8, 20, 1, 1, 1, 2.4, 57.6, 4.2 },
    { 16, 120, 1, 1, 1, 3, 374, 14 },  { 16, 64, 1, 1.2, 0.8, 2.6, 187.6, 14.4 },
    { 8, 40, 1, 1.5, 1, 3, 131, 6.5 },
};

START_TEST(dualpipe_takes_the_time_counted_by_hand)
{
    static const char *const names[] = { "dualpipe", "dualpipev" };
    for (int i = 0; i < LENGTH(names); i++) {
        double idle_s;
        double step_s = time_paired(&paired[_i], names[i], 0, 0, &idle_s);
        ck_assert_double_eq_tol(step_s, paired[_i].step_s, 1e-9);
        ck_assert_double_eq_tol(idle_s, paired[_i].most_idle_s, 1e-9);
    }
}
END_TEST

/* In the middle of the pipeline DualPipe sends a message; in DualPipeV the microbatch turns back on
 * the same stage. */
START_TEST(dualpipe_takes_the_time_of_a_v_of_half_the_stages)
{
    double idle_s;
    double whole_s = time_paired(&paired[_i], "dualpipe", 0.125, 0, &idle_s);
    ck_assert_double_eq_tol(time_paired(&paired[_i], "dualpipev", 0.125, 0.125, &idle_s), whole_s,
                            1e-9);
    ck_assert_double_lt(time_paired(&paired[_i], "dualpipev", 0.125, 0, &idle_s), whole_s);
}
END_TEST

/* If all passes take equally long, no stage waits; stages only start and end one after another.
 * Otherwise the bubble is (p - 1)(f + b - 2w), for at least 2p - 1 microbatches. */
START_TEST(zb_h2_has_no_bubble_on_any_stage)
{
    srand(31);
    for (int i = 0; i < 300; i++) {
        int p = 2 + rand() % 7;
        double longest_s;
        struct split even = { "zb-h2", p, 2 * p - 1 + rand() % 100, 1, 1, 1 };
        ck_assert_double_eq_tol(time_split(&even, &longest_s), 3 * even.m + p - 1, 1e-9);
        ck_assert_double_eq_tol(longest_s, 3 * even.m, 1e-9);
        struct split other = { "zb-h2", p, even.m, 1, random_between(1, 1.5), 1 };
        double busy_s = other.m * (2 + other.b);
        time_split(&other, &longest_s);
        ck_assert_double_eq_tol(longest_s, busy_s + (p - 1) * (other.b - 1), 1e-9 * busy_s);
    }
}
END_TEST

/* A lag of c per transfer lengthens a 1F1B step by c [2m(p-1)/p + 2(p-2)]. For p = 4, m = 8 and c =
 * 0.1 s this is 1.6 s; for p = 8 and m = 64 it is 124 c. */
START_TEST(a_message_lag_lengthens_1f1b_by_the_closed_form)
{
    struct uniform u = { "1f1b", 4, 8, 1, 1, 2, 0.1 };
    ck_assert_double_eq_tol(time_uniform(&u), 34.6, 1e-12);
    struct uniform large = { "1f1b", 8, 64, 1, 1, 2, 0.01 };
    ck_assert_double_eq_tol(time_uniform(&large), (64 + 7) * 3 + 124 * 0.01, 1e-9);
}
END_TEST

/* Interleaving hides the lag in the steady state, so a step is 2c(pv - 1) longer, whatever m is.
 * For p = 8 and v = 4 this is 62 c. */
START_TEST(interleaving_exposes_a_lag_only_at_start_and_end)
{
    for (int m = 16; m <= 64; m += 16) {
        struct uniform u = { "interleaved", 8, m, 4, 1, 2, 0.001 };
        ck_assert_double_eq_tol(time_uniform(&u), m * 3 + 7 * 3 / 4.0 + 62 * 0.001, 1e-9);
    }
}
END_TEST

/* Draws a random shape with random durations. The first or last chunks are the longest, or all are
 * equal, or all differ.
 */
static void check_random_jump(const char *name, int v)
{
    double duration_s[CHUNK_PASSES * MAX_CHUNKS];
    double end_s[MAX_CHUNKS], full_end_s[MAX_CHUNKS];
    int p = 2 + rand() % 7;
    int m = p * (1 + rand() % 40) + rand() % p;
    double spread = rand() % 3 * 0.2;
    for (int c = 0; c < p * v; c++) {
        duration_s[CHUNK_PASSES * c + CHUNK_FORWARD] = random_between(1 - spread, 1 + spread);
        duration_s[CHUNK_PASSES * c + CHUNK_BACKWARD] = 2 * random_between(1 - spread, 1 + spread);
        duration_s[CHUNK_PASSES * c + CHUNK_WEIGHT] = random_between(1 - spread, 1 + spread);
    }
    double lag_s[MAX_CHUNKS] = { 0 };
    bool has_lags = rand() % 2;
    for (int s = 0; has_lags && s < p; s++)
        lag_s[s] = random_between(0, 0.3);
    duration_s[CHUNK_PASSES * (p * v - 1) + CHUNK_FORWARD] *= random_between(1, 1.6);
    duration_s[CHUNK_PASSES * (p * v - 1) + CHUNK_BACKWARD] *= random_between(1, 1.6);
    struct pipeline_cache cache = { 0 };
    struct pipeline pipeline = { .generator = generator_find(name),
                                 .shape = { p, v, m, 0 },
                                 .duration_s = duration_s,
                                 .lag_s = lag_s };
    double jumped_s = pipeline_s(&cache, &pipeline, end_s);
    double full_s = pipeline_full_s(&cache, &pipeline, full_end_s);
    ck_assert_double_eq_tol(jumped_s, full_s, 1e-9 * full_s);
    for (int s = 0; s < p; s++)
        ck_assert_double_eq_tol(end_s[s], full_end_s[s], 1e-9 * full_s);
    pipeline_cache_release(&cache);
}

START_TEST(skipping_whole_cycles_equals_running_every_microbatch)
{
    srand(20261120);
    for (int i = 0; i < SAMPLED(1500, 400); i++) {
        check_random_jump("1f1b", 1);
        check_random_jump("interleaved", 2 + rand() % 3);
        check_random_jump("gpipe", 1);
        check_random_jump("naive", 1);
        check_random_jump("zb-h1", 1);
        check_random_jump("zb-h2", 1);
    }
}
END_TEST

/* Without lag GPipe takes exactly sum f + (m-1) max f + sum b + (m-1) max b over the stages. */
START_TEST(gpipe_equals_its_closed_form)
{
    srand(7);
    for (int i = 0; i < 300; i++) {
        double duration_s[CHUNK_PASSES * MAX_CHUNKS], end_s[MAX_CHUNKS];
        int p = 1 + rand() % 8, m = 1 + rand() % 24;
        double sum = 0, max_f = 0, max_b = 0;
        for (int c = 0; c < p; c++) {
            double f = duration_s[CHUNK_PASSES * c + CHUNK_FORWARD] = random_between(0.5, 2);
            double b = duration_s[CHUNK_PASSES * c + CHUNK_BACKWARD] = random_between(1, 4);
            sum += f + b;
            max_f = fmax(max_f, f);
            max_b = fmax(max_b, b);
        }
        struct pipeline_cache cache = { 0 };
        struct pipeline pipeline = { .generator = generator_find("gpipe"),
                                     .shape = { p, 1, m, 0 },
                                     .duration_s = duration_s,
                                     .lag_s = no_lags };
        double expected_s = sum + (m - 1) * (max_f + max_b);
        ck_assert_double_eq_tol(pipeline_s(&cache, &pipeline, end_s), expected_s,
                                1e-9 * expected_s);
        pipeline_cache_release(&cache);
    }
}
END_TEST

/* The time never exceeds the sum of all stages + (m - 1) times the slowest, and equals it if the
 * last stage is the slowest. */
START_TEST(a_slow_last_stage_reaches_the_1f1b_bound)
{
    srand(11);
    for (int i = 0; i < 300; i++) {
        double duration_s[CHUNK_PASSES * MAX_CHUNKS], end_s[MAX_CHUNKS];
        int p = 1 + rand() % 8, m = 1 + rand() % 40;
        for (int c = 0; c < p; c++) {
            duration_s[CHUNK_PASSES * c + CHUNK_FORWARD] = c == p - 1 ? 1.5 : 1;
            duration_s[CHUNK_PASSES * c + CHUNK_BACKWARD] = c == p - 1 ? 3 : 2;
        }
        struct pipeline_cache cache = { 0 };
        struct pipeline pipeline = { .generator = generator_find("1f1b"),
                                     .shape = { p, 1, m, 0 },
                                     .duration_s = duration_s,
                                     .lag_s = no_lags };
        double expected_s = 3 * (p - 1) + 4.5 * m;
        ck_assert_double_eq_tol(pipeline_s(&cache, &pipeline, end_s), expected_s,
                                1e-9 * expected_s);
        pipeline_cache_release(&cache);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("pipeline");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, gpipe_and_1f1b_have_the_same_bubble);
    tcase_add_test(tc, the_bubble_is_divided_by_the_number_of_chunks);
    tcase_add_loop_test(tc, dualpipe_takes_the_time_counted_by_hand, 0, LENGTH(paired));
    tcase_add_loop_test(tc, dualpipe_takes_the_time_of_a_v_of_half_the_stages, 0, LENGTH(paired));
    tcase_add_test(tc, zb_h1_has_a_third_of_the_bubble_of_1f1b);
    tcase_add_test(tc, zb_h1_equals_its_closed_form);
    tcase_add_test(tc, zb_h2_has_no_bubble_on_any_stage);
    tcase_add_test(tc, a_message_lag_lengthens_1f1b_by_the_closed_form);
    tcase_add_test(tc, interleaving_exposes_a_lag_only_at_start_and_end);
    tcase_add_test(tc, skipping_whole_cycles_equals_running_every_microbatch);
    tcase_add_test(tc, gpipe_equals_its_closed_form);
    tcase_add_test(tc, a_slow_last_stage_reaches_the_1f1b_bound);
    Suite *s = suite_create("sim/engine/pipeline");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
