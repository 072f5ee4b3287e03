/* sim/schedule/lower.h - from compute order to everything a rank does; schedule.c alone calls it.
 */
#ifndef SIM_SCHEDULE_LOWER_H
#define SIM_SCHEDULE_LOWER_H

#include "sim/schedule/schedule.h"

/* The list of one stage, in `arena`. */
struct instrs lower_stage(const struct instrs *order, const struct schedule_shape *shape,
                          const struct lowering *lowering, int stage, struct arena *arena);

#endif
