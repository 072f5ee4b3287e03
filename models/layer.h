/* models/layer.h - turns a model into the op lists of a block, the embedding and the head.
 *
 * Only forward lists are written by hand. The backward is derived from them by one rule per op kind
 * (ops_backward), so both always agree. `dims` gives the sizes: those of the whole model, or of one
 * rank after sim/plan has divided them. */
#ifndef MODELS_LAYER_H
#define MODELS_LAYER_H

#include "base/arena.h"
#include "models/model.h"
#include "models/op.h"
#include "models/precision.h"
#include "models/quantised_storage.h"
#include "models/unfused.h"

/* The sizes on one rank. layer_dims() gives the unsharded sizes. */
struct layer_dims {
    double batch;       /* sequences of a microbatch */
    double seq;         /* query tokens of one sequence on this rank */
    double kv_seq;      /* keys per query before masking */
    double tokens;      /* batch x seq */
    double norm_tokens; /* rows between the tensor regions: tokens, or tokens/tp under SP */
    double hidden;
    double hidden_columns; /* columns on this rank of a matrix product whose output, `hidden` wide,
                              tensor ranks split by columns */
    double heads, kv_heads, head_dim;
    double mixer_key_heads, mixer_value_heads; /* of blocks with a state instead of attention */
    double value_dim; /* width of a head's values and outputs; head_dim unless latent */
    double ffn;
    double experts;   /* number of experts on this rank; 0: none */
    double sent_rows; /* rows that this rank sends to experts: one for each expert that a token
                         chose */
    /* rows that the busiest rank receives when all ranks send rows to experts */
    double message_rows;
    double expert_rows; /* total rows of the experts on this rank */
    double expert_ffn, shared_ffn;
    double vocab;   /* padded width of the output head and of the embedding table, on this rank */
    bool is_padded; /* every expert's rows are padded to its capacity */
};

/* Which ops a training framework fuses into one kernel. A stack file lists them. */
enum fusion {
    FUSION_BIAS_GELU,     /* bias + gelu (or the gated product) in one kernel */
    FUSION_RESIDUAL,      /* bias + dropout + add in one kernel */
    FUSION_RESIDUAL_NORM, /* bias + dropout + add + the norm after it; in the backward, the norm's
                             kernel adds the residual stream's gradient */
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
/* Fusions for which ops_fuse merges an op into the op before it, so that the list gets shorter. */
enum { FOLDING_FUSIONS = 1u << FUSION_GEMM_GELU | 1u << FUSION_RESIDUAL_NORM };
extern const char *const fusion_names[NUM_FUSIONS + 1];

struct layer_options {
    bool flash_attention; /* one fused kernel instead of scores, softmax, context */
    unsigned fusions;     /* bit set of enum fusion */
    /* costs of ops that run as several kernels; NULL: each op is one kernel */
    const struct unfused_ops *unfused;
    enum dtype dtype;            /* type of activations and of GEMM inputs that are not quantised */
    const struct recipe *recipe; /* the recipe: how linear layers of a block are quantised; NULL:
                                    not at all */
    struct stores stores;        /* the types in which values are kept for the backward, if there is
                                    a recipe */
    int copies; /* quantised copies that one kernel makes of a tensor that two products read: 1
                   (both share it, or stores.transposes_apart) or 2 (one for each) */
    bool keeps_gathered; /* products keep gathered inputs for the backward; else each rank keeps its
                            part and gathers again */
    bool leaves_vocab_odd; /* a rank's vocabulary is not padded to whole tiles */
    bool sends_tokens;     /* rows are sent to experts directly, without first being copied once for
                              each choice */
    bool sorts_in_flight;  /* rows arrive sorted by expert, so that no sort op is needed */
    bool sums_rows_in_dtype;   /* ranks that share an expert sum their parts of its rows in
                                  `dtype`; else in fp32 */
    bool launches_each_expert; /* the product of each expert is a launch; else one launch for all
                                  experts of a rank */
    bool sends_quantized;   /* rows travel to their experts quantised, and so do their gradients */
    bool shared_beside;     /* the shared expert overlaps the exchanges of rows */
    bool norms_in_products; /* the norm before attention or a dense feed-forward is fused with the
                               linear layer that reads it; a norm before experts or latent attention
                               never is */
    bool norm_reads_twice;  /* a second kernel of a norm's backward reads input and gradient again,
                               for the weights' gradients */
    bool pads_rows; /* quantised rows of experts are first copied to blocks of aligned length */
    double gradient_bytes; /* bytes of one element of the weight gradient's accumulator */
    double logits_rows;    /* maximum number of rows of logits that the head computes at once;
                              0: all */
};

struct layer_dims layer_dims(const struct model *model, double batch, double seq);

/* Forward lists. They still contain the marks (..._ENTER, ..._LEAVE) that collectives will replace.
 * Arrays live in the arena. */
struct ops layer_forward(const struct model *model, const struct layer_dims *dims,
                         const struct layer_options *options, struct arena *arena);
struct ops embedding_forward(const struct model *model, const struct layer_dims *dims,
                             const struct layer_options *options, struct arena *arena);
struct ops head_forward(const struct model *model, const struct layer_dims *dims,
                        const struct layer_options *options, struct arena *arena);
/* The list of a multi-token-prediction module, which runs between an embedding and a head. Pass
 * model_of_later() as `model`. The embedding's rows are a second input, in ops.aside. */
struct ops later_forward(const struct model *model, const struct layer_dims *dims,
                         const struct layer_options *options, struct arena *arena);

/* Number of row blocks, equal in size up to one row, in which the head computes its logits; 0: all
 * rows at once. With row blocks the forward keeps no logits, and the backward recomputes them block
 * by block. */
double head_row_blocks(const struct layer_dims *dims, const struct layer_options *options);

/* The backward of a forward list, in reverse order. Each op is tagged as input gradient (B) or
 * weight gradient (W). New values are added to the forward's operands. */
struct ops ops_backward(struct ops forward, const struct layer_options *options,
                        struct arena *arena);
/* Removes from the forward's saved values those that the backward does not read; frozen weights
 * leave some. `backward` is what ops_backward made of `forward`. */
void ops_drop_unread(struct ops *forward, const struct ops *backward);

/* Applies FOLDING_FUSIONS to a forward or backward list: one op does the work and the writes of
 * two. A product's input gradient fused with an activation's derivative then also reads the
 * activation's input. Derive the backward from the unfused forward. */
struct ops ops_fuse(struct ops ops, const struct layer_options *options);

/* FLOPs and model FLOPs of all ops of a list. */
double ops_flops(struct ops ops);
double ops_model_flops(struct ops ops);

/* Model FLOPs of one training step over `sequences` of `seq` tokens: one forward and one backward.
 * Causal attention counts as half of full attention, and only within documents. The output head
 * counts, the embedding look-up does not. */
double model_step_flops(const struct model *model, double sequences, double seq);
/* Parameters of all blocks' matrices: linear layers, routers and experts. */
double model_matrix_parameters(const struct model *model);
/* Model FLOPs of the output head divided by those of an average layer. */
double model_head_layers(const struct model *model, double seq);

#endif
