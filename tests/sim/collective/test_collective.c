#include "sim/collective/collective.h"

#include "sim/collective/measured_curve.h"
#include "tests/sim/collective/nccl_groups.h"
#include "tests/testing.h"

#include <math.h>

/* Message sizes from one byte to 1e18 bytes, each 5 % larger than the one before. */
enum { NUM_SIZES = 851, TENFOLD = 47 };
static double size_bytes(int i)
{
    return pow(1.05, i);
}

/* Calls Check only on a failure: its macros write to a file at each check, which would dominate the
 * run time over so many sizes. */
static void check_order(double shorter_s, double longer_s)
{
    if (!(shorter_s <= longer_s))
        ck_abort_msg("got %.17g s, expected at least %.17g s", longer_s, shorter_s);
}

/* Calls `claim` for every group, collective and protocol for which NCCL would consider `algo`. */
static void each_use(const struct collective_algo *algo,
                     void (*claim)(const struct collective_algo *, const struct comm_group *,
                                   enum collective, enum protocol))
{
    for (int g = 0; g < NUM_NCCL_GROUPS; g++)
        for (int c = 0; c < NUM_COLLECTIVES; c++)
            for (int p = 0; p < NUM_PROTOCOLS; p++)
                if (algo->available(&nccl_groups[g], (enum collective)c, (enum protocol)p))
                    claim(algo, &nccl_groups[g], (enum collective)c, (enum protocol)p);
}

/* Properties of every algorithm. */

static void is_positive(const struct collective_algo *algo, const struct comm_group *group,
                        enum collective collective, enum protocol protocol)
{
    for (int i = 0; i < NUM_SIZES; i += TENFOLD) {
        double bytes = size_bytes(i);
        double got_s = nccl_time_s(algo, group, collective, protocol, bytes);
        ck_assert(isfinite(got_s) && got_s > 0);
    }
}

START_TEST(every_time_is_finite_and_positive_up_to_a_million_ranks_and_1e18_bytes)
{
    each_use(&collective_algos[_i], is_positive);
}
END_TEST

/* NCCL corrects the tree's bandwidth by a factor for each class of sizes. From one class to the
 * next this factor grows to at most 4/3 of itself. So a slightly longer message may be predicted to
 * be faster, but a message that is a third longer may not. */
static void grows(const struct collective_algo *algo, const struct comm_group *group,
                  enum collective collective, enum protocol protocol)
{
    for (int i = 0; i < NUM_SIZES; i++)
        check_order(nccl_time_s(algo, group, collective, protocol, size_bytes(i)),
                    nccl_time_s(algo, group, collective, protocol, 1.34 * size_bytes(i)));
}

START_TEST(a_message_a_third_longer_never_takes_less_time)
{
    each_use(&collective_algos[_i], grows);
}
END_TEST

static struct comm_group with_bandwidth(struct comm_group group, double factor)
{
    group.intra_bytes_per_s *= factor;
    group.inter_bytes_per_s *= factor;
    group.nvls_intra_bytes_per_s *= factor;
    group.nvls_inter_bytes_per_s *= factor;
    return group;
}

static void gains_from_bandwidth(const struct collective_algo *algo, const struct comm_group *group,
                                 enum collective collective, enum protocol protocol)
{
    const struct comm_group faster = with_bandwidth(*group, 1.1);
    for (int i = 0; i < NUM_SIZES; i += TENFOLD)
        check_order(nccl_time_s(algo, &faster, collective, protocol, size_bytes(i)),
                    nccl_time_s(algo, group, collective, protocol, size_bytes(i)));
}

START_TEST(a_time_never_increases_with_bandwidth)
{
    each_use(&collective_algos[_i], gains_from_bandwidth);
}
END_TEST

static void is_not_chosen_over(const struct collective_algo *algo, const struct comm_group *group,
                               enum collective collective, enum protocol protocol)
{
    for (int i = 0; i < NUM_SIZES; i += TENFOLD / 2)
        check_order(collective_choose(group, collective, size_bytes(i)).time_s,
                    nccl_time_s(algo, group, collective, protocol, size_bytes(i)));
}

#define CHECK_COUNTS(member, value)                               \
    do {                                                          \
        struct comm_group other = group;                          \
        other.member = value;                                     \
        ck_assert_msg(!comm_groups_are_alike(&group, &other) &&   \
                          !comm_groups_are_alike(&other, &group), \
                      "another " #member);                        \
        ck_assert(comm_groups_are_alike(&other, &other));         \
    } while (0)

START_TEST(groups_are_equal_if_all_members_are)
{
    const struct curve curve = { 0 };
    const struct comm_group group = { .num_ranks = 1 };
    CHECK_COUNTS(num_ranks, 2);
    CHECK_COUNTS(num_nodes, 2);
    CHECK_COUNTS(arch, ARCH_HOPPER);
    CHECK_COUNTS(intra, LINK_PCI);
    CHECK_COUNTS(amd_cpu, true);
    CHECK_COUNTS(ll128, true);
    CHECK_COUNTS(in_network, true);
    CHECK_COUNTS(crosses_rails, true);
    CHECK_COUNTS(sharp, true);
    CHECK_COUNTS(num_channels, 8);
    CHECK_COUNTS(intra_bytes_per_s, 1);
    CHECK_COUNTS(inter_bytes_per_s, 1);
    CHECK_COUNTS(nvls_channels, 4);
    CHECK_COUNTS(nvls_intra_bytes_per_s, 1);
    CHECK_COUNTS(nvls_inter_bytes_per_s, 1);
    CHECK_COUNTS(bandwidth_factor, 1);
    CHECK_COUNTS(latency_factor, 1);
    CHECK_COUNTS(message_curve, &curve);
    CHECK_COUNTS(curves[0], &curve);
    CHECK_COUNTS(curves[NUM_COLLECTIVES - 1], &curve);
}
END_TEST

START_TEST(the_chosen_time_is_at_most_that_of_every_available_algorithm)
{
    each_use(&collective_algos[_i], is_not_chosen_over);
}
END_TEST

START_TEST(every_algorithm_is_found_by_name_and_has_a_source)
{
    const struct collective_algo *algo = &collective_algos[_i];
    ck_assert_ptr_eq(collective_algo_find(algo->name), algo);
    ck_assert_str_ne(algo->summary, "");
    ck_assert_str_ne(algo->source, "");
}
END_TEST

/* An algorithm that no group can use would pass every test, so each must be available somewhere. */
START_TEST(every_algorithm_is_available_to_some_group)
{
    int num_uses = 0;
    for (int g = 0; g < NUM_NCCL_GROUPS; g++)
        for (int c = 0; c < NUM_COLLECTIVES; c++)
            num_uses += collective_algos[_i].available(&nccl_groups[g], (enum collective)c,
                                                       PROTOCOL_SIMPLE);
    ck_assert_int_gt(num_uses, 0);
}
END_TEST

/* Properties of the chosen algorithm. */

START_TEST(collectives_of_one_rank_take_no_time)
{
    struct comm_group alone = nccl_groups[H100_NODE];
    alone.num_ranks = 1;
    for (int c = 0; c < NUM_COLLECTIVES; c++) {
        ck_assert_double_eq(collective_s(&alone, (enum collective)c, GIB), 0);
        ck_assert_ptr_null(collective_choose(&alone, (enum collective)c, GIB).algo);
    }
    ck_assert_double_eq(point_to_point_s(&alone, GIB), 0);
    ck_assert_double_eq(all_to_all_s(&alone, GIB), 0);
}
END_TEST

START_TEST(collectives_of_no_bytes_take_no_time)
{
    const struct comm_group *group = &nccl_groups[_i];
    for (int c = 0; c < NUM_COLLECTIVES; c++) {
        ck_assert_double_eq(collective_s(group, (enum collective)c, 0), 0);
        ck_assert_ptr_null(collective_choose(group, (enum collective)c, 0).algo);
    }
    ck_assert_double_eq(point_to_point_s(group, 0), 0);
}
END_TEST

START_TEST(the_choice_is_an_available_algorithm_and_its_parts_add_up_to_its_time)
{
    const struct comm_group *group = &nccl_groups[_i];
    for (int c = 0; c < NUM_COLLECTIVES; c++)
        for (int i = 0; i < NUM_SIZES; i += TENFOLD / 2) {
            double bytes = size_bytes(i);
            struct collective_choice got = collective_choose(group, (enum collective)c, bytes);
            ck_assert(got.algo->available(group, (enum collective)c, got.protocol));
            ck_assert_double_eq(got.time_s, got.latency_s + bytes / got.bytes_per_s);
        }
}
END_TEST

START_TEST(the_chosen_time_never_falls_when_the_message_grows_by_a_third)
{
    const struct comm_group *group = &nccl_groups[_i];
    for (int c = 0; c < NUM_COLLECTIVES; c++)
        for (int i = 0; i < NUM_SIZES; i++)
            check_order(collective_choose(group, (enum collective)c, size_bytes(i)).time_s,
                        collective_choose(group, (enum collective)c, 1.34 * size_bytes(i)).time_s);
}
END_TEST

/* Only all-reduce can use the tree, whose corrected bandwidth can make a longer message faster. */
START_TEST(except_for_all_reduce_the_chosen_time_never_falls_as_messages_grow)
{
    const struct comm_group *group = &nccl_groups[_i];
    for (int c = COLLECTIVE_ALL_REDUCE + 1; c < NUM_COLLECTIVES; c++)
        for (int i = 0; i < NUM_SIZES; i++)
            check_order(collective_choose(group, (enum collective)c, size_bytes(i)).time_s,
                        collective_choose(group, (enum collective)c, size_bytes(i + 1)).time_s);
}
END_TEST

static double reached(const struct collective_choice *choice, int group, int collective)
{
    return choice->algo->reached
               ? choice->algo->reached(&nccl_groups[group], (enum collective)collective)
               : 1;
}

START_TEST(calibration_scales_latency_and_bandwidth_separately)
{
    struct comm_group calibrated = nccl_groups[_i];
    calibrated.latency_factor = 3;
    calibrated.bandwidth_factor = 0.5;
    for (int c = 0; c < NUM_COLLECTIVES; c++)
        for (int i = 0; i < NUM_SIZES; i += TENFOLD) {
            double bytes = size_bytes(i);
            struct collective_choice choice =
                collective_choose(&nccl_groups[_i], (enum collective)c, bytes);
            double bytes_per_s = choice.bytes_per_s * reached(&choice, _i, c);
            double want_s = 3 * choice.latency_s + bytes / bytes_per_s / 0.5;
            double got_s = collective_s(&calibrated, (enum collective)c, bytes);
            ck_assert_double_eq_tol(got_s / want_s, 1, 1e-12);
        }
}
END_TEST

START_TEST(without_calibration_the_time_is_nccls_if_its_rate_is_reached)
{
    for (int c = 0; c < NUM_COLLECTIVES; c++) {
        struct collective_choice choice =
            collective_choose(&nccl_groups[_i], (enum collective)c, 3 * MIB);
        double time_s = collective_s(&nccl_groups[_i], (enum collective)c, 3 * MIB);
        if (reached(&choice, _i, c) < 1)
            ck_assert_double_gt(time_s, choice.time_s);
        else
            ck_assert_double_eq(time_s, choice.time_s);
    }
}
END_TEST

/* Properties of the ring. */

START_TEST(ring_time_never_falls_as_messages_grow)
{
    const struct collective_algo *ring = collective_algo_find("ring");
    for (int c = 0; c < NUM_COLLECTIVES; c++)
        for (int p = 0; p < NUM_PROTOCOLS; p++)
            for (int i = 0; i < NUM_SIZES; i++)
                check_order(nccl_time_s(ring, &nccl_groups[_i], (enum collective)c,
                                        (enum protocol)p, size_bytes(i)),
                            nccl_time_s(ring, &nccl_groups[_i], (enum collective)c,
                                        (enum protocol)p, size_bytes(i + 1)));
}
END_TEST

START_TEST(a_ring_all_reduce_takes_a_reduce_scatter_plus_an_all_gather)
{
    const struct collective_algo *ring = collective_algo_find("ring");
    for (int p = 0; p < NUM_PROTOCOLS; p++) {
        double bytes_per_s[NUM_COLLECTIVES], latency_s;
        for (int c = 0; c < NUM_COLLECTIVES; c++)
            ring->cost(&nccl_groups[_i], (enum collective)c, (enum protocol)p, MIB, &latency_s,
                       &bytes_per_s[c]);
        double halves =
            1 / bytes_per_s[COLLECTIVE_REDUCE_SCATTER] + 1 / bytes_per_s[COLLECTIVE_ALL_GATHER];
        ck_assert_double_eq_tol(halves * bytes_per_s[COLLECTIVE_ALL_REDUCE], 1, 1e-12);
    }
}
END_TEST

START_TEST(a_ring_is_available_for_every_group_and_collective)
{
    const struct collective_algo *ring = collective_algo_find("ring");
    for (int c = 0; c < NUM_COLLECTIVES; c++)
        ck_assert(ring->available(&nccl_groups[_i], (enum collective)c, PROTOCOL_SIMPLE));
}
END_TEST

static Suite *suite(void)
{
    TCase *algos = tcase_create("algorithms");
    tcase_add_loop_test(algos,
                        every_time_is_finite_and_positive_up_to_a_million_ranks_and_1e18_bytes, 0,
                        num_collective_algos);
    tcase_add_loop_test(algos, a_message_a_third_longer_never_takes_less_time, 0,
                        num_collective_algos);
    tcase_add_loop_test(algos, a_time_never_increases_with_bandwidth, 0, num_collective_algos);
    tcase_add_loop_test(algos, the_chosen_time_is_at_most_that_of_every_available_algorithm, 0,
                        num_collective_algos);
    tcase_add_loop_test(algos, every_algorithm_is_found_by_name_and_has_a_source, 0,
                        num_collective_algos);
    tcase_add_loop_test(algos, every_algorithm_is_available_to_some_group, 0, num_collective_algos);

    TCase *choice = tcase_create("choice");
    tcase_add_test(choice, collectives_of_one_rank_take_no_time);
    tcase_add_test(choice, groups_are_equal_if_all_members_are);
    tcase_add_loop_test(choice, collectives_of_no_bytes_take_no_time, 0, NUM_NCCL_GROUPS);
    tcase_add_loop_test(choice,
                        the_choice_is_an_available_algorithm_and_its_parts_add_up_to_its_time, 0,
                        NUM_NCCL_GROUPS);
    tcase_add_loop_test(choice, the_chosen_time_never_falls_when_the_message_grows_by_a_third, 0,
                        NUM_NCCL_GROUPS);
    tcase_add_loop_test(choice, except_for_all_reduce_the_chosen_time_never_falls_as_messages_grow,
                        0, NUM_NCCL_GROUPS);
    tcase_add_loop_test(choice, calibration_scales_latency_and_bandwidth_separately, 0,
                        NUM_NCCL_GROUPS);
    tcase_add_loop_test(choice, without_calibration_the_time_is_nccls_if_its_rate_is_reached, 0,
                        NUM_NCCL_GROUPS);

    TCase *ring = tcase_create("ring");
    tcase_add_loop_test(ring, ring_time_never_falls_as_messages_grow, 0, NUM_NCCL_GROUPS);
    tcase_add_loop_test(ring, a_ring_all_reduce_takes_a_reduce_scatter_plus_an_all_gather, 0,
                        NUM_NCCL_GROUPS);
    tcase_add_loop_test(ring, a_ring_is_available_for_every_group_and_collective, 0,
                        NUM_NCCL_GROUPS);

    Suite *s = suite_create("sim/cost/collective");
    suite_add_tcase(s, algos);
    suite_add_tcase(s, choice);
    suite_add_tcase(s, ring);
    return s;
}

TEST_MAIN(suite)
