#include "sim/engine/simulate.h"

bool system_check(const struct system *system, const struct plan *plan, struct err *err)
{
    enum dtype dtype = precision_dtype((enum precision)plan->precision);
    if (system->gpu.peak_flops_per_s[dtype] <= 0)
        return err_set(err, ERR_INFEASIBLE, "dtype", "%s has no %s matrix units; it has fp16",
                       system->gpu.name, dtype_names[dtype]);
    const struct fp8_recipe *fp8 = precision_fp8((enum precision)plan->precision);
    if (fp8 && fp8->needs_blackwell && system->gpu.arch < ARCH_BLACKWELL)
        return err_set(err, ERR_INFEASIBLE, "dtype", "%s has no matrix units for %s; it has fp8",
                       system->gpu.name, precision_names[plan->precision]);
    if (plan->cp > 1 && plan_attention_kernel(plan, system) == ATTENTION_UNFUSED)
        return err_set(err, ERR_INFEASIBLE, "cp",
                       "cp %d needs flash attention, which %s does not run on %s", plan->cp,
                       system->stack.name, system->gpu.name);
    const struct cluster *cluster = &system->cluster;
    int node_size = cluster_node_size(cluster);
    if (system->num_gpus > node_size && cluster->num_levels < 2)
        return err_set(err, ERR_INFEASIBLE, "gpus",
                       "%s is a single node of %d GPUs without a network; %d were asked for",
                       cluster->name, node_size, system->num_gpus);
    return true;
}
