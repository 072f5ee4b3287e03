#include "base/parallel.h"
#include "kernels/host/linear.h"
#include "tests/kernels/numeric.h"
#include "tests/kernels/reference.h"
#include "tests/testing.h"

#include <math.h>

static struct blas found[2];
static int num_found;

static void find_blas(void)
{
    num_found = numeric_blas(found);
}

static struct numeric numeric;

static void begin(void)
{
    numeric = numeric_begin(1);
}

static void end(void)
{
    numeric_end(&numeric);
}

/* Sizes that do not fit tiles of 6 x 16 and blocks of 128. */
static const struct {
    long m, n, k;
} sizes[] = {
    { 1, 5, 1 }, { 1, 17, 3 }, { 7, 1, 129 }, { 5, 16, 128 }, { 6, 131, 257 }, { 61, 67, 71 },
};
enum { NUM_SIZES = LENGTH(sizes) };

/* --- products --------------------------------------------------------------------------------- */

/* The operands of a product, with GAP unused columns between rows. */
enum { GAP = 3 };

static struct product random_product(long m, long n, long k, bool a_is_transposed,
                                     bool b_is_transposed)
{
    struct product p = {
        .m = m,
        .n = n,
        .k = k,
        .a_is_transposed = a_is_transposed,
        .b_is_transposed = b_is_transposed,
        .alpha = 0.75F,
        .beta = -0.5F,
        .a_stride = (a_is_transposed ? m : k) + GAP,
        .b_stride = (b_is_transposed ? k : n) + GAP,
        .c_stride = n + GAP,
    };
    p.a = numeric_floats(&numeric, (a_is_transposed ? k : m) * p.a_stride, 1);
    p.b = numeric_floats(&numeric, (b_is_transposed ? n : k) * p.b_stride, 1);
    p.c = numeric_floats(&numeric, m * p.c_stride, 1);
    return p;
}

static float a_of(const struct product *p, long i, long l)
{
    return p->a[p->a_is_transposed ? l * p->a_stride + i : i * p->a_stride + l];
}

static float b_of(const struct product *p, long l, long j)
{
    return p->b[p->b_is_transposed ? j * p->b_stride + l : l * p->b_stride + j];
}

/* The expected c, in double and in plain fp32. The product must not change the gaps between rows of
 * c. */
static void plain_product(const struct product *p, double *reference, float *plain)
{
    for (long at = 0; at < p->m * p->c_stride; at++) {
        long i = at / p->c_stride, j = at % p->c_stride;
        double sum = 0;
        float plain_sum = 0;
        for (long l = 0; l < p->k && j < p->n; l++) {
            sum += (double)a_of(p, i, l) * (double)b_of(p, l, j);
            plain_sum += a_of(p, i, l) * b_of(p, l, j);
        }
        double c = (double)p->c[at], beta = j < p->n ? (double)p->beta : 1;
        reference[at] = (double)p->alpha * sum + beta * c;
        plain[at] = p->alpha * plain_sum + (float)beta * p->c[at];
    }
}

static void check_product(const struct blas *blas, struct product p)
{
    long n = p.m * p.c_stride;
    double *reference = ARENA_ARRAY(&numeric.arena, double, (size_t)n);
    float *plain = numeric_zeros(&numeric, n), *again = numeric_copy(&numeric, n, p.c);
    plain_product(&p, reference, plain);
    blas->product(blas, &p);
    numeric_check(&numeric,
                  &(struct numeric_result){ blas->name, p.m, p.c_stride, p.c, reference, plain },
                  1e-5);
    float *first = p.c;
    p.c = again;
    blas->product(blas, &p);
    numeric_check_same(&numeric, "the product again", n, again, first);
}

START_TEST(products_agree_with_plain_loops_and_repeat_bit_for_bit)
{
    for (int i = 0; i < num_found; i++)
        for (int form = 0; form < 4; form++)
            check_product(&found[i], random_product(sizes[_i].m, sizes[_i].n, sizes[_i].k, form & 1,
                                                    form >> 1));
}
END_TEST

START_TEST(with_beta_0_the_old_output_does_not_matter)
{
    for (int i = 0; i < num_found; i++) {
        struct product p = random_product(7, 19, 5, false, true);
        float *clean = numeric_zeros(&numeric, p.m * p.c_stride);
        p.beta = 0;
        for (long at = 0; at < p.m * p.c_stride; at++)
            p.c[at] = at % p.c_stride < p.n ? NAN : 0;
        found[i].product(&found[i], &p);
        float *over_nan = p.c;
        p.c = clean;
        found[i].product(&found[i], &p);
        numeric_check_same(&numeric, "over NaN", p.m * p.c_stride, over_nan, clean);
    }
}
END_TEST

START_TEST(infinities_and_nan_propagate)
{
    for (int i = 0; i < num_found; i++) {
        struct product p = random_product(9, 33, 20, false, false);
        float *a = numeric_copy(&numeric, 9 * p.a_stride, p.a);
        a[2 * p.a_stride + 4] = INFINITY;
        a[7 * p.a_stride] = NAN;
        p.a = a;
        found[i].product(&found[i], &p);
        for (long row = 0; row < 9; row++)
            for (long j = 0; j < 33; j++)
                ck_assert(isfinite(p.c[row * p.c_stride + j]) == (row != 2 && row != 7));
    }
}
END_TEST

/* Several threads of one process, as ranks are in tests, compute products at the same time. */
enum { RANKS = 4, SIZE = 150 };

struct ranks {
    const struct blas *blas;
    struct product of[RANKS];
};

static void multiply(void *context, size_t rank, int worker)
{
    struct ranks *ranks = context;
    (void)worker;
    ranks->blas->product(ranks->blas, &ranks->of[rank]);
}

START_TEST(ranks_that_multiply_at_the_same_time_do_not_interfere)
{
    for (int i = 0; i < num_found; i++) {
        struct ranks ranks = { .blas = &found[i] };
        float *alone[RANKS];
        for (int rank = 0; rank < RANKS; rank++) {
            ranks.of[rank] = random_product(SIZE, SIZE, SIZE, false, true);
            struct product copy = ranks.of[rank];
            copy.c = alone[rank] = numeric_copy(&numeric, SIZE * copy.c_stride, copy.c);
            found[i].product(&found[i], &copy);
        }
        parallel_for(RANKS, RANKS, 1, multiply, &ranks);
        for (int rank = 0; rank < RANKS; rank++)
            numeric_check_same(&numeric, found[i].name, SIZE * ranks.of[rank].c_stride,
                               ranks.of[rank].c, alone[rank]);
    }
}
END_TEST

/* --- the linear layer ------------------------------------------------------------------------- */

/* The sum of outputs times fixed weights, as a function of x, weight and bias in double. */
struct linear_case {
    long rows, out, in;
    float *dy;
    double *x, *weight, *bias, *y;
};

static double linear_value(const void *context)
{
    const struct linear_case *c = context;
    linear_f64(c->rows, c->out, c->in, c->x, c->weight, c->bias, c->y);
    return numeric_weighted(c->rows * c->out, c->dy, c->y);
}

static void check_linear(const struct blas *blas, long rows, long out, long in)
{
    struct linear linear = { rows, out, in, blas };
    float *x = numeric_floats(&numeric, rows * in, 1), *dx = numeric_zeros(&numeric, rows * in);
    float *weight = numeric_floats(&numeric, out * in, 1), *bias = numeric_floats(&numeric, out, 1);
    float *y = numeric_zeros(&numeric, rows * out), *plain = numeric_zeros(&numeric, rows * out);
    float *dweight = numeric_zeros(&numeric, out * in), *dbias = numeric_zeros(&numeric, out);
    struct linear_case c = { .rows = rows,
                             .out = out,
                             .in = in,
                             .dy = numeric_floats(&numeric, rows * out, 1),
                             .x = numeric_doubles(&numeric, rows * in, x),
                             .weight = numeric_doubles(&numeric, out * in, weight),
                             .bias = numeric_doubles(&numeric, out, bias),
                             .y = ARENA_ARRAY(&numeric.arena, double, (size_t)(rows * out)) };
    struct numeric_function value = { linear_value, &c };
    linear_forward(&linear, x, weight, bias, y);
    linear_f32(rows, out, in, x, weight, bias, plain);
    linear_value(&c);
    numeric_check(&numeric, &(struct numeric_result){ "linear", rows, out, y, c.y, plain }, 1e-5);
    linear_input_gradient(&linear, c.dy, weight, dx);
    linear_weight_gradient(&linear, c.dy, x, dweight);
    linear_bias_gradient(rows, out, c.dy, dbias);
    numeric_check_gradient(&numeric, "dx", value, rows * in, c.x, dx, 1e-5);
    numeric_check_gradient(&numeric, "dweight", value, out * in, c.weight, dweight, 1e-5);
    numeric_check_gradient(&numeric, "dbias", value, out, c.bias, dbias, 1e-5);
}

START_TEST(gradients_of_a_linear_layer_equal_finite_differences)
{
    static const struct {
        long rows, out, in;
    } shapes[] = { { 1, 5, 1 }, { 3, 7, 5 }, { 13, 1, 4 }, { 1, 11, 2 }, { 8, 17, 6 } };
    for (int i = 0; i < num_found; i++)
        check_linear(&found[i], shapes[_i].rows, shapes[_i].out, shapes[_i].in);
}
END_TEST

START_TEST(weight_gradients_are_added_to_the_present_values)
{
    enum { ROWS = 5, OUT = 3, IN = 4 };
    struct linear linear = { ROWS, OUT, IN, &own_blas };
    float *x = numeric_floats(&numeric, ROWS * IN, 1),
          *dy = numeric_floats(&numeric, ROWS * OUT, 1);
    float once[OUT * IN] = { 0 }, twice[OUT * IN] = { 0 }, bias_once[OUT] = { 0 },
                     bias_twice[OUT] = { 0 };
    linear_weight_gradient(&linear, dy, x, once);
    linear_bias_gradient(ROWS, OUT, dy, bias_once);
    for (int i = 0; i < 2; i++) {
        linear_weight_gradient(&linear, dy, x, twice);
        linear_bias_gradient(ROWS, OUT, dy, bias_twice);
    }
    for (int i = 0; i < OUT * IN; i++)
        once[i] *= 2;
    for (int i = 0; i < OUT; i++)
        bias_once[i] *= 2;
    numeric_check_near(&numeric, "dweight", OUT * IN, twice, once, 1e-6);
    numeric_check_near(&numeric, "dbias", OUT, bias_twice, bias_once, 1e-6);
}
END_TEST

START_TEST(without_bias_nothing_is_added)
{
    enum { ROWS = 5, OUT = 3, IN = 4 };
    struct linear linear = { ROWS, OUT, IN, &own_blas };
    float zeros[OUT] = { 0 }, with[ROWS * OUT], without[ROWS * OUT];
    float *x = numeric_floats(&numeric, ROWS * IN, 1);
    float *weight = numeric_floats(&numeric, OUT * IN, 1);
    linear_forward(&linear, x, weight, zeros, with);
    linear_forward(&linear, x, weight, NULL, without);
    numeric_check_same(&numeric, "y", ROWS * OUT, without, with);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("host_linear");
    TCase *tests = tcase_create("host_linear");
    tcase_add_unchecked_fixture(tests, find_blas, NULL);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_loop_test(tests, products_agree_with_plain_loops_and_repeat_bit_for_bit, 0,
                        NUM_SIZES);
    tcase_add_test(tests, with_beta_0_the_old_output_does_not_matter);
    tcase_add_test(tests, infinities_and_nan_propagate);
    tcase_add_loop_test(tests, gradients_of_a_linear_layer_equal_finite_differences, 0, 5);
    tcase_add_test(tests, weight_gradients_are_added_to_the_present_values);
    tcase_add_test(tests, without_bias_nothing_is_added);
    suite_add_tcase(s, tests);
    TCase *threads = tcase_create("threads");
    tcase_set_tags(threads, THREADS);
    tcase_add_unchecked_fixture(threads, find_blas, NULL);
    tcase_add_checked_fixture(threads, begin, end);
    tcase_add_test(threads, ranks_that_multiply_at_the_same_time_do_not_interfere);
    suite_add_tcase(s, threads);
    return s;
}

TEST_MAIN(suite)
