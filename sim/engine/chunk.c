/* The time of the passes over one chunk, from the costs of its pieces (layers, embedding, head) and
 * of launching them. */
#include "sim/engine/evaluation.h"

#include "models/blocks.h"
#include "sim/cost/compute.h"
#include "sim/cost/group_links.h"
#include "sim/cost/kernel_launch.h"
#include "sim/cost/runtime.h"
#include "sim/engine/data_parallel.h"
#include "sim/engine/offload.h"
#include "sim/memory/held.h"
#include "sim/plan/state_share.h"

#include <math.h>

/* A pass over a chunk: the GPU's time for its op lists (sequences of operations), and the host's
 * time to launch them. */
struct pass {
    double gpu_s;
    double issue_s;
    double waiting_s; /* time that the GPU waits for the host, in op lists whose kernels are
                         launched one by one */
    double kernel_s;  /* the host's time to launch a kernel */
};

/* How long the GPU waits for a host that needs `issue_s` to launch work of `gpu_s`. Both times
 * vary, so if they are close the launch queue sometimes runs empty, and the total exceeds the
 * longer of the two. It is modelled as (gpu^4 + issue^4)^(1/4): 19 % more than the longer if both
 * are equal, 1.5 % more if one is twice the other. Layers traced by vTrain agree. */
static double waiting_s(double gpu_s, double issue_s)
{
    double gpu2 = gpu_s * gpu_s;
    double issue2 = issue_s * issue_s;
    return sqrt(sqrt(gpu2 * gpu2 + issue2 * issue2)) - gpu_s;
}

/* Adds the times of an op list to a pass. If the host does not launch kernels ahead, the GPU waits
 * in each op list separately; if launches block, it waits for every launch. */
static void launch(const struct evaluation *w, struct pass *pass, const struct list_cost *list,
                   double times)
{
    double issue_s = list->kernels * pass->kernel_s;
    if (w->system->stack.host.launches_block)
        pass->waiting_s += times * issue_s;
    else if (w->system->stack.host.launches_ahead)
        pass->issue_s += times * issue_s;
    else
        pass->waiting_s += times * waiting_s(list->compute_s, issue_s);
}

/* Pieces below the lowest trained weight have no backward. */
static bool has_backward(const struct piece_cost *piece)
{
    return piece->backward.total_s + piece->weight.total_s > 0;
}

static void add_list(const struct evaluation *w, struct pass *pass, struct time_parts *parts,
                     const struct list_cost *list, double times)
{
    pass->gpu_s += times * list->total_s;
    launch(w, pass, list, times);
    parts->compute_s += times * list->compute_s;
    parts->tensor_comm_s += times * (list->comm_s - list->context_s - list->expert_s);
    parts->context_comm_s += times * list->context_s;
    parts->expert_comm_s += times * list->expert_s;
}

static void add_piece(const struct evaluation *w, struct pass passes[CHUNK_PASSES],
                      struct time_parts *parts, const struct piece_cost *piece, double times)
{
    add_list(w, &passes[CHUNK_FORWARD], parts, &piece->forward, times);
    add_list(w, &passes[CHUNK_BACKWARD], parts, &piece->backward, times);
    add_list(w, &passes[CHUNK_WEIGHT], parts, &piece->weight, times);
}

/* Adds the recompute of a piece, or of some of its modules, before its backward. Unless recompute
 * is selective, `in_full` of the chunk's pieces of this kind are recomputed. */
static void add_recompute(const struct evaluation *w, struct pass *backward,
                          struct time_parts *parts, const struct holding *held, int piece,
                          int in_full)
{
    const struct piece_cost *cost = &w->pieces->at[piece];
    bool selective = w->plan->recompute == RECOMPUTE_SELECTIVE;
    const struct list_cost *replay = selective ? &cost->replay : &cost->again;
    int times = selective ? held->count[piece] : in_full;
    if (!has_backward(cost))
        return;
    backward->gpu_s += times * replay->total_s;
    backward->issue_s += times * w->system->stack.host.checkpoint_s;
    launch(w, backward, replay, times);
    parts->recompute_s += times * replay->total_s;
}

/* Time of a pass, which is that of the slowest chip. `host_s` is the host's overhead per pass. */
static double pass_s(const struct evaluation *w, const struct pass *pass, double host_s,
                     struct time_parts *parts)
{
    double slower_s = pass->gpu_s * (w->slowdown - 1);
    double gpu_s = pass->gpu_s + slower_s;
    double extra_s = waiting_s(gpu_s, pass->issue_s) + pass->waiting_s + host_s;
    parts->other_s += slower_s + extra_s;
    return gpu_s + extra_s;
}

/* The layers of a pass, kind by kind. */
struct layers {
    const struct holding *held;
    double compute_s[MAX_BLOCK_KINDS]; /* one layer's share of the whole pass */
};

/* Spreads embedding and head over the layers, in proportion to the layers' own times. */
static struct layers spread(const struct evaluation *w, const struct holding *held,
                            const struct chunk_time *time, bool is_forward)
{
    struct layers layers = { .held = held };
    double of_list_s[MAX_BLOCK_KINDS];
    for (int kind = 0; kind < w->pieces->num_kinds; kind++) {
        const struct piece_cost *piece = &w->pieces->at[kind];
        of_list_s[kind] = is_forward ? piece->forward.total_s : piece->backward.total_s;
    }
    for (int kind = 0; kind < w->pieces->num_kinds; kind++) {
        if (of_list_s[kind] <= 0)
            continue;
        /* number of layers of this kind that together would take as long as all layers of the
         * pass */
        double as_many = held->count[kind];
        for (int other = 0; other < w->pieces->num_kinds; other++)
            if (other != kind)
                as_many += held->count[other] * of_list_s[other] / of_list_s[kind];
        layers.compute_s[kind] = (is_forward ? time->forward_s : time->backward_s) / as_many;
    }
    return layers;
}

/* The data-parallel transfers of one layer of each kind. */
struct layer_comms {
    struct data_comm of_kind[MAX_BLOCK_KINDS];
};

static double comm_s(struct data_comm comm)
{
    return comm.gather_s + comm.reduce_s;
}

static bool has_comm(const struct layer_comms *comms, int num_kinds)
{
    for (int kind = 0; kind < num_kinds; kind++)
        if (comm_s(comms->of_kind[kind]) > 0)
            return true;
    return false;
}

/* Time of a pass if layers and their transfers run one after the other. */
static double blocking_s(const struct holding *held, double compute_s,
                         const struct layer_comms *comms)
{
    for (int kind = 0; kind < MAX_BLOCK_KINDS; kind++)
        compute_s += held->count[kind] * comm_s(comms->of_kind[kind]);
    return compute_s;
}

/* Time of a pass with prefetch: parameters of a layer are gathered while the layer before runs, and
 * gradients are reduced while the next layer runs. The slower of compute and transfers determines
 * the time. The first gather and the last reduction, both of the chunk's first layer, are
 * exposed. */
static double ahead_s(const struct profile *profile, const struct layers *layers,
                      const struct layer_comms *comms)
{
    const struct holding *held = layers->held;
    double sum_s = 0;
    for (int kind = 0; kind < MAX_BLOCK_KINDS; kind++)
        if (held->count[kind] > 0)
            sum_s += held->count[kind] *
                     overlapped_s(profile, layers->compute_s[kind], comm_s(comms->of_kind[kind]));
    return sum_s + comm_s(comms->of_kind[held->first_kind]);
}

/* Time of a pass without prefetch, in which every gather is exposed. */
static double gathering_s(const struct profile *profile, const struct layers *layers,
                          const struct layer_comms *comms)
{
    const struct holding *held = layers->held;
    double sum_s = 0;
    for (int kind = 0; kind < MAX_BLOCK_KINDS; kind++) {
        struct data_comm comm = comms->of_kind[kind];
        if (held->count[kind] > 0)
            sum_s +=
                held->count[kind] *
                (overlapped_s(profile, layers->compute_s[kind], comm.reduce_s) + comm.gather_s);
    }
    return sum_s + comms->of_kind[held->first_kind].reduce_s;
}

/* Time of a pass whose layers have the transfers `comms`. They are exposed unless gathers overlap
 * compute (OVERLAP_PARAM); the stack's prefetch then decides whether gathers run ahead. */
static double sharded_s(const struct evaluation *w, double compute_s, const struct layers *layers,
                        const struct layer_comms *comms)
{
    const struct profile *profile = &w->system->profile;
    if (!has_comm(comms, w->pieces->num_kinds))
        return compute_s;
    if (!plan_overlaps(w->plan, &w->system->stack, OVERLAP_PARAM))
        return blocking_s(layers->held, compute_s, comms);
    double with_prefetch_s = ahead_s(profile, layers, comms);
    if (w->system->stack.shards.prefetch > 0)
        return with_prefetch_s;
    return fmax(with_prefetch_s, gathering_s(profile, layers, comms));
}

/* The mean time of a pass over a step's microbatches: `times` of them have the transfers `comms`,
 * the others have the transfers `rest`. The mean suffices: microbatches differ only with a single
 * stage, where only the sum of the passes matters. */
static double mean_sharded_s(const struct evaluation *w, double compute_s,
                             const struct layers *layers, const struct layer_comms *comms,
                             const struct layer_comms *rest, double times)
{
    double with_s = sharded_s(w, compute_s, layers, comms);
    double share = times / w->num_microbatches;
    if (share >= 1)
        return with_s;
    double without_s = sharded_s(w, compute_s, layers, rest);
    return without_s + share * (with_s - without_s);
}

double evaluation_whole_gradients_s(const struct evaluation *w, double parameters)
{
    double bytes = 4 * parameters * (1 + 3 / (double)plan_shards(w->plan));
    return traffic_s(&w->system->gpu, &w->system->profile, bytes, 0);
}

/* The gather and the reduction of one message of a layer. */
static struct data_comm message_comm(const struct evaluation *w, const struct piece_cost *layer)
{
    const struct stack *stack = &w->system->stack;
    double messages = stack->shards.layer_messages;
    struct stage_weights all = { layer->parameters / messages, layer->of_experts / messages };
    struct data_comm comm = {
        .reduce_s =
            evaluation_data_comm(w, stage_weights_times(layer->trained, 1 / messages)).reduce_s,
        .gather_s = evaluation_data_comm(w, all).gather_s,
    };
    comm.gather_s += stack->shards.message_per_rank_s * plan_shards(w->plan);
    comm.reduce_s += stack->shards.message_per_rank_s * plan_shards(w->plan);
    if (stack_runtime(stack)->adds_whole_gradients)
        comm.reduce_s += evaluation_whole_gradients_s(w, layer->trained.all);
    return comm;
}

/* The layers in `held` plus the blocks of modules that predict later tokens, which are like the
 * model's last block. */
static struct holding all_blocks(const struct model *model, const struct holding *held)
{
    struct holding blocks = *held;
    blocks.count[model_kind_of(model, model->layers - 1)] += held->count[PIECE_LATER];
    return blocks;
}

/* Whether ZeRO-3 gathers a layer again for its backward. With a pipeline it does, as other
 * microbatches' passes are in between. */
static bool gathers_again(const struct evaluation *w)
{
    return w->system->stack.shards.reshard || w->plan->pp > 1;
}

/* ZeRO-3 gathers each layer for its forward, and again for its backward if it drops the weights in
 * between. ZeRO-2 and 3 reduce after every microbatch's backward, or only after the last one's
 * (no_sync). */
static void add_sharding(const struct evaluation *w, struct chunk_time *time,
                         const struct holding *held)
{
    const struct plan *plan = w->plan;
    const struct stack *stack = &w->system->stack;
    if (!(plan_reduces(plan) || plan_gathers(plan)) || held->layers == 0)
        return;
    struct holding blocks = all_blocks(w->model, held);
    held = &blocks;
    struct layer_comms none = { 0 }, gather = { 0 }, again = { 0 }, both = { 0 };
    for (int kind = 0; kind < w->pieces->num_kinds; kind++) {
        struct data_comm comm = message_comm(w, &w->pieces->at[kind]);
        double gather_s = plan_gathers(plan) ? stack->shards.layer_messages * comm.gather_s : 0;
        gather.of_kind[kind].gather_s = gather_s;
        if (!has_backward(&w->pieces->at[kind]))
            continue;
        again.of_kind[kind].gather_s = gathers_again(w) ? gather_s : 0;
        both.of_kind[kind].gather_s = again.of_kind[kind].gather_s;
        both.of_kind[kind].reduce_s =
            plan_reduces(plan) ? stack->shards.layer_messages * comm.reduce_s : 0;
    }
    double m = w->num_microbatches;
    bool no_sync = stack->shards.accumulate == ACCUMULATE_NO_SYNC && plan->pp == 1;
    struct layers forward = spread(w, held, time, true), backward = spread(w, held, time, false);
    double forward_s = mean_sharded_s(w, time->forward_s, &forward, &gather, &none,
                                      no_sync && !stack->shards.reshard ? 1 : m);
    double backward_s =
        mean_sharded_s(w, time->backward_s, &backward, &both, &again, no_sync ? 1 : m);
    time->parts.data_comm_s += forward_s - time->forward_s + backward_s - time->backward_s;
    time->forward_s = forward_s;
    time->backward_s = backward_s;
}

/* The copies run on the compute stream, so they are exposed. */
static void add_shard_copies(const struct evaluation *w, struct chunk_time *time,
                             const struct holding *held)
{
    double parameters = 0;
    if (!plan_gathers(w->plan))
        return;
    for (int piece = 0; piece < NUM_PIECES; piece++)
        parameters += held->count[piece] * w->pieces->at[piece].parameters;
    struct data_comm copies = shard_copies(w->system, w->plan, parameters);
    double backward_s = plan_reduces(w->plan) ? copies.reduce_s : 0;
    backward_s += gathers_again(w) ? copies.gather_s : 0;
    time->forward_s += copies.gather_s;
    time->backward_s += backward_s;
    time->parts.data_comm_s += copies.gather_s + backward_s;
}

/* Kept activations are copied to the host as layers run forward, and back before their backward.
 * Values that recompute drops are not copied. Each layer's copy overlaps an equal part of the whole
 * pass, so embedding and head are spread over the layers. With several kinds of layers, the copies
 * count with their mean. */
static void add_offload(const struct evaluation *w, struct chunk_time *time,
                        const struct holding *held)
{
    if (!plan_offloads(w->plan, OFFLOAD_ACTIVATIONS) || held->layers == 0)
        return;
    int layers = held->layers;
    double bytes = held_kept_bytes(w->plan, held, w->pieces) / layers;
    double copy_s = host_copy_s(w->system, bytes);
    double down_s = layers_copy_exposed_s(layers, time->forward_s / layers, copy_s);
    double up_s = layers_copy_exposed_s(layers, time->backward_s / layers, copy_s);
    if (w->plan->pp > 1)
        down_s += chunk_copy_exposed_s(layers, time->forward_s + down_s,
                                       time->backward_s + time->weight_s + up_s, copy_s);
    time->forward_s += down_s;
    time->backward_s += up_s;
    time->parts.other_s += down_s + up_s;
}

/* Share of a chunk's passes that overlap a pass of another microbatch, averaged over stages. Passes
 * that fill the pipeline (one more than without overlap) and passes that empty it overlap none: 2
 * (p - i - 1) + (v - 1) p + 1 passes on stage i of p, with v chunks per stage (Megatron Core,
 * schedules.py and combined_1f1b.py). */
static double paired_share(const struct evaluation *w)
{
    const struct plan *plan = w->plan;
    double passes = (double)w->num_microbatches * plan->vpp;
    double alone = plan->pp == 1 ? 1 : plan->pp - 1 + (plan->vpp - 1.0) * plan->pp + 1;
    return fmax(0, 1 - alone / passes);
}

/* With overlap=ep, a forward and the backward of another microbatch run together, layer by layer.
 * Full recompute runs before them, with its messages exposed. If the schedule itself has pairs,
 * pair.c times them instead. */
static void add_expert_overlap(const struct evaluation *w, struct chunk_time *time,
                               const struct holding *held)
{
    double forward_s = evaluation_expert_comm_s(w, held, true);
    double backward_s = evaluation_expert_comm_s(w, held, false);
    double comm_s = forward_s + backward_s;
    if (comm_s <= 0 || w->generator->pairs)
        return;
    bool is_full = w->plan->recompute == RECOMPUTE_FULL;
    double before_s = is_full ? time->parts.recompute_s : 0;
    double compute_s = time->forward_s + time->backward_s - before_s - comm_s;
    double spared_s =
        paired_share(w) * evaluation_spared_beside_s(w, compute_s, comm_s, held->layers);
    time->forward_s -= spared_s * forward_s / comm_s;
    time->backward_s -= spared_s * backward_s / comm_s;
    time->parts.expert_comm_s -= spared_s;
}

/* The passes over a chunk if the host launches a kernel in `kernel_s`. */
static void add_passes(const struct evaluation *w, const struct holding *held, double kernel_s,
                       struct pass passes[CHUNK_PASSES], struct time_parts *parts)
{
    for (int pass = 0; pass < CHUNK_PASSES; pass++)
        passes[pass] = (struct pass){ .kernel_s = kernel_s };
    for (int piece = 0; piece < NUM_PIECES; piece++)
        if (held->count[piece] > 0)
            add_piece(w, passes, parts, &w->pieces->at[piece], held->count[piece]);
    for (int kind = 0; kind < w->pieces->num_kinds; kind++)
        add_recompute(w, &passes[CHUNK_BACKWARD], parts, held, kind, held->recomputed[kind]);
    int later_in_full = plan_recomputes_later(w->plan) ? held->count[PIECE_LATER] : 0;
    add_recompute(w, &passes[CHUNK_BACKWARD], parts, held, PIECE_LATER, later_in_full);
}

/* The evaluation with the recompute of the chunk's stage. */
static struct evaluation of_chunk(const struct evaluation *w, int chunk, struct plan *plan)
{
    return evaluation_of_stage(w, placement_stage(plan_placement(w->plan), chunk), plan);
}

double evaluation_op_by_op_s(const struct evaluation *of, int chunk)
{
    struct plan plan;
    struct evaluation own = of_chunk(of, chunk, &plan);
    const struct evaluation *w = &own;
    const struct stack *stack = &w->system->stack;
    enum chunk_pass last = generator_splits(w->generator) ? CHUNK_WEIGHT : CHUNK_BACKWARD;
    double kernels_s[] = { plan_issue_s(w->plan, stack), stack->host.issue_s }, pass_seconds[2];
    struct holding held = chunk_holding(w->plan, w->model, chunk);
    for (int i = 0; i < 2; i++) {
        struct pass passes[CHUNK_PASSES];
        struct time_parts parts = { 0 };
        add_passes(w, &held, kernels_s[i], passes, &parts);
        pass_seconds[i] = pass_s(w, &passes[last], 0, &parts);
    }
    return pass_seconds[1] - pass_seconds[0];
}

struct chunk_time chunk_time(const struct evaluation *of, int chunk)
{
    struct plan plan;
    struct evaluation own = of_chunk(of, chunk, &plan);
    const struct evaluation *w = &own;
    struct chunk_time time = { 0 };
    struct pass passes[CHUNK_PASSES];
    double host_s = w->system->stack.host.microbatch_s / 2;
    struct holding held = chunk_holding(w->plan, w->model, chunk);
    add_passes(w, &held, plan_issue_s(w->plan, &w->system->stack), passes, &time.parts);
    time.forward_s = pass_s(w, &passes[CHUNK_FORWARD], host_s, &time.parts);
    time.backward_s = pass_s(w, &passes[CHUNK_BACKWARD], host_s, &time.parts);
    if (generator_splits(w->generator))
        time.weight_s = pass_s(w, &passes[CHUNK_WEIGHT], 0, &time.parts);
    add_expert_overlap(w, &time, &held);
    add_shard_copies(w, &time, &held);
    add_sharding(w, &time, &held);
    add_offload(w, &time, &held);
    return time;
}
