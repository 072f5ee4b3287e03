#include "tests/testing.h"

#include "sim/engine/offload.h"

/* A link that reaches 0.88 of 50 GB/s, and host memory of 40 GB/s per GPU. */
static const struct system machine = { .gpu = { .pcie_bytes_per_s = 50e9 },
                                       .cluster = { .host_bytes_per_s = 40e9 },
                                       .profile = { .host_copy_efficiency = 0.88 } };
static const struct model model = { .hidden = 1024 };

START_TEST(a_copy_takes_its_bytes_over_the_link)
{
    ck_assert_double_eq_tol(host_copy_s(&machine, 44e9), 1, 1e-12);
}
END_TEST

/* 1e9 parameters over 8 ranks: 4 bytes per parameter are copied down and 2 up at 44 GB/s; the
 * update moves 4 + 24 + 2 at 40 GB/s. */
START_TEST(a_host_updates_the_shard_of_its_gpu)
{
    struct plan plan = plan_default();
    plan.dp = 8;
    plan.zero = 1;
    struct host_optimizer host =
        host_optimizer(&machine, &model, &plan, (struct stage_weights){ 1e9, 0 });
    ck_assert_double_eq_tol(host.down_s, 0.5 / 44, 1e-12);
    ck_assert_double_eq_tol(host.update_s, 30.0 / 8 / 40, 1e-12);
    ck_assert_double_eq_tol(host.up_s, 0.25 / 44, 1e-12);
    plan.zero = 0;
    ck_assert_double_eq_tol(
        host_optimizer(&machine, &model, &plan, (struct stage_weights){ 1e9, 0 }).update_s,
        30.0 / 40, 1e-12);
}
END_TEST

/* Layers with two buffers, one by one: a layer needs the buffer that the copy two before frees. */
static double replay_s(int layers, double layer_s, double copy_s)
{
    double layer_end_s = 0, copied_s = 0, copied_before_s = 0;
    for (int i = 0; i < layers; i++) {
        double start_s = layer_end_s > copied_before_s ? layer_end_s : copied_before_s;
        layer_end_s = start_s + layer_s;
        copied_before_s = copied_s;
        copied_s = (layer_end_s > copied_s ? layer_end_s : copied_s) + copy_s;
    }
    return layer_end_s;
}

START_TEST(copies_show_as_far_as_two_buffers_let_them)
{
    for (int layers = 1; layers < 10; layers++)
        for (double copy_s = 0; copy_s < 3; copy_s += 0.25)
            ck_assert_double_eq_tol(layers + layers_copy_exposed_s(layers, 1, copy_s),
                                    replay_s(layers, 1, copy_s), 1e-12);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("offload");
    tcase_add_test(tc, a_copy_takes_its_bytes_over_the_link);
    tcase_add_test(tc, a_host_updates_the_shard_of_its_gpu);
    tcase_add_test(tc, copies_show_as_far_as_two_buffers_let_them);
    Suite *s = suite_create("sim/engine/offload");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
