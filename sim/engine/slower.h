/* sim/engine/slower.h - the same system with slower devices: synchronous training waits for them.
 */
#ifndef SIM_ENGINE_SLOWER_H
#define SIM_ENGINE_SLOWER_H

#include "sim/cost/hardware.h"

/* Everything a device does takes 1 / speed times as long: products, memory traffic, measured
 * kernels. On a host, messages too, as cores move them. Borrows what it does not change; release it
 * with system_slower_release before `from`. */
void system_slower(const struct system *from, double speed, struct system *out);
void system_slower_release(struct system *slower);

#endif
