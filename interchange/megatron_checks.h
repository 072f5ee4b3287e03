/* interchange/megatron_checks.h - the checks of Megatron-LM's rules, and the functions that change
 * a plan so that it keeps a rule. megatron_rules.c lists the rules. Only that file and
 * megatron_*_checks.c include it. */
#ifndef INTERCHANGE_MEGATRON_CHECKS_H
#define INTERCHANGE_MEGATRON_CHECKS_H

#include "interchange/megatron.h"

/* Types of the functions in struct target_rule. */
typedef bool rule_check(const struct rule_case *of, struct err *err);
typedef void rule_mend(struct job *job, struct arena *arena);

/* megatron_export_checks.c */
rule_check megatron_schedule_exists, megatron_order_exists, megatron_exchange_exists,
    megatron_optimizer_exists, megatron_precision_exists, megatron_gradients_are_one_type,
    megatron_recompute_exists, megatron_batch_is_whole, megatron_model_exists;
rule_mend megatron_mend_schedule, megatron_mend_order, megatron_mend_exchange,
    megatron_mend_optimizer, megatron_mend_precision, megatron_mend_gradients,
    megatron_mend_recompute;

/* megatron_stage_checks.c */
rule_check megatron_degrees_divide_world, megatron_batch_divides, megatron_stages_are_given_once,
    megatron_layers_divide, megatron_virtual_layers_divide, megatron_interleaving_has_stages,
    megatron_ends_have_layers, megatron_layout_holds_layers, megatron_virtual_stages_divide,
    megatron_microbatches_fill_groups, megatron_ramp_up_divides;

/* megatron_state_checks.c */
rule_check megatron_gathers_can_overlap, megatron_recompute_is_whole,
    megatron_sequence_parallel_has_ranks, megatron_offload_stands_alone,
    megatron_connections_are_right, megatron_fsdp_stands_alone, megatron_run_is_stated_once,
    megatron_optimizer_state_fits;
rule_mend megatron_mend_overlap, megatron_mend_modules, megatron_mend_state;

/* megatron_model_checks.c */
rule_check megatron_heads_divide_hidden, megatron_tensor_divides_heads, megatron_tensor_fits_groups,
    megatron_context_divides_sequence, megatron_positions_cover_sequence, megatron_experts_divide,
    megatron_experts_divide_world, megatron_experts_see_all_rows, megatron_expert_bias_is_whole,
    megatron_router_is_sound, megatron_expert_overlap_is_sound, megatron_capacity_is_sound,
    megatron_later_tokens_are_possible;
rule_mend megatron_mend_sp, megatron_mend_etp;

/* Virtual stages of each rank. */
int megatron_vpp_of(const struct rule_case *of);
/* True if selective recompute replays the module. */
bool megatron_replays_module(const struct megatron_args *a, enum replayed module);

#endif
