/* sim/plan/axes.h - what the axis files provide to the tables in axes.c and rules.c. Only these
 * files, and a test with its own table, include it. */
#ifndef SIM_PLAN_AXES_H
#define SIM_PLAN_AXES_H

#include "sim/plan/axis.h"

extern const struct axis tensor_axis, context_axis, expert_axis, pipeline_axis, data_axis;

/* Rules about words of a layout that set no degree of an axis. */
bool data_can_shard(const struct plan_case *of, struct err *err);
bool data_can_exchange(const struct plan_case *of, struct err *err);
bool pipeline_can_interleave(const struct plan_case *of, struct err *err);
bool pipeline_has_schedule(const struct plan_case *of, struct err *err);

/* The text "tp16", for the `where` of an error. */
struct token_text {
    char at[32];
};
struct token_text token_text(const char *name, int value);

#endif
