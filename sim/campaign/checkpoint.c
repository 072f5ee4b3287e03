/* The bytes of a checkpoint, and the time to copy it to the host, to a peer and to storage. */
#include "sim/campaign/checkpoint.h"

#include "models/trained_weights.h"

#include "sim/plan/state_share.h"

#include <math.h>

/* Saved bytes of all parameters: weights and optimizer state. The 4-byte copy of an fp16 gradient
 * that the optimizer makes in a step is not saved. */
static double saved_bytes(const struct model *model, const struct plan *plan)
{
    struct state_bytes state = plan_state_bytes(plan, model);
    double of_each = state.weights + state.optimizer - (plan_state_widens(plan) ? 4 : 0);
    double bytes = model_parameters(model) * of_each;
    if (!model_trains_all(model)) /* frozen weights do not change, so they are not saved again */
        return model_trained_parameters(model) * of_each;
    if (plan_matrices_apart(plan))
        bytes -= model_matrix_parameters(model) * (state.optimizer - state.matrix_optimizer);
    return bytes;
}

/* The bytes that a rank copies from its GPU to its host: its part of the state, without what an
 * offloaded optimizer already keeps on the host. */
static double own_bytes(const struct plan *plan, const struct stage_memory *stage)
{
    double replicas = plan_replicas(plan);
    double weights_copies = replicas / state_ranks(plan, STATE_PARAMETERS);
    double optimizer_copies = replicas / state_ranks(plan, STATE_OPTIMIZER);
    return stage->weights_bytes / weights_copies + stage->optimizer_bytes / optimizer_copies;
}

struct checkpoint checkpoint_of(const struct system *system, const struct model *model,
                                const struct plan *plan, const struct stage_memory *stages)
{
    int host_size = cluster_host_size(&system->cluster);
    int hosts = (system->num_gpus + host_size - 1) / host_size;
    double most_bytes = 0, network = cluster_host_network_bytes_per_s(&system->cluster);
    for (int stage = 0; stage < plan->pp; stage++)
        most_bytes = fmax(most_bytes, own_bytes(plan, &stages[stage]));
    struct checkpoint out = {
        .bytes = saved_bytes(model, plan),
        .storage_bytes_per_s = cluster_storage_bytes_per_s(&system->cluster, hosts),
        .copy_s = most_bytes / system->gpu.pcie_bytes_per_s,
    };
    out.storage_s = out.bytes / out.storage_bytes_per_s;
    if (hosts > 1 && network > 0)
        out.peer_s = out.bytes / hosts / network;
    return out;
}
