/* The operators of a layer, and the cost of each with each sharding. A mark is an op that does
 * nothing itself; it only shows where ranks communicate. */
#include "search/partition/layer_part.h"

#include "sim/cost/compute.h"
#include "sim/plan/local.h"

/* --- possible forms --------------------------------------------------------------------------- */

static struct ops list_of(const struct scorer *scorer, const struct layer_dims *dims)
{
    return layer_forward(scorer->of->model, dims, &scorer->options, scorer->arena);
}

/* Builds the op lists (sequences of operations) for the tokens of one context rank. */
static void build_lists(struct scorer *scorer)
{
    const struct layer_partition *of = scorer->of;
    struct plan plan = *of->plan;
    plan.sp = false;
    struct layer_dims hidden = local_dims(rank_share_of(&plan), of->model, of->model->seq);
    plan.tp = 1;
    struct layer_dims whole = local_dims(rank_share_of(&plan), of->model, of->model->seq);
    struct layer_dims sequence = whole;
    sequence.tokens /= of->plan->tp;
    sequence.norm_tokens /= of->plan->tp;
    scorer->whole = list_of(scorer, &whole);
    scorer->hidden = list_of(scorer, &hidden);
    scorer->sequence = list_of(scorer, &sequence);
    scorer->hidden_bytes = whole.tokens * whole.hidden * scorer->element_bytes;
}

static bool is_mark(const struct op *op)
{
    return op->kind == OP_TENSOR_ENTER || op->kind == OP_TENSOR_LEAVE || op->kind == OP_CP_ENTER ||
           op->kind == OP_CP_LEAVE;
}

static enum value_form form_of(const struct scorer *scorer, int value)
{
    return scorer->whole.operands->values[value].form;
}

/* Whether the op belongs to the core of attention, between the products that make queries, keys and
 * values and the output projection. Such ops need whole heads. */
static bool is_core(const struct scorer *scorer, const struct op *op)
{
    return op->region == REGION_ATTENTION_CORE || form_of(scorer, op->in.at[0]) == VALUE_HEADS;
}

static enum operator_role role_of(const struct scorer *scorer, const struct op *op)
{
    if (is_core(scorer, op))
        return OPERATOR_CORE;
    if (op->kind == OP_ACTIVATION)
        return OPERATOR_ACTIVATION;
    if (op->kind != OP_GEMM)
        return OPERATOR_STREAM;
    bool is_second = op_weight_of(&scorer->whole, op, WEIGHT_MATRIX)->split == SPLIT_COLUMNS;
    return is_second ? OPERATOR_SECOND : OPERATOR_FIRST;
}

void layer_find_operators(struct scorer *scorer)
{
    build_lists(scorer);
    for (int i = 0; i < scorer->whole.count; i++) {
        const struct op *op = &scorer->whole.at[i];
        enum operator_role role = role_of(scorer, op);
        int last = scorer->num_stretches - 1;
        if (is_mark(op) && role != OPERATOR_CORE)
            continue;
        if (role == OPERATOR_CORE && last >= 0 && scorer->stretches[last].role == role)
            scorer->stretches[last].count++;
        else
            scorer->stretches[scorer->num_stretches++] =
                (struct stretch){ role == OPERATOR_CORE ? "attention" : op->name, i, 1, role };
    }
}

bool layer_is_linear(const struct scorer *scorer, int index)
{
    enum operator_role role = scorer->stretches[index].role;
    return role == OPERATOR_FIRST || role == OPERATOR_SECOND;
}

static unsigned allowed_of(const struct stretch *stretch)
{
    enum {
        WHOLE = 1 << SHARDING_REPLICATED,
        TOKENS = 1 << SHARDING_SEQUENCE,
        VALUES = 1 << SHARDING_HIDDEN
    };
    switch (stretch->role) {
    case OPERATOR_FIRST:
    case OPERATOR_SECOND:
        return 1 << SHARDING_COLUMN | 1 << SHARDING_ROW | WHOLE | TOKENS;
    case OPERATOR_CORE:
        return WHOLE | VALUES;
    case OPERATOR_ACTIVATION:
        return WHOLE | TOKENS | VALUES;
    case OPERATOR_STREAM:
        break;
    }
    return WHOLE | TOKENS;
}

double layer_output_bytes(const struct scorer *scorer, int index)
{
    const struct stretch *stretch = &scorer->stretches[index];
    const struct op *last = &scorer->whole.at[stretch->first + stretch->count - 1];
    return scorer->whole.operands->values[last->out.at[0]].bytes;
}

/* --- products --------------------------------------------------------------------------------- */

static void set_size(const struct scorer *scorer, struct op *op, double m, double n, double k)
{
    op->m = m;
    op->n = n;
    op->k = k;
    op->bytes = scorer->element_bytes * (m * k + k * n + m * n);
}

struct op layer_product_of(const struct scorer *scorer, int index, enum sharding sharding)
{
    int at = scorer->stretches[index].first;
    double ranks = scorer->of->plan->tp;
    const struct op *whole = &scorer->whole.at[at];
    const struct op *split = &scorer->hidden.at[at];
    struct op op = *whole;
    if (sharding == SHARDING_SEQUENCE)
        set_size(scorer, &op, whole->m / ranks, whole->n, whole->k);
    if (sharding == SHARDING_COLUMN)
        set_size(scorer, &op, whole->m, split->n < whole->n ? split->n : whole->n / ranks,
                 whole->k);
    if (sharding == SHARDING_ROW)
        set_size(scorer, &op, whole->m, whole->n,
                 split->k < whole->k ? split->k : whole->k / ranks);
    return op;
}

double layer_alone_s(const struct scorer *scorer, const struct op *op)
{
    const struct system *system = scorer->of->system;
    double seconds = op_s(&system->gpu, &system->profile, scorer->attention, op);
    return op->kind == OP_GEMM ? seconds / system->stack.product_efficiency : seconds;
}

double layer_pass_s(const struct scorer *scorer, struct ops ops, enum op_pass pass)
{
    double seconds = 0;
    for (int i = 0; i < ops.count; i++)
        if (ops.at[i].pass == pass)
            seconds += layer_alone_s(scorer, &ops.at[i]);
    return seconds;
}

struct ops layer_backward_of(const struct scorer *scorer, struct op *op)
{
    struct operands *operands = ARENA_NEW(scorer->arena, struct operands);
    *operands = *scorer->whole.operands;
    struct ops one = {
        .at = op, .count = 1, .operands = operands, .input = op->in.at[0], .output = op->out.at[0]
    };
    return ops_backward(one, &scorer->options, scorer->arena);
}

/* --- scores ----------------------------------------------------------------------------------- */

static bool reruns(const struct scorer *scorer, const struct op *op)
{
    int recompute = scorer->of->plan->recompute;
    return recompute == RECOMPUTE_FULL ||
           (recompute == RECOMPUTE_SELECTIVE && op->region == REGION_ATTENTION_CORE);
}

static double kept_bytes(const struct scorer *scorer, const struct ops *list, const struct op *op)
{
    if (scorer->of->plan->recompute == RECOMPUTE_FULL)
        return 0;
    return op_saved_bytes(list, op) - (reruns(scorer, op) ? op_replayed_bytes(list, op) : 0);
}

static double compute_s(const struct scorer *scorer, struct op *op)
{
    struct ops backward = layer_backward_of(scorer, op);
    double forward_s = layer_alone_s(scorer, op);
    return (reruns(scorer, op) ? 2 : 1) * forward_s +
           layer_pass_s(scorer, backward, PASS_BACKWARD_INPUT) +
           layer_pass_s(scorer, backward, PASS_BACKWARD_WEIGHT);
}

/* Seconds of the weight gradients' all-reduce over ranks that hold all weights but only some
 * tokens. It runs once per step; each microbatch counts an equal share of it. */
static double weight_reduce_s(const struct scorer *scorer, double parameters)
{
    double bytes = parameters * scorer->options.gradient_bytes;
    return collective_s(&scorer->tensor, COLLECTIVE_ALL_REDUCE, bytes) / scorer->num_microbatches;
}

static struct partition_score linear_score(const struct scorer *scorer, int index,
                                           enum sharding sharding)
{
    struct op op = layer_product_of(scorer, index, sharding);
    double parameters = op.n * op.k + (op.weights.count > 1 ? op.n : 0);
    struct partition_score score = { .bytes = parameters * scorer->state_bytes };
    if (sharding == SHARDING_SEQUENCE) {
        score.comm = weight_reduce_s(scorer, parameters);
        score.units = 2 * parameters * scorer->options.gradient_bytes / scorer->num_microbatches /
                      scorer->hidden_bytes;
    }
    score.cost = score.comm + compute_s(scorer, &op);
    return score;
}

/* Parameters of the norm that an op applies, which every rank holds. linear_score counts biases, as
 * parameters of their products. */
static double norm_parameters(const struct scorer *scorer, const struct op *op)
{
    double parameters = 0;
    for (int i = 0; i < op->weights.count; i++) {
        const struct op_weight *weight = &scorer->whole.operands->weights[op->weights.at[i]];
        if (weight->role == WEIGHT_SCALE || weight->role == WEIGHT_SHIFT)
            parameters += weight->rows * weight->columns;
    }
    return parameters;
}

static struct partition_score other_score(const struct scorer *scorer, int index,
                                          enum sharding sharding)
{
    const struct stretch *stretch = &scorer->stretches[index];
    struct ops list = sharding == SHARDING_HIDDEN     ? scorer->hidden
                      : sharding == SHARDING_SEQUENCE ? scorer->sequence
                                                      : scorer->whole;
    struct partition_score score = { 0 };
    for (int i = stretch->first; i < stretch->first + stretch->count; i++)
        if (!is_mark(&list.at[i])) {
            score.cost += compute_s(scorer, &list.at[i]);
            score.bytes += kept_bytes(scorer, &list, &list.at[i]) * scorer->in_flight +
                           norm_parameters(scorer, &list.at[i]) * scorer->state_bytes;
        }
    return score;
}

void layer_add_operator(const struct scorer *scorer, int index, struct partition_operator *out)
{
    const struct stretch *stretch = &scorer->stretches[index];
    *out = (struct partition_operator){ .name = stretch->name,
                                        .role = stretch->role,
                                        .allowed = allowed_of(stretch) };
    for (int i = 0; i < NUM_SHARDINGS; i++)
        if (out->allowed >> i & 1)
            out->score[i] = layer_is_linear(scorer, index)
                                ? linear_score(scorer, index, (enum sharding)i)
                                : other_score(scorer, index, (enum sharding)i);
}
