/* models/layer.h - model -> op lists of a block, the embedding and the head.
 *
 * Only forward lists are written down; the backward is derived from them by one rule per op kind
 * (op_backward), so the two always agree. Sizes are those of `dims`: the whole model's, or one
 * rank's share after the axes of sim/plan have divided them. */
#ifndef MODELS_LAYER_H
#define MODELS_LAYER_H

#include "base/arena.h"
#include "models/model.h"
#include "models/op.h"
#include "models/precision.h"
#include "models/unfused.h"

/* One rank's share of the sizes. Unsharded: layer_dims(). */
struct layer_dims {
    double batch;       /* sequences of a microbatch */
    double seq;         /* query tokens of one sequence on this rank */
    double kv_seq;      /* keys each query may see before masking */
    double tokens;      /* batch x seq */
    double norm_tokens; /* rows between the tensor regions: tokens, or tokens/tp under SP */
    double hidden;
    double hidden_columns; /* of a product as wide as that whose columns are split */
    double heads, kv_heads, head_dim;
    double value_dim; /* of a head's values and outputs: head_dim, but in latent attention */
    double ffn;
    double experts;      /* on this rank; 0: none */
    double sent_rows;    /* rows that this rank sends to experts, a place for each choice */
    double message_rows; /* rows of the fullest rank in an exchange of them */
    double expert_rows;  /* rows that the experts here get together */
    double expert_ffn, shared_ffn;
    double vocab; /* of the output head and the embedding table, padded */
};

/* What the kernels of a software family do in one pass; from a stack file. */
enum fusion {
    FUSION_BIAS_GELU,     /* bias + gelu (or the gated product) in one kernel */
    FUSION_RESIDUAL,      /* bias + dropout + add in one kernel */
    FUSION_RESIDUAL_NORM, /* ... and the norm that follows it in the block; in the backward, norms
                             add the stream's gradient */
    FUSION_SOFTMAX,       /* scale + mask + softmax in one kernel */
    FUSION_CROSS_ENTROPY, /* softmax and loss without fp32 logits in memory */
    FUSION_ROTARY,        /* rotary embedding in one kernel */
    FUSION_WGRAD_ACCUMULATE, /* weight gradients added into the main gradient by the GEMM */
    FUSION_NORM,             /* one-kernel norms (Apex, Transformer Engine) */
    FUSION_WGRAD_BIAS,       /* bias gradients summed by the weight gradient's GEMM */
    FUSION_GEMM_GELU, /* plain gelu in the epilogue of the GEMM before it, and its derivative in the
                         epilogue of the input gradient's GEMM; not when quantised */
    NUM_FUSIONS,
};
/* Fusions that drop ops from the list, as ops_fuse merges them into the op before. */
enum { FOLDING_FUSIONS = 1u << FUSION_GEMM_GELU | 1u << FUSION_RESIDUAL_NORM };
extern const char *const fusion_names[NUM_FUSIONS + 1];

struct layer_options {
    bool flash_attention; /* one fused kernel instead of scores, softmax, context */
    unsigned fusions;     /* bit set of enum fusion */
    const struct unfused_ops
        *unfused;                /* costs of ops that are not fused; NULL: each op is one kernel */
    enum dtype dtype;            /* type of activations and of GEMM inputs that are not quantised */
    const struct recipe *recipe; /* of the linear layers of a block; NULL: none */
    int copies;                  /* quantised copies for the two products that read them: 1 or 2 */
    bool keeps_gathered;     /* products keep gathered inputs; else a rank's part, gathered again */
    bool leaves_vocab_odd;   /* a rank's vocabulary is not padded to whole tiles */
    bool sends_tokens;       /* rows go to experts without a copy for each choice before */
    bool sorts_in_flight;    /* and arrive in the experts' order */
    bool sums_rows_in_dtype; /* ranks with one expert add up their parts of its rows in `dtype`;
                                else in fp32 */
    double gradient_bytes;   /* of one element of the weight gradient's accumulator */
    double logits_rows;      /* most rows of logits that the head computes at once; 0: all */
};

struct layer_dims layer_dims(const struct model *model, double batch, double seq);

/* Forward lists. Marks (..._ENTER, ..._LEAVE) are still in them. Arrays live in the arena. */
struct ops layer_forward(const struct model *model, const struct layer_dims *dims,
                         const struct layer_options *options, struct arena *arena);
struct ops embedding_forward(const struct model *model, const struct layer_dims *dims,
                             const struct layer_options *options, struct arena *arena);
struct ops head_forward(const struct model *model, const struct layer_dims *dims,
                        const struct layer_options *options, struct arena *arena);
/* A module that predicts a later token, between an embedding and a head; `model`: as if all blocks
 * were of its kind. The embedding's rows are the list's value aside. */
struct ops later_forward(const struct model *model, const struct layer_dims *dims,
                         const struct layer_options *options, struct arena *arena);

/* Number of row blocks, equal to within one row, in which the head computes its logits; 0: all at
 * once. With blocks the forward keeps no logits, and the backward recomputes them block by
 * block. */
double head_row_blocks(const struct layer_dims *dims, const struct layer_options *options);

/* The backward of a forward list, in reverse order, each op tagged B or W. Its values are added to
 * the forward's operands. */
struct ops ops_backward(struct ops forward, const struct layer_options *options,
                        struct arena *arena);
/* Lets the forward keep nothing that its backward does not read, as where weights are frozen. Both
 * are as ops_backward took and made them. */
void ops_drop_unread(struct ops *forward, const struct ops *backward);

/* A forward or backward list after the FOLDING_FUSIONS: one op does the work and the writes of two.
 * A product's input gradient then reads the input of the activation before it. Derive the backward
 * from the unfused forward. */
struct ops ops_fuse(struct ops ops, const struct layer_options *options);

/* Sums over a list. */
double ops_flops(struct ops ops);
double ops_model_flops(struct ops ops);

/* Model FLOPs of one training step over `sequences` of `seq` tokens: forward and backward once,
 * causal attention at its half and within documents, output head in, embedding look-up out. */
double model_step_flops(const struct model *model, double sequences, double seq);
/* Parameters of the matrices of all blocks: of linear layers, routers and experts. */
double model_matrix_parameters(const struct model *model);
/* Model FLOPs of the output head over those of a layer in the mean. */
double model_head_layers(const struct model *model, double seq);

#endif
