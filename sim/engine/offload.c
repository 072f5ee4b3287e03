/* The time that offloading optimizer state or activations to host memory adds to a step. */
#include "sim/engine/offload.h"

#include "sim/plan/state_share.h"

#include <math.h>

double host_copy_s(const struct system *system, double bytes)
{
    return bytes / (system->profile.host_copy_efficiency * system->gpu.pcie_bytes_per_s);
}

/* ZeRO-Offload (Ren et al. 2021, arXiv:2101.06840, section 4): gradients are copied out in their
 * storage type, the host reads and writes the state once as a GPU would, and weights come back in
 * their storage type. */
struct host_optimizer host_optimizer(const struct system *system, const struct model *model,
                                     const struct plan *plan, struct stage_weights weights)
{
    struct state_bytes state = plan_state_bytes(plan, model);
    double owned = stage_weights_share(weights, plan, STATE_OPTIMIZER);
    double update_bytes = state.gradients + 2 * state.optimizer + state.weights;
    return (struct host_optimizer){
        .down_s = host_copy_s(system, owned * state.gradients),
        .update_s = owned * update_bytes / system->cluster.host_bytes_per_s,
        .up_s = host_copy_s(system, owned * state.weights),
    };
}

/* With two buffers, a layer's copy begins when the layer and the previous copy have ended, and a
 * layer starts when the copy two layers before has ended. So from the third layer on, each layer
 * takes the longer of its compute time and its copy time. The backward takes the same time. */
double layers_copy_exposed_s(int layers, double layer_s, double copy_s)
{
    return layers > 2 ? (layers - 2) * fmax(0, copy_s - layer_s) : 0;
}

double chunk_copy_exposed_s(int layers, double forward_s, double backward_s, double copy_s)
{
    return fmax(0, layers * copy_s - forward_s - backward_s);
}
