#include "sim/engine/work.h"

#include "sim/cost/compute.h"
#include "sim/cost/kernel_launch.h"
#include "sim/cost/network.h"
#include "sim/engine/data_parallel.h"
#include "sim/engine/offload.h"

#include <math.h>

/* A pass over a chunk: its lists on the GPU, and the host that must launch them in that time. */
struct pass {
    double gpu_s;
    double issue_s;
    double waiting_s; /* of lists that were traced alone */
};

/* How long the GPU waits for a host that needs `issue_s` to launch what runs for `gpu_s`. Neither
 * is even: where the two are close the launch queue runs dry now and then, so that both together
 * take longer than the longer. The fourth-power mean is that rounding of the corner (a fifth where
 * they are equal, a hundredth where one is twice the other), as the layers that vTrain traced show.
 */
static double waiting_s(double gpu_s, double issue_s)
{
    double gpu2 = gpu_s * gpu_s;
    double issue2 = issue_s * issue_s;
    return sqrt(sqrt(gpu2 * gpu2 + issue2 * issue2)) - gpu_s;
}

/* Of a layer that is traced alone nothing is launched ahead, neither beside the layer before nor
 * beside collectives, which are put between traces. */
static void launch(const struct work *w, struct pass *pass, const struct list_cost *list,
                   double times)
{
    double issue_s = list->kernels * plan_issue_s(w->plan, &w->system->stack);
    if (w->system->stack.launch == LAUNCH_TRACED)
        pass->waiting_s += times * waiting_s(list->compute_s, issue_s);
    else
        pass->issue_s += times * issue_s;
}

static void add_list(const struct work *w, struct pass *pass, struct time_parts *parts,
                     const struct list_cost *list, double times)
{
    pass->gpu_s += times * list->total_s;
    launch(w, pass, list, times);
    parts->compute_s += times * list->compute_s;
    parts->tensor_comm_s += times * (list->comm_s - list->context_s);
    parts->context_comm_s += times * list->context_s;
}

static void add_piece(const struct work *w, struct pass passes[CHUNK_PASSES],
                      struct time_parts *parts, const struct piece_cost *piece, double times)
{
    add_list(w, &passes[CHUNK_FORWARD], parts, &piece->forward, times);
    add_list(w, &passes[CHUNK_BACKWARD], parts, &piece->backward, times);
    add_list(w, &passes[CHUNK_WEIGHT], parts, &piece->weight, times);
}

/* Layers, or attention cores, run forward once more before their backward. */
static void add_recompute(const struct work *w, struct pass *backward, struct time_parts *parts,
                          int chunk, int layers)
{
    const struct piece_cost *layer = &w->pieces->layer;
    bool selective = w->plan->recompute == RECOMPUTE_SELECTIVE;
    const struct list_cost *replay = selective ? &layer->core : &layer->forward;
    int times = selective ? layers : plan_recomputed_layers(w->plan, chunk, layers);
    backward->gpu_s += times * replay->total_s;
    backward->issue_s += times * w->system->stack.checkpoint_s;
    launch(w, backward, replay, times);
    parts->recompute_s += times * replay->total_s;
}

/* The slowest chip sets the pace. `host_s` is the host's own once a pass. */
static double pass_s(const struct work *w, const struct pass *pass, double host_s,
                     struct time_parts *parts)
{
    double slower_s = pass->gpu_s * (w->slowdown - 1);
    double gpu_s = pass->gpu_s + slower_s;
    double extra_s = waiting_s(gpu_s, pass->issue_s) + pass->waiting_s + host_s;
    parts->other_s += slower_s + extra_s;
    return gpu_s + extra_s;
}

/* A pass over layers that each have `layer` to transfer. Parameters of a layer are gathered while
 * the layer before runs, gradients reduced while the next runs: a rate, not a sum. The first gather
 * and the last reduction have nothing to hide behind; without prefetch no gather has, and what it
 * then blocks is no less. */
static double sharded_s(const struct work *w, double compute_s, struct data_comm layer, int layers)
{
    const struct profile *profile = &w->system->profile;
    double comm_s = layer.gather_s + layer.reduce_s;
    if (comm_s <= 0)
        return compute_s;
    if (!plan_overlaps(w->plan, &w->system->stack, OVERLAP_PARAM))
        return compute_s + layers * comm_s;
    double ahead_s = layers * overlapped_s(profile, compute_s / layers, comm_s) + comm_s;
    if (w->system->stack.prefetch > 0)
        return ahead_s;
    double reducing_s = overlapped_s(profile, compute_s / layers, layer.reduce_s);
    return fmax(ahead_s, layers * (reducing_s + layer.gather_s) + layer.reduce_s);
}

/* The mean over a step's microbatches of a pass whose transfers come `times` a step; the others
 * have `rest` of them. With a single stage only the sum of passes counts. */
static double mean_sharded_s(const struct work *w, double compute_s, struct data_comm layer,
                             struct data_comm rest, double times, int layers)
{
    double with_s = sharded_s(w, compute_s, layer, layers);
    double share = times / w->num_microbatches;
    if (share >= 1)
        return with_s;
    double without_s = sharded_s(w, compute_s, rest, layers);
    return without_s + share * (with_s - without_s);
}

/* The executor clears a layer's whole gradients before each backward, and adds the shard that was
 * reduced to the sum: beside it both are read, and one is written. */
static double whole_gradients_s(const struct work *w)
{
    double parameters = w->pieces->layer.parameters;
    double bytes = 4 * parameters * (1 + 3 / (double)plan_shards(w->plan));
    return traffic_s(&w->system->gpu, &w->system->profile, bytes, 0);
}

/* ZeRO-3 gathers each layer for its forward, and where it drops the weights after that again for
 * its backward; ZeRO-2 and 3 reduce after every microbatch's backward, or the last one's (no_sync).
 */
static void add_sharding(const struct work *w, struct chunk_time *time, int layers)
{
    const struct plan *plan = w->plan;
    const struct stack *stack = &w->system->stack;
    if (plan->zero < 2 || plan_replicas(plan) == 1 || layers == 0)
        return;
    int messages = stack->layer_messages;
    struct data_comm comm =
        data_comm(stack, plan, &w->data, w->pieces->layer.parameters / messages);
    comm.gather_s += stack->message_per_rank_s * plan_shards(plan);
    comm.reduce_s += stack->message_per_rank_s * plan_shards(plan);
    if (stack->runtime == RUNTIME_HOST)
        comm.reduce_s += whole_gradients_s(w);
    struct data_comm none = { 0 };
    struct data_comm gather = { .gather_s = plan->zero == 3 ? messages * comm.gather_s : 0 };
    struct data_comm again = stack->reshard ? gather : none;
    struct data_comm both = { .gather_s = again.gather_s, .reduce_s = messages * comm.reduce_s };
    double m = w->num_microbatches;
    bool no_sync = stack->accumulate == ACCUMULATE_NO_SYNC;
    double forward_s = mean_sharded_s(w, time->forward_s, gather, none,
                                      no_sync && !stack->reshard ? 1 : m, layers);
    double backward_s = mean_sharded_s(w, time->backward_s, both, again, no_sync ? 1 : m, layers);
    time->parts.data_comm_s += forward_s - time->forward_s + backward_s - time->backward_s;
    time->forward_s = forward_s;
    time->backward_s = backward_s;
}

/* Activations go to the host as layers run forward and come back before their backward, beside
 * equal parts of the whole pass: embedding and head are spread over the layers. */
static void add_offload(const struct work *w, struct chunk_time *time, int layers)
{
    if (!plan_offloads(w->plan, OFFLOAD_ACTIVATIONS) || layers == 0)
        return;
    double copy_s = host_copy_s(w->system, w->pieces->layer.saved_bytes);
    double down_s = layers_copy_exposed_s(layers, time->forward_s / layers, copy_s);
    double up_s = layers_copy_exposed_s(layers, time->backward_s / layers, copy_s);
    time->forward_s += down_s;
    time->backward_s += up_s;
    time->parts.other_s += down_s + up_s;
}

struct chunk_time chunk_time(const struct work *w, int chunk)
{
    struct chunk_time time = { 0 };
    struct pass passes[CHUNK_PASSES] = { 0 };
    double host_s = w->system->stack.microbatch_s / 2;
    int layers = plan_chunk_layers(w->plan, w->model, chunk);
    add_piece(w, passes, &time.parts, &w->pieces->layer, layers);
    if (chunk == 0)
        add_piece(w, passes, &time.parts, &w->pieces->embedding, 1);
    if (chunk == plan_chunks(w->plan) - 1)
        add_piece(w, passes, &time.parts, &w->pieces->head, 1);
    add_recompute(w, &passes[CHUNK_BACKWARD], &time.parts, chunk, layers);
    time.forward_s = pass_s(w, &passes[CHUNK_FORWARD], host_s, &time.parts);
    time.backward_s = pass_s(w, &passes[CHUNK_BACKWARD], host_s, &time.parts);
    if (generator_splits(w->generator))
        time.weight_s = pass_s(w, &passes[CHUNK_WEIGHT], 0, &time.parts);
    add_sharding(w, &time, layers);
    add_offload(w, &time, layers);
    return time;
}
