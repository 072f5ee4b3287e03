/* Writes measurements of this machine as a cluster file. In that file a "GPU" is one core, a table
 * holds the measured times of one kind of op by shape, and residuals are the errors of the
 * tables. */
#include "calibration/measure/host_profile_part.h"

#include "base/core_share.h"
#include "base/statistics.h"
#include "kernels/host/blas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME   "host"
#define FABRIC "loopback"

const char host_gpu_name[] = NAME "-core";

/* --- tables -------------------------------------------------------------------------------- */

static struct kernel *table_of(struct kernel *kernels, int *count, const struct host_op *op)
{
    for (int i = 0; i < *count; i++)
        if (kernels[i].kind == op->kind && kernels[i].pass == op->pass &&
            strcmp(kernels[i].variant, op->variant) == 0)
            return &kernels[i];
    if (*count == MAX_KERNELS)
        return NULL;
    struct kernel *next = &kernels[(*count)++];
    *next = (struct kernel){ .kind = op->kind, .pass = op->pass };
    snprintf(next->variant, sizeof next->variant, "%s", op->variant);
    next->points = arena_grow(NULL, MAX_KERNEL_POINTS * sizeof *next->points);
    return next;
}

static bool is_kept(const struct host_op *op)
{
    return op->time.median_s > 0 &&
           (op->kind == KERNEL_OPTIMIZER || !op_is_collective((enum op_kind)op->kind));
}

struct kernel *host_kernels(const struct host_ops *ops, int *count)
{
    struct kernel *kernels = arena_grow(NULL, MAX_KERNELS * sizeof *kernels);
    *count = 0;
    for (int i = 0; i < ops->count; i++) {
        struct kernel *table = is_kept(&ops->at[i]) ? table_of(kernels, count, &ops->at[i]) : NULL;
        if (!table || table->num_points == MAX_KERNEL_POINTS)
            continue;
        struct kernel_point *point = &table->points[table->num_points++];
        *point = (struct kernel_point){ .time_s = ops->at[i].time.median_s };
        memcpy(point->size, ops->at[i].size, sizeof point->size);
    }
    for (int i = 0; i < *count; i++)
        kernel_fit(&kernels[i]);
    return kernels;
}

/* The leave-one-out error of a table's point: the error of its prediction from all points with
 * another shape. */
static double left_out(const struct kernel *kernel, const struct kernel_point *point)
{
    struct kernel rest = *kernel;
    rest.num_points = 0;
    rest.points = arena_grow(NULL, (size_t)kernel->num_points * sizeof *rest.points);
    for (int i = 0; i < kernel->num_points; i++)
        if (!kernel_sizes_equal(kernel->points[i].size, point->size))
            rest.points[rest.num_points++] = kernel->points[i];
    double error = -1;
    if (rest.num_points > 0) {
        kernel_fit(&rest);
        error = fabs(log(kernel_s(&rest, point->size) / point->time_s));
    }
    kernel_release(&rest);
    return error;
}

double *host_left_out(const struct kernel *kernels, int num_kernels, int kind, int *count)
{
    size_t most = 1;
    for (int i = 0; i < num_kernels; i++)
        most += (size_t)kernels[i].num_points;
    double *errors = arena_grow(NULL, most * sizeof *errors);
    *count = 0;
    for (int i = 0; i < num_kernels; i++)
        for (int p = 0; p < kernels[i].num_points && (kind < 0 || kernels[i].kind == kind); p++) {
            double error = left_out(&kernels[i], &kernels[i].points[p]);
            if (error >= 0)
                errors[(*count)++] = error;
        }
    numbers_sort(errors, (size_t)*count);
    return errors;
}

/* --- names of machine and software --------------------------------------------------------- */

/* The value of the first line "key : value" in /proc/cpuinfo; "" if there is none. */
static void cpu_word(const char *key, char *value, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    *value = '\0';
    while (file && !*value && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon)
            continue;
        snprintf(value, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
        value[strcspn(value, "\n")] = '\0';
    }
    if (file)
        fclose(file);
}

static void library_word(char *text, size_t size)
{
    struct blas blas;
    struct err ignored = { 0 };
    if (openblas_find(&blas, &ignored))
        openblas_describe(text, size);
    else
        snprintf(text, size, "products without OpenBLAS");
}

void host_source_words(const struct host_measured *measured, char *text, size_t size)
{
    char host[64] = "", cpu[64], library[96], day[32];
    time_t now = time(NULL);
    gethostname(host, sizeof host - 1);
    cpu_word("model name", cpu, sizeof cpu);
    library_word(library, sizeof library);
    strftime(day, sizeof day, "%Y-%m-%d", gmtime(&now));
    snprintf(text, size, "simsearch calibrate%s%s on %s, host %.32s, %.48s, %d ranks, %.80s",
             *measured->options ? " " : "", measured->options, day, host, cpu, measured->num_ranks,
             library);
}

/* --- JSON ---------------------------------------------------------------------------------- */

static json_t *quantity(double value, enum quantity of)
{
    char text[64];
    units_write(value, of, text, sizeof text);
    return json_string(text);
}

static double flops_of(const struct host_op *op)
{
    return 2 * op->size[0] * op->size[1] * op->size[2] * op->size[3];
}

/* The best rate of any matrix product, taken as the core's peak. */
static double best_flops_per_s(const struct host_ops *ops)
{
    double best = 1;
    for (int i = 0; i < ops->count; i++)
        if (ops->at[i].kind == OP_GEMM && ops->at[i].time.median_s > 0)
            best = fmax(best, flops_of(&ops->at[i]) / ops->at[i].time.median_s);
    return best;
}

static double cache_bytes(int num_ranks)
{
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (double)bytes / num_ranks : 1 << 20;
}

static double memory_bytes(int num_ranks)
{
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / num_ranks;
}

static double clock_hz(void)
{
    char mhz[32];
    cpu_word("cpu MHz", mhz, sizeof mhz);
    double clock = strtod(mhz, NULL) * 1e6;
    return clock > 1 ? clock : 1e9;
}

static json_t *gpu_json(const struct host_measured *m, const char *source)
{
    json_t *gpu = json_pack("{s:i, s:s, s:s, s:s}", "format", 1, "name", NAME "-core", "source",
                            source, "arch", "ampere");
    json_object_set_new(gpu, "memory", quantity(memory_bytes(m->num_ranks), QUANTITY_BYTES));
    json_object_set_new(gpu, "memory_bandwidth",
                        quantity(m->copy_bytes_per_s, QUANTITY_BYTES_PER_S));
    json_object_set_new(gpu, "num_sms", json_integer(1));
    json_object_set_new(gpu, "clock", quantity(clock_hz(), QUANTITY_HERTZ));
    json_object_set_new(gpu, "l2", quantity(cache_bytes(m->num_ranks), QUANTITY_BYTES));
    json_object_set_new(gpu, "power", quantity(0, QUANTITY_WATTS));
    json_object_set_new(
        gpu, "peak",
        json_pack("{s:o}", "fp32", quantity(best_flops_per_s(&m->ops), QUANTITY_FLOPS_PER_S)));
    return gpu;
}

/* Rates for attention's formula, which is used only if the tables do not apply. */
static json_t *attention_json(const struct host_measured *m)
{
    double forward = 1e-3, backward = 1e-3;
    double peak = best_flops_per_s(&m->ops);
    for (int i = 0; i < m->ops.count; i++) {
        const struct host_op *op = &m->ops.at[i];
        if (op->kind != OP_FLASH_ATTENTION || op->time.median_s <= 0)
            continue;
        double efficiency = flops_of(op) / op->time.median_s / peak;
        double *best = op->pass == PASS_FORWARD ? &forward : &backward;
        *best = fmin(1.5, fmax(*best, efficiency * (op->pass == PASS_FORWARD ? 1 : 2.5)));
    }
    return json_pack("{s:{s:f, s:f, s:f}}", "flash2", "forward_efficiency", forward,
                     "backward_efficiency", backward, "half_seq", 0.0);
}

static json_t *error_json(double *errors, int count)
{
    json_t *json = count == 0 ? json_null()
                              : json_pack("{s:i, s:f, s:f, s:f}", "n", count, "median",
                                          errors[(count - 1) / 2], "p90",
                                          errors[(count - 1) * 9 / 10], "worst", errors[count - 1]);
    free(errors);
    return json;
}

/* The machine's noise: for each op, the 90th percentile of its repeats divided by the 10th. */
static json_t *spread_json(const struct host_ops *ops)
{
    double *spreads = arena_grow(NULL, ((size_t)ops->count + 1) * sizeof *spreads);
    int count = 0;
    for (int i = 0; i < ops->count; i++)
        if (ops->at[i].time.p10_s > 0)
            spreads[count++] = log(ops->at[i].time.p90_s / ops->at[i].time.p10_s);
    numbers_sort(spreads, (size_t)count);
    return error_json(spreads, count);
}

static json_t *launch_json(const struct launch_cost *launch)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "graph_issue_s", launch->graph_issue_s,
                     "graph_kernel_s", launch->graph_kernel_s, "call_s", launch->call_s, "issue_s",
                     launch->issue_s, "kernel_s", launch->kernel_s, "event_issue_s",
                     launch->event_issue_s, "event_s", launch->event_s);
}

static json_t *copies_json(const struct host_copies *copies)
{
    return json_pack("{s:f, s:f, s:f}", "up_bytes_per_s", copies->up_bytes_per_s,
                     "down_bytes_per_s", copies->down_bytes_per_s, "both_bytes_per_s",
                     copies->both_bytes_per_s);
}

json_t *host_residuals_json(const struct host_measured *m, const struct kernel *kernels,
                            int num_kernels)
{
    json_t *by_kind = json_object();
    for (int kind = 0; kind < NUM_KERNEL_KINDS; kind++) {
        int count;
        double *errors = host_left_out(kernels, num_kernels, kind, &count);
        json_t *json = error_json(errors, count);
        if (count > 0)
            json_object_set(by_kind, kernel_names[kind], json);
        json_decref(json);
    }
    return json_pack("{s:{s:o, s:o, s:f, s:f, s:f, s:i}, s:o, s:o, s:o, s:o, s:f}", "calibrate",
                     "left_out", by_kind, "p90_over_p10", spread_json(&m->ops), "outside_ops_s",
                     m->ops.outside_s, "elapsed_s", m->elapsed_s, "core_share",
                     m->disturbed.core_share, "shapes_left_out", m->left_out, "launch",
                     launch_json(&m->launch), "bandwidth", bandwidths_json(&m->traffic), "overlap",
                     host_overlaps_json(&m->overlaps), "host_copies", copies_json(&m->copies),
                     "disk_bytes_per_s", m->disk_bytes_per_s);
}

static double worst_error(const json_t *rows)
{
    double worst = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double was_s = json_number_value(json_object_get(row, "step_s"));
        double said_s = json_number_value(json_object_get(row, "predicted_step_s"));
        if (was_s > 0 && said_s > 0)
            worst = fmax(worst, fabs(log(said_s / was_s)));
    }
    return worst;
}

static void mark_disturbed(const struct host_measured *m, double held_out_error, json_t *profile)
{
    double stated = json_number_value(json_object_get(profile, "error_log"));
    struct disturbance seen = m->disturbed;
    seen.held_out_error = held_out_error;
    json_object_set_new(profile, "error_log", json_real(fmax(stated, held_out_error)));
    if (held_out_error > stated || seen.core_share < quiet_core_share)
        json_object_set_new(profile, "disturbed",
                            fields_write(disturbance_fields, num_disturbance_fields, &seen));
}

bool host_add_held_out(const struct host_measured *m, json_t *cluster, struct err *err)
{
    json_t *group = json_array_get(json_object_get(cluster, "groups"), 0);
    json_t *profile = json_object_get(group, "profile");
    json_t *rows = held_out_json(&m->held_out, m->precision, cluster, err);
    if (!rows || json_object_set_new(json_object_get(profile, "residuals"), "held_out", rows) != 0)
        return false;
    mark_disturbed(m, worst_error(rows), profile);
    return true;
}

/* The interval comes from the errors of single ops. In a step these errors average out, but a run
 * has other errors, which are assumed to be as large. */
double host_interval_of(const struct kernel *kernels, int num_kernels)
{
    int count;
    double *errors = host_left_out(kernels, num_kernels, OP_GEMM, &count);
    double p90 = count > 0 ? errors[(count - 1) * 9 / 10] : 0.2;
    free(errors);
    return fmin(fmax(p90, 0.05), 0.5);
}

json_t *host_curves_json(const struct host_measured *m)
{
    json_t *curves = json_array();
    for (int i = 0; i < m->num_curves; i++) {
        struct curve curve = m->curves[i];
        snprintf(curve.fabric, sizeof curve.fabric, FABRIC);
        json_array_append_new(curves, curve_write(&curve));
    }
    return curves;
}

static json_t *profile_json(const struct host_measured *m, const char *source)
{
    int num_kernels;
    struct kernel *kernels = host_kernels(&m->ops, &num_kernels);
    json_t *tables = json_array();
    json_t *profile =
        json_pack("{s:i, s:s, s:s, s:s, s:b, s:f, s:f, s:f}", "format", 1, "name", NAME "-core",
                  "gpu", NAME "-core", "source", source, "measured", true, "gemm_efficiency", 1.0,
                  "gemm_half_k", 0.0, "memory_efficiency", 1.0);
    json_object_set_new(profile, "kernel", quantity(m->launch.call_s, QUANTITY_SECONDS));
    struct host_slowdown slowdown = host_overlaps_mean(&m->overlaps);
    json_object_set_new(profile, "overlap_compute_slowdown", json_real(slowdown.compute));
    json_object_set_new(profile, "overlap_comm_slowdown", json_real(slowdown.comm));
    json_object_set_new(profile, "chip_spread", json_real(0));
    json_object_set_new(profile, "drift", quantity(m->drift_s, QUANTITY_SECONDS));
    json_object_set_new(profile, "error_log", json_real(host_interval_of(kernels, num_kernels)));
    json_object_set_new(profile, "attention", attention_json(m));
    json_object_set_new(profile, "collectives", host_curves_json(m));
    json_object_set_new(profile, "residuals", host_residuals_json(m, kernels, num_kernels));
    for (int i = 0; i < num_kernels; i++) {
        json_array_append_new(tables, kernel_write(&kernels[i]));
        kernel_release(&kernels[i]);
    }
    free(kernels);
    json_object_set_new(profile, "kernels", tables);
    return profile;
}

static const struct curve *message_curve(const struct host_measured *m)
{
    for (int i = 0; i < m->num_curves; i++)
        if (m->curves[i].collective == CURVE_POINT_TO_POINT)
            return &m->curves[i];
    return NULL;
}

/* The network level, with constants for sizes outside the measured curves: the rate of the largest
 * message and the time of the smallest. */
json_t *host_level_json(const struct host_measured *m)
{
    const struct curve *curve = message_curve(m);
    double bytes_per_s = m->copy_bytes_per_s, latency_s = m->launch.call_s;
    if (curve) {
        const struct curve_point *last = &curve->points[curve->num_points - 1];
        bytes_per_s = last->bytes / last->time_s;
        latency_s = curve->points[0].time_s;
    }
    json_t *level =
        json_pack("{s:s, s:i, s:s}", "name", "node", "size", m->num_ranks, "fabric", FABRIC);
    json_object_set_new(level, "bandwidth", quantity(bytes_per_s, QUANTITY_BYTES_PER_S));
    json_object_set_new(level, "latency", quantity(latency_s, QUANTITY_SECONDS));
    return level;
}

/* Messages between stages are assumed to overlap compute if transfers and compute slow each other
 * down by less than this factor. A core that copies data to the operating system cannot compute at
 * the same time; but if the link is slower than this copy, most of the transfer happens while the
 * core computes, as exec/run/step.c does not wait for sends. Gradient collectives begin when a
 * chunk has all gradients, so they are exposed in both cases. */
static const double free_slowdown = 1.25;

static json_t *stack_json(const struct host_measured *m, const struct stack *stack)
{
    struct stack measured = *stack;
    struct host_slowdown slowdown = host_overlaps_mean(&m->overlaps);
    measured.host.issue_s = m->launch.call_s;
    measured.errors.source = 0;
    if (fmax(slowdown.compute, slowdown.comm) < free_slowdown)
        measured.overlaps |= 1U << OVERLAP_P2P;
    return stack_write(&measured);
}

json_t *host_cluster_json(const struct host_measured *m, const struct stack *stack)
{
    char source[320];
    host_source_words(m, source, sizeof source);
    json_t *group = json_pack("{s:o, s:o, s:i, s:[o]}", "gpu", gpu_json(m, source), "profile",
                              profile_json(m, source), "nodes", 1, "levels", host_level_json(m));
    json_t *cluster =
        json_pack("{s:i, s:s, s:s, s:s}", "format", 1, "name", NAME, "source", source, "summary",
                  "The cores of one machine, each a device of the host executor");
    json_object_set_new(cluster, "host_memory_bandwidth",
                        quantity(m->copy_bytes_per_s, QUANTITY_BYTES_PER_S));
    json_object_set_new(cluster, "groups", json_pack("[o]", group));
    json_object_set_new(cluster, "stack", stack_json(m, stack));
    return cluster;
}
