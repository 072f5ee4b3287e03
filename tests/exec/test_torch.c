/* Compares training steps on the host with the same steps in PyTorch; tests/gpu/gpu_step.c compares
 * them on a GPU. */
#include "tests/exec/torch_steps.h"
#include "tests/testing.h"

static const char *const layouts[] = { "mb2", "tp2 sp pp2 dp2 mb2", "dp2 zero2 mb1", "pp4 mb1" };
enum { NUM_LAYOUTS = LENGTH(layouts) };

START_TEST(losses_and_norms_equal_pytorchs)
{
    if (is_spared(_i, 1))
        return;
    int i = _i / TORCH_MODELS;
    torch_check_losses(_i % TORCH_MODELS, layouts[i], torch_run(i % 2 == 1));
}
END_TEST

START_TEST(the_models_rope_theta_and_epsilon_are_used)
{
    torch_check_first_loss(_i / 2 == 0 ? TORCH_THETA : TORCH_EPSILON, layouts[_i % 2],
                           torch_run(_i % 2 == 1));
}
END_TEST

START_TEST(gradients_equal_pytorchs)
{
    torch_check_gradients(_i % TORCH_MODELS, "mb4", torch_run(_i / TORCH_MODELS == 1));
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("torch");
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, losses_and_norms_equal_pytorchs, 0, TORCH_MODELS * NUM_LAYOUTS);
    tcase_add_loop_test(tc, the_models_rope_theta_and_epsilon_are_used, 0, 4);
    tcase_add_loop_test(tc, gradients_equal_pytorchs, 0, 2 * TORCH_MODELS);
    Suite *s = suite_create("exec/torch");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
