/* models/model.h - dimensions and options of the transformer that is trained, unsharded.
 *
 * A model is a value. It comes from a preset (models/presets/NAME.json), a file in the same form,
 * or a Hugging Face config.json; nothing depends on which. */
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
/* A part of a block has a norm before it, after it, or both. */
enum norm_place { NORMS_BEFORE, NORMS_AFTER, NORMS_AROUND };
/* Attention and feed-forward follow each other, or both read the block's input, with a norm each or
 * the same one. */
enum parallel_kind { PARALLEL_NO, PARALLEL_OWN_NORMS, PARALLEL_ONE_NORM };
extern const char *const norm_place_names[], *const parallel_names[];
extern const char *const norm_names[], *const activation_names[], *const position_names[];
/* NULL-terminated */
/* Where the gain of the norm of q and k comes from: one for every head, one of its own for each
 * head, or a norm over all heads together, with a gain for each channel. */
enum qk_norm_kind { QK_NORM_HEAD, QK_NORM_EACH, QK_NORM_ALL };
extern const char *const qk_norm_names[];
enum position_kind {
    POSITION_LEARNED,
    POSITION_ROTARY,
    POSITION_ALIBI,
    POSITION_NONE,
    POSITION_RELATIVE,       /* a bias per head and range of distances, one table a stack (T5) */
    POSITION_TRANSFORMER_XL, /* distances that every block projects, as keys */
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
    double norm_epsilon;        /* added to the variance, or the mean square, of every norm */
    bool linear_bias;           /* biases on the projections of attention and feed-forward */
    bool qkv_bias;              /* biases on q, k and v (implied by linear_bias) */
    bool qk_norm;               /* RMSNorm of q and k; per head 2 head_dim weights a layer */
    int qk_norm_kind;           /* enum qk_norm_kind */
    bool embedding_norm;        /* a norm after the embedding (BLOOM) */
    bool tied;                  /* output head shares the token embedding */
    double dropout;             /* hidden and attention dropout; 0: no masks are kept */
    double batch;               /* usual global batch, sequences; 0: not stated */
    double tokens;              /* usual token budget; 0: not stated */
    struct documents documents; /* packed into a sequence of the run */
    struct blocks blocks;       /* the kinds of blocks, when there are several */

    int attention;        /* enum attention_kind of all blocks, when they are of one kind */
    int feed_forward;     /* enum feed_forward_kind, likewise; derived: experts if there are any */
    int attention_chunk;  /* tokens of a chunk that attention stays within; 0: no chunks */
    bool sinks;           /* one learned score per query head, which takes weight from all others */
    bool attention_gate;  /* another product as wide as q gates the output of attention */
    bool out_bias;        /* bias on the output of attention (implied by linear_bias) */
    bool ffn_bias;        /* biases of a dense feed-forward (implied by linear_bias) */
    bool head_bias;       /* bias of the output head */
    bool head_transform;  /* a product hidden -> hidden with bias before the last norm (BERT) */
    int token_types;      /* rows of a table of kinds of tokens (BERT) */
    int norm_place;       /* enum norm_place */
    int parallel;         /* enum parallel_kind */
    int relative_buckets; /* ranges of distances of POSITION_RELATIVE */

    /* Experts: each token goes to topk of them, of width expert_ffn. 0: none. */
    int experts, topk, expert_ffn;
    int shared_ffn;  /* sum of the widths of experts that every token goes to */
    int first_dense; /* so many first blocks have a dense feed-forward of width ffn */
    int moe_step;    /* of the others every moe_step-th has experts, block moe_step - 1 first */
    int expert_groups, topk_groups; /* a token's experts are of topk_groups groups; 0: of any */
    bool shared_gate;               /* hidden weights scale the shared experts' output */
    bool router_bias;               /* trained biases of the router, one an expert */
    bool score_bias;                /* biases that choose experts; set without a gradient */
    bool expert_bias;               /* biases on the projections of experts */
    struct routing routing;         /* of the run */

    /* Latent attention (MLA): q from q_lora channels (0: from hidden), k and v from kv_lora. A head
     * of q and k has qk_nope_dim channels without and qk_rope_dim with rotary angles; those of k
     * are the same in all heads. head_dim is their sum. kv_lora 0: plain attention. */
    int q_lora, kv_lora, qk_nope_dim, qk_rope_dim, v_head_dim;
    int index_heads, index_dim, index_topk; /* the indexer of ATTENTION_SPARSE */

    /* Mixers with a state, ATTENTION_DELTA and ATTENTION_MAMBA: heads of keys (groups of B and C in
     * Mamba) and of values, their widths (in Mamba the state's size and a head's), and the length
     * of the convolution before them. */
    int linear_key_heads, linear_value_heads, linear_key_dim, linear_value_dim, linear_conv;

    /* Trained weights (models/trained.h). lora > 0: adapters of that rank, beside the linear
     * layers that `trained` names or beside all. Else the weights that `trained` names, or the last
     * trained_layers blocks and the head. All empty: every weight. */
    int lora, trained_layers;
    char trained[96];
    int gradient;   /* enum block_gradient of all blocks, when they are of one kind; derived */
    bool reference; /* a copy that is not trained runs forward over each batch too */

    int mtp; /* modules that predict later tokens; counted apart from the model */
};

static inline int model_num_kinds(const struct model *model) /* 1 or more */
{
    return model->blocks.num_runs == 0 ? 1 : model->blocks.num_kinds;
}

extern const struct field model_fields[];
extern const size_t num_model_fields;

bool model_is_gated(const struct model *model); /* feed-forward has gate and up projections */

/* Exact number of parameters, embeddings included; modules for later tokens (mtp) are not. */
double model_parameters(const struct model *model);
/* Parameters that a token uses: topk of the experts, and everything else. */
double model_active_parameters(const struct model *model);
/* Parameters without a gradient, and so without optimizer state: score biases. */
double model_untrained_parameters(const struct model *model);
/* Parameters of the mtp modules: two norms, a product 2 hidden -> hidden, a block like the last,
 * and a norm each; embedding and head are the model's. */
double model_mtp_parameters(const struct model *model);
/* Parameters of one transformer block with the model's own widths. */
double model_layer_parameters(const struct model *model);
double model_layer_active_parameters(const struct model *model);
/* Parameters of all blocks, each with the widths of its kind. */
double model_blocks_parameters(const struct model *model);
/* Parameters of the token and position embeddings, of tables of relative positions, and of the norm
 * after them if any. */
double model_embedding_parameters(const struct model *model);
/* Parameters of the final norm, of the encoder's if there is one, and of the output head when it is
 * not tied. */
double model_head_parameters(const struct model *model);

extern const double usual_rope_theta, usual_norm_epsilon;

/* Fills in values that were left out and are 0 (kv_heads, head_dim, ffn, max_positions, rope_theta,
 * norm_epsilon), then checks. When heads do not divide hidden, the error names the nearest that
 * do. */
bool model_derive(struct model *model, struct err *err);

/* The first part of model_derive: widths of heads and feed-forward that were left out. */
bool model_derive_widths(struct model *model, struct err *err);

/* Checks what no single field can: heads x head_dim, divisibility, positions (models/check.c). */
bool model_check(const struct model *model, struct err *err);

/* False when the model has a feature that is counted, but whose time and memory are not modelled
 * (models/counted.c). The error names the feature and states the counts. */
bool model_has_costs(const struct model *model, struct err *err);

/* Whether two derived models are equal in all that a file can say of them but name, summary and
 * source: one prediction holds for both. */
bool models_are_equal(const struct model *a, const struct model *b);

/* Gives a derived model another depth: blocks with experts are placed anew by first_dense and
 * moe_step, other runs of blocks repeat. */
bool model_set_layers(struct model *model, int layers, struct err *err);

/* Finds `name`: a preset or alias, or a path to a preset-style file or a Hugging Face config.json.
 * An unknown name is ERR_USAGE with the nearest preset; a faulty file ERR_INPUT with FILE:LINE:
 * key. */
bool model_load(const char *name, struct model *out, struct err *err);

/* Reads the object that a preset file or a plan file's "model" holds. where = the key. */
bool model_read(const json_t *object, struct model *out, struct err *err);
json_t *
model_write(const struct model *model); /* its inverse, with params and active_params added */

/* A Hugging Face config.json as a model (models/huggingface.c), of a family in models/family.c. A
 * feature that we cannot express is an error that names its key. A model of text and images is read
 * as its text part. */
bool model_from_huggingface(const json_t *config, struct model *out, struct err *err);

/* One preset with the names it answers to. */
struct model_preset {
    struct model model;
    char aliases[4][32]; /* "" past the last */
};
/* All presets, sorted by name; the caller frees. NULL when a file is faulty or none is found. */
struct model_preset *model_presets(size_t *count, struct err *err);

#endif
