#include "tests/testing.h"

#include "tests/sim/planned.h"

/* --- Megatron-LM's functional tests gpt3_7b_tp4_pp1 and gpt3_7b_tp1_pp4 ----------------------- */

/* The model is the 7B model of Megatron's functional test. It has 8 groups of keys and values, an
 * untied head, dropout 0.1 and a vocabulary of 131072 + 1. */
static void load_megatron_7b(double batch)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-6.7b", 8);
    struct model *model = &planned.model;
    model->kv_heads = 8;
    model->vocab = 131073;
    model->seq = model->max_positions = 8192;
    model->tied = false;
    model->dropout = 0.1;
    model->batch = batch;
    /* bf16 logits, and their fp32 copies inside the loss */
    planned.system.stack.memory.logits_bytes = 6;
}

static const char case_a[] = "tp4 pp1 dp2 mb2 zero1 attn=flash";
static const char case_b[] = "tp1 pp4 vpp8 dp2 mb1 zero1 attn=flash";

START_TEST(megatron_7b_is_the_model_of_its_functional_test)
{
    load_megatron_7b(8);
    ck_assert_int_eq(planned.model.layers, 32);
    ck_assert_int_eq(planned.model.hidden, 4096);
    ck_assert_int_eq(planned.model.heads, 32);
    ck_assert_int_eq(planned.model.kv_heads, 8);
    ck_assert_int_eq(planned.model.ffn, 16384);
    ck_assert(planned.model.linear_bias);
    ck_assert_int_eq(planned.model.activation, ACTIVATION_GELU);
    ck_assert_int_eq(planned.model.positions, POSITION_LEARNED);
}
END_TEST

/* A tensor rank has a quarter of the products of 32 layers, a quarter of two matrices (embedding
 * and head) of 131584 x 4096, 8192 positions, and the final norm. */
START_TEST(a_tensor_rank_of_megatron_7b_has_1713299456_parameters)
{
    load_megatron_7b(8);
    planned_layout(case_a);
    ck_assert_double_eq(planned_parameters(0), 1713299456);
}
END_TEST

/* Adam's moments take 8 bytes per parameter, divided by 2 data ranks. Megatron allocates them at
 * the first update. Its tests measured 6,854,303,744 bytes with tp4 and, on the last stage,
 * 7,788,662,784 bytes with pp4. */
START_TEST(adam_moments_of_megatron_7b_equal_the_measured)
{
    load_megatron_7b(8);
    planned_layout(case_a);
    struct state_bytes state = plan_state_bytes(&planned.plan, &planned.model);
    double master_bytes = 4;
    double moments_bytes = state.optimizer - master_bytes;
    ck_assert_double_eq(moments_bytes, 8);
    ck_assert_double_eq(planned_parameters(0) * moments_bytes / planned.plan.dp, 6853197824);
    planned_layout(case_b);
    ck_assert_double_eq(planned_parameters(3) * moments_bytes / planned.plan.dp, 7788265472);
}
END_TEST

/* State is 2 + 4 + 12 / 2 bytes per parameter, plus three workspaces of 32 MiB. The measured value
 * is 20,663,519,232 bytes. */
START_TEST(state_of_megatron_7b_equals_the_measured)
{
    load_megatron_7b(8);
    planned_layout(case_a);
    struct stage_memory memory = planned_memory(0);
    double state_bytes = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes;
    ck_assert_double_eq(state_bytes, 12 * planned_parameters(0));
    ck_assert_double_eq(memory.library_bytes, 96 * 1024 * 1024);
    ck_assert_double_eq_tol((state_bytes + memory.library_bytes) / 20663519232.0, 1, 0.0003);
}
END_TEST

/* A separate calculation gives 56.971e9 bytes; the measured maximum of allocated memory on an H100
 * was 57,143,791,616.
 */
START_TEST(peak_of_megatron_7b_tp4_agrees_with_the_measured)
{
    load_megatron_7b(8);
    planned_layout(case_a);
    ck_assert_double_eq_tol(planned_memory(0).allocated_bytes / 56.97e9, 1, 0.006);
    ck_assert_double_eq_tol(planned_memory(0).allocated_bytes / 57143791616.0, 1, 0.006);
}
END_TEST

/* A separate calculation gives 60.215e9 bytes; the measured maximum of allocated memory on an A100,
 * logged by the last rank, was 60,489,064,448. */
START_TEST(peak_of_megatron_7b_pp4_agrees_with_the_measured)
{
    load_megatron_7b(8);
    planned_layout(case_b);
    ck_assert_double_eq_tol(planned_memory(3).allocated_bytes / 60.21e9, 1, 0.006);
    ck_assert_double_eq_tol(planned_memory(3).allocated_bytes / 60489064448.0, 1, 0.006);
}
END_TEST

/* --- Korthikanti et al. 2022, figures 1 and 7, as formulas ------------------------------------ */

static const double GIB = 1024.0 * 1024 * 1024;

/* Uses only the layers, as the paper omits embedding, head and loss. */
static void use_layers_of(const char *model, const char *layout, int num_gpus, double batch)
{
    planned_load("dgx-a100-80g", "megatron-2022", model, num_gpus);
    planned.model.batch = batch;
    planned_layout(layout);
    planned.pieces.at[PIECE_EMBEDDING] = planned.pieces.at[PIECE_HEAD] = (struct piece_cost){ 0 };
    planned.pieces.logits = 0;
}

struct korthikanti {
    const char *model, *layout, *selective_layout;
    int num_gpus, batch;
    double state_gib, activations_gib, selective_gib;
};

/* By figure 1, each of 12 L h^2 parameters takes 18 bytes. Activations take 34/t bytes per element
 * of the hidden state, plus 5as/(ht) if attention's scores are kept. The first stage holds them for
 * L (1 + (p-1)/(pv)) layers and microbatches. */
#define WITHOUT "dtype=fp16 "
#define WITH    "sp recompute=selective dtype=fp16 "
static const struct korthikanti korthikanti[] = {
    { "korthikanti-22b", WITHOUT "tp8 pp1 mb4", WITH "tp8 pp1 mb4", 8, 4, 45.5625, 59.25, 9.5625 },
    { "gpt3-175b", WITHOUT "tp8 pp8 vpp3 mb1", WITH "tp8 pp8 vpp3 mb1", 64, 64, 45.5625, 66.84375,
      12.3515625 },
    { "korthikanti-530b", WITHOUT "tp8 pp35 vpp3 mb1", WITH "tp8 pp35 vpp3 mb1", 280, 280,
      31.640625, 114.0234375, 23.076171875 },
    { "korthikanti-1t", WITHOUT "tp8 pp64 mb1", WITH "tp8 pp64 mb1", 512, 512, 32.958984375, 131.25,
      26.5625 },
};
enum { NUM_KORTHIKANTI = LENGTH(korthikanti) };

/* Our number also includes biases and norms (13 h per layer, in addition to 12 h^2). Every tensor
 * rank holds some of them whole. */
START_TEST(state_of_the_layers_agrees_with_korthikanti_figure_1)
{
    const struct korthikanti *row = &korthikanti[_i];
    use_layers_of(row->model, row->layout, row->num_gpus, row->batch);
    struct stage_memory memory = planned_memory(0);
    double state_bytes = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes;
    ck_assert_double_ge(state_bytes / GIB, row->state_gib);
    ck_assert_double_eq_tol(state_bytes / GIB / row->state_gib, 1, 0.001);
}
END_TEST

/* Our number also includes the statistics of norms. */
START_TEST(activations_of_the_layers_agree_with_korthikanti_figure_1)
{
    const struct korthikanti *row = &korthikanti[_i];
    use_layers_of(row->model, row->layout, row->num_gpus, row->batch);
    ck_assert_double_eq_tol(planned_memory(0).activations_bytes / GIB / row->activations_gib, 1,
                            0.002);
    planned_release();
    use_layers_of(row->model, row->selective_layout, row->num_gpus, row->batch);
    ck_assert_double_eq_tol(planned_memory(0).activations_bytes / GIB / row->selective_gib, 1,
                            0.002);
}
END_TEST

struct figure_7 {
    const char *model;
    double sp_percent, selective_percent, both_percent, full_percent;
};

static const struct figure_7 figure_7[] = {
    { "korthikanti-22b", 66.8, 49.4, 16.1, 7.6 },
    { "gpt3-175b", 62.0, 56.5, 18.5, 8.7 },
    { "korthikanti-530b", 58.3, 61.9, 20.2, 9.5 },
    { "korthikanti-1t", 58.3, 61.9, 20.2, 9.5 },
};
enum { NUM_FIGURE_7 = LENGTH(figure_7) };

/* Computes the memory of a layer on 8 tensor ranks, as a fraction of its memory with tensor
 * parallelism alone. */
START_TEST(saved_activations_agree_with_korthikanti_figure_7)
{
    const struct figure_7 *row = &figure_7[_i];
    use_layers_of(row->model, "tp8 dtype=fp16", 8, 1);
    struct piece_cost alone = planned.pieces.at[0];
    planned_layout("tp8 sp dtype=fp16");
    struct piece_cost sp = planned.pieces.at[0];
    double percent = 100 / alone.saved_bytes;
    ck_assert_double_eq_tol(percent * sp.saved_bytes, row->sp_percent, 0.15);
    ck_assert_double_eq_tol(percent * (alone.saved_bytes - alone.replayed_bytes),
                            row->selective_percent, 0.15);
    ck_assert_double_eq_tol(percent * (sp.saved_bytes - sp.replayed_bytes), row->both_percent,
                            0.15);
    ck_assert_double_eq_tol(percent * alone.input_bytes, row->full_percent, 0.15);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("memory");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, NULL, planned_release);
    tcase_add_test(tc, megatron_7b_is_the_model_of_its_functional_test);
    tcase_add_test(tc, a_tensor_rank_of_megatron_7b_has_1713299456_parameters);
    tcase_add_test(tc, adam_moments_of_megatron_7b_equal_the_measured);
    tcase_add_test(tc, state_of_megatron_7b_equals_the_measured);
    tcase_add_test(tc, peak_of_megatron_7b_tp4_agrees_with_the_measured);
    tcase_add_test(tc, peak_of_megatron_7b_pp4_agrees_with_the_measured);
    tcase_add_loop_test(tc, state_of_the_layers_agrees_with_korthikanti_figure_1, 0,
                        NUM_KORTHIKANTI);
    tcase_add_loop_test(tc, activations_of_the_layers_agree_with_korthikanti_figure_1, 0,
                        NUM_KORTHIKANTI);
    tcase_add_loop_test(tc, saved_activations_agree_with_korthikanti_figure_7, 0, NUM_FIGURE_7);
    Suite *s = suite_create("sim/memory/memory: published numbers");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
