#include "tests/exec/torch_steps.h"

#include "base/random.h"
#include "tests/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char fixture[] = "tests/fixtures/torch/steps.txt";
enum { MOST_LINE = 2000 };

static char names[][8] = { "gpt", "llama", "theta", "epsilon" };

/* --- weights ------------------------------------------------------------------------------ */

static float value_of(const char *name, enum weight_role role, size_t index)
{
    uint64_t key = 0xcbf29ce484222325;
    for (const char *at = name; *at; at++)
        key = (key ^ (unsigned char)*at) * 0x100000001b3;
    struct random rng = { .key = key, .count = index - 1 }; /* draws.py counts from 0 */
    double unit = (double)(random_bits(&rng) >> 40) / 0x1p23 - 1;
    if (role == WEIGHT_SCALE)
        return (float)(1 + 0.1 * unit);
    return (float)(unit * (role == WEIGHT_BIAS || role == WEIGHT_SHIFT ? 0.02 : 0.08));
}

/* The name of a weight, "3.qkv.matrix". A tied head has the name of the embedding. */
static void name_of(const struct model *model, const struct stored_weight *stored, char *name,
                    size_t size)
{
    static const char *const roles[] = { "matrix", "bias", "scale", "shift", "table", "positions" };
    const struct weight *weight = stored->weight;
    if (weight->of->is_vocabulary && stored->layer == 0)
        snprintf(name, size, "embedding.table");
    else if (stored->layer == 0 || stored->layer > model->layers)
        snprintf(name, size, "%s.%s", weight->of->name, roles[weight->of->role]);
    else
        snprintf(name, size, "%d.%s.%s", stored->layer, weight->of->name, roles[weight->of->role]);
}

/* Maps a row of our packed weights (kernels/host/attention.h, activation.h) to PyTorch's order: all
 * queries, then all keys, then all values; all gate rows, then all up rows. */
static size_t torch_row(const struct model *model, const struct weight *weight, size_t row)
{
    size_t width = (size_t)model->head_dim, groups = (size_t)model->kv_heads;
    size_t heads = (size_t)model->heads, each = heads / groups;
    if (strcmp(weight->of->name, "fc1") == 0 && model->activation == ACTIVATION_SWIGLU)
        return row / 2 + row % 2 * (size_t)model->ffn;
    if (strcmp(weight->of->name, "qkv") != 0)
        return row;
    size_t group = row / width / (each + 2), head = row / width % (each + 2), i = row % width;
    if (head < each)
        return (group * each + head) * width + i;
    return (heads + (head - each) * groups + group) * width + i;
}

/* The index in PyTorch's weight of element i of this rank's part. For padding, the index lies
 * beyond the weight's end. */
static size_t torch_index(const struct model *model, const struct weight *weight, size_t i)
{
    size_t whole = weight_whole_index(weight, i);
    size_t row = whole / weight->whole_columns, column = whole % weight->whole_columns;
    if (weight->of->is_vocabulary && row >= (size_t)model->vocab)
        return SIZE_MAX;
    /* vectors are stored as one row, biases as one column */
    if (weight->of->role == WEIGHT_MATRIX || weight->of->role == WEIGHT_BIAS)
        row = torch_row(model, weight, row);
    return row * weight->whole_columns + column;
}

static bool set_store(struct machine *machine, struct store *store, struct err *err)
{
    float *values = calloc(store->padded, sizeof *values);
    float *zeros = calloc(store->padded, sizeof *zeros);
    float *const moments[2] = { zeros, zeros };
    for (int w = 0; w < store->num_weights; w++) {
        const struct weight *weight = store->weights[w].weight;
        char name[48];
        name_of(machine->model, &store->weights[w], name, sizeof name);
        for (size_t i = 0; i < weight->rows * weight->columns; i++) {
            size_t index = torch_index(machine->model, weight, i);
            if (index != SIZE_MAX)
                values[store->weights[w].offset + i] = value_of(name, weight->of->role, index);
        }
    }
    bool ok = store_set(machine, store, values, moments, err);
    free(values);
    free(zeros);
    return ok;
}

static bool set_weights(struct rank *rank, const struct parity_run *run, struct err *err)
{
    int count;
    struct store **stores = rank_stores(rank, &count);
    bool ok = true;
    (void)run;
    for (int s = 0; s < count && ok; s++)
        ok = set_store(rank_machine(rank), stores[s], err);
    return ok;
}

/* --- results ------------------------------------------------------------------------------ */

static FILE *open_fixture(void)
{
    char path[500];
    const char *data = getenv("SIMSEARCH_DATA");
    snprintf(path, sizeof path, "%s/%s", data ? data : ".", fixture);
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s cannot be opened", path);
    return file;
}

static double find_number(const char *model, const char *what, int step)
{
    char start[48], line[MOST_LINE];
    double number = NAN;
    int length = snprintf(start, sizeof start, "%s %s %d ", model, what, step);
    FILE *file = open_fixture();
    while (fgets(line, sizeof line, file))
        if (strncmp(line, start, (size_t)length) == 0)
            number = strtod(line + length, NULL);
    fclose(file);
    return number;
}

/* --- gradients ---------------------------------------------------------------------------- */

/* A weight's first moment, copied from the device; the caller frees. */
static float *moment_of(const struct machine *machine, const struct store *store,
                        const struct stored_weight *stored, size_t elements)
{
    struct err err = { 0 };
    float *moment = malloc(elements * sizeof *moment);
    machine->device_api->copy(machine->compute, moment, store->moments[0] + stored->offset,
                              elements * sizeof *moment);
    ck_assert_msg(machine->device_api->stream_sync(machine->compute, &err), "%s", err.msg);
    return moment;
}

static double *in_torch_order(const struct model *model, const struct weight *weight,
                              const float *values, size_t elements)
{
    double *ordered = calloc(elements, sizeof *ordered);
    for (size_t i = 0; i < elements; i++) {
        size_t index = torch_index(model, weight, i);
        if (index != SIZE_MAX)
            ordered[index] = (double)values[i];
    }
    return ordered;
}

/* After one step of momentum from 0 the first moment is the gradient. Elements are in PyTorch's
 * order; the caller frees. Returns NULL if this rank does not have the weight. */
static double *gradient_of(struct rank *rank, const char *name, size_t *elements)
{
    int count;
    struct store **stores = rank_stores(rank, &count);
    const struct machine *machine = rank_machine(rank);
    for (int s = 0; s < count; s++)
        for (int w = 0; w < stores[s]->num_weights; w++) {
            const struct stored_weight *stored = &stores[s]->weights[w];
            char own[48];
            name_of(machine->model, stored, own, sizeof own);
            if (strcmp(own, name) != 0)
                continue;
            *elements = stored->weight->rows * stored->weight->columns;
            float *moment = moment_of(machine, stores[s], stored, *elements);
            double *gradient = in_torch_order(machine->model, stored->weight, moment, *elements);
            free(moment);
            return gradient;
        }
    return NULL;
}

static double norm_of(const double *at, size_t elements)
{
    double sum = 0;
    for (size_t i = 0; i < elements; i++)
        sum += at[i] * at[i];
    return sqrt(sum);
}

/* Checks a line "NAME NORM I:VALUE ...". Gradients are clipped to norm 1, so their RMS is 1 /
 * sqrt(number of gradients). The models have about 50,000 gradients. If a gradient is zero up to
 * rounding, its error is compared with this RMS. */
static void check_gradient(struct rank *rank, char *line)
{
    static const double rms = 1 / 224.0;
    size_t elements = 0;
    char *rest, *name = strtok_r(line, " \n", &rest);
    double norm = strtod(strtok_r(NULL, " \n", &rest), NULL);
    double *gradient = gradient_of(rank, name, &elements);
    ck_assert_msg(gradient != NULL, "no rank has %s", name);
    double limit = TORCH_ERROR * fmax(norm, 1e-3 * rms * sqrt((double)elements));
    ck_assert_msg(fabs(norm_of(gradient, elements) - norm) <= limit,
                  "%s: the norm is %.9g, not %.9g", name, norm_of(gradient, elements), norm);
    for (char *pair; (pair = strtok_r(NULL, " \n", &rest));) {
        char *value;
        size_t index = strtoul(pair, &value, 10);
        double expected = strtod(value + 1, NULL);
        ck_assert_msg(fabs(gradient[index] - expected) <= limit, "%s[%zu] is %.9g, not %.9g", name,
                      index, gradient[index], expected);
    }
    free(gradient);
}

static bool check_gradients(struct rank *rank, const struct parity_run *run, struct err *err)
{
    char line[MOST_LINE], start[48];
    int checked = 0;
    int length = snprintf(start, sizeof start, "%s gradient ", (const char *)run->context);
    FILE *file = open_fixture();
    (void)err;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, start, (size_t)length) == 0) {
            check_gradient(rank, line + length);
            checked++;
        }
    fclose(file);
    ck_assert_int_gt(checked, 25);
    return true;
}

/* --- runs --------------------------------------------------------------------------------- */

enum { NUM_STEPS = 3 };

struct parity_run torch_run(bool is_unfused)
{
    return (struct parity_run){ .steps = NUM_STEPS,
                                .optimizer = OPTIMIZER_MOMENTUM,
                                .rate = 0.1F,
                                .unfused = is_unfused,
                                .seed = 7,
                                .before = set_weights };
}

static struct model model_of(int i)
{
    struct model model = i == TORCH_GPT ? parity_gpt() : parity_llama();
    if (i == TORCH_THETA)
        model.rope_theta = 4;
    if (i == TORCH_EPSILON)
        model.norm_epsilon = 1e-3;
    return model;
}

static void check_near(const char *what, const char *model, const char *layout, double found,
                       double expected)
{
    ck_assert_msg(fabs(found / expected - 1) < TORCH_ERROR, "%s, %s: the %s is %.9g, not %.9g",
                  model, layout, what, found, expected);
}

void torch_check_losses(int i, const char *layout, struct parity_run run)
{
    const char *name = names[i];
    struct model model = model_of(i);
    struct parity_result result;
    parity_run(&model, layout, &run, &result);
    for (int step = 1; step <= NUM_STEPS; step++) {
        check_near("loss", name, layout, result.loss[step - 1], find_number(name, "loss", step));
        check_near("norm", name, layout, result.gradient_norm[step - 1],
                   find_number(name, "norm", step));
    }
    parity_release(&result);
}

void torch_check_first_loss(int i, const char *layout, struct parity_run run)
{
    struct model model = model_of(i);
    struct parity_result result;
    run.steps = 1;
    parity_run(&model, layout, &run, &result);
    check_near("loss", names[i], layout, result.loss[0], find_number(names[i], "loss", 1));
    parity_release(&result);
}

void torch_check_gradients(int i, const char *layout, struct parity_run run)
{
    struct model model = model_of(i);
    struct parity_result result;
    run.steps = 1;
    run.after = check_gradients;
    run.context = names[i];
    parity_run(&model, layout, &run, &result);
    parity_release(&result);
}
