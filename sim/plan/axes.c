#include "sim/plan/axes.h"

#include "base/length.h"

/* The rows are in the order of the axes' words in a layout and of their rules. This file has only
 * the table, so that a test can link its own table instead. */
const struct axis *const axes[] = {
    [AXIS_TENSOR] = &tensor_axis,     [AXIS_CONTEXT] = &context_axis, [AXIS_EXPERT] = &expert_axis,
    [AXIS_PIPELINE] = &pipeline_axis, [AXIS_DATA] = &data_axis,
};
const int num_axes = LENGTH(axes); // pointers; NOLINT(bugprone-sizeof-expression)
