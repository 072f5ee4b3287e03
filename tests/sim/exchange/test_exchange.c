#include "sim/exchange/powersgd.h"
#include "sim/exchange/qsgd.h"
#include "sim/exchange/robust.h"
#include "sim/exchange/topk.h"
#include "sim/plan/plan.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

static struct arena arena;
static struct err err;

static void release(void)
{
    arena_release(&arena);
}

static struct exchange parsed(const char *text)
{
    struct exchange exchange;
    ck_assert_msg(exchange_read(text, &exchange, &err), "\"%s\": %s", text, err.msg);
    return exchange;
}

/* --- layout words -------------------------------------------------------------------------------
 */

static const char *const texts[] = {
    "allreduce",
    "ring",
    "tree",
    "hierarchical",
    "hierarchical:group=4",
    "ps:4",
    "async",
    "async:4",
    "async:2:servers=3",
    "gossip:ring",
    "gossip:grid:combine=beside",
    "gossip:exp:group=8",
    "gossip:one-peer:combine=beside:group=8",
    "local:12",
    "pga:6",
    "pga:6:graph=ring",
    "aga:4:graph=exp:combine=beside:group=2",
    "qsgd:4",
    "topk:0.01",
    "topk:1:memory=off",
    "topk:1e-09",
    "ef21:0.05",
    "neolithic:0.025",
    "neolithic:0.025:rounds=4",
    "powersgd:2",
    "powersgd:2:memory=off",
    "median",
    "median:0",
    "trimmed:2",
    "krum:3",
    "geomedian:1",
};
enum { NUM_TEXTS = LENGTH(texts) };

START_TEST(every_exchange_round_trips)
{
    struct exchange exchange = parsed(texts[_i]);
    struct text written = { 0 };
    exchange_write(&exchange, &written);
    ck_assert_str_eq(text_get(&written), texts[_i]);
    text_release(&written);
}
END_TEST

START_TEST(every_method_has_documentation_and_a_test_case)
{
    for (int i = 0; i < num_exchange_methods; i++) {
        const struct exchange_method *method = &exchange_methods[i];
        bool found = false;
        for (int j = 0; j < NUM_TEXTS; j++)
            found = found || parsed(texts[j]).method == i;
        ck_assert_msg(found, "no test case has the method %s", method->name);
        ck_assert_int_eq(strncmp(method->form, method->name, strlen(method->name)), 0);
        ck_assert_int_eq(method->summary[strlen(method->summary) - 1], '.');
        ck_assert_uint_gt(strlen(method->source), 0);
        /* Methods whose result equals that of all-reduce have no text `changes` (how they change
         * training); all others have one. */
        struct exchange tried = parsed(method->tried);
        bool is_exact = method->object == EXCHANGE_GRADIENTS && !method->compressor &&
                        !method->rule && !exchange_is_late(&tried);
        ck_assert_int_eq(is_exact, method->changes == NULL);
    }
}
END_TEST

START_TEST(all_reduce_is_the_default_and_is_not_written)
{
    struct plan plan;
    struct text written = { 0 };
    ck_assert(plan_parse("tp1 pp1 dp4 mb1 exchange=allreduce", &arena, &plan, &err));
    plan_write(&plan, &written);
    ck_assert_str_eq(text_get(&written), "tp1 pp1 dp4 mb1");
    text_release(&written);
}
END_TEST

START_TEST(a_plan_file_keeps_the_exchange)
{
    struct plan plan;
    struct text written = { 0 };
    ck_assert(plan_parse("dp4 exchange=pga:06:group=2:graph=ring", &arena, &plan, &err));
    plan_write(&plan, &written);
    ck_assert_str_eq(text_get(&written), "tp1 pp1 dp4 mb1 exchange=pga:6:graph=ring:group=2");
    text_release(&written);
}
END_TEST

static const struct {
    const char *text, *says;
} refused[] = {
    { "", "expected one of allreduce" },
    { "gosip:ring", "did you mean \"gossip\"?" },
    { "gossip", "expected gossip:ring|grid|exp|one-peer: GRAPH is missing" },
    { "gossip:rings", "did you mean \"ring\"?" },
    { "gossip:ring:exp", "and then NAME=VALUE, found \"exp\" after it" },
    { "gossip:ring:graph=ring", "unknown parameter \"graph\"" },
    { "gossip:ring:combine=late", "expected one of updated, beside" },
    { "gossip:ring:group=2:group=2", "group is given twice" },
    { "allreduce:2", "expected allreduce, found \"2\" after it" },
    { "ps:0", "expected a whole number K from 1 to 16777216, found \"0\"" },
    { "ps:-1", "found \"-1\"" },
    { "ps:", "found \"\"" },
    { "local:99999999999999999999", "expected a whole number H" },
    { "qsgd:1", "BITS from 2 to 16" },
    { "topk:0", "expected a share R above 0 and up to 1, such as 0.01, found \"0\"" },
    { "topk:9e-10", "found \"9e-10\"" },
    { "topk:nan", "found \"nan\"" },
    { "topk:1.01", "found \"1.01\"" },
    { "neolithic:0.1:rounds=9", "rounds from 1 to 8" },
    { "async:0", "expected a whole number S from 1 to 64, found \"0\"" },
    { "async:2:server=2", "did you mean \"servers\"?" },
    { "median:two", "expected a whole number F from 0 to 16777216, found \"two\"" },
    { "krum:1:2", "expected krum[:F], found \"2\" after it" },
    { "geomedian:F=2", "found \"F=2\"" },
};

START_TEST(a_faulty_text_is_refused_by_name)
{
    struct exchange exchange;
    ck_assert(!exchange_read(refused[_i].text, &exchange, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_msg(strstr(err.msg, refused[_i].says), "\"%s\" lacks \"%s\"", err.msg,
                  refused[_i].says);
}
END_TEST

/* --- bytes sent ------------------------------------------------------------------------------ */

static const struct exchange_tensor tensors[] = { { 512, 256, 3 }, { 512, 1, 2 }, { 4, 2, 1 } };
static const struct exchange_load load = { tensors, 3, 4 };
static const double elements = 3 * 512 * 256 + 2 * 512 + 8;

START_TEST(every_exact_exchange_sends_the_same_bytes)
{
    static const char *const sums[] = { "allreduce",    "ring", "tree",
                                        "hierarchical", "ps:3", "async:2" };
    struct exchange_ranks ranks = { 8, 4 };
    for (size_t i = 0; i < LENGTH(sums); i++) {
        struct exchange exchange = parsed(sums[i]);
        ck_assert_double_eq(exchange_wire_bytes(&exchange, &load, &ranks, 0), 2 * 7 * 4 * elements);
    }
}
END_TEST

START_TEST(one_rank_sends_nothing)
{
    struct exchange exchange = parsed(texts[_i]);
    struct exchange_ranks alone = { 1, 1 };
    ck_assert_double_eq(exchange_wire_bytes(&exchange, &load, &alone, 11), 0);
}
END_TEST

START_TEST(gossip_bytes_per_rank_do_not_depend_on_the_number_of_ranks)
{
    struct exchange one = parsed("gossip:one-peer"), ring = parsed("gossip:ring");
    for (int n = 4; n <= 4096; n *= 4) {
        struct exchange_ranks ranks = { n, 4 };
        ck_assert_double_eq(exchange_wire_bytes(&one, &load, &ranks, 3) / n, 4 * elements);
        ck_assert_double_eq(exchange_wire_bytes(&ring, &load, &ranks, 3) / n, 2 * 4 * elements);
    }
}
END_TEST

/* On 8 ranks in groups of 4, gossip of tensors of S bytes consists of two all-reduces that send 6 S
 * bytes each, 8 messages of S/4, and two all-gathers that send 3 S each. */
START_TEST(in_gossip_between_groups_each_member_sends_a_part)
{
    struct exchange exchange = parsed("gossip:one-peer:group=4");
    struct exchange_ranks ranks = { 8, 4 };
    ck_assert_double_eq(exchange_wire_bytes(&exchange, &load, &ranks, 0),
                        (2 * 6 + 2 + 2 * 3) * 4 * elements);
}
END_TEST

START_TEST(averages_happen_in_the_last_step_of_a_period)
{
    struct exchange local = parsed("local:3"), pga = parsed("pga:3");
    struct exchange_ranks ranks = { 8, 4 };
    for (int step = 0; step < 6; step++) {
        bool is_last = step % 3 == 2;
        ck_assert_double_eq(exchange_wire_bytes(&local, &load, &ranks, step),
                            is_last ? 2 * 7 * 4 * elements : 0);
        ck_assert_double_eq(exchange_wire_bytes(&pga, &load, &ranks, step),
                            is_last ? 2 * 7 * 4 * elements : 8 * 4 * elements);
    }
    ck_assert_int_eq(exchange_adapted_period(&pga, 7, 2), 11);
    ck_assert_int_eq(exchange_adapted_period(&pga, 7, 8), 3);
}
END_TEST

/* Computes the fraction of steps that average, by the executor's rule for adaptive periods: the
 * last loss of a period determines the next period. */
static double averages_of(const struct exchange *exchange, int steps)
{
    struct exchange now = *exchange;
    int averages = 0;
    for (int step = 0, since = 0; step < steps; step++)
        if (++since >= now.period) {
            since = 0;
            averages++;
            now.period = exchange_adapted_period(exchange, 10, 10.0 / (1 + 9.0 * step / steps));
        }
    return averages;
}

START_TEST(the_share_of_averaging_steps_follows_the_adaptive_rule)
{
    enum { PARTS = 64, RUN = 20000 };
    struct exchange aga = parsed("aga:4"), pga = parsed("pga:4");
    double losses[PARTS];
    for (int i = 0; i < PARTS; i++)
        losses[i] = 10 / (1 + 9 * (i + 0.5) / PARTS);
    double share = exchange_averaging_share(&aga, 10, losses, PARTS);
    ck_assert_double_eq_tol(share * RUN, averages_of(&aga, RUN), 0.01 * share * RUN);
    ck_assert_double_eq(exchange_averaging_share(&pga, 10, losses, PARTS), 0.25);
    losses[0] = 10;
    ck_assert_double_eq(exchange_averaging_share(&aga, 10, losses, 1), 0.25);
    losses[0] = 1;
    ck_assert_double_eq(exchange_averaging_share(&aga, 10, losses, 1), 1.0 / 40);
}
END_TEST

START_TEST(gathered_compressed_messages_grow_with_the_ranks)
{
    struct exchange topk = parsed("topk:0.01"), qsgd = parsed("qsgd:4");
    struct exchange rounds = parsed("neolithic:0.01:rounds=3");
    struct exchange_ranks ranks = { 8, 4 };
    double kept = ceil(0.01 * elements);
    ck_assert_double_eq(exchange_wire_bytes(&topk, &load, &ranks, 0), 8 * 7 * 8 * kept);
    ck_assert_double_eq(exchange_wire_bytes(&rounds, &load, &ranks, 0), 3 * 8 * 7 * 8 * kept);
    ck_assert_double_eq(exchange_wire_bytes(&qsgd, &load, &ranks, 0),
                        8 * 7 * (elements / 2 + 4 * ceil(elements / QSGD_BUCKET)));
}
END_TEST

/* Byzantine-robust aggregation sends as many bytes as an all-reduce. Rules that weigh ranks also
 * sum the distances between n ranks, 8 n^2 bytes. */
START_TEST(robust_rules_send_the_bytes_of_all_reduce)
{
    struct exchange_ranks ranks = { 8, 4 };
    struct exchange median = parsed("median"), trimmed = parsed("trimmed:1");
    struct exchange krum = parsed("krum"), geomedian = parsed("geomedian");
    double all_reduce = 2 * 7 * 4 * elements, distances = 2 * 7 * 8 * 64;
    ck_assert_double_eq(exchange_wire_bytes(&median, &load, &ranks, 0), all_reduce);
    ck_assert_double_eq(exchange_wire_bytes(&trimmed, &load, &ranks, 0), all_reduce);
    ck_assert_double_eq(exchange_wire_bytes(&krum, &load, &ranks, 0), all_reduce + distances);
    ck_assert_double_eq(exchange_wire_bytes(&geomedian, &load, &ranks, 0), all_reduce + distances);
}
END_TEST

/* Byzantine-robust aggregation needs f < n / 2 hostile ranks of n; Krum needs n > 2 f + 2
 * (Blanchard et al. 2017, proposition 1). */
static const struct {
    const char *text;
    int least_ranks; /* fewest ranks that the rule accepts */
} robust[] = {
    { "median:0", 1 },  { "median:1", 3 }, { "median:2", 5 },    { "trimmed:3", 7 },
    { "krum", 3 },      { "krum:0", 3 },   { "krum:1", 5 },      { "krum:2", 7 },
    { "geomedian", 1 }, { "median", 1 },   { "geomedian:4", 9 }, { "krum:7", 17 },
};

START_TEST(a_robust_rule_refuses_too_many_hostile_ranks)
{
    struct exchange exchange = parsed(robust[_i].text);
    const struct exchange_method *method = exchange_method_of(&exchange);
    for (int n = 1; n < 20; n++) {
        struct err why = { 0 };
        bool accepted = method->accepts(&exchange, n, &why);
        ck_assert_msg(accepted == (n >= robust[_i].least_ranks),
                      "%s is wrongly accepted or refused on %d ranks", robust[_i].text, n);
        if (!accepted)
            ck_assert_ptr_nonnull(strstr(why.msg, method->rule->condition));
    }
}
END_TEST

/* The bounds are those of Allouah et al. 2023, table 1, for f = 2 hostile of n = 8 ranks, where r =
 * f / (n - 2 f) = 2 / 4. */
START_TEST(a_robust_rules_error_equals_the_published_table)
{
    struct exchange median = parsed("median:2"), trimmed = parsed("trimmed:2");
    struct exchange krum = parsed("krum:2"), geomedian = parsed("geomedian:2");
    struct exchange mean = parsed("trimmed:0"), sum = parsed("ring"), most = parsed("krum");
    ck_assert_double_eq(robust_error(&median, 8), 4 * 1.5 * 1.5);
    ck_assert_double_eq(robust_error(&trimmed, 8), 6 * 0.5 * 1.5);
    ck_assert_double_eq(robust_error(&krum, 8), 6 * 1.5);
    ck_assert_double_eq(robust_error(&geomedian, 8), 4 * 1.5 * 1.5);
    ck_assert_double_eq(robust_error(&mean, 8), 0);
    ck_assert_double_eq(robust_error(&sum, 8), 0);
    ck_assert_int_eq(robust_hostile(&most, 8), 2);
}
END_TEST

/* For three matrices, two factors with 2 x (512 + 256) elements in all are sent. Vectors, and a
 * matrix that is smaller than its factors, are sent uncompressed. */
START_TEST(low_rank_factors_are_summed)
{
    struct exchange exchange = parsed("powersgd:2");
    struct exchange_ranks ranks = { 8, 4 };
    double sent = 3 * 2 * (512 + 256) + 2 * 512 + 8;
    ck_assert(!powersgd_compresses(&exchange, &tensors[2]));
    ck_assert_double_eq(exchange_wire_bytes(&exchange, &load, &ranks, 0), 2 * 7 * 4 * sent);
}
END_TEST

/* The variance of a quantised gradient is at most omega times its squared norm. For 7 levels in
 * buckets of 512, omega is min(512 / 49, sqrt(512) / 7). */
START_TEST(compression_bounds_are_those_of_the_given_tensors)
{
    struct exchange qsgd = parsed("qsgd:4"), topk = parsed("topk:0.01");
    struct exchange rounds = parsed("neolithic:0.01:rounds=3"), power = parsed("powersgd:2");
    double delta = ceil(0.01 * elements) / elements;
    ck_assert_int_eq(qsgd_levels(4), 7);
    ck_assert_double_eq(exchange_method_of(&qsgd)->compressor->bound(&qsgd, &load), sqrt(512) / 7);
    ck_assert_double_eq(topk_count(&topk, 5), 1);
    ck_assert_double_eq(topk_count(&topk, 250), 3);
    ck_assert_double_eq(exchange_method_of(&topk)->compressor->bound(&topk, &load), delta);
    ck_assert_double_eq_tol(exchange_method_of(&rounds)->compressor->bound(&rounds, &load),
                            1 - pow(1 - delta, 3), 1e-15);
    ck_assert_double_eq(exchange_method_of(&power)->compressor->bound(&power, &load), 2.0 / 256);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("exchange");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_loop_test(tc, every_exchange_round_trips, 0, NUM_TEXTS);
    tcase_add_test(tc, every_method_has_documentation_and_a_test_case);
    tcase_add_test(tc, all_reduce_is_the_default_and_is_not_written);
    tcase_add_test(tc, a_plan_file_keeps_the_exchange);
    tcase_add_loop_test(tc, a_faulty_text_is_refused_by_name, 0, LENGTH(refused));
    tcase_add_test(tc, every_exact_exchange_sends_the_same_bytes);
    tcase_add_loop_test(tc, one_rank_sends_nothing, 0, NUM_TEXTS);
    tcase_add_test(tc, gossip_bytes_per_rank_do_not_depend_on_the_number_of_ranks);
    tcase_add_test(tc, in_gossip_between_groups_each_member_sends_a_part);
    tcase_add_test(tc, averages_happen_in_the_last_step_of_a_period);
    tcase_add_test(tc, the_share_of_averaging_steps_follows_the_adaptive_rule);
    tcase_add_test(tc, gathered_compressed_messages_grow_with_the_ranks);
    tcase_add_test(tc, robust_rules_send_the_bytes_of_all_reduce);
    tcase_add_loop_test(tc, a_robust_rule_refuses_too_many_hostile_ranks, 0, LENGTH(robust));
    tcase_add_test(tc, a_robust_rules_error_equals_the_published_table);
    tcase_add_test(tc, low_rank_factors_are_summed);
    tcase_add_test(tc, compression_bounds_are_those_of_the_given_tensors);
    Suite *s = suite_create("sim/exchange");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
