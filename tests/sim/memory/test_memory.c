#include "tests/testing.h"

#include "base/length.h"
#include "sim/engine/simulate.h"
#include "tests/sim/named.h"
#include "tests/sim/planned.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* NCCL's rings have 24 channels on a DGX H100. Each channel takes 9.1875 MiB per connection. */
START_TEST(a_connection_of_a_channel_takes_9_1875_mib)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 8);
    planned_layout("tp8");
    ck_assert_double_eq(planned_memory(0).network_bytes, 24 * 9.1875 * 1024 * 1024);
}
END_TEST

START_TEST(a_single_gpu_needs_no_network_buffers)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 1);
    planned_layout("mb1");
    ck_assert_double_eq(planned_memory(0).network_bytes, 0);
}
END_TEST

/* Megatron-LM's golden values of allocated memory on GB200 exceed those on A100 by 29,360,128
 * bytes. */
START_TEST(workspaces_of_hopper_are_28_mib_larger_than_those_of_ampere)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 1);
    planned_layout("mb1");
    double hopper_bytes = planned_memory(0).library_bytes;
    planned.system.gpu.arch = ARCH_AMPERE;
    ck_assert_double_eq(hopper_bytes - planned_memory(0).library_bytes, 29360128);
}
END_TEST

/* On 8 ranks ZeRO 0 to 3 keep 2 + 4 + 12, 2 + 4 + 12/8, 2 + (4 + 12)/8 and (2 + 4 + 12)/8 bytes per
 * parameter. The terms are weight, gradient and optimizer state. */
START_TEST(zero_shards_optimizer_then_gradients_then_weights)
{
    static const char *const layouts[] = { "mb1", "zero1", "zero2", "zero3" };
    static const double bytes[] = { 18, 7.5, 4, 2.25 };
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 8);
    for (int zero = 0; zero < 4; zero++) {
        planned_layout(layouts[zero]);
        struct stage_memory memory = planned_memory(0);
        double state_bytes = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes;
        ck_assert_double_eq_tol(state_bytes / planned_parameters(0), bytes[zero], 1e-12);
    }
}
END_TEST

/* ZeRO-3 over 8 ranks with bf16 weights and fp32 gradients holds the gathered layers and one whole
 * gradient. */
START_TEST(the_number_of_gathered_layers_is_the_stacks)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 8);
    planned_layout("zero3");
    struct stack *stack = &planned.system.stack;
    double largest =
        fmax(planned.pieces.at[0].parameters, planned.pieces.at[PIECE_EMBEDDING].parameters);
    ck_assert_double_eq_tol(planned_memory(0).buckets_bytes, largest * (2 * 2 + 4), 1);
    stack->shards.prefetch = 3;
    ck_assert_double_eq_tol(planned_memory(0).buckets_bytes, largest * (4 * 2 + 4), 1);
    stack->shards.prefetch = 1000;
    ck_assert_double_eq_tol(planned_memory(0).buckets_bytes,
                            planned_parameters(0) * 2 + largest * 4, 1);
    stack->shards.prefetch = 1;
    stack->shards.reshard = false;
    ck_assert_double_eq_tol(planned_memory(0).buckets_bytes,
                            planned_parameters(0) * 2 + largest * 4, 1);
}
END_TEST

/* The batch of 512 sequences gives each of 8 ranks 64 microbatches or, with a larger microbatch,
 * one. */
START_TEST(gradients_reduced_after_the_last_microbatch_are_held_whole)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 8);
    planned.system.stack.shards.accumulate = ACCUMULATE_NO_SYNC;
    planned.model.batch = 512;
    planned_layout("zero3");
    ck_assert_double_eq(planned_memory(0).gradients_bytes, 4 * planned_parameters(0));
    planned.model.batch = 8;
    planned_layout("zero3");
    ck_assert_double_eq(planned_memory(0).gradients_bytes, 4 * planned_parameters(0) / 8);
}
END_TEST

START_TEST(captured_graphs_have_separate_memory_pools)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 1);
    planned_layout("mb1");
    double eager_bytes = planned_memory(0).context_bytes;
    planned.system.stack.host.launch = LAUNCH_GRAPHS;
    ck_assert_double_eq(planned_memory(0).context_bytes - eager_bytes, 2.0 * 1024 * 1024 * 1024);
}
END_TEST

/* Offload moves 12 of 18 bytes of state per parameter to the host, and the activations of all
 * layers except two of 24. */
START_TEST(offloaded_bytes_leave_the_gpu)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 8);
    planned_layout("mb1");
    struct stage_memory before = planned_memory(0);
    planned_layout("mb1 offload=optimizer,activations");
    struct stage_memory after = planned_memory(0);
    ck_assert_double_eq(before.optimizer_bytes, 12 * planned_parameters(0));
    ck_assert_double_eq(after.optimizer_bytes, 0);
    ck_assert_double_eq(after.weights_bytes, before.weights_bytes);
    ck_assert_double_eq(after.gradients_bytes, before.gradients_bytes);
    ck_assert_double_eq_tol(before.activations_bytes - after.activations_bytes,
                            22 * planned.pieces.at[0].saved_bytes, 1);
}
END_TEST

/* The stages have 5, 3, 2 and 2 of 12 layers, and the last stage has its own copy of a tied
 * embedding. */
START_TEST(stages_hold_the_state_of_their_layers)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-125m", 4);
    planned_layout("pp4 stages=5,3,2,2");
    const struct pieces *pieces = &planned.pieces;
    double layer = pieces->at[0].parameters;
    ck_assert_double_eq(planned_parameters(0), 5 * layer + pieces->at[PIECE_EMBEDDING].parameters);
    ck_assert_double_eq(planned_parameters(1), 3 * layer);
    ck_assert_double_eq(planned_parameters(3), 2 * layer + pieces->at[PIECE_HEAD].parameters);
    ck_assert_double_gt(pieces->at[PIECE_HEAD].parameters,
                        planned.model.vocab * planned.model.hidden);
}
END_TEST

/* A stage keeps a checkpoint for every 3 of 24 layers and the activations of 3 layers, the first of
 * which has a checkpoint. The head's activations are already freed. */
START_TEST(recompute_keeps_one_checkpoint_per_group_of_layers)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 1);
    planned_layout("recompute=full:3");
    const struct pieces *pieces = &planned.pieces;
    double ends_bytes =
        pieces->at[PIECE_EMBEDDING].saved_bytes + pieces->at[PIECE_HEAD].saved_bytes;
    struct stage_memory memory = planned_memory(0);
    ck_assert_double_eq_tol(memory.activations_bytes, 8 * pieces->at[0].input_bytes + ends_bytes,
                            1);
    ck_assert_double_eq(memory.recompute_bytes,
                        3 * pieces->at[0].saved_bytes - pieces->at[0].input_bytes +
                            pieces->at[0].moment_bytes - pieces->at[PIECE_HEAD].saved_bytes);
}
END_TEST

static double peak_of(struct evaluator *evaluator, const char *layout)
{
    struct plan plan = plan_of(layout, &planned.arena);
    return evaluate_peak_bytes(evaluator, &plan);
}

/* If full recompute does not fit with one checkpoint per layer, several layers share a checkpoint:
 * the fewest layers with which the plan fits. If no number fits, the number of layers per
 * checkpoint grows as long as this lowers the peak. With a memory limit between two peaks, the
 * number of layers per checkpoint that has the lower peak is chosen. */
START_TEST(layers_share_a_checkpoint_until_the_peak_fits)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 1);
    planned_layout("mb4 recompute=full");
    struct evaluator *evaluator = evaluator_new(&planned.system, &planned.model);
    double before = peak_of(evaluator, "dp1 mb4 recompute=full"), least = before;
    char layout[64];
    int every = 2;
    for (; every <= planned.model.layers; every++) {
        snprintf(layout, sizeof layout, "dp1 mb4 recompute=full:%d", every);
        least = peak_of(evaluator, layout);
        if (least >= before)
            break;
        struct plan plan = planned.plan;
        ck_assert_double_eq(evaluate_fitting_bytes(evaluator, &plan, (before + least) / 2), least);
        ck_assert_int_eq(plan.recompute, RECOMPUTE_EVERY);
        ck_assert_int_eq(plan.recompute_every, every);
        before = least;
    }
    ck_assert_int_gt(every, 3);
    struct plan plan = planned.plan;
    ck_assert_double_eq(evaluate_fitting_bytes(evaluator, &plan, 1), before);
    ck_assert_int_eq(plan.recompute_every, every - 1);
    plan = planned.plan;
    evaluate_fitting_bytes(evaluator, &plan, 1e12);
    ck_assert_int_eq(plan.recompute, RECOMPUTE_FULL);
    evaluator_free(evaluator);
}
END_TEST

/* In the backward of a GPT layer with flash attention, the peak is after the input gradient of the
 * second linear layer. In units of s b h values, the gradient of the residual stream takes 1, the
 * gradient that was just read and is not yet freed takes 1, and the new gradient takes 4. Unless
 * the product adds to the main gradient, the h x 4h weight gradient takes memory too. The values of
 * the head are already freed at that time. */
START_TEST(a_backward_holds_gradients_until_they_are_read)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 1);
    planned.model.dropout = 0;
    planned_layout("mb4 attn=flash");
    double values = 4.0 * planned.model.seq * planned.model.hidden;
    double matrix = 4.0 * planned.model.hidden * planned.model.hidden;
    ck_assert_double_eq(planned.pieces.at[0].moment_bytes, 6 * 2 * values);
    ck_assert_double_eq(planned_memory(0).recompute_bytes,
                        6 * 2 * values - planned.pieces.at[PIECE_HEAD].saved_bytes);
    planned.system.stack.fusions &= ~(1u << FUSION_WGRAD_ACCUMULATE);
    planned_layout("mb4 attn=flash");
    ck_assert_double_eq(planned.pieces.at[0].moment_bytes, 2 * (6 * values + matrix));
}
END_TEST

static double state_bytes(const struct stage_memory *memory)
{
    return memory->weights_bytes + memory->gradients_bytes + memory->optimizer_bytes;
}

/* A parameter takes 2 + 2 + 12 bytes while activations exist, and 4 bytes more during the
 * optimizer's step, when activations are freed. */
START_TEST(gradients_of_16_bits_are_widened_after_activations_are_freed)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 1);
    planned_layout("dtype=fp16 grad=fp16 mb8");
    struct stage_memory large = planned_memory(0);
    double parameters = planned_parameters(0);
    ck_assert_double_eq_tol(state_bytes(&large) / parameters, 16, 1e-12);
    ck_assert_double_gt(large.activations_bytes, 4 * parameters);
    planned_layout("dtype=fp16 grad=fp16 mb1 recompute=full");
    struct stage_memory small = planned_memory(0);
    ck_assert_double_eq_tol(state_bytes(&small) / parameters, 20, 1e-12);
    ck_assert_double_eq(small.activations_bytes, 0);
    ck_assert_double_eq_tol(small.allocated_bytes, 20 * parameters + small.library_bytes, 1);
}
END_TEST

/* Adam with 16-bit moments reads 16-bit gradients without widening them. In bf16 it keeps the half
 * of a master weight that the weight lacks, so a parameter always takes 2 + 2 + 2 + 2 + 2 bytes. In
 * fp8 with delayed scales a master weight takes 4 bytes. On Megatron-Bridge, and in fp8 with scales
 * that are computed anew for each tensor, a master weight takes 4 bytes and the fp32 copy of a
 * gradient 4 more. */
START_TEST(adam_with_16_bit_moments_widens_gradients_only_for_some_scales_and_stacks)
{
    static const struct {
        const char *stack, *precision;
        double widened, kept;
    } cases[] = {
        { "megatron-core", "bf16", 0, 6 },      { "megatron-core", "fp8", 0, 8 },
        { "megatron-core", "fp8-cs", 4, 8 },    { "megatron-core", "fp8-block", 4, 8 },
        { "megatron-bridge", "bf16", 4, 8 },    { "megatron-bridge", "fp8", 0, 8 },
        { "megatron-core", "bf16-pure", 0, 4 },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        char layout[128];
        planned_load("dgx-h100", cases[i].stack, "gpt3-1.3b", 1);
        snprintf(layout, sizeof layout, "grad=bf16 mb1 recompute=full optimizer=adam-bf16 dtype=%s",
                 cases[i].precision);
        planned_layout(layout);
        struct stage_memory memory = planned_memory(0);
        double parameters = planned_parameters(0);
        ck_assert_double_eq_tol(memory.step_bytes / parameters, cases[i].widened, 1e-12);
        ck_assert_double_eq_tol((memory.optimizer_bytes - memory.step_bytes) / parameters,
                                cases[i].kept, 1e-12);
        planned_release();
    }
}
END_TEST

/* Bytes per gradient of bf16 weights. Depending on the stack (training software), gradients are
 * kept in fp32, in the type of the weights, or in both; a type that the layout names applies to
 * every stack. */
START_TEST(gradients_have_the_type_of_the_stack_or_layout)
{
    static const struct {
        int main_gradients;
        bool low_gradients;
        const char *layout;
        double bytes;
    } cases[] = {
        { MAIN_GRADIENTS_FP32, false, "mb8", 4 },
        { MAIN_GRADIENTS_OWN, false, "mb8", 2 },
        { MAIN_GRADIENTS_FP32, true, "mb8", 6 },
        { MAIN_GRADIENTS_OWN, true, "mb8", 2 },
        { MAIN_GRADIENTS_OWN, false, "mb8 dtype=fp32", 4 },
        { MAIN_GRADIENTS_FP32, true, "mb8 dtype=fp16 grad=fp16", 2 },
    };
    planned_load("dgx-h100", "megatron-core", "gpt3-1.3b", 1);
    for (size_t i = 0; i < LENGTH(cases); i++) {
        planned.system.stack.memory.main_gradients = cases[i].main_gradients;
        planned.system.stack.memory.low_gradients = cases[i].low_gradients;
        planned_layout(cases[i].layout);
        double bytes = planned_memory(0).gradients_bytes / planned_parameters(0);
        ck_assert_msg(fabs(bytes - cases[i].bytes) < 1e-9,
                      "case %zu: gradients of %g bytes per parameter", i, bytes);
    }
}
END_TEST

/* At the loss of the only microbatch the state is 12 / 8 bytes per parameter: a rank holds only its
 * shards of the fp32 master weights and moments, and no gradient exists yet. */
START_TEST(fsdp_keeps_fp32_masters_and_allocates_gradients_in_the_backward)
{
    planned_load("dgx-h100", "torchtitan", "gpt3-1.3b", 8);
    planned.model.batch = 64;
    planned_layout("zero3 mb8");
    struct stage_memory at_loss = planned_memory(0);
    double parameters = planned_parameters(0);
    ck_assert_double_eq_tol(state_bytes(&at_loss) / parameters, 12.0 / 8, 1e-12);
    /* the loss of the second microbatch comes after the gradients of the first */
    planned.model.batch = 128;
    planned_layout("zero3 mb8");
    struct stage_memory second = planned_memory(0);
    ck_assert_double_eq_tol(state_bytes(&second) / parameters, 16.0 / 8, 1e-12);
}
END_TEST

/* Stage q of 16 has 16 microbatches of 8 chunks, so 128 forward passes, of which at most 30 - 2q +
 * 112 + 1 are in flight at once. At that moment the backward of one chunk has begun, and on the
 * first eight stages also that of the next chunk. Memory then holds the fp32 gradients of these
 * chunks (weights take two bytes each) and the activations of the passes in flight. */
START_TEST(gradients_of_chunks_are_allocated_one_after_another)
{
    planned_load("dgx-h100", "torchtitan", "llama3-405b", 16384);
    planned.model.batch = 2048;
    planned_layout("tp8 pp16 mb1 vpp8 sp zero1 stages=0,1x126,0");
    double weights_bytes = planned_memory(1).weights_bytes;
    static const int stages[] = { 1, 7, 8, 14 }, left[] = { 127, 127, 127, 115 };
    double pass_bytes = planned_memory(1).activations_bytes / 127;
    for (size_t i = 0; i < LENGTH(stages); i++) {
        struct stage_memory memory = planned_memory(stages[i]);
        ck_assert_double_eq_tol(memory.gradients_bytes / weights_bytes, 2.0 / 8, 1e-12);
        ck_assert_double_eq_tol(memory.activations_bytes / pass_bytes, left[i], 1e-9);
    }
}
END_TEST

/* Llama 3 405B was trained with this layout on GPUs of 80 GB (arXiv 2407.21783, section 3.3.2 and
 * table 4). */
START_TEST(the_layout_of_llama_3_fits_the_software_that_ran_it)
{
    static const char *const layouts[] = { "tp8 pp16 mb1 vpp8 sp zero1 stages=0,1x126,0",
                                           "tp8 pp16 mb1 vpp8 sp zero2 stages=0,1x126,0" };
    planned_load("meta-grand-teton-700w", "llama3", "llama3-405b", 16384);
    planned.model.batch = 2048;
    for (size_t i = 0; i < LENGTH(layouts); i++) {
        planned_layout(layouts[i]);
        for (int stage = 0; stage < 16; stage++)
            ck_assert_double_le(planned_memory(stage).total_bytes, planned.system.gpu.usable_bytes);
    }
}
END_TEST

/* In these plans few activations are kept, so the peak is at the end of the step's last backward.
 * Then two of the eight or three chunks hold whole gradients, and the others hold only the rank's
 * shard. Without overlap of the reduction, all chunks hold whole gradients. */
START_TEST(reduced_gradients_of_a_chunk_are_freed)
{
    planned_load("meta-grand-teton-700w", "llama3", "llama3-405b", 16384);
    planned.model.batch = 512;
    planned_layout("tp8 cp4 pp16 mb1 vpp8 sp zero1 stages=0,1x126,0 recompute=full");
    double whole_bytes = planned_memory(1).gradients_bytes;
    planned_layout("tp8 cp4 pp16 mb1 vpp8 sp zero2 stages=0,1x126,0 recompute=full");
    ck_assert_double_eq_tol(planned_memory(1).gradients_bytes / whole_bytes, 2.0 / 8 + 1.0 / 128,
                            1e-12);
    planned_layout("tp8 cp4 pp16 mb1 vpp8 sp zero2 stages=0,1x126,0 recompute=full overlap=p2p");
    ck_assert_double_eq_tol(planned_memory(1).gradients_bytes, whole_bytes, 1);
    planned_layout("tp8 cp4 pp16 mb1 vpp3 sp zero1 stages=0,3x32,2x15 recompute=full");
    whole_bytes = planned_memory(1).gradients_bytes;
    planned_layout("tp8 cp4 pp16 mb1 vpp3 sp zero2 stages=0,3x32,2x15 recompute=full");
    ck_assert_double_eq_tol(planned_memory(1).gradients_bytes / whole_bytes, 2.0 / 3 + 1.0 / 128,
                            1e-12);
}
END_TEST

START_TEST(the_peak_is_the_sum_of_its_parts)
{
    planned_load("dgx-a100-80g", "megatron-core", "gpt3-13b", 64);
    planned_layout("tp4 pp4 vpp2 mb2 zero1 recompute=selective attn=unfused");
    for (int stage = 0; stage < 4; stage++) {
        struct stage_memory m = planned_memory(stage);
        double moment_bytes = fmax(m.logits_bytes, m.recompute_bytes);
        ck_assert_double_eq_tol(m.allocated_bytes,
                                m.weights_bytes + m.gradients_bytes + m.optimizer_bytes +
                                    m.activations_bytes + moment_bytes + m.buckets_bytes +
                                    m.library_bytes,
                                1);
        ck_assert_double_eq_tol(m.total_bytes,
                                m.allocated_bytes *
                                        (1 + planned.system.stack.memory.allocator_slack) +
                                    m.network_bytes + m.context_bytes,
                                1);
    }
}
END_TEST

START_TEST(computing_all_stages_at_once_equals_one_by_one)
{
    planned_load("dgx-a100-80g", "megatron-core", "gpt3-13b", 64);
    planned_layout("tp4 pp4 dp4 stages=9,11,11,9 mb2 recompute=block:3,2,1,0");
    struct stage_memory stages[4];
    struct memory_input input = { &planned.system,
                                  &planned.model,
                                  &planned.plan,
                                  &planned.pieces,
                                  generator_find("1f1b"),
                                  128,
                                  NULL };
    plan_memory(&input, stages);
    for (int stage = 0; stage < 4; stage++) {
        struct stage_memory alone = stage_memory(&input, stage);
        ck_assert_mem_eq(&alone, &stages[stage], sizeof alone);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("memory");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, NULL, planned_release);
    tcase_add_test(tc, a_connection_of_a_channel_takes_9_1875_mib);
    tcase_add_test(tc, a_single_gpu_needs_no_network_buffers);
    tcase_add_test(tc, workspaces_of_hopper_are_28_mib_larger_than_those_of_ampere);
    tcase_add_test(tc, zero_shards_optimizer_then_gradients_then_weights);
    tcase_add_test(tc, the_number_of_gathered_layers_is_the_stacks);
    tcase_add_test(tc, gradients_reduced_after_the_last_microbatch_are_held_whole);
    tcase_add_test(tc, captured_graphs_have_separate_memory_pools);
    tcase_add_test(tc, offloaded_bytes_leave_the_gpu);
    tcase_add_test(tc, stages_hold_the_state_of_their_layers);
    tcase_add_test(tc, recompute_keeps_one_checkpoint_per_group_of_layers);
    tcase_add_test(tc, layers_share_a_checkpoint_until_the_peak_fits);
    tcase_add_test(tc, a_backward_holds_gradients_until_they_are_read);
    tcase_add_test(tc, gradients_of_16_bits_are_widened_after_activations_are_freed);
    tcase_add_test(tc, adam_with_16_bit_moments_widens_gradients_only_for_some_scales_and_stacks);
    tcase_add_test(tc, gradients_have_the_type_of_the_stack_or_layout);
    tcase_add_test(tc, fsdp_keeps_fp32_masters_and_allocates_gradients_in_the_backward);
    tcase_add_test(tc, gradients_of_chunks_are_allocated_one_after_another);
    tcase_add_test(tc, the_layout_of_llama_3_fits_the_software_that_ran_it);
    tcase_add_test(tc, reduced_gradients_of_a_chunk_are_freed);
    tcase_add_test(tc, the_peak_is_the_sum_of_its_parts);
    tcase_add_test(tc, computing_all_stages_at_once_equals_one_by_one);
    Suite *s = suite_create("sim/memory/memory");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
