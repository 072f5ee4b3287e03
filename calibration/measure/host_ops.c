/* Times the executor's ops, by shape, within training steps of small models. */
#include "calibration/measure/host_ops.h"

#include "base/statistics.h"
#include "calibration/measure/budget.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WARM_UPS = 2, LEAST_STEPS = 5, MOST_STEPS = 40 };
enum {
    MOST_OPS_A_STEP = 96 * HOST_SHAPE_LAYERS,
    MOST_SAMPLES = 10 * HOST_SHAPE_LAYERS * MOST_STEPS
};

/* --- samples ------------------------------------------------------------------------------- */

struct samples {
    struct host_op op;
    int count;
    double s[MOST_SAMPLES];
};

struct shape_samples {
    struct samples *ops; /* one per op of a step; the last is the optimizer's update */
    int num_ops;
    struct samples outside;
};

static bool is_same(const struct host_op *a, const struct host_op *b)
{
    return a->kind == b->kind && a->pass == b->pass && strcmp(a->variant, b->variant) == 0 &&
           kernel_sizes_equal(a->size, b->size);
}

static void add_sample(struct shape_samples *to, const struct host_op *op, double seconds)
{
    int i = 0;
    while (i < to->num_ops && !is_same(&to->ops[i].op, op))
        i++;
    if (i == to->num_ops) {
        if (i == MOST_OPS_A_STEP)
            return;
        to->ops[to->num_ops++] = (struct samples){ .op = *op };
    }
    struct samples *samples = &to->ops[i];
    if (samples->count < MOST_SAMPLES)
        samples->s[samples->count++] = seconds;
}

static struct host_op describe(const struct op *op)
{
    struct host_op out = { .kind = (int)op->kind, .pass = (int)op->pass, .variant = op->variant };
    kernel_size_of(op, out.size);
    return out;
}

static double updated_elements(struct rank *rank)
{
    int count;
    double elements = 0;
    struct store **stores = rank_stores(rank, &count);
    for (int i = 0; i < count; i++)
        elements += (double)store_updated(stores[i]);
    return elements;
}

static double update_s(const struct rank *rank, const struct interval *times)
{
    double seconds = 0;
    const struct instrs *list = rank_list(rank);
    for (int i = 0; i < list->count; i++)
        if (list->at[i].op == INSTR_OPTIMIZER || list->at[i].op == INSTR_NORM_GRAD)
            seconds += times[i].end_s - times[i].start_s;
    return seconds;
}

/* Runs one step and records its ops. */
static bool noted_step(struct host_run *run, long step, struct interval *times,
                       struct shape_samples *samples, double *all_s, struct err *err)
{
    struct op_time room[MOST_OPS_A_STEP];
    struct op_log log = { .at = room, .room = MOST_OPS_A_STEP };
    struct step_result result;
    rank_machine(run->rank)->log = &log;
    bool ok = rank_step(run->rank, step, times, &result, err);
    rank_machine(run->rank)->log = NULL;
    if (!ok)
        return false;
    *all_s = 0;
    for (int i = 0; i < log.count; i++) {
        struct host_op op = describe(room[i].op);
        double own_s = room[i].own_end_s - room[i].own_start_s;
        add_sample(samples, &op, own_s);
        *all_s += own_s;
    }
    struct host_op update = { .kind = KERNEL_OPTIMIZER,
                              .variant = "",
                              .size = { updated_elements(run->rank), 1, 1, 1 } };
    add_sample(samples, &update, update_s(run->rank, times));
    *all_s += update_s(run->rank, times);
    return true;
}

static bool warm_up(struct host_run *run, long *step, double *step_s, struct err *err)
{
    struct step_result result;
    for (int i = 0; i < WARM_UPS; i++)
        if (!rank_step(run->rank, (*step)++, NULL, &result, err))
            return false;
    *step_s = result.step_s;
    return true;
}

static int steps_in(const struct host_rank *host, double seconds, double step_s)
{
    int least = host_rank_least(host, LEAST_STEPS);
    return budget_repeats(seconds / (step_s + 1e-6), least, MOST_STEPS);
}

/* Runs steps with op recording and, in between, steps without it, which give the time of a step
 * outside its ops. */
static bool run_steps(struct host_run *run, int num_steps, long step, struct shape_samples *samples,
                      struct err *err)
{
    struct interval *times =
        ARENA_ARRAY(&run->arena, struct interval, (size_t)rank_list(run->rank)->count);
    for (int i = 0; i < num_steps; i++) {
        struct step_result bare;
        double ops_s;
        if (!rank_step(run->rank, step++, NULL, &bare, err) ||
            !noted_step(run, step++, times, samples, &ops_s, err))
            return false;
        samples->outside.s[samples->outside.count++] = bare.step_s - ops_s;
    }
    return true;
}

/* --- statistics ---------------------------------------------------------------------------- */

static struct host_time summarise(struct samples *samples)
{
    numbers_sort(samples->s, (size_t)samples->count);
    int last = samples->count - 1;
    return (struct host_time){ .median_s = samples->s[last / 2],
                               .p10_s = samples->s[last / 10],
                               .p90_s = samples->s[last - last / 10] };
}

/* Averages the times over the ranks, which all have the same ops in the same order. */
static bool average(struct host_rank *host, struct shape_samples *samples, struct err *err)
{
    double numbers[3 * MOST_OPS_A_STEP + 1];
    size_t count = 0;
    for (int i = 0; i < samples->num_ops; i++) {
        struct host_time time = summarise(&samples->ops[i]);
        if (samples->ops[i].op.kind == KERNEL_OPTIMIZER)
            /* elapsed time is used here; as disturbances only add to it, a low percentile is
             * taken */
            time.median_s = time.p10_s;
        numbers[count++] = time.median_s;
        numbers[count++] = time.p10_s;
        numbers[count++] = time.p90_s;
    }
    numbers[count++] = summarise(&samples->outside).median_s;
    if (!host_rank_average(host, numbers, count, err))
        return false;
    for (int i = 0; i < samples->num_ops; i++)
        samples->ops[i].op.time =
            (struct host_time){ numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2] };
    samples->outside.op.time.median_s = numbers[count - 1];
    return true;
}

static void keep(const struct shape_samples *samples, struct host_ops *ops)
{
    for (int i = 0; i < samples->num_ops && ops->count < ops->room; i++)
        ops->at[ops->count++] = samples->ops[i].op;
    ops->outside_s = samples->outside.op.time.median_s;
}

static size_t arena_bytes_of(const struct model *model)
{
    double tokens = model->batch * model->seq;
    double rows = 20.0 * model->hidden + 6.0 * model->ffn + 3.0 * model->vocab +
                  4.0 * model->heads * model->seq;
    return (size_t)(4 * (5 * model_parameters(model) + tokens * rows)) + (16 << 20);
}

bool host_ops_measure(struct host_rank *host, const struct host_shape *shape,
                      const struct stack *stack, double seconds, struct arena *arena,
                      struct host_ops *ops, struct err *err)
{
    struct arena_mark mark = arena_mark(arena);
    struct shape_samples samples = { .ops = ARENA_ARRAY(arena, struct samples, MOST_OPS_A_STEP) };
    char layout[64];
    snprintf(layout, sizeof layout, "mb%d%s", (int)shape->model.batch,
             shape->is_unfused ? " attn=unfused" : "");
    struct host_run_options options = { .layout = layout,
                                        .stack = stack,
                                        .arena_bytes = arena_bytes_of(&shape->model),
                                        .is_alone = true };
    struct host_run run;
    double step_s;
    long step = 1;
    if (!host_run_open(host, &shape->model, &options, &run, err))
        return false;
    /* the mean over ranks is used, so that all run the same number of steps */
    bool ok = warm_up(&run, &step, &step_s, err) && host_rank_average(host, &step_s, 1, err) &&
              run_steps(&run, steps_in(host, seconds / 2, step_s), step, &samples, err) &&
              average(host, &samples, err);
    host_run_close(&run);
    if (ok)
        keep(&samples, ops);
    arena_reset(arena, mark);
    return ok;
}
