#include "interchange/job.h"

#include "sim/collective/generation.h"
#include "sim/plan/axis.h"
#include "sim/plan/ranks.h"
#include "sim/plan/state_share.h"

#include <string.h>

struct job job_begin(const struct stack *stack, const struct gpu *gpu)
{
    return (struct job){ .plan = plan_default(),
                         .usual_overlaps = stack->overlaps & ((1u << NUM_PLAN_OVERLAPS) - 1),
                         .flash_default = stack->unstated.flash_default,
                         .one_connection = generations[gpu->arch].shares_queue };
}

int job_data_ranks(const struct job *job)
{
    int others = plan_ranks_but_data(&job->plan);
    return others > 0 ? job->num_gpus / others : 0;
}

void job_set_overlaps(struct job *job, unsigned overlaps)
{
    struct plan *plan = &job->plan;
    unsigned told = 1u << PLAN_OVERLAP_GRAD;
    if (plan->sp)
        told |= 1u << PLAN_OVERLAP_TP;
    if (plan_cuts(plan, STATE_OPTIMIZER))
        told |= 1u << PLAN_OVERLAP_PARAM;
    if (plan->vpp > 1)
        told |= 1u << PLAN_OVERLAP_P2P;
    if (plan->ep > 1)
        told |= 1u << PLAN_OVERLAP_EP | 1u << PLAN_OVERLAP_SHARED;
    plan->overlaps_given = ((overlaps ^ job->usual_overlaps) & told) != 0;
    plan->overlaps = plan->overlaps_given ? overlaps & told : 0;
}

void job_set_chunks(struct job *job, const int *layers, int count)
{
    struct plan *plan = &job->plan;
    bool is_even = true;
    for (int i = 1; i < count; i++)
        is_even = is_even && layers[i] == layers[0];
    plan->chunk_layers = is_even ? NULL : layers;
    plan->num_chunk_layers = is_even ? 0 : count;
}

bool job_has_named_axes(const struct job *job, struct err *err)
{
    for (int i = NUM_NAMED_AXES; i < num_axes; i++)
        if (job->plan.degree[i] > 1)
            return err_set(err, ERR_INFEASIBLE, axes[i]->name,
                           "the framework has no setting for %s", axes[i]->name);
    return true;
}

bool job_is_plain(const struct job *job, struct err *err)
{
    const struct plan *plan = &job->plan, usual = plan_default();
    if (!job_has_named_axes(job, err))
        return false;
    if (memcmp(plan->order, usual.order, sizeof usual.order) != 0)
        return err_set(err, ERR_INFEASIBLE, "order", "ranks can only be in the order tp-cp-dp-pp");
    if (!exchange_is_default(&plan->exchange))
        return err_set(err, ERR_INFEASIBLE, "exchange",
                       "gradients must be summed exactly, without compression or gossip");
    return plan->capacity == 0 ||
           err_set(err, ERR_INFEASIBLE, "capacity", "experts cannot have a capacity factor");
}

void job_make_plain(struct job *job)
{
    struct plan *plan = &job->plan, usual = plan_default();
    memcpy(plan->order, usual.order, sizeof usual.order);
    plan->exchange = usual.exchange;
    plan->capacity = usual.capacity;
    plan->optimizer = usual.optimizer;
    plan->attention = usual.attention;
    plan->overlaps_given = false;
    plan->overlaps = 0;
}

void job_tidy(struct job *job)
{
    if (job->plan.cp == 1)
        job->plan.context_comm = CONTEXT_COMM_P2P;
    job_set_overlaps(job, job_overlaps(job));
}
