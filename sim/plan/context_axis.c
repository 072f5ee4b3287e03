/* Context parallelism: its axis, and its methods of exchanging keys and values. A mark is an op
 * that stands in an op list (a layer's sequence of operations) where an axis communicates; lowering
 * replaces it by collectives. */
#include "sim/plan/context_axis.h"

#include "base/length.h"
#include "models/blocks.h"
#include "sim/plan/axes.h"

#include <assert.h>

/* Divides the sizes of queries and of work per token by cp. Sizes of keys are not divided, as a
 * rank's queries may need all keys. */
static void context_shard(struct rank_share share, const struct model *model,
                          struct layer_dims *dims)
{
    (void)model;
    dims->seq /= share.cp;
    dims->tokens /= share.cp;
    dims->norm_tokens /= share.cp;
}

/* --- ops ----------------------------------------------------------------------------------- */

/* Adds an op that waits for op `after`, and returns the added op's index. */
static int put(struct ops *out, struct op op, int after)
{
    op.after = after;
    out->at[out->count] = op;
    return out->count++;
}

static int put_next(struct ops *out, struct op op)
{
    return put(out, op, out->count - 1);
}

/* An op that sends `batch` messages of `bytes` each within the context group. */
static struct op exchange(const struct op *mark, enum op_kind kind, double batch, double bytes)
{
    struct op op = *mark;
    op.kind = kind;
    op.stream = STREAM_CONTEXT;
    op.batch = op.kernels = batch;
    op.comm_bytes = bytes;
    return op;
}

static bool is_backward(const struct context_core *core)
{
    return core->attention->pass != PASS_FORWARD;
}

/* Returns the value with the queries, keys and values of a rank's own tokens. */
static short own_heads(const struct context_core *core)
{
    if (is_backward(core))
        return core->attention->in.at[1];
    return core->enter->in.at[0];
}

/* Removes a mark that the method does not use; readers of its output read its input. */
static void skip(const struct context_core *core, const struct op *mark)
{
    core->same_as[mark->out.at[0]] = mark->in.at[0];
}

/* Gives the op a new output like an existing value, and returns it. */
static short make_like(struct ops *out, struct op *op, short value)
{
    int made = operands_add_value(out->operands, out->operands->values[value]);
    op->out = (struct ids){ 1, { (short)made } };
    return (short)made;
}

static void rename_core(const struct context_core *core, struct op *op)
{
    for (int i = 0; i < op->in.count; i++)
        op->in.at[i] = core->same_as[op->in.at[i]];
}

/* --- p2p: a ring --------------------------------------------------------------------------- */

/* One step of the ring, repeated `steps` times. In each of the cp steps a rank's queries are
 * multiplied by the keys of one rank. In the first step these are its own keys, under the causal
 * mask. In the other steps all queries use half of the keys, or half of the queries use all keys.
 * Each step computes 1/cp of the rank's scores. */
static struct op ring_steps(const struct context_core *core, double steps)
{
    struct op op = *core->attention;
    double share = steps / core->cp;
    op.n /= core->cp;
    op.batch *= steps;
    op.flops *= share;
    op.model_flops *= share;
    op.bytes *= steps;
    op.kernels *= steps;
    op.saved.count = 0;
    rename_core(core, &op);
    return op;
}

/* The next keys arrive during the current step: cp - 1 messages overlap as many steps of equal
 * length, so the messages are modelled as one op and the steps as another. The last step is an op
 * of its own, which waits for the messages. */
static void lower_ring_forward(const struct context_core *core, struct ops *out)
{
    int before = out->count - 1;
    double messages = core->cp - 1;
    struct op first = ring_steps(core, messages), last = ring_steps(core, 1);
    first.in.at[0] = own_heads(core);
    last.saved = core->attention->saved;
    ids_add(&last.in, make_like(out, &first, core->attention->out.at[0]));
    int sent = put(out, exchange(core->enter, OP_SEND_RECEIVE, messages, core->key_bytes), before);
    put(out, first, before);
    put(out, last, sent);
    skip(core, core->leave);
}

/* State while the ops of a backward ring are added: the op that brought the latest keys, and the
 * sum of gradients so far. */
struct ring {
    const struct context_core *core;
    struct ops *out;
    short arrived, gradient;
};

/* Adds a message that waits for `after`. */
static int put_message(struct ring *ring, double messages, double bytes, int after)
{
    struct op op = exchange(ring->core->leave, OP_SEND_RECEIVE, messages, bytes);
    op.in = (struct ids){ 0 };
    ids_add(&op.in, ring->arrived);
    if (ring->gradient != NO_ID)
        ids_add(&op.in, ring->gradient);
    ring->arrived = make_like(ring->out, &op, ring->arrived);
    return put(ring->out, op, after);
}

static int put_steps(struct ring *ring, short keys, double steps, int after)
{
    struct op op = ring_steps(ring->core, steps);
    ids_add(&op.in, keys);
    ring->gradient = make_like(ring->out, &op, ring->core->attention->out.at[0]);
    return put(ring->out, op, after);
}

/* The backward sends keys around the ring again; each rank's gradient follows its keys one step
 * later. So the first step overlaps only messages of keys, the last only messages of gradients, the
 * others both. After cp - 1 additions each gradient is back at the rank that owns the keys. */
static void lower_ring_backward(const struct context_core *core, struct ops *out)
{
    struct ring ring = { core, out, own_heads(core), NO_ID };
    int before = out->count - 1;
    double between = core->cp - 2;
    double key_bytes = core->key_bytes;
    skip(core, core->enter);
    int sent = put_message(&ring, 1, key_bytes, before);
    short keys = ring.arrived;
    int computed = put_steps(&ring, own_heads(core), 1, before);
    if (between > 0) {
        int had = sent;
        sent = put_message(&ring, between, 2 * key_bytes, computed);
        computed = put_steps(&ring, keys, between, had);
        keys = ring.arrived;
    }
    int arrived = put_message(&ring, 1, key_bytes, computed);
    put_steps(&ring, keys, 1, sent);
    struct op sum = *core->leave;
    sum.kind = OP_RESIDUAL;
    sum.name = "key_gradient_sum";
    sum.in = (struct ids){ 2, { ring.arrived, ring.gradient } };
    sum.n = sum.k;
    sum.kernels = core->cp - 1;
    sum.bytes = 3 * key_bytes * (core->cp - 1);
    sum.comm_bytes = sum.k = 0;
    put(out, sum, arrived);
}

static void lower_ring(const struct context_core *core, struct ops *out)
{
    if (is_backward(core))
        lower_ring_backward(core, out);
    else
        lower_ring_forward(core, out);
}

/* Buffers for the keys in use and the arriving keys. */
static double ring_buffer_bytes(int cp, double query_bytes, double key_bytes)
{
    (void)cp, (void)query_bytes;
    return 2 * key_bytes;
}

/* --- all-gather ---------------------------------------------------------------------------- */

/* Keys are gathered before the attention kernel, in the forward and again in the backward. The
 * backward then reduce-scatters their gradients. A rank's two slices of the sequence need two
 * kernel calls. */
static void lower_all_gather(const struct context_core *core, struct ops *out)
{
    double all_bytes = core->cp * core->key_bytes;
    struct op attention = *core->attention;
    struct op gather = exchange(core->enter, OP_ALL_GATHER, 1, all_bytes);
    attention.bytes += all_bytes - core->key_bytes;
    attention.kernels *= 2;
    if (is_backward(core)) {
        skip(core, core->enter);
        rename_core(core, &attention);
        gather.in.at[0] = own_heads(core);
        attention.in.at[1] = make_like(out, &gather, own_heads(core));
    } else {
        skip(core, core->leave);
    }
    put_next(out, gather);
    put_next(out, attention);
    if (is_backward(core))
        put_next(out, exchange(core->leave, OP_REDUCE_SCATTER, 1, all_bytes));
}

static double all_gather_buffer_bytes(int cp, double query_bytes, double key_bytes)
{
    (void)query_bytes;
    return cp * key_bytes;
}

/* --- a2a: ranks exchange tokens for heads -------------------------------------------------- */

/* The exchange before attention has three tensors (queries, keys, values), that of outputs or their
 * gradients one. */
static struct op all_to_all(const struct op *mark)
{
    double tensors = mark->k > 0 ? 3 : 1;
    return exchange(mark, OP_ALL_TO_ALL, tensors, mark->comm_bytes / tensors);
}

/* Between the two exchanges a rank has all tokens for 1/cp of its heads. */
static void lower_all_to_all(const struct context_core *core, struct ops *out)
{
    struct op attention = *core->attention;
    attention.m *= core->cp;
    attention.batch /= core->cp;
    put_next(out, all_to_all(core->enter));
    put_next(out, attention);
    put_next(out, all_to_all(core->leave));
}

static double all_to_all_buffer_bytes(int cp, double query_bytes, double key_bytes)
{
    (void)cp;
    return query_bytes + key_bytes;
}

static bool divides_heads(const struct plan_case *of, const char *what, int heads, struct err *err)
{
    const struct plan *plan = of->plan;
    int of_rank = heads > plan->tp ? heads / plan->tp : 1;
    return of_rank % plan->cp == 0 ||
           err_set(
               err, ERR_INFEASIBLE, token_text("cp", plan->cp).at,
               "cp-comm=a2a splits the %d %s of a tensor rank, which are not a multiple of cp %d",
               of_rank, what, plan->cp);
}

static bool can_exchange_heads(const struct plan_case *of, struct err *err)
{
    for (int kind = 0; kind < model_num_kinds(of->model); kind++) {
        struct block_kind widths = model_kind(of->model, kind);
        if (!divides_heads(of, "heads", widths.heads, err) ||
            !divides_heads(of, "kv_heads", widths.kv_heads, err))
            return false;
    }
    return true;
}

/* --- the table ----------------------------------------------------------------------------- */

const struct context_method context_methods[NUM_CONTEXT_COMMS] = {
    [CONTEXT_COMM_P2P] = {
        .name = "p2p",
        .summary = "Keys and values go around a ring; attention to those that have arrived "
                   "overlaps the next message.",
        .source = "Liu et al. 2023, Ring Attention; zig-zag order: Transformer Engine",
        .lower = lower_ring,
        .buffer_bytes = ring_buffer_bytes,
    },
    [CONTEXT_COMM_ALL_GATHER] = {
        .name = "all-gather",
        .summary = "Keys and values are all-gathered before attention; their gradients are "
                   "reduce-scattered after it.",
        .source = "Dubey et al. 2024, Llama 3, section 3.3.2",
        .lower = lower_all_gather,
        .buffer_bytes = all_gather_buffer_bytes,
    },
    [CONTEXT_COMM_ALL_TO_ALL] = {
        .name = "a2a",
        .summary = "Before and after attention, ranks exchange slices of tokens for slices of heads.",
        .source = "Jacobs et al. 2023, DeepSpeed Ulysses",
        .holds = can_exchange_heads,
        .lower = lower_all_to_all,
        .buffer_bytes = all_to_all_buffer_bytes,
    },
};

/* In a backward list the marks are swapped, so either mark may have the keys' width. Unfused
 * attention does not occur here, as a rule refuses it. */
/* The length of an attention core on several ranks: from one mark to the other. */
static int context_span(struct rank_share share, const struct ops *ops, int i)
{
    int end = i;
    while (share.cp > 1 && ops->at[end].kind != OP_CP_LEAVE)
        end++;
    return end - i + 1;
}

static bool context_lower(struct rank_share share, struct ops core, struct ops *out, short *same_as)
{
    if (share.cp == 1)
        return false;
    assert(core.count == 3 && core.at[1].kind == OP_FLASH_ATTENTION);
    const struct op *enter = &core.at[0];
    const struct op *leave = &core.at[2];
    const struct op *keys = enter->k > 0 ? enter : leave;
    struct context_core whole = {
        .enter = enter,
        .attention = &core.at[1],
        .leave = leave,
        .cp = share.cp,
        .key_bytes = keys->comm_bytes * keys->k / keys->n,
        .same_as = same_as,
    };
    int before = out->count;
    context_methods[share.context_comm].lower(&whole, out);
    assert(out->count - before <= MAX_LOWERED_OPS);
    (void)before;
    return true;
}

double context_buffer_bytes(struct rank_share share, const struct layer_dims *dims,
                            double element_bytes)
{
    if (share.cp == 1)
        return 0;
    double row_bytes = element_bytes * dims->tokens;
    return context_methods[share.context_comm].buffer_bytes(
        share.cp, row_bytes * dims->heads * dims->head_dim,
        row_bytes * dims->kv_heads * (dims->head_dim + dims->value_dim));
}

/* --- rules --------------------------------------------------------------------------------- */

/* Kinds of attention whose keys are not those of the rank's own tokens. */
static const int needs_whole_sequences[] = { ATTENTION_SPARSE, ATTENTION_CROSS, ATTENTION_BLOCKS,
                                             ATTENTION_LOW_RANK };

/* As in Megatron-LM, every rank has one slice from each end of the sequence in all methods, and
 * attention must be fused. */
static bool context_divides_sequence(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    int cp = plan->cp;
    if (cp == 1)
        return true;
    if (of->model->seq % cp != 0 || of->model->seq / cp % 2 != 0)
        return err_set(err, ERR_INFEASIBLE, token_text("cp", cp).at,
                       "sequence length %d is not a multiple of 2 x cp %d", of->model->seq, cp);
    if (plan->attention == PLAN_ATTENTION_UNFUSED)
        return err_set(err, ERR_INFEASIBLE, token_text("cp", cp).at,
                       "context parallelism needs flash attention, but attn is unfused");
    if (of->model->positions == POSITION_TRANSFORMER_XL ||
        of->model->positions == POSITION_RELATIVE)
        return err_set(err, ERR_INFEASIBLE, token_text("cp", cp).at,
                       "context parallelism does not split relative positions");
    if (model_has_states(of->model))
        return err_set(err, ERR_INFEASIBLE, token_text("cp", cp).at,
                       "context parallelism does not split the states of linear mixers");
    for (int i = 0; i < LENGTH(needs_whole_sequences); i++)
        if (model_has_attention(of->model, needs_whole_sequences[i]))
            return err_set(err, ERR_INFEASIBLE, token_text("cp", cp).at,
                           "context parallelism does not split %s attention",
                           attention_kind_names[needs_whole_sequences[i]]);
    const struct context_method *method = &context_methods[plan->context_comm];
    return !method->holds || method->holds(of, err);
}

/* The next of 1, 2, 4 and 8 that divides the number of GPUs. */
static int next_degree(const struct axis_case *of, int degree)
{
    enum { MOST_RANKS = 8 };
    if (!of->splits_attention)
        return degree < of->base->cp ? of->base->cp : 0;
    for (int next = 1; next <= MOST_RANKS; next *= 2)
        if (next > degree && of->num_gpus % next == 0)
            return next;
    return 0;
}

/* --- the axis ------------------------------------------------------------------------------ */

static const struct plan_token words[] = {
    { "cp", "cpN", "Context-parallel ranks: each holds a slice of every sequence.", TOKEN_NUMBER,
      TOKEN_MEMBER(cp), .min = 1, .fallback = 1 },
    { "cp-comm", "cp-comm=p2p|all-gather|a2a",
      "How context ranks exchange data: keys and values around a ring, an all-gather of them, or "
      "all-to-all exchanges of tokens for heads.",
      TOKEN_NAME, TOKEN_MEMBER(context_comm), .names = context_comm_words },
};

static const struct plan_rule rules[] = {
    { "context",
      "cp over 1 needs flash attention, a sequence that 2 cp divides, and no relative positions, "
      "linear mixers, or sparse, cross, blocks or low_rank attention; with cp-comm=a2a cp also "
      "divides the heads.",
      context_divides_sequence },
};

const struct axis context_axis = {
    .name = "cp",
    .summary = "Each rank holds a slice of every sequence; ranks exchange keys and values.",
    .source = "Liu et al. 2023, Ring Attention",
    .place = 20,
    .is_replicated = true,
    .words = words,
    .num_words = LENGTH(words),
    .rules = rules,
    .num_rules = LENGTH(rules),
    .next_degree = next_degree,
    .shard = context_shard,
    .marks = MARK(OP_CP_ENTER) | MARK(OP_CP_LEAVE),
    .span = context_span,
    .lower = context_lower,
    .sends_messages = true,
};
