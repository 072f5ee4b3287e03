/* Compares the layers, embeddings and heads that chunks and stages hold with counts block by block,
 * for random models and plans. */
#include "sim/plan/holding.h"

#include "models/blocks.h"
#include "models/trained_weights.h"
#include "tests/search/random_question.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>

static struct question question;

/* Counts the blocks of a chunk one by one. */
static struct holding counted(const struct plan *plan, int chunk)
{
    const struct model *model = &question.model;
    struct placement placement = plan_placement(plan);
    struct holding held = { .layers = plan_chunk_layers(plan, model, chunk) };
    int first = 0, recomputed = plan_recomputed_layers(plan, chunk, held.layers);
    for (int before = 0; before < chunk; before++)
        first += plan_chunk_layers(plan, model, before);
    for (int layer = first; layer < first + held.layers; layer++) {
        int kind = model_kind_of(model, layer);
        bool has_backward = model_kind(model, kind).gradient != GRADIENT_NONE;
        held.count[kind]++;
        held.recomputed[kind] += has_backward && layer < first + recomputed;
    }
    held.count[PIECE_EMBEDDING] = placement_has_embedding(placement, chunk);
    held.count[PIECE_HEAD] = placement_has_head(placement, chunk);
    bool has_later =
        plan->mtp_place == MTP_APART ? chunk == plan_chunks(plan) - 2 : held.count[PIECE_HEAD] > 0;
    held.count[PIECE_LATER_HEAD] = held.count[PIECE_HEAD] * model->mtp;
    held.count[PIECE_LATER] = has_later ? model->mtp : 0;
    held.count[PIECE_LATER_EMBEDDING] = held.count[PIECE_LATER];
    return held;
}

static void add_to(struct holding *sum, const struct holding *part)
{
    sum->layers += part->layers;
    for (int piece = 0; piece < NUM_PIECES; piece++)
        sum->count[piece] += part->count[piece];
    for (int kind = 0; kind < MAX_BLOCK_KINDS; kind++)
        sum->recomputed[kind] += part->recomputed[kind];
}

static bool are_equal(const struct holding *a, const struct holding *b)
{
    bool equal = a->layers == b->layers;
    for (int piece = 0; piece < NUM_PIECES; piece++)
        equal = equal && a->count[piece] == b->count[piece];
    for (int kind = 0; kind < MAX_BLOCK_KINDS; kind++)
        equal = equal && a->recomputed[kind] == b->recomputed[kind];
    return equal;
}

static void check_equal(const struct plan *plan, const char *what, int index,
                        const struct holding *got, const struct holding *expected)
{
    ck_assert_msg(are_equal(got, expected), "%s, %s, %d layers: %s %d holds %d layers, not %d",
                  question.words, question_layout(&question, plan), question.model.layers, what,
                  index, got->layers, expected->layers);
}

/* Returns how many chunks and stages hold the same layers as the one before. */
static int check_plan(const struct plan *plan)
{
    const struct model *model = &question.model;
    struct placement placement = plan_placement(plan);
    struct holding stages[64] = { 0 };
    int repeats = 0;
    for (int stage = 0; stage < plan->pp; stage++) {
        for (int round = 0; round < plan->vpp; round++) {
            int chunk = placement_chunk(placement, stage, round);
            struct holding held = chunk_holding(plan, model, chunk), by_hand = counted(plan, chunk);
            check_equal(plan, "chunk", chunk, &held, &by_hand);
            add_to(&stages[stage], &by_hand);
        }
        struct holding held = stage_holding(plan, model, stage);
        check_equal(plan, "stage", stage, &held, &stages[stage]);
        if (stage_is_as_before(plan, model, stage)) {
            check_equal(plan, "stage before", stage, &stages[stage - 1], &stages[stage]);
            repeats++;
        }
    }
    for (int chunk = 1; chunk < plan_chunks(plan); chunk++)
        if (chunk_is_as_before(plan, model, chunk)) {
            struct holding held = counted(plan, chunk), before = counted(plan, chunk - 1);
            check_equal(plan, "chunk before", chunk, &before, &held);
            repeats++;
        }
    return repeats;
}

/* Gives the chunks of a plan unequal numbers of layers, if there are several and the model has a
 * layer for each. */
static void make_uneven(struct plan *plan)
{
    int chunks = plan_chunks(plan), layers = question.model.layers;
    if (chunks < 2 || layers < chunks || plan->recompute >= RECOMPUTE_BLOCK)
        return;
    int *uneven = ARENA_ARRAY(&question.arena, int, (size_t)chunks);
    for (int chunk = 0; chunk < chunks; chunk++)
        uneven[chunk] = 1;
    for (int more = layers - chunks; more > 0; more--)
        uneven[random_below(&question.rng, chunks)]++;
    plan->chunk_layers = uneven;
}

/* Places the modules for later tokens in the chunk before the last, and moves the last chunk's
 * layers there too. */
static bool make_apart(struct plan *plan)
{
    int chunks = plan_chunks(plan), *layers = ARENA_ARRAY(&question.arena, int, (size_t)chunks);
    if (!plan->chunk_layers || chunks < 3 || question.model.mtp == 0)
        return false;
    memcpy(layers, plan->chunk_layers, (size_t)chunks * sizeof *layers);
    layers[chunks - 2] += layers[chunks - 1];
    layers[chunks - 1] = 0;
    plan->chunk_layers = layers;
    plan->mtp_place = MTP_APART;
    return true;
}

START_TEST(a_stage_holds_the_sum_of_its_chunks)
{
    enum { QUESTIONS = 60, PLANS = 12 };
    int plans = 0, repeats = 0, apart = 0;
    for (int i = 0; i < TURNS(QUESTIONS); i++) {
        question_draw((uint64_t)i, &question);
        question.model.mtp = i % 3;
        for (int j = 0; j < PLANS; j++) {
            struct plan plan;
            if (!question_plan(&question, &plan))
                continue;
            repeats += check_plan(&plan);
            make_uneven(&plan);
            repeats += check_plan(&plan);
            plans++;
            if (make_apart(&plan)) {
                repeats += check_plan(&plan);
                apart++;
            }
        }
        question_release(&question);
    }
    ck_assert_int_gt(plans, 2 * TURNS(QUESTIONS));
    ck_assert_int_gt(repeats, 0);
    ck_assert_int_gt(apart, 0);
}
END_TEST

/* Tries eight blocks of two kinds in all 256 orders. Each chunk of a V has one block; there are
 * four stages, and the second round of chunks runs from the last stage to the first. */
START_TEST(stages_of_a_v_repeat_only_with_equal_blocks_in_both_rounds)
{
    enum { BLOCKS = 8 };
    struct err err = { 0 };
    struct plan plan;
    int repeats = 0;
    question_draw(1, &question);
    struct model *model = &question.model;
    ck_assert(plan_parse("pp4 vpp2 mb1 schedule=zb-v", &question.arena, &plan, &err));
    plan.dp = 1;
    model->layers = BLOCKS;
    struct block_kind wide = model_kind(model, 0), narrow = wide;
    narrow.ffn /= 2;
    for (unsigned order = 0; order < 1u << BLOCKS; order++) {
        model->blocks =
            (struct blocks){ .kinds = { wide, narrow }, .num_kinds = 2, .num_runs = BLOCKS };
        for (int i = 0; i < BLOCKS; i++)
            model->blocks.runs[i] = (struct block_run){ (int)(order >> i & 1), 1 };
        repeats += check_plan(&plan);
    }
    ck_assert_int_gt(repeats, 0);
    question_release(&question);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("holding");
    tcase_add_test(tc, stages_of_a_v_repeat_only_with_equal_blocks_in_both_rounds);
    tcase_add_test(tc, a_stage_holds_the_sum_of_its_chunks);
    Suite *s = suite_create("sim/plan/holding");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
