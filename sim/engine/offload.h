/* sim/engine/offload.h - the time that offloading to host memory costs.
 *
 * Copies use the GPU's own link to the host, in both directions at once, and copy engines, which do
 * not slow compute. */
#ifndef SIM_ENGINE_OFFLOAD_H
#define SIM_ENGINE_OFFLOAD_H

#include "sim/cost/hardware.h"
#include "sim/cost/stage_weights.h"
#include "sim/plan/plan.h"

/* Seconds to copy `bytes` in one direction. */
double host_copy_s(const struct system *system, double bytes);

/* Times of one step of an optimizer that runs on the host. */
struct host_optimizer {
    double down_s;   /* gradients to the host */
    double update_s; /* the update on the host */
    double up_s;     /* weights back, overlapping the update once the first are done */
};
struct host_optimizer host_optimizer(const struct system *system, const struct model *model,
                                     const struct plan *plan, struct stage_weights weights);

/* The exposed copy time of a pass over `layers` layers of `layer_s` each, if copying a layer's
 * activations takes `copy_s`. The last two layers are not copied. */
double layers_copy_exposed_s(int layers, double layer_s, double copy_s);

/* In a pipeline the last two layers of a pass are copied too, while the next pass runs, which is in
 * general a backward of another microbatch. Returns the additional exposed time: it is above 0 if a
 * forward and a backward, with the exposed time of layers_copy_exposed_s, are shorter than all
 * copies in one direction. The two directions do not slow each other. */
double chunk_copy_exposed_s(int layers, double forward_s, double backward_s, double copy_s);

#endif
