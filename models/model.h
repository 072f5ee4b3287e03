/* models/model.h - dimensions and options of the whole transformer to train, before sharding.
 *
 * struct model holds no pointers to free. It is read from a preset (models/presets/NAME.json), a
 * file in the same form, or a Hugging Face config.json; later code does not depend on the
 * source. */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "base/err.h"
#include "base/field.h"
#include "models/block_kind.h"
#include "models/documents.h"
#include "models/routing.h"

#include <jansson.h>
#include <stdbool.h>

enum norm_kind { NORM_LAYER, NORM_RMS, NORM_GAIN }; /* NORM_GAIN: LayerNorm without bias */
enum activation_kind {
    ACTIVATION_GELU,
    ACTIVATION_RELU,
    ACTIVATION_SWIGLU,
    ACTIVATION_GEGLU,
    ACTIVATION_RELU2, /* the square of relu */
};
/* Attention and feed-forward have a norm before each, after each, or both; or the norm is applied
 * to the residual stream after the output of each was added to it. */
enum norm_place { NORMS_BEFORE, NORMS_AFTER, NORMS_AROUND, NORMS_OF_SUM };
/* Attention and feed-forward run one after the other, or both read the block's input, with one norm
 * each or with one norm for both. */
enum parallel_kind { PARALLEL_NO, PARALLEL_OWN_NORMS, PARALLEL_ONE_NORM };
extern const char *const norm_place_names[], *const parallel_names[];
extern const char *const norm_names[], *const activation_names[], *const position_names[];
/* These lists of names are NULL-terminated. */
/* The gains of the norm of q and k: one gain vector shared by all heads, one for each head, or one
 * norm over all heads together with a gain for each channel. */
enum qk_norm_kind { QK_NORM_HEAD, QK_NORM_EACH, QK_NORM_ALL };
extern const char *const qk_norm_names[];
enum position_kind {
    POSITION_LEARNED,
    POSITION_ROTARY,
    POSITION_ALIBI,
    POSITION_NONE,
    POSITION_RELATIVE, /* a bias per head and range of distances; one table for each stack of blocks
                          (T5) */
    POSITION_TRANSFORMER_XL, /* every block projects distance embeddings to further keys */
};

struct model {
    char name[64];
    char summary[160];
    char source[320];
    int layers;
    int hidden;
    int heads;    /* query heads */
    int kv_heads; /* key and value heads: heads (MHA), fewer (GQA), 1 (MQA) */
    int head_dim;
    int ffn;            /* width of the feed-forward; when gated, of each of its two inputs */
    int vocab;          /* tokens of the vocabulary, before padding for tensor parallelism */
    int seq;            /* usual training sequence length, tokens */
    int allowed_seq;    /* longest sequence that a config.json allows, when seq was derived from it;
                           else 0 */
    int sliding_window; /* tokens that attention looks back in windowed blocks; 0: no window */
    int max_positions;  /* rows of the learned position table; 0 without one */
    int norm;           /* enum norm_kind */
    int activation;     /* enum activation_kind */
    int positions;      /* enum position_kind */
    double rope_theta;  /* base of rotary angles; 0 with other positions */
    double norm_epsilon; /* added to the variance, or the mean square, of every norm */
    bool linear_bias;    /* biases on the projections of attention and feed-forward */
    bool qkv_bias;       /* biases on q, k and v (implied by linear_bias) */
    bool qk_norm; /* RMSNorm of q and k; with QK_NORM_HEAD it has 2 head_dim weights per layer */
    int qk_norm_kind;           /* enum qk_norm_kind */
    bool embedding_norm;        /* a norm after the embedding (BLOOM) */
    bool tied;                  /* output head shares the token embedding */
    double dropout;             /* hidden and attention dropout; 0: no masks are kept */
    double batch;               /* usual global batch, sequences; 0: not stated */
    double tokens;              /* usual token budget; 0: not stated */
    struct documents documents; /* lengths of the documents packed into a sequence */
    struct blocks blocks;       /* kinds of blocks, if there are several */

    int attention;    /* enum attention_kind of all blocks, if they are alike */
    int feed_forward; /* enum feed_forward_kind of all blocks, if they are alike; derived: experts
                         if the model has any */
    int attention_block, attention_blocks; /* of ATTENTION_BLOCKS: tokens of a block, and number of
                                              blocks to which a token attends */
    int attention_rank;  /* of ATTENTION_LOW_RANK: rows of projected keys and values */
    int attention_chunk; /* attention sees only tokens of the same chunk of this many; 0: no chunks
                          */
    bool sinks; /* one learned score per query head, which takes attention weight from all keys */
    bool attention_gate; /* a further linear layer as wide as q gates the output of attention */
    bool out_bias;       /* bias on the output of attention (implied by linear_bias) */
    bool ffn_bias;       /* biases of a dense feed-forward (implied by linear_bias) */
    bool head_bias;      /* bias of the output head */
    bool head_transform; /* a linear layer hidden -> hidden with bias before the last norm (BERT) */
    int token_types;     /* rows of the token-type embedding table (BERT) */
    int norm_place;      /* enum norm_place */
    int parallel;        /* enum parallel_kind */
    int relative_buckets; /* ranges of distances of POSITION_RELATIVE */

    /* Experts: each token goes to topk of `experts` experts, each expert_ffn wide. experts 0:
     * none. */
    int experts, topk, expert_ffn;
    int shared_ffn;  /* sum of the widths of the shared experts, which every token passes */
    int first_dense; /* number of first blocks that have a dense feed-forward of width ffn */
    int moe_step; /* after the first first_dense blocks, the blocks moe_step - 1, 2 moe_step - 1 ...
                     have experts, counted from 0 from the start of the model */
    int expert_groups, topk_groups; /* a token's experts are from at most topk_groups of
                                       expert_groups groups; 0: from any */
    bool shared_gate; /* a gate of `hidden` weights scales the shared experts' output */
    bool router_bias; /* trained biases of the router, one per expert */
    bool score_bias; /* biases that affect only the choice of experts; updated without a gradient */
    bool expert_bias;       /* biases on the projections of experts */
    struct routing routing; /* how unevenly tokens choose experts in this run */

    /* Latent attention (MLA): q is projected from q_lora compressed channels (0: from hidden), k
     * and v from kv_lora. A head of q and k has qk_nope_dim channels without rotary angles and
     * qk_rope_dim with them; all heads share the rotary channels of k. head_dim is the sum of both.
     * kv_lora 0: plain attention. */
    int q_lora, kv_lora, qk_nope_dim, qk_rope_dim, v_head_dim;
    int index_heads, index_dim, index_topk; /* sizes of the indexer of ATTENTION_SPARSE */

    /* Linear attention and state-space blocks (ATTENTION_DELTA, ATTENTION_MAMBA): the number of key
     * heads (in Mamba: groups of B and C) and of value heads, the width of each (in Mamba: the
     * state size and the head's width), and the length of the convolution through which these
     * heads' inputs pass first. */
    int linear_key_heads, linear_value_heads, linear_key_dim, linear_value_dim, linear_conv;

    /* Trained weights (models/trainable.h). lora > 0: only adapters of that rank are trained, at
     * the linear layers that `trained` names, or at all of them if `trained` is empty. lora 0: the
     * weights that `trained` names are trained, or the last trained_layers blocks and the head. If
     * all three are 0 or empty, every weight is trained. */
    int lora, trained_layers;
    char trained[96];
    int gradient;   /* enum block_gradient of all blocks, if they are alike; derived */
    bool reference; /* a frozen copy of the model also runs forward over each batch */

    int mtp; /* multi-token-prediction modules; their parameters are counted apart from the model's
              */
};

static inline int
model_num_kinds(const struct model *model) /* number of kinds of blocks, 1 or more */
{
    return model->blocks.num_runs == 0 ? 1 : model->blocks.num_kinds;
}

extern const struct field model_fields[];
extern const size_t num_model_fields;

bool model_is_gated(const struct model *model); /* feed-forward has gate and up projections */

/* Exact number of parameters, with embeddings but without multi-token-prediction modules (mtp). */
double model_parameters(const struct model *model);
/* Parameters that a token uses: those of topk experts, and everything outside the experts. */
double model_active_parameters(const struct model *model);
/* Parameters without a gradient, and so without optimizer state: score biases. */
double model_untrained_parameters(const struct model *model);
/* Parameters of the mtp modules. Each has two norms, a linear layer 2 hidden -> hidden, a block
 * like the model's last one, and a final norm; they use the model's embedding and head. */
double model_mtp_parameters(const struct model *model);
/* Parameters of one transformer block with the widths in struct model itself, not those of a block
 * kind. */
double model_layer_parameters(const struct model *model);
double model_layer_active_parameters(const struct model *model);
/* Parameters of all blocks, each with the widths of its kind. */
double model_blocks_parameters(const struct model *model);
/* Parameters of the token and position embeddings, of tables of relative positions, and of the norm
 * after the embedding, if any. */
double model_embedding_parameters(const struct model *model);
/* Parameters of the final norm, of the encoder's final norm if there is an encoder, and of the
 * output head if it is not tied. */
double model_head_parameters(const struct model *model);

extern const double usual_rope_theta, usual_norm_epsilon;

/* Fills in values that were left out, and so are 0 (kv_heads, head_dim, ffn, max_positions,
 * rope_theta, norm_epsilon), then checks the model. When `heads` does not divide `hidden`, the
 * error names the nearest numbers of heads that do. */
bool model_derive(struct model *model, struct err *err);

/* The first part of model_derive: fills in the widths of heads and feed-forward. */
bool model_derive_widths(struct model *model, struct err *err);

/* Checks that concern several fields: heads x head_dim, divisibility, positions
 * (models/check.c). */
bool model_check(const struct model *model, struct err *err);

/* False when the model has a feature whose parameters are counted but whose time and memory are not
 * modelled (models/counted.c). The error names the feature and states the parameter counts. */
bool model_has_costs(const struct model *model, struct err *err);

/* A feature of the model that no measured run has, in the plural, such as "linear mixers"; NULL:
 * runs with all of its features were measured (models/unmeasured.c). */
const char *model_unmeasured(const struct model *model);

/* Whether two derived models have equal fields, apart from name, summary and source. If so, one
 * prediction holds for both. */
bool models_are_equal(const struct model *a, const struct model *b);

/* Changes the number of layers of a derived model. Blocks with experts are placed again by
 * first_dense and moe_step; other runs of blocks are repeated. */
bool model_set_layers(struct model *model, int layers, struct err *err);

/* Finds `name`: a preset or alias, or a path to a preset-style file or a Hugging Face config.json.
 * An unknown name gives ERR_USAGE and suggests the nearest preset; a faulty file gives ERR_INPUT
 * with FILE:LINE: key. */
bool model_load(const char *name, struct model *out, struct err *err);

/* Reads the object in a preset file or in a plan file's "model". On error err->where is the key. */
bool model_read(const json_t *object, struct model *out, struct err *err);
json_t *
model_write(const struct model *model); /* inverse of model_read; adds params, active_params */

/* Reads a Hugging Face config.json (models/huggingface.c) whose family is in models/family.c. A
 * feature that struct model cannot express is an error that names its key. Of a model of text and
 * images only the text part is read. */
bool model_from_huggingface(const json_t *config, struct model *out, struct err *err);
/* Whether the model was read from a config.json, directly or before it was stored in a plan. Such a
 * model lacks the keys that change neither weights nor time, such as rope_scaling. */
bool model_is_from_huggingface(const struct model *model);

/* One preset and its alternative names. */
struct model_preset {
    struct model model;
    char aliases[4][32]; /* "" past the last */
};
/* All presets, sorted by name; the caller frees. NULL when a file is faulty or none is found. */
struct model_preset *model_presets(size_t *count, struct err *err);

#endif
