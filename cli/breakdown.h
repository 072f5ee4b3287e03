/* cli/breakdown.h - where a step's time goes and what a GPU's memory holds, in bars. */
#ifndef CLI_BREAKDOWN_H
#define CLI_BREAKDOWN_H

#include "cli/terminal.h"
#include "sim/engine/simulate.h"

/* Parts of the step beside memory by stage, or above it in a narrow window. The bars of memory end
 * at `memory_bytes`, or at the peak when that is more. */
void show_breakdown(const struct terminal *terminal, double memory_bytes,
                    const struct prediction *prediction, bool all_stages);

/* The part of the step, compute aside, that takes longest: index into time_part_table. */
int bottleneck_of(const struct time_parts *time);

#endif
