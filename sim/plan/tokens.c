/* The table of all words of a plan's text. */
#include "sim/plan/tokens.h"

#include "base/length.h"
#include "sim/plan/axis.h"

#include <ctype.h>
#include <string.h>

const char *const optimizer_names[] = { "adam", "adam-bf16", "adam-8bit", "momentum",
                                        "sgd",  "adafactor", "muon",      NULL };
const char *const recompute_names[] = { "none",    "selective",     "full", "full:K",
                                        "block:N", "block-share:P", NULL };
const char *const attention_words[] = { "default", "flash", "unfused", NULL };
const char *const context_comm_words[] = { "p2p", "all-gather", "a2a", NULL };
const char *const overlap_words[] = { "grad", "param", "p2p", "tp", "ep", "shared", NULL };
static const char *const mtp_words[] = { "beside", "apart", NULL };
static const char *const reshard_words[] = { "step", "pass", "gradients", NULL };
const char *const offload_names[] = { "optimizer", "activations", NULL };

/* Data types of gradients and of their reduction. */
static const char *const gradient_words[] = { "fp32", "fp16", "bf16", NULL };

// clang-format off
static const struct plan_token other_tokens[] = {
    { "mb", "mbN", "Sequences of a microbatch.",
      TOKEN_NUMBER, TOKEN_MEMBER(microbatch), .min = 1 },
    { "vpp", "vppN", "Chunks of layers on each stage, interleaved.",
      TOKEN_NUMBER, TOKEN_MEMBER(vpp), .min = 1, .fallback = 1 },
    { "sp", "sp", "Sequence parallel: tensor ranks split norms and dropout by tokens.",
      .read = token_read_sp, .write = token_write_sp },
    { "zero", "zeroN", "State that data ranks shard: 1 the optimizer, 2 also gradients, 3 also "
                       "weights.",
      .read = token_read_number, .write = token_write_number, TOKEN_MEMBER(zero), .max = 3 },
    { "shard", "shard=N",
      "Number of neighbouring data ranks over which ZeRO shards one copy of the state (HSDP); "
      "absent: all data ranks.",
      .read = token_read_number, .write = token_write_shard, TOKEN_MEMBER(shard), .min = 1, .max = PLAN_MAX_NUMBER },
    { "reshard", "reshard=step|pass|gradients",
      "ZeRO-2 and 3 with a pipeline. step: weights are gathered and gradients reduced once a step; "
      "pass: weights are gathered for each pass; gradients: gradients are also reduced after each "
      "backward.",
      TOKEN_NAME, TOKEN_MEMBER(reshard), .names = reshard_words },
    { "schedule", "schedule=NAME",
      "Order of the pipeline; absent: 1f1b, or interleaved when vpp is over 1.",
      .read = token_read_schedule, .write = token_write_schedule },
    { "stages", "stages=N,NxTIMES,...|LETTERS", "Layers of each chunk, in the order of the model; "
                                                "absent: even. 0 in the first or last chunk: it "
                                                "has only the embedding or the head. LETTERS are "
                                                "Megatron-Core's: \"E|(t*4|)*14tL\".",
      .read = token_read_stages, .write = token_write_stages },
    { "mtp", "mtp=beside|apart",
      "Place of the modules that predict later tokens. beside: in the chunk of the head; apart: in "
      "the chunk before it, and the last chunk then has only the head. Absent: beside.",
      TOKEN_NAME, TOKEN_MEMBER(mtp_place), .names = mtp_words },
    { "recompute", "recompute=none|selective[:MODULE+...,...]|op-selective|full|full:K|block:N,...|block-share:P",
      "Ops that the backward recomputes. selective: attention's core, or the named modules "
      "(core_attn, mlp, layernorm ...), or a list with the modules of each stage "
      "(\"mlp*2,layernorm,none\"); op-selective: all except fused attention and every second "
      "matrix product; full: every "
      "layer, with one checkpoint for every K layers; block: the first N layers of each chunk; "
      "block-share: the first share P (0 to 1) of each chunk's layers.",
      .read = token_read_recompute, .write = token_write_recompute, TOKEN_MEMBER(recompute),
      .names = recompute_names },
    { "attn", "attn=flash|unfused", "Attention kernels; absent: the stack's.",
      TOKEN_NAME, TOKEN_MEMBER(attention), .names = attention_words },
    { "dtype", "dtype=fp32|fp16|bf16|bf16-pure|fp8|fp8-cs|fp8-rowwise|fp8-mx|fp8-block|nvfp4",
      "Data type of matrix products. bf16-pure keeps no fp32 master weights. fp8 multiplies linear "
      "layers in fp8 with delayed scales, fp8-cs with current scales, the others with scales per "
      "row, MX or per block. For plans in nvfp4 memory "
      "is predicted but not time.",
      TOKEN_NAME, TOKEN_MEMBER(precision), .names = precision_names, .fallback = PRECISION_BF16 },
    { "grad", "grad=fp32|fp16|bf16",
      "Type of the main gradients; absent: fp32, or bf16 with bf16-pure.",
      .read = token_read_name, .write = token_write_grad, TOKEN_MEMBER(gradient_dtype), .names = gradient_words },
    { "reduce", "reduce=fp32|fp16|bf16",
      "Type in which gradients are summed over data ranks; absent: the type of the main gradients.",
      .read = token_read_name, .write = token_write_reduce, TOKEN_MEMBER(reduce_dtype), .names = gradient_words },
    { "optimizer", "optimizer=adam|adam-bf16|adam-8bit|momentum|sgd|adafactor|muon",
      "Optimizer and the type of its moments; muon updates the matrices of blocks, and Adam the "
      "rest.",
      TOKEN_NAME, TOKEN_MEMBER(optimizer), .names = optimizer_names },
    { "overlap", "overlap=grad,param,p2p,tp,ep,shared|none",
      "Communication that overlaps with compute; ep: experts' rows overlap with another microbatch's "
      "compute, shared: with the shared expert; absent: the stack's.",
      .read = token_read_overlap, .write = token_write_overlap, .names = overlap_words },
    { "order", "order=tp-cp-dp-pp", "Rank order: the first axis has neighbouring ranks, the last the most distant ones.",
      .read = token_read_order, .write = token_write_order },
    { "offload", "offload=optimizer,activations", "Data that are kept in host memory: the "
                                                  "optimizer's state, which is then updated on the "
                                                  "host, or layers' activations.",
      .read = token_read_offload, .write = token_write_offload, .names = offload_names },
    { "exchange", "exchange=allreduce|ring|tree|hierarchical|ps:K|async|gossip:GRAPH|local:H|pga:H|aga:H|qsgd:BITS|topk:R|ef21:R|neolithic:R|powersgd:R|median|trimmed|krum|geomedian",
      "How data ranks combine their gradients or weights (`list exchanges`); absent: allreduce.",
      .read = token_read_exchange, .write = token_write_exchange },
};
// clang-format on

int plan_num_tokens(void)
{
    int count = LENGTH(other_tokens);
    for (int i = 0; i < num_axes; i++)
        count += axes[i]->num_words;
    return count;
}

const struct plan_token *plan_token_at(int number)
{
    for (int i = 0; i < num_axes; i++) {
        if (number < axes[i]->num_words)
            return &axes[i]->words[number];
        number -= axes[i]->num_words;
    }
    return &other_tokens[number];
}

int plan_token_find(const char *name, size_t length)
{
    for (int i = 0, count = plan_num_tokens(); i < count; i++) {
        const char *its = plan_token_at(i)->name;
        if (strlen(its) == length && memcmp(its, name, length) == 0)
            return i;
    }
    return -1;
}

size_t plan_token_length(const char *word)
{
    size_t length = 0;
    while (isalpha((unsigned char)word[length]) ||
           (length > 0 && word[length] == '-' && isalpha((unsigned char)word[length + 1])))
        length++;
    return length;
}

enum dtype plan_default_gradient_dtype(int precision)
{
    return precision == PRECISION_BF16_PURE ? DTYPE_BF16 : DTYPE_FP32;
}
