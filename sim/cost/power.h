/* sim/cost/power.h - how fast a chip computes under a lower power limit.
 *
 * Dynamic power grows as f V^2, with clock f and voltage V. Where V follows f, f grows as the
 * dynamic power to the 1/3; where V is at its floor, f is proportional to it. Chips run between the
 * two, so an exponent of 0.4 is taken. A seventh of the full limit is static: leakage, memory at
 * rest, fans (typically 100 of 700 W). Memory and links keep their clocks. */
#ifndef SIM_COST_POWER_H
#define SIM_COST_POWER_H

#include "sim/cost/hardware.h"

/* Share of the profile's compute rates that the GPU's power limit leaves. It is 1 if the profile
 * was measured at the same or a lower limit, or does not state its limit. */
double power_speed(const struct gpu *gpu, const struct profile *profile);

#endif
