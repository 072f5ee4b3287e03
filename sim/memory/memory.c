/* The memory of each stage at its peak. A piece is a layer, the embedding or the head. A microbatch
 * is in flight on a stage from its forward to the end of its backward there. A pair is a forward
 * and a backward that run as one unit. */
#include "sim/memory/memory.h"

#include "base/length.h"
#include "models/blocks.h"
#include "models/trained_weights.h"
#include "sim/cost/exchange.h"
#include "sim/cost/kernel_launch.h"
#include "sim/cost/runtime.h"
#include "sim/cost/stage_load.h"
#include "sim/memory/executor_pass_memory.h"
#include "sim/memory/held.h"
#include "sim/memory/network_memory.h"
#include "sim/memory/state_memory.h"
#include "sim/plan/state_share.h"

#include <math.h>
#include <string.h>

/* Transformer Engine launches experts' products on four streams, each with a workspace of its own
 * (pytorch/module/base.py, get_multi_stream_cublas_workspace). */
static double library_bytes(const struct system *system, const struct model *model)
{
    enum { EXPERT_STREAMS = 4 };
    const struct generation *generation = &generations[system->gpu.arch];
    if (!stack_runtime(&system->stack)->has_workspaces)
        return 0;
    bool has_streams = model->experts > 0 && system->stack.launches_each_expert;
    return generation->workspace_bytes +
           (has_streams ? EXPERT_STREAMS * generation->stream_workspace_bytes : 0);
}

/* Used instead of the K of full:K (one checkpoint per K layers) in a lower bound that holds for
 * every K. Every K keeps at least one input, and one layer while it is recomputed; the bound counts
 * these. */
enum { ANY_INTERVAL = 0 };

static int checkpoint_interval(const struct plan *plan)
{
    return plan->recompute == RECOMPUTE_EVERY ? plan->recompute_every : 1;
}

/* Bytes that a module which predicts a later token keeps, without its embedding and head. If it is
 * recomputed in full, it keeps the rows that it takes from the blocks and from the embedding. The
 * input of its last norm is subtracted: the module's head counts it as kept, but it is recomputed
 * too. */
static double later_kept_bytes(const struct memory_input *in)
{
    const struct piece_cost *later = &in->pieces->at[PIECE_LATER];
    return plan_recomputes_later(in->plan) ? later->input_bytes
                                           : kept_layers_bytes(in->plan, later, 1);
}

/* Bytes that a chunk's layers keep on the GPU from forward to backward. */
static double layers_saved_bytes(const struct memory_input *in, const struct holding *held)
{
    return plan_offloads(in->plan, OFFLOAD_ACTIVATIONS)
               ? 0
               : held_kept_bytes(in->plan, held, in->pieces);
}

/* Buffers of offloaded layers on the GPU: once per stage, as one pass runs at a time. On one stage
 * the backward begins with the layers that the forward ended with, so both use the same buffers. In
 * a pipeline another microbatch's backward follows, and each direction has its own. */
static double offload_buffers_bytes(const struct memory_input *in, int stage)
{
    double most_bytes = 0;
    if (!plan_offloads(in->plan, OFFLOAD_ACTIVATIONS))
        return 0;
    for (int round = 0; round < in->plan->vpp; round++) {
        int chunk = placement_chunk(plan_placement(in->plan), stage, round);
        struct holding held = chunk_holding(in->plan, in->model, chunk);
        most_bytes = fmax(most_bytes, held_offload_bytes(in->plan, &held, in->pieces));
    }
    return (in->plan->pp > 1 ? 2 : 1) * most_bytes;
}

static bool counts_passes(const struct memory_input *in)
{
    return stack_runtime(&in->system->stack)->walks_passes;
}

/* Saved bytes of the layers from `first` up to the next checkpoint, or to the end of the chunk's
 * recomputed layers, `end`. The checkpoint itself is counted elsewhere. The executor recomputes
 * from a copy of it, and the copy is counted here. */
static double group_bytes(const struct memory_input *in, int first, int end)
{
    int every = checkpoint_interval(in->plan);
    int alive = every == ANY_INTERVAL ? 1 : every;
    int counts[MAX_BLOCK_KINDS];
    double bytes = 0;
    model_count_kinds(in->model, first, alive < end - first ? alive : end - first, counts);
    for (int kind = 0; kind < in->pieces->num_kinds; kind++)
        bytes += counts[kind] * in->pieces->at[kind].saved_bytes;
    return bytes - (counts_passes(in) ? 0 : in->pieces->at[0].input_bytes);
}

/* Bytes of recomputed values: those of the largest group of layers between two checkpoints. If all
 * layers are equal, the first group is the largest. The values of selective recompute are counted
 * here for the executor, and with the layer's backward for other runtimes. */
static double recompute_bytes(const struct memory_input *in, int chunk, const struct holding *held)
{
    const struct plan *plan = in->plan;
    double most_bytes = 0;
    int first = in->pieces->num_kinds > 1 ? chunk_first_layer(plan, in->model, chunk) : 0;
    int end = first;
    for (int kind = 0; kind < in->pieces->num_kinds; kind++) {
        if (in->pieces->num_kinds > 1 && model_kind(in->model, kind).gradient == GRADIENT_NONE)
            /* layers below the first trained weight have no backward and keep nothing */
            end = first += held->count[kind];
        if (plan->recompute == RECOMPUTE_SELECTIVE && held->count[kind] > 0 && counts_passes(in))
            most_bytes = fmax(most_bytes, in->pieces->at[kind].replayed_bytes);
        end += held->recomputed[kind];
    }
    int every = checkpoint_interval(plan);
    for (int layer = first; layer < end; layer += every == ANY_INTERVAL ? 1 : every) {
        most_bytes = fmax(most_bytes, group_bytes(in, layer, end));
        if (in->pieces->num_kinds == 1)
            break;
    }
    return most_bytes;
}

/* Parameters of all blocks of the model on one tensor rank. */
static double blocks_parameters(const struct memory_input *in)
{
    int counts[MAX_BLOCK_KINDS];
    double parameters = 0;
    model_count_kinds(in->model, 0, in->model->layers, counts);
    for (int kind = 0; kind < in->pieces->num_kinds; kind++)
        parameters += in->pieces->at[kind].parameters * counts[kind];
    return parameters;
}

/* ZeRO-3 holds the gathered weights of the running layer and of the prefetched ones, and one
 * layer's whole gradient. It holds all gathered weights if it keeps them for the backward, or for
 * all passes of a step in a pipeline. Overlapped reductions of sharded gradients hold two
 * buckets. */
static double buckets_bytes(const struct memory_input *in, double parameters)
{
    const struct plan *plan = in->plan;
    const struct stack *stack = &in->system->stack;
    struct state_bytes state = plan_state_bytes(plan, in->model);
    double largest =
        fmax(in->pieces->at[PIECE_EMBEDDING].parameters, in->pieces->at[PIECE_LATER].parameters);
    for (int kind = 0; kind < in->pieces->num_kinds; kind++)
        largest = fmax(largest, in->pieces->at[kind].parameters);
    if (plan_keeps_gathered(plan))
        return parameters * state.weights;
    if (plan_cuts(plan, STATE_PARAMETERS)) {
        bool drops = stack->shards.reshard || plan->pp > 1;
        bool has_own_gradients = !stack->memory.frees_gradients && !plan_keeps_sums(plan);
        double gathered =
            drops ? fmin((1 + stack->shards.prefetch) * largest, parameters) : parameters;
        return gathered * state.weights + (has_own_gradients ? largest * state.gradients : 0);
    }
    if (plan_cuts(plan, STATE_GRADIENTS) && !plan_keeps_sums(plan))
        return fmin(2 * stack->shards.bucket_bytes, blocks_parameters(in) * state.gradients);
    return 0;
}

static double exchange_bytes(const struct memory_input *in, int stage)
{
    struct stage_load whole;
    fill_stage_load(in->model, in->plan, in->pieces, stage, 1, &whole);
    return exchange_memory_bytes(in->system, in->plan, &whole.load);
}

static void add_buckets(struct stage_memory *memory, const struct memory_input *in, int stage,
                        const struct holding *held)
{
    double parameters = held_weights(held, in->pieces).all;
    memory->buckets_bytes = buckets_bytes(in, parameters) + in->pieces->context_buffer_bytes;
    if (!exchange_is_default(&in->plan->exchange))
        memory->buckets_bytes += exchange_bytes(in, stage);
}

/* The shape includes the size of interleaved groups, so that it is computed only once for all
 * chunks. */
static struct schedule_shape shape_of(const struct memory_input *in)
{
    struct schedule_shape shape = { in->plan->pp, in->plan->vpp, in->num_microbatches, 0 };
    if (in->plan->vpp > 1 && !in->generator->rule)
        shape.group = interleaved_group(&shape);
    return shape;
}

/* The loss of a later token keeps its softmax in fp32 while the other losses are computed (Megatron
 * Core, tensor_parallel/cross_entropy.py). */
static double waiting_logits_bytes(const struct memory_input *in)
{
    return in->pieces->logits * fmin(4, plan_logit_bytes(in->plan, &in->system->stack));
}

/* How a split backward changes what a chunk keeps (correct_for_waiting). A microbatch between
 * BACKWARD_INPUT and BACKWARD_WEIGHT keeps only the operands of its weight gradients and no logits,
 * but so far it was counted with all that its forward kept. If the operands take more than that,
 * the peak is after the next BACKWARD_INPUT. */
struct between_halves {
    double whole_bytes;  /* bytes that a microbatch keeps until its input gradients are computed */
    double excess_bytes; /* change of these bytes when the input gradients are computed; may be
                            negative */
};

static struct between_halves between_halves(const struct memory_input *in, int chunk)
{
    const struct pieces *pieces = in->pieces;
    double waiting_bytes = 0;
    struct holding held = chunk_holding(in->plan, in->model, chunk);
    double whole_bytes = layers_saved_bytes(in, &held);
    for (int kind = 0; kind < MAX_BLOCK_KINDS; kind++)
        waiting_bytes += held.count[kind] * pieces->at[kind].waiting_bytes;
    static const int ends[] = { PIECE_EMBEDDING, PIECE_HEAD, PIECE_LATER_EMBEDDING,
                                PIECE_LATER_HEAD };
    for (size_t i = 0; i < LENGTH(ends); i++) {
        whole_bytes += held.count[ends[i]] * pieces->at[ends[i]].saved_bytes;
        waiting_bytes += held.count[ends[i]] * pieces->at[ends[i]].waiting_bytes;
    }
    if (held.count[PIECE_LATER] > 0) {
        whole_bytes += held.count[PIECE_LATER] * later_kept_bytes(in);
        waiting_bytes += held.count[PIECE_LATER] * pieces->at[PIECE_LATER].waiting_bytes;
    }
    return (struct between_halves){ whole_bytes, waiting_bytes - whole_bytes };
}

/* Bytes that the next BACKWARD_INPUT adds to the peak. In a schedule that runs forwards and whole
 * backwards in pairs, the peak is while a pair runs. One more microbatch is then in flight than at
 * any earlier BACKWARD_INPUT, and pp + 1 more than during the last pp backwards, which are
 * split. */
static double next_half_bytes(const struct memory_input *in, struct between_halves of)
{
    int stages = in->plan->pp;
    if (!in->generator->pairs)
        return fmax(0, of.excess_bytes);
    double last_bytes = stages * of.excess_bytes - (stages + 1) * of.whole_bytes;
    return fmax(0, fmax(of.excess_bytes - of.whole_bytes, last_bytes));
}

static void correct_for_waiting(struct stage_memory *memory, const struct memory_input *in,
                                int stage)
{
    struct schedule_shape shape = shape_of(in);
    struct placement placement = plan_placement(in->plan);
    int waiting = in->generator->waiting(&shape, stage);
    double next_bytes = 0;
    for (int round = 0; round < in->plan->vpp; round++) {
        int chunk = placement_chunk(placement, stage, round);
        struct between_halves of = between_halves(in, chunk);
        memory->activations_bytes += waiting * of.excess_bytes;
        next_bytes = fmax(next_bytes, next_half_bytes(in, of));
        if (placement_has_head(placement, chunk))
            memory->logits_bytes -=
                waiting * (in->pieces->logits * plan_logit_bytes(in->plan, &in->system->stack) +
                           in->model->mtp * waiting_logits_bytes(in));
    }
    memory->activations_bytes += next_bytes;
}

/* With overlap=ep a backward begins together with the next forward, so one more chunk's forward has
 * run by then than without this overlap. */
static int chunks_beside(const struct memory_input *in)
{
    return !in->generator->pairs && in->plan->pp > 1 &&
           plan_overlaps(in->plan, &in->system->stack, OVERLAP_EP);
}

/* Whether a chunk keeps as much as chunk `other` of the same stage; -1: there is no other. */
static bool is_alike(const struct memory_input *in, int chunk, int other)
{
    return other >= 0 && in->plan->num_recompute_layers <= 1 &&
           chunks_repeat(in->plan, in->model, chunk, other);
}

/* If all chunks are equal they are counted at once, with the stage's total number in flight. */
static void add_layers(struct stage_memory *memory, const struct memory_input *in,
                       const struct schedule_shape *shape, int stage)
{
    if (plan_is_even(in->plan) && in->pieces->num_kinds == 1) {
        int first = placement_chunk(plan_placement(in->plan), stage, 0);
        struct holding layers = chunk_holding(in->plan, in->model, first);
        int held = in->generator->in_flight(shape, stage) + chunks_beside(in);
        memory->activations_bytes += held * layers_saved_bytes(in, &layers);
        memory->recompute_bytes = recompute_bytes(in, first, &layers);
        return;
    }
    double saved_bytes = 0;
    int before = -1;
    for (int round = 0; round < in->plan->vpp; round++) {
        int chunk = placement_chunk(plan_placement(in->plan), stage, round);
        if (!is_alike(in, chunk, before)) {
            struct holding layers = chunk_holding(in->plan, in->model, chunk);
            saved_bytes = layers_saved_bytes(in, &layers);
            memory->recompute_bytes =
                fmax(memory->recompute_bytes, recompute_bytes(in, chunk, &layers));
        }
        int held = chunk_in_flight(in->generator, shape, stage, round) +
                   (round == 0 ? chunks_beside(in) : 0);
        memory->activations_bytes += held * saved_bytes;
        before = chunk;
    }
}

/* Logits of the `held` microbatches that are in flight at the head; with row blocks, of one block
 * only. The backward of one microbatch may hold more than its loss did: the logits' gradient, the
 * gradient of the output matrix before it is added to the main gradient, and gathered inputs. */
static double logits_bytes(const struct memory_input *in, int held)
{
    const struct pieces *pieces = in->pieces;
    if (pieces->logits_block_bytes > 0)
        return pieces->logits_block_bytes;
    double each_bytes = pieces->logits * plan_logit_bytes(in->plan, &in->system->stack);
    double backward_bytes = counts_passes(in) ? 0 : pieces->at[PIECE_HEAD].moment_bytes;
    double others = held * in->model->mtp;
    double at_loss_bytes = each_bytes;
    /* the logits of the last module for later tokens are kept until the model's own logits are
     * computed (Megatron Core, gpt_model.py) */
    if (others > 0)
        at_loss_bytes += pieces->logits * precision_bytes(in->plan->precision);
    return (held - 1) * each_bytes + others * waiting_logits_bytes(in) +
           fmax(at_loss_bytes, backward_bytes);
}

/* Bytes that all modules for later tokens keep, without their heads. */
static double laters_kept_bytes(const struct memory_input *in)
{
    if (in->model->mtp == 0)
        return 0;
    return in->model->mtp *
           (later_kept_bytes(in) + in->pieces->at[PIECE_LATER_EMBEDDING].saved_bytes);
}

/* Bytes that the model's head and the modules' heads keep. */
static double heads_kept_bytes(const struct memory_input *in)
{
    return in->pieces->at[PIECE_HEAD].saved_bytes +
           in->model->mtp * in->pieces->at[PIECE_LATER_HEAD].saved_bytes;
}

static bool has_heads(const struct memory_input *in, int stage)
{
    return stage == placement_head_stage(plan_placement(in->plan));
}

static bool has_laters(const struct memory_input *in, int stage)
{
    return in->model->mtp > 0 && stage == plan_later_stage(in->plan);
}

/* Adds the embedding, in its stage's first chunk, and head and modules for later tokens, each in
 * its stage's last chunk. */
static void add_ends(struct stage_memory *memory, const struct memory_input *in,
                     const struct schedule_shape *shape, int stage)
{
    struct placement placement = plan_placement(in->plan);
    if (stage == placement_embedding_stage(placement))
        memory->activations_bytes += chunk_most_in_flight(in->generator, shape, stage, 0) *
                                     in->pieces->at[PIECE_EMBEDDING].saved_bytes;
    int held = chunk_most_in_flight(in->generator, shape, stage, in->plan->vpp - 1);
    if (has_laters(in, stage))
        memory->activations_bytes += held * laters_kept_bytes(in);
    if (has_heads(in, stage)) {
        memory->activations_bytes += held * heads_kept_bytes(in);
        memory->logits_bytes = logits_bytes(in, held);
    }
}

/* The most bytes that a backward of any kind of layer holds in addition to the kept activations. */
static double backward_bytes(const struct memory_input *in)
{
    bool is_selective = in->plan->recompute == RECOMPUTE_SELECTIVE;
    double most_bytes = 0;
    for (int kind = 0; kind < in->pieces->num_kinds; kind++) {
        const struct piece_cost *layer = &in->pieces->at[kind];
        most_bytes =
            fmax(most_bytes, is_selective ? layer->replayed_moment_bytes : layer->moment_bytes);
    }
    return most_bytes;
}

/* backward_bytes for the backward of a module that predicts a later token. Heads on the same stage
 * have run backward before it, so the values that they kept are subtracted. The gradient from the
 * model's own head to the blocks exists and is added. If the module is recomputed in full, all its
 * saved values exist again, and so do the input and the output of its last norm. */
static double later_backward_bytes(const struct memory_input *in, int stage)
{
    const struct piece_cost *later = &in->pieces->at[PIECE_LATER];
    bool is_selective = in->plan->recompute == RECOMPUTE_SELECTIVE;
    double back = later->input_bytes;
    if (plan_recomputes_later(in->plan))
        back += later->saved_bytes - later_kept_bytes(in) + 2 * later->input_bytes;
    double gone = has_heads(in, stage) ? heads_kept_bytes(in) : 0;
    return back + (is_selective ? later->replayed_moment_bytes : later->moment_bytes) - gone;
}

/* When the layers on the head's stage run backward, the values kept by the head and the modules for
 * later tokens have been freed. */
static void add_activations(struct stage_memory *memory, const struct memory_input *in, int stage)
{
    struct schedule_shape shape = shape_of(in);
    add_layers(memory, in, &shape, stage);
    memory->activations_bytes += offload_buffers_bytes(in, stage);
    add_ends(memory, in, &shape, stage);
    if (generator_splits(in->generator))
        correct_for_waiting(memory, in, stage);
    memory->recompute_bytes += counts_passes(in) ? pass_working_bytes(in) : backward_bytes(in);
    double gone = (has_heads(in, stage) ? heads_kept_bytes(in) : 0) +
                  (has_laters(in, stage) ? laters_kept_bytes(in) : 0);
    if (gone > 0 && !counts_passes(in))
        memory->recompute_bytes = fmax(0, memory->recompute_bytes - gone);
    if (has_laters(in, stage))
        memory->recompute_bytes = fmax(memory->recompute_bytes, later_backward_bytes(in, stage));
}

/* Bytes of the pass that holds the most. It is 0 for ANY_INTERVAL, because the steps of a pass need
 * a definite K. */
static double passes_bytes(const struct memory_input *in, int stage,
                           const struct stage_memory *memory)
{
    double most_bytes = 0;
    if (checkpoint_interval(in->plan) == ANY_INTERVAL)
        return 0;
    for (int round = 0; round < in->plan->vpp; round++) {
        int chunk = placement_chunk(plan_placement(in->plan), stage, round);
        most_bytes = fmax(most_bytes, pass_most_bytes(in, chunk, memory->logits_bytes));
    }
    return most_bytes;
}

/* --- the peak ------------------------------------------------------------------------------ */

/* Bytes of the whole gradients of the largest layer or, unless `is_layer`, of the largest piece. */
static double piece_gradient_bytes(const struct memory_input *in, bool is_layer)
{
    double most = 0;
    for (int piece = 0; piece < NUM_PIECES; piece++)
        if (!is_layer || piece_is_layer(piece))
            most = fmax(most, in->pieces->at[piece].trained.all);
    return most * plan_state_bytes(in->plan, in->model).gradients;
}

/* piece_gradient_bytes if the gradients are dropped when they are reduced, and so exist only during
 * a backward; else 0. */
static double whole_gradient_bytes(const struct memory_input *in, bool is_layer)
{
    bool are_dropped = plan_cuts(in->plan, STATE_GRADIENTS) && !plan_keeps_sums(in->plan);
    return are_dropped ? piece_gradient_bytes(in, is_layer) : 0;
}

static int most_in_flight(const struct memory_input *in, int stage)
{
    struct schedule_shape shape = shape_of(in);
    return in->generator->in_flight(&shape, stage);
}

/* Share of a stage's gradients that exist when `in_flight` of its passes are in flight for the last
 * time: those of the chunks whose backwards have begun. Backwards take a chunk's microbatches in
 * groups of pp, as the forwards do. */
static double gradient_share(const struct memory_input *in, int in_flight)
{
    int ended = in->num_microbatches * in->plan->vpp - in_flight;
    double chunks = ceil((double)ended / in->plan->pp);
    return fmin(1, chunks / in->plan->vpp);
}

static double stage_summed_bytes(const struct memory_input *in, int stage)
{
    struct holding held = stage_holding(in->plan, in->model, stage);
    return summed_gradients_bytes(in, &held);
}

/* Bytes of the gradients that exist when `in_flight` passes are in flight; the executor's shards
 * exist all the time. */
static double gradients_there(const struct memory_input *in, int stage,
                              const struct stage_memory *memory, int in_flight)
{
    bool has_shards = plan_keeps_sums(in->plan) && counts_passes(in);
    double shards_bytes = has_shards ? stage_summed_bytes(in, stage) : 0;
    return shards_bytes + (memory->gradients_bytes - shards_bytes) * gradient_share(in, in_flight);
}

static double held_bytes(const struct stage_memory *memory)
{
    return memory->weights_bytes + memory->gradients_bytes + memory->optimizer_bytes +
           memory->activations_bytes + fmax(memory->logits_bytes, memory->recompute_bytes) +
           memory->buckets_bytes + memory->library_bytes;
}

/* While the optimizer runs, there are no activations; weights and gradients that a pipeline keeps
 * whole during its passes are sharded again. */
static struct stage_memory at_step(const struct memory_input *in, int stage,
                                   const struct stage_memory *memory)
{
    struct stage_memory step = *memory;
    if (plan_keeps_sums(in->plan))
        step.gradients_bytes = stage_summed_bytes(in, stage);
    step.optimizer_bytes += step.step_bytes;
    step.activations_bytes = step.logits_bytes = step.recompute_bytes = step.buckets_bytes = 0;
    return step;
}

/* The moment with the most passes in flight. If the backwards of a step allocate its gradients,
 * those of passes that are still in flight do not exist yet. If the next backward is the first of
 * its chunk, it allocates a piece's gradients before it frees any activations. */
static struct stage_memory at_most_in_flight(const struct memory_input *in, int stage,
                                             const struct stage_memory *memory)
{
    struct stage_memory most = *memory;
    int in_flight = most_in_flight(in, stage);
    most.gradients_bytes = gradients_there(in, stage, memory, in_flight);
    most.recompute_bytes += whole_gradient_bytes(in, true);
    if (plan_keeps_sums(in->plan))
        most.gradients_bytes = fmin(gradients_there(in, stage, memory, in_flight - 1),
                                    most.gradients_bytes + piece_gradient_bytes(in, false));
    return most;
}

/* The moment after the next backward: one pass fewer is in flight, and the gradients that the
 * backward made exist. */
static struct stage_memory at_next_backward(const struct memory_input *in, int stage,
                                            const struct stage_memory *memory)
{
    struct stage_memory next = *memory;
    int most = most_in_flight(in, stage);
    next.gradients_bytes = gradients_there(in, stage, memory, most - 1);
    next.activations_bytes *= 1 - 1.0 / most;
    if (most == 1)
        next.logits_bytes = 0; /* the logits belonged to the pass that has ended */
    return next;
}

/* Whether a chunk's whole gradients are reduced and freed after the chunk's last backward, during
 * the next chunk's backward. */
static bool frees_chunks(const struct memory_input *in)
{
    return plan_keeps_sums(in->plan) && !counts_passes(in) && in->plan->vpp > 2 &&
           plan_overlaps(in->plan, &in->system->stack, OVERLAP_GRAD);
}

/* The moment of the last backward, with one layer's activations left. All gradients exist or, if
 * chunks are freed, those of two chunks, as one chunk's gradients are reduced while the other's are
 * computed. */
static struct stage_memory at_last_backward(const struct memory_input *in, int stage,
                                            const struct stage_memory *memory)
{
    struct stage_memory last = *memory;
    last.activations_bytes = last.logits_bytes = 0;
    last.recompute_bytes += whole_gradient_bytes(in, false);
    if (frees_chunks(in))
        last.gradients_bytes =
            fmin(memory->gradients_bytes,
                 stage_summed_bytes(in, stage) + 2 * memory->gradients_bytes / in->plan->vpp);
    return last;
}

static struct stage_memory larger(struct stage_memory a, struct stage_memory b)
{
    return held_bytes(&b) > held_bytes(&a) ? b : a;
}

/* The memory by kind (state, activations, ...) at the moment with the largest sum. The logits are
 * freed before the first layer is recomputed, so only the larger of logits and recompute counts. */
static struct stage_memory at_peak(const struct memory_input *in, int stage,
                                   const struct stage_memory *memory)
{
    const struct stack *stack = &in->system->stack;
    struct stage_memory peak = *memory;
    if (stack->memory.frees_gradients || plan_keeps_sums(in->plan))
        peak = larger(
            larger(at_most_in_flight(in, stage, memory), at_next_backward(in, stage, memory)),
            at_last_backward(in, stage, memory));
    return larger(peak, at_step(in, stage, memory));
}

/* The memory input with the plan in which all stages recompute what this stage recomputes. */
static struct memory_input of_stage(const struct memory_input *in, int stage, struct plan *plan)
{
    struct memory_input own = *in;
    if (!plan_lists_parts(in->plan))
        return own;
    *plan = plan_of_stage(in->plan, stage);
    own.plan = plan;
    own.pieces = in->stage_pieces ? in->stage_pieces[stage] : in->pieces;
    own.stage_pieces = NULL;
    return own;
}

/* The stage's memory with all its activations, before the moment of the peak is found. */
static struct stage_memory whole_stage(const struct memory_input *in, int stage,
                                       const struct stage_memory *common)
{
    struct stage_memory memory = *common;
    struct holding held = stage_holding(in->plan, in->model, stage);
    add_state(&memory, in, &held);
    add_buckets(&memory, in, stage, &held);
    add_activations(&memory, in, stage);
    return memory;
}

struct stage_memory stage_memory_with(const struct memory_input *of, int stage,
                                      const struct stage_memory *common)
{
    struct plan plan;
    struct memory_input own = of_stage(of, stage, &plan);
    const struct memory_input *in = &own;
    struct stage_memory memory = whole_stage(in, stage, common);
    if (counts_passes(in) && (plan_gathers(in->plan) || plan_reduces(in->plan)))
        memory.buckets_bytes =
            passes_bytes(in, stage, &memory) - fmax(memory.logits_bytes, memory.recompute_bytes);
    memory = at_peak(in, stage, &memory);
    memory.allocated_bytes = held_bytes(&memory);
    memory.slack_bytes = memory.allocated_bytes * in->system->stack.memory.allocator_slack;
    memory.total_bytes =
        memory.allocated_bytes + memory.slack_bytes + memory.network_bytes + memory.context_bytes;
    return memory;
}

static double runtime_bytes(const struct plan *plan, const struct stack *stack)
{
    bool has_graphs = plan_launch(plan, stack) == LAUNCH_GRAPHS;
    return stack->memory.context_bytes + (has_graphs ? stack->memory.graph_bytes : 0);
}

static struct stage_memory unplaced_memory(const struct memory_input *in)
{
    return (struct stage_memory){ .library_bytes = library_bytes(in->system, in->model),
                                  .context_bytes = runtime_bytes(in->plan, &in->system->stack) };
}

struct stage_memory common_memory(const struct memory_input *in)
{
    struct stage_memory common = unplaced_memory(in);
    common.network_bytes = network_memory_bytes(in->system, in->plan);
    return common;
}

struct stage_memory stage_memory(const struct memory_input *in, int stage)
{
    struct stage_memory common = common_memory(in);
    return stage_memory_with(in, stage, &common);
}

void plan_memory(const struct memory_input *in, struct stage_memory *stages)
{
    struct stage_memory common = common_memory(in);
    for (int stage = 0; stage < in->plan->pp; stage++)
        stages[stage] = stage_memory_with(in, stage, &common);
}

/* Whether a stage needs no more memory than the stage before if it repeats the layers of that
 * stage. They then differ only in their microbatches in flight, and in no schedule does a later
 * stage have more of these than an earlier one, for any of its chunks. There are two exceptions. If
 * the backward is split, more microbatches wait for weight gradients on later stages, and these may
 * take more. If backwards allocate the gradients, later stages have more of them. */
static bool falls_by_stage(const struct memory_input *in)
{
    return !generator_splits(in->generator) && !in->system->stack.memory.frees_gradients &&
           !plan_keeps_sums(in->plan);
}

static double peak_bytes(const struct memory_input *in, const struct stage_memory *common)
{
    double most_bytes = 0;
    bool falls = falls_by_stage(in);
    for (int stage = 0; stage < in->plan->pp; stage++)
        if (!falls || !stage_repeats(in->plan, in->model, stage))
            most_bytes = fmax(most_bytes, stage_memory_with(in, stage, common).total_bytes);
    return most_bytes;
}

double plan_peak_bytes(const struct memory_input *in)
{
    struct stage_memory common = common_memory(in);
    return peak_bytes(in, &common);
}

double plan_unplaced_bytes(const struct memory_input *in)
{
    struct stage_memory common = unplaced_memory(in);
    return peak_bytes(in, &common);
}

double plan_state_floor_bytes(const struct memory_input *in)
{
    struct stage_memory common = unplaced_memory(in);
    double held_bytes = mean_state_bytes(in) + common.library_bytes;
    return held_bytes * (1 + in->system->stack.memory.allocator_slack) + common.context_bytes;
}

static int most_chunk_layers(const struct plan *plan, const struct model *model)
{
    int most = 0;
    int num_chunks = plan->chunk_layers ? plan->num_chunk_layers : 1;
    for (int chunk = 0; chunk < num_chunks; chunk++) {
        int layers = plan_chunk_layers(plan, model, chunk);
        most = layers > most ? layers : most;
    }
    return most;
}

int plan_lean_interval(const struct memory_input *in, double most_bytes, double *bytes)
{
    struct plan grouped = *in->plan;
    struct memory_input input = *in;
    int layers = most_chunk_layers(in->plan, in->model), lean = 1;
    input.plan = &grouped;
    grouped.recompute = RECOMPUTE_EVERY;
    struct stage_memory common = common_memory(&input);
    for (int interval = 2; interval <= layers && *bytes > most_bytes; interval++) {
        grouped.recompute_every = interval;
        double now_bytes = peak_bytes(&input, &common);
        if (now_bytes >= *bytes)
            break;
        lean = interval;
        *bytes = now_bytes;
    }
    return lean;
}

double plan_least_grouped_bytes(const struct memory_input *in)
{
    struct plan grouped = *in->plan;
    struct memory_input input = *in;
    struct stage_memory common = unplaced_memory(in);
    input.plan = &grouped;
    grouped.recompute = RECOMPUTE_EVERY;
    grouped.recompute_every = ANY_INTERVAL;
    return peak_bytes(&input, &common);
}

double plan_first_stage_bytes(const struct memory_input *in)
{
    struct plan plan = *in->plan;
    struct memory_input input = *in;
    struct stage_memory common = unplaced_memory(in);
    input.plan = &plan;
    if (plan.recompute == RECOMPUTE_FULL) {
        plan.recompute = RECOMPUTE_EVERY;
        plan.recompute_every = ANY_INTERVAL;
    }
    return stage_memory_with(&input, 0, &common).total_bytes;
}

/* --- every set of recomputed modules --------------------------------------------------------- */

/* Counts the layers whose activations add_layers adds up. */
static void count_held_layers(const struct memory_input *in, const struct schedule_shape *shape,
                              int stage, struct sets_stage *at)
{
    struct placement placement = plan_placement(in->plan);
    struct holding layers = { 0 };
    int before = -1;
    for (int round = 0; round < in->plan->vpp; round++) {
        int chunk = placement_chunk(placement, stage, round);
        if (!is_alike(in, chunk, before))
            layers = chunk_holding(in->plan, in->model, chunk);
        int held = chunk_in_flight(in->generator, shape, stage, round) +
                   (round == 0 ? chunks_beside(in) : 0);
        for (int kind = 0; kind < in->pieces->num_kinds; kind++)
            at->layers[kind] += (double)held * layers.count[kind];
        before = chunk;
    }
    if (has_laters(in, stage))
        at->laters = (double)in->model->mtp *
                     chunk_most_in_flight(in->generator, shape, stage, in->plan->vpp - 1);
}

static struct sets_stage sets_stage_of(const struct memory_input *in, int stage,
                                       const struct stage_memory *common)
{
    struct schedule_shape shape = shape_of(in);
    struct stage_memory memory = whole_stage(in, stage, common);
    struct sets_stage at = { .logits_bytes = memory.logits_bytes,
                             .heads_bytes = has_heads(in, stage) ? heads_kept_bytes(in) : 0,
                             .has_laters = has_laters(in, stage) };
    count_held_layers(in, &shape, stage, &at);
    memory.logits_bytes = memory.recompute_bytes = 0;
    at.fixed_bytes = held_bytes(&memory) + at.laters * in->pieces->at[PIECE_LATER].replayed_bytes;
    for (int kind = 0; kind < in->pieces->num_kinds; kind++)
        at.fixed_bytes += at.layers[kind] * in->pieces->at[kind].replayed_bytes;
    return at;
}

/* Whether the sum that sets_least_bytes computes is a lower bound of a stage's peak. It is if
 * activations are on the GPU, backwards are not split, gradients exist all the time, all stages
 * repeat the same modules, and the runtime's passes are not walked op by op (walks_passes). */
static bool sets_have_bounds(const struct memory_input *in)
{
    return falls_by_stage(in) && !counts_passes(in) && !plan_lists_parts(in->plan) &&
           !plan_offloads(in->plan, OFFLOAD_ACTIVATIONS);
}

void plan_sets_memory(const struct memory_input *in, const struct pieces_sets *sets,
                      struct sets_memory *out)
{
    out->num_stages = 0;
    out->sets = sets;
    if (!sets_have_bounds(in))
        return;
    struct stage_memory common = common_memory(in);
    out->pieces = in->pieces;
    out->factor = 1 + in->system->stack.memory.allocator_slack;
    out->further_bytes = common.network_bytes + common.context_bytes;
    out->num_modules = in->model->mtp;
    for (int stage = 0; stage < in->plan->pp; stage++)
        if (!stage_repeats(in->plan, in->model, stage))
            out->at[out->num_stages++] = sets_stage_of(in, stage, &common);
}

/* The sum of add_layers and add_activations for a set of modules. */
static double set_stage_bytes(const struct sets_memory *memory, const struct sets_stage *at,
                              unsigned set, double moment_bytes)
{
    const struct pieces *pieces = memory->pieces;
    double bytes = at->fixed_bytes, gone_bytes = at->heads_bytes, later_bytes = 0;
    for (int kind = 0; kind < pieces->num_kinds; kind++)
        bytes -= at->layers[kind] * memory->sets->of[kind][set].freed;
    if (at->has_laters) {
        const struct piece_cost *later = &pieces->at[PIECE_LATER];
        const struct set_bytes *of = &memory->sets->of[PIECE_LATER][set];
        bytes -= at->laters * of->freed;
        gone_bytes += memory->num_modules * (later->saved_bytes - of->freed +
                                             pieces->at[PIECE_LATER_EMBEDDING].saved_bytes);
        later_bytes = later->input_bytes + of->moment - at->heads_bytes;
    }
    double recompute_bytes = fmax(fmax(0, moment_bytes - gone_bytes), later_bytes);
    return bytes + fmax(at->logits_bytes, recompute_bytes);
}

double sets_least_bytes(const struct sets_memory *memory, unsigned set, double most_bytes)
{
    const double rounding = 1e-9; /* a tolerance, as the sums are added up in another order */
    double least_bytes = 0, moment_bytes = 0;
    for (int kind = 0; memory->num_stages > 0 && kind < memory->pieces->num_kinds; kind++)
        moment_bytes = fmax(moment_bytes, memory->sets->of[kind][set].moment);
    for (int i = 0; i < memory->num_stages && least_bytes <= most_bytes; i++)
        least_bytes =
            fmax(least_bytes,
                 (set_stage_bytes(memory, &memory->at[i], set, moment_bytes) * memory->factor +
                  memory->further_bytes) *
                     (1 - rounding));
    return least_bytes;
}
