/* Checks that a system can run a plan: the data type, the network and the rate of its products. */
#include "sim/engine/simulate.h"

/* The name of the narrowest data type that the GPU supports and that is wider than `dtype`. */
static const char *nearest_type(const struct gpu *gpu, enum dtype dtype)
{
    int wider = (int)dtype - 1;
    while (wider > 0 && gpu->peak_flops_per_s[wider] <= 0)
        wider--;
    return dtype_names[wider < 0 ? DTYPE_FP16 : wider];
}

static bool multiplies(const struct gpu *gpu, int precision, struct err *err)
{
    enum dtype dtype = precision_dtype(precision);
    const struct recipe *recipe = precision_recipe(precision);
    if (gpu->peak_flops_per_s[dtype] <= 0)
        return err_set(err, ERR_INFEASIBLE, "dtype", "%s has no %s matrix units; it has %s",
                       gpu->name, dtype_names[dtype], nearest_type(gpu, dtype));
    if (recipe && recipe->scales_in_products && !generations[gpu->arch].scales_blocks)
        return err_set(err, ERR_INFEASIBLE, "dtype", "%s has no matrix units for %s; it has %s",
                       gpu->name, precision_names[precision], dtype_names[dtype]);
    return true;
}

bool system_has_rate(const struct system *system, const struct plan *plan, struct err *err)
{
    enum dtype dtype = precision_dtype(plan->precision);
    if (system->profile.is_missing)
        return err_set(err, ERR_INFEASIBLE, "profile",
                       "%s was never measured, so the plan's time cannot be predicted; to predict "
                       "it, name a profile in the cluster's file",
                       system->gpu.name);
    if (!dtype_is_quantized(dtype) || system->profile.narrow[dtype].efficiency > 0)
        return true;
    return err_set(err, ERR_INFEASIBLE, "dtype",
                   "the rate of %s products on %s was never measured, so the plan's time cannot be "
                   "predicted; to predict it, set %s_product_efficiency in profile %s",
                   dtype_names[dtype], system->gpu.name, dtype_names[dtype], system->profile.name);
}

bool system_check(const struct system *system, const struct plan *plan, struct err *err)
{
    if (!multiplies(&system->gpu, plan->precision, err))
        return false;
    if (plan->cp > 1 && plan_attention_kernel(plan, system) == ATTENTION_UNFUSED)
        return err_set(err, ERR_INFEASIBLE, "cp",
                       "cp %d needs flash attention, which %s does not run on %s", plan->cp,
                       system->stack.name, system->gpu.name);
    const struct cluster *cluster = &system->cluster;
    int node_size = cluster_node_size(cluster);
    if (system->num_gpus > node_size && cluster->num_levels < 2)
        return err_set(err, ERR_INFEASIBLE, "gpus",
                       "%s is a single node of %d GPUs without a network; %d were requested",
                       cluster->name, node_size, system->num_gpus);
    return system_has_rate(system, plan, err);
}
