/* Times single ops on a GPU over grids of sizes: matrix products, attention and ops that are bound
 * by memory. */
#include "calibration/measure/gpu_sweep.h"

#include "base/arena.h"
#include "base/statistics.h"
#include "exec/device/kernels.h"
#include "sim/plan/plan.h"

#include <stdlib.h>

enum { WARM_UPS = 3, NUM_ARRAYS = 4 };

/* One op to time: its name in the measured list, and its sizes. */
struct swept {
    int kind, pass;
    long m, n, k, batch;
};

struct sweep {
    struct host_rank *host;
    struct kernels *kernels;
    struct stream *stream;
    void *arrays[NUM_ARRAYS]; /* operands and results; operands have random values */
    float *numbers[4];        /* fp32 arrays, initially 0: weight gradients, statistics, moments */
    void *scratch;
    size_t array_bytes, number_bytes, scratch_bytes;
    struct host_ops *ops;
    int step; /* use every step-th size of a grid */
    int repeats;
    struct err *err;
};

/* --- memory -------------------------------------------------------------------------------- */

/* Sizes of the arrays in bytes, divided by the square of load->side. ARRAY_BYTES: four sides by
 * three sides of 16-bit values; NUMBER_BYTES: eight sides by one side of fp32 values. On a GPU with
 * side 4096 that is 400 and 512 MiB. */
enum { ARRAY_BYTES = 25, NUMBER_BYTES = 32, SCRATCH_BYTES = 32 };

/* Nearly normal numbers with standard deviation 1, each the sum of three uniform numbers. Ops on
 * zeros would run faster, as a chip draws less power for them. */
static float *random_numbers(size_t count)
{
    float *numbers = arena_grow(NULL, count * sizeof *numbers);
    uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        numbers[i] = 0;
        for (int j = 0; j < 3; j++) {
            state = state * 1664525U + 1013904223U;
            numbers[i] += (float)(state >> 8) / (1 << 23) - 1;
        }
    }
    return numbers;
}

/* Fills a device array by repeating `piece`, which was made on the host. */
static void fill_array(struct sweep *s, void *array, const float *piece, size_t count)
{
    const struct device_api *api = s->host->api;
    size_t bytes = count * (size_t)precision_bytes((int)s->host->precision);
    s->host->kernel_api->pack(s->kernels, s->stream, &(struct pack){ (long)count, piece, array });
    for (size_t at = bytes; at + bytes <= s->array_bytes; at += bytes)
        api->copy(s->stream, (char *)array + at, array, bytes);
}

static bool fill_arrays(struct sweep *s)
{
    enum { MOST_PIECE = 1 << 22 };
    const struct device_api *api = s->host->api;
    size_t count = s->array_bytes / sizeof(float);
    size_t piece = count < MOST_PIECE ? count : MOST_PIECE;
    float *numbers = random_numbers(piece);
    api->copy(s->stream, s->numbers[0], numbers, piece * sizeof *numbers);
    for (int i = 0; i < NUM_ARRAYS; i++)
        fill_array(s, s->arrays[i], s->numbers[0], piece);
    for (int i = 0; i < 4; i++)
        api->fill(s->stream, s->numbers[i], 0, s->number_bytes);
    bool ok = api->stream_sync(s->stream, s->err);
    free(numbers);
    return ok;
}

static bool take_memory(struct sweep *s)
{
    const struct device_api *api = s->host->api;
    bool ok = true;
    size_t area = (size_t)s->host->load->side * (size_t)s->host->load->side;
    s->array_bytes = ARRAY_BYTES * area;
    s->number_bytes = NUMBER_BYTES * area;
    s->scratch_bytes = SCRATCH_BYTES * area;
    for (int i = 0; i < NUM_ARRAYS && ok; i++)
        ok = (s->arrays[i] = api->alloc(s->host->device, s->stream, s->array_bytes, s->err));
    for (int i = 0; i < 4 && ok; i++)
        ok = (s->numbers[i] = api->alloc(s->host->device, s->stream, s->number_bytes, s->err));
    ok = ok && (s->scratch = api->alloc(s->host->device, s->stream, s->scratch_bytes, s->err));
    return ok && fill_arrays(s);
}

static void give_back_memory(struct sweep *s)
{
    const struct device_api *api = s->host->api;
    for (int i = 0; i < NUM_ARRAYS; i++)
        api->free(s->host->device, s->stream, s->arrays[i]);
    for (int i = 0; i < 4; i++)
        api->free(s->host->device, s->stream, s->numbers[i]);
    api->free(s->host->device, s->stream, s->scratch);
}

/* --- one op -------------------------------------------------------------------------------- */

static struct attention attention_of(const struct swept *op)
{
    return (struct attention){
        .sequences = 1, .seq = op->m, .heads = op->batch, .kv_heads = op->batch, .head_dim = op->k
    };
}

static void issue_product(const struct sweep *s, const struct swept *op)
{
    const struct kernel_api *api = s->host->kernel_api;
    if (op->pass == PASS_FORWARD)
        api->linear_forward(s->kernels, s->stream,
                            &(struct linear_forward){ op->m, op->n, op->k, s->arrays[0],
                                                      s->arrays[1], NULL, s->arrays[2], NULL });
    else if (op->pass == PASS_BACKWARD_INPUT)
        api->linear_input_gradient(s->kernels, s->stream,
                                   &(struct linear_input_gradient){ op->m, op->k, op->n,
                                                                    s->arrays[0], s->arrays[1],
                                                                    s->arrays[2], NULL });
    else
        api->linear_weight_gradient(s->kernels, s->stream,
                                    &(struct linear_weight_gradient){ op->k, op->m, op->n,
                                                                      s->arrays[0], s->arrays[1],
                                                                      s->numbers[0], NULL });
}

/* Issues attention, forward or backward. The backward reads the output of the forward, which is
 * timed before it. */
static void issue_attention(const struct sweep *s, const struct swept *op)
{
    const struct kernel_api *api = s->host->kernel_api;
    struct attention attention = attention_of(op);
    if (op->pass == PASS_FORWARD)
        api->flash_forward(s->kernels, s->stream,
                           &(struct flash_forward){ attention, s->arrays[0], s->arrays[1],
                                                    s->numbers[0], s->scratch });
    else
        api->flash_backward(s->kernels, s->stream,
                            &(struct flash_backward){ attention, s->arrays[2], s->arrays[0],
                                                      s->arrays[1], s->numbers[0], s->arrays[3],
                                                      s->scratch });
}

static void issue_update(const struct sweep *s, const struct swept *op)
{
    struct adamw_args args = { { 1e-4F, 0, 1, 0.9F, 0.95F, 1e-8F, 1 },
                               op->m,
                               s->numbers[0],
                               s->numbers[1] + op->m,
                               s->numbers[1],
                               s->numbers[2],
                               s->numbers[3],
                               s->arrays[0] };
    s->host->kernel_api->adamw(s->kernels, s->stream, &args);
}

static void issue(const struct sweep *s, const struct swept *op)
{
    if (op->kind == OP_GEMM)
        issue_product(s, op);
    else if (op->kind == OP_FLASH_ATTENTION)
        issue_attention(s, op);
    else
        issue_update(s, op);
}

/* Whether the arrays are large enough for the op. */
static bool has_room(const struct sweep *s, const struct swept *op)
{
    double element = precision_bytes((int)s->host->precision);
    double m = (double)op->m, n = (double)op->n, k = (double)op->k;
    struct attention attention = attention_of(op);
    if (op->kind == KERNEL_OPTIMIZER)
        return 4 * (m + 64) <= (double)s->number_bytes && element * m <= (double)s->array_bytes;
    if (op->kind == OP_FLASH_ATTENTION)
        return 3 * element * m * k * (double)op->batch <= (double)s->array_bytes &&
               s->host->kernel_api->flash_scratch_bytes(s->kernels, &attention) <= s->scratch_bytes;
    return element * m * k <= (double)s->array_bytes && element * k * n <= (double)s->array_bytes &&
           element * m * n <= (double)s->array_bytes && 4 * m * n <= (double)s->number_bytes;
}

static bool measure(struct sweep *s, struct swept op)
{
    double start_s[GPU_SWEEP_MOST_REPEATS], end_s[GPU_SWEEP_MOST_REPEATS];
    int repeats = s->repeats;
    const struct device_api *api = s->host->api;
    if (s->ops->count == s->ops->room || !has_room(s, &op))
        return true;
    for (int i = 0; i < WARM_UPS; i++) /* the first call of an op may tune it and wait */
        issue(s, &op);
    /* keeps the stream busy, so that later work waits on it */
    api->fill(s->stream, s->scratch, 0, s->scratch_bytes);
    for (int i = 0; i < repeats; i++) {
        api->note(s->stream, &start_s[i], NULL);
        issue(s, &op);
        api->note(s->stream, &end_s[i], NULL);
    }
    if (!api->stream_sync(s->stream, s->err))
        return false;
    for (int i = 0; i < repeats; i++)
        end_s[i] -= start_s[i];
    numbers_sort(end_s, (size_t)repeats);
    double times_s[] = { end_s[repeats / 2], end_s[repeats / 10], end_s[repeats - 1] };
    if (!host_rank_average(s->host, times_s, 3, s->err))
        return false;
    s->ops->at[s->ops->count++] =
        (struct host_op){ .kind = op.kind,
                          .pass = op.pass,
                          .variant = "",
                          .size = { (double)op.m, (double)op.n, (double)op.k, (double)op.batch },
                          .time = { times_s[0], times_s[1], times_s[2] } };
    return true;
}

/* --- grids --------------------------------------------------------------------------------- */

static bool measure_passes(struct sweep *s, int kind, long m, long n, long k, long batch)
{
    int last = kind == OP_GEMM ? PASS_BACKWARD_WEIGHT : PASS_BACKWARD_INPUT;
    for (int pass = PASS_FORWARD; pass <= last; pass++)
        if (!measure(s, (struct swept){ kind, pass, m, n, k, batch }))
            return false;
    return true;
}

/* Times products. On a GPU with side 4096 (struct host_load) widths grow in steps of 64, half a
 * tile. Rows grow first in steps of 128, each of which adds a wave of tiles, then by an eighth.
 * Inner dimensions double from 64, square products from 256. */
static bool sweep_products(struct sweep *s)
{
    bool ok = true;
    long side = s->host->load->side;
    for (long n = side * 3 / 4; n <= side * 5 / 4 && ok; n += side / 64 * s->step)
        ok = measure_passes(s, OP_GEMM, side, n, side, 1);
    for (long m = side / 32; m <= 4 * side && ok; m += (m < side / 2 ? side / 32 : m / 8) * s->step)
        ok = measure_passes(s, OP_GEMM, m, side, side, 1);
    for (long k = side / 64; k <= 4 * side && ok; k *= 2)
        ok = measure_passes(s, OP_GEMM, side, side, k, 1);
    for (long n = side / 16; n <= 3 * side && ok; n *= 2)
        ok = measure_passes(s, OP_GEMM, n, n, n, 1);
    return ok;
}

static bool sweep_attention(struct sweep *s)
{
    static const long widths[] = { 64, 128 };
    bool ok = true;
    long side = s->host->load->side;
    for (int i = 0; i < 2; i++)
        for (long seq = side / 8; seq <= 4 * side && ok; seq *= 2)
            for (long heads = 8; heads <= 128 && ok; heads *= s->step > 1 ? 4 : 2)
                ok = measure_passes(s, OP_FLASH_ATTENTION, seq, seq, widths[i], heads);
    return ok;
}

static bool sweep_updates(struct sweep *s)
{
    bool ok = true;
    long area = s->host->load->side * s->host->load->side;
    for (long n = area >> 14; n <= 8 * area && ok; n *= 4)
        ok = measure(s, (struct swept){ KERNEL_OPTIMIZER, PASS_FORWARD, n, 1, 1, 1 });
    return ok;
}

bool gpu_sweep_measure(struct host_rank *host, bool is_quick, int repeats, struct host_ops *ops,
                       struct err *err)
{
    struct sweep s = {
        .host = host, .ops = ops, .step = is_quick ? 4 : 1, .repeats = repeats, .err = err
    };
    s.stream = host->api->stream_new(host->device, "sweep", err);
    if (s.stream)
        s.kernels =
            host->kernel_api->open(host->device, precision_value_dtype((int)host->precision), err);
    bool ok = s.kernels && take_memory(&s) && sweep_products(&s) && sweep_attention(&s) &&
              sweep_updates(&s);
    give_back_memory(&s);
    host->api->stream_free(s.stream);
    if (s.kernels)
        host->kernel_api->close(s.kernels);
    return ok;
}
