/* interchange/megatron.h - Megatron-LM's arguments, which Megatron-Bridge and NeMo also have, under
 * other names.
 *
 * Members have the shortened names of the argument parser (megatron/training/arguments.py), if it
 * has them. Sources: NVIDIA/Megatron-LM@d98e8a6 and megatron-core 0.16.1. */
#ifndef INTERCHANGE_MEGATRON_H
#define INTERCHANGE_MEGATRON_H

#include "interchange/target.h"

enum megatron_granularity { GRANULARITY_NONE, GRANULARITY_FULL, GRANULARITY_SELECTIVE };
enum megatron_method { METHOD_NONE, METHOD_UNIFORM, METHOD_BLOCK };
enum megatron_backend {
    BACKEND_AUTO,
    BACKEND_FLASH,
    BACKEND_FUSED,
    BACKEND_UNFUSED,
    BACKEND_LOCAL
};
enum megatron_fp8 { FP8_FORMAT_NONE, FP8_FORMAT_E4M3, FP8_FORMAT_HYBRID };
enum megatron_recipe { RECIPE_TENSORWISE, RECIPE_DELAYED, RECIPE_MXFP8, RECIPE_BLOCKWISE };
enum megatron_sharding { SHARDING_NO, SHARDING_OPTIM, SHARDING_GRADS, SHARDING_PARAMS };
enum megatron_position { EMBEDDING_LEARNED, EMBEDDING_ROPE, EMBEDDING_NONE };
enum megatron_optimizer { MEGATRON_ADAM, MEGATRON_SGD };
enum megatron_dispatcher { DISPATCHER_ALLGATHER, DISPATCHER_ALLTOALL, DISPATCHER_FLEX };
enum megatron_state { STATE_FP32, STATE_FP16, STATE_BF16, STATE_FP8 };

struct megatron_args {
    /* parallel */
    int tp, pp, cp, ep, etp; /* etp 0: equal to tp */
    int lpvs, nvs;           /* layers per virtual stage; virtual stages per rank; 0: not given */
    const char *layout;
    int first_layers, last_layers;
    bool account_embedding, account_loss;
    bool sp;
    int context_comm; /* enum context_comm */
    struct setting_ints hierarchy;
    int microbatch_group;
    bool tp_pp_dp;
    /* batch */
    int micro_batch, global_batch; /* 0: not given */
    /* state and its overlap */
    bool distributed_optimizer, overlap_grad, overlap_param, overlap_p2p, overlap_tp;
    bool overlap_param_in_step;
    int optimizer_instances;
    bool megatron_fsdp, torch_fsdp2;
    int sharding;
    const char *checkpoint_format;
    bool fuses_wgrad;
    /* recompute and offload */
    int granularity, method, recompute_layers, recompute_modules;
    bool recompute_activations;
    bool offload_optimizer, offload_activations;
    int offload_layers;
    /* precision and optimizer */
    bool bf16, fp16, grads_in_fp32, reduce_in_bf16;
    int fp8, fp8_recipe, fp4;
    int optimizer;
    double sgd_momentum;
    bool precision_aware;
    int exp_avg, exp_avg_sq;
    int backend;
    bool flash_flag;
    /* model */
    int layers, hidden, ffn, heads, kv_channels, query_groups;
    bool grouped_query;
    int seq, max_positions, vocab;
    const char *tokenizer;
    int position;
    double rotary_base;
    int normalization;
    double norm_epsilon;
    int activation; /* enum activation_kind, as Bridge names it */
    bool swiglu, squared_relu, untied, linear_bias, qkv_bias, qk_norm;
    double attention_dropout, hidden_dropout;
    /* experts */
    int experts, topk, expert_ffn, shared_ffn;
    const char *moe_frequency;
    bool shared_gate, grouped_gemm, expert_bias, pre_softmax;
    int dispatcher, router_score;
    int router_groups, router_group_topk;
    double capacity;
    bool pad_to_capacity;
    bool overlap_expert, overlap_shared, delay_wgrad;
    /* latent attention, multi-token prediction */
    bool latent;
    int q_lora, kv_lora, qk_head_dim, qk_rope_dim, v_head_dim;
    int mtp;
    /* run */
    struct setting_ints ramp_up; /* first batch, increment, samples */
    int train_iters, train_samples;
    const char *save;
    int save_interval;
};

/* The defaults that Megatron-LM's parser and the dataclasses of megatron-core 0.16.1 share. */
// clang-format off
#define MEGATRON_CORE_DEFAULTS                                                             \
    .tp = 1, .pp = 1, .cp = 1, .ep = 1, .overlap_p2p = true, .optimizer_instances = 1,     \
    .checkpoint_format = "torch_dist", .fuses_wgrad = true, .fp8_recipe = RECIPE_DELAYED,  \
    .sgd_momentum = 0.9, .rotary_base = 10000, .norm_epsilon = 1e-5, .linear_bias = true,  \
    .attention_dropout = 0.1, .hidden_dropout = 0.1, .topk = 2, .qk_head_dim = 128,        \
    .qk_rope_dim = 64, .v_head_dim = 128
// clang-format on

extern const struct megatron_args megatron_defaults;
extern const struct setting_row megatron_rows[];
extern const int num_megatron_rows;
extern const char *const megatron_granularity_names[],
    *const megatron_method_names[],
        *const megatron_module_names[],
            *const megatron_backend_names[],
                *const megatron_fp8_names[],
                    *const megatron_recipe_names[],
                        *const megatron_fp4_names[],
                            *const megatron_sharding_names[],
                                *const megatron_position_names[],
                                    *const megatron_norm_names[],
                                        *const megatron_optimizer_names[],
                                            *const megatron_state_names[],
                                                *const megatron_dispatcher_names[],
                                                    *const megatron_score_names[],
                                                        *const megatron_context_names[];

/* Functions for struct target (interchange/target.h). */
void megatron_arguments(const struct job *job, void *args, struct arena *arena);
bool megatron_job(const void *args, struct job *job, struct arena *arena, struct err *err);
target_parse megatron_parse;
target_write megatron_write;
extern const char *const megatron_ignored[];

extern const struct target_rule megatron_rules[];
extern const int num_megatron_rules;

/* Writes the layers with experts as "([0]*3+[1]*58)"; NULL if every layer has experts. */
const char *megatron_frequency_write(const struct model *model, struct arena *arena);
/* Reads that form and sets first_dense and moe_step. */
bool megatron_frequency_read(const char *text, struct model *model, struct err *err);

/* Virtual stages that the arguments imply; 1 if they contradict each other. */
int megatron_vpp(const struct megatron_args *args);

#endif
