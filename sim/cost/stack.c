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
    { .name = "sources", .kind = FIELD_OTHER, .fallback = "", .doc = "The same for single keys." },
    { .name = "summary", TEXT(summary), .fallback = "", .doc = "One line for lists." },
    { .name = "attention", .kind = FIELD_NAME, AT(attention), .names = attention_names,
      .doc = "Kernel of attn=flash; on a GPU too old for it, the best that runs there." },
    { .name = "flash_default", .kind = FIELD_BOOL, AT(unstated.flash_default), .fallback = "true",
      .doc = "Whether attn=flash when a layout does not say." },
    { .name = "fused", .kind = FIELD_SET, AT(fusions), .names = fusion_names,
      .doc = "What is one kernel, or one pass." },
    { .name = "unfused", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "What ops cost that are not: traffic and launches, by op." },
    { .name = "overlap", .kind = FIELD_SET, AT(overlaps), .names = overlap_names,
      .doc = "Communication beside compute when a layout does not say." },
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
      .doc = "Kernel by kernel, or whole graphs; passes: a graph for a chunk's pass, where one stage "
             "runs it again and again and no collective is within it, else kernel by kernel." },
    { .name = "launches_ahead", .kind = FIELD_BOOL, AT(host.launches_ahead), .fallback = "true",
      .doc = "The host launches ahead of what runs, as far as a whole pass; no: a layer is launched "
             "when the one before has ended, and collectives run between layers." },
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
      .fallback = "1 us", .doc = "From one kernel of a captured graph to the next, at best." },
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
      .doc = "Type in which memory holds gradients of 16-bit weights where a layout does not say: fp32, "
             "or own, which the optimizer widens for its step. Times are of the layout's types." },
    { .name = "low_gradients", .kind = FIELD_BOOL, AT(memory.low_gradients), .fallback = "false",
      .doc = "Gradients in the weights' type stay beside the fp32 ones that they are added to." },
    { .name = "frees_gradients", .kind = FIELD_BOOL, AT(memory.frees_gradients), .fallback = "false",
      .doc = "Gradients are freed behind the optimizer and made anew by a backward; no: buffers hold "
             "them all the time." },
    { .name = "shards_are_master", .kind = FIELD_BOOL, AT(memory.shards_are_master),
      .fallback = "false",
      .doc = "ZeRO-3's shards of weights are the fp32 ones of the optimizer, narrowed as they are "
             "gathered; no: shards of 16 bits are kept beside them." },
    { .name = "connects_groups", .kind = FIELD_BOOL, AT(memory.connects_groups), .fallback = "false",
      .doc = "Every group of ranks that the executor calls in has a communicator of NCCL's, connected "
             "for all algorithms when it is made; no: the axes have, for those that are called." },
    { .name = "logits", QUANTITY(BYTES, memory.logits_bytes), .min = 0, .max = 64, .fallback = "6 B",
      .doc = "Held for each logit at the loss; no less than a value as the plan stores it." },
    { .name = "logits_rows", .kind = FIELD_INT, AT(memory.logits_rows), .min = 0, .max = 1 << 30,
      .fallback = "0",
      .doc = "Most rows of the head whose logits are made at once, forward, and again in the backward, "
             "so that none are kept; 0, and where a schedule splits the backward: all, once." },
    { .name = "bucket", QUANTITY(BYTES, shards.bucket_bytes), .min = 0, .max = 1e18, .fallback = "0 B",
      .doc = "Gradients reduced at once when overlapped; 0: a whole chunk." },
    { .name = "pipeline_buckets", .kind = FIELD_NAME, AT(shards.pipeline_buckets),
      .names = pipeline_buckets_names, .fallback = "none",
      .doc = "Stages of a pipeline whose chunks are reduced in buckets, beside their last backward, "
             "and not whole after it." },
    { .name = "layer_messages", .kind = FIELD_INT, AT(shards.layer_messages), .min = 1, .max = 1000,
      .fallback = "1",
      .doc = "Collectives that a layer's sharded parameters travel in (ZeRO-3)." },
    { .name = "message_per_rank", QUANTITY(SECONDS, shards.message_per_rank_s), .min = 0, .max = 1,
      .fallback = "0 s",
      .doc = "Host time of each of them for every member of the group: lists walked rank by rank." },
    { .name = "shard_copies", .kind = FIELD_BOOL, AT(shards.copies), .fallback = "false",
      .doc = "ZeRO-3 shards parameter by parameter: what is gathered is copied out of a buffer, and "
             "gradients into one, beside nothing." },
    { .name = "reshard", .kind = FIELD_BOOL, AT(shards.reshard), .fallback = "true",
      .doc = "ZeRO-3 drops a layer's weights after its forward (FULL_SHARD) and gathers them again; "
             "no: keeps them for the backward (SHARD_GRAD_OP)." },
    { .name = "prefetch", .kind = FIELD_INT, AT(shards.prefetch), .min = 0, .max = 1000, .fallback = "1",
      .doc = "Layers that ZeRO-3 gathers ahead; 0: none, so gathers show." },
    { .name = "accumulate", .kind = FIELD_NAME, AT(shards.accumulate), .names = accumulate_names,
      .fallback = "reduce",
      .doc = "ZeRO-2 and 3 reduce gradients of every microbatch, or once a step (no_sync), keeping "
             "them whole until then." },
    { .name = "pipeline_zero", .kind = FIELD_INT, AT(shards.pipeline_zero), .min = 0, .max = 3,
      .fallback = "1",
      .doc = "Highest ZeRO stage with pipeline stages: searches leave out the others, and layouts that "
             "name one are predicted all the same." },
    { .name = "optimizer_passes", .kind = FIELD_NUMBER, AT(optimizer_passes), .min = 0.1,
      .max = 100, .fallback = "1",
      .doc = "Traffic of the optimizer step relative to one fused pass." },
    { .name = "scatter_gather_p2p", .kind = FIELD_BOOL, AT(pipeline.scatter_gather_p2p), .fallback = "false",
      .doc = "Pipeline messages are split over tensor ranks and gathered in the node." },
    { .name = "leaves_vocab_odd", .kind = FIELD_BOOL, AT(leaves_vocab_odd), .fallback = "no",
      .doc = "A tensor rank's vocabulary is the whole part of its share, not padded." },
    { .name = "keeps_gathered", .kind = FIELD_BOOL, AT(keeps_gathered), .fallback = "no",
      .doc = "Under sequence parallelism the tokens that products read stay gathered for the backward; "
             "no: a rank keeps its part, and gathers again." },
    { .name = "tied_reduce", .kind = FIELD_BOOL, AT(pipeline.tied_reduce), .fallback = "true",
      .doc = "Tied embeddings are all-reduced between first and last stage." },
    { .name = "post_validation", .kind = FIELD_BOOL, AT(pipeline.post_validation), .fallback = "false",
      .doc = "Schedules that split the backward update each stage before the gradients' norm of all is "
             "known, and undo it where that was wrong (Qi et al. 2024, section 4)." },
    { .name = "gradients_in_dtype", .kind = FIELD_BOOL, AT(gradients_in_dtype), .fallback = "false",
      .doc = "Gradients of fp16 are accumulated and reduced in fp16, not in fp32." },
    { .name = "keeps_fp8", .kind = FIELD_BOOL, AT(keeps_quantized), .fallback = "false",
      .doc = "fp8 weights are kept and gathered in fp8, where the recipe can, and not in bf16." },
    { .name = "sp_default", .kind = FIELD_BOOL, AT(unstated.sp_default), .fallback = "false",
      .doc = "Measured runs that do not say have sequence parallelism wherever tp is." },
    { .name = "op_selective", .kind = FIELD_BOOL, AT(unstated.per_op), .fallback = "false",
      .doc = "Searches take recompute=op-selective in place of recompute=selective." },
    { .name = "zero_default", .kind = FIELD_INT, AT(unstated.zero_default), .min = 0, .max = 3,
      .fallback = "0", .doc = "ZeRO stage of measured runs that do not say." },
    { .name = "logged_stage", .kind = FIELD_NAME, AT(unstated.logged_stage),
      .names = logged_stage_names, .fallback = "most",
      .doc = "Stage whose memory measured runs state: the one that holds most, or the last, whose rank "
             "writes the log." },
    { .name = "fp8_default", .kind = FIELD_NAME, AT(unstated.fp8_default), .names = precision_names,
      .fallback = "fp8", .doc = "Precision of measured runs in fp8 that state no recipe." },
    { .name = "checkpoints", .kind = FIELD_NAME, AT(recovery.checkpointing),
      .names = checkpointing_names, .fallback = "blocking",
      .doc = "Training stops until a checkpoint is in storage; or while it is copied to the host "
             "(async); or that, and most go no further than to another host's memory." },
    { .name = "mtbf", QUANTITY(SECONDS, recovery.mtbf_s), .min = 1, .max = 1e18,
      .fallback = "42130 h",
      .doc = "Mean time between failures of the software, of one host's share of it. Default: 63 on "
             "2048 hosts in 54 days (Grattafiori et al. 2024, table 5)." },
    { .name = "detect", QUANTITY(SECONDS, recovery.detect_s), .min = 0, .max = 1e9,
      .fallback = "10 min",
      .doc = "Until a failure is noticed. Default: PyTorch's timeout of NCCL's collectives; MegaScale "
             "took less than that (Jiang et al. 2024, section 4, as recalled)." },
    { .name = "relaunch", QUANTITY(SECONDS, recovery.relaunch_s), .min = 0, .max = 1e9,
      .fallback = "5 min",
      .doc = "From then until all processes run again. Default: assumed, so that recoveries take the "
             "quarter of an hour that MegaScale's did." },
    { .name = "warm_up", QUANTITY(SECONDS, recovery.warm_up_s), .min = 0, .max = 1e9,
      .fallback = "1 min", .doc = "That the first steps take beyond the usual. Default: assumed." },
    { .name = "error_log", .kind = FIELD_NUMBER, AT(errors.log), .min = 0, .max = 10,
      .fallback = "0",
      .doc = "Half width of the 90 % interval of log time, of this family's runs; 0: not known." },
    { .name = "source_error", .kind = FIELD_NUMBER, AT(errors.source), .min = 0, .max = 10,
      .fallback = "0",
      .doc = "Half width of the shift, in log time, that all runs of a stack have in common that "
             "nothing was fitted on, as `fit` finds it." },
    { .name = "time_ratio", .kind = FIELD_NUMBER, AT(learned.time_ratio), .min = 0, .max = 100,
      .fallback = "0",
      .doc = "Factor on all times, as `learn` finds it in one's own runs; 0: none, as shipped." },
    { .name = "expert_time_ratio", .kind = FIELD_NUMBER, AT(learned.expert_time_ratio), .min = 0, .max = 100,
      .fallback = "0", .doc = "The same of models with experts." },
    { .name = "expert_error", .kind = FIELD_NUMBER, AT(errors.of_experts), .min = 0, .max = 10,
      .fallback = "0.32",
      .doc = "The same of all runs with experts, until some are fitted. Default: that of a stack "
             "which was never measured." },
    { .name = "errors", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "In its place, by what the step is made of, as `fit` finds them." },
    { .name = "fitted_on", .kind = FIELD_OTHER, .fallback = "[]",
      .doc = "Ids or sources of the measured rows that constants were fitted on." },
    { .name = "residuals", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "By job of `fit`: errors on those rows, standard errors, correlations." },
};
// clang-format on
const size_t num_stack_fields = LENGTH(stack_fields);

const struct datafile_kind stack_files = { "stack", "calibration/stacks", NULL };

/* Reads all widths, or none. */
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
