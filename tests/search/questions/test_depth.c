#include "tests/testing.h"

#include "search/probe.h"
#include "search/questions/depth.h"
#include "search/splits.h"
#include "tests/search/instance.h"
#include "tests/search/naive_space.h"
#include "tests/search/searching.h"

static struct instance instance;

static void set_up(void)
{
    instance_load(&instance);
    instance.system.num_gpus = 8;
    instance.model.batch = 12;
}

static void tear_down(void)
{
    instance_release(&instance);
}

static bool any_fits(int layers)
{
    struct model deep = instance.model;
    deep.layers = layers;
    return naive_space_fits(&instance.system, &deep);
}

static const struct {
    int num_gpus;
    double memory_bytes;
} cases[] = { { 1, 8e9 }, { 2, 6e9 }, { 4, 5e9 }, { 6, 5e9 }, { 8, 4e9 }, { 8, 3.5e9 } };
enum { NUM_CASES = LENGTH(cases) };

START_TEST(the_answer_is_the_deepest_model_that_fits)
{
    if (is_spared(_i, 2))
        return;
    instance.system.num_gpus = cases[_i].num_gpus;
    instance.system.gpu.memory_bytes = cases[_i].memory_bytes;
    struct search_request request = instance_request(&instance);
    struct depth depth;
    struct err err = { 0 };
    ck_assert(search_depth(&request, &depth, &err));
    ck_assert_int_gt(depth.most, 1);
    ck_assert(any_fits(depth.most));
    for (int layers = depth.most + 1; layers <= depth.most + 24; layers++)
        ck_assert(!any_fits(layers));
}
END_TEST

START_TEST(fixed_words_hold_at_the_largest_depth)
{
    instance.system.gpu.memory_bytes = 8e9;
    struct search_request request = instance_request(&instance);
    struct depth free_depth, fixed;
    struct err err = { 0 };
    ck_assert(search_depth(&request, &free_depth, &err));
    request.fix = "pp2 vpp3 recompute=none";
    ck_assert(search_depth(&request, &fixed, &err));
    ck_assert_int_gt(fixed.most, 0);
    ck_assert(fixed.most % 6 == 0 ||
              fixed.most % 6 >= 4); /* the first and last stage may have fewer layers */
    ck_assert_int_lt(fixed.most, free_depth.most);
}
END_TEST

/* With the same fixed words a model of the reported depth fits, and no deeper one does. */
static const struct {
    const char *fix, *forbid;
} words[] = {
    { "pp2 vpp3 recompute=none", NULL }, { "pp4 vpp3 recompute=none", NULL },
    { "pp2 schedule=gpipe", NULL },      { "schedule=interleaved pp2", NULL },
    { "pp2", "schedule=1f1b" },          { "pp2 recompute=none", "vpp1" },
};

START_TEST(the_words_of_a_request_hold_at_that_depth)
{
    if (is_spared(_i, 2))
        return;
    instance.system.gpu.memory_bytes = 8e9;
    struct search_request request = instance_request(&instance);
    struct model deep = instance.model;
    struct depth depth;
    struct err err = { 0 };
    request.fix = words[_i].fix;
    request.forbid = words[_i].forbid;
    ck_assert_msg(search_depth(&request, &depth, &err), "%s: %s", err.where, err.msg);
    request.model = &deep;
    ck_assert_int_gt(depth.most, 0);
    deep.layers = depth.most;
    ck_assert(probe_fits(&request).fits);
    while (++deep.layers <= depth.most + 24)
        ck_assert_msg(!probe_fits(&request).fits, "%d layers fit, more than the %d that were found",
                      deep.layers, depth.most);
}
END_TEST

/* 64 layers fit, one in each chunk; the next even number, 128, does not. */
START_TEST(one_layer_in_each_chunk_can_be_the_most)
{
    instance.system.gpu.memory_bytes = 30e9;
    struct search_request request = instance_request(&instance);
    struct depth depth;
    struct err err = { 0 };
    instance.model.batch = 16;
    request.fix = "pp8 vpp8 mb1 recompute=none";
    request.chunks = CHUNKS_EVEN;
    ck_assert(search_depth(&request, &depth, &err));
    ck_assert_int_eq(depth.most, 64);
}
END_TEST

/* The first blocks are dense and the others have experts, which need far more memory. A deeper
 * model must not repeat the dense blocks. */
START_TEST(first_dense_blocks_come_once_at_any_depth)
{
    struct model *model = &instance.model;
    struct depth depth;
    struct err err = { 0 };
    model->layers = 4;
    model->experts = 8;
    model->topk = 2;
    model->first_dense = 2;
    ck_assert(model_derive(model, &err));
    instance.system.num_gpus = 1;
    instance.system.gpu.memory_bytes = 40e9;
    struct search_request request = instance_request(&instance);
    request.fix = "recompute=none";
    ck_assert_msg(search_depth(&request, &depth, &err), "%s: %s", err.where, err.msg);
    ck_assert_int_gt(depth.most, 4);
    struct model deep = *model;
    request.model = &deep;
    for (int layers = depth.most; layers <= depth.most + 2; layers++) {
        ck_assert(model_set_layers(&deep, layers, &err));
        ck_assert(probe_fits(&request).fits == (layers == depth.most));
    }
}
END_TEST

START_TEST(if_one_layer_does_not_fit_the_depth_is_0)
{
    instance.system.gpu.memory_bytes = 1e8;
    struct search_request request = instance_request(&instance);
    struct depth depth;
    struct err err = { 0 };
    ck_assert(search_depth(&request, &depth, &err));
    ck_assert_int_eq(depth.most, 0);
    request.fix = "tpx";
    ck_assert(!search_depth(&request, &depth, &err));
}
END_TEST

START_TEST(an_interrupted_search_for_depth_reports_it)
{
    struct search_request request = instance_request(&instance);
    struct depth depth;
    struct err err = { 0 };
    request.interrupted = always;
    ck_assert(search_depth(&request, &depth, &err));
    ck_assert(depth.was_interrupted);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("depth");
    TCase *cases_ = tcase_create("depth");
    tcase_set_timeout(cases_, 120);
    tcase_add_checked_fixture(cases_, set_up, tear_down);
    tcase_add_loop_test(cases_, the_answer_is_the_deepest_model_that_fits, 0, NUM_CASES);
    tcase_add_test(cases_, fixed_words_hold_at_the_largest_depth);
    tcase_add_loop_test(cases_, the_words_of_a_request_hold_at_that_depth, 0, LENGTH(words));
    tcase_add_test(cases_, one_layer_in_each_chunk_can_be_the_most);
    tcase_add_test(cases_, first_dense_blocks_come_once_at_any_depth);
    tcase_add_test(cases_, if_one_layer_does_not_fit_the_depth_is_0);
    tcase_add_test(cases_, an_interrupted_search_for_depth_reports_it);
    suite_add_tcase(s, cases_);
    return s;
}

TEST_MAIN(suite)
