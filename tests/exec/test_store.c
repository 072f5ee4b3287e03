#include "tests/testing.h"

#include "exec/ops/store.h"

enum { NUM_WEIGHTS = 5, ROWS = 4, COLUMNS = 3, ELEMENTS = ROWS * COLUMNS, MOST_SUMS = 8 };

/* Records the ranges of a store's gradients; each range was summed in one call. */
struct kernels {
    const float *gradients;
    struct range sums[MOST_SUMS];
    int num_sums;
};

static void note_sum(struct kernels *kernels, struct stream *stream, const struct square_sum *args)
{
    size_t from = (size_t)(args->gradients - kernels->gradients);
    (void)stream;
    ck_assert_int_lt(kernels->num_sums, MOST_SUMS);
    kernels->sums[kernels->num_sums++] = (struct range){ from, from + (size_t)args->n };
}

static const struct kernel_api noting = { .square_sum = note_sum };

/* Computes the gradient norm of five adjacent weights. The third weight is a copy, which another
 * rank counts. */
static struct kernels add_up(int zero, int shards, int shard)
{
    static const struct weight weight = { .rows = ROWS, .columns = COLUMNS };
    static float gradients[NUM_WEIGHTS * ELEMENTS];
    double squares = 0;
    struct kernels kernels = { .gradients = gradients };
    struct machine machine = { .kernel_api = &noting, .kernels = &kernels };
    struct stored_weight weights[NUM_WEIGHTS];
    for (size_t i = 0; i < NUM_WEIGHTS; i++)
        weights[i] = (struct stored_weight){ .weight = &weight,
                                             .offset = i * ELEMENTS,
                                             .is_counted = i != 2 };
    struct store store = { .weights = weights,
                           .num_weights = NUM_WEIGHTS,
                           .elements = NUM_WEIGHTS * ELEMENTS,
                           .padded = NUM_WEIGHTS * ELEMENTS,
                           .shards = shards,
                           .shard = shard,
                           .zero = zero,
                           .gradients = gradients };
    store_add_squares(&machine, &store, &squares, NULL);
    return kernels;
}

static void check_sum(struct range sum, size_t from, size_t to)
{
    ck_assert_uint_eq(sum.from, from);
    ck_assert_uint_eq(sum.to, to);
}

START_TEST(an_optimizer_has_0_1_or_2_moments)
{
    float values[1] = { 0 };
    struct store sgd = { 0 }, momentum = { .moments = { values } };
    struct store adam = { .moments = { values, values } };
    ck_assert_int_eq(store_num_moments(&sgd), 0);
    ck_assert_int_eq(store_num_moments(&momentum), 1);
    ck_assert_int_eq(store_num_moments(&adam), 2);
}
END_TEST

START_TEST(adjacent_gradients_are_summed_in_one_call)
{
    struct kernels whole = add_up(0, 1, 0);
    ck_assert_int_eq(whole.num_sums, 2);
    check_sum(whole.sums[0], 0, 2 * ELEMENTS);
    check_sum(whole.sums[1], 3 * ELEMENTS, 5 * ELEMENTS);
}
END_TEST

/* The 60 elements of five weights lie in four shards. The third shard has elements 30 to 44: the
 * end of the third weight, which is not counted, and a part of the fourth, which is counted. */
START_TEST(a_shards_norm_covers_its_part_of_counted_weights)
{
    struct kernels third = add_up(1, 4, 2);
    ck_assert_int_eq(third.num_sums, 1);
    check_sum(third.sums[0], 3 * ELEMENTS, 45);
}
END_TEST

START_TEST(copies_on_other_data_ranks_add_nothing_to_the_norm)
{
    ck_assert_int_eq(add_up(0, 2, 1).num_sums, 0);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("store");
    tcase_add_test(tc, an_optimizer_has_0_1_or_2_moments);
    tcase_add_test(tc, adjacent_gradients_are_summed_in_one_call);
    tcase_add_test(tc, a_shards_norm_covers_its_part_of_counted_weights);
    tcase_add_test(tc, copies_on_other_data_ranks_add_nothing_to_the_norm);
    Suite *s = suite_create("exec/ops/store");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
