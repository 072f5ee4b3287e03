#include "models/family.h"

#include "base/length.h"

#include <stddef.h>

#define LAYER_NORM_MODEL .norm = NORM_LAYER, .linear_bias = true, .tied = true
#define LLAMA_MODEL      .norm = NORM_RMS, .activation = ACTIVATION_SWIGLU, .positions = POSITION_ROTARY

// clang-format off
#define NEEDED(name, field)            { name, KEY_INT, field, true, 0 }
#define OPTIONAL(name, field)          { name, KEY_INT, field, false, 0 }
#define DEFAULTED(name, field, number) { name, KEY_INT, field, false, number }
#define DROPOUT(name, number)          { name, KEY_DROPOUT, NULL, false, number }
#define SWITCH(name, kind)             { name, kind, NULL, false, 0 }
#define POSITIVE(name, field, number)  { name, KEY_POSITIVE, field, false, number }

/* Keys of Llama and its successors; differences are in their own rows. */
#define LLAMA_KEYS                                \
    NEEDED("hidden_size", "hidden"),              \
    NEEDED("num_hidden_layers", "layers"),        \
    NEEDED("num_attention_heads", "heads"),       \
    NEEDED("intermediate_size", "ffn"),           \
    NEEDED("vocab_size", "vocab"),                \
    NEEDED("max_position_embeddings", "seq"),     \
    SWITCH("hidden_act", KEY_ACTIVATION),         \
    SWITCH("tie_word_embeddings", KEY_TIED),      \
    POSITIVE("rms_norm_eps", "norm_epsilon", 1e-6), \
    { "rope_parameters", KEY_ROPE, "rope_theta", false, 0 }, /* transformers 5 */ \
    POSITIVE("rope_theta", "rope_theta", 10000),  \
    DROPOUT("attention_dropout", 0)
#define WINDOW { "sliding_window", KEY_WINDOW, NULL, false, 4096 }

const struct family families[] = {
    { "gpt2", "GPT2LMHeadModel",
      { LAYER_NORM_MODEL, .activation = ACTIVATION_GELU, .positions = POSITION_LEARNED }, 0,
      { NEEDED("n_embd", "hidden"),
        NEEDED("n_layer", "layers"),
        NEEDED("n_head", "heads"),
        OPTIONAL("n_inner", "ffn"),
        NEEDED("vocab_size", "vocab"),
        NEEDED("n_positions", "seq"),
        SWITCH("activation_function", KEY_ACTIVATION),
        SWITCH("tie_word_embeddings", KEY_TIED),
        POSITIVE("layer_norm_epsilon", "norm_epsilon", 1e-5),
        DROPOUT("resid_pdrop", 0.1),
        DROPOUT("embd_pdrop", 0.1),
        DROPOUT("attn_pdrop", 0.1) } },
    /* OPTLearnedPositionalEmbedding starts at row 2, as in fairseq. */
    { "opt", "OPTForCausalLM",
      { LAYER_NORM_MODEL, .activation = ACTIVATION_RELU, .positions = POSITION_LEARNED }, 2,
      { NEEDED("hidden_size", "hidden"),
        NEEDED("num_hidden_layers", "layers"),
        NEEDED("num_attention_heads", "heads"),
        NEEDED("ffn_dim", "ffn"),
        NEEDED("vocab_size", "vocab"),
        NEEDED("max_position_embeddings", "seq"),
        { "word_embed_proj_dim", KEY_SAME, "hidden", false, 0 },
        SWITCH("activation_function", KEY_ACTIVATION),
        SWITCH("tie_word_embeddings", KEY_TIED),
        SWITCH("do_layer_norm_before", KEY_TRUE),
        SWITCH("enable_bias", KEY_TRUE),
        SWITCH("layer_norm_elementwise_affine", KEY_TRUE),
        SWITCH("_remove_final_layer_norm", KEY_FALSE),
        DROPOUT("dropout", 0.1),
        DROPOUT("attention_dropout", 0) } },
    { "bloom", "BloomForCausalLM",
      { LAYER_NORM_MODEL, .activation = ACTIVATION_GELU, .positions = POSITION_ALIBI,
        .embedding_norm = true }, 0,
      { NEEDED("hidden_size", "hidden"),
        OPTIONAL("n_embed", "hidden"),
        NEEDED("n_layer", "layers"),
        OPTIONAL("num_hidden_layers", "layers"),
        NEEDED("n_head", "heads"),
        OPTIONAL("num_attention_heads", "heads"),
        NEEDED("vocab_size", "vocab"),
        DEFAULTED("seq_length", "seq", 2048),
        SWITCH("tie_word_embeddings", KEY_TIED),
        SWITCH("apply_residual_connection_post_layernorm", KEY_FALSE),
        POSITIVE("layer_norm_epsilon", "norm_epsilon", 1e-5),
        DROPOUT("hidden_dropout", 0),
        DROPOUT("attention_dropout", 0) } },
    { "llama", "LlamaForCausalLM", { LLAMA_MODEL }, 0,
      { LLAMA_KEYS,
        OPTIONAL("num_key_value_heads", "kv_heads"),
        OPTIONAL("head_dim", "head_dim"),
        SWITCH("attention_bias", KEY_BIAS),
        SWITCH("mlp_bias", KEY_BIAS) } },
    { "mistral", "MistralForCausalLM", { LLAMA_MODEL }, 0,
      { LLAMA_KEYS,
        NEEDED("num_key_value_heads", "kv_heads"),
        OPTIONAL("head_dim", "head_dim"),
        WINDOW } },
    { "qwen2", "Qwen2ForCausalLM", { LLAMA_MODEL, .qkv_bias = true }, 0,
      { LLAMA_KEYS,
        NEEDED("num_key_value_heads", "kv_heads"),
        OPTIONAL("head_dim", "head_dim"),
        WINDOW,
        SWITCH("use_sliding_window", KEY_USE_WINDOW),
        { "max_window_layers", KEY_FULL_BLOCKS, NULL, false, 28 },
        SWITCH("layer_types", KEY_LAYER_TYPES) } },
    { "qwen3", "Qwen3ForCausalLM", { LLAMA_MODEL, .qk_norm = true }, 0,
      { LLAMA_KEYS,
        NEEDED("num_key_value_heads", "kv_heads"),
        DEFAULTED("head_dim", "head_dim", 128),
        SWITCH("attention_bias", KEY_BIAS),
        WINDOW,
        SWITCH("use_sliding_window", KEY_USE_WINDOW),
        { "max_window_layers", KEY_FULL_BLOCKS, NULL, false, 28 },
        SWITCH("layer_types", KEY_LAYER_TYPES) } },
};
const size_t num_families = LENGTH(families);

const struct activation activations[] = {
    { "gelu",              ACTIVATION_GELU, ACTIVATION_GEGLU },
    { "gelu_new",          ACTIVATION_GELU, ACTIVATION_GEGLU },
    { "gelu_fast",         ACTIVATION_GELU, ACTIVATION_GEGLU },
    { "gelu_pytorch_tanh", ACTIVATION_GELU, ACTIVATION_GEGLU },
    { "relu",              ACTIVATION_RELU, -1 },
    { "silu",              -1,              ACTIVATION_SWIGLU },
    { "swish",             -1,              ACTIVATION_SWIGLU },
};
const size_t num_activations = LENGTH(activations);

/* These keys change costs in ways that are not modelled. Keys in no list (token ids, dtypes,
 * initialisers, rope_scaling, versions) change no cost. */
const struct refused_key refused_keys[] = {
    { "num_experts", 0 },                 { "num_local_experts", 0 },
    { "n_routed_experts", 0 },            { "n_shared_experts", 0 },
    { "moe_intermediate_size", 0 },       { "num_nextn_predict_layers", 0 },
    { "q_lora_rank", 0 },                 { "kv_lora_rank", 0 },
    { "quantization_config", 0 },         { "pruned_heads", 0 },
    { "partial_rotary_factor", 1 },       { "rotary_pct", 1 },
    { "rotary_dim", 0 },                  { "multi_query", 0 },
    { "parallel_attn", 0 },               { "use_parallel_residual", 0 },
    { "new_decoder_architecture", 0 },    { "alibi", 0 },
    { "bias", 0 },                        { "attention_bias", 0 },
    { "mlp_bias", 0 },                    { "qkv_bias", 0 },
    { "use_qk_norm", 0 },                 { "qk_layernorm", 0 },
    { "sliding_window", 0 },              { "layer_types", 0 },
    { "attn_layer_period", 0 },           { "full_attention_interval", 0 },
    { "attention_chunk_size", 0 },        { "head_dim", 0 },
    { "n_inner", 0 },                     { "word_embed_proj_dim", 0 },
    { "layerdrop", 0 },                   { "is_encoder_decoder", 0 },
    { "add_cross_attention", 0 },         { "cross_attention_layers", 0 },
    { "vision_config", 0 },               { "text_config", 0 },
    { "audio_config", 0 },
};
const size_t num_refused_keys = LENGTH(refused_keys);
// clang-format on
