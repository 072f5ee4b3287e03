/* The number of ranks on a plan's axes, and the number of data ranks that a number of GPUs leaves.
 * A degree is the number of ranks on one axis. */
#include "sim/plan/ranks.h"

#include "sim/plan/axis.h"

#include <limits.h>
#include <stdint.h>

/* The product of a and b, or INT_MAX if it is larger. */
static int capped_product(int a, int b)
{
    int64_t product = (int64_t)a * b;
    return product < INT_MAX ? (int)product : INT_MAX;
}

/* The product of the degrees of all axes except `axis` and the folded axes (experts), which only
 * reuse ranks of other axes. */
static int ranks_without(const struct plan *plan, enum axis_id axis)
{
    int ranks = 1;
    for (int i = 0; i < num_axes; i++)
        if (i != (int)axis && !axes[i]->is_folded)
            ranks = capped_product(ranks, plan->degree[i]);
    return ranks;
}

int plan_ranks_but_data(const struct plan *plan)
{
    return ranks_without(plan, AXIS_DATA);
}

int plan_stage_ranks(const struct plan *plan)
{
    return ranks_without(plan, AXIS_PIPELINE);
}

int plan_ranks(const struct plan *plan)
{
    return capped_product(plan_ranks_but_data(plan), plan->dp);
}

int plan_replicas(const struct plan *plan)
{
    int ranks = 1;
    for (int i = 0; i < num_axes; i++)
        if (axes[i]->is_replicated)
            ranks = capped_product(ranks, plan->degree[i]);
    return ranks;
}

int plan_shards(const struct plan *plan)
{
    return plan->shard > 0 ? plan->shard : plan_replicas(plan);
}

/* Writes the degrees of the other axes, such as "tp 8 x cp 1 x pp 4". */
static void write_others(const struct plan *plan, struct text *out)
{
    for (int i = 0; i < num_axes; i++)
        if (i != AXIS_DATA && !axes[i]->is_folded)
            text_add(out, "%s%s %d", i > 0 ? " x " : "", axes[i]->name, plan->degree[i]);
}

static bool refuse_gpus(const struct plan *plan, int num_gpus, struct err *err)
{
    struct text others = { 0 };
    if (err->code != ERR_NONE) /* an error is already set, so no further one is reported */
        return false;
    write_others(plan, &others);
    if (plan->dp == 0)
        err_set(err, ERR_INFEASIBLE, "dp",
                "the number of GPUs, %d, is not a multiple of the %d ranks of %s", num_gpus,
                plan_ranks_but_data(plan), text_get(&others));
    else
        err_set(err, ERR_INFEASIBLE, "dp", "%s x dp %d is %d GPUs, not %d", text_get(&others),
                plan->dp, plan_ranks(plan), num_gpus);
    text_release(&others);
    return false;
}

bool plan_derive_data(struct plan *plan, int num_gpus, struct err *err)
{
    int others = plan_ranks_but_data(plan);
    if (plan->dp == 0 && num_gpus > 0 && num_gpus % others == 0) {
        plan->dp = num_gpus / others;
        return true;
    }
    if (plan->dp > 0 && plan_ranks(plan) == num_gpus)
        return true;
    return refuse_gpus(plan, num_gpus, err);
}
