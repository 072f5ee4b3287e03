/* Which keys of a Hugging Face config.json each family of models has, their default values, and the
 * field of struct model that each key sets. */
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
#define BOOL(name, field, number)      { name, KEY_BOOL, field, false, number }
#define BIAS(name, number)             { name, KEY_BIAS, NULL, false, number }
#define COUNT(name, field)             { name, KEY_COUNT, field, false, 0 }
#define LAYERS(name, number)           { name, KEY_LAYERS, NULL, false, number }
#define SHARED(name, number)           { name, KEY_SHARED, NULL, false, number }
#define IGNORED(name)                  { name, KEY_IGNORED, NULL, false, 0 }

/* Keys of Llama and its successors. A family that differs has its own rows after these. */
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
#define WINDOW    { "sliding_window", KEY_WINDOW, NULL, false, 4096 }
#define NO_WINDOW { "sliding_window", KEY_WINDOW, NULL, false, 0 } /* when left out */
#define ROPE_KEYS                                                             \
    { "rope_parameters", KEY_ROPE, "rope_theta", false, 0 },                  \
    POSITIVE("rope_theta", "rope_theta", 10000)

/* The expert keys of most families. Each family lists its own keys for shared experts and dense
 * blocks, as these keys differ. */
#define EXPERT_KEYS                               \
    NEEDED("num_experts_per_tok", "topk"),        \
    NEEDED("moe_intermediate_size", "expert_ffn")
#define GROUP_KEYS                      \
    COUNT("n_group", "expert_groups"),  \
    COUNT("topk_group", "topk_groups")

/* DeepSeek's keys, which Kimi K2 also uses. Their head_dim is only the rotary width, so it is
 * ignored. quantization_config describes how files are stored, not how models are trained. */
#define LATENT_KEYS                                \
    LLAMA_KEYS,                                    \
    NEEDED("n_routed_experts", "experts"),         \
    EXPERT_KEYS,                                   \
    GROUP_KEYS,                                    \
    SHARED("n_shared_experts", 0),                 \
    LAYERS("first_k_dense_replace", 0),            \
    { "moe_layer_freq", KEY_FIXED, NULL, false, 1 },             \
    COUNT("q_lora_rank", "q_lora"),                \
    NEEDED("kv_lora_rank", "kv_lora"),             \
    NEEDED("qk_nope_head_dim", "qk_nope_dim"),     \
    NEEDED("qk_rope_head_dim", "qk_rope_dim"),     \
    NEEDED("v_head_dim", "v_head_dim"),            \
    COUNT("num_nextn_predict_layers", "mtp"),      \
    SWITCH("attention_bias", KEY_FALSE),           \
    SWITCH("mlp_bias", KEY_FALSE),                 \
    IGNORED("head_dim"),                           \
    IGNORED("quantization_config")
#define QWEN_MOE_KEYS                                     \
    LLAMA_KEYS,                                           \
    NEEDED("num_key_value_heads", "kv_heads"),            \
    NEEDED("num_experts", "experts"),                     \
    EXPERT_KEYS,                                          \
    LAYERS("decoder_sparse_step", 1),                     \
    LAYERS("mlp_only_layers", 0)
#define QWEN_WINDOW_KEYS                                  \
    NO_WINDOW,                                            \
    SWITCH("use_sliding_window", KEY_USE_WINDOW),         \
    { "max_window_layers", KEY_FULL_BLOCKS, NULL, false, 28 }
#define MINIMAX_KEYS                                      \
    LLAMA_KEYS,                                           \
    NEEDED("num_key_value_heads", "kv_heads"),            \
    OPTIONAL("head_dim", "head_dim"),                     \
    NEEDED("num_local_experts", "experts"),               \
    NEEDED("num_experts_per_tok", "topk"),                \
    COUNT("shared_intermediate_size", "shared_ffn"),      \
    NO_WINDOW,                                            \
    LAYERS("attn_type_list", 0),                          \
    LAYERS("layer_types", 0),                             \
    IGNORED("rotary_dim")
#define BAILING_KEYS                                      \
    LLAMA_KEYS,                                           \
    NEEDED("num_key_value_heads", "kv_heads"),            \
    OPTIONAL("head_dim", "head_dim"),                     \
    NEEDED("num_experts", "experts"),                     \
    EXPERT_KEYS,                                          \
    GROUP_KEYS,                                           \
    SHARED("num_shared_experts", 0),                      \
    LAYERS("first_k_dense_replace", 0),                   \
    BOOL("use_qk_norm", "qk_norm", 0),                    \
    BOOL("use_qkv_bias", "qkv_bias", 0),                  \
    BOOL("moe_router_enable_expert_bias", "score_bias", 0), \
    SWITCH("use_bias", KEY_FALSE),                        \
    COUNT("num_nextn_predict_layers", "mtp"),             \
    IGNORED("partial_rotary_factor")
#define T5_KEYS                                           \
    NEEDED("d_model", "hidden"),                          \
    NEEDED("d_kv", "head_dim"),                           \
    NEEDED("d_ff", "ffn"),                                \
    NEEDED("num_layers", "layers"),                       \
    NEEDED("num_heads", "heads"),                         \
    NEEDED("vocab_size", "vocab"),                        \
    DEFAULTED("n_positions", "seq", 512),                 \
    DEFAULTED("relative_attention_num_buckets", "relative_buckets", 32), \
    SWITCH("tie_word_embeddings", KEY_TIED),              \
    POSITIVE("layer_norm_epsilon", "norm_epsilon", 1e-6), \
    DROPOUT("dropout_rate", 0.1),                         \
    IGNORED("num_decoder_layers"),                        \
    IGNORED("is_encoder_decoder")
/* The output head is a linear layer, a norm and the tied embedding with a bias. */
#define ENCODER_MODEL                                                             \
    LAYER_NORM_MODEL, .activation = ACTIVATION_GELU, .positions = POSITION_LEARNED, \
    .attention = ATTENTION_ENCODER, .norm_place = NORMS_OF_SUM, .embedding_norm = true, \
    .head_bias = true, .head_transform = true
#define ENCODER_KEYS                                      \
    NEEDED("hidden_size", "hidden"),                      \
    NEEDED("num_hidden_layers", "layers"),                \
    NEEDED("num_attention_heads", "heads"),               \
    NEEDED("intermediate_size", "ffn"),                   \
    NEEDED("vocab_size", "vocab"),                        \
    NEEDED("max_position_embeddings", "seq"),             \
    DEFAULTED("type_vocab_size", "token_types", 2),       \
    SWITCH("hidden_act", KEY_ACTIVATION),                 \
    SWITCH("tie_word_embeddings", KEY_TIED),              \
    SWITCH("is_decoder", KEY_FALSE),                      \
    POSITIVE("layer_norm_eps", "norm_epsilon", 1e-12),    \
    DROPOUT("hidden_dropout_prob", 0.1),                  \
    DROPOUT("attention_probs_dropout_prob", 0.1)
#define GEMMA_MODEL .norm = NORM_RMS, .activation = ACTIVATION_GEGLU, \
                    .positions = POSITION_ROTARY, .tied = true
/* attention_bias puts biases on q, k, v and the output. Soft caps cost a multiplication and a tanh
 * for each score. */
#define GEMMA_KEYS                                        \
    LLAMA_KEYS,                                           \
    NEEDED("num_key_value_heads", "kv_heads"),            \
    DEFAULTED("head_dim", "head_dim", 256),               \
    SWITCH("hidden_activation", KEY_ACTIVATION),          \
    BIAS("attention_bias", 0)

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
        BIAS("attention_bias", 0),
        BIAS("mlp_bias", 0) } },
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
        BIAS("attention_bias", 0),
        WINDOW,
        SWITCH("use_sliding_window", KEY_USE_WINDOW),
        { "max_window_layers", KEY_FULL_BLOCKS, NULL, false, 28 },
        SWITCH("layer_types", KEY_LAYER_TYPES) } },

    /* --- experts -------------------------------------------------------------------------- */
    { "mixtral", "MixtralForCausalLM", { LLAMA_MODEL }, 0,
      { LLAMA_KEYS,
        NEEDED("num_key_value_heads", "kv_heads"),
        OPTIONAL("head_dim", "head_dim"),
        NEEDED("num_local_experts", "experts"),
        NEEDED("num_experts_per_tok", "topk"),
        NO_WINDOW } },
    { "dbrx", "DbrxForCausalLM",
      { .norm = NORM_GAIN, .activation = ACTIVATION_SWIGLU, .positions = POSITION_ROTARY }, 0,
      { NEEDED("d_model", "hidden"),
        NEEDED("n_layers", "layers"),
        NEEDED("n_heads", "heads"),
        NEEDED("max_seq_len", "seq"),
        NEEDED("vocab_size", "vocab"),
        { "attn_config.kv_n_heads", KEY_INT, "kv_heads", true, 0 },
        NEEDED("ffn_config.ffn_hidden_size", "ffn"),
        NEEDED("ffn_config.moe_num_experts", "experts"),
        NEEDED("ffn_config.moe_top_k", "topk"),
        POSITIVE("attn_config.rope_theta", "rope_theta", 10000),
        SWITCH("tie_word_embeddings", KEY_TIED),
        DROPOUT("resid_pdrop", 0),
        DROPOUT("emb_pdrop", 0) } },
    { "qwen2_moe", "Qwen2MoeForCausalLM", { LLAMA_MODEL, .shared_gate = true }, 0,
      { QWEN_MOE_KEYS,
        NEEDED("shared_expert_intermediate_size", "shared_ffn"),
        BOOL("qkv_bias", "qkv_bias", 1),
        QWEN_WINDOW_KEYS,
        SWITCH("layer_types", KEY_LAYER_TYPES) } },
    { "qwen3_moe", "Qwen3MoeForCausalLM", { LLAMA_MODEL, .qk_norm = true }, 0,
      { QWEN_MOE_KEYS,
        OPTIONAL("num_local_experts", "experts"),
        OPTIONAL("head_dim", "head_dim"),
        BIAS("attention_bias", 0),
        QWEN_WINDOW_KEYS } },
    { "qwen3_next", "Qwen3NextForCausalLM",
      { LLAMA_MODEL, .qk_norm = true, .attention_gate = true, .shared_gate = true,
        .attention = ATTENTION_DELTA }, 0,
      { QWEN_MOE_KEYS,
        NEEDED("shared_expert_intermediate_size", "shared_ffn"),
        DEFAULTED("head_dim", "head_dim", 256),
        NEEDED("linear_num_key_heads", "linear_key_heads"),
        NEEDED("linear_num_value_heads", "linear_value_heads"),
        NEEDED("linear_key_head_dim", "linear_key_dim"),
        NEEDED("linear_value_head_dim", "linear_value_dim"),
        NEEDED("linear_conv_kernel_dim", "linear_conv"),
        LAYERS("full_attention_interval", 4),
        LAYERS("layer_types", 0),
        SWITCH("attention_bias", KEY_FALSE),
        IGNORED("partial_rotary_factor") } },
    { "deepseek_v2", "DeepseekV2ForCausalLM", { LLAMA_MODEL }, 0, { LATENT_KEYS } },
    { "deepseek_v3", "DeepseekV3ForCausalLM", { LLAMA_MODEL, .score_bias = true }, 0,
      { LATENT_KEYS } },
    { "kimi_k2", "DeepseekV3ForCausalLM", { LLAMA_MODEL, .score_bias = true }, 0,
      { LATENT_KEYS } },
    { "deepseek_v32", "DeepseekV32ForCausalLM",
      { LLAMA_MODEL, .score_bias = true, .attention = ATTENTION_SPARSE }, 0,
      { LATENT_KEYS,
        NEEDED("index_n_heads", "index_heads"),
        NEEDED("index_head_dim", "index_dim"),
        NEEDED("index_topk", "index_topk"),
        LAYERS("mlp_layer_types", 0),
        LAYERS("layer_types", 0) } },
    { "glm4_moe", "Glm4MoeForCausalLM", { LLAMA_MODEL, .score_bias = true }, 0,
      { LLAMA_KEYS,
        NEEDED("num_key_value_heads", "kv_heads"),
        OPTIONAL("head_dim", "head_dim"),
        NEEDED("n_routed_experts", "experts"),
        EXPERT_KEYS,
        GROUP_KEYS,
        SHARED("n_shared_experts", 0),
        LAYERS("first_k_dense_replace", 0),
        BOOL("attention_bias", "qkv_bias", 0),
        BOOL("use_qk_norm", "qk_norm", 0),
        COUNT("num_nextn_predict_layers", "mtp"),
        IGNORED("partial_rotary_factor") } },
    { "gpt_oss", "GptOssForCausalLM",
      { LLAMA_MODEL, .qkv_bias = true, .out_bias = true, .sinks = true, .router_bias = true,
        .expert_bias = true }, 0,
      { LLAMA_KEYS,
        NEEDED("num_key_value_heads", "kv_heads"),
        DEFAULTED("head_dim", "head_dim", 64),
        NEEDED("num_local_experts", "experts"),
        NEEDED("num_experts_per_tok", "topk"),
        OPTIONAL("experts_per_token", "topk"),
        DEFAULTED("sliding_window", "sliding_window", 128),
        LAYERS("sliding_window_pattern", 2),
        LAYERS("layer_types", 0),
        SWITCH("attention_bias", KEY_TRUE),
        IGNORED("quantization_config") } },
    { "llama4_text", "Llama4ForCausalLM", { LLAMA_MODEL }, 0,
      { NEEDED("hidden_size", "hidden"),
        NEEDED("num_hidden_layers", "layers"),
        NEEDED("num_attention_heads", "heads"),
        NEEDED("num_key_value_heads", "kv_heads"),
        OPTIONAL("head_dim", "head_dim"),
        NEEDED("intermediate_size", "expert_ffn"),
        NEEDED("intermediate_size_mlp", "ffn"),
        NEEDED("num_local_experts", "experts"),
        NEEDED("num_experts_per_tok", "topk"),
        SHARED("num_shared_experts", 1),
        NEEDED("vocab_size", "vocab"),
        NEEDED("max_position_embeddings", "seq"),
        SWITCH("hidden_act", KEY_ACTIVATION),
        SWITCH("tie_word_embeddings", KEY_TIED),
        POSITIVE("rms_norm_eps", "norm_epsilon", 1e-5),
        ROPE_KEYS,
        DROPOUT("attention_dropout", 0),
        COUNT("attention_chunk_size", "attention_chunk"),
        LAYERS("no_rope_layer_interval", 4),
        LAYERS("no_rope_layers", 0),
        LAYERS("layer_types", 0),
        LAYERS("interleave_moe_layer_step", 1),
        LAYERS("moe_layers", 0),
        BIAS("attention_bias", 0),
        IGNORED("use_qk_norm") } }, /* this norm has no weights */
    { "minimax", "MiniMaxForCausalLM", { LLAMA_MODEL, .attention = ATTENTION_LIGHTNING }, 0,
      { MINIMAX_KEYS } },
    { "minimax_m1", "MiniMaxM1ForCausalLM", { LLAMA_MODEL, .attention = ATTENTION_LIGHTNING }, 0,
      { MINIMAX_KEYS } },
    { "minimax_text_01", "MiniMaxText01ForCausalLM",
      { LLAMA_MODEL, .attention = ATTENTION_LIGHTNING }, 0, { MINIMAX_KEYS } },
    { "minimax_m2", "MiniMaxM2ForCausalLM", { LLAMA_MODEL, .qk_norm_kind = QK_NORM_ALL }, 0,
      { MINIMAX_KEYS,
        BOOL("use_qk_norm", "qk_norm", 1),
        BOOL("use_routing_bias", "score_bias", 1),
        COUNT("num_mtp_modules", "mtp"),
        { "mtp_transformer_layers", KEY_FIXED, NULL, false, 1 },
        IGNORED("quantization_config") } },
    { "olmoe", "OlmoeForCausalLM", { LLAMA_MODEL, .qk_norm = true, .qk_norm_kind = QK_NORM_ALL }, 0,
      { LLAMA_KEYS,
        OPTIONAL("num_key_value_heads", "kv_heads"),
        NEEDED("num_experts", "experts"),
        NEEDED("num_experts_per_tok", "topk"),
        BIAS("attention_bias", 0) } },
    { "bailing_moe", "BailingMoeForCausalLM", { LLAMA_MODEL }, 0, { BAILING_KEYS } },
    { "bailing_moe_v2", "BailingMoeV2ForCausalLM", { LLAMA_MODEL }, 0, { BAILING_KEYS } },
    { "nemotron_h", "NemotronHForCausalLM",
      { .norm = NORM_RMS, .activation = ACTIVATION_RELU2, .positions = POSITION_NONE,
        .score_bias = true }, 0,
      { NEEDED("hidden_size", "hidden"),
        NEEDED("num_hidden_layers", "layers"),
        NEEDED("num_attention_heads", "heads"),
        NEEDED("num_key_value_heads", "kv_heads"),
        OPTIONAL("head_dim", "head_dim"),
        OPTIONAL("attention_head_dim", "head_dim"),
        NEEDED("intermediate_size", "ffn"),
        NEEDED("vocab_size", "vocab"),
        NEEDED("max_position_embeddings", "seq"),
        NEEDED("ssm_state_size", "linear_key_dim"),
        NEEDED("mamba_num_heads", "linear_value_heads"),
        NEEDED("mamba_head_dim", "linear_value_dim"),
        NEEDED("n_groups", "linear_key_heads"),
        NEEDED("conv_kernel", "linear_conv"),
        COUNT("n_routed_experts", "experts"),
        COUNT("num_experts_per_tok", "topk"),
        COUNT("moe_intermediate_size", "expert_ffn"),
        COUNT("moe_shared_expert_intermediate_size", "shared_ffn"),
        { "n_shared_experts", KEY_FIXED, NULL, false, 1 },
        GROUP_KEYS,
        COUNT("num_nextn_predict_layers", "mtp"),
        LAYERS("layers_block_type", 0),
        LAYERS("hybrid_override_pattern", 0),
        SWITCH("mlp_hidden_act", KEY_ACTIVATION),
        SWITCH("tie_word_embeddings", KEY_TIED),
        POSITIVE("layer_norm_epsilon", "norm_epsilon", 1e-5),
        DROPOUT("attention_dropout", 0),
        DROPOUT("hidden_dropout", 0),
        SWITCH("attention_bias", KEY_FALSE),
        SWITCH("mlp_bias", KEY_FALSE),
        SWITCH("use_bias", KEY_FALSE),
        SWITCH("mamba_proj_bias", KEY_FALSE),
        SWITCH("use_conv_bias", KEY_TRUE) } },

    /* --- encoders with decoders ----------------------------------------------------------- */
    { "t5", "T5ForConditionalGeneration",
      { .norm = NORM_RMS, .activation = ACTIVATION_RELU, .positions = POSITION_RELATIVE,
        .tied = true }, 0,
      { T5_KEYS, SWITCH("feed_forward_proj", KEY_ACTIVATION) } },
    { "switch_transformers", "SwitchTransformersForConditionalGeneration",
      { .norm = NORM_RMS, .activation = ACTIVATION_RELU, .positions = POSITION_RELATIVE,
        .tied = true, .topk = 1 }, 0,
      { T5_KEYS,
        NEEDED("num_experts", "experts"),
        BOOL("router_bias", "router_bias", 0),
        SWITCH("dense_act_fn", KEY_ACTIVATION),
        IGNORED("num_sparse_encoder_layers"),
        IGNORED("num_sparse_decoder_layers") } },

    /* --- encoders ------------------------------------------------------------------------- */
    { "bert", "BertForMaskedLM", { ENCODER_MODEL }, 0, { ENCODER_KEYS } },
    /* The first two rows of the position table are for padding. */
    { "roberta", "RobertaForMaskedLM", { ENCODER_MODEL }, 0, { ENCODER_KEYS } },

    /* --- dense ---------------------------------------------------------------------------- */
    { "gemma", "GemmaForCausalLM", { GEMMA_MODEL }, 0, { GEMMA_KEYS } },
    { "gemma2", "Gemma2ForCausalLM", { GEMMA_MODEL, .norm_place = NORMS_AROUND }, 0,
      { GEMMA_KEYS,
        DEFAULTED("sliding_window", "sliding_window", 4096),
        LAYERS("sliding_window_pattern", 2),
        LAYERS("layer_types", 0) } },
    { "gemma3_text", "Gemma3ForCausalLM",
      { GEMMA_MODEL, .norm_place = NORMS_AROUND, .qk_norm = true }, 0,
      { GEMMA_KEYS,
        DEFAULTED("sliding_window", "sliding_window", 4096),
        LAYERS("sliding_window_pattern", 6),
        LAYERS("_sliding_window_pattern", 6),
        LAYERS("layer_types", 0) } },
    { "phi3", "Phi3ForCausalLM", { LLAMA_MODEL }, 0,
      { LLAMA_KEYS,
        OPTIONAL("num_key_value_heads", "kv_heads"),
        NO_WINDOW,
        DROPOUT("resid_pdrop", 0),
        DROPOUT("embd_pdrop", 0),
        IGNORED("partial_rotary_factor") } },
    { "falcon", "FalconForCausalLM",
      { .norm = NORM_LAYER, .activation = ACTIVATION_GELU, .positions = POSITION_ROTARY,
        .parallel = PARALLEL_ONE_NORM, .tied = true }, 0,
      { NEEDED("hidden_size", "hidden"),
        NEEDED("num_hidden_layers", "layers"),
        OPTIONAL("n_layer", "layers"),
        NEEDED("num_attention_heads", "heads"),
        OPTIONAL("n_head", "heads"),
        OPTIONAL("num_kv_heads", "kv_heads"),
        OPTIONAL("n_head_kv", "kv_heads"),
        OPTIONAL("ffn_hidden_size", "ffn"),
        NEEDED("vocab_size", "vocab"),
        DEFAULTED("max_position_embeddings", "seq", 2048),
        SWITCH("activation", KEY_ACTIVATION),
        SWITCH("tie_word_embeddings", KEY_TIED),
        BOOL("bias", "linear_bias", 0),
        POSITIVE("layer_norm_epsilon", "norm_epsilon", 1e-5),
        ROPE_KEYS,
        DROPOUT("hidden_dropout", 0),
        DROPOUT("attention_dropout", 0),
        IGNORED("multi_query"), /* read by family_finish */
        IGNORED("parallel_attn"),
        IGNORED("new_decoder_architecture"),
        IGNORED("num_ln_in_parallel_attn"),
        IGNORED("alibi") } },
    { "gpt_neox", "GPTNeoXForCausalLM",
      { .norm = NORM_LAYER, .activation = ACTIVATION_GELU, .positions = POSITION_ROTARY,
        .parallel = PARALLEL_OWN_NORMS, .ffn_bias = true }, 0,
      { NEEDED("hidden_size", "hidden"),
        NEEDED("num_hidden_layers", "layers"),
        NEEDED("num_attention_heads", "heads"),
        NEEDED("intermediate_size", "ffn"),
        NEEDED("vocab_size", "vocab"),
        NEEDED("max_position_embeddings", "seq"),
        SWITCH("hidden_act", KEY_ACTIVATION),
        SWITCH("tie_word_embeddings", KEY_TIED),
        BIAS("attention_bias", 1),
        { "use_parallel_residual", KEY_PARALLEL, NULL, false, 1 },
        POSITIVE("layer_norm_eps", "norm_epsilon", 1e-5),
        ROPE_KEYS,
        POSITIVE("rotary_emb_base", "rope_theta", 10000),
        DROPOUT("hidden_dropout", 0),
        DROPOUT("attention_dropout", 0),
        IGNORED("rotary_pct"),
        IGNORED("partial_rotary_factor") } },
    { "gptj", "GPTJForCausalLM",
      { .norm = NORM_LAYER, .activation = ACTIVATION_GELU, .positions = POSITION_ROTARY,
        .parallel = PARALLEL_ONE_NORM, .ffn_bias = true, .head_bias = true }, 0,
      { NEEDED("n_embd", "hidden"),
        NEEDED("n_layer", "layers"),
        NEEDED("n_head", "heads"),
        OPTIONAL("n_inner", "ffn"),
        NEEDED("vocab_size", "vocab"),
        NEEDED("n_positions", "seq"),
        SWITCH("activation_function", KEY_ACTIVATION),
        SWITCH("tie_word_embeddings", KEY_TIED),
        POSITIVE("layer_norm_epsilon", "norm_epsilon", 1e-5),
        DROPOUT("resid_pdrop", 0),
        DROPOUT("embd_pdrop", 0),
        DROPOUT("attn_pdrop", 0),
        IGNORED("rotary_dim") } },
    { "starcoder2", "Starcoder2ForCausalLM",
      { .norm = NORM_LAYER, .activation = ACTIVATION_GELU, .positions = POSITION_ROTARY,
        .tied = true }, 0,
      { NEEDED("hidden_size", "hidden"),
        NEEDED("num_hidden_layers", "layers"),
        NEEDED("num_attention_heads", "heads"),
        NEEDED("num_key_value_heads", "kv_heads"),
        NEEDED("intermediate_size", "ffn"),
        NEEDED("vocab_size", "vocab"),
        NEEDED("max_position_embeddings", "seq"),
        SWITCH("hidden_act", KEY_ACTIVATION),
        SWITCH("tie_word_embeddings", KEY_TIED),
        BOOL("use_bias", "linear_bias", 1),
        POSITIVE("norm_epsilon", "norm_epsilon", 1e-5),
        ROPE_KEYS,
        NO_WINDOW,
        DROPOUT("attention_dropout", 0),
        DROPOUT("residual_dropout", 0),
        DROPOUT("embedding_dropout", 0) } },
    { "olmo2", "Olmo2ForCausalLM",
      { LLAMA_MODEL, .norm_place = NORMS_AFTER, .qk_norm = true, .qk_norm_kind = QK_NORM_ALL }, 0,
      { LLAMA_KEYS,
        OPTIONAL("num_key_value_heads", "kv_heads"),
        BIAS("attention_bias", 0) } },
    { "cohere", "CohereForCausalLM",
      { .norm = NORM_GAIN, .activation = ACTIVATION_SWIGLU, .positions = POSITION_ROTARY,
        .parallel = PARALLEL_ONE_NORM, .qk_norm_kind = QK_NORM_EACH, .tied = true }, 0,
      { NEEDED("hidden_size", "hidden"),
        NEEDED("num_hidden_layers", "layers"),
        NEEDED("num_attention_heads", "heads"),
        OPTIONAL("num_key_value_heads", "kv_heads"),
        NEEDED("intermediate_size", "ffn"),
        NEEDED("vocab_size", "vocab"),
        NEEDED("max_position_embeddings", "seq"),
        SWITCH("hidden_act", KEY_ACTIVATION),
        SWITCH("tie_word_embeddings", KEY_TIED),
        BIAS("attention_bias", 0),
        BOOL("use_qk_norm", "qk_norm", 0),
        POSITIVE("layer_norm_eps", "norm_epsilon", 1e-5),
        ROPE_KEYS,
        DROPOUT("attention_dropout", 0) } },
    { "stablelm", "StableLmForCausalLM",
      { .norm = NORM_LAYER, .activation = ACTIVATION_SWIGLU, .positions = POSITION_ROTARY,
        .parallel = PARALLEL_ONE_NORM, .qk_norm_kind = QK_NORM_EACH }, 0,
      { NEEDED("hidden_size", "hidden"),
        NEEDED("num_hidden_layers", "layers"),
        NEEDED("num_attention_heads", "heads"),
        NEEDED("num_key_value_heads", "kv_heads"),
        NEEDED("intermediate_size", "ffn"),
        NEEDED("vocab_size", "vocab"),
        NEEDED("max_position_embeddings", "seq"),
        SWITCH("hidden_act", KEY_ACTIVATION),
        SWITCH("tie_word_embeddings", KEY_TIED),
        BOOL("use_qkv_bias", "qkv_bias", 0),
        BOOL("qk_layernorm", "qk_norm", 0),
        { "use_parallel_residual", KEY_PARALLEL, NULL, false, 0 },
        POSITIVE("layer_norm_eps", "norm_epsilon", 1e-5),
        ROPE_KEYS,
        DROPOUT("hidden_dropout", 0),
        DROPOUT("attention_dropout", 0),
        IGNORED("partial_rotary_factor") } },
    { "nemotron", "NemotronForCausalLM",
      { .norm = NORM_LAYER, .activation = ACTIVATION_RELU2, .positions = POSITION_ROTARY }, 0,
      { NEEDED("hidden_size", "hidden"),
        NEEDED("num_hidden_layers", "layers"),
        NEEDED("num_attention_heads", "heads"),
        OPTIONAL("num_key_value_heads", "kv_heads"),
        OPTIONAL("head_dim", "head_dim"),
        NEEDED("intermediate_size", "ffn"),
        NEEDED("vocab_size", "vocab"),
        NEEDED("max_position_embeddings", "seq"),
        SWITCH("hidden_act", KEY_ACTIVATION),
        SWITCH("tie_word_embeddings", KEY_TIED),
        BIAS("attention_bias", 0),
        BIAS("mlp_bias", 0),
        POSITIVE("norm_eps", "norm_epsilon", 1e-5),
        ROPE_KEYS,
        DROPOUT("attention_dropout", 0),
        IGNORED("partial_rotary_factor") } },
    { "granite", "GraniteForCausalLM", { LLAMA_MODEL }, 0,
      { LLAMA_KEYS,
        OPTIONAL("num_key_value_heads", "kv_heads"),
        BIAS("attention_bias", 0),
        BIAS("mlp_bias", 0) } },
    /* In transformers, MPT always has ALiBi, norms without bias, and a feed-forward of width 4 x
     * hidden. */
    { "mpt", "MptForCausalLM",
      { .norm = NORM_GAIN, .activation = ACTIVATION_GELU, .positions = POSITION_ALIBI,
        .tied = true }, 0,
      { NEEDED("d_model", "hidden"),
        NEEDED("n_layers", "layers"),
        NEEDED("n_heads", "heads"),
        { "expansion_ratio", KEY_FIXED, NULL, false, 4 },
        NEEDED("vocab_size", "vocab"),
        NEEDED("max_seq_len", "seq"),
        SWITCH("no_bias", KEY_TRUE),
        SWITCH("tie_word_embeddings", KEY_TIED),
        SWITCH("attn_config.qk_ln", KEY_FALSE),
        POSITIVE("layer_norm_epsilon", "norm_epsilon", 1e-5),
        DROPOUT("resid_pdrop", 0),
        DROPOUT("emb_pdrop", 0),
        DROPOUT("attn_config.attn_pdrop", 0) } },
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
    { "relu2",             ACTIVATION_RELU2, -1 },
    { "gated-gelu",        ACTIVATION_GEGLU, ACTIVATION_GEGLU }, /* T5 1.1's feed_forward_proj */
    { "gated-silu",        ACTIVATION_SWIGLU, ACTIVATION_SWIGLU },
};
const size_t num_activations = LENGTH(activations);

/* These keys change costs in ways that are not modelled. Keys that no list names (token ids,
 * dtypes, initialisers, rope_scaling, versions) change no cost. */
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
    { "audio_config", 0 },                { "moe_latent_size", 0 },
    { "shared_expert_intermediate_size", 0 }, { "num_mtp_modules", 0 },
    { "index_topk", 0 },                  { "hybrid_override_pattern", 0 },
    { "attn_type_list", 0 },              { "mlp_only_layers", 0 },
    { "ffn_config", 0 },
};
const size_t num_refused_keys = LENGTH(refused_keys);
// clang-format on
