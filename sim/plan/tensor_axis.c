/* Tensor parallelism. A mark is an op that stands in an op list (a layer's sequence of operations)
 * where an axis communicates; lowering replaces it by collectives. */
#include "base/length.h"
#include "models/blocks.h"
#include "sim/plan/axes.h"

#include <math.h>

double padded_vocab(const struct model *model, int tp)
{
    double multiple = 128.0 * tp;
    return ceil(model->vocab / multiple) * multiple;
}

/* With more ranks than key-value heads, several ranks hold the same head. */
static void tensor_shard(struct rank_share share, const struct model *model,
                         struct layer_dims *dims)
{
    double tp = share.tp;
    dims->hidden_columns /= tp;
    dims->heads /= tp;
    dims->kv_heads = dims->kv_heads > tp ? dims->kv_heads / tp : 1;
    dims->mixer_key_heads /= tp;
    dims->mixer_value_heads /= tp;
    dims->ffn /= tp;
    dims->shared_ffn /= tp;
    dims->vocab = padded_vocab(model, share.tp) / tp;
    if (share.sp)
        dims->norm_tokens /= tp;
}

static void become(struct op *op, enum op_kind kind)
{
    if (op->kind != OP_ALL_REDUCE) /* the loss has three small ones */
        op->kernels = 1;
    op->kind = kind;
    op->stream = STREAM_TENSOR;
    op->flops = op->model_flops = op->bytes = 0;
}

/* Megatron's operators f and g at the two ends of a tensor-parallel region. Without sequence
 * parallelism, entering the region is a copy and leaving it an all-reduce; with it, entering is an
 * all-gather of tokens and leaving a reduce-scatter. Backward lists arrive here with the two marks
 * swapped, so they need no case of their own. */
static bool tensor_lower(struct rank_share share, struct ops span, struct ops *out, short *same_as)
{
    (void)same_as;
    struct op op = span.at[0];
    if (share.tp == 1 || (op.kind == OP_TENSOR_ENTER && !share.sp))
        return false;
    if (op.kind == OP_TENSOR_ENTER || op.kind == OP_TENSOR_JOIN)
        become(&op, OP_ALL_GATHER);
    else if (op.kind == OP_TENSOR_LEAVE)
        become(&op, share.sp ? OP_REDUCE_SCATTER : OP_ALL_REDUCE);
    else
        become(&op, op.kind);
    op.after = out->count - 1;
    out->at[out->count++] = op;
    return true;
}

static bool divides(const struct plan_case *of, const char *what, int size, struct err *err)
{
    int tp = of->plan->tp;
    return size % tp == 0 || err_set(err, ERR_INFEASIBLE, token_text("tp", tp).at,
                                     "%s %d is not a multiple of tp %d", what, size, tp);
}

static bool tensor_divides_heads(const struct plan_case *of, struct err *err)
{
    const struct model *model = of->model;
    for (int kind = 0; kind < model_num_kinds(model); kind++)
        if (!divides(of, "heads", model_kind(model, kind).heads, err))
            return false;
    return divides(of, "linear_key_heads", model->linear_key_heads, err) &&
           divides(of, "linear_value_heads", model->linear_value_heads, err);
}

static bool tensor_divides_ffn(const struct plan_case *of, struct err *err)
{
    for (int kind = 0; kind < model_num_kinds(of->model); kind++)
        if (!divides(of, "ffn", model_kind(of->model, kind).ffn, err))
            return false;
    return true;
}

static bool tensor_divides_hidden(const struct plan_case *of, struct err *err)
{
    return divides(of, "hidden", of->model->hidden, err);
}

static bool tensor_fits_kv_heads(const struct plan_case *of, struct err *err)
{
    int tp = of->plan->tp;
    for (int kind = 0; kind < model_num_kinds(of->model); kind++) {
        int kv_heads = model_kind(of->model, kind).kv_heads;
        if (kv_heads % tp != 0 && tp % kv_heads != 0)
            return err_set(err, ERR_INFEASIBLE, token_text("tp", tp).at,
                           "kv_heads %d is neither a multiple nor a divisor of tp %d", kv_heads,
                           tp);
    }
    return true;
}

static bool tensor_divides_sequence(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    if (!plan->sp)
        return true;
    if (plan->tp == 1)
        return err_set(err, ERR_INFEASIBLE, "sp",
                       "sequence parallelism needs tp of 2 or more, not 1");
    if (of->model->seq % plan->tp != 0)
        return err_set(err, ERR_INFEASIBLE, "sp", "sequence length %d is not a multiple of tp %d",
                       of->model->seq, plan->tp);
    if (of->model->seq / plan->tp % plan->cp != 0)
        return err_set(err, ERR_INFEASIBLE, "sp",
                       "sequence length %d is not a multiple of tp %d x cp %d", of->model->seq,
                       plan->tp, plan->cp);
    return true;
}

enum { MOST_RANKS = 64 };

static int next_degree(const struct axis_case *of, int degree)
{
    int next = next_divisor(of->num_gpus, degree);
    return next <= MOST_RANKS ? next : 0;
}

/* Experts are divided over etp tensor ranks, everything else over tp. */
static int expert_degree(const struct plan *plan)
{
    return plan->etp;
}

/* --- the axis ------------------------------------------------------------------------------ */

static const struct plan_token words[] = {
    { "tp", "tpN", "Tensor-parallel ranks: each holds a slice of every layer.", TOKEN_NUMBER,
      TOKEN_MEMBER(tp), .min = 1 },
};

static const struct plan_rule rules[] = {
    { "tensor_heads", "tp divides the query heads, and the heads of linear mixers.",
      tensor_divides_heads },
    { "tensor_kv_heads", "tp divides the key and value heads, or is a multiple of them.",
      tensor_fits_kv_heads },
    { "tensor_ffn", "tp divides the feed-forward's width.", tensor_divides_ffn },
    { "tensor_hidden", "tp divides the hidden width.", tensor_divides_hidden },
    { "sequence_parallel", "sp needs tp over 1, and tp x cp that divides the sequence.",
      tensor_divides_sequence },
};

const struct axis tensor_axis = {
    .name = "tp",
    .summary = "Each rank holds a slice of every layer's weights; sums or shards of activations "
               "are exchanged four times a layer.",
    .source = "Shoeybi et al. 2019, Megatron-LM; sequence parallel: Korthikanti et al. 2022",
    .place = 10,
    .words = words,
    .num_words = LENGTH(words),
    .rules = rules,
    .num_rules = LENGTH(rules),
    .next_degree = next_degree,
    .expert_degree = expert_degree,
    .shard = tensor_shard,
    .marks = MARK(OP_TENSOR_ENTER) | MARK(OP_TENSOR_LEAVE) | MARK(OP_TENSOR_JOIN) |
             MARK(OP_ALL_REDUCE) | MARK(OP_ALL_GATHER) | MARK(OP_REDUCE_SCATTER) |
             MARK(OP_ALL_TO_ALL) | MARK(OP_SEND_RECEIVE),
    .lower = tensor_lower,
};
