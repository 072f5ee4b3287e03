#include "tests/testing.h"

#include "search/batch.h"
#include "search/questions/nearby.h"
#include "tests/search/instance.h"
#include "tests/search/searching.h"

#include <math.h>

static struct instance instance;
static struct arena arena;

static void set_up(void)
{
    instance_load(&instance);
    instance.model.layers = 6;
}

static void tear_down(void)
{
    instance_release(&instance);
    arena_release(&arena);
}

static const struct {
    double sequences, unit, expected;
} batches[] = {
    { 4e6 / 8192, 1, 512 },
    { 16e6 / 8192, 1, 2048 },
    { 3.2e6 / 2048, 1, 1536 },
    { 1e6 / 8192, 1, 128 },
    { 1537, 1, 1536 },
    { 1000, 1, 1024 },
    { 1536, 1, 1536 },
    { 1536, 125, 1500 },
    { 1536, 31, 1488 },
    { 10, 31, 0 },
    { 3, 1, 3 },
};

START_TEST(a_more_divisible_batch_is_within_five_percent)
{
    ck_assert_double_eq(batch_dividing(batches[_i].sequences, batches[_i].unit),
                        batches[_i].expected);
}
END_TEST

static struct search_request request_of(int num_gpus, double batch)
{
    instance.system.num_gpus = num_gpus;
    instance.model.batch = batch;
    return instance_request(&instance);
}

/* Tokens per second of the fastest plan; 0 if no plan fits. */
static double brute_tokens_per_s(int num_gpus, double batch)
{
    struct search_request request = request_of(num_gpus, batch);
    struct search_result result = search_of(&request);
    double tokens_per_s = result.num_top > 0 ? result.top[0].prediction.tokens_per_s : 0;
    search_result_release(&result);
    return tokens_per_s;
}

static void check_found(const struct nearby *found)
{
    ck_assert(found->best.prediction.fits);
    ck_assert_double_eq(found->best.prediction.tokens_per_s,
                        brute_tokens_per_s(found->num_gpus, found->batch));
}

/* The requested number of GPUs is 5 or 7 nodes of 8, or 7 GPUs; none of these divides the batch. */
static const struct {
    int asked, unit;
} counts[] = { { 40, 8 }, { 7, 1 }, { 56, 8 } };

START_TEST(the_fastest_number_of_fewer_gpus_is_suggested)
{
    int asked = counts[_i].asked, unit = counts[_i].unit;
    struct search_request request = request_of(asked, 64);
    struct nearby found = nearby_gpus(&request, 0, &arena);
    ck_assert_int_gt(found.num_gpus, 0);
    ck_assert_double_eq(found.batch, 64);
    for (int gpus = unit; gpus < asked; gpus += unit)
        ck_assert_double_le(brute_tokens_per_s(gpus, 64), found.best.prediction.tokens_per_s);
    check_found(&found);
}
END_TEST

/* No number of GPUs has more tokens per second than the one that the answer names as the
 * fastest. */
START_TEST(fewer_gpus_without_a_gain_are_not_suggested)
{
    struct search_request request = request_of(40, 64);
    struct nearby found = nearby_gpus(&request, 0, &arena);
    double most = found.best.prediction.tokens_per_s;
    ck_assert_int_gt(nearby_gpus(&request, 0.99 * most, &arena).num_gpus, 0);
    ck_assert_int_eq(nearby_gpus(&request, most, &arena).num_gpus, 0);
    ck_assert(!nearby_is_round(&request));
    request = request_of(48, 64);
    ck_assert(nearby_is_round(&request));
}
END_TEST

START_TEST(another_batch_that_uses_all_gpus_is_suggested)
{
    struct search_request request = request_of(40, 64);
    struct nearby found = nearby_batch(&request, &arena);
    ck_assert_int_eq(found.num_gpus, 40);
    ck_assert_double_eq(found.batch, 65);
    check_found(&found);
}
END_TEST

START_TEST(gpus_and_batch_may_both_change_slightly)
{
    struct search_request request = request_of(8 * 31, 256);
    struct nearby found = nearby_both(&request, &arena);
    ck_assert_int_ge(found.num_gpus, (int)(0.9 * 8 * 31));
    ck_assert_int_lt(found.num_gpus, 8 * 31);
    ck_assert_double_le(fabs(found.batch - 256), BATCH_SHARE * 256);
    check_found(&found);
}
END_TEST

START_TEST(for_an_odd_batch_a_more_divisible_one_is_suggested)
{
    struct search_request request = request_of(32, 65);
    struct nearby found = nearby_batch(&request, &arena);
    ck_assert_double_eq(found.batch, 64);
    ck_assert_double_gt(found.best.prediction.tokens_per_s, 1.05 * brute_tokens_per_s(32, 65));
}
END_TEST

START_TEST(for_a_divisible_batch_nothing_is_searched)
{
    struct search_request request = request_of(32, 64);
    ck_assert_int_eq(nearby_batch(&request, &arena).num_gpus, 0);
}
END_TEST

START_TEST(an_interrupt_ends_the_search_nearby)
{
    struct search_request request = request_of(40, 64);
    request.interrupted = always;
    ck_assert_int_eq(nearby_gpus(&request, 0, &arena).num_gpus, 0);
    ck_assert_int_eq(nearby_batch(&request, &arena).num_gpus, 0);
}
END_TEST

static void count_call(double done, void *context)
{
    (void)done;
    ++*(int *)context;
}

/* A request that no plan satisfies, and that counts its searches. */
static struct search_request hopeless(int num_gpus, double batch, int *searches)
{
    struct search_request request = request_of(num_gpus, batch);
    instance.system.gpu.memory_bytes = 1e6;
    request.progress = count_call;
    request.progress_context = searches;
    return request;
}

/* For each odd factor up to 31 the largest number below the request is tried, of GPUs up to a node
 * of 8 and of nodes above. If no plan fits, none of them is left out. */
START_TEST(a_number_of_gpus_is_tried_for_each_odd_factor)
{
    static const struct {
        int asked, most; /* most: GPUs, or nodes above a node */
    } rows[] = { { 1, 0 },    { 2, 1 },    { 3, 2 },    { 4, 3 },   { 6, 5 },
                 { 7, 6 },    { 8, 7 },    { 9, 1 },    { 16, 1 },  { 24, 2 },
                 { 25, 3 },   { 32, 3 },   { 48, 5 },   { 57, 7 },  { 248, 30 },
                 { 249, 31 }, { 256, 31 }, { 264, 32 }, { 272, 33 } };
    for (int i = 0; i < LENGTH(rows); i++) {
        int searches = 0;
        struct search_request request = hopeless(rows[i].asked, 64, &searches);
        int most_odd = rows[i].most < 31 ? rows[i].most : 31;
        ck_assert_int_eq(nearby_gpus(&request, 0, &arena).num_gpus, 0);
        ck_assert_int_eq(searches, (most_odd + 1) / 2);
    }
}
END_TEST

/* The batches that are tried: for each divisor of the odd factor of the GPUs, from the largest on,
 * one that differs from the requested batch and from that of the divisor before; at most four. */
START_TEST(a_batch_is_tried_for_each_divisor_of_the_odd_factor)
{
    static const struct {
        int num_gpus;
        double batch;
    } rows[] = { { 40, 64 },        { 8 * 9, 64 },  { 8 * 45, 1000 },
                 { 8 * 105, 1537 }, { 8 * 31, 10 }, { 8 * 15, 60 },
                 { 8 * 105, 3 },    { 24, 65 },     { 8 * 9, 290 } };
    for (int i = 0; i < LENGTH(rows); i++) {
        int searches = 0, expected = 0, odd = rows[i].num_gpus;
        double before = rows[i].batch;
        while (odd % 2 == 0)
            odd /= 2;
        for (int unit = odd; unit >= 1; unit--) {
            double batch = odd % unit == 0 ? batch_dividing(rows[i].batch, unit) : 0;
            if (batch > 0 && batch != rows[i].batch && batch != before) {
                before = batch;
                expected++;
            }
        }
        struct search_request request = hopeless(rows[i].num_gpus, rows[i].batch, &searches);
        ck_assert_int_eq(nearby_batch(&request, &arena).num_gpus, 0);
        ck_assert_int_eq(searches, expected < 4 ? expected : 4);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("nearby");
    TCase *tc = tcase_create("nearby");
    tcase_set_tags(tc, THREADS);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, a_more_divisible_batch_is_within_five_percent, 0, LENGTH(batches));
    tcase_add_loop_test(tc, the_fastest_number_of_fewer_gpus_is_suggested, 0, LENGTH(counts));
    tcase_add_test(tc, fewer_gpus_without_a_gain_are_not_suggested);
    tcase_add_test(tc, another_batch_that_uses_all_gpus_is_suggested);
    tcase_add_test(tc, gpus_and_batch_may_both_change_slightly);
    tcase_add_test(tc, for_an_odd_batch_a_more_divisible_one_is_suggested);
    tcase_add_test(tc, for_a_divisible_batch_nothing_is_searched);
    tcase_add_test(tc, an_interrupt_ends_the_search_nearby);
    tcase_add_test(tc, a_number_of_gpus_is_tried_for_each_odd_factor);
    tcase_add_test(tc, a_batch_is_tried_for_each_divisor_of_the_odd_factor);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
