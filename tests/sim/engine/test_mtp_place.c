/* Modules that predict later tokens (multi-token prediction) in the head's chunk, and in the chunk
 * before it (mtp=apart). */
#include "sim/engine/simulate.h"
#include "sim/memory/memory.h"
#include "sim/plan/lowering.h"
#include "tests/sim/machine.h"
#include "tests/sim/named.h"
#include "tests/testing.h"

#include <math.h>

enum { STAGES = 4 };

static struct arena arena;
static struct model model;

static void set_up(void)
{
    machine_load("dgx-h100", 64);
    model = model_of("glm-4.5-air");
    model.batch = 16 * 32;
    ck_assert_int_eq(model.mtp, 1);
    ck_assert_int_eq(model.layers, 46);
}

static void tear_down(void)
{
    machine_release();
    arena_release(&arena);
}

static struct prediction predict(struct evaluator *evaluator, const char *layout)
{
    struct plan plan = plan_on(&machine, &model, layout, &arena);
    return evaluate(evaluator, &plan);
}

/* All stages together hold equally many bytes wherever the module is, because it needs one copy of
 * the embedding, on its own stage or with the head. With tied embeddings the head's stage already
 * has a copy, so mtp=apart adds one: V h parameters, each of 2 + 4 bytes and, sharded over 16 data
 * ranks, 12/16 bytes. */
START_TEST(the_module_takes_its_copy_of_the_table_along)
{
    for (int tied = 0; tied < 2; tied++) {
        double bytes[2];
        model.tied = tied;
        struct evaluator *evaluator = evaluator_new(&machine, &model);
        for (int apart = 0; apart < 2; apart++) {
            struct prediction of =
                predict(evaluator, apart ? "pp4 ep8 mb1 zero1 stages=16,15,15,0 mtp=apart"
                                         : "pp4 ep8 mb1 zero1 stages=16,15,15,0");
            bytes[apart] = 0;
            for (int stage = 0; stage < STAGES; stage++)
                bytes[apart] += of.stages[stage].weights_bytes + of.stages[stage].gradients_bytes +
                                of.stages[stage].optimizer_bytes;
        }
        evaluator_free(evaluator);
        double table = (double)model.vocab * model.hidden;
        ck_assert_double_eq_tol(bytes[1] - bytes[0], tied * (2 + 4 + 12.0 / 16) * table,
                                0.002 * table);
    }
}
END_TEST

static struct stage_score score_of(struct evaluator *evaluator, const char *layout, int stage,
                                   int layers)
{
    struct plan plan = plan_on(&machine, &model, layout, &arena);
    struct stage_share share = { stage, layers, 0, stage * 15 + 1 };
    return evaluate_stage(evaluator, &plan, &share);
}

static double last_message_s(struct evaluator *evaluator, const char *layout)
{
    struct plan plan = plan_on(&machine, &model, layout, &arena);
    return evaluate_stage_common(evaluator, &plan, &arena).boundaries[STAGES - 2].message_s;
}

/* The module's passes move from the last stage to the one before, and its head stays. Without the
 * host's time the times of both stages have the same sum, except for the larger message between
 * them, for which 1F1B waits in each direction. */
START_TEST(the_modules_passes_move_and_its_head_stays)
{
    static const char beside[] = "pp4 ep8 mb1 zero1 stages=16,15,15,0";
    static const char apart[] = "pp4 ep8 mb1 zero1 stages=16,15,15,0 mtp=apart";
    machine.stack.host.issue_s = 0;
    struct evaluator *evaluator = evaluator_new(&machine, &model);
    struct stage_score third[] = { score_of(evaluator, beside, 2, 15),
                                   score_of(evaluator, apart, 2, 15) };
    struct stage_score last[] = { score_of(evaluator, beside, 3, 0),
                                  score_of(evaluator, apart, 3, 0) };
    struct stage_score second[] = { score_of(evaluator, beside, 1, 15),
                                    score_of(evaluator, apart, 1, 15) };
    double more_s = last_message_s(evaluator, apart) - last_message_s(evaluator, beside);
    evaluator_free(evaluator);
    ck_assert_double_gt(more_s, 0);
    ck_assert_double_eq(second[0].forward_s, second[1].forward_s);
    ck_assert_double_gt(third[1].forward_s, third[0].forward_s);
    ck_assert_double_eq_tol(third[1].forward_s + last[1].forward_s,
                            third[0].forward_s + last[0].forward_s + more_s, 1e-12);
    ck_assert_double_eq_tol(third[1].backward_s + last[1].backward_s,
                            third[0].backward_s + last[0].backward_s + more_s, 1e-12);
    ck_assert_double_gt(third[1].memory_bytes, third[0].memory_bytes);
    ck_assert_double_lt(last[1].memory_bytes, last[0].memory_bytes);
}
END_TEST

/* The last boundary between stages carries the rows of the blocks and of the module: as many bytes
 * as with sequences of twice the length. */
START_TEST(the_last_message_has_the_modules_rows_too)
{
    double message_s[2][STAGES];
    for (int apart = 0; apart < 2; apart++) {
        struct model of = model;
        of.seq *= apart ? 1 : 2;
        struct evaluator *evaluator = evaluator_new(&machine, &of);
        struct plan plan = plan_on(&machine, &of,
                                   apart ? "pp4 ep8 mb1 zero1 stages=16,15,15,0 mtp=apart"
                                         : "pp4 ep8 mb1 zero1 stages=16,15,15,0",
                                   &arena);
        struct stage_common common = evaluate_stage_common(evaluator, &plan, &arena);
        for (int i = 0; i < STAGES; i++)
            message_s[apart][i] = common.boundaries[i].message_s;
        evaluator_free(evaluator);
    }
    ck_assert_double_eq(message_s[1][2], message_s[0][2]);
    ck_assert_double_lt(message_s[1][1], 0.6 * message_s[0][1]);
}
END_TEST

/* Interleaved stages, dualpipev and dualpipe send other messages over the same boundary, which have
 * only the blocks' rows. */
START_TEST(with_several_chunks_only_the_message_to_the_head_has_the_modules_rows)
{
    static const char *const layouts[] = {
        "pp4 vpp2 ep8 mb1 zero1 stages=7x6,4,0 mtp=apart",
        "pp4 vpp2 ep8 mb1 zero1 stages=7x6,4,0 mtp=apart schedule=dualpipev",
        "pp4 ep8 mb1 zero1 stages=16,15,15,0 mtp=apart schedule=dualpipe",
    };
    for (int i = 0; i < LENGTH(layouts); i++) {
        struct evaluator *evaluator = evaluator_new(&machine, &model);
        struct plan plan = plan_on(&machine, &model, layouts[i], &arena), beside = plan;
        beside.mtp_place = MTP_BESIDE;
        struct step_cost cost = evaluate_cost(evaluator, &plan, &arena);
        struct step_cost plain = evaluate_cost(evaluator, &beside, &arena);
        for (int stage = 0; stage < STAGES - 1; stage++)
            ck_assert_double_eq(cost.boundaries[stage].message_s,
                                plain.boundaries[stage].message_s);
        ck_assert_double_eq(plain.last_more_s, 0);
        ck_assert_double_gt(cost.last_more_s, 0.5 * cost.boundaries[0].message_s);
        evaluator_free(evaluator);
    }
}
END_TEST

/* The stage of the modules, which holds the other copy of the embedding (the table), adds its
 * gradient to the first stage's; with tied embeddings the head's stage does. */
START_TEST(the_stage_of_the_modules_adds_the_gradient_of_its_table)
{
    static const struct {
        const char *layout;
        int other; /* stage; -1: none */
    } cases[] = { { "pp4 ep8 mb1 stages=16,15,15,0 mtp=apart", 2 },
                  { "pp4 ep8 mb1 stages=16,15,15,0", 3 },
                  { "pp4 ep8 vpp2 mb1 schedule=zb-v stages=7x6,4,0 mtp=apart", 1 },
                  { "pp4 ep8 vpp2 mb1 schedule=zb-v stages=6x6,5,5", -1 } };
    for (int i = 0; i < LENGTH(cases); i++) {
        struct err err = { 0 };
        struct plan plan = plan_on(&machine, &model, cases[i].layout, &arena);
        struct lowering lowering = plan_lowering(&plan, &model);
        struct schedule_shape shape = plan_shape(&plan, model.batch);
        struct schedule *schedule =
            schedule_new(generator_find(plan_schedule(&plan)), &shape, &lowering, &arena, &err);
        ck_assert(schedule && schedule_check(schedule, &err));
        for (int stage = 0; stage < STAGES; stage++) {
            int peer = -1;
            for (int j = 0; j < schedule->ranks[stage].count; j++)
                if (schedule->ranks[stage].at[j].op == INSTR_REDUCE_TIED)
                    peer = schedule->ranks[stage].at[j].peer;
            bool is_one = cases[i].other > 0 && (stage == 0 || stage == cases[i].other);
            ck_assert_int_eq(peer, !is_one ? -1 : stage == 0 ? cases[i].other : 0);
        }
    }
    struct err err = { 0 };
    struct plan both = plan_on(&machine, &model,
                               "pp4 ep8 mb1 stages=16,15,15,0 mtp=apart schedule=dualpipe", &arena);
    struct lowering lowering = plan_lowering(&both, &model);
    struct schedule_shape shape = plan_shape(&both, model.batch);
    struct schedule *schedule =
        schedule_new(generator_find("dualpipe"), &shape, &lowering, &arena, &err);
    ck_assert(schedule && schedule_check(schedule, &err));
    /* stage 0 reduces with stage 1, stage 2 with stage 3 */
    for (int stage = 0; stage < STAGES; stage++) {
        int found = 0;
        for (int j = 0; j < schedule->ranks[stage].count; j++) {
            const struct instr *instr = &schedule->ranks[stage].at[j];
            found += instr->op == INSTR_REDUCE_TIED && instr->peer == (stage ^ 1);
        }
        ck_assert_int_eq(found, 1);
    }
    struct model tied = model;
    tied.tied = true;
    struct plan plan = plan_on(&machine, &tied, cases[0].layout, &arena);
    ck_assert_int_eq(plan_lowering(&plan, &tied).tied_back, 0);
}
END_TEST

/* DualPipe holds two copies of the model. Its state is twice that of the same stages in one copy,
 * but the optimizer of each copy is sharded over twice the ranks. */
START_TEST(both_copies_of_dualpipe_have_the_module)
{
    struct evaluator *evaluator = evaluator_new(&machine, &model);
    struct prediction both = predict(
        evaluator, "pp4 ep8 mb1 zero1 stages=16,15,15,0 mtp=apart schedule=dualpipe overlap=ep");
    double bytes[STAGES];
    for (int stage = 0; stage < STAGES; stage++)
        bytes[stage] = both.stages[stage].weights_bytes;
    struct prediction one = predict(evaluator, "pp4 ep8 mb1 zero1 stages=16,15,15,0 mtp=apart");
    for (int stage = 0; stage < STAGES; stage++)
        ck_assert_double_eq_tol(
            bytes[stage],
            one.stages[stage].weights_bytes + one.stages[STAGES - 1 - stage].weights_bytes, 1);
    evaluator_free(evaluator);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("mtp place");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, the_module_takes_its_copy_of_the_table_along);
    tcase_add_test(tc, the_modules_passes_move_and_its_head_stays);
    tcase_add_test(tc, the_last_message_has_the_modules_rows_too);
    tcase_add_test(tc, with_several_chunks_only_the_message_to_the_head_has_the_modules_rows);
    tcase_add_test(tc, the_stage_of_the_modules_adds_the_gradient_of_its_table);
    tcase_add_test(tc, both_copies_of_dualpipe_have_the_module);
    Suite *s = suite_create("mtp place");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
