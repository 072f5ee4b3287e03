/* Tests how messages and collectives are timed: only by the clocks of ranks that know when all data
 * have arrived. Clocks are fake: rank i measures times_s[i] seconds. */
#include "calibration/measure/host_comm.h"
#include "tests/exec/rank_job.h"
#include "tests/testing.h"

#include <stdio.h>

static const double times_s[] = { 4, 1, 100 };
static _Thread_local double own_time_s;
static _Thread_local bool is_end;

static void note_made_up(struct stream *stream, double *at_s, double *own_s)
{
    (void)stream, (void)own_s;
    *at_s = is_end ? own_time_s : 0;
    is_end = !is_end;
}

struct timing {
    int kind, num_ranks; /* the arguments of host_curve_measure */
    double expected_s;
};

static bool measure(struct rank_job *job, const struct comm_options *options)
{
    const struct timing *timing = job->context;
    struct device_api clocked = device_host;
    struct host_sizes sizes = { .least_bytes = 256, .most_bytes = 512, .most_s = 1e9 };
    struct host_rank host;
    struct curve curve;
    struct err err = { 0 };
    if (!host_rank_open(options->place, "host", 32 << 20, &host, &err)) {
        printf("%s: %s\n", err.where, err.msg);
        return false;
    }
    own_time_s = times_s[options->place->rank];
    clocked.note = note_made_up;
    clocked.call = NULL; /* so the time that the rank waited for a core is unknown too */
    host.api = &clocked;
    bool ok = host_curve_measure(&host, timing->kind, timing->num_ranks, &sizes, &curve, &err);
    for (int i = 0; ok && i < curve.num_points; i++)
        ok = curve.points[i].time_s == timing->expected_s;
    if (!ok)
        printf("%s: %s; %d points, the first of %g s\n", err.where, err.msg, curve.num_points,
               curve.points[0].time_s);
    host_rank_close(&host);
    return ok && curve.num_points == 2;
}

/* A round trip takes twice the time of one message. The rank that answers does not see its answer
 * arrive, and ranks without a partner send nothing. In a reduction each rank has all data when it
 * is done. */
static const struct {
    int size;
    struct timing timing;
} timings[] = {
    { 2, { CURVE_POINT_TO_POINT, 2, 4.0 / 2 } },
    { 3, { CURVE_POINT_TO_POINT, 2, 4.0 / 2 } },
    { 2, { COLLECTIVE_BROADCAST, 2, 1 } },
    { 2, { COLLECTIVE_ALL_REDUCE, 2, (4.0 + 1) / 2 } },
    { 3, { COLLECTIVE_ALL_GATHER, 3, (4.0 + 1 + 100) / 3 } },
};

START_TEST(only_ranks_that_know_the_arrival_of_all_data_give_times)
{
    struct timing timing = timings[_i].timing;
    rank_job_run((struct rank_job){ .api = &comm_tcp,
                                    .size = timings[_i].size,
                                    .seed = 9,
                                    .run = measure,
                                    .context = &timing });
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("comm");
    tcase_add_loop_test(tc, only_ranks_that_know_the_arrival_of_all_data_give_times, 0,
                        LENGTH(timings));
    Suite *s = suite_create("calibration/measure/host_comm");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
