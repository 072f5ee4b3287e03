/* Properties of the mixing matrices of gossip graphs, with numbers of Ying et al. 2021 and Chen et
 * al. 2021. The spectral gap is 1 - beta, where beta is the second singular value. */
#include "sim/exchange/mixing.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

enum { MOST = 64 };
struct matrix {
    int n;
    double at[MOST][MOST];
};

static struct matrix weights(enum mixing_graph graph, int n, int step)
{
    struct matrix w = { .n = n };
    for (int i = 0; i < n; i++) {
        struct mixing_peers peers = mixing_peers(graph, n, i, step);
        w.at[i][i] += peers.weight;
        for (int j = 0; j < peers.count; j++)
            w.at[i][peers.hears[j]] += peers.weight;
    }
    return w;
}

static struct matrix product(const struct matrix *a, const struct matrix *b)
{
    struct matrix c = { .n = a->n };
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < a->n; k++)
            for (int j = 0; j < a->n; j++)
                c.at[i][j] += a->at[i][k] * b->at[k][j];
    return c;
}

static struct matrix transposed(const struct matrix *a)
{
    struct matrix t = { .n = a->n };
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < a->n; j++)
            t.at[i][j] = a->at[j][i];
    return t;
}

/* Computes the second singular value in another way: it is the spectral norm of V = W - 11'/n,
 * found by repeated squaring of V'V. The trace of (V'V)^(2^k) is the sum of the singular values to
 * the power 2^(k+1). */
static double second_singular(struct matrix w)
{
    for (int i = 0; i < w.n; i++)
        for (int j = 0; j < w.n; j++)
            w.at[i][j] -= 1.0 / w.n;
    struct matrix t = transposed(&w);
    struct matrix power = product(&t, &w);
    double log_scale = 0, exponent = 2;
    for (int k = 0; k < 24; k++) {
        double trace = 0;
        for (int i = 0; i < w.n; i++)
            trace += power.at[i][i];
        if (trace < 1e-20)
            return 0;
        for (int i = 0; i < w.n; i++)
            for (int j = 0; j < w.n; j++)
                power.at[i][j] /= trace;
        log_scale += log(trace) / exponent;
        power = product(&power, &power);
        exponent *= 2;
    }
    return exp(log_scale);
}

START_TEST(weights_are_doubly_stochastic)
{
    static const int sizes[] = { 2, 3, 4, 6, 8, 9, 12, 16, 35, 64 };
    for (size_t s = 0; s < LENGTH(sizes); s++)
        for (int step = 0; step < mixing_cycle((enum mixing_graph)_i, sizes[s]); step++) {
            struct matrix w = weights((enum mixing_graph)_i, sizes[s], step);
            double worst = 0;
            for (int i = 0; i < w.n; i++) {
                double row = 0, column = 0;
                for (int j = 0; j < w.n; j++) {
                    row += w.at[i][j];
                    column += w.at[j][i];
                }
                worst = fmax(worst, fmax(fabs(row - 1), fabs(column - 1)));
            }
            ck_assert_double_lt(worst, 1e-15 * w.n);
        }
}
END_TEST

START_TEST(senders_and_receivers_of_a_graph_agree)
{
    for (int n = 2; n <= 20; n++)
        for (int rank = 0; rank < n; rank++) {
            struct mixing_peers own = mixing_peers((enum mixing_graph)_i, n, rank, 1);
            for (int i = 0; i < own.count; i++) {
                struct mixing_peers far = mixing_peers((enum mixing_graph)_i, n, own.hears[i], 1);
                ck_assert_int_eq(far.tells[i], rank);
            }
        }
}
END_TEST

START_TEST(the_second_singular_value_agrees_with_repeated_squaring)
{
    static const int sizes[] = { 2, 3, 5, 6, 8, 12, 16, 24 };
    for (size_t s = 0; s < LENGTH(sizes); s++) {
        int n = sizes[s];
        int cycle = mixing_cycle((enum mixing_graph)_i, n);
        struct matrix all = weights((enum mixing_graph)_i, n, 0);
        for (int step = 1; step < cycle; step++) {
            struct matrix next = weights((enum mixing_graph)_i, n, step);
            all = product(&next, &all);
        }
        double found = mixing_second_singular((enum mixing_graph)_i, n);
        ck_assert_double_eq_tol(pow(found, cycle), second_singular(all), 2e-7);
    }
}
END_TEST

/* The spectral gap of a ring of n ranks is (2/3)(1 - cos(2 pi / n)). It is compared with this
 * closed form and with the rounded values of a published table. */
START_TEST(the_spectral_gap_of_a_ring_equals_its_closed_form)
{
    static const struct {
        int n;
        double rounded, half_digit;
    } rings[] = {
        { 8, 0.195, 5e-4 }, { 16, 0.0507, 5e-5 }, { 32, 0.0128, 5e-5 }, { 64, 0.0032, 5e-5 }
    };
    for (size_t i = 0; i < LENGTH(rings); i++) {
        double gap = 1 - mixing_second_singular(MIXING_RING, rings[i].n);
        double closed = 2.0 / 3 * (1 - cos(2 * acos(-1) / rings[i].n));
        ck_assert_double_eq_tol(gap, closed, 1e-12);
        ck_assert_double_eq_tol(gap, rings[i].rounded, rings[i].half_digit);
    }
}
END_TEST

/* The spectral gap of an exponential graph is 2 / (1 + ceil(log2 n)) for even n (Ying et al. 2021,
 * theorem 1). */
START_TEST(the_spectral_gap_of_an_exponential_graph_equals_its_closed_form)
{
    for (int n = 2; n <= 1024; n += 2)
        ck_assert_double_eq_tol(1 - mixing_second_singular(MIXING_EXPONENTIAL, n),
                                2 / (1 + ceil(log2(n))), 1e-12);
}
END_TEST

START_TEST(one_peer_averages_exactly_after_log2_n_steps)
{
    for (int n = 2, steps = 1; n <= 64; n *= 2, steps++) {
        double values[MOST], next[MOST], sum = 0;
        for (int i = 0; i < n; i++)
            sum += values[i] = i * i % 7;
        for (int step = 0; step < steps; step++) {
            for (int i = 0; i < n; i++) {
                struct mixing_peers peers = mixing_peers(MIXING_ONE_PEER, n, i, step);
                ck_assert_int_eq(peers.count, 1);
                next[i] = peers.weight * (values[i] + values[peers.hears[0]]);
            }
            memcpy(values, next, sizeof values);
        }
        for (int i = 0; i < n; i++)
            ck_assert_double_eq(values[i], sum / n);
        ck_assert_double_eq(mixing_second_singular(MIXING_ONE_PEER, n), 0);
    }
}
END_TEST

START_TEST(a_grid_is_as_square_as_the_ranks_allow)
{
    ck_assert_int_eq(mixing_grid_rows(16), 4);
    ck_assert_int_eq(mixing_grid_rows(12), 3);
    ck_assert_int_eq(mixing_grid_rows(7), 1);
    struct mixing_peers peers = mixing_peers(MIXING_GRID, 12, 0, 0);
    ck_assert_int_eq(peers.count, 4);
    ck_assert_int_eq(mixing_peers(MIXING_GRID, 4, 0, 0).count, 2);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("mixing");
    tcase_add_loop_test(tc, weights_are_doubly_stochastic, 0, NUM_MIXING_GRAPHS);
    tcase_add_loop_test(tc, senders_and_receivers_of_a_graph_agree, 0, NUM_MIXING_GRAPHS);
    tcase_add_loop_test(tc, the_second_singular_value_agrees_with_repeated_squaring, 0,
                        NUM_MIXING_GRAPHS);
    tcase_add_test(tc, the_spectral_gap_of_a_ring_equals_its_closed_form);
    tcase_add_test(tc, the_spectral_gap_of_an_exponential_graph_equals_its_closed_form);
    tcase_add_test(tc, one_peer_averages_exactly_after_log2_n_steps);
    tcase_add_test(tc, a_grid_is_as_square_as_the_ranks_allow);
    Suite *s = suite_create("sim/exchange/mixing");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
