#include "tests/testing.h"

#include "exec/device/device.h"
#include "tests/exec/host_device.h"

static const struct device_api *const host = &device_host;

static void issue_appends(struct stream *stream, int *list, int *count, int num)
{
    for (int i = 0; i < num; i++)
        host->call(stream, append, &(struct append){ list, count, i }, sizeof(struct append));
}

START_TEST(each_launch_of_a_graph_runs_the_same_work)
{
    enum { NUM = 100, LAUNCHES = 3 };
    struct device *device = open_device(20e-6, false);
    struct stream *stream = new_stream(device);
    int list[LAUNCHES * NUM], count = 0;
    host->capture_begin(stream);
    issue_appends(stream, list, &count, NUM);
    struct graph *graph = host->capture_end(stream);
    sync_stream(stream);
    ck_assert_int_eq(count, 0);
    for (int i = 0; i < LAUNCHES; i++)
        host->graph_launch(stream, graph);
    sync_stream(stream);
    ck_assert_int_eq(count, LAUNCHES * NUM);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(list[i], i % NUM);
    host->graph_free(graph);
    host->stream_free(stream);
    host->close(device);
}
END_TEST

START_TEST(verifying_a_graph_runs_nothing_and_compares_the_work)
{
    struct device *device = open_device(0, false);
    struct stream *stream = new_stream(device);
    int list[8], count = 0;
    char byte;
    host->capture_begin(stream);
    issue_appends(stream, list, &count, 3);
    struct graph *graph = host->capture_end(stream);
    for (int num = 2; num <= 4; num++) {
        host->graph_verify_begin(stream, graph);
        issue_appends(stream, list, &count, num);
        ck_assert(host->graph_verify_end(stream) == (num == 3));
    }
    host->graph_verify_begin(stream, graph);
    issue_appends(stream, list, &count, 2);
    host->fill(stream, &byte, 0, 1);
    ck_assert(!host->graph_verify_end(stream));
    sync_stream(stream);
    ck_assert_int_eq(count, 0);
    host->graph_free(graph);
    host->stream_free(stream);
    host->close(device);
}
END_TEST

struct stopping {
    struct device *device;
    int *count;
};

static void count_and_stop(void *args)
{
    const struct stopping *stopping = args;
    ++*stopping->count;
    host->abort(stopping->device);
}

START_TEST(an_abort_ends_a_graph_between_two_pieces)
{
    struct device *device = open_device(0, false);
    struct stream *stream = new_stream(device);
    struct err err = { 0 };
    int count = 0;
    struct stopping stopping = { device, &count };
    host->capture_begin(stream);
    for (int i = 0; i < 5; i++)
        host->call(stream, count_and_stop, &stopping, sizeof stopping);
    struct graph *graph = host->capture_end(stream);
    host->graph_launch(stream, graph);
    ck_assert(!host->stream_sync(stream, &err));
    ck_assert_int_eq(count, 1);
    host->graph_free(graph);
    host->stream_free(stream);
    host->close(device);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("graphs");
    tcase_set_tags(tc, THREADS);
    tcase_add_test(tc, each_launch_of_a_graph_runs_the_same_work);
    tcase_add_test(tc, verifying_a_graph_runs_nothing_and_compares_the_work);
    tcase_add_test(tc, an_abort_ends_a_graph_between_two_pieces);
    Suite *s = suite_create("exec/device/host_graph");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
