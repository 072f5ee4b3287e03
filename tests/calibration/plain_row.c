#include "tests/calibration/plain_row.h"

#include "tests/check_ok.h"

#include <string.h>

struct run_systems *row_systems;

struct run_row plain_row(void)
{
    return (struct run_row){
        .id = "one",
        .source_key = "mine",
        .gpu = "A100-80GB-SXM",
        .network = "single node",
        .model_name = "GPT",
        .schedule = "",
        .recompute = "none",
        .precision = "fp16",
        .software = "Megatron-LM 2021",
        .config_group = "one",
        .reduce_dtype = "",
        .param_dtype = "",
        .mem_kind = "",
        .mem_unit = "",
        .inferred = "",
        .n_gpus = 8,
        .gpus_per_node = 8,
        .params_b = -1,
        .layers = 24,
        .hidden = 1024,
        .heads = 16,
        .kv_heads = -1,
        .ffn_hidden = -1,
        .gated_mlp = 0,
        .vocab = 51200,
        .seq = 1024,
        .experts = -1,
        .topk = -1,
        .gbs_seqs = 64,
        .mbs = 2,
        .dp = 2,
        .tp = 2,
        .sp = 0,
        .pp = 2,
        .vpp = -1,
        .cp = -1,
        .ep = -1,
        .etp = -1,
        .zero_shard = -1,
        .compiled = -1,
        .async_tp = -1,
        .zero_stage = 0,
        .dist_opt = 0,
        .flash_attn = 0,
        .measured_iter_s = 1,
        .measured_tokens_per_s_per_gpu = -1,
        .measured_mem_gb = -1,
        .derived_iter_s = -1,
        .core = true,
    };
}

void row_systems_start(void)
{
    struct err err = { 0 };
    row_systems = run_systems_new(NULL, NULL, &err);
    check_ok(row_systems != NULL, &err);
}

void row_systems_end(void)
{
    run_systems_free(row_systems);
}

struct run_case convert(const struct run_row *row)
{
    struct run_case out;
    struct err err = { 0 };
    check_ok(run_convert(row_systems, row, &out, &err), &err);
    return out;
}

struct run_case convert_known(const struct run_row *row)
{
    struct run_case out = convert(row);
    ck_assert_str_eq(out.skip, "");
    return out;
}

bool is_assumed(const struct run_case *of, const char *text)
{
    for (int i = 0; i < of->num_assumptions; i++)
        if (strstr(of->assumptions[i], text))
            return true;
    return false;
}
