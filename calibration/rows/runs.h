/* calibration/rows/runs.h - reads measured training runs from a CSV file with the columns of
 * runs.csv.
 *
 * An empty field means that the source does not state the value; a number is then -1, a text "". */
#ifndef CALIBRATION_ROWS_RUNS_H
#define CALIBRATION_ROWS_RUNS_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>

/* One measured run; members are named as the columns. */
struct run_row {
    int line; /* line in the file, for messages */
    const char *id, *source_key, *gpu, *network, *model_name, *schedule, *recompute, *precision,
        *software, *config_group;
    const char *reduce_dtype,
        /* data types of gradient sums and of weights; "bf16" weights have no fp32 copy */
        *param_dtype;
    /* kind and unit of measured_mem_gb, such as "reserved" and "GiB" */
    const char *mem_kind, *mem_unit;
    /* columns that were inferred by the person who collected the row */
    const char *inferred;
    double n_gpus, gpus_per_node, params_b, layers, hidden, heads, kv_heads, ffn_hidden, gated_mlp,
        vocab, seq, experts, topk, gbs_seqs, mbs, dp, tp, sp, pp, vpp, cp, ep, etp, zero_stage,
        dist_opt, flash_attn, measured_iter_s, measured_tokens_per_s_per_gpu, measured_mem_gb,
        derived_iter_s;
    double zero_shard;         /* number of ranks over which ZeRO shards */
    double compiled, async_tp; /* 0 or 1 */
    bool core;
};

struct run_rows {
    struct run_row *at;
    int count;
};

/* Reads CSV by RFC 4180 (quoted fields, doubled quotes, embedded newlines). Columns are found by
 * their names in the header, in any order; unknown ones are ignored. Required columns are id,
 * source_key, gpu, n_gpus, layers, hidden, heads, vocab, seq, gbs_seqs, mbs, dp, tp, pp and core;
 * any other missing column counts as not stated. A missing required column, a field that is not a
 * number of 0 or more, a row with another number of fields, or text that is not UTF-8 is ERR_INPUT
 * with FILE:LINE: column. Texts live in the arena. */
bool runs_load(const char *path, struct arena *arena, struct run_rows *out, struct err *err);

/* Seconds of a step as the row measured it (measured_iter_s, else tokens/s, else derived_iter_s),
 * or -1 if it states none. */
double run_measured_s(const struct run_row *row);

#endif
