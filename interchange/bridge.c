/* Megatron-Bridge and NeMo as a target: they configure Megatron Core by YAML files and overrides
 * with other names. Source: NVIDIA-NeMo/Megatron-Bridge@067f987. */
#include "interchange/bridge.h"
#include "base/length.h"
#include "base/text.h"
#include "interchange/launcher.h"
#include "interchange/megatron.h"
#include "interchange/setting_rows.h"
#include "interchange/yaml.h"

#include <stdio.h>
#include <string.h>

/* --- the table ------------------------------------------------------------------------------- */

/* Defaults of Megatron-Bridge's dataclasses. */
const struct megatron_args bridge_defaults = {
    MEGATRON_CORE_DEFAULTS,
    .kv_lora = 512,
};

static const char *const activation_words[] = { "default", "silu", "gelu", "squared_relu", NULL };
enum { ACTIVATION_WORD_SILU = 1, ACTIVATION_WORD_SQUARED_RELU = 3 };

#define ARGUMENTS struct megatron_args

// clang-format off
const struct setting_row bridge_rows[] = {
    INT("model.tensor_model_parallel_size", tp),
    BOOL("model.sequence_parallel", sp),
    INT("model.pipeline_model_parallel_size", pp),
    INT("model.virtual_pipeline_model_parallel_size", nvs),
    TEXT("model.pipeline_model_parallel_layout", layout),
    INT("model.num_layers_in_first_pipeline_stage", first_layers),
    INT("model.num_layers_in_last_pipeline_stage", last_layers),
    BOOL("model.account_for_embedding_in_pipeline_split", account_embedding),
    BOOL("model.account_for_loss_in_pipeline_split", account_loss),
    INT("model.microbatch_group_size_per_vp_stage", microbatch_group),
    INT("model.context_parallel_size", cp),
    WORD("model.cp_comm_type", context_comm, megatron_context_names),
    INTS("model.hierarchical_context_parallel_sizes", hierarchy),
    INT("model.expert_model_parallel_size", ep),
    INT("model.expert_tensor_parallel_size", etp),
    ROW("model.recompute_granularity", SETTING_WORD, granularity, megatron_granularity_names, "model.activations_checkpoint_granularity"),
    ROW("model.recompute_method", SETTING_WORD, method, megatron_method_names, "model.activations_checkpoint_method"),
    ROW("model.recompute_num_layers", SETTING_INT, recompute_layers, NULL, "model.activations_checkpoint_num_layers"),
    SET("model.recompute_modules", recompute_modules, megatron_module_names),
    BOOL("model.cpu_offloading", offload_activations),
    INT("model.cpu_offloading_num_layers", offload_layers),
    BOOL("model.bf16", bf16),
    BOOL("model.fp16", fp16),
    WORD("model.fp8", fp8, megatron_fp8_names),
    WORD("model.fp8_recipe", fp8_recipe, megatron_recipe_names),
    WORD("model.fp4", fp4, megatron_fp4_names),
    BOOL("model.gradient_accumulation_fusion", fuses_wgrad),
    WORD("model.attention_backend", backend, megatron_backend_names),
    INT("model.num_layers", layers),
    INT("model.hidden_size", hidden),
    INT("model.ffn_hidden_size", ffn),
    INT("model.num_attention_heads", heads),
    INT("model.kv_channels", kv_channels),
    INT("model.num_query_groups", query_groups),
    ROW("model.seq_length", SETTING_INT, seq, NULL, "model.encoder_seq_length"),
    INT("model.max_position_embeddings", max_positions),
    INT("model.vocab_size", vocab),
    WORD("model.position_embedding_type", position, megatron_position_names),
    NUMBER("model.rotary_base", rotary_base),
    WORD("model.normalization", normalization, megatron_norm_names),
    NUMBER("model.layernorm_epsilon", norm_epsilon),
    BOOL("model.gated_linear_unit", swiglu),
    WORD("model.activation_func", activation, activation_words),
    NOT("model.share_embeddings_and_output_weights", untied),
    BOOL("model.add_bias_linear", linear_bias),
    BOOL("model.add_qkv_bias", qkv_bias),
    BOOL("model.qk_layernorm", qk_norm),
    NUMBER("model.attention_dropout", attention_dropout),
    NUMBER("model.hidden_dropout", hidden_dropout),
    INT("model.num_moe_experts", experts),
    INT("model.moe_router_topk", topk),
    INT("model.moe_ffn_hidden_size", expert_ffn),
    INT("model.moe_shared_expert_intermediate_size", shared_ffn),
    BOOL("model.moe_shared_expert_gate", shared_gate),
    TEXT("model.moe_layer_freq", moe_frequency),
    BOOL("model.moe_grouped_gemm", grouped_gemm),
    WORD("model.moe_token_dispatcher_type", dispatcher, megatron_dispatcher_names),
    WORD("model.moe_router_score_function", router_score, megatron_score_names),
    BOOL("model.moe_router_pre_softmax", pre_softmax),
    BOOL("model.moe_router_enable_expert_bias", expert_bias),
    INT("model.moe_router_num_groups", router_groups),
    INT("model.moe_router_group_topk", router_group_topk),
    NUMBER("model.moe_expert_capacity_factor", capacity),
    BOOL("model.moe_pad_expert_input_to_capacity", pad_to_capacity),
    BOOL("model.moe_shared_expert_overlap", overlap_shared),
    BOOL("model.multi_latent_attention", latent),
    INT("model.q_lora_rank", q_lora),
    INT("model.kv_lora_rank", kv_lora),
    INT("model.qk_head_dim", qk_head_dim),
    INT("model.qk_pos_emb_head_dim", qk_rope_dim),
    INT("model.v_head_dim", v_head_dim),
    INT("model.mtp_num_layers", mtp),
    ROW("train.micro_batch_size", SETTING_INT, micro_batch, NULL, "model.micro_batch_size"),
    ROW("train.global_batch_size", SETTING_INT, global_batch, NULL, "model.global_batch_size"),
    INT("train.train_iters", train_iters),
    BOOL("ddp.use_distributed_optimizer", distributed_optimizer),
    INT("ddp.num_distributed_optimizer_instances", optimizer_instances),
    BOOL("ddp.overlap_grad_reduce", overlap_grad),
    BOOL("ddp.overlap_param_gather", overlap_param),
    NOT("ddp.grad_reduce_in_fp32", reduce_in_bf16),
    BOOL("ddp.use_megatron_fsdp", megatron_fsdp),
    WORD("ddp.data_parallel_sharding_strategy", sharding, megatron_sharding_names),
    BOOL("comm_overlap.tp_comm_overlap", overlap_tp),
    BOOL("comm_overlap.overlap_p2p_comm", overlap_p2p),
    BOOL("comm_overlap.overlap_moe_expert_parallel_comm", overlap_expert),
    BOOL("comm_overlap.delay_wgrad_compute", delay_wgrad),
    WORD("optimizer.optimizer", optimizer, megatron_optimizer_names),
    NUMBER("optimizer.sgd_momentum", sgd_momentum),
    BOOL("optimizer.use_precision_aware_optimizer", precision_aware),
    WORD("optimizer.exp_avg_dtype", exp_avg, megatron_state_names),
    WORD("optimizer.exp_avg_sq_dtype", exp_avg_sq, megatron_state_names),
    BOOL("optimizer.optimizer_cpu_offload", offload_optimizer),
    BOOL("dist.use_tp_pp_dp_mapping", tp_pp_dp),
    TEXT("checkpoint.ckpt_format", checkpoint_format),
};
// clang-format on
const int num_bridge_rows = LENGTH(bridge_rows);

const char *const bridge_ignored[] = { "checkpoint.",  "dataset.",
                                       "exp_manager.", "logger.",
                                       "model.data.",  "model.optim.",
                                       "name",         "optimizer.",
                                       "profiling.",   "restore_from_path",
                                       "rng.",         "scheduler.",
                                       "tokenizer.",   "train.",
                                       "trainer.",     NULL };

/* --- jobs ------------------------------------------------------------------------------------ */

void bridge_arguments(const struct job *job, void *args, struct arena *arena)
{
    struct megatron_args *to = args;
    megatron_arguments(job, to, arena);
    if (to->lpvs > 0)
        to->nvs = job->plan.vpp;
    to->lpvs = 0;
    if (to->fp16)
        to->reduce_in_bf16 = !to->grads_in_fp32; /* one key sets both types of gradients */
    to->grads_in_fp32 = false;
    to->grouped_query = false; /* the number of groups implies it */
    if (job->model.kv_heads == job->model.heads || job->model.kv_lora > 0)
        to->query_groups = 0;
    if (!to->latent)
        to->kv_lora = bridge_defaults.kv_lora;
    /* GPTModelProvider has as many positions as the sequence; only some models' providers have this
     * key */
    if (job->model.positions != POSITION_LEARNED || to->max_positions == to->seq)
        to->max_positions = 0;
    if (to->swiglu)
        to->activation = ACTIVATION_WORD_SILU;
    if (to->squared_relu)
        to->activation = ACTIVATION_WORD_SQUARED_RELU;
}

bool bridge_job(const void *args, struct job *job, struct arena *arena, struct err *err)
{
    struct megatron_args from = *(const struct megatron_args *)args;
    from.grouped_query = from.query_groups > 0 && from.query_groups != from.heads;
    from.squared_relu = from.activation == ACTIVATION_WORD_SQUARED_RELU;
    from.grads_in_fp32 = from.fp16 && !from.reduce_in_bf16;
    from.max_positions = from.max_positions > 0 ? from.max_positions : from.seq;
    if (!from.bf16 && !from.fp16 && from.fp8 != FP8_FORMAT_NONE)
        from.bf16 = true;
    return megatron_job(&from, job, arena, err);
}

/* --- files ----------------------------------------------------------------------------------- */

/* Reads overrides like "model.num_layers=80", one per line; a list is [a,b]. */
static bool parse_overrides(const char *text, struct imported *out, struct arena *arena)
{
    struct shell_command words;
    shell_split(text, arena, &words);
    for (int i = 0; i < words.count; i++) {
        char *word = arena_text(arena, words.words[i]);
        char *equals = strchr(word, '=');
        if (!equals) {
            settings_add(&out->unknown, word, words.lines[i]);
            continue;
        }
        *equals = '\0';
        char *value = equals + 1;
        struct setting *added = settings_add(&out->given, word + strspn(word, "+"), words.lines[i]);
        size_t length = strlen(value);
        bool is_list = value[0] == '[' && length > 1 && value[length - 1] == ']';
        if (!is_list) {
            setting_add_value(&out->given, added, value);
            continue;
        }
        value[length - 1] = '\0';
        for (char *item = value + 1; item && *item;) {
            char *comma = strchr(item, ',');
            if (comma)
                *comma = '\0';
            setting_add_value(&out->given, added, item);
            item = comma ? comma + 1 : NULL;
        }
    }
    return true;
}

/* Joins a list with one 0 or 1 per layer to a text, the form that its table row reads. */
static void join_frequency(struct imported *out)
{
    for (int i = 0; i < out->given.count; i++) {
        struct setting *setting = &out->given.at[i];
        if (strcmp(setting->key, "model.moe_layer_freq") != 0 || setting->num_values < 2)
            continue;
        struct text joined = { 0 };
        for (int k = 0; k < setting->num_values; k++)
            text_add(&joined, "%s%s", k ? "," : "[", setting->values[k]);
        text_add(&joined, "]");
        setting->num_values = 0;
        setting_add_value(&out->given, setting, text_get(&joined));
        text_release(&joined);
    }
}

/* Reads the numbers of nodes and devices from a NeMo file. */
static void read_trainer(struct imported *out)
{
    const struct setting *nodes = settings_find(&out->given, "trainer.num_nodes");
    const struct setting *devices = settings_find(&out->given, "trainer.devices");
    int num_nodes = 0, num_devices = 0;
    if (nodes && devices && nodes->num_values == 1 && devices->num_values == 1 &&
        sscanf(nodes->values[0], "%6d", &num_nodes) == 1 &&
        sscanf(devices->values[0], "%6d", &num_devices) == 1 && num_nodes > 0 && num_devices > 0) {
        out->nodes = num_nodes;
        out->gpus_per_node = num_devices;
        out->job.num_gpus = num_nodes * num_devices;
    }
}

bool bridge_parse(const char *path, const char *text, struct imported *out, struct arena *arena,
                  struct err *err)
{
    const char *at = text + strspn(text, " \t\r\n");
    size_t equals = strcspn(at, "=\n"), colon = strcspn(at, ":\n");
    (void)path;
    bool ok = at[equals] == '=' && equals < colon ? parse_overrides(text, out, arena)
                                                  : yaml_read(text, &out->given, err);
    if (!ok)
        return false;
    join_frequency(out);
    read_trainer(out);
    return true;
}

/* Writes a scalar of YAML 1.1. A number with an exponent needs a point; a word with characters that
 * are special in YAML needs quotes. */
static void add_scalar(struct text *out, const char *value)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const char *exponent = strchr(value, 'e');
    bool is_number = *value && value[strspn(value, "0123456789.e-+")] == '\0';
    if (is_number && exponent && !strchr(value, '.'))
        text_add(out, "%.*s.0%s", (int)(exponent - value), value, exponent);
    else if (value[strspn(value, plain)] == '\0')
        text_add(out, "%s", value);
    /* words that need quotes contain neither quotes nor escapes */
    else
        text_add(out, "\"%s\"", value);
}

static void add_yaml(const struct settings *settings, struct text *out)
{
    const char *section = "";
    size_t length = 0;
    for (int i = 0; i < settings->count; i++) {
        const struct setting *setting = &settings->at[i];
        const char *dot = strchr(setting->key, '.');
        size_t now = (size_t)(dot - setting->key);
        if (now != length || strncmp(section, setting->key, now) != 0)
            text_add(out, "%.*s:\n", (int)now, setting->key);
        section = setting->key;
        length = now;
        text_add(out, "  %s: ", dot + 1);
        for (int k = 0; k < setting->num_values; k++) {
            text_add(out, setting->num_values == 1 ? "" : k ? ", " : "[");
            add_scalar(out, setting->values[k]);
        }
        text_add(out, setting->num_values == 1 ? "\n" : "]\n");
    }
}

void bridge_write(const struct job *job, struct exported *out, struct arena *arena)
{
    struct text yaml = { 0 };
    struct exported flags = { .settings.arena = arena,
                              .arguments.arena = arena,
                              .environment = out->environment };
    megatron_write(job, &flags, arena);
    out->environment = flags.environment;
    add_yaml(&out->settings, &yaml);
    exported_add(out, "config.yaml", &yaml, false, arena);
    for (int i = 0; i < out->settings.count; i++) {
        const struct setting *setting = &out->settings.at[i];
        struct text word = { 0 };
        text_add(&word, "%s=", setting->key);
        for (int k = 0; k < setting->num_values; k++)
            text_add(&word, "%s%s",
                     setting->num_values == 1 ? ""
                     : k                      ? ","
                                              : "[",
                     setting->values[k]);
        text_add(&word, setting->num_values == 1 ? "" : "]");
        settings_add(&out->arguments, text_get(&word), 0);
        text_release(&word);
    }
    out->script = "${RECIPE:-pretrain.py}";
    out->remark = "RECIPE is a script that passes its arguments to Megatron-Bridge as overrides; "
                  "config.yaml has the same settings.";
}
