/* Megatron-LM's flags: one table for both export and import. */
#include "interchange/megatron.h"

#include "base/length.h"
#include "interchange/setting_rows.h"

const char *const megatron_granularity_names[] = { "none", "full", "selective", NULL };
const char *const megatron_method_names[] = { "none", "uniform", "block", NULL };
/* Indexed by the bits of enum replayed. */
const char *const megatron_module_names[] = { "core_attn",   "mlp",     "layernorm",
                                              "moe",         "moe_act", "shared_experts",
                                              "mla_up_proj", NULL };
const char *const megatron_backend_names[] = { "auto", "flash", "fused", "unfused", "local", NULL };
const char *const megatron_fp8_names[] = { "none", "e4m3", "hybrid", NULL };
const char *const megatron_recipe_names[] = { "tensorwise", "delayed", "mxfp8", "blockwise", NULL };
const char *const megatron_fp4_names[] = { "none", "e2m1", NULL };
const char *const megatron_sharding_names[] = { "no_shard", "optim", "optim_grads",
                                                "optim_grads_params", NULL };
const char *const megatron_position_names[] = { "learned_absolute", "rope", "none", NULL };
const char *const megatron_norm_names[] = { "LayerNorm", "RMSNorm", NULL };
const char *const megatron_optimizer_names[] = { "adam", "sgd", NULL };
const char *const megatron_state_names[] = { "fp32", "fp16", "bf16", "fp8", NULL };
const char *const megatron_dispatcher_names[] = { "allgather", "alltoall", "flex", NULL };
const char *const megatron_score_names[] = { "softmax", "sigmoid", NULL };
/* Indexed by enum context_comm. */
const char *const megatron_context_names[] = { "p2p", "all_gather", "a2a", NULL };

/* The parser's defaults (arguments.py, or the dataclasses of megatron-core 0.16.1 from which the
 * parser takes them). */
const struct megatron_args megatron_defaults = {
    MEGATRON_CORE_DEFAULTS,
    .query_groups = 1,
    .kv_lora = 32,
};

#define ARGUMENTS struct megatron_args

// clang-format off
const struct setting_row megatron_rows[] = {
    INT("--tensor-model-parallel-size", tp),
    ON("--sequence-parallel", sp),
    INT("--pipeline-model-parallel-size", pp),
    INT("--num-layers-per-virtual-pipeline-stage", lpvs),
    INT("--num-virtual-stages-per-pipeline-rank", nvs),
    TEXT("--pipeline-model-parallel-layout", layout),
    INT("--decoder-first-pipeline-num-layers", first_layers),
    INT("--decoder-last-pipeline-num-layers", last_layers),
    ON("--account-for-embedding-in-pipeline-split", account_embedding),
    ON("--account-for-loss-in-pipeline-split", account_loss),
    INT("--microbatch-group-size-per-virtual-pipeline-stage", microbatch_group),
    OFF("--no-overlap-p2p-communication", overlap_p2p),
    INT("--context-parallel-size", cp),
    WORD("--cp-comm-type", context_comm, megatron_context_names),
    INTS("--hierarchical-context-parallel-sizes", hierarchy),
    INT("--expert-model-parallel-size", ep),
    INT("--expert-tensor-parallel-size", etp),
    ON("--use-tp-pp-dp-mapping", tp_pp_dp),
    INT("--micro-batch-size", micro_batch),
    INT("--global-batch-size", global_batch),
    ON("--use-distributed-optimizer", distributed_optimizer),
    INT("--num-distributed-optimizer-instances", optimizer_instances),
    ON("--overlap-grad-reduce", overlap_grad),
    ON("--overlap-param-gather", overlap_param),
    ON("--overlap-param-gather-with-optimizer-step", overlap_param_in_step),
    ON("--tp-comm-overlap", overlap_tp),
    ON("--use-megatron-fsdp", megatron_fsdp),
    ON("--use-torch-fsdp2", torch_fsdp2),
    WORD("--data-parallel-sharding-strategy", sharding, megatron_sharding_names),
    TEXT("--ckpt-format", checkpoint_format),
    OFF("--no-gradient-accumulation-fusion", fuses_wgrad),
    WORD("--recompute-granularity", granularity, megatron_granularity_names),
    WORD("--recompute-method", method, megatron_method_names),
    INT("--recompute-num-layers", recompute_layers),
    SET("--recompute-modules", recompute_modules, megatron_module_names),
    ON("--recompute-activations", recompute_activations),
    ON("--optimizer-cpu-offload", offload_optimizer),
    ON("--cpu-offloading", offload_activations),
    INT("--cpu-offloading-num-layers", offload_layers),
    ON("--bf16", bf16),
    ON("--fp16", fp16),
    ON("--accumulate-allreduce-grads-in-fp32", grads_in_fp32),
    ON("--grad-reduce-in-bf16", reduce_in_bf16),
    ROW("--fp8-format", SETTING_WORD, fp8, megatron_fp8_names, "--fp8"),
    WORD("--fp8-recipe", fp8_recipe, megatron_recipe_names),
    WORD("--fp4-format", fp4, megatron_fp4_names),
    WORD("--optimizer", optimizer, megatron_optimizer_names),
    NUMBER("--sgd-momentum", sgd_momentum),
    ON("--use-precision-aware-optimizer", precision_aware),
    WORD("--exp-avg-dtype", exp_avg, megatron_state_names),
    WORD("--exp-avg-sq-dtype", exp_avg_sq, megatron_state_names),
    WORD("--attention-backend", backend, megatron_backend_names),
    ON("--use-flash-attn", flash_flag),
    INT("--num-layers", layers),
    INT("--hidden-size", hidden),
    INT("--ffn-hidden-size", ffn),
    INT("--num-attention-heads", heads),
    INT("--kv-channels", kv_channels),
    ON("--group-query-attention", grouped_query),
    INT("--num-query-groups", query_groups),
    INT("--seq-length", seq),
    INT("--max-position-embeddings", max_positions),
    INT("--vocab-size", vocab),
    TEXT("--tokenizer-type", tokenizer),
    WORD("--position-embedding-type", position, megatron_position_names),
    NUMBER("--rotary-base", rotary_base),
    WORD("--normalization", normalization, megatron_norm_names),
    ROW("--norm-epsilon", SETTING_NUMBER, norm_epsilon, NULL, "--layernorm-epsilon"),
    ON("--swiglu", swiglu),
    ON("--squared-relu", squared_relu),
    ON("--untie-embeddings-and-output-weights", untied),
    OFF("--disable-bias-linear", linear_bias),
    ON("--add-qkv-bias", qkv_bias),
    ON("--qk-layernorm", qk_norm),
    NUMBER("--attention-dropout", attention_dropout),
    NUMBER("--hidden-dropout", hidden_dropout),
    INT("--num-experts", experts),
    INT("--moe-router-topk", topk),
    INT("--moe-ffn-hidden-size", expert_ffn),
    INT("--moe-shared-expert-intermediate-size", shared_ffn),
    ON("--moe-shared-expert-gate", shared_gate),
    TEXT("--moe-layer-freq", moe_frequency),
    ON("--moe-grouped-gemm", grouped_gemm),
    WORD("--moe-token-dispatcher-type", dispatcher, megatron_dispatcher_names),
    WORD("--moe-router-score-function", router_score, megatron_score_names),
    ON("--moe-router-pre-softmax", pre_softmax),
    ON("--moe-router-enable-expert-bias", expert_bias),
    INT("--moe-router-num-groups", router_groups),
    INT("--moe-router-group-topk", router_group_topk),
    NUMBER("--moe-expert-capacity-factor", capacity),
    ON("--moe-pad-expert-input-to-capacity", pad_to_capacity),
    ON("--overlap-moe-expert-parallel-comm", overlap_expert),
    ON("--moe-shared-expert-overlap", overlap_shared),
    ON("--delay-wgrad-compute", delay_wgrad),
    ON("--multi-latent-attention", latent),
    INT("--q-lora-rank", q_lora),
    INT("--kv-lora-rank", kv_lora),
    INT("--qk-head-dim", qk_head_dim),
    INT("--qk-pos-emb-head-dim", qk_rope_dim),
    INT("--v-head-dim", v_head_dim),
    INT("--mtp-num-layers", mtp),
    INTS("--rampup-batch-size", ramp_up),
    INT("--train-iters", train_iters),
    INT("--train-samples", train_samples),
    TEXT("--save", save),
    INT("--save-interval", save_interval),
};
// clang-format on
const int num_megatron_rows = LENGTH(megatron_rows);
