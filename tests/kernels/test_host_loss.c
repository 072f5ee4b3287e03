#include "kernels/host/cross_entropy.h"
#include "kernels/host/embedding.h"
#include "tests/kernels/numeric.h"
#include "tests/kernels/reference.h"
#include "tests/testing.h"

#include <float.h>
#include <string.h>

static struct numeric numeric;

static void begin(void)
{
    numeric = numeric_begin(5);
}

static void end(void)
{
    numeric_end(&numeric);
}

static int64_t *random_ids(long n, int below)
{
    int64_t *ids = ARENA_ARRAY(&numeric.arena, int64_t, (size_t)n);
    for (long i = 0; i < n; i++)
        ids[i] = random_below(&numeric.random, below);
    return ids;
}

/* --- embedding -------------------------------------------------------------------------------- */

enum { TOKENS = 23, WIDTH = 9, TABLE = 11, SEQ = 5 };

/* The embedding rows of one rank. The ranks hold 4, 4 and 3 rows. */
static struct embedding table_of(int rank)
{
    return (struct embedding){
        .tokens = TOKENS, .width = WIDTH, .first = 4 * rank, .rows = rank < 2 ? 4 : 3
    };
}

static const struct embedding whole_table = { TOKENS, WIDTH, 0, TABLE };

START_TEST(embedding_rows_summed_over_ranks_equal_the_whole_look_up)
{
    float *table = numeric_floats(&numeric, TABLE * WIDTH, 1);
    float *whole = numeric_zeros(&numeric, TOKENS * WIDTH),
          *sum = numeric_zeros(&numeric, TOKENS * WIDTH);
    float part[TOKENS * WIDTH];
    int64_t *ids = random_ids(TOKENS, TABLE);
    embedding_gather(&whole_table, ids, table, whole);
    for (int rank = 0; rank < 3; rank++) {
        struct embedding own = table_of(rank);
        embedding_gather(&own, ids, table + own.first * WIDTH, part);
        for (int i = 0; i < TOKENS * WIDTH; i++)
            sum[i] += part[i];
    }
    for (int i = 0; i < TOKENS * WIDTH; i++)
        ck_assert(whole[i] == table[ids[i / WIDTH] * WIDTH + i % WIDTH]);
    numeric_check_same(&numeric, "sum", TOKENS * WIDTH, sum, whole);
}
END_TEST

START_TEST(each_row_receives_the_gradients_of_its_tokens)
{
    float *dy = numeric_floats(&numeric, TOKENS * WIDTH, 1);
    float *whole = numeric_floats(&numeric, TABLE * WIDTH, 1);
    float *parts = numeric_copy(&numeric, TABLE * WIDTH, whole);
    float *expected = numeric_copy(&numeric, TABLE * WIDTH, whole);
    int64_t *ids = random_ids(TOKENS, TABLE);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        expected[ids[i / WIDTH] * WIDTH + i % WIDTH] += dy[i];
    embedding_accumulate(&whole_table, ids, dy, whole);
    for (int rank = 0; rank < 3; rank++) {
        struct embedding own = table_of(rank);
        embedding_accumulate(&own, ids, dy, parts + own.first * WIDTH);
    }
    numeric_check_same(&numeric, "whole", TABLE * WIDTH, whole, expected);
    numeric_check_same(&numeric, "parts", TABLE * WIDTH, parts, expected);
}
END_TEST

START_TEST(positions_start_again_with_each_sequence)
{
    const struct positions positions = { 4 * SEQ, WIDTH, SEQ };
    float *table = numeric_floats(&numeric, SEQ * WIDTH, 1),
          *y = numeric_zeros(&numeric, 4 * SEQ * WIDTH);
    float dtable[SEQ * WIDTH] = { 0 };
    positions_add(&positions, table, y);
    for (int i = 0; i < 4 * SEQ * WIDTH; i++)
        ck_assert(y[i] == table[i % (SEQ * WIDTH)]);
    positions_accumulate(&positions, y, dtable);
    for (int i = 0; i < SEQ * WIDTH; i++)
        ck_assert(dtable[i] == 4 * table[i]);
}
END_TEST

/* --- cross-entropy ---------------------------------------------------------------------------- */

enum { ROWS = 13 };

/* A vocabulary, padded or not, that is split over ranks with `columns` columns each. */
static const struct {
    long vocab, ranks, columns;
} splits[] = { { 1, 1, 1 },    { 17, 1, 17 }, { 17, 1, 32 },
               { 101, 3, 34 }, { 67, 4, 32 }, { 997, 2, 500 } };
enum { NUM_SPLITS = LENGTH(splits) };

/* The loss, computed by ranks that share a vocabulary as in struct split. */
struct loss_case {
    long vocab, ranks, columns, padded;
    float *logits;        /* [ranks, ROWS, columns] */
    float *maxima, *sums; /* per row, over the logits of all ranks */
    float *dlogits;
    int64_t *targets;
    float scale;
    double loss;
};

static struct cross_entropy share_of(const struct loss_case *c, long rank)
{
    return (struct cross_entropy){ ROWS, c->columns, rank * c->columns, c->vocab };
}

/* Logit i of a row of the whole vocabulary. */
static long logit_at(const struct loss_case *c, long row, long i)
{
    return (i / c->columns * ROWS + row) * c->columns + i % c->columns;
}

/* Padding contains values that must not affect the result. */
static struct loss_case loss_case(int split, double deviation)
{
    struct loss_case c = { .vocab = splits[split].vocab,
                           .ranks = splits[split].ranks,
                           .columns = splits[split].columns,
                           .scale = 1.0F / 37 };
    c.padded = c.ranks * c.columns;
    c.logits = numeric_floats(&numeric, ROWS * c.padded, deviation);
    c.dlogits = numeric_floats(&numeric, ROWS * c.padded, 1);
    c.maxima = numeric_zeros(&numeric, ROWS);
    c.sums = numeric_zeros(&numeric, 2 * ROWS);
    c.targets = random_ids(ROWS, (int)c.vocab);
    for (long row = 0; row < ROWS; row++)
        for (long i = c.vocab; i < c.padded; i++)
            c.logits[logit_at(&c, row, i)] = i % 2 ? NAN : 1e30F;
    return c;
}

static void run_forward(struct loss_case *c)
{
    float maxima[ROWS], sums[2 * ROWS];
    for (long row = 0; row < ROWS; row++)
        c->maxima[row] = -FLT_MAX;
    for (long rank = 0; rank < c->ranks; rank++) {
        struct cross_entropy share = share_of(c, rank);
        cross_entropy_maxima(&share, c->logits + rank * ROWS * c->columns, maxima);
        for (long row = 0; row < ROWS; row++)
            c->maxima[row] = fmaxf(c->maxima[row], maxima[row]);
    }
    memset(c->sums, 0, 2 * ROWS * sizeof *c->sums);
    for (long rank = 0; rank < c->ranks; rank++) {
        struct cross_entropy share = share_of(c, rank);
        cross_entropy_sums(&share, c->logits + rank * ROWS * c->columns, c->targets, c->maxima,
                           sums);
        for (long i = 0; i < 2 * ROWS; i++)
            c->sums[i] += sums[i];
    }
    c->loss = cross_entropy_loss(ROWS, c->targets, c->sums);
}

static void run_backward(struct loss_case *c)
{
    for (long rank = 0; rank < c->ranks; rank++) {
        struct cross_entropy share = share_of(c, rank);
        long at = rank * ROWS * c->columns;
        cross_entropy_gradient(&share, c->logits + at, c->targets, c->maxima, c->sums, c->scale,
                               c->dlogits + at);
    }
}

/* Collects a row over the whole vocabulary from the ranks. */
static void gather_row(const struct loss_case *c, long row, const float *from, float *row32,
                       double *row64)
{
    for (long i = 0; i < c->vocab; i++) {
        row32[i] = from[logit_at(c, row, i)];
        row64[i] = (double)row32[i];
    }
}

START_TEST(the_loss_over_ranks_equals_that_of_the_whole_vocabulary)
{
    struct loss_case c = loss_case(_i, 4);
    float row32[1000];
    double row64[1000], loss64 = 0;
    run_forward(&c);
    for (long row = 0; row < ROWS; row++) {
        gather_row(&c, row, c.logits, row32, row64);
        loss64 += row_loss_f64(c.vocab, row64, c.targets[row]);
    }
    ck_assert_double_eq_tol(c.loss, loss64, 1e-6 * (loss64 + ROWS));
}
END_TEST

START_TEST(loss_gradients_are_as_accurate_as_plain_code_and_0_in_padding)
{
    struct loss_case c = loss_case(_i, 4);
    long n = ROWS * c.vocab;
    float row32[1000], *got = numeric_zeros(&numeric, n), *plain = numeric_zeros(&numeric, n);
    double row64[1000], *reference = ARENA_ARRAY(&numeric.arena, double, (size_t)n);
    run_forward(&c);
    run_backward(&c);
    for (long row = 0; row < ROWS; row++) {
        gather_row(&c, row, c.logits, row32, row64);
        row_loss_gradient_f64(c.vocab, row64, c.targets[row], (double)c.scale,
                              reference + row * c.vocab);
        row_loss_gradient_f32(c.vocab, row32, c.targets[row], c.scale, plain + row * c.vocab);
        for (long i = 0; i < c.vocab; i++)
            got[row * c.vocab + i] = c.dlogits[logit_at(&c, row, i)];
        for (long i = c.vocab; i < c.padded; i++)
            ck_assert(c.dlogits[logit_at(&c, row, i)] == 0);
    }
    numeric_check(&numeric,
                  &(struct numeric_result){ "dlogits", ROWS, c.vocab, got, reference, plain },
                  1e-5);
}
END_TEST

/* One row of logits and its loss. */
struct row_case {
    long vocab, target;
    double *logits;
};

static double row_value(const void *context)
{
    const struct row_case *c = context;
    return row_loss_f64(c->vocab, c->logits, c->target);
}

START_TEST(gradients_of_the_loss_equal_finite_differences)
{
    struct loss_case c = loss_case(2, 2);
    float row32[17], drow[17];
    double row64[17];
    struct row_case row_case = { 17, 0, row64 };
    c.scale = 1;
    run_forward(&c);
    run_backward(&c);
    for (long row = 0; row < ROWS; row++) {
        gather_row(&c, row, c.logits, row32, row64);
        row_case.target = c.targets[row];
        memcpy(drow, c.dlogits + row * c.columns, sizeof drow);
        numeric_check_gradient(&numeric, "dlogits",
                               (struct numeric_function){ row_value, &row_case }, 17, row64, drow,
                               1e-5);
    }
}
END_TEST

START_TEST(tokens_without_target_have_no_loss_and_no_gradient)
{
    struct loss_case c = loss_case(3, 4);
    run_forward(&c);
    double before = c.loss, sixth = log((double)c.sums[12]) - (double)c.sums[13];
    c.targets[6] = -1;
    run_forward(&c);
    run_backward(&c);
    ck_assert_double_eq_tol(c.loss, before - sixth, 1e-5);
    for (long i = 0; i < c.vocab; i++)
        ck_assert(c.dlogits[logit_at(&c, 6, i)] == 0);
}
END_TEST

START_TEST(gradients_may_overwrite_logits_and_repeat_bit_for_bit)
{
    struct loss_case c = loss_case(5, 4);
    run_forward(&c);
    run_backward(&c);
    float *expected = c.dlogits;
    c.dlogits = c.logits;
    run_backward(&c);
    numeric_check_same(&numeric, "dlogits", ROWS * c.padded, c.dlogits, expected);
}
END_TEST

START_TEST(logits_of_a_thousand_do_not_overflow)
{
    struct loss_case c = loss_case(3, 1000);
    run_forward(&c);
    run_backward(&c);
    ck_assert(isfinite(c.loss));
    for (long row = 0; row < ROWS; row++)
        for (long i = 0; i < c.vocab; i++)
            ck_assert(fabsf(c.dlogits[logit_at(&c, row, i)]) <= 1.0001F * c.scale);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("host_loss");
    TCase *tests = tcase_create("host_loss");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, embedding_rows_summed_over_ranks_equal_the_whole_look_up);
    tcase_add_test(tests, each_row_receives_the_gradients_of_its_tokens);
    tcase_add_test(tests, positions_start_again_with_each_sequence);
    tcase_add_loop_test(tests, the_loss_over_ranks_equals_that_of_the_whole_vocabulary, 0,
                        NUM_SPLITS);
    tcase_add_loop_test(tests, loss_gradients_are_as_accurate_as_plain_code_and_0_in_padding, 0,
                        NUM_SPLITS);
    tcase_add_test(tests, gradients_of_the_loss_equal_finite_differences);
    tcase_add_test(tests, tokens_without_target_have_no_loss_and_no_gradient);
    tcase_add_test(tests, gradients_may_overwrite_logits_and_repeat_bit_for_bit);
    tcase_add_test(tests, logits_of_a_thousand_do_not_overflow);
    suite_add_tcase(s, tests);
    return s;
}

TEST_MAIN(suite)
