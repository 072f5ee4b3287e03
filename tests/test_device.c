#include "tests/testing.h"

#include "exec/device.h"
#include "tests/draw.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct device_api *const host = &device_host;

static struct device *open_device(double delay_most_s, bool poisons)
{
    struct err err = { 0 };
    struct device *device = host->open(&(struct device_options){ .arena_bytes = 1 << 20,
                                                                 .poisons = poisons,
                                                                 .delay_most_s = delay_most_s,
                                                                 .delay_seed = 7 },
                                       &err);
    ck_assert_msg(device, "%s", err.msg);
    return device;
}

static struct stream *new_stream(struct device *device)
{
    struct err err = { 0 };
    struct stream *stream = host->stream_new(device, "test", &err);
    ck_assert_msg(stream, "%s", err.msg);
    return stream;
}

static struct event *new_event(struct device *device)
{
    struct err err = { 0 };
    return host->event_new(device, &err);
}

static void sync_stream(struct stream *stream)
{
    struct err err = { 0 };
    ck_assert_msg(host->stream_sync(stream, &err), "%s", err.msg);
}

/* --- order ---------------------------------------------------------------------------------- */

struct append {
    int *list;
    int *count;
    int value;
};

static void append(void *args)
{
    struct append *a = args;
    a->list[(*a->count)++] = a->value;
}

START_TEST(work_of_a_stream_runs_in_the_order_of_issue)
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

/* A chain of additions over streams that take turns: value = 3 value + i, in order by events alone,
 * on memory that no lock protects. */
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

static void sleep_5_ms(void *args)
{
    (void)args;
    nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
}

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

/* Nothing was recorded yet, so there is nothing to wait for; and a wait is for the record before
 * it, not for a later one of the same event. */
START_TEST(a_wait_is_for_the_latest_record_so_far)
{
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
    host->wait(a, of_b); /* would never end, were b to wait for the record that follows */
    host->record(a, event);
    sync_stream(a);
    ck_assert_double_ge(host->elapsed_s(of_b, event), 0);
    host->stream_free(a);
    host->stream_free(b);
    host->event_free(event);
    host->event_free(of_b);
    host->close(device);
}
END_TEST

START_TEST(elapsed_time_is_what_passed_between_two_records)
{
    struct device *device = open_device(0, false);
    struct stream *stream = new_stream(device);
    struct event *from = new_event(device), *to = new_event(device);
    host->record(stream, from);
    host->call(stream, sleep_5_ms, NULL, 0);
    host->record(stream, to);
    sync_stream(stream);
    ck_assert_double_ge(host->elapsed_s(from, to), 0.005);
    ck_assert_double_le(host->elapsed_s(to, from), -0.005);
    host->stream_free(stream);
    host->event_free(from);
    host->event_free(to);
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

/* b waits for a record that a cannot reach: the work before it aborts. */
START_TEST(an_abort_ends_every_wait_and_drops_what_is_queued)
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

/* --- graphs --------------------------------------------------------------------------------- */

static void issue_appends(struct stream *stream, int *list, int *count, int num)
{
    for (int i = 0; i < num; i++)
        host->call(stream, append, &(struct append){ list, count, i }, sizeof(struct append));
}

START_TEST(a_graph_runs_when_it_is_launched_and_each_time_alike)
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

START_TEST(what_is_told_again_does_not_run_and_must_be_the_same)
{
    struct device *device = open_device(0, false);
    struct stream *stream = new_stream(device);
    int list[8], count = 0;
    char byte;
    host->capture_begin(stream);
    issue_appends(stream, list, &count, 3);
    struct graph *graph = host->capture_end(stream);
    for (int num = 2; num <= 4; num++) {
        host->retell_begin(stream, graph);
        issue_appends(stream, list, &count, num);
        ck_assert(host->retell_end(stream) == (num == 3));
    }
    host->retell_begin(stream, graph);
    issue_appends(stream, list, &count, 2);
    host->fill(stream, &byte, 0, 1);
    ck_assert(!host->retell_end(stream));
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

START_TEST(an_abort_ends_a_graph_between_two_of_its_pieces)
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

/* --- memory --------------------------------------------------------------------------------- */

START_TEST(the_high_water_mark_is_the_most_in_use_at_once)
{
    struct device *device = open_device(0, false);
    struct err err = { 0 };
    void *a = host->alloc(device, NULL, 1000, &err); /* 1024 */
    void *b = host->alloc(device, NULL, 256, &err);
    host->free(device, NULL, a);
    void *c = host->alloc(device, NULL, 512, &err);
    struct region_sizes sizes = host->memory(device);
    ck_assert_uint_eq(sizes.used_bytes, 256 + 512);
    ck_assert_uint_eq(sizes.high_water_bytes, 1024 + 256);
    ck_assert_uint_eq(sizes.extent_bytes, 1024 + 256);
    ck_assert_ptr_eq(c, a);
    host->free(device, NULL, b);
    host->free(device, NULL, c);
    ck_assert_uint_eq(host->memory(device).used_bytes, 0);
    host->close(device);
}
END_TEST

START_TEST(memory_that_does_not_fit_is_refused_with_sizes)
{
    struct device *device = open_device(0, false);
    struct err err = { 0 };
    ck_assert_ptr_null(host->alloc(device, NULL, (size_t)2 << 20, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(err.msg, "1048576"));
    struct err huge = { 0 };
    ck_assert_ptr_null(host->alloc(device, NULL, SIZE_MAX, &huge));
    host->close(device);
}
END_TEST

struct poison_check {
    const unsigned char *memory;
    int *good;
};

static void check_byte(void *args)
{
    const struct poison_check *check = args;
    *check->good += check->memory[0] == 1;
}

/* The free is issued while the work that reads is still queued. */
START_TEST(poison_comes_in_the_order_of_the_stream)
{
    struct device *device = open_device(0, true);
    struct stream *stream = new_stream(device);
    struct err err = { 0 };
    unsigned char *memory = host->alloc(device, stream, 64, &err);
    int good = 0;
    sync_stream(stream);
    float value;
    memcpy(&value, memory, sizeof value);
    ck_assert(isnan(value));
    host->fill(stream, memory, 1, 64);
    host->call(stream, sleep_5_ms, NULL, 0);
    host->call(stream, check_byte, &(struct poison_check){ memory, &good },
               sizeof(struct poison_check));
    host->free(device, stream, memory);
    sync_stream(stream);
    ck_assert_int_eq(good, 1);
    ck_assert_int_eq(memory[0], 0xff);
    host->stream_free(stream);
    host->close(device);
}
END_TEST

/* Parts in use never overlap, and sizes are those of a plain sum; all freed, all fits again. */
START_TEST(random_allocations_never_overlap)
{
    enum { SLOTS = 60, CAPACITY = 64 * 1024 };
    struct random rng = random_new(told_seed(), 1);
    struct region *region = region_new(CAPACITY);
    size_t at[SLOTS], bytes[SLOTS] = { 0 }, used = 0, most = 0;
    for (int turn = 0; turn < TURNS(4000); turn++) {
        int slot = random_below(&rng, SLOTS);
        if (bytes[slot] > 0) {
            ck_assert_uint_eq(region_give_back(region, at[slot]), bytes[slot]);
            used -= bytes[slot];
            bytes[slot] = 0;
            continue;
        }
        size_t wanted = (size_t)random_below(&rng, 3000);
        if (!region_take(region, wanted, &at[slot]))
            continue;
        bytes[slot] = wanted == 0 ? 256 : (wanted + 255) / 256 * 256;
        used += bytes[slot];
        most = used > most ? used : most;
        ck_assert_uint_eq(at[slot] % REGION_ALIGNMENT, 0);
        ck_assert_uint_le(at[slot] + bytes[slot], CAPACITY);
        for (int other = 0; other < SLOTS; other++)
            if (other != slot && bytes[other] > 0)
                ck_assert(at[slot] + bytes[slot] <= at[other] ||
                          at[other] + bytes[other] <= at[slot]);
        ck_assert_uint_eq(region_sizes(region).used_bytes, used);
    }
    ck_assert_uint_eq(region_sizes(region).high_water_bytes, most);
    for (int slot = 0; slot < SLOTS; slot++)
        if (bytes[slot] > 0)
            region_give_back(region, at[slot]);
    size_t whole;
    ck_assert(region_take(region, CAPACITY, &whole));
    region_free(region);
}
END_TEST

static uint64_t layout_of(struct device *device)
{
    return host->memory(device).layout;
}

/* Taken in one order and given back in another: what is free is what counts. */
START_TEST(the_layout_is_the_same_where_the_same_memory_is_free)
{
    struct err err = { 0 };
    struct device *device = open_device(0, false);
    uint64_t empty = layout_of(device);
    char *a = host->alloc(device, NULL, 1000, &err), *b = host->alloc(device, NULL, 2000, &err);
    uint64_t two = layout_of(device);
    host->free(device, NULL, a);
    uint64_t second = layout_of(device);
    ck_assert(empty != two && two != second && second != empty);
    ck_assert_ptr_eq(host->alloc(device, NULL, 900, &err), a);
    ck_assert(layout_of(device) == two);
    host->free(device, NULL, b);
    host->free(device, NULL, a);
    ck_assert(layout_of(device) == empty);
    host->close(device);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("device");
    tcase_add_test(tc, work_of_a_stream_runs_in_the_order_of_issue);
    tcase_add_test(tc, events_order_work_across_streams);
    tcase_add_test(tc, a_call_returns_before_its_work_runs);
    tcase_add_test(tc, a_wait_is_for_the_latest_record_so_far);
    tcase_add_test(tc, elapsed_time_is_what_passed_between_two_records);
    tcase_add_test(tc, arguments_are_copied_when_work_is_issued);
    tcase_add_test(tc, denormal_results_are_zero_on_a_stream);
    tcase_add_test(tc, an_abort_ends_every_wait_and_drops_what_is_queued);
    tcase_add_test(tc, the_high_water_mark_is_the_most_in_use_at_once);
    tcase_add_test(tc, memory_that_does_not_fit_is_refused_with_sizes);
    tcase_add_test(tc, poison_comes_in_the_order_of_the_stream);
    tcase_add_test(tc, random_allocations_never_overlap);
    tcase_add_test(tc, the_layout_is_the_same_where_the_same_memory_is_free);
    tcase_add_test(tc, a_graph_runs_when_it_is_launched_and_each_time_alike);
    tcase_add_test(tc, what_is_told_again_does_not_run_and_must_be_the_same);
    tcase_add_test(tc, an_abort_ends_a_graph_between_two_of_its_pieces);
    Suite *s = suite_create("exec/device");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
