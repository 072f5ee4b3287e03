/* sim/engine/offload.h - what it takes to keep things in host memory.
 *
 * Copies go over the GPU's own link to the host, both ways at once, by engines that leave compute
 * alone. Whether the host has room is not looked at. */
#ifndef SIM_ENGINE_OFFLOAD_H
#define SIM_ENGINE_OFFLOAD_H

#include "sim/cost/hardware.h"
#include "sim/plan/plan.h"

/* Seconds of a copy of so many bytes, one way. */
double host_copy_s(const struct system *system, double bytes);

/* One step of an optimizer that runs on the host. */
struct host_optimizer {
    double down_s;   /* gradients to the host */
    double update_s; /* there */
    double up_s;     /* weights back; beside the update, as soon as some are done */
};
struct host_optimizer host_optimizer(const struct system *system, const struct model *model,
                                     const struct plan *plan, double parameters);

/* How much longer a pass over `layers` takes whose activations are copied in `copy_s` each, beside
 * layers of `layer_s`. The last two stay. */
double layers_copy_exposed_s(int layers, double layer_s, double copy_s);

#endif
