/* Compares the formulas for uneven routing with random draws. */
#include "models/routing.h"

#include "base/random.h"
#include "sim/plan/local.h"
#include "tests/exec/op_lists.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

enum { MOST_EXPERTS = 256 };

static double normal_draw(struct random *rng)
{
    double length = sqrt(-2 * log(1 - random_unit(rng)));
    return length * cos(2 * acos(-1) * random_unit(rng));
}

/* Draws lognormal weights with mean 1. A coefficient of variation c corresponds to a standard
 * deviation sqrt(log(1 + c^2)) of the logarithm. */
static void draw_popularity(struct random *rng, int experts, double cv, double *weights)
{
    double deviation = sqrt(log1p(cv * cv));
    for (int i = 0; i < experts; i++)
        weights[i] = exp(deviation * normal_draw(rng));
}

/* Draws one token's experts: the topk experts with the largest log w + g, where g is a random
 * Gumbel number. This is equivalent to topk successive draws without repetition. */
static void choose(struct random *rng, const double *weights, int experts, int topk, double *chosen)
{
    double key[MOST_EXPERTS];
    for (int i = 0; i < experts; i++)
        key[i] = -log(1 - random_unit(rng)) /
                 weights[i]; /* in the equivalent exponential form the smallest value is chosen */
    for (int j = 0; j < topk; j++) {
        int best = 0;
        for (int i = 1; i < experts; i++)
            best = key[i] < key[best] ? i : best;
        chosen[best]++;
        key[best] = HUGE_VAL;
    }
}

/* The shares of rows per expert if each token of a sample draws its experts. */
static void drawn_shares(struct random *rng, const struct routed *routed, const double *weights,
                         double *shares)
{
    int sample = is_campaign() ? 10000 : 2000, experts = (int)routed->experts;
    for (int i = 0; i < sample; i++)
        choose(rng, weights, experts, (int)routed->topk, shares);
    for (int i = 0; i < experts; i++)
        shares[i] /= sample * routed->topk;
}

/* The shares of rows among many experts, without drawing tokens. Each expert has an exponential
 * clock with its weight as rate; at the time t at which the sum of 1 - exp(-w t) is topk, topk of
 * the clocks have rung on average. */
static void limit_shares(const struct routed *routed, const double *weights, double *shares)
{
    double low = 0, high = 1e3;
    for (int step = 0; step < 40; step++) {
        double t = (low + high) / 2, sum = 0;
        for (int i = 0; i < (int)routed->experts; i++)
            sum += shares[i] = -expm1(-weights[i] * t);
        *(sum < routed->topk ? &low : &high) = t;
    }
    for (int i = 0; i < (int)routed->experts; i++)
        shares[i] /= routed->topk;
}

/* The largest load of a rank divided by the mean load, in one layer. */
static double draw_factor(struct random *rng, const struct routed *routed, double cv)
{
    double weights[MOST_EXPERTS], shares[MOST_EXPERTS] = { 0 };
    int experts = (int)routed->experts, ranks = (int)routed->ranks;
    double most = 0, sum = 0;
    draw_popularity(rng, experts, cv, weights);
    if (experts < 32 && cv > 0)
        drawn_shares(rng, routed, weights, shares);
    else
        limit_shares(routed, weights, shares);
    for (int rank = 0; rank < ranks; rank++) {
        double load = 0;
        for (int i = 0; i < experts / ranks; i++) {
            double mean = routed->tokens * routed->topk * shares[rank * (experts / ranks) + i];
            load += mean + sqrt(mean) * normal_draw(rng);
        }
        most = fmax(most, load);
        sum += load;
    }
    return most / (sum / ranks);
}

/* The column `published` is the table of the study from which the formula is taken. The column is 0
 * (not compared) for 8 experts with cv 0.3 and for 256 experts on 8 ranks with cv 0.5: the study
 * made few draws for these rows, and more draws give another value. */
static const struct {
    double tokens, experts, topk, ranks, cv, published;
} cases[] = {
    { 32768, 8, 2, 8, 0, 1.014 },       { 32768, 8, 2, 8, 0.3, 0 },
    { 32768, 256, 8, 8, 0, 1.009 },     { 32768, 256, 8, 8, 0.3, 1.074 },
    { 32768, 256, 8, 8, 0.5, 0 },       { 262144, 256, 8, 64, 0, 1.014 },
    { 262144, 256, 8, 64, 0.1, 1.115 }, { 262144, 256, 8, 64, 0.3, 1.405 },
    { 262144, 256, 8, 64, 0.5, 1.751 },
};

static struct routed routed_of(int i)
{
    return (struct routed){ cases[i].tokens, cases[i].experts, cases[i].topk, cases[i].ranks };
}

static struct routing skewed(double cv)
{
    return (struct routing){ .kind = cv > 0 ? ROUTING_SKEWED : ROUTING_RANDOM, .cv = cv };
}

START_TEST(formulas_agree_with_random_draws)
{
    struct random rng = random_new(7, (uint64_t)_i);
    struct routed routed = routed_of(_i);
    struct routing routing = skewed(cases[_i].cv);
    double sum = 0, squares = 0;
    int draws = is_campaign() ? 2000 : 60;
    for (int i = 0; i < draws; i++) {
        double factor = draw_factor(&rng, &routed, cases[_i].cv);
        sum += factor;
        squares += factor * factor;
    }
    double mean = sum / draws, error = sqrt((squares / draws - mean * mean) / draws);
    double factor = routing_rank_factor(&routing, &routed);
    double of_formula = cases[_i].cv > 0.3 ? 0.02 : 0.01;
    ck_assert_double_eq_tol(factor, mean, of_formula * mean + 4 * error);
    if (cases[_i].published > 0)
        ck_assert_double_eq_tol(mean, cases[_i].published, 0.01 * mean + 4 * error);
}
END_TEST

/* On eight nodes, a token of DeepSeek-V3 chooses 8 of 256 experts: any 8, or 8 within 4 of 8 groups
 * with one group per node (DeepSeek-V3, arXiv:2412.19437, limits tokens to four nodes). With one
 * expert on each of eight ranks, and two choices, a token goes to two ranks. */
START_TEST(tokens_go_to_distinct_nodes)
{
    struct expert_choice free_choice = { 256, 8, 8, 8, false }, limited = { 256, 8, 8, 4, false },
                         two = { 8, 2, 0, 0, false };
    ck_assert_double_eq_tol(routing_distinct(&free_choice, 8), 5.2947, 5e-5);
    ck_assert_double_eq_tol(routing_distinct(&limited, 8), 3.6290, 5e-5);
    ck_assert_double_eq_tol(routing_distinct(&two, 8), 2, 1e-12);
    ck_assert_double_eq_tol(routing_distinct(&limited, 1), 1, 1e-12);
}
END_TEST

/* If experts are assigned in turn, a token of DeepSeek-V3 gets 8 adjacent experts: they are on two
 * ranks with 4 experts each, or on one node with 32 experts. Kimi-K2 has 12 experts per rank: 8
 * adjacent experts are on one rank if they begin at its first or fifth expert, and on two ranks if
 * they begin at the ninth. If a token chooses three of eight experts, its experts can begin at any
 * expert; with two experts per rank they are always on two ranks. */
START_TEST(tokens_in_turn_go_to_neighbouring_ranks)
{
    struct expert_choice v3 = { 256, 8, 8, 4, true }, k2 = { 384, 8, 0, 0, true },
                         odd = { 8, 3, 0, 0, true };
    struct routing in_turn = { .kind = ROUTING_IN_TURN };
    struct routed routed = { 32768, 8, 3, 4 };
    ck_assert_double_eq_tol(routing_distinct(&v3, 64), 2, 1e-12);
    ck_assert_double_eq_tol(routing_distinct(&v3, 8), 1, 1e-12);
    ck_assert_double_eq_tol(routing_distinct(&k2, 32), 4.0 / 3, 1e-12);
    ck_assert_double_eq_tol(routing_distinct(&odd, 4), 2, 1e-12);
    ck_assert_double_eq_tol(routing_distinct(&odd, 1), 1, 1e-12);
    ck_assert_double_eq(routing_rank_factor(&in_turn, &routed), 1);
    ck_assert_double_eq(routing_dropped_share(&in_turn, &routed, 0.75), 0.25);
}
END_TEST

/* The cases are equal loads, a given factor, and a factor that is limited because a rank can have
 * at most all rows. */
START_TEST(a_given_imbalance_factor_is_used)
{
    struct routed routed = { 32768, 8, 2, 8 };
    struct routing balanced = { 0 }, given = { .kind = ROUTING_FACTOR, .factor = 1.5 };
    ck_assert_double_eq(routing_rank_factor(&balanced, &routed), 1);
    ck_assert_double_eq(routing_rank_factor(&given, &routed), 1.5);
    ck_assert_double_eq(routing_peak_factor(&given, &routed, 32), 1.5);
    given.factor = 100; /* every token chooses the same two of 8 experts: four times the mean */
    ck_assert_double_eq(routing_rank_factor(&given, &routed), 4);
    routed.ranks = 1;
    ck_assert_double_eq(routing_rank_factor(&given, &routed), 1);
}
END_TEST

/* If 4,096 tokens choose 2 of 8 experts, each expert gets 1,024 rows on average; 1.25 times that is
 * 1,280. If the popularity of experts is normal with deviation v = 0.3, a capacity factor of 1.25
 * drops v (phi(a) - a (1 - Phi(a))) of the rows, with a = 0.25/v: between 3.0 and 3.6 %. */
START_TEST(capacity_limits_rows_per_expert)
{
    struct routed one = { 4096, 8, 2, 8 };
    struct routing balanced = { 0 }, uneven = skewed(0.3);
    ck_assert_double_eq(routing_capacity_rows(4096, 8, 2, 1.25), 1280);
    ck_assert_double_eq(routing_dropped_share(&balanced, &one, 1.25), 0);
    ck_assert_double_eq(routing_dropped_share(&balanced, &one, 0.75), 0.25);
    ck_assert_double_eq_tol(routing_dropped_share(&uneven, &one, 1.25), 0.028, 0.002);
    ck_assert_double_lt(routing_dropped_share(&uneven, &one, 3), 1e-6);
}
END_TEST

/* Eight ranks have an expert each. The rows of the fullest rank determine work, messages and kept
 * bytes. */
START_TEST(the_fullest_rank_computes_sends_and_keeps_more)
{
    struct arena arena = { 0 };
    struct model model = model_of("mixtral-8x7b");
    struct layer_options options = layer_flash;
    struct plan plan = plan_of("tp1 ep8 pp1 dp8 mb1 zero1", &arena);
    struct plan padded = plan_of("tp1 ep8 pp1 dp8 mb1 zero1 capacity=1.25", &arena);
    struct local_ops even =
        local_layer(rank_share_of(&plan), &model, 4096, &options, false, &arena);
    struct local_ops bound =
        local_layer(rank_share_of(&padded), &model, 4096, &options, false, &arena);
    model.routing = (struct routing){ .kind = ROUTING_FACTOR, .factor = 1.25 };
    struct local_ops full =
        local_layer(rank_share_of(&plan), &model, 4096, &options, false, &arena);
    const struct op *fc1 = op_named(even.forward, "expert_fc1");
    const struct op *fuller = op_named(full.forward, "expert_fc1");
    ck_assert_double_eq(fuller->flops, 1.25 * fc1->flops);
    ck_assert_double_eq(op_saved_bytes(&full.forward, fuller),
                        1.25 * op_saved_bytes(&even.forward, fc1));
    ck_assert_double_eq(op_named(full.forward, "expert_enter")->comm_bytes,
                        1.25 * op_named(even.forward, "expert_enter")->comm_bytes);
    ck_assert_double_eq(op_named(full.forward, "router")->flops,
                        op_named(even.forward, "router")->flops);
    ck_assert_double_eq(op_named(full.forward, "dispatch")->bytes,
                        op_named(even.forward, "dispatch")->bytes);
    ck_assert_double_eq(op_named(bound.forward, "expert_fc2")->flops,
                        1.25 * op_named(even.forward, "expert_fc2")->flops);
    ck_assert_double_gt(op_named(bound.forward, "dispatch")->bytes,
                        op_named(even.forward, "dispatch")->bytes);
    arena_release(&arena);
}
END_TEST

/* With 4,096 tokens per rank, each of 256 experts on 8 ranks gets 128 rows per rank, a multiple of
 * 16 and 32, so there is no padding. Varying numbers of rows are padded by (a - 1) / 2 on average,
 * for a multiple a. */
START_TEST(quantised_rows_are_padded)
{
    static const struct {
        int precision;
        double padding;
    } rows[] = {
        { PRECISION_BF16, 0 },
        { PRECISION_FP8_DELAYED, 7.5 },
        { PRECISION_FP8_MX, 15.5 },
    };
    struct arena arena = { 0 };
    struct model model = model_of("deepseek-v3");
    struct plan plan = plan_of("tp1 ep8 pp1 dp8 mb1 zero1", &arena);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        struct layer_options options = layer_flash;
        options.recipe = precision_recipe(rows[i].precision);
        options.copies = 1;
        model.routing = (struct routing){ 0 };
        struct local_ops even =
            local_layer(rank_share_of(&plan), &model, 4096, &options, false, &arena);
        ck_assert_double_eq(op_named(even.forward, "expert_fc1")->m, 4096 * 8 / 32.0);
        model.routing = (struct routing){ .kind = ROUTING_FACTOR, .factor = 1.25 };
        struct local_ops full =
            local_layer(rank_share_of(&plan), &model, 4096, &options, false, &arena);
        ck_assert_double_eq(op_named(full.forward, "expert_fc1")->m,
                            1.25 * 4096 * 8 / 32.0 + rows[i].padding);
    }
    arena_release(&arena);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("factors");
    tcase_add_loop_test(tc, formulas_agree_with_random_draws, 0, LENGTH(cases));
    tcase_add_test(tc, tokens_go_to_distinct_nodes);
    tcase_add_test(tc, tokens_in_turn_go_to_neighbouring_ranks);
    tcase_add_test(tc, a_given_imbalance_factor_is_used);
    tcase_add_test(tc, capacity_limits_rows_per_expert);
    tcase_add_test(tc, the_fullest_rank_computes_sends_and_keeps_more);
    tcase_add_test(tc, quantised_rows_are_padded);
    Suite *s = suite_create("models/routing");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
