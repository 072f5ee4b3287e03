#include "tests/kernels/op_case.h"
#include "tests/testing.h"

#include <stdlib.h>
#include <string.h>

static void run_head_norm(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    b->head_norm_forward(
        b->self, &(struct head_norm_forward){ c->attention, 1e-5F, at[0], at[1], at[2], at[3] });
    b->head_norm_backward(
        b->self, &(struct head_norm_backward){ c->attention, at[0], at[2], at[3], at[4], at[5] });
}

struct op_case head_norm_case(struct attention a)
{
    struct op_case c = { .name = "head norm", .run = run_head_norm, .attention = a };
    long tokens = attention_tokens(&a), width = attention_qkv_width(&a);
    add(&c, "gamma", VALUES, IN, 2, a.head_dim);
    add(&c, "qkv", VALUES, IN_OUT, tokens, width);
    add(&c, "inputs", VALUES, OUT, tokens, (a.heads + a.kv_heads) * a.head_dim);
    add(&c, "statistics", FLOATS, OUT, tokens, a.heads + a.kv_heads);
    add(&c, "dqkv", VALUES, IN_OUT, tokens, width);
    add(&c, "dgamma", FLOATS, IN_OUT, 2, a.head_dim);
    return c;
}

static void run_rotary(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    b->rotary_forward(b->self, &(struct rotary){ c->attention, at[0], at[1] });
    b->rotary_backward(b->self, &(struct rotary){ c->attention, at[0], at[2] });
}

struct op_case rotary_case(struct attention a)
{
    struct op_case c = { .name = "rotary", .run = run_rotary, .attention = a };
    add(&c, "rope_cos_sin", FLOATS, IN, a.seq, a.head_dim);
    add(&c, "qkv", VALUES, IN_OUT, attention_tokens(&a), attention_qkv_width(&a));
    add(&c, "dqkv", VALUES, IN_OUT, attention_tokens(&a), attention_qkv_width(&a));
    return c;
}

static void run_flash(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    size_t bytes = b->flash_scratch_bytes(b->self, &c->attention);
    char *poison = malloc(bytes + 1);
    ck_assert_ptr_nonnull(poison);
    memset(poison, 0xff, bytes);
    void *scratch = b->copy_in(b->self, poison, bytes);
    struct attention a = c->attention;
    a.dropout.draw.place = at[5];
    b->flash_forward(b->self, &(struct flash_forward){ a, at[0], at[1], at[2], scratch });
    b->flash_backward(b->self,
                      &(struct flash_backward){ a, at[3], at[0], at[1], at[2], at[4], scratch });
    b->release(b->self, scratch);
    free(poison);
}

struct op_case flash_case(struct attention a)
{
    struct op_case c = { .name = "flash attention", .run = run_flash, .attention = a };
    long tokens = attention_tokens(&a);
    c.roundings = 1;
    add(&c, "qkv", VALUES, IN, tokens, attention_qkv_width(&a));
    add(&c, "context", VALUES, OUT, tokens, attention_context_width(&a));
    add(&c, "log sums", FLOATS, OUT, a.sequences * a.heads, a.seq);
    add(&c, "dcontext", VALUES, IN, tokens, attention_context_width(&a));
    add(&c, "dqkv", VALUES, OUT, tokens, attention_qkv_width(&a));
    add_place(&c);
    return c;
}

static void run_unfused(const struct op_case *c, const struct op_backend *b, void *const *at)
{
    bool drops = c->attention.dropout.dropout > 0;
    void *qkv = at[0], *probabilities = at[1], *context = at[2], *dcontext = at[3];
    void *matrix = at[4], *dqkv = at[5];
    void *keeps = drops ? at[6] : NULL, *dropped = drops ? at[7] : NULL;
    void *weights = drops ? dropped : probabilities;
    struct attention a = c->attention;
    if (drops)
        a.dropout.draw.place = at[8];
    b->scores(b->self, &(struct scores){ a, qkv, probabilities });
    b->softmax(b->self, &(struct softmax){ a, probabilities, probabilities, keeps, dropped });
    b->context(b->self, &(struct context){ a, weights, qkv, context });
    b->context_probability_gradient(
        b->self, &(struct context_backward){ a, dcontext, qkv, NULL, matrix, NULL });
    b->context_value_gradient(b->self,
                              &(struct context_backward){ a, dcontext, NULL, weights, NULL, dqkv });
    b->softmax_backward(b->self,
                        &(struct softmax_backward){ a, matrix, probabilities, keeps, matrix });
    b->scores_query_gradient(b->self, &(struct scores_backward){ a, matrix, qkv, dqkv });
    b->scores_key_gradient(b->self, &(struct scores_backward){ a, matrix, qkv, dqkv });
}

struct op_case unfused_case(struct attention a)
{
    struct op_case c = { .name = "unfused attention", .run = run_unfused, .attention = a };
    long tokens = attention_tokens(&a), rows = a.sequences * a.heads * a.seq;
    c.roundings =
        1; /* a key's gradient is the sum over the heads of its group, which is rounded once more */
    add(&c, "qkv", VALUES, IN, tokens, attention_qkv_width(&a));
    add(&c, "probabilities", VALUES, OUT, rows, a.seq);
    add(&c, "context", VALUES, OUT, tokens, attention_context_width(&a));
    add(&c, "dcontext", VALUES, IN, tokens, attention_context_width(&a));
    add(&c, "dscores", VALUES, OUT, rows, a.seq);
    add(&c, "dqkv", VALUES, OUT, tokens, attention_qkv_width(&a));
    if (a.dropout.dropout > 0) {
        add(&c, "keeps", BYTES, OUT, rows, a.seq);
        add(&c, "dropped", VALUES, OUT, rows, a.seq);
        add_place(&c);
    }
    return c;
}
