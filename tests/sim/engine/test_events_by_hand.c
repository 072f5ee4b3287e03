#include "tests/testing.h"

#include "sim/engine/events.h"
#include "tests/draw.h"

#include <stdlib.h>

enum { MAX_STAGES = 3, MOST_TIMES = 5 };

static struct timeline *run_text(const char *lists, const struct step_cost *cost,
                                 struct arena *arena)
{
    struct err err = { 0 };
    struct schedule *schedule = schedule_parse(lists, arena, &err);
    ck_assert_msg(schedule != NULL, "%s: %s", err.where, err.msg);
    struct timeline *timeline = events_run(schedule, cost, arena, &err);
    ck_assert_msg(timeline != NULL, "%s: %s", err.where, err.msg);
    return timeline;
}

#define NIC_LISTS "0: F0.0 SA0.0>1@0 DG0@0 DN OPT@3\n1: RA0.0<0 F1.0@0 DN@1 OPT@2\n"

/* Each case has instruction lists, their costs, and the times at which some instructions begin or
 * end. Costs that are not given are 0; slowdowns of 1 mean no contention. */
static const struct {
    const char *lists;
    struct chunk_cost chunks[MAX_STAGES];
    struct stage_cost stages[MAX_STAGES];
    struct boundary boundaries[MAX_STAGES];
    struct slowdowns slowdowns;
    bool is_blocking;
    struct time {
        int stage, instr;
        enum { STARTS = 1, ENDS } what; /* a time of 0 ends the list */
        double s;
    } times[MOST_TIMES];
} cases[] = {
    /* One stage: forward 1 s, then a reduction of 3 s and a backward of 4 s at the same time. While
     * they overlap, compute takes x = 1.25 times and communication y = 1.5 times as long. Both run
     * from 1 s on. The reduction needs 4.5 s, in which the backward does 4.5 / 1.25 = 3.6 s of its
     * work; the other 0.4 s of work are undisturbed. The reduction runs from 1 to 5.5 s, the
     * backward from 1 to 5.9. */
    { .lists = "0: F0.0 DG0@0 B0.0 DN@2 OPT@3\n",
      .chunks = { { .forward_s = 1, .input_s = 3, .weight_s = 1 } },
      .stages = { { .reduce_s = 3 } },
      .slowdowns = { 1.25, 1.5 },
      .times = { { 0, 1, STARTS, 1 },
                 { 0, 1, ENDS, 5.5 },
                 { 0, 2, STARTS, 1 },
                 { 0, 2, ENDS, 5.9 } } },
    /* Stage 0 sends 2 s of activations while it reduces 3 s on the same NIC: each gets half of the
     * NIC until the message ends, after 4 s. The reduction has then done 2 s of its work and ends
     * after one more second. */
    { .lists = NIC_LISTS,
      .chunks = { { .forward_s = 1 }, { .forward_s = 1 } },
      .stages = { { .reduce_s = 3 } },
      .boundaries = { { 2, WIRE_NETWORK } },
      .slowdowns = { 1, 1 },
      .times = { { 0, 1, ENDS, 5 }, { 0, 2, ENDS, 6 }, { 1, 1, STARTS, 5 } } },
    /* In this case the message goes over NVLink, where it disturbs no other transfer. */
    { .lists = NIC_LISTS,
      .chunks = { { .forward_s = 1 }, { .forward_s = 1 } },
      .stages = { { .reduce_s = 3 } },
      .boundaries = { { 2, WIRE_NODE } },
      .slowdowns = { 1, 1 },
      .times = { { 0, 1, ENDS, 3 }, { 0, 2, ENDS, 4 } } },
    /* Nothing is buffered: the send of microbatch 1 is ready at 2 s, but stage 1 receives it only
     * when it posts the receive, after the forward of microbatch 0, at 1 + 5. */
    { .lists = "0: F0.0 SA0.0>1@0 F0.1 SA0.1>1@2 DN OPT@4\n1: RA0.0<0 F1.0@0 RA0.1<0@1 F1.1@2 DN@3 "
               "OPT@4\n",
      .chunks = { { .forward_s = 1 }, { .forward_s = 5 } },
      .slowdowns = { 1, 1 },
      .times = { { 0, 2, ENDS, 2 }, { 0, 3, STARTS, 6 }, { 1, 3, STARTS, 6 } } },
    /* With a blocking send, stage 0 starts its second forward only when its first message has been
     * received. */
    { .lists = "0: F0.0 SA0.0>1@0 F0.1 SA0.1>1@2 DN OPT@4\n1: RA0.0<0 RA0.1<0 F1.0@0 F1.1@1 DN@3 "
               "OPT@4\n",
      .chunks = { { .forward_s = 1 }, { .forward_s = 1 } },
      .boundaries = { { 0.5, WIRE_NODE } },
      .slowdowns = { 1, 1 },
      .is_blocking = true,
      .times = { { 0, 2, STARTS, 1.5 }, { 1, 2, STARTS, 1.5 } } },
    /* The first and last stage sum their embedding gradients together, which takes the longer of
     * the two stages' times. */
    { .lists = "0: F0.0 DT>2@0 DN OPT@2\n1: F1.0 DN@0 OPT@1\n2: F2.0 DT>0@0 DN OPT@2\n",
      .chunks = { { .forward_s = 1 }, { .forward_s = 2 }, { .forward_s = 3 } },
      .stages = { [0].tied_s = 0.5, [2].tied_s = 0.5 },
      .slowdowns = { 1, 1 },
      .times = { { 0, 1, STARTS, 3 },
                 { 0, 1, ENDS, 3.5 },
                 { 2, 1, ENDS, 3.5 },
                 { 1, 2, STARTS, 3.5 } } },
};

START_TEST(instruction_times_equal_hand_calculations)
{
    struct arena arena = { 0 };
    struct step_cost cost = {
        .chunks = cases[_i].chunks,
        .stages = cases[_i].stages,
        .boundaries = cases[_i].boundaries,
        .data_wire = WIRE_NETWORK,
        .slowdowns = cases[_i].slowdowns,
        .blocking = cases[_i].is_blocking,
    };
    struct timeline *t = run_text(cases[_i].lists, &cost, &arena);
    for (const struct time *time = cases[_i].times; time->what; time++) {
        double starts_s = t->ranks[time->stage][time->instr].start_s;
        double ends_s = t->ranks[time->stage][time->instr].end_s;
        double found_s = time->what == STARTS ? starts_s : ends_s;
        ck_assert_double_eq_tol(found_s, time->s, 1e-12);
    }
    arena_release(&arena);
}
END_TEST

/* With compute C, collective M and slowdowns x and y, the time is C + M y (1 - 1/x) if the
 * collective is shorter, else C x + M - C x / y. */
START_TEST(one_overlap_equals_the_two_block_formula)
{
    srand(13);
    for (int i = 0; i < 200; i++) {
        struct arena arena = { 0 };
        double c = random_between(0.1, 4), m = random_between(0.1, 4);
        double x = random_between(1, 1.5), y = random_between(1, 1.5);
        struct chunk_cost chunks[] = { { .input_s = c } };
        struct stage_cost stages[] = { { .reduce_s = m } };
        struct step_cost cost = { .chunks = chunks, .stages = stages, .slowdowns = { x, y } };
        double expected_s = m * y <= c * x ? c + m * y * (1 - 1 / x) : c * x + m - c * x / y;
        struct timeline *t = run_text("0: F0.0 DG0@0 B0.0 DN@2 OPT@3\n", &cost, &arena);
        ck_assert_double_eq_tol(timeline_end_s(t), expected_s, 1e-9);
        arena_release(&arena);
    }
}
END_TEST

START_TEST(lists_that_wait_for_each_other_are_an_error)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct chunk_cost chunks[] = { { .forward_s = 1 }, { .forward_s = 1 } };
    struct stage_cost stages[2] = { [0] = { .tied_s = 0 } };
    static const struct boundary boundaries[2];
    struct step_cost cost = {
        .chunks = chunks, .stages = stages, .boundaries = boundaries, .slowdowns = { 1, 1 }
    };
    struct schedule *schedule = schedule_parse("0: RG1.0<1 F0.0@0 SA0.0>1@1 B0.0\n"
                                               "1: RA0.0<0 F1.0@0 B1.0 SG1.0>0@2\n",
                                               &arena, &err);
    ck_assert_ptr_null(events_run(schedule, &cost, &arena, &err));
    ck_assert_int_eq(err.code, ERR_INFEASIBLE);
    ck_assert_str_eq(err.where, "stage 0, instruction 0");
    arena_release(&arena);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("events");
    tcase_add_loop_test(tc, instruction_times_equal_hand_calculations, 0, LENGTH(cases));
    tcase_add_test(tc, one_overlap_equals_the_two_block_formula);
    tcase_add_test(tc, lists_that_wait_for_each_other_are_an_error);
    Suite *s = suite_create("sim/engine/events: by hand");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
