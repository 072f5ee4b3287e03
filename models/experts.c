/* The second half of a block with experts: norm, router, the transfer of rows to their experts and
 * back, the experts' two linear layers, a shared expert, the residual.
 *
 * Each token goes to topk of the experts (Shazeer et al. 2017; Fedus et al. 2021). Rows are copied
 * once for each of their experts, sent to the experts' ranks, sorted by expert, and multiplied by
 * all experts of the rank in one grouped product. The router's share (the weight of an expert in a
 * token's output) is sent with the row. The activation multiplies by the share, so the experts'
 * output is not kept for the share's gradient (Megatron Core 0.13, moe/experts.py). The row counts
 * in `dims` include the imbalance of the router. */
#include "models/layer_part.h"

#include <math.h>

/* Bytes per number: logits and shares are fp32, the map of chosen experts has one byte per
 * entry. */
enum { SHARE_BYTES = 4, CHOSEN_BYTES = 1, PLACE_BYTES = 4 };

/* Number of kernels that the host launches for an op without a fused one, as traced in Megatron
 * Core 0.16.1 (tests/fixtures/traces; moe/moe_utils.py, moe/router.py and moe/token_dispatcher.py).
 */
struct launches {
    double forward, backward;
};
/* Launches from the router's logits to the shares and the map of choices: casts, scores, top-k, the
 * auxiliary loss and its log. Sigmoid scores are divided by their sum, for the shares and for the
 * loss. */
static const struct launches route_by_softmax = { 25, 16 };
static const struct launches route_by_sigmoid = { 33, 29 };
/* Launches that choose the groups whose two best scores have the largest sums, and mask the other
 * groups. */
static const struct launches choose_groups = { 7, 0 };
/* Launches that send rows and shares: find the rows' places, sort rows and shares by place, and
 * copy both. */
static const struct launches send_rows = { 6, 4 };
static const struct launches add_up_rows = { 2, 1 };
/* Launches that count the rows that each rank sends to each expert and copy the counts to the host,
 * which waits for them. With a capacity the numbers are known (MoEAlltoAllTokenDispatcher,
 * drop_and_pad). */
static const struct launches count_rows = { 12, 0 };

static void add_launches(struct op *op, struct launches launches)
{
    op->kernels += launches.forward;
    op->backward_kernels += launches.backward;
}

/* Whether tokens get experts in turn, without a router. */
static bool is_in_turn(const struct builder *b)
{
    return b->model->routing.kind == ROUTING_IN_TURN;
}

/* Adds the matrix product with the router's weight, which every tensor rank holds whole. Its logits
 * are fp32. */
static void add_router(struct builder *b)
{
    double experts = b->model->experts;
    struct linear router = { .name = "router",
                             .out = experts,
                             .in = b->dims->hidden,
                             .rows = b->dims->norm_tokens,
                             .summed = SUMMED_OVER_TOKENS,
                             .has_bias = b->model->router_bias };
    struct op *op = add_gemm(b, &router);
    b->ops.operands->values[b->value].bytes = SHARE_BYTES * op->m * experts;
}

/* The auxiliary loss covers the tokens of all tensor ranks (and of context ranks, which are left
 * out here). So the ranks sum the number of tokens that chose each expert, 8 bytes per expert
 * (Megatron Core, moe/moe_utils.py, get_tokens_per_expert_and_token_count). */
static void add_loss_counts(struct builder *b)
{
    enum { COUNT_BYTES = 8 };
    struct op *op = add_reader(b, OP_ALL_REDUCE, "router_counts", 1, b->model->experts);
    op->comm_bytes = COUNT_BYTES * op->n;
}

/* Launches that number the choices, take the remainder by the number of experts, and make equal
 * shares (NeMo AutoModel, moe/layers.py, FakeBalancedGate). */
static const struct launches choose_in_turn = { 6, 0 };

/* Adds the op that makes the places and equal shares of rows without a router: 8 bytes of a number
 * and 4 of a share for each row. */
static void add_choices_in_turn(struct builder *b, int *shares, int *places)
{
    enum { NUMBER_BYTES = 8 };
    double rows = b->dims->norm_tokens * b->model->topk;
    struct op *op = add_reader(b, OP_ROUTE, "route", b->dims->norm_tokens, b->model->experts);
    op->k = b->model->topk;
    op->bytes = 3 * (NUMBER_BYTES + SHARE_BYTES) * rows;
    op->backward_bytes = 0;
    op->kernels = op->backward_kernels = 0;
    add_launches(op, choose_in_turn);
    *shares = add_output(b, op, VALUE_STATISTICS, SHARE_BYTES * rows);
    *places = add_output(b, op, VALUE_PLACES, NUMBER_BYTES * rows);
    ids_add(&op->saved, *places);
}

/* Adds the op that makes the shares and the places of the rows (their positions in the experts'
 * order). It keeps logits, shares and the map. */
static void add_route(struct builder *b, int *shares, int *places)
{
    double rows = b->dims->norm_tokens;
    double experts = b->model->experts;
    struct op *op = add_reader(b, OP_ROUTE, "route", rows, experts);
    op->k = b->model->topk;
    op->bytes = rows * experts * (3 * SHARE_BYTES + CHOSEN_BYTES);
    op->backward_bytes = rows * experts * (3 * SHARE_BYTES + CHOSEN_BYTES);
    op->kernels = op->backward_kernels = 0;
    add_launches(op, b->model->score_bias ? route_by_sigmoid : route_by_softmax);
    if (b->model->expert_groups > 1)
        add_launches(op, choose_groups);
    keep_input(b, op);
    *shares = add_output(b, op, VALUE_STATISTICS, SHARE_BYTES * rows * experts);
    ids_add(&op->saved, *shares);
    *places = add_output(b, op, VALUE_PLACES,
                         CHOSEN_BYTES * rows * experts + PLACE_BYTES * b->dims->sent_rows);
    ids_add(&op->saved, *places);
    if (b->model->score_bias)
        add_weight(b, op, WEIGHT_BIAS, experts, 1)->is_frozen = true;
    b->value = *places;
    add_loss_counts(b);
}

static struct expert_choice choice_of(const struct builder *b)
{
    return (struct expert_choice){ b->model->experts, b->model->topk, b->model->expert_groups,
                                   b->model->topk_groups, is_in_turn(b) };
}

/* Sets an op's cost to 0, as the library that sends the rows does its work. */
static void leave_to_dispatcher(struct op *op)
{
    op->bytes = op->backward_bytes = 0;
    op->kernels = op->backward_kernels = 0;
}

static bool sends_quantized(const struct builder *b)
{
    return b->options->recipe && b->options->sends_quantized;
}

/* Bytes of a value on its way to the experts. */
static double sent_bytes(const struct builder *b)
{
    return sends_quantized(b) ? quantized_bytes(b->options->recipe) : b->element_bytes;
}

/* Makes an op that copies or sends tokens also quantise them. */
static void quantize_tokens(const struct builder *b, struct op *op)
{
    const struct recipe *recipe = b->options->recipe;
    if (!sends_quantized(b))
        return;
    op->bytes += quantize_traffic_bytes(recipe, 1, b->dims->norm_tokens * b->dims->hidden);
    op->kernels += recipe->kernels;
}

/* Quantises the rows in front of an expert's first product. Rows that arrive quantised are read
 * once and written as often as there are further copies, unless the backward makes these. */
static void add_arrived_quantize(struct builder *b, double rows)
{
    double width = b->dims->hidden;
    if (!sends_quantized(b)) {
        add_quantize(b, "expert_fc1_input", rows, width);
        return;
    }
    struct op *op = add_op(b, OP_QUANTIZE, "expert_fc1_input", rows, width);
    bool makes_none = b->options->stores.transposes_apart;
    op->bytes = makes_none ? 0 : b->options->copies * sent_bytes(b) * rows * width;
    op->kernels = makes_none ? 0 : op->kernels;
    b->ops.operands->values[b->value].bytes = sent_bytes(b) * rows * width;
}

/* Copies each row, with its share, once for each of its experts; the backward sums the copies. */
static void add_dispatch(struct builder *b, int shares, int places)
{
    const struct layer_dims *d = b->dims;
    struct op *op = add_op(b, OP_DISPATCH, "dispatch", d->norm_tokens, d->hidden);
    op->k = b->model->topk;
    ids_add(&op->in, places);
    ids_add(&op->in, shares);
    op->bytes = sent_bytes(b) * d->hidden * (d->norm_tokens + b->dims->sent_rows);
    op->backward_bytes = b->element_bytes * d->hidden * (d->norm_tokens + b->dims->sent_rows);
    b->ops.operands->values[b->value].bytes = sent_bytes(b) * d->hidden * b->dims->sent_rows;
    ids_add(&op->saved, places);
    op->kernels = op->backward_kernels = 0;
    add_launches(op, send_rows);
    if (!d->is_padded)
        add_launches(op, count_rows);
    if (b->options->sends_tokens) {
        leave_to_dispatcher(op);
        b->ops.operands->values[b->value].bytes = sent_bytes(b) * d->hidden * d->norm_tokens;
    }
    quantize_tokens(b, op);
}

/* The rows that arrive on a rank. Libraries that send tokens send each token once to every rank
 * that holds some of its experts. */
static double arriving_rows(const struct builder *b)
{
    const struct layer_dims *d = b->dims;
    if (!b->options->sends_tokens)
        return d->expert_rows;
    struct expert_choice choice = choice_of(b);
    return d->expert_rows / choice.topk * routing_distinct(&choice, choice.experts / d->experts);
}

/* Adds a mark (a placeholder for a collective) whose output has `rows` rows. Rows to the experts
 * may travel quantised, in the forward and as gradients; rows back have 16 bits in both
 * (DeepSeek-V3, section 3.3.2). */
static void add_expert_mark(struct builder *b, enum op_kind kind, const char *name, double rows)
{
    bool enters = kind == OP_EXPERT_ENTER;
    double there_bytes = sent_bytes(b) * b->dims->message_rows * b->dims->hidden;
    double back_bytes = b->element_bytes * b->dims->message_rows * b->dims->hidden;
    struct op *op = add_op(b, kind, name, b->dims->sent_rows, b->dims->hidden);
    op->k = b->model->experts;
    op->kernels = 0;
    op->comm_bytes = enters ? there_bytes : back_bytes;
    op->turned_comm_bytes = enters ? back_bytes : there_bytes;
    op->row_sum_bytes = b->options->sums_rows_in_dtype ? b->element_bytes : SHARE_BYTES;
    op->choice = choice_of(b);
    op->sends_shares = b->options->sends_tokens;
    b->ops.operands->values[b->value].bytes =
        (enters ? sent_bytes(b) : b->element_bytes) * rows * op->n;
}

/* Puts the rows of all senders in the experts' order, or back. With one expert on the rank there is
 * nothing to sort. Tokens that were sent once are copied for each of their experts on the rank, and
 * on the way back these copies are summed: a row is read and a row is written for each expert. */
static void add_sort(struct builder *b, const char *name, double made_rows, double element_bytes,
                     double gradient_bytes)
{
    const struct layer_dims *d = b->dims;
    if (d->experts <= 1 && !b->options->sends_tokens)
        return;
    struct op *op = add_op(b, OP_SORT, name, d->expert_rows, d->hidden);
    op->batch = d->experts;
    op->bytes = 2 * element_bytes * op->m * op->n;
    op->backward_bytes = 2 * gradient_bytes * op->m * op->n;
    b->ops.operands->values[b->value].bytes = element_bytes * made_rows * op->n;
    keep_output(b, op, VALUE_PLACES, PLACE_BYTES * d->expert_rows);
    op->kernels = op->backward_kernels = 2; /* of rows and of shares */
    if (b->options->sorts_in_flight)
        leave_to_dispatcher(op);
}

static void add_expert_activation(struct builder *b, double rows)
{
    b->region = REGION_EXPERT_ACTIVATION;
    struct op *op = add_activation(b, "expert_activation", rows, b->dims->expert_ffn);
    b->region = REGION_EXPERTS;
    op->bytes += SHARE_BYTES * rows;
    op->backward_bytes += 2 * SHARE_BYTES * rows;
    keep_output(b, op, VALUE_STATISTICS, SHARE_BYTES * rows);
}

/* The rows in the experts' products. The number of an expert's rows is rounded up to a multiple of
 * recipe->aligned_rows, a. If that number varies, this adds (a - 1)/2 rows per expert on
 * average. It does not vary with a capacity. */
static double padded_rows(const struct builder *b)
{
    const struct recipe *recipe = b->options->recipe;
    const struct layer_dims *d = b->dims;
    if (!recipe || d->experts <= 0)
        return d->expert_rows;
    double aligned = recipe->aligned_rows;
    if (!routing_is_even(&b->model->routing) && !d->is_padded)
        return d->expert_rows + d->experts * (aligned - 1) / 2;
    return d->experts * aligned * ceil(d->expert_rows / d->experts / aligned);
}

/* Copies the current rows to or from blocks that start at multiples of the recipe's alignment
 * (Transformer Engine, Fp8Padding and Fp8Unpadding in Megatron Core's TEGroupedMLP). Hybrid-EP
 * writes aligned blocks as it receives rows. Nothing is copied if all numbers of rows are multiples
 * already (Fp8Padding.forward returns its input), as is the case if the capacity is such a
 * multiple. */
static void add_padding(struct builder *b, const char *name, double padded, double element_bytes,
                        double gradient_bytes)
{
    const struct layer_dims *d = b->dims;
    bool is_aligned = d->is_padded && padded == d->expert_rows;
    if (!b->options->recipe || !b->options->pads_rows || b->options->sorts_in_flight || is_aligned)
        return;
    struct op *op = add_op(b, OP_SORT, name, d->expert_rows, d->hidden);
    op->batch = d->experts;
    op->bytes = element_bytes * (d->expert_rows + padded) * d->hidden;
    op->backward_bytes = gradient_bytes * (d->expert_rows + padded) * d->hidden;
    b->ops.operands->values[b->value].bytes = element_bytes * padded * d->hidden;
}

/* Adds the kernels that add biases to the current rows, if the product does not do this. */
static void add_expert_bias(struct builder *b, const char *name, enum unfused_op unfused,
                            double rows, double width)
{
    if (!b->model->expert_bias || !b->options->unfused ||
        b->options->unfused->of[unfused].kernels <= 0)
        return;
    struct op *op = add_op(b, OP_ACTIVATION, name, rows, width);
    set_unfused(b, op, unfused, op->m * op->n);
}

static void add_routed_experts(struct builder *b)
{
    const struct layer_dims *d = b->dims;
    int rows = b->value, shares, places;
    double padded = padded_rows(b);
    double inputs = model_is_gated(b->model) ? 2 : 1;
    b->region = REGION_EXPERTS;
    if (is_in_turn(b)) {
        add_choices_in_turn(b, &shares, &places);
    } else {
        add_router(b);
        add_route(b, &shares, &places);
    }
    b->value = rows;
    add_dispatch(b, shares, places);
    add_expert_mark(b, OP_EXPERT_ENTER, "expert_enter", arriving_rows(b));
    add_sort(b, "expert_sort", d->expert_rows, sent_bytes(b), b->element_bytes);
    struct linear fc1 = { .name = "expert_fc1",
                          .out = inputs * d->expert_ffn,
                          .in = d->hidden,
                          .rows = padded,
                          .groups = d->experts,
                          .has_bias = b->model->expert_bias };
    struct linear fc2 = { .name = "expert_fc2",
                          .out = d->hidden,
                          .in = d->expert_ffn,
                          .rows = padded,
                          .groups = d->experts,
                          .has_bias = b->model->expert_bias };
    add_padding(b, "expert_pad", padded, sent_bytes(b), b->element_bytes);
    add_arrived_quantize(b, padded);
    add_linear(b, &fc1);
    add_expert_bias(b, "expert_fc1_bias", UNFUSED_EXPERT_BIAS, padded, fc1.out);
    add_expert_activation(b, padded);
    add_quantize(b, "expert_fc2_input", padded, d->expert_ffn);
    add_linear(b, &fc2);
    add_expert_bias(b, "expert_fc2_bias", UNFUSED_EXPERT_SHARE_BIAS, padded, fc2.out);
    add_padding(b, "expert_unpad", padded, b->element_bytes, sent_bytes(b));
    add_sort(b, "expert_unsort", arriving_rows(b), b->element_bytes, sent_bytes(b));
    add_expert_mark(b, OP_EXPERT_LEAVE, "expert_leave", b->dims->sent_rows);
    struct op *op = add_op(b, OP_COMBINE, "combine", d->norm_tokens, d->hidden);
    op->k = b->model->topk;
    op->bytes = op->backward_bytes =
        b->element_bytes * d->hidden * (d->norm_tokens + b->dims->sent_rows);
    ids_add(&op->in, places);
    ids_add(&op->saved, places);
    op->kernels = op->backward_kernels = 0;
    add_launches(op, add_up_rows);
    if (b->options->sends_tokens)
        leave_to_dispatcher(op);
    b->region = REGION_REST;
}

/* Multiplies the current rows by their gates, one number for each row; keeps both factors. */
static void add_gated(struct builder *b, int gate)
{
    const struct layer_dims *d = b->dims;
    double values = d->norm_tokens * d->hidden;
    struct op *op = add_op(b, OP_ACTIVATION, "shared_gated", d->norm_tokens, d->hidden);
    op->bytes = 2 * b->element_bytes * values;
    op->backward_bytes = 3 * b->element_bytes * values;
    ids_add(&op->in, gate);
    keep_input(b, op);
    keep(b, op, gate);
}

/* Adds the shared expert's output for `rows` to the current value, the routed experts' output. The
 * model may gate the shared output first. */
static void add_shared_expert(struct builder *b, int rows)
{
    const struct layer_dims *d = b->dims;
    int routed = b->value, gate = NO_ID;
    b->region = REGION_SHARED_EXPERT;
    b->value = rows;
    if (b->model->shared_gate) {
        struct linear product = { .name = "shared_gate",
                                  .out = 1,
                                  .in = d->hidden,
                                  .rows = d->norm_tokens,
                                  .summed = SUMMED_OVER_TOKENS };
        add_gemm(b, &product);
        gate = b->value;
        b->value = rows;
    }
    struct feed_forward shared = { .enter = "shared_enter",
                                   .input = "shared_fc1_input",
                                   .fc1 = "shared_fc1",
                                   .activation = "shared_activation",
                                   .middle = "shared_fc2_input",
                                   .fc2 = "shared_fc2",
                                   .leave = "shared_leave",
                                   .width = d->shared_ffn };
    add_feed_forward(b, &shared);
    if (gate != NO_ID)
        add_gated(b, gate);
    b->region = REGION_REST;
    struct op *op = add_op(b, OP_RESIDUAL, "shared_add", d->norm_tokens, d->hidden);
    op->bytes = 3 * b->element_bytes * op->m * op->n;
    op->backward_kernels = 0;
    ids_add(&op->in, routed);
}

void add_expert_block(struct builder *b)
{
    begin_part(b, "ffn_norm", true);
    int rows = b->value;
    add_routed_experts(b);
    if (b->dims->shared_ffn > 0)
        add_shared_expert(b, rows);
    end_part(b, "ffn_after_norm", "ffn_residual");
}
