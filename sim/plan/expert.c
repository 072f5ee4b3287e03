#include "sim/plan/axes.h"
#include "sim/plan/local.h"

#include <math.h>

int expert_degree(const struct plan *plan)
{
    return plan->ep;
}

struct routed expert_routed(struct rank_share share, const struct model *model, double tokens)
{
    return (struct routed){ .tokens = tokens * share.ep * share.etp,
                            .experts = model->experts,
                            .topk = model->topk,
                            .ranks = share.ep };
}

/* Each rank brings the rows of its own tokens, topk copies of each, and with a balanced router gets
 * as many; all wait for the rank that gets most. A padded expert gets its capacity of every rank.
 * The ranks that share an expert gather each other's rows, so that each of them has all rows and
 * multiplies by its part of the expert. */
void expert_shard(struct rank_share share, const struct model *model, struct layer_dims *dims)
{
    struct routed routed = expert_routed(share, model, dims->norm_tokens);
    dims->experts /= share.ep;
    dims->expert_ffn /= share.etp;
    dims->sent_rows = dims->norm_tokens * model->topk;
    dims->message_rows = dims->sent_rows;
    if (model->experts == 0)
        return;
    if (share.capacity > 0)
        dims->sent_rows = dims->message_rows =
            model->experts * routing_capacity_rows(dims->norm_tokens, model->experts, model->topk,
                                                   share.capacity / 100.0);
    else
        dims->message_rows = ceil(dims->sent_rows * routing_rank_factor(&model->routing, &routed));
    dims->expert_rows = dims->message_rows * share.etp;
}

/* --- ops -------------------------------------------------------------------------------------- */

/* The collectives that replace a mark, one behind the other. */
struct passage {
    struct op mark;
    struct ops *out;
};

static void put(struct passage *passage, enum op_kind kind, short in, short made, double bytes)
{
    struct op op = passage->mark;
    op.kind = kind;
    op.stream = STREAM_EXPERT;
    op.kernels = 1;
    op.comm_bytes = bytes;
    op.in = (struct ids){ 1, { in } };
    op.out = (struct ids){ 1, { made } };
    op.after = passage->out->count - 1;
    passage->out->at[passage->out->count++] = op;
}

/* A rank's rows between the two collectives: as many as it sends. */
static short rows_between(struct passage *passage)
{
    bool enters = passage->mark.kind == OP_EXPERT_ENTER;
    const struct ids *alike = enters ? &passage->mark.in : &passage->mark.out;
    short like = alike->at[0];
    struct operands *operands = passage->out->operands;
    return (short)operands_add_value(operands, operands->values[like]);
}

/* Rows go to the ranks of their experts, then to all ranks that share each expert; back, the parts
 * of each row are summed, then sent home (Megatron Core, moe/token_dispatcher.py,
 * MoEAlltoAllTokenDispatcher). The backward's marks are already swapped. */
bool expert_lower(struct rank_share share, struct ops span, struct ops *out, short *same_as)
{
    (void)same_as;
    struct passage passage = { span.at[0], out };
    short in = passage.mark.in.at[0], made = passage.mark.out.at[0];
    double bytes = passage.mark.comm_bytes, whole_bytes = bytes * share.etp;
    bool enters = passage.mark.kind == OP_EXPERT_ENTER;
    enum op_kind join = enters ? OP_ALL_GATHER : OP_REDUCE_SCATTER;
    if (share.ep == 1 && share.etp == 1)
        return false;
    if (share.etp == 1) {
        put(&passage, OP_ALL_TO_ALL, in, made, bytes);
    } else if (share.ep == 1) {
        put(&passage, join, in, made, whole_bytes);
    } else {
        short between = rows_between(&passage);
        if (enters) {
            put(&passage, OP_ALL_TO_ALL, in, between, bytes);
            put(&passage, join, between, made, whole_bytes);
        } else {
            put(&passage, join, in, between, whole_bytes);
            put(&passage, OP_ALL_TO_ALL, between, made, bytes);
        }
    }
    return true;
}

/* --- rules ------------------------------------------------------------------------------------ */

bool expert_divides(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    const struct model *model = of->model;
    if (plan->capacity > 0 && model->experts == 0)
        return err_set(err, ERR_INFEASIBLE, "capacity",
                       "capacity=%g is of experts, and the model has none", plan->capacity / 100.0);
    if (plan->ep == 1 && plan->etp == 1)
        return true;
    if (model->experts == 0)
        return err_set(
            err, ERR_INFEASIBLE,
            plan->ep > 1 ? token_text("ep", plan->ep).at : token_text("etp", plan->etp).at,
            "ep %d and etp %d divide experts, and the model has none", plan->ep, plan->etp);
    if (model->experts % plan->ep != 0)
        return err_set(err, ERR_INFEASIBLE, token_text("ep", plan->ep).at,
                       "%d experts are not a multiple of ep %d", model->experts, plan->ep);
    return model->expert_ffn % plan->etp == 0 ||
           err_set(err, ERR_INFEASIBLE, token_text("etp", plan->etp).at,
                   "the experts' width %d is not a multiple of etp %d", model->expert_ffn,
                   plan->etp);
}

/* Stages must be the same ranks in both grids, which holds when pipeline ranks are the slowest
 * (Megatron Core, parallel_state.py). */
bool expert_fits_ranks(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    if (plan->ep == 1 && plan->etp == 1)
        return true;
    long long of_stage = (long long)plan->tp * plan->cp * plan->dp;
    if (of_stage % ((long long)plan->etp * plan->ep) != 0)
        return err_set(err, ERR_INFEASIBLE, token_text("ep", plan->ep).at,
                       "etp %d x ep %d does not divide the %lld ranks of a stage", plan->etp,
                       plan->ep, of_stage);
    return plan->pp == 1 || plan->order[NUM_AXES - 1] == AXIS_PIPELINE ||
           err_set(err, ERR_INFEASIBLE, "order",
                   "experts over pipelines need pp last in the rank order");
}

/* Megatron Core refuses the same in training (transformer/moe/moe_layer.py): without sequence
 * parallelism each tensor rank would send all rows. */
bool expert_sees_all_rows(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    return of->model->experts == 0 || plan->tp == 1 || plan->sp ||
           err_set(err, ERR_INFEASIBLE, token_text("tp", plan->tp).at,
                   "a model with experts needs sp with tp %d", plan->tp);
}
