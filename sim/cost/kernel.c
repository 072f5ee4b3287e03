/* Tables of measured op times. The fitted time of an op is a power law in its dimensions; near a
 * measured point it is corrected towards the measurement. */
#include "sim/cost/kernel.h"

#include "base/arena.h"
#include "base/length.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const kernel_names[NUM_KERNEL_KINDS + 1] = {
#define X(name, text, meaning) [OP_##name] = text,
    OP_KINDS(X)
#undef X
        [KERNEL_OPTIMIZER] = "optimizer",
};
const char *const pass_names[] = { "forward", "input_gradient", "weight_gradient", NULL };

#define AT(member) .offset = offsetof(struct kernel, member)

// clang-format off
const struct field kernel_fields[] = {
    { .name = "op", .kind = FIELD_NAME, AT(kind), .names = kernel_names,
      .doc = "Kind of the ops that were measured." },
    { .name = "pass", .kind = FIELD_NAME, AT(pass), .names = pass_names, .fallback = "forward",
      .doc = "Forward, or which of the two gradients of the backward." },
    { .name = "variant", .kind = FIELD_TEXT, AT(variant),
      .size = sizeof((struct kernel *)0)->variant, .fallback = "",
      .doc = "Variant of the kernel: gelu, rmsnorm, dropout ..." },
    { .name = "points", .kind = FIELD_OTHER,
      .doc = "At most 1024 shapes: [m, n, k, batch, \"1.25 ms\"]." },
};
// clang-format on
const size_t num_kernel_fields = LENGTH(kernel_fields);

/* --- the fit ------------------------------------------------------------------------------- */

/* The work of an op, to which its time is roughly proportional. For products it is the product of
 * all four sizes; for other ops k is left out, as it may be the number of rows of a table. */
static double work_of(int kind, const double size[NUM_KERNEL_SIZES])
{
    bool multiplies = kind == OP_GEMM || kind == OP_SCORES || kind == OP_ATTENTION_VALUES ||
                      kind == OP_FLASH_ATTENTION || kind == OP_INDEX_LOSS;
    return size[0] * size[1] * size[3] * (multiplies ? size[2] : 1);
}

static double clamped(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double trend_log_s(const struct kernel *kernel, const double log_size[NUM_KERNEL_SIZES])
{
    double sum = kernel->level;
    for (int i = 0; i < NUM_KERNEL_SIZES; i++)
        sum += kernel->slope[i] *
               (clamped(log_size[i], kernel->low[i], kernel->high[i]) - kernel->middle[i]);
    return sum;
}

static double log_rate(const struct kernel *kernel, const struct kernel_point *point)
{
    return log(point->time_s / work_of(kernel->kind, point->size));
}

static void find_middle(struct kernel *kernel)
{
    kernel->level = 0;
    for (int i = 0; i < NUM_KERNEL_SIZES; i++) {
        kernel->middle[i] = 0;
        kernel->low[i] = HUGE_VAL;
        kernel->high[i] = -HUGE_VAL;
    }
    for (int p = 0; p < kernel->num_points; p++) {
        struct kernel_point *point = &kernel->points[p];
        kernel->level += log_rate(kernel, point) / kernel->num_points;
        for (int i = 0; i < NUM_KERNEL_SIZES; i++) {
            point->log_size[i] = log2(point->size[i]);
            kernel->middle[i] += point->log_size[i] / kernel->num_points;
            kernel->low[i] = fmin(kernel->low[i], point->log_size[i]);
            kernel->high[i] = fmax(kernel->high[i], point->log_size[i]);
        }
    }
}

/* Solves the equations by Gaussian elimination; the matrix is positive definite. */
static void solve(double a[NUM_KERNEL_SIZES][NUM_KERNEL_SIZES + 1], double *x)
{
    enum { N = NUM_KERNEL_SIZES };
    for (int i = 0; i < N; i++)
        for (int row = i + 1; row < N; row++) {
            double factor = a[row][i] / a[i][i];
            for (int column = i; column <= N; column++)
                a[row][column] -= factor * a[i][column];
        }
    for (int i = N - 1; i >= 0; i--) {
        x[i] = a[i][N];
        for (int j = i + 1; j < N; j++)
            x[i] -= a[i][j] * x[j];
        x[i] /= a[i][i];
    }
}

/* Finds slopes by least squares with a prior of slope 0, which has the weight of one point. Without
 * the prior, slopes would be arbitrary for sizes that were not varied, or were varied only together
 * with others. */
static void find_slope(struct kernel *kernel)
{
    double sums[NUM_KERNEL_SIZES][NUM_KERNEL_SIZES + 1] = { 0 };
    for (int i = 0; i < NUM_KERNEL_SIZES; i++)
        sums[i][i] = 1;
    for (int p = 0; p < kernel->num_points; p++) {
        const struct kernel_point *point = &kernel->points[p];
        double rest = log_rate(kernel, point) - kernel->level;
        for (int i = 0; i < NUM_KERNEL_SIZES; i++) {
            double x = point->log_size[i] - kernel->middle[i];
            for (int j = 0; j < NUM_KERNEL_SIZES; j++)
                sums[i][j] += x * (point->log_size[j] - kernel->middle[j]);
            sums[i][NUM_KERNEL_SIZES] += x * rest;
        }
    }
    solve(sums, kernel->slope);
}

void kernel_fit(struct kernel *kernel)
{
    find_middle(kernel);
    find_slope(kernel);
    for (int p = 0; p < kernel->num_points; p++) {
        struct kernel_point *point = &kernel->points[p];
        point->rest = log_rate(kernel, point) - trend_log_s(kernel, point->log_size);
    }
}

/* --- use ----------------------------------------------------------------------------------- */

/* The weighted mean of the points' deviations from their fitted times. Weights fall with the fourth
 * power of the distance in octaves (Shepard 1968), so close to a point that point dominates. Points
 * within a twentieth of an octave count as the same shape, so repeats are averaged. */
static double rest_near(const struct kernel *kernel, const double log_size[NUM_KERNEL_SIZES])
{
    const double same = 0.05 * 0.05;
    double weights = 0, sum = 0;
    for (int p = 0; p < kernel->num_points; p++) {
        const struct kernel_point *point = &kernel->points[p];
        double distance2 = same;
        for (int i = 0; i < NUM_KERNEL_SIZES; i++) {
            double d = point->log_size[i] - log_size[i];
            distance2 += d * d;
        }
        double weight = 1 / (distance2 * distance2);
        weights += weight;
        sum += weight * point->rest;
    }
    return sum / weights;
}

void kernel_size_of(const struct op *op, double size[NUM_KERNEL_SIZES])
{
    struct op run = op_row_block(op);
    const double sizes[NUM_KERNEL_SIZES] = { run.m, run.n, run.k, run.batch };
    for (int i = 0; i < NUM_KERNEL_SIZES; i++)
        size[i] = sizes[i] > 0 ? sizes[i] : 1;
}

bool kernel_sizes_equal(const double a[NUM_KERNEL_SIZES], const double b[NUM_KERNEL_SIZES])
{
    for (int i = 0; i < NUM_KERNEL_SIZES; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

double kernel_s(const struct kernel *kernel, const double size[NUM_KERNEL_SIZES])
{
    double log_size[NUM_KERNEL_SIZES];
    for (int i = 0; i < NUM_KERNEL_SIZES; i++) {
        if (size[i] <= 0)
            return 0;
        log_size[i] = log2(size[i]);
    }
    return work_of(kernel->kind, size) *
           exp(trend_log_s(kernel, log_size) + rest_near(kernel, log_size));
}

const struct kernel *kernel_find(const struct kernel *kernels, int num_kernels, int kind, int pass,
                                 const char *variant)
{
    const struct kernel *first = NULL;
    for (int i = 0; i < num_kernels; i++) {
        if (kernels[i].kind != kind || kernels[i].pass != pass)
            continue;
        if (strcmp(kernels[i].variant, variant) == 0)
            return &kernels[i];
        first = first ? first : &kernels[i];
    }
    return first;
}

/* --- files --------------------------------------------------------------------------------- */

static bool read_point(const json_t *row, struct kernel_point *out, struct err *err)
{
    const char *time = json_string_value(json_array_get(row, NUM_KERNEL_SIZES));
    bool ok = json_array_size(row) == NUM_KERNEL_SIZES + 1 && time;
    for (size_t i = 0; i < NUM_KERNEL_SIZES; i++) {
        out->size[i] = json_number_value(json_array_get(row, i));
        ok = ok && out->size[i] > 0 && out->size[i] < 1e15;
    }
    if (!ok)
        return err_set(err, ERR_INPUT, "",
                       "expected [m, n, k, batch, time] with sizes above 0, like "
                       "[512, 768, 256, 1, \"2.1 ms\"]");
    if (!units_parse(time, QUANTITY_SECONDS, &out->time_s, err))
        return false;
    return out->time_s > 0 ||
           err_set(err, ERR_INPUT, "", "expected a time above 0; found \"%.40s\"", time);
}

static bool read_points(const json_t *rows, struct kernel *out, struct err *err)
{
    size_t count = json_array_size(rows);
    if (count < 1 || count > MAX_KERNEL_POINTS)
        return err_set(err, ERR_INPUT, "points", "expected a list of 1 to %d points; found %zu",
                       MAX_KERNEL_POINTS, count);
    out->points = arena_grow(NULL, count * sizeof *out->points);
    out->num_points = (int)count;
    for (size_t i = 0; i < count; i++)
        if (!read_point(json_array_get(rows, i), &out->points[i], err))
            return err_within_item(err, "points", i);
    return true;
}

bool kernel_read(const json_t *object, struct kernel *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    if (!fields_read(kernel_fields, num_kernel_fields, object, out, err))
        return false;
    if (!read_points(json_object_get(object, "points"), out, err)) {
        kernel_release(out);
        return false;
    }
    kernel_fit(out);
    return true;
}

json_t *kernel_write(const struct kernel *kernel)
{
    json_t *object = fields_write(kernel_fields, num_kernel_fields, kernel);
    json_t *points = json_array();
    for (int i = 0; i < kernel->num_points; i++) {
        const struct kernel_point *point = &kernel->points[i];
        char time[64];
        units_write(point->time_s, QUANTITY_SECONDS, time, sizeof time);
        json_array_append_new(points, json_pack("[f, f, f, f, s]", point->size[0], point->size[1],
                                                point->size[2], point->size[3], time));
    }
    json_object_set_new(object, "points", points);
    return object;
}

void kernel_release(struct kernel *kernel)
{
    free(kernel->points);
    kernel->points = NULL;
    kernel->num_points = 0;
}
