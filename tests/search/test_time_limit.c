/* Tests time limits of searches and of questions that search several times. This program has a
 * clock of its own, which depends only on how often it is read, so no test depends on the machine.
 */
#include "search/search.h"

#include "base/clock.h"
#include "search/questions/deadline.h"
#include "search/questions/depth.h"
#include "search/questions/design.h"
#include "search/questions/nearby.h"
#include "search/questions/pareto.h"
#include "search/time_to_accuracy.h"
#include "tests/search/instance.h"
#include "tests/testing.h"

#include <math.h>

/* --- the clock ---------------------------------------------------------------------------- */

/* Each reading takes a second. The clock starts far from 0, so that a moment is not mistaken for a
 * duration. */
static const double limit_s = 1e6, start_s = 5e6;
enum { MOST_STEPS = 4 };
static struct {
    int readings;          /* number of readings so far */
    int steps;             /* number of jumps of the clock */
    int at[MOST_STEPS];    /* the readings at which it jumps */
    double by[MOST_STEPS]; /* the seconds of each jump */
} hands;

double clock_now_s(void)
{
    double now_s = start_s + hands.readings;
    hands.readings++;
    for (int i = 0; i < hands.steps; i++)
        now_s += hands.readings >= hands.at[i] ? hands.by[i] : 0;
    return now_s;
}

double clock_thread_s(void)
{
    return 0;
}

/* --- the questions ------------------------------------------------------------------------ */

struct reply {
    bool timed_out, was_interrupted, is_proved;
    double worth; /* value of the answer; larger is better */
    double bound; /* upper bound of the value of any answer */
};

static struct instance instance;
static struct search_request request;
static struct err err;

static void set_up(void)
{
    instance_load(&instance);
    instance.system.num_gpus = 8;
    instance.model.layers = 4;
    instance.model.batch = 24;
    instance.model.tokens = 1e10;
    request = instance_request(&instance);
    request.jobs = request.top = 1;
    request.time_limit_s = limit_s;
    err = (struct err){ 0 };
    hands.readings = hands.steps = 0;
}

static void tear_down(void)
{
    instance_release(&instance);
}

static struct reply search_by(const char *method, bool uneven)
{
    struct search_result result;
    request.method = method;
    request.uneven = uneven;
    ck_assert_msg(search_run(&request, &result, &err), "%s: %s", err.where, err.msg);
    struct reply reply = { result.timed_out, result.was_interrupted, result.proved_optimal,
                           result.num_top > 0 ? 1 / result.top[0].prediction.step_s : 0,
                           1 / result.lower_bound_s };
    search_result_release(&result);
    return reply;
}

static struct reply ask_bnb(void)
{
    return search_by("bnb", false);
}

/* With so few families (sets of plans) the first round already finds the best plan. */
static struct reply ask_few(void)
{
    request.fix = "tp1 pp1";
    return search_by("bnb", false);
}

static struct reply ask_exhaustive(void)
{
    return search_by("exhaustive", false);
}

static struct reply ask_dp(void)
{
    request.fix = "tp1 zero0";
    return search_by("dp", true);
}

static struct reply ask_random(void)
{
    return search_by("random", false);
}

static struct reply ask_deadline(void)
{
    struct deadline_result result;
    ck_assert(search_deadline(&request, 1, &result, &err)); /* too short for any plan */
    struct reply reply = { result.timed_out, result.was_interrupted, !result.timed_out,
                           result.num_gpus > 0 ? 1 / result.train_s : 0, HUGE_VAL };
    deadline_result_release(&result);
    return reply;
}

static struct reply ask_depth(void)
{
    struct depth depth;
    ck_assert(search_depth(&request, &depth, &err));
    return (struct reply){ depth.timed_out, depth.was_interrupted, !depth.timed_out, depth.most,
                           HUGE_VAL };
}

static struct reply ask_pareto(void)
{
    struct pareto_result result;
    ck_assert(search_pareto(&request, 0, &result, &err));
    struct reply reply = { result.timed_out, result.was_interrupted, !result.timed_out,
                           result.evaluated + result.bounded, HUGE_VAL };
    pareto_result_release(&result);
    return reply;
}

static struct reply ask_design(void)
{
    struct design_request asked = {
        .search = &request, .aspect = ASPECT_GPT3, .law = &loss_laws[LAW_CORRECTED], .time_s = 86400
    };
    struct design design;
    ck_assert(search_design(&asked, &design, &err));
    return (struct reply){ design.timed_out, design.was_interrupted, !design.timed_out,
                           1 / design.best.loss, HUGE_VAL };
}

static struct reply ask_accuracy(void)
{
    struct accuracy_result result;
    request.fix = "tp4";
    ck_assert(search_time_to_accuracy(&request, &result, &err));
    struct reply reply = { result.timed_out, result.was_interrupted, result.proved,
                           result.count > 0 ? 1 / result.at[0].to.seconds : 0, HUGE_VAL };
    accuracy_result_release(&result);
    return reply;
}

static const struct question {
    struct reply (*ask)(void);
} questions[] = { { ask_bnb },    { ask_few },      { ask_exhaustive }, { ask_dp },
                  { ask_random }, { ask_deadline }, { ask_depth },      { ask_pareto },
                  { ask_design }, { ask_accuracy } };
enum { NUM_SEARCHES = 5 }; /* the first questions of the table consist of one search each */

/* Asks with a clock that does not jump, so that no limit passes. */
static struct reply ask_at_leisure(const struct question *question, int *readings)
{
    hands.readings = hands.steps = 0;
    struct reply reply = question->ask();
    *readings = hands.readings;
    return reply;
}

/* Asks while the clock jumps `steps` times by this fraction of the limit, after equal numbers of
 * readings. */
static struct reply ask_hurried(const struct question *question, int readings, int steps,
                                double part)
{
    hands.readings = 0;
    hands.steps = steps;
    for (int i = 0; i < steps; i++) {
        hands.at[i] = (i + 1) * readings / (steps + 1);
        hands.by[i] = part * limit_s;
    }
    return question->ask();
}

START_TEST(a_limit_that_does_not_pass_changes_no_answer)
{
    int readings;
    struct reply reply = ask_at_leisure(&questions[_i], &readings);
    struct reply later = ask_hurried(&questions[_i], readings, 1, 0.4);
    ck_assert(!reply.timed_out && !later.timed_out);
    ck_assert(reply.is_proved == later.is_proved);
    ck_assert(reply.worth > 0 && later.worth == reply.worth);
    ck_assert_int_eq(hands.readings, readings);
    request.time_limit_s = 0;
    ck_assert_double_eq(ask_at_leisure(&questions[_i], &readings).worth, reply.worth);
}
END_TEST

static void check_late(struct reply late, const struct reply *full)
{
    ck_assert(late.timed_out && !late.was_interrupted && !late.is_proved);
    ck_assert_double_le(late.worth, full->worth);
    ck_assert_double_ge(late.bound, full->worth);
}

START_TEST(a_question_that_runs_out_of_time_says_so)
{
    int readings;
    struct reply full = ask_at_leisure(&questions[_i], &readings);
    check_late(ask_hurried(&questions[_i], readings, 1, 2), &full);
    check_late(ask_hurried(&questions[_i], readings, 4, 0.3), &full);
}
END_TEST

/* Listing the families of plans may take half of the time limit. The other half is for searching
 * the families that were listed. */
START_TEST(families_that_were_not_listed_in_time_prevent_a_proof)
{
    const struct question bnb = { ask_bnb };
    int readings;
    struct reply full = ask_at_leisure(&bnb, &readings);
    check_late(ask_hurried(&bnb, readings / 5, 1, 0.6), &full);
}
END_TEST

/* At first only the GPUs' peak bounds the answer. Once all families (sets of plans) and all
 * divisions of layers are listed, the bounds of the unexamined families and divisions are tighter.
 */
START_TEST(a_search_stopped_later_has_a_tighter_bound)
{
    static const struct question of[] = { { ask_few }, { ask_dp } };
    int readings;
    ask_at_leisure(&of[_i], &readings);
    double bound[2];
    for (int i = 0; i < 2; i++) {
        hands.readings = 0;
        hands.steps = 1;
        hands.at[0] = i == 0 ? 2 : readings - 1;
        hands.by[0] = 2 * limit_s;
        bound[i] = of[_i].ask().bound;
    }
    ck_assert_double_lt(bound[1], 0.9 * bound[0]);
}
END_TEST

/* The last polls of a search come when all families are listed and their plans are examined. */
START_TEST(a_search_stopped_at_a_late_poll_is_not_proved)
{
    int readings;
    struct reply full = ask_at_leisure(&questions[_i], &readings);
    for (int before = 1; before <= 8; before++) {
        hands.readings = 0;
        hands.steps = 1;
        hands.at[0] = readings - before; /* the last reading is that of the elapsed time */
        hands.by[0] = 2 * limit_s;
        check_late(questions[_i].ask(), &full);
    }
}
END_TEST

/* A number of GPUs nearby is not tried once the limit has passed. */
START_TEST(the_search_nearby_ends_at_its_limit)
{
    struct arena arena = { 0 };
    int readings[3] = { 0 };
    instance.system.num_gpus = 40;
    for (int i = 0; i < LENGTH(readings); i++) {
        hands.readings = 0;
        hands.steps = 4;
        for (int step = 0; step < 4; step++) {
            hands.at[step] = 2 + step * readings[0] / 5;
            hands.by[step] = i == 0 ? 0 : i == 1 ? 0.1 * limit_s : 0.3 * limit_s;
        }
        ck_assert_int_gt(nearby_gpus(&request, 0, &arena).num_gpus, 0);
        readings[i] = hands.readings;
    }
    ck_assert_int_eq(readings[1], readings[0]);
    ck_assert_int_lt(readings[2], readings[0]);
    hands.readings = 0;
    hands.by[0] = 2 * limit_s;
    ck_assert_int_eq(nearby_gpus(&request, 0, &arena).num_gpus, 0);
    arena_release(&arena);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("time limit");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, a_limit_that_does_not_pass_changes_no_answer, 0, LENGTH(questions));
    tcase_add_loop_test(tc, a_question_that_runs_out_of_time_says_so, 0, LENGTH(questions));
    tcase_add_test(tc, families_that_were_not_listed_in_time_prevent_a_proof);
    tcase_add_loop_test(tc, a_search_stopped_at_a_late_poll_is_not_proved, 0, NUM_SEARCHES);
    tcase_add_loop_test(tc, a_search_stopped_later_has_a_tighter_bound, 0, 2);
    tcase_add_test(tc, the_search_nearby_ends_at_its_limit);
    Suite *s = suite_create("search/time_limit");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
