/* Megatron-LM's rules. Megatron-LM checks rules P when it starts; a job that breaks a rule R fails
 * while it runs; rules E are about experts; rules X reject plans and models for which Megatron-LM
 * has no arguments. Source of P and R: validate_args, TransformerConfig, and later calls that raise
 * errors, NVIDIA/Megatron-LM@d98e8a6. Rows are checked in order, so a rule may rely on the rules
 * above it. */
#include "interchange/megatron_checks.h"

#include "base/length.h"

// clang-format off
const struct target_rule megatron_rules[] = {
    { "X1", "The schedule is 1f1b, or interleaved with virtual stages.",
      "omit schedule=", megatron_schedule_exists, megatron_mend_schedule },
    { "X2", "Ranks are in the order tp-cp-dp-pp, or tp-cp-pp-dp.",
      "omit order=", megatron_order_exists, megatron_mend_order },
    { "X3", "Gradients are all-reduced, or reduce-scattered, exactly.",
      "omit exchange=", megatron_exchange_exists, megatron_mend_exchange },
    { "X4", "The optimizer is Adam or SGD.",
      "omit optimizer=", megatron_optimizer_exists, megatron_mend_optimizer },
    { "X5", "The precision is fp32, fp16, bf16, a recipe of fp8 of Transformer Engine, or nvfp4.",
      "take bf16", megatron_precision_exists, megatron_mend_precision },
    { "X6", "Gradients are kept and reduced in the same type.",
      "give grad= and reduce= the same type", megatron_gradients_are_one_type, megatron_mend_gradients },
    { "X7", "All chunks recompute the same number of layers, or the same whole modules.",
      "use recompute=block:N or recompute=selective", megatron_recompute_exists, megatron_mend_recompute },
    { "X8", "Megatron-LM's arguments can state the model.",
      "describe the model in a layer spec of your own", megatron_model_exists, NULL },
    { "X9", "The batch is a whole number of sequences.",
      "round --global-batch-size", megatron_batch_is_whole, NULL },
    { "P1", "tp x pp x cp divides the number of GPUs.",
      "choose degrees that divide the GPUs", megatron_degrees_divide_world, NULL },
    { "P2", "The global batch is a multiple of micro-batch x dp.",
      "round --global-batch-size to a multiple", megatron_batch_divides, NULL },
    { "P3", "Only one of layers per virtual stage, virtual stages per rank and a layout is given.",
      "keep one of the three", megatron_stages_are_given_once, NULL },
    { "P4", "Without a layout or a number of layers for the first or last stage, the stages "
            "divide the layers (including embedding and loss, if they count as layers).",
      "choose --pipeline-model-parallel-size among the divisors, or give a layout", megatron_layers_divide, NULL },
    { "P5", "The layers of a stage are a multiple of the layers per virtual stage.",
      "choose --num-layers-per-virtual-pipeline-stage among the divisors", megatron_virtual_layers_divide, NULL },
    { "P6", "Virtual stages need at least two pipeline stages; without overlapped messages, three.",
      "drop --no-overlap-p2p-communication, or the virtual stages", megatron_interleaving_has_stages, megatron_mend_overlap },
    { "P7", "The layers that are not on the first or last stage divide evenly over the other stages.",
      "give --pipeline-model-parallel-layout instead", megatron_ends_have_layers, NULL },
    { "P8", "A layout has one E at the beginning, one L at the end and each layer once; its "
            "number of stages is a multiple of pp.",
      "count the t in --pipeline-model-parallel-layout", megatron_layout_holds_layers, NULL },
    { "P9", "Overlapped gathers of parameters need the distributed optimizer and overlapped "
            "reductions.",
      "add --use-distributed-optimizer --overlap-grad-reduce", megatron_gathers_can_overlap, megatron_mend_overlap },
    { "P10", "If the width of a head is not given, the heads divide the hidden width.",
      "add --kv-channels", megatron_heads_divide_hidden, NULL },
    { "P11", "tp divides the attention heads.",
      "choose --tensor-model-parallel-size among the divisors of the heads", megatron_tensor_divides_heads, NULL },
    { "P12", "tp divides the query groups, or is a multiple of them.",
      "choose --tensor-model-parallel-size among the divisors of the groups", megatron_tensor_fits_groups, NULL },
    { "P13", "2 x cp divides the sequence.",
      "choose --context-parallel-size so that 2 cp divides --seq-length", megatron_context_divides_sequence, NULL },
    { "P14", "The model has a position for every token of the sequence.",
      "raise --max-position-embeddings to --seq-length", megatron_positions_cover_sequence, NULL },
    { "P15", "Full recompute needs a method and a number of layers; selective recompute has "
             "neither, and its modules exist in the model.",
      "add --recompute-method uniform --recompute-num-layers 1, or drop both", megatron_recompute_is_whole, megatron_mend_modules },
    { "P16", "Sequence parallelism needs tp over 1, and overlapped tensor collectives need it.",
      "drop --sequence-parallel, or raise tp", megatron_sequence_parallel_has_ranks, megatron_mend_overlap },
    { "P17", "ep divides the experts.",
      "choose --expert-model-parallel-size among the divisors of --num-experts", megatron_experts_divide, NULL },
    { "P18", "Offloading activations is possible only without pipeline and recompute.",
      "drop --cpu-offloading, or the recompute flags", megatron_offload_stands_alone, NULL },
    { "P19", "On GPUs before Blackwell, CUDA_DEVICE_MAX_CONNECTIONS is 1 with tp or cp; it is not 1 with "
             "FSDP.",
      "export CUDA_DEVICE_MAX_CONNECTIONS=1, or omit it with FSDP", megatron_connections_are_right, NULL },
    { "P20", "Megatron's FSDP needs its own checkpoint format; PyTorch's FSDP2 needs torch_dist, one stage and no expert ranks.",
      "add --ckpt-format fsdp_dtensor", megatron_fsdp_stands_alone, NULL },
    { "P21", "--train-iters excludes --train-samples, and --bf16 excludes --fp16; --save needs "
             "--save-interval.",
      "drop one of the two, or add --save-interval", megatron_run_is_stated_once, NULL },
    { "P22", "Adam's states in types other than fp32, or on the host, need the distributed "
             "optimizer.",
      "add --use-distributed-optimizer --use-precision-aware-optimizer", megatron_optimizer_state_fits, megatron_mend_state },
    { "R1", "Virtual stages per rank divide the layers of a stage.",
      "choose --num-virtual-stages-per-pipeline-rank among the divisors", megatron_virtual_stages_divide, NULL },
    { "R2", "With virtual stages, the microbatches divide into groups of pp or more.",
      "make the microbatches a multiple of pp, or set the group size", megatron_microbatches_fill_groups, NULL },
    { "R3", "etp x ep x pp divides the number of GPUs.",
      "choose --expert-model-parallel-size so that the product divides the GPUs", megatron_experts_divide_world, NULL },
    { "R4", "Experts with tp over 1 need sequence parallelism.",
      "add --sequence-parallel", megatron_experts_see_all_rows, megatron_mend_sp },
    { "R5", "The batches of a ramp-up are multiples of micro-batch x dp.",
      "round --rampup-batch-size", megatron_ramp_up_divides, NULL },
    { "E1", "Experts with biases are not split over tensor ranks.",
      "add --expert-tensor-parallel-size 1", megatron_expert_bias_is_whole, megatron_mend_etp },
    { "E2", "The settings of the router (score function, top-k, groups) and of the grouped matrix "
            "products are consistent.",
      "add the settings that the message names", megatron_router_is_sound, NULL },
    { "E3", "The conditions for overlapped all-to-alls of experts hold.",
      "drop --overlap-moe-expert-parallel-comm, or the conflicting setting", megatron_expert_overlap_is_sound, NULL },
    { "E4", "Padding of experts to their capacity needs a capacity factor.",
      "add --moe-expert-capacity-factor", megatron_capacity_is_sound, NULL },
    { "E5", "Multi-token prediction needs positions that are not learned.",
      "use --position-embedding-type rope", megatron_later_tokens_are_possible, NULL },
};
// clang-format on
const int num_megatron_rules = LENGTH(megatron_rules);
