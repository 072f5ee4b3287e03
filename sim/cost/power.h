/* sim/cost/power.h - how fast a chip computes under a lower power limit.
 *
 * Dynamic power is proportional to f V^2, with clock f and voltage V. If V is proportional to f, f
 * grows as the dynamic power to the power 1/3; if V is at its minimum, f is proportional to the
 * power. Chips run between the two, so an exponent of 0.4 is used. A seventh of the full limit is
 * static power: leakage, idle memory, fans (typically 100 of 700 W). Memory and links keep their
 * clocks. */
#ifndef SIM_COST_POWER_H
#define SIM_COST_POWER_H

#include "sim/cost/hardware.h"

/* Share of the profile's compute rates that is reached under the GPU's power limit. It is 1 if the
 * profile was measured at the same or a lower limit, or does not state its limit. */
double power_speed(const struct gpu *gpu, const struct profile *profile);

#endif
