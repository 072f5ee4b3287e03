/* Measures the times of launching empty kernels and of events between streams. */
#include "calibration/measure/launch_cost.h"

#include "base/clock.h"
#include "base/length.h"
#include "base/statistics.h"
#include "exec/device/kernels.h"

/* CALLS is below the 1,024 calls that CUDA queues on a stream before it blocks the caller. */
enum { REPEATS = 7, CALLS = 400, EVENTS = 150, MANY_CALLS = 2000, MOST_HOLDS = 64 };

struct launcher {
    struct host_rank *host;
    struct kernels *kernels;
    struct stream *stream, *other;
    struct event *there, *back;
    struct graph *graph; /* a graph of CALLS kernels */
    float *memory;       /* load->copied_bytes of device memory */
    int holds;
};

/* Issues `count` kernels, each of which adds one number. */
static void issue_calls(const struct launcher *l, int count)
{
    struct gradient_sum args = { 1, l->memory, l->memory + 1 };
    for (int call = 0; call < count; call++)
        l->host->kernel_api->gradient_sum(l->kernels, l->stream, &args);
}

/* Issues events from one stream to the other and back. */
static void issue_events(const struct launcher *l, int count)
{
    const struct device_api *api = l->host->api;
    for (int i = 0; i < count; i += 2) {
        api->record(l->stream, l->there);
        api->wait(l->other, l->there);
        api->record(l->other, l->back);
        api->wait(l->stream, l->back);
    }
}

static void issue_graph(const struct launcher *l, int count)
{
    (void)count;
    l->host->api->graph_launch(l->stream, l->graph);
}

/* Keeps the stream busy with fills of memory (a hold), so that later work queues on it. */
static void hold(const struct launcher *l)
{
    for (int i = 0; i < l->holds; i++)
        l->host->api->fill(l->stream, l->memory, 0, l->host->load->copied_bytes);
}

struct timed {
    double issue_s, stream_s; /* time for one kernel or event */
};

static bool time_held(const struct launcher *l, void (*issue)(const struct launcher *, int),
                      int count, struct timed *out, double *held_s, struct err *err)
{
    const struct device_api *api = l->host->api;
    double first_s, start_s, end_s;
    api->note(l->stream, &first_s, NULL);
    hold(l);
    api->note(l->stream, &start_s, NULL);
    double before_s = clock_now_s();
    issue(l, count);
    out->issue_s = (clock_now_s() - before_s) / count;
    api->note(l->stream, &end_s, NULL);
    bool ok = api->stream_sync(l->stream, err) && api->stream_sync(l->other, err);
    out->stream_s = ok ? (end_s - start_s) / count : 0;
    *held_s = ok ? start_s - first_s : 0;
    return ok;
}

/* Measures calls that queue behind a hold. If the hold ended before all calls were queued, the next
 * hold is longer. */
static bool measure_held(struct launcher *l, void (*issue)(const struct launcher *, int), int count,
                         struct timed *out, struct err *err)
{
    double issue_s[REPEATS], stream_s[REPEATS];
    l->holds = 1;
    for (int i = 0; i < REPEATS; i++) {
        struct timed timed;
        double held_s;
        if (!time_held(l, issue, count, &timed, &held_s, err))
            return false;
        issue_s[i] = timed.issue_s;
        stream_s[i] = timed.stream_s;
        if (held_s < 1.5 * count * timed.issue_s && l->holds < MOST_HOLDS)
            l->holds *= 2;
    }
    numbers_sort(stream_s, REPEATS);
    *out = (struct timed){ numbers_median(issue_s, REPEATS), stream_s[REPEATS / 4] };
    return true;
}

/* Measures calls that are issued while earlier ones run. */
static bool measure_calls(const struct launcher *l, double *call_s, struct err *err)
{
    double each_s[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        double start_s = clock_now_s();
        issue_calls(l, MANY_CALLS);
        if (!l->host->api->stream_sync(l->stream, err))
            return false;
        each_s[i] = (clock_now_s() - start_s) / MANY_CALLS;
    }
    *call_s = numbers_median(each_s, REPEATS);
    return true;
}

static bool measure_graph(struct launcher *l, struct timed *out, struct err *err)
{
    l->host->api->capture_begin(l->stream);
    issue_calls(l, CALLS);
    l->graph = l->host->api->capture_end(l->stream);
    if (!l->graph)
        return l->host->api->stream_sync(l->stream, err); /* stream_sync sets err */
    return measure_held(l, issue_graph, CALLS, out, err);
}

static bool measure(struct launcher *l, struct launch_cost *out, struct err *err)
{
    struct timed call, graph = { 0, 0 }, event;
    l->holds = 1;
    hold(l); /* this fills the memory with zeros, which the kernels then add */
    if (!measure_calls(l, &out->call_s, err) || !measure_held(l, issue_calls, CALLS, &call, err) ||
        !measure_graph(l, &graph, err) || !measure_held(l, issue_events, EVENTS, &event, err))
        return false;
    double numbers[] = { out->call_s,    call.issue_s,  call.stream_s, graph.issue_s,
                         graph.stream_s, event.issue_s, event.stream_s };
    bool ok = host_rank_average(l->host, numbers, LENGTH(numbers), err);
    *out = (struct launch_cost){ numbers[0], numbers[1], numbers[2], numbers[3],
                                 numbers[4], numbers[5], numbers[6] };
    return ok;
}

static bool open_launcher(struct host_rank *host, struct launcher *l, struct err *err)
{
    *l = (struct launcher){ .host = host };
    return (l->stream = host->api->stream_new(host->device, "calls", err)) &&
           (l->other = host->api->stream_new(host->device, "other calls", err)) &&
           (l->there = host->api->event_new(host->device, err)) &&
           (l->back = host->api->event_new(host->device, err)) &&
           (l->kernels = host->kernel_api->open(host->device, DTYPE_FP32, err)) &&
           (l->memory = host->api->alloc(host->device, l->stream, host->load->copied_bytes, err));
}

static void close_launcher(struct launcher *l)
{
    const struct device_api *api = l->host->api;
    if (l->memory)
        api->free(l->host->device, l->stream, l->memory);
    api->stream_free(l->stream);
    api->stream_free(l->other);
    api->event_free(l->there);
    api->event_free(l->back);
    if (l->graph)
        api->graph_free(l->graph);
    if (l->kernels)
        l->host->kernel_api->close(l->kernels);
}

bool launch_cost_measure(struct host_rank *host, struct launch_cost *out, struct err *err)
{
    struct launcher l;
    bool ok = open_launcher(host, &l, err) && measure(&l, out, err);
    close_launcher(&l);
    return ok;
}
