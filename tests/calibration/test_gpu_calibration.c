/* Calibrates simulated GPUs, which are threads of this machine (tests/cuda_on_host) and support
 * every device call and every kernel. The measured times are those of threads and have no
 * meaning. */
#include "calibration/measure/bandwidth.h"
#include "calibration/measure/host_pair.h"
#include "calibration/measure/launch_cost.h"
#include "exec/device/kernels.h"
#include "tests/exec/plugin_on_host.h"
#include "tests/testing.h"

#include <string.h>

static struct host_rank host;
static bool is_there;

/* A device as fast as one core, because the GPU's threads run one after another here. */
static void set_up(void)
{
    static const struct host_load load = { 1 << 16, 256, 1 << 12, GRID_GPU };
    struct err err = { 0 };
    struct place place = place_alone();
    is_there = plugin_on_host_choose();
    if (!is_there)
        return;
    ck_assert_msg(host_rank_open(&place, "cuda", 64 << 20, &host, &err), "%s: %s", err.where,
                  err.msg);
    host.load = &load;
}

static void tear_down(void)
{
    if (is_there)
        host_rank_close(&host);
}

START_TEST(launches_and_events_are_timed)
{
    struct err err = { 0 };
    struct launch_cost cost;
    if (!is_there)
        return;
    ck_assert_msg(launch_cost_measure(&host, &cost, &err), "%s: %s", err.where, err.msg);
    ck_assert(cost.issue_s > 0 && cost.kernel_s > 0 && cost.event_s > 0);
}
END_TEST

START_TEST(every_memory_bound_op_runs_in_16_bits)
{
    struct err err = { 0 };
    struct bandwidths traffic;
    if (!is_there)
        return;
    ck_assert_int_eq(host.precision, PRECISION_BF16);
    ck_assert_msg(bandwidth_measure(&host, 1 << 14, 0, &traffic, &err), "%s: %s", err.where,
                  err.msg);
    ck_assert_int_eq(traffic.count, 18); /* nine ops, each with 4 KiB and 16 KiB */
}
END_TEST

START_TEST(every_kind_of_work_runs_during_a_collective)
{
    struct err err = { 0 };
    struct host_pair pair;
    if (!is_there)
        return;
    ck_assert_msg(host_pair_open(&host, &pair, &err), "%s: %s", err.where, err.msg);
    host_pair_exchange(&pair);
    for (int work = 0; work < NUM_HOST_WORKS; work++) {
        pair.work = (enum host_work)work;
        host_pair_work(&pair);
    }
    ck_assert_msg(host.api->stream_sync(pair.compute, &err), "%s: %s", err.where, err.msg);
    ck_assert_msg(host.api->stream_sync(pair.comm, &err), "%s: %s", err.where, err.msg);
    host_pair_close(&pair);
}
END_TEST

/* Each stream with kernels needs a workspace. */
START_TEST(more_streams_than_workspaces_are_an_error)
{
    enum { MANY = 17 };
    struct err err = { 0 };
    struct stream *streams[MANY];
    if (!is_there)
        return;
    struct kernels *kernels = host.kernel_api->open(host.device, DTYPE_FP32, &err);
    float *numbers = host.api->alloc(host.device, NULL, 2 * sizeof *numbers, &err);
    ck_assert(kernels && numbers);
    for (int i = 0; i < MANY; i++) {
        streams[i] = host.api->stream_new(host.device, "one of many", &err);
        host.kernel_api->gradient_sum(kernels, streams[i],
                                      &(struct gradient_sum){ 1, numbers, numbers + 1 });
        ck_assert_int_eq(host.api->stream_sync(streams[i], &err), i < MANY - 1);
    }
    ck_assert_ptr_nonnull(strstr(err.msg, "no workspace for one more stream"));
    for (int i = 0; i < MANY; i++)
        host.api->stream_free(streams[i]);
    host.kernel_api->close(kernels);
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("gpu_calibration");
    tcase_set_tags(cases, THREADS);
    tcase_set_timeout(cases, 30);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, launches_and_events_are_timed);
    tcase_add_test(cases, every_memory_bound_op_runs_in_16_bits);
    tcase_add_test(cases, every_kind_of_work_runs_during_a_collective);
    tcase_add_test(cases, more_streams_than_workspaces_are_an_error);
    Suite *s = suite_create("calibration/gpu");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
