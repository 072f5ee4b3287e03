#include "sim/engine/step_cost.h"

#include "tests/testing.h"

/* Three stages with two chunks each: stage 1 has chunks 1 and 4. A message crosses boundary 0 or 1,
 * or boundary 2, from the last stage to the first. All times are different powers of two, so each
 * sum shows its terms. */
enum { CHUNKS = 6, STAGES = 3 };
static const struct chunk_cost chunks[CHUNKS] = {
    [1] = { 1, 2, 4, 8, 16 }, [4] = { 32, 64, 128, 256, 512 }
};
static const struct stage_cost stages[STAGES] = {
    { .tied_s = 0x1p10 },
    { .reduce_s = 0x1p11, .gather_s = 0x1p12, .optimizer_s = 0x1p13, .mix_s = 0x1p14 },
    { .tied_s = 0x1p15 }
};
static const struct boundary boundaries[STAGES] = { { 0x1p16, WIRE_NODE },
                                                    { 0x1p17, WIRE_NETWORK },
                                                    { 0x1p18, WIRE_NODE } };
static const struct step_cost cost = { .chunks = chunks,
                                       .stages = stages,
                                       .boundaries = boundaries,
                                       .last_more_s = 0x1p19,
                                       .data_wire = WIRE_NETWORK };

/* An instruction of stage 1, its time in seconds, and the link that a transfer uses. */
struct row {
    struct instr instr;
    double alone_s;
    enum wire wire; /* of transfers */
};

#define PASS(op, chunk)                          \
    {                                            \
        INSTR_##op, chunk, 0, -1, NO_INSTR, 0, 0 \
    }
#define PAIRED(op, chunk)                        \
    {                                            \
        INSTR_##op, chunk, 0, -1, NO_INSTR, 0, 1 \
    }
#define MESSAGE(op, chunk, peer)                   \
    {                                              \
        INSTR_##op, chunk, 0, peer, NO_INSTR, 0, 0 \
    }

static const struct row rows[] = {
    { PASS(FORWARD, 1), 1, 0 },
    { PASS(BACKWARD, 1), 4 + 8, 0 },
    { PASS(BACKWARD_INPUT, 4), 128, 0 },
    { PASS(BACKWARD_WEIGHT, 4), 256, 0 },
    { PASS(RECOMPUTE, 4), 64, 0 },
    /* a pair's forward runs within its backward, without the recomputation */
    { PAIRED(FORWARD, 4), 0, 0 },
    { PAIRED(BACKWARD, 4), 512, 0 },
    /* activations of chunk 0 come over boundary 0, those of chunk 1 leave over boundary 1 */
    { MESSAGE(RECV_ACT, 0, 0), 0x1p16, WIRE_NODE },
    { MESSAGE(SEND_ACT, 1, 2), 0x1p17, WIRE_NETWORK },
    /* from chunk 4 to chunk 5, the last */
    { MESSAGE(SEND_ACT, 4, 2), 0x1p17 + 0x1p19, WIRE_NETWORK },
    { MESSAGE(RECV_GRAD, 5, 2), 0x1p17 + 0x1p19, WIRE_NETWORK },
    { MESSAGE(SEND_GRAD, 1, 0), 0x1p16, WIRE_NODE },
    /* the gradient of chunk 3 goes back to chunk 2, from the first stage to the last */
    { MESSAGE(SEND_GRAD, 3, 2), 0x1p18, WIRE_NODE },
    { PASS(GATHER_PARAM, 1), 0x1p12, WIRE_NETWORK },
    { PASS(REDUCE_GRAD, 1), 0x1p11, WIRE_NETWORK },
    { PASS(MIX_PARAM, 1), 0x1p14, WIRE_NETWORK },
    /* the slower of the two ends; over the boundary between the last stage and the first */
    { MESSAGE(REDUCE_TIED, -1, 2), 0x1p15, WIRE_NODE },
    { MESSAGE(REDUCE_TIED, -1, 0), 0x1p10, WIRE_NODE },
    { PASS(NORM_GRAD, -1), 0, WIRE_NETWORK },
    { PASS(OPTIMIZER, -1), 0x1p13, 0 },
};

START_TEST(instructions_take_the_seconds_of_their_chunk_stage_or_boundary)
{
    struct instr at[LENGTH(rows)];
    struct instrs lists[STAGES] = { [1] = { .at = at, .count = LENGTH(rows) } };
    struct schedule schedule = { .shape = { .num_stages = STAGES, .chunks_per_stage = 2 },
                                 .ranks = lists };
    double alone_s[LENGTH(rows)];
    for (size_t i = 0; i < LENGTH(rows); i++)
        at[i] = rows[i].instr;
    step_alone_s(&cost, &schedule, 1, alone_s);
    for (size_t i = 0; i < LENGTH(rows); i++) {
        ck_assert_msg(alone_s[i] == rows[i].alone_s, "row %zu takes %g s, not %g", i, alone_s[i],
                      rows[i].alone_s);
        if (instr_lane(&at[i]) != LANE_COMPUTE)
            ck_assert_msg(instr_wire(&cost, schedule_placement(&schedule), &at[i]) == rows[i].wire,
                          "row %zu uses the wrong kind of link", i);
    }
}
END_TEST

/* With blocking sends a pass waits for the last send before it; a list may also reduce all
 * gradients after its last pass. */
START_TEST(passes_wait_for_sends_and_reductions_for_the_last_pass)
{
    static struct instr at[] = { PASS(FORWARD, 1),     MESSAGE(SEND_ACT, 1, 2),
                                 PASS(REDUCE_GRAD, 4), MESSAGE(RECV_GRAD, 2, 2),
                                 PASS(BACKWARD, 1),    MESSAGE(SEND_GRAD, 1, 0),
                                 PASS(FORWARD, 4),     PASS(REDUCE_GRAD, 1),
                                 PASS(NORM_GRAD, -1),  PASS(OPTIMIZER, -1) };
    enum { COUNT = sizeof at / sizeof *at, NONE = NO_INSTR };
    static const int held_of[2][2][COUNT] = {
        { { NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE },
          { NONE, NONE, 6, NONE, NONE, NONE, NONE, 6, NONE, NONE } },
        { { NONE, NONE, NONE, NONE, 1, NONE, 5, NONE, NONE, NONE },
          { NONE, NONE, 6, NONE, 1, NONE, 5, 6, NONE, NONE } },
    };
    struct instrs list = { .at = at, .count = COUNT };
    for (int blocking = 0; blocking < 2; blocking++)
        for (int last = 0; last < 2; last++) {
            struct step_cost holding = { .blocking = blocking, .reduces_last = last };
            int held[COUNT];
            step_holds(&holding, &list, held);
            for (int i = 0; i < COUNT; i++)
                ck_assert_int_eq(held[i], held_of[blocking][last][i]);
        }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("step cost");
    tcase_add_test(tc, instructions_take_the_seconds_of_their_chunk_stage_or_boundary);
    tcase_add_test(tc, passes_wait_for_sends_and_reductions_for_the_last_pass);
    Suite *s = suite_create("sim/engine/step_cost");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
