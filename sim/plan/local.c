#include "sim/plan/local.h"

#include "sim/plan/axis.h"
#include "sim/plan/context.h"

#include <math.h>

struct layer_dims local_dims(const struct plan *plan, const struct model *model, double seq)
{
    struct layer_dims dims = layer_dims(model, plan->microbatch, seq);
    for (int i = 0; i < NUM_AXES; i++)
        if (axes[i].shard)
            axes[i].shard(plan, model, &dims);
    return dims;
}

/* --- op lists --------------------------------------------------------------------------------- */

/* The axis that owns this mark; compute belongs to none. */
static const struct axis *owner(enum op_kind kind)
{
    bool is_tensor_mark = kind == OP_TENSOR_ENTER || kind == OP_TENSOR_LEAVE;
    return is_tensor_mark || op_is_collective(kind) ? &axes[AXIS_TENSOR] : NULL;
}

/* Ops of the attention core that begins at i, its two marks included. */
static int core_length(const struct ops *ops, int i)
{
    int end = i;
    while (ops->at[end].kind != OP_CONTEXT_LEAVE)
        end++;
    return end - i + 1;
}

/* Replaces marks by collectives and leaves out those that one rank needs not. Builders put each op
 * right after its predecessor, and so they stay, but within an attention core of several ranks. */
static struct ops lower(const struct plan *plan, struct ops ops, struct arena *arena)
{
    struct ops out = { .at = ARENA_ARRAY(arena, struct op, (size_t)ops.count + CONTEXT_MAX_OPS) };
    for (int i = 0; i < ops.count; i++) {
        struct op op = ops.at[i];
        bool is_context_mark = op.kind == OP_CONTEXT_ENTER || op.kind == OP_CONTEXT_LEAVE;
        if (is_context_mark && plan->cp > 1) {
            int length = core_length(&ops, i);
            context_lower(plan, (struct ops){ &ops.at[i], length }, &out);
            i += length - 1;
            continue;
        }
        const struct axis *axis = owner(op.kind);
        if (is_context_mark || (axis && !axis->lower(plan, &op)))
            continue;
        op.after = out.count - 1;
        out.at[out.count++] = op;
    }
    return out;
}

static bool is_gradient(const struct ops *ops, int i, enum op_pass pass)
{
    return i >= 0 && i < ops->count && ops->at[i].kind == OP_GEMM && ops->at[i].pass == pass;
}

/* The input of a column-parallel product is gathered again (i) beside its input gradient. */
static void overlap_gather(struct ops *ops, int i)
{
    if (is_gradient(ops, i + 1, PASS_BACKWARD_INPUT))
        ops->at[i + 1].after = i - 1;
}

/* The input gradient (i - 1) is summed (i) beside the weight gradient (i + 1), which waits for the
 * gathered input where there is one (i - 2) and follows the input gradient on its stream anyway.
 * What comes next needs the sum. */
static void overlap_sum(struct ops *ops, int i)
{
    if (!is_gradient(ops, i - 1, PASS_BACKWARD_INPUT) ||
        !is_gradient(ops, i + 1, PASS_BACKWARD_WEIGHT))
        return;
    bool was_gathered = i >= 2 && ops->at[i - 2].kind == OP_ALL_GATHER &&
                        ops->at[i - 2].pass == PASS_BACKWARD_WEIGHT;
    ops->at[i + 1].after = was_gathered ? i - 2 : i - 1;
    if (i + 2 < ops->count)
        ops->at[i + 2].after = i;
}

static void overlap(struct ops *backward)
{
    for (int i = 0; i < backward->count; i++) {
        const struct op *op = &backward->at[i];
        if (op->kind == OP_ALL_GATHER && op->pass == PASS_BACKWARD_WEIGHT)
            overlap_gather(backward, i);
        if (op->kind == OP_ALL_REDUCE || op->kind == OP_REDUCE_SCATTER)
            overlap_sum(backward, i);
    }
}

typedef struct ops build_fn(const struct model *model, const struct layer_dims *dims,
                            const struct layer_options *options, struct arena *arena);

static struct local_ops build(build_fn *forward, const struct plan *plan, const struct model *model,
                              double seq, const struct layer_options *options, bool overlap_tp,
                              struct arena *arena)
{
    struct layer_dims dims = local_dims(plan, model, seq);
    if (options->leaves_vocab_odd)
        dims.vocab = floor((double)model->vocab / plan->tp);
    struct local_ops local = { .forward = forward(model, &dims, options, arena) };
    local.backward = ops_backward(local.forward, options, arena);
    local.forward = lower(plan, local.forward, arena);
    local.backward = lower(plan, local.backward, arena);
    if (overlap_tp)
        overlap(&local.backward);
    return local;
}

struct local_ops local_layer(const struct plan *plan, const struct model *model, double seq,
                             const struct layer_options *options, bool overlap_tp,
                             struct arena *arena)
{
    return build(layer_forward, plan, model, seq, options, overlap_tp, arena);
}

struct local_ops local_embedding(const struct plan *plan, const struct model *model, double seq,
                                 const struct layer_options *options, bool overlap_tp,
                                 struct arena *arena)
{
    return build(embedding_forward, plan, model, seq, options, overlap_tp, arena);
}

struct local_ops local_head(const struct plan *plan, const struct model *model, double seq,
                            const struct layer_options *options, bool overlap_tp,
                            struct arena *arena)
{
    return build(head_forward, plan, model, seq, options, overlap_tp, arena);
}

/* --- parameters ------------------------------------------------------------------------------- */

/* The model as one tensor rank holds it: narrower where weights are split, whole in norms and in
 * the biases added after the sum. The formulas of models/model.c then count the rank's share. */
static struct model share(const struct plan *plan, const struct model *model)
{
    struct model of_rank = *model;
    of_rank.heads = model->heads / plan->tp;
    of_rank.kv_heads = model->kv_heads > plan->tp ? model->kv_heads / plan->tp : 1;
    of_rank.ffn = model->ffn / plan->tp;
    of_rank.vocab = (int)(padded_vocab(model, plan->tp) / plan->tp);
    return of_rank;
}

double local_layer_parameters(const struct plan *plan, const struct model *model)
{
    struct model of_rank = share(plan, model);
    return model_layer_parameters(&of_rank);
}

double local_embedding_parameters(const struct plan *plan, const struct model *model)
{
    struct model of_rank = share(plan, model);
    return model_embedding_parameters(&of_rank);
}

double local_head_parameters(const struct plan *plan, const struct model *model)
{
    struct model of_rank = share(plan, model);
    of_rank.tied = model->tied && plan->pp == 1;
    return model_head_parameters(&of_rank);
}
