/* models/op.h - one operation of a training step, with its size and its operands.
 *
 * Op lists are the only description of the work in a layer: FLOPs, time, memory and the executor's
 * calls all come from them. An op refers by id to the values that it reads, writes and keeps, and
 * to its weights; the ids index its list's operands. Dependencies follow from these ids, never from
 * an op's name or its position in the list. Sizes are those of one rank. Rows of a matrix are
 * tokens; a multiply-add is 2 FLOPs. */
#ifndef MODELS_OP_H
#define MODELS_OP_H

#include "models/routing.h"
#include <stdbool.h>

// clang-format off
#define OP_KINDS(X)                                                                                     \
    /* name            text              what m, n, k, batch mean */                                    \
    X(GEMM,            "gemm",           "batch products (m x k) (k x n): a linear layer, or a gradient")\
    X(SCORES,          "scores",         "batch products (m x k) (k x n): queries by transposed keys")  \
    X(SOFTMAX,         "softmax",        "batch matrices of m rows of n: scale, mask, softmax, dropout")\
    X(ATTENTION_VALUES,"context",        "batch products (m x k) (k x n): probabilities by values")     \
    X(FLASH_ATTENTION, "flash_attention","batch heads, m queries by n keys of k dimensions")            \
    X(NORM,            "norm",           "m rows of n")                                                 \
    X(ACTIVATION,      "activation",     "m rows of n outputs: gelu, relu or gated silu")               \
    X(ROTARY,          "rotary",         "m rows of n")                                                 \
    X(RESIDUAL,        "residual",       "m rows of n: bias, dropout, add")                             \
    X(EMBEDDING,       "embedding",      "m rows of n out of a table of k rows")                        \
    X(CROSS_ENTROPY,   "cross_entropy",  "m rows of n logits")                                          \
    X(BIAS_GRAD,       "bias_grad",      "m rows of n summed over m")                                   \
    X(QUANTIZE,        "quantize",       "m rows of n from 16 bits to fewer")                           \
    X(ROUTE,           "route",          "m rows of n experts, k chosen; batch places of each")         \
    X(DISPATCH,        "dispatch",       "m rows of n, each to k places of experts")                    \
    X(SORT,            "sort",           "m rows of n, sorted by expert; batch: number of experts")     \
    X(COMBINE,         "combine",        "m rows of n, each from k places of experts")                  \
    X(HEADS,           "heads",          "m rows of n: latent queries, keys and values as heads")       \
    X(SCAN,            "scan",           "batch heads, m tokens: a state of k x n for each head")       \
    X(JOIN,            "join",           "m rows of n, of two values side by side")                     \
    X(CHOOSE,          "choose",         "m rows of n keys' scores, of which k keys are chosen")        \
    X(INDEX_LOSS,      "index_loss",     "batch heads, m queries by n chosen keys of k dimensions")     \
    /* Marks stand where ranks communicate: an axis replaces them by its collective, or drops them if it\
     * has one rank. */                                                                                 \
    X(TENSOR_ENTER,    "tensor_enter",   "m rows of n, which were replicated or sequence-sharded")      \
    X(TENSOR_LEAVE,    "tensor_leave",   "m rows of n of partial sums")                                 \
    X(TENSOR_JOIN,     "tensor_join",    "m rows of n, of which each rank has columns")                 \
    X(CP_ENTER,        "context_enter",  "m rows of n, of which k are of keys and values")              \
    X(CP_LEAVE,        "context_leave",  "m rows of n, of which k are of keys and values")              \
    X(EXPERT_ENTER,    "expert_enter",   "m rows of n, sent to the ranks of their experts; k experts in all")\
    X(EXPERT_LEAVE,    "expert_leave",   "m rows of n, sent back from the ranks of their experts")      \
    X(ALL_REDUCE,      "all_reduce",     "comm_bytes on every rank")                                    \
    X(ALL_GATHER,      "all_gather",     "comm_bytes after gathering")                                  \
    X(REDUCE_SCATTER,  "reduce_scatter", "comm_bytes before scattering")                                \
    X(ALL_TO_ALL,      "all_to_all",     "batch exchanges, each of comm_bytes per rank")                \
    X(SEND_RECEIVE,    "send_receive",   "batch messages of comm_bytes each, around a ring")

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

/* The module of a block that an op belongs to; selective recompute selects some of these modules
 * (models/recompute.h). */
enum op_region {
    REGION_REST,
    REGION_ATTENTION_CORE,
    REGION_FEED_FORWARD,
    REGION_NORM,
    REGION_EXPERTS, /* from the router to the sum of each token's experts */
    REGION_EXPERT_ACTIVATION,
    REGION_SHARED_EXPERT,
    REGION_LATENT_UP, /* latent attention: from the compressed rows to its heads */
    NUM_OP_REGIONS
};

/* The compute stream, then one stream for each parallel axis's collectives, in the order of
 * sim/plan/axis.h. Streams of further axes have no name here. */
enum op_stream { STREAM_COMPUTE, STREAM_TENSOR, STREAM_CONTEXT, STREAM_EXPERT };

enum dtype { DTYPE_FP32, DTYPE_FP16, DTYPE_BF16, DTYPE_FP8, DTYPE_FP4, NUM_DTYPES };
extern const char *const dtype_names[NUM_DTYPES + 1]; /* NULL-terminated */
double dtype_bytes(enum dtype dtype);
bool dtype_is_quantized(enum dtype dtype); /* fewer than 16 bits */

/* Ids of values or weights, in an order that depends on the op's kind. */
enum { MAX_IDS = 6, NO_ID = -1 };
struct ids {
    short count, at[MAX_IDS];
};

/* Maximum number of matrices that make up one product's weight, but are separate products in some
 * frameworks: queries, keys and values. */
enum { MAX_MATRICES = 3 };

/* Maximum number of outputs of a backward op that may be added to other ops' outputs. */
enum { MAX_SUMS = 3 };

struct op {
    enum op_kind kind;
    enum op_pass pass;
    enum op_region region;
    enum op_region source_region; /* for an op that quantises and can be repeated: the region of its
                                     input */
    enum op_stream stream;
    enum dtype dtype;
    const char *name;    /* "qkv", "fc1" ...; static text shown to users */
    const char *variant; /* a further choice of kernel: "gelu", "dropout"; "": none */
    struct ids in, out;
    /* weights it reads; a weight gradient: the weights to whose gradients it adds */
    struct ids weights;
    struct ids saved;    /* forward ops: values kept for their backward */
    short sum[MAX_SUMS]; /* for each output: the value that it is added to, such as the gradient
                            from another reader; or NO_ID */
    short which; /* enum activation_kind or enum norm_kind of the op, or of the op fused into it */
    short draw;  /* the op's index among the ops that draw random numbers (dropout) */
    double m, n, k, batch;
    double matrices[MAX_MATRICES]; /* output columns of each matrix; all 0: one matrix */
    double flops;                  /* executed */
    double model_flops;      /* as MFU counts them: attention under a causal mask counts half */
    double bytes;            /* least traffic to and from device memory */
    double sum_bytes;        /* weight gradients: the part of `bytes` that reads and writes the
                                accumulator, when the product itself adds to it */
    double kernels;          /* launches */
    double comm_bytes;       /* collectives: payload, as the table above defines it */
    double backward_bytes;   /* forward ops: traffic of the input gradient; GEMMs and marks: traffic
                                of quantising the output's gradient */
    double backward_kernels; /* forward ops: launches of the input gradient */
    struct expert_choice choice; /* number of experts that a token chooses; set for marks and
                                    exchanges of experts' rows */
    double kept_bytes;  /* forward ops of several kernels: bytes that these keep for the backward;
                           backward ops: bytes freed when the op ends */
    double row_blocks;  /* number of row blocks; ops of a list with the same number run together,
                           block by block. Sizes are totals over all blocks. 0: all rows at once */
    bool sends_shares;  /* marks of experts' rows: the library sends the shares and the numbers of
                           rows with the rows */
    bool spans_experts; /* the collective joins all ranks of the expert group, with the same or
                           other experts */
    bool is_combine;    /* an exchange of experts' rows on their way back */
    double turned_comm_bytes; /* marks of experts' rows: comm_bytes of their mark in the backward */
    double row_sum_bytes; /* marks of experts' rows: bytes of an element of the expert's rows while
                             ranks that share an expert sum their parts of them */
    bool adds_sum;        /* the op's own kernel adds sum[0]; else a separate kernel does */
    int after;            /* index of an op of the same list that must have finished, or -1 */
    /* Backward ops: index of the forward op that this op belongs to, in the list given to
     * ops_backward. */
    int of;
};

/* The kinds of values that ops exchange. */
enum value_form {
    VALUE_ROWS,       /* m rows of n */
    VALUE_HEADS,      /* queries, keys and values, packed by heads (kernels/host/attention.h) */
    VALUE_STATISTICS, /* fp32 values per row, of a norm, attention or loss */
    VALUE_MASK,       /* one byte for each value */
    VALUE_IDS,        /* token ids, 8 bytes each */
    VALUE_PLACES,     /* positions of routed tokens in the experts' order, 4 bytes each */
};

struct op_value {
    double bytes;        /* bytes on this rank */
    double stored_bytes; /* bytes while it is kept for the backward; 0: as many as `bytes` */
    enum value_form form;
    bool is_live;     /* saved only while its microbatch is at the loss, so memory counts it once
                         instead of per microbatch */
    bool is_detached; /* no gradient is made for it */
};

enum weight_role {
    WEIGHT_MATRIX, /* matrix of a linear layer */
    WEIGHT_BIAS,
    WEIGHT_SCALE, /* gain of a norm */
    WEIGHT_SHIFT,
    WEIGHT_TABLE, /* table of token embeddings */
    WEIGHT_POSITIONS,
};

/* How tensor ranks hold a weight: each has the whole weight, or each has some of its rows or
 * columns. */
enum weight_split { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLUMNS };

/* Whether the gradient of a weight that every tensor rank holds whole must be summed over these
 * ranks. */
enum weight_summed {
    SUMMED_NEVER,
    SUMMED_OVER_TOKENS, /* summed with sequence parallelism, as each rank has only its own tokens */
    SUMMED_OVER_HEADS,  /* always summed, as each rank has only its part of the heads */
};

/* A weight of a layer. Each row of a matrix makes one output. */
struct op_weight {
    const char *name; /* the layer's name in checkpoints: "qkv" */
    enum weight_role role;
    enum weight_split split;
    enum weight_summed summed;
    double rows, columns; /* size on this rank */
    /* rows of the token table, or of the output matrix that may be tied to it */
    bool is_vocabulary;
    bool feeds_stream;  /* the output of the weight's layer is added to the residual stream */
    bool is_frozen;     /* has no gradient */
    bool is_of_adapter; /* belongs to an adapter: one of two narrow products beside a linear layer
                           (models/trainable.h) */
    bool is_of_experts; /* an expert's weight: its gradient is reduced over other ranks than those
                           of dense weights */
};

/* The values and weights that the ids of a list refer to. A backward list shares its forward's
 * operands and adds values to them. */
enum { MAX_VALUES = 384, MAX_WEIGHTS = 64 };
struct operands {
    struct op_value values[MAX_VALUES];
    struct op_weight weights[MAX_WEIGHTS];
    int num_values, num_weights;
};

struct ops {
    struct op *at;
    int count;
    struct operands *operands;
    short input, output;    /* value from the previous list, value for the next; NO_ID: none */
    bool is_input_constant; /* nothing before this list is trained, so the input's gradient is not
                               needed */
    struct ids aside;       /* further inputs from other lists; in a backward list: the gradients of
                               these, if any */
};

bool op_is_collective(enum op_kind kind);

/* Returns one row block of an op that has several, and any other op unchanged. */
struct op op_row_block(const struct op *op);

/* ids_have: whether `ids` contains `id`. ids_add: appends `id`. */
bool ids_have(const struct ids *ids, int id);
void ids_add(struct ids *ids, int id);

/* Adds a value or a weight, and returns its id. */
int operands_add_value(struct operands *operands, struct op_value value);
int operands_add_weight(struct operands *operands, struct op_weight weight);

/* Bytes that a kept value takes from forward to backward. */
double value_kept_bytes(const struct op_value *value);

/* Whether the op reads the value, as an operand or as a summand. */
bool op_reads(const struct op *op, int value);

/* Index of the op that makes a value; -1: the value is an input of the list. */
int ops_maker(const struct ops *ops, int value);
/* Index of the op that quantised a product's input, which may have entered the tensor-parallel
 * region since; -1: it is not quantised. */
int ops_quantizer(const struct ops *ops, int value);
/* Whether an op keeps the value. */
bool ops_keep(const struct ops *ops, int value);
/* ops_next_reader: index of the first op after index `after` that reads a value; ops->count: none.
 * ops_readers: how many ops read it. */
int ops_next_reader(const struct ops *ops, int value, int after);
int ops_readers(const struct ops *ops, int value);

/* Whether `op` is the last op that keeps a value. In this function and those below, `op` must be in
 * the list. */
bool op_keeps_last(const struct ops *forward, const struct op *op, int value);
/* op_saved_bytes: bytes kept from forward to backward, without is_live values; each value counts at
 * the last op that keeps it. op_replayed_bytes: the part of these bytes that recompute of the
 * attention core frees. */
double op_saved_bytes(const struct ops *forward, const struct op *op);
double op_replayed_bytes(const struct ops *forward, const struct op *op);
/* Whether the executor writes the op's output over its first operand. */
bool op_is_in_place(const struct ops *list, const struct op *op);

/* A linear layer's matrix and bias, or NULL. */
const struct op_weight *op_weight_of(const struct ops *ops, const struct op *op,
                                     enum weight_role role);

#endif
