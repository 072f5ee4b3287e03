/* Functions that append one op, or a few, to an op list. A mark is an op that stands where tensor
 * ranks communicate; it is replaced by collectives later. The residual stream is the sum to which
 * every half of a block adds its output. */
#include "models/layer_part.h"

#include "models/trainable.h"

#include <assert.h>
#include <string.h>

enum { MAX_LAYER_OPS = 128 };

double layer_element_bytes(const struct layer_options *options)
{
    return dtype_bytes(options->dtype);
}

bool is_fused(const struct builder *b, enum fusion fusion)
{
    return (b->options->fusions >> fusion & 1) != 0;
}

void set_unfused(const struct builder *b, struct op *op, enum unfused_op unfused, double values)
{
    if (!b->options->unfused)
        return;
    const struct unfused *of = &b->options->unfused->of[unfused];
    op->bytes = values * (of->values * b->element_bytes + of->bytes);
    op->backward_bytes = values * (of->backward_values * b->element_bytes + of->backward_bytes);
    op->kernels = of->kernels;
    op->backward_kernels = of->backward_kernels;
    op->kept_bytes = values * (of->kept_values * b->element_bytes + of->kept_bytes);
}

struct builder layer_begin(const struct model *model, const struct layer_dims *dims,
                           const struct layer_options *options, struct arena *arena)
{
    return (struct builder){
        .model = model,
        .dims = dims,
        .options = options,
        .element_bytes = layer_element_bytes(options),
        .arena = arena,
        .ops = { .at = ARENA_ROOM(arena, struct op, MAX_LAYER_OPS),
                 .operands = ARENA_NEW(arena, struct operands),
                 .input = NO_ID,
                 .output = NO_ID },
        .value = NO_ID,
        .stream = NO_ID,
        .entered = NO_ID,
        .normed = NO_ID,
        .branch = NO_ID,
    };
}

/* --- operands --------------------------------------------------------------------------------- */

static int new_value(struct builder *b, enum value_form form, double bytes)
{
    return operands_add_value(b->ops.operands, (struct op_value){ .form = form, .bytes = bytes });
}

int add_input(struct builder *b, double rows, double width)
{
    b->value = new_value(b, VALUE_ROWS, b->element_bytes * rows * width);
    return b->value;
}

int add_output(struct builder *b, struct op *op, enum value_form form, double bytes)
{
    int value = new_value(b, form, bytes);
    ids_add(&op->out, value);
    return value;
}

void keep_output(struct builder *b, struct op *op, enum value_form form, double bytes)
{
    ids_add(&op->saved, add_output(b, op, form, bytes));
}

static bool is_enter(const struct op *op)
{
    return op->kind == OP_TENSOR_ENTER || op->kind == OP_CP_ENTER;
}

bool region_keeps_gathered(const struct layer_options *options, enum op_region region)
{
    return options->keeps_gathered || (options->shared_beside && region == REGION_SHARED_EXPERT);
}

void keep(struct builder *b, struct op *op, int value)
{
    int maker = ops_maker(&b->ops, value);
    bool is_gathered = maker >= 0 && b->ops.at[maker].kind == OP_TENSOR_ENTER;
    if (maker >= 0 && is_enter(&b->ops.at[maker]) &&
        !(is_gathered && region_keeps_gathered(b->options, op->region)))
        value = b->ops.at[maker].in.at[0];
    ids_add(&op->saved, value);
}

void keep_input(struct builder *b, struct op *op)
{
    keep(b, op, op->in.at[0]);
}

struct op_weight *add_weight(struct builder *b, struct op *op, enum weight_role role, double rows,
                             double columns)
{
    struct operands *operands = b->ops.operands;
    int id = operands_add_weight(
        operands, (struct op_weight){ .name = op->name,
                                      .role = role,
                                      .rows = rows,
                                      .columns = columns,
                                      .is_frozen = !model_trains(b->model, b->place, op->name),
                                      .is_of_adapter = b->place == WEIGHT_OF_ADAPTER });
    ids_add(&op->weights, id);
    return &operands->weights[id];
}

/* --- ops -------------------------------------------------------------------------------------- */

/* Whether an op gets a draw number, the index that selects its random numbers. Collectives,
 * quantisation and the ops inside attention do not, so every layout, every stack and both flash and
 * plain attention draw the same numbers. */
static bool has_number(enum op_kind kind)
{
    switch (kind) {
    case OP_TENSOR_ENTER:
    case OP_TENSOR_LEAVE:
    case OP_TENSOR_JOIN:
    case OP_CP_ENTER:
    case OP_CP_LEAVE:
    case OP_QUANTIZE:
    case OP_EXPERT_ENTER:
    case OP_EXPERT_LEAVE:
    case OP_SCORES:
    case OP_SOFTMAX:
        return false;
    default:
        return !op_is_collective(kind);
    }
}

struct op *add_reader(struct builder *b, enum op_kind kind, const char *name, double m, double n)
{
    assert(b->ops.count < MAX_LAYER_OPS);
    struct op *op = &b->ops.at[b->ops.count];
    *op = (struct op){
        .kind = kind,
        .name = name,
        .variant = "",
        .dtype = b->options->dtype,
        .sum = { NO_ID, NO_ID, NO_ID },
        .draw = b->draws,
        .region = b->region,
        .m = m,
        .n = n,
        .k = 1,
        .batch = 1,
        .kernels = 1,
        .backward_kernels = 1,
        .after = b->ops.count - 1,
    };
    b->draws = (short)(b->draws + has_number(kind));
    b->ops.count++;
    if (b->value != NO_ID)
        ids_add(&op->in, b->value);
    return op;
}

struct op *add_op(struct builder *b, enum op_kind kind, const char *name, double m, double n)
{
    struct op *op = add_reader(b, kind, name, m, n);
    b->value = add_output(b, op, VALUE_ROWS, b->element_bytes * m * n);
    return op;
}

struct op *add_op_in_place(struct builder *b, enum op_kind kind, const char *name, double m,
                           double n)
{
    struct op_value value = b->ops.operands->values[b->value];
    struct op *op = add_reader(b, kind, name, m, n);
    b->value = add_output(b, op, value.form, value.bytes);
    return op;
}

/* A norm reads the residual stream, writes as much, and keeps fp32 statistics. The backward reads
 * input and gradient and writes a gradient. A second kernel makes the weight gradients: from
 * partial sums of the first kernel, which are small, or from input and gradient, which it reads
 * again. */
static void size_norm(struct builder *b, struct op *op, enum norm_kind kind)
{
    double values_bytes = b->element_bytes * op->m * op->n;
    bool one_kernel = is_fused(b, FUSION_NORM) || is_fused(b, FUSION_RESIDUAL_NORM);
    op->which = (short)kind;
    op->variant = norm_names[kind];
    op->bytes = 2 * values_bytes;
    op->backward_bytes = (b->options->norm_reads_twice ? 5 : 3) * values_bytes;
    op->backward_kernels = 2;
    if (!one_kernel)
        set_unfused(b, op, UNFUSED_NORM, op->m * op->n);
    keep_output(b, op, VALUE_STATISTICS, op->m * (kind == NORM_RMS ? 4 : 8));
}

struct op *add_norm(struct builder *b, const char *name, double rows, double width)
{
    return add_norm_of(b, (enum norm_kind)b->model->norm, name, rows, width);
}

struct op *add_norm_of(struct builder *b, enum norm_kind kind, const char *name, double rows,
                       double width)
{
    struct op *op = add_op(b, OP_NORM, name, rows, width);
    keep_input(b, op);
    size_norm(b, op, kind);
    add_weight(b, op, WEIGHT_SCALE, 1, width)->summed = SUMMED_OVER_TOKENS;
    if (kind == NORM_LAYER)
        add_weight(b, op, WEIGHT_SHIFT, 1, width)->summed = SUMMED_OVER_TOKENS;
    return op;
}

static bool has_norm_before(const struct builder *b)
{
    return b->model->norm_place == NORMS_BEFORE || b->model->norm_place == NORMS_AROUND;
}

static bool has_norm_after(const struct builder *b)
{
    return b->model->norm_place == NORMS_AFTER || b->model->norm_place == NORMS_AROUND;
}

/* Whether attention and feed-forward of the block both read its input. */
static bool is_parallel(const struct builder *b)
{
    return b->model->parallel != PARALLEL_NO && b->model->attention != ATTENTION_NONE &&
           b->model->feed_forward != FEED_FORWARD_NONE;
}

void begin_part(struct builder *b, const char *norm, bool stands_alone)
{
    b->value = is_parallel(b) ? b->entered : b->stream;
    if (!has_norm_before(b))
        return;
    if (is_parallel(b) && b->model->parallel == PARALLEL_ONE_NORM && b->normed != NO_ID) {
        b->value = b->normed;
        return;
    }
    struct op *op = add_norm(b, norm, b->dims->norm_tokens, b->dims->hidden);
    if (stands_alone || !b->options->norms_in_products)
        op->region = REGION_NORM;
    b->normed = b->value;
}

void end_part(struct builder *b, const char *norm, const char *residual)
{
    if (has_norm_after(b))
        add_norm(b, norm, b->dims->norm_tokens, b->dims->hidden);
    if (is_parallel(b) && b->branch == NO_ID) {
        b->branch = b->value;
        return;
    }
    add_residual(b, residual);
    if (b->model->norm_place == NORMS_OF_SUM) {
        add_norm(b, norm, b->dims->norm_tokens, b->dims->hidden);
        b->stream = b->value;
    }
}

/* The norm runs in place, so it keeps a copy of its input. Queries and keys have separate scales,
 * whatever kind of norm the model has: one scale shared by all heads, or one for each head. */
void add_head_norm(struct builder *b, const char *name)
{
    const struct layer_dims *d = b->dims;
    double rows = d->tokens * (d->heads + d->kv_heads);
    struct op *op = add_op_in_place(b, OP_NORM, name, rows, d->head_dim);
    keep_output(b, op, VALUE_ROWS, b->element_bytes * rows * d->head_dim);
    size_norm(b, op, (enum norm_kind)b->model->norm);
    if (b->model->qk_norm_kind == QK_NORM_HEAD)
        add_weight(b, op, WEIGHT_SCALE, 2, d->head_dim)->summed = SUMMED_OVER_HEADS;
    else
        add_weight(b, op, WEIGHT_SCALE, d->heads + d->kv_heads, d->head_dim)->split = SPLIT_ROWS;
}

struct op *add_mark(struct builder *b, enum op_kind kind, const char *name, double width)
{
    struct op *op = add_op(b, kind, name, b->dims->tokens, width);
    op->kernels = 0;
    op->comm_bytes = b->element_bytes * op->m * op->n;
    if (kind == OP_TENSOR_LEAVE) /* the rank has these rows of the residual stream */
        b->ops.operands->values[b->value].bytes = b->element_bytes * b->dims->norm_tokens * op->n;
    return op;
}

/* A matrix product has 2 FLOPs per multiply-add. It keeps its input, sequence-sharded if that is
 * how it arrived. */
struct op *add_gemm(struct builder *b, const struct linear *linear)
{
    double element_bytes = b->element_bytes;
    double groups = linear->groups > 0 ? linear->groups : 1;
    double rows = linear->rows > 0 ? linear->rows : b->dims->tokens;
    struct op *op = add_op(b, OP_GEMM, linear->name, rows / groups, linear->out);
    op->k = linear->in;
    op->batch = groups;
    op->kernels = b->options->launches_each_expert ? groups : 1;
    memcpy(op->matrices, linear->matrices, sizeof op->matrices);
    op->flops = op->model_flops = 2 * rows * op->n * op->k;
    op->bytes = element_bytes * (rows * op->k + groups * op->k * op->n + rows * op->n);
    b->ops.operands->values[b->value].bytes = element_bytes * rows * op->n;
    keep_input(b, op);
    struct op_weight *matrix = add_weight(b, op, WEIGHT_MATRIX, groups * op->n, op->k);
    matrix->split = linear->split;
    matrix->summed = linear->summed;
    matrix->is_of_experts = linear->groups > 0;
    if (!linear->has_bias)
        return op;
    struct op_weight *bias = add_weight(b, op, WEIGHT_BIAS, groups * op->n, 1);
    bias->split = linear->split == SPLIT_COLUMNS ? SPLIT_NONE : linear->split;
    bias->summed = linear->summed;
    bias->is_of_experts = linear->groups > 0;
    return op;
}

/* If the backward can quantise the op's input again, sets the region of that input. Selective
 * recompute that drops the input then drops the copy too. */
static void mark_repeatable(const struct builder *b, struct op *op)
{
    int maker = ops_maker(&b->ops, op->in.at[0]);
    if (b->options->recipe->requantizes && b->options->stores.inputs != INPUT_QUANTIZED &&
        maker >= 0)
        op->source_region = b->ops.at[maker].region;
}

/* Quantises the next product's input. Weights are quantised once per step, outside the list. */
void add_quantize(struct builder *b, const char *name, double rows, double width)
{
    const struct recipe *recipe = b->options->recipe;
    if (!recipe)
        return;
    struct op *op = add_op(b, OP_QUANTIZE, name, rows, width);
    op->bytes = quantize_traffic_bytes(recipe, b->options->copies, rows * width);
    op->kernels = recipe->kernels;
    b->ops.operands->values[b->value].bytes = quantized_bytes(recipe) * rows * width;
    mark_repeatable(b, op);
}

/* Traffic of quantising the gradient of a product's output along rows and columns. */
static double gradient_quantize_bytes(const struct builder *b, double values)
{
    const struct recipe *recipe = b->options->recipe;
    double columns_bytes = b->options->stores.transposes_apart
                               ? transpose_traffic_bytes(recipe, 2 * values, values)
                               : 0;
    return quantize_traffic_bytes(recipe, b->options->copies, values) + columns_bytes;
}

/* Adds the gather of tokens that enter the tensor-parallel region. Sequence-sharded tokens are
 * quantised before they are gathered. In the forward these are the entering tokens; in the backward
 * they are the gradients of tokens that left. */
void add_enter(struct builder *b, const char *name, const char *quantize_name, double width)
{
    add_quantize(b, quantize_name, b->dims->norm_tokens, width);
    add_quantized_enter(b, name, width);
}

void add_quantized_enter(struct builder *b, const char *name, double width)
{
    struct op *op = add_mark(b, OP_TENSOR_ENTER, name, width);
    if (!b->options->recipe)
        return;
    op->dtype = b->options->recipe->products;
    op->comm_bytes = quantized_bytes(b->options->recipe) * op->m * op->n;
    b->ops.operands->values[b->value].bytes = op->comm_bytes;
}

void add_leave(struct builder *b, const char *name)
{
    const struct layer_dims *d = b->dims;
    struct op *op = add_mark(b, OP_TENSOR_LEAVE, name, d->hidden);
    if (!b->options->recipe)
        return;
    op->dtype = b->options->recipe->products;
    op->backward_bytes = gradient_quantize_bytes(b, d->norm_tokens * d->hidden);
    op->backward_kernels = b->options->recipe->kernels;
}

/* An adapter is a narrow product from the layer's input down to the adapter's rank, a second one up
 * to the layer's width, and a scaled sum with the layer's output. The sum is two kernels that move
 * five values per element, and in the backward one kernel that moves two (peft,
 * tuners/lora/layer.py). A layer split by columns reduces its own partial sums and the adapter's
 * together. Adapter weights that every tensor rank holds whole get partial gradients, which are
 * summed. */
static void add_adapter(struct builder *b, const struct linear *linear, int input)
{
    int product = b->value;
    bool is_split = linear->split != SPLIT_NONE;
    bool is_partial = linear->split == SPLIT_COLUMNS;
    struct linear down = { .name = "adapter_down",
                           .out = b->model->lora,
                           .in = linear->in,
                           .rows = linear->rows,
                           .groups = linear->groups,
                           .split = is_partial ? SPLIT_COLUMNS : SPLIT_NONE,
                           .summed = is_split && !is_partial ? SUMMED_OVER_HEADS : linear->summed };
    struct linear up = { .name = "adapter_up",
                         .out = linear->out,
                         .in = b->model->lora,
                         .rows = linear->rows,
                         .groups = linear->groups,
                         .split = is_split && !is_partial ? SPLIT_ROWS : SPLIT_NONE,
                         .summed = is_partial ? SUMMED_OVER_HEADS : linear->summed };
    b->value = input;
    b->place = WEIGHT_OF_ADAPTER;
    add_gemm(b, &down);
    add_gemm(b, &up);
    b->place = WEIGHT_OF_LAYERS;
    double rows = linear->rows > 0 ? linear->rows : b->dims->tokens;
    struct op *op = add_op(b, OP_RESIDUAL, "adapter_add", rows, linear->out);
    ids_add(&op->in, product);
    op->bytes = 5 * b->element_bytes * op->m * op->n;
    op->backward_bytes = 2 * b->element_bytes * op->m * op->n;
    op->kernels = 2;
}

double store_as(struct builder *b, int value, enum storage storage)
{
    struct op_value *of = &b->ops.operands->values[value];
    if (!b->options->recipe || storage == STORAGE_OWN)
        return 0;
    of->stored_bytes =
        of->bytes / b->element_bytes * stored_bytes(storage, b->options->recipe, b->element_bytes);
    return of->stored_bytes;
}

/* Whether the value is the output of an activation that the backward makes again. */
static bool is_remade(const struct builder *b, int value)
{
    int maker = ops_maker(&b->ops, value);
    return b->options->stores.remakes_activations && maker >= 0 &&
           b->ops.at[maker].kind == OP_ACTIVATION && b->ops.at[maker].in.count == 1;
}

/* Whether a product keeps the value that `quantize` read instead of the copy that it made. Tensor
 * ranks that keep gathered inputs keep the gathered copy. */
static bool keeps_source(const struct builder *b, const struct op *product,
                         const struct op *quantize)
{
    bool has_entered = quantize->out.at[0] != product->in.at[0];
    bool is_gathered = has_entered && b->dims->norm_tokens < b->dims->tokens;
    switch (b->options->stores.inputs) {
    case INPUT_SHARED:
        return ops_keep(&b->ops, quantize->in.at[0]) &&
               !(is_gathered && region_keeps_gathered(b->options, product->region));
    case INPUT_ORIGINAL:
        return !is_gathered;
    default:
        return false;
    }
}

/* Chooses what a quantised product keeps: the copy of its input that is quantised along columns,
 * for the weight gradient; or the input before it was quantised, or nothing. In the last two cases
 * the backward makes the copy, and the forward writes one copy less. */
static void choose_kept(struct builder *b, struct op *product)
{
    const struct recipe *recipe = b->options->recipe;
    int at = ops_quantizer(&b->ops, product->in.at[0]);
    struct op *quantize = at < 0 ? NULL : &b->ops.at[at];
    if (!quantize || !recipe->requantizes)
        return;
    int source = quantize->in.at[0];
    if (is_remade(b, source)) {
        product->saved.count = 0;
    } else if (keeps_source(b, product, quantize)) {
        product->saved.count = 0;
        ids_add(&product->saved, source);
    } else {
        return;
    }
    if (ops_readers(&b->ops, quantize->out.at[0]) == 1)
        quantize->bytes -=
            (b->options->copies - 1) * quantized_bytes(recipe) * quantize->m * quantize->n;
}

/* Usually the product keeps the copy of its input that is quantised along columns, for the weight
 * gradient (choose_kept). The gradient of a whole output is quantised by this op's backward; the
 * gradient of partial sums was quantised before it was gathered. */
static void add_product(struct builder *b, const struct linear *linear)
{
    const struct recipe *recipe = b->options->recipe;
    struct op *op = add_gemm(b, linear);
    if (!recipe)
        return;
    op->dtype = recipe->products;
    op->bytes = op->batch * (quantized_bytes(recipe) * (op->m * op->k + op->k * op->n) +
                             b->element_bytes * op->m * op->n);
    choose_kept(b, op);
    if (linear->split == SPLIT_COLUMNS)
        return;
    op->backward_bytes = gradient_quantize_bytes(b, op->batch * op->m * op->n);
    op->backward_kernels = recipe->kernels;
}

void add_linear(struct builder *b, const struct linear *linear)
{
    int input = b->value;
    add_product(b, linear);
    if (model_adapts(b->model, linear->name))
        add_adapter(b, linear, input);
}

/* The product that made a value, directly or through a sum over tensor ranks; NULL: another kind of
 * op made it. */
static const struct op *product_behind(const struct builder *b, int value)
{
    int maker = ops_maker(&b->ops, value);
    while (maker >= 0 && b->ops.at[maker].kind == OP_TENSOR_LEAVE)
        maker = ops_maker(&b->ops, b->ops.at[maker].in.at[0]);
    return maker >= 0 && b->ops.at[maker].kind == OP_GEMM ? &b->ops.at[maker] : NULL;
}

/* If the previous product left its bias to its reader, lets `op` add it; returns whether there was
 * one. */
static bool read_product(struct builder *b, const struct op *product, struct op *op)
{
    struct op_weight *weights = b->ops.operands->weights;
    if (!product)
        return false;
    struct op_weight *matrix = &weights[product->weights.at[0]];
    matrix->feeds_stream = true;
    bool has_bias = product->weights.count > 1 && matrix->split == SPLIT_COLUMNS;
    if (has_bias)
        ids_add(&op->weights, product->weights.at[1]);
    return has_bias;
}

/* Makes the residual sum of parallel attention and feed-forward also read the output of the first.
 * With dropout, each has a mask of its own. */
static void read_branch(struct builder *b, struct op *op)
{
    double values = op->m * op->n;
    if (b->branch == NO_ID)
        return;
    ids_add(&op->in, b->branch);
    read_product(b, product_behind(b, b->branch), op);
    op->bytes += values * b->element_bytes;
    if (b->model->dropout == 0)
        return;
    op->bytes += values;
    op->backward_bytes += values * (2 * b->element_bytes + 1);
    keep_output(b, op, VALUE_MASK, values);
}

/* Bias, dropout, and the sum with the residual stream. The backward applies the dropout mask to the
 * branch's gradient and adds the gradients of the two branches. If norms' kernels add these
 * gradients, this op only copies the stream's gradient for the branch. */
void add_residual(struct builder *b, const char *name)
{
    double element_bytes = b->element_bytes;
    bool dropout = b->model->dropout > 0;
    bool one_kernel = is_fused(b, FUSION_RESIDUAL) || is_fused(b, FUSION_RESIDUAL_NORM);
    const struct op *product = product_behind(b, b->value);
    struct op *op = add_op(b, OP_RESIDUAL, name, b->dims->norm_tokens, b->dims->hidden);
    if (b->stream != NO_ID) {
        ids_add(&op->in, b->stream);
        b->stream = b->value;
    }
    bool bias = read_product(b, product, op);
    op->variant = dropout ? "dropout" : "";
    double values = op->m * op->n;
    double separate = (bias ? 2 * element_bytes : 0) + (dropout ? 2 * element_bytes : 0);
    op->bytes = values * (3 * element_bytes + (dropout ? 1 : 0) + (one_kernel ? 0 : separate));
    bool norms_add = is_fused(b, FUSION_RESIDUAL_NORM);
    double branch_bytes = 2 * element_bytes + (dropout ? 1 : 0);
    op->backward_bytes =
        values * (norms_add ? branch_bytes : 3 * element_bytes + (dropout ? branch_bytes : 0));
    op->kernels = one_kernel ? 1 : 1 + (bias ? 1 : 0) + (dropout ? 1 : 0);
    op->backward_kernels = dropout && !norms_add ? 2 : 1;
    if (dropout)
        keep_output(b, op, VALUE_MASK, values);
    read_branch(b, op);
}
