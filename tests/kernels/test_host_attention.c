#include "kernels/host/attention.h"
#include "tests/kernels/numeric.h"
#include "tests/kernels/reference.h"
#include "tests/testing.h"

#include <string.h>

static struct blas found[2];
static int num_found;
static struct numeric numeric;

static void find_blas(void)
{
    num_found = numeric_blas(found);
}

static void begin(void)
{
    numeric = numeric_begin(3);
}

static void end(void)
{
    numeric_end(&numeric);
}

/* All arrays of fused and unfused attention. */
struct attention_case {
    struct attention attention;
    long tokens, qkv_values, context_values, scores;
    float *qkv, *dcontext;
    float *context, *log_sums, *dqkv, *scratch; /* fused */
    float *probabilities, *dropped, *matrix;    /* unfused */
    uint8_t *keeps;
    double *qkv64, *context64, *row64;
};

static const struct attention_dropout dropout = {
    .dropout = 0.25,
    .draw = { .seed = 5, .step = 2, .layer = 1, .op = 3 },
    .first_sequence = 4,
    .first_head = 6,
    .model_heads = 24,
};

static struct attention_case attention_case(struct attention attention)
{
    struct attention_case c = {
        .attention = attention,
        .tokens = attention_tokens(&attention),
        .scores = attention_score_count(&attention),
    };
    c.qkv_values = c.tokens * attention_qkv_width(&attention);
    c.context_values = c.tokens * attention_context_width(&attention);
    c.qkv = numeric_floats(&numeric, c.qkv_values, 1);
    c.dcontext = numeric_floats(&numeric, c.context_values, 1);
    c.context = numeric_floats(&numeric, c.context_values, 1);
    c.log_sums = numeric_zeros(&numeric, c.tokens * attention.heads);
    c.dqkv = numeric_floats(&numeric, c.qkv_values, 1);
    c.scratch = numeric_floats(&numeric, flash_attention_scratch(&attention), 1);
    c.probabilities = numeric_zeros(&numeric, c.scores);
    c.dropped = numeric_zeros(&numeric, c.scores);
    c.matrix = numeric_zeros(&numeric, c.scores);
    c.keeps = ARENA_ARRAY(&numeric.arena, uint8_t, (size_t)c.scores);
    c.qkv64 = numeric_doubles(&numeric, c.qkv_values, c.qkv);
    c.context64 = ARENA_ARRAY(&numeric.arena, double, (size_t)c.context_values);
    c.row64 = ARENA_ARRAY(&numeric.arena, double, (size_t)(2 * attention.seq));
    return c;
}

static bool drops(const struct attention_case *c)
{
    return c->attention.dropout.dropout > 0;
}

static void run_fused(struct attention_case *c)
{
    flash_attention_forward(&c->attention, c->qkv, c->context, c->log_sums, c->scratch);
    flash_attention_backward(&c->attention, c->dcontext, c->qkv, c->context, c->log_sums, c->dqkv,
                             c->scratch);
}

static void run_unfused(struct attention_case *c)
{
    const struct attention *attention = &c->attention;
    const float *dropped = drops(c) ? c->dropped : c->probabilities;
    const uint8_t *keeps = drops(c) ? c->keeps : NULL;
    attention_scores(attention, c->qkv, c->probabilities);
    attention_softmax(attention, c->probabilities, c->probabilities, drops(c) ? c->keeps : NULL,
                      drops(c) ? c->dropped : NULL);
    attention_context(attention, dropped, c->qkv, c->context);
    attention_context_probability_gradient(attention, c->dcontext, c->qkv, c->matrix);
    attention_context_value_gradient(attention, c->dcontext, dropped, c->dqkv);
    attention_softmax_backward(attention, c->matrix, c->probabilities, keeps, c->matrix);
    attention_scores_query_gradient(attention, c->matrix, c->qkv, c->dqkv);
    attention_scores_key_gradient(attention, c->matrix, c->qkv, c->dqkv);
}

/* Draws dropout's mask from the definition in the header. */
static void find_keeps(struct attention_case *c)
{
    const struct attention *a = &c->attention;
    for (long row = 0; row < a->sequences * a->heads * a->seq; row++) {
        long sequence = row / a->seq / a->heads, head = row / a->seq % a->heads;
        long matrix = (a->dropout.first_sequence + sequence) * a->dropout.model_heads +
                      a->dropout.first_head + head;
        draw_keeps(&a->dropout.draw, a->dropout.dropout,
                   (uint64_t)((matrix * a->seq + row % a->seq) * a->seq), a->seq,
                   c->keeps + row * a->seq);
    }
}

/* The reference in double and the one in fp32 have different types of shapes, with the same
 * members. */
#define SHAPE_OF(c)                                                                 \
    {                                                                               \
        .sequences = (c)->attention.sequences, .seq = (c)->attention.seq,           \
        .heads = (c)->attention.heads, .kv_heads = (c)->attention.kv_heads,         \
        .head_dim = (c)->attention.head_dim, .keeps = drops(c) ? (c)->keeps : NULL, \
        .kept_scale = 4 / 3.0F                                                      \
    }

static double attention_value(const void *context)
{
    const struct attention_case *c = context;
    struct attention_shape_f64 shape = SHAPE_OF(c);
    shape.kept_scale = 1 / (1 - c->attention.dropout.dropout);
    attention_f64(&shape, c->qkv64, c->row64, c->context64);
    return numeric_weighted(c->context_values, c->dcontext, c->context64);
}

static void check_results(struct attention_case *c, const char *what)
{
    struct attention_shape_f64 shape64 = SHAPE_OF(c);
    struct attention_shape_f32 shape32 = SHAPE_OF(c);
    long rows = c->tokens, seq = c->attention.seq;
    float *context32 = numeric_zeros(&numeric, c->context_values);
    float *dqkv32 = numeric_zeros(&numeric, c->qkv_values), *row = numeric_zeros(&numeric, 2 * seq);
    double *dqkv64 = ARENA_ARRAY(&numeric.arena, double, (size_t)c->qkv_values);
    double *dcontext64 = numeric_doubles(&numeric, c->context_values, c->dcontext);
    shape64.kept_scale = 1 / (1 - c->attention.dropout.dropout);
    attention_value(c);
    attention_f32(&shape32, c->qkv, row, context32);
    attention_backward_f64(&shape64, c->qkv64, dcontext64, c->row64, c->row64 + seq, dqkv64);
    attention_backward_f32(&shape32, c->qkv, c->dcontext, row, row + seq, dqkv32);
    numeric_check(&numeric,
                  &(struct numeric_result){ what, rows, c->context_values / rows, c->context,
                                            c->context64, context32 },
                  1e-5);
    numeric_check(
        &numeric,
        &(struct numeric_result){ what, rows, c->qkv_values / rows, c->dqkv, dqkv64, dqkv32 },
        1e-5);
}

/* Sequences are shorter than a tile of 64, as long as one, or longer than several. */
static const struct attention large[] = {
    { .sequences = 29, .seq = 6, .heads = 2, .kv_heads = 1, .head_dim = 4 },
    { .sequences = 11, .seq = 7, .heads = 6, .kv_heads = 2, .head_dim = 3 },
    { .sequences = 1, .seq = 64, .heads = 1, .kv_heads = 1, .head_dim = 16 },
    { .sequences = 2, .seq = 131, .heads = 3, .kv_heads = 1, .head_dim = 8 },
    { .sequences = 1, .seq = 193, .heads = 4, .kv_heads = 2, .head_dim = 17 },
};
enum { NUM_LARGE = LENGTH(large) };

/* Returns the case with this number, out of all combinations of shape, implementation of products
 * (BLAS) and dropout. */
static struct attention varied(const struct attention *shapes, int index)
{
    struct attention attention = shapes[index / 4];
    attention.blas = &found[index % 2 < num_found ? index % 2 : 0];
    if (index / 2 % 2)
        attention.dropout = dropout;
    return attention;
}

START_TEST(fused_attention_is_as_accurate_as_plain_code)
{
    if (is_spared(_i, 2))
        return;
    struct attention_case c = attention_case(varied(large, _i));
    if (drops(&c))
        find_keeps(&c);
    run_fused(&c);
    check_results(&c, "fused");
}
END_TEST

START_TEST(unfused_attention_is_as_accurate_as_plain_code)
{
    if (is_spared(_i, 2))
        return;
    struct attention_case c = attention_case(varied(large, _i));
    run_unfused(&c);
    check_results(&c, "unfused");
}
END_TEST

static const struct attention small[] = {
    { .sequences = 1, .seq = 2, .heads = 1, .kv_heads = 1, .head_dim = 1 },
    { .sequences = 2, .seq = 5, .heads = 3, .kv_heads = 1, .head_dim = 2 },
    { .sequences = 1, .seq = 7, .heads = 4, .kv_heads = 2, .head_dim = 3 },
};
enum { NUM_SMALL = LENGTH(small) };

START_TEST(gradients_of_attention_equal_finite_differences)
{
    struct attention_case c = attention_case(varied(small, _i));
    struct numeric_function value = { attention_value, &c };
    run_unfused(&c); /* the reference uses the same dropout mask */
    numeric_check_gradient(&numeric, "unfused", value, c.qkv_values, c.qkv64, c.dqkv, 1e-5);
    run_fused(&c);
    numeric_check_gradient(&numeric, "fused", value, c.qkv_values, c.qkv64, c.dqkv, 1e-5);
}
END_TEST

START_TEST(log_sums_equal_those_of_the_scores)
{
    struct attention_case c = attention_case(varied(large, 4 * 3));
    double *p = ARENA_ARRAY(&numeric.arena, double, 131);
    struct attention_shape_f64 shape = SHAPE_OF(&c);
    run_fused(&c);
    attention_scores(&c.attention, c.qkv, c.matrix);
    for (long row = 0; row < 2 * 3 * 131; row++) {
        probabilities_f64(&shape, c.qkv64, row / 131 / 3, row / 131 % 3, row % 131, p);
        /* The probability of the first key is exp(score - log sum). */
        double score = (double)c.matrix[row * 131] / sqrt(8.0);
        ck_assert_double_eq_tol(score - (double)c.log_sums[row], log(p[0]), 1e-5);
    }
}
END_TEST

START_TEST(attention_repeats_bit_for_bit)
{
    struct attention_case c = attention_case(varied(large, _i));
    run_fused(&c);
    struct attention_case again = c;
    again.context = numeric_zeros(&numeric, c.context_values);
    again.dqkv = numeric_zeros(&numeric, c.qkv_values);
    again.scratch = numeric_zeros(&numeric, flash_attention_scratch(&c.attention));
    run_fused(&again);
    numeric_check_same(&numeric, "context", c.context_values, again.context, c.context);
    numeric_check_same(&numeric, "dqkv", c.qkv_values, again.dqkv, c.dqkv);
}
END_TEST

/* Copies one group's columns of [tokens, groups, width] to [tokens, width]. */
static void copy_group(long tokens, long groups, long group, long width, const float *from,
                       float *to)
{
    for (long token = 0; token < tokens; token++)
        memcpy(to + token * width, from + (token * groups + group) * width,
               sizeof *to * (size_t)width);
}

/* A tensor rank has some of the groups of heads. Its results, with dropout, equal the corresponding
 * part of the whole result. */
START_TEST(a_rank_with_one_group_of_heads_computes_its_share)
{
    struct attention_case whole = attention_case(varied(large, 4 * 4 + 2));
    struct attention share = whole.attention;
    share.heads = 2, share.kv_heads = 1, share.dropout.first_head += 2;
    struct attention_case rank = attention_case(share);
    long tokens = whole.tokens;
    float *expected = numeric_zeros(&numeric, rank.qkv_values);
    copy_group(tokens, 2, 1, attention_qkv_width(&share), whole.qkv, rank.qkv);
    copy_group(tokens, 2, 1, attention_context_width(&share), whole.dcontext, rank.dcontext);
    run_fused(&whole);
    run_fused(&rank);
    copy_group(tokens, 2, 1, attention_context_width(&share), whole.context, expected);
    numeric_check_near(&numeric, "context", rank.context_values, rank.context, expected, 1e-5);
    copy_group(tokens, 2, 1, attention_qkv_width(&share), whole.dqkv, expected);
    numeric_check_near(&numeric, "dqkv", rank.qkv_values, rank.dqkv, expected, 1e-5);
}
END_TEST

START_TEST(sequences_of_a_microbatch_are_independent)
{
    struct attention_case both = attention_case(varied(large, 4 * 3 + 2));
    struct attention second = both.attention;
    second.sequences = 1, second.dropout.first_sequence++;
    struct attention_case alone = attention_case(second);
    alone.qkv = both.qkv + alone.qkv_values;
    alone.dcontext = both.dcontext + alone.context_values;
    run_fused(&both);
    run_fused(&alone);
    numeric_check_same(&numeric, "context", alone.context_values, alone.context,
                       both.context + alone.context_values);
    numeric_check_same(&numeric, "dqkv", alone.qkv_values, alone.dqkv,
                       both.dqkv + alone.qkv_values);
}
END_TEST

/* The exact gradients of query and key are 0, so their errors cannot be compared with those of
 * plain code. */
START_TEST(attention_of_a_single_token_returns_its_value)
{
    struct attention attention = { 3, 1, 4, 2, 5, .blas = &own_blas };
    struct attention_case c = attention_case(attention);
    run_fused(&c);
    for (long i = 0; i < c.context_values; i++) {
        long token = i / 20, group = i / 10 % 2, part = i / 5 % 2, d = i % 5;
        long at = (token * 2 + group) * 20; /* offset of a group of two queries, a key, a value */
        ck_assert(c.context[i] == c.qkv[at + 15 + d]);
        ck_assert_double_le(fabs((double)c.dqkv[at + 5 * part + d]), 1e-5);
        ck_assert_double_le(fabs((double)c.dqkv[at + 10 + d]), 1e-5);
    }
}
END_TEST

START_TEST(scores_as_large_as_a_thousand_do_not_overflow)
{
    struct attention_case c = attention_case(varied(large, 4 * 3));
    for (long i = 0; i < c.qkv_values; i++)
        c.qkv[i] *= 16;
    c.qkv64 = numeric_doubles(&numeric, c.qkv_values, c.qkv);
    run_fused(&c);
    attention_value(&c);
    for (long i = 0; i < c.context_values; i++)
        ck_assert_double_le(fabs((double)c.context[i] - c.context64[i]), 0.05);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("host_attention");
    TCase *tests = tcase_create("host_attention");
    tcase_add_unchecked_fixture(tests, find_blas, NULL);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_loop_test(tests, fused_attention_is_as_accurate_as_plain_code, 0, 4 * NUM_LARGE);
    tcase_add_loop_test(tests, unfused_attention_is_as_accurate_as_plain_code, 0, 4 * NUM_LARGE);
    tcase_add_loop_test(tests, gradients_of_attention_equal_finite_differences, 0, 4 * NUM_SMALL);
    tcase_add_test(tests, log_sums_equal_those_of_the_scores);
    tcase_add_loop_test(tests, attention_repeats_bit_for_bit, 0, 4 * NUM_LARGE);
    tcase_add_test(tests, a_rank_with_one_group_of_heads_computes_its_share);
    tcase_add_test(tests, sequences_of_a_microbatch_are_independent);
    tcase_add_test(tests, attention_of_a_single_token_returns_its_value);
    tcase_add_test(tests, scores_as_large_as_a_thousand_do_not_overflow);
    suite_add_tcase(s, tests);
    return s;
}

TEST_MAIN(suite)
