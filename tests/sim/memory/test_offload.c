#include "sim/engine/offload.h"
#include "sim/memory/held.h"
#include "tests/sim/planned.h"
#include "tests/testing.h"

#include <stdio.h>

/* The link between GPU and host reaches 0.88 of 50 GB/s, and the host's memory has 40 GB/s per
 * GPU. */
static const struct system machine = { .gpu = { .pcie_bytes_per_s = 50e9 },
                                       .cluster = { .host_bytes_per_s = 40e9 },
                                       .profile = { .host_copy_efficiency = 0.88 } };
static const struct model model = { .hidden = 1024 };

START_TEST(a_copy_takes_its_bytes_over_the_link)
{
    ck_assert_double_eq_tol(host_copy_s(&machine, 44e9), 1, 1e-12);
}
END_TEST

/* Each of 8 ranks updates an eighth of 1e9 parameters. Per parameter 4 bytes are copied to the host
 * and 2 back at 44 GB/s, and the update moves 4 + 24 + 2 bytes at 40 GB/s. */
START_TEST(an_offloaded_update_takes_copies_and_host_memory_traffic)
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

/* Simulates the layers one by one. There are two buffers, so a layer waits until the copy of the
 * layer two before it has freed its buffer. */
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

START_TEST(exposed_copy_time_follows_from_two_buffers)
{
    for (int layers = 1; layers < 10; layers++)
        for (double copy_s = 0; copy_s < 3; copy_s += 0.25)
            ck_assert_double_eq_tol(layers + layers_copy_exposed_s(layers, 1, copy_s),
                                    replay_s(layers, 1, copy_s), 1e-12);
}
END_TEST

/* Two layers have a forward of 1 s and a backward of 2 s each, and copies of 3 s each. The 6 s of
 * copies in each direction are hidden by 2 s of forward and 4 s of backward. With copies of 4 s, 2
 * s are exposed.
 */
START_TEST(in_a_pipeline_copies_overlap_one_forward_and_one_backward)
{
    ck_assert_double_eq(chunk_copy_exposed_s(2, 2, 4, 3), 0);
    ck_assert_double_eq_tol(chunk_copy_exposed_s(2, 2, 4, 4), 2, 1e-12);
}
END_TEST

/* Each of six layers keeps 10 bytes, of which selective recompute frees 4. The input of a layer has
 * 2 bytes. */
static const struct {
    const char *words;
    int recomputed;
    double kept, on_gpu;
} kept[] = {
    { "mb1", 0, 60, 20 },
    { "recompute=selective", 0, 36, 12 },
    { "recompute=full", 6, 12, 4 },
    { "recompute=full:3", 6, 4, 4 },
};

START_TEST(only_kept_bytes_are_copied_and_two_layers_stay_on_the_gpu)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct plan plan;
    ck_assert(plan_parse(kept[_i].words, &arena, &plan, &err));
    struct pieces pieces = { .num_kinds = 1 };
    pieces.at[0] = (struct piece_cost){ .saved_bytes = 10, .replayed_bytes = 4, .input_bytes = 2 };
    struct holding held = { .count = { 6 }, .recomputed = { kept[_i].recomputed }, .layers = 6 };
    ck_assert_double_eq(held_kept_bytes(&plan, &held, &pieces), kept[_i].kept);
    ck_assert_double_eq(held_offload_bytes(&plan, &held, &pieces), kept[_i].on_gpu);
    arena_release(&arena);
}
END_TEST

/* Of several kinds of layers, the two layers that stay on the GPU are those that keep the most: a
 * layer that is not recomputed keeps its activations, another one its input. */
static const struct {
    int layers[2], recomputed[2];
    double saved_bytes[2], input_bytes;
    double of_a_layer;
    int on_gpu; /* layers */
} mixed[] = {
    { { 3, 2 }, { 1, 2 }, { 10, 30 }, 12, 12, 2 }, { { 3, 0 }, { 1, 0 }, { 10, 30 }, 4, 10, 2 },
    { { 2, 0 }, { 0, 0 }, { 10, 30 }, 12, 10, 2 }, { { 1, 3 }, { 1, 0 }, { 10, 30 }, 12, 30, 2 },
    { { 3, 1 }, { 0, 1 }, { 10, 30 }, 4, 10, 2 },  { { 3, 1 }, { 0, 1 }, { 10, 30 }, 40, 40, 2 },
    { { 1, 0 }, { 1, 0 }, { 10, 30 }, 4, 4, 1 },   { { 3, 1 }, { 0, 0 }, { 30, 10 }, 4, 30, 2 },
};

START_TEST(the_layers_that_keep_the_most_stay_on_the_gpu)
{
    struct plan plan = { .recompute = RECOMPUTE_FULL };
    struct pieces pieces = { .num_kinds = 2 };
    struct holding held = { .layers = mixed[_i].layers[0] + mixed[_i].layers[1] };
    for (int kind = 0; kind < 2; kind++) {
        pieces.at[kind].saved_bytes = mixed[_i].saved_bytes[kind];
        held.count[kind] = mixed[_i].layers[kind];
        held.recomputed[kind] = mixed[_i].recomputed[kind];
    }
    pieces.at[0].input_bytes = mixed[_i].input_bytes;
    ck_assert_double_eq(held_offload_bytes(&plan, &held, &pieces),
                        mixed[_i].on_gpu * mixed[_i].of_a_layer);
}
END_TEST

/* On stage 0 of four, four microbatches are in flight: without offload each keeps the activations
 * of all layers of the stage; with offload the GPU holds the activations of two layers for the
 * copies to the host, and those of two more for the copies back. */
static const struct {
    const char *words;
    int in_flight, buffers;
} stages[] = {
    { "tp2 pp4 mb1", 4, 4 },
    { "tp2 pp4 mb1 recompute=full", 4, 4 },
    { "tp2 pp4 mb1 schedule=gpipe", 0, 4 }, /* 0 means all layers */
    { "tp8 pp1 mb1", 1, 2 },
};

START_TEST(buffers_are_held_once_per_stage)
{
    char offloaded[100];
    planned_load("dgx-h100", "megatron-core", "llama3-8b", 8);
    planned.model.batch = 16;
    planned_layout(stages[_i].words);
    double before_bytes = planned_memory(0).activations_bytes;
    int microbatches = plan_microbatches(&planned.plan, planned.model.batch);
    int in_flight = stages[_i].in_flight > 0 ? stages[_i].in_flight : microbatches;
    struct holding held = chunk_holding(&planned.plan, &planned.model, 0);
    double kept_bytes = held_kept_bytes(&planned.plan, &held, &planned.pieces);
    snprintf(offloaded, sizeof offloaded, "%s offload=activations", stages[_i].words);
    planned_layout(offloaded);
    double bytes = planned_memory(0).activations_bytes;
    double expected =
        before_bytes - in_flight * kept_bytes + stages[_i].buffers * kept_bytes / held.layers;
    ck_assert_double_eq_tol(bytes / expected, 1, 1e-12);
    planned_release();
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("offload");
    tcase_add_test(tc, a_copy_takes_its_bytes_over_the_link);
    tcase_add_test(tc, an_offloaded_update_takes_copies_and_host_memory_traffic);
    tcase_add_test(tc, exposed_copy_time_follows_from_two_buffers);
    tcase_add_test(tc, in_a_pipeline_copies_overlap_one_forward_and_one_backward);
    tcase_add_loop_test(tc, only_kept_bytes_are_copied_and_two_layers_stay_on_the_gpu, 0,
                        LENGTH(kept));
    tcase_add_loop_test(tc, the_layers_that_keep_the_most_stay_on_the_gpu, 0, LENGTH(mixed));
    tcase_add_loop_test(tc, buffers_are_held_once_per_stage, 0, LENGTH(stages));
    Suite *s = suite_create("sim/engine/offload");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
