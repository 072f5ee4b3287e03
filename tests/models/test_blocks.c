/* Tests models whose blocks are of several kinds: how their files are read, and parameters, FLOPs,
 * times and memory, compared with sums by hand over the blocks at each position. */
#include "exec/run/checkpoint_file.h"
#include "models/blocks.h"
#include "models/layer.h"
#include "sim/engine/event_step.h"
#include "sim/engine/simulate.h"
#include "tests/check_ok.h"
#include "tests/sim/planned.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

/* In a model of eight blocks the first two blocks are wide, or every second block is. */
static const char first_two[] = "[{\"layers\": 2, \"ffn\": 4096, \"heads\": 16}, {\"layers\": 6}]";
static const char every_second[] = "[{\"layers\": 1}, {\"layers\": 1, \"ffn\": 4096}]";

static bool read_model(const char *blocks, struct model *out, struct err *err)
{
    json_t *object = json_pack("{s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "format", 1,
                               "name", "x", "layers", 8, "hidden", 512, "heads", 8, "head_dim", 64,
                               "ffn", 2048, "vocab", 1024, "seq", 256, "batch", 16);
    if (blocks)
        json_object_set_new(object, "blocks", json_loads(blocks, 0, NULL));
    bool is_read = model_read(object, out, err);
    json_decref(object);
    return is_read;
}

static struct model model_with(const char *blocks)
{
    struct model model;
    struct err err = { 0 };
    check_ok(read_model(blocks, &model, &err), &err);
    return model;
}

START_TEST(a_block_has_the_kind_of_its_run)
{
    static const struct {
        const char *blocks;
        int of[8];
    } cases[] = {
        { NULL, { 0 } },
        { first_two, { 0, 0, 1, 1, 1, 1, 1, 1 } },
        { every_second, { 0, 1, 0, 1, 0, 1, 0, 1 } },
        { "[{\"layers\": 1, \"ffn\": 64}, {\"layers\": 2}, {\"layers\": 1, \"ffn\": 64}]",
          { 0, 1, 1, 0, 0, 1, 1, 0 } },
    };
    for (int i = 0; i < LENGTH(cases); i++) {
        struct model model = model_with(cases[i].blocks);
        ck_assert_int_eq(model_num_kinds(&model), i == 0 ? 1 : 2);
        for (int first = 0; first < 8; first++)
            for (int layers = 0; first + layers <= 8; layers++) {
                int counts[MAX_BLOCK_KINDS], expected[2] = { 0 };
                for (int layer = first; layer < first + layers; layer++)
                    expected[cases[i].of[layer]]++;
                ck_assert_int_eq(model_kind_of(&model, first), cases[i].of[first]);
                model_count_kinds(&model, first, layers, counts);
                ck_assert_int_eq(counts[0], expected[0]);
                ck_assert_int_eq(counts[1], expected[1]);
                for (int other = 0; other + layers <= 8; other++)
                    ck_assert_int_eq(model_blocks_repeat(&model, first, other, layers),
                                     memcmp(&cases[i].of[first], &cases[i].of[other],
                                            (size_t)layers * sizeof(int)) == 0);
            }
    }
}
END_TEST

/* For a width of 512, each of q, k, v and the output has 512 x 512 weights and 512 biases, and each
 * of the two norms has 1,024 parameters; the feed-forward has 2 x 512 x ffn weights and ffn + 512
 * biases. With 16 heads of 64 channels, q, k and v are twice as wide. They then have 512 x 3,072
 * weights and 3,072 biases together, and the output has 1,024 x 512 weights and 512 biases. */
START_TEST(parameters_are_summed_over_block_kinds)
{
    const double own = 4 * (512 * 512 + 512) + 2 * 1024 + 2 * 512 * 2048 + 2048 + 512;
    const double wide =
        512 * 3072 + 3072 + 1024 * 512 + 512 + 2 * 1024 + 2 * 512 * 4096 + 4096 + 512;
    const double wider_ffn = own + 2 * 512 * 2048 + 2048;
    struct model model = model_with(first_two);
    ck_assert_double_eq(model_blocks_parameters(&model), 2 * wide + 6 * own);
    model = model_with(every_second);
    ck_assert_double_eq(model_blocks_parameters(&model), 4 * own + 4 * wider_ffn);
    model = model_with(NULL);
    ck_assert_double_eq(model_blocks_parameters(&model), 8 * own);
}
END_TEST

START_TEST(a_written_model_reads_back_equal)
{
    const char *const blocks[] = { first_two, every_second, NULL };
    for (int i = 0; i < LENGTH(blocks); i++) {
        struct model model = model_with(blocks[i]), again;
        struct err err = { 0 };
        json_t *written = model_write(&model);
        json_object_set_new(written, "format", json_integer(1));
        check_ok(model_read(written, &again, &err), &err);
        ck_assert(blocks_are_equal(&model.blocks, &again.blocks));
        ck_assert_int_eq(json_object_get(written, "blocks") != NULL, blocks[i] != NULL);
        json_decref(written);
    }
}
END_TEST

START_TEST(an_error_in_the_list_of_blocks_names_its_position)
{
    static const struct {
        const char *blocks, *where, *says;
    } cases[] = {
        { "{}", "blocks", "a list of 1 to 128 runs" },
        { "[]", "blocks", "a list of 1 to 128 runs" },
        { "[3]", "blocks[0]", "an object" },
        { "[{\"ffn\": 64}]", "blocks[0].layers", "missing" },
        { "[{\"layers\": 8}, {\"layers\": 0}]", "blocks[1].layers", "1 to 100000" },
        { "[{\"layers\": 8, \"fnn\": 64}]", "blocks[0].fnn", "did you mean \"ffn\"" },
        { "[{\"layers\": 3}]", "blocks", "add up to 8, or to a divisor of it; found 3" },
        { "[{\"layers\": 4, \"kv_heads\": 3}, {\"layers\": 4}]", "blocks[0].kv_heads",
          "3 key and value heads do not divide the 8" },
        { "[{\"layers\": 4, \"heads\": 10000000}, {\"layers\": 4}]", "blocks[0].heads", "1000000" },
        { "[{\"layers\": 1, \"ffn\": 1}, {\"layers\": 1, \"ffn\": 2}, {\"layers\": 1, \"ffn\": 3},"
          " {\"layers\": 1, \"ffn\": 4}, {\"layers\": 4, \"ffn\": 5}]",
          "blocks[4]", "4 kinds of blocks or fewer" },
    };
    for (int i = 0; i < LENGTH(cases); i++) {
        struct model model;
        struct err err = { 0 };
        ck_assert(!read_model(cases[i].blocks, &model, &err));
        ck_assert_int_eq(err.code, ERR_INPUT);
        ck_assert_str_eq(err.where, cases[i].where);
        ck_assert_msg(strstr(err.msg, cases[i].says), "\"%s\" does not say \"%s\"", err.msg,
                      cases[i].says);
    }
}
END_TEST

/* The step has three times the forward's multiplications. A block of one kind adds as many FLOPs as
 * one more layer adds to a model in which all blocks are of this kind. */
START_TEST(flops_are_summed_over_block_kinds)
{
    struct model model = model_with(first_two);
    double none[2], each[2];
    for (int kind = 0; kind < 2; kind++) {
        struct model of = model_of_kind(&model, kind);
        of.layers = 1;
        double one = model_step_flops(&of, 16, 256);
        of.layers = 2;
        each[kind] = model_step_flops(&of, 16, 256) - one;
        none[kind] = one - each[kind];
    }
    ck_assert_double_eq_tol(none[0], none[1], 1e-6 * none[0]);
    ck_assert_double_eq_tol(model_step_flops(&model, 16, 256), none[0] + 2 * each[0] + 6 * each[1],
                            1e-6 * each[0]);
}
END_TEST

START_TEST(a_checkpoint_is_refused_for_other_block_kinds)
{
    const char *const blocks[] = { NULL, first_two, every_second,
                                   "[{\"layers\": 1, \"ffn\": 4096}, {\"layers\": 1}]" };
    for (int i = 0; i < LENGTH(blocks); i++)
        for (int j = 0; j < LENGTH(blocks); j++) {
            struct model trained = model_with(blocks[i]), model = model_with(blocks[j]);
            struct checkpoint_model saved = checkpoint_model_of(&trained);
            struct err err = { 0 };
            ck_assert_int_eq(checkpoint_model_is(&saved, &model, &err), i == j);
            ck_assert_str_eq(err.where, i == j ? "" : "blocks");
        }
}
END_TEST

/* --- times and memory ------------------------------------------------------------------------- */

static void load(const char *blocks, const char *layout)
{
    planned_load("dgx-a100-80g", "megatron-core", "gpt3-1.3b", 8);
    planned.model = model_with(blocks);
    planned_layout(layout);
}

START_TEST(chunks_hold_consecutive_blocks)
{
    static const struct {
        const char *blocks, *layout;
        int of_kind[4][2], recomputed[4][2];
    } cases[] = {
        { first_two,
          "pp4 dp2 recompute=block:1",
          { { 2, 0 }, { 0, 2 }, { 0, 2 }, { 0, 2 } },
          { { 1, 0 }, { 0, 1 }, { 0, 1 }, { 0, 1 } } },
        { first_two,
          "pp4 dp2 stages=1,3,2,2 recompute=full",
          { { 1, 0 }, { 1, 2 }, { 0, 2 }, { 0, 2 } },
          { { 1, 0 }, { 1, 2 }, { 0, 2 }, { 0, 2 } } },
        { every_second,
          "pp2 vpp2 dp4 recompute=block:1",
          { { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
          { { 1, 0 }, { 1, 0 }, { 1, 0 }, { 1, 0 } } },
        { every_second,
          "pp4 dp2 stages=1,2,4,1",
          { { 1, 0 }, { 1, 1 }, { 2, 2 }, { 0, 1 } },
          { { 0 } } },
    };
    for (int i = 0; i < LENGTH(cases); i++) {
        load(cases[i].blocks, cases[i].layout);
        const struct plan *plan = &planned.plan;
        for (int chunk = 0; chunk < 4; chunk++) {
            struct holding held = chunk_holding(plan, &planned.model, chunk);
            ck_assert_int_eq(held.count[PIECE_EMBEDDING], chunk == 0);
            ck_assert_int_eq(held.count[PIECE_HEAD], chunk == 3);
            for (int kind = 0; kind < 2; kind++) {
                ck_assert_int_eq(held.count[kind], cases[i].of_kind[chunk][kind]);
                ck_assert_int_eq(held.recomputed[kind], cases[i].recomputed[chunk][kind]);
            }
        }
        planned_release();
    }
}
END_TEST

/* With one stage and one microbatch on each data rank, the step is the sum of the times of
 * embedding, blocks and head, plus a fixed part. For a model of equal blocks the prediction must be
 * the same sum, so the fixed part follows from it. */
static double step_less_layers_s(struct evaluator *evaluator, const struct piece_cost *layers,
                                 const int *counts, int num_kinds)
{
    struct prediction p = evaluate(evaluator, &planned.plan);
    double compute_s = p.time.compute_s;
    for (int kind = 0; kind < num_kinds; kind++)
        compute_s -=
            2 * counts[kind] * (layers[kind].forward.compute_s + layers[kind].backward.compute_s);
    return compute_s;
}

START_TEST(compute_time_is_the_sum_over_block_kinds)
{
    static const int counts[] = { 2, 6 }, all[] = { 8 };
    load(first_two, "dp8 mb1");
    struct evaluator *evaluator = evaluator_new(&planned.system, &planned.model);
    double ends_s = step_less_layers_s(evaluator, planned.pieces.at, counts, 2);
    struct piece_cost wide = planned.pieces.at[0], own = planned.pieces.at[1];
    evaluator_free(evaluator);
    planned_release();
    load(NULL, "dp8 mb1");
    evaluator = evaluator_new(&planned.system, &planned.model);
    ck_assert_double_gt(wide.forward.compute_s, own.forward.compute_s);
    ck_assert_double_eq(own.forward.compute_s, planned.pieces.at[0].forward.compute_s);
    ck_assert_double_eq_tol(ends_s, step_less_layers_s(evaluator, planned.pieces.at, all, 1),
                            1e-9 * own.forward.compute_s);
    evaluator_free(evaluator);
    planned_release();
}
END_TEST

/* The maximum, over all kinds of blocks, of the bytes that a layer's backward holds in addition to
 * values kept from the forward. */
static double backward_bytes(void)
{
    return fmax(planned.pieces.at[0].moment_bytes, planned.pieces.at[1].moment_bytes);
}

/* Four stages share eight blocks, and stage 0 has the two wide blocks. In 1F1B the stages hold the
 * activations of 4, 3, 2 and 1 microbatches. */
START_TEST(a_stages_activations_are_those_of_its_blocks)
{
    load(first_two, "pp4 dp2 mb1");
    const struct piece_cost *blocks = planned.pieces.at;
    double ends[] = { 4 * planned.pieces.at[PIECE_EMBEDDING].saved_bytes, 0, 0,
                      planned.pieces.at[PIECE_HEAD].saved_bytes };
    for (int stage = 0; stage < 4; stage++) {
        const struct piece_cost *own = &blocks[stage > 0];
        struct stage_memory memory = planned_memory(stage);
        ck_assert_double_eq_tol(memory.activations_bytes,
                                (4 - stage) * 2 * own->saved_bytes + ends[stage], 1);
        double parameters = 2 * own->parameters;
        parameters += stage == 0 ? planned.pieces.at[PIECE_EMBEDDING].parameters : 0;
        parameters += stage == 3 ? planned.pieces.at[PIECE_HEAD].parameters : 0;
        ck_assert_double_eq(planned_parameters(stage), parameters);
        ck_assert_double_eq(memory.weights_bytes, 2 * parameters);
    }
    planned_release();
    load(first_two, "pp4 dp2 mb1 recompute=full");
    double checkpoint = planned.pieces.at[0].input_bytes; /* part of activations_bytes */
    ck_assert_double_eq(planned_memory(0).recompute_bytes,
                        planned.pieces.at[0].saved_bytes - checkpoint + backward_bytes());
    ck_assert_double_eq(planned_memory(1).recompute_bytes,
                        planned.pieces.at[1].saved_bytes - checkpoint + backward_bytes());
    planned_release();
    load(every_second, "dp8 mb1 recompute=full:2");
    /* The head's values are not counted, as they are freed before the peak. */
    ck_assert_double_eq(planned_memory(0).recompute_bytes,
                        planned.pieces.at[0].saved_bytes + planned.pieces.at[1].saved_bytes -
                            checkpoint + backward_bytes() -
                            planned.pieces.at[PIECE_HEAD].saved_bytes);
    ck_assert_double_eq_tol(planned_memory(0).activations_bytes,
                            4 * planned.pieces.at[0].input_bytes +
                                planned.pieces.at[PIECE_EMBEDDING].saved_bytes +
                                planned.pieces.at[PIECE_HEAD].saved_bytes,
                            1);
    planned_release();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("models/blocks");
    TCase *files = tcase_create("files");
    tcase_add_test(files, a_block_has_the_kind_of_its_run);
    tcase_add_test(files, parameters_are_summed_over_block_kinds);
    tcase_add_test(files, a_written_model_reads_back_equal);
    tcase_add_test(files, an_error_in_the_list_of_blocks_names_its_position);
    tcase_add_test(files, a_checkpoint_is_refused_for_other_block_kinds);
    tcase_add_test(files, flops_are_summed_over_block_kinds);
    suite_add_tcase(s, files);
    TCase *costs = tcase_create("costs");
    tcase_add_test(costs, chunks_hold_consecutive_blocks);
    tcase_add_test(costs, compute_time_is_the_sum_over_block_kinds);
    tcase_add_test(costs, a_stages_activations_are_those_of_its_blocks);
    suite_add_tcase(s, costs);
    return s;
}

TEST_MAIN(suite)
