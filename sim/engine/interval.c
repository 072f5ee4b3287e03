/* The 90 % interval of a predicted step time, from the interval widths of the classes of time in
 * the step (compute, messages of each axis, ...). */
#include "sim/engine/interval.h"

#include "base/length.h"
#include "models/blocks.h"

#include <math.h>

/* The index of the interval width that belongs to a row of time_part_table. */
static int width_of(size_t part_offset)
{
    static const struct {
        size_t part, width;
    } pairs[] = {
        { offsetof(struct time_parts, compute_s), offsetof(struct error_widths, compute) },
        { offsetof(struct time_parts, recompute_s), offsetof(struct error_widths, compute) },
        { offsetof(struct time_parts, tensor_comm_s), offsetof(struct error_widths, tensor) },
        { offsetof(struct time_parts, context_comm_s), offsetof(struct error_widths, context) },
        { offsetof(struct time_parts, expert_comm_s), offsetof(struct error_widths, data) },
        { offsetof(struct time_parts, pipeline_comm_s), offsetof(struct error_widths, pipeline) },
        { offsetof(struct time_parts, bubble_s), offsetof(struct error_widths, bubble) },
        { offsetof(struct time_parts, data_comm_s), offsetof(struct error_widths, data) },
        { offsetof(struct time_parts, optimizer_s), offsetof(struct error_widths, optimizer) },
    };
    for (size_t i = 0; i < LENGTH(pairs); i++)
        if (pairs[i].part == part_offset)
            return (int)(pairs[i].width / sizeof(double));
    return (int)(offsetof(struct error_widths, other) / sizeof(double));
}

void interval_shares(const struct time_parts *parts, double shares[NUM_ERROR_PARTS])
{
    double sum_s = 0;
    for (int i = 0; i < num_time_parts; i++)
        sum_s += fmax(time_part_s(parts, i), 0);
    shares[0] = 1;
    for (int i = 1; i < NUM_ERROR_PARTS; i++)
        shares[i] = 0;
    for (int i = 0; i < num_time_parts && sum_s > 0; i++)
        shares[width_of(time_part_table[i].offset)] += fmax(time_part_s(parts, i), 0) / sum_s;
}

double interval_of_widths(const struct error_widths *widths, const double shares[NUM_ERROR_PARTS])
{
    double squares = 0;
    for (int i = 0; i < NUM_ERROR_PARTS; i++) {
        double own = shares[i] * error_width(widths, i);
        squares += own * own;
    }
    return sqrt(squares);
}

double interval_source_error(const struct system *system, const struct model *model)
{
    double shift = fmax(system->stack.errors.source, system->profile.source_error);
    return model->experts > 0 || model_unmeasured(model)
               ? fmax(shift, system->stack.errors.of_experts)
               : shift;
}

double interval_slice(const struct model *model, int tp)
{
    return (double)model->hidden / tp;
}

double interval_of_slice(double per_e, double usual, double log_slice)
{
    return per_e > 0 && usual > 0 ? per_e * fabs(log_slice - log(usual)) : 0;
}

double interval_slice_error(const struct stack *stack, const struct model *model, int tp)
{
    const struct stack_errors *errors = &stack->errors;
    return interval_of_slice(errors->slice, errors->usual_slice, log(interval_slice(model, tp)));
}

double interval_half_width(const struct system *system, const struct model *model, int tp,
                           const struct time_parts *parts)
{
    const struct stack *stack = &system->stack;
    const struct profile *profile = &system->profile;
    double shares[NUM_ERROR_PARTS];
    interval_shares(parts, shares);
    double of_stack = interval_of_widths(&stack->errors.widths, shares);
    if (!(of_stack > 0))
        of_stack = stack->errors.log;
    double shift =
        hypot(interval_source_error(system, model), interval_slice_error(stack, model, tp));
    double with_shift = hypot(of_stack, shift);
    if (of_stack > 0 && profile->measured && !profile->is_disturbed)
        return with_shift;
    return fmax(with_shift, profile->error_log);
}
