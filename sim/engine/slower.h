/* sim/engine/slower.h - a system whose devices are slower; synchronous training waits for the
 * slowest device. */
#ifndef SIM_ENGINE_SLOWER_H
#define SIM_ENGINE_SLOWER_H

#include "sim/cost/hardware.h"

/* Multiplies the times of a device by 1 / speed: matrix products, memory traffic, measured kernels;
 * on a host also messages, as cores send them. `out` borrows unchanged parts of `from`. Release it
 * with system_slower_release before `from` is freed. */
void system_slower(const struct system *from, double speed, struct system *out);
void system_slower_release(struct system *slower);

#endif
