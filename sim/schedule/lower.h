/* sim/schedule/lower.h - from compute order to everything a rank does; schedule.c alone calls it.
 */
#ifndef SIM_SCHEDULE_LOWER_H
#define SIM_SCHEDULE_LOWER_H

#include "sim/schedule/schedule.h"

#include <stddef.h>

/* Instructions of one stage's compute order. */
size_t lower_num_slots(const struct generator *generator, const struct schedule_shape *shape);

/* Fills the lists of all stages of `schedule`, whose shape the generator accepts, from `arena`. */
void lower_stages(const struct generator *generator, const struct lowering *lowering,
                  struct schedule *schedule, struct arena *arena);

#endif
