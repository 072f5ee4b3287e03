#include "tests/testing.h"

#include "sim/schedule/timeline.h"

static struct arena arena;
static struct err err;

/* Two stages run one microbatch. Times are in seconds. Stage 0: forward F0.0 from 0 to 1, send of
 * activations SA from 1 to 1.5, backward B0.0 from 4 to 6. Stage 1: receive RA from 1 to 1.5, F1.0
 * from 1.5 to 2.5, B1.0 from 2.5 to 4. */
static struct timeline *sample(void)
{
    static const char lists[] = "0: F0.0 SA0.0>1@0 RG1.0<1@0 B0.0@2\n"
                                "1: RA0.0<0 F1.0@0 B1.0 SG1.0>0@2\n";
    static const struct interval times[2][4] = {
        { { 0, 1 }, { 1, 1.5 }, { 4, 4 }, { 4, 6 } },
        { { 1, 1.5 }, { 1.5, 2.5 }, { 2.5, 4 }, { 4, 4 } }
    };
    err = (struct err){ 0 };
    struct schedule *schedule = schedule_parse(lists, &arena, &err);
    ck_assert_msg(schedule != NULL, "%s: %s", err.where, err.msg);
    struct timeline *timeline = timeline_new(schedule, &arena);
    for (int stage = 0; stage < 2; stage++)
        for (int i = 0; i < 4; i++)
            timeline->ranks[stage][i] = times[stage][i];
    return timeline;
}

static void tear_down(void)
{
    arena_release(&arena);
}

START_TEST(a_step_ends_with_its_last_instruction)
{
    ck_assert_double_eq(timeline_end_s(sample()), 6);
}
END_TEST

START_TEST(a_lanes_busy_time_is_the_sum_of_its_instructions)
{
    struct timeline *timeline = sample();
    ck_assert_double_eq(timeline_busy_s(timeline, 0, LANE_COMPUTE), 3);
    ck_assert_double_eq(timeline_busy_s(timeline, 0, LANE_SEND_DOWN), 0.5);
    ck_assert_double_eq(timeline_busy_s(timeline, 1, LANE_COMPUTE), 2.5);
    ck_assert_double_eq(timeline_busy_s(timeline, 1, LANE_DATA), 0);
}
END_TEST

START_TEST(passes_last_from_the_first_forward_to_the_last_backward)
{
    struct interval passes = timeline_passes(sample());
    ck_assert_double_eq(passes.start_s, 0);
    ck_assert_double_eq(passes.end_s, 6);
}
END_TEST

/* The step of the first test, with times in microseconds instead of seconds. */
START_TEST(microsecond_passes_keep_their_times)
{
    struct timeline *timeline = sample();
    for (int stage = 0; stage < 2; stage++)
        for (int i = 0; i < 4; i++) {
            struct interval *at = &timeline->ranks[stage][i];
            *at = (struct interval){ 1e-6 * at->start_s, 1e-6 * at->end_s };
        }
    ck_assert_double_eq(timeline_passes(timeline).end_s, 6e-6);
}
END_TEST

START_TEST(a_timeline_in_list_order_is_accepted)
{
    ck_assert_msg(timeline_check(sample(), 0, &err), "%s: %s", err.where, err.msg);
}
END_TEST

static void check_refused(const struct timeline *timeline, const char *where)
{
    ck_assert(!timeline_check(timeline, 0, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, where);
}

START_TEST(an_instruction_that_ends_before_it_starts_is_refused)
{
    struct timeline *timeline = sample();
    timeline->ranks[1][2].end_s = 2.4;
    check_refused(timeline, "stage 1, instruction 2");
}
END_TEST

START_TEST(a_lane_that_runs_two_instructions_at_once_is_refused)
{
    struct timeline *timeline = sample();
    timeline->ranks[1][2].start_s = 2.25;
    check_refused(timeline, "stage 1, instruction 2");
}
END_TEST

START_TEST(an_instruction_before_its_dependency_is_refused)
{
    struct timeline *timeline = sample();
    timeline->ranks[0][1].start_s = 0.75;
    check_refused(timeline, "stage 0, instruction 1");
}
END_TEST

START_TEST(clock_errors_within_the_slack_are_accepted)
{
    struct timeline *timeline = sample();
    timeline->ranks[0][1].start_s = 0.75;
    ck_assert(timeline_check(timeline, 0.3, &err));
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("timeline");
    tcase_add_checked_fixture(tc, NULL, tear_down);
    tcase_add_test(tc, a_step_ends_with_its_last_instruction);
    tcase_add_test(tc, a_lanes_busy_time_is_the_sum_of_its_instructions);
    tcase_add_test(tc, passes_last_from_the_first_forward_to_the_last_backward);
    tcase_add_test(tc, microsecond_passes_keep_their_times);
    tcase_add_test(tc, a_timeline_in_list_order_is_accepted);
    tcase_add_test(tc, an_instruction_that_ends_before_it_starts_is_refused);
    tcase_add_test(tc, a_lane_that_runs_two_instructions_at_once_is_refused);
    tcase_add_test(tc, an_instruction_before_its_dependency_is_refused);
    tcase_add_test(tc, clock_errors_within_the_slack_are_accepted);
    Suite *s = suite_create("sim/schedule/timeline");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
