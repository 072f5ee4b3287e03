/* models/op.h - one operation of a training step, with its size.
 *
 * The lists made of these are the only description of the work in a layer: FLOPs, time, memory and,
 * later, the executor's calls are all read off them. An op is a value; sizes are those that one
 * rank handles. Rows of a matrix are tokens; 2 FLOPs a multiply-add. */
#ifndef MODELS_OP_H
#define MODELS_OP_H

#include <stdbool.h>

// clang-format off
#define OP_KINDS(X)                                                                             \
    /* name            text              what m, n, k, batch mean */                            \
    X(GEMM,            "gemm",           "m x n from k: a linear layer or one of its gradients") \
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
    X(QUANTIZE,        "quantize",       "m rows of n from 16 bits to fp8")                     \
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

/* What selective recompute may replay. */
enum op_region { REGION_REST, REGION_ATTENTION_CORE };

enum op_stream { STREAM_COMPUTE, STREAM_TENSOR, STREAM_CONTEXT, NUM_OP_STREAMS };

enum dtype { DTYPE_FP32, DTYPE_FP16, DTYPE_BF16, DTYPE_FP8, NUM_DTYPES };
extern const char *const dtype_names[NUM_DTYPES + 1]; /* NULL-terminated */
double dtype_bytes(enum dtype dtype);

struct op {
    enum op_kind kind;
    enum op_pass pass;
    enum op_region region;
    enum op_stream stream;
    enum dtype dtype;
    const char *name;    /* "qkv", "fc1" ...: static text */
    const char *variant; /* what else its kernel depends on: "gelu", "dropout"; "": nothing */
    double m, n, k, batch;
    double flops;             /* executed */
    double model_flops;       /* what MFU counts: a causal mask's half of attention */
    double bytes;             /* least traffic to and from device memory */
    double kernels;           /* launches */
    double saved_bytes;       /* kept from forward to backward, inside the op's region */
    double saved_input_bytes; /* kept too, but an input of the region: stays when it is replayed */
    const struct op *folded;  /* the op behind it that its kernel does too, and that is in no list:
                                 saved_bytes are of both; NULL: none. In the list's arena */
    double comm_bytes;        /* collectives: payload, see the table */
    double backward_bytes;    /* forward ops: traffic of the input gradient; GEMMs and marks: of
                                 quantising the output's gradient */
    double backward_kernels;  /* forward ops: its launches */
    double chunks;        /* runs of rows, which the ops of the list that have so many go through
                             together, one run after the other; sizes are of all. 0: at once */
    bool adds_stream;     /* NORM: its backward adds the gradient of the stream to its own */
    bool column_parallel; /* GEMM whose input came through TENSOR_ENTER */
    bool has_bias;        /* GEMM that has a bias; a weight gradient: that sums the bias's too */
    int after;            /* index in the same list that must have finished, or -1 */
};

struct ops {
    struct op *at;
    int count;
};

bool op_is_collective(enum op_kind kind);

/* One run of those that an op with chunks is done in; others as they are. */
struct op op_run(const struct op *op);

/* What an op keeps beside what the one that is folded into it keeps. */
double op_own_saved_bytes(const struct op *op);

/* Whether the product at `i` of a forward list reads what the one before it made by an activation
 * in its epilogue: the derivative is then in that of its input gradient. */
bool ops_folds_before(const struct ops *forward, int i);

#endif
