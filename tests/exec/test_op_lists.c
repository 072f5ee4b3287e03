/* Tests op lists (sequences of operations) that are given as data and belong to no model. The
 * memory model counts their bytes, and the host's executor runs them. Outputs and gradients are
 * compared with plain code in double. */
#include "tests/exec/list_run.h"
#include "tests/exec/op_lists.h"
#include "tests/kernels/reference.h"
#include "tests/sim/machine.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include "sim/cost/compute.h"
#include "sim/memory/memory.h"

#include <string.h>

enum { TOKENS = 16, HIDDEN = 8, FP32 = 4 };

#define ROWS(rows, width)                \
    {                                    \
        .bytes = FP32 * (rows) * (width) \
    }
#define STATISTICS(count)                                 \
    {                                                     \
        .bytes = FP32 * (count), .form = VALUE_STATISTICS \
    }

/* A computation in double, whose arrays may be varied. */
struct plain {
    double *x, *aside[MAX_IDS], **weights;
    double *y; /* output of the list, or NULL if the list has none */
    const int64_t *targets;
};

/* y = x weight^T + bias; `bias` may be NULL. */
static void product(long rows, long out, long in, const double *x, const double *weight,
                    const double *bias, double *y)
{
    static const double none[64];
    ck_assert_int_le(out, 64);
    linear_f64(rows, out, in, x, weight, bias ? bias : none, y);
}

static void norm(const struct plain *p, const double *scale, double *y)
{
    rms_norm_f64(TOKENS, HIDDEN, 1e-5, p->x, scale, y);
}

/* --- experts -------------------------------------------------------------------------------- */

/* 16 tokens choose two experts each. The experts have room for at most 24 of these 32 choices. */
enum { EXPERTS = 4, CHOSEN = 2, CAPACITY = 6, PLACES = EXPERTS * CAPACITY, FFN = 12 };

/* Each token goes to two of four experts, which are groups of one product. */
enum { E_X, E_NORMED, E_STATISTICS, E_LOGITS, E_SHARES, E_PLACES };
enum { E_PLACED = E_PLACES + 1, E_FC1, E_ACTIVE, E_FC2, E_COMBINED, E_OUT };
static const struct op_value expert_values[] = {
    [E_X] = ROWS(TOKENS, HIDDEN),
    [E_NORMED] = ROWS(TOKENS, HIDDEN),
    [E_STATISTICS] = STATISTICS(TOKENS),
    [E_LOGITS] = ROWS(TOKENS, EXPERTS),
    [E_SHARES] = STATISTICS(TOKENS * CHOSEN),
    [E_PLACES] = { .bytes = FP32 * TOKENS * CHOSEN, .form = VALUE_PLACES },
    [E_PLACED] = ROWS(PLACES, HIDDEN),
    [E_FC1] = ROWS(PLACES, FFN),
    [E_ACTIVE] = ROWS(PLACES, FFN),
    [E_FC2] = ROWS(PLACES, HIDDEN),
    [E_COMBINED] = ROWS(TOKENS, HIDDEN),
    [E_OUT] = ROWS(TOKENS, HIDDEN),
};
enum { EW_SCALE, EW_ROUTER, EW_FC1, EW_FC1_BIAS, EW_FC2 };
static const struct op_weight expert_weights[] = {
    [EW_SCALE] = { .name = "norm", .role = WEIGHT_SCALE, .rows = 1, .columns = HIDDEN },
    [EW_ROUTER] = { .name = "router", .rows = EXPERTS, .columns = HIDDEN },
    [EW_FC1] = { .name = "fc1", .rows = EXPERTS * FFN, .columns = HIDDEN },
    [EW_FC1_BIAS] = { .name = "fc1", .role = WEIGHT_BIAS, .rows = EXPERTS * FFN, .columns = 1 },
    [EW_FC2] = { .name = "fc2", .rows = EXPERTS * HIDDEN, .columns = FFN },
};
static const struct op expert_ops[] = {
    { OP_NORM, .name = "norm", .which = NORM_RMS, .m = TOKENS, .n = HIDDEN, .in = IDS(E_X),
      .out = IDS(E_NORMED, E_STATISTICS), .weights = IDS(EW_SCALE),
      .saved = IDS(E_X, E_STATISTICS) },
    { OP_GEMM, .name = "router", .m = TOKENS, .n = EXPERTS, .k = HIDDEN, .in = IDS(E_NORMED),
      .out = IDS(E_LOGITS), .weights = IDS(EW_ROUTER), .saved = IDS(E_NORMED) },
    { OP_ROUTE, .name = "route", .m = TOKENS, .n = EXPERTS, .k = CHOSEN, .batch = CAPACITY,
      .in = IDS(E_LOGITS), .out = IDS(E_SHARES, E_PLACES), .saved = IDS(E_SHARES, E_PLACES) },
    { OP_DISPATCH, .name = "dispatch", .m = TOKENS, .n = HIDDEN, .k = CHOSEN,
      .in = IDS(E_NORMED, E_PLACES), .out = IDS(E_PLACED), .saved = IDS(E_PLACES) },
    { OP_GEMM, .name = "fc1", .batch = EXPERTS, .m = CAPACITY, .n = FFN, .k = HIDDEN,
      .in = IDS(E_PLACED), .out = IDS(E_FC1), .weights = IDS(EW_FC1, EW_FC1_BIAS),
      .saved = IDS(E_PLACED) },
    { OP_ACTIVATION, .name = "activation", .which = ACTIVATION_GELU, .m = PLACES, .n = FFN,
      .in = IDS(E_FC1), .out = IDS(E_ACTIVE), .saved = IDS(E_FC1) },
    { OP_GEMM, .name = "fc2", .batch = EXPERTS, .m = CAPACITY, .n = HIDDEN, .k = FFN,
      .in = IDS(E_ACTIVE), .out = IDS(E_FC2), .weights = IDS(EW_FC2), .saved = IDS(E_ACTIVE) },
    { OP_COMBINE, .name = "combine", .m = TOKENS, .n = HIDDEN, .k = CHOSEN,
      .in = IDS(E_FC2, E_SHARES, E_PLACES), .out = IDS(E_COMBINED),
      .saved = IDS(E_FC2, E_SHARES, E_PLACES) },
    { OP_RESIDUAL, .name = "residual", .m = TOKENS, .n = HIDDEN, .in = IDS(E_COMBINED, E_X),
      .out = IDS(E_OUT) },
};

/* Computes the output of one expert for a token. */
static void expert(const struct plain *p, int e, const double *x, double *y)
{
    double hidden[FFN];
    product(1, FFN, HIDDEN, x, p->weights[EW_FC1] + e * FFN * HIDDEN,
            p->weights[EW_FC1_BIAS] + e * FFN, hidden);
    for (int i = 0; i < FFN; i++)
        hidden[i] = gelu_f64(hidden[i]);
    product(1, HIDDEN, FFN, hidden, p->weights[EW_FC2] + e * HIDDEN * FFN, NULL, y);
}

static int larger_of(const double *logits, int but)
{
    int best = but == 0;
    for (int e = 0; e < EXPERTS; e++)
        if (e != but && logits[e] > logits[best])
            best = e;
    return best;
}

/* Processes token by token without sorting; each expert counts its tokens. */
static double experts_plain(const struct plain *p)
{
    double normed[TOKENS * HIDDEN], logits[TOKENS * EXPERTS], out[HIDDEN];
    int taken[EXPERTS] = { 0 };
    norm(p, p->weights[EW_SCALE], normed);
    product(TOKENS, EXPERTS, HIDDEN, normed, p->weights[EW_ROUTER], NULL, logits);
    for (int t = 0; t < TOKENS; t++) {
        double *y = p->y + t * HIDDEN, *of = logits + t * EXPERTS;
        int first = larger_of(of, -1), second = larger_of(of, first);
        double share = 1 / (1 + exp(of[second] - of[first]));
        memcpy(y, p->x + t * HIDDEN, sizeof *y * HIDDEN);
        for (int i = 0; i < CHOSEN; i++) {
            int e = i == 0 ? first : second;
            if (taken[e]++ >= CAPACITY)
                continue;
            expert(p, e, normed + t * HIDDEN, out);
            for (int j = 0; j < HIDDEN; j++)
                y[j] += (i == 0 ? share : 1 - share) * out[j];
        }
    }
    return 0;
}

/* --- frozen weights ------------------------------------------------------------------------- */

enum { RANK = 2 };

/* This list has a frozen matrix and two small trained matrices (Hu et al. 2021, LoRA); the norm is
 * frozen too. */
enum { L_X, L_NORMED, L_STATISTICS, L_WHOLE, L_DOWN, L_UP, L_OUT };
static const struct op_value lora_values[] = {
    [L_X] = ROWS(TOKENS, HIDDEN),        [L_NORMED] = ROWS(TOKENS, HIDDEN),
    [L_STATISTICS] = STATISTICS(TOKENS), [L_WHOLE] = ROWS(TOKENS, HIDDEN),
    [L_DOWN] = ROWS(TOKENS, RANK),       [L_UP] = ROWS(TOKENS, HIDDEN),
    [L_OUT] = ROWS(TOKENS, HIDDEN),
};
enum { LW_SCALE, LW_WHOLE, LW_DOWN, LW_UP };
static const struct op_weight lora_weights[] = {
    [LW_SCALE] = { "norm", WEIGHT_SCALE, .rows = 1, .columns = HIDDEN, .is_frozen = true },
    [LW_WHOLE] = { "whole", .rows = HIDDEN, .columns = HIDDEN, .is_frozen = true },
    [LW_DOWN] = { "down", .rows = RANK, .columns = HIDDEN },
    [LW_UP] = { "up", .rows = HIDDEN, .columns = RANK },
};
static const struct op lora_ops[] = {
    { OP_NORM, .name = "norm", .which = NORM_RMS, .m = TOKENS, .n = HIDDEN, .in = IDS(L_X),
      .out = IDS(L_NORMED, L_STATISTICS), .weights = IDS(LW_SCALE),
      .saved = IDS(L_X, L_STATISTICS) },
    { OP_GEMM, .name = "whole", .m = TOKENS, .n = HIDDEN, .k = HIDDEN, .in = IDS(L_NORMED),
      .out = IDS(L_WHOLE), .weights = IDS(LW_WHOLE) },
    { OP_GEMM, .name = "down", .m = TOKENS, .n = RANK, .k = HIDDEN, .in = IDS(L_NORMED),
      .out = IDS(L_DOWN), .weights = IDS(LW_DOWN), .saved = IDS(L_NORMED) },
    { OP_GEMM, .name = "up", .m = TOKENS, .n = HIDDEN, .k = RANK, .in = IDS(L_DOWN),
      .out = IDS(L_UP), .weights = IDS(LW_UP), .saved = IDS(L_DOWN) },
    { OP_RESIDUAL, .name = "sum", .m = TOKENS, .n = HIDDEN, .in = IDS(L_UP, L_WHOLE),
      .out = IDS(L_OUT) },
};

static double lora_plain(const struct plain *p)
{
    double normed[TOKENS * HIDDEN], down[TOKENS * RANK], up[TOKENS * HIDDEN];
    norm(p, p->weights[LW_SCALE], normed);
    product(TOKENS, HIDDEN, HIDDEN, normed, p->weights[LW_WHOLE], NULL, p->y);
    product(TOKENS, RANK, HIDDEN, normed, p->weights[LW_DOWN], NULL, down);
    product(TOKENS, HIDDEN, RANK, down, p->weights[LW_UP], NULL, up);
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        p->y[i] += up[i];
    return 0;
}

/* --- two heads ------------------------------------------------------------------------------ */

enum { VOCAB = 10 };

/* This list has one norm and two output matrices, each of which has a loss. */
enum { H_X, H_NORMED, H_STATISTICS, H_LOGITS, H_MAXIMA, H_SUMS };
enum { H_OTHER_LOGITS = H_SUMS + 1, H_OTHER_MAXIMA, H_OTHER_SUMS };
#define LIVE(count, what)                                        \
    {                                                            \
        .bytes = FP32 * (count), .form = (what), .is_live = true \
    }
static const struct op_value head_values[] = {
    [H_X] = ROWS(TOKENS, HIDDEN),
    [H_NORMED] = ROWS(TOKENS, HIDDEN),
    [H_STATISTICS] = STATISTICS(TOKENS),
    [H_LOGITS] = LIVE(TOKENS * VOCAB, VALUE_ROWS),
    [H_MAXIMA] = LIVE(TOKENS, VALUE_STATISTICS),
    [H_SUMS] = LIVE(2 * TOKENS, VALUE_STATISTICS),
    [H_OTHER_LOGITS] = LIVE(TOKENS * VOCAB, VALUE_ROWS),
    [H_OTHER_MAXIMA] = LIVE(TOKENS, VALUE_STATISTICS),
    [H_OTHER_SUMS] = LIVE(2 * TOKENS, VALUE_STATISTICS),
};
enum { HW_SCALE, HW_LOGITS, HW_OTHER };
static const struct op_weight head_weights[] = {
    [HW_SCALE] = { "norm", WEIGHT_SCALE, .rows = 1, .columns = HIDDEN },
    [HW_LOGITS] = { "logits", .rows = VOCAB, .columns = HIDDEN },
    [HW_OTHER] = { "other", .rows = VOCAB, .columns = HIDDEN },
};
static const struct op head_ops[] = {
    { OP_NORM, .name = "norm", .which = NORM_RMS, .m = TOKENS, .n = HIDDEN, .in = IDS(H_X),
      .out = IDS(H_NORMED, H_STATISTICS), .weights = IDS(HW_SCALE),
      .saved = IDS(H_X, H_STATISTICS) },
    { OP_GEMM, .name = "logits", .m = TOKENS, .n = VOCAB, .k = HIDDEN, .in = IDS(H_NORMED),
      .out = IDS(H_LOGITS), .weights = IDS(HW_LOGITS), .saved = IDS(H_NORMED) },
    { OP_ALL_REDUCE, .name = "reduce", .m = TOKENS, .n = 3, .in = IDS(H_LOGITS),
      .out = IDS(H_MAXIMA, H_SUMS) },
    { OP_CROSS_ENTROPY, .name = "loss", .m = TOKENS, .n = VOCAB,
      .in = IDS(H_LOGITS, H_MAXIMA, H_SUMS), .saved = IDS(H_LOGITS, H_MAXIMA, H_SUMS) },
    { OP_GEMM, .name = "other", .m = TOKENS, .n = VOCAB, .k = HIDDEN, .in = IDS(H_NORMED),
      .out = IDS(H_OTHER_LOGITS), .weights = IDS(HW_OTHER), .saved = IDS(H_NORMED) },
    { OP_ALL_REDUCE, .name = "other_reduce", .m = TOKENS, .n = 3, .in = IDS(H_OTHER_LOGITS),
      .out = IDS(H_OTHER_MAXIMA, H_OTHER_SUMS) },
    { OP_CROSS_ENTROPY, .name = "other_loss", .m = TOKENS, .n = VOCAB,
      .in = IDS(H_OTHER_LOGITS, H_OTHER_MAXIMA, H_OTHER_SUMS),
      .saved = IDS(H_OTHER_LOGITS, H_OTHER_MAXIMA, H_OTHER_SUMS) },
};

static double heads_plain(const struct plain *p)
{
    double normed[TOKENS * HIDDEN], logits[TOKENS * VOCAB], loss = 0;
    norm(p, p->weights[HW_SCALE], normed);
    for (int head = HW_LOGITS; head <= HW_OTHER; head++) {
        product(TOKENS, VOCAB, HIDDEN, normed, p->weights[head], NULL, logits);
        for (int t = 0; t < TOKENS; t++)
            loss += row_loss_f64(VOCAB, logits + t * VOCAB, (long)p->targets[t]);
    }
    return loss;
}

/* --- attention to another sequence ---------------------------------------------------------- */

enum { SEQUENCES = LIST_RUN_SEQUENCES, QUERIES = TOKENS / SEQUENCES, KEYS = 5 };
enum { HEADS = 4, KV_HEADS = 2, HEAD_DIM = 3, QUERY = HEADS * HEAD_DIM };
enum { KEY_VALUE = 2 * KV_HEADS * HEAD_DIM, MEMORY = SEQUENCES * KEYS, WIDTH = 7 };

/* The keys and values of this list come from another list, with another number of rows and another
 * width. Two attention ops read these keys and values. */
enum { C_X, C_MEMORY, C_NORMED, C_STATISTICS, C_QUERIES, C_KEY_VALUES };
enum { C_CONTEXT = C_KEY_VALUES + 1, C_LOG_SUMS, C_PROJECTED, C_BETWEEN };
enum { C_OTHER_QUERIES = C_BETWEEN + 1, C_OTHER_CONTEXT, C_OTHER_LOG_SUMS, C_OTHER_PROJECTED };
enum { C_OUT = C_OTHER_PROJECTED + 1 };
static const struct op_value cross_values[] = {
    [C_X] = ROWS(TOKENS, HIDDEN),
    [C_MEMORY] = ROWS(MEMORY, WIDTH),
    [C_NORMED] = ROWS(TOKENS, HIDDEN),
    [C_STATISTICS] = STATISTICS(TOKENS),
    [C_QUERIES] = ROWS(TOKENS, QUERY),
    [C_KEY_VALUES] = ROWS(MEMORY, KEY_VALUE),
    [C_CONTEXT] = ROWS(TOKENS, QUERY),
    [C_LOG_SUMS] = STATISTICS(TOKENS * HEADS),
    [C_PROJECTED] = ROWS(TOKENS, HIDDEN),
    [C_BETWEEN] = ROWS(TOKENS, HIDDEN),
    [C_OTHER_QUERIES] = ROWS(TOKENS, QUERY),
    [C_OTHER_CONTEXT] = ROWS(TOKENS, QUERY),
    [C_OTHER_LOG_SUMS] = STATISTICS(TOKENS * HEADS),
    [C_OTHER_PROJECTED] = ROWS(TOKENS, HIDDEN),
    [C_OUT] = ROWS(TOKENS, HIDDEN),
};
enum { CW_SCALE, CW_QUERIES, CW_KEY_VALUES, CW_PROJECTION, CW_OTHER_QUERIES };
enum { CW_OTHER_PROJECTION = CW_OTHER_QUERIES + 1 };
static const struct op_weight cross_weights[] = {
    [CW_SCALE] = { "norm", WEIGHT_SCALE, .rows = 1, .columns = HIDDEN },
    [CW_QUERIES] = { "queries", .rows = QUERY, .columns = HIDDEN },
    [CW_KEY_VALUES] = { "key_values", .rows = KEY_VALUE, .columns = WIDTH },
    [CW_PROJECTION] = { "projection", .rows = HIDDEN, .columns = QUERY },
    [CW_OTHER_QUERIES] = { "other_queries", .rows = QUERY, .columns = HIDDEN },
    [CW_OTHER_PROJECTION] = { "other_projection", .rows = HIDDEN, .columns = QUERY },
};
static const struct op cross_ops[] = {
    { OP_NORM, .name = "norm", .which = NORM_RMS, .m = TOKENS, .n = HIDDEN, .in = IDS(C_X),
      .out = IDS(C_NORMED, C_STATISTICS), .weights = IDS(CW_SCALE),
      .saved = IDS(C_X, C_STATISTICS) },
    { OP_GEMM, .name = "queries", .m = TOKENS, .n = QUERY, .k = HIDDEN, .in = IDS(C_NORMED),
      .out = IDS(C_QUERIES), .weights = IDS(CW_QUERIES), .saved = IDS(C_NORMED) },
    { OP_GEMM, .name = "key_values", .m = MEMORY, .n = KEY_VALUE, .k = WIDTH, .in = IDS(C_MEMORY),
      .out = IDS(C_KEY_VALUES), .weights = IDS(CW_KEY_VALUES), .saved = IDS(C_MEMORY) },
    { OP_FLASH_ATTENTION, .name = "attention", .m = QUERIES, .n = KEYS, .k = HEAD_DIM,
      .batch = SEQUENCES * HEADS, .in = IDS(C_QUERIES, C_KEY_VALUES),
      .out = IDS(C_CONTEXT, C_LOG_SUMS),
      .saved = IDS(C_QUERIES, C_KEY_VALUES, C_LOG_SUMS, C_CONTEXT) },
    { OP_GEMM, .name = "projection", .m = TOKENS, .n = HIDDEN, .k = QUERY, .in = IDS(C_CONTEXT),
      .out = IDS(C_PROJECTED), .weights = IDS(CW_PROJECTION), .saved = IDS(C_CONTEXT) },
    { OP_RESIDUAL, .name = "residual", .m = TOKENS, .n = HIDDEN, .in = IDS(C_PROJECTED, C_X),
      .out = IDS(C_BETWEEN) },
    { OP_GEMM, .name = "other_queries", .m = TOKENS, .n = QUERY, .k = HIDDEN, .in = IDS(C_BETWEEN),
      .out = IDS(C_OTHER_QUERIES), .weights = IDS(CW_OTHER_QUERIES), .saved = IDS(C_BETWEEN) },
    { OP_FLASH_ATTENTION, .name = "other_attention", .m = QUERIES, .n = KEYS, .k = HEAD_DIM,
      .batch = SEQUENCES * HEADS, .in = IDS(C_OTHER_QUERIES, C_KEY_VALUES),
      .out = IDS(C_OTHER_CONTEXT, C_OTHER_LOG_SUMS),
      .saved = IDS(C_OTHER_QUERIES, C_KEY_VALUES, C_OTHER_LOG_SUMS, C_OTHER_CONTEXT) },
    { OP_GEMM, .name = "other_projection", .m = TOKENS, .n = HIDDEN, .k = QUERY,
      .in = IDS(C_OTHER_CONTEXT), .out = IDS(C_OTHER_PROJECTED),
      .weights = IDS(CW_OTHER_PROJECTION), .saved = IDS(C_OTHER_CONTEXT) },
    { OP_RESIDUAL, .name = "other_residual", .m = TOKENS, .n = HIDDEN,
      .in = IDS(C_OTHER_PROJECTED, C_BETWEEN), .out = IDS(C_OUT) },
};

/* Attention of one query head over its sequence's keys and values. */
static void attend(const double *query, const double *key_values, int head, double *context)
{
    double weights[KEYS], sum = 0;
    const double *of_head = key_values + head / (HEADS / KV_HEADS) * 2 * HEAD_DIM;
    for (int key = 0; key < KEYS; key++) {
        weights[key] = exp(dot_f64(HEAD_DIM, query, of_head + key * KEY_VALUE) / sqrt(HEAD_DIM));
        sum += weights[key];
    }
    for (int i = 0; i < HEAD_DIM; i++) {
        context[i] = 0;
        for (int key = 0; key < KEYS; key++)
            context[i] += weights[key] / sum * of_head[key * KEY_VALUE + HEAD_DIM + i];
    }
}

/* y += the output of one of the two attentions. */
static void add_attention(const struct plain *p, const double *x, const double *key_values,
                          const int weights[2], double *y)
{
    double queries[TOKENS * QUERY], context[TOKENS * QUERY], projected[TOKENS * HIDDEN];
    product(TOKENS, QUERY, HIDDEN, x, p->weights[weights[0]], NULL, queries);
    for (int t = 0; t < TOKENS; t++)
        for (int head = 0; head < HEADS; head++)
            attend(queries + t * QUERY + head * HEAD_DIM,
                   key_values + t / QUERIES * KEYS * KEY_VALUE, head,
                   context + t * QUERY + head * HEAD_DIM);
    product(TOKENS, HIDDEN, QUERY, context, p->weights[weights[1]], NULL, projected);
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        y[i] += projected[i];
}

static double cross_plain(const struct plain *p)
{
    static const int first[] = { CW_QUERIES, CW_PROJECTION };
    static const int second[] = { CW_OTHER_QUERIES, CW_OTHER_PROJECTION };
    double normed[TOKENS * HIDDEN], between[TOKENS * HIDDEN], key_values[MEMORY * KEY_VALUE];
    norm(p, p->weights[CW_SCALE], normed);
    product(MEMORY, KEY_VALUE, WIDTH, p->aside[0], p->weights[CW_KEY_VALUES], NULL, key_values);
    memcpy(p->y, p->x, sizeof normed);
    add_attention(p, normed, key_values, first, p->y);
    memcpy(between, p->y, sizeof between);
    add_attention(p, between, key_values, second, p->y);
    return 0;
}

/* --- the lists ------------------------------------------------------------------------------ */

/* Each op list has a plain function that computes the same values, and sizes that were counted by
 * hand. The terms of each count are in the order of the list's ops. */
static const struct {
    struct listed listed;
    double (*plain)(const struct plain *p); /* function that computes loss and output in double */
    double saved;   /* number of values, of 4 bytes each, that are kept from forward to backward */
    double working; /* maximum over the ops of the bytes of gradients that an op reads and writes,
                       at 4 bytes per value */
    double parameters, frozen;
    int weight_products; /* number of products in the backward that compute weight gradients */
} lists[] = {
    { .listed = { LISTED(expert_values, expert_weights, expert_ops), .input = E_X,
                  .output = E_OUT },
      .plain = experts_plain,
      .saved = (2 * HIDDEN + 1 + 2 * CHOSEN) * TOKENS + 2 * (HIDDEN + FFN) * PLACES,
      .working = 2 * FFN * PLACES,
      .parameters = HIDDEN + EXPERTS * HIDDEN + EXPERTS * FFN * (HIDDEN + 1 + HIDDEN),
      .weight_products = 3 },
    { .listed = { LISTED(lora_values, lora_weights, lora_ops), .input = L_X, .output = L_OUT },
      .plain = lora_plain,
      .saved = (2 * HIDDEN + 1 + RANK) * TOKENS,
      .working = 2 * HIDDEN * TOKENS,
      .parameters = HIDDEN + HIDDEN * HIDDEN + 2 * RANK * HIDDEN,
      .frozen = HIDDEN + HIDDEN * HIDDEN,
      .weight_products = 2 },
    { .listed = { LISTED(head_values, head_weights, head_ops), .input = H_X, .output = NO_ID },
      .plain = heads_plain,
      .saved = (2 * HIDDEN + 1) * TOKENS,
      .working = (HIDDEN + VOCAB) * TOKENS,
      .parameters = HIDDEN + 2 * VOCAB * HIDDEN,
      .weight_products = 2 },
    { .listed = { LISTED(cross_values, cross_weights, cross_ops), .input = C_X, .output = C_OUT,
                  .aside = IDS(C_MEMORY) },
      .plain = cross_plain,
      .saved = (3 * HIDDEN + 1 + 2 * (2 * QUERY + HEADS)) * TOKENS + (WIDTH + KEY_VALUE) * MEMORY,
      .working = (HIDDEN + QUERY) * TOKENS,
      .parameters = HIDDEN + 4 * HIDDEN * QUERY + WIDTH * KEY_VALUE,
      .weight_products = 5 },
};

static const struct layer_options options = { .dtype = DTYPE_FP32, .gradient_bytes = 4 };
static struct list_run run;

static void open_machine(void)
{
    machine_load("dgx-h100", 1);
}

static void close_run(void)
{
    list_run_close(&run);
}

/* --- op lists of the models ----------------------------------------------------------------- */

START_TEST(every_operand_of_forward_and_backward_exists)
{
    struct arena arena = { 0 };
    struct ops forward = listed_ops(&lists[_i].listed, &arena);
    struct ops backward = ops_backward(forward, &options, &arena);
    check_operands(forward, backward);
    int products = 0;
    for (int i = 0; i < backward.count; i++)
        products += backward.at[i].kind == OP_GEMM && backward.at[i].pass == PASS_BACKWARD_WEIGHT;
    ck_assert_int_eq(products, lists[_i].weight_products);
    arena_release(&arena);
}
END_TEST

static struct piece_cost cost_of(int i, struct arena *arena)
{
    struct plan plan = plan_of("dtype=fp32", arena);
    struct ops forward = listed_ops(&lists[i].listed, arena);
    return lists_cost(&machine, &plan,
                      local_lists(rank_share_of(&plan), forward, &options, false, arena), 0, arena);
}

/* A model of two layers of the list runs on one GPU. A weight, its gradient and its two moments
 * take 4 bytes each. A frozen weight has neither gradient nor moments. */
START_TEST(the_memory_model_equals_hand_counts_for_lists)
{
    struct arena arena = { 0 };
    struct piece_cost cost = cost_of(_i, &arena);
    double trained = lists[_i].parameters - lists[_i].frozen;
    ck_assert_double_eq(cost.saved_bytes, 4 * lists[_i].saved);
    ck_assert_double_eq(cost.working_bytes, 4 * lists[_i].working);
    ck_assert_double_eq(cost.parameters, lists[_i].parameters);
    ck_assert_double_eq(cost.trained.all, trained);
    struct model model = { .layers = 2 };
    struct plan plan = plan_of("dtype=fp32", &arena);
    struct pieces pieces = { .at[0] = cost, .num_kinds = 1, .tokens = 1 };
    struct memory_input in = { .system = &machine,
                               .model = &model,
                               .plan = &plan,
                               .pieces = &pieces,
                               .generator = generator_find("1f1b"),
                               .num_microbatches = 1 };
    struct stage_memory memory = stage_memory(&in, 0);
    ck_assert_double_eq(memory.weights_bytes, 2 * 4 * lists[_i].parameters);
    ck_assert_double_eq(memory.gradients_bytes, 2 * 4 * trained);
    ck_assert_double_eq(memory.optimizer_bytes, 2 * 8 * trained);
    ck_assert_double_eq(memory.activations_bytes, 2 * 4 * lists[_i].saved);
    arena_release(&arena);
}
END_TEST

/* --- calls of the executor ------------------------------------------------------------------ */

static struct plain plain_of(void)
{
    struct numeric *n = &run.numeric;
    int count = run.piece.weights.count;
    struct plain p = { .targets = run.targets };
    p.x = numeric_doubles(n, list_run_elements(&run, run.lists.forward.input), run.x);
    p.y = ARENA_ARRAY(&n->arena, double,
                      (size_t)list_run_elements(&run, run.lists.forward.output) + 1);
    for (int i = 0; i < run.lists.forward.aside.count; i++)
        p.aside[i] = numeric_doubles(n, list_run_elements(&run, run.lists.forward.aside.at[i]),
                                     run.aside[i]);
    p.weights = ARENA_ARRAY(&n->arena, double *, (size_t)count);
    for (int i = 0; i < count; i++)
        p.weights[i] = numeric_doubles(n, list_run_weight(&run, i), run.weights[i]);
    return p;
}

/* The function whose gradients are computed is the loss. If the list has an output, the product of
 * the output and the incoming gradient is added. */
struct scalar {
    struct plain plain;
    int list;
};

static double scalar_of(const void *context)
{
    const struct scalar *scalar = context;
    double loss = lists[scalar->list].plain(&scalar->plain);
    return loss + numeric_weighted(list_run_elements(&run, run.lists.forward.output), run.dy,
                                   scalar->plain.y);
}

START_TEST(outputs_of_a_list_equal_plain_code)
{
    list_run_open(&run, &lists[_i].listed, &options);
    list_run_once(&run, false);
    struct plain plain = plain_of();
    double loss = lists[_i].plain(&plain);
    ck_assert_double_le(fabs(run.loss - loss), 1e-5 * loss);
    for (long i = 0; i < list_run_elements(&run, run.lists.forward.output); i++)
        ck_assert_double_eq_tol((double)run.y[i], plain.y[i], 1e-5);
    close_run();
}
END_TEST

static void check_gradients(const struct scalar *scalar)
{
    const struct plain *plain = &scalar->plain;
    struct numeric_function value = { scalar_of, scalar };
    numeric_check_gradient(&run.numeric, "input", value,
                           list_run_elements(&run, run.lists.forward.input), plain->x, run.dx,
                           2e-5);
    const struct ids *aside = &run.lists.forward.aside;
    for (int i = 0; i < aside->count; i++)
        numeric_check_gradient(&run.numeric, "aside", value, list_run_elements(&run, aside->at[i]),
                               plain->aside[i], run.daside[i], 2e-5);
    for (int i = 0; i < run.piece.weights.count; i++) {
        const struct op_weight *weight = run.piece.weights.at[i].of;
        long n = list_run_weight(&run, i);
        if (!weight->is_frozen)
            numeric_check_gradient(&run.numeric, weight->name, value, n, plain->weights[i],
                                   run.gradients[i], 2e-5);
        for (long j = 0; weight->is_frozen && j < n; j++)
            ck_assert(run.gradients[i][j] == 0);
    }
}

/* Lists with fused ops, and a split backward, must give the same gradients. */
START_TEST(gradients_of_a_list_equal_plain_code)
{
    for (int way = 0; way < 3; way++) {
        struct layer_options fused = options;
        fused.fusions = way == 1 ? ~0u : 0;
        list_run_open(&run, &lists[_i].listed, &fused);
        if (way == 1) /* grouped products (of experts) are fused with the gelu after them */
            ck_assert_int_eq(count_kind(run.lists.forward, OP_ACTIVATION), 0);
        list_run_once(&run, way == 2);
        struct scalar scalar = { plain_of(), _i };
        check_gradients(&scalar);
        close_run();
    }
}
END_TEST

/* Slots are multiples of 64 bytes, device allocations multiples of 256. Values that exist only
 * while the loss is computed have separate memory. */
START_TEST(kept_bytes_of_a_list_equal_the_memory_model)
{
    list_run_open(&run, &lists[_i].listed, &options);
    list_run_once(&run, false);
    const struct operands *operands = run.lists.forward.operands;
    double live = 0;
    int num_live = 0;
    for (int i = 0; i < lists[_i].listed.num_values; i++) {
        live += operands->values[i].is_live ? operands->values[i].bytes : 0;
        num_live += operands->values[i].is_live;
    }
    double bytes = (double)run.forward_bytes - live - 4 * lists[_i].saved;
    ck_assert_double_ge(bytes, 0);
    ck_assert_double_lt(bytes,
                        (num_live + 1) * REGION_ALIGNMENT + 64 * lists[_i].listed.num_values);
    close_run();
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("op_lists");
    TCase *tc = tcase_create("models");
    tcase_add_checked_fixture(tc, open_machine, machine_release);
    tcase_add_loop_test(tc, every_operand_of_forward_and_backward_exists, 0, LENGTH(lists));
    tcase_add_loop_test(tc, the_memory_model_equals_hand_counts_for_lists, 0, LENGTH(lists));
    suite_add_tcase(suite, tc);
    tc = tcase_create("executor");
    tcase_add_loop_test(tc, outputs_of_a_list_equal_plain_code, 0, LENGTH(lists));
    tcase_add_loop_test(tc, gradients_of_a_list_equal_plain_code, 0, LENGTH(lists));
    tcase_add_loop_test(tc, kept_bytes_of_a_list_equal_the_memory_model, 0, LENGTH(lists));
    suite_add_tcase(suite, tc);
    return suite;
}

TEST_MAIN(suite)
