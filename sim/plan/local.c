/* Makes the op lists (sequences of operations) of one rank. A mark is an op that stands in a list
 * where an axis communicates; lowering replaces it by the collectives of that axis. */
#include "sim/plan/local.h"
#include "sim/plan/beside.h"

#include "models/blocks.h"
#include "sim/plan/axis.h"

#include <math.h>

struct rank_share rank_share_of(const struct plan *plan)
{
    struct rank_share share = { .etp = plan->etp,
                                .microbatch = plan->microbatch,
                                .sp = plan->sp,
                                .context_comm = plan->context_comm,
                                .capacity = plan->capacity,
                                .ends_meet = placement_ends_meet(plan_placement(plan)),
                                .mtp_apart = plan->mtp_place == MTP_APART };
    for (int i = 0; i < num_axes; i++)
        if (axes[i]->shard || axes[i]->lower)
            share.degree[i] = plan->degree[i];
    return share;
}

struct layer_dims local_dims(struct rank_share share, const struct model *model, double seq)
{
    struct layer_dims dims = layer_dims(model, share.microbatch, seq);
    for (int i = 0; i < num_axes; i++)
        if (axes[i]->shard)
            axes[i]->shard(share, model, &dims);
    return dims;
}

/* --- op lists ------------------------------------------------------------------------------ */

/* The axis whose collectives replace this mark; NULL for a compute op. */
static const struct axis *owner(enum op_kind kind)
{
    for (int i = 0; i < num_axes; i++)
        if (axes[i]->marks & MARK(kind))
            return axes[i];
    return NULL;
}

/* At most this many places of a list get longer by lowering: the attention core, and the dispatch
 * and the combine of experts' rows. */
enum { MAX_WIDENED = 3 };

/* The state of lowering marks to collectives. */
struct lowering {
    struct rank_share share;
    struct arena *arena;
    /* per value: its replacement if the op that computes it is dropped */
    short same_as[MAX_VALUES];
};

static short renamed(const struct lowering *l, short value)
{
    if (value == NO_ID)
        return NO_ID;
    return l->same_as[value];
}

static void rename_ids(const struct lowering *l, struct ids *ids)
{
    for (int i = 0; i < ids->count; i++)
        ids->at[i] = renamed(l, ids->at[i]);
}

static struct op rename_operands(const struct lowering *l, const struct op *op)
{
    struct op out = *op;
    rename_ids(l, &out.in);
    rename_ids(l, &out.out);
    rename_ids(l, &out.saved);
    for (int i = 0; i < MAX_SUMS; i++)
        out.sum[i] = renamed(l, out.sum[i]);
    return out;
}

/* Drops a mark; readers of its output read its input. The op that reads a dropped reduction of the
 * loss computes the value itself. */
static void leave_out(struct lowering *l, struct ops *ops, const struct op *op, int i)
{
    if (op->kind != OP_ALL_REDUCE) {
        l->same_as[op->out.at[0]] = op->in.at[0];
        return;
    }
    if (op->out.count == 0)
        return;
    struct op *reader = &ops->at[ops_next_reader(ops, op->out.at[0], i)];
    reader->in.count = (short)(reader->in.count - op->out.count);
    reader->out = op->out;
}

/* Replaces marks by collectives and drops those that a single rank does not need. Each op waits for
 * the one right before it, except within an attention core of several ranks. */
static struct ops lower(struct lowering *l, struct ops ops)
{
    struct ops out = ops;
    out.count = 0;
    out.at = ARENA_ROOM(l->arena, struct op, (size_t)ops.count + MAX_WIDENED * MAX_LOWERED_OPS);
    for (int i = 0; i < ops.count;) {
        const struct axis *axis = owner(ops.at[i].kind);
        int length = axis && axis->span ? axis->span(l->share, &ops, i) : 1;
        for (int j = i; j < i + length; j++)
            ops.at[j] = rename_operands(l, &ops.at[j]);
        struct ops span = { .at = &ops.at[i], .count = length };
        if (!axis) {
            out.at[out.count] = ops.at[i];
            out.at[out.count].after = out.count - 1;
            out.count++;
        } else if (!axis->lower(l->share, span, &out, l->same_as)) {
            leave_out(l, &ops, &ops.at[i], i);
        }
        i += length;
    }
    return out;
}

/* Lowers the forward and the backward list. A forward op may keep, for the backward, the output of
 * a mark that comes later in the list. */
static void lower_both(struct lowering *l, struct local_ops *local)
{
    for (int i = 0; i < MAX_VALUES; i++)
        l->same_as[i] = (short)i;
    local->forward = lower(l, local->forward);
    for (int i = 0; i < local->forward.count; i++)
        rename_ids(l, &local->forward.at[i].saved);
    local->backward = lower(l, local->backward);
    struct ops *lists[] = { &local->forward, &local->backward };
    for (int i = 0; i < 2; i++) {
        lists[i]->input = renamed(l, lists[i]->input);
        lists[i]->output = renamed(l, lists[i]->output);
        rename_ids(l, &lists[i]->aside);
    }
}

static bool reads(const struct op *op, const struct op *maker)
{
    return op_reads(op, maker->out.at[0]);
}

static bool is_gradient(const struct ops *ops, int i, enum op_pass pass)
{
    return i >= 0 && i < ops->count && ops->at[i].kind == OP_GEMM && ops->at[i].pass == pass;
}

/* Op `i` gathers a product's input for its weight gradient. The input gradient does not read it, so
 * the gather may overlap the input gradient. */
static void overlap_gather(struct ops *ops, int i)
{
    if (is_gradient(ops, i + 1, PASS_BACKWARD_INPUT) && !reads(&ops->at[i + 1], &ops->at[i]))
        ops->at[i + 1].after = i - 1;
}

/* Index of the collective whose output an op reads, or -1. */
static int collective_before(const struct ops *ops, const struct op *op)
{
    int last = -1;
    for (int i = 0; i < op->in.count; i++) {
        int maker = ops_maker(ops, op->in.at[i]);
        if (maker > last && op_is_collective(ops->at[maker].kind))
            last = maker;
    }
    return last;
}

/* Op i sums the input gradient that op i - 1 computes. Lets it overlap the weight gradient, op i +
 * 1, which then waits only for the gathered input, if there is one. The op after the weight
 * gradient waits for the sum. */
static void overlap_sum(struct ops *ops, int i)
{
    if (!is_gradient(ops, i - 1, PASS_BACKWARD_INPUT) || !reads(&ops->at[i], &ops->at[i - 1]) ||
        !is_gradient(ops, i + 1, PASS_BACKWARD_WEIGHT) || reads(&ops->at[i + 1], &ops->at[i]))
        return;
    int gather = collective_before(ops, &ops->at[i + 1]);
    bool is_late = gather >= 0 && ops->at[gather].pass == PASS_BACKWARD_WEIGHT;
    ops->at[i + 1].after = is_late ? gather : i - 1;
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

struct local_ops local_lists(struct rank_share share, struct ops forward,
                             const struct layer_options *options, bool overlap_tp,
                             struct arena *arena)
{
    struct ops backward = ops_backward(forward, options, arena);
    ops_drop_unread(&forward, &backward);
    struct local_ops local = { ops_fuse(forward, options), ops_fuse(backward, options) };
    struct lowering lowering = { .share = share, .arena = arena };
    lower_both(&lowering, &local);
    if (overlap_tp)
        overlap(&local.backward);
    if (options->shared_beside) {
        local.forward = shared_beside_rows(local.forward, arena);
        local.backward = shared_beside_gradients(local.backward, arena);
    }
    return local;
}

static struct local_ops build(build_fn *forward, struct rank_share share, const struct model *model,
                              double seq, const struct layer_options *options, bool overlap_tp,
                              struct arena *arena)
{
    struct layer_dims dims = local_dims(share, model, seq);
    if (options->leaves_vocab_odd)
        dims.vocab = floor((double)model->vocab / share.tp);
    return local_lists(share, forward(model, &dims, options, arena), options, overlap_tp, arena);
}

struct local_ops local_layer(struct rank_share share, const struct model *model, double seq,
                             const struct layer_options *options, bool overlap_tp,
                             struct arena *arena)
{
    return build(layer_forward, share, model, seq, options, overlap_tp, arena);
}

struct local_ops local_embedding(struct rank_share share, const struct model *model, double seq,
                                 const struct layer_options *options, bool overlap_tp,
                                 struct arena *arena)
{
    return build(embedding_forward, share, model, seq, options, overlap_tp, arena);
}

struct local_ops local_head(struct rank_share share, const struct model *model, double seq,
                            const struct layer_options *options, bool overlap_tp,
                            struct arena *arena)
{
    return build(head_forward, share, model, seq, options, overlap_tp, arena);
}

struct local_ops local_later(struct rank_share share, const struct model *model, double seq,
                             const struct layer_options *options, bool overlap_tp,
                             struct arena *arena)
{
    struct model of = model_of_later(model);
    return build(later_forward, share, &of, seq, options, overlap_tp, arena);
}

/* --- parameters ---------------------------------------------------------------------------- */

/* The model with the widths that one rank holds; norms, and biases added after a sum, are not
 * divided. The formulas of models/blocks.c and model.c applied to it count the rank's
 * parameters. */
static struct model model_of_rank(struct rank_share share, const struct model *model)
{
    struct layer_dims dims = local_dims(share, model, model->seq);
    struct model of_rank = *model;
    of_rank.heads = (int)dims.heads;
    of_rank.kv_heads = (int)dims.kv_heads;
    of_rank.ffn = (int)dims.ffn;
    of_rank.vocab = (int)dims.vocab;
    return of_rank;
}

double local_layer_parameters(struct rank_share share, const struct model *model)
{
    struct arena arena = { 0 };
    struct layer_dims dims = local_dims(share, model, model->seq);
    struct layer_options options = { .flash_attention = true, .dtype = DTYPE_BF16 };
    struct ops layer = layer_forward(model, &dims, &options, &arena);
    double parameters = 0;
    for (int i = 0; i < layer.operands->num_weights; i++)
        parameters += layer.operands->weights[i].rows * layer.operands->weights[i].columns;
    arena_release(&arena);
    return parameters;
}

double local_embedding_parameters(struct rank_share share, const struct model *model)
{
    struct model of_rank = model_of_rank(share, model);
    return model_embedding_parameters(&of_rank);
}

double local_head_parameters(struct rank_share share, const struct model *model)
{
    struct model of_rank = model_of_rank(share, model);
    of_rank.tied = model->tied && share.ends_meet;
    bool has_table = model->mtp > 0 && !model->tied && !share.ends_meet && !share.mtp_apart;
    double table = has_table ? (double)of_rank.vocab * of_rank.hidden : 0;
    return model_head_parameters(&of_rank) + table;
}
