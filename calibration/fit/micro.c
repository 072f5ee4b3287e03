/* Reads micro-benchmarks from a CSV file: one matrix product, one collective or one other op per
 * row. */
#include "calibration/fit/micro.h"

#include "base/length.h"
#include "calibration/rows/csv.h"
#include "sim/cost/compute.h"
#include "sim/cost/group_links.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- tables -------------------------------------------------------------------------------- */

/* A CSV file whose columns are found by name. */
struct table {
    struct csv in;
    struct csv_record *header, *record;
    struct arena *arena;
};

static bool table_open(struct table *table, const char *path, struct arena *arena, struct err *err)
{
    *table = (struct table){ .arena = arena };
    table->header = ARENA_NEW(arena, struct csv_record);
    table->record = ARENA_NEW(arena, struct csv_record);
    return csv_open(path, arena, &table->in, err) &&
           csv_read_header(&table->in, table->header, err);
}

static bool table_next(struct table *table, struct err *err)
{
    return csv_read(&table->in, table->record, err) &&
           csv_check_width(&table->in, table->header, table->record, err);
}

/* The text in a column; "" when the column is missing. */
static const char *text_in(const struct table *table, const char *column)
{
    for (int i = 0; i < table->header->count; i++)
        if (strcmp(table->header->field[i], column) == 0)
            return table->record->field[i];
    return "";
}

/* The number in a column; 0 when it is empty or the column is missing. */
static bool number_in(const struct table *table, const char *column, double *out, struct err *err)
{
    const char *text = text_in(table, column);
    char what[96];
    *out = 0;
    if (*text == '\0' || csv_number(text, out))
        return true;
    snprintf(what, sizeof what, "expected a number, 0 or more; found \"%.40s\"", text);
    return csv_refuse(table->in.path, table->record->line, column, err, what);
}

static bool need_columns(const struct table *table, const char *const *columns, struct err *err)
{
    for (; *columns; columns++) {
        int i = 0;
        while (i < table->header->count && strcmp(table->header->field[i], *columns) != 0)
            i++;
        if (i == table->header->count)
            return csv_refuse(table->in.path, table->header->line, *columns, err,
                              "expected a column of this name; the header has none");
    }
    return true;
}

static bool passes(const struct table *table, const struct fit_filter *filter)
{
    const char *text = text_in(table, filter->column);
    double number;
    if (filter->text)
        return strcmp(text, filter->text) == 0;
    return csv_number(text, &number) && number >= filter->min && number <= filter->max;
}

static bool passes_all(const struct table *table, const struct fit_rows *rows)
{
    for (int i = 0; i < rows->num_filters; i++)
        if (!passes(table, &rows->filters[i]))
            return false;
    return true;
}

static bool read_dtype(const struct table *table, enum dtype *out)
{
    for (int i = 0; i < NUM_DTYPES; i++)
        if (strcmp(dtype_names[i], text_in(table, "dtype")) == 0) {
            *out = (enum dtype)i;
            return true;
        }
    return false;
}

static void add(struct micros *to, const struct micro *micro, struct arena *arena)
{
    if ((to->count & (to->count - 1)) == 0) {
        const struct micro *old = to->at;
        to->at = ARENA_ARRAY(arena, struct micro, (size_t)to->count * 2 + 1);
        if (old)
            memcpy(to->at, old, (size_t)to->count * sizeof *old);
    }
    to->at[to->count++] = *micro;
}

/* A function that reads one kind of row; `known` becomes false if simsearch has no formula for the
 * row. */
typedef bool read_micro(const struct table *table, struct micro *out, bool *known, struct err *err);

static bool load(const char *path, const struct fit_rows *rows, struct system *system,
                 struct arena *arena, const char *const *columns, read_micro *read,
                 struct micros *out, struct err *err)
{
    struct table table;
    *out = (struct micros){ 0 };
    if (!table_open(&table, path, arena, err) || !need_columns(&table, columns, err))
        return false;
    for (int i = 0; i < rows->num_filters; i++) {
        const char *const column[] = { rows->filters[i].column, NULL };
        if (!need_columns(&table, column, err))
            return false;
    }
    while (table_next(&table, err)) {
        struct micro micro = { .system = system };
        bool known = true;
        if (!passes_all(&table, rows))
            continue;
        if (!read(&table, &micro, &known, err))
            return false;
        if (known && micro.measured_s > 0)
            add(out, &micro, arena);
    }
    return err->code == ERR_NONE;
}

/* --- matrix products ----------------------------------------------------------------------- */

/* Bytes per element of the accumulator to which a product is added, from the words of its layout; 0
 * if there is no accumulator. */
static double sum_element_bytes(const char *layout)
{
    if (strstr(layout, "accumulate fp32"))
        return 4;
    return strstr(layout, "accumulate bf16") ? 2 : 0;
}

static bool read_product(const struct table *table, struct micro *out, bool *known, struct err *err)
{
    struct op *op = &out->op;
    double time_us, tflops, groups;
    *op = (struct op){ .kind = OP_GEMM, .kernels = 1 };
    if (!number_in(table, "m", &op->m, err) || !number_in(table, "n", &op->n, err) ||
        !number_in(table, "k", &op->k, err) || !number_in(table, "groups", &groups, err) ||
        !number_in(table, "time_us", &time_us, err) || !number_in(table, "tflops", &tflops, err))
        return false;
    *known = read_dtype(table, &op->dtype) && op->m >= 1 && op->n >= 1 && op->k >= 1 &&
             out->system->gpu.peak_flops_per_s[op->dtype] > 0;
    op->batch = fmax(groups, 1);
    op->region = groups > 0 ? REGION_EXPERTS : REGION_REST;
    op->flops = 2 * op->batch * op->m * op->n * op->k;
    out->measured_s = time_us / 1e6;
    if (time_us == 0 && tflops > 0)
        out->measured_s = op->flops / (tflops * 1e12);
    double element = dtype_bytes(op->dtype), outputs = op->batch * op->m * op->n;
    op->sum_bytes = 2 * sum_element_bytes(text_in(table, "layout")) * outputs;
    op->bytes = element * op->batch * (op->m + op->n) * op->k +
                (op->sum_bytes > 0 ? op->sum_bytes : element * outputs);
    return true;
}

/* Removes the profile's measured points, so that only the formula is fitted. */
bool micros_load_products(const char *path, const struct fit_rows *rows, struct system *system,
                          struct arena *arena, struct micros *out, struct err *err)
{
    static const char *const columns[] = { "dtype", "m", "n", "k", NULL };
    system->profile.num_gemm_points = 0;
    return load(path, rows, system, arena, columns, read_product, out, err);
}

/* --- collectives --------------------------------------------------------------------------- */

static bool find_collective(const char *name, enum collective *out)
{
    for (int i = 0; i < NUM_COLLECTIVES; i++)
        if (strcmp(collective_names[i], name) == 0) {
            *out = (enum collective)i;
            return true;
        }
    return false;
}

/* Reads a collective. Skips a group that was spread over more or fewer nodes than the same number
 * of ranks of the cluster. */
static bool read_collective(const struct table *table, struct micro *out, bool *known,
                            struct err *err)
{
    double time_us, nodes, gpus;
    if (!number_in(table, "bytes", &out->bytes, err) || !number_in(table, "nodes", &nodes, err) ||
        !number_in(table, "gpus", &gpus, err) || !number_in(table, "time_us", &time_us, err))
        return false;
    out->is_collective = true;
    out->measured_s = time_us / 1e6;
    *known = find_collective(text_in(table, "op"), &out->collective) && gpus >= 2 && gpus <= 1e6;
    if (!*known)
        return true;
    struct system *system = ARENA_NEW(table->arena, struct system);
    *system = *out->system;
    system->num_gpus = (int)gpus;
    out->system = system;
    struct rank_group all = group_along((struct members){ 1, system->num_gpus }, system->num_gpus);
    struct comm_group group = network_group(system, &all);
    *known = group.num_nodes == (int)nodes;
    return true;
}

/* Removes the profile's measured curves, so that only the formula is fitted. */
bool micros_load_collectives(const char *path, const struct fit_rows *rows, struct system *system,
                             struct arena *arena, struct micros *out, struct err *err)
{
    static const char *const columns[] = { "op", "bytes", "nodes", "gpus", "time_us", NULL };
    system->profile.num_curves = 0;
    return load(path, rows, system, arena, columns, read_collective, out, err);
}

/* --- other operations ---------------------------------------------------------------------- */

/* Names of ops in the measured file; its other rows measure the host or several kernels
 * together. */
static const struct {
    const char *name;
    enum op_kind kind;
    enum op_pass pass;
} probed[] = {
    { "attention_fwd", OP_FLASH_ATTENTION, PASS_FORWARD },
    { "attention_bwd", OP_FLASH_ATTENTION, PASS_BACKWARD_INPUT },
    { "layernorm_fwd", OP_NORM, PASS_FORWARD },
    { "gelu_fwd", OP_ACTIVATION, PASS_FORWARD },
    { "add", OP_RESIDUAL, PASS_FORWARD },
    { "copy", OP_RESIDUAL, PASS_FORWARD },
    { "adamw_fp32", OP_RESIDUAL, PASS_FORWARD },
};

/* Reads a shape such as "8x16x2048x128": batch, heads, sequence length, head dimension. */
static bool read_attention_shape(const char *shape, struct op *op)
{
    double batch, heads;
    if (sscanf(shape, "%lfx%lfx%lfx%lf", &batch, &heads, &op->m, &op->k) != 4)
        return false;
    op->batch = batch * heads;
    op->n = op->m;
    return op->m >= 1 && op->k >= 1 && op->batch >= 1;
}

static bool read_op(const struct table *table, struct micro *out, bool *known, struct err *err)
{
    struct op *op = &out->op;
    double time_us;
    size_t i = 0;
    *op = (struct op){ .kernels = 1, .batch = 1, .m = 1, .n = 1, .k = 1 };
    if (!number_in(table, "bytes", &op->bytes, err) ||
        !number_in(table, "flops", &op->flops, err) || !number_in(table, "time_us", &time_us, err))
        return false;
    while (i < LENGTH(probed) && strcmp(probed[i].name, text_in(table, "op")) != 0)
        i++;
    *known = i < LENGTH(probed) && read_dtype(table, &op->dtype);
    if (!*known)
        return true;
    op->kind = probed[i].kind;
    op->pass = probed[i].pass;
    if (op->kind == OP_FLASH_ATTENTION) {
        *known = read_attention_shape(text_in(table, "shape"), op) &&
                 out->system->gpu.peak_flops_per_s[op->dtype] > 0;
        op->kernels = op->pass == PASS_FORWARD ? 1 : 3;
    }
    out->measured_s = time_us / 1e6;
    return true;
}

bool micros_load_ops(const char *path, const struct fit_rows *rows, struct system *system,
                     struct arena *arena, struct micros *out, struct err *err)
{
    static const char *const columns[] = {
        "op", "dtype", "shape", "bytes", "flops", "time_us", NULL
    };
    return load(path, rows, system, arena, columns, read_op, out, err);
}

double micro_s(const struct micro *micro)
{
    const struct system *system = micro->system;
    if (micro->is_collective) {
        struct rank_group all =
            group_along((struct members){ 1, system->num_gpus }, system->num_gpus);
        struct comm_group group = network_group(system, &all);
        return collective_s(&group, micro->collective, micro->bytes);
    }
    return op_s(&system->gpu, &system->profile, stack_attention(&system->stack, &system->gpu),
                &micro->op);
}
