#include "tests/testing.h"

#include "base/file.h"
#include "exec/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NUM_LANES = 3 };

struct run {
    atomic_int stops;
    char path[64];
};

static void describe(void *context, int lane, const void *at, struct text *out)
{
    (void)context;
    text_add(out, "%s on lane %d", (const char *)at, lane);
}

static void count_stop(void *context)
{
    atomic_fetch_add(&((struct run *)context)->stops, 1);
}

static void stop_for_ever(void *context)
{
    (void)context;
    for (;;)
        pause();
}

static struct watchdog *watch_and(void (*stop)(void *context), struct run *run, double limit_s,
                                  double grace_s)
{
    struct err err = { 0 };
    *run = (struct run){ 0 };
    snprintf(run->path, sizeof run->path, "/tmp/test_watchdog.%d.status", (int)getpid());
    struct watchdog *watchdog = watchdog_new(&(struct watchdog_options){ .rank = 5,
                                                                         .num_lanes = NUM_LANES,
                                                                         .limit_s = limit_s,
                                                                         .status_path = run->path,
                                                                         .describe = describe,
                                                                         .stop = stop,
                                                                         .context = run,
                                                                         .grace_s = grace_s },
                                             &err);
    ck_assert_msg(watchdog, "%s", err.msg);
    return watchdog;
}

static struct watchdog *watch(struct run *run, double limit_s, double grace_s)
{
    return watch_and(count_stop, run, limit_s, grace_s);
}

static void sleep_s(double seconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * seconds) }, NULL);
}

static void wait_for_stop(struct run *run)
{
    while (atomic_load(&run->stops) == 0)
        sleep_s(0.001);
}

static void check_status(struct run *run, const char *expected)
{
    struct err err = { 0 };
    char *text = file_read(run->path, 1000, NULL, &err);
    ck_assert_msg(text, "%s", err.msg);
    ck_assert_ptr_nonnull(strstr(text, expected));
    free(text);
    unlink(run->path);
}

START_TEST(a_standstill_report_names_what_each_lane_waits_for)
{
    struct run run;
    struct watchdog *watchdog = watch(&run, 0.05, 60);
    watchdog_enter(watchdog, 0, "FORWARD c1 mb2");
    watchdog_enter(watchdog, 2, "RECV_ACT c1 mb7 from 1");
    wait_for_stop(&run);
    struct err err = { 0 };
    ck_assert(watchdog_has_fired(watchdog, &err));
    ck_assert_str_eq(err.where, "rank 5");
    ck_assert_ptr_nonnull(strstr(err.msg, "no progress for 0.0"));
    check_status(&run, "rank 5 waits FORWARD c1 mb2 on lane 0\n"
                       "rank 5 waits RECV_ACT c1 mb7 from 1 on lane 2\n");
    watchdog_free(watchdog);
    ck_assert_int_eq(atomic_load(&run.stops), 1);
}
END_TEST

/* One lane (queue of instructions) always waits, as if in a receive; the other makes progress. */
START_TEST(progress_of_one_lane_prevents_the_report)
{
    struct run run;
    struct watchdog *watchdog = watch(&run, 0.2, 60);
    watchdog_enter(watchdog, 1, "RECV_GRAD");
    for (int i = 0; i < 120; i++) {
        watchdog_enter(watchdog, 0, i % 2 ? "FORWARD" : "BACKWARD");
        sleep_s(0.002);
    }
    struct err err = { 0 };
    ck_assert(!watchdog_has_fired(watchdog, &err));
    watchdog_free(watchdog);
    ck_assert_int_eq(atomic_load(&run.stops), 0);
}
END_TEST

START_TEST(idle_lanes_are_not_a_standstill)
{
    struct run run;
    struct watchdog *watchdog = watch(&run, 0.02, 60);
    watchdog_enter(watchdog, 0, "FORWARD");
    watchdog_enter(watchdog, 0, NULL);
    sleep_s(0.06);
    struct err err = { 0 };
    ck_assert(!watchdog_has_fired(watchdog, &err));
    watchdog_free(watchdog);
}
END_TEST

struct looking {
    struct watchdog *watchdog;
    atomic_int moves, looks;
};

/* Lets the lane enter a new state as often as `moves` has been increased since the last call. */
static void enter_moves(void *context)
{
    struct looking *looking = context;
    atomic_fetch_add(&looking->looks, 1);
    for (int left = atomic_exchange(&looking->moves, 0); left > 0; left--)
        watchdog_enter(looking->watchdog, 0, "BACKWARD c0 mb1");
}

START_TEST(a_state_change_between_two_checks_is_progress)
{
    struct run run;
    struct err err = { 0 };
    struct looking looking = { .watchdog = watch(&run, 0.2, 60) };
    watchdog_look_with(looking.watchdog, enter_moves, &looking);
    for (int i = 0; i < 120; i++) {
        atomic_fetch_add(&looking.moves, 1);
        sleep_s(0.002);
    }
    ck_assert(!watchdog_has_fired(looking.watchdog, &err));
    wait_for_stop(&run);
    check_status(&run, "rank 5 waits BACKWARD c0 mb1 on lane 0\n");
    watchdog_free(looking.watchdog);
}
END_TEST

START_TEST(after_the_last_check_lane_states_do_not_change)
{
    struct run run;
    struct looking looking = { .watchdog = watch(&run, 0, 60) };
    watchdog_enter(looking.watchdog, 0, "RECV_ACT c0 mb0 from 0");
    watchdog_look_with(looking.watchdog, enter_moves, &looking);
    watchdog_look_last(looking.watchdog);
    int looks = atomic_load(&looking.looks);
    ck_assert_int_ge(looks, 1);
    atomic_fetch_add(&looking.moves, 1);
    watchdog_look_last(looking.watchdog);
    watchdog_report(looking.watchdog, "rank 0 closed its connection");
    check_status(&run, "rank 5 waits RECV_ACT c0 mb0 from 0 on lane 0\n");
    ck_assert_int_eq(atomic_load(&looking.looks), looks);
    watchdog_free(looking.watchdog);
}
END_TEST

START_TEST(a_request_to_end_is_reported_too)
{
    struct run run;
    struct watchdog *watchdog = watch(&run, 0, 60);
    watchdog_enter(watchdog, 1, "SEND_ACT c0 mb3 to 2");
    kill(getpid(), SIGTERM);
    wait_for_stop(&run);
    check_status(&run, "rank 5: was asked to stop\nrank 5 waits SEND_ACT c0 mb3 to 2 on lane 1\n");
    watchdog_free(watchdog);
}
END_TEST

START_TEST(a_report_can_be_asked_for)
{
    struct run run;
    struct watchdog *watchdog = watch(&run, 0, 60);
    watchdog_enter(watchdog, 0, "REDUCE_GRAD c0");
    watchdog_report(watchdog, "rank 2 closed its connection");
    check_status(&run, "rank 5: rank 2 closed its connection\nrank 5 waits REDUCE_GRAD c0");
    struct err err = { 0 };
    ck_assert(!watchdog_has_fired(watchdog, &err));
    watchdog_free(watchdog);
}
END_TEST

static void check_is_ended(pid_t child)
{
    char path[64];
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 75);
    snprintf(path, sizeof path, "/tmp/test_watchdog.%d.status", (int)child);
    ck_assert_int_eq(unlink(path), 0);
}

/* The run is asked to stop, but no thread of this process reacts to the request. */
START_TEST(a_run_that_does_not_end_is_ended)
{
    pid_t child = fork();
    if (child == 0) {
        struct run run;
        struct watchdog *watchdog = watch(&run, 0.03, 0.03);
        watchdog_enter(watchdog, 0, "FORWARD");
        for (;;)
            pause();
    }
    check_is_ended(child);
}
END_TEST

START_TEST(a_run_whose_stop_does_not_return_is_ended)
{
    pid_t child = fork();
    if (child == 0) {
        struct run run;
        struct err fired = { 0 };
        struct watchdog *watchdog = watch_and(stop_for_ever, &run, 0.03, 0.1);
        watchdog_enter(watchdog, 0, "REDUCE_GRAD c0");
        while (!watchdog_has_fired(watchdog, &fired))
            sleep_s(0.001);
        watchdog_free(watchdog);
        _exit(1);
    }
    check_is_ended(child);
}
END_TEST

/* The process is stopped for much longer than the limit and then continued. While it was stopped,
 * no lane could make progress. */
START_TEST(time_while_the_process_was_stopped_is_not_counted)
{
    int ready[2];
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct run run;
        struct watchdog *watchdog = watch(&run, 0.3, 60);
        struct err err = { 0 };
        watchdog_enter(watchdog, 0, "FORWARD");
        if (write(ready[1], "x", 1) != 1)
            _exit(2);
        raise(SIGSTOP);
        sleep_s(0.06);
        _exit(watchdog_has_fired(watchdog, &err));
    }
    char byte;
    int status;
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert(WIFSTOPPED(status));
    nanosleep(&(struct timespec){ .tv_nsec = 400000000 }, NULL);
    kill(child, SIGCONT);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("watchdog");
    tcase_set_tags(tc, THREADS);
    tcase_add_test(tc, a_standstill_report_names_what_each_lane_waits_for);
    tcase_add_test(tc, progress_of_one_lane_prevents_the_report);
    tcase_add_test(tc, idle_lanes_are_not_a_standstill);
    tcase_add_test(tc, a_state_change_between_two_checks_is_progress);
    tcase_add_test(tc, after_the_last_check_lane_states_do_not_change);
    tcase_add_test(tc, a_request_to_end_is_reported_too);
    tcase_add_test(tc, a_report_can_be_asked_for);
    tcase_add_test(tc, a_run_that_does_not_end_is_ended);
    tcase_add_test(tc, a_run_whose_stop_does_not_return_is_ended);
    tcase_add_test(tc, time_while_the_process_was_stopped_is_not_counted);
    Suite *s = suite_create("exec/watchdog");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
