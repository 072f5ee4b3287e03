#include "sim/plan/axes.h"

#include "base/length.h"

/* In the order of their words in a layout, and of their rules. Nothing else stands in this file, so
 * that a test's table can take its place. */
const struct axis *const axes[] = {
    [AXIS_TENSOR] = &tensor_axis,     [AXIS_CONTEXT] = &context_axis, [AXIS_EXPERT] = &expert_axis,
    [AXIS_PIPELINE] = &pipeline_axis, [AXIS_DATA] = &data_axis,
};
const int num_axes = LENGTH(axes); // pointers; NOLINT(bugprone-sizeof-expression)
