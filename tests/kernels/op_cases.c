#include "tests/kernels/op_cases.h"

#include "models/model.h"
#include "tests/kernels/op_case.h"
#include "tests/testing.h"

#include <assert.h>

#define DRAW                                      \
    {                                             \
        .seed = 5, .step = 2, .layer = 1, .op = 3 \
    }
static const struct draw draw = DRAW;

/* --- linear layers ------------------------------------------------------------------------ */

static void run_linear(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    b->linear_forward(b->self, &(struct linear_forward){ c->rows, c->width, c->inner, at[0], at[1],
                                                         at[2], at[3], NULL });
    b->linear_forward(b->self, &(struct linear_forward){ c->rows, c->width, c->inner, at[0], at[1],
                                                         NULL, at[4], NULL });
    b->linear_input_gradient(b->self, &(struct linear_input_gradient){ c->rows, c->width, c->inner,
                                                                       at[5], at[1], at[6], NULL });
    b->linear_weight_gradient(b->self,
                              &(struct linear_weight_gradient){ c->rows, c->width, c->inner, at[5],
                                                                at[0], at[7], at[8] });
    b->linear_weight_gradient(
        b->self,
        &(struct linear_weight_gradient){ c->rows, c->width, c->inner, at[5], at[0], at[9], NULL });
}

static struct op_case linear_case(long rows, long out, long in)
{
    struct op_case c = {
        .name = "linear", .run = run_linear, .rows = rows, .width = out, .inner = in
    };
    add(&c, "x", VALUES, IN, rows, in);
    add(&c, "weight", VALUES, IN, out, in);
    add(&c, "bias", VALUES, IN, 1, out);
    add(&c, "y", VALUES, OUT, rows, out);
    add(&c, "y without bias", VALUES, OUT, rows, out);
    add(&c, "dy", VALUES, IN, rows, out);
    add(&c, "dx", VALUES, OUT, rows, in);
    add(&c, "dweight", FLOATS, IN_OUT, out, in);
    add(&c, "dbias", FLOATS, IN_OUT, 1, out);
    add(&c, "dweight alone", FLOATS, IN_OUT, out, in);
    return c;
}

/* A product with an inner dimension for which cuBLASLt was seen to lose terms
 * (kernels/cuda/gemm_tune.c). */
static struct op_case long_sums_case(void)
{
    enum { TERMS = 11528 };
    struct op_case c = linear_case(32, 32, TERMS);
    c.terms = TERMS;
    return c;
}

static void run_linear_gelu(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    b->linear_forward(b->self, &(struct linear_forward){ c->rows, c->width, c->inner, at[0], at[1],
                                                         at[2], at[3], at[4] });
    b->linear_forward(b->self, &(struct linear_forward){ c->rows, c->width, c->inner, at[0], at[1],
                                                         NULL, at[5], at[6] });
    b->linear_input_gradient(
        b->self,
        &(struct linear_input_gradient){ c->rows, c->width, c->inner, at[7], at[1], at[9], at[8] });
}

static struct op_case linear_gelu_case(long rows, long out, long in)
{
    struct op_case c = {
        .name = "linear with gelu", .run = run_linear_gelu, .rows = rows, .width = out, .inner = in
    };
    c.roundings = 2; /* the product is rounded, and gelu again if it is a separate kernel */
    add(&c, "x", VALUES, IN, rows, in);
    add(&c, "weight", VALUES, IN, out, in);
    add(&c, "bias", VALUES, IN, 1, out);
    add(&c, "y", VALUES, OUT, rows, out);
    add(&c, "product", VALUES, OUT, rows, out);
    add(&c, "y without bias", VALUES, OUT, rows, out);
    add(&c, "product without bias", VALUES, OUT, rows, out);
    add(&c, "dy", VALUES, IN, rows, out);
    add(&c, "gelu's input", VALUES, IN, rows, in);
    add(&c, "dx", VALUES, OUT, rows, in);
    return c;
}

static void run_bias_gradient(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    b->linear_bias_gradient(b->self,
                            &(struct linear_bias_gradient){ c->rows, c->width, at[0], at[1] });
}

static struct op_case bias_gradient_case(long rows, long width)
{
    struct op_case c = {
        .name = "bias gradient", .run = run_bias_gradient, .rows = rows, .width = width
    };
    add(&c, "dy", VALUES, IN, rows, width);
    add(&c, "dbias", FLOATS, IN_OUT, 1, width);
    return c;
}

/* --- norms -------------------------------------------------------------------------------- */

static void run_norm(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    struct norm norm = { c->rows, c->width, 1e-5F };
    b->norm_forward(b->self,
                    &(struct norm_forward){ norm, c->kind, at[0], at[1], at[2], at[3], at[4] });
    b->norm_backward(b->self, &(struct norm_backward){ norm, c->kind, at[5], at[0], at[1], at[4],
                                                       at[5], at[6], at[7], NULL });
    b->norm_backward(b->self, &(struct norm_backward){ norm, c->kind, at[8], at[0], at[1], at[4],
                                                       at[9], at[6], at[7], at[9] });
}

static struct op_case norm_case(int kind, long rows, long width)
{
    struct op_case c = { .name = kind == NORM_LAYER ? "layer norm" : "rms norm",
                         .run = run_norm,
                         .rows = rows,
                         .width = width,
                         .kind = kind };
    bool is_layer = kind == NORM_LAYER;
    add(&c, "x", VALUES, IN, rows, width);
    add(&c, "gamma", VALUES, IN, 1, width);
    add(&c, "beta", VALUES, IN, 1, width);
    add(&c, "y", VALUES, OUT, rows, width);
    add(&c, "statistics", FLOATS, OUT, is_layer ? 2 : 1, rows);
    add(&c, "dx", VALUES, IN_OUT, rows, width);
    add(&c, "dgamma", FLOATS, IN_OUT, 1, width);
    add(&c, "dbeta", FLOATS, is_layer ? IN_OUT : IN, 1, width);
    add(&c, "dy", VALUES, IN, rows, width);
    add(&c, "the stream's gradient", VALUES, IN_OUT, rows, width);
    return c;
}

/* --- element by element ------------------------------------------------------------------- */

static void run_activation(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    struct activation_shape shape = { (enum activation_kind)c->kind, c->rows, c->width };
    b->activation(b->self, &(struct activation_args){ shape, at[0], at[1], at[2] });
    b->activation_gradient(b->self,
                           &(struct activation_gradient){ shape, at[3], at[0], at[1], at[4] });
    b->activation(b->self, &(struct activation_args){ shape, at[0], NULL, at[5] });
}

static struct op_case activation_case(enum activation_kind kind, long rows, long width)
{
    struct op_case c = {
        .name = "activation", .run = run_activation, .rows = rows, .width = width, .kind = (int)kind
    };
    long inputs = activation_inputs(&(struct activation_shape){ kind, 1, width });
    add(&c, "x", VALUES, IN, rows, inputs);
    add(&c, "bias", VALUES, IN, 1, inputs);
    add(&c, "y", VALUES, OUT, rows, width);
    add(&c, "dy", VALUES, IN, rows, width);
    add(&c, "dx", VALUES, OUT, rows, inputs);
    add(&c, "y without bias", VALUES, OUT, rows, width);
    return c;
}

static void run_residual(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    struct residual residual = { c->rows, c->width, c->dropout, draw, 77, TOKENS_OF_A_SEQUENCE };
    residual.draw.place = at[10];
    uint8_t *keeps = c->dropout > 0 ? at[4] : NULL;
    b->residual(b->self, &(struct residual_args){ residual, at[0], at[1], at[2], keeps, at[3] });
    b->residual(b->self, &(struct residual_args){ residual, at[0], NULL, NULL, keeps, at[5] });
    b->residual_gradient(b->self, &(struct residual_gradient){ residual, at[0], keeps, at[6] });
    b->sum_into(b->self, &(struct sum_into){ c->rows * c->width, at[0], at[7] });
    b->gradient_sum(b->self, &(struct gradient_sum){ c->rows * c->width, at[8], at[9] });
}

static struct op_case residual_case(double dropout, long rows, long width)
{
    struct op_case c = {
        .name = "residual", .run = run_residual, .rows = rows, .width = width, .dropout = dropout
    };
    add(&c, "x", VALUES, IN, rows, width);
    add(&c, "bias", VALUES, IN, 1, width);
    add(&c, "h", VALUES, IN, rows, width);
    add(&c, "y", VALUES, OUT, rows, width);
    add(&c, "keeps", BYTES, dropout > 0 ? OUT : IN, rows, width);
    add(&c, "y without bias and h", VALUES, OUT, rows, width);
    add(&c, "dx", VALUES, OUT, rows, width);
    add(&c, "sum", VALUES, IN_OUT, rows, width);
    add(&c, "gradients", FLOATS, IN, rows, width);
    add(&c, "sum of gradients", FLOATS, IN_OUT, rows, width);
    add_place(&c);
    return c;
}

static void run_residual_norm(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    struct residual residual = { c->rows, c->width, c->dropout, draw, 77, TOKENS_OF_A_SEQUENCE };
    residual.draw.place = at[9];
    struct norm norm = { c->rows, c->width, 1e-5F };
    uint8_t *keeps = c->dropout > 0 ? at[3] : NULL;
    b->residual_norm(
        b->self, &(struct residual_norm){ { residual, at[0], at[1], at[2], keeps, at[4] },
                                          { norm, c->kind, at[4], at[5], at[6], at[7], at[8] } });
}

static struct op_case residual_norm_case(int kind, double dropout, long rows, long width)
{
    struct op_case c = { .name = "residual and norm",
                         .run = run_residual_norm,
                         .rows = rows,
                         .width = width,
                         .kind = kind,
                         .dropout = dropout };
    add(&c, "x", VALUES, IN, rows, width);
    add(&c, "bias", VALUES, IN, 1, width);
    add(&c, "h", VALUES, IN, rows, width);
    add(&c, "keeps", BYTES, dropout > 0 ? OUT : IN, rows, width);
    add(&c, "stream", VALUES, OUT, rows, width);
    add(&c, "gamma", VALUES, IN, 1, width);
    add(&c, "beta", VALUES, IN, 1, width);
    add(&c, "y", VALUES, OUT, rows, width);
    add(&c, "statistics", FLOATS, OUT, kind == NORM_LAYER ? 2 : 1, rows);
    add_place(&c);
    return c;
}

/* --- lists of all cases ------------------------------------------------------------------- */

static const struct attention_dropout dropout = {
    .dropout = 0.25, .draw = DRAW, .first_sequence = 4, .first_head = 6, .model_heads = 24
};

/* Sizes equal to, below and above the work of a thread, a warp, a tile and a block. Some rows are
 * multiples of 16 bytes. */
static const struct attention attentions[] = {
    { .sequences = 3, .seq = 6, .heads = 2, .kv_heads = 1, .head_dim = 4 },
    { .sequences = 1, .seq = 35, .heads = 6, .kv_heads = 2, .head_dim = 10 },
    { .sequences = 1, .seq = 67, .heads = 2, .kv_heads = 2, .head_dim = 16 },
};
/* Head sizes that tensor cores support; sequences below, at and above a tile. */
static const struct attention tiled[] = {
    { .sequences = 2, .seq = 7, .heads = 2, .kv_heads = 1, .head_dim = 64 },
    { .sequences = 1, .seq = 131, .heads = 1, .kv_heads = 1, .head_dim = 64 },
    { .sequences = 1, .seq = 70, .heads = 1, .kv_heads = 1, .head_dim = 80 },
    { .sequences = 1, .seq = 33, .heads = 3, .kv_heads = 1, .head_dim = 96 },
    { .sequences = 1, .seq = 65, .heads = 1, .kv_heads = 1, .head_dim = 112 },
    { .sequences = 1, .seq = 81, .heads = 1, .kv_heads = 1, .head_dim = 128 },
};
/* Shapes in which several heads share a key. The key's gradient is then a sum of partial sums over
 * heads; in the last shape each partial sum covers two heads. */
static const struct attention grouped[] = {
    { .sequences = 2, .seq = 9, .heads = 4, .kv_heads = 2, .head_dim = 128 },
    { .sequences = 1, .seq = 70, .heads = 16, .kv_heads = 2, .head_dim = 64 },
};
/* Shapes for attention with dropout by tiles. A row of the score matrix must use whole blocks of
 * the random generator, so `seq` is a multiple of the block's values. The first shape has one group
 * of heads, the second has two. */
static const struct attention drawn[] = {
    { .sequences = 2, .seq = 36, .heads = 2, .kv_heads = 1, .head_dim = 64 },
    { .sequences = 1, .seq = 68, .heads = 2, .kv_heads = 2, .head_dim = 128 },
    { .sequences = 1, .seq = 36, .heads = 1, .kv_heads = 1, .head_dim = 80 },
    { .sequences = 1, .seq = 36, .heads = 1, .kv_heads = 1, .head_dim = 96 },
    { .sequences = 1, .seq = 36, .heads = 2, .kv_heads = 1, .head_dim = 112 },
};

enum { MOST_CASES = 128 };
static struct case_list {
    struct op_case at[MOST_CASES];
    int count;
} cases;

static void list(struct op_case c)
{
    assert(cases.count < MOST_CASES);
    cases.at[cases.count++] = c;
}

static void list_each(struct op_case (*of)(struct attention), const struct attention *shapes,
                      int count)
{
    for (int i = 0; i < count; i++)
        list(of(shapes[i]));
}

static struct attention dropped(struct attention attention)
{
    attention.dropout = dropout;
    return attention;
}

static void list_rows(long rows, long width)
{
    list(bias_gradient_case(rows, width));
    list(norm_case(NORM_LAYER, rows, width));
    list(norm_case(NORM_RMS, rows, width));
    for (int kind = ACTIVATION_GELU; kind <= ACTIVATION_RELU2; kind++)
        list(activation_case((enum activation_kind)kind, rows, width));
    list(residual_case(0, rows, width));
    list(residual_case(0.1, rows, width));
    list(residual_norm_case(NORM_LAYER, 0.1, rows, width));
    list(residual_norm_case(NORM_RMS, 0, rows, width));
    list(embedding_case(rows, width));
    list(loss_case(rows, width, width + 4));
}

static void list_cases(void)
{
    if (cases.count > 0)
        return;
    list_rows(7, 13);
    list_rows(67, 24);
    list_rows(5, 2056);
    list(residual_norm_case(NORM_LAYER, 0, 7, 13));
    list(residual_norm_case(NORM_LAYER, 0, 7, 24));
    list(residual_norm_case(NORM_RMS, 0.1, 7, 13));
    list(norm_case(NORM_LAYER, 3, 768)); /* only some warps of a block have work */
    for (int kind = NORM_LAYER; kind <= NORM_RMS; kind++) {
        list(norm_case(kind, 3, 4200)); /* a thread has several ranges of columns */
        list(norm_case(kind, 2, 8200));
        list(norm_case(kind, 2, 16392)); /* a row has more values than registers hold */
    }
    list(residual_norm_case(NORM_RMS, 0.1, 3, 768));
    list(embedding_case(301, 8));
    list(linear_case(5, 7, 3));
    list(linear_case(33, 48, 24));
    list(linear_case(40, 48, 24));
    list(long_sums_case());
    list(linear_gelu_case(5, 7, 3));
    list(linear_gelu_case(32, 48, 24));
    list(linear_gelu_case(32, 44, 20));
    list_each(head_norm_case, attentions, LENGTH(attentions));
    list_each(rotary_case, attentions, LENGTH(attentions));
    list_each(unfused_case, attentions, LENGTH(attentions));
    list_each(flash_case, attentions, LENGTH(attentions));
    list_each(flash_case, tiled, LENGTH(tiled));
    list(flash_case(dropped(tiled[3])));
    for (int i = 0; i < LENGTH(drawn); i++)
        list(flash_case(dropped(drawn[i])));
    list(unfused_case(dropped(attentions[1])));
    list(flash_case(dropped(attentions[1])));
    list_each(flash_case, grouped, LENGTH(grouped));
    for (int optimizer = SGD; optimizer <= ADAMW; optimizer++)
        list(update_case(optimizer, 1003));
    list(squares_case(1003));
    list(squares_case(1024));
    list(squares_case(600000)); /* a thread has more than one value */
    cases.count += op_exchange_cases(cases.at + cases.count);
}

const struct op_case *op_cases(int *count)
{
    list_cases();
    *count = cases.count;
    return cases.at;
}
