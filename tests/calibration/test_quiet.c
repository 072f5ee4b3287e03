/* Tests a calibration on a fake machine with other programs: whether it waits for a quiet machine,
 * and which times it keeps. */
#include "calibration/measure/quiet.h"

#include "base/core_share.h"
#include "calibration/measure/host_comm.h"
#include "tests/testing.h"

#include <math.h>

/* --- waiting --------------------------------------------------------------------------------- */

/* The fake machine is busy until a given time. Each query of its clock takes a tenth of a second.
 */
struct fake_machine {
    double now_s, quiet_from_s, busy_share;
    int asked, told;
};

static bool fake_share(void *context, double *share, double *now_s, struct err *err)
{
    struct fake_machine *fake = context;
    (void)err;
    fake->asked++;
    fake->now_s += 0.1;
    *now_s = fake->now_s;
    *share = fake->now_s < fake->quiet_from_s ? fake->busy_share : 0.98;
    return true;
}

static void fake_rest(void *context, double seconds)
{
    ((struct fake_machine *)context)->now_s += seconds;
}

static void fake_tell(void *context, double share, double left_s)
{
    struct fake_machine *fake = context;
    ck_assert(share < quiet_core_share && left_s > 0);
    fake->told++;
}

static const struct {
    const char *what;
    double quiet_from_s, busy_share, most_s;
    int asked;
    double waited_s;
} waits[] = {
    { "idle from the start", 0, 0.15, 10, 1, 0 },
    { "a compiler ends after 3 s", 3, 0.5, 10, 4, 3.3 },
    { "another program uses the core without end", 1e9, 0.15, 5, 6, 5.1 },
    { "no time to wait", 1e9, 0.15, 0, 1, 0 },
    { "other programs take a tenth of the core", 1e9, 0.9, 10, 1, 0 },
};

START_TEST(a_calibration_waits_a_bounded_time_for_idle_cores)
{
    struct fake_machine fake = { .quiet_from_s = waits[_i].quiet_from_s,
                                 .busy_share = waits[_i].busy_share };
    struct quiet_machine machine = { &fake, fake_share, fake_rest, fake_tell };
    struct err err = { 0 };
    double waited_s;
    ck_assert(quiet_wait(&machine, waits[_i].most_s, &waited_s, &err));
    ck_assert_msg(fake.asked == waits[_i].asked, "%s: the core share was read %d times",
                  waits[_i].what, fake.asked);
    ck_assert_msg(fabs(waited_s - waits[_i].waited_s) < 1e-9, "%s: the wait took %g s",
                  waits[_i].what, waited_s);
    ck_assert_int_eq(fake.told, fake.asked - 1);
}
END_TEST

/* --- exchanges ------------------------------------------------------------------------------- */

enum { REPEATS = 40 };

/* The transfers take 20 to 24 us. In some of them a rank arrives 3 ms late, or waits 3 ms for a
 * core. */
static double quiet_of(int late_of_ten, int kept_of_ten)
{
    struct exchange_time times[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        bool is_late = i % 10 < late_of_ten, is_kept = (i + 5) % 10 < kept_of_ten;
        double transfer_s = 20e-6 + 1e-6 * (i % 5);
        times[i] =
            (struct exchange_time){ .waited_s = is_late ? 3e-3 : 0, .kept_s = is_kept ? 3e-3 : 0 };
        times[i].took_s = transfer_s + times[i].waited_s + times[i].kept_s;
    }
    return exchange_quiet_s(times, REPEATS);
}

/* For each case: how many of ten transfers have a late rank, and how many wait for a core. */
static const int disturbed[][2] = { { 0, 0 }, { 3, 0 }, { 5, 3 }, { 9, 9 }, { 10, 0 }, { 10, 10 } };

START_TEST(waiting_for_peers_is_not_counted_in_a_transfer)
{
    double took_s = quiet_of(disturbed[_i][0], disturbed[_i][1]);
    ck_assert_msg(took_s > 19.9e-6 && took_s < 24.1e-6, "a transfer took %g us", 1e6 * took_s);
}
END_TEST

/* --- steps ----------------------------------------------------------------------------------- */

static const struct {
    const char *what;
    double wall_s;
    struct core_time after;
    double quiet_s;
} steps[] = {
    { "no other program", 0.46, { 0.45, 0, 4, true }, 0.46 },
    { "other programs had six sevenths of the core", 3.15, { 0.46, 2.69, 900, true }, 0.505 },
    { "two threads of the rank waited at the same time", 3.15, { 0.47, 5.3, 900, true }, 0.47 },
    { "the rank waited for a disk", 1, { 0.1, 0, 50, true }, 1 },
    { "the core time is not known", 3.15, { .is_known = false }, 3.15 },
};

START_TEST(time_of_other_processes_is_subtracted_from_a_step)
{
    struct core_time before = { .is_known = true };
    double quiet_s = core_quiet_s(steps[_i].wall_s, &before, &steps[_i].after);
    ck_assert_msg(fabs(quiet_s - steps[_i].quiet_s) < 1e-9, "%s: the undisturbed time is %g s",
                  steps[_i].what, quiet_s);
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("quiet");
    tcase_add_loop_test(cases, a_calibration_waits_a_bounded_time_for_idle_cores, 0, LENGTH(waits));
    tcase_add_loop_test(cases, waiting_for_peers_is_not_counted_in_a_transfer, 0,
                        LENGTH(disturbed));
    tcase_add_loop_test(cases, time_of_other_processes_is_subtracted_from_a_step, 0, LENGTH(steps));
    Suite *s = suite_create("calibration/measure/quiet");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
