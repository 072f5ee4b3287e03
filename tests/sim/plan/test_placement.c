/* Placements of chunks on stages. In the usual placement every round of chunks goes down the
 * stages. In a V the second round goes back up, so that stage 0 has the first and the last chunk.
 * The schedule of the V in this test has the simplest order of passes. */
#include "sim/schedule/placement.h"

#include "base/text.h"
#include "sim/engine/events.h"
#include "sim/engine/pipeline.h"
#include "sim/plan/holding.h"
#include "sim/plan/local.h"
#include "tests/sim/planned.h"
#include "tests/testing.h"

static struct arena arena;

static void release(void)
{
    arena_release(&arena);
}

/* --- the V ------------------------------------------------------------------------------------ */

static bool any_accepts(const struct schedule_shape *shape, struct err *err)
{
    (void)shape, (void)err;
    return true;
}

static void v_add(enum opcode op, int chunk, const struct schedule_shape *shape, struct instrs *out)
{
    for (int i = 0; i < shape->num_microbatches; i++)
        out->at[out->count++] = (struct instr){
            .op = op, .chunk = chunk, .microbatch = i, .peer = -1, .after = NO_INSTR
        };
}

/* The order has all forwards, round by round, and then all backwards. */
static void v_emit(const struct schedule_shape *shape, int stage, struct instrs *out)
{
    struct placement placement = { shape->num_stages, shape->chunks_per_stage, &placement_v };
    for (int round = 0; round < shape->chunks_per_stage; round++)
        v_add(INSTR_FORWARD, placement_chunk(placement, stage, round), shape, out);
    for (int round = shape->chunks_per_stage - 1; round >= 0; round--)
        v_add(INSTR_BACKWARD, placement_chunk(placement, stage, round), shape, out);
}

static int v_in_flight(const struct schedule_shape *shape, int stage)
{
    (void)stage;
    return shape->num_microbatches * shape->chunks_per_stage;
}

static int v_of_round(const struct schedule_shape *shape, int stage, int round)
{
    (void)stage, (void)round;
    return shape->num_microbatches;
}

static const struct generator v = { .name = "v",
                                    .rule = &placement_v,
                                    .accepts = any_accepts,
                                    .emit = v_emit,
                                    .in_flight = v_in_flight,
                                    .of_round = v_of_round };

static struct schedule *v_schedule(struct schedule_shape shape, struct lowering lowering)
{
    struct err err = { 0 };
    return schedule_new(&v, &shape, &lowering, &arena, &err);
}

/* --- places of chunks ------------------------------------------------------------------------- */

enum { NONE = NO_STAGE, MOST_CHUNKS = 8 };

static const struct {
    struct placement placement;
    int stages[MOST_CHUNKS], boundaries[MOST_CHUNKS - 1];
    enum direction directions[2];
    bool ends_meet, uses_last_boundary;
} cases[] = {
    { { 4, 2, NULL }, { 0, 1, 2, 3, 0, 1, 2, 3 }, { 0, 1, 2, 3, 0, 1, 2 }, { 0 }, false, true },
    { { 4, 2, &placement_v },
      { 0, 1, 2, 3, 3, 2, 1, 0 },
      { 0, 1, 2, NO_BOUNDARY, 2, 1, 0 },
      { DIRECTION_DOWN, DIRECTION_UP },
      true,
      false },
    { { 4, 1, NULL }, { 0, 1, 2, 3 }, { 0, 1, 2 }, { 0 }, false, false },
    { { 4, 1, &placement_v }, { 0, 1, 2, 3 }, { 0, 1, 2 }, { 0 }, false, false },
    { { 1, 2, NULL }, { 0, 0 }, { NO_BOUNDARY }, { 0 }, true, false },
    { { 2, 4, &placement_v },
      { 0, 1, 1, 0, 0, 1, 1, 0 },
      { 0, NO_BOUNDARY, 0, NO_BOUNDARY, 0, NO_BOUNDARY, 0 },
      { DIRECTION_DOWN, DIRECTION_UP },
      true,
      false },
};

START_TEST(a_chunk_has_its_stage_direction_and_neighbours)
{
    struct placement placement = cases[_i].placement;
    int last = placement_chunks(placement) - 1;
    const int *stages = cases[_i].stages;
    for (int chunk = 0; chunk <= last; chunk++) {
        struct chunk_place place = placement_of(placement, chunk);
        ck_assert_int_eq(place.stage, stages[chunk]);
        ck_assert_int_eq(place.stage, placement_stage(placement, chunk));
        ck_assert_int_eq(place.previous_stage, chunk == 0 ? NONE : stages[chunk - 1]);
        ck_assert_int_eq(place.next_stage, chunk == last ? NONE : stages[chunk + 1]);
        ck_assert_int_eq(place.direction, cases[_i].directions[place.round % 2]);
        ck_assert_int_eq(place.has_embedding, chunk == 0);
        ck_assert_int_eq(place.has_head, chunk == last);
        ck_assert_int_eq(placement_chunk(placement, place.stage, place.round), chunk);
    }
    for (int chunk = 0; chunk < last; chunk++)
        ck_assert_int_eq(placement_boundary(placement, chunk), cases[_i].boundaries[chunk]);
    ck_assert_int_eq(placement_ends_meet(placement), cases[_i].ends_meet);
    ck_assert_int_eq(placement_head_stage(placement), stages[last]);
    ck_assert_int_eq(placement_uses_boundary(placement, placement_last_boundary(placement)),
                     cases[_i].uses_last_boundary);
}
END_TEST

/* --- weights of ranks ------------------------------------------------------------------------- */

/* GPT-2 has a tied embedding, so a rank with both embedding and head has one copy of it. */
static void place_as_v(void)
{
    planned_load("dgx-a100-80g", "megatron-core", "gpt2-124m", 2);
    planned.model.batch = 4;
    planned_layout("pp2 vpp2 mb1 overlap=p2p");
    planned.plan.placement = &placement_v;
    planned.model.batch = 5; /* set after parsing, which would refuse 5 microbatches on 2 stages */
    planned.pieces = pieces_cost(&planned.system, &planned.model, &planned.plan, &planned.arena);
}

START_TEST(stage_0_of_a_v_holds_embedding_and_head)
{
    place_as_v();
    struct holding first = stage_holding(&planned.plan, &planned.model, 0);
    struct holding last = stage_holding(&planned.plan, &planned.model, 1);
    ck_assert_int_eq(first.count[PIECE_EMBEDDING], 1);
    ck_assert_int_eq(first.count[PIECE_HEAD], 1);
    ck_assert_int_eq(last.count[PIECE_EMBEDDING] + last.count[PIECE_HEAD], 0);
    ck_assert_int_eq(first.layers, last.layers);
    double layers = 6 * planned.pieces.at[0].parameters;
    double ends =
        local_embedding_parameters(rank_share_of(&planned.plan), &planned.model) + 2 * 768;
    /* the head has no weights except its norm */
    ck_assert_double_eq(planned_parameters(0), layers + ends);
    ck_assert_double_eq(planned_parameters(1), layers);
    planned_release();
}
END_TEST

START_TEST(memory_of_a_v_is_the_sum_of_its_chunks)
{
    place_as_v();
    int m = plan_microbatches(&planned.plan, planned.model.batch);
    struct memory_input input = {
        &planned.system, &planned.model, &planned.plan, &planned.pieces, &v, m, NULL
    };
    const struct piece_cost *of = planned.pieces.at;
    struct state_bytes state = plan_state_bytes(&planned.plan, &planned.model);
    double ends_bytes = of[PIECE_EMBEDDING].saved_bytes + of[PIECE_HEAD].saved_bytes;
    for (int stage = 0; stage < 2; stage++) {
        struct stage_memory memory = stage_memory(&input, stage);
        double kept_bytes = 6 * of[0].saved_bytes + (stage == 0 ? ends_bytes : 0);
        ck_assert_double_eq_tol(memory.activations_bytes, m * kept_bytes, 1e-6 * kept_bytes);
        ck_assert_double_eq_tol(memory.weights_bytes, planned_parameters(stage) * state.weights, 1);
        ck_assert_int_eq(memory.logits_bytes > 0, stage == 0);
    }
    planned_release();
}
END_TEST

/* --- schedules -------------------------------------------------------------------------------- */

START_TEST(a_v_sends_nothing_where_it_turns)
{
    struct text text = { 0 };
    struct schedule *schedule =
        v_schedule((struct schedule_shape){ 2, 2, 1, 0 }, (struct lowering){ .tied = true });
    schedule_write(schedule, &text);
    ck_assert_str_eq(
        text_get(&text),
        "0: RA2.0<1 F0.0 SA0.0>1@1 F3.0@0 RG1.0<1@3 B3.0 SG3.0>1@5 B0.0@4 DN@7 OPT@8\n"
        "1: RA0.0<0 F1.0@0 RG3.0<0@1 F2.0 SA2.0>0@3 B2.0@2 B1.0 SG1.0>0@6 DN@6 OPT@8\n");
    text_release(&text);
}
END_TEST

START_TEST(the_checker_accepts_a_v_under_any_lowering)
{
    for (int bits = 0; bits < 16; bits++)
        for (int stages = 1; stages <= 5; stages++)
            for (int chunks = 1; chunks <= 3; chunks++) {
                struct lowering lowering = { .recompute = bits & 1,
                                             .has_data_group = bits & 2,
                                             .gather_updated = bits & 4,
                                             .tied = bits & 8 };
                struct err err = { 0 };
                struct schedule_shape shape = { stages, chunks, 3, 0 };
                struct schedule *schedule = v_schedule(shape, lowering);
                ck_assert_msg(schedule_check(schedule, &err), "p%d v%d lowering %d: %s: %s", stages,
                              chunks, bits, err.where, err.msg);
                arena_release(&arena);
            }
}
END_TEST

static void swap(struct instr *a, struct instr *b)
{
    struct instr kept = *a;
    *a = *b;
    *b = kept;
}

/* No message orders the passes of the two chunks of the last stage, so its instruction list must.
 */
START_TEST(the_checker_refuses_a_v_that_turns_too_early)
{
    struct err err = { 0 };
    struct schedule *schedule =
        v_schedule((struct schedule_shape){ 2, 2, 1, 0 }, (struct lowering){ 0 });
    struct instr *at = schedule->ranks[1].at;
    ck_assert_int_eq(at[5].op, INSTR_BACKWARD);
    ck_assert_int_eq(at[6].op, INSTR_BACKWARD);
    swap(&at[5], &at[6]);
    at[5].after = at[6].after;
    ck_assert(!schedule_check(schedule, &err));
    ck_assert_str_eq(err.where, "stage 1, instruction 5");
}
END_TEST

START_TEST(the_checker_refuses_a_message_to_ones_own_stage)
{
    struct err err = { 0 };
    struct schedule *schedule =
        v_schedule((struct schedule_shape){ 2, 2, 1, 0 }, (struct lowering){ 0 });
    schedule->ranks[1].at[3] =
        (struct instr){ .op = INSTR_SEND_ACT, .chunk = 1, .peer = 1, .after = NO_INSTR };
    ck_assert(!schedule_check(schedule, &err));
    ck_assert_str_eq(err.msg, "SA1.0>1 would send from stage 1 to itself");
}
END_TEST

/* --- times ------------------------------------------------------------------------------------ */

/* One microbatch passes through 2 x 3 chunks, each with a forward of 1 s and a backward of 2 s: 18
 * s. It crosses boundary 0 (1/4 s) and boundary 1 (1/2 s) twice in the forward and twice in the
 * backward, and never the last boundary. */
static const double v_step_s = 18 + 4 * (0.25 + 0.5);
static const struct boundary v_boundaries[] = { { 0.25, WIRE_NODE },
                                                { 0.5, WIRE_NETWORK },
                                                { 100, WIRE_NETWORK } };

START_TEST(the_event_time_of_a_v_equals_a_hand_count)
{
    struct chunk_cost chunks[6];
    struct stage_cost stages[3] = { { .reduce_s = 0 } };
    struct err err = { 0 };
    for (int i = 0; i < 6; i++)
        chunks[i] = (struct chunk_cost){ .forward_s = 1, .input_s = 2 };
    struct step_cost cost = { .chunks = chunks,
                              .stages = stages,
                              .boundaries = v_boundaries,
                              .slowdowns = { 1, 1 },
                              .messages_are_delays = _i };
    struct schedule *schedule =
        v_schedule((struct schedule_shape){ 3, 2, 1, 0 }, (struct lowering){ 0 });
    struct timeline *timeline = events_run(schedule, &cost, &arena, &err);
    ck_assert_msg(timeline != NULL, "%s", err.msg);
    ck_assert_double_eq_tol(timeline_end_s(timeline), v_step_s, 1e-12);
}
END_TEST

START_TEST(the_recurrence_agrees_with_events_on_a_v)
{
    struct chunk_cost chunks[6];
    struct stage_cost stages[3] = { { .reduce_s = 0 } };
    double duration_s[6 * CHUNK_PASSES] = { 0 }, lag_s[3], end_s[3];
    struct pipeline_cache cache = { 0 };
    struct err err = { 0 };
    for (int i = 0; i < 6; i++) {
        double *of_s = &duration_s[CHUNK_PASSES * i];
        of_s[CHUNK_FORWARD] = chunks[i].forward_s = 1 + 0.1 * i;
        of_s[CHUNK_BACKWARD] = 2 - 0.1 * i;
        chunks[i] = (struct chunk_cost){ .forward_s = of_s[CHUNK_FORWARD],
                                         .input_s = of_s[CHUNK_BACKWARD] };
    }
    for (int i = 0; i < 3; i++)
        lag_s[i] = v_boundaries[i].message_s;
    struct step_cost cost = { .chunks = chunks,
                              .stages = stages,
                              .boundaries = v_boundaries,
                              .slowdowns = { 1, 1 },
                              .messages_are_delays = true };
    struct pipeline pipeline = {
        .generator = &v, .shape = { 3, 2, 7, 0 }, .duration_s = duration_s, .lag_s = lag_s
    };
    struct schedule *schedule =
        v_schedule((struct schedule_shape){ 3, 2, 7, 0 }, (struct lowering){ 0 });
    struct timeline *timeline = events_run(schedule, &cost, &arena, &err);
    ck_assert_msg(timeline != NULL, "%s", err.msg);
    ck_assert_double_eq_tol(pipeline_s(&cache, &pipeline, end_s), timeline_end_s(timeline), 1e-12);
    pipeline_cache_release(&cache);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("placement");
    tcase_add_checked_fixture(tc, NULL, release);
    tcase_add_loop_test(tc, a_chunk_has_its_stage_direction_and_neighbours, 0, LENGTH(cases));
    tcase_add_test(tc, stage_0_of_a_v_holds_embedding_and_head);
    tcase_add_test(tc, memory_of_a_v_is_the_sum_of_its_chunks);
    tcase_add_test(tc, a_v_sends_nothing_where_it_turns);
    tcase_add_test(tc, the_checker_accepts_a_v_under_any_lowering);
    tcase_add_test(tc, the_checker_refuses_a_v_that_turns_too_early);
    tcase_add_test(tc, the_checker_refuses_a_message_to_ones_own_stage);
    tcase_add_loop_test(tc, the_event_time_of_a_v_equals_a_hand_count, 0, 2);
    tcase_add_test(tc, the_recurrence_agrees_with_events_on_a_v);
    Suite *s = suite_create("sim/schedule/placement");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
