/* Measures the times of memory-bound ops by size, and fits the latency and the rate of their time
 * formula. */
#include "calibration/measure/bandwidth.h"

#include "base/arena.h"
#include "base/length.h"
#include "base/statistics.h"
#include "calibration/measure/budget.h"
#include "calibration/measure/host_comm.h"
#include "exec/device/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UPS = 2, LEAST_REPEATS = 3, MOST_REPEATS = 25, LEAST_BYTES = 4096, MOST_WIDTH = 4096 };

/* Two areas of `bytes` each; ops usually read the first and write the second. */
struct traffic {
    struct host_rank *host;
    struct kernels *kernels;
    struct stream *stream;
    char *from, *to;
    int64_t *ids, *ids_on_host;
    size_t bytes;
    long most_rows;
    double element_bytes;
};

/* One op to time: the function that issues it on `rows` rows of `width` values, and its traffic. */
struct traffic_op {
    const char *name;
    int num_kernels;
    /* Traffic per value: the number of elements in the storage type, further bytes, and the number
     * of elements in copies that are made only if the storage type is not fp32. */
    double elements, bytes, copies;
    void (*issue)(const struct traffic *t, long rows, long width);
};

static double value_bytes(const struct traffic *t, const struct traffic_op *op)
{
    double elements = op->elements + (t->element_bytes < sizeof(float) ? op->copies : 0);
    return elements * t->element_bytes + op->bytes;
}

/* --- ops ----------------------------------------------------------------------------------- */

/* The second half of the input area. */
static void *other_half(const struct traffic *t)
{
    return t->from + t->bytes / 2;
}

static void issue_norm(const struct traffic *t, long rows, long width)
{
    struct norm_forward args = { .norm = { rows, width, (float)usual_norm_epsilon },
                                 .kind = NORM_LAYER,
                                 .x = t->from,
                                 .scale = other_half(t),
                                 .shift = other_half(t),
                                 .y = t->to,
                                 .statistics = (float *)(void *)(t->to + t->bytes / 2) };
    t->host->kernel_api->norm_forward(t->kernels, t->stream, &args);
}

static void issue_residual(const struct traffic *t, long rows, long width)
{
    struct residual_args args = { .residual = { .rows = rows, .width = width, .dropout = 0.1 },
                                  .x = t->from,
                                  .h = other_half(t),
                                  .keeps = (uint8_t *)t->to + t->bytes / 2,
                                  .y = t->to };
    t->host->kernel_api->residual(t->kernels, t->stream, &args);
}

static void issue_gelu(const struct traffic *t, long rows, long width)
{
    struct activation_args args = { .shape = { ACTIVATION_GELU, rows, width },
                                    .x = t->from,
                                    .y = t->to };
    t->host->kernel_api->activation(t->kernels, t->stream, &args);
}

static void issue_cross_entropy(const struct traffic *t, long rows, long width)
{
    struct cross_entropy loss = { rows, width, 0, width };
    float *maxima = (float *)(void *)t->to, *sums = maxima + t->most_rows;
    t->host->kernel_api->loss_maxima(t->kernels, t->stream,
                                     &(struct loss_maxima){ loss, t->from, maxima });
    t->host->kernel_api->loss_sums(t->kernels, t->stream,
                                   &(struct loss_sums){ loss, t->from, t->ids, maxima, sums });
}

static void issue_embedding(const struct traffic *t, long rows, long width)
{
    struct embedding_args args = { .embedding = { rows, width, 0, rows },
                                   .seq = rows,
                                   .ids = t->ids,
                                   .table = t->from,
                                   .y = t->to };
    t->host->kernel_api->embedding(t->kernels, t->stream, &args);
}

static void issue_adamw(const struct traffic *t, long rows, long width)
{
    long n = rows * width;
    float *gradients = (float *)(void *)t->from, *state = (float *)(void *)t->to;
    bool has_values = t->element_bytes < sizeof(float);
    struct adamw_args args = { .adamw = { 1e-4F, 0, 1, 0.9F, 0.95F, 1e-8F, 1 },
                               .n = n,
                               .gradients = gradients + 1,
                               .scale = gradients,
                               .first_moments = state,
                               .second_moments = state + n,
                               .weights = state + 2 * n,
                               .values = has_values ? state + 3 * n : NULL };
    t->host->kernel_api->adamw(t->kernels, t->stream, &args);
}

static void issue_cast(const struct traffic *t, long rows, long width)
{
    struct pack args = { rows * width, (const float *)(const void *)t->from, t->to };
    t->host->kernel_api->pack(t->kernels, t->stream, &args);
}

static void issue_squares(const struct traffic *t, long rows, long width)
{
    struct square_sum args = { rows * width, (const float *)(const void *)t->from,
                               (double *)(void *)t->to };
    t->host->kernel_api->square_sum(t->kernels, t->stream, &args);
}

static void issue_copy(const struct traffic *t, long rows, long width)
{
    t->host->api->copy(t->stream, t->to, t->from,
                       (size_t)((double)(rows * width) * t->element_bytes));
}

/* AdamW reads gradient, both moments and weight, writes the last three in fp32, and writes the
 * weight in the storage type. */
// clang-format off
static const struct traffic_op ops[] = {
    { "norm",             1, 2, 0,  0, issue_norm },
    { "residual_dropout", 1, 3, 1,  0, issue_residual },
    { "gelu",             1, 2, 0,  0, issue_gelu },
    { "cross_entropy",    2, 2, 0,  0, issue_cross_entropy },
    { "embedding",        1, 2, 0,  0, issue_embedding },
    { "adamw",            1, 0, 28, 1, issue_adamw },
    { "cast",             1, 1, 4,  0, issue_cast },
    { "square_sum",       2, 0, 4,  0, issue_squares },
    { "copy",             1, 2, 0,  0, issue_copy },
};
// clang-format on
enum { NUM_OPS = LENGTH(ops) };

/* --- memory -------------------------------------------------------------------------------- */

/* Fills the area with numbers uniform over -0.5 to 0.5, copied until it is full. */
static bool fill_area(const struct traffic *t, char *area, struct err *err)
{
    enum { PIECE = 1 << 14 };
    const struct device_api *api = t->host->api;
    float piece[PIECE];
    host_fill_even(piece, PIECE);
    size_t full = t->bytes < sizeof piece ? t->bytes : sizeof piece;
    api->copy(t->stream, area, piece, full);
    for (; full < t->bytes; full *= 2)
        api->copy(t->stream, area + full, area, full < t->bytes - full ? full : t->bytes - full);
    return api->stream_sync(t->stream, err);
}

/* Fills `ids` with row numbers of a table in scattered order; each number below `rows` occurs once
 * if `rows` is a power of two. */
static void put_ids(const struct traffic *t, long rows)
{
    for (long i = 0; i < rows; i++)
        t->ids_on_host[i] = i * 7919 % rows;
    t->host->api->copy(t->stream, t->ids, t->ids_on_host, (size_t)rows * sizeof *t->ids);
}

static bool open_traffic(struct host_rank *host, double most_bytes, struct traffic *t,
                         struct err *err)
{
    const struct device_api *api = host->api;
    *t = (struct traffic){ .host = host,
                           .bytes = (size_t)most_bytes,
                           .most_rows = (long)(most_bytes / MOST_WIDTH) + 1,
                           .element_bytes = precision_bytes((int)host->precision) };
    size_t ids_bytes = (size_t)t->most_rows * sizeof *t->ids;
    t->ids_on_host = arena_grow(NULL, ids_bytes);
    return (t->stream = api->stream_new(host->device, "traffic", err)) &&
           (t->kernels = host->kernel_api->open(
                host->device, precision_value_dtype((int)host->precision), err)) &&
           (t->from = api->alloc(host->device, t->stream, t->bytes, err)) &&
           (t->to = api->alloc(host->device, t->stream, t->bytes, err)) &&
           (t->ids = api->alloc(host->device, t->stream, ids_bytes, err)) &&
           fill_area(t, t->from, err) && fill_area(t, t->to, err);
}

static void close_traffic(struct traffic *t)
{
    void *memories[] = { t->from, t->to, t->ids };
    for (size_t i = 0; i < LENGTH(memories); i++)
        if (memories[i])
            t->host->api->free(t->host->device, t->stream, memories[i]);
    if (t->kernels)
        t->host->kernel_api->close(t->kernels);
    t->host->api->stream_free(t->stream);
    free(t->ids_on_host);
}

/* --- times --------------------------------------------------------------------------------- */

struct size {
    long rows, width;
};

static struct size size_of(const struct traffic *t, const struct traffic_op *op, double bytes)
{
    long values = (long)(bytes / value_bytes(t, op));
    long width = values < MOST_WIDTH ? values : MOST_WIDTH;
    return (struct size){ values / width, width };
}

/* Evicts an op's data from the caches by writing the half of the output area that small ops do not
 * use. Work that is issued after it waits on the stream, so its measured time does not include the
 * time to issue it. */
static void push_out(const struct traffic *t)
{
    t->host->api->fill(t->stream, t->to + t->bytes / 2, 0, t->bytes / 2);
}

/* Measures the median time of an op or, without an op, the time between two notes (timestamps on
 * the stream). */
static bool time_op(const struct traffic *t, const struct traffic_op *op, struct size size,
                    bool is_cold, int repeats, double *typical_s, struct err *err)
{
    double start_s[MOST_REPEATS], end_s[MOST_REPEATS];
    const struct device_api *api = t->host->api;
    push_out(t);
    for (int i = 0; op && i < WARM_UPS; i++)
        op->issue(t, size.rows, size.width);
    for (int i = 0; i < repeats; i++) {
        if (is_cold)
            push_out(t);
        api->note(t->stream, &start_s[i], NULL);
        if (op)
            op->issue(t, size.rows, size.width);
        api->note(t->stream, &end_s[i], NULL);
    }
    if (!api->stream_sync(t->stream, err))
        return false;
    for (int i = 0; i < repeats; i++)
        end_s[i] -= start_s[i];
    *typical_s = numbers_median(end_s, repeats);
    return true;
}

static bool measure_point(const struct traffic *t, const struct traffic_op *op, double bytes,
                          int repeats, struct bandwidths *out, struct err *err)
{
    struct size size = size_of(t, op, bytes);
    double times_s[2];
    put_ids(t, size.rows);
    if (!time_op(t, op, size, false, repeats, &times_s[0], err) ||
        !time_op(t, op, size, true, repeats, &times_s[1], err) ||
        !host_rank_average(t->host, times_s, 2, err))
        return false;
    double moved = value_bytes(t, op) * (double)size.rows * (double)size.width;
    if (out->count < MOST_BANDWIDTH_POINTS && times_s[0] > 0 && times_s[1] > 0)
        out->at[out->count++] =
            (struct bandwidth_point){ op->name, op->num_kernels, moved, times_s[0], times_s[1] };
    return true;
}

/* The number of repeats that fit into `seconds`, from the time of one op of the largest size. Sizes
 * fall by a factor of 4, so all sizes together take a third more than the largest. Each is timed
 * warm and cold, and each cold op waits for a write of half an area. */
static int repeats_in(double seconds, double largest_s, int num_sizes)
{
    double turn_s = NUM_OPS * (2.7 * largest_s + 0.25 * num_sizes * largest_s) + 1e-9;
    return budget_repeats(seconds / turn_s - WARM_UPS, LEAST_REPEATS, MOST_REPEATS);
}

static bool measure_ops(const struct traffic *t, double seconds, struct bandwidths *out,
                        struct err *err)
{
    int num_sizes = (int)(log2((double)t->bytes / LEAST_BYTES) / 2) + 1;
    const struct traffic_op *copy = &ops[NUM_OPS - 1];
    double largest_s;
    struct size none = { 0, 0 };
    if (!time_op(t, copy, size_of(t, copy, (double)t->bytes), false, 1, &largest_s, err) ||
        !time_op(t, NULL, none, false, MOST_REPEATS, &out->note_s, err) ||
        !host_rank_average(t->host, &largest_s, 1, err) ||
        !host_rank_average(t->host, &out->note_s, 1, err))
        return false;
    int repeats = repeats_in(seconds, largest_s, num_sizes);
    for (int i = 0; i < NUM_OPS; i++)
        for (size_t bytes = LEAST_BYTES; bytes <= t->bytes; bytes *= 4)
            if (!measure_point(t, &ops[i], (double)bytes, repeats, out, err))
                return false;
    return true;
}

bool bandwidth_measure(struct host_rank *host, double most_bytes, double seconds,
                       struct bandwidths *out, struct err *err)
{
    struct traffic t;
    out->count = 0;
    bool ok = open_traffic(host, most_bytes, &t, err) && measure_ops(&t, seconds, out, err);
    close_traffic(&t);
    return ok;
}

/* --- the fit ------------------------------------------------------------------------------- */

/* The time of a measured op with cold caches, minus note_s; at least 0. */
static double own_s(const struct bandwidths *measured, int i)
{
    return fmax(0, measured->at[i].cold_s - measured->note_s);
}

static double fitted_s(const struct bandwidth_fit *fit, const struct bandwidth_point *point)
{
    return point->num_kernels * fit->kernel_s + point->bytes / fit->bytes_per_s;
}

static double median_error(const struct bandwidths *measured, const struct bandwidth_fit *fit)
{
    double errors[MOST_BANDWIDTH_POINTS];
    int count = 0;
    for (int i = 0; i < measured->count; i++)
        if (own_s(measured, i) > 0)
            errors[count++] = fabs(log(fitted_s(fit, &measured->at[i]) / own_s(measured, i)));
    return count > 0 ? numbers_median(errors, count) : 0;
}

/* An op with k kernels and b bytes takes t = k a + b c, with a the latency and c the seconds per
 * byte. Each equation is divided by t, so that small ops count as much as large ones: least squares
 * of u a + v c = 1 with u = k / t and v = b / t. If the fitted latency is negative, only the rate
 * is fitted. */
struct bandwidth_fit bandwidth_fit(const struct bandwidths *measured)
{
    double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
    struct bandwidth_fit fit = { 0, 0, 0 };
    for (int i = 0; i < measured->count; i++) {
        const struct bandwidth_point *point = &measured->at[i];
        if (own_s(measured, i) <= 0)
            continue;
        double u = point->num_kernels / own_s(measured, i), v = point->bytes / own_s(measured, i);
        uu += u * u;
        uv += u * v;
        vv += v * v;
        u1 += u;
        v1 += v;
    }
    if (vv == 0)
        return fit;
    double determinant = uu * vv - uv * uv;
    double kernel_s = determinant > 0 ? (u1 * vv - v1 * uv) / determinant : 0;
    double s_per_byte = determinant > 0 ? (v1 * uu - u1 * uv) / determinant : 0;
    bool is_plain = kernel_s > 0 && s_per_byte > 0;
    fit.kernel_s = is_plain ? kernel_s : 0;
    fit.bytes_per_s = is_plain ? 1 / s_per_byte : vv / v1;
    fit.median_error = median_error(measured, &fit);
    return fit;
}

json_t *bandwidths_json(const struct bandwidths *measured)
{
    json_t *all = json_object();
    for (int i = 0; i < measured->count; i++) {
        const struct bandwidth_point *point = &measured->at[i];
        json_t *points = json_object_get(all, point->op);
        if (!points)
            json_object_set_new(all, point->op, points = json_array());
        json_array_append_new(points, json_pack("{s:f, s:f, s:f}", "bytes", point->bytes, "warm_s",
                                                point->warm_s, "cold_s", point->cold_s));
    }
    return all;
}
