/* models/model.h - dimensions and options of the transformer that is trained, unsharded.
 *
 * A model is a value. It comes from a preset (models/presets/NAME.json), a file in the same form,
 * or a Hugging Face config.json; nothing depends on which. */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "base/err.h"
#include "base/field.h"
#include "models/blocks.h"
#include "models/documents.h"

#include <jansson.h>
#include <stdbool.h>

enum norm_kind { NORM_LAYER, NORM_RMS };
enum activation_kind { ACTIVATION_GELU, ACTIVATION_RELU, ACTIVATION_SWIGLU, ACTIVATION_GEGLU };
extern const char *const norm_names[], *const activation_names[], *const position_names[];
/* NULL-terminated */
enum position_kind { POSITION_LEARNED, POSITION_ROTARY, POSITION_ALIBI, POSITION_NONE };

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
    bool qk_norm;        /* RMSNorm over each head of q and k: 2 head_dim weights per layer */
    bool embedding_norm; /* a norm after the embedding (BLOOM) */
    bool tied;           /* output head shares the token embedding */
    double dropout;      /* hidden and attention dropout; 0: no masks are kept */
    double batch;        /* usual global batch, sequences; 0: not stated */
    double tokens;       /* usual token budget; 0: not stated */
    struct documents documents; /* packed into a sequence of the run */
    struct blocks blocks;       /* the kinds of blocks, when there are several */
};

static inline int model_num_kinds(const struct model *model) /* 1 or more */
{
    return model->blocks.num_runs == 0 ? 1 : model->blocks.num_kinds;
}

extern const struct field model_fields[];
extern const size_t num_model_fields;

bool model_is_gated(const struct model *model); /* feed-forward has gate and up projections */

/* Exact number of trained parameters, embeddings included. */
double model_parameters(const struct model *model);
/* Parameters of one transformer block with the model's own widths. */
double model_layer_parameters(const struct model *model);
/* Parameters of all blocks, each with the widths of its kind. */
double model_blocks_parameters(const struct model *model);
/* Parameters of the token and position embeddings, and of the norm after them if any. */
double model_embedding_parameters(const struct model *model);
/* Parameters of the final norm, and of the output head when it is not tied. */
double model_head_parameters(const struct model *model);

extern const double usual_rope_theta, usual_norm_epsilon;

/* Fills in values that were left out and are 0 (kv_heads, head_dim, ffn, max_positions, rope_theta,
 * norm_epsilon), then checks. When heads do not divide hidden, the error names the nearest that
 * do. */
bool model_derive(struct model *model, struct err *err);

/* Checks what no single field can: heads x head_dim, divisibility, positions. */
bool model_check(const struct model *model, struct err *err);

/* Finds `name`: a preset or alias, or a path to a preset-style file or a Hugging Face config.json.
 * An unknown name is ERR_USAGE with the nearest preset; a faulty file ERR_INPUT with FILE:LINE:
 * key. */
bool model_load(const char *name, struct model *out, struct err *err);

/* Reads the object that a preset file or a plan file's "model" holds. where = the key. */
bool model_read(const json_t *object, struct model *out, struct err *err);
json_t *
model_write(const struct model *model); /* its inverse, with params and active_params added */

/* A Hugging Face config.json as a model (models/huggingface.c): GPT-2, OPT, BLOOM, Llama, Mistral,
 * Qwen2, Qwen3. A feature that we cannot express is an error that names its key. */
bool model_from_huggingface(const json_t *config, struct model *out, struct err *err);

/* One preset with the names it answers to. */
struct model_preset {
    struct model model;
    char aliases[4][32]; /* "" past the last */
};
/* All presets, sorted by name; the caller frees. NULL when a file is faulty or none is found. */
struct model_preset *model_presets(size_t *count, struct err *err);

#endif
