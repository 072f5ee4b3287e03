#include "base/length.h"
#include "sim/cost/hardware.h"

#include "sim/cost/datafile.h"
#include "sim/cost/runtime.h"
#include "sim/cost/unfused.h"

#include <stdlib.h>
#include <string.h>

const char *const overlap_names[NUM_OVERLAPS + 1] = { "grad", "param", "p2p", "tp", "ep", NULL };
static const char *const launch_names[] = { "eager", "graphs", "passes", NULL };
static const char *const pipeline_buckets_names[] = { "none", "first", "all", NULL };
static const char *const accumulate_names[] = { "reduce", "no_sync", NULL };
static const char *const main_gradients_names[] = { "fp32", "own", NULL };
static const char *const logged_stage_names[] = { "most", "last", NULL };
const char *const checkpointing_names[NUM_CHECKPOINTING + 1] = { "blocking", "async", "memory",
                                                                 NULL };

#define AT(member)             .offset = offsetof(struct stack, member)
#define TEXT(member)           .kind = FIELD_TEXT, AT(member), .size = sizeof((struct stack *)0)->member
#define QUANTITY(unit, member) .kind = FIELD_QUANTITY, .quantity = QUANTITY_##unit, AT(member)

// clang-format off
const struct field stack_fields[] = {
    { .name = "format", .kind = FIELD_OTHER, .doc = "Version of the file's form: 1." },
    { .name = "name", TEXT(name), .doc = "Name of the file." },
    { .name = "source", TEXT(source), .doc = "Where this is known from." },
    { .name = "sources", .kind = FIELD_OTHER, .fallback = "", .doc = "Sources of single keys." },
    { .name = "summary", TEXT(summary), .fallback = "", .doc = "One line for lists." },
    { .name = "attention", .kind = FIELD_NAME, AT(attention), .names = attention_names,
      .doc = "Kernel of attn=flash; on a GPU too old for it, the best that runs there." },
    { .name = "flash_default", .kind = FIELD_BOOL, AT(unstated.flash_default), .fallback = "true",
      .doc = "Whether attn=flash when a layout does not say." },
    { .name = "fused", .kind = FIELD_SET, AT(fusions), .names = fusion_names,
      .doc = "What the stack does in one fused kernel, or in one pass over the data." },
    { .name = "unfused", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "Traffic and launches of each op that is not fused." },
    { .name = "overlap", .kind = FIELD_SET, AT(overlaps), .names = overlap_names,
      .doc = "Communication that overlaps with compute if a layout does not say." },
    { .name = "dispatcher", .kind = FIELD_NAME, AT(dispatcher), .names = dispatcher_names,
      .fallback = "alltoall",
      .doc = "How rows go to the ranks of their experts (`list dispatchers`)." },
    { .name = "row_sums_in_dtype", .kind = FIELD_BOOL, AT(sums_rows_in_dtype), .fallback = "false",
      .doc = "Ranks that share an expert add up their parts of its rows in the activations' type, as "
             "where the router's is no other; no: in fp32." },
    { .name = "runtime", .kind = FIELD_NAME, AT(runtime), .names = runtime_names,
      .fallback = "cuda",
      .doc = "CUDA and NCCL, which keep workspaces and buffers of their own, or the executor's host "
             "backend, which keeps none." },
    { .name = "launch", .kind = FIELD_NAME, AT(host.launch), .names = launch_names, .fallback = "eager",
      .doc = "eager: kernel by kernel; graphs: whole graphs; passes: a chunk's pass is a graph if there "
             "is one stage, the pass repeats and it contains no collective, else kernel by kernel." },
    { .name = "launches_ahead", .kind = FIELD_BOOL, AT(host.launches_ahead), .fallback = "true",
      .doc = "The host launches kernels ahead of their execution, up to a whole pass; no: a layer is "
             "launched when the one before has ended, and collectives run between layers." },
    { .name = "product_efficiency", .kind = FIELD_NUMBER, AT(product_efficiency), .min = 0.01,
      .max = 2, .fallback = "1",
      .doc = "Share of the profile's rate of matrix products that the family's libraries reach." },
    { .name = "attention_forward_efficiency", .kind = FIELD_NUMBER, AT(attention_forward_efficiency),
      .min = 0.01, .max = 2, .fallback = "1",
      .doc = "Share of the profile's rate of its attention kernel that the family's own reaches; not where "
             "the profile has measured kernels." },
    { .name = "attention_backward_efficiency", .kind = FIELD_NUMBER,
      AT(attention_backward_efficiency), .min = 0.01, .max = 2, .fallback = "1",
      .doc = "The same in the backward." },
    { .name = "issue", QUANTITY(SECONDS, host.issue_s), .min = 0, .max = 1, .fallback = "5 us",
      .doc = "Host time to launch one kernel, eager." },
    { .name = "graph_kernel", QUANTITY(SECONDS, host.graph_kernel_s), .min = 0, .max = 1,
      .fallback = "1 us", .doc = "Least time from one kernel of a captured graph to the next." },
    { .name = "checkpoint_overhead", QUANTITY(SECONDS, host.checkpoint_s), .min = 0, .max = 10,
      .fallback = "0 s",
      .doc = "Host time to save and restore the state of one recomputed layer." },
    { .name = "microbatch_overhead", QUANTITY(SECONDS, host.microbatch_s), .min = 0, .max = 10,
      .fallback = "0 s", .doc = "Host time around forward and backward of one chunk." },
    { .name = "step_overhead", QUANTITY(SECONDS, host.step_s), .min = 0, .max = 100, .fallback = "0 s",
      .doc = "Host and logging time of a step." },
    { .name = "allocator_slack", .kind = FIELD_NUMBER, AT(memory.allocator_slack), .min = 0, .max = 10,
      .fallback = "0.05", .doc = "Memory reserved beyond what is allocated, as a share." },
    { .name = "memory_error", .kind = FIELD_NUMBER, AT(memory.error), .min = 0, .max = 10,
      .fallback = "0.14",
      .doc = "Half width of the 90 % interval of the log of peak memory, as `fit` finds it; when absent, "
             "that of all shipped stacks together." },
    { .name = "context", QUANTITY(BYTES, memory.context_bytes), .min = 0, .max = 1e18,
      .fallback = "1.5 GiB", .doc = "CUDA context, kernels, workspaces of libraries." },
    { .name = "graph_memory", QUANTITY(BYTES, memory.graph_bytes), .min = 0, .max = 1e18,
      .fallback = "2 GiB",
      .doc = "Pools of captured graphs, where launch is graphs: \"typically a few GB\", and more with "
             "pipeline stages (Megatron-Bridge performance guide)." },
    { .name = "main_gradients", .kind = FIELD_NAME, AT(memory.main_gradients),
      .names = main_gradients_names, .fallback = "fp32",
      .doc = "Type in which gradients of 16-bit weights are kept in memory if a layout does not say: "
             "fp32, or own, the weights' type, which the optimizer widens for its step. Times follow "
             "the layout's types." },
    { .name = "low_gradients", .kind = FIELD_BOOL, AT(memory.low_gradients), .fallback = "false",
      .doc = "Gradients in the weights' type stay beside the fp32 ones that they are added to." },
    { .name = "frees_gradients", .kind = FIELD_BOOL, AT(memory.frees_gradients), .fallback = "false",
      .doc = "Gradients are freed after the optimizer and allocated again by the next backward; no: "
             "buffers hold them all the time." },
    { .name = "shards_are_master", .kind = FIELD_BOOL, AT(memory.shards_are_master),
      .fallback = "false",
      .doc = "ZeRO-3 keeps only the optimizer's fp32 shards of weights and narrows them when they are "
             "gathered; no: it also keeps 16-bit shards." },
    { .name = "connects_groups", .kind = FIELD_BOOL, AT(memory.connects_groups), .fallback = "false",
      .doc = "Every group of ranks that the executor uses has its own NCCL communicator, connected for "
             "all algorithms when it is created; no: only the parallel axes have communicators, "
             "connected for the algorithms that are called." },
    { .name = "logits", QUANTITY(BYTES, memory.logits_bytes), .min = 0, .max = 64, .fallback = "6 B",
      .doc = "Bytes held for each logit at the loss; at least one value in the plan's type." },
    { .name = "logits_rows", .kind = FIELD_INT, AT(memory.logits_rows), .min = 0, .max = 1 << 30,
      .fallback = "0",
      .doc = "Most rows of the head whose logits are computed at once. The backward computes them "
             "again, so none are kept. 0, or if a schedule splits the backward: all rows at once, kept." },
    { .name = "bucket", QUANTITY(BYTES, shards.bucket_bytes), .min = 0, .max = 1e18, .fallback = "0 B",
      .doc = "Bytes of gradients that are reduced together when reductions overlap; 0: a whole chunk." },
    { .name = "pipeline_buckets", .kind = FIELD_NAME, AT(shards.pipeline_buckets),
      .names = pipeline_buckets_names, .fallback = "none",
      .doc = "Pipeline stages whose chunks are reduced in buckets that overlap with the chunk's last "
             "backward; the others are reduced whole after it." },
    { .name = "layer_messages", .kind = FIELD_INT, AT(shards.layer_messages), .min = 1, .max = 1000,
      .fallback = "1",
      .doc = "Collectives that a layer's sharded parameters travel in (ZeRO-3)." },
    { .name = "message_per_rank", QUANTITY(SECONDS, shards.message_per_rank_s), .min = 0, .max = 1,
      .fallback = "0 s",
      .doc = "Host time of each such collective for every member of its group, in stacks that walk "
             "lists rank by rank." },
    { .name = "shard_copies", .kind = FIELD_BOOL, AT(shards.copies), .fallback = "false",
      .doc = "ZeRO-3 shards each parameter by itself: gathered weights are copied out of a buffer and "
             "gradients into one; these copies overlap with nothing." },
    { .name = "reshard", .kind = FIELD_BOOL, AT(shards.reshard), .fallback = "true",
      .doc = "ZeRO-3 drops a layer's weights after its forward (FULL_SHARD) and gathers them again; "
             "no: keeps them for the backward (SHARD_GRAD_OP)." },
    { .name = "prefetch", .kind = FIELD_INT, AT(shards.prefetch), .min = 0, .max = 1000, .fallback = "1",
      .doc = "Layers that ZeRO-3 gathers ahead; 0: none, so gathers are exposed." },
    { .name = "accumulate", .kind = FIELD_NAME, AT(shards.accumulate), .names = accumulate_names,
      .fallback = "reduce",
      .doc = "ZeRO-2 and 3 reduce gradients of every microbatch, or once a step (no_sync), keeping "
             "them whole until then." },
    { .name = "pipeline_zero", .kind = FIELD_INT, AT(shards.pipeline_zero), .min = 0, .max = 3,
      .fallback = "1",
      .doc = "Highest ZeRO stage that searches combine with pipeline stages; layouts that name a higher "
             "one are still predicted." },
    { .name = "optimizer_passes", .kind = FIELD_NUMBER, AT(optimizer_passes), .min = 0.1,
      .max = 100, .fallback = "1",
      .doc = "Traffic of the optimizer step relative to one fused pass." },
    { .name = "scatter_gather_p2p", .kind = FIELD_BOOL, AT(pipeline.scatter_gather_p2p), .fallback = "false",
      .doc = "Pipeline messages are split over tensor ranks and gathered in the node." },
    { .name = "leaves_vocab_odd", .kind = FIELD_BOOL, AT(leaves_vocab_odd), .fallback = "no",
      .doc = "The vocabulary is split over tensor ranks without padding." },
    { .name = "keeps_gathered", .kind = FIELD_BOOL, AT(keeps_gathered), .fallback = "no",
      .doc = "Under sequence parallelism the gathered inputs of products are kept for the backward; no: "
             "a rank keeps only its part and gathers again." },
    { .name = "tied_reduce", .kind = FIELD_BOOL, AT(pipeline.tied_reduce), .fallback = "true",
      .doc = "Tied embeddings are all-reduced between first and last stage." },
    { .name = "post_validation", .kind = FIELD_BOOL, AT(pipeline.post_validation), .fallback = "false",
      .doc = "Schedules that split the backward update each stage before the norm of all gradients is "
             "known, and undo the update if it was wrong (Qi et al. 2024, section 4)." },
    { .name = "gradients_in_dtype", .kind = FIELD_BOOL, AT(gradients_in_dtype), .fallback = "false",
      .doc = "Gradients of fp16 are accumulated and reduced in fp16, not in fp32." },
    { .name = "keeps_fp8", .kind = FIELD_BOOL, AT(keeps_quantized), .fallback = "false",
      .doc = "If the recipe allows it, fp8 weights are kept and gathered in fp8 instead of bf16." },
    { .name = "sp_default", .kind = FIELD_BOOL, AT(unstated.sp_default), .fallback = "false",
      .doc = "Measured runs that do not state it are taken to have sequence parallelism if tp is over 1." },
    { .name = "op_selective", .kind = FIELD_BOOL, AT(unstated.per_op), .fallback = "false",
      .doc = "Searches take recompute=op-selective in place of recompute=selective." },
    { .name = "zero_default", .kind = FIELD_INT, AT(unstated.zero_default), .min = 0, .max = 3,
      .fallback = "0", .doc = "ZeRO stage assumed for measured runs that do not state it." },
    { .name = "logged_stage", .kind = FIELD_NAME, AT(unstated.logged_stage),
      .names = logged_stage_names, .fallback = "most",
      .doc = "Pipeline stage whose memory measured runs report: the one that holds most, or the last, "
             "whose rank writes the log." },
    { .name = "fp8_default", .kind = FIELD_NAME, AT(unstated.fp8_default), .names = precision_names,
      .fallback = "fp8", .doc = "Precision assumed for measured runs in fp8 that state no recipe." },
    { .name = "checkpoints", .kind = FIELD_NAME, AT(recovery.checkpointing),
      .names = checkpointing_names, .fallback = "blocking",
      .doc = "blocking: training stops until a checkpoint is in storage; async: it stops while the "
             "checkpoint is copied to the host; memory: as async, but most checkpoints go only to "
             "another host's memory, not to storage." },
    { .name = "mtbf", QUANTITY(SECONDS, recovery.mtbf_s), .min = 1, .max = 1e18,
      .fallback = "42130 h",
      .doc = "Mean time between software failures for each host. Default: 63 on "
             "2048 hosts in 54 days (Grattafiori et al. 2024, table 5)." },
    { .name = "detect", QUANTITY(SECONDS, recovery.detect_s), .min = 0, .max = 1e9,
      .fallback = "10 min",
      .doc = "Time until a failure is noticed. Default: PyTorch's timeout of NCCL's collectives; MegaScale "
             "took less than that (Jiang et al. 2024, section 4, as recalled)." },
    { .name = "relaunch", QUANTITY(SECONDS, recovery.relaunch_s), .min = 0, .max = 1e9,
      .fallback = "5 min",
      .doc = "Time from noticing a failure until all processes run again. Default: assumed, so that a "
             "recovery takes a quarter of an hour, as MegaScale's did." },
    { .name = "warm_up", QUANTITY(SECONDS, recovery.warm_up_s), .min = 0, .max = 1e9,
      .fallback = "1 min", .doc = "Time that the first steps take in addition to usual steps. Default: "
                                  "assumed." },
    { .name = "error_log", .kind = FIELD_NUMBER, AT(errors.log), .min = 0, .max = 10,
      .fallback = "0",
      .doc = "Half width of the 90 % interval of this family's runs, in log time; 0: not known." },
    { .name = "source_error", .kind = FIELD_NUMBER, AT(errors.source), .min = 0, .max = 10,
      .fallback = "0",
      .doc = "For a stack that nothing was fitted on: half width, in log time, of the error that all of "
             "its runs share, as `fit` finds it." },
    { .name = "time_ratio", .kind = FIELD_NUMBER, AT(learned.time_ratio), .min = 0, .max = 100,
      .fallback = "0",
      .doc = "Factor on all times, as `learn` finds it in one's own runs; 0: none, as shipped." },
    { .name = "expert_time_ratio", .kind = FIELD_NUMBER, AT(learned.expert_time_ratio), .min = 0, .max = 100,
      .fallback = "0", .doc = "The same factor for models with experts." },
    { .name = "expert_error", .kind = FIELD_NUMBER, AT(errors.of_experts), .min = 0, .max = 10,
      .fallback = "0.32",
      .doc = "Half width of the error that all runs with experts share, until some are fitted. Default: "
             "that of a stack "
             "which was never measured." },
    { .name = "errors", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "Half widths for each part of a step, which replace error_log, as `fit` finds them." },
    { .name = "fitted_on", .kind = FIELD_OTHER, .fallback = "[]",
      .doc = "Ids or sources of the measured rows that constants were fitted on." },
    { .name = "residuals", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "For each job of `fit`: errors on those rows, standard errors, correlations." },
};
// clang-format on
const size_t num_stack_fields = LENGTH(stack_fields);

const struct datafile_kind stack_files = { "stack", "calibration/stacks", NULL };

/* Reads the error widths; a file must have all of them or none. */
static bool read_widths(const json_t *errors, struct error_widths *out, struct err *err)
{
    if (!errors || (json_is_object(errors) && json_object_size(errors) == 0))
        return true;
    return fields_read(error_width_fields, num_error_width_fields, errors, out, err) ||
           err_within(err, "errors");
}

bool stack_read(const json_t *object, struct stack *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    return fields_read(stack_fields, num_stack_fields, object, out, err) &&
           datafile_check(stack_fields, num_stack_fields, object, err) &&
           unfused_read(json_object_get(object, "unfused"), &out->unfused, err) &&
           read_widths(json_object_get(object, "errors"), &out->errors.widths, err) &&
           fitted_read(json_object_get(object, "fitted_on"), &out->fitted, &out->num_fitted, err);
}

json_t *stack_write(const struct stack *stack)
{
    json_t *object = datafile_write(stack_fields, num_stack_fields, stack);
    json_t *unfused = unfused_write(&stack->unfused);
    if (unfused)
        json_object_set_new(object, "unfused", unfused);
    if (stack->errors.widths.common > 0)
        json_object_set_new(
            object, "errors",
            fields_write(error_width_fields, num_error_width_fields, &stack->errors.widths));
    if (!(stack->learned.time_ratio > 0))
        json_object_del(object, "time_ratio");
    if (!(stack->learned.expert_time_ratio > 0))
        json_object_del(object, "expert_time_ratio");
    json_object_set_new(object, "fitted_on", fitted_write(stack->fitted, stack->num_fitted));
    return object;
}

bool stack_load(const char *name, struct stack *out, struct err *err)
{
    struct json_file file;
    memset(out, 0, sizeof *out);
    if (!datafile_open(&stack_files, name, &file, err))
        return false;
    bool ok = stack_read(file.root, out, err);
    if (!ok)
        json_file_blame(&file, err);
    json_file_release(&file);
    return ok;
}

void stack_release(struct stack *stack)
{
    free(stack->fitted);
    stack->fitted = NULL;
    stack->num_fitted = 0;
}

enum attention_kernel stack_attention(const struct stack *stack, const struct gpu *gpu)
{
    enum attention_kernel wanted = (enum attention_kernel)stack->attention;
    enum attention_kernel newest = generations[gpu->arch].attention;
    return wanted < newest ? wanted : newest;
}
