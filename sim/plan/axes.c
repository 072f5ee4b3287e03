#include "sim/plan/axes.h"

const struct axis axes[NUM_AXES] = {
    [AXIS_TENSOR] = {
        .id = AXIS_TENSOR,
        .name = "tp",
        .summary = "Each rank holds a slice of every layer's weights; sums or shards of activations "
                   "are exchanged four times a layer.",
        .source = "Shoeybi et al. 2019, Megatron-LM; sequence parallel: Korthikanti et al. 2022",
        .degree = tensor_degree,
        .shard = tensor_shard,
        .marks = MARK(OP_TENSOR_ENTER) | MARK(OP_TENSOR_LEAVE) | MARK(OP_ALL_REDUCE) |
                 MARK(OP_ALL_GATHER) | MARK(OP_REDUCE_SCATTER) | MARK(OP_ALL_TO_ALL) |
                 MARK(OP_SEND_RECEIVE),
        .lower = tensor_lower,
    },
    [AXIS_CONTEXT] = {
        .id = AXIS_CONTEXT,
        .name = "cp",
        .summary = "Each rank holds a slice of every sequence; keys and values travel round.",
        .source = "Liu et al. 2023, Ring Attention",
        .degree = context_degree,
        .shard = context_shard,
        .marks = MARK(OP_CP_ENTER) | MARK(OP_CP_LEAVE),
        .span = context_span,
        .lower = context_lower,
    },
    [AXIS_EXPERT] = {
        .id = AXIS_EXPERT,
        .name = "ep",
        .summary = "Ranks hold different experts and exchange tokens; etp of them share an expert.",
        .source = "Lepikhin et al. 2020, GShard; folded over the other axes: Liu et al. 2025, "
                  "MoE Parallel Folding",
        .degree = expert_degree,
        .shard = expert_shard,
        .marks = MARK(OP_EXPERT_ENTER) | MARK(OP_EXPERT_LEAVE),
        .lower = expert_lower,
    },
    [AXIS_DATA] = {
        .id = AXIS_DATA,
        .name = "dp",
        .summary = "Each rank trains on other sequences; gradients are summed once a step.",
        .source = "Rajbhandari et al. 2020, ZeRO, for what the ranks may shard",
        .degree = data_degree,
    },
    [AXIS_PIPELINE] = {
        .id = AXIS_PIPELINE,
        .name = "pp",
        .summary = "Each rank holds some of the layers; microbatches pass from one to the next.",
        .source = "Huang et al. 2019, GPipe; Narayanan et al. 2021",
        .degree = pipeline_degree,
    },
};
