/* Bytes per parameter of a plan's weights, gradients and optimizer state, and other properties of a
 * plan. */
#include "sim/plan/plan.h"

#include <limits.h>
#include <math.h>

const char *plan_schedule(const struct plan *plan)
{
    if (plan->schedule[0])
        return plan->schedule;
    return plan->vpp > 1 ? "interleaved" : "1f1b";
}

void plan_set_recompute(struct plan *plan, enum recompute recompute)
{
    plan->recompute = (int)recompute;
    plan->replays = 0;
    plan->stage_replays = NULL;
    plan->num_stage_replays = 0;
    plan->recompute_every = 0;
    plan->recompute_layers = NULL;
    plan->num_recompute_layers = 0;
    plan->recompute_share = 0;
}

unsigned plan_replays(const struct plan *plan)
{
    unsigned replays = plan->replays;
    for (int i = 0; plan_lists_parts(plan) && i < plan->num_stage_replays; i++)
        replays |= (unsigned)plan->stage_replays[i];
    return replays ? replays : REPLAYS_CORE;
}

struct plan plan_of_stage(const struct plan *plan, int stage)
{
    struct plan of = *plan;
    if (!plan_lists_parts(plan))
        return of;
    int replays = plan->stage_replays[plan->num_stage_replays == 1 ? 0 : stage];
    plan_set_recompute(&of, replays ? RECOMPUTE_SELECTIVE : RECOMPUTE_NONE);
    of.replays = replays == REPLAYS_CORE ? 0 : (unsigned)replays;
    return of;
}

bool plan_replays_core(const struct plan *plan)
{
    bool has_core = (plan_replays(plan) & REPLAYS_CORE) != 0;
    for (int i = 0; plan_lists_parts(plan) && i < plan->num_stage_replays; i++)
        has_core = has_core && ((unsigned)plan->stage_replays[i] & REPLAYS_CORE) != 0;
    return plan->recompute == RECOMPUTE_SELECTIVE && has_core;
}

void plan_set_even(struct plan *plan)
{
    plan->chunk_layers = NULL;
    plan->num_chunk_layers = 0;
}

int plan_microbatches(const struct plan *plan, double global_batch)
{
    double microbatches = floor(global_batch / ((double)plan->dp * plan->microbatch));
    return microbatches < INT_MAX ? (int)microbatches : INT_MAX;
}

int plan_chunk_layers(const struct plan *plan, const struct model *model, int chunk)
{
    return plan->chunk_layers ? plan->chunk_layers[chunk] : model->layers / plan_chunks(plan);
}

bool plan_offloads(const struct plan *plan, enum offload what)
{
    return plan->offloads >> what & 1;
}

int plan_recomputed_layers(const struct plan *plan, int chunk, int layers)
{
    switch ((enum recompute)plan->recompute) {
    case RECOMPUTE_NONE:
    case RECOMPUTE_SELECTIVE:
        return 0;
    case RECOMPUTE_FULL:
    case RECOMPUTE_EVERY:
        return layers;
    case RECOMPUTE_BLOCK: {
        int asked = plan->recompute_layers[plan->num_recompute_layers == 1 ? 0 : chunk];
        return asked < layers ? asked : layers;
    }
    case RECOMPUTE_SHARE:
        return (int)lround(plan->recompute_share * layers);
    }
    return 0;
}

/* Bytes per weight of the copy that the optimizer updates. */
static double master_bytes(const struct plan *plan)
{
    const struct precision_row *row = &precision_rows[plan->precision];
    return row->has_master ? 4 : dtype_bytes(row->values);
}

/* Bytes of moments per parameter. Adam has two, in the data type of the master weights unless the
 * optimizer's name says otherwise. */
static double moment_bytes(const struct plan *plan, const struct model *model)
{
    double element = master_bytes(plan);
    switch ((enum optimizer)plan->optimizer) {
    case OPTIMIZER_ADAM:
    case OPTIMIZER_MUON: /* embedding, head, norms and biases use Adam's moments */
        return 2 * element;
    case OPTIMIZER_ADAM_BF16:
        return 2 * 2;
    case OPTIMIZER_ADAM_8BIT: /* one byte per moment, and an fp32 scale per block of 2048 */
        return 2 * (1 + 4.0 / 2048);
    case OPTIMIZER_MOMENTUM:
        return element;
    case OPTIMIZER_SGD:
        return 0;
    /* one second moment per row and per column; rows and columns have about `hidden` elements */
    case OPTIMIZER_ADAFACTOR:
        return 2 * element / model->hidden;
    case NUM_OPTIMIZERS:
        break;
    }
    return 0;
}

bool plan_state_has_master(const struct plan *plan)
{
    return precision_rows[plan->precision].has_master;
}

bool plan_state_widens(const struct plan *plan)
{
    return plan->precision == PRECISION_FP16 && plan->gradient_dtype == DTYPE_FP16;
}

bool plan_matrices_apart(const struct plan *plan)
{
    return plan->optimizer == OPTIMIZER_MUON;
}

/* The numbers are those of Megatron-LM's dist_optimizer.md. fp16 gradients are unscaled into an
 * fp32 copy that the optimizer holds: 2 + 2 + (4 + 4 + 8) = 20 bytes with Adam. */
struct state_bytes plan_state_bytes(const struct plan *plan, const struct model *model)
{
    bool has_master = plan_state_has_master(plan);
    bool copies_gradients = plan_state_widens(plan);
    double kept = (has_master ? 4 : 0) + (copies_gradients ? 4 : 0);
    double moments = moment_bytes(plan, model);
    return (struct state_bytes){
        .weights = precision_bytes(plan->precision), /* quantised copies are not counted */
        .gradients = dtype_bytes((enum dtype)plan->gradient_dtype),
        .optimizer = kept + moments,
        .matrix_optimizer = kept + (plan_matrices_apart(plan) ? master_bytes(plan) : moments),
    };
}

double plan_exchange_bytes(const struct plan *plan)
{
    if (exchange_keeps_replicas_equal(&plan->exchange))
        return dtype_bytes((enum dtype)plan->reduce_dtype);
    return master_bytes(plan);
}
