/* Tests packed documents: the work of attention within documents, and the waiting for ranks that
 * have more work. */
#include "tests/testing.h"

#include "base/normal.h"
#include "base/random.h"
#include "models/layer.h"
#include "sim/cost/packing.h"
#include "sim/engine/simulate.h"
#include "tests/check_ok.h"
#include "tests/sim/named.h"

#include <math.h>

/* --- hand calculations -------------------------------------------------------------------- */

/* Three documents of 2 tokens and one of 6 have the mean length 3. For their lengths l, sum l^2 /
 * sum l = (3 x 4 + 36)/12 = 4, and the k-th moment of l/3 is (3 (2/3)^k + 2^k)/4. In sequences of 8
 * tokens, a document of 14 tokens counts as one of 8 and one of 6. */
START_TEST(moments_equal_those_of_the_document_lengths)
{
    static const double lengths[] = { 2, 6 }, times[] = { 3, 1 }, longer[] = { 14 }, once[] = { 1 };
    struct documents d = documents_of_lengths(lengths, times, 2, 100);
    ck_assert_double_eq_tol(d.mean, 3, 1e-12);
    ck_assert_double_eq_tol(d.square, 4 / 3.0, 1e-12);
    ck_assert_double_eq_tol(d.cube, (3 * 8 / 27.0 + 8) / 4, 1e-12);
    ck_assert_double_eq_tol(d.fourth, (3 * 16 / 81.0 + 16) / 4, 1e-12);
    ck_assert_double_eq_tol(documents_attended(&d, 100), 4, 1e-12);
    ck_assert_double_eq(documents_attended(&d, 3), 3);
    d = documents_of_lengths(longer, once, 1, 8);
    ck_assert_double_eq(d.mean, 7);
    ck_assert_double_eq_tol(documents_attended(&d, 8), (64 + 36) / 14.0, 1e-12);
}
END_TEST

/* With a coefficient of variation of 1 the distribution of lengths is exponential, with the moments
 * k!. */
START_TEST(lengths_with_a_given_cv_are_gamma_distributed)
{
    struct documents d = documents_of_spread(8192, 1);
    ck_assert_double_eq(d.square, 2);
    ck_assert_double_eq(d.cube, 6);
    ck_assert_double_eq(d.fourth, 24);
    d = documents_of_spread(8192, 0);
    ck_assert_double_eq(documents_attended(&d, 131072), 8192);
    ck_assert_double_eq(documents_variance(&d, 131072), 0);
}
END_TEST

/* A block has the FLOPs of its products, and half of 4 s^2 h FLOPs of causal attention. With
 * documents of s/16 tokens, attention has a 16th of that. */
START_TEST(packed_documents_reduce_only_attention)
{
    struct model model = model_of("llama3-8b");
    model.seq = 131072;
    double attention = 3 * 4.0 * model.layers * model.hidden * model.seq * model.seq / 2;
    double whole = model_step_flops(&model, 1, model.seq);
    model.documents = documents_of_spread(model.seq, 0);
    ck_assert_double_eq(model_step_flops(&model, 1, model.seq), whole);
    model.documents = documents_of_spread(8192, 0);
    double packed = model_step_flops(&model, 1, model.seq);
    ck_assert_double_eq_tol((whole - packed) / attention, 15 / 16.0, 1e-9);
    model.documents = documents_of_spread(4096, 1);
    ck_assert_double_eq_tol(model_step_flops(&model, 1, model.seq) / packed, 1, 1e-12);
}
END_TEST

/* --- comparison with random draws --------------------------------------------------------- */

/* Draws a length: the mean of `shape` exponential draws, which has a gamma distribution of mean 1
 * and cv^2 = 1/shape. */
static double draw_gamma(struct random *rng, int shape)
{
    double sum = 0;
    for (int i = 0; i < shape; i++)
        sum -= log(1 - random_unit(rng));
    return sum / shape;
}

/* Attention work of `tokens` tokens that begin at a document's start: the sum of l^2/2, where the
 * end of the window cuts the last document. */
static double draw_work(struct random *rng, double mean, int shape, double tokens)
{
    double work = 0;
    while (tokens > 0) {
        double length = fmin(tokens, mean * draw_gamma(rng, shape));
        work += length * length / 2;
        tokens -= length;
    }
    return work;
}

/* Attention work of a window at a random position, far from the first document. */
static double draw_window(struct random *rng, double mean, int shape, double tokens)
{
    double at = -20 * mean, work = 0;
    while (at < tokens) {
        double length = mean * draw_gamma(rng, shape);
        double from = fmax(0, -at), to = fmin(length, tokens - at);
        if (to > from)
            work += (to * to - from * from) / 2;
        at += length;
    }
    return work;
}

static const struct {
    double tokens; /* length of the window in units of the mean length of documents */
    int shape;
} windows[] = { { 0.25, 1 }, { 1, 1 }, { 4, 1 }, { 16, 1 }, { 64, 1 }, { 2, 4 }, { 32, 4 } };

START_TEST(the_variance_formula_agrees_with_drawn_windows)
{
    enum { DRAWS = 2000 };
    struct random rng = random_new(7, (uint64_t)_i);
    double mean = 100, tokens = windows[_i].tokens * mean, sum = 0, squares = 0;
    struct documents d = documents_of_spread(mean, 1 / sqrt(windows[_i].shape));
    for (int i = 0; i < DRAWS; i++) {
        double work = draw_window(&rng, mean, windows[_i].shape, tokens);
        sum += work;
        squares += work * work;
    }
    double average = sum / DRAWS, deviation = sqrt(squares / DRAWS / average / average - 1);
    ck_assert_double_eq_tol(average / (tokens * mean * d.square / 2), 1, 0.05);
    ck_assert_double_eq_tol(sqrt(documents_variance(&d, tokens)) / deviation, 1, 0.12);
}
END_TEST

/* The waiting for the slowest data rank, in units of the mean work of a microbatch. A rank has m
 * microbatches with work w_j and a pipeline fill of f microbatches, so it takes sum of w_j + f max
 * w_j. The waiting is the time of the slowest rank divided by the mean of w, minus m + f. */
static double drawn_wait(struct random *rng, const struct packing *p, double mean, int shape,
                         double seq)
{
    enum { DRAWS = 80 };
    double sum = 0, works = 0, num_works = 0;
    for (int i = 0; i < DRAWS; i++) {
        double last = 0;
        for (int rank = 0; rank < p->data_ranks; rank++) {
            double total = 0, most = 0;
            for (int j = 0; j < p->microbatches; j++) {
                double work = draw_work(rng, mean, shape, seq);
                total += work;
                most = fmax(most, work);
            }
            works += total;
            num_works += p->microbatches;
            last = fmax(last, total + p->fill * most);
        }
        sum += last;
    }
    return sum / DRAWS / (works / num_works) - p->microbatches - p->fill;
}

static const struct {
    struct packing packing;
    int shape;
    double lengths; /* length of a sequence in units of the mean length of documents */
} meetings[] = {
    { { 1, 1, 64, 0, 1 }, 1, 64 },  { { 1, 8, 16, 0, 1 }, 1, 64 },  { { 1, 16, 1, 7, 1 }, 1, 64 },
    { { 1, 16, 16, 7, 1 }, 1, 64 }, { { 1, 1, 16, 7, 1 }, 1, 64 },  { { 1, 8, 32, 3, 1 }, 4, 32 },
    { { 1, 32, 8, 3, 1 }, 1, 128 }, { { 1, 8, 64, 15, 1 }, 4, 64 },
};

/* If ranks wait for each other and the pipeline fill waits for the slowest microbatch, the
 * predicted waiting may be up to a sixth too low. */
START_TEST(the_waiting_formula_agrees_with_drawn_ranks)
{
    struct random rng = random_new(11, (uint64_t)_i);
    struct model model = { .seq = 65536 };
    double mean = model.seq / meetings[_i].lengths;
    const struct packing *packing = &meetings[_i].packing;
    model.documents = documents_of_spread(mean, 1 / sqrt(meetings[_i].shape));
    double drawn = drawn_wait(&rng, packing, mean, meetings[_i].shape, model.seq);
    ck_assert_double_eq_tol(packing_wait(&model, packing) / drawn, 1, 0.2);
}
END_TEST

/* The work of a microbatch minus its mean of 1, at z standard deviations. Half of the work is
 * constant, half lognormal. */
static double above_mean(double deviation, double z)
{
    double s = sqrt(log(1 + 4 * deviation * deviation));
    return (exp(s * z - s * s / 2) - 1) / 2;
}

/* The time T of a rank with m microbatches and a fill of f has the mean m + f (1 + x) and the
 * variance d^2 (m + 2 f) + f^2 v^2, where 1 + x is the mean of its largest microbatch, d the
 * deviation of a microbatch and v that of the largest. The waiting is the expected T of the slowest
 * rank, minus m + f. */
START_TEST(waiting_satisfies_its_equations)
{
    struct model model = { .seq = 65536 };
    struct packing p = { 2, 12, 32, 5, 1 };
    model.documents = documents_of_spread(1024, 1);
    double d = sqrt(documents_variance(&model.documents, 65536) / 2);
    double x = above_mean(d, expected_maximum(12));
    double v = (above_mean(d, maximum_quantile(12, 0.841345)) -
                above_mean(d, maximum_quantile(12, 0.158655))) /
               2;
    double mean = 12 + 5 * (1 + x), deviation = sqrt(d * d * (12 + 2 * 5) + 25 * v * v);
    double wait = mean * (1 + above_mean(deviation / mean, expected_maximum(32))) - 12 - 5;
    ck_assert_double_eq_tol(packing_wait(&model, &p), wait, 1e-6 * wait);
    /* each of 2 context ranks holds two of 4 slices of both sequences; each of 4 holds two of 8 */
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        double variance = documents_variance(&model.documents, 65536.0 / (2 * ranks));
        double of_slices = 12 * above_mean(sqrt(variance / 4), expected_maximum(ranks));
        p.context_ranks = ranks;
        ck_assert_double_eq_tol(packing_wait(&model, &p), wait + of_slices, 1e-6 * wait);
    }
    /* the upper limit: the waiting if one document filled each sequence of the slowest rank */
    model.documents = documents_of_spread(60000, 1);
    p.data_ranks = 1e9;
    double most = 65536 / documents_attended(&model.documents, 65536) - 1;
    ck_assert_double_eq_tol(packing_wait(&model, &p), (12 + 5) * most, 1e-9);
}
END_TEST

/* --- a step ------------------------------------------------------------------------------- */

static struct prediction predict(const struct model *model, const char *layout)
{
    struct system system;
    struct arena arena = { 0 };
    struct err err = { 0 };
    check_ok(system_load("dgx-h100", "megatron-core", 64, &system, &err), &err);
    struct plan plan = plan_on(&system, model, layout, &arena);
    struct evaluator *evaluator = evaluator_new(&system, model);
    struct prediction prediction = evaluate(evaluator, &plan);
    prediction.stages = NULL;
    evaluator_free(evaluator);
    arena_release(&arena);
    system_release(&system);
    return prediction;
}

static double part_sum_s(const struct prediction *p)
{
    double sum_s = 0;
    for (int i = 0; i < num_time_parts; i++)
        sum_s += time_part_s(&p->time, i);
    return sum_s;
}

/* Equal documents only reduce attention. Unequal documents with the same attention work add
 * waiting, and more of it if keys are gathered and slices are cut by position. The parts sum to the
 * step in each case. */
START_TEST(a_step_contains_less_attention_and_more_waiting)
{
    struct model model = model_of("llama3-8b");
    model.seq = 131072;
    model.batch = 64;
    struct prediction whole = predict(&model, "tp2 cp4 pp2 mb1 sp zero1");
    model.documents = documents_of_spread(8192, 0);
    struct prediction equal = predict(&model, "tp2 cp4 pp2 mb1 sp zero1");
    model.documents = documents_of_spread(4096, 1);
    struct prediction unequal = predict(&model, "tp2 cp4 pp2 mb1 sp zero1");
    struct prediction by_place = predict(&model, "tp2 cp4 pp2 mb1 sp zero1 cp-comm=all-gather");
    ck_assert_double_lt(equal.step_s, 0.6 * whole.step_s);
    ck_assert_double_gt(unequal.time.other_s, 1.05 * equal.time.other_s);
    ck_assert_double_gt(by_place.time.other_s, 1.05 * unequal.time.other_s);
    ck_assert_double_eq_tol(unequal.time.compute_s / equal.time.compute_s, 1, 1e-9);
    ck_assert_double_eq_tol(part_sum_s(&unequal) / unequal.step_s, 1, 1e-9);
    ck_assert_double_eq_tol(unequal.mfu * unequal.step_s / (equal.mfu * equal.step_s), 1, 1e-9);
    model.documents = documents_of_spread(131072, 0);
    ck_assert_double_eq(predict(&model, "tp2 cp4 pp2 mb1 sp zero1").step_s, whole.step_s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("documents");
    TCase *tc = tcase_create("documents");
    tcase_add_test(tc, moments_equal_those_of_the_document_lengths);
    tcase_add_test(tc, lengths_with_a_given_cv_are_gamma_distributed);
    tcase_add_test(tc, packed_documents_reduce_only_attention);
    tcase_add_loop_test(tc, the_variance_formula_agrees_with_drawn_windows, 0, LENGTH(windows));
    tcase_add_test(tc, waiting_satisfies_its_equations);
    tcase_add_loop_test(tc, the_waiting_formula_agrees_with_drawn_ranks, 0, LENGTH(meetings));
    tcase_add_test(tc, a_step_contains_less_attention_and_more_waiting);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
