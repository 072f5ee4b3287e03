/* sim/cost/power.h - how fast a chip computes under a lower power limit.
 *
 * Dynamic power goes as f V^2. Where V follows f, f goes as the dynamic power to the 1/3; where V
 * is at its floor, in proportion. Chips run between the two: 0.4 is taken. A seventh of the full
 * limit is static: leakage, memory at rest, fans (typical of 100 W in 700). Memory and wires keep
 * their clocks. */
#ifndef SIM_COST_POWER_H
#define SIM_COST_POWER_H

#include "sim/cost/hardware.h"

/* Share of the profile's compute rates that the GPU's limit leaves; 1 where the profile was found
 * at no more, or does not say. */
double power_speed(const struct gpu *gpu, const struct profile *profile);

#endif
