/* models/op.h - one operation of a training step, with its size and its operands.
 *
 * The lists made of these are the only description of the work in a layer: FLOPs, time, memory and
 * the executor's calls are all read off them. An op names what it reads, writes, multiplies by and
 * keeps by ids of its list's operands; what depends on what is read off these, never off an op's
 * name or place. Sizes are those that one rank handles. Rows of a matrix are tokens; 2 FLOPs a
 * multiply-add. */
#ifndef MODELS_OP_H
#define MODELS_OP_H

#include <stdbool.h>

// clang-format off
#define OP_KINDS(X)                                                                             \
    /* name            text              what m, n, k, batch mean */                            \
    X(GEMM,            "gemm",           "batch m x n from k: a linear layer, or a gradient")    \
    X(SCORES,          "scores",         "batch products m x n from k: q by k transposed")      \
    X(SOFTMAX,         "softmax",        "batch of m rows of n: scale, mask, softmax, dropout") \
    X(CONTEXT,         "context",        "batch products m x n from k: probabilities by v")     \
    X(FLASH_ATTENTION, "flash_attention","batch heads, m queries by n keys of k dimensions")    \
    X(NORM,            "norm",           "m rows of n")                                         \
    X(ACTIVATION,      "activation",     "m rows of n outputs: gelu, relu or gated silu")       \
    X(ROTARY,          "rotary",         "m rows of n")                                         \
    X(RESIDUAL,        "residual",       "m rows of n: bias, dropout, add")                     \
    X(EMBEDDING,       "embedding",      "m rows of n out of a table of k rows")                \
    X(CROSS_ENTROPY,   "cross_entropy",  "m rows of n logits")                                  \
    X(BIAS_GRAD,       "bias_grad",      "m rows of n summed over m")                           \
    X(QUANTIZE,        "quantize",       "m rows of n from 16 bits to fewer")                   \
    X(ROUTE,           "route",          "m rows of n experts, k chosen; batch places of each") \
    X(DISPATCH,        "dispatch",       "m rows of n, each to k places of experts")            \
    X(COMBINE,         "combine",        "m rows of n, each from k places of experts")          \
    /* Marks that an axis replaces by its collective, or drops when it has one rank. */         \
    X(TENSOR_ENTER,    "tensor_enter",   "m rows of n from replicated or sequence-sharded")     \
    X(TENSOR_LEAVE,    "tensor_leave",   "m rows of n of partial sums")                         \
    X(CONTEXT_ENTER,   "context_enter",  "m rows of n, of which k are of keys and values")      \
    X(CONTEXT_LEAVE,   "context_leave",  "m rows of n, of which k are of keys and values")      \
    X(ALL_REDUCE,      "all_reduce",     "comm_bytes on every rank")                            \
    X(ALL_GATHER,      "all_gather",     "comm_bytes after gathering")                          \
    X(REDUCE_SCATTER,  "reduce_scatter", "comm_bytes before scattering")                        \
    X(ALL_TO_ALL,      "all_to_all",     "batch exchanges of comm_bytes of a rank")             \
    X(SEND_RECEIVE,    "send_receive",   "batch messages of comm_bytes round a ring")

enum op_kind {
#define X(name, text, meaning) OP_##name,
    OP_KINDS(X)
#undef X
};
#define X(name, text, meaning) +1
enum { NUM_OP_KINDS = 0 OP_KINDS(X) };
#undef X
// clang-format on

struct op_kind_info {
    const char *text;
    const char *meaning;
};
extern const struct op_kind_info op_kind_infos[NUM_OP_KINDS];

/* FORWARD, or which half of the backward: input gradients (B) or weight gradients (W). */
enum op_pass { PASS_FORWARD, PASS_BACKWARD_INPUT, PASS_BACKWARD_WEIGHT };

/* What selective recompute may replay: see models/replay.h. */
enum op_region { REGION_REST, REGION_ATTENTION_CORE, REGION_FEED_FORWARD, REGION_NORM };

enum op_stream { STREAM_COMPUTE, STREAM_TENSOR, STREAM_CONTEXT, NUM_OP_STREAMS };

enum dtype { DTYPE_FP32, DTYPE_FP16, DTYPE_BF16, DTYPE_FP8, DTYPE_FP4, NUM_DTYPES };
extern const char *const dtype_names[NUM_DTYPES + 1]; /* NULL-terminated */
double dtype_bytes(enum dtype dtype);
bool dtype_is_quantized(enum dtype dtype); /* fewer than 16 bits */

/* Ids of values or of weights, in the order that the op's kind says. */
enum { MAX_IDS = 5, NO_ID = -1 };
struct ids {
    short count, at[MAX_IDS];
};

/* Matrices of a product that frameworks may keep apart: of queries, keys and values. */
enum { MAX_MATRICES = 3 };

/* Outputs of an op of the backward that others' may be added to. */
enum { MAX_SUMS = 2 };

struct op {
    enum op_kind kind;
    enum op_pass pass;
    enum op_region region;
    enum op_stream stream;
    enum dtype dtype;
    const char *name;    /* to be shown: "qkv", "fc1" ...: static text */
    const char *variant; /* what else its kernel depends on: "gelu", "dropout"; "": nothing */
    struct ids in, out;
    struct ids weights; /* that it reads; of a weight gradient: whose gradients it adds to */
    struct ids saved;   /* forward ops: values kept for its backward, which reads them */
    short
        sum[MAX_SUMS]; /* by output: what it is added to, as another reader's gradient; or NO_ID */
    short which;       /* enum activation_kind, or enum norm_kind, of what it does or does too */
    short draw;        /* its number among those that a seed draws for */
    double m, n, k, batch;
    double matrices[MAX_MATRICES]; /* columns of the output that are of each; all 0: one matrix */
    double flops;                  /* executed */
    double model_flops;            /* what MFU counts: a causal mask's half of attention */
    double bytes;                  /* least traffic to and from device memory */
    double kernels;                /* launches */
    double comm_bytes;             /* collectives: payload, see the table */
    double backward_bytes;   /* forward ops: traffic of the input gradient; GEMMs and marks: of
                                quantising the output's gradient */
    double backward_kernels; /* forward ops: its launches */
    double chunks;           /* runs of rows, which the ops of the list that have so many go through
                                together, one run after the other; sizes are of all. 0: at once */
    bool adds_sum;           /* its kernel adds sum[0]; else one of its own does */
    int after;               /* index in the same list that must have finished, or -1 */
};

/* What ops hand on. */
enum value_form {
    VALUE_ROWS,       /* m rows of n */
    VALUE_HEADS,      /* queries, keys and values, packed by heads (kernels/host/attention.h) */
    VALUE_STATISTICS, /* fp32 of each row: of a norm, of attention, of a loss */
    VALUE_MASK,       /* a byte of each value */
    VALUE_IDS,        /* of tokens, 8 bytes each */
    VALUE_PLACES,     /* of tokens' choices at experts, 4 bytes each */
};

struct op_value {
    double bytes; /* on this rank */
    enum value_form form;
    bool is_live; /* saved for the microbatch at the loss alone: memory counts it once */
};

enum weight_role {
    WEIGHT_MATRIX, /* of a linear layer */
    WEIGHT_BIAS,
    WEIGHT_SCALE, /* of a norm */
    WEIGHT_SHIFT,
    WEIGHT_TABLE, /* token embedding */
    WEIGHT_POSITIONS,
};

/* Over tensor ranks: all hold the same, or each some rows or columns of the whole. */
enum weight_split { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLUMNS };

/* Where a rank's gradient is one summand of several tensor ranks' though all hold the weight. */
enum weight_summed {
    SUMMED_NEVER,
    SUMMED_OVER_TOKENS, /* under sequence parallelism: each rank sees its own */
    SUMMED_OVER_HEADS,
};

/* Of a matrix, a row is one output. */
struct op_weight {
    const char *name; /* of its layer, in checkpoints: "qkv" */
    enum weight_role role;
    enum weight_split split;
    enum weight_summed summed;
    double rows, columns; /* on this rank */
    bool
        is_vocabulary; /* rows of the token table, or of the output matrix that may be tied to it */
    bool feeds_stream; /* its layer's output is added to the residual stream */
    bool is_frozen;    /* has no gradient */
};

/* What the ids of a list name. A backward adds its own to its forward's. */
enum { MAX_VALUES = 128, MAX_WEIGHTS = 24 };
struct operands {
    struct op_value values[MAX_VALUES];
    struct op_weight weights[MAX_WEIGHTS];
    int num_values, num_weights;
};

struct ops {
    struct op *at;
    int count;
    struct operands *operands;
    short input, output; /* values from and for the list before and behind; NO_ID: none such */
    struct ids aside;    /* further values of other lists; of a backward: their gradients, if any */
};

bool op_is_collective(enum op_kind kind);

/* One run of those that an op with chunks is done in; others as they are. */
struct op op_run(const struct op *op);

/* Whether `id` is one of them; adds one. */
bool ids_have(const struct ids *ids, int id);
void ids_add(struct ids *ids, int id);

/* Adds one, and returns its id. */
int operands_add_value(struct operands *operands, struct op_value value);
int operands_add_weight(struct operands *operands, struct op_weight weight);

/* Whether the op reads it: as an operand, or to add to it. */
bool op_reads(const struct op *op, int value);

/* Index of the op of a list that makes a value; -1: it is there before. */
int ops_maker(const struct ops *ops, int value);
/* Index of the first op behind `after` that reads a value; count: none. How many do. */
int ops_next_reader(const struct ops *ops, int value, int after);
int ops_readers(const struct ops *ops, int value);

/* Whether no later op keeps a value that this one keeps. `op`, here and below, is of the list. */
bool op_keeps_last(const struct ops *forward, const struct op *op, int value);
/* Whether a replay of the attention core makes it again, as no op but the core's keeps it. */
bool op_remakes(const struct ops *forward, const struct op *op, int value);
/* Kept from forward to backward, but for live values, by the last op to keep each; and what a
 * replay of the core makes again of that. */
double op_saved_bytes(const struct ops *forward, const struct op *op);
double op_replayed_bytes(const struct ops *forward, const struct op *op);

/* A linear layer's matrix and bias, or NULL. */
const struct op_weight *op_weight_of(const struct ops *ops, const struct op *op,
                                     enum weight_role role);

#endif
