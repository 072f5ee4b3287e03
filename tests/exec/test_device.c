#include "tests/testing.h"

#include "exec/device/device.h"
#include "tests/draw.h"
#include "tests/exec/host_device.h"

#include <float.h>
#include <stdatomic.h>
#include <stdint.h>

static const struct device_api *const host = &device_host;

/* --- order ---------------------------------------------------------------------------------- */

START_TEST(work_on_a_stream_runs_in_the_order_of_issue)
{
    enum { NUM = 100 };
    struct device *device = open_device(20e-6, false);
    struct stream *stream = new_stream(device);
    int list[NUM], count = 0;
    for (int i = 0; i < NUM; i++)
        host->call(stream, append, &(struct append){ list, &count, i }, sizeof(struct append));
    sync_stream(stream);
    ck_assert_int_eq(count, NUM);
    for (int i = 0; i < NUM; i++)
        ck_assert_int_eq(list[i], i);
    host->stream_free(stream);
    host->close(device);
}
END_TEST

/* A chain of steps value = 3 value + i on alternating streams. Only events order the steps; no lock
 * protects the memory. */
struct step {
    int64_t *value;
    int i;
};

static void take_step(void *args)
{
    const struct step *step = args;
    *step->value = (3 * *step->value + step->i) % 1000003;
}

START_TEST(events_order_work_across_streams)
{
    enum { NUM_STREAMS = 4, NUM_STEPS = 200 };
    struct random rng = random_new(told_seed(), 0);
    struct device *device = open_device(50e-6, false);
    struct stream *streams[NUM_STREAMS];
    struct event *events[NUM_STREAMS];
    for (int i = 0; i < NUM_STREAMS; i++) {
        streams[i] = new_stream(device);
        events[i] = new_event(device);
    }
    int64_t value = 1, expected = 1;
    int before = 0;
    for (int i = 0; i < NUM_STEPS; i++) {
        int at = random_below(&rng, NUM_STREAMS);
        host->wait(streams[at], events[before]);
        host->call(streams[at], take_step, &(struct step){ &value, i }, sizeof(struct step));
        host->record(streams[at], events[at]);
        expected = (3 * expected + i) % 1000003;
        before = at;
    }
    struct err err = { 0 };
    ck_assert(host->event_sync(events[before], &err));
    ck_assert_int_eq(value, expected);
    for (int i = 0; i < NUM_STREAMS; i++) {
        host->stream_free(streams[i]);
        host->event_free(events[i]);
    }
    host->close(device);
}
END_TEST

struct gate {
    struct device *device;
    atomic_int *opened, *ran;
};

static void wait_for_gate(void *args)
{
    const struct gate *gate = args;
    while (!atomic_load(gate->opened))
        sleep_5_ms(NULL);
}

static void count_run(void *args)
{
    const struct gate *gate = args;
    atomic_fetch_add(gate->ran, 1);
}

START_TEST(a_call_returns_before_its_work_runs)
{
    struct device *device = open_device(0, false);
    struct stream *stream = new_stream(device);
    atomic_int opened = 0, ran = 0;
    struct gate gate = { device, &opened, &ran };
    host->call(stream, wait_for_gate, &gate, sizeof gate);
    host->call(stream, count_run, &gate, sizeof gate);
    ck_assert_int_eq(atomic_load(&ran), 0);
    atomic_store(&opened, 1);
    sync_stream(stream);
    ck_assert_int_eq(atomic_load(&ran), 1);
    host->stream_free(stream);
    host->close(device);
}
END_TEST

START_TEST(a_post_happens_when_the_stream_reaches_it)
{
    struct err err = { 0 };
    struct device *device = open_device(0, false);
    struct stream *stream = new_stream(device);
    _Atomic uint32_t *word = host->pinned_alloc(device, sizeof *word, &err);
    atomic_int opened = 0;
    struct gate gate = { device, &opened, NULL };
    atomic_init(word, 1);
    host->call(stream, wait_for_gate, &gate, sizeof gate);
    host->post(stream, word, 2);
    sleep_5_ms(NULL);
    ck_assert_uint_eq(atomic_load(word), 1);
    atomic_store(&opened, 1);
    sync_stream(stream);
    ck_assert_uint_eq(atomic_load(word), 2);
    host->pinned_free(device, word);
    host->stream_free(stream);
    host->close(device);
}
END_TEST

/* If an event has no record, a wait returns at once. A wait refers to the latest record before it,
 * not to a later one. */
START_TEST(a_wait_refers_to_the_latest_record_before_it)
{
    struct err err = { 0 };
    struct device *device = open_device(0, false);
    struct stream *a = new_stream(device), *b = new_stream(device);
    struct event *event = new_event(device);
    host->wait(b, event);
    sync_stream(b);
    host->record(a, event);
    host->wait(b, event);
    host->call(a, sleep_5_ms, NULL, 0);
    struct event *of_b = new_event(device);
    host->record(b, of_b);
    host->wait(a, of_b); /* would never end if stream b waited for the later record */
    host->record(a, event);
    sync_stream(a);
    ck_assert(host->event_sync(event, &err));
    host->stream_free(a);
    host->stream_free(b);
    host->event_free(event);
    host->event_free(of_b);
    host->close(device);
}
END_TEST

START_TEST(arguments_are_copied_when_work_is_issued)
{
    struct device *device = open_device(1e-3, false);
    struct stream *stream = new_stream(device);
    int list[2], count = 0;
    struct append args = { list, &count, 5 };
    host->call(stream, append, &args, sizeof args);
    args.value = 6;
    host->call(stream, append, &args, sizeof args);
    args.value = 7;
    sync_stream(stream);
    ck_assert_int_eq(list[0], 5);
    ck_assert_int_eq(list[1], 6);
    host->stream_free(stream);
    host->close(device);
}
END_TEST

static void halve(void *args)
{
    volatile float *value = *(float **)args;
    *value = *value * 0.5f;
}

START_TEST(denormal_results_are_zero_on_a_stream)
{
    struct device *device = open_device(0, false);
    struct stream *stream = new_stream(device);
    float value = FLT_MIN, *at = &value;
    host->call(stream, halve, &at, sizeof at);
    sync_stream(stream);
    ck_assert(value == 0);
    host->stream_free(stream);
    host->close(device);
}
END_TEST

/* --- abort ---------------------------------------------------------------------------------- */

static void abort_device(void *args)
{
    const struct gate *gate = args;
    host->abort(gate->device);
}

/* Stream b waits for an event record that stream a never reaches, because earlier work on stream a
 * aborts the device. */
START_TEST(an_abort_ends_every_wait_and_drops_queued_work)
{
    struct device *device = open_device(0, false);
    struct stream *a = new_stream(device), *b = new_stream(device);
    struct event *event = new_event(device);
    atomic_int ran = 0;
    struct gate gate = { device, NULL, &ran };
    host->call(a, sleep_5_ms, NULL, 0);
    host->call(a, abort_device, &gate, sizeof gate);
    host->call(a, count_run, &gate, sizeof gate);
    host->record(a, event);
    host->wait(b, event);
    host->call(b, count_run, &gate, sizeof gate);
    struct err err = { 0 };
    ck_assert(!host->event_sync(event, &err));
    ck_assert(!host->stream_sync(b, &err));
    ck_assert(!host->stream_sync(a, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_int_eq(atomic_load(&ran), 0);
    host->stream_free(a);
    host->stream_free(b);
    host->event_free(event);
    host->close(device);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("device");
    tcase_set_tags(tc, THREADS);
    tcase_add_test(tc, work_on_a_stream_runs_in_the_order_of_issue);
    tcase_add_test(tc, events_order_work_across_streams);
    tcase_add_test(tc, a_call_returns_before_its_work_runs);
    tcase_add_test(tc, a_post_happens_when_the_stream_reaches_it);
    tcase_add_test(tc, a_wait_refers_to_the_latest_record_before_it);
    tcase_add_test(tc, arguments_are_copied_when_work_is_issued);
    tcase_add_test(tc, denormal_results_are_zero_on_a_stream);
    tcase_add_test(tc, an_abort_ends_every_wait_and_drops_queued_work);
    Suite *s = suite_create("exec/device/device");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
