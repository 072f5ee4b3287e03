#include "base/length.h"
#include "sim/cost/hardware.h"

#include "sim/cost/datafile.h"
#include "sim/cost/runtime.h"
#include "sim/cost/unfused.h"

#include <stdlib.h>
#include <string.h>

const char *const overlap_names[NUM_OVERLAPS + 1] = { "grad", "param",  "p2p", "tp",
                                                      "ep",   "shared", NULL };
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
    { .name = "source", TEXT(source), .doc = "Source of the file's contents." },
    { .name = "sources", .kind = FIELD_OTHER, .fallback = "", .doc = "Sources of single keys." },
    { .name = "summary", TEXT(summary), .fallback = "", .doc = "Description in one line, which `list` shows." },
    { .name = "family", TEXT(family), .fallback = "",
      .doc = "Stack of which this one is a version, if any. `fit` fits one product_efficiency for all versions, and `learn` one factor." },
    { .name = "attention", .kind = FIELD_NAME, AT(attention), .names = attention_names,
      .doc = "Kernel of attn=flash; GPUs that are too old for it use the newest kernel that they "
             "can run." },
    { .name = "flash_default", .kind = FIELD_BOOL, AT(unstated.flash_default), .fallback = "true",
      .doc = "Whether a layout without attn= uses flash attention." },
    { .name = "fused", .kind = FIELD_SET, AT(fusions), .names = fusion_names,
      .doc = "Ops that the stack runs in one fused kernel, or in one pass over the data." },
    { .name = "unfused", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "Traffic and launches of each op that is not fused." },
    { .name = "overlap", .kind = FIELD_SET, AT(overlaps), .names = overlap_names,
      .doc = "Communication that overlaps with compute if a layout has no overlap=." },
    { .name = "dispatcher", .kind = FIELD_NAME, AT(dispatcher), .names = dispatcher_names,
      .fallback = "alltoall",
      .doc = "Library that sends tokens to the ranks of their experts (`list dispatchers`)." },
    { .name = "row_sums_in_dtype", .kind = FIELD_BOOL, AT(sums_rows_in_dtype), .fallback = "false",
      .doc = "Ranks that share an expert sum their partial results in the data type of the "
             "activations; no: in fp32." },
    { .name = "launches_each_expert", .kind = FIELD_BOOL, AT(launches_each_expert),
      .fallback = "false",
      .doc = "The host launches the product of each expert by itself, as Transformer Engine does "
             "with cuBLAS; no: one kernel multiplies for all experts of a rank." },
    { .name = "quantized_dispatch", .kind = FIELD_BOOL, AT(sends_quantized), .fallback = "false",
      .doc = "With fewer than 16 bits, tokens are quantised before they are sent to their experts, "
             "and their gradients too; rows come back in 16 bits. no: all rows have 16 bits." },
    { .name = "pads_rows", .kind = FIELD_BOOL, AT(pads_rows), .fallback = "false",
      .doc = "With fewer than 16 bits, rows of experts are copied to blocks of aligned length "
             "before the experts' products and back after them, unless they arrive in such blocks; "
             "no: they are sorted into such blocks without a copy." },
    { .name = "input_store", .kind = FIELD_NAME, AT(input_store), .names = input_store_names,
      .fallback = "quantized",
      .doc = "With fewer than 16 bits, what a product keeps of its input for its weight gradient: "
             "quantized: the quantised copy; shared: the 16-bit input where another op keeps it "
             "anyway or selective recompute computes it again; original: always the 16-bit "
             "input." },
    { .name = "attention_store", .kind = FIELD_NAME, AT(attention_store), .names = storage_names,
      .fallback = "own",
      .doc = "With fewer than 16 bits, the type in which attention's output is kept for the "
             "backward: own: 16 bits; quantized: the recipe's; e5m6: 12 bits and the recipe's "
             "scales." },
    { .name = "activation_store", .kind = FIELD_NAME, AT(activation_store), .names = storage_names,
      .fallback = "own",
      .doc = "The type in which the inputs of activation functions are kept for the backward; "
             "values as for attention_store." },
    { .name = "remakes_activations", .kind = FIELD_BOOL, AT(remakes_activations),
      .fallback = "false",
      .doc = "With fewer than 16 bits, a product after an activation function keeps no input: the "
             "backward computes the function's output again." },
    { .name = "transposes_apart", .kind = FIELD_BOOL, AT(transposes_apart), .fallback = "false",
      .doc = "With fewer than 16 bits, kernels of their own transpose and quantise the operands of "
             "weight gradients in the backward; else the kernel that quantises an operand along "
             "rows also writes its copy along columns." },
    { .name = "runtime", .kind = FIELD_NAME, AT(runtime), .names = runtime_names,
      .fallback = "cuda",
      .doc = "cuda: CUDA and NCCL, which allocate workspaces and buffers; host: the executor's "
             "host backend, which allocates none." },
    { .name = "launch", .kind = FIELD_NAME, AT(host.launch), .names = launch_names, .fallback = "eager",
      .doc = "eager: kernel by kernel; graphs: whole graphs; passes: a chunk's pass is a graph if "
             "there is one stage, the pass repeats and it contains no collective, else kernel by "
             "kernel." },
    { .name = "launches_ahead", .kind = FIELD_BOOL, AT(host.launches_ahead), .fallback = "true",
      .doc = "The host launches kernels ahead of their execution, up to a whole pass; no: a layer is "
             "launched when the one before has ended, and collectives run between layers." },
    { .name = "launches_block", .kind = FIELD_BOOL, AT(host.launches_block), .fallback = "false",
      .doc = "The host waits for each kernel before it launches the next "
             "(CUDA_LAUNCH_BLOCKING=1), so the times of host and GPU add." },
    { .name = "product_efficiency", .kind = FIELD_NUMBER, AT(product_efficiency), .min = 0.01,
      .max = 2, .fallback = "1",
      .doc = "Share of the profile's rate of matrix products that the stack's libraries reach." },
    { .name = "expert_efficiency", .kind = FIELD_NUMBER, AT(expert_efficiency), .min = 0.01,
      .max = 2, .fallback = "1",
      .doc = "Rate of the matrix products of experts and router, relative to that of other matrix products." },
    { .name = "quantized_efficiency", .kind = FIELD_NUMBER, AT(quantized_efficiency), .min = 0.01,
      .max = 4, .fallback = "1",
      .doc = "Rate of forward products and input gradients in fewer than 16 bits, relative to that "
             "of Transformer Engine." },
    { .name = "attention_forward_efficiency", .kind = FIELD_NUMBER, AT(attention_forward_efficiency),
      .min = 0.01, .max = 2, .fallback = "1",
      .doc = "Share of the profile's rate of attention that the stack's own kernel reaches; not "
             "used if the profile has measured kernels." },
    { .name = "attention_backward_efficiency", .kind = FIELD_NUMBER,
      AT(attention_backward_efficiency), .min = 0.01, .max = 2, .fallback = "1",
      .doc = "The same share in the backward." },
    { .name = "issue", QUANTITY(SECONDS, host.issue_s), .min = 0, .max = 1, .fallback = "5 us",
      .doc = "Host time to launch one kernel without graphs." },
    { .name = "graph_kernel", QUANTITY(SECONDS, host.graph_kernel_s), .min = 0, .max = 1,
      .fallback = "1 us", .doc = "Shortest time from one kernel of a captured graph to the next." },
    { .name = "checkpoint_overhead", QUANTITY(SECONDS, host.checkpoint_s), .min = 0, .max = 10,
      .fallback = "0 s",
      .doc = "Host time to save and restore the state of one recomputed layer." },
    { .name = "microbatch_overhead", QUANTITY(SECONDS, host.microbatch_s), .min = 0, .max = 10,
      .fallback = "0 s", .doc = "Host time per forward and backward of one chunk, in addition to "
                                "launches." },
    { .name = "tensor_launches", .kind = FIELD_NUMBER, AT(host.tensor_launches), .min = 0,
      .max = 1000, .fallback = "0",
      .doc = "Host time per step for each weight tensor with a gradient, as a multiple of the time "
             "of one kernel launch: the hook that accumulates the gradient, and the optimizer's "
             "copies." },
    { .name = "step_overhead", QUANTITY(SECONDS, host.step_s), .min = 0, .max = 100, .fallback = "0 s",
      .doc = "Host and logging time of a step." },
    { .name = "allocator_slack", .kind = FIELD_NUMBER, AT(memory.allocator_slack), .min = 0, .max = 10,
      .fallback = "0.05", .doc = "Reserved memory divided by allocated memory, minus 1." },
    { .name = "memory_error", .kind = FIELD_NUMBER, AT(memory.error), .min = 0, .max = 10,
      .fallback = "0.14",
      .doc = "Half width of the 90 % interval of the log of peak memory, written by `fit`; absent: "
             "that of all shipped stacks together." },
    { .name = "memory_shift", .kind = FIELD_NUMBER, AT(memory.shift), .min = -1, .max = 1,
      .fallback = "0",
      .doc = "Expected logarithm of real / predicted peak memory, written by `fit`. For a stack "
             "without measured peaks it is below 0 if runs are known that did not run out of "
             "memory although their predicted peaks nearly fill the GPU's memory or exceed it." },
    { .name = "context", QUANTITY(BYTES, memory.context_bytes), .min = 0, .max = 1e18,
      .fallback = "1.5 GiB", .doc = "CUDA context, kernels, workspaces of libraries." },
    { .name = "graph_memory", QUANTITY(BYTES, memory.graph_bytes), .min = 0, .max = 1e18,
      .fallback = "2 GiB",
      .doc = "Memory pools of captured graphs, if launch is graphs: \"typically a few GB\", and "
             "more with pipeline stages (Megatron-Bridge performance guide)." },
    { .name = "main_gradients", .kind = FIELD_NAME, AT(memory.main_gradients),
      .names = main_gradients_names, .fallback = "fp32",
      .doc = "Data type in which gradients of 16-bit weights are kept in memory if a layout has no "
             "grad=: fp32, or own, which is the type of the weights; data ranks then sum them in "
             "that type, and the optimizer converts them to fp32." },
    { .name = "low_gradients", .kind = FIELD_BOOL, AT(memory.low_gradients), .fallback = "false",
      .doc = "Gradients in the weights' type are kept in addition to the fp32 gradients to which "
             "they are added." },
    { .name = "widens_gradients", .kind = FIELD_BOOL, AT(memory.widens_gradients),
      .fallback = "false",
      .doc = "Adam with 16-bit moments (adam-bf16) copies 16-bit gradients to fp32 for the update, as "
             "other optimizers do; no: it reads them as they are, unless fp8 scales are computed anew "
             "for each tensor." },
    { .name = "stores_remainders", .kind = FIELD_BOOL, AT(memory.stores_remainders),
      .fallback = "false",
      .doc = "In bf16, Adam with 16-bit moments (adam-bf16) keeps 2 instead of 4 bytes of each fp32 "
             "master weight, the 16 bits that the bf16 weight lacks, unless it copies gradients to "
             "fp32." },
    { .name = "frees_gradients", .kind = FIELD_BOOL, AT(memory.frees_gradients), .fallback = "false",
      .doc = "Gradients are freed after the optimizer and allocated again by the next backward; no: "
             "buffers hold them all the time." },
    { .name = "shards_are_master", .kind = FIELD_BOOL, AT(memory.shards_are_master),
      .fallback = "false",
      .doc = "ZeRO-3 keeps only the optimizer's fp32 shards of weights and converts them to 16 "
             "bits when they are gathered; no: it also keeps 16-bit shards." },
    { .name = "connects_groups", .kind = FIELD_BOOL, AT(memory.connects_groups), .fallback = "false",
      .doc = "Every group of ranks that the executor uses has its own NCCL communicator, connected "
             "for all algorithms when it is created; no: only the parallel axes have "
             "communicators, connected for the algorithms that are called." },
    { .name = "logits", QUANTITY(BYTES, memory.logits_bytes), .min = 0, .max = 64, .fallback = "6 B",
      .doc = "Bytes held per logit at the loss; at least those of one value in the plan's "
             "precision." },
    { .name = "logits_rows", .kind = FIELD_INT, AT(memory.logits_rows), .min = 0, .max = 1 << 30,
      .fallback = "0",
      .doc = "Largest number of the head's rows (tokens) whose logits are computed at once. The "
             "backward recomputes the logits, so none are kept. With 0, or if a schedule splits "
             "the backward, all rows are computed at once and kept." },
    { .name = "bucket", QUANTITY(BYTES, shards.bucket_bytes), .min = 0, .max = 1e18, .fallback = "0 B",
      .doc = "Bytes of gradients that are reduced together when reductions overlap; 0: a whole "
             "chunk." },
    { .name = "pipeline_buckets", .kind = FIELD_NAME, AT(shards.pipeline_buckets),
      .names = pipeline_buckets_names, .fallback = "none",
      .doc = "Pipeline stages whose chunks are reduced in buckets that overlap with the chunk's last "
             "backward; the others are reduced whole after it." },
    { .name = "layer_messages", .kind = FIELD_INT, AT(shards.layer_messages), .min = 1, .max = 1000,
      .fallback = "1",
      .doc = "Number of collectives in which a layer's sharded parameters are gathered (ZeRO-3)." },
    { .name = "message_per_rank", QUANTITY(SECONDS, shards.message_per_rank_s), .min = 0, .max = 1,
      .fallback = "0 s",
      .doc = "Host time of each such collective per member of its group." },
    { .name = "shard_copies", .kind = FIELD_BOOL, AT(shards.copies), .fallback = "false",
      .doc = "ZeRO-3 shards each parameter separately, so gathered weights are copied out of a "
             "buffer and gradients into one; these copies are exposed." },
    { .name = "whole_tensors", .kind = FIELD_BOOL, AT(shards.whole_tensors), .fallback = "false",
      .doc = "ZeRO-1 gives each weight tensor whole to one rank: gradients are all-reduced, and "
             "each rank that owns tensors broadcasts them after its update." },
    { .name = "reshard", .kind = FIELD_BOOL, AT(shards.reshard), .fallback = "true",
      .doc = "ZeRO-3 drops a layer's weights after its forward (FULL_SHARD) and gathers them again; "
             "no: keeps them for the backward (SHARD_GRAD_OP)." },
    { .name = "prefetch", .kind = FIELD_INT, AT(shards.prefetch), .min = 0, .max = 1000, .fallback = "1",
      .doc = "Layers that ZeRO-3 gathers ahead; 0: none, so gathers are exposed." },
    { .name = "accumulate", .kind = FIELD_NAME, AT(shards.accumulate), .names = accumulate_names,
      .fallback = "reduce",
      .doc = "reduce: ZeRO-2 and 3 reduce gradients after every microbatch; no_sync: once per "
             "step, and keep whole gradients until then." },
    { .name = "pipeline_zero", .kind = FIELD_INT, AT(shards.pipeline_zero), .min = 0, .max = 3,
      .fallback = "1",
      .doc = "Highest ZeRO stage that searches combine with pipeline stages; layouts that name a "
             "higher one are still predicted." },
    { .name = "optimizer_passes", .kind = FIELD_NUMBER, AT(optimizer_passes), .min = 0.1,
      .max = 100, .fallback = "1",
      .doc = "Memory traffic of the optimizer step, relative to one fused pass." },
    { .name = "scatter_gather_p2p", .kind = FIELD_BOOL, AT(pipeline.scatter_gather_p2p), .fallback = "false",
      .doc = "Pipeline messages are split over tensor ranks and gathered in the node." },
    { .name = "leaves_vocab_odd", .kind = FIELD_BOOL, AT(leaves_vocab_odd), .fallback = "no",
      .doc = "The vocabulary is split over tensor ranks without padding." },
    { .name = "keeps_gathered", .kind = FIELD_BOOL, AT(keeps_gathered), .fallback = "no",
      .doc = "Under sequence parallelism the gathered inputs of products are kept for the "
             "backward; no: a rank keeps only its shard and gathers it again." },
    { .name = "recomputes_unread", .kind = FIELD_BOOL, AT(recomputes_unread), .fallback = "yes",
      .doc = "Full recompute repeats all ops of a block; no: not those whose results no backward "
             "op reads, such as its last product." },
    { .name = "norm_reads_twice", .kind = FIELD_BOOL, AT(norm_reads_twice), .fallback = "false",
      .doc = "The second kernel of a norm's backward, which sums the gradients of the norm's weights, "
             "reads input and output gradient again; no: the first kernel makes partial sums." },
    { .name = "user_buffers", .kind = FIELD_BOOL, AT(user_buffers), .fallback = "no",
      .doc = "With overlap=tp and sp, tensor-parallel collectives are split into pieces that "
             "overlap with the products that read or compute their tokens (Transformer Engine's "
             "user buffers)." },
    { .name = "norms_in_products", .kind = FIELD_BOOL, AT(norms_in_products), .fallback = "no",
      .doc = "A norm before a dense sub-layer is fused into the linear layer that reads it, so "
             "recompute of layernorm does not repeat it." },
    { .name = "tied_reduce", .kind = FIELD_BOOL, AT(pipeline.tied_reduce), .fallback = "true",
      .doc = "Gradients of tied embeddings are all-reduced between first and last stage." },
    { .name = "post_validation", .kind = FIELD_BOOL, AT(pipeline.post_validation), .fallback = "false",
      .doc = "Schedules that split the backward update each stage before the norm of all gradients "
             "is known, and revert the update if the norm requires it (Qi et al. 2024, section 4)." },
    { .name = "gradients_in_dtype", .kind = FIELD_BOOL, AT(gradients_in_dtype), .fallback = "false",
      .doc = "fp16 gradients are accumulated and reduced in fp16 instead of fp32." },
    { .name = "keeps_fp8", .kind = FIELD_BOOL, AT(keeps_quantized), .fallback = "false",
      .doc = "If the recipe allows it, fp8 weights are kept and gathered in fp8 instead of bf16." },
    { .name = "sp_default", .kind = FIELD_BOOL, AT(unstated.sp_default), .fallback = "false",
      .doc = "Measured runs with tp over 1 are assumed to have sequence parallelism if they do not state it." },
    { .name = "op_selective", .kind = FIELD_BOOL, AT(unstated.per_op), .fallback = "false",
      .doc = "Searches use recompute=op-selective in place of recompute=selective." },
    { .name = "recompute_modules", .kind = FIELD_BOOL, AT(unstated.modules), .fallback = "false",
      .doc = "Selective recompute can repeat any set of modules of a block (Megatron-Core's "
             "--recompute-modules); searches choose the fastest set that fits." },
    { .name = "zero_default", .kind = FIELD_INT, AT(unstated.zero_default), .min = 0, .max = 3,
      .fallback = "0", .doc = "ZeRO stage assumed for measured runs that do not state it." },
    { .name = "logged_stage", .kind = FIELD_NAME, AT(unstated.logged_stage),
      .names = logged_stage_names, .fallback = "most",
      .doc = "Pipeline stage whose memory measured runs report: most: the stage with the most "
             "memory; last: the last stage, whose rank writes the log." },
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
      .doc = "Time until a failure is noticed. Default: PyTorch's timeout of NCCL's collectives; "
             "MegaScale needed less (Jiang et al. 2024, section 4, quoted from memory)." },
    { .name = "relaunch", QUANTITY(SECONDS, recovery.relaunch_s), .min = 0, .max = 1e9,
      .fallback = "5 min",
      .doc = "Time from noticing a failure until all processes run again. The default is an "
             "assumption: a recovery then takes a quarter of an hour, as MegaScale's did." },
    { .name = "warm_up", QUANTITY(SECONDS, recovery.warm_up_s), .min = 0, .max = 1e9,
      .fallback = "1 min", .doc = "Time that the first steps take in addition to later ones. The "
                                  "default is an assumption." },
    { .name = "error_log", .kind = FIELD_NUMBER, AT(errors.log), .min = 0, .max = 10,
      .fallback = "0",
      .doc = "Half width of the 90 % interval of this stack's runs, in log time; 0: not known." },
    { .name = "source_error", .kind = FIELD_NUMBER, AT(errors.source), .min = 0, .max = 10,
      .fallback = "0",
      .doc = "For a stack on which nothing was fitted: half width, in log time, of the error that "
             "all of its runs have in common, written by `fit`." },
    { .name = "slice_error", .kind = FIELD_NUMBER, AT(errors.slice), .min = 0, .max = 10,
      .fallback = "0",
      .doc = "For such a stack: half width, in log time, of the additional error if a tensor "
             "rank's slice (hidden size / tp) is wider or narrower than usual_slice by the factor "
             "e (2.718); written by `fit`." },
    { .name = "usual_slice", .kind = FIELD_NUMBER, AT(errors.usual_slice), .min = 0, .max = 1e9,
      .fallback = "0",
      .doc = "Mean of hidden size / tp over the measured sources." },
    { .name = "time_ratio", .kind = FIELD_NUMBER, AT(learned.time_ratio), .min = 0, .max = 100,
      .fallback = "0",
      .doc = "Factor on all times, found by `learn` from the user's own runs; 0: none; shipped "
             "stacks have none." },
    { .name = "expert_time_ratio", .kind = FIELD_NUMBER, AT(learned.expert_time_ratio), .min = 0, .max = 100,
      .fallback = "0", .doc = "The same factor for models with experts." },
    { .name = "expert_error", .kind = FIELD_NUMBER, AT(errors.of_experts), .min = 0, .max = 10,
      .fallback = "0.32",
      .doc = "Half width of the error that all runs with experts have in common. Default: that of "
             "a stack which was never measured." },
    { .name = "errors", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "Half widths for each part of a step, which replace error_log; written by `fit`." },
    { .name = "fitted_on", .kind = FIELD_OTHER, .fallback = "[]",
      .doc = "Ids or sources of the measured rows on which constants were fitted." },
    { .name = "residuals", .kind = FIELD_OTHER, .fallback = "{}",
      .doc = "For each job of `fit`: errors on the rows of fitted_on, standard errors, correlations." },
};
// clang-format on
const size_t num_stack_fields = LENGTH(stack_fields);

const struct datafile_kind stack_files = { "stack", "calibration/stacks", NULL };

/* Reads the interval widths by class of time; a file must have all of them or none. */
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
    if (*stack->family == '\0')
        json_object_del(object, "family");
    if (!(stack->learned.time_ratio > 0))
        json_object_del(object, "time_ratio");
    if (!(stack->learned.expert_time_ratio > 0))
        json_object_del(object, "expert_time_ratio");
    json_object_set_new(object, "fitted_on", fitted_write(stack->fitted, stack->num_fitted));
    return object;
}

const char *stack_family(const struct stack *stack)
{
    return *stack->family ? stack->family : stack->name;
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

struct stores stack_stores(const struct stack *stack)
{
    return (struct stores){ .inputs = (enum input_store)stack->input_store,
                            .attention = (enum storage)stack->attention_store,
                            .activations = (enum storage)stack->activation_store,
                            .remakes_activations = stack->remakes_activations,
                            .transposes_apart = stack->transposes_apart };
}
