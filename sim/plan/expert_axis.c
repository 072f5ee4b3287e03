/* Expert parallelism. A mark is an op that stands in an op list (a layer's sequence of operations)
 * where an axis communicates; lowering replaces it by collectives. */
#include "base/length.h"
#include "sim/plan/axes.h"
#include "sim/plan/group.h"
#include "sim/plan/local.h"
#include "sim/plan/ranks.h"

#include <math.h>

struct routed expert_routed(struct rank_share share, const struct model *model, double tokens)
{
    return (struct routed){ .tokens = tokens * share.ep * share.etp,
                            .experts = model->experts,
                            .topk = model->topk,
                            .ranks = share.ep };
}

/* Sizes of the experts' rows on a rank. A row is one token's input to one expert. Each rank sends
 * topk rows per own token and, with a balanced router, receives the same number; all ranks wait for
 * the one that receives most. With a capacity, each expert receives that number of rows from every
 * rank. Ranks that share an expert (etp) gather each other's rows, and each multiplies all of them
 * by its part of the expert. */
static void expert_shard(struct rank_share share, const struct model *model,
                         struct layer_dims *dims)
{
    struct routed routed = expert_routed(share, model, dims->norm_tokens);
    dims->experts /= share.ep;
    dims->expert_ffn /= share.etp;
    dims->sent_rows = dims->norm_tokens * model->topk;
    dims->message_rows = dims->sent_rows;
    if (model->experts == 0)
        return;
    dims->is_padded = share.capacity > 0;
    if (dims->is_padded)
        dims->sent_rows = dims->message_rows =
            model->experts * routing_capacity_rows(dims->norm_tokens, model->experts, model->topk,
                                                   share.capacity / 100.0);
    else
        dims->message_rows = ceil(dims->sent_rows * routing_rank_factor(&model->routing, &routed));
    dims->expert_rows = dims->message_rows * share.etp;
}

/* --- ops ----------------------------------------------------------------------------------- */

/* The collectives that replace a mark, in order. */
struct passage {
    struct op mark;
    struct ops *out;
    /* bytes of the router's weights of the rows, sent as a message of their own */
    double share_bytes;
    double part_bytes; /* rows exchanged between the ranks that share an expert */
};

static struct op *put(struct passage *passage, enum op_kind kind, double bytes)
{
    struct op *op = &passage->out->at[passage->out->count];
    *op = passage->mark;
    op->kind = kind;
    op->stream = STREAM_EXPERT;
    op->kernels = 1;
    op->comm_bytes = bytes;
    op->in = op->out = op->saved = (struct ids){ 0 };
    op->after = passage->out->count - 1;
    passage->out->count++;
    return op;
}

static void put_rows(struct passage *passage, enum op_kind kind, int in, int made, double bytes)
{
    struct op *op = put(passage, kind, bytes);
    op->is_combine = passage->mark.kind != OP_EXPERT_ENTER;
    op->in = (struct ids){ 1, { (short)in } };
    op->out = (struct ids){ 1, { (short)made } };
}

static void put_shares(struct passage *passage, enum op_kind kind, double bytes)
{
    if (passage->share_bytes > 0)
        put(passage, kind, bytes)->name = "expert_shares";
}

/* Before the rows, every rank sends all others the number of rows for each expert, 8 bytes per
 * expert. DeepEP and hybrid-EP send these numbers and the router's weights in the kernels that send
 * tokens (DeepEP, csrc/kernels/intranode.cu, notify_dispatch). */
static void put_counts(struct rank_share share, struct passage *passage)
{
    enum { COUNT_BYTES = 8 };
    double ranks = (double)share.ep * share.etp;
    struct op *op = put(passage, OP_ALL_GATHER, COUNT_BYTES * passage->mark.k * ranks);
    op->name = "expert_counts";
    op->spans_experts = true;
}

/* Adds the value that holds a rank's rows between the two collectives. It has the size of the rows
 * that the rank sends. */
static int rows_between(struct passage *passage)
{
    bool enters = passage->mark.kind == OP_EXPERT_ENTER;
    const struct ids *alike = enters ? &passage->mark.in : &passage->mark.out;
    short like = alike->at[0];
    struct operands *operands = passage->out->operands;
    return operands_add_value(operands, operands->values[like]);
}

static void enter(struct rank_share share, struct passage *passage)
{
    int in = passage->mark.in.at[0], made = passage->mark.out.at[0];
    int between = share.ep > 1 && share.etp > 1 ? rows_between(passage) : NO_ID;
    if (share.ep > 1) {
        put_rows(passage, OP_ALL_TO_ALL, in, between == NO_ID ? made : between,
                 passage->mark.comm_bytes);
        put_shares(passage, OP_ALL_TO_ALL, passage->share_bytes);
    }
    if (share.etp > 1) {
        put_rows(passage, OP_ALL_GATHER, between == NO_ID ? in : between, made,
                 passage->part_bytes);
        put_shares(passage, OP_ALL_GATHER, passage->share_bytes * share.etp);
    }
}

static void leave(struct rank_share share, struct passage *passage)
{
    int in = passage->mark.in.at[0], made = passage->mark.out.at[0];
    int between = share.ep > 1 && share.etp > 1 ? rows_between(passage) : NO_ID;
    if (share.etp > 1) {
        put_rows(passage, OP_REDUCE_SCATTER, in, between == NO_ID ? made : between,
                 passage->part_bytes);
        put_shares(passage, OP_REDUCE_SCATTER, passage->share_bytes * share.etp);
    }
    if (share.ep > 1) {
        put_rows(passage, OP_ALL_TO_ALL, between == NO_ID ? in : between, made,
                 passage->mark.comm_bytes);
        put_shares(passage, OP_ALL_TO_ALL, passage->share_bytes);
    }
}

/* Dispatch sends rows to the ranks that hold their experts, then gathers them on all ranks that
 * share an expert. Combine sums the partial results of each row, in the data type of the router's
 * weights, then sends them back. The router's weight of a row is a message of its own, and its
 * gradient comes back (Megatron Core, moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher).
 * Backward lists arrive here with dispatch and combine already swapped. */
static bool expert_lower(struct rank_share share, struct ops span, struct ops *out, short *same_as)
{
    enum { SHARE_BYTES = 4 };
    (void)same_as;
    struct op mark = span.at[0];
    bool enters = mark.kind == OP_EXPERT_ENTER, is_forward = mark.pass == PASS_FORWARD;
    bool dispatches = enters == is_forward;
    double value_bytes = dtype_bytes(mark.dtype), values = mark.comm_bytes / value_bytes;
    struct passage passage = {
        mark, out,
        .share_bytes = dispatches && !mark.sends_shares ? SHARE_BYTES * values / mark.n : 0,
        .part_bytes = (dispatches ? value_bytes : mark.row_sum_bytes) * values * share.etp
    };
    if (share.ep == 1 && share.etp == 1)
        return false;
    if (enters && is_forward && !mark.sends_shares && share.capacity == 0)
        put_counts(share, &passage);
    if (enters)
        enter(share, &passage);
    else
        leave(share, &passage);
    return true;
}

/* --- rules --------------------------------------------------------------------------------- */

static bool expert_divides(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    const struct model *model = of->model;
    if (plan->capacity > 0 && model->experts == 0)
        return err_set(err, ERR_INFEASIBLE, "capacity",
                       "capacity=%g needs experts, but the model has none", plan->capacity / 100.0);
    if (plan->ep == 1 && plan->etp == 1)
        return true;
    if (model->experts == 0)
        return err_set(
            err, ERR_INFEASIBLE,
            plan->ep > 1 ? token_text("ep", plan->ep).at : token_text("etp", plan->etp).at,
            "ep %d and etp %d divide experts, but the model has none", plan->ep, plan->etp);
    if (model->experts % plan->ep != 0)
        return err_set(err, ERR_INFEASIBLE, token_text("ep", plan->ep).at,
                       "%d experts are not a multiple of ep %d", model->experts, plan->ep);
    return model->expert_ffn % plan->etp == 0 ||
           err_set(err, ERR_INFEASIBLE, token_text("etp", plan->etp).at,
                   "the experts' width %d is not a multiple of etp %d", model->expert_ffn,
                   plan->etp);
}

/* A pipeline stage must consist of the same ranks in the job's grid and in the experts' grid. This
 * holds when pipeline ranks vary slowest (Megatron Core, parallel_state.py). */
static bool expert_fits_ranks(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    if (plan->ep == 1 && plan->etp == 1)
        return true;
    int of_stage = plan_stage_ranks(plan);
    if (of_stage % ((long long)plan->etp * plan->ep) != 0)
        return err_set(err, ERR_INFEASIBLE, token_text("ep", plan->ep).at,
                       "etp %d x ep %d does not divide the %d ranks of a stage", plan->etp,
                       plan->ep, of_stage);
    return plan->pp == 1 || plan->order[num_axes - 1] == AXIS_PIPELINE ||
           err_set(err, ERR_INFEASIBLE, "order",
                   "experts over pipelines need pp last in the rank order");
}

/* Megatron Core refuses the same in training (transformer/moe/moe_layer.py): without sequence
 * parallelism every tensor rank would send all rows. */
static bool expert_sees_all_rows(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    return of->model->experts == 0 || plan->tp == 1 || plan->sp ||
           err_set(err, ERR_INFEASIBLE, token_text("tp", plan->tp).at,
                   "a model with experts needs sp with tp %d", plan->tp);
}

static int next_degree(const struct axis_case *of, int degree)
{
    int experts = of->model->experts > 0 ? of->model->experts : 1;
    int next = next_divisor(experts, degree);
    return next <= of->num_gpus ? next : 0;
}

static int expert_degree(const struct plan *plan)
{
    return plan->ep;
}

/* The first group's ranks exchange rows; the second group's ranks share an expert. */
static int groups_of(const struct plan *plan, struct members groups[MAX_AXIS_GROUPS])
{
    groups[0] = groups[1] = (struct members){ 0, 1 };
    if (plan->ep > 1 || plan->etp > 1) {
        struct grid grid = plan_expert_grid(plan);
        groups[0] = grid_members(&grid, AXIS_EXPERT);
        groups[1] = grid_members(&grid, AXIS_TENSOR);
    }
    return 2;
}

/* The balancing loss sums its counts over the ranks of both groups. They are a few kilobytes, so
 * they are timed as a message within the first group. */
static int group_of(struct rank_share share, const struct op *op)
{
    if (op->spans_experts)
        return share.ep > 1 ? 0 : 1;
    return op->kind == OP_ALL_TO_ALL ? 0 : 1;
}

/* --- the axis ------------------------------------------------------------------------------ */

static const struct plan_token words[] = {
    { "ep", "epN", "Expert-parallel ranks; they are a part of the data-parallel ranks.",
      TOKEN_NUMBER, TOKEN_MEMBER(ep), .min = 1, .fallback = 1 },
    { "etp", "etpN", "Tensor-parallel ranks of each expert.", TOKEN_NUMBER, TOKEN_MEMBER(etp),
      .min = 1, .fallback = 1 },
    { "capacity", "capacity=F",
      "Rows that an expert takes from each rank's tokens, as a multiple of the mean. Fewer rows "
      "are padded to this number, further ones are dropped; absent: an expert takes all rows.",
      .read = token_read_capacity, .write = token_write_capacity },
};

static const struct plan_rule rules[] = {
    { "expert",
      "ep and etp over 1, and capacity, need experts; ep divides their number, etp their width.",
      expert_divides },
    { "expert_groups", "etp x ep x pp divides the GPUs.", expert_fits_ranks },
    { "expert_sequence", "Experts with tp over 1 need sp.", expert_sees_all_rows },
};

const struct axis expert_axis = {
    .name = "ep",
    .summary = "Ranks hold different experts and exchange tokens; etp ranks share one expert.",
    .source = "Lepikhin et al. 2020, GShard; folded over the other axes: Liu et al. 2025, "
              "MoE Parallel Folding",
    .place = 30,
    .is_folded = true,
    .words = words,
    .num_words = LENGTH(words),
    .rules = rules,
    .num_rules = LENGTH(rules),
    .next_degree = next_degree,
    .expert_degree = expert_degree,
    .shard = expert_shard,
    .marks = MARK(OP_EXPERT_ENTER) | MARK(OP_EXPERT_LEAVE),
    .lower = expert_lower,
    .groups = groups_of,
    .group_of = group_of,
};
