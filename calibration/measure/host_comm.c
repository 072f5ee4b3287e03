/* Measures the times of collectives and of messages between the ranks of this machine, and the rate
 * at which a device copies memory. Ranks are processes, each on one core or one GPU. */
#include "calibration/measure/host_comm.h"

#include "base/arena.h"
#include "base/core_share.h"
#include "base/statistics.h"
#include "calibration/measure/budget.h"
#include "exec/device/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARM_UPS = 3, LEAST_REPEATS = 7, MOST_REPEATS = 201 };

/* Bytes that a rank writes before each exchange to empty its core's cache. In training a rank
 * computes between two exchanges, so socket buffers are no longer cached. */
enum { PASSING_BYTES = 8 << 20 };

/* --- disturbance by other programs --------------------------------------------------------- */

/* Ranks leave a barrier one after another; a rank that starts within this time is not late. */
static const double leaving_s = 50e-6;

static double lost_s(const struct exchange_time *time)
{
    return time->waited_s + time->kept_s;
}

/* A lower limit for corrected times; no message is faster. */
static const double least_exchange_s = 1e-6;

double exchange_quiet_s(const struct exchange_time *times, int count)
{
    double *rest_s = arena_grow(NULL, (size_t)count * sizeof *rest_s);
    int quiet = 0;
    for (int i = 0; i < count; i++)
        if (lost_s(&times[i]) <= 0)
            rest_s[quiet++] = times[i].took_s;
    for (int i = 0; i < count && quiet == 0; i++)
        rest_s[i] = fmax(times[i].took_s - lost_s(&times[i]), least_exchange_s);
    numbers_sort(rest_s, (size_t)(quiet > 0 ? quiet : count));
    double typical_s = rest_s[quiet > 0 ? quiet / 4 : count / 2];
    free(rest_s);
    return typical_s;
}

/* --- collectives and messages -------------------------------------------------------------- */

/* The settings that all repeats of one measurement share. */
struct timed_call {
    struct host_rank *host;
    struct group *group;
    struct stream *stream;
    int kind; /* as in struct curve */
    float *in, *out;
    float *passing; /* PASSING_BYTES, written before each exchange */
    int thread;     /* the stream's thread, from core_time_open; -1: not known */
};

struct core_note {
    int thread;
    struct core_time *out;
};

static void read_core_time(void *args)
{
    const struct core_note *note = args;
    *note->out = core_time_of(note->thread);
}

static void note_core_time(const struct timed_call *x, struct core_time *out)
{
    struct core_note note = { x->thread, out };
    *out = (struct core_time){ 0 };
    if (x->thread >= 0)
        x->host->api->call(x->stream, read_core_time, &note, sizeof note);
}

static void open_core_time(void *args)
{
    int **thread = args;
    **thread = core_time_open();
}

/* Finds the stream's thread; a GPU's stream has none. */
static bool find_thread(struct timed_call *x, struct err *err)
{
    int *thread = &x->thread;
    x->thread = -1;
    if (x->host->api->call)
        x->host->api->call(x->stream, open_core_time, &thread, sizeof thread);
    return x->host->api->stream_sync(x->stream, err);
}

static const enum comm_kind comm_kinds[NUM_COLLECTIVES] = {
    [COLLECTIVE_ALL_REDUCE] = COMM_ALL_REDUCE,
    [COLLECTIVE_ALL_GATHER] = COMM_ALL_GATHER,
    [COLLECTIVE_REDUCE_SCATTER] = COMM_REDUCE_SCATTER,
    [COLLECTIVE_BROADCAST] = COMM_BROADCAST,
};

/* Number of elements per rank for `bytes`, the size of the whole buffer as in
 * sim/collective/collective.h. */
static size_t count_of(const struct timed_call *x, double bytes)
{
    bool has_parts = x->kind == COLLECTIVE_ALL_GATHER || x->kind == COLLECTIVE_REDUCE_SCATTER;
    double elements = bytes / sizeof(float) / (has_parts ? x->group->size : 1);
    return elements < 1 ? 1 : (size_t)elements;
}

static void issue(const struct timed_call *x, enum comm_kind kind, size_t count)
{
    struct comm_call call = { .kind = kind,
                              .group = x->group,
                              .stream = x->stream,
                              .in = x->in,
                              .out = x->out,
                              .count = count,
                              .element = ELEMENT_FP32,
                              .reduction = REDUCTION_SUM,
                              .peer = kind == COMM_BROADCAST ? 0 : 1 - x->group->index };
    x->host->comm_api->issue(&call);
}

/* Issues a message to the other rank and one back. They count as two messages, so that the clocks
 * of the two ranks need not be compared. */
static void issue_ping(const struct timed_call *x, size_t count)
{
    bool begins = x->group->index == 0;
    if (x->group->size < 2)
        return;
    issue(x, begins ? COMM_SEND : COMM_RECV, count);
    issue(x, begins ? COMM_RECV : COMM_SEND, count);
}

/* This rank's times of an exchange, by the machine's clock. */
struct own_times {
    double start_s, end_s, kept_s;
};

static bool time_once(const struct timed_call *x, size_t count, struct own_times *out,
                      struct err *err)
{
    struct core_time before, after;
    x->host->api->fill(x->stream, x->passing, 0, PASSING_BYTES);
    if (!host_rank_meet(x->host, x->stream, err))
        return false;
    note_core_time(x, &before);
    x->host->api->note(x->stream, &out->start_s, NULL);
    if (x->kind == CURVE_POINT_TO_POINT)
        issue_ping(x, count);
    else
        issue(x, comm_kinds[x->kind], count);
    x->host->api->note(x->stream, &out->end_s, NULL);
    note_core_time(x, &after);
    if (!x->host->api->stream_sync(x->stream, err) || !x->host->comm_api->poll(x->host->comm, err))
        return false;
    out->kept_s = core_kept_s(&before, &after);
    return true;
}

/* Number of messages in sequence per call: 2 for a ping and its answer. */
static int ways(const struct timed_call *x)
{
    return x->kind == CURVE_POINT_TO_POINT ? 2 : 1;
}

/* Finds how long members waited for the last to start, which needs the common clock of one machine;
 * across machines, no waiting is assumed. */
static bool share_times(const struct timed_call *x, const struct own_times *own, int count,
                        struct exchange_time *out, struct err *err)
{
    double last_start_s[MOST_REPEATS], kept_s[MOST_REPEATS];
    bool has_one_clock = x->host->place.local_size == x->host->place.size;
    for (int i = 0; i < count; i++) {
        last_start_s[i] = own[i].start_s;
        kept_s[i] = own[i].kept_s;
    }
    if ((has_one_clock && !host_rank_most(x->host, x->group, last_start_s, (size_t)count, err)) ||
        !host_rank_most(x->host, x->group, kept_s, (size_t)count, err))
        return false;
    for (int i = 0; i < count; i++)
        out[i] = (struct exchange_time){
            .took_s = (own[i].end_s - own[i].start_s) / ways(x),
            .waited_s = fmax(0, last_start_s[i] - own[i].start_s - leaving_s) / ways(x),
            .kept_s = kept_s[i] / ways(x),
        };
    return true;
}

/* Whether this member's time is used. A sender's time ends when the last bytes are in the socket
 * buffers, up to a megabyte before they arrive. So for messages only the time of the first sender
 * is used, which ends when the answer has arrived, and for a broadcast those of the receivers. In
 * other collectives no member ends before all have sent, so all times are used. */
static bool tells_time(const struct timed_call *x)
{
    if (x->kind == CURVE_POINT_TO_POINT)
        return x->group->size > 1 && x->group->index == 0;
    return x->kind != COLLECTIVE_BROADCAST || x->group->index > 0 || x->group->size == 1;
}

/* The mean of the times that are used; every rank gets it. */
static bool average_time(const struct timed_call *x, double *time_s, struct err *err)
{
    double sums[] = { tells_time(x) ? *time_s : 0, tells_time(x) };
    bool ok = host_rank_average(x->host, sums, 2, err);
    *time_s = sums[0] / sums[1];
    return ok;
}

static int repeats_in(const struct host_rank *host, double seconds, double once_s)
{
    int least = host_rank_least(host, LEAST_REPEATS);
    return budget_repeats(seconds / (once_s + 1e-6), least, MOST_REPEATS);
}

static bool time_size(const struct timed_call *x, double bytes, double seconds, double *typical_s,
                      struct err *err)
{
    struct own_times own[MOST_REPEATS];
    struct exchange_time times[MOST_REPEATS];
    size_t count = count_of(x, bytes);
    int warm_ups = 0;
    do {
        if (!time_once(x, count, &own[0], err))
            return false;
    } while (++warm_ups < host_rank_least(x->host, WARM_UPS));
    double once_s = (own[0].end_s - own[0].start_s) / ways(x);
    if (!average_time(x, &once_s, err))
        return false;
    int repeats = repeats_in(x->host, seconds, once_s);
    for (int i = 0; i < repeats; i++)
        if (!time_once(x, count, &own[i], err))
            return false;
    if (!share_times(x, own, repeats, times, err))
        return false;
    *typical_s = exchange_quiet_s(times, repeats);
    return average_time(x, typical_s, err);
}

static void add_point(struct curve *curve, double bytes, double time_s)
{
    curve->points[curve->num_points++] =
        (struct curve_point){ bytes, time_s, log(bytes), log(time_s) };
}

/* The next message size: sizes double, with the caller's sizes in between. */
static double size_after(const struct host_sizes *sizes, double bytes)
{
    double doublings = floor(log2(bytes / sizes->least_bytes) + 1e-6);
    double next = sizes->least_bytes * exp2(doublings + 1);
    for (int i = 0; i < MAX_OWN_SIZES; i++)
        if (sizes->own_bytes[i] > 1.05 * bytes && sizes->own_bytes[i] < next / 1.05)
            return sizes->own_bytes[i];
    return next;
}

static bool time_sizes(const struct timed_call *x, const struct host_sizes *sizes,
                       struct curve *curve, struct err *err)
{
    double bytes = sizes->least_bytes;
    while (bytes <= sizes->most_bytes * 1.01 && curve->num_points < MAX_CURVE_POINTS) {
        double typical_s;
        if (!time_size(x, bytes, sizes->seconds, &typical_s, err))
            return false;
        add_point(curve, bytes, typical_s);
        if (typical_s > sizes->most_s)
            break;
        bytes = size_after(sizes, bytes);
    }
    return true;
}

void host_fill_even(float *values, size_t count)
{
    uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525U + 1013904223U;
        values[i] = (float)(state >> 8) / (1 << 24) - 0.5F;
    }
}

/* The stream of the device copies the values into the array. */
float *host_random_values(struct host_rank *host, size_t count, struct err *err)
{
    float *values = arena_grow(NULL, count * sizeof *values);
    struct stream *stream = host->api->stream_new(host->device, "values", err);
    float *at = stream ? host->api->alloc(host->device, stream, count * sizeof *at, err) : NULL;
    host_fill_even(values, count);
    if (at)
        host->api->copy(stream, at, values, count * sizeof *at);
    host->api->stream_free(stream);
    free(values);
    return at;
}

/* A group of `num_ranks` neighbours. Remaining ranks form a smaller group, which does not affect
 * the others. */
static struct group *neighbours(struct host_rank *host, int num_ranks, struct err *err)
{
    int members[1024], count = 0;
    int first = host->place.rank / num_ranks * num_ranks;
    for (int i = first; i < first + num_ranks && i < host->place.size; i++)
        members[count++] = i;
    return host->comm_api->group_new(host->comm, members, count, err);
}

bool host_curve_measure(struct host_rank *host, int kind, int num_ranks,
                        const struct host_sizes *sizes, struct curve *curve, struct err *err)
{
    size_t count = (size_t)(sizes->most_bytes / sizeof(float)) + 64;
    struct timed_call x = { .host = host, .kind = kind, .thread = -1 };
    *curve = (struct curve){ .collective = kind, .num_ranks = num_ranks, .num_nodes = 1 };
    bool ok = (x.stream = host->api->stream_new(host->device, "exchange", err)) &&
              find_thread(&x, err) && (x.group = neighbours(host, num_ranks, err)) &&
              (x.in = host_random_values(host, count, err)) &&
              (x.out = host_random_values(host, count, err)) &&
              (x.passing = host_random_values(host, PASSING_BYTES / sizeof(float), err)) &&
              time_sizes(&x, sizes, curve, err);
    if (x.in)
        host->api->free(host->device, NULL, x.in);
    if (x.out)
        host->api->free(host->device, NULL, x.out);
    if (x.passing)
        host->api->free(host->device, NULL, x.passing);
    if (x.group)
        host->comm_api->group_free(x.group);
    host->api->stream_free(x.stream);
    if (x.thread >= 0)
        close(x.thread);
    return ok;
}

/* --- memory -------------------------------------------------------------------------------- */

/* Timed on the stream: a GPU's copy takes microseconds, and the host thread may lose its core
 * meanwhile. */
static bool time_copy(struct host_rank *host, struct stream *stream, float *to, const float *from,
                      double *seconds, struct err *err)
{
    double at_s[2], own_s[2] = { 0, 0 };
    if (!host_rank_meet(host, stream, err))
        return false;
    host->api->note(stream, &at_s[0], &own_s[0]);
    host->api->copy(stream, to, from, host->load->copied_bytes);
    host->api->note(stream, &at_s[1], &own_s[1]);
    bool ok = host->api->stream_sync(stream, err);
    *seconds = own_s[1] - own_s[0];
    return ok;
}

bool host_copy_bytes_per_s(struct host_rank *host, double *bytes_per_s, struct err *err)
{
    double each_s[LEAST_REPEATS];
    size_t count = host->load->copied_bytes / sizeof(float);
    struct stream *stream = host->api->stream_new(host->device, "copy", err);
    float *from = host_random_values(host, count, err);
    float *to = host_random_values(host, count, err);
    bool ok = stream && from && to;
    for (int i = 0; i < LEAST_REPEATS && ok; i++)
        ok = time_copy(host, stream, to, from, &each_s[i], err);
    host->api->free(host->device, NULL, from);
    host->api->free(host->device, NULL, to);
    host->api->stream_free(stream);
    *bytes_per_s =
        ok ? 2.0 * (double)host->load->copied_bytes / numbers_median(each_s, LEAST_REPEATS) : 0;
    return ok && host_rank_average(host, bytes_per_s, 1, err);
}
