#include "sim/campaign/convergence_file.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct exchange_tensor tensor = { 1000, 1000, 1 };
static const struct exchange_load load = { &tensor, 1, 4 };
static const struct convergence shuffled = { 1, 1, 0 }, apart = { 1, 1, 1 };

static struct exchange parsed(const char *text)
{
    struct exchange exchange;
    struct err err = { 0 };
    ck_assert_msg(exchange_read(text, &exchange, &err), "%s", err.msg);
    return exchange;
}

static double transient(const struct convergence *convergence, const char *text, int num_ranks)
{
    struct exchange exchange = parsed(text);
    struct exchange_use use = exchange_use_of(&exchange, &load, num_ranks);
    return convergence_transient_steps(convergence, &use);
}

static double steps(const char *text, int num_ranks)
{
    struct exchange exchange = parsed(text);
    struct exchange_use use = exchange_use_of(&exchange, &load, num_ranks);
    return convergence_steps(&shuffled, &use, 1000);
}

/* --- exact methods, and limits ------------------------------------------------------------ */

START_TEST(steps_are_inversely_proportional_to_ranks)
{
    ck_assert_double_eq(convergence_steps_to(10, 0.1, 4), 2500);
    ck_assert_double_eq(convergence_steps_to(10, 0.1, 8), 1250);
    ck_assert_double_eq(convergence_steps_to(10, 0.05, 8), 5000);
    ck_assert_double_eq(convergence_steps_to(20, 0.1, 8), 5000);
}
END_TEST

START_TEST(exact_methods_need_the_steps_of_all_reduce)
{
    static const char *const exact[] = {
        "allreduce",  "ring",  "tree",  "ps:2",   "hierarchical",
        "local:1",    "pga:1", "aga:1", "topk:1", "topk:1:memory=off",
        "neolithic:1"
    };
    for (int i = 0; i < LENGTH(exact); i++)
        ck_assert_double_eq(steps(exact[i], 16), 1000);
    /* EF21 has no linear speed-up in the number of ranks */
    ck_assert_double_eq(steps("ef21:1", 16), 16000);
}
END_TEST

START_TEST(one_rank_has_no_transient)
{
    for (int i = 0; i < num_exchange_methods; i++)
        ck_assert_double_eq(steps(exchange_methods[i].tried, 1), 1000);
}
END_TEST

/* Gossip over three ranks in a ring, or between two ranks, averages exactly, so beta is 0. */
START_TEST(a_graph_that_averages_exactly_has_no_transient)
{
    ck_assert_double_eq_tol(transient(&apart, "gossip:ring", 3), 0, 1e-9);
    ck_assert_double_eq_tol(transient(&apart, "gossip:exp", 2), 0, 1e-9);
    ck_assert_double_eq_tol(transient(&apart, "pga:8:graph=ring", 3), 0, 1e-9);
}
END_TEST

/* --- orders ------------------------------------------------------------------------------- */

/* A transient is the number of steps after which an exchange converges as fast as all-reduce. The
 * powers are those of Chen et al. 2021, abstract and table 2. If ranks have different data,
 * transients are proportional to beta^4 n^3 / (1-beta)^4 for gossip on n ranks with second singular
 * value beta, and to n^3 H^4 for Local SGD with period H. If data do not differ, the powers 4
 * become 2. */
START_TEST(transients_equal_the_theorems)
{
    double beta = mixing_second_singular(MIXING_RING, 16), n3 = pow(16, 3);
    ck_assert_double_eq_tol(transient(&apart, "gossip:ring", 16), n3 * pow(beta / (1 - beta), 4),
                            1e-3);
    ck_assert_double_eq_tol(transient(&shuffled, "gossip:ring", 16),
                            n3 * pow(beta, 4) / pow(1 - beta, 2), 1e-3);
    ck_assert_double_eq(transient(&apart, "local:8", 16), n3 * pow(8, 4));
    ck_assert_double_eq(transient(&shuffled, "local:8", 16), n3 * pow(8, 2));
}
END_TEST

static const struct convergence *const both[] = { &shuffled, &apart };

/* Computes the exponent of a power law from its values at x and `times` x. */
static double exponent(double low, double high, double times)
{
    return log(high / low) / log(times);
}

START_TEST(local_sgd_scales_as_n_cubed_and_as_h_to_its_power)
{
    double powers[] = { 2, 4 };
    const struct convergence *convergence = both[_i];
    double at = transient(convergence, "local:8", 16);
    ck_assert_double_eq_tol(exponent(at, transient(convergence, "local:8", 64), 4), 3, 1e-9);
    ck_assert_double_eq_tol(exponent(at, transient(convergence, "local:32", 16), 4), powers[_i],
                            1e-9);
}
END_TEST

/* For large rings 1 - beta is 4 pi^2 / (3 n^2), so n^3 becomes n^7 for shuffled data and n^11 for
 * other data. For exponential graphs it is 2 / (1 + log2 n), so the transient stays near n^3. */
START_TEST(gossip_transients_scale_with_the_graphs_spectral_gap)
{
    double powers[] = { 7, 11 };
    const struct convergence *convergence = both[_i];
    double ring = exponent(transient(convergence, "gossip:ring", 256),
                           transient(convergence, "gossip:ring", 1024), 4);
    double exponential = exponent(transient(convergence, "gossip:exp", 256),
                                  transient(convergence, "gossip:exp", 1024), 4);
    ck_assert_double_eq_tol(ring, powers[_i], 0.05);
    ck_assert(exponential > 3 && exponential < 4.2);
}
END_TEST

/* Gossip that averages over all ranks every H steps. If H is much larger than 1 / (1 - beta), the
 * averages change nothing; if it is much smaller, the transient is proportional to n^3 beta^4 H^2,
 * or H^4 if data differ. */
START_TEST(a_period_limits_the_transient_of_a_graph)
{
    double powers[] = { 2, 4 };
    const struct convergence *convergence = both[_i];
    double gossip = transient(convergence, "gossip:ring", 64);
    double beta = mixing_second_singular(MIXING_RING, 64);
    ck_assert_double_eq_tol(transient(convergence, "pga:16777216:graph=ring", 64) / gossip, 1,
                            1e-9);
    double two = transient(convergence, "pga:2:graph=ring", 64);
    ck_assert_double_eq_tol(two / (pow(64, 3) * pow(beta, 4) * pow(2, powers[_i])), 1, 0.01);
    ck_assert_double_lt(transient(convergence, "pga:4:graph=ring", 64),
                        transient(convergence, "local:4", 64));
    double before = 0;
    for (int period = 1; period <= 512; period *= 2) {
        char text[64];
        snprintf(text, sizeof text, "pga:%d:graph=ring", period);
        double now = transient(convergence, text, 64);
        ck_assert_double_ge(now, before);
        ck_assert_double_le(now, gossip);
        before = now;
    }
}
END_TEST

START_TEST(denser_graphs_and_fewer_ranks_have_shorter_transients)
{
    const struct convergence *convergence = both[_i];
    ck_assert_double_lt(transient(convergence, "gossip:exp", 64),
                        transient(convergence, "gossip:grid", 64));
    ck_assert_double_lt(transient(convergence, "gossip:grid", 64),
                        transient(convergence, "gossip:ring", 64));
    ck_assert_double_eq(transient(convergence, "gossip:one-peer", 64),
                        transient(convergence, "gossip:exp", 64));
    ck_assert_double_lt(transient(convergence, "gossip:exp", 32),
                        transient(convergence, "gossip:exp", 64));
    ck_assert_double_lt(transient(convergence, "gossip:exp:group=8", 64),
                        transient(convergence, "gossip:exp", 64));
}
END_TEST

/* If half of the data is shuffled, the disagreement of ranks is the mean of their disagreements
 * with shuffled and with unshuffled data. */
START_TEST(heterogeneity_interpolates_between_the_two_orders)
{
    const struct convergence half = { 1, 1, 0.5 };
    double low = sqrt(transient(&shuffled, "gossip:ring", 32));
    double high = sqrt(transient(&apart, "gossip:ring", 32));
    ck_assert_double_eq_tol(sqrt(transient(&half, "gossip:ring", 32)) / ((low + high) / 2), 1,
                            1e-12);
}
END_TEST

/* --- compression -------------------------------------------------------------------------- */

/* A compressor leaves at most the share 1 - delta of the squared norm uncompressed. With delta =
 * 0.1 on 4 ranks the transient is 4^3 x 0.81 / 1e-4. Two rounds leave 0.9^2 = 0.81 of the norm
 * uncompressed, so their delta is 0.19. */
START_TEST(unbiased_compression_adds_noise_and_error_feedback_a_transient)
{
    ck_assert_double_eq_tol(transient(&shuffled, "topk:0.1", 4), 64 * 0.81 / 1e-4, 1e-3);
    ck_assert_double_eq_tol(transient(&shuffled, "neolithic:0.1", 4), 4 * pow(0.81 / 0.19, 2),
                            1e-6);
    ck_assert_double_eq_tol(steps("qsgd:4", 4), 1000 * (1 + sqrt(512) / 7), 1e-6);
    ck_assert_double_eq_tol(steps("ef21:0.1", 4), 1000 * 4 / 1e-3, 1e-3);
    ck_assert(isinf(steps("topk:0.1:memory=off", 4)));
}
END_TEST

/* For small delta the transients are proportional to n^3 / delta^4 for top-k, n / delta^2 for
 * Neolithic and n / delta^3 for EF21. */
START_TEST(compression_transients_scale_as_published)
{
    double topk = transient(&shuffled, "topk:0.001", 8);
    double rounds = transient(&shuffled, "neolithic:0.001:rounds=1", 8);
    double ef21 = steps("ef21:0.001", 8);
    ck_assert_double_eq_tol(exponent(transient(&shuffled, "topk:0.004", 8), topk, 4), 4, 0.01);
    ck_assert_double_eq_tol(exponent(topk, transient(&shuffled, "topk:0.001", 32), 4), 3, 1e-9);
    ck_assert_double_eq_tol(
        exponent(transient(&shuffled, "neolithic:0.004:rounds=1", 8), rounds, 4), 2, 0.01);
    ck_assert_double_eq_tol(
        exponent(rounds, transient(&shuffled, "neolithic:0.001:rounds=1", 32), 4), 1, 1e-9);
    ck_assert_double_eq_tol(exponent(steps("ef21:0.004", 8), ef21, 4), 3, 1e-6);
    ck_assert_double_eq_tol(exponent(ef21, steps("ef21:0.001", 32), 4), 1, 1e-9);
}
END_TEST

/* omega is the relative variance that a quantiser adds. For s levels in buckets of 512 it is 512 /
 * s^2 if there are many levels, so two more bits (four times the levels) reduce it to a sixteenth.
 * The differences between ranks' gradients add to the noise of a compressor. */
START_TEST(a_quantiser_multiplies_the_noise_by_1_plus_omega)
{
    double eight = steps("qsgd:8", 4) - 1000, ten = steps("qsgd:10", 4) - 1000;
    ck_assert_double_eq_tol(eight, 1000 * 512 / pow(127, 2), 1e-6);
    ck_assert_double_eq_tol(eight / ten, pow(511.0 / 127, 2), 1e-6);
    struct exchange exchange = parsed("qsgd:8");
    struct exchange_use use = exchange_use_of(&exchange, &load, 4);
    const struct convergence half = { 1, 1, 0.5 };
    ck_assert_double_eq_tol(convergence_noise_factor(&half, &use), 1 + 2 * eight / 1000, 1e-12);
}
END_TEST

/* --- published runs ----------------------------------------------------------------------- */

/* With one-peer graphs over 32 nodes beta is 2/3, so the transient is (2/3)^4 3^2 = 16/9 times
 * 32^3. */
START_TEST(the_published_transient_is_that_of_imagenet_on_32_nodes)
{
    ck_assert_double_eq_tol(transient(&shuffled, "gossip:one-peer", 32), 58254, 1);
    ck_assert_double_eq_tol(transient(&convergence_published, "gossip:one-peer", 32), 14074, 1);
}
END_TEST

/* --- sources of step counts --------------------------------------------------------------- */

static struct steps_outlook outlook(const struct convergence *convergence, const char *text,
                                    int num_ranks, double all_reduce_steps)
{
    struct exchange exchange = parsed(text);
    struct exchange_use use = exchange_use_of(&exchange, &load, num_ranks);
    return convergence_outlook(convergence, &use, all_reduce_steps);
}

/* Whether the number of steps comes from a published run (STEPS_PUBLISHED), or only from the bound
 * of the theory (STEPS_BOUND). The published ImageNet run on 256 GPUs has exactly as many steps as
 * the transient of one-peer graphs over its 32 nodes; a run with one step less is too short. No run
 * is known for a ring of 256 ranks, or for EF21. For low-rank compression, the published run has
 * rank 4 for 650 columns; of 1000 columns rank 7 is a larger share, and rank 6 a smaller one. */
static const struct {
    const char *text;
    int num_ranks;
    double all_reduce_steps;
    enum steps_basis basis;
} known[] = {
    { "allreduce", 256, 14074, STEPS_EXACT },
    { "hierarchical", 256, 14074, STEPS_EXACT },
    { "ps:2", 256, 14074, STEPS_EXACT },
    { "local:1", 256, 14074, STEPS_EXACT },
    { "gossip:one-peer:group=8", 256, 14074, STEPS_PUBLISHED },
    { "gossip:one-peer:group=8", 256, 14073, STEPS_BOUND },
    { "gossip:one-peer", 256, 14074, STEPS_BOUND },
    { "gossip:ring", 8, 14074, STEPS_PUBLISHED },
    { "gossip:ring", 256, 300e3, STEPS_BOUND },
    { "local:8", 8, 7000, STEPS_BOUND },
    { "local:8", 8, 8000, STEPS_PUBLISHED },
    { "topk:0.05", 8, 19600, STEPS_PUBLISHED },
    { "topk:0.01", 8, 19600, STEPS_BOUND },
    { "qsgd:4", 16, 1000, STEPS_PUBLISHED },
    { "qsgd:3", 16, 1000, STEPS_BOUND },
    { "qsgd:4", 32, 1000, STEPS_BOUND },
    { "powersgd:7", 16, 1000, STEPS_PUBLISHED },
    { "powersgd:6", 16, 1000, STEPS_BOUND },
    { "powersgd:7:memory=off", 16, 1000, STEPS_BOUND },
    { "ef21:0.01", 8, 14074, STEPS_BOUND },
    { "async", 8, 14074, STEPS_PUBLISHED },
    { "async", 128, 14074, STEPS_BOUND },
    { "async:2", 8, 14074, STEPS_BOUND },
    { "trimmed:0", 8, 14074, STEPS_EXACT },
    { "trimmed:1", 8, 14074, STEPS_BOUND },
    { "median:0", 8, 14074, STEPS_BOUND },
    { "krum", 8, 14074, STEPS_BOUND },
};

START_TEST(step_counts_come_from_published_runs_if_these_cover_the_case)
{
    struct steps_outlook got = outlook(&convergence_published, known[_i].text, known[_i].num_ranks,
                                       known[_i].all_reduce_steps);
    ck_assert_msg(got.basis == known[_i].basis, "%s: %s", known[_i].text,
                  steps_basis_names[got.basis]);
    double expected = got.basis == STEPS_BOUND ? got.most_steps : known[_i].all_reduce_steps;
    ck_assert(got.steps == expected);
    ck_assert_double_ge(got.most_steps, got.steps);
    bool has_source = got.basis == STEPS_FITTED || got.basis == STEPS_PUBLISHED;
    ck_assert_int_eq(*got.source != '\0', has_source);
}
END_TEST

/* A scale that was fitted on the user's own runs gives the length of a transient; the published
 * scale gives only an upper bound. */
START_TEST(step_counts_come_from_own_runs_first)
{
    struct convergence own = convergence_published;
    own.mixing_scale = 0.01;
    struct steps_outlook gossip = outlook(&own, "gossip:one-peer", 32, 14074);
    ck_assert_int_eq(gossip.basis, STEPS_FITTED);
    ck_assert_double_eq_tol(gossip.steps, 14074 + 0.01 * 58254, 1);
    ck_assert_int_eq(outlook(&own, "topk:0.05", 8, 19600).basis, STEPS_PUBLISHED);
    ck_assert_int_eq(outlook(&own, "ring", 8, 19600).basis, STEPS_EXACT);
}
END_TEST

/* --- the file ----------------------------------------------------------------------------- */

static bool load_text(const char *text, struct convergence_file *out, struct err *err)
{
    char name[] = "/tmp/test-convergence.XXXXXX";
    int fd = mkstemp(name);
    ck_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    bool ok = convergence_load(name, out, err);
    unlink(name);
    return ok;
}

START_TEST(a_file_of_constants_reads_back)
{
    struct convergence_file file = { "made up", { 0.25, 3, 0.125 } }, again;
    struct err err = { 0 };
    json_t *written = convergence_write(&file);
    char *text = json_dumps(written, 0);
    ck_assert_msg(load_text(text, &again, &err), "%s: %s", err.where, err.msg);
    ck_assert_str_eq(again.source, "made up");
    ck_assert_double_eq(again.convergence.mixing_scale, 0.25);
    ck_assert_double_eq(again.convergence.memory_scale, 3);
    ck_assert_double_eq(again.convergence.heterogeneity, 0.125);
    free(text);
    json_decref(written);
}
END_TEST

START_TEST(a_faulty_file_of_constants_is_refused_by_its_key)
{
    static const struct {
        const char *text, *where;
    } faults[] = {
        { "{\"format\": 2, \"source\": \"\", \"mixing_scale\": 1, \"memory_scale\": 1, "
          "\"heterogeneity\": 0}",
          "format" },
        { "{\"format\": 1.0, \"source\": \"\", \"mixing_scale\": 1, \"memory_scale\": 1, "
          "\"heterogeneity\": 0}",
          "format" },
        { "{\"format\": 1, \"source\": \"\", \"mixing_scale\": -1, \"memory_scale\": 1, "
          "\"heterogeneity\": 0}",
          "mixing_scale" },
        { "{\"format\": 1, \"source\": \"\", \"mixing_scale\": 1, \"memory_scale\": 1, "
          "\"heterogeneity\": 1}",
          "heterogeneity" },
        { "{\"format\": 1, \"source\": \"\", \"mixing_scale\": 1, \"heterogeneity\": 0}",
          "memory_scale" },
    };
    for (size_t i = 0; i < LENGTH(faults); i++) {
        struct convergence_file file;
        struct err err = { 0 };
        ck_assert(!load_text(faults[i].text, &file, &err));
        ck_assert_msg(strstr(err.where, faults[i].where) != NULL, "%s: %s", err.where, err.msg);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("convergence");
    tcase_add_test(tc, steps_are_inversely_proportional_to_ranks);
    tcase_add_test(tc, exact_methods_need_the_steps_of_all_reduce);
    tcase_add_test(tc, one_rank_has_no_transient);
    tcase_add_test(tc, a_graph_that_averages_exactly_has_no_transient);
    tcase_add_test(tc, transients_equal_the_theorems);
    tcase_add_loop_test(tc, local_sgd_scales_as_n_cubed_and_as_h_to_its_power, 0, 2);
    tcase_add_loop_test(tc, gossip_transients_scale_with_the_graphs_spectral_gap, 0, 2);
    tcase_add_loop_test(tc, a_period_limits_the_transient_of_a_graph, 0, 2);
    tcase_add_loop_test(tc, denser_graphs_and_fewer_ranks_have_shorter_transients, 0, 2);
    tcase_add_test(tc, heterogeneity_interpolates_between_the_two_orders);
    tcase_add_test(tc, unbiased_compression_adds_noise_and_error_feedback_a_transient);
    tcase_add_test(tc, compression_transients_scale_as_published);
    tcase_add_test(tc, a_quantiser_multiplies_the_noise_by_1_plus_omega);
    tcase_add_test(tc, the_published_transient_is_that_of_imagenet_on_32_nodes);
    tcase_add_loop_test(tc, step_counts_come_from_published_runs_if_these_cover_the_case, 0,
                        LENGTH(known));
    tcase_add_test(tc, step_counts_come_from_own_runs_first);
    tcase_add_test(tc, a_file_of_constants_reads_back);
    tcase_add_test(tc, a_faulty_file_of_constants_is_refused_by_its_key);
    Suite *s = suite_create("sim/campaign/convergence");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
