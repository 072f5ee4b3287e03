/* cli/views/breakdown.h - the parts of a step's time and of a GPU's memory, as bars. */
#ifndef CLI_VIEWS_BREAKDOWN_H
#define CLI_VIEWS_BREAKDOWN_H

#include "cli/print/terminal.h"
#include "sim/engine/simulate.h"

/* Shows the parts of the step time to the left of the memory of each stage, or above it in a narrow
 * window. The scale of the memory bars ends at `memory_bytes`, or at the largest peak if that is
 * more. */
void show_breakdown(const struct terminal *terminal, double memory_bytes,
                    const struct prediction *prediction, bool all_stages);

/* Index in time_part_table of the longest part of the step except compute. */
int bottleneck_of(const struct time_parts *time);

#endif
